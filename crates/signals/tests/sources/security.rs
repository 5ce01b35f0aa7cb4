//! Who may ask what, with whose credentials, of whom.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rlscaler_core::observation::Signal;
use rlscaler_signals::SourceConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::script::*;

/// A file of this test's own, below the crate's target directory.
fn file(name: &str, content: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).unwrap();
    path
}

// Case 95: the source redirects to somebody who would like to see the token.
#[tokio::test]
async fn a_redirect_is_not_followed_and_the_token_stays() {
    let thief = Script::start(|_| number("1")).await;
    let to = format!("http://{}/api/v1/query", thief.address);
    for status in [301, 302, 303, 307, 308] {
        let to = to.clone();
        let script = Script::start(move |_| {
            Response::builder().status(status).header("location", &to).body(Body::empty()).unwrap()
        })
        .await;
        let mut source = script.source("default");
        source.bearer_token_file = Some(file("redirected", "secret"));
        let why = why(source).await;
        assert!(why.starts_with(&format!("Missing: the source redirects ({status})")), "{why}");
    }
    assert!(thief.asked().is_empty());
}

#[tokio::test]
async fn the_token_is_read_anew_for_every_query() {
    let script = Script::start(|_| number("1")).await;
    let path = file("rotated", "first\n");
    let mut source = script.source("default");
    source.bearer_token_file = Some(path.clone());
    let sources = sources(vec![source]);
    read(&sources, &only_qps("up")).await;
    std::fs::write(&path, "second").unwrap();
    read(&sources, &only_qps("up")).await;
    let sent: Vec<_> = script.asked().into_iter().map(|asked| asked.authorization.unwrap()).collect();
    assert_eq!(sent, ["Bearer first", "Bearer second"]);
}

#[tokio::test]
async fn without_its_token_a_source_is_not_asked() {
    let script = Script::start(|_| number("1")).await;
    let check = async |path: PathBuf, expected: &str| {
        let mut source = script.source("default");
        source.bearer_token_file = Some(path);
        let why = why(source).await;
        assert!(why.contains(expected), "{why}");
    };
    check("/nowhere/token".into(), "/nowhere/token: No such file").await;
    check(file("empty", "  \n"), "it is empty").await;
    check(file("two-lines", "a\nb"), "not a token of one line").await;
    check(file("large", &"x".repeat(1024 * 1024 + 1)), "larger than").await;
    assert!(script.asked().is_empty());
}

#[tokio::test]
async fn a_namespace_that_is_not_allowed_gets_no_answer() {
    let script = Script::start(|_| number("1")).await;
    let mut source = script.source("default");
    source.allowed_namespaces = vec!["billing".into()];
    let why = why(source).await;
    assert_eq!(why, "Missing: source \"default\" may not be used from namespace \"shop\"");
    assert!(script.asked().is_empty());
}

// What goes over the wire is confined, the freshness query and the history too, whatever the author writes.
#[tokio::test]
async fn every_query_that_is_sent_is_confined_to_the_namespace() {
    let script = Script::start(|asked| match asked.query().contains("timestamp") {
        true => number(&NOW.to_string()),
        false => vector(&[("0.1", "1"), ("+Inf", "1")]),
    })
    .await;
    let mut source = script.source("default");
    source.enforce_namespace_label = Some("namespace".into());
    let sources = sources(vec![source]);
    let mut request = histogram();
    let mut errors =
        rlscaler_signals::QueryRequest::new("default", r#"topk(scalar(a), b{namespace="billing"})"#);
    errors.freshness_query = Some("max(timestamp(c))".into());
    request.errors = Some(errors);
    let mut price = rlscaler_signals::QueryRequest::new("default", "max(price)");
    price.freshness_query = Some(r#"max(timestamp(price{namespace=~".*"}))"#.into());
    request.price = Some(rlscaler_signals::PriceRequest::Query(price));
    let report = read(&sources, &request).await;
    let window = rlscaler_signals::HistoryWindow { span_secs: 60, step_secs: 60 };
    rlscaler_signals::ReadSignals::history(&sources, &request, now(), window).await;
    let asked = script.asked();
    assert_eq!(asked.len(), 8);
    for asked in &asked {
        let selectors = asked.query().matches('{').count();
        assert_eq!(asked.query().matches(r#"namespace="shop""#).count(), selectors, "{}", asked.query());
    }
    let shown = &report.detail(rlscaler_signals::SignalName::Errors).unwrap().query;
    assert_eq!(shown, r#"topk(scalar(a{namespace="shop"}), b{namespace="billing",namespace="shop"})"#);
}

#[tokio::test]
async fn nothing_is_asked_with_a_freshness_query_that_cannot_be_used() {
    let script = Script::start(|_| number("1")).await;
    let mut request = only_qps("up");
    if let Some(qps) = &mut request.qps {
        qps.freshness_query = Some(r#"max(timestamp({__name__=~".+"}))"#.into());
    }
    let report = read(&sources(vec![script.source("default")]), &request).await;
    let why = report.details[0].why.clone().unwrap();
    assert!(
        why.starts_with("the freshnessQuery cannot be used: every selector must name its metric"),
        "{why}"
    );
    assert!(script.asked().is_empty());
}

#[tokio::test]
async fn sources_of_others_are_not_told_of() {
    let script = Script::start(|_| number("1")).await;
    let ours = script.source("ours");
    let mut theirs = script.source("theirs");
    theirs.allowed_namespaces = vec!["billing".into()];
    let report = read(&sources(vec![ours, theirs]), &only_qps("up")).await;
    let why = report.details[0].why.clone().unwrap();
    assert!(why.ends_with("(it has: ours)"), "{why}");
}

#[tokio::test]
async fn a_path_in_the_url_is_kept() {
    let script = Script::start(|_| number("1")).await;
    let mut source = script.source("default");
    source.url += "/tenant/a/";
    read(&sources(vec![source]), &only_qps("up")).await;
    assert_eq!(script.asked()[0].path, "/tenant/a/api/v1/query");
}

// Case 94: what the name means is looked at when connecting, not only how it is written.
#[tokio::test]
async fn a_name_is_resolved_by_us() {
    let script = Script::start(|_| number("1")).await;
    let url = format!("http://localhost:{}", script.address.port());
    assert_eq!(why(SourceConfig::new("default", url)).await, "Fresh: fine");
}

/// A certificate as `caFile` holds it.
fn pem(der: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in der.chunks(3) {
        let bits =
            three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = char::from(ALPHABET[(bits >> (18 - 6 * place) & 63) as usize]);
            text.push(if place <= three.len() { letter } else { '=' });
        }
    }
    let lines: Vec<_> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// A server for `localhost` and the PEM of the CA that signed it.
async fn tls_server() -> (u16, String) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority_pem = pem(authority.self_signed(&authority_key).unwrap().der());
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = [0u8; 4096];
            let _ = stream.read(&mut request).await;
            let body = r#"{"status":"success","data":{"resultType":"scalar","result":[1800000000,"7"]}}"#;
            let head =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = stream.write_all((head + body).as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (port, authority_pem)
}

#[tokio::test]
async fn a_private_ca_is_trusted_for_its_source_only_and_read_anew_when_it_changes() {
    let (port, ca) = tls_server().await;
    let (_, other_ca) = tls_server().await;
    let path = file("ca.pem", &other_ca);
    let mut source = SourceConfig::new("default", format!("https://localhost:{port}"));
    source.ca_file = Some(path.clone());
    let sources = sources(vec![source.clone()]);
    let untrusted = read(&sources, &only_qps("up")).await;
    let why_not = untrusted.details[0].why.clone().unwrap();
    assert!(why_not.contains("invalid peer certificate"), "{why_not}");

    std::fs::write(&path, &ca).unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(10);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
    let trusted = read(&sources, &only_qps("up")).await;
    assert_eq!(trusted.signals.qps.usable(), Some(7.0), "{:?}", trusted.details);

    source.url = format!("https://127.0.0.1:{port}");
    let wrong_name = why(source.clone()).await;
    assert!(wrong_name.contains("invalid peer certificate"), "{wrong_name}");

    source.url = format!("https://localhost:{port}");
    source.ca_file = None;
    assert!(!why(source.clone()).await.starts_with("Fresh"), "the system does not know this CA");

    source.ca_file = Some(file("junk.pem", "no certificate at all"));
    assert!(why(source).await.contains("it holds no certificate"));
}

#[tokio::test]
async fn a_policy_cannot_write_into_logs_or_terminals_through_a_source() {
    let script =
        Script::start(|_| json(r#"{"status":"error","errorType":"x\u001b[2J","error":"a\nb\u202ec"}"#)).await;
    let report = read(&sources(vec![script.source("default")]), &only_qps("up")).await;
    assert_eq!(report.signals.qps, Signal::Missing);
    let why = report.details[0].why.clone().unwrap();
    assert!(!why.contains(|c: char| c.is_control() || c == '\u{202e}'), "{why:?}");
}
