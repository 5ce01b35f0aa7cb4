//! The numbers of a demo. In: time factor, minutes, a trace. Out: every time in trace seconds and, divided by K, as
//! Kubernetes wants it: whole. Pure but for reading the trace. Refuses what would not divide.

use anyhow::{Context, Result, ensure};
use rlscaler_sim::profile::{Profile, Startup};
use rlscaler_sim::trace::Trace;

/// Factors that divide every whole-second time of Kubernetes in use here: 15, 30, 60 and 300 seconds.
pub const SPEEDS: [u32; 3] = [1, 3, 5];

/// Seconds between two decisions of either scaler, trace time: the HPA's default.
pub const INTERVAL_SECS: u32 = 15;

/// Window of the rates the policy looks at, trace seconds.
pub const WINDOW_SECS: u32 = 30;

/// The HPA's default memory of its own recommendations when scaling down, trace seconds.
pub const HPA_DOWN_WINDOW_SECS: u32 = 300;

/// The policy's default memory when scaling down, trace seconds.
pub const POLICY_DOWN_WINDOW_SECS: u32 = 30;

/// CPU target of the HPA, percent of the request.
pub const HPA_CPU_PERCENT: u32 = 60;

/// Bounds of both scalers.
pub const MIN_REPLICAS: u32 = 2;
/// Bounds of both scalers.
pub const MAX_REPLICAS: u32 = 40;

/// Pods kept busy at the trace's peak: the HPA then asks for about 30, and a small machine still plays them.
const PEAK_BUSY_PODS: f64 = 18.0;

/// Longest replay, minutes of the wall: four times the longest bundled hour at K = 1.
const MAX_MINUTES: f64 = 240.0;

/// What will be played.
#[derive(Debug, Clone)]
pub struct Plan {
    /// K.
    pub speed: u32,
    /// What will be replayed, scaled to the size of the demo.
    pub trace: Trace,
    /// What the service is, in trace time; its times are multiples of K milliseconds.
    pub profile: Profile,
    /// Replicas both begin with: what an HPA would run at the trace's first rate.
    pub start_replicas: u32,
    /// Seed of arrivals and work.
    pub seed: u64,
}

impl Plan {
    /// Checks the arguments and reads the trace.
    ///
    /// # Errors
    /// When K does not divide Kubernetes' times, the minutes are none, or the trace cannot be read.
    pub fn new(speed: u32, minutes: f64, trace: &str, seed: u64) -> Result<Self> {
        ensure!(
            SPEEDS.contains(&speed),
            "--speed {speed}: Kubernetes' times (15, 30, 60 and 300 s) divided by it must be whole seconds; use 1, 3 or 5"
        );
        ensure!(
            minutes.is_finite() && 0.0 < minutes && minutes <= MAX_MINUTES,
            "--minutes {minutes}: expected more than 0 and at most {MAX_MINUTES}"
        );
        let mut profile = Profile::shipped("web").context("the web profile ships")?;
        for secs in [&mut profile.service.service_secs, &mut profile.service.target_secs] {
            *secs = f64::from(wall_milliseconds(*secs, speed) * speed) / 1000.0;
        }
        let wanted_secs = minutes * 60.0 * f64::from(speed);
        let whole = Trace::open(trace).context("--trace")?;
        let rate_at_peak = PEAK_BUSY_PODS * profile.service.pod_capacity();
        let trace = whole.slice(0.0, wanted_secs).scaled_to_peak(rate_at_peak);
        let busy_pods = trace.rate_at(0.0) / profile.service.pod_capacity();
        let start = (busy_pods * 100.0 / f64::from(HPA_CPU_PERCENT)).ceil() as u32;
        Ok(Self { speed, trace, profile, start_replicas: start.clamp(MIN_REPLICAS, MAX_REPLICAS), seed })
    }

    /// A time of the trace as Kubernetes is told it.
    #[must_use]
    pub fn wall_secs(&self, trace_secs: u32) -> u32 {
        trace_secs / self.speed
    }

    /// The latency target the policy is told, milliseconds of the wall.
    #[must_use]
    pub fn target_wall_ms(&self) -> u32 {
        wall_milliseconds(self.profile.service.target_secs, self.speed)
    }

    /// The service time the policy is told, milliseconds of the wall.
    #[must_use]
    pub fn service_wall_ms(&self) -> u32 {
        wall_milliseconds(self.profile.service.service_secs, self.speed)
    }

    /// Price of a replica for an hour of the wall, in which K hours of the trace pass.
    #[must_use]
    pub fn wall_price_per_replica_hour(&self) -> f64 {
        self.profile.price_per_replica_hour * f64::from(self.speed)
    }

    /// Shortest and longest start-up of a pod, milliseconds of the wall. kwok draws uniformly between two bounds; they
    /// are put so that the 10th and the 90th percentile of the profile's law are the uniform law's start and 90th.
    #[must_use]
    pub fn startup_wall_ms(&self) -> (u32, u32) {
        const Z_OF_P10: f64 = -1.281_551_565_544_8;
        let startup: Startup = self.profile.startup;
        let shortest = startup.secs_at(Z_OF_P10);
        let longest = shortest + (startup.p90_secs - shortest) / 0.9;
        (wall_milliseconds(shortest, self.speed), wall_milliseconds(longest, self.speed))
    }

    /// What is about to be shown, for the terminal.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { speed, trace, profile, start_replicas, seed } = self;
        format!(
            "demo: {} for {:.0} min of trace at K = {speed} ({:.1} min of yours), seed {seed}\n  service: {} workers x {:.0} ms, \
             target {:.0} ms, start-up {:.0} s (90th percentile), peak {:.0} requests/s\n  both scalers: {MIN_REPLICAS}..{MAX_REPLICAS} replicas, \
             {INTERVAL_SECS} s interval, starting from {start_replicas}. All figures in trace time unless said otherwise.",
            trace.name(),
            trace.duration_secs() / 60.0,
            trace.duration_secs() / 60.0 / f64::from(*speed),
            profile.service.workers,
            profile.service.service_secs * 1000.0,
            profile.service.target_secs * 1000.0,
            profile.startup.p90_secs,
            trace.peak(),
        )
    }
}

fn wall_milliseconds(trace_secs: f64, speed: u32) -> u32 {
    (trace_secs * 1000.0 / f64::from(speed)).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(speed: u32) -> Plan {
        Plan::new(speed, 1.0, "gen:step:1", 1).unwrap()
    }

    #[test]
    fn only_factors_that_leave_whole_seconds_are_accepted() {
        for speed in 0..=10 {
            let divides = [INTERVAL_SECS, WINDOW_SECS, 60, HPA_DOWN_WINDOW_SECS]
                .iter()
                .all(|secs| 0 < speed && secs % speed == 0);
            let accepted = Plan::new(speed, 1.0, "gen:step:1", 1).is_ok();
            assert_eq!(accepted, divides && speed <= 5, "{speed}");
        }
        assert!(Plan::new(4, 1.0, "gen:step:1", 1).unwrap_err().to_string().contains("use 1, 3 or 5"));
    }

    #[test]
    fn the_policy_is_told_exactly_what_the_service_is() {
        for speed in SPEEDS {
            let plan = plan(speed);
            let told = f64::from(plan.target_wall_ms() * speed) / 1000.0;
            assert_eq!(told, plan.profile.service.target_secs, "K = {speed}");
            let told = f64::from(plan.service_wall_ms() * speed) / 1000.0;
            assert_eq!(told, plan.profile.service.service_secs, "K = {speed}");
        }
        assert_eq!((plan(5).target_wall_ms(), plan(5).service_wall_ms()), (50, 10));
    }

    #[test]
    fn minutes_are_of_the_wall() {
        for speed in SPEEDS {
            assert_eq!(plan(speed).trace.duration_secs(), 60.0 * f64::from(speed));
        }
        for minutes in [0.0, -1.0, f64::NAN, 1e9] {
            assert!(Plan::new(5, minutes, "gen:step:1", 1).is_err(), "{minutes}");
        }
    }

    #[test]
    fn one_in_ten_pods_takes_longer_than_the_stated_start_up() {
        let (shortest, longest) = plan(5).startup_wall_ms();
        let p90 = f64::from(shortest) + 0.9 * f64::from(longest - shortest);
        assert!((p90 - 12_000.0).abs() < 2.0, "{shortest} {longest}");
    }

    #[test]
    fn a_trace_that_is_not_there_is_named() {
        let error = format!("{:#}", Plan::new(5, 1.0, "no-such-trace.csv", 1).unwrap_err());
        assert!(error.contains("no-such-trace.csv"), "{error}");
    }
}
