//! Who may read the metrics, where that is asked for: whoever the API server knows by a bearer token (TokenReview).
//!
//! In: the `Authorization` header of a request. Out: a [`Verdict`]. What the API server said is remembered for a short
//! while, for a bounded number of tokens, so that neither scrapes nor guesses become a load on it. Never: a yes that the
//! API server did not give; a token in a log.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::context::Clock;

/// How long a token that was accepted stays so: a token that is revoked is refused a minute later at the latest.
const ACCEPTED_FOR: SignedDuration = SignedDuration::from_secs(60);
/// How long a refused one stays refused.
const REFUSED_FOR: SignedDuration = SignedDuration::from_secs(10);
/// Most tokens remembered; a handful of Prometheus servers ask.
const MAX_REMEMBERED: usize = 256;
/// Longest token that is looked at, bytes. A service account's takes about 1,200.
const MAX_TOKEN_BYTES: usize = 8_192;
/// Most questions to the API server at the same time.
const MAX_QUESTIONS: usize = 4;
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The API server knows whose token it is.
    Accepted,
    /// No bearer token, or one that the API server does not know.
    Refused,
    /// The API server cannot be asked now.
    Unknown,
}

#[derive(Debug, Clone, Copy)]
struct Answer {
    accepted: bool,
    until: Timestamp,
}

/// Asks the API server about tokens.
pub struct Authenticator {
    client: Client,
    clock: Clock,
    answers: Mutex<HashMap<String, Answer>>,
    slots: Semaphore,
}

impl Authenticator {
    /// Asks nothing yet. The client's account needs `create` on `tokenreviews`.
    #[must_use]
    pub fn new(client: Client, clock: Clock) -> Self {
        Self { client, clock, answers: Mutex::default(), slots: Semaphore::new(MAX_QUESTIONS) }
    }

    /// Judges a request by its `Authorization` header.
    pub async fn check(&self, authorization: Option<&str>) -> Verdict {
        let Some(token) = authorization.and_then(bearer) else { return Verdict::Refused };
        if let Some(accepted) = self.remembered(token) {
            return verdict(accepted);
        }
        // Whoever floods us with guesses waits for nobody and asks nothing of the API server.
        let Ok(_slot) = self.slots.try_acquire() else { return Verdict::Unknown };
        match self.ask(token).await {
            Some(accepted) => {
                self.remember(token, accepted);
                verdict(accepted)
            }
            None => Verdict::Unknown,
        }
    }

    /// `None` when there is no answer.
    async fn ask(&self, token: &str) -> Option<bool> {
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        match timeout(PATIENCE, api.create(&PostParams::default(), &review)).await {
            Ok(Ok(answer)) => Some(answer.status.and_then(|status| status.authenticated).unwrap_or_default()),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the API server cannot be asked who reads the metrics");
                None
            }
            Err(_) => {
                tracing::warn!("the API server did not say in time who reads the metrics");
                None
            }
        }
    }

    fn remembered(&self, token: &str) -> Option<bool> {
        let now = (self.clock)();
        let answers = self.answers.lock().expect("no panic while locked");
        answers.get(token).filter(|answer| now < answer.until).map(|answer| answer.accepted)
    }

    fn remember(&self, token: &str, accepted: bool) {
        let now = (self.clock)();
        let lasts = if accepted { ACCEPTED_FOR } else { REFUSED_FOR };
        let Ok(until) = now.checked_add(lasts) else { return };
        let mut answers = self.answers.lock().expect("no panic while locked");
        if MAX_REMEMBERED <= answers.len() {
            answers.retain(|_, answer| now < answer.until);
        }
        // Guesses must not push out the one that was accepted.
        let refused = answers.iter().find(|(_, answer)| !answer.accepted).map(|(token, _)| token.clone());
        if MAX_REMEMBERED <= answers.len() {
            match refused {
                Some(refused) => answers.remove(&refused),
                None => return,
            };
        }
        answers.insert(token.to_owned(), Answer { accepted, until });
    }
}

fn verdict(accepted: bool) -> Verdict {
    if accepted { Verdict::Accepted } else { Verdict::Refused }
}

/// The token of `Bearer TOKEN`.
fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    let token = token.trim();
    let usable = scheme.eq_ignore_ascii_case("bearer")
        && (1..=MAX_TOKEN_BYTES).contains(&token.len())
        && token.bytes().all(|byte| byte.is_ascii_graphic());
    usable.then_some(token)
}

#[cfg(test)]
#[path = "authentication_tests.rs"]
mod tests;
