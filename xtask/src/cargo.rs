//! Cargo, started from a program that cargo itself started.
//!
//! `cargo run` tells its program about the package it runs (`CARGO_PKG_NAME`, `CARGO_MANIFEST_DIR` and so on). Build
//! scripts that look at these, such as ring's, would run again in a cargo started from here, and everything above them
//! would be compiled anew, kube included: minutes, and minutes again on the way back.

use std::env;
use std::process::Command;

/// What `cargo run` adds to the environment of the program it runs, by the beginning of the name.
const ADDED_BY_CARGO_RUN: [&str; 5] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];

/// Cargo in the environment of whoever typed `cargo xtask`.
#[must_use]
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let added =
            name.to_str().is_some_and(|name| ADDED_BY_CARGO_RUN.iter().any(|start| name.starts_with(start)));
        if added {
            command.env_remove(name);
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_cargo_does_not_hear_of_the_package_that_runs() {
        // Tests are started by cargo too, so the variables are there.
        assert!(env::var_os("CARGO_PKG_NAME").is_some() && env::var_os("CARGO_MANIFEST_DIR").is_some());
        let command = cargo();
        let removed: Vec<_> = command
            .get_envs()
            .filter(|(_, value)| value.is_none())
            .filter_map(|(name, _)| name.to_str())
            .collect();
        assert!(
            removed.contains(&"CARGO_PKG_NAME") && removed.contains(&"CARGO_MANIFEST_DIR"),
            "{removed:?}"
        );
        assert!(!removed.contains(&"CARGO_HOME"));
    }
}
