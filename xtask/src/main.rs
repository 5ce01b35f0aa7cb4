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
enum Task {}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {}
}
