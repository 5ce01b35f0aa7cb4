//! What becomes of a scaling, whatever the API server answers.

use http::{Method, Request, Response, StatusCode};
use kube::api::GroupVersionKind;
use kube::client::Body;
use serde_json::json;

use super::*;

type Handle = tower_test::mock::Handle<Request<Body>, Response<Body>>;

/// One expected request and its answer.
struct Step {
    method: Method,
    status: StatusCode,
    body: Value,
}

fn scale_of(replicas: u32) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "uid": "u"},
        "spec": {"replicas": replicas}, "status": {"replicas": replicas, "selector": "app=web"}})
}

fn patched(replicas: u32) -> Step {
    Step { method: Method::PATCH, status: StatusCode::OK, body: scale_of(replicas) }
}

fn refused(status: StatusCode) -> Step {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "code": status.as_u16()});
    Step { method: Method::PATCH, status, body }
}

fn read(replicas: u32) -> Step {
    Step { method: Method::GET, status: StatusCode::OK, body: scale_of(replicas) }
}

fn read_refused(status: StatusCode) -> Step {
    Step { method: Method::GET, ..refused(status) }
}

async fn serve(mut handle: Handle, steps: Vec<Step>) -> Vec<Value> {
    let mut bodies = Vec::new();
    for Step { method, status, body } in steps {
        let (request, send) = handle.next_request().await.expect("another request");
        assert_eq!(request.method(), method);
        assert_eq!(request.uri().path(), "/apis/apps/v1/namespaces/shop/deployments/web/scale");
        let sent = request.into_body().collect_bytes().await.unwrap();
        bodies.push(serde_json::from_slice(&sent).unwrap_or(Value::Null));
        let body = Body::from(serde_json::to_vec(&body).unwrap());
        send.send_response(Response::builder().status(status).body(body).unwrap());
    }
    bodies
}

/// Scales from 3 to 5 against the script; all of it must be used.
async fn check(steps: Vec<Step>, expected: Applied) {
    let (service, handle) = tower_test::mock::pair();
    let client = Client::new(service, "shop");
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment"));
    let server = tokio::spawn(serve(handle, steps));
    let applied =
        scale(At { client: &client, namespace: "shop", resource: &resource, name: "web" }, 3, 5).await;
    drop(client);
    assert_eq!(applied, expected);
    let bodies = server.await.expect("the script was followed");
    let patch = json!([
        {"op": "test", "path": "/spec/replicas", "value": 3},
        {"op": "replace", "path": "/spec/replicas", "value": 5},
    ]);
    assert_eq!(bodies[0], patch);
}

fn failed(class: Class, code: u16) -> Applied {
    Applied::Failed { class, why: format!("no ({code})") }
}

#[tokio::test]
async fn a_scaling_is_one_patch() {
    check(vec![patched(5)], Applied::Scaled).await;
}

#[tokio::test]
async fn a_person_s_change_in_between_is_seen_and_not_overwritten() {
    check(vec![refused(StatusCode::UNPROCESSABLE_ENTITY), read(9)], Applied::Moved { now: 9 }).await;
    // Even when the person chose what we wanted: it is not ours.
    check(vec![refused(StatusCode::UNPROCESSABLE_ENTITY), read(5)], Applied::Moved { now: 5 }).await;
}

#[tokio::test]
async fn a_conflict_is_retried_within_the_tick_and_not_without_end() {
    check(vec![refused(StatusCode::CONFLICT), read(3), patched(5)], Applied::Scaled).await;
    let conflict = || [refused(StatusCode::CONFLICT), read(3)];
    let steps = [conflict(), conflict(), conflict()].into_iter().flatten().collect();
    check(steps, failed(Class::Transient, 409)).await;
}

#[tokio::test]
async fn a_refusal_is_told_apart_from_a_failed_test() {
    check(vec![refused(StatusCode::UNPROCESSABLE_ENTITY), read(3)], failed(Class::Invalid, 422)).await;
    check(vec![refused(StatusCode::FORBIDDEN), read(3)], failed(Class::Invalid, 403)).await;
}

#[tokio::test]
async fn a_target_that_is_gone_is_an_outcome() {
    check(vec![refused(StatusCode::NOT_FOUND)], Applied::Gone).await;
    check(vec![refused(StatusCode::CONFLICT), read_refused(StatusCode::NOT_FOUND)], Applied::Gone).await;
}

#[tokio::test]
async fn a_lost_answer_is_looked_up() {
    check(vec![refused(StatusCode::INTERNAL_SERVER_ERROR), read(5)], Applied::Scaled).await;
    check(vec![refused(StatusCode::SERVICE_UNAVAILABLE), read(3)], failed(Class::Transient, 503)).await;
}

#[test]
fn a_target_at_zero_is_tested_for_absence_as_the_api_server_leaves_zero_out() {
    assert_eq!(
        operations(0, 2),
        json!([
            {"op": "test", "path": "/spec/replicas", "value": null},
            {"op": "add", "path": "/spec/replicas", "value": 2},
        ])
    );
}
