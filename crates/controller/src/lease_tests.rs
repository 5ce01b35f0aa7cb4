//! Who gets the lease.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// An API server with one lease, which checks versions.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Option<Value>>>);

impl Server {
    fn elector(&self, identity: &str) -> Elector {
        let server = self.clone();
        let service = tower::service_fn(move |request| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Elector::new(Api::namespaced(Client::new(service, "system"), "system"), "rlscaler", identity)
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let mut lease = self.0.lock().unwrap();
        let status = match (&head.method, lease.as_ref()) {
            (&Method::GET, None) => StatusCode::NOT_FOUND,
            (&Method::GET, Some(_)) => StatusCode::OK,
            (&Method::POST, Some(_)) => StatusCode::CONFLICT,
            (_, Some(now)) if now["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] => {
                StatusCode::CONFLICT
            }
            (_, now) => {
                let version = now.and_then(|now| now["metadata"]["resourceVersion"].as_str()?.parse().ok());
                let mut new = body;
                new["metadata"]["resourceVersion"] = json!((version.unwrap_or(0u64) + 1).to_string());
                *lease = Some(new);
                StatusCode::OK
            }
        };
        let answer = match status {
            StatusCode::OK => lease.clone().unwrap(),
            _ => {
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": if status == StatusCode::NOT_FOUND { "NotFound" } else { "Conflict" },
                "message": "no", "code": status.as_u16()})
            }
        };
        Response::builder().status(status).body(Body::from(serde_json::to_vec(&answer).unwrap())).unwrap()
    }

    fn spec(&self) -> Value {
        self.0.lock().unwrap().as_ref().unwrap()["spec"].clone()
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

#[tokio::test]
async fn the_first_takes_it_the_second_stands_by_and_the_holder_renews() {
    let server = Server::default();
    let (mut first, mut second) = (server.elector("first"), server.elector("second"));
    assert!(first.attempt(now()).await.unwrap());
    assert!(!second.attempt(now()).await.unwrap());
    assert!(first.attempt(now()).await.unwrap());
    assert!(!second.attempt(now()).await.unwrap());
    assert_eq!(server.spec()["holderIdentity"], "first");
    assert_eq!(server.spec()["leaseTransitions"], 1);
}

#[tokio::test]
async fn a_released_lease_is_free_at_once() {
    let server = Server::default();
    let (mut first, mut second) = (server.elector("first"), server.elector("second"));
    assert!(first.attempt(now()).await.unwrap());
    first.release(now()).await;
    assert!(second.attempt(now()).await.unwrap());
    assert_eq!(server.spec()["holderIdentity"], "second");
    assert_eq!(server.spec()["leaseTransitions"], 2);
    // Whoever lost it cannot give away what is another's.
    first.release(now()).await;
    assert_eq!(server.spec()["holderIdentity"], "second");
}

#[tokio::test]
async fn a_holder_that_stopped_renewing_is_replaced_after_its_lease_by_our_own_clock() {
    let server = Server::default();
    assert!(server.elector("first").attempt(now()).await.unwrap());
    server.0.lock().unwrap().as_mut().unwrap()["spec"]["leaseDurationSeconds"] = json!(0);
    assert!(server.elector("second").attempt(now()).await.unwrap());
}

#[tokio::test]
async fn of_two_at_the_same_time_one_gets_it() {
    let server = Server::default();
    let (mut first, mut second) = (server.elector("first"), server.elector("second"));
    let (one, other) = futures::join!(first.attempt(now()), second.attempt(now()));
    assert_ne!(one.unwrap(), other.unwrap());
}
