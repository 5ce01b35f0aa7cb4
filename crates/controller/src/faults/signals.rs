//! What sources answer about a service: the truth of a moment ago, or what a fault makes of it.
//!
//! A source that judges its answers gives `Missing`, `Stale` or `Invalid`; numbers that are none are also passed on as
//! they are, because the brain must not rest on its sources.

use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use rlscaler_core::observation::{History, Reading, Signal, Signals};
use rlscaler_signals::request::{SignalRequest, Tick};
use rlscaler_signals::{Fixed, HistoryReport, HistoryWindow, ReadSignals, SignalReport};

use super::dice::Dice;
use super::schedule::{Declared, How, Site, Which};
use super::service::Truth;
use super::will::EPOCH_SECS;
use super::world::Shared;

/// Requests per second below which the sources call a service idle, and its latency not applicable.
const IDLE_QPS: f64 = 1e-3;
/// Age of what a source answers, seconds.
const AGE_SECS: f64 = 10.0;
/// Age of what a stale source answers.
const STALE_SECS: f64 = 400.0;
/// Times a latency in milliseconds is larger than in seconds.
const MILLI: f64 = 1000.0;

/// A fault of the sources.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Distortion {
    pub(crate) which: Which,
    pub(crate) how: How,
}

/// What is measured, and how well.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measuring {
    pub(crate) declared: Declared,
    pub(crate) ages_known: bool,
    /// Relative.
    pub(crate) noise: f64,
}

/// What is measured of the truth.
pub(crate) fn measure(truth: &Truth, how: Measuring, faults: &[Distortion], dice: &mut Dice) -> Signals {
    let Measuring { declared, ages_known, noise } = how;
    let age_secs = ages_known.then_some(AGE_SECS);
    let mut fresh = |value: f64| {
        Signal::Fresh(Reading { value: value * dice.between(1.0 - noise, 1.0 + noise), age_secs })
    };
    let or_missing = |signal: Option<Signal>| signal.unwrap_or(Signal::Missing);
    let mut signals = Signals {
        qps: fresh(truth.qps),
        latency: or_missing(truth.latency_secs.map(&mut fresh)),
        sla: or_missing(truth.on_time.map(|share| Signal::Fresh(Reading { value: share, age_secs }))),
        // The metrics API knows ready pods only.
        cpu: if 0 < truth.ready { fresh(truth.cores) } else { Signal::Missing },
        ..Signals::default()
    };
    for Distortion { which, how } in faults {
        let hits = |one: Which| *which == Which::All || *which == one;
        let prometheus = *how != How::WrongUnit;
        for (name, signal) in [
            (Which::Qps, &mut signals.qps),
            (Which::Latency, &mut signals.latency),
            (Which::Sla, &mut signals.sla),
            (Which::Cpu, &mut signals.cpu),
        ] {
            if hits(name) && (prometheus || name == Which::Latency) {
                *signal = distorted(*signal, *how);
            }
        }
    }
    let idle =
        matches!(signals.qps, Signal::Fresh(Reading { value, .. }) if (0.0..IDLE_QPS).contains(&value));
    if idle {
        (signals.latency, signals.sla) = (Signal::NotApplicable, Signal::NotApplicable);
    }
    let keep = |signal: &mut Signal, declared: bool| {
        if !declared {
            *signal = Signal::NotDeclared;
        }
    };
    keep(&mut signals.qps, declared.qps);
    keep(&mut signals.latency, declared.latency);
    keep(&mut signals.sla, declared.sla);
    keep(&mut signals.cpu, declared.cpu);
    signals
}

fn distorted(signal: Signal, how: How) -> Signal {
    let reading = match signal {
        Signal::Fresh(reading) => reading,
        _ => Reading { value: 0.0, age_secs: None },
    };
    let number = |value: f64| Signal::Fresh(Reading { value, ..reading });
    match how {
        How::Missing | How::Slow => Signal::Missing,
        How::Stale => Signal::Stale(Reading { age_secs: Some(STALE_SECS), ..reading }),
        How::Invalid => Signal::Invalid,
        How::NotANumber => number(f64::NAN),
        How::Infinite => number(f64::INFINITY),
        How::Negative => number(-1.0 - reading.value),
        How::Zero => number(0.0),
        How::WrongUnit => number(reading.value * MILLI),
        How::Absurd => number(1e300),
    }
}

/// The sources of one operator.
pub(crate) struct Reader {
    pub(crate) world: Shared,
    pub(crate) operator: usize,
}

/// Which service a request is about, by its queries.
fn about(request: &SignalRequest) -> &str {
    let query = request.qps.as_ref().or(request.latency.as_ref());
    query.map_or("web", |query| query.query.rsplit(':').next().unwrap_or("web"))
}

impl ReadSignals for Reader {
    fn read<'a>(&'a self, request: &'a SignalRequest, tick: Tick<'a>) -> BoxFuture<'a, SignalReport> {
        Box::pin(async move {
            let name = about(request);
            let wait = self.world.lock().reading_takes(name, tick.deadline);
            tokio::time::sleep(wait).await;
            if self.world.lock().panics(name, Site::Signals) {
                // Without the hook, which would fill the screen.
                std::panic::resume_unwind(Box::new("a bug in a reader"));
            }
            let signals = self.world.lock().measured(self.operator, name);
            Fixed::new(signals).report
        })
    }

    fn history<'a>(
        &'a self,
        request: &'a SignalRequest,
        now: Timestamp,
        _: HistoryWindow,
    ) -> BoxFuture<'a, HistoryReport> {
        Box::pin(async move {
            const MINUTES: i64 = 60;
            let (wait_secs, qps) = self.world.lock().past(about(request));
            tokio::time::sleep(Duration::from_secs_f64(wait_secs)).await;
            let Some(qps) = qps else { return HistoryReport::default() };
            let now_secs = now.as_second().max(EPOCH_SECS);
            let sample = |minutes: i64| ((now_secs - minutes * 60) as f64, qps);
            let history = History { qps: (1..=MINUTES).rev().map(sample).collect(), ..History::default() };
            HistoryReport { history, faults: Vec::new() }
        })
    }
}
