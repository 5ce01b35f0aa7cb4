//! The operator on a real control plane, as the chart's ServiceAccount, against a Prometheus the tests script.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod capacity;
mod conflicts;
mod harness;
mod overrides;
mod refusals;
mod restart;
mod scripted_prometheus;
mod signals;
mod telling;
