//! An access log in common or combined format, counted per second while it is read: memory grows with the span of
//! time, not with the number of requests.

use std::collections::VecDeque;

use jiff::civil::DateTime;

use super::read::Lines;
use super::{Trace, TraceFault};

/// Longest span of time counted: two months, 21 MB of counters.
const MAX_SPAN_SECS: i64 = 62 * 86_400;

/// Servers write a line when the answer is complete, so a line may be older than the one before; this much at most.
const MAX_DISORDER_SECS: i64 = 3_600;

const EXPECTED: &str =
    "a line of an access log: host ident user [10/Oct/2026:13:55:36 +0000] \"GET / HTTP/1.1\" 200 12";

/// True when the line is one of an access log.
pub(super) fn looks_like(line: &str) -> bool {
    stamp(line).and_then(parse_stamp).is_some()
}

/// Counts all lines per second; `first` is the line read already.
pub(super) fn read(lines: &mut Lines, first: &str, name: &str) -> Result<Trace, TraceFault> {
    let mut counts: VecDeque<u32> = VecDeque::new();
    let mut origin = None;
    let mut last_stamp = String::new();
    let mut last_second = 0;
    let mut line = Some(first.to_owned());
    loop {
        let found = match &line {
            Some(first) => first.as_str(),
            None => match lines.next_line()? {
                Some(text) => text,
                None => break,
            },
        };
        // Most lines share their second with the line before: the text is compared, not parsed again.
        let second = match stamp(found) {
            Some(text) if text == last_stamp => Some(last_second),
            Some(text) => parse_stamp(text).inspect(|second| {
                last_stamp = text.to_owned();
                last_second = *second;
            }),
            None => None,
        };
        let Some(second) = second else {
            let found = found.to_owned();
            return Err(lines.fault(EXPECTED, &found));
        };
        let start = *origin.get_or_insert(second);
        let newest = start + counts.len() as i64;
        if second < newest - MAX_DISORDER_SECS || start + MAX_SPAN_SECS < second {
            let found = found.to_owned();
            let expected = format!(
                "times at most {MAX_DISORDER_SECS} s out of order and {} days in all",
                MAX_SPAN_SECS / 86_400
            );
            return Err(lines.fault(&expected, &found));
        }
        for _ in second..start {
            counts.push_front(0);
        }
        let start = start.min(second);
        origin = Some(start);
        let index = usize::try_from(second - start).expect("the origin is the smallest second");
        if counts.len() <= index {
            counts.resize(index + 1, 0);
        }
        counts[index] = counts[index].saturating_add(1);
        line = None;
    }
    let rates = counts.into_iter().map(f64::from).collect();
    Trace::new(name, 1.0, rates).ok_or_else(|| lines.content_fault("requests", "none"))
}

/// What stands in brackets before the quoted request.
fn stamp(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(" [")?;
    let (stamp, request) = rest.split_once("] ")?;
    request.starts_with('"').then_some(stamp)
}

/// Unix seconds of `10/Oct/2026:13:55:36 +0200`.
fn parse_stamp(stamp: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    if !stamp.is_ascii() || stamp.len() != 26 {
        return None;
    }
    let separators = [(2, '/'), (6, '/'), (11, ':'), (14, ':'), (17, ':'), (20, ' ')];
    if separators.iter().any(|(at, separator)| stamp.as_bytes()[*at] != *separator as u8) {
        return None;
    }
    let month = 1 + MONTHS.iter().position(|month| *month == &stamp[3..6])?;
    let day = stamp[0..2].parse().ok()?;
    let (hour, minute, second) =
        (stamp[12..14].parse().ok()?, stamp[15..17].parse().ok()?, stamp[18..20].parse().ok()?);
    let local =
        DateTime::new(stamp[7..11].parse().ok()?, i8::try_from(month).ok()?, day, hour, minute, second, 0)
            .ok()?;
    let sign = match &stamp[21..22] {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let zone_hours: i64 = stamp[22..24].parse().ok()?;
    let zone_minutes: i64 = stamp[24..26].parse().ok()?;
    let unix = local.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second();
    Some(unix - sign * (zone_hours * 3_600 + zone_minutes * 60))
}
