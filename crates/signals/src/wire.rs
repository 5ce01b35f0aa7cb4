//! The bodies of Prometheus' HTTP API, version 1. In: bytes from anywhere. Out: series of numbers, or a fault. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::fault::{ReadFault, printable};
use crate::http::Answer;

/// Most series accepted in one answer.
pub(crate) const MAX_SERIES: usize = 1_000;
/// Most warnings of a source that are passed on.
const MAX_WARNINGS: usize = 3;
/// How warnings about the query itself begin. All others say that a part of the data could not be had: Thanos and
/// Prometheus' remote read answer with what is left.
const OF_THE_QUERY: &str = "PromQL ";

/// What a query returned.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Returned {
    pub(crate) data: Data,
    pub(crate) warnings: Vec<String>,
    /// Why the answer is of a part of the data only, where the source says so.
    pub(crate) partial: Option<String>,
}

/// By `resultType`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
pub(crate) enum Data {
    Scalar(Point),
    String(Point),
    Vector(Vec<Sample>),
    Matrix(Vec<Series>),
}

/// One element of a vector.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Sample {
    #[serde(default)]
    pub(crate) metric: BTreeMap<String, String>,
    /// Absent for a native histogram.
    pub(crate) value: Option<Point>,
}

/// One element of a matrix.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Series {
    #[serde(default)]
    pub(crate) metric: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) values: Vec<Point>,
}

/// Time in seconds and the number as text.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Point(pub(crate) f64, pub(crate) NumberText);

/// A number as Prometheus writes it: a string. Backends that write a bare JSON number are understood too.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "TextOrNumber")]
pub(crate) struct NumberText(pub(crate) String);

#[derive(Deserialize)]
#[serde(untagged)]
enum TextOrNumber {
    Text(String),
    Number(serde_json::Number),
}

impl From<TextOrNumber> for NumberText {
    fn from(value: TextOrNumber) -> Self {
        match value {
            TextOrNumber::Text(text) => Self(text),
            TextOrNumber::Number(number) => Self(number.to_string()),
        }
    }
}

impl NumberText {
    /// A finite number. Signs are the caller's affair.
    pub(crate) fn finite(&self) -> Result<f64, ReadFault> {
        let raw = || printable(&self.0);
        let value: f64 = self.0.trim().parse().map_err(|_| ReadFault::NotNumeric { raw: raw() })?;
        if value.is_nan() {
            return Err(ReadFault::NotANumber);
        }
        if value.is_infinite() {
            return Err(ReadFault::Infinite { raw: raw() });
        }
        Ok(value)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    status: String,
    // `data` is looked at only when `status` is success; an error's may have any form.
    data: Option<serde_json::Value>,
    error_type: Option<String>,
    error: Option<String>,
    #[serde(default)]
    warnings: Option<Vec<String>>,
    /// VictoriaMetrics: some storage nodes did not answer.
    #[serde(default)]
    is_partial: Option<bool>,
}

/// Reads an answer of `query` or `query_range`.
pub(crate) fn parse(answer: &Answer) -> Result<Returned, ReadFault> {
    let Answer { status, body } = answer;
    let envelope: Envelope = match serde_json::from_slice(body) {
        Ok(envelope) => envelope,
        Err(_) if !(200..300).contains(status) => {
            return Err(ReadFault::HttpStatus { status: *status, text: beginning(body) });
        }
        Err(error) if error.is_eof() && !body.is_empty() => {
            return Err(ReadFault::Truncated { bytes: body.len() });
        }
        Err(error) => return Err(not_prometheus(&error.to_string(), body)),
    };
    if envelope.status != "success" {
        let kind = printable(envelope.error_type.as_deref().unwrap_or("no errorType"));
        let text = printable(envelope.error.as_deref().unwrap_or("no error text"));
        return Err(ReadFault::Refused { kind, text });
    }
    if !(200..300).contains(status) {
        return Err(ReadFault::HttpStatus { status: *status, text: beginning(body) });
    }
    let data = envelope.data.ok_or_else(|| not_prometheus("no data", body))?;
    let data: Data =
        serde_json::from_value(data).map_err(|error| not_prometheus(&error.to_string(), body))?;
    let series = match &data {
        Data::Vector(samples) => samples.len(),
        Data::Matrix(series) => series.len(),
        Data::Scalar(_) | Data::String(_) => 1,
    };
    if MAX_SERIES < series {
        return Err(ReadFault::TooManySeries { series, limit: MAX_SERIES });
    }
    let warnings = envelope.warnings.unwrap_or_default();
    let mut warnings: Vec<String> = warnings.iter().take(MAX_WARNINGS).map(|text| printable(text)).collect();
    if envelope.is_partial == Some(true) {
        warnings.insert(0, "some of its storage did not answer (isPartial)".to_owned());
    }
    let partial = warnings.iter().find(|text| !text.starts_with(OF_THE_QUERY)).cloned();
    Ok(Returned { data, warnings, partial })
}

fn not_prometheus(why: &str, body: &[u8]) -> ReadFault {
    ReadFault::NotPrometheus { why: printable(why), begins: beginning(body) }
}

fn beginning(body: &[u8]) -> String {
    const SHOWN_BYTES: usize = 400;
    let text = printable(&String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES)]));
    if text.is_empty() { "(nothing)".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse_text(status: u16, body: &str) -> Result<Returned, ReadFault> {
        parse(&Answer { status, body: body.as_bytes().to_vec() })
    }

    fn check_fault(status: u16, body: &str, expected: &str) {
        let message = parse_text(status, body).unwrap_err().to_string();
        assert!(message.contains(expected), "{}\n gave: {message}\n not: {expected}", printable(body));
    }

    #[test]
    fn every_answer_that_is_not_prometheus_says_what_it_is() {
        check_fault(200, "", "begins: (nothing)");
        check_fault(200, "<html>Sign in</html>", "begins: <html>Sign in</html>");
        check_fault(502, "<html>bad gateway</html>", "HTTP 502: <html>bad gateway</html>");
        check_fault(404, "404 page not found\n", "HTTP 404: 404 page not found");
        check_fault(200, "null", "not Prometheus'");
        check_fault(200, "[]", "not Prometheus'");
        check_fault(200, "{}", "missing field `status`");
        check_fault(200, r#"{"status":"success"}"#, "no data");
        check_fault(200, r#"{"status":"success","data":null}"#, "no data");
        check_fault(200, r#"{"status":"success","data":[]}"#, "not Prometheus'");
        check_fault(200, r#"{"status":"success","data":{"resultType":"tensor","result":[]}}"#, "tensor");
        check_fault(
            200,
            r#"{"status":"success","data":{"resultType":"vector","result":{}}}"#,
            "not Prometheus'",
        );
        check_fault(200, r#"{"status":"success","data":{"resultType":"vec"#, "broke off after 45 bytes");
        let deep = "[".repeat(100_000);
        check_fault(200, &format!(r#"{{"status":"success","data":{deep}"#), "recursion limit");
        check_fault(503, r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#, "HTTP 503");
    }

    #[test]
    fn an_error_answer_carries_the_text_of_the_source_on_one_line() {
        let body = r#"{"status":"error","errorType":"bad_data","error":"1:5: parse\n error\u001b[31m"}"#;
        let fault = parse_text(400, body).unwrap_err();
        assert_eq!(
            fault,
            ReadFault::Refused { kind: "bad_data".into(), text: "1:5: parse  error [31m".into() }
        );
        check_fault(
            422,
            r#"{"status":"error","errorType":"execution","error":"many-to-many"}"#,
            "many-to-many",
        );
        check_fault(200, r#"{"status":"error"}"#, "no error text");
    }

    #[test]
    fn a_series_too_many_is_refused() {
        let body = |n| {
            let sample = r#"{"metric":{},"value":[1,"2"]}"#;
            format!(
                r#"{{"status":"success","data":{{"resultType":"vector","result":[{}]}}}}"#,
                vec![sample; n].join(",")
            )
        };
        assert!(parse_text(200, &body(MAX_SERIES)).is_ok());
        check_fault(200, &body(MAX_SERIES + 1), "1001 series, more than the 1000 accepted");
    }

    #[test]
    fn warnings_are_passed_on_but_not_without_end() {
        let body = r#"{"status":"success","warnings":["a","b","c","d"],"infos":["x"],
                       "data":{"result":[1.5,"7"],"resultType":"scalar"}}"#;
        let returned = parse_text(200, body).unwrap();
        assert_eq!(returned.warnings, ["a", "b", "c"]);
        assert_eq!(returned.data, Data::Scalar(Point(1.5, NumberText("7".into()))));
    }

    #[test]
    fn numbers_are_read_from_text_and_everything_else_is_named() {
        let finite = |text: &str| NumberText(text.to_owned()).finite();
        for (text, value) in [("0", 0.0), ("-0", 0.0), ("1e3", 1000.0), ("-2.5", -2.5), ("0.1", 0.1)] {
            assert_eq!(finite(text), Ok(value), "{text}");
        }
        assert_eq!(finite("NaN"), Err(ReadFault::NotANumber));
        for text in ["+Inf", "-Inf", "Inf", "1e999"] {
            assert_eq!(finite(text), Err(ReadFault::Infinite { raw: text.into() }));
        }
        for text in ["", "1,5", "0x10", "twelve", "1 2"] {
            assert_eq!(finite(text), Err(ReadFault::NotNumeric { raw: text.into() }));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(status in 100u16..600, body in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&Answer { status, body });
        }

        #[test]
        fn arbitrary_json_in_the_envelope_never_panics(kind in "vector|matrix|scalar|string|x", result in "[\\[\\]{},:\"0-9a-z.]{0,60}") {
            let body = format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":{result}}}}}"#);
            let _ = parse(&Answer { status: 200, body: body.into_bytes() });
        }
    }
}
