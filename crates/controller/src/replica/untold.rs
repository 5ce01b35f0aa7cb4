//! Events that could not be written when they were due, kept for a while. Pure and bounded.

use std::collections::VecDeque;

use jiff::Timestamp;

use super::telling::Telling;

/// Most events of one policy that wait; the oldest is given up for a new one.
const MAX_WAITING: usize = 16;
/// Ticks at which one event is tried; after that it is old news.
const MAX_TRIES: u32 = 20;

/// One event that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// What is to be told.
    pub telling: Telling,
    /// When it happened.
    pub at: Timestamp,
    tries: u32,
}

/// Events of one policy that wait for the API server, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Untold {
    waiting: VecDeque<Waiting>,
}

impl Untold {
    /// Puts news behind what waits already; what waits already is not put twice.
    pub fn add(&mut self, news: Vec<Telling>, now: Timestamp) {
        for telling in news {
            if self.waiting.iter().any(|waiting| waiting.telling == telling) {
                continue;
            }
            if MAX_WAITING <= self.waiting.len() {
                self.waiting.pop_front();
            }
            self.waiting.push_back(Waiting { telling, at: now, tries: 0 });
        }
    }

    /// The next to be told.
    #[must_use]
    pub fn first(&self) -> Option<&Waiting> {
        self.waiting.front()
    }

    /// The first was told, or is refused for good.
    pub fn done(&mut self) {
        self.waiting.pop_front();
    }

    /// Nothing can be told now: everything has been tried once more.
    pub fn later(&mut self) {
        self.waiting.iter_mut().for_each(|waiting| waiting.tries += 1);
        self.waiting.retain(|waiting| waiting.tries < MAX_TRIES);
    }

    /// True when everything is told.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::telling::Severity;

    fn telling(identity: usize) -> Telling {
        Telling {
            severity: Severity::Normal,
            reason: "SuccessfulRescale",
            action: "ScaleFrom3To5".into(),
            note: "New size: 5; reason: load".into(),
            identity: identity.to_string(),
        }
    }

    #[test]
    fn what_waits_is_bounded_in_number_and_in_time() {
        let mut untold = Untold::default();
        untold.add((0..100).map(telling).collect(), Timestamp::UNIX_EPOCH);
        assert_eq!(untold.waiting.len(), MAX_WAITING);
        assert_eq!(untold.waiting.back().unwrap().telling, telling(99), "the newest stays");
        untold.add(vec![telling(99)], Timestamp::UNIX_EPOCH);
        assert_eq!(untold.waiting.iter().filter(|waiting| waiting.telling == telling(99)).count(), 1);
        (0..MAX_TRIES).for_each(|_| untold.later());
        assert!(untold.is_empty());
    }
}
