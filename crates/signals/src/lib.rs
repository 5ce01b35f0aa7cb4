//! Reading the world: Prometheus, the metrics API and fixed values, each with freshness, time-outs and limits.
//!
//! In: what a policy asks for ([`SignalRequest`]), the pods that are ready ([`ReadyPod`]) and the time.
//! Out: [`rlscaler_core::Signals`] for the brain and one [`SignalDetail`] per signal for people.
//! Never: a write of any kind, a number in place of a signal that was not read, a URL, header or file named by a
//! policy, a wait without an end.

mod address;
mod credentials;
mod http;
mod judge;
mod wire;

pub mod config;
pub mod fault;
pub mod fixed;
pub mod histogram;
pub mod history;
pub mod metrics_api;
pub mod prometheus;
pub mod promql;
pub mod read;
pub mod report;
pub mod request;
pub mod saved;
pub mod sources;

pub use config::{Config, ConfigFault, SourceConfig};
pub use fault::{FaultClass, ReadFault};
pub use fixed::Fixed;
pub use history::{HistoryReport, HistoryWindow};
pub use report::{Hint, SignalDetail, SignalName, SignalReport, State};
pub use request::{
    CpuRequest, HistogramRequest, OnEmpty, PriceRequest, QueryRequest, ReadyPod, SignalRequest, Tick, Unit,
};
pub use sources::{ReadSignals, Sources};
