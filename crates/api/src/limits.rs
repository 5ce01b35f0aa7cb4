//! The bounds of every field, once for the schema, for validation and for those who write status. The schema needs
//! them to estimate what a CEL rule costs, the API server to stay small.

/// Most replicas a policy may name: what the queue model searches, and far beyond one Deployment in practice.
pub const MAX_REPLICAS: i32 = 100_000;
/// Longest interval between two decisions, seconds.
pub const MAX_INTERVAL_SECS: i32 = 300;
/// Longest latency target and service time, milliseconds: an hour.
pub const MAX_LATENCY_MS: i64 = 3_600_000;
/// Largest weight.
pub const MAX_WEIGHT: i32 = 100;
/// Most requests one replica works on at once.
pub const MAX_CONCURRENCY: i32 = 100_000;
/// Longest start-up time, seconds: models of many gigabytes are loaded for minutes.
pub const MAX_STARTUP_SECS: i32 = 7_200;
/// Longest outage before a fallback applies, seconds: a day.
pub const MAX_FAILURE_SECS: i32 = 86_400;
/// Longest `rate()` window of a histogram, seconds.
pub const MAX_WINDOW_SECS: i32 = 3_600;
/// Oldest reading that may be acted on, seconds.
pub const MAX_AGE_SECS: i32 = 3_600;
/// Longest stabilization window, seconds, as in `autoscaling/v2`.
pub const MAX_STABILIZATION_SECS: i32 = 3_600;
/// Longest period of a scaling policy, seconds, as in `autoscaling/v2`.
pub const MAX_PERIOD_SECS: i32 = 1_800;
/// Most scaling policies in one direction.
pub const MAX_SCALING_POLICIES: usize = 16;
/// Longest query, characters.
pub const MAX_QUERY_CHARS: usize = 4_096;
/// Longest list of label matchers, characters.
pub const MAX_MATCHERS_CHARS: usize = 1_024;
/// Longest name of a metric, characters.
pub const MAX_METRIC_CHARS: usize = 200;
/// Longest name of a source or model, characters, as a Kubernetes label value.
pub const MAX_NAME_CHARS: usize = 63;
/// Longest name of a Kubernetes object, characters.
pub const MAX_OBJECT_NAME_CHARS: usize = 253;
/// Longest decimal written as a string, characters.
pub const MAX_DECIMAL_CHARS: usize = 24;
/// Longest point in time, characters: RFC 3339 with nanoseconds and an offset is 35.
pub const MAX_TIME_CHARS: usize = 40;
/// Longest reason a person gives, characters; the rest of a longer one in an annotation is cut.
pub const MAX_REASON_CHARS: usize = 256;
/// Most reasons of one decision kept in status.
pub const MAX_STATUS_REASONS: usize = 20;
/// Most decisions kept in status.
pub const MAX_STATUS_DECISIONS: usize = 10;
/// Most reasons of each of them.
pub const MAX_EARLIER_REASONS: usize = 6;
/// Longest message of each of these, characters.
pub const MAX_EARLIER_MESSAGE_CHARS: usize = 200;
/// Longest message in status, characters.
pub const MAX_MESSAGE_CHARS: usize = 1_024;
/// Most signals in status: qps, latency, sla, errors, cpu, price, and room.
pub const MAX_STATUS_SIGNALS: usize = 16;
/// Most conditions in status.
pub const MAX_CONDITIONS: usize = 16;
/// Longest memory in status, bytes; a full one takes about 12,000.
pub const MAX_MEMORY_BYTES: usize = 65_536;

/// The text cut to `max_chars` characters and made visible, so that it fits where it is shown.
pub use rlscaler_core::text::visible as cut;
