//! Two loopback servers: Prometheus text over HTTP, and the metrics API over HTTPS with a certificate made for the
//! occasion. In: the shared state of the world. Out: answers. Reads only.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use kube::core::Selector;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::world::Shared;
use crate::{exposition, resource_metrics, selector};

/// A client that does not finish its handshake in this time is dropped.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections that have finished their handshake and wait to be served.
const HANDSHAKEN_AT_MOST: usize = 16;

/// Binds a free loopback port.
pub(crate) async fn listen() -> Result<(TcpListener, u16)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("binding a loopback port")?;
    let port = listener.local_addr().context("asking for the port")?.port();
    Ok((listener, port))
}

/// Serves `/metrics` until dropped.
pub(crate) async fn service_metrics(listener: TcpListener, shared: Arc<Shared>) -> io::Result<()> {
    axum::serve(listener, Router::new().route("/metrics", get(metrics_page)).with_state(shared)).await
}

/// Serves `metrics.k8s.io` until dropped.
pub(crate) async fn resource_metrics(
    listener: TcpListener,
    tls: TlsAcceptor,
    shared: Arc<Shared>,
) -> io::Result<()> {
    let root = "/apis/metrics.k8s.io";
    let router = Router::new()
        .route(root, get(async || Json(resource_metrics::group())))
        .route(&format!("{root}/v1beta1"), get(async || Json(resource_metrics::resources())))
        .route(&format!("{root}/v1beta1/pods"), get(all_pods))
        .route(&format!("{root}/v1beta1/namespaces/{{namespace}}/pods"), get(pods))
        .route(&format!("{root}/v1beta1/namespaces/{{namespace}}/pods/{{name}}"), get(pod))
        .route(&format!("{root}/v1beta1/nodes"), get(nodes))
        .route(&format!("{root}/v1beta1/nodes/{{name}}"), get(node))
        .with_state(shared);
    axum::serve(TlsListener::new(listener, tls)?, router).await
}

/// Serves routes over HTTPS on a free loopback port until the future is dropped, with a certificate made for the
/// occasion; for tests that play an aggregated API of their own.
///
/// # Errors
/// When no port or no certificate can be had.
pub async fn https(router: Router) -> Result<(u16, impl Future<Output = io::Result<()>> + Send)> {
    let (listener, port) = listen().await?;
    let listener = TlsListener::new(listener, self_signed()?)?;
    Ok((port, async move { axum::serve(listener, router).await }))
}

/// A certificate for `localhost` that nobody needs to trust.
pub(crate) fn self_signed() -> Result<TlsAcceptor> {
    let made =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).context("making a certificate")?;
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .context("choosing TLS versions")?
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .context("using the certificate")?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListParameters {
    #[serde(default)]
    label_selector: String,
}

impl ListParameters {
    /// The list `make` makes of what the parameters select, or a refusal.
    fn answer(&self, make: impl FnOnce(&Selector) -> Value) -> Response {
        match selector::parse(&self.label_selector) {
            Ok(selector) => Json(make(&selector)).into_response(),
            Err(message) => status(StatusCode::BAD_REQUEST, "BadRequest", &message),
        }
    }
}

async fn metrics_page(State(shared): State<Arc<Shared>>) -> Response {
    ([(CONTENT_TYPE, exposition::CONTENT_TYPE)], shared.exposition()).into_response()
}

async fn all_pods(State(shared): State<Arc<Shared>>, Query(query): Query<ListParameters>) -> Response {
    query.answer(|selector| resource_metrics::pod_list(&shared.samples(), None, selector))
}

async fn pods(
    State(shared): State<Arc<Shared>>,
    Path(namespace): Path<String>,
    Query(query): Query<ListParameters>,
) -> Response {
    query.answer(|selector| resource_metrics::pod_list(&shared.samples(), Some(&namespace), selector))
}

async fn pod(State(shared): State<Arc<Shared>>, Path((namespace, name)): Path<(String, String)>) -> Response {
    found(resource_metrics::pod_named(&shared.samples(), &namespace, &name), &name)
}

async fn nodes(State(shared): State<Arc<Shared>>) -> Json<Value> {
    Json(resource_metrics::node_list(&shared.samples()))
}

async fn node(State(shared): State<Arc<Shared>>, Path(name): Path<String>) -> Response {
    found(resource_metrics::node_named(&shared.samples(), &name), &name)
}

fn found(object: Option<Value>, name: &str) -> Response {
    match object {
        Some(object) => Json(object).into_response(),
        None => status(StatusCode::NOT_FOUND, "NotFound", &format!("no metrics of {name:?}")),
    }
}

fn status(code: StatusCode, reason: &str, message: &str) -> Response {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code.as_u16()});
    (code, Json(body)).into_response()
}

/// Shakes hands with each client in a task of its own, so that a silent one keeps nobody waiting.
struct TlsListener {
    address: SocketAddr,
    handshaken: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
}

impl TlsListener {
    fn new(listener: TcpListener, tls: TlsAcceptor) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (sender, handshaken) = mpsc::channel(HANDSHAKEN_AT_MOST);
        tokio::spawn(async move {
            while !sender.is_closed() {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = sender.closed() => return,
                };
                let Ok((stream, peer)) = accepted else { continue };
                let (tls, sender) = (tls.clone(), sender.clone());
                tokio::spawn(async move {
                    if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await
                    {
                        // A closed channel means that the server is going away.
                        let _ = sender.send((stream, peer)).await;
                    }
                });
            }
        });
        Ok(Self { address, handshaken })
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.handshaken.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await, // the accepting task is gone with its runtime
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.address)
    }
}
