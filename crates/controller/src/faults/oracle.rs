//! The properties, written from the contract (`docs/api.md`), never from the code: what may be written, by what was seen
//! and wanted at the time.
//!
//! In: everything one operator was told of one service, and what it did. Out: the first broken property, in a sentence.

use std::collections::BTreeMap;
use std::sync::Arc;

use rlscaler_core::observation::{Reading, Signal, Signals};

use super::schedule::Declared;
use super::will::{Version, Wish};

/// Ticks within which an override is obeyed.
const OBEYED_TICKS: u32 = 2;
/// Calls of one tick: more is a loop without an end.
const MAX_CALLS: u32 = 60;
/// Numbers beyond this are no measurements.
const ABSURD: f64 = 1e12;
/// CPU at or below this share of what it was confirms that nothing is asked any more.
const CONFIRMS: f64 = 0.55;
/// Reads of a source lie this much apart from the moment they are counted from, seconds.
const SLACK_SECS: f64 = 1.0;
/// So many rewrites by others are a quarrel, from which the operator stands back for [`QUARREL_SECS`].
const QUARREL_REWRITES: usize = 3;
/// See [`QUARREL_REWRITES`].
const QUARREL_SECS: f64 = 600.0;

/// What one operator knows of one service.
#[derive(Clone, Default)]
pub(crate) struct Sight {
    /// The tick under way, or the last one.
    pub(crate) tick: Seen,
    pub(crate) in_tick: bool,
    /// The version of the last undisturbed ticks, and how many there were in a row.
    obeying: (usize, u32),
    facts: Facts,
}

/// What an operator carries from tick to tick, and through status from one operator to the next.
#[derive(Clone, Copy, Default, Debug)]
struct Facts {
    /// Since when something it needs is not seen.
    lost_since: Option<f64>,
    /// CPU was seen under load.
    cpu_seen: bool,
    /// The last load that was read and true was not zero.
    loaded: bool,
    /// It reads zero now.
    zero: bool,
    most_cores: f64,
}

/// What the sources were asked about, as it really is.
#[derive(Clone, Copy)]
pub(crate) struct Reality {
    /// Something is asked of the service.
    pub(crate) load: bool,
    /// The load fell by more than half within the last minutes.
    pub(crate) fading: bool,
}

/// One scaling of ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) secs: f64,
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// No person's number: neither a pin nor a raised minimum.
    free: bool,
}

/// What was seen in one tick.
#[derive(Clone, Default, Debug)]
pub(crate) struct Seen {
    pub(crate) began_secs: f64,
    /// The operator's clock at the beginning, seconds.
    clock_secs: f64,
    /// Every version of the policy its watch had during the tick.
    pub(crate) versions: Vec<Arc<Version>>,
    /// The replicas it read last.
    read: Option<u32>,
    /// What it does not see, and since when.
    lost: Option<(&'static str, f64)>,
    pub(crate) reported: bool,
    /// A status was written in this tick.
    memory_stands: bool,
    disturbed: bool,
    rival: bool,
    calls: u32,
}

/// What is known of one service, whoever operates it.
#[derive(Default)]
pub(crate) struct Record {
    /// What the last written status remembers.
    persisted: Facts,
    /// Scalings from one count to another that were carried out.
    done: BTreeMap<(u32, u32), u32>,
    told: BTreeMap<(u32, u32), u32>,
    /// When somebody else changed the replicas.
    pub(crate) rewrites: Vec<f64>,
    /// What somebody else last set them to.
    pub(crate) set_by_another: Option<u32>,
    /// When the replicas last changed, by whomever.
    pub(crate) changed_secs: f64,
    pub(crate) our_changes: Vec<Change>,
    pub(crate) ticks: u32,
}

/// A write of the scale, as it is carried out.
pub(crate) struct Write<'a> {
    pub(crate) seen: &'a Seen,
    /// The count before.
    pub(crate) current: u32,
    pub(crate) to: u32,
    /// Whoever made the present count is not the operator.
    pub(crate) by_another: bool,
    /// It still knows of another autoscaler.
    pub(crate) rival_now: bool,
    /// Seconds for which a scale-up of ours must stand: the window of `behavior.scaleDown`. 0 where it cannot be told,
    /// for a second operator.
    pub(crate) window_secs: f64,
    pub(crate) now_secs: f64,
    pub(crate) clock_secs: f64,
}

impl Sight {
    /// A new operator, which knows what status says.
    pub(crate) fn restored(record: &Record) -> Self {
        Self { facts: record.persisted, ..Self::default() }
    }

    /// After a panic: the brain comes back from status.
    pub(crate) fn forget(&mut self, record: &Record) {
        self.facts = record.persisted;
        self.obeying = (0, 0);
    }

    pub(crate) fn begin(&mut self, now_secs: f64, clock_secs: f64, version: Arc<Version>, rival: bool) {
        if self.tick.versions.first().is_some_and(|before| before.uid != version.uid) {
            // Another policy, of which nothing is known.
            self.facts = Facts::default();
        }
        let versions = vec![version];
        self.tick = Seen { began_secs: now_secs, clock_secs, versions, rival, ..Seen::default() };
        self.in_tick = true;
    }

    /// Its watch says that the policy is now like this.
    pub(crate) fn deliver(&mut self, version: &Arc<Version>) {
        let known = self.tick.versions.iter().any(|known| known.number == version.number);
        if self.in_tick && !known {
            self.tick.versions.push(version.clone());
        }
    }

    pub(crate) fn disturb(&mut self) {
        self.tick.disturbed = true;
    }

    pub(crate) fn read(&mut self, replicas: u32) {
        self.tick.read = Some(replicas);
    }

    /// One more call of the tick under way.
    pub(crate) fn call(&mut self) -> Result<(), String> {
        self.tick.calls += 1;
        if MAX_CALLS < self.tick.calls {
            return Err(format!("one tick made more than {MAX_CALLS} calls"));
        }
        Ok(())
    }

    /// What the sources answered.
    pub(crate) fn report(&mut self, signals: &Signals, declared: Declared, reality: Reality) {
        // A tick's time is that of its beginning, however slow the sources are.
        let now_secs = self.tick.began_secs;
        let facts = &mut self.facts;
        let load = usable(if declared.qps { signals.qps } else { signals.cpu });
        if load == Some(0.0) && reality.load && reality.fading && !facts.zero {
            // A load that fades may well end at nothing.
            facts.loaded = false;
        }
        let lost = lost(signals, declared, facts, reality.load);
        facts.lost_since = lost.map(|_| facts.lost_since.unwrap_or(now_secs));
        self.tick.lost = lost.zip(facts.lost_since);
        self.tick.reported = true;
        if let Some(load) = load {
            facts.zero = load == 0.0;
            facts.loaded = if facts.zero { facts.loaded && reality.load } else { true };
        }
        if let Some(cores) = usable(signals.cpu)
            && 0.0 < cores
        {
            facts.cpu_seen |= load.is_some_and(|load| 0.0 < load);
            facts.most_cores = facts.most_cores.max(cores);
        }
    }

    /// A status of this operator was written: the next one will know.
    pub(crate) fn persist(&mut self, record: &mut Record) {
        record.persisted = self.facts;
        self.tick.memory_stands = true;
    }

    /// A tick is over. An override has two undisturbed ticks to be obeyed in.
    pub(crate) fn end(
        &mut self,
        record: &mut Record,
        replicas: Option<u32>,
        rival_now: bool,
        (now_secs, clock_secs): (f64, f64),
    ) -> Result<(), String> {
        self.in_tick = false;
        record.ticks += 1;
        let Seen { versions, disturbed, began_secs, rival, .. } = &self.tick;
        let (Some(version), Some(replicas), [_]) = (versions.first(), replicas, versions.as_slice()) else {
            self.obeying = (0, 0);
            return Ok(());
        };
        let wish = version.wish(self.tick.clock_secs);
        let quiet = !disturbed
            && record.changed_secs_by_another() < *began_secs
            && wish == version.wish(clock_secs)
            && record.quarrels_until_secs() < now_secs
            && (!(*rival || rival_now) || version.insists);
        if !quiet {
            self.obeying = (0, 0);
            return Ok(());
        }
        let before = if self.obeying.0 == version.number { self.obeying.1 } else { 0 };
        self.obeying = (version.number, before + 1);
        let Some(pinned) = version.pinned(wish) else { return Ok(()) };
        let owed = OBEYED_TICKS <= self.obeying.1 && version.auto && version.valid;
        if owed && replicas != pinned {
            return Err(format!(
                "override not obeyed: {replicas} replicas after {OBEYED_TICKS} undisturbed ticks under {wish:?}, which \
                 asks for {pinned}"
            ));
        }
        Ok(())
    }
}

impl Record {
    /// Until when the operator may be standing back from another writer: twice as long for each further rewrite.
    pub(crate) fn quarrels_until_secs(&self) -> f64 {
        const MOST_SECS: f64 = 3600.0;
        let Some(further) = self.rewrites.len().checked_sub(QUARREL_REWRITES) else {
            return f64::NEG_INFINITY;
        };
        self.changed_secs_by_another() + (QUARREL_SECS * 2_f64.powi(further as i32)).min(MOST_SECS)
    }

    fn changed_secs_by_another(&self) -> f64 {
        self.rewrites.last().copied().unwrap_or(f64::NEG_INFINITY)
    }

    /// An event says that something was scaled: it must have been. A person or another operator who sets the very count
    /// that a lost answer leaves in doubt is taken for us.
    pub(crate) fn tell(&mut self, action: &str, alone: bool) -> Result<(), String> {
        let counts = action.strip_prefix("ScaleFrom").and_then(|counts| counts.split_once("To"));
        let counts = counts.and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
        let Some(counts) = counts else { return Err(format!("event without from and to: {action}")) };
        let doubtful = !alone || self.set_by_another == Some(counts.1);
        let told = self.told.entry(counts).or_default();
        *told += 1;
        let done = self.done.get(&counts).copied().unwrap_or(0);
        if done < *told && !doubtful {
            return Err(format!("told {told} times {action}, which was done {done} times"));
        }
        Ok(())
    }

    /// May this be written?
    pub(crate) fn judge(&mut self, write: &Write<'_>) -> Result<(), String> {
        let Write { seen, current, to, .. } = *write;
        if seen.read != Some(current) {
            return Err(format!(
                "lost update: {current} replicas were overwritten with {to}, but what was read last is {:?}",
                seen.read
            ));
        }
        if to < current && !seen.memory_stands {
            return Err(format!("{current} -> {to} before the memory of it stands in status"));
        }
        if seen.versions.is_empty() {
            return Err(format!("{current} -> {to} for a policy that is gone"));
        }
        let cases = || {
            let clocks = [seen.clock_secs, write.clock_secs];
            seen.versions.iter().flat_map(move |version| clocks.map(|clock_secs| (version, clock_secs)))
        };
        // A pin, or a minimum that was raised: nobody but the person said that so many are needed, as with the HPA.
        let free = cases().all(|(version, clock_secs)| {
            let up_to_the_minimum = current < version.min && to == version.min;
            version.pinned(version.wish(clock_secs)) != Some(to) && !up_to_the_minimum
        });
        let judged = cases().map(|(version, clock_secs)| lawful(write, version, clock_secs));
        // A change of the policy during the tick may or may not have been seen.
        let mut fault = None;
        for verdict in judged {
            match verdict {
                Ok(()) => {
                    let change = Change { secs: write.now_secs, from: current, to, free };
                    *self.done.entry((current, to)).or_default() += 1;
                    self.our_changes.push(change);
                    return self.stands(write, change);
                }
                Err(why) => fault = Some(why),
            }
        }
        Err(fault.unwrap_or_default())
    }

    /// A restart shortens no window: what was raised is not taken back within it.
    fn stands(&self, write: &Write<'_>, change: Change) -> Result<(), String> {
        let bounded = write.seen.versions.iter().any(|version| version.max == change.to);
        if !change.free || change.from < change.to || bounded {
            return Ok(());
        }
        let lately =
            self.our_changes.iter().rev().take_while(|raise| change.secs - raise.secs < write.window_secs);
        let mut raises = lately.filter(|raise| raise.free && raise.from < raise.to && change.to < raise.to);
        raises.next().map_or(Ok(()), |raise| {
            Err(format!(
                "window cut short: {change:?} so soon after {raise:?}, window {} s",
                write.window_secs
            ))
        })
    }
}

/// May this be written under this version of the policy, at this time of the operator's clock?
fn lawful(write: &Write<'_>, version: &Version, clock_secs: f64) -> Result<(), String> {
    let Write { seen, current, to, by_another, rival_now, now_secs, .. } = *write;
    let refused = |why: &str| Err(format!("{current} -> {to}: {why} (version {})", version.number));
    if !version.valid {
        return refused("the policy is not valid");
    }
    if !version.auto {
        return refused("the policy is in Shadow");
    }
    if seen.rival && rival_now && !version.insists {
        return refused("another autoscaler has the same target, or that is not known yet");
    }
    let wish = version.wish(clock_secs);
    if let Some(pinned) = version.pinned(wish) {
        return if to == pinned { Ok(()) } else { refused(&format!("pinned to {pinned}")) };
    }
    if to < version.min || version.max < to {
        return refused(&format!("out of bounds {}..{}", version.min, version.max));
    }
    match wish {
        Wish::Pause => return refused("paused"),
        Wish::NoDown if to < current => return refused("scaling down is paused"),
        Wish::NoUp if current < to => return refused("scaling up is paused"),
        _ => {}
    }
    if current == 0 && by_another && 0 < version.min {
        return refused("a person scaled to 0: scaling stands still");
    }
    let bounded = version.max < current && to == version.max;
    if current <= to || bounded {
        return Ok(());
    }
    if !seen.reported {
        return refused("down without a look at the signals");
    }
    let Some((what, since)) = seen.lost else { return Ok(()) };
    let fallback = version.fallback.filter(|(secs, _)| *secs - SLACK_SECS <= now_secs - since);
    match fallback {
        Some((_, replicas)) if version.clamp(replicas) <= to => Ok(()),
        Some((_, replicas)) => refused(&format!("below the fallback of {replicas} while {what} is lost")),
        None => refused(&format!("down while {what} is lost, for {:.0} s", now_secs - since)),
    }
}

fn usable(signal: Signal) -> Option<f64> {
    match signal {
        Signal::Fresh(Reading { value, .. }) | Signal::Estimated(Reading { value, .. }) => {
            (0.0..ABSURD).contains(&value).then_some(value)
        }
        _ => None,
    }
}

/// What the operator does not see, though the policy asks for it. A CPU that was never there has not been lost; a load
/// that falls to nothing in one poll, while CPU does not say so, is not seen.
fn lost(signals: &Signals, declared: Declared, facts: &Facts, true_load: bool) -> Option<&'static str> {
    let gone = |signal: Signal| usable(signal).is_none() && signal != Signal::NotApplicable;
    if declared.qps && gone(signals.qps) {
        return Some("qps");
    }
    if declared.latency && gone(signals.latency) {
        return Some("latency");
    }
    if declared.sla && (gone(signals.sla) || usable(signals.sla).is_some_and(|share| 1.0 < share)) {
        return Some("sla");
    }
    if declared.cpu && gone(signals.cpu) && (!declared.qps || facts.cpu_seen) {
        return Some("cpu");
    }
    let load = usable(if declared.qps { signals.qps } else { signals.cpu });
    let confirmed = usable(signals.cpu)
        .is_some_and(|cores| declared.qps && 0.0 < cores && cores <= CONFIRMS * facts.most_cores);
    (load == Some(0.0) && true_load && facts.loaded && !confirmed).then_some("the load (a sudden zero)")
}

impl Record {
    /// The policy was deleted and created anew: nothing of the old one's status counts.
    pub(crate) fn for_another_policy(self) -> Self {
        Self { persisted: Facts::default(), ..self }
    }
}
