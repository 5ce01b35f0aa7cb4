//! Tests; filled below.
