//! One feature set for every dependency, so that no command compiles it again. Managed by `cargo hakari`; no code.
