//! `rlscaler decide`: the brain as a filter, so that any outside world can drive exactly what the operator runs.
//!
//! In: a policy file, and JSON lines on stdin: an optional first line with history, then one observation a line. Out:
//! one decision a line on stdout, flushed at once. The policy's mode is ignored: it always answers what Auto would do.
//! The first unusable line ends it with exit status 2 and a message that names the line. See `docs/decide.md`.

use std::fs;
use std::io::{BufRead, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use rlscaler_api::{Limits, yaml};
use rlscaler_controller::models::Chosen;
use rlscaler_controller::replica::wish;
use rlscaler_core::{PlannerOnly, Policy};

use crate::{Unusable, models};

mod lines;

/// What to decide with.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The policy, as it would be applied to a cluster.
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
    /// Who decides; what the policy says when absent.
    #[arg(long, value_enum)]
    scaler: Option<Scaler>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scaler {
    /// The policy's model on top of the planner.
    Model,
    /// The queue-model planner alone.
    Planner,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let stdin = std::io::stdin().lock();
    let stdout = std::io::stdout().lock();
    filter(args, stdin, stdout)
}

fn filter(args: &Args, input: impl BufRead, output: impl Write) -> anyhow::Result<()> {
    let file = args.policy.display().to_string();
    let text = fs::read_to_string(&args.policy).with_context(|| format!("cannot read {file}"))?;
    // No operator, so no floor of the interval.
    let limits = Limits { interval_min_secs: 0.0, ..Limits::default() };
    let checked =
        yaml::read_checked_policy(&text, &file, limits, |validated| wish::faults(&validated.queries));
    let (wire, validated) = checked
        .map_err(|faults| Unusable(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
    let policy = policy(args.scaler, &models::builtin(), validated.model.as_deref())?;
    lines::answer_all(&wire, validated, policy.as_ref(), input, output).map_err(|stop| match stop {
        lines::Stop::Unusable(what) => Unusable(what).into(),
        broken @ lines::Stop::Broken { .. } => broken.into(),
    })
}

fn policy(
    scaler: Option<Scaler>,
    models: &rlscaler_controller::Models,
    name: Option<&str>,
) -> anyhow::Result<std::sync::Arc<dyn Policy>> {
    if scaler == Some(Scaler::Planner) {
        return Ok(std::sync::Arc::new(PlannerOnly));
    }
    match models.choose(name) {
        Chosen::Loaded(model) => Ok(model.policy.clone()),
        Chosen::NotFound(name) => {
            Err(Unusable(format!("spec.model.name: no model named {name:?} is built in")).into())
        }
        Chosen::Unusable(why) => Err(Unusable(why.to_owned()).into()),
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
