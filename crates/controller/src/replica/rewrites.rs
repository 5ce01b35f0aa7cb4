//! Who keeps overwriting the replicas we write, and how long we stand back from them. Pure.
//!
//! In: what was written by us and what is seen. Out: a [`Quarrel`], while there is one. Status remembers it, so that a
//! restart forgets no quarrel. What others do among themselves (an HPA beside a policy in `Shadow`) is none of ours.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rlscaler_api::limits::{MAX_OBJECT_NAME_CHARS, cut};
use rlscaler_api::status::{MAX_REWRITERS, MAX_REWRITES, RewritesStatus};

/// So many foreign rewrites within [`WINDOW_SECS`] are a quarrel; fewer are a person.
const QUARREL_REWRITES: usize = MAX_REWRITES;
/// See [`QUARREL_REWRITES`]. What we wrote and stood for so long ends a quarrel with a person for good. Real time.
const WINDOW_SECS: f64 = 600.0;
/// The same for one tool that comes back by the clock: Argo CD looks every three minutes, Flux every ten, some every
/// hour. Real time.
const TOOL_WINDOW_SECS: f64 = 3.0 * 3_600.0;
/// Field managers of people at a keyboard begin with this; what is applied from a file is no such hand.
const BY_HAND: &str = "kubectl";
/// See [`BY_HAND`].
const FROM_FILES: [&str; 2] = ["kubectl-client-side-apply", "kubectl-apply"];
/// How long is stood back after the first quarrel; twice as long after each that follows. Real time.
const STAND_BACK_SECS: f64 = 600.0;
/// Longest standing back: whoever mended the manifests waits no longer. Real time.
const MAX_STAND_BACK_SECS: f64 = 3_600.0;
/// Named where the target does not tell by whom it was written.
const NOBODY_KNOWN: &str = "another field manager";

/// Those who keep rewriting, and until when they are left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarrel {
    /// Field managers.
    pub names: Vec<String>,
    /// Then it is tried again.
    pub until: Timestamp,
}

/// Counts of ours that somebody else overwrote.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rewrites {
    /// Of the last minutes, and of one tool of the last hours; fewer than [`QUARREL_REWRITES`].
    times: VecDeque<Timestamp>,
    /// What we wrote last and when, as long as it stands.
    ours: Option<(Timestamp, u32)>,
    /// Who overwrote it last.
    writers: Vec<String>,
    /// Quarrels in a row.
    quarrels: u32,
    until: Option<Timestamp>,
}

impl Rewrites {
    /// True when what we wrote was overwritten: the target should be asked by whom.
    #[must_use]
    pub fn is_foreign(&self, replicas: u32) -> bool {
        self.ours.is_some_and(|(_, ours)| ours != replicas)
    }

    /// What was seen, and by whom it was written where that was asked. `time_factor` as in the settings.
    pub fn see(&mut self, now: Timestamp, replicas: u32, writers: Option<Vec<String>>, time_factor: f64) {
        let span = |secs: f64| {
            SignedDuration::try_from_secs_f64(secs / time_factor).unwrap_or(SignedDuration::from_secs(600))
        };
        let (window, tool_window) = (span(WINDOW_SECS), span(TOOL_WINDOW_SECS));
        // A clock that was set back must not make a quarrel last longer.
        let longest = now + span(stand_back_secs(self.quarrels.saturating_sub(1)));
        self.until = self.until.map(|until| until.min(longest));
        self.ours = self.ours.map(|(since, ours)| (since.min(now), ours));
        self.times.iter_mut().for_each(|time| *time = now.min(*time));
        self.times.retain(|time| now - tool_window <= *time);
        if self.is_foreign(replicas) {
            let again = writers.as_ref().is_some_and(|writers| *writers == self.writers);
            self.ours = None;
            if !(again && is_tool(&self.writers)) {
                self.times.retain(|time| now - window <= *time);
            }
            if let Some(writers) = writers {
                self.writers = writers.into_iter().take(MAX_REWRITERS).collect();
            }
            self.times.push_back(now);
            let same_as_before = 0 < self.quarrels && again;
            if same_as_before || QUARREL_REWRITES <= self.times.len() {
                self.until = Some(now + span(stand_back_secs(self.quarrels)));
                self.quarrels = self.quarrels.saturating_add(1);
                self.times.clear();
            }
        }
        let stands = if is_tool(&self.writers) { tool_window } else { window };
        if self.ours.is_some_and(|(since, _)| since + stands <= now) {
            self.quarrels = 0;
        }
    }

    /// What we wrote ourselves.
    pub fn wrote(&mut self, now: Timestamp, replicas: u32) {
        self.ours = Some((now, replicas));
    }

    /// Those who keep rewriting; `None` while it may have been a person, and once it is time to try again.
    #[must_use]
    pub fn quarrel(&self, now: Timestamp) -> Option<Quarrel> {
        let until = self.until.filter(|until| now < *until)?;
        let names =
            if self.writers.is_empty() { vec![NOBODY_KNOWN.to_owned()] } else { self.writers.clone() };
        Some(Quarrel { names, until })
    }

    /// For status; `None` when there is nothing to remember.
    #[must_use]
    pub fn to_status(&self) -> Option<RewritesStatus> {
        if *self == Self::default() {
            return None;
        }
        let Self { times, ours, writers, quarrels, until } = self;
        Some(RewritesStatus {
            times: times.iter().copied().map(Time).collect(),
            ours: ours.map(|(_, replicas)| super::status::wire(replicas)),
            ours_time: ours.map(|(at, _)| Time(at)),
            writers: writers.iter().map(|name| cut(name, MAX_OBJECT_NAME_CHARS)).collect(),
            quarrels: i32::try_from(*quarrels).unwrap_or(i32::MAX),
            until: until.map(Time),
        })
    }

    /// As status remembers it.
    #[must_use]
    pub fn from_status(status: &RewritesStatus) -> Self {
        let RewritesStatus { times, ours, ours_time, writers, quarrels, until } = status;
        let ours = ours.and_then(|replicas| u32::try_from(replicas).ok());
        Self {
            times: times.iter().rev().take(QUARREL_REWRITES - 1).rev().map(|time| time.0).collect(),
            ours: ours_time.as_ref().map(|time| time.0).zip(ours),
            writers: writers.iter().take(MAX_REWRITERS).cloned().collect(),
            quarrels: u32::try_from(*quarrels).unwrap_or(0),
            until: until.as_ref().map(|time| time.0),
        }
    }
}

/// A tool that comes back by itself, as far as names tell; nobody known is none.
fn is_tool(writers: &[String]) -> bool {
    writers.iter().any(|writer| !writer.starts_with(BY_HAND) || FROM_FILES.contains(&writer.as_str()))
}

/// How long is stood back after so many quarrels before, in real time.
fn stand_back_secs(quarrels_before: u32) -> f64 {
    (STAND_BACK_SECS * f64::from(1_u32 << quarrels_before.min(8))).min(MAX_STAND_BACK_SECS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + secs).unwrap()
    }

    fn by(name: &str) -> Option<Vec<String>> {
        Some(vec![name.to_owned()])
    }

    /// We write 6, `name` writes 3 ten seconds later.
    fn overwritten(rewrites: &mut Rewrites, secs: i64, name: &str) {
        rewrites.wrote(at(secs), 6);
        assert!(rewrites.is_foreign(3));
        rewrites.see(at(secs + 10), 3, by(name), 1.0);
    }

    fn names(rewrites: &Rewrites, secs: i64) -> Vec<String> {
        rewrites.quarrel(at(secs)).map(|quarrel| quarrel.names).unwrap_or_default()
    }

    // Case 55.
    #[test]
    fn whoever_keeps_rewriting_the_replicas_is_backed_off_from_and_a_person_is_not() {
        let mut rewrites = Rewrites::default();
        for (round, secs) in [0, 60, 120].into_iter().enumerate() {
            assert_eq!(names(&rewrites, secs), Vec::<String>::new(), "round {round}");
            overwritten(&mut rewrites, secs, "argocd");
        }
        assert_eq!(names(&rewrites, 130), ["argocd"]);
        assert_eq!(names(&rewrites, 130 + 599), ["argocd"]);
        assert_eq!(rewrites.quarrel(at(130 + 600)), None, "after a while it is tried again");
    }

    #[test]
    fn the_same_hand_after_a_quarrel_is_stood_back_from_at_once_and_twice_as_long() {
        let mut rewrites = Rewrites::default();
        [0, 60, 120].into_iter().for_each(|secs| overwritten(&mut rewrites, secs, "argocd"));
        for (secs, wait) in [(1_000, 1_200), (3_000, 2_400), (6_000, 3_600), (10_000, 3_600)] {
            overwritten(&mut rewrites, secs, "argocd");
            let quarrel = rewrites.quarrel(at(secs + 10)).expect("a quarrel");
            assert_eq!(quarrel.until, at(secs + 10 + wait), "{secs}");
        }
        let mut person = rewrites.clone();
        overwritten(&mut person, 20_000, "kubectl");
        assert_eq!(person.quarrel(at(20_010)), None, "another hand, once");
        rewrites.wrote(at(20_000), 6);
        rewrites.see(at(30_800), 6, None, 1.0);
        overwritten(&mut rewrites, 30_900, "argocd");
        assert_eq!(rewrites.quarrel(at(30_910)), None, "what we wrote had stood: a quarrel starts anew");
    }

    // fluxcd/flux2#1842: Flux looks every ten minutes, and one that is told to every hour.
    #[test]
    fn a_tool_that_rewrites_by_the_clock_is_backed_off_from_however_slow_its_clock() {
        for interval in [180, 600, 3_600] {
            let mut rewrites = Rewrites::default();
            let mut overwrites = 0;
            for secs in (0..86_400).step_by(interval) {
                let secs = secs as i64;
                if rewrites.quarrel(at(secs)).is_none() {
                    overwritten(&mut rewrites, secs, "kustomize-controller");
                    overwrites += 1;
                    assert_eq!(
                        names(&rewrites, secs + 10).is_empty(),
                        overwrites < 3,
                        "{interval} s, {secs}"
                    );
                }
            }
            assert!(overwrites <= 30, "{interval} s: {overwrites} quarrels in a day");
        }
    }

    #[test]
    fn a_clock_that_steps_back_makes_a_quarrel_no_longer() {
        let mut rewrites = Rewrites::default();
        [0, 60, 120].into_iter().for_each(|secs| overwritten(&mut rewrites, secs, "argocd"));
        rewrites.see(at(-3_600), 3, None, 1.0);
        assert_eq!(names(&rewrites, -3_600), ["argocd"]);
        assert_eq!(rewrites.quarrel(at(-3_600 + 600)), None);
    }

    #[test]
    fn rewrites_long_apart_are_no_quarrel() {
        let mut rewrites = Rewrites::default();
        for round in 0..10 {
            overwritten(&mut rewrites, round * 400, "kubectl");
            assert_eq!(rewrites.quarrel(at(round * 400 + 10)), None, "round {round}");
        }
        let mut rewrites = Rewrites::default();
        for (round, name) in ["helm", "terraform", "kubectl", "helm", "terraform"].into_iter().enumerate() {
            overwritten(&mut rewrites, round as i64 * 900, name);
            assert_eq!(rewrites.quarrel(at(round as i64 * 900 + 10)), None, "several hands, {name}");
        }
    }

    #[test]
    fn what_others_do_among_themselves_is_no_quarrel() {
        let mut rewrites = Rewrites::default();
        for secs in 0..20 {
            rewrites.see(at(secs * 15), (secs % 7) as u32, None, 1.0);
        }
        assert_eq!((rewrites.quarrel(at(300)), rewrites.to_status()), (None, None));
    }

    #[test]
    fn a_restart_forgets_no_quarrel_wherever_it_falls() {
        let mut kept = Rewrites::default();
        let mut restarted = Rewrites::default();
        for secs in (0..3_000).step_by(60) {
            for rewrites in [&mut kept, &mut restarted] {
                if rewrites.quarrel(at(secs)).is_none() {
                    rewrites.wrote(at(secs), 6);
                    rewrites.see(at(secs + 10), 3, by("argocd"), 1.0);
                }
            }
            restarted = restarted.to_status().map_or(Rewrites::default(), |status| {
                let stored = serde_json::to_string(&status).unwrap();
                Rewrites::from_status(&serde_json::from_str(&stored).unwrap())
            });
            assert_eq!(kept, restarted, "{secs}");
        }
    }
}
