//! One call to the API server, never waited for without end, and whose move it is when it fails.

use std::time::Duration;

/// Longest wait for one answer of the API server. Its own limit is 60 s; a tick has less.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Whose move it is. The label of the error counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The world: it may pass by itself.
    Transient,
    /// Somebody must change something.
    Invalid,
    /// This program.
    Bug,
}

impl Class {
    /// As written in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Invalid => "invalid",
            Self::Bug => "bug",
        }
    }
}

/// The call's answer, or an error when there is none in time.
///
/// # Errors
/// The call's own, or [`kube::Error::Service`] after [`CALL_TIMEOUT`].
pub async fn call<T>(calling: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    let late = || kube::Error::Service(format!("no answer within {} s", CALL_TIMEOUT.as_secs()).into());
    tokio::time::timeout(CALL_TIMEOUT, calling).await.unwrap_or_else(|_| Err(late()))
}

/// The HTTP status, where the API server answered.
#[must_use]
pub fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Whose move it is.
#[must_use]
pub fn class(error: &kube::Error) -> Class {
    match code(error) {
        Some(408 | 409 | 429) | None => Class::Transient,
        Some(code) if 500 <= code => Class::Transient,
        Some(_) => Class::Invalid,
    }
}

/// In a person's words: what the API server said, without the wrapping.
#[must_use]
pub fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        other => other.to_string(),
    }
}
