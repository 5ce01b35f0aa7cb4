//! What goes wrong in a scenario, as data: signals that are lost, late or wrong, pods that crash, pend or are slow, a
//! rollout, a change of price.

/// A signal a fault may hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// All of them.
    All,
    /// Requests per second.
    Qps,
    /// Latency.
    Latency,
    /// Share within the target.
    Sla,
    /// Share that failed.
    Errors,
    /// CPU.
    Cpu,
    /// Price.
    Price,
}

/// Something that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FaultKind {
    /// The signal cannot be read.
    SignalLost(Channel),
    /// The signal is this many seconds later than usual.
    SignalLate(Channel, f64),
    /// The signal's value is multiplied; a factor that is not finite makes it invalid.
    SignalWrong(Channel, f64),
    /// At its start this share of the ready pods crashes; they stay unhealthy until its end and then start again.
    PodsCrash {
        /// 0..1.
        share: f64,
    },
    /// Pods asked for meanwhile cannot be placed before its end.
    PodsPend,
    /// This share of the ready pods serves at this share of full speed.
    PodsSlow {
        /// 0..1.
        share: f64,
        /// Greater than 0.
        speed: f64,
    },
    /// At its start a new version is rolled out: this share of the wanted replicas is added, and old pods go as new
    /// ones become ready. Ends by itself.
    Rollout {
        /// Greater than 0.
        surge: f64,
    },
    /// A replica costs this much for an hour.
    Price {
        /// Price of one replica for an hour.
        per_replica_hour: f64,
    },
    /// The load is multiplied by this: a dependency's retry storm, a crowd.
    Load {
        /// 0 or more.
        factor: f64,
    },
    /// Every request takes this many times longer and no more CPU: a dependency is slow.
    SlowDependency {
        /// 1 or more.
        factor: f64,
    },
}

/// A fault and when it lasts, seconds of the scenario.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fault {
    /// First second.
    pub from_secs: f64,
    /// First second after it.
    pub until_secs: f64,
    /// What it is.
    pub kind: FaultKind,
}

impl Fault {
    /// True while it lasts.
    #[must_use]
    pub fn lasts(&self, time_secs: f64) -> bool {
        self.from_secs <= time_secs && time_secs < self.until_secs
    }
}

impl Channel {
    /// True when a fault of this channel hits `other`.
    #[must_use]
    pub fn hits(self, other: Channel) -> bool {
        self == Channel::All || self == other
    }
}
