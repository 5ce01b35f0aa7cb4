//! Undoes a scale-down of ours after which the objective was no longer met, and holds it off for a while.
//!
//! In: whether the objective is met at each tick, the load, the scale-downs that really happened. Out: the replica count
//! the decision may not go below, and until when. Bounded by time and by counts that ran before; what a rise in demand
//! explains is left to the planner. Never: below what is proposed, over a pin or a pause, out of bounds.

use crate::capacity::{Estimator, PodCapacity};
use crate::memory::{HoldOffMemory, OwnDown, RegressionMemory};
use crate::queue::late_share;
use crate::settings::{Override, Settings};

/// A regression that begins within so many seconds after a scale-down of ours is blamed on it. Real time.
const BLAME_SECS: f64 = 300.0;
/// It must last so long before it counts: a window of rates. Real time.
const CONFIRM_SECS: f64 = 30.0;
/// It must be seen at this many readings in a row, the first included.
const CONFIRM_READINGS: u32 = 2;
/// The first hold-off. Real time.
const HOLD_OFF_SECS: f64 = 600.0;
/// The longest: it doubles with every repetition. Real time.
const HOLD_OFF_MAX_SECS: f64 = 3_600.0;
/// A regression within so many seconds after a hold-off ended is a repetition. Real time.
const REPEAT_SECS: f64 = 3_600.0;
/// Scale-downs remembered; beyond these the oldest are merged.
pub const MAX_DOWNS: usize = 8;
/// Late requests over what the SLA allows from which on the objective counts as broken: an SLA leaves room for spells.
const BURN: f64 = 3.0;
/// Standard deviations by which the late requests of one window must exceed what the SLA allows.
const SIGNIFICANT: f64 = 3.0;
/// Late requests in one window below which nothing is told from chance.
const LATE_MIN: f64 = 5.0;
/// The window a rate is taken to cover, seconds; a shorter one only makes the test stricter than it need be.
const WINDOW_SECS: f64 = 30.0;
/// Growth of the load that explains lateness by itself.
const RISE: f64 = 1.1;
/// The load has gone, and with it what the hold-off is for, when it is at most this share of what it was.
const GONE: f64 = 0.5;

/// Whether the objective is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verdict {
    /// Not known at this tick.
    #[default]
    Unknown,
    /// Met, or not shown to be broken.
    Met,
    /// Significantly more late than the SLA allows.
    Broken,
}

/// What tells lateness at one tick.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Lateness {
    /// Measured late share.
    pub late_share: Option<f64>,
    /// Latency over target, where fresh.
    pub latency_ratio: Option<f64>,
    /// Late share of the queue model at the present level.
    pub estimated: Option<f64>,
    /// Requests per second, where known.
    pub qps: Option<f64>,
}

/// The verdict. The declared measurement decides; the queue model only where neither is declared.
#[must_use]
pub fn judge(settings: &Settings, lateness: &Lateness) -> Verdict {
    let allowed = settings.allowed_late();
    let requests = lateness.qps.map(|qps| qps * settings.scaled(WINDOW_SECS));
    let declared = settings.declared;
    let broken = if declared.sla {
        let Some(share) = lateness.late_share else { return Verdict::Unknown };
        BURN * allowed < share && is_significant(share, allowed, requests)
    } else if declared.latency {
        let Some(ratio) = lateness.latency_ratio else { return Verdict::Unknown };
        // The p-th percentile is over the target when more than 1 - p of the requests are late.
        let share = 1.0 - settings.objective.latency_percentile;
        1.0 < ratio && requests.is_none_or(|requests| LATE_MIN <= requests * share)
    } else {
        let Some(share) = lateness.estimated else { return Verdict::Unknown };
        BURN * allowed < share
    };
    if broken { Verdict::Broken } else { Verdict::Met }
}

/// True when chance does not make so many of so few requests late. A share of an unknown number is taken as it is.
fn is_significant(share: f64, allowed: f64, requests: Option<f64>) -> bool {
    let Some(requests) = requests else { return true };
    let (late, expected) = (share * requests, allowed * requests);
    LATE_MIN <= late && SIGNIFICANT * (expected * (1.0 - allowed)).sqrt() < late - expected
}

/// One tick, as far as a regression is concerned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sight<'a> {
    /// Seconds.
    pub now_secs: f64,
    /// Seconds by which what is seen lies behind the world.
    pub lag_secs: f64,
    /// `spec.replicas` of the target.
    pub replicas: u32,
    /// Ready pods.
    pub ready: u32,
    /// A person's will.
    pub will: Override,
    /// Load in the policy's unit, where fresh.
    pub load: Option<f64>,
    /// Whether the objective is met.
    pub verdict: Verdict,
    /// Pods are idle: more of them would not help.
    pub idle: bool,
    /// What one pod carries, where known.
    pub capacity: Option<&'a PodCapacity>,
    /// The learnt factor on the load.
    pub scale: f64,
}

/// A scale-down that is undone at this tick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Undone {
    /// What it had led to.
    pub from: u32,
    /// What is restored, before bounds.
    pub to: u32,
    /// Highest load seen since.
    pub load: f64,
    /// Until when it is held off, seconds.
    pub until_secs: f64,
}

/// Scale-downs of ours that may yet prove wrong, and the one that is held off. O(1) per tick.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Regression {
    memory: RegressionMemory,
    /// At the last tick.
    verdict: Verdict,
    /// The last decision was automatic.
    automatic: bool,
    load: f64,
}

impl Regression {
    /// As it was.
    #[must_use]
    pub fn restore(memory: &RegressionMemory) -> Self {
        Self { memory: memory.clone(), ..Self::default() }
    }

    /// What must survive.
    #[must_use]
    pub fn memory(&self) -> RegressionMemory {
        self.memory.clone()
    }

    /// What is held off now.
    #[must_use]
    pub fn hold_off(&self) -> Option<HoldOffMemory> {
        self.memory.hold_off
    }

    /// Scale-downs undone since the policy began.
    #[must_use]
    pub fn undone(&self) -> u32 {
        self.memory.undone
    }

    /// Moves times after the clock was stepped.
    pub fn shift(&mut self, delta_secs: f64) {
        let memory = &mut self.memory;
        memory.downs.iter_mut().for_each(|down| down.time_secs += delta_secs);
        if let Some(since) = &mut memory.broken_since_secs {
            *since += delta_secs;
        }
        if let Some(hold_off) = &mut memory.hold_off {
            hold_off.since_secs += delta_secs;
            hold_off.until_secs += delta_secs;
        }
        memory.ended_secs += delta_secs;
    }

    /// The load is counted in another unit from now on: what is held off stays, what might be undone is forgotten.
    pub fn change_unit(&mut self) {
        self.memory.downs.clear();
        if let Some(hold_off) = &mut self.memory.hold_off {
            hold_off.load = 0.0;
        }
    }

    /// A scaling of ours really happened. One that a person asked for, or made while the objective was already broken,
    /// is not ours to undo.
    pub fn record_scale(&mut self, time_secs: f64, from: u32, to: u32) {
        let memory = &mut self.memory;
        if !self.automatic {
            memory.downs.clear();
        }
        if from <= to || !self.automatic {
            return;
        }
        if self.verdict == Verdict::Broken {
            // Part of the one before, if there is one that may be to blame.
            if let Some(last) = memory.downs.last_mut() {
                last.to = last.to.min(to);
            }
            return;
        }
        if memory.downs.len() == MAX_DOWNS {
            // The oldest count is kept, the time it was left forgotten: it is blamed a little longer.
            memory.downs.remove(1);
        }
        memory.downs.push(OwnDown { time_secs, from, to, load: self.load });
        memory.highest_load = self.load;
        memory.broken_since_secs = None;
        memory.broken_readings = 0;
    }

    /// One tick; the scale-down that is undone at it, if any.
    pub fn look(&mut self, settings: &Settings, sight: &Sight<'_>) -> Option<Undone> {
        self.expire(settings, sight);
        self.automatic = !matches!(sight.will, Override::Pin { .. } | Override::Pause);
        self.verdict = sight.verdict;
        self.load = sight.load.unwrap_or(self.load);
        let last = *self.memory.downs.last()?;
        self.memory.highest_load = self.memory.highest_load.max(self.load);
        self.note_lateness(sight, last);
        self.is_proven(settings, sight, last).then(|| self.undo(settings, sight.now_secs, last))
    }

    /// Forgets what is over: the blame, the hold-off, a count that somebody else has changed meanwhile.
    fn expire(&mut self, settings: &Settings, sight: &Sight<'_>) {
        let memory = &mut self.memory;
        if let Some(hold_off) = memory.hold_off {
            let gone = sight.load.is_some_and(|load| load <= GONE * hold_off.load);
            if hold_off.until_secs <= sight.now_secs || gone {
                memory.ended_secs = sight.now_secs;
                memory.hold_off = None;
            }
        }
        let confirm_secs = settings.scaled(CONFIRM_SECS).max(settings.interval_secs);
        let kept_secs = settings.scaled(BLAME_SECS) + 2.0 * confirm_secs;
        let lowered_by_others = memory.downs.last().is_some_and(|down| sight.replicas < down.to);
        memory.downs.retain(|down| {
            let age_secs = sight.now_secs - down.time_secs;
            !lowered_by_others && age_secs <= kept_secs
        });
        if memory.downs.is_empty() {
            memory.broken_since_secs = None;
            memory.broken_readings = 0;
        }
    }

    /// Since when the objective is broken. What is read before the lag has passed tells of the time before.
    fn note_lateness(&mut self, sight: &Sight<'_>, last: OwnDown) {
        let memory = &mut self.memory;
        match sight.verdict {
            Verdict::Broken if sight.lag_secs < sight.now_secs - last.time_secs => {
                memory.broken_since_secs.get_or_insert(sight.now_secs);
                memory.broken_readings += 1;
            }
            Verdict::Unknown => {}
            Verdict::Met | Verdict::Broken => {
                memory.broken_since_secs = None;
                memory.broken_readings = 0;
            }
        }
    }

    fn is_proven(&self, settings: &Settings, sight: &Sight<'_>, last: OwnDown) -> bool {
        let memory = &self.memory;
        let Some(since) = memory.broken_since_secs else { return false };
        let in_time = since - last.time_secs <= settings.scaled(BLAME_SECS);
        let lasting = CONFIRM_READINGS <= memory.broken_readings
            && settings.scaled(CONFIRM_SECS) <= sight.now_secs - since
            && sight.verdict == Verdict::Broken;
        // Pods that are missing for another reason explain it; so does a dependency, and a person decides for himself.
        let ours = matches!(sight.will, Override::None | Override::PauseScaleDown)
            && last.to <= sight.ready
            && !sight.idle
            && sight.load.is_some();
        in_time && lasting && ours && !self.is_explained(settings, sight, last)
    }

    /// A rise in demand explains it: by its size, or because the queue model calls the count it led to safe at the load
    /// of then and not at that of now.
    fn is_explained(&self, settings: &Settings, sight: &Sight<'_>, last: OwnDown) -> bool {
        let highest = self.memory.highest_load;
        if RISE * last.load < highest {
            return true;
        }
        let Some(capacity) = sight.capacity else { return false };
        let is_safe = |load: f64| {
            let busy_workers =
                load / capacity.load_per_pod * sight.scale * f64::from(capacity.service.workers);
            late_share(&capacity.service, busy_workers, last.to) <= BURN * settings.allowed_late()
        };
        is_safe(last.load) && !is_safe(highest)
    }

    fn undo(&mut self, settings: &Settings, now_secs: f64, last: OwnDown) -> Undone {
        let memory = &mut self.memory;
        let highest = memory.highest_load;
        // The last one as it stands; those before it as far as today's load asks for the pods of then.
        let of_load = |down: &OwnDown| {
            let share = if 0.0 < down.load { (highest / down.load).min(1.0) } else { 1.0 };
            (f64::from(down.from) * share).ceil() as u32
        };
        let to = memory.downs.iter().map(of_load).fold(last.from, u32::max);
        let repeated = 0.0 < memory.hold_off_secs
            && (memory.hold_off.is_some() || now_secs - memory.ended_secs <= settings.scaled(REPEAT_SECS));
        let longest_secs = settings.scaled(HOLD_OFF_MAX_SECS);
        memory.hold_off_secs = if repeated {
            (2.0 * memory.hold_off_secs).min(longest_secs)
        } else {
            settings.scaled(HOLD_OFF_SECS)
        };
        let until_secs = now_secs + memory.hold_off_secs;
        memory.hold_off = Some(HoldOffMemory {
            replicas: to.max(memory.hold_off.map_or(0, |hold_off| hold_off.replicas)),
            load: highest,
            since_secs: now_secs,
            until_secs,
        });
        memory.undone += 1;
        memory.downs.clear();
        memory.broken_since_secs = None;
        memory.broken_readings = 0;
        Undone { from: last.to, to, load: highest, until_secs }
    }
}

impl Estimator {
    /// What a scale-down that had to be undone says of a pod: at this load per pod it is not safe. The restored pods
    /// take away the lateness the factor would have learnt that from, slot by slot.
    pub(crate) fn doubt_undone(
        &mut self,
        settings: &Settings,
        undone: &Undone,
        capacity: Option<&PodCapacity>,
    ) {
        let Some(capacity) = capacity else {
            self.disprove(undone.load / f64::from(undone.to.max(1)));
            return;
        };
        let workers = f64::from(capacity.service.workers);
        if !settings.tuning.learns_capacity {
            return;
        }
        let is_safe = |scale: f64| {
            let busy_workers = undone.load / capacity.load_per_pod * scale * workers;
            late_share(&capacity.service, busy_workers, undone.from) <= settings.allowed_late()
        };
        self.doubt_while(is_safe);
    }
}
