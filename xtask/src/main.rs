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
    /// The same service twice on the same traffic: one under an RLReplicaPolicy, one under a stock HPA.
    Demo(xtask::demo::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Cluster(action) => xtask::cluster::command::run(&action),
        Task::Demo(arguments) => xtask::demo::run(&arguments),
    }
}
