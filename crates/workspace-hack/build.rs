//! Empty: cargo looks at build dependencies only where there is a build script.
// A build script is required for cargo to consider build dependencies.
fn main() {}
