//! What is not as it was declared: pods that carry less, readings that are older.

use rlscaler_core::observation::{History, Observation, Signal};
use rlscaler_core::settings::Settings;

use crate::service::{PER_POD, Service, bounds, settings};

/// When a service begins.
const NOW_SECS: f64 = 1_000_000.0;

/// Two hours of a steady load at one sample a minute, each request at this many times the declared cost in CPU.
fn past(cost: f64) -> History {
    let mut history = History::default();
    for minute in (1..=120).rev() {
        let time_secs = NOW_SECS - 60.0 * f64::from(minute);
        history.qps.push((time_secs, 400.0));
        history.cpu.push((time_secs, 400.0 / PER_POD * cost));
    }
    history
}

/// The planner's number for 400 requests/s at the first tick.
fn first(settings: Settings, history: &History) -> u32 {
    let mut service = Service::new(settings, 6);
    service.brain.backfill(history);
    service.tick(400.0, |_| {}).planner()
}

#[test]
fn a_past_in_which_requests_cost_more_than_declared_is_believed_at_the_first_tick() {
    let without_cores = History { cpu: Vec::new(), ..past(1.0) };
    let as_declared = first(settings(), &past(1.0));
    let dearer = first(settings(), &past(1.0 / 0.7));
    assert_eq!(as_declared, first(settings(), &without_cores));
    assert!(1.3 * f64::from(as_declared) < f64::from(dearer), "{as_declared} {dearer}");
}

#[test]
fn a_past_may_doubt_what_is_declared_and_not_trust_it() {
    let as_declared = first(settings(), &past(1.0));
    // Cheaper; and so dear that the CPU request is not what a busy pod uses.
    assert_eq!(first(settings(), &past(0.5)), as_declared);
    assert_eq!(first(settings(), &past(2.0)), as_declared);
    let mut believes = settings();
    believes.tuning.learns_capacity = false;
    assert_eq!(first(believes, &past(1.4)), as_declared);
}

#[test]
fn what_is_seen_live_takes_the_place_of_the_past() {
    let mut service = Service::new(settings(), 6);
    service.brain.backfill(&past(1.4));
    let planner: Vec<u32> = (0..30).map(|_| service.tick(400.0, |_| {}).planner()).collect();
    let as_declared = first(settings(), &past(1.0));
    assert!(as_declared < planner[0] && planner[10] == planner[0], "{planner:?}");
    assert_eq!(planner[29], as_declared, "{planner:?}");
}

#[test]
fn readings_that_are_plainly_older_than_declared_lengthen_the_look_ahead() {
    // A ramp that is seen to go on: the further ahead, the more is needed.
    let ramp = |age_secs: f64| {
        let mut service = Service::new(Settings { bounds: bounds(2, 60), ..settings() }, 10);
        let mut last = 0;
        for tick in 0..60 {
            let seen_at = |seen: &mut Observation| {
                let Signal::Fresh(reading) = &mut seen.signals.qps else { return };
                reading.age_secs = Some(age_secs);
            };
            last = service.tick(200.0 + 20.0 * f64::from(tick), seen_at).planner();
        }
        last
    };
    assert_eq!(ramp(0.0), ramp(15.0));
    assert!(ramp(15.0) < ramp(60.0), "{} {}", ramp(15.0), ramp(60.0));
}

#[test]
fn a_single_odd_age_does_not_move_the_count() {
    let (mut usual, mut odd) = (Service::new(settings(), 10), Service::new(settings(), 10));
    for tick in 0..120 {
        let qps = 200.0 + 5.0 * f64::from(tick % 60);
        let expected = usual.tick(qps, |_| {});
        let found = odd.tick(qps, |seen| {
            if tick == 40
                && let Signal::Fresh(reading) = &mut seen.signals.qps
            {
                reading.age_secs = Some(600.0);
            }
        });
        assert_eq!(found.replicas(), expected.replicas(), "tick {tick}");
        assert_eq!(found.reasons(), expected.reasons(), "tick {tick}");
    }
}
