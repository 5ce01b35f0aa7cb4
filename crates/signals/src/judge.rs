//! From an answer to a signal: sign, unit, age and idleness. Pure.
//!
//! In: what a source answered, or why it did not. Out: the brain's [`Signal`] and the person's [`SignalDetail`].

use jiff::Timestamp;
use rlscaler_core::observation::{Reading, Signal, Signals};
use rlscaler_core::text::{exact, fixed};

use crate::fault::ReadFault;
use crate::metrics_api;
use crate::prometheus::Number;
use crate::report::{Hint, SignalDetail, SignalName, SignalReport, State};
use crate::request::{OnEmpty, QueryRequest, Unit};

/// Requests per second below which nobody asks: less than one in a quarter of an hour.
pub(crate) const IDLE_QPS: f64 = 1e-3;
/// A latency this many times its target looks like milliseconds declared as seconds.
pub(crate) const SUSPECT_UNIT_RATIO: f64 = 300.0;
/// Seconds by which a source's clock may differ before somebody is told.
pub(crate) const CLOCK_SKEW_SECS: f64 = 15.0;
/// Seconds by which a sample may lie in the source's own future: scrape times are rounded.
const FUTURE_TOLERANCE_SECS: f64 = 2.0;
/// How far above 1 a ratio of two rates may come out by extrapolation.
const RATIO_OVERSHOOT: f64 = 0.01;

/// What became of one signal, before idleness is known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) name: SignalName,
    pub(crate) query: String,
    pub(crate) unit: &'static str,
    /// As the source wrote it, also when it cannot be used.
    pub(crate) raw: Option<String>,
    pub(crate) max_age_secs: f64,
    /// Why the answer is of a part of the data only, where the source says so.
    pub(crate) partial: Option<String>,
    pub(crate) read: Result<Value, ReadFault>,
    pub(crate) hints: Vec<Hint>,
}

/// A usable number.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Value {
    pub(crate) value: f64,
    pub(crate) age: Age,
    pub(crate) note: Option<String>,
}

/// How old a number is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Age {
    /// Nobody can say.
    Unknown,
    Known {
        secs: f64,
        sample_time: Option<Timestamp>,
    },
    /// The freshness query found no sample: older than the source looks back.
    BeyondLookback,
}

/// Both times are the source's, so its clock does not matter.
pub(crate) fn age_by(newest: &Number) -> Result<Age, ReadFault> {
    let secs = newest.evaluated_secs - newest.value;
    if secs < -FUTURE_TOLERANCE_SECS {
        return Err(ReadFault::FromTheFuture { secs: -secs });
    }
    Ok(Age::Known { secs: secs.max(0.0), sample_time: timestamp(newest.value) })
}

/// From an answer to a usable value. Pure.
pub(crate) fn judge(
    query: &QueryRequest,
    name: SignalName,
    number: Result<Number, ReadFault>,
    age: Result<Age, ReadFault>,
) -> Result<Value, ReadFault> {
    let Number { value, raw, .. } = match number {
        Ok(number) => number,
        Err(ReadFault::Empty) if query.on_empty == OnEmpty::Zero => return Ok(empty_is_zero()),
        Err(fault) => return Err(fault),
    };
    if value < 0.0 {
        return Err(ReadFault::Negative { raw });
    }
    let value = match (name, query.unit) {
        (SignalName::Latency, Unit::Milliseconds) => value / 1_000.0,
        (SignalName::Sla | SignalName::Errors, _) if 1.0 + RATIO_OVERSHOOT < value => {
            return Err(ReadFault::NotARatio { raw, percent: value <= 100.0 });
        }
        (SignalName::Sla | SignalName::Errors, _) => value.min(1.0),
        _ => value,
    };
    // A freshness query into the future, unlike one that failed, is a mistake in the policy.
    let age = age.map_err(|fault| match fault {
        fault @ ReadFault::FromTheFuture { .. } => fault,
        fault => ReadFault::Freshness(Box::new(fault)),
    })?;
    Ok(Value { value, age, note: None })
}

pub(crate) fn empty_is_zero() -> Value {
    Value {
        value: 0.0,
        age: Age::Unknown,
        note: Some("the answer is empty, which counts as zero (onEmpty)".to_owned()),
    }
}

pub(crate) fn constant_price(price: f64) -> Outcome {
    let read = if price.is_nan() {
        Err(ReadFault::NotANumber)
    } else if price.is_infinite() {
        Err(ReadFault::Infinite { raw: exact(price).to_string() })
    } else if price < 0.0 {
        Err(ReadFault::Negative { raw: exact(price).to_string() })
    } else {
        Ok(Value { value: price, age: Age::Known { secs: 0.0, sample_time: None }, note: None })
    };
    Outcome {
        name: SignalName::Price,
        query: "spec.cost.perReplicaHour".to_owned(),
        unit: SignalName::Price.unit(),
        raw: Some(exact(price).to_string()),
        max_age_secs: f64::INFINITY,
        partial: None,
        read,
        hints: Vec::new(),
    }
}

/// Puts the outcomes together and applies the idle rule. Pure.
pub(crate) fn report(outcomes: Vec<Outcome>, target_secs: f64) -> SignalReport {
    let idle = outcomes.iter().any(|outcome| {
        outcome.name == SignalName::Qps
            && matches!(outcome.signal(), (Signal::Fresh(reading), _) if reading.value < IDLE_QPS)
    });
    let mut report = SignalReport::default();
    for outcome in outcomes {
        let undefined = matches!(outcome.name, SignalName::Latency | SignalName::Sla | SignalName::Errors);
        let (signal, mut detail) = outcome.signal_and_detail();
        let negative = negative_hint(&outcome);
        let mut hints = outcome.hints;
        let signal = if idle && undefined {
            detail.state = State::NotApplicable;
            detail.value = None;
            detail.fault = None;
            detail.why = Some("no requests arrive, so there is nothing to measure".to_owned());
            Signal::NotApplicable
        } else {
            hints.extend(unit_hint(outcome.name, signal, target_secs).or(negative));
            signal
        };
        place(&mut report.signals, outcome.name, signal);
        report.details.push(detail);
        for hint in hints {
            let told = report.hints.iter().any(|known| is_same_hint(known, &hint));
            if !told {
                report.hints.push(hint);
            }
        }
    }
    report
}

impl Outcome {
    fn signal(&self) -> (Signal, State) {
        match &self.read {
            Err(fault) => match fault.state() {
                State::Invalid => (Signal::Invalid, State::Invalid),
                _ => (Signal::Missing, State::Missing),
            },
            Ok(Value { value, age, .. }) => {
                let age_secs = match age {
                    Age::Known { secs, .. } => Some(*secs),
                    Age::Unknown | Age::BeyondLookback => None,
                };
                let reading = Reading { value: *value, age_secs };
                let stale =
                    *age == Age::BeyondLookback || age_secs.is_some_and(|secs| self.max_age_secs < secs);
                if stale {
                    (Signal::Stale(reading), State::Stale)
                } else if self.partial.is_some() {
                    (Signal::Partial(reading), State::Fresh)
                } else {
                    (Signal::Fresh(reading), State::Fresh)
                }
            }
        }
    }

    fn signal_and_detail(&self) -> (Signal, SignalDetail) {
        let (signal, state) = self.signal();
        let (why, sample_time, fault) = match &self.read {
            Err(fault) => (Some(fault.to_string()), None, Some(fault.class())),
            Ok(Value { age: Age::BeyondLookback, .. }) => (
                Some("the freshness query finds no sample: the newest is too old to be seen".to_owned()),
                None,
                None,
            ),
            Ok(Value { age: Age::Known { secs, sample_time }, .. }) if state == State::Stale => {
                let limit = self.max_age_secs;
                (
                    Some(format!(
                        "the newest sample is {} s old, the limit is {limit:.0} s",
                        fixed(*secs, 0)
                    )),
                    *sample_time,
                    None,
                )
            }
            Ok(Value { age: Age::Known { sample_time, .. }, note, .. }) => (note.clone(), *sample_time, None),
            Ok(Value { note, .. }) => (note.clone(), None, None),
        };
        let partial = self.partial.clone().filter(|_| matches!(signal, Signal::Partial(_)));
        let told = |why: &String| format!("from a part of the data only: {why}");
        let detail = SignalDetail {
            name: self.name,
            value: self.raw.clone().or_else(|| self.read.as_ref().ok().map(|value| shown(value.value))),
            unit: self.unit,
            query: self.query.clone(),
            sample_time,
            state,
            why: partial.as_ref().map(told).or(why),
            partial,
            fault,
            is_misconfigured: self.read.as_ref().is_err_and(ReadFault::is_of_policy),
        };
        (signal, detail)
    }
}

fn place(signals: &mut Signals, name: SignalName, signal: Signal) {
    match name {
        SignalName::Qps => signals.qps = signal,
        SignalName::Latency => signals.latency = signal,
        SignalName::Sla => signals.sla = signal,
        SignalName::Errors => signals.errors = signal,
        SignalName::Cpu => signals.cpu = signal,
        SignalName::Price => signals.price = signal,
    }
}

pub(crate) fn unit_name(name: SignalName, unit: Unit) -> &'static str {
    match (name, unit) {
        (SignalName::Latency, Unit::Milliseconds) => "milliseconds",
        _ => name.unit(),
    }
}

/// A negative price is told of as unusable.
fn negative_hint(outcome: &Outcome) -> Option<Hint> {
    match &outcome.read {
        Err(ReadFault::Negative { raw }) if outcome.name != SignalName::Price => {
            Some(Hint::Negative { signal: outcome.name, raw: raw.clone() })
        }
        _ => None,
    }
}

fn unit_hint(name: SignalName, signal: Signal, target_secs: f64) -> Option<Hint> {
    let Signal::Fresh(Reading { value, .. }) = signal else { return None };
    let suspect = name == SignalName::Latency && SUSPECT_UNIT_RATIO * target_secs <= value;
    suspect.then_some(Hint::UnitLooksWrong { value_secs: value, target_secs })
}

pub(crate) fn hints(
    name: SignalName,
    source: &str,
    evaluated_secs: f64,
    warnings: &[String],
    now: Timestamp,
) -> Vec<Hint> {
    let mut hints: Vec<_> =
        warnings.iter().map(|text| Hint::SourceWarning { signal: name, text: text.clone() }).collect();
    let ahead_secs = evaluated_secs - seconds(now);
    if CLOCK_SKEW_SECS < ahead_secs.abs() {
        hints.push(Hint::ClockSkew { source: source.to_owned(), ahead_secs });
    }
    hints
}

/// One source's clock is told of once, however many signals come from it.
fn is_same_hint(one: &Hint, other: &Hint) -> bool {
    match (one, other) {
        (Hint::ClockSkew { source: one, .. }, Hint::ClockSkew { source: other, .. }) => one == other,
        _ => one == other,
    }
}

pub(crate) fn pods_note(used: &metrics_api::CpuUse) -> Option<String> {
    let metrics_api::CpuUse { counted, new, filled_in, .. } = *used;
    (0 < new + filled_in).then(|| {
        format!(
            "{counted} pods measured, {new} too new to count, {filled_in} without a sample taken as the mean"
        )
    })
}

/// A number of ours for people: six decimals, no trailing zeros.
pub(crate) fn shown(value: f64) -> String {
    let text = fixed(value, 6).to_string();
    if text.contains('e') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(crate) fn seconds(time: Timestamp) -> f64 {
    time.as_millisecond() as f64 / 1_000.0
}

fn timestamp(secs: f64) -> Option<Timestamp> {
    const MILLIS_PER_SEC: f64 = 1_000.0;
    // The cast saturates; a time out of range is no time.
    Timestamp::from_millisecond((secs * MILLIS_PER_SEC) as i64).ok()
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
