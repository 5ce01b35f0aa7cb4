//! Development tasks as a library, so that real-cluster tests in other crates use the same code as the commands.

pub mod ablations;
pub mod browser;
pub mod cargo;
pub mod cluster;
pub mod codegen;
pub mod demo;
pub mod differential;
pub mod faults;
pub mod model;
pub mod test;
pub mod tools;
