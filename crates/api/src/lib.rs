//! The wire types of rlscaler.io, and validation into the brain's settings.
