//! Every way in which a read can fail, in a person's words.

use rlscaler_core::text::fixed;
use thiserror::Error;

use crate::report::State;

/// Longest piece of foreign text that is repeated in a message.
const MAX_FOREIGN_CHARS: usize = 240;

/// Whose move it is; the label of the failure counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultClass {
    /// The world: it may pass by itself.
    Transient,
    /// The policy, the operator's configuration or the data: somebody must change something.
    Invalid,
    /// This program.
    Bug,
}

impl FaultClass {
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

/// Why a signal could not be read.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ReadFault {
    /// The policy names a source the operator does not have.
    #[error("there is no source named {name:?} in the operator's configuration (it has: {known})")]
    UnknownSource {
        /// As the policy says.
        name: String,
        /// The names there are, comma-separated.
        known: String,
    },
    /// `allowedNamespaces` leaves the policy's namespace out.
    #[error("source {source_name:?} may not be used from namespace {namespace:?}")]
    NotAllowed {
        /// The source.
        source_name: String,
        /// The policy's namespace.
        namespace: String,
    },
    /// The query is not PromQL, or asks for more than is allowed.
    #[error("the {field} cannot be used: {why}")]
    BadQuery {
        /// Which of the policy's texts.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The operator's token or CA file cannot be read.
    #[error("the source's credentials cannot be read: {why}")]
    Credentials {
        /// Which file and why.
        why: String,
    },
    /// No answer in time.
    #[error("no answer within {secs} s")]
    TimedOut {
        /// The limit.
        secs: f64,
    },
    /// All of the source's slots were taken for the whole time.
    #[error("all {concurrency} queries the source may run at once were still running after {secs} s")]
    Busy {
        /// The source's `concurrency`.
        concurrency: usize,
        /// The limit.
        secs: f64,
    },
    /// No connection, or it broke.
    #[error("the source cannot be reached: {why}")]
    Unreachable {
        /// The cause.
        why: String,
    },
    /// The name resolves to an address that is never spoken to.
    #[error("the source cannot be reached: {why}")]
    ForbiddenAddress {
        /// Which one.
        why: String,
    },
    /// Answered with a redirect, which is not followed.
    #[error(
        "the source redirects ({status}); redirects are not followed, write the final address into the configuration"
    )]
    Redirected {
        /// HTTP status.
        status: u16,
    },
    /// Answered with an HTTP error and no explanation of Prometheus' form.
    #[error("the source answered HTTP {status}: {text}")]
    HttpStatus {
        /// HTTP status.
        status: u16,
        /// Beginning of the body.
        text: String,
    },
    /// Prometheus explained why it will not answer.
    #[error("the source refused the query ({kind}): {text}")]
    Refused {
        /// `errorType`.
        kind: String,
        /// `error`.
        text: String,
    },
    /// The answer is not what Prometheus' API answers.
    #[error("the answer is not Prometheus' ({why}); it begins: {begins}")]
    NotPrometheus {
        /// The parser's complaint.
        why: String,
        /// Beginning of the body.
        begins: String,
    },
    /// The answer ended too early.
    #[error("the answer broke off after {bytes} bytes")]
    Truncated {
        /// Bytes received.
        bytes: usize,
    },
    /// The answer is larger than accepted.
    #[error("the answer is larger than {limit_bytes} bytes")]
    Oversized {
        /// The limit.
        limit_bytes: usize,
    },
    /// More series than accepted.
    #[error("the answer has {series} series, more than the {limit} accepted")]
    TooManySeries {
        /// How many.
        series: usize,
        /// The limit.
        limit: usize,
    },
    /// A vector without elements.
    #[error("the answer is empty: no series matches the query now")]
    Empty,
    /// One number was expected.
    #[error("the answer has {series} series where one is expected; aggregate with sum(...) or max(...)")]
    SeveralSeries {
        /// How many.
        series: usize,
    },
    /// A matrix, a string, or a native histogram in place of a number.
    #[error("the answer is {got} where one number is expected")]
    WrongType {
        /// What it is.
        got: &'static str,
    },
    /// NaN, most often 0/0.
    #[error("the answer is NaN (not a number), most often from 0/0")]
    NotANumber,
    /// An infinity, or beyond any number.
    #[error("the answer is infinite ({raw})")]
    Infinite {
        /// As received.
        raw: String,
    },
    /// A text that is no number.
    #[error("the answer {raw:?} is not a number")]
    NotNumeric {
        /// As received.
        raw: String,
    },
    /// Below zero.
    #[error("the answer is negative ({raw}); none of the signals can be")]
    Negative {
        /// As received.
        raw: String,
    },
    /// A ratio above one.
    #[error("the answer {raw} is not a ratio 0..1{}", if *.percent { "; it looks like a percentage, divide by 100" } else { "" })]
    NotARatio {
        /// As received.
        raw: String,
        /// At most 100.
        percent: bool,
    },
    /// Nothing, or a past with holes, of what the source could reach of its data.
    #[error("the source can answer from a part of its data only: {why}")]
    PartOfData {
        /// What the source said.
        why: String,
    },
    /// The price is nothing.
    #[error("a price of zero is treated as unknown: nothing is free")]
    ZeroPrice,
    /// The freshness query points into the future.
    #[error(
        "the freshness query says that the newest sample is from {} s in the future; is it a Unix time in seconds?",
        fixed(*secs, 0)
    )]
    FromTheFuture {
        /// How far.
        secs: f64,
    },
    /// The freshness query failed: nobody can say how old the value is.
    #[error("the age cannot be told: {0}")]
    Freshness(#[source] Box<ReadFault>),
    /// No bucket, or no `+Inf` bucket, in the answer.
    #[error("the answer has no usable buckets: {why}")]
    NoBuckets {
        /// What is missing.
        why: String,
    },
    /// The quantile or the target lies above the largest finite bucket.
    #[error(
        "{what} lies above the largest finite bucket ({largest}); add buckets up to twice the latency target"
    )]
    AboveLargestBucket {
        /// Percentile or target.
        what: String,
        /// Its upper bound with unit.
        largest: String,
    },
    /// The metrics API is not there or does not answer.
    #[error("metrics.k8s.io: {why}")]
    MetricsApi {
        /// The cause.
        why: String,
        /// False when somebody must act: forbidden, not installed.
        transient: bool,
    },
    /// Too few of the ready pods have a usable CPU sample.
    #[error("{without} of {ready} ready pods have no usable CPU sample")]
    PodsWithoutSamples {
        /// Pods without.
        without: usize,
        /// Ready pods.
        ready: usize,
    },
    /// There is no pod to be measured.
    #[error("no pod is ready, so there is nothing to measure")]
    NoReadyPods,
}

impl ReadFault {
    /// The same fault, said of the freshness query.
    #[must_use]
    pub(crate) fn of_freshness_query(self) -> Self {
        match self {
            Self::BadQuery { why, .. } => Self::BadQuery { field: "freshnessQuery", why },
            other => other,
        }
    }

    /// Whose move it is.
    #[must_use]
    pub fn class(&self) -> FaultClass {
        match self {
            Self::TimedOut { .. }
            | Self::Busy { .. }
            | Self::Unreachable { .. }
            | Self::Truncated { .. }
            | Self::PartOfData { .. }
            | Self::Empty
            | Self::NotANumber
            | Self::PodsWithoutSamples { .. }
            | Self::NoReadyPods => FaultClass::Transient,
            Self::HttpStatus { status, .. } if *status == 429 || 500 <= *status => FaultClass::Transient,
            Self::Refused { kind, .. } if kind != "bad_data" => FaultClass::Transient,
            Self::MetricsApi { transient: true, .. } => FaultClass::Transient,
            Self::Freshness(cause) => cause.class(),
            _ => FaultClass::Invalid,
        }
    }

    /// True when only an edit of the policy helps (or of who may use a source), whatever the source does.
    #[must_use]
    pub fn is_of_policy(&self) -> bool {
        match self {
            Self::UnknownSource { .. } | Self::NotAllowed { .. } | Self::BadQuery { .. } => true,
            Self::Freshness(cause) => cause.is_of_policy(),
            _ => false,
        }
    }

    /// `Missing` when there is no number, `Invalid` when there is one that cannot be used.
    #[must_use]
    pub fn state(&self) -> State {
        match self {
            Self::SeveralSeries { .. }
            | Self::TooManySeries { .. }
            | Self::WrongType { .. }
            | Self::NotANumber
            | Self::Infinite { .. }
            | Self::NotNumeric { .. }
            | Self::Negative { .. }
            | Self::NotARatio { .. }
            | Self::ZeroPrice
            | Self::FromTheFuture { .. }
            | Self::NoBuckets { .. }
            | Self::AboveLargestBucket { .. } => State::Invalid,
            _ => State::Missing,
        }
    }
}

/// Foreign text made fit for a message, a status and a log line: one line, nothing hidden, cut.
pub(crate) fn printable(text: &str) -> String {
    let mut short = rlscaler_core::text::visible(text, MAX_FOREIGN_CHARS);
    if text.chars().nth(MAX_FOREIGN_CHARS).is_some() {
        short.push('…');
    }
    short.trim().to_owned()
}
