//! A source whose answers are fixed beforehand, for tests of whatever reads signals.

use futures::future::{BoxFuture, ready};
use jiff::Timestamp;
use rlscaler_core::observation::{Signal, Signals};

use crate::history::{HistoryReport, HistoryWindow};
use crate::report::{SignalDetail, SignalName, SignalReport, State};
use crate::request::{SignalRequest, Tick};
use crate::sources::ReadSignals;

/// Answers the same at every read, whatever the policy asks for.
#[derive(Debug, Clone, Default)]
pub struct Fixed {
    /// Every read's answer.
    pub report: SignalReport,
    /// Every history's answer.
    pub history: HistoryReport,
}

impl Fixed {
    /// A report from numbers alone; the details are derived from them.
    #[must_use]
    pub fn new(signals: Signals) -> Self {
        let Signals { qps, latency, sla, errors, cpu, price } = signals;
        let named = SignalName::ALL.into_iter().zip([qps, latency, sla, errors, cpu, price]);
        let details = named.filter_map(|(name, signal)| detail(name, signal)).collect();
        Self {
            report: SignalReport { signals, details, ..SignalReport::default() },
            history: HistoryReport::default(),
        }
    }
}

fn detail(name: SignalName, signal: Signal) -> Option<SignalDetail> {
    let (state, value) = match signal {
        Signal::NotDeclared => return None,
        Signal::Fresh(reading) | Signal::Partial(reading) => (State::Fresh, Some(reading.value)),
        Signal::Stale(reading) => (State::Stale, Some(reading.value)),
        Signal::Estimated(reading) => (State::Estimated, Some(reading.value)),
        Signal::Missing => (State::Missing, None),
        Signal::Invalid => (State::Invalid, None),
        Signal::NotApplicable => (State::NotApplicable, None),
    };
    Some(SignalDetail {
        name,
        value: value.map(|value| value.to_string()),
        unit: name.unit(),
        query: "fixed".to_owned(),
        sample_time: None,
        state,
        why: None,
        partial: matches!(signal, Signal::Partial(_)).then(|| "as told".to_owned()),
        fault: None,
        is_misconfigured: false,
    })
}

impl ReadSignals for Fixed {
    fn read<'a>(&'a self, _: &'a SignalRequest, _: Tick<'a>) -> BoxFuture<'a, SignalReport> {
        Box::pin(ready(self.report.clone()))
    }

    fn history<'a>(
        &'a self,
        _: &'a SignalRequest,
        _: Timestamp,
        _: HistoryWindow,
    ) -> BoxFuture<'a, HistoryReport> {
        Box::pin(ready(self.history.clone()))
    }
}
