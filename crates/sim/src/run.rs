//! The closed loop: a world and a scaler, tick by tick, decision by decision. In: scaler, scenario, seed. Out: what it
//! came to. The same three give the same bytes; worlds of the same scenario and seed have the same arrivals, service
//! times, start-up times and missing samples whoever scales.

use rlscaler_core::{Decision, History};

use crate::metrics::Seen;
use crate::outcome::{Latency, Outcome, Point, Worst};
use crate::scenario::{Detail, Scenario};
use crate::seed::Seed;
use crate::world::{Level, TickOutcome, World};

const HOUR_SECS: f64 = 3_600.0;
const DAY_SECS: f64 = 86_400.0;

/// Something that sets replica counts.
pub trait Scaler {
    /// What Prometheus remembers; called once before the first decision.
    fn backfill(&mut self, _history: &History) {}

    /// How many replicas there should be. The world holds the answer within the profile's bounds.
    fn decide(&mut self, seen: &Seen) -> u32;

    /// A scaling happened.
    fn record_scale(&mut self, _time_secs: f64, _from: u32, _to: u32) {}

    /// The last decision with its reasons, where the scaler has any.
    fn last_decision(&self) -> Option<&Decision> {
        None
    }
}

/// Runs the scenario at the fast level.
pub fn run(scaler: &mut dyn Scaler, scenario: &Scenario, seed: Seed) -> Outcome {
    run_watched(scaler, scenario, seed, Level::Fast, |_, _| {})
}

/// Runs the scenario at a level, and shows every decision to `watch`: what was seen, and the scaler that has decided.
pub fn run_watched(
    scaler: &mut dyn Scaler,
    scenario: &Scenario,
    seed: Seed,
    level: Level,
    mut watch: impl FnMut(&Seen, &dyn Scaler),
) -> Outcome {
    let service = &scenario.profile.service;
    let latency = Latency::new(service.target_secs, service.timeout_secs);
    let mut world = World::new(scenario, level, seed, latency.bounds());
    if 0.0 < scenario.history_secs {
        scaler.backfill(&scenario.history(seed));
    }
    let mut tally = Tally::new(scenario, &world, latency);
    let ticks = (scenario.interval_secs / scenario.tick_secs).round().max(1.0) as u32;
    for _ in 0..scenario.decisions() {
        let seen = world.observe();
        let from = seen.observation.replicas;
        let wanted = scaler.decide(&seen);
        world.scale(wanted);
        let to = world.fleet().wanted();
        if to != from {
            scaler.record_scale(seen.observation.time_secs, from, to);
        }
        watch(&seen, scaler);
        tally.decided(seen.observation.time_secs, from, to);
        for _ in 0..ticks {
            let outcome = world.step();
            tally.ticked(&world, &outcome);
        }
        tally.interval_ended(&world);
    }
    tally.finish(&world)
}

/// Adds up a run.
struct Tally<'a> {
    scenario: &'a Scenario,
    outcome: Outcome,
    hour: Worst,
    day: Worst,
    latency: Latency,
    interval: Interval,
}

#[derive(Default)]
struct Interval {
    start_secs: f64,
    offered: f64,
    late: f64,
    latency: f64,
    paid_secs: f64,
}

impl<'a> Tally<'a> {
    fn new(scenario: &'a Scenario, world: &World, latency: Latency) -> Self {
        let wanted = world.fleet().wanted();
        let outcome = Outcome {
            brought: world.inside(),
            min_replicas: wanted,
            max_replicas: wanted,
            ..Outcome::default()
        };
        Self {
            scenario,
            outcome,
            hour: Worst::new(HOUR_SECS),
            day: Worst::new(DAY_SECS),
            latency,
            interval: Interval::default(),
        }
    }

    fn decided(&mut self, time_secs: f64, from: u32, to: u32) {
        self.outcome.decisions += 1;
        self.outcome.changes += u64::from(from != to);
        self.outcome.min_replicas = self.outcome.min_replicas.min(to);
        self.outcome.max_replicas = self.outcome.max_replicas.max(to);
        self.interval = Interval { start_secs: time_secs, ..Interval::default() };
    }

    fn ticked(&mut self, world: &World, tick: &TickOutcome) {
        let secs = self.scenario.tick_secs;
        let outcome = &mut self.outcome;
        outcome.offered += tick.offered;
        outcome.served += tick.served;
        outcome.late += tick.late;
        outcome.dropped += tick.dropped;
        outcome.replica_secs += f64::from(tick.paid) * secs;
        outcome.cost += f64::from(tick.paid) * secs * tick.price / HOUR_SECS;
        self.interval.offered += tick.offered;
        self.interval.late += tick.late;
        self.interval.latency += tick.latency_secs * tick.offered;
        self.interval.paid_secs += f64::from(tick.paid) * secs;
        let start_secs = world.time_secs() - secs;
        self.hour.add(start_secs, tick.offered, tick.late);
        self.day.add(start_secs, tick.offered, tick.late);
        if self.scenario.detail == Detail::Full {
            match world.histogram() {
                None => {
                    let unanswered = tick.dropped.min(tick.offered);
                    let answered = tick.offered - unanswered;
                    self.latency.add_waits(world.fluid(), &tick.waits, tick.speed, answered, unanswered);
                }
                Some((latencies, unanswered)) => self.latency.add_histogram(latencies, unanswered),
            }
        }
    }

    fn interval_ended(&mut self, world: &World) {
        if self.scenario.detail == Detail::Totals {
            return;
        }
        let Interval { start_secs, offered, late, latency, paid_secs } = self.interval;
        let per_request = |sum: f64| if 0.0 < offered { sum / offered } else { 0.0 };
        self.outcome.points.push(Point {
            time_secs: start_secs,
            rate: offered / self.scenario.interval_secs,
            wanted: world.fleet().wanted(),
            ready: world.fleet().count().ready,
            late_share: per_request(late).min(1.0),
            latency_secs: per_request(latency),
            paid: paid_secs / self.scenario.interval_secs,
        });
    }

    fn finish(self, world: &World) -> Outcome {
        let Self { scenario, mut outcome, hour, day, latency, interval: _ } = self;
        outcome.duration_secs = world.time_secs();
        outcome.left = world.inside();
        outcome.worst_hour_late = hour.finish();
        outcome.worst_day_late = day.finish();
        outcome.latency = (scenario.detail == Detail::Full).then_some(latency);
        outcome
    }
}
