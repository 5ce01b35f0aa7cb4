//! A service's queue from one tick to the next: a fluid, and on top of it the queue that chance makes. Steady-state
//! formulas say that everything is late at the moment the load exceeds what the pods serve; a queue takes time to grow.
//!
//! In: rate, pods, what one serves. Out: the share of the arrivals that come late. The square of the random layer gains
//! the variance of arrivals and services and loses to the spare capacity, d(x^2)/dt = v - 2 (C - r) x, whose rest point
//! is the exponential tail of the M/G/c queue with Allen and Cunneen's variability. P(wait > 0) after Sakasegawa (Annals
//! of the Institute of Statistical Mathematics 29, 1977), which is defined for any number of servers.

use crate::memory::QueueMemory;
use crate::queue::{Service, fluid_step};

/// The load of a tick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    /// Requests per second.
    pub(super) rate: f64,
    /// Seconds a request waits before it gives up.
    pub(super) patience_secs: f64,
    /// Length of the tick.
    pub(super) secs: f64,
}

/// The share of a tick's arrivals that come late, and the queue at its end.
pub(super) fn late_share(queue: &mut QueueMemory, service: &Service, pods: f64, step: Step) -> f64 {
    let Step { rate, patience_secs, secs } = step;
    let per_sec = pods * service.rate_per_replica();
    if per_sec <= 0.0 {
        *queue =
            QueueMemory { backlog: (rate * patience_secs).min(queue.backlog + rate * secs), spread: 0.0 };
        return if 0.0 < rate { 1.0 } else { 0.0 };
    }
    let start = queue.backlog;
    let end = fluid_step(service, start, rate, pods, patience_secs, secs).backlog;
    let spare = (per_sec - rate).max(0.0) * secs;
    let variance = 2.0 * service.variability * per_sec * secs;
    let spread = (spare * spare + queue.spread * queue.spread + variance).sqrt() - spare;
    *queue = QueueMemory { backlog: end, spread };
    let limit = service.slack_secs() * per_sec;
    let beyond = |backlog: f64| beyond(limit - backlog, spread);
    if start <= 0.0 && end <= 0.0 {
        let busy_share = (rate / per_sec).min(1.0);
        let servers = pods * f64::from(service.workers);
        return busy_share.powf((2.0 * (servers + 1.0)).sqrt() - 1.0) * beyond(0.0);
    }
    // Simpson's rule along the line from the one to the other.
    (beyond(start) + 4.0 * beyond(0.5 * (start + end)) + beyond(end)) / 6.0
}

/// P(queue of chance > `room`): an exponential tail; where there is no room, what chance takes away again.
fn beyond(room: f64, spread: f64) -> f64 {
    let spread = spread.max(f64::MIN_POSITIVE);
    if 0.0 <= room {
        (-room / spread).exp()
    } else {
        1.0 - 0.5 * (1.0 - (room / spread).exp()) * (room / spread).exp()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::queue;

    fn web() -> Service {
        Service { workers: 4, service_secs: 0.05, target_secs: 0.25, variability: 1.0 }
    }

    fn step(rate: f64) -> Step {
        Step { rate, patience_secs: 10.0, secs: 15.0 }
    }

    #[test]
    fn at_rest_it_is_the_steady_queue() {
        for (rate, pods) in [(70.0, 1), (300.0, 4), (310.0, 4), (765.0, 10)] {
            let mut waiting = QueueMemory::default();
            let mut late = 0.0;
            for _ in 0..2_000 {
                late = late_share(&mut waiting, &web(), f64::from(pods), step(rate));
            }
            let steady = queue::late_share(&web(), rate * 0.05, pods);
            assert!((late - steady).abs() <= 0.05 * steady.max(0.02), "{rate} {pods}: {late} {steady}");
        }
    }

    #[test]
    fn an_overload_takes_time_to_make_everything_late_and_is_worked_off_again() {
        let mut waiting = QueueMemory::default();
        let mut over = |rate| late_share(&mut waiting, &web(), 4.0, step(rate));
        let first = over(325.0);
        assert!(first < 0.9, "{first}");
        (0..40).for_each(|_| {
            over(400.0);
        });
        assert!(0.99 < over(400.0));
        (0..40).for_each(|_| {
            over(200.0);
        });
        assert!(over(200.0) < 1e-3);
    }

    proptest! {
        #[test]
        fn shares_are_shares_and_more_pods_are_never_later_from_rest(
            rate in 0.0..3_000.0_f64, pods in 0_u32..60, secs in 0.0..120.0_f64,
        ) {
            let late = |pods: u32| {
                let mut waiting = QueueMemory::default();
                let step = Step { secs, ..step(rate) };
                let share = late_share(&mut waiting, &web(), f64::from(pods), step);
                assert!(waiting.backlog.is_finite() && 0.0 <= waiting.backlog && waiting.spread.is_finite());
                share
            };
            prop_assert!((0.0..=1.0).contains(&late(pods)));
            // In deep overload the queue of chance takes away up to an eighth, and less of it the more pods there are.
            prop_assert!(late(pods + 1) <= late(pods) + 0.125);
        }
    }
}
