//! The fuzz targets as functions. In: bytes of a stranger. Out: nothing, or a panic that is a finding.

pub mod targets;
