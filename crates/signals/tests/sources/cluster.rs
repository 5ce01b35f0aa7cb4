//! The metrics API, over the same scripted server.

use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use rlscaler_core::observation::{Reading, Signal};
use rlscaler_signals::{
    Config, CpuRequest, ReadSignals, ReadyPod, SignalReport, SignalRequest, Sources, Tick,
};

use crate::script::*;

async fn cpu(script: &Script, pods: &[ReadyPod]) -> SignalReport {
    let server = kube::Config::new(format!("http://{}", script.address).parse().unwrap());
    let sources = Sources::from_config(&Config::default(), Some(server.try_into().unwrap())).unwrap();
    let cpu = CpuRequest::Resource { label_selector: "app=web,tier in (a,b)".into(), max_age_secs: 60.0 };
    let request = SignalRequest { cpu, ..nothing() };
    sources.read(&request, Tick { now: now(), deadline: Duration::from_secs(20), pods }).await
}

fn pods() -> [ReadyPod; 2] {
    ["a", "b"].map(|name| ReadyPod { name: name.into(), ready_since: None })
}

#[tokio::test]
async fn cpu_is_summed_over_the_ready_pods_with_the_age_of_the_oldest_sample() {
    let script = Script::start(|_| {
        let pod = |name: &str, secs_ago: i64, cpu: &str| {
            let time = jiff::Timestamp::from_second(NOW - secs_ago).unwrap().to_string();
            serde_json::json!({"metadata": {"name": name}, "timestamp": time, "window": "30s",
                               "containers": [{"name": "c", "usage": {"cpu": cpu, "memory": "1Mi"}}]})
        };
        let items = [pod("a", 10, "250m"), pod("b", 20, "1"), pod("somebody-else", 1, "9")];
        json(serde_json::json!({"kind": "PodMetricsList", "items": items}).to_string())
    })
    .await;
    let report = cpu(&script, &pods()).await;
    assert_eq!(report.signals.cpu, Signal::Fresh(Reading { value: 1.25, age_secs: Some(20.0) }));
    assert_eq!(script.asked()[0].path, "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods");
    assert_eq!(report.details[0].value.as_deref(), Some("1.25"));
    assert_eq!(report.cpu_pods, Some(2));

    // Case 28: a pod that is ready for a moment only gives no sample, and what is summed says so.
    let fresh = ReadyPod { name: "c".into(), ready_since: Some(now()) };
    let report = cpu(&script, &[pods().to_vec(), vec![fresh]].concat()).await;
    assert_eq!((report.signals.cpu.usable(), report.cpu_pods), (Some(1.25), Some(2)));
}

#[tokio::test]
async fn a_cluster_without_metrics_server_and_one_that_forbids_it_say_so() {
    for (code, expected) in [(404, "not installed"), (403, "not allowed: no"), (500, "HTTP 500: no")] {
        let script = Script::start(move |_| {
            let status = format!(r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"x","code":{code}}}"#);
            Response::builder().status(code).body(Body::from(status)).unwrap()
        })
        .await;
        let report = cpu(&script, &pods()).await;
        assert_eq!(report.signals.cpu, Signal::Missing);
        let why = report.details[0].why.clone().unwrap();
        assert!(why.contains(expected), "{code} gave {why}");
    }
}

#[tokio::test]
async fn without_a_ready_pod_nothing_is_asked() {
    let script = Script::start(|_| json("{}")).await;
    let report = cpu(&script, &[]).await;
    assert_eq!(report.details[0].why.as_deref(), Some("no pod is ready, so there is nothing to measure"));
    assert!(script.asked().is_empty());
}
