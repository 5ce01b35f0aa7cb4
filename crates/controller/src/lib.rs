//! Reconcilers: observe, decide, plan, apply, report.
//!
//! In: policies as watched, the cluster as read, signals as answered. Out: scales, statuses, events, metrics. Never: a
//! tensor, a training run, a URL from a policy. [`replica::tick`] is one policy's tick, [`run::run`] runs them all.

pub mod authentication;
pub mod by_target;
pub mod call;
pub mod claims;
pub mod context;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod faults;
pub mod glossary;
pub mod lease;
pub mod metrics;
pub mod models;
pub mod quotas;
pub mod replica;
pub mod retry;
pub mod rivals;
pub mod run;

pub use authentication::{Authenticator, Verdict};
pub use context::{Clock, Health, Steady};
pub use metrics::Metrics;
pub use models::{LoadedModel, Models};
pub use run::{Options, Parts, RunFault, run};
