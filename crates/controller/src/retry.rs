//! When to try again what failed, and how often to speak of it.
//!
//! What may pass by itself is tried again at the next tick; what somebody must change first, ever later. A watch that
//! keeps failing is begun anew ever later, too. Never: I/O.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::runtime::utils::Backoff;
use tokio::time::Instant;

use crate::call::Class;

/// Longest wait before a refused call is made again: whoever grants the right or creates the target waits no longer.
pub const MAX_REFUSED_WAIT_SECS: i64 = 60;
/// Doublings after which the wait grows no more, whatever its limit.
const MAX_DOUBLINGS: u32 = 8;

/// Of one call of one policy: how often it was refused in a row, and when it is worth another try.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retry {
    refusals: u32,
    /// From when to when it is not made.
    waiting: Option<(Timestamp, Timestamp)>,
}

impl Retry {
    /// True when the call is worth making, also where the clock was set back.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.waiting.is_none_or(|(since, until)| now < since || until <= now)
    }

    /// The call failed. When to make it again: after one interval where it may pass by itself; where it was refused,
    /// after twice the time of the refusal before, at most [`MAX_REFUSED_WAIT_SECS`] or one interval.
    pub fn failed(&mut self, class: Class, now: Timestamp, interval: SignedDuration) -> Timestamp {
        let wait = match class {
            Class::Transient | Class::Bug => {
                *self = Self::default();
                return now + interval;
            }
            Class::Invalid => interval * (1_i32 << self.refusals.min(MAX_DOUBLINGS)),
        };
        let longest = SignedDuration::from_secs(MAX_REFUSED_WAIT_SECS).max(interval);
        let until = now + wait.min(longest);
        *self = Self { refusals: self.refusals.saturating_add(1), waiting: Some((now, until)) };
        until
    }

    /// The call was answered.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }
}

/// First pause of a watch that failed.
const FIRST_WATCH_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause of a watch; changes of policies are seen so much later at most once the API server is back.
const LONGEST_WATCH_PAUSE: Duration = Duration::from_secs(30);
/// A watch that ran for this long without failing is healthy.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// Pauses of a watch. kube's own start anew with every event, and each attempt begins with one, so that a kind the
/// cluster does not have would be asked for every second for good.
#[derive(Debug)]
pub struct WatchBackoff {
    next: Duration,
    resumed: Instant,
}

impl Default for WatchBackoff {
    fn default() -> Self {
        Self { next: FIRST_WATCH_PAUSE, resumed: Instant::now() }
    }
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if HEALTHY_AFTER <= now.saturating_duration_since(self.resumed) {
            self.next = FIRST_WATCH_PAUSE;
        }
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST_WATCH_PAUSE);
        self.resumed = now + pause;
        Some(pause)
    }
}

impl Backoff for WatchBackoff {
    /// An event alone is no proof of health: see [`HEALTHY_AFTER`].
    fn reset(&mut self) {}
}

/// Between two log lines about the same kind of trouble.
const QUIET: Duration = Duration::from_secs(60);

/// Keeps the log readable while an API server is away: of each kind of trouble one line a minute, however many
/// policies it concerns.
#[derive(Debug, Default)]
pub struct Quiet {
    said: Mutex<BTreeMap<&'static str, Said>>,
}

#[derive(Debug)]
struct Said {
    at: Instant,
    swallowed: u64,
}

impl Quiet {
    /// `Some` when it is time for a line about `what`, with the number of lines swallowed since the one before.
    pub fn may_say(&self, what: &'static str) -> Option<u64> {
        let now = Instant::now();
        let mut said = self.said.lock().expect("no panic while locked");
        match said.get_mut(what) {
            Some(last) if now.saturating_duration_since(last.at) < QUIET => {
                last.swallowed += 1;
                None
            }
            last => {
                let swallowed = last.map_or(0, |last| last.swallowed);
                said.insert(what, Said { at: now, swallowed: 0 });
                Some(swallowed)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + secs).unwrap()
    }

    #[test]
    fn what_is_refused_is_tried_ever_later_and_what_may_pass_at_the_next_tick() {
        let interval = SignedDuration::from_secs(15);
        let mut retry = Retry::default();
        assert!(retry.is_due(at(0)));
        for wait in [15, 30, 60, 60] {
            assert_eq!(retry.failed(Class::Invalid, at(0), interval), at(wait));
            assert!(!retry.is_due(at(wait - 1)) && retry.is_due(at(wait)));
        }
        assert_eq!(retry.failed(Class::Transient, at(0), interval), at(15));
        assert!(retry.is_due(at(0)), "an override that comes now is not kept waiting");
        assert_eq!(retry.failed(Class::Invalid, at(0), interval), at(15), "a new row");
        assert!(retry.is_due(at(-1)), "the clock was set back");
        let long = SignedDuration::from_secs(300);
        (0..40).for_each(|_| assert_eq!(retry.failed(Class::Invalid, at(0), long), at(300)));
        retry.succeeded();
        assert!(retry.is_due(at(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_keeps_failing_is_begun_ever_later_though_each_attempt_begins_with_an_event() {
        let mut backoff = WatchBackoff::default();
        for secs in [1, 2, 4, 8, 16, 30, 30] {
            backoff.reset();
            let pause = backoff.next().unwrap();
            assert_eq!(pause, Duration::from_secs(secs));
            tokio::time::advance(pause).await;
        }
        tokio::time::advance(HEALTHY_AFTER).await;
        assert_eq!(backoff.next(), Some(FIRST_WATCH_PAUSE), "it was healthy for long");
    }

    #[tokio::test(start_paused = true)]
    async fn a_trouble_of_many_policies_is_one_line_a_minute_and_says_how_many_it_stands_for() {
        let quiet = Quiet::default();
        let lines: Vec<u64> = (0..5_000).filter_map(|_| quiet.may_say("status")).collect();
        assert_eq!(lines, [0]);
        assert_eq!(quiet.may_say("event"), Some(0), "another kind is not silenced");
        tokio::time::advance(QUIET).await;
        assert_eq!(quiet.may_say("status"), Some(4_999));
        assert_eq!(quiet.may_say("status"), None);
    }
}
