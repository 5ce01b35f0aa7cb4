//! The pods of a simulated service: asked for, starting, ready, crashed, and gone. In: how many are wanted, and the
//! time. Out: which are ready and since when, and what they cost. A pod costs from the moment it is asked for.
//!
//! As a ReplicaSet does, pods that are not ready go first, then those ready for the shortest time.

use rand_distr::{Distribution, Exp1, StandardNormal};

use crate::exact::PodId;
use crate::model::SlowStart;
use crate::profile::Startup;
use crate::seed::{Seed, Stream};

/// The pods of one service.
#[derive(Debug, Clone)]
pub struct Fleet {
    startup: Startup,
    wanted: u32,
    next_id: u64,
    /// In the order in which they became ready.
    ready: Vec<ReadyPod>,
    starting: Vec<StartingPod>,
    /// Asked for while nothing can be placed.
    unschedulable: Vec<PodId>,
    /// Crashed and not yet started again.
    unhealthy: Vec<PodId>,
    placement: Placement,
    /// Ready pods with an id below this belong to an old version.
    version: u64,
    surge: u32,
    delays: Stream,
    failures: Failures,
}

/// A pod that serves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadyPod {
    /// Which.
    pub id: PodId,
    /// Since when, seconds.
    pub since_secs: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct StartingPod {
    id: PodId,
    ready_at_secs: f64,
}

/// Whether new pods find a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// They do.
    Open,
    /// They stay pending.
    Blocked,
}

#[derive(Debug, Clone)]
struct Failures {
    per_pod_sec: f64,
    /// Pod-seconds until the next failure.
    remaining: f64,
    draws: Stream,
}

/// Pods counted by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Serving.
    pub ready: u32,
    /// On their way.
    pub starting: u32,
    /// Without a node.
    pub unschedulable: u32,
    /// Crashed.
    pub unhealthy: u32,
}

impl Count {
    /// Pods that cost: those without a node occupy none.
    #[must_use]
    pub fn paid(self) -> u32 {
        self.ready + self.starting + self.unhealthy
    }
}

impl Fleet {
    /// A fleet of `replicas` pods that have been ready for long. Failures are per pod and hour.
    #[must_use]
    pub fn new(startup: Startup, replicas: u32, failures_per_pod_hour: f64, seed: Seed) -> Self {
        let mut draws = seed.stream("failures");
        let remaining = Exp1.sample(&mut draws);
        let failures = Failures { per_pod_sec: failures_per_pod_hour / 3_600.0, remaining, draws };
        let old = |id| ReadyPod { id: PodId(id), since_secs: f64::NEG_INFINITY };
        Self {
            startup,
            wanted: replicas,
            next_id: u64::from(replicas),
            ready: (0..u64::from(replicas)).map(old).collect(),
            starting: Vec::new(),
            unschedulable: Vec::new(),
            unhealthy: Vec::new(),
            placement: Placement::Open,
            version: 0,
            surge: 0,
            delays: seed.stream("startup"),
            failures,
        }
    }

    /// Replicas wanted.
    #[must_use]
    pub fn wanted(&self) -> u32 {
        self.wanted
    }

    /// Ready pods, those ready longest first.
    #[must_use]
    pub fn ready(&self) -> &[ReadyPod] {
        &self.ready
    }

    /// Pods counted by state.
    #[must_use]
    pub fn count(&self) -> Count {
        let len = |pods: usize| u32::try_from(pods).unwrap_or(u32::MAX);
        Count {
            ready: len(self.ready.len()),
            starting: len(self.starting.len()),
            unschedulable: len(self.unschedulable.len()),
            unhealthy: len(self.unhealthy.len()),
        }
    }

    /// Wants this many from now on.
    pub fn scale(&mut self, now_secs: f64, replicas: u32) {
        self.wanted = replicas;
        self.reconcile(now_secs);
    }

    /// Whether new pods find a node from now on; those that found none start when it opens.
    pub fn place(&mut self, now_secs: f64, placement: Placement) {
        if self.placement == placement {
            return;
        }
        self.placement = placement;
        if placement == Placement::Open {
            for id in std::mem::take(&mut self.unschedulable) {
                self.start(now_secs, id);
            }
        }
    }

    /// This share of the ready pods, rounded, crashes. Returns who.
    pub fn crash(&mut self, share: f64) -> Vec<PodId> {
        let count = (share.clamp(0.0, 1.0) * self.ready.len() as f64).round() as usize;
        let gone: Vec<PodId> = self.ready.drain(..count).map(|pod| pod.id).collect();
        self.unhealthy.extend(&gone);
        gone
    }

    /// Crashed pods start again.
    pub fn recover(&mut self, now_secs: f64) {
        for _ in std::mem::take(&mut self.unhealthy) {
            let id = self.new_id();
            self.start(now_secs, id);
        }
        self.reconcile(now_secs);
    }

    /// A new version is rolled out with this many pods on top of the wanted.
    pub fn roll_out(&mut self, now_secs: f64, surge: f64) {
        self.version = self.next_id;
        self.surge = (surge * f64::from(self.wanted)).ceil().max(1.0) as u32;
        self.reconcile(now_secs);
    }

    /// Lets the time pass to `to_secs`: pods become ready, fail, and are replaced in a rollout. Returns who failed.
    pub fn pass(&mut self, from_secs: f64, to_secs: f64) -> Option<PodId> {
        if !self.starting.is_empty() {
            self.become_ready(to_secs);
        }
        if 0 < self.surge {
            self.replace_old(to_secs);
        }
        if self.failures.per_pod_sec <= 0.0 || self.ready.is_empty() {
            return None;
        }
        // At most one a tick: more would need a rate at which no service lives.
        self.failures.remaining -=
            self.failures.per_pod_sec * self.ready.len() as f64 * (to_secs - from_secs);
        if 0.0 < self.failures.remaining {
            return None;
        }
        self.failures.remaining = Exp1.sample(&mut self.failures.draws);
        let failed = self.ready.remove(0);
        let id = self.new_id();
        self.start(to_secs, id);
        Some(failed.id)
    }

    /// Pods ready during the stretch, those that became ready within it by the share of it, and their mean speed.
    #[must_use]
    pub fn capacity(&self, from_secs: f64, to_secs: f64, slow_start: Option<SlowStart>) -> (f64, f64) {
        let length = to_secs - from_secs;
        let mut pods = self.ready.len() as f64;
        let mut slow = 0.0;
        let warming = slow_start.map_or(0.0, |slow_start| slow_start.secs);
        // The youngest are last: older than this one, none matters.
        for pod in self.ready.iter().rev().take_while(|pod| from_secs - warming < pod.since_secs) {
            let present = ((to_secs - pod.since_secs) / length).min(1.0);
            pods -= 1.0 - present;
            if let Some(slow_start) = slow_start {
                let middle = from_secs.max(pod.since_secs) + 0.5 * present * length;
                slow += present * (1.0 - slow_start.speed(middle - pod.since_secs));
            }
        }
        (pods, if 0.0 < pods { (pods - slow) / pods } else { 1.0 })
    }

    fn become_ready(&mut self, to_secs: f64) {
        let before = self.ready.len();
        let ready = &mut self.ready;
        self.starting.retain(|pod| {
            let still = to_secs < pod.ready_at_secs;
            if !still {
                ready.push(ReadyPod { id: pod.id, since_secs: pod.ready_at_secs });
            }
            still
        });
        ready[before..].sort_by(|a, b| a.since_secs.total_cmp(&b.since_secs));
    }

    fn replace_old(&mut self, now_secs: f64) {
        let version = self.version;
        let spare = self.ready.len().saturating_sub(self.wanted as usize);
        let mut gone = 0;
        self.ready.retain(|pod| {
            let goes = gone < spare && pod.id.0 < version;
            gone += usize::from(goes);
            !goes
        });
        if self.ready.iter().all(|pod| version <= pod.id.0) {
            self.surge = 0;
        }
        self.reconcile(now_secs);
    }

    fn reconcile(&mut self, now_secs: f64) {
        let total = self.wanted as usize + self.surge as usize;
        let mut present =
            self.ready.len() + self.starting.len() + self.unschedulable.len() + self.unhealthy.len();
        while present < total {
            let id = self.new_id();
            match self.placement {
                Placement::Open => self.start(now_secs, id),
                Placement::Blocked => self.unschedulable.push(id),
            }
            present += 1;
        }
        while total < present {
            let gone = self.unschedulable.pop().is_some()
                || self.unhealthy.pop().is_some()
                || self.starting.pop().is_some()
                || self.ready.pop().is_some();
            debug_assert!(gone);
            present -= 1;
        }
    }

    fn new_id(&mut self) -> PodId {
        self.next_id += 1;
        PodId(self.next_id - 1)
    }

    fn start(&mut self, now_secs: f64, id: PodId) {
        // One draw per pod in order of creation: the n-th pod takes equally long whoever scales.
        let z: f64 = StandardNormal.sample(&mut self.delays);
        self.starting.push(StartingPod { id, ready_at_secs: now_secs + self.startup.secs_at(z) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(replicas: u32) -> Fleet {
        Fleet::new(Startup { p90_secs: 60.0, cv: 0.0 }, replicas, 0.0, Seed(1))
    }

    #[test]
    fn a_pod_costs_from_the_order_and_serves_from_its_start_up_time() {
        let mut fleet = fleet(2);
        fleet.scale(0.0, 3);
        assert_eq!((fleet.count().paid(), fleet.count().ready), (3, 2));
        fleet.pass(0.0, 55.0);
        assert_eq!(fleet.count().ready, 2);
        fleet.pass(55.0, 65.0);
        assert_eq!(fleet.count().ready, 3);
        assert_eq!(fleet.capacity(55.0, 65.0, None), (2.5, 1.0));
    }

    #[test]
    fn those_not_ready_go_first_and_then_the_youngest() {
        let mut fleet = fleet(3);
        fleet.scale(0.0, 5);
        fleet.scale(1.0, 2);
        assert_eq!(fleet.count(), Count { ready: 2, ..Count::default() });
        assert_eq!(fleet.ready()[1].id, PodId(1));
    }

    #[test]
    fn a_rollout_keeps_the_wanted_ready_and_ends() {
        let mut fleet = fleet(8);
        fleet.roll_out(0.0, 0.25);
        assert_eq!(fleet.count().starting, 2);
        for tick in 0..100 {
            fleet.pass(f64::from(tick) * 5.0, f64::from(tick + 1) * 5.0);
            assert!(8 <= fleet.count().ready && fleet.count().paid() <= 10);
        }
        assert_eq!(fleet.count(), Count { ready: 8, ..Count::default() });
        assert!(fleet.ready().iter().all(|pod| 8 <= pod.id.0));
    }

    #[test]
    fn crashed_pods_return_and_pending_ones_wait_for_a_node() {
        let mut fleet = fleet(4);
        assert_eq!(fleet.crash(0.5).len(), 2);
        assert_eq!((fleet.count().ready, fleet.count().unhealthy), (2, 2));
        fleet.recover(10.0);
        assert_eq!(fleet.count().starting, 2);
        fleet.place(10.0, Placement::Blocked);
        fleet.scale(10.0, 6);
        assert_eq!((fleet.count().unschedulable, fleet.count().paid()), (2, 4));
        fleet.place(20.0, Placement::Open);
        fleet.pass(20.0, 80.0);
        assert_eq!(fleet.count().ready, 6);
    }

    #[test]
    fn a_fresh_pod_is_slow() {
        let mut fleet = fleet(1);
        fleet.scale(0.0, 2);
        fleet.pass(55.0, 60.0);
        let slow = Some(SlowStart { secs: 100.0, initial_speed: 0.5 });
        let (pods, speed) = fleet.capacity(60.0, 70.0, slow);
        assert!((pods - 2.0).abs() < 1e-9 && (speed - (1.0 + 0.525) / 2.0).abs() < 1e-9, "{pods} {speed}");
        assert_eq!(fleet.capacity(200.0, 205.0, slow).1, 1.0);
    }
}
