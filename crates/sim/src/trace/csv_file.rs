//! The two CSV forms: `t_seconds,requests_per_second[,…]` on a fixed step from zero, and RFC 3339 time with a rate.

use jiff::Timestamp;

use super::read::Lines;
use super::{MAX_SAMPLES, Trace, TraceFault, grid};

/// Relative deviation of a time from the fixed step that is put down to rounding.
const STEP_TOLERANCE: f64 = 1e-3;

/// Reads `t_seconds,requests_per_second[,…]`; `header` is the line read already. Further columns are ignored.
pub(super) fn read_seconds(lines: &mut Lines, header: &str, name: &str) -> Result<Trace, TraceFault> {
    let mut columns = header.split(',').map(str::trim);
    if (columns.next(), columns.next()) != (Some("t_seconds"), Some("requests_per_second")) {
        return Err(lines.fault("the header `t_seconds,requests_per_second`", header));
    }
    let mut rates = Vec::new();
    let mut step_secs = 0.0;
    while let Some(text) = lines.next_line()? {
        let text = text.to_owned();
        let Some((time, rate)) = two_numbers(&text) else {
            return Err(lines.fault("two numbers, seconds and requests per second (not negative)", &text));
        };
        let index = rates.len();
        if index == 1 {
            step_secs = time;
        }
        let expected = step_secs * index as f64;
        if STEP_TOLERANCE * step_secs < (time - expected).abs() || (index == 0 && time != 0.0) {
            let wanted = format!("t_seconds {expected} (a fixed step from 0)");
            return Err(lines.fault(&wanted, &text));
        }
        if index == 1 && step_secs <= 0.0 {
            return Err(lines.fault("a time after 0", &text));
        }
        if MAX_SAMPLES <= index {
            return Err(lines.fault(&format!("at most {MAX_SAMPLES} samples"), &text));
        }
        rates.push(rate);
    }
    if rates.len() < 2 {
        return Err(lines.content_fault("at least two samples", &rates.len().to_string()));
    }
    Trace::new(name, step_secs, rates)
        .ok_or_else(|| lines.content_fault("rates that are not negative", "one"))
}

fn two_numbers(text: &str) -> Option<(f64, f64)> {
    let mut fields = text.split(',').map(str::trim);
    let time: f64 = fields.next()?.parse().ok()?;
    let rate: f64 = fields.next()?.parse().ok()?;
    (time.is_finite() && rate.is_finite() && 0.0 <= rate).then_some((time, rate))
}

/// True when the line is an RFC 3339 time, a comma and something.
pub(super) fn looks_like_times(line: &str) -> bool {
    line.split_once(',').is_some_and(|(time, _)| parse_time(time).is_some())
}

/// True when no field of the line is a number or a time.
pub(super) fn is_header(line: &str) -> bool {
    line.split(',').all(|field| field.trim().parse::<f64>().is_err() && parse_time(field).is_none())
}

/// Reads RFC 3339 times with rates; `first` is a line of data read already.
pub(super) fn read_times(lines: &mut Lines, first: Option<&str>, name: &str) -> Result<Trace, TraceFault> {
    const EXPECTED: &str =
        "an RFC 3339 time and requests per second (not negative), as 2026-11-30T12:00:00Z,12.5";
    let mut samples: Vec<(f64, f64)> = Vec::new();
    let mut next = match first {
        Some(first) => Some(first.to_owned()),
        None => lines.next_line()?.map(str::to_owned),
    };
    while let Some(text) = next {
        let sample = text.split_once(',').and_then(|(time, rate)| {
            let rate: f64 = rate.trim().parse().ok()?;
            (rate.is_finite() && 0.0 <= rate).then_some((parse_time(time)?, rate))
        });
        let Some(sample) = sample else { return Err(lines.fault(EXPECTED, &text)) };
        if samples.last().is_some_and(|last| sample.0 <= last.0) {
            return Err(lines.fault("a time after that of the line before", &text));
        }
        if MAX_SAMPLES <= samples.len() {
            return Err(lines.fault(&format!("at most {MAX_SAMPLES} samples"), &text));
        }
        samples.push(sample);
        next = lines.next_line()?.map(str::to_owned);
    }
    grid::on_a_grid(name, &samples)
        .map_err(|found| lines.content_fault("at least two samples of a rate", &found))
}

/// Unix seconds of an RFC 3339 time, in quotes or not.
fn parse_time(text: &str) -> Option<f64> {
    let time: Timestamp = text.trim().trim_matches('"').parse().ok()?;
    Some(time.as_millisecond() as f64 / 1e3)
}
