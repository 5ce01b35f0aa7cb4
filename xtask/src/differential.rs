//! `cargo xtask differential`: the real HPA and ours on the same random inputs.
//!
//! A control plane runs with many HPAs over Deployments that nobody carries out, pods that nobody runs, and a metrics
//! server of our own; each sync of the real controller is recorded with everything it saw and what it answered, and
//! replayed through `rlscaler_core::hpa`. In: a seed and how many decisions. Out: the tally, and on request the recording
//! that `rlscaler-sim` replays in its tests.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use rlscaler_sim::recorded_hpa::{self, Replay};

mod driver;
mod log;
mod objects;
mod recorder;
mod scene;

/// What to record.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Seed of specs, pods, metrics and their changes.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Decisions that do not hang on the clock to record.
    #[arg(long, default_value_t = 300)]
    pub decisions: usize,
    /// Write the recording to this file, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

/// Records, compares, tells.
///
/// # Errors
/// When no control plane starts, or ours decides otherwise than the original; the recording is written all the same.
pub fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { seed, decisions, record } = arguments;
    eprintln!("recording {decisions} decisions of the real HPA, seed {seed} ...");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting a runtime")?;
    let recording = runtime.block_on(recorder::record(*seed, *decisions))?;
    if let Some(file) = record {
        fs::write(file, &recording).with_context(|| format!("writing {}", file.display()))?;
    }
    let replay = compare(&recording)?;
    println!("{} decisions compared, {} hung on the clock", replay.compared, replay.unsure);
    for (kind, count) in &replay.kinds {
        println!("{count:>6} {kind}");
    }
    if !replay.differences.is_empty() {
        bail!("{} differences:\n{}", replay.differences.len(), replay.differences.join("\n"));
    }
    println!("no difference");
    Ok(())
}

/// Records a fresh run on a control plane of its own and compares it.
///
/// # Errors
/// When no control plane starts or it stops deciding.
pub async fn fresh(seed: u64, decisions: usize) -> Result<Replay> {
    compare(&recorder::record(seed, decisions).await?)
}

fn compare(recording: &str) -> Result<Replay> {
    recorded_hpa::replay(recording).map_err(|message| anyhow!("the recording, {message}"))
}
