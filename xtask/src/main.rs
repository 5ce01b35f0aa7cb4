//! `cargo xtask`: the commands a developer types.

use clap::{Parser, Subcommand};

/// Development tasks for rlscaler.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// A real Kubernetes control plane on this machine.
    #[command(subcommand)]
    Cluster(xtask::cluster::command::Action),
    /// The CRD, its template in the chart and the reference page, from the Rust types.
    Codegen(xtask::codegen::Arguments),
    /// The same service twice on the same traffic: one under an RLReplicaPolicy, one under a stock HPA.
    Demo(xtask::demo::Arguments),
    /// Records what the real HPA decides on random inputs and compares ours with it.
    Differential(xtask::differential::Arguments),
    /// The shipped model again, from scratch: the same, equal within the spread over seeds, or worse.
    Model(xtask::model::Arguments),
    /// The controller under random faults in simulated time: many schedules, or the story of one seed.
    Faults(xtask::faults::Arguments),
    /// What the parts of the model are worth: each taken away in turn, trained and judged, as a table.
    Ablations(xtask::ablations::Arguments),
    /// Everything CI runs: format, generated files, lint, and all tests, on a real control plane where it takes one.
    Test,
}

fn main() -> std::process::ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        // Its chain of causes in one line; a backtrace of the tool helps nobody.
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    match task {
        Task::Cluster(action) => xtask::cluster::command::run(&action),
        Task::Codegen(arguments) => xtask::codegen::run(&arguments),
        Task::Demo(arguments) => xtask::demo::run(&arguments),
        Task::Differential(arguments) => xtask::differential::run(&arguments),
        Task::Model(arguments) => xtask::model::run(&arguments),
        Task::Ablations(arguments) => xtask::ablations::run(&arguments),
        Task::Faults(arguments) => xtask::faults::run(arguments),
        Task::Test => xtask::test::run(),
    }
}
