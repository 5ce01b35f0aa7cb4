//! A Prometheus whose answers a test writes: values, nothing, NaN, silence, or no server at all.
//!
//! Queries are told apart by a word in them (`scripted_qps`). Nothing here knows what the operator does with them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Form, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// No test waits longer than this for the operator to ask.
const PATIENCE: Duration = Duration::from_secs(60);

/// What to answer to a query.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// One series with this value.
    Value(f64),
    /// One series whose value is this text, such as `NaN` or `+Inf`.
    Text(&'static str),
    /// `result: []`.
    Empty,
    /// One series with this value, after this many milliseconds: a slow source.
    Slowly(u64, f64),
    /// Nothing, for longer than anybody waits.
    Silence,
    /// An HTTP error.
    Broken,
}

#[derive(Default)]
struct Script {
    answers: Mutex<BTreeMap<&'static str, Answer>>,
    asked: Mutex<BTreeMap<&'static str, u64>>,
    asked_changed: Condvar,
}

/// The server. It is gone when dropped.
pub(crate) struct ScriptedPrometheus {
    script: Arc<Script>,
    address: SocketAddr,
    runtime: Runtime,
    serving: Mutex<Option<JoinHandle<()>>>,
}

impl ScriptedPrometheus {
    /// Listens on a free loopback port.
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let prometheus = Self { script: Arc::default(), address, runtime, serving: Mutex::new(None) };
        prometheus.serve(listener);
        prometheus
    }

    /// Base address.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on every query that contains `word` is answered so.
    pub(crate) fn set(&self, word: &'static str, answer: Answer) {
        self.script.answers.lock().expect("no poison").insert(word, answer);
    }

    /// Refuses connections, as a stopped Prometheus does.
    pub(crate) fn stop(&self) {
        if let Some(serving) = self.serving.lock().expect("no poison").take() {
            serving.abort();
            // Whether it was aborted or had ended does not matter: the listener is closed.
            let _ = self.runtime.block_on(serving);
        }
    }

    /// Listens again on the same port.
    pub(crate) fn start_again(&self) {
        let listener = self
            .runtime
            .block_on(tokio::net::TcpListener::bind(self.address))
            .expect("our port is still free");
        self.serve(listener);
    }

    /// Waits until queries that contain `word` were asked `times` more: that many ticks have begun since.
    pub(crate) fn wait_asked(&self, word: &'static str, times: u64) {
        let asked = self.script.asked.lock().expect("no poison");
        let until = asked.get(word).copied().unwrap_or(0) + times;
        let (asked, waited) = self
            .script
            .asked_changed
            .wait_timeout_while(asked, PATIENCE, |asked| asked.get(word).copied().unwrap_or(0) < until)
            .expect("no poison");
        assert!(!waited.timed_out(), "{word} was asked {:?} times, not {until}", asked.get(word));
    }

    fn serve(&self, listener: tokio::net::TcpListener) {
        let router = Router::new()
            .route("/api/v1/query", get(by_url).post(by_form))
            .route("/api/v1/query_range", get(no_history).post(no_history))
            .with_state(self.script.clone());
        let serving = self.runtime.spawn(async move {
            axum::serve(listener, router).await.expect("serving on loopback");
        });
        *self.serving.lock().expect("no poison") = Some(serving);
    }
}

async fn by_url(
    State(script): State<Arc<Script>>,
    Query(fields): Query<BTreeMap<String, String>>,
) -> Response {
    answer(&script, &fields).await
}

async fn by_form(
    State(script): State<Arc<Script>>,
    Form(fields): Form<BTreeMap<String, String>>,
) -> Response {
    answer(&script, &fields).await
}

async fn no_history() -> Response {
    success(serde_json::json!({"resultType": "matrix", "result": []}))
}

async fn answer(script: &Script, fields: &BTreeMap<String, String>) -> Response {
    let query = fields.get("query").map(String::as_str).unwrap_or_default();
    let found = {
        let answers = script.answers.lock().expect("no poison");
        answers.iter().find(|(word, _)| query.contains(**word)).map(|(word, answer)| (*word, answer.clone()))
    };
    let Some((word, answer)) = found else { return success(empty()) };
    *script.asked.lock().expect("no poison").entry(word).or_default() += 1;
    script.asked_changed.notify_all();
    match answer {
        Answer::Value(value) => success(one(&value.to_string())),
        Answer::Text(text) => success(one(text)),
        Answer::Slowly(millis, value) => {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            success(one(&value.to_string()))
        }
        Answer::Empty => success(empty()),
        Answer::Silence => std::future::pending().await,
        Answer::Broken => (StatusCode::INTERNAL_SERVER_ERROR, "the disk is full").into_response(),
    }
}

fn success(data: serde_json::Value) -> Response {
    Json(serde_json::json!({"status": "success", "data": data})).into_response()
}

fn empty() -> serde_json::Value {
    serde_json::json!({"resultType": "vector", "result": []})
}

/// Prometheus stamps an instant query with the time of evaluation.
fn one(value: &str) -> serde_json::Value {
    let now = jiff::Timestamp::now().as_millisecond() as f64 / 1000.0;
    serde_json::json!({"resultType": "vector", "result": [{"metric": {}, "value": [now, value]}]})
}
