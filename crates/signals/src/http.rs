//! One POST to one source: bounded in time, in size and in number at once. No redirect is followed.

use std::time::Duration;

use reqwest::header::AUTHORIZATION;
use reqwest::{Response, Url};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::address::Forbidden;
use crate::config::{SourceConfig, check_url};
use crate::credentials::{ClientCell, bearer};
use crate::fault::ReadFault;

/// Largest answer accepted, bytes. A range of 11,000 points is about 300 KiB.
pub(crate) const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// A source ready to be asked.
#[derive(Debug)]
pub(crate) struct Endpoint {
    config: SourceConfig,
    base: Url,
    slots: Semaphore,
    client: ClientCell,
}

/// What came back: any status, and a body within the limit.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Endpoint {
    /// `config` must have passed [`crate::Config::validate`]; the message says what it has not.
    pub(crate) fn new(config: SourceConfig) -> Result<Self, String> {
        let base = check_url(&config.url)?;
        let slots = Semaphore::new(config.concurrency);
        Ok(Self { config, base, slots, client: ClientCell::default() })
    }

    pub(crate) fn config(&self) -> &SourceConfig {
        &self.config
    }

    /// The source's own time-out.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(u64::from(self.config.timeout_seconds))
    }

    /// Posts a form to `path` below the base URL. Waiting for a slot counts as waiting.
    pub(crate) async fn post(&self, path: &str, form: &[(&str, &str)]) -> Result<Answer, ReadFault> {
        let secs = self.timeout().as_secs_f64();
        let until = Instant::now() + self.timeout();
        let slot = timeout_at(until, self.slots.acquire()).await;
        // A slot that comes free at the last moment comes too late.
        let Some(slot) = slot.ok().filter(|_| Instant::now() < until) else {
            return Err(ReadFault::Busy { concurrency: self.config.concurrency, secs });
        };
        let _slot = slot.expect("the semaphore is never closed");
        timeout_at(until, self.exchange(path, form)).await.unwrap_or(Err(ReadFault::TimedOut { secs }))
    }

    async fn exchange(&self, path: &str, form: &[(&str, &str)]) -> Result<Answer, ReadFault> {
        let client = self.client.client(&self.config).await?;
        let mut request = client.post(self.url(path)).form(form);
        if let Some(file) = &self.config.bearer_token_file {
            request = request.header(AUTHORIZATION, bearer(file).await?);
        }
        let response = request.send().await.map_err(|error| connection_fault(&error))?;
        let status = response.status();
        if status.is_redirection() {
            return Err(ReadFault::Redirected { status: status.as_u16() });
        }
        Ok(Answer { status: status.as_u16(), body: body_within_limit(response).await? })
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}/{path}", self.base.path().trim_end_matches('/')));
        url
    }
}

async fn body_within_limit(mut response: Response) -> Result<Vec<u8>, ReadFault> {
    let oversized = ReadFault::Oversized { limit_bytes: MAX_BODY_BYTES };
    if response.content_length().is_some_and(|length| (MAX_BODY_BYTES as u64) < length) {
        return Err(oversized);
    }
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if MAX_BODY_BYTES < body.len() + chunk.len() => return Err(oversized),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body),
            Err(_) => return Err(ReadFault::Truncated { bytes: body.len() }),
        }
    }
}

/// The innermost cause says what happened ("connection refused"); the outer ones repeat the URL.
fn connection_fault(error: &reqwest::Error) -> ReadFault {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
        if let Some(forbidden) = cause.downcast_ref::<Forbidden>() {
            return ReadFault::ForbiddenAddress { why: forbidden.to_string() };
        }
    }
    ReadFault::Unreachable { why: crate::fault::printable(&cause.to_string()) }
}
