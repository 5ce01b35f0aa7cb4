//! From answer to signal, as tables.

use super::*;
use crate::fault::FaultClass;

const NOW: i64 = 1_800_000_000;

fn number(raw: &str) -> Result<Number, ReadFault> {
    let value = crate::wire::NumberText(raw.to_owned()).finite()?;
    Ok(Number { value, raw: raw.to_owned(), evaluated_secs: NOW as f64, warnings: Vec::new(), partial: None })
}

fn judged(
    name: SignalName,
    change: impl Fn(&mut QueryRequest),
    answer: Result<Number, ReadFault>,
    age: Result<Age, ReadFault>,
) -> Outcome {
    let mut query = QueryRequest::new("default", "q");
    change(&mut query);
    Outcome {
        name,
        query: query.query.clone(),
        unit: unit_name(name, query.unit),
        raw: answer.as_ref().ok().map(|number| number.raw.clone()),
        max_age_secs: query.max_age_secs,
        partial: None,
        read: judge(&query, name, answer, age),
        hints: Vec::new(),
    }
}

fn plain(name: SignalName, raw: &str) -> Outcome {
    judged(name, |_| {}, number(raw), Ok(Age::Unknown))
}

fn aged(secs: f64) -> Result<Age, ReadFault> {
    let newest = Number { value: NOW as f64 - secs, ..number("0").unwrap() };
    age_by(&newest)
}

fn state(outcome: &Outcome) -> State {
    outcome.signal().1
}

// Cases 6 and 9.
#[test]
fn no_number_that_cannot_be_is_acted_on() {
    for (name, raw, expected) in [
        (SignalName::Qps, "120", State::Fresh),
        (SignalName::Qps, "-0.001", State::Invalid),
        (SignalName::Qps, "-0", State::Fresh),
        (SignalName::Qps, "NaN", State::Invalid),
        (SignalName::Qps, "+Inf", State::Invalid),
        (SignalName::Latency, "-1", State::Invalid),
        (SignalName::Sla, "0", State::Fresh),
        (SignalName::Sla, "1", State::Fresh),
        (SignalName::Sla, "1.005", State::Fresh),
        (SignalName::Sla, "1.02", State::Invalid),
        (SignalName::Sla, "99.5", State::Invalid),
        (SignalName::Errors, "2", State::Invalid),
        (SignalName::Price, "-0.1", State::Invalid),
    ] {
        assert_eq!(state(&plain(name, raw)), expected, "{name} {raw}");
    }
    assert_eq!(plain(SignalName::Sla, "1.005").signal().0.usable(), Some(1.0));
    let percent = plain(SignalName::Sla, "99.5").signal_and_detail().1;
    assert!(percent.why.unwrap().contains("looks like a percentage"));
}

// Cases 4 and 5.
#[test]
fn an_empty_answer_is_missing_unless_the_policy_says_that_it_is_zero() {
    let missing = judged(SignalName::Qps, |_| {}, Err(ReadFault::Empty), Ok(Age::Unknown));
    assert_eq!(missing.signal(), (Signal::Missing, State::Missing));
    let zero = judged(
        SignalName::Qps,
        |q| q.on_empty = OnEmpty::Zero,
        Err(ReadFault::Empty),
        Ok(Age::BeyondLookback),
    );
    let (signal, detail) = zero.signal_and_detail();
    assert_eq!(signal.usable(), Some(0.0));
    assert!(detail.why.unwrap().contains("onEmpty"));
    let down = ReadFault::TimedOut { secs: 5.0 };
    let down = judged(SignalName::Qps, |q| q.on_empty = OnEmpty::Zero, Err(down), Ok(Age::Unknown));
    assert_eq!(down.signal().0, Signal::Missing, "a source that is down is not an empty answer");
}

// Cases 15 and 18.
#[test]
fn a_sample_is_fresh_up_to_its_age_limit_and_stale_above() {
    for (secs, expected) in
        [(0.0, State::Fresh), (60.0, State::Fresh), (60.1, State::Stale), (-2.0, State::Fresh)]
    {
        let outcome = judged(SignalName::Qps, |_| {}, number("1"), aged(secs));
        assert_eq!(state(&outcome), expected, "{secs}");
    }
    let (signal, detail) = judged(SignalName::Qps, |_| {}, number("1"), aged(300.0)).signal_and_detail();
    assert_eq!(signal, Signal::Stale(Reading { value: 1.0, age_secs: Some(300.0) }));
    assert_eq!(detail.sample_time, timestamp(NOW as f64 - 300.0));
    assert!(detail.why.unwrap().contains("300 s old, the limit is 60 s"));
}

#[test]
fn a_sample_from_the_future_is_invalid_and_an_unreadable_age_is_missing() {
    let future = judged(SignalName::Qps, |_| {}, number("1"), aged(-2.1));
    assert_eq!(state(&future), State::Invalid);
    let unreadable = judged(SignalName::Qps, |_| {}, number("1"), Err(ReadFault::TimedOut { secs: 5.0 }));
    let (signal, detail) = unreadable.signal_and_detail();
    assert_eq!((signal, detail.fault), (Signal::Missing, Some(FaultClass::Transient)));
    assert_eq!(detail.value.as_deref(), Some("1"), "what was read is still shown");
}

#[test]
fn a_freshness_query_without_a_sample_makes_the_value_stale() {
    let outcome = judged(SignalName::Qps, |_| {}, number("1"), Ok(Age::BeyondLookback));
    assert_eq!(outcome.signal().0, Signal::Stale(Reading { value: 1.0, age_secs: None }));
}

#[test]
fn without_a_freshness_query_no_age_and_no_time_is_claimed() {
    let (signal, detail) = plain(SignalName::Qps, "1").signal_and_detail();
    assert_eq!(signal, Signal::Fresh(Reading { value: 1.0, age_secs: None }));
    assert_eq!(detail.sample_time, None);
}

#[test]
fn milliseconds_are_converted_and_shown_as_they_came() {
    let outcome =
        judged(SignalName::Latency, |q| q.unit = Unit::Milliseconds, number("250"), Ok(Age::Unknown));
    let (signal, detail) = outcome.signal_and_detail();
    assert_eq!(signal.usable(), Some(0.25));
    assert_eq!((detail.value.as_deref(), detail.unit), (Some("250"), "milliseconds"));
}

// Case 9.
#[test]
fn a_negative_number_is_told_of_signal_by_signal() {
    let names = [SignalName::Qps, SignalName::Latency, SignalName::Sla, SignalName::Errors];
    let told = report(names.map(|name| plain(name, "-3")).to_vec(), 0.25).hints;
    let about: Vec<_> = told.iter().map(|hint| (hint.code(), hint.about())).collect();
    assert_eq!(about, ["qps", "latency", "sla", "errors"].map(|name| ("SignalNegative", name)));
    assert!(told[1].to_string().starts_with("latency is negative (-3)"), "{}", told[1]);
    let price = report(vec![plain(SignalName::Price, "-3"), plain(SignalName::Qps, "3")], 0.25);
    assert_eq!(price.hints, [], "a price has a hint of its own");
    let idle = report(vec![plain(SignalName::Qps, "0"), plain(SignalName::Latency, "-3")], 0.25);
    assert_eq!(idle.hints, [], "nothing is measured while nothing arrives");
}

#[test]
fn a_latency_that_looks_like_milliseconds_is_told_of_and_not_changed() {
    for (raw, told) in [("74.9", false), ("75", true), ("250", true)] {
        let report = report(vec![plain(SignalName::Latency, raw)], 0.25);
        assert_eq!(report.hints.iter().any(|hint| hint.code() == "LatencyUnitLooksWrong"), told, "{raw}");
        assert_eq!(report.signals.latency.usable(), raw.parse().ok());
    }
}

#[test]
fn a_fresh_qps_of_zero_makes_the_ratios_not_applicable() {
    let others = || {
        vec![
            plain(SignalName::Latency, "NaN"),
            plain(SignalName::Sla, "NaN"),
            plain(SignalName::Errors, "NaN"),
        ]
    };
    let with = |qps: Outcome| {
        let mut all = vec![qps];
        all.extend(others());
        report(all, 0.25)
    };
    for raw in ["0", "0.0009"] {
        let idle = with(plain(SignalName::Qps, raw));
        assert_eq!(idle.signals.latency, Signal::NotApplicable);
        assert_eq!(idle.signals.sla, Signal::NotApplicable);
        assert_eq!(idle.signals.errors, Signal::NotApplicable);
        assert!(
            idle.details[1..]
                .iter()
                .all(|detail| detail.state == State::NotApplicable && detail.fault.is_none())
        );
    }
    assert_eq!(with(plain(SignalName::Qps, "0.001")).signals.latency, Signal::Invalid);
}

// Case 2's neighbour: a zero nobody can vouch for is not idleness.
#[test]
fn a_stale_or_missing_qps_does_not_make_anything_not_applicable() {
    let stale = judged(SignalName::Qps, |_| {}, number("0"), aged(300.0));
    let missing = judged(SignalName::Qps, |_| {}, Err(ReadFault::Empty), Ok(Age::Unknown));
    for qps in [stale, missing] {
        let report = report(vec![qps, plain(SignalName::Latency, "NaN")], 0.25);
        assert_eq!(report.signals.latency, Signal::Invalid);
    }
    assert_eq!(report(vec![plain(SignalName::Latency, "NaN")], 0.25).signals.latency, Signal::Invalid);
}

#[test]
fn a_clock_that_is_off_is_told_of_once_for_each_source() {
    let now = Timestamp::from_second(NOW).unwrap();
    let skew = |secs: f64| hints(SignalName::Qps, "default", NOW as f64 + secs, &[], now);
    assert!(skew(15.0).is_empty() && skew(-15.0).is_empty());
    assert_eq!(skew(16.0)[0].to_string(), "the clock of source default is 16 s ahead of the operator's");
    assert_eq!(skew(-3600.0)[0].to_string(), "the clock of source default is 3600 s behind the operator's");
    let mut one = plain(SignalName::Qps, "1");
    one.hints = skew(16.0);
    let mut other = plain(SignalName::Latency, "0.1");
    other.hints = skew(16.2);
    assert_eq!(report(vec![one, other], 0.25).hints.len(), 1);
}

#[test]
fn numbers_of_ours_are_short() {
    for (value, text) in
        [(0.0, "0"), (1.0, "1"), (0.25, "0.25"), (1.0 / 3.0, "0.333333"), (100.0, "100"), (1e-9, "0")]
    {
        assert_eq!(shown(value), text);
    }
}
