//! What the sources remember, for a brain that is new or was restarted.
//!
//! In: a span and a resolution. Out: samples oldest first, bounded in number. Range queries go out in pieces, one
//! after the other, so that history never crowds out the ticks. The metrics API remembers nothing, so CPU stays empty.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rlscaler_core::observation::History;

use crate::fault::ReadFault;
use crate::histogram::{self, Buckets};
use crate::prometheus::{self, Range};
use crate::read::planned;
use crate::report::SignalName;
use crate::request::{HistogramRequest, SignalRequest, Unit};
use crate::sources::Sources;
use crate::wire::Series;

/// Most samples of one signal; 16 bytes each. Five weeks at one a minute.
pub const MAX_SAMPLES: i64 = 50_400;

/// How much of the past is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryWindow {
    /// Seconds back from now.
    pub span_secs: u32,
    /// Seconds between two samples; made larger where the span would have more than [`MAX_SAMPLES`].
    pub step_secs: u32,
}

/// The past, as far as it could be read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HistoryReport {
    /// For `Brain::backfill`.
    pub history: History,
    /// What could not be read. What was read before the fault is kept.
    pub faults: Vec<(SignalName, ReadFault)>,
}

impl HistoryWindow {
    /// Aligned to the step, so that two reads ask for the same instants.
    fn range(self, now: Timestamp) -> Range {
        let span_secs = i64::from(self.span_secs);
        let step_secs = i64::from(self.step_secs).max(1).max((span_secs + MAX_SAMPLES - 1) / MAX_SAMPLES);
        let end_secs = now.as_second().div_euclid(step_secs) * step_secs;
        let start_secs = end_secs - (span_secs / step_secs).min(MAX_SAMPLES - 1) * step_secs;
        Range { start_secs, end_secs, step_secs }
    }
}

/// Reads what the policy's sources remember.
pub(crate) async fn history(
    sources: &Sources,
    request: &SignalRequest,
    now: Timestamp,
    window: HistoryWindow,
) -> HistoryReport {
    let range = window.range(now);
    let mut report = HistoryReport::default();
    if let Some(requests) = &request.requests
        && let Err(fault) = from_histogram(sources, request, requests, range, &mut report.history).await
    {
        report.faults.push((SignalName::Qps, fault));
    }
    for (name, query) in [(SignalName::Qps, &request.qps), (SignalName::Sla, &request.sla)] {
        let Some(query) = query else { continue };
        let mut samples = Vec::new();
        let read = async {
            let (endpoint, text) =
                planned(sources, &request.namespace, &query.source, &query.query, range.points_per_piece())?;
            for piece in range.pieces() {
                samples.extend(one_series(prometheus::range(endpoint, &text, piece).await?)?);
            }
            Ok(())
        };
        if let Err(fault) = read.await {
            report.faults.push((name, fault));
        }
        match name {
            SignalName::Qps => report.history.qps = samples,
            _ => report.history.sla = samples.into_iter().filter(|(_, ratio)| *ratio <= 1.0).collect(),
        }
    }
    report
}

/// qps and share within the target from the `+Inf` bucket and the two that enclose the target.
async fn from_histogram(
    sources: &Sources,
    request: &SignalRequest,
    requests: &HistogramRequest,
    range: Range,
    history: &mut History,
) -> Result<(), ReadFault> {
    let namespace = &request.namespace;
    let now = histogram::queries(requests)?.buckets;
    let (endpoint, now) = planned(sources, namespace, &requests.source, &now, 1)?;
    // Which bounds there are is asked of the present; their text is needed as the exporter writes it.
    let present = prometheus::by_label(endpoint, &now, "le").await?;
    let labels: Vec<_> = present.elements.iter().map(|element| element.label.as_str()).collect();
    let enclosing = enclosing(&labels, request.target_secs, requests.unit)?;
    let query = histogram::narrowed(requests, &enclosing)?;
    let (endpoint, query) = planned(sources, namespace, &requests.source, &query, range.points_per_piece())?;
    for piece in range.pieces() {
        for (time_secs, buckets) in by_time(prometheus::range(endpoint, &query, piece).await?, requests.unit)?
        {
            // A gap in the past is a gap, not a fault.
            let Ok(buckets) = Buckets::new(buckets) else { continue };
            let time_secs = time_secs as f64;
            history.qps.push((time_secs, buckets.total()));
            if let Ok(within) = buckets.within(request.target_secs) {
                history.sla.push((time_secs, within.ratio));
            }
        }
    }
    Ok(())
}

/// The labels of the bounds just below and at or above the target, and of `+Inf`.
fn enclosing<'a>(labels: &[&'a str], target_secs: f64, unit: Unit) -> Result<Vec<&'a str>, ReadFault> {
    let mut bounds = Vec::with_capacity(labels.len());
    for label in labels {
        bounds.push((histogram::parse_bound(label, unit)?, *label));
    }
    bounds.sort_by(|one, other| one.0.total_cmp(&other.0));
    let below = bounds.iter().rev().map(|(bound, _)| *bound).find(|bound| *bound < target_secs);
    let above = bounds.iter().map(|(bound, _)| *bound).find(|bound| target_secs <= *bound);
    let wanted = [below, above, Some(f64::INFINITY)];
    // All spellings of a bound: exporters may differ in them.
    let is_wanted =
        |bound: f64| wanted.iter().flatten().any(|wanted| histogram::is_same_bound(bound, *wanted));
    Ok(bounds.into_iter().filter(|(bound, _)| is_wanted(*bound)).map(|(_, label)| label).collect())
}

/// Buckets of each instant, in order of time. Values that are no numbers are gaps.
pub(crate) fn by_time(series: Vec<Series>, unit: Unit) -> Result<BTreeMap<i64, Vec<(f64, f64)>>, ReadFault> {
    let mut by_time: BTreeMap<i64, Vec<(f64, f64)>> = BTreeMap::new();
    for one in series {
        let bound = histogram::parse_bound(one.metric.get("le").map_or("", String::as_str), unit)?;
        for point in one.values {
            if let Ok(rate) = point.1.finite() {
                by_time.entry(point.0 as i64).or_default().push((bound, rate));
            }
        }
    }
    Ok(by_time)
}

/// The samples of the only series; none when there is none.
pub(crate) fn one_series(series: Vec<Series>) -> Result<Vec<(f64, f64)>, ReadFault> {
    if 1 < series.len() {
        return Err(ReadFault::SeveralSeries { series: series.len() });
    }
    let points = series.into_iter().flat_map(|series| series.values);
    let finite = points.filter_map(|point| Some((point.0, point.1.finite().ok()?)));
    Ok(finite.filter(|(_, value)| 0.0 <= *value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_is_bounded_whatever_is_asked_for() {
        let now = Timestamp::from_second(1_800_000_007).unwrap();
        let points = |range: Range| (range.end_secs - range.start_secs) / range.step_secs + 1;
        let month = HistoryWindow { span_secs: 30 * 86_400, step_secs: 60 }.range(now);
        assert_eq!((points(month), month.step_secs), (43_201, 60));
        for step_secs in [0, 1, 15] {
            let year = HistoryWindow { span_secs: 365 * 86_400, step_secs }.range(now);
            assert!(points(year) <= MAX_SAMPLES, "{year:?}");
            assert!(year.end_secs <= now.as_second() && year.end_secs % year.step_secs == 0);
        }
        assert_eq!(points(HistoryWindow { span_secs: 0, step_secs: 60 }.range(now)), 1);
    }

    #[test]
    fn only_the_buckets_around_the_target_are_asked_for() {
        let labels = ["+Inf", "0.1", "1.0", "0.25", "0.5"];
        let check = |target, expected: &[&str]| {
            assert_eq!(enclosing(&labels, target, Unit::Native).unwrap(), expected)
        };
        check(0.25, &["0.1", "0.25", "+Inf"]);
        check(0.3, &["0.25", "0.5", "+Inf"]);
        check(0.05, &["0.1", "+Inf"]);
        check(2.0, &["1.0", "+Inf"]);
        let spelt = ["1", "+Inf", "1.0", "5.0", "0.5", "5"];
        assert_eq!(enclosing(&spelt, 2.0, Unit::Native).unwrap(), ["1", "1.0", "5.0", "5", "+Inf"]);
        assert_eq!(enclosing(&["250", "+Inf"], 0.25, Unit::Milliseconds).unwrap(), ["250", "+Inf"]);
    }
}
