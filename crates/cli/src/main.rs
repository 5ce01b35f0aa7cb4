//! The `rlscaler` program: dispatches to one file per subcommand. Exit status 0 when all went well, 2 when what was
//! given cannot be used, 1 for everything else.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod crd;
mod decide;
mod evaluate;
mod explain;
mod models;
mod run;
mod simulate;
mod suite;
mod telemetry;
mod train;

/// Sets replica counts by reinforcement learning, within limits that people set.
#[derive(Debug, Parser)]
#[command(name = "rlscaler", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator.
    Run(run::Args),
    /// Print the CustomResourceDefinitions as YAML.
    Crd(crd::Args),
    /// Tell why a policy's replica count is what it is.
    Explain(explain::Args),
    /// Decide as the operator would, from JSON lines on stdin, answering in JSON lines on stdout.
    Decide(decide::Args),
    /// Set scalers side by side in the same simulated worlds.
    Evaluate(evaluate::Args),
    /// Run one policy on one trace, in a simulated service.
    Simulate(simulate::Args),
    /// Train a model.
    Train(train::Args),
}

/// What a person must change in what they gave: exit status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unusable(pub(crate) String);

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Crd(args) => crd::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Decide(args) => decide::run(&args),
        Command::Evaluate(args) => evaluate::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Train(args) => train::run(&args),
    };
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    eprintln!("rlscaler: {error:#}");
    if let Some(stopped) = error.downcast_ref::<train::Stopped>() {
        return ExitCode::from(train::EXIT_STATUS_BASE + stopped.signal);
    }
    if error.is::<Unusable>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}
