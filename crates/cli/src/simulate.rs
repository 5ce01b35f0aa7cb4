//! `rlscaler simulate`: one policy on one trace. In: the policy file that is applied to a cluster, a trace, a scaler and
//! a seed. Out: what it came to, and on request every decision with its reasons, as text, JSON or a page. The same
//! arguments give the same bytes.

mod page;
mod report;
mod scaler;
mod world;

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use rlscaler_api::validate::Limits;
use rlscaler_api::yaml;
use rlscaler_controller::replica::wish;
use rlscaler_core::{Decision, PlannerOnly, Policy};
use rlscaler_rl::builtin::BUILTIN_NAME;
use rlscaler_sim::profile::Profile;
use rlscaler_sim::run::{Scaler, run_watched};
use rlscaler_sim::scalers::{Kind, Setup};
use rlscaler_sim::scenario::Scenario;
use rlscaler_sim::seed::Seed;
use rlscaler_sim::trace::Trace;
use rlscaler_sim::world::Level;

use crate::Unusable;
use crate::evaluate::contestant::{CLAIRVOYANT, STOCK_HPA};
use crate::evaluate::{Format, write_out};
use crate::suite::{Part, fault_chain};

/// What to simulate, and how to tell.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The policy, as it would be applied to a cluster. Its `mode` is ignored: it always scales.
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
    /// The load: a bundled name, gen:SHAPE:SEED, or a file (CSV, Prometheus JSON, access log).
    #[arg(long, value_name = "FILE")]
    trace: String,
    /// Who scales: rl or planner (both as the policy says), or a baseline: hpa[:TARGET[:WINDOW]], keda-rate[:PERCENT],
    /// phpa[:TARGET], clairvoyant.
    #[arg(long, value_name = "NAME", default_value = "rl")]
    scaler: String,
    /// The draws of arrivals, start-up times and missing samples.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The service: web, small, jvm, edge, llm, or a file [default: web, with the capacity, start-up time and price that the
    /// policy declares]. Target and bounds are always the policy's.
    #[arg(long, value_name = "P")]
    profile: Option<String>,
    /// Pods that the trace's peak keeps busy; 0 keeps the trace's own rates [default: the profile's, at most 70 % of
    /// maxReplicas].
    #[arg(long, value_name = "N")]
    peak_pods: Option<f64>,
    /// Hours of the trace before the simulated part, as history.
    #[arg(long, value_name = "H")]
    history_hours: Option<f64>,
    /// Hours that are simulated.
    #[arg(long, value_name = "H")]
    hours: Option<f64>,
    /// Time of the first decision, for overrides that end.
    #[arg(long, value_name = "RFC3339", default_value = "2026-01-05T00:00:00Z")]
    start: Timestamp,
    /// Tell every decision with its reasons.
    #[arg(long)]
    reasons: bool,
    /// Form of the report.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Where to write it [default: stdout].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A decision as it was watched.
pub(crate) struct Watched {
    /// Seconds of the run.
    pub(crate) time_secs: f64,
    /// Replicas before.
    pub(crate) from: u32,
    /// With reasons, where the scaler is ours.
    pub(crate) decision: Option<Decision>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let file = args.policy.display().to_string();
    let text = std::fs::read_to_string(&args.policy)
        .map_err(|error| Unusable(format!("{file}: cannot be read: {error}")))?;
    // No operator, so no floor of the interval.
    let limits = Limits { interval_min_secs: 0.0, ..Limits::default() };
    let checked =
        yaml::read_checked_policy(&text, &file, limits, |validated| wish::faults(&validated.queries));
    let (policy, validated) = checked
        .map_err(|faults| Unusable(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
    let settings = &validated.settings;
    let expected = || Unusable(format!("--scaler: expected one of {}, found `{}`", Kind::NAMES, args.scaler));
    let kind = Kind::parse(&args.scaler, settings).ok_or_else(expected)?;
    let trace = Trace::open(&args.trace).map_err(|fault| Unusable(fault_chain(&fault)))?;
    let profile = match &args.profile {
        Some(name) => Some(Profile::open(name).map_err(|fault| Unusable(fault_chain(&fault)))?),
        None => None,
    };
    let wish = world::Wish {
        profile,
        peak_pods: args.peak_pods,
        part: Part { history_hours: args.history_hours, hours: args.hours },
    };
    let scenario = world::scenario(settings, &trace, &wish)?;
    let model = model(validated.model.as_deref(), kind)?;
    let setup = Setup { settings: settings.clone(), model: Arc::clone(&model) };
    let seed = Seed(args.seed);
    let mut scaler: Box<dyn Scaler> = match kind {
        Kind::Planner { .. } | Kind::Model => Box::new(scaler::PolicyScaler::new(
            settings.clone(),
            Arc::clone(&model),
            policy.metadata.annotations.clone().unwrap_or_default(),
            policy.spec.override_.clone(),
            args.start,
        )),
        baseline => baseline.build(&setup, &scenario, seed),
    };
    let mut watched = Vec::new();
    let outcome = run_watched(scaler.as_mut(), &scenario, seed, Level::Fast, |seen, scaler| {
        watched.push(Watched {
            time_secs: seen.observation.time_secs,
            from: seen.observation.replicas,
            decision: scaler.last_decision().copied(),
        });
    });
    let references = references(&setup, &scenario, seed);
    let name = policy.metadata.name.clone().unwrap_or_default();
    let report = report::Report::new(&report::Facts {
        policy: &name,
        scaler: &args.scaler,
        model: &model.describe(),
        seed: args.seed,
        trace: trace.name(),
        sla: settings.objective.sla,
        scenario: &scenario,
        outcome: &outcome,
        references: &references,
        watched: &watched,
        with_reasons: args.reasons,
    });
    let text = match args.format {
        Format::Table => report::table(&report),
        Format::Markdown => report::markdown(&report),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&report)?),
        Format::Html => page::page(&report, &outcome, &scenario),
    };
    write_out(&text, args.out.as_deref())
}

/// What advises the brain.
fn model(name: Option<&str>, kind: Kind) -> anyhow::Result<Arc<dyn Policy>> {
    match name {
        _ if kind != Kind::Model => Ok(Arc::new(PlannerOnly)),
        None | Some(BUILTIN_NAME) => Ok(Arc::new(rlscaler_rl::builtin())),
        Some(name) => Err(Unusable(format!("spec.model.name: no model named {name:?} is built in")).into()),
    }
}

/// The stock HPA and the clairvoyant in the same world.
fn references(setup: &Setup, scenario: &Scenario, seed: Seed) -> report::References {
    let run = |kind: Kind| rlscaler_sim::run::run(kind.build(setup, scenario, seed).as_mut(), scenario, seed);
    report::References { stock: run(STOCK_HPA.kind), floor: run(CLAIRVOYANT.kind) }
}
