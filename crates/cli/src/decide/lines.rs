//! The lines of `rlscaler decide`, from reader to writer. In: a valid policy, who decides, JSON lines. Out: JSON lines,
//! or the first line that cannot be used, by number. Never: a file, a clock, a panic whatever a line holds.

use std::io::{self, BufRead, Read, Write};

use jiff::Timestamp;
use rlscaler_api::overrides::resolve;
use rlscaler_api::policy::OverrideSpec;
use rlscaler_api::validate::{Queries, Query};
use rlscaler_api::{RLReplicaPolicy, Validated};
use rlscaler_core::settings::DeclaredSignals;
use rlscaler_core::text::visible;
use rlscaler_core::{Brain, Decision, History, Observation, Pods, Policy, Reading, Signal, Signals};
use serde::{Deserialize, Serialize};

/// Longest input line, bytes: a history of three signals with 50,000 samples each takes about 5 MB.
const MAX_LINE_BYTES: u64 = 16 << 20;
/// Most samples of one signal in the history.
const MAX_SAMPLES: usize = 100_000;
/// Most replicas an input line may speak of, as in the API.
const MAX_REPLICAS: u32 = 100_000;
/// Longest complaint, characters: it repeats a part of the line.
const MAX_SHOWN_CHARS: usize = 400;
/// Largest time in seconds that is accepted: beyond it a float no longer tells milliseconds apart.
const MAX_TIME_SECS: f64 = 1e12;

/// Why no further line is answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    /// What was given cannot be used; the number of the line stands in front.
    #[error("{0}")]
    Unusable(String),
    /// One end of the pipe is gone.
    #[error("{what}")]
    Broken {
        /// Which end.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
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

/// One decision, and what it was told, so that the next line shows whether it was followed.
struct Answered {
    time_secs: f64,
    from: u32,
    to: u32,
}

/// Answers line by line until the input ends.
///
/// # Errors
/// The first line that cannot be used, or a pipe that broke.
pub(crate) fn answer_all(
    wire: &RLReplicaPolicy,
    validated: Validated,
    policy: &dyn Policy,
    mut input: impl BufRead,
    mut output: impl Write,
) -> Result<(), Stop> {
    let annotations = wire.metadata.annotations.clone().unwrap_or_default();

    let max_ages = MaxAges::of(&validated.queries);
    let declared = validated.settings.declared;
    let mut brain = Brain::new(validated.settings);
    let mut last: Option<Answered> = None;
    let mut may_be_past = true;
    let mut line = String::new();
    for number in 1u64.. {
        line.clear();
        if input
            .by_ref()
            .take(MAX_LINE_BYTES)
            .read_line(&mut line)
            .map_err(|source| Stop::Broken { what: "stdin cannot be read", source })?
            == 0
        {
            break;
        }
        let at = |what: String| Stop::Unusable(format!("line {number}: {}", visible(&what, MAX_SHOWN_CHARS)));
        if line.len() as u64 == MAX_LINE_BYTES {
            return Err(at(format!("is longer than {MAX_LINE_BYTES} bytes")));
        }
        if line.trim().is_empty() {
            continue;
        }
        let parsed = parse(&line).map_err(at)?;
        let first = std::mem::replace(&mut may_be_past, false);
        match parsed {
            Line::Past(past) if first => brain.backfill(&history(past).map_err(at)?),
            Line::Past(_) => return Err(at("history is taken on the first line only".to_owned())),
            Line::Seen(seen) => {
                let mut observation = observation(&seen, declared, &max_ages).map_err(at)?;
                let time_secs = observation.time_secs;
                check_order(last.as_ref(), time_secs).map_err(at)?;
                // Times only increase here: no clock is set.
                observation.lived_secs = last.as_ref().map(|answered| time_secs - answered.time_secs);
                // What was answered is a scaling of ours only when the world shows that it was followed.
                if let Some(answered) = &last
                    && answered.to != answered.from
                    && answered.to == seen.replicas
                {
                    brain.record_scale(answered.time_secs, answered.from, answered.to);
                }
                let will = will(&annotations, wire.spec.override_.as_ref(), time_secs).map_err(at)?;
                let decision = brain.decide(policy, will, &observation);
                let decision = brain.explain(policy, decision);
                last = Some(Answered { time_secs, from: seen.replicas, to: decision.replicas() });
                answer(&mut output, seen.time, &decision)?;
            }
        }
    }
    Ok(())
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

fn answer(output: &mut impl Write, time: serde_json::Number, decision: &Decision) -> Result<(), Stop> {
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
    let mut line = serde_json::to_vec(&answer).expect("an answer has only string keys");
    line.push(b'\n');
    let written = output.write_all(&line).and_then(|()| output.flush());
    written.map_err(|source| Stop::Broken { what: "stdout cannot be written", source })
}
