//! What kind of service is simulated, as a file a person can copy and change. In: the name of one that ships, or a
//! TOML file of the same form. Out: `Profile`, checked.

use std::path::Path;

use rlscaler_core::queue::Service;
use serde::Deserialize;
use thiserror::Error;

use crate::model::{MAX_WAITING, ServiceLaw, ServiceModel, SlowStart};

/// Largest profile file read, bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// Most replicas a profile may allow; the simulator keeps a little state for each.
pub const MAX_REPLICAS: u32 = 10_000;

/// The standard normal value below which nine of ten draws lie.
const NORMAL_P90: f64 = 1.281_551_565_544_8;

/// How long a pod takes from being asked for to Ready.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Startup {
    /// 90th percentile, seconds. Not negative.
    pub p90_secs: f64,
    /// Standard deviation over mean of the lognormal; 0 is constant.
    pub cv: f64,
}

impl Startup {
    /// The start-up time at the standard normal value `z`.
    #[must_use]
    pub fn secs_at(self, z: f64) -> f64 {
        let sigma = (self.cv * self.cv).ln_1p().sqrt();
        self.p90_secs * (sigma * (z - NORMAL_P90)).exp()
    }
}

/// A kind of service.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Its name in tables.
    pub name: String,
    /// How it serves.
    pub service: ServiceModel,
    /// How its pods start.
    pub startup: Startup,
    /// Price of one replica for an hour.
    pub price_per_replica_hour: f64,
    /// CPU request of one pod, cores; a pod whose workers are all busy uses exactly this.
    pub pod_cpu_request: f64,
    /// Pods kept busy at the trace's peak.
    pub peak_busy_pods: f64,
    /// Bounds for every scaler.
    pub min_replicas: u32,
    /// Bounds for every scaler.
    pub max_replicas: u32,
}

/// Why a profile cannot be used.
#[derive(Debug, Error)]
pub enum ProfileFault {
    /// The file cannot be read.
    #[error("{file}: cannot be read (profiles that ship: {})", NAMES.join(", "))]
    Read {
        /// The file as given.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not TOML, a field missing, unknown, or of the wrong type; the cause names line and field.
    #[error("{file}: not a profile: {fault}")]
    Form {
        /// The file as given.
        file: String,
        /// Line and field.
        fault: String,
    },
    /// A field's value makes no service.
    #[error("{file}: {field}: expected {expected}, found {found}")]
    Value {
        /// The file as given.
        file: String,
        /// Its field.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: f64,
    },
}

/// Names of the profiles that ship.
pub const NAMES: [&str; 5] = ["web", "small", "jvm", "edge", "llm"];

impl Profile {
    /// A profile that ships, or the file at this path.
    ///
    /// # Errors
    /// Says which field of which file is wrong, and what was expected.
    pub fn open(what: &str) -> Result<Self, ProfileFault> {
        if let Some(text) = shipped(what) {
            return Self::parse(text, what);
        }
        let fault = |source| ProfileFault::Read { file: what.to_owned(), source };
        let file = std::fs::File::open(Path::new(what)).map_err(fault)?;
        let mut text = String::new();
        std::io::Read::read_to_string(&mut std::io::Read::take(file, MAX_FILE_BYTES), &mut text)
            .map_err(fault)?;
        Self::parse(&text, what)
    }

    /// A profile from TOML; `file` is used in errors.
    ///
    /// # Errors
    /// As `open`.
    pub fn parse(text: &str, file: &str) -> Result<Self, ProfileFault> {
        let wire: Wire = toml::from_str(text)
            .map_err(|fault| ProfileFault::Form { file: file.to_owned(), fault: fault.to_string() })?;
        wire.check(file)
    }

    /// A profile that ships. `None` for another name.
    #[must_use]
    pub fn shipped(name: &str) -> Option<Self> {
        let text = shipped(name)?;
        Some(Self::parse(text, name).expect("every shipped profile is parsed by a test"))
    }

    /// The service as the queue model sees it.
    #[must_use]
    pub fn station(&self) -> Service {
        let cv = self.service.law.cv();
        Service {
            workers: self.service.workers,
            service_secs: self.service.service_secs,
            target_secs: self.service.target_secs,
            variability: (1.0 + cv * cv) / 2.0,
        }
    }
}

fn shipped(name: &str) -> Option<&'static str> {
    match name {
        "web" => Some(include_str!("../profiles/web.toml")),
        "jvm" => Some(include_str!("../profiles/jvm.toml")),
        "small" => Some(include_str!("../profiles/small.toml")),
        "edge" => Some(include_str!("../profiles/edge.toml")),
        "llm" => Some(include_str!("../profiles/llm.toml")),
        _ => None,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    name: String,
    workers: u32,
    service_ms: f64,
    service_cv: f64,
    target_ms: f64,
    timeout_seconds: f64,
    startup_seconds: f64,
    startup_cv: f64,
    price_per_replica_hour: f64,
    pod_cpu_request: f64,
    peak_busy_pods: f64,
    min_replicas: u32,
    max_replicas: u32,
    slow_start: Option<WireSlowStart>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireSlowStart {
    seconds: f64,
    initial_speed: f64,
}

impl Wire {
    fn check(self, file: &str) -> Result<Profile, ProfileFault> {
        let Wire { name, workers, service_ms, service_cv, target_ms, timeout_seconds, .. } = self;
        let positive = |value: f64| 0.0 < value && value <= 1e6;
        let not_negative = |value: f64| (0.0..=1e6).contains(&value);
        let replicas = f64::from(self.max_replicas);
        let warm = self.slow_start.as_ref();
        let checks = [
            ("workers", f64::from(workers), (1..=10_000).contains(&workers), "1 to 10000"),
            ("service_ms", service_ms, positive(service_ms), "a positive time"),
            ("service_cv", service_cv, (0.0..=10.0).contains(&service_cv), "0 to 10"),
            ("target_ms", target_ms, positive(target_ms), "a positive time"),
            ("timeout_seconds", timeout_seconds, positive(timeout_seconds), "a positive time"),
            ("startup_seconds", self.startup_seconds, not_negative(self.startup_seconds), "0 or more"),
            ("startup_cv", self.startup_cv, (0.0..=5.0).contains(&self.startup_cv), "0 to 5"),
            (
                "price_per_replica_hour",
                self.price_per_replica_hour,
                not_negative(self.price_per_replica_hour),
                "0 or more",
            ),
            (
                "pod_cpu_request",
                self.pod_cpu_request,
                positive(self.pod_cpu_request),
                "a positive number of cores",
            ),
            (
                "peak_busy_pods",
                self.peak_busy_pods,
                positive(self.peak_busy_pods),
                "a positive number of pods",
            ),
            ("max_replicas", replicas, (1..=MAX_REPLICAS).contains(&self.max_replicas), "1 to 10000"),
            (
                "min_replicas",
                f64::from(self.min_replicas),
                self.min_replicas <= self.max_replicas,
                "at most max_replicas",
            ),
            (
                "slow_start.seconds",
                warm.map_or(1.0, |warm| warm.seconds),
                warm.is_none_or(|warm| positive(warm.seconds)),
                "a positive time",
            ),
            (
                "slow_start.initial_speed",
                warm.map_or(1.0, |warm| warm.initial_speed),
                warm.is_none_or(|warm| (0.01..=1.0).contains(&warm.initial_speed)),
                "0.01 to 1",
            ),
        ];
        if let Some((field, found, _, expected)) = checks.into_iter().find(|(_, _, right, _)| !right) {
            return Err(ProfileFault::Value { file: file.to_owned(), field, expected, found });
        }
        let law = if service_cv == 0.0 {
            ServiceLaw::Deterministic
        } else {
            ServiceLaw::Lognormal { cv: service_cv }
        };
        Ok(Profile {
            name,
            service: ServiceModel {
                workers,
                service_secs: service_ms / 1e3,
                law,
                target_secs: target_ms / 1e3,
                timeout_secs: timeout_seconds,
                max_waiting: MAX_WAITING,
                slow_start: self
                    .slow_start
                    .map(|warm| SlowStart { secs: warm.seconds, initial_speed: warm.initial_speed }),
            },
            startup: Startup { p90_secs: self.startup_seconds, cv: self.startup_cv },
            price_per_replica_hour: self.price_per_replica_hour,
            pod_cpu_request: self.pod_cpu_request,
            peak_busy_pods: self.peak_busy_pods,
            min_replicas: self.min_replicas,
            max_replicas: self.max_replicas,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_profile_can_be_read() {
        for name in NAMES {
            assert_eq!(Profile::shipped(name).unwrap().name, name);
        }
    }

    #[test]
    fn a_wrong_profile_is_refused_with_its_field() {
        let web = shipped("web").unwrap();
        for (from, to, named) in [
            ("workers = 4", "workers = 0", "workers: expected 1 to 10000, found 0"),
            ("workers = 4", "wrokers = 4", "wrokers"),
            ("service_ms = 50", "service_ms = -1", "service_ms: expected a positive time, found -1"),
            ("service_ms = 50", "service_ms = nan", "service_ms"),
            (
                "min_replicas = 1",
                "min_replicas = 101",
                "min_replicas: expected at most max_replicas, found 101",
            ),
            ("target_ms = 250", "target_ms = \"quick\"", "target_ms"),
        ] {
            let fault = Profile::parse(&web.replace(from, to), "my.toml").unwrap_err().to_string();
            assert!(fault.starts_with("my.toml: ") && fault.contains(named), "{fault}");
        }
    }

    #[test]
    fn nine_of_ten_pods_start_within_the_stated_time() {
        let startup = Startup { p90_secs: 60.0, cv: 0.2 };
        assert!((startup.secs_at(NORMAL_P90) - 60.0).abs() < 1e-9);
        assert!(startup.secs_at(0.0) < 60.0);
        assert_eq!(Startup { p90_secs: 60.0, cv: 0.0 }.secs_at(2.0), 60.0);
    }
}
