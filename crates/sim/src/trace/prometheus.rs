//! The answer of Prometheus to `/api/v1/query_range`, saved to a file: one series of rates.

use std::io::Read;

use rlscaler_core::text::visible;
use serde::Deserialize;

use super::{Trace, TraceFault, grid};

/// Largest file read: ten times the 11,000 points Prometheus gives at most, with wide labels.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Longest part of a wrong answer that is shown.
const MAX_SHOWN_CHARS: usize = 120;

#[derive(Deserialize)]
struct Answer {
    status: String,
    #[serde(default)]
    error: String,
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    result_type: String,
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    #[serde(default)]
    values: Vec<(f64, String)>,
}

/// Reads the whole answer.
pub(super) fn read(reader: impl Read, file: &str, name: &str) -> Result<Trace, TraceFault> {
    let content = |expected: &str, found: String| TraceFault::Content {
        file: file.to_owned(),
        expected: expected.to_owned(),
        found: visible(&found, MAX_SHOWN_CHARS),
    };
    let mut bytes = Vec::new();
    let read = reader.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|source| TraceFault::Read { file: file.to_owned(), source })?;
    if MAX_BYTES < bytes.len() as u64 {
        return Err(content("a query_range answer of at most 16 MiB", "a longer one".to_owned()));
    }
    let answer: Answer = serde_json::from_slice(&bytes).map_err(|fault| TraceFault::Line {
        file: file.to_owned(),
        line: fault.line() as u64,
        expected: "a Prometheus query_range answer in JSON".to_owned(),
        found: visible(&fault.to_string(), MAX_SHOWN_CHARS),
    })?;
    let data = match answer.data {
        Some(data) if answer.status == "success" => data,
        _ => return Err(content("status success", format!("{} {}", answer.status, answer.error))),
    };
    if data.result_type != "matrix" {
        return Err(content("resultType matrix (of query_range, not query)", data.result_type));
    }
    let [series] = data.result.as_slice() else {
        return Err(content("one series (wrap the query in sum())", format!("{} series", data.result.len())));
    };
    let mut samples = Vec::with_capacity(series.values.len());
    for (time, value) in &series.values {
        match value.parse::<f64>() {
            // A NaN is a gap: Prometheus answers it for 0/0.
            Ok(rate) if rate.is_nan() => {}
            Ok(rate) if rate.is_finite() && 0.0 <= rate => samples.push((*time, rate)),
            _ => {
                return Err(content("rates that are numbers and not negative", format!("{value} at {time}")));
            }
        }
    }
    if samples.windows(2).any(|pair| pair[1].0 <= pair[0].0) {
        return Err(content("rising times", "a time that does not rise".to_owned()));
    }
    grid::on_a_grid(name, &samples).map_err(|found| content("at least two samples", found))
}
