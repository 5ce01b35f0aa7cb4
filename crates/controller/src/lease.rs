//! One operator at a time: leader election by a `Lease`.
//!
//! The rules are client-go's: a holder renews well before its lease runs out; who wants it waits until the record has
//! not changed for a whole lease *by its own clock*, so that clocks need not agree; every write carries the
//! resourceVersion that was read.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use tokio::time::{Instant, sleep};

use crate::retry::Quiet;

/// A lease not renewed for this long may be taken over.
const LEASE_SECS: u64 = 15;
/// Seconds of failed renewals after which a holder gives up: well before anybody may take over.
const RENEW_DEADLINE_SECS: u64 = 10;
/// Pause between attempts.
const RETRY_SECS: u64 = 2;

/// Who wants the lease, and which.
pub struct Elector {
    api: Api<Lease>,
    name: String,
    identity: String,
    /// The record last seen, and when it was first seen so, by our clock.
    observed: Option<(LeaseSpec, Instant)>,
    quiet: Quiet,
}

impl Elector {
    /// `identity` must be unique among the candidates: the pod's name, or a random one.
    #[must_use]
    pub fn new(api: Api<Lease>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self { api, name: name.into(), identity: identity.into(), observed: None, quiet: Quiet::default() }
    }

    /// Returns once the lease is held.
    pub async fn acquire(&mut self, now: &(dyn Fn() -> Timestamp + Send + Sync)) {
        loop {
            match self.attempt(now()).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    if let Some(unsaid) = self.quiet.may_say("lease") {
                        tracing::warn!(%error, lease = self.name, unsaid, "the lease cannot be read or written");
                    }
                }
            }
            sleep(Duration::from_secs(RETRY_SECS)).await;
        }
    }

    /// Renews for as long as that works; returns when the lease is lost.
    pub async fn keep(&mut self, now: &(dyn Fn() -> Timestamp + Send + Sync)) {
        let mut renewed = Instant::now();
        while renewed.elapsed() < Duration::from_secs(RENEW_DEADLINE_SECS) {
            sleep(Duration::from_secs(RETRY_SECS)).await;
            let left = Duration::from_secs(RENEW_DEADLINE_SECS).saturating_sub(renewed.elapsed());
            match tokio::time::timeout(left, self.attempt(now())).await {
                Ok(Ok(true)) => renewed = Instant::now(),
                Ok(Ok(false)) => return,
                Ok(Err(error)) => tracing::warn!(%error, lease = self.name, "the lease could not be renewed"),
                Err(_) => tracing::warn!(lease = self.name, "the lease could not be renewed in time"),
            }
        }
    }

    /// Gives the lease back, so that the next operator need not wait.
    pub async fn release(&mut self, now: Timestamp) {
        let released = async {
            let mut lease = self.api.get(&self.name).await?;
            if holder(&lease) != Some(&self.identity) {
                return Ok(());
            }
            let spec = lease.spec.get_or_insert_default();
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(MicroTime(now));
            self.api.replace(&self.name, &PostParams::default(), &lease).await.map(drop)
        };
        if let Err::<(), kube::Error>(error) = released.await {
            tracing::warn!(%error, lease = self.name, "the lease could not be released; it will run out");
        }
    }

    /// One attempt to take or renew; true when held.
    async fn attempt(&mut self, now: Timestamp) -> Result<bool, kube::Error> {
        let Some(mut lease) = self.api.get_opt(&self.name).await? else {
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(self.taken(&LeaseSpec::default(), now)) };
            return held(self.api.create(&PostParams::default(), &lease).await);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        if self.observed.as_ref().is_none_or(|(seen, _)| *seen != spec) {
            self.observed = Some((spec.clone(), Instant::now()));
        }
        let since = self.observed.as_ref().map_or_else(Instant::now, |(_, since)| *since);
        let duration = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(LEASE_SECS);
        let ours = holder(&lease) == Some(&self.identity);
        let free = holder(&lease).is_none_or(str::is_empty);
        if !ours && !free && since.elapsed() < Duration::from_secs(duration) {
            return Ok(false);
        }
        lease.spec = Some(self.taken(&spec, now));
        held(self.api.replace(&self.name, &PostParams::default(), &lease).await)
    }

    fn taken(&self, before: &LeaseSpec, now: Timestamp) -> LeaseSpec {
        let ours = before.holder_identity.as_deref() == Some(&self.identity);
        let transitions = before.lease_transitions.unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(LEASE_SECS as i32),
            renew_time: Some(MicroTime(now)),
            acquire_time: if ours { before.acquire_time.clone() } else { Some(MicroTime(now)) },
            lease_transitions: Some(if ours { transitions } else { transitions + 1 }),
            ..before.clone()
        }
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()
}

/// Somebody else was faster: not held, and no error.
fn held(answer: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
