//! A scripted API server that knows one token and counts how often it is asked.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// The API server, its clock, and an authenticator that asks it.
struct Stage {
    asked: Arc<AtomicUsize>,
    status: Arc<AtomicU16>,
    now: Arc<Mutex<Timestamp>>,
    authenticator: Authenticator,
}

impl Stage {
    fn new() -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let status = Arc::new(AtomicU16::new(201));
        let (count, answer) = (asked.clone(), status.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (count, answer) = (count.clone(), answer.clone());
            async move {
                count.fetch_add(1, Ordering::SeqCst);
                let (head, body) = request.into_parts();
                assert_eq!(head.method, Method::POST);
                assert_eq!(head.uri.path(), "/apis/authentication.k8s.io/v1/tokenreviews");
                let body = body.collect_bytes().await.unwrap();
                let review: Value = serde_json::from_slice(&body).unwrap();
                let known = review["spec"]["token"] == "prometheus";
                let answer = answer.load(Ordering::SeqCst);
                let body = match answer {
                    201 => json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                        "metadata": {}, "spec": review["spec"], "status": {"authenticated": known}}),
                    _ => json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no",
                        "code": answer}),
                };
                let body = Body::from(serde_json::to_vec(&body).unwrap());
                Ok::<_, Infallible>(Response::builder().status(answer).body(body).unwrap())
            }
        });
        let now = Arc::new(Mutex::new(Timestamp::from_second(1_800_000_000).unwrap()));
        let clock = now.clone();
        let authenticator =
            Authenticator::new(Client::new(service, "default"), Arc::new(move || *clock.lock().unwrap()));
        Self { asked, status, now, authenticator }
    }

    async fn check(&self, token: &str) -> Verdict {
        self.authenticator.check(Some(&format!("Bearer {token}"))).await
    }

    fn asked(&self) -> usize {
        self.asked.swap(0, Ordering::SeqCst)
    }

    fn advance(&self, by: SignedDuration) {
        *self.now.lock().unwrap() += by;
    }
}

#[tokio::test]
async fn a_token_that_the_api_server_knows_is_accepted_and_asked_about_once_a_minute() {
    let stage = Stage::new();
    assert_eq!(stage.check("prometheus").await, Verdict::Accepted);
    assert_eq!(stage.check("prometheus").await, Verdict::Accepted);
    assert_eq!(stage.asked(), 1);
    stage.advance(ACCEPTED_FOR - SignedDuration::from_secs(1));
    assert_eq!(stage.check("prometheus").await, Verdict::Accepted);
    assert_eq!(stage.asked(), 0);
    stage.advance(SignedDuration::from_secs(1));
    assert_eq!(stage.check("prometheus").await, Verdict::Accepted);
    assert_eq!(stage.asked(), 1);
}

#[tokio::test]
async fn a_token_that_nobody_knows_is_refused_and_not_asked_about_at_every_try() {
    let stage = Stage::new();
    assert_eq!(stage.check("guess").await, Verdict::Refused);
    assert_eq!(stage.check("guess").await, Verdict::Refused);
    assert_eq!(stage.asked(), 1);
    stage.advance(REFUSED_FOR);
    assert_eq!(stage.check("guess").await, Verdict::Refused);
    assert_eq!(stage.asked(), 1);
}

#[tokio::test]
async fn what_is_no_bearer_token_is_refused_without_asking() {
    let stage = Stage::new();
    let long = format!("Bearer {}", "x".repeat(MAX_TOKEN_BYTES + 1));
    let headers = [
        "",
        "Bearer",
        "Bearer ",
        "prometheus",
        "Basic prometheus",
        "Bearer pro metheus",
        "Bearer pro\u{7f}",
        &long,
    ];
    for header in headers {
        assert_eq!(stage.authenticator.check(Some(header)).await, Verdict::Refused, "{header:.40}");
    }
    assert_eq!(stage.authenticator.check(None).await, Verdict::Refused);
    assert_eq!(stage.asked(), 0);
    assert_eq!(stage.authenticator.check(Some("bearer prometheus")).await, Verdict::Accepted);
}

#[tokio::test]
async fn while_the_api_server_cannot_be_asked_nobody_new_is_accepted_and_nothing_is_remembered() {
    let stage = Stage::new();
    for status in [403, 500, 503] {
        stage.status.store(status, Ordering::SeqCst);
        assert_eq!(stage.check("prometheus").await, Verdict::Unknown, "{status}");
    }
    stage.status.store(201, Ordering::SeqCst);
    assert_eq!(stage.check("prometheus").await, Verdict::Accepted);
}

#[tokio::test]
async fn guesses_fill_no_memory_and_push_nobody_out() {
    let stage = Stage::new();
    assert_eq!(stage.check("prometheus").await, Verdict::Accepted);
    for guess in 0..2 * MAX_REMEMBERED {
        assert_eq!(stage.check(&format!("guess-{guess}")).await, Verdict::Refused);
    }
    assert_eq!(stage.authenticator.answers.lock().unwrap().len(), MAX_REMEMBERED);
    stage.asked();
    assert_eq!(stage.check("prometheus").await, Verdict::Accepted);
    assert_eq!(stage.asked(), 0);
}
