//! A scripted Prometheus and what the tests ask of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Response, Uri};
use jiff::Timestamp;
use rlscaler_signals::{
    Config, CpuRequest, HistogramRequest, OnEmpty, QueryRequest, ReadSignals, SignalReport, SignalRequest,
    SourceConfig, Sources, Tick, Unit,
};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

/// The operator's clock in these tests, and the scripted source's.
pub(crate) const NOW: i64 = 1_800_000_000;
/// Long enough for an answer over the loopback on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// One request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) form: BTreeMap<String, String>,
    pub(crate) authorization: Option<String>,
}

impl Asked {
    pub(crate) fn query(&self) -> &str {
        self.form.get("query").map_or("", String::as_str)
    }
}

/// A server that answers by a function and remembers what it was asked.
pub(crate) struct Script {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Script {
    pub(crate) async fn start(
        answer: impl Fn(&Asked) -> Response<Body> + Clone + Send + Sync + 'static,
    ) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        let handler = move |uri: Uri, headers: HeaderMap, body: Bytes| {
            let authorization = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
            let path = uri.path().to_owned();
            let asked = Asked { path, form: decoded(&body), authorization };
            log.lock().unwrap().push(asked.clone());
            let response = answer(&asked);
            async move { response }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(handler)).await });
        Self { address, asked }
    }

    pub(crate) fn source(&self, name: &str) -> SourceConfig {
        SourceConfig::new(name, format!("http://{}", self.address))
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// A form as it was posted.
fn decoded(body: &[u8]) -> BTreeMap<String, String> {
    let url = format!("http://form/?{}", std::str::from_utf8(body).unwrap());
    reqwest::Url::parse(&url).unwrap().query_pairs().into_owned().collect()
}

/// A server that writes these bytes to whoever connects, and closes.
pub(crate) async fn raw_server(bytes: &'static [u8]) -> SourceConfig {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0u8; 4096];
            let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut request).await;
            let _ = stream.write_all(bytes).await;
            let _ = stream.shutdown().await;
        }
    });
    SourceConfig::new("default", format!("http://{address}"))
}

/// A server that accepts and says nothing. It holds every connection until the test ends.
pub(crate) async fn silent_server(name: &str) -> SourceConfig {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    SourceConfig::new(name, format!("http://{address}"))
}

pub(crate) fn json(body: impl Into<Bytes>) -> Response<Body> {
    Response::builder().header("content-type", "application/json").body(Body::from(body.into())).unwrap()
}

/// An instant vector: label sets and values, evaluated at [`NOW`].
pub(crate) fn vector(samples: &[(&str, &str)]) -> Response<Body> {
    let result: Vec<_> = samples
        .iter()
        .map(|(le, value)| {
            let metric = if le.is_empty() { serde_json::json!({}) } else { serde_json::json!({ "le": le }) };
            serde_json::json!({"metric": metric, "value": [NOW, value]})
        })
        .collect();
    let body = serde_json::json!({"status": "success", "data": {"resultType": "vector", "result": result}});
    json(body.to_string())
}

pub(crate) fn number(value: &str) -> Response<Body> {
    vector(&[("", value)])
}

pub(crate) fn sources(configs: Vec<SourceConfig>) -> Sources {
    Sources::from_config(&Config { sources: configs }, None).unwrap()
}

/// A policy in namespace `shop` that asks for nothing yet: 250 ms for 95 %.
pub(crate) fn nothing() -> SignalRequest {
    SignalRequest {
        namespace: "shop".into(),
        target_secs: 0.25,
        percentile: 0.95,
        requests: None,
        qps: None,
        latency: None,
        sla: None,
        errors: None,
        cpu: CpuRequest::None,
        price: None,
    }
}

pub(crate) fn only_qps(query: &str) -> SignalRequest {
    SignalRequest { qps: Some(QueryRequest::new("default", query)), ..nothing() }
}

pub(crate) fn histogram() -> SignalRequest {
    let requests = HistogramRequest {
        source: "default".into(),
        metric: "http_request_duration_seconds".into(),
        matchers: r#"app="web""#.into(),
        window_secs: 60,
        unit: Unit::Native,
        on_empty: OnEmpty::Error,
        max_age_secs: 60.0,
    };
    SignalRequest { requests: Some(requests), ..nothing() }
}

pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

pub(crate) async fn read(sources: &Sources, request: &SignalRequest) -> SignalReport {
    read_within(sources, request, PATIENCE).await
}

pub(crate) async fn read_within(
    sources: &Sources,
    request: &SignalRequest,
    deadline: Duration,
) -> SignalReport {
    sources.read(request, Tick { now: now(), deadline, pods: &[] }).await
}

/// Why qps is not there.
pub(crate) async fn why(config: SourceConfig) -> String {
    let report = read(&sources(vec![config]), &only_qps("up")).await;
    let detail = &report.details[0];
    format!("{}: {}", detail.state.as_str(), detail.why.as_deref().unwrap_or("fine"))
}
