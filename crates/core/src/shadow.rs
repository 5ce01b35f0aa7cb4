//! What would have been, had the decisions been followed: beside the replicas that really run, those that were decided,
//! each behind a fluid queue with a random layer under the load that was measured.
//!
//! In: each tick's scene, the driver's proposal, what one pod carries, the late share that was measured. Out: pod-hours
//! and late shares of both paths, and whether the model's lateness of the *real* path is what was measured: only then
//! is the other one to be trusted. The decided path asks the same guardrails about its own count, with windows and rate
//! limits of its own. Never: a part in any decision that is reported or acted on.

mod waiting;

use crate::behavior::Track;
use crate::capacity::PodCapacity;
use crate::guardrail::{HOUR_SECS, Proposal, Rails, Scene, guard};
use crate::memory::{ShadowMemory, ShadowSums};
use crate::observation::{Observation, Pods};
use crate::queue::Service;
use crate::settings::Settings;
use waiting::Step;

/// Length of a bucket: an hour. Real time.
const BUCKET_SECS: f64 = 3_600.0;
/// Buckets kept: a day.
pub const MAX_BUCKETS: usize = 24;
/// Orders of pods under way; later ones join the last.
pub const MAX_ORDERS: usize = 16;
/// Ready counts remembered until the load of their time is read.
pub const MAX_COUNTS: usize = 16;
/// A reading of the load is about the middle of its window: half of 30 s. Real time.
const HALF_WINDOW_SECS: f64 = 15.0;
/// Seconds a caller waits before giving up. Real time.
const PATIENCE_SECS: f64 = 10.0;
/// Where the queue model expects no more than this share of what the SLA allows, what comes late is no queue's fault.
const CALM_SHARE: f64 = 0.1;
/// Requests before anything is said about agreement.
const REQUESTS_MIN: f64 = 10_000.0;
/// Seconds before anything is said about agreement. Real time.
const KNOWN_SECS: f64 = 1_800.0;
/// Late shares agree when they differ by at most this share of what the SLA allows ...
const AGREE_ALLOWED: f64 = 0.5;
/// ... or of the larger one.
const AGREE_SHARE: f64 = 0.4;
/// CPU may show pods busier or less busy by this factor than the declared capacity says.
const AGREE_BUSY: f64 = 1.2;
/// CPU that shows less than this share of it is no measure of how busy a pod is: pods wait for others.
const BUSY_SHARE_MIN: f64 = 0.5;

/// One path over a stretch of time, and what was measured in it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Window {
    /// Seconds.
    pub secs: f64,
    /// Pod-hours that were really asked for.
    pub replica_hours: f64,
    /// Pod-hours that were decided.
    pub would_be_hours: f64,
    /// Pod-hours of a stock HPA, where its answer was ever known.
    pub hpa_hours: Option<f64>,
    /// Late share that was measured.
    pub late: Option<f64>,
    /// What the queue model makes of the replicas that really ran, over the same time.
    pub predicted_late: Option<f64>,
    /// What it makes of the decided ones.
    pub would_be_late: Option<f64>,
}

/// Whether the prediction is to be trusted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Trust {
    /// Too little was seen.
    NotYet,
    /// The late share is not measured, so nothing says whether the model is right.
    Unmeasured,
    /// What the model makes of the replicas that really ran is what was measured.
    Agrees,
    /// It is not.
    LatenessDisagrees {
        /// Late share that was measured.
        measured: f64,
        /// What the model makes of the same replicas.
        predicted: f64,
    },
    /// CPU shows another capacity than was declared.
    CapacityDisagrees {
        /// How busy pods were by CPU, of 1.
        measured: f64,
        /// How busy the declared capacity says they were.
        declared: f64,
    },
}

/// For status and metrics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShadowReport {
    /// Since when it is counted, seconds.
    pub since_secs: f64,
    /// Since then.
    pub whole: Window,
    /// The last 24 hours.
    pub day: Window,
    /// By the last 24 hours.
    pub trust: Trust,
}

/// What a tick brings besides the scene.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Facts<'a> {
    /// Seconds since the last tick, as far as it is booked.
    pub step_secs: f64,
    /// Load in the policy's unit, where fresh.
    pub load: Option<f64>,
    /// Seconds since that load was measured.
    pub age_secs: f64,
    /// Late share that was measured.
    pub late_share: Option<f64>,
    /// What one pod carries, where known.
    pub capacity: Option<&'a PodCapacity>,
    /// The learnt factor on the load.
    pub scale: f64,
    /// What an HPA would ask for, where known.
    pub hpa_would_be: Option<u32>,
}

/// Both paths. O(1) per tick.
#[derive(Debug, Clone, PartialEq)]
pub struct Shadow {
    memory: ShadowMemory,
    rails: Rails,
}

impl Shadow {
    /// Begins now.
    #[must_use]
    pub fn new(now_secs: f64, replicas: u32) -> Self {
        Self::restore(&ShadowMemory { since_secs: now_secs, wanted: replicas, ..ShadowMemory::default() })
    }

    /// As it was.
    #[must_use]
    pub fn restore(memory: &ShadowMemory) -> Self {
        let raised_secs = (0.0 < memory.raised_secs).then_some(memory.raised_secs);
        let track = Track::restore(&memory.scaling);
        let rails = Rails { track, raised_secs, zeroed_by_us: memory.zeroed_by_us, ..Rails::default() };
        Self { memory: memory.clone(), rails }
    }

    /// What must survive.
    #[must_use]
    pub fn memory(&self) -> ShadowMemory {
        ShadowMemory {
            scaling: self.rails.track.memory(),
            raised_secs: self.rails.raised_secs.unwrap_or(0.0),
            zeroed_by_us: self.rails.zeroed_by_us,
            ..self.memory.clone()
        }
    }

    /// Moves times after the clock was stepped.
    pub fn shift(&mut self, delta_secs: f64) {
        self.rails.shift(delta_secs);
        let memory = &mut self.memory;
        memory.since_secs += delta_secs;
        memory.orders.iter_mut().for_each(|(time_secs, _)| *time_secs += delta_secs);
        memory.counts.iter_mut().for_each(|(time_secs, ..)| *time_secs += delta_secs);
    }

    /// An outage or an idle time is not longer for what nobody saw.
    pub(crate) fn leave_out(&mut self, unseen_secs: f64) {
        self.rails.leave_out(unseen_secs);
    }

    /// Requests that would be waiting there.
    #[must_use]
    pub fn backlog(&self) -> f64 {
        self.memory.queues[1].backlog
    }

    /// Replicas that would be asked for now.
    #[must_use]
    pub fn would_be(&self) -> u32 {
        self.memory.wanted
    }

    /// One tick: the time since the last one is booked, then the decided path moves on.
    pub fn tick(&mut self, scene: &Scene<'_>, proposal: Proposal, facts: &Facts<'_>) {
        let now_secs = scene.now_secs;
        self.memory.orders.retain(|(ready_secs, _)| now_secs < *ready_secs);
        self.book(scene, facts);
        self.move_on(scene, proposal);
        let memory = &mut self.memory;
        if memory.counts.len() == MAX_COUNTS {
            memory.counts.remove(0);
        }
        let ready = memory.wanted - under_way(&memory.orders).min(memory.wanted);
        memory.counts.push((now_secs, scene.seen.pods.ready, ready));
    }

    /// The same guardrails, asked about the count that would run.
    fn move_on(&mut self, scene: &Scene<'_>, proposal: Proposal) {
        let starting = under_way(&self.memory.orders).min(self.memory.wanted);
        let wanted = self.memory.wanted;
        let pods = Pods { ready: wanted - starting, starting, ..Pods::default() };
        let seen = Observation { replicas: wanted, pods, ..*scene.seen };
        let ratio = f64::from(scene.seen.pods.ready) / f64::from(pods.ready.max(1));
        let busy_ratio = scene.busy_ratio.map(|busy| busy * ratio);
        // How comfortable latency would be there is only known while those pods are no busier.
        let latency_ratio = scene.latency_ratio.filter(|_| ratio <= 1.0);
        let imagined = Scene {
            seen: &seen,
            utilization: scene.utilization.map(|used| (used * ratio).min(1.0)),
            latency_ratio,
            busy_ratio,
            undone: None,
            ..*scene
        };
        let to = guard(&mut self.rails, &imagined, proposal).replicas();
        if to == wanted {
            return;
        }
        self.rails.track.record(&scene.settings.behavior, scene.now_secs, wanted, to);
        if wanted != to {
            self.rails.track.count_change(scene.now_secs, scene.settings.scaled(HOUR_SECS));
        }
        self.rails.zeroed_by_us = to == 0;
        let memory = &mut self.memory;
        memory.wanted = to;
        if wanted < to {
            self.rails.raised_secs = Some(scene.now_secs);
            order(&mut memory.orders, scene.now_secs + scene.startup_secs, to - wanted);
        } else {
            cancel(&mut memory.orders, wanted - to);
        }
    }

    /// Books the time since the last tick: pod-seconds as they were asked for, requests against the pods that were ready
    /// when they came.
    fn book(&mut self, scene: &Scene<'_>, facts: &Facts<'_>) {
        let settings = scene.settings;
        let step_secs = facts.step_secs;
        let real = f64::from(scene.seen.replicas);
        let mut sums = ShadowSums {
            secs: step_secs,
            real: real * step_secs,
            would_be: f64::from(self.memory.wanted) * step_secs,
            ..ShadowSums::default()
        };
        if let Some(hpa) = facts.hpa_would_be {
            sums.hpa = f64::from(hpa) * step_secs;
            sums.hpa_secs = step_secs;
        }
        if let Some((load, capacity)) = facts.load.zip(facts.capacity) {
            self.book_requests(settings, scene, facts, (load, capacity), &mut sums);
        }
        let memory = &mut self.memory;
        memory.whole = added(&memory.whole, &sums);
        let index = (scene.now_secs / settings.scaled(BUCKET_SECS)).floor() as i64;
        match memory.buckets.last_mut() {
            Some((last, bucket)) if index <= *last => *bucket = added(bucket, &sums),
            _ => {
                memory.buckets.retain(|(known, _)| index < known + MAX_BUCKETS as i64);
                memory.buckets.push((index, sums));
            }
        }
    }

    fn book_requests(
        &mut self,
        settings: &Settings,
        scene: &Scene<'_>,
        facts: &Facts<'_>,
        (load, capacity): (f64, &PodCapacity),
        sums: &mut ShadowSums,
    ) {
        let when_secs = scene.now_secs - facts.age_secs - settings.scaled(HALF_WINDOW_SECS);
        let (real, would_be) = self.ready_at(when_secs, scene.seen.pods.ready);
        let service = Service {
            // So that a fully busy pod serves exactly its load per pod.
            service_secs: f64::from(capacity.service.workers) / capacity.load_per_pod,
            ..capacity.service
        };
        let step = Step {
            rate: load * facts.scale,
            patience_secs: settings.scaled(PATIENCE_SECS),
            secs: facts.step_secs,
        };
        let [real_queue, would_be_queue] = &mut self.memory.queues;
        let real_late = waiting::late_share(real_queue, &service, f64::from(real), step);
        let would_be_late = waiting::late_share(would_be_queue, &service, f64::from(would_be), step);
        let allowed = settings.allowed_late();
        let offered = load * facts.step_secs;
        if let Some(share) = facts.late_share.filter(|_| real_late <= CALM_SHARE * allowed) {
            self.memory.calm[0] += share * offered;
            self.memory.calm[1] += offered;
        }
        let anyway = self.late_anyway(allowed);
        let with_anyway = |share: f64| anyway + (1.0 - anyway) * share;
        sums.offered = offered;
        sums.would_be_late = offered * with_anyway(would_be_late);
        sums.predicted_late = offered * with_anyway(real_late);
        if let Some(share) = facts.late_share {
            sums.measured_offered = offered;
            sums.measured_late = offered * share;
            sums.measured_predicted = offered * with_anyway(real_late);
        }
        if let (Some(used), Some(declared), true) =
            (scene.utilization, settings.capacity, settings.declared.qps && 0 < scene.seen.pods.ready)
        {
            let rate_per_pod = f64::from(declared.concurrency) / declared.service_secs;
            sums.busy_secs = facts.step_secs;
            sums.busy_seen = used.min(1.0) * facts.step_secs;
            let declared = load / rate_per_pod / f64::from(real.max(1));
            sums.busy_declared = declared.min(1.0) * facts.step_secs;
        }
    }

    /// Share of requests that come late whatever waits: learnt where the model expects hardly any queue, and never more
    /// than the SLA allows, so that a queue the model does not see is not taken for it.
    fn late_anyway(&self, allowed: f64) -> f64 {
        let [late, offered] = self.memory.calm;
        if offered <= 0.0 { 0.0 } else { (late / offered).min(allowed) }
    }

    /// Ready pods of both paths at a time; those of now where nothing older is known.
    fn ready_at(&self, time_secs: f64, real_now: u32) -> (u32, u32) {
        let counts = &self.memory.counts;
        let then = counts.iter().rfind(|(known_secs, ..)| *known_secs <= time_secs).or(counts.first());
        then.map_or((real_now, real_now), |(_, real, would_be)| (*real, *would_be))
    }

    /// For status and metrics.
    #[must_use]
    pub fn report(&self, settings: &Settings) -> ShadowReport {
        let day =
            self.memory.buckets.iter().fold(ShadowSums::default(), |sum, (_, bucket)| added(&sum, bucket));
        ShadowReport {
            since_secs: self.memory.since_secs,
            whole: window(settings, &self.memory.whole),
            day: window(settings, &day),
            trust: trust(settings, &day),
        }
    }
}

fn trust(settings: &Settings, sums: &ShadowSums) -> Trust {
    if sums.offered < REQUESTS_MIN || sums.secs < settings.scaled(KNOWN_SECS) {
        return Trust::NotYet;
    }
    let (seen, declared) = (sums.busy_seen, sums.busy_declared);
    let told = 0.0 < declared && BUSY_SHARE_MIN * declared <= seen;
    if told && (AGREE_BUSY * declared < seen || AGREE_BUSY * seen < declared) {
        return Trust::CapacityDisagrees {
            measured: seen / sums.busy_secs,
            declared: declared / sums.busy_secs,
        };
    }
    if sums.measured_offered < REQUESTS_MIN {
        return Trust::Unmeasured;
    }
    let measured = sums.measured_late / sums.measured_offered;
    let predicted = sums.measured_predicted / sums.measured_offered;
    let bound = (AGREE_ALLOWED * settings.allowed_late()).max(AGREE_SHARE * measured.max(predicted));
    if bound < (measured - predicted).abs() {
        Trust::LatenessDisagrees { measured, predicted }
    } else {
        Trust::Agrees
    }
}

fn window(settings: &Settings, sums: &ShadowSums) -> Window {
    // Hours of the policy's world.
    let hours = |replica_secs: f64| replica_secs / settings.scaled(BUCKET_SECS);
    let share = |late: f64, offered: f64| (0.0 < offered).then(|| late / offered);
    // Where the HPA's answer is not known it is taken to do what was really done.
    let unknown_secs = sums.secs - sums.hpa_secs;
    let real_mean = if 0.0 < sums.secs { sums.real / sums.secs } else { 0.0 };
    Window {
        secs: sums.secs,
        replica_hours: hours(sums.real),
        would_be_hours: hours(sums.would_be),
        hpa_hours: (0.0 < sums.hpa_secs).then(|| hours(sums.hpa + unknown_secs * real_mean)),
        late: share(sums.measured_late, sums.measured_offered),
        predicted_late: share(sums.predicted_late, sums.offered),
        would_be_late: share(sums.would_be_late, sums.offered),
    }
}

fn added(one: &ShadowSums, other: &ShadowSums) -> ShadowSums {
    ShadowSums {
        secs: one.secs + other.secs,
        real: one.real + other.real,
        would_be: one.would_be + other.would_be,
        hpa: one.hpa + other.hpa,
        hpa_secs: one.hpa_secs + other.hpa_secs,
        offered: one.offered + other.offered,
        predicted_late: one.predicted_late + other.predicted_late,
        would_be_late: one.would_be_late + other.would_be_late,
        measured_offered: one.measured_offered + other.measured_offered,
        measured_late: one.measured_late + other.measured_late,
        measured_predicted: one.measured_predicted + other.measured_predicted,
        busy_secs: one.busy_secs + other.busy_secs,
        busy_seen: one.busy_seen + other.busy_seen,
        busy_declared: one.busy_declared + other.busy_declared,
    }
}

fn under_way(orders: &[(f64, u32)]) -> u32 {
    orders.iter().map(|(_, count)| count).sum()
}

fn order(orders: &mut Vec<(f64, u32)>, ready_secs: f64, count: u32) {
    let full = MAX_ORDERS <= orders.len();
    match orders.last_mut().filter(|_| full) {
        Some(last) => *last = (ready_secs, last.1 + count),
        None => orders.push((ready_secs, count)),
    }
}

/// Pods that are not ready go first, the youngest of them first.
fn cancel(orders: &mut Vec<(f64, u32)>, mut count: u32) {
    while let Some((_, last)) = orders.last_mut().filter(|_| 0 < count) {
        let gone = (*last).min(count);
        *last -= gone;
        count -= gone;
        if *last == 0 {
            orders.pop();
        }
    }
}
