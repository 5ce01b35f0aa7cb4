//! What the operator tells about itself: log lines, and one small HTTP server for metrics and probes.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use clap::ValueEnum;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

use rlscaler_controller::{Authenticator, Health, Verdict};

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Starts logging to stderr; `RUST_LOG` filters, `info` without it.
pub(crate) fn init_logging(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Json => subscriber.json().flatten_event(true).with_current_span(false).init(),
        LogFormat::Text => subscriber.with_target(false).with_ansi(std::io::stderr().is_terminal()).init(),
    }
}

struct Shown {
    registry: Registry,
    health: Arc<Health>,
    /// Everybody may read the metrics without one.
    authenticator: Option<Authenticator>,
}

/// Binds the server and serves until the process ends.
pub(crate) async fn serve(
    address: SocketAddr,
    registry: Registry,
    health: Arc<Health>,
    authenticator: Option<Authenticator>,
) -> anyhow::Result<()> {
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("cannot serve metrics on {address}"))?;
    let bound = listener.local_addr().context("the metrics server has no address")?;
    tracing::info!(address = %bound, "serving metrics");
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(Arc::new(Shown { registry, health, authenticator }));
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "the metrics server stopped");
        }
    });
    Ok(())
}

async fn metrics(State(shown): State<Arc<Shown>>, headers: HeaderMap) -> Response {
    if let Some(authenticator) = &shown.authenticator {
        let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        match authenticator.check(authorization).await {
            Verdict::Accepted => {}
            Verdict::Refused => {
                let asks = [(header::WWW_AUTHENTICATE, "Bearer")];
                return (StatusCode::UNAUTHORIZED, asks, "a bearer token of this cluster is needed")
                    .into_response();
            }
            Verdict::Unknown => {
                return (StatusCode::SERVICE_UNAVAILABLE, "the API server cannot be asked now")
                    .into_response();
            }
        }
    }
    let mut text = String::new();
    match encode(&mut text, &shown.registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn healthz(State(shown): State<Arc<Shown>>) -> Response {
    probe(shown.health.is_alive(), "the controller has stopped")
}

async fn readyz(State(shown): State<Arc<Shown>>) -> Response {
    probe(shown.health.is_ready(), "the policies have not been listed yet")
}

fn probe(well: bool, why_not: &'static str) -> Response {
    if well { "ok".into_response() } else { (StatusCode::SERVICE_UNAVAILABLE, why_not).into_response() }
}
