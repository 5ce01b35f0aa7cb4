//! qps, latency and SLA completion from one classic histogram, all three from one answer so that they agree.
//!
//! In: `sum by (le) (rate(<metric>_bucket{...}[w]))`. `rate()` takes care of counter resets; the `+Inf` bucket's rate
//! is the rate of requests. Out: [`Quantities`]. Pure.
//! Quantile: linear within a bucket, as Prometheus' `histogram_quantile`; unlike it, a quantile above the largest
//! finite bucket is a fault, not that bucket's bound.

use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::{Expr, MatrixSelector, VectorSelector};
use rlscaler_core::text::exact;

use crate::fault::ReadFault;
use crate::prometheus::ByLabel;
use crate::promql;
use crate::request::{HistogramRequest, Unit};

/// Widest `rate()` window, seconds; as the longest range of any query.
pub const MAX_WINDOW_SECS: u32 = 24 * 60 * 60;

/// The queries made for one histogram, before the source's confinement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramQueries {
    /// Buckets: requests per second not slower than each bound.
    pub buckets: String,
    /// Unix time of the newest sample.
    pub freshness: String,
}

/// Makes the queries.
///
/// # Errors
/// [`ReadFault::BadQuery`] when metric, matchers or window are not what they should be.
pub fn queries(request: &HistogramRequest) -> Result<HistogramQueries, ReadFault> {
    let freshness = part(request, "_count")?;
    Ok(HistogramQueries {
        buckets: format!("sum by (le) (rate({}))", bucket_rate(request, None)?),
        freshness: format!("max(timestamp({}))", promql::written_out(Expr::VectorSelector(freshness))?),
    })
}

/// The buckets' query narrowed to those bounds, for a range query.
///
/// # Errors
/// As [`queries`].
pub(crate) fn narrowed(request: &HistogramRequest, bounds: &[&str]) -> Result<String, ReadFault> {
    Ok(format!("sum by (le) (rate({}))", bucket_rate(request, Some(bounds))?))
}

fn bucket_rate(request: &HistogramRequest, bounds: Option<&[&str]>) -> Result<String, ReadFault> {
    if !(1..=MAX_WINDOW_SECS).contains(&request.window_secs) {
        let why = format!("a window of {} s is not in 1..={MAX_WINDOW_SECS}", request.window_secs);
        return Err(ReadFault::BadQuery { field: "window", why });
    }
    let mut selector = part(request, "_bucket")?;
    let narrowed = match bounds {
        Some(bounds) => {
            format!("le=~\"{}\"", bounds.iter().map(|bound| escaped(bound)).collect::<Vec<_>>().join("|"))
        }
        None => String::new(),
    };
    if !narrowed.is_empty() {
        // Parsed like everything else: a bound is a label value of somebody's exporter.
        let Ok(Expr::VectorSelector(le)) = promql_parser::parser::parse(&format!("x{{{narrowed}}}")) else {
            return Err(ReadFault::BadQuery {
                field: "matcher",
                why: "a bucket bound cannot be written as a matcher".to_owned(),
            });
        };
        selector.matchers.matchers.extend(le.matchers.matchers.into_iter().filter(is_regex));
    }
    let range = std::time::Duration::from_secs(u64::from(request.window_secs));
    promql::written_out(Expr::MatrixSelector(MatrixSelector {
        vs: promql::in_written_order(selector),
        range,
    }))
}

fn is_regex(matcher: &Matcher) -> bool {
    matches!(matcher.op, MatchOp::Re(_))
}

/// A bound is a number or `+Inf`; everything that is not alphanumeric is escaped, twice because it stands in a string.
fn escaped(bound: &str) -> String {
    bound
        .chars()
        .flat_map(|c| if c.is_ascii_alphanumeric() { vec![c] } else { vec!['\\', '\\', c] })
        .collect()
}

fn part(request: &HistogramRequest, suffix: &str) -> Result<VectorSelector, ReadFault> {
    let base = request.metric.strip_suffix("_bucket").unwrap_or(&request.metric);
    if base.is_empty() {
        return Err(ReadFault::BadQuery {
            field: "metric",
            why: "the histogram's metric is not named".to_owned(),
        });
    }
    promql::selector(&format!("{base}{suffix}"), &request.matchers)
}

/// Cumulative rates by upper bound, sorted, never falling, the last bound infinite.
#[derive(Debug, Clone, PartialEq)]
pub struct Buckets {
    /// (upper bound in seconds, requests per second not slower than it).
    cumulative: Vec<(f64, f64)>,
}

impl Buckets {
    /// Reads an answer by `le`.
    ///
    /// # Errors
    /// No `+Inf` bucket, a bound or a rate that is no number.
    pub(crate) fn read(answer: &ByLabel, unit: Unit) -> Result<Self, ReadFault> {
        let mut cumulative = Vec::with_capacity(answer.elements.len());
        for element in &answer.elements {
            let bound = parse_bound(&element.label, unit)?;
            cumulative.push((bound, element.value.clone()?));
        }
        Self::new(cumulative)
    }

    /// Sorts and smooths: rates of different pods' layouts, and rounding, may make a cumulative rate dip.
    ///
    /// # Errors
    /// [`ReadFault::NoBuckets`], [`ReadFault::Negative`].
    pub fn new(mut cumulative: Vec<(f64, f64)>) -> Result<Self, ReadFault> {
        let no_buckets = |why: &str| ReadFault::NoBuckets { why: why.to_owned() };
        if cumulative.iter().any(|(bound, rate)| bound.is_nan() || !rate.is_finite()) {
            return Err(no_buckets("a bound or a rate is not a number"));
        }
        if let Some((_, rate)) = cumulative.iter().find(|(_, rate)| *rate < 0.0) {
            return Err(ReadFault::Negative { raw: exact(*rate).to_string() });
        }
        cumulative.sort_by(|one, other| one.0.total_cmp(&other.0));
        // One bound written in two ways, as `1` by one exporter and `1.0` by another: two parts of the same bucket.
        cumulative.dedup_by(|next, kept| {
            let same = is_same_bound(next.0, kept.0);
            kept.1 += if same { next.1 } else { 0.0 };
            same
        });
        match cumulative.last() {
            Some((bound, _)) if *bound == f64::INFINITY => {}
            _ => return Err(no_buckets("there is no bucket le=\"+Inf\"; is this a classic histogram?")),
        }
        if cumulative.len() < 2 {
            return Err(no_buckets("there is no finite bucket"));
        }
        let mut highest = 0.0f64;
        for (_, rate) in &mut cumulative {
            highest = highest.max(*rate);
            *rate = highest;
        }
        Ok(Self { cumulative })
    }

    /// Requests per second.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.cumulative.last().map_or(0.0, |(_, rate)| *rate)
    }

    /// Latency not exceeded by the share `quantile` of the requests, seconds. Call it only when `total() > 0`.
    ///
    /// # Errors
    /// [`ReadFault::AboveLargestBucket`]; [`ReadFault::NotANumber`] without requests.
    pub fn quantile(&self, quantile: f64) -> Result<f64, ReadFault> {
        if self.total() <= 0.0 {
            return Err(ReadFault::NotANumber);
        }
        let rank = quantile * self.total();
        let mut lower = (0.0f64, 0.0f64);
        for &(bound, rate) in &self.cumulative {
            if rank <= rate && bound.is_finite() {
                // A first bucket at or below zero has no width to interpolate in.
                if bound <= 0.0 || rate <= lower.1 {
                    return Ok(bound.max(0.0));
                }
                return Ok(lower.0 + (bound - lower.0) * (rank - lower.1) / (rate - lower.1));
            }
            lower = (bound.max(0.0), rate);
        }
        Err(self.above(format!("the percentile {}", quantile * 100.0)))
    }

    /// Share of requests within `target_secs`, and between which bounds it was interpolated, if it was.
    ///
    /// # Errors
    /// [`ReadFault::AboveLargestBucket`], whatever the counts: a signal that came and went with single slow requests
    /// would be worth nothing. [`ReadFault::NotANumber`] without requests.
    pub fn within(&self, target_secs: f64) -> Result<Within, ReadFault> {
        let mut lower = (0.0f64, 0.0f64);
        for &(bound, rate) in &self.cumulative {
            if bound == f64::INFINITY {
                break;
            }
            if target_secs <= bound || is_same(target_secs, bound) {
                if self.total() <= 0.0 {
                    return Err(ReadFault::NotANumber);
                }
                if is_same(target_secs, bound) {
                    return Ok(Within { ratio: rate / self.total(), between: None });
                }
                let share = (target_secs - lower.0) / (bound - lower.0);
                let rate = lower.1 + (rate - lower.1) * share;
                return Ok(Within { ratio: rate / self.total(), between: Some((lower.0, bound)) });
            }
            lower = (bound.max(0.0), rate);
        }
        Err(self.above(format!("the latency target of {target_secs} s")))
    }

    fn above(&self, what: String) -> ReadFault {
        let largest = self.cumulative.iter().rev().map(|(bound, _)| *bound).find(|bound| bound.is_finite());
        ReadFault::AboveLargestBucket { what, largest: format!("{} s", exact(largest.unwrap_or_default())) }
    }
}

/// Share of requests within the target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Within {
    /// 0..1.
    pub ratio: f64,
    /// The bounds in seconds between which it was interpolated; `None` when the target is a bound.
    pub between: Option<(f64, f64)>,
}

/// `1` and `1.0`, or two spellings of infinity.
pub(crate) fn is_same_bound(one: f64, other: f64) -> bool {
    if one.is_finite() && other.is_finite() { is_same(one, other) } else { one == other }
}

/// 250 ms written as 0.25 s and read as 250.0/1000.0 is the same bound.
fn is_same(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * other.abs()
}

/// An upper bound in seconds.
pub(crate) fn parse_bound(le: &str, unit: Unit) -> Result<f64, ReadFault> {
    let bound: f64 = le.parse().map_err(|_| ReadFault::NoBuckets {
        why: format!("le={:?} is not a number", crate::fault::printable(le)),
    })?;
    Ok(match unit {
        Unit::Native => bound,
        Unit::Milliseconds => bound / 1_000.0,
    })
}

#[cfg(test)]
#[path = "histogram_tests.rs"]
mod tests;
