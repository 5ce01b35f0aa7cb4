//! `cargo xtask test`: everything CI runs, in the order in which a fault is cheapest to find.
//!
//! In: a checkout and a machine with Rust and Go. Out: the runners' own lines, then one line a step.
//! It must never skip a step silently: a tool that is missing is installed or is an error.

use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::cargo::cargo;

/// One step: its name, and the command that must succeed.
struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
}

/// `cargo` and its arguments, in order. Formatting and linting come first because they are cheap to mend.
const STEPS: &[Step] = &[
    Step { name: "format", arguments: &["fmt", "--all", "--check"] },
    Step {
        name: "lint",
        arguments: &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"],
    },
    Step { name: "tests", arguments: &["test", "--workspace", "--no-fail-fast"] },
];

/// Runs every step and reports each; the first failure ends the run with its name.
///
/// # Errors
/// A step that could not be started or failed.
pub fn run() -> Result<()> {
    let began = Instant::now();
    let mut finished = Vec::new();
    let root = crate::tools::repository_root();
    crate::codegen::check().context("generated files")?;
    crate::tools::build_all(root).context("building the programs of the local cluster")?;
    for step in STEPS {
        eprintln!("xtask test: {}: cargo {}", step.name, step.arguments.join(" "));
        let step_began = Instant::now();
        let status = cargo().args(step.arguments).current_dir(root).status().context("starting cargo")?;
        if !status.success() {
            bail!("{} failed ({status}); rerun it with: cargo {}", step.name, step.arguments.join(" "));
        }
        finished.push((step.name, step_began.elapsed()));
    }
    for (name, took) in finished {
        eprintln!("xtask test: {name} passed in {} s", took.as_secs());
    }
    eprintln!("xtask test: all passed in {} s", began.elapsed().as_secs());
    Ok(())
}
