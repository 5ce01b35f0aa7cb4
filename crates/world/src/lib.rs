//! Emulates services on the pods of a local cluster: load, queues, and the metrics a real service would have.
//!
//! In: a client of a cluster whose pods do nothing by themselves, the Deployments to play, what one of their pods can
//! do, and a rate over time. Out: Prometheus text and the `metrics.k8s.io` API while it runs, and at the end what
//! the service's users and its owner got. Every workload receives the same arrivals and the same work.
//!
//! **Time.** There is *trace time*, in which service times, targets, rates and the report are stated, and *wall time*,
//! in which the cluster lives; one second of the wall is `speed` seconds of the trace. What is exposed to the cluster is
//! in wall time: `speed` times the trace's requests per second, latencies of the trace divided by `speed`. Whoever
//! scales by it must divide its own times by `speed` as well; then nothing but the clock differs. CPU has no time in
//! it and needs no conversion.
//!
//! Never: writes to the cluster. A pod is served by, and measured, only while it is ready.

mod exposition;
mod load;
mod pods;
mod resource_metrics;
mod sampling;
mod score;
mod selector;
mod serve;
mod world;

pub use load::Load;
pub use pods::Workload;
pub use score::{Point, Score};
pub use serve::https;
pub use world::{WorkloadNow, World, WorldOptions};
