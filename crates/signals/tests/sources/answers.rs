//! What becomes of good answers, and of those that are none.

use axum::body::Body;
use axum::http::Response;
use rlscaler_core::observation::{Reading, Signal};
use rlscaler_signals::{
    Hint, HistoryWindow, OnEmpty, PriceRequest, QueryRequest, ReadSignals, SignalName, SignalRequest, State,
};

use crate::script::*;

/// 100 requests/s, 90 within 250 ms; the newest sample is `age` old.
fn web(asked: &Asked, age: i64) -> Response<Body> {
    if asked.query().contains("timestamp") {
        number(&(NOW - age).to_string())
    } else {
        vector(&[("0.1", "50"), ("0.25", "90"), ("0.5", "98"), ("+Inf", "100")])
    }
}

#[tokio::test]
async fn one_histogram_gives_qps_latency_and_sla_with_their_age() {
    let script = Script::start(|asked| web(asked, 12)).await;
    let report = read(&sources(vec![script.source("default")]), &histogram()).await;
    let fresh = |value| Signal::Fresh(Reading { value, age_secs: Some(12.0) });
    assert_eq!(report.signals.qps, fresh(100.0));
    assert_eq!(report.signals.latency, fresh(0.25 + 0.25 * 5.0 / 8.0));
    assert_eq!(report.signals.sla, fresh(0.9));
    assert_eq!(report.signals.cpu, Signal::NotDeclared);
    assert_eq!(report.hints, []);
    let paths: Vec<_> = script.asked().iter().map(|asked| asked.path.clone()).collect();
    assert_eq!(
        paths,
        ["/api/v1/query", "/api/v1/query"],
        "one query and its freshness, so that the three agree"
    );
}

// Cases 18 and 19: the query run by hand gives the value that is shown, and its time is known.
#[tokio::test]
async fn status_gets_the_exact_query_the_raw_value_and_the_sample_time() {
    let script = Script::start(|asked| web(asked, 12)).await;
    let report = read(&sources(vec![script.source("default")]), &histogram()).await;
    let buckets = r#"sum by (le) (rate(http_request_duration_seconds_bucket{app="web"}[1m]))"#;
    let shown: Vec<_> = report
        .details
        .iter()
        .map(|d| (d.name.as_str(), d.value.as_deref().unwrap(), d.query.clone()))
        .collect();
    assert_eq!(shown[0], ("qps", "100", format!("max({buckets})")));
    assert_eq!(shown[1], ("latency", "0.40625", format!("histogram_quantile(0.95, {buckets})")));
    assert_eq!(shown[2], ("sla", "0.9", buckets.to_owned()));
    assert!(report.details.iter().all(|detail| detail.sample_time.unwrap().as_second() == NOW - 12));
}

#[tokio::test]
async fn an_old_histogram_is_stale_in_all_three() {
    let script = Script::start(|asked| web(asked, 300)).await;
    let report = read(&sources(vec![script.source("default")]), &histogram()).await;
    assert!(report.details.iter().all(|detail| detail.state == State::Stale), "{:?}", report.details);
}

#[tokio::test]
async fn an_idle_service_has_a_rate_and_nothing_else() {
    let script = Script::start(|asked| match asked.query().contains("timestamp") {
        true => number(&NOW.to_string()),
        false => vector(&[("0.1", "0"), ("0.25", "0"), ("+Inf", "0")]),
    })
    .await;
    let report = read(&sources(vec![script.source("default")]), &histogram()).await;
    assert_eq!(report.signals.qps.usable(), Some(0.0));
    assert_eq!(report.signals.latency, Signal::NotApplicable);
    assert_eq!(report.signals.sla, Signal::NotApplicable);
}

// Case 1: one signal is lost, the others are as good as ever.
#[tokio::test]
async fn one_missing_signal_leaves_the_others_alone() {
    let script = Script::start(|asked| match asked.query() {
        "slow" => number("0.9"),
        _ => vector(&[]),
    })
    .await;
    let mut request = only_qps("gone");
    request.latency = Some(QueryRequest::new("default", "slow"));
    request.errors = Some(QueryRequest::new("elsewhere", "errors"));
    let report = read(&sources(vec![script.source("default")]), &request).await;
    assert_eq!(report.signals.qps, Signal::Missing);
    assert_eq!(report.signals.latency.usable(), Some(0.9));
    assert_eq!(report.signals.errors, Signal::Missing);
    let why = report.detail(SignalName::Errors).unwrap().why.clone().unwrap();
    assert_eq!(
        why,
        "there is no source named \"elsewhere\" in the operator's configuration (it has: default)"
    );
}

#[tokio::test]
async fn every_wrong_answer_has_its_own_words() {
    let check = async |status: u16, body: &'static str, expected: &str| {
        let script =
            Script::start(move |_| Response::builder().status(status).body(Body::from(body)).unwrap()).await;
        let why = why(script.source("default")).await;
        assert!(why.contains(expected), "{body}\n gave: {why}\n not: {expected}");
    };
    let ok = |result: &'static str| -> &'static str {
        Box::leak(format!(r#"{{"status":"success","data":{result}}}"#).into_boxed_str())
    };
    check(200, ok(r#"{"resultType":"vector","result":[]}"#), "Missing: the answer is empty").await;
    check(200, ok(r#"{"resultType":"scalar","result":[1,"NaN"]}"#), "Invalid: the answer is NaN").await;
    check(200, ok(r#"{"resultType":"scalar","result":[1,"+Inf"]}"#), "Invalid: the answer is infinite").await;
    check(200, ok(r#"{"resultType":"scalar","result":[1,"-3"]}"#), "Invalid: the answer is negative (-3)")
        .await;
    check(
        200,
        ok(r#"{"resultType":"vector","result":[{"value":[1,"1"]},{"value":[1,"2"]}]}"#),
        "Invalid: the answer has 2 series",
    )
    .await;
    check(200, ok(r#"{"resultType":"matrix","result":[]}"#), "Invalid: the answer is a range vector").await;
    check(503, "overloaded", "Missing: the source answered HTTP 503: overloaded").await;
    check(200, "<html>Log in</html>", "Missing: the answer is not Prometheus'").await;
    check(401, "Unauthorized", "Missing: the source answered HTTP 401").await;
    let refused =
        r#"{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}"#;
    check(503, refused, "Missing: the source refused the query (timeout): query timed out").await;
}

// Case 74: nothing is free.
#[tokio::test]
async fn a_price_that_cannot_be_is_not_used_and_told_of() {
    for (price, state) in
        [("0", State::Invalid), ("-1", State::Invalid), ("NaN", State::Invalid), ("0.1", State::Fresh)]
    {
        let script = Script::start(move |_| number(price)).await;
        let mut request = only_qps("up");
        request.price = Some(PriceRequest::Query(QueryRequest::new("default", "price")));
        request.qps = None;
        let report = read(&sources(vec![script.source("default")]), &request).await;
        assert_eq!(report.details[0].state, state, "{price}");
        let told = report.hints.iter().any(|hint| matches!(hint, Hint::PriceUnusable { .. }));
        assert_eq!(told, state != State::Fresh);
    }
    for (price, usable) in [(0.096, Some(0.096)), (0.0, None), (-1.0, None), (f64::NAN, None)] {
        let request = SignalRequest { price: Some(PriceRequest::Constant(price)), ..nothing() };
        assert_eq!(read(&sources(vec![]), &request).await.signals.price.usable(), usable);
    }
}

#[tokio::test]
async fn a_clock_that_is_off_and_a_warning_are_told_of() {
    let body = format!(
        r#"{{"status":"success","warnings":["PromQL warning: odd"],"data":{{"resultType":"scalar","result":[{},"1"]}}}}"#,
        NOW - 120
    );
    let script = Script::start(move |_| json(body.clone())).await;
    let report = read(&sources(vec![script.source("default")]), &only_qps("up")).await;
    assert_eq!(report.signals.qps.usable(), Some(1.0));
    let told: Vec<_> = report.hints.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "the source warns about qps: PromQL warning: odd",
            "the clock of source default is 120 s behind the operator's"
        ]
    );
}

// Thanos' partial response, VictoriaMetrics#4531, #4721: half of the data looks like half of the load.
#[tokio::test]
async fn an_answer_from_a_part_of_the_data_is_not_all_there_is() {
    let qps = async |part: &'static str, result: &'static str, on_empty| {
        let body =
            format!(r#"{{"status":"success",{part}"data":{{"resultType":"vector","result":[{result}]}}}}"#);
        let script = Script::start(move |_| json(body.clone())).await;
        let mut request = only_qps("up");
        request.qps.as_mut().unwrap().on_empty = on_empty;
        let report = read(&sources(vec![script.source("default")]), &request).await;
        let told = report.hints.iter().map(|hint| hint.code()).collect::<Vec<_>>();
        (report.signals.qps, told, report.details[0].clone())
    };
    let sample = r#"{"metric":{},"value":[1800000000,"40"]}"#;
    let part = Signal::Partial(Reading { value: 40.0, age_secs: None });
    for (extra, why) in [
        (r#""isPartial":true,"#, "some of its storage did not answer"),
        (r#""warnings":["receive series from 10.0.0.7:10901: context deadline exceeded"],"#, "10.0.0.7"),
    ] {
        let (signal, told, detail) = qps(extra, sample, OnEmpty::Error).await;
        assert_eq!((signal, told), (part, vec!["SourceWarning"]), "{extra}");
        assert!(signal.is_lost() && signal.usable().is_none() && detail.partial.is_some());
        assert_eq!(detail.value.as_deref(), Some("40"), "what was read is shown");
        assert!(detail.why.clone().unwrap().contains(why), "{detail:?}");
        let (signal, _, detail) = qps(extra, "", OnEmpty::Zero).await;
        assert_eq!(signal, Signal::Missing, "nothing in a part is not zero: {detail:?}");
    }
    for extra in [r#""isPartial":false,"#, r#""warnings":["PromQL warning: odd"],"#, r#""infos":["x"],"#, ""]
    {
        assert_eq!(qps(extra, sample, OnEmpty::Error).await.0.usable(), Some(40.0), "{extra}");
    }
}

#[tokio::test]
async fn a_past_with_holes_is_no_past() {
    let body = r#"{"status":"success","isPartial":true,"data":{"resultType":"matrix","result":[]}}"#;
    let script = Script::start(move |_| json(body)).await;
    let window = HistoryWindow { span_secs: 120, step_secs: 60 };
    let report = sources(vec![script.source("default")]).history(&only_qps("up"), now(), window).await;
    assert_eq!((report.history.qps.len(), report.faults.len()), (0, 1), "{:?}", report.faults);
}

#[tokio::test]
async fn history_comes_in_pieces_and_in_order() {
    let script = Script::start(|asked| {
        let of = |name: &str| asked.form[name].parse::<i64>().unwrap();
        let (start, end, step) = (of("start"), of("end"), of("step"));
        let values: Vec<_> =
            (start..=end).step_by(step as usize).map(|t| serde_json::json!([t, "5"])).collect();
        let result = serde_json::json!([{"metric": {}, "values": values}]);
        json(
            serde_json::json!({"status": "success", "data": {"resultType": "matrix", "result": result}})
                .to_string(),
        )
    })
    .await;
    let sources = sources(vec![script.source("default")]);
    let window = HistoryWindow { span_secs: 30 * 86_400, step_secs: 60 };
    let report = sources.history(&only_qps("up"), now(), window).await;
    assert_eq!(report.faults, []);
    assert_eq!(report.history.qps.len(), 43_201);
    assert!(report.history.qps.windows(2).all(|pair| pair[1].0 - pair[0].0 == 60.0));
    assert_eq!(script.asked().len(), 4);
}

#[tokio::test]
async fn the_history_of_a_histogram_asks_for_the_buckets_around_the_target_only() {
    let script = Script::start(|asked| {
        if asked.path.ends_with("query") {
            return web(asked, 0);
        }
        let series = |le: &str, values: [&str; 3]| {
            let values: Vec<_> =
                values.iter().enumerate().map(|(i, v)| serde_json::json!([60 * i, v])).collect();
            serde_json::json!({"metric": {"le": le}, "values": values})
        };
        let result = [
            series("0.1", ["1", "0", "1"]),
            series("0.25", ["9", "0", "4"]),
            series("+Inf", ["10", "0", "NaN"]),
        ];
        json(
            serde_json::json!({"status": "success", "data": {"resultType": "matrix", "result": result}})
                .to_string(),
        )
    })
    .await;
    let window = HistoryWindow { span_secs: 120, step_secs: 60 };
    let report = sources(vec![script.source("default")]).history(&histogram(), now(), window).await;
    assert_eq!(report.faults, []);
    assert_eq!(report.history.qps, [(0.0, 10.0), (60.0, 0.0)], "an instant without its +Inf bucket is a gap");
    assert_eq!(report.history.sla, [(0.0, 0.9)], "no share without requests");
    assert!(script.asked().last().unwrap().query().contains(r#"le=~"0\\.1|0\\.25|\\+Inf""#));
}

#[tokio::test]
async fn history_that_cannot_be_read_is_a_fault_and_not_a_panic() {
    let script = Script::start(|_| Response::builder().status(500).body(Body::from("no")).unwrap()).await;
    let window = HistoryWindow { span_secs: 120, step_secs: 60 };
    let report = sources(vec![script.source("default")]).history(&histogram(), now(), window).await;
    assert_eq!((report.history.qps.len(), report.faults.len()), (0, 1));
}
