//! Answers that are already here, read exactly as those that come over the network. In: an HTTP status and a body from
//! anywhere. Out: what the readers of signals make of it. Pure; this is where the fuzz targets come in.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::fault::ReadFault;
use crate::histogram::Buckets;
use crate::http::Answer;
use crate::judge::{self, Age, Outcome};
use crate::metrics_api::{self, CpuUse};
use crate::prometheus::{self, Number};
use crate::report::{SignalName, SignalReport};
use crate::request::{QueryRequest, ReadyPod, Unit};
use crate::{history, wire};

fn parsed(status: u16, body: &[u8]) -> Result<wire::Returned, ReadFault> {
    wire::parse(&Answer { status, body: body.to_vec() })
}

/// The one number of an instant query.
///
/// # Errors
/// Everything but exactly one finite number.
pub fn number(status: u16, body: &[u8]) -> Result<Number, ReadFault> {
    prometheus::one_number(parsed(status, body)?)
}

/// The buckets of a classic histogram.
///
/// # Errors
/// Everything but finite rates by `le` with an infinite bound.
pub fn buckets(status: u16, body: &[u8], unit: Unit) -> Result<Buckets, ReadFault> {
    Buckets::read(&prometheus::keyed(parsed(status, body)?, "le")?, unit)
}

/// The samples of the one series of a range query, (Unix seconds, value).
///
/// # Errors
/// Everything but a matrix of at most one series.
pub fn series(status: u16, body: &[u8]) -> Result<Vec<(f64, f64)>, ReadFault> {
    history::one_series(prometheus::matrix(parsed(status, body)?)?)
}

/// The buckets of a range query by Unix second: (bound in seconds, rate).
///
/// # Errors
/// Everything but a matrix whose series carry a bound in `le`.
pub fn bucket_history(
    status: u16,
    body: &[u8],
    unit: Unit,
) -> Result<BTreeMap<i64, Vec<(f64, f64)>>, ReadFault> {
    history::by_time(prometheus::matrix(parsed(status, body)?)?, unit)
}

/// The sum over `pods` of a list of `metrics.k8s.io`.
///
/// # Errors
/// No list, or too few of the pods in it.
pub fn cpu(body: &[u8], pods: &[ReadyPod], now: Timestamp, max_age_secs: f64) -> Result<CpuUse, ReadFault> {
    metrics_api::sum(pods, &metrics_api::items(body)?, now, max_age_secs)
}

/// What becomes of a signal whose query gave `number` and whose freshness query gave `newest`.
#[must_use]
pub fn signal(
    name: SignalName,
    query: &QueryRequest,
    number: Result<Number, ReadFault>,
    newest: Option<&Number>,
    target_secs: f64,
) -> SignalReport {
    let age = newest.map_or(Ok(Age::Unknown), judge::age_by);
    let outcome = Outcome {
        name,
        query: query.query.clone(),
        unit: judge::unit_name(name, query.unit),
        raw: number.as_ref().ok().map(|number| number.raw.clone()),
        max_age_secs: query.max_age_secs,
        partial: number.as_ref().ok().and_then(|number| number.partial.clone()),
        read: judge::judge(query, name, number, age),
        hints: Vec::new(),
    };
    judge::report(vec![outcome], target_secs)
}
