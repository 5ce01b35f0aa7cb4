//! Asking one Prometheus: one number, a vector by label, or a range in pieces.
//!
//! Prometheus stamps an instant answer with the time of evaluation, never with the sample's; [`Number::evaluated_secs`]
//! is therefore the source's clock and nothing else.

use crate::fault::{ReadFault, printable};
use crate::http::Endpoint;
use crate::wire::{self, Data, MAX_SERIES, Point, Returned, Series};

/// Points per series that Prometheus answers at most in one range query, less a margin for the inclusive end.
pub const MAX_POINTS_PER_QUERY: usize = 10_900;

/// One number and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Number {
    /// Finite; may be negative.
    pub value: f64,
    /// As the source wrote it.
    pub raw: String,
    /// The source's clock when it evaluated the query, Unix seconds.
    pub evaluated_secs: f64,
    /// Warnings of the source.
    pub warnings: Vec<String>,
    /// Why it is of a part of the data only, where the source says so.
    pub partial: Option<String>,
}

/// The value of one element of a vector.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Labelled {
    pub(crate) label: String,
    pub(crate) value: Result<f64, ReadFault>,
}

/// A vector keyed by one label.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ByLabel {
    pub(crate) elements: Vec<Labelled>,
    pub(crate) evaluated_secs: f64,
    pub(crate) warnings: Vec<String>,
    pub(crate) partial: Option<String>,
}

/// Asks for one number. `query` is sent as it is: [`crate::promql`] has seen it before.
///
/// # Errors
/// Everything but exactly one finite number.
pub(crate) async fn number(endpoint: &Endpoint, query: &str) -> Result<Number, ReadFault> {
    one_number(instant(endpoint, query).await?)
}

/// Asks for a vector and keys it by `label`.
///
/// # Errors
/// No vector, an empty one, or a native histogram.
pub(crate) async fn by_label(endpoint: &Endpoint, query: &str, label: &str) -> Result<ByLabel, ReadFault> {
    keyed(instant(endpoint, query).await?, label)
}

async fn instant(endpoint: &Endpoint, query: &str) -> Result<Returned, ReadFault> {
    let timeout = format!("{}s", endpoint.timeout().as_secs());
    // One more than accepted, so that too many is seen as too many.
    let limit = (MAX_SERIES + 1).to_string();
    let form = [("query", query), ("timeout", timeout.as_str()), ("limit", limit.as_str())];
    wire::parse(&endpoint.post("api/v1/query", &form).await?)
}

pub(crate) fn one_number(returned: Returned) -> Result<Number, ReadFault> {
    let Returned { data, warnings, partial } = returned;
    let Point(evaluated_secs, text) = match data {
        Data::Scalar(point) => point,
        Data::Vector(samples) if 1 < samples.len() => {
            return Err(ReadFault::SeveralSeries { series: samples.len() });
        }
        Data::Vector(samples) => match samples.into_iter().next() {
            Some(sample) => sample.value.ok_or(ReadFault::WrongType { got: NATIVE_HISTOGRAM })?,
            None => return Err(nothing(partial)),
        },
        Data::Matrix(_) => return Err(ReadFault::WrongType { got: "a range vector" }),
        Data::String(_) => return Err(ReadFault::WrongType { got: "a string" }),
    };
    let value = text.finite()?;
    Ok(Number { value, raw: printable(&text.0), evaluated_secs, warnings, partial })
}

/// What an answer without elements is: empty, unless there may be more than the source could see.
fn nothing(partial: Option<String>) -> ReadFault {
    partial.map_or(ReadFault::Empty, |why| ReadFault::PartOfData { why })
}

const NATIVE_HISTOGRAM: &str =
    "a native histogram (use histogram_quantile, histogram_count or histogram_fraction)";

pub(crate) fn keyed(returned: Returned, label: &str) -> Result<ByLabel, ReadFault> {
    let Returned { data, warnings, partial } = returned;
    let Data::Vector(samples) = data else {
        return Err(ReadFault::WrongType { got: "no vector" });
    };
    let mut elements = Vec::with_capacity(samples.len());
    let mut evaluated_secs = None;
    for sample in samples {
        let Point(time, text) = sample.value.ok_or(ReadFault::WrongType { got: NATIVE_HISTOGRAM })?;
        evaluated_secs = Some(time);
        let label = sample.metric.get(label).cloned().unwrap_or_default();
        elements.push(Labelled { label, value: text.finite() });
    }
    let Some(evaluated_secs) = evaluated_secs else { return Err(nothing(partial)) };
    Ok(ByLabel { elements, evaluated_secs, warnings, partial })
}

/// A span of time with its resolution, whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start_secs: i64,
    pub(crate) end_secs: i64,
    pub(crate) step_secs: i64,
}

impl Range {
    /// Points of the longest piece.
    pub(crate) fn points_per_piece(self) -> u64 {
        let points = (self.end_secs - self.start_secs) / self.step_secs.max(1) + 1;
        u64::try_from(points).unwrap_or(0).min(MAX_POINTS_PER_QUERY as u64)
    }

    /// Consecutive pieces, none with more points than Prometheus answers, no point in two of them.
    pub(crate) fn pieces(self) -> impl Iterator<Item = Range> {
        let Range { start_secs, end_secs, step_secs } = self;
        let piece_secs = MAX_POINTS_PER_QUERY as i64 * step_secs;
        let mut next = start_secs;
        std::iter::from_fn(move || {
            if end_secs < next {
                return None;
            }
            let start_secs = next;
            next += piece_secs;
            Some(Range { start_secs, end_secs: end_secs.min(next - step_secs), step_secs })
        })
    }
}

/// Asks for one piece of a range.
pub(crate) async fn range(endpoint: &Endpoint, query: &str, piece: Range) -> Result<Vec<Series>, ReadFault> {
    let timeout = format!("{}s", endpoint.timeout().as_secs());
    let (start, end) = (piece.start_secs.to_string(), piece.end_secs.to_string());
    let step = piece.step_secs.to_string();
    let form = [
        ("query", query),
        ("start", start.as_str()),
        ("end", end.as_str()),
        ("step", step.as_str()),
        ("timeout", timeout.as_str()),
    ];
    matrix(wire::parse(&endpoint.post("api/v1/query_range", &form).await?)?)
}

pub(crate) fn matrix(returned: Returned) -> Result<Vec<Series>, ReadFault> {
    match returned.data {
        // A past with holes in it teaches wrong seasons; it is asked for again.
        Data::Matrix(_) if returned.partial.is_some() => {
            Err(ReadFault::PartOfData { why: returned.partial.unwrap_or_default() })
        }
        Data::Matrix(series) => Ok(series),
        _ => Err(ReadFault::WrongType { got: "no range vector" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Answer;

    fn one(kind: &str, result: &str) -> Result<f64, ReadFault> {
        let body = format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":{result}}}}}"#);
        one_number(wire::parse(&Answer { status: 200, body: body.into_bytes() })?).map(|number| number.value)
    }

    // Cases 4, 6 and 16: nothing but exactly one finite number is a number.
    #[test]
    fn only_one_finite_number_is_a_number() {
        assert_eq!(one("vector", r#"[{"metric":{"a":"b"},"value":[1,"2.5"]}]"#), Ok(2.5));
        assert_eq!(one("vector", r#"[{"value":[1,2.5]}]"#), Ok(2.5));
        assert_eq!(one("scalar", r#"[1,"0"]"#), Ok(0.0));
        assert_eq!(one("vector", "[]"), Err(ReadFault::Empty));
        let two = r#"[{"metric":{},"value":[1,"2"]},{"metric":{},"value":[1,"2"]}]"#;
        assert_eq!(one("vector", two), Err(ReadFault::SeveralSeries { series: 2 }));
        assert_eq!(one("vector", r#"[{"metric":{},"value":[1,"NaN"]}]"#), Err(ReadFault::NotANumber));
        let histogram = r#"[{"metric":{},"histogram":[1,{"count":"1","sum":"1","buckets":[]}]}]"#;
        assert!(matches!(one("vector", histogram), Err(ReadFault::WrongType { .. })));
        assert_eq!(one("matrix", "[]"), Err(ReadFault::WrongType { got: "a range vector" }));
        assert_eq!(one("string", r#"[1,"7"]"#), Err(ReadFault::WrongType { got: "a string" }));
    }

    #[test]
    fn a_range_is_cut_into_pieces_that_meet_without_overlap() {
        let points = |range: Range| (range.end_secs - range.start_secs) / range.step_secs + 1;
        let limit = MAX_POINTS_PER_QUERY as i64;
        for (count, expected) in [(1, 1), (limit - 1, 1), (limit, 1), (limit + 1, 2), (5 * limit + 7, 6)] {
            let whole = Range { start_secs: 100, end_secs: 100 + (count - 1) * 15, step_secs: 15 };
            let pieces: Vec<_> = whole.pieces().collect();
            assert_eq!(pieces.len(), expected);
            assert_eq!(pieces.iter().map(|piece| points(*piece)).sum::<i64>(), count);
            assert!(pieces.iter().all(|piece| points(*piece) <= limit));
            assert!(pieces.windows(2).all(|pair| pair[0].end_secs + 15 == pair[1].start_secs));
        }
    }
}
