//! `cargo xtask demo`: the same service twice on the same traffic, once under an `RLReplicaPolicy`, once under a stock
//! HPA, on a real control plane.
//!
//! In: a trace and a time factor K. Out: a live table, an override obeyed and released, and both scalers side by side as
//! text, JSON and an HTML page. K divides every time of the cluster, the service and the trace alike, so that
//! nobody wins by an artefact; results are in trace time and say K.
//! Nothing outlives the command, however it ends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

mod chart;
mod live;
pub mod manifests;
mod operator;
mod override_act;
mod page;
pub mod plan;
mod policy_status;
pub mod result;
pub mod stage;

use crate::cargo::build_rlscaler;
use crate::cluster::{Cluster, ClusterOptions};
use live::Live;
use plan::Plan;
use stage::Stage;

/// Between two rows of the live table, wall time.
const LIVE_PERIOD: Duration = Duration::from_secs(1);

/// What to show.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Time factor K: start-up, intervals, windows and the trace all run this many times faster. 1, 3 or 5, as
    /// Kubernetes' times are whole seconds.
    #[arg(long, default_value_t = 5)]
    pub speed: u32,
    /// How long to replay, in minutes of your time; the trace advances K times as much.
    #[arg(long, default_value_t = 10.0)]
    pub minutes: f64,
    /// Name of a bundled trace (see traces/README.md), gen:SHAPE:SEED, or a file.
    #[arg(long, default_value = "autothrottle_diurnal_1s")]
    pub trace: String,
    /// Seed of arrivals and service times.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Leave everything running at the end, until Ctrl-C, and print how to look around.
    #[arg(long)]
    pub keep: bool,
    /// Write the result as JSON to this file.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the page with charts to this file.
    #[arg(long, value_name = "FILE", default_value = "target/demo.html")]
    pub html: PathBuf,
}

/// Plays it.
///
/// # Errors
/// When an argument makes no demo, something does not build or start, or the user stops it.
pub fn run(arguments: &Arguments) -> Result<()> {
    let plan = Plan::new(arguments.speed, arguments.minutes, &arguments.trace, arguments.seed)?;
    eprintln!("{}", plan.describe());
    let operator = build_rlscaler()?;
    // From here to the runtime Ctrl-C ends us at once, and the kernel ends what we started.
    eprintln!("starting a control plane (its programs are built first where needed) ...");
    let options = ClusterOptions::default().sped_up(f64::from(plan.speed));
    let cluster = Cluster::start_telling(&options, &mut |step| eprintln!("  {step}"))?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting a runtime")?;
    runtime.block_on(async {
        tokio::select! {
            played = play(arguments, &plan, &operator, &cluster) => played,
            stopped = stopped() => stopped,
        }
    })
}

/// The story from an empty cluster to the verdict.
async fn play(arguments: &Arguments, plan: &Plan, operator: &Path, cluster: &Cluster) -> Result<()> {
    let stage = Stage::set(plan, cluster, operator).await?;
    let mut live = Live::new(plan.speed);
    stage.world.begin_trace();
    while stage.world.trace_secs() < plan.trace.duration_secs() {
        live.show(&stage.glance().await?);
        tokio::time::sleep(LIVE_PERIOD).await;
    }
    let scores = stage.world.now();
    let series = stage.world.series();
    live.say("the trace has ended and no longer counts; now a person takes over");
    let obeyed = override_act::play(&stage, &mut live).await?;
    live.end();
    let result = result::DemoResult::new(plan, &scores, obeyed)?;
    println!("\n{}", result.table());
    write(&arguments.html, &page::render(plan, &result, &series))?;
    println!("charts: {}", arguments.html.display());
    if let Some(file) = &arguments.json {
        write(file, &format!("{}\n", serde_json::to_string_pretty(&result)?))?;
        println!("result: {}", file.display());
    }
    if arguments.keep {
        println!("{}", stage.how_to_look_around());
        return std::future::pending().await; // the select beside us ends it
    }
    Ok(())
}

/// Waits until the user or the system asks us to end.
async fn stopped() -> Result<()> {
    let mut terminated = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted.context("listening for Ctrl-C")?,
        _ = terminated.recv() => {}
    }
    eprintln!("\nstopped; everything that was started is being ended");
    bail!("stopped before its end")
}

fn write(file: &Path, text: &str) -> Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}
