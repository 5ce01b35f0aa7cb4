//! Time, size and number are bounded, and one source's trouble stays its own.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Response;
use rlscaler_core::observation::Signal;
use rlscaler_signals::{QueryRequest, SignalName, SourceConfig};

use crate::script::*;

const MEBIBYTE: usize = 1024 * 1024;

#[tokio::test(start_paused = true)]
async fn a_source_that_says_nothing_is_given_up_after_its_own_time_out() {
    let mut source = silent_server("default").await;
    source.timeout_seconds = 5;
    assert_eq!(why(source).await, "Missing: no answer within 5 s");
}

#[tokio::test(start_paused = true)]
async fn the_ticks_deadline_ends_a_read_although_the_source_might_wait_longer() {
    let mut source = silent_server("default").await;
    source.timeout_seconds = 120;
    let report = read_within(&sources(vec![source]), &only_qps("up"), Duration::from_secs(3)).await;
    assert_eq!(report.details[0].why.as_deref(), Some("no answer within 3 s"));
}

#[tokio::test]
async fn a_slow_source_delays_no_other_and_its_queue_is_its_own() {
    let mut slow = silent_server("slow").await;
    slow.concurrency = 1;
    let script = Script::start(|_| number("7")).await;
    let sources = sources(vec![slow, script.source("default")]);
    let mut request = only_qps("up");
    request.latency = Some(QueryRequest::new("slow", "a"));
    request.errors = Some(QueryRequest::new("slow", "b"));
    let deadline = Duration::from_millis(500);
    let report = read_within(&sources, &request, deadline).await;
    assert_eq!(report.signals.qps.usable(), Some(7.0));
    assert_eq!(report.signals.latency, Signal::Missing);
    assert_eq!(report.signals.errors, Signal::Missing);
}

#[tokio::test(start_paused = true)]
async fn a_query_that_never_got_its_turn_says_that_the_source_was_busy() {
    let mut source = silent_server("default").await;
    source.concurrency = 1;
    let mut request = only_qps("up");
    request.latency = Some(QueryRequest::new("default", "up"));
    let report = read(&sources(vec![source]), &request).await;
    let why = |name| report.detail(name).unwrap().why.clone().unwrap();
    assert_eq!(why(SignalName::Qps), "no answer within 5 s");
    assert_eq!(
        why(SignalName::Latency),
        "all 1 queries the source may run at once were still running after 5 s"
    );
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_refused_with_and_without_its_length() {
    let declared = Script::start(|_| json(vec![b' '; 4 * MEBIBYTE + 1])).await;
    assert_eq!(why(declared.source("default")).await, "Missing: the answer is larger than 4194304 bytes");
    let endless = Script::start(|_| {
        let chunks =
            futures::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 64 * 1024])));
        Response::new(Body::from_stream(chunks))
    })
    .await;
    assert_eq!(why(endless.source("default")).await, "Missing: the answer is larger than 4194304 bytes");
}

#[tokio::test]
async fn broken_conversations_are_told_apart() {
    let short = raw_server(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"status\":\"succ").await;
    assert_eq!(why(short).await, "Missing: the answer broke off after 15 bytes");
    let other = raw_server(b"SSH-2.0-OpenSSH_9.9\r\n").await;
    let other = why(other).await;
    assert!(other.starts_with("Missing: the source cannot be reached: "), "{other}");
    let nothing = why(SourceConfig::new("default", "http://127.0.0.1:1")).await;
    assert!(nothing.contains("Connection refused"), "{nothing}");
}

#[tokio::test]
async fn recovery_is_by_itself() {
    let down = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let flag = down.clone();
    let script = Script::start(move |_| match flag.load(std::sync::atomic::Ordering::Relaxed) {
        true => Response::builder().status(503).body(Body::empty()).unwrap(),
        false => number("7"),
    })
    .await;
    let sources = sources(vec![script.source("default")]);
    assert_eq!(read(&sources, &only_qps("up")).await.signals.qps, Signal::Missing);
    down.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(read(&sources, &only_qps("up")).await.signals.qps.usable(), Some(7.0));
}
