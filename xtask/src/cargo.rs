//! Cargo, started from a program that cargo itself started.
//!
//! `cargo run` tells its program about the package it runs (`CARGO_PKG_NAME`, `CARGO_MANIFEST_DIR` and so on). Build
//! scripts that look at these, such as ring's, would run again in a cargo started from here, and everything above them
//! would be compiled anew, kube included: minutes, and minutes again on the way back.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::tools;

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

/// Compiles the product, showing cargo's own progress, and answers where it stands. The profile is the one this
/// program was compiled with, so that its dependencies are there already.
///
/// # Errors
/// When it does not build.
pub fn build_rlscaler() -> Result<PathBuf> {
    build_program(&["--package", "rlscaler-cli", "--bin", "rlscaler"], "rlscaler")
}

/// The same of any program of this workspace: what cargo is told to build, and its name.
///
/// # Errors
/// As [`build_rlscaler`].
pub fn build_program(what: &[&str], name: &str) -> Result<PathBuf> {
    eprintln!("building {name} ...");
    let output = cargo()
        .arg("build")
        .args(what)
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(tools::repository_root())
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo")?;
    ensure!(output.status.success(), "{name} does not build, see above");
    let messages = String::from_utf8(output.stdout).context("reading what cargo said")?;
    executable(&messages, name).with_context(|| format!("cargo named no executable {name}"))
}

/// The program among cargo's messages, one JSON object a line.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
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

    #[test]
    fn the_program_is_found_among_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"serde"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"rlscaler"},"executable":"/t/debug/rlscaler"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages, "rlscaler"), Some(PathBuf::from("/t/debug/rlscaler")));
        assert_eq!(executable("nothing of use", "rlscaler"), None);
    }
}
