//! `cargo xtask faults`: the controller's fault run, as long as is wanted, or the story of one seed.
//!
//! In: a first seed and how many schedules. Out: the tally, or the first broken property with its story. It must never
//! run anything but the controller's own test.

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cargo::cargo;

/// What to run.
#[derive(Debug, Clone, Copy, Args)]
pub struct Arguments {
    /// The first seed; every schedule is drawn from its own.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many schedules; 1 tells the story of the seed, whatever comes out.
    #[arg(long, default_value_t = 100_000)]
    pub schedules: u64,
    /// Go on after a broken property, naming each failing seed.
    #[arg(long)]
    pub keep_going: bool,
}

/// Runs them.
///
/// # Errors
/// When a property is broken, or cargo cannot be started.
pub fn run(arguments: Arguments) -> Result<()> {
    let Arguments { seed, schedules, keep_going } = arguments;
    let mut command = cargo();
    command
        .args(["test", "--quiet", "--package", "rlscaler-controller", "--lib", "--"])
        .args(["--exact", "--nocapture", "faults::every_property_holds_under_every_schedule"])
        .env("RLSCALER_FAULTS_SEED", seed.to_string())
        .env("RLSCALER_FAULTS_SCHEDULES", schedules.to_string())
        .current_dir(crate::tools::repository_root());
    if keep_going {
        command.env("RLSCALER_FAULTS_KEEP_GOING", "1");
    }
    let status = command.status().context("starting cargo")?;
    if !status.success() {
        bail!("a property is broken ({status})");
    }
    Ok(())
}
