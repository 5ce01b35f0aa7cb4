//! Reading the world: Prometheus, the metrics API and fixed values, with freshness and limits.
