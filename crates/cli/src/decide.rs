//! `rlscaler decide`: the brain as a filter, so that any outside world can drive exactly what the operator runs.
//!
//! In: a policy file, and JSON lines on stdin: an optional first line with history, then one observation a line. Out:
//! one decision a line on stdout, flushed at once. The policy's mode is ignored: it always answers what Auto would do.
//! The first unusable line ends it with exit status 2 and a message that names the line. See `docs/decide.md`.

use std::fs;
use std::io::{BufRead, Read, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use jiff::Timestamp;
use rlscaler_api::overrides::resolve;
use rlscaler_api::policy::OverrideSpec;
use rlscaler_api::validate::{Queries, Query};
use rlscaler_api::{Limits, yaml};
use rlscaler_controller::models::Chosen;
use rlscaler_core::settings::DeclaredSignals;
use rlscaler_core::{
    Brain, Decision, History, Observation, PlannerOnly, Pods, Policy, Reading, Signal, Signals,
};
use serde::{Deserialize, Serialize};

use crate::{Unusable, models};

/// Longest input line, bytes: a history of three signals with 50,000 samples each takes about 5 MB.
const MAX_LINE_BYTES: u64 = 16 << 20;
/// Most samples of one signal in the history.
const MAX_SAMPLES: usize = 100_000;
/// Most replicas an input line may speak of, as in the API.
const MAX_REPLICAS: u32 = 100_000;
/// Largest time in seconds that is accepted: beyond it a float no longer tells milliseconds apart.
const MAX_TIME_SECS: f64 = 1e12;

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

enum Line {
    Past(Past),
    Seen(Box<Seen>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Past {
    history: PastSignals,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PastSignals {
    qps: Vec<(f64, f64)>,
    cpu: Vec<(f64, f64)>,
    sla: Vec<(f64, f64)>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Seen {
    /// Kept as it was written: 0 is answered as 0, not as 0.0.
    time: serde_json::Number,
    replicas: u32,
    ready: u32,
    #[serde(default)]
    starting: u32,
    #[serde(default)]
    unschedulable: u32,
    #[serde(default)]
    unhealthy: u32,
    #[serde(default)]
    pod_cpu_request: Option<f64>,
    #[serde(default)]
    startup_seconds: Option<f64>,
    #[serde(default)]
    signals: SeenSignals,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SeenSignals {
    qps: Option<SeenSignal>,
    latency: Option<SeenSignal>,
    sla: Option<SeenSignal>,
    errors: Option<SeenSignal>,
    cpu: Option<SeenSignal>,
    price: Option<SeenSignal>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SeenSignal {
    value: f64,
    #[serde(default)]
    age_seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Answer {
    time: serde_json::Number,
    replicas: u32,
    planner: u32,
    proposed: u32,
    driver: &'static str,
    reasons: Vec<AnswerReason>,
}

#[derive(Debug, Serialize)]
struct AnswerReason {
    code: &'static str,
    message: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let stdin = std::io::stdin().lock();
    let stdout = std::io::stdout().lock();
    filter(args, stdin, stdout)
}

/// One decision, and what it was told, so that the next line shows whether it was followed.
struct Answered {
    time_secs: f64,
    from: u32,
    to: u32,
}

fn filter(args: &Args, mut input: impl BufRead, mut output: impl Write) -> anyhow::Result<()> {
    let file = args.policy.display().to_string();
    let text = fs::read_to_string(&args.policy).with_context(|| format!("cannot read {file}"))?;
    // No operator, so no floor of the interval.
    let limits = Limits { interval_min_secs: 0.0, ..Limits::default() };
    let (wire, validated) = yaml::read_valid_policy(&text, &file, limits)
        .map_err(|faults| Unusable(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
    let models = models::builtin();
    let policy = policy(args.scaler, &models, validated.model.as_deref())?;
    let annotations = wire.metadata.annotations.clone().unwrap_or_default();

    let max_ages = MaxAges::of(&validated.queries);
    let declared = validated.settings.declared;
    let mut brain = Brain::new(validated.settings);
    let mut last: Option<Answered> = None;
    let mut may_be_past = true;
    let mut line = String::new();
    for number in 1u64.. {
        line.clear();
        if input.by_ref().take(MAX_LINE_BYTES).read_line(&mut line).context("stdin cannot be read")? == 0 {
            break;
        }
        let at = |what: String| Unusable(format!("line {number}: {what}"));
        if line.len() as u64 == MAX_LINE_BYTES {
            return Err(at(format!("is longer than {MAX_LINE_BYTES} bytes")).into());
        }
        if line.trim().is_empty() {
            continue;
        }
        let parsed = parse(&line).map_err(at)?;
        let first = std::mem::replace(&mut may_be_past, false);
        match parsed {
            Line::Past(past) if first => brain.backfill(&history(past).map_err(at)?),
            Line::Past(_) => return Err(at("history is taken on the first line only".to_owned()).into()),
            Line::Seen(seen) => {
                let observation = observation(&seen, declared, &max_ages).map_err(at)?;
                let time_secs = observation.time_secs;
                check_order(last.as_ref(), time_secs).map_err(at)?;
                // What was answered is a scaling of ours only when the world shows that it was followed.
                if let Some(answered) = &last
                    && answered.to != answered.from
                    && answered.to == seen.replicas
                {
                    brain.record_scale(answered.time_secs, answered.from, answered.to);
                }
                let will = will(&annotations, wire.spec.override_.as_ref(), time_secs).map_err(at)?;
                let decision = brain.decide(policy.as_ref(), will, &observation);
                last = Some(Answered { time_secs, from: seen.replicas, to: decision.replicas() });
                answer(&mut output, seen.time, &decision)?;
            }
        }
    }
    Ok(())
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

fn parse(line: &str) -> Result<Line, String> {
    let value: serde_json::Value =
        serde_json::from_str(line).map_err(|error| format!("is no JSON: {error}"))?;
    if !value.is_object() {
        return Err("is no JSON object".to_owned());
    }
    // Told apart by hand: an untagged enum would not say which field is wrong.
    if value.get("history").is_some() {
        return serde_json::from_value(value).map(Line::Past).map_err(|error| error.to_string());
    }
    serde_json::from_value(value).map(Line::Seen).map_err(|error| error.to_string())
}

fn history(past: Past) -> Result<History, String> {
    let PastSignals { qps, cpu, sla } = past.history;
    for (name, samples) in [("qps", &qps), ("cpu", &cpu), ("sla", &sla)] {
        if MAX_SAMPLES < samples.len() {
            return Err(format!(
                "history.{name} has {} samples, at most {MAX_SAMPLES} are read",
                samples.len()
            ));
        }
        if let Some(index) = samples.windows(2).position(|pair| pair[1].0 <= pair[0].0) {
            return Err(format!("history.{name}[{}]: times must increase", index + 1));
        }
    }
    Ok(History { qps, cpu, sla })
}

fn check_order(last: Option<&Answered>, time_secs: f64) -> Result<(), String> {
    match last {
        Some(Answered { time_secs: before, .. }) if time_secs <= *before => {
            Err(format!("time {time_secs} does not come after {before}: times must increase"))
        }
        _ => Ok(()),
    }
}

/// Seconds after which each signal is stale, as the policy says.
struct MaxAges {
    qps: f64,
    latency: f64,
    sla: f64,
    errors: f64,
    cpu: f64,
    price: f64,
}

impl MaxAges {
    fn of(queries: &Queries) -> Self {
        let of_requests = queries.requests.as_ref().map(|requests| requests.max_age_secs);
        let age = |query: &Option<Query>| {
            query.as_ref().map(|query| query.max_age_secs).or(of_requests).unwrap_or(f64::INFINITY)
        };
        Self {
            qps: age(&queries.qps),
            latency: age(&queries.latency),
            sla: age(&queries.sla),
            errors: age(&queries.errors),
            cpu: queries.cpu.map_or(f64::INFINITY, |cpu| cpu.max_age_secs),
            price: age(&queries.price),
        }
    }
}

fn observation(seen: &Seen, declared: DeclaredSignals, max_ages: &MaxAges) -> Result<Observation, String> {
    let Seen {
        time,
        replicas,
        ready,
        starting,
        unschedulable,
        unhealthy,
        pod_cpu_request,
        startup_seconds,
        signals,
    } = seen;
    let time_secs = time.as_f64().filter(|secs| secs.abs() <= MAX_TIME_SECS);
    let time_secs = time_secs.ok_or_else(|| format!("time {time} is no time in seconds"))?;
    let counts = [("replicas", replicas), ("ready", ready), ("starting", starting)];
    for (name, count) in
        counts.into_iter().chain([("unschedulable", unschedulable), ("unhealthy", unhealthy)])
    {
        if MAX_REPLICAS < *count {
            return Err(format!("{name} {count} is more than {MAX_REPLICAS}"));
        }
    }
    for (name, number) in [("podCpuRequest", pod_cpu_request), ("startupSeconds", startup_seconds)] {
        if number.is_some_and(|number| number < 0.0) {
            return Err(format!("{name} must not be negative"));
        }
    }
    let SeenSignals { qps, latency, sla, errors, cpu, price } = signals;
    let mut read = Signals {
        qps: signal(*qps, declared.qps, max_ages.qps),
        latency: signal(*latency, declared.latency, max_ages.latency),
        sla: signal(*sla, declared.sla, max_ages.sla),
        errors: signal(*errors, declared.errors, max_ages.errors),
        cpu: signal(*cpu, declared.cpu, max_ages.cpu),
        price: signal(*price, declared.price, max_ages.price),
    };
    if read.qps.usable() == Some(0.0) {
        // As in the operator: 0/0 of an idle service is no loss of sight.
        for of_requests in [&mut read.latency, &mut read.sla, &mut read.errors] {
            if of_requests.is_lost() {
                *of_requests = Signal::NotApplicable;
            }
        }
    }
    Ok(Observation {
        time_secs,
        replicas: *replicas,
        pods: Pods {
            ready: *ready,
            starting: *starting,
            unschedulable: *unschedulable,
            unhealthy: *unhealthy,
        },
        pod_cpu_request: *pod_cpu_request,
        signals: read,
        startup_secs: *startup_seconds,
        ..Observation::default()
    })
}

/// A signal the policy does not ask for is not looked at; one it asks for and that is left out is missing.
fn signal(seen: Option<SeenSignal>, declared: bool, max_age_secs: f64) -> Signal {
    match seen {
        _ if !declared => Signal::NotDeclared,
        None => Signal::Missing,
        Some(SeenSignal { value, .. }) if !value.is_finite() || value < 0.0 => Signal::Invalid,
        Some(SeenSignal { value, age_seconds }) => {
            let reading = Reading { value, age_secs: age_seconds };
            let stale = age_seconds.is_some_and(|age| max_age_secs < age);
            if stale { Signal::Stale(reading) } else { Signal::Fresh(reading) }
        }
    }
}

fn will(
    annotations: &std::collections::BTreeMap<String, String>,
    spec: Option<&OverrideSpec>,
    time_secs: f64,
) -> Result<rlscaler_core::settings::Override, String> {
    let now = Timestamp::from_millisecond((time_secs * 1000.0) as i64)
        .map_err(|_| format!("time {time_secs} is out of range"))?;
    Ok(resolve(annotations, spec, now).will)
}

fn answer(output: &mut impl Write, time: serde_json::Number, decision: &Decision) -> anyhow::Result<()> {
    let reasons = decision.reasons().iter();
    let answer = Answer {
        time,
        replicas: decision.replicas(),
        planner: decision.planner(),
        proposed: decision.proposed(),
        driver: decision.driver().as_str(),
        reasons: reasons
            .map(|reason| AnswerReason { code: reason.code(), message: reason.to_string() })
            .collect(),
    };
    serde_json::to_writer(&mut *output, &answer)?;
    output.write_all(b"\n")?;
    output.flush().context("stdout cannot be written")
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
