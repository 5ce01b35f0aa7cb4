//! Numbers and times written as strings: decimals, Kubernetes quantities, RFC 3339, strict booleans. Each parser takes
//! what its sentence says and nothing else, so that a typing error is a fault and not another number.

use jiff::Timestamp;

use crate::limits::{MAX_DECIMAL_CHARS, MAX_NAME_CHARS, MAX_REPLICAS, MAX_TIME_CHARS};

/// A non-negative decimal without sign or exponent, such as `99` or `0.096`.
#[must_use]
pub fn decimal(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let shaped = text.len() <= MAX_DECIMAL_CHARS && are_digits(whole) && are_digits(fraction);
    if shaped { text.parse().ok() } else { None }
}

/// A non-negative Kubernetes quantity, such as `0.05`, `50m` or `5e-2`.
#[must_use]
pub fn quantity(text: &str) -> Option<f64> {
    const SUFFIXES: [(&str, f64); 15] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", 1_152_921_504_606_846_976.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    if MAX_DECIMAL_CHARS < text.len() {
        return None;
    }
    for (suffix, factor) in SUFFIXES {
        if let Some(number) = text.strip_suffix(suffix) {
            return quantity_number(number).map(|number| number * factor);
        }
    }
    match text.split_once(['e', 'E']) {
        None => quantity_number(text),
        Some((number, exponent)) => {
            // Longer exponents leave what a quantity can hold.
            const MAX_EXPONENT_DIGITS: usize = 2;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if !are_digits(digits) || MAX_EXPONENT_DIGITS < digits.len() {
                return None;
            }
            let exponent: i32 = exponent.parse().ok()?;
            quantity_number(number).map(|number| number * 10f64.powi(exponent))
        }
    }
}

/// Quantities may leave out the digits on one side of the point, and carry a plus.
fn quantity_number(text: &str) -> Option<f64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let only_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let some = !whole.is_empty() || !fraction.is_empty();
    if some && only_digits(whole) && only_digits(fraction) {
        format!("0{whole}.{fraction}0").parse().ok()
    } else {
        None
    }
}

/// A point in time as RFC 3339 writes it, with seconds and an offset: `2027-01-01T00:00:00Z`.
#[must_use]
pub fn time(text: &str) -> Option<Timestamp> {
    const SHAPE: &[u8] = b"dddd-dd-ddTdd:dd:dd";
    let bytes = text.as_bytes();
    if MAX_TIME_CHARS < bytes.len() || bytes.len() <= SHAPE.len() || !has_shape(&bytes[..SHAPE.len()], SHAPE)
    {
        return None;
    }
    let mut rest = &bytes[SHAPE.len()..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || 9 < digits {
            return None;
        }
        rest = &fraction[digits..];
    }
    let offset = rest == b"Z" || has_shape(rest, b"+dd:dd") || has_shape(rest, b"-dd:dd");
    if offset { text.parse().ok() } else { None }
}

/// `d` stands for a digit, anything else for itself.
fn has_shape(bytes: &[u8], shape: &[u8]) -> bool {
    bytes.len() == shape.len()
        && bytes.iter().zip(shape).all(|(byte, shape)| match shape {
            b'd' => byte.is_ascii_digit(),
            other => byte == other,
        })
}

/// `true` or `false`, nothing else: `True`, `yes` and `1` mean different things to different tools.
#[must_use]
pub fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// A replica count: digits without sign or leading zero, at most [`MAX_REPLICAS`].
#[must_use]
pub fn replicas(text: &str) -> Option<u32> {
    let shaped = are_digits(text) && (text == "0" || !text.starts_with('0'));
    let count: u32 = if shaped { text.parse().ok()? } else { return None };
    (count <= MAX_REPLICAS.unsigned_abs()).then_some(count)
}

/// The name of a source or a model: 1 to 63 of a-z, 0-9, `-` and `.`, beginning and ending with a letter or digit.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends = bytes.first().copied().is_some_and(outer) && bytes.last().copied().is_some_and(outer);
    ends && bytes.len() <= MAX_NAME_CHARS && bytes.iter().copied().all(inner)
}

fn are_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_decimal_has_no_sign_and_no_exponent() {
        for (text, value) in [
            ("99", Some(99.0)),
            ("99.5", Some(99.5)),
            ("0.096", Some(0.096)),
            ("0", Some(0.0)),
            ("", None),
            (".5", None),
            ("5.", None),
            ("-1", None),
            ("+1", None),
            ("1e2", None),
            ("1.2.3", None),
            ("NaN", None),
            ("inf", None),
            (" 1", None),
            ("1,5", None),
            ("1234567890123456789012345", None),
        ] {
            assert_eq!(decimal(text), value, "{text}");
        }
    }

    #[test]
    fn a_quantity_is_read_as_kubernetes_reads_it() {
        for (text, value) in [
            ("0", Some(0.0)),
            ("0.05", Some(0.05)),
            (".05", Some(0.05)),
            ("5.", Some(5.0)),
            ("50m", Some(0.05)),
            ("5e-2", Some(0.05)),
            ("1E2", Some(100.0)),
            ("1k", Some(1000.0)),
            ("1Ki", Some(1024.0)),
            ("1E", Some(1e18)),
            ("+0.1", Some(0.1)),
            ("-0.1", None),
            ("10%", None),
            ("", None),
            (".", None),
            ("m", None),
            ("1e999", None),
            ("NaN", None),
        ] {
            let parsed = quantity(text);
            let equal = match (parsed, value) {
                (Some(parsed), Some(value)) => (parsed - value).abs() <= 1e-12 * value.abs(),
                (None, None) => true,
                _ => false,
            };
            assert!(equal, "{text}: {parsed:?}");
        }
    }

    #[test]
    fn a_time_is_rfc_3339_with_seconds_and_offset() {
        for (text, secs) in [
            ("1970-01-01T00:00:10Z", Some(10)),
            ("1970-01-01T01:00:10+01:00", Some(10)),
            ("1970-01-01T00:00:10.5Z", Some(10)),
            ("1970-01-01T00:00:10", None),
            ("1970-01-01T00:00Z", None),
            ("1970-01-01", None),
            ("1970-01-01 00:00:10Z", None),
            ("1970-01-01T00:00:10z", None),
            ("1970-13-01T00:00:10Z", None),
            ("1970-01-01T00:00:10+01:00[Europe/Paris]", None),
            ("1970-01-01T00:00:10.Z", None),
            ("tomorrow", None),
            ("", None),
        ] {
            assert_eq!(time(text).map(Timestamp::as_second), secs, "{text}");
        }
    }

    #[test]
    fn a_replica_count_is_plain_digits_within_the_limit() {
        for (text, value) in [
            ("0", Some(0)),
            ("12", Some(12)),
            ("100000", Some(100_000)),
            ("100001", None),
            ("99999999999999999999", None),
            ("012", None),
            ("-1", None),
            ("+1", None),
            ("12.0", None),
            ("1e1", None),
            (" 12", None),
            ("", None),
            ("١٢", None),
        ] {
            assert_eq!(replicas(text), value, "{text}");
        }
    }

    #[test]
    fn a_name_is_no_url() {
        for (text, valid) in [
            ("default", true),
            ("eu-1.prod", true),
            ("a", true),
            ("http://prometheus:9090", false),
            ("prometheus:9090", false),
            ("Default", false),
            ("-a", false),
            ("a-", false),
            ("", false),
        ] {
            assert_eq!(is_name(text), valid, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in ".*") {
            let _ = (decimal(&text), quantity(&text), time(&text), boolean(&text), replicas(&text), is_name(&text));
        }

        #[test]
        fn what_is_parsed_is_finite_and_not_negative(text in "[0-9.eEmkKin+-]{0,24}") {
            for value in [decimal(&text), quantity(&text)].into_iter().flatten() {
                prop_assert!(value.is_finite() && 0.0 <= value);
            }
        }
    }
}
