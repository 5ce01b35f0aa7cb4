//! The queries made for a histogram, and what is computed from its buckets.

use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::request::{DEFAULT_MAX_AGE_SECS, OnEmpty};

fn request(metric: &str, matchers: &str) -> HistogramRequest {
    HistogramRequest {
        source: "default".into(),
        metric: metric.into(),
        matchers: matchers.into(),
        window_secs: 60,
        unit: Unit::Native,
        on_empty: OnEmpty::Error,
        max_age_secs: DEFAULT_MAX_AGE_SECS,
    }
}

#[test]
fn queries_are_made_from_the_base_name_or_the_buckets_name() {
    let shown = |metric, matchers| match queries(&request(metric, matchers)) {
        Ok(HistogramQueries { buckets, freshness }) => format!("{buckets}\n{freshness}\n"),
        Err(fault) => format!("refused: {fault}\n"),
    };
    let cases = [
        shown("http_request_duration_seconds", r#"app="web""#),
        shown("http_request_duration_seconds_bucket", ""),
        shown("job:latency_seconds", r#"app="web",code!~"5..", path=~'/a\\d+',"#),
    ];
    assert_snapshot!(cases.join("\n"), @r#"
    sum by (le) (rate(http_request_duration_seconds_bucket{app="web"}[1m]))
    max(timestamp(http_request_duration_seconds_count{app="web"}))

    sum by (le) (rate(http_request_duration_seconds_bucket[1m]))
    max(timestamp(http_request_duration_seconds_count))

    sum by (le) (rate(job:latency_seconds_bucket{app="web",code!~"5..",path=~"/a\\d+"}[1m]))
    max(timestamp(job:latency_seconds_count{app="web",code!~"5..",path=~"/a\\d+"}))
    "#);
}

#[test]
fn matchers_can_only_be_matchers() {
    for matchers in [
        r#"app="web"} or secret{a="b""#,
        r#"app="web"}[5m]"#,
        r#"app="web"} offset 5m #"#,
        r#"app="web"} @ 0 #"#,
        r#"app="web"}) or sum(secret{a="b""#,
        r#"app="web" or app="other""#,
        r#"__name__="secret""#,
        r#"le="0.1""#,
        "app",
        "app=web",
        "}",
        "{",
        "app=\"web",
    ] {
        let refused = queries(&request("latency_seconds", matchers));
        assert!(matches!(refused, Err(ReadFault::BadQuery { .. })), "{matchers} gave {refused:?}");
    }
    for metric in ["", "1a", "a b", "a{b}", "a-b", ":a", "a\"", "sum(a)"] {
        let refused = queries(&request(metric, ""));
        assert!(matches!(refused, Err(ReadFault::BadQuery { .. })), "{metric} gave {refused:?}");
    }
}

#[test]
fn the_window_is_bounded() {
    let with = |window_secs| queries(&HistogramRequest { window_secs, ..request("a", "") });
    assert!(with(0).is_err());
    assert!(with(1).is_ok());
    assert!(with(MAX_WINDOW_SECS).is_ok());
    assert!(with(MAX_WINDOW_SECS + 1).is_err());
}

#[test]
fn narrowed_queries_quote_their_bounds() {
    assert_snapshot!(
        narrowed(&request("a", r#"app="web""#), &["0.25", "1e-05", "+Inf"]).unwrap(),
        @r#"sum by (le) (rate(a_bucket{app="web",le=~"0\\.25|1e\\-05|\\+Inf"}[1m]))"#
    );
}

fn web() -> Buckets {
    Buckets::new(vec![(0.1, 50.0), (0.25, 90.0), (0.5, 98.0), (f64::INFINITY, 100.0)]).unwrap()
}

#[test]
fn the_rate_of_all_requests_is_the_last_bucket() {
    assert_eq!(web().total(), 100.0);
}

#[test]
fn quantiles_are_interpolated_within_their_bucket() {
    let check = |quantile, expected: f64| {
        let value = web().quantile(quantile).unwrap();
        assert!((value - expected).abs() < 1e-12, "{quantile} gave {value}, not {expected}");
    };
    check(0.5, 0.1);
    check(0.25, 0.05);
    check(0.9, 0.25);
    check(0.95, 0.25 + 0.25 * 5.0 / 8.0);
    check(0.98, 0.5);
}

#[test]
fn a_quantile_above_the_largest_finite_bucket_is_no_number() {
    let fault = web().quantile(0.99).unwrap_err();
    assert!(
        fault.to_string().contains("the percentile 99 lies above the largest finite bucket (0.5 s)"),
        "{fault}"
    );
    assert_eq!(fault.state(), crate::State::Invalid);
}

#[test]
fn a_target_on_a_bucket_is_exact_and_one_between_says_that_it_is_interpolated() {
    assert_eq!(web().within(0.25), Ok(Within { ratio: 0.9, between: None }));
    assert_eq!(web().within(250.0 / 1000.0 + 1e-16), Ok(Within { ratio: 0.9, between: None }));
    assert_eq!(web().within(0.375), Ok(Within { ratio: 0.94, between: Some((0.25, 0.5)) }));
    assert_eq!(web().within(0.05), Ok(Within { ratio: 0.25, between: Some((0.0, 0.1)) }));
}

#[test]
fn a_target_above_the_largest_finite_bucket_is_invalid_even_if_nobody_was_slow() {
    let fast = Buckets::new(vec![(0.1, 10.0), (f64::INFINITY, 10.0)]).unwrap();
    for buckets in [web(), fast] {
        assert!(matches!(buckets.within(0.6), Err(ReadFault::AboveLargestBucket { .. })));
    }
}

#[test]
fn nothing_is_said_of_latency_when_nothing_was_asked() {
    let idle = Buckets::new(vec![(0.1, 0.0), (f64::INFINITY, 0.0)]).unwrap();
    assert_eq!(idle.total(), 0.0);
    assert_eq!(idle.quantile(0.95), Err(ReadFault::NotANumber));
    assert_eq!(idle.within(0.1), Err(ReadFault::NotANumber));
}

#[test]
fn buckets_that_are_none_are_refused() {
    let refused = |cumulative: &[(f64, f64)]| Buckets::new(cumulative.to_vec()).unwrap_err().state();
    assert_eq!(refused(&[]), crate::State::Invalid);
    assert_eq!(refused(&[(0.1, 1.0)]), crate::State::Invalid);
    assert_eq!(refused(&[(f64::INFINITY, 1.0)]), crate::State::Invalid);
    assert_eq!(refused(&[(f64::NAN, 1.0), (f64::INFINITY, 1.0)]), crate::State::Invalid);
    assert_eq!(refused(&[(0.1, -1.0), (f64::INFINITY, 1.0)]), crate::State::Invalid);
    assert_eq!(refused(&[(0.1, f64::NAN), (f64::INFINITY, 1.0)]), crate::State::Invalid);
}

#[test]
fn bounds_in_milliseconds_are_read_as_such() {
    assert_eq!(parse_bound("250", Unit::Milliseconds), Ok(0.25));
    assert_eq!(parse_bound("+Inf", Unit::Milliseconds), Ok(f64::INFINITY));
    assert!(parse_bound("", Unit::Native).is_err());
}

proptest! {
    #[test]
    fn shares_and_quantiles_stay_in_their_range(
        rates in proptest::collection::vec(0.0f64..1e6, 2..20),
        quantile in 0.001f64..0.999,
        target in 0.0f64..30.0,
    ) {
        let last = rates.len() - 1;
        let bound = |index| if index == last { f64::INFINITY } else { (index as f64).mul_add(1.5, -1.0) };
        let buckets = Buckets::new(rates.iter().enumerate().map(|(i, rate)| (bound(i), *rate)).collect()).unwrap();
        if let Ok(within) = buckets.within(target) {
            prop_assert!((0.0..=1.0).contains(&within.ratio), "{}", within.ratio);
        }
        if let Ok(latency) = buckets.quantile(quantile) {
            prop_assert!(0.0 <= latency && latency.is_finite());
            prop_assert!(latency <= buckets.quantile((quantile + 0.0005).min(0.9999)).unwrap_or(f64::INFINITY) + 1e-9);
        }
    }
}

// prometheus-community/helm-charts#5274: Prometheus 3 writes `1.0` where others write `1`.
#[test]
fn a_bound_written_in_two_ways_is_one_bucket() {
    let one = Buckets::new(vec![(0.5, 50.0), (1.0, 60.0), (f64::INFINITY, 100.0)]).unwrap();
    let parts =
        [(1.0, 25.0), (f64::INFINITY, 30.0), (0.5, 20.0), (1.0, 35.0), (0.5, 30.0), (f64::INFINITY, 70.0)];
    assert_eq!(Buckets::new(parts.to_vec()).unwrap(), one);
    assert_eq!(one.within(1.0).unwrap().ratio, 0.6);
}
