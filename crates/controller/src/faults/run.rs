//! One run of a schedule in simulated time: operators start, die and run side by side, trouble comes and ends, and then
//! the loop must come to rest. In: a schedule. Out: what was counted, or the property that was broken.

use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use tokio::time::{Instant, sleep, sleep_until};

use super::operator::{Operator, deliver};
use super::schedule::{Act, Schedule, What};
use super::will::Wish;
use super::world::{Order, Shared, World};

/// Ticks within which the loop comes to rest.
pub(crate) const RESTED_TICKS: u32 = 20;
/// Ticks that may be left out at first: a policy whose tick panicked is held for 30 s, one whose call was refused looks
/// again after a minute at most.
const HELD_TICKS: u32 = 5;
/// Ticks it is watched afterwards.
const WATCHED_TICKS: u32 = 10;
/// An act whose call does not come for so many intervals happens by itself.
const OVERDUE_INTERVALS: f64 = 3.0;
/// Most that may run at rest, in times of what is needed, and beside it.
const GENEROUS: (f64, u32) = (1.6, 2);
/// Most things told of one policy per tick, on average, whatever happens.
const TOLD_PER_TICK: u32 = 2;

/// What a run did, for the tally.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) ticks: u32,
    pub(crate) scalings: u32,
    pub(crate) events: u32,
    pub(crate) status_writes: u32,
}

/// A broken property, and the story if it was asked for.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) why: String,
    pub(crate) story: Vec<String>,
}

/// Runs it in simulated time.
pub(crate) fn run(schedule: &Schedule, story: bool) -> Result<(Counted, Vec<String>), Broken> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let outcome = runtime.block_on(direct(schedule, story));
    // What still waits for an answer that never comes is dropped.
    runtime.shutdown_background();
    outcome
}

/// What whoever directs has in hand.
struct Stage {
    world: Shared,
    operators: Vec<Operator>,
    /// What is to be done, and when.
    agenda: Vec<(f64, Deed)>,
    orders: UnboundedReceiver<Order>,
}

#[derive(Debug, Clone, Copy)]
enum Deed {
    Act(Act),
    Start,
    /// The oldest operator dies.
    KillOldest,
    TargetBack(u32),
}

async fn direct(schedule: &Schedule, story: bool) -> Result<(Counted, Vec<String>), Broken> {
    let (order, orders) = unbounded();
    let (send, sent) = unbounded();
    let world = Shared::new(World::new(schedule, story, order, send));
    tokio::spawn(deliver(world.clone(), sent));
    let mut stage = Stage {
        operators: vec![Operator::start(&world)],
        agenda: schedule.acts.iter().map(|act| (act.secs, Deed::Act(*act))).collect(),
        orders,
        world: world.clone(),
    };
    let interval_secs = f64::from(schedule.setting.interval_secs);
    stage.play(schedule.faulty_secs, interval_secs * OVERDUE_INTERVALS).await;
    stage.settle().await;
    let rest = Rest::begin(&stage);
    let rested_secs = rest.patience_secs(&world) + interval_secs * f64::from(RESTED_TICKS);
    stage.watch(rested_secs).await;
    rest.check_rested(&stage);
    let watched = {
        let world = world.lock();
        Watched { from_secs: world.now_secs(), counted: counted(&world) }
    };
    stage.watch(interval_secs * f64::from(WATCHED_TICKS)).await;
    rest.check_still(&stage, &watched);
    check_growth(&stage);
    let operators = std::mem::take(&mut stage.operators);
    operators.into_iter().for_each(|operator| operator.kill(&world));
    let mut world = world.lock();
    let story = world.story.take().unwrap_or_default();
    match world.broken.take() {
        Some(why) => Err(Broken { why, story }),
        None => Ok((counted(&world), story)),
    }
}

fn counted(world: &World) -> Counted {
    let mut counted = Counted { events: world.events.len() as u32, ..Counted::default() };
    for place in &world.places {
        counted.ticks += place.record.ticks;
        counted.scalings += place.record.our_changes.len() as u32;
        counted.status_writes += place.status_writes;
    }
    counted
}

impl Stage {
    fn is_broken(&self) -> bool {
        self.world.lock().broken.is_some()
    }

    /// Lets things happen until `end_secs`.
    async fn play(&mut self, end_secs: f64, overdue_secs: f64) {
        let begun = Instant::now();
        loop {
            self.agenda.sort_by(|one, other| one.0.total_cmp(&other.0));
            let next_secs = self.agenda.first().map_or(end_secs, |(secs, _)| secs.min(end_secs));
            let due = begun + Duration::from_secs_f64(next_secs);
            let order = tokio::select! {
                biased;
                order = self.orders.next() => order,
                () = sleep_until(due) => None,
            };
            if self.is_broken() {
                return;
            }
            for act in self.world.lock().overdue(overdue_secs) {
                self.agenda.push((0.0, Deed::Act(Act { call: None, ..act })));
            }
            match order {
                Some(Order::Act(act)) => self.act(act).await,
                Some(Order::Broken) => return,
                None if end_secs <= next_secs => return,
                None => {
                    let (_, deed) = self.agenda.remove(0);
                    self.deed(deed).await;
                }
            }
        }
    }

    async fn deed(&mut self, deed: Deed) {
        match deed {
            Deed::Act(act) if act.call.is_some() => self.world.lock().wait_for_call(act),
            Deed::Act(act) => self.act(act).await,
            Deed::Start => self.operators.push(Operator::start(&self.world)),
            Deed::KillOldest if 1 < self.operators.len() => self.operators.remove(0).kill(&self.world),
            Deed::KillOldest => {}
            Deed::TargetBack(replicas) => self.world.lock().recreate_target(replicas),
        }
    }

    async fn act(&mut self, act: Act) {
        self.world.lock().perform(act);
        let now_secs = self.world.lock().now_secs();
        match act.what {
            What::Restart { pause_secs, graceful } => {
                let Some(operator) = self.operators.pop() else { return };
                match graceful {
                    true => operator.end(&self.world).await,
                    false => operator.kill(&self.world),
                }
                self.agenda.push((now_secs + pause_secs, Deed::Start));
            }
            What::Second { secs } => {
                self.operators.push(Operator::start(&self.world));
                self.agenda.push((now_secs + secs, Deed::KillOldest));
            }
            What::TargetGone { secs, replicas } => {
                self.agenda.push((now_secs + secs, Deed::TargetBack(replicas)));
            }
            _ => {}
        }
    }

    /// Everything comes to its end: one operator, a target, a valid policy, no trouble.
    async fn settle(&mut self) {
        for (_, deed) in std::mem::take(&mut self.agenda) {
            match deed {
                Deed::TargetBack(_) | Deed::Start => self.deed(deed).await,
                Deed::Act(_) | Deed::KillOldest => {}
            }
        }
        while 1 < self.operators.len() {
            self.operators.remove(0).kill(&self.world);
        }
        let mut world = self.world.lock();
        world.calm_down();
        world.tidy();
    }

    /// Nothing is done to it any more.
    async fn watch(&mut self, secs: f64) {
        if self.is_broken() {
            return;
        }
        tokio::select! {
            () = sleep(Duration::from_secs_f64(secs)) => {}
            _ = self.orders.next() => {}
        }
    }
}

/// The loop after the trouble.
struct Rest {
    began_ticks: u32,
}

impl Rest {
    fn begin(stage: &Stage) -> Self {
        let world = stage.world.lock();
        Self { began_ticks: world.places[0].record.ticks }
    }

    /// After a quarrel with another writer the operator stands back for a while; an override may have an end.
    fn patience_secs(&self, shared: &Shared) -> f64 {
        let world = shared.lock();
        let now_secs = world.now_secs();
        let place = &world.places[0];
        let stands_back = place.record.quarrels_until_secs() - now_secs;
        let clock_secs = world
            .seats
            .iter()
            .enumerate()
            .filter(|(_, seat)| seat.alive)
            .map(|(number, _)| world.clock_secs(number))
            .next();
        let version = place.versions.last();
        let ends = version
            .into_iter()
            .flat_map(|version| [version.annotated, version.spec])
            .flatten()
            .filter_map(|written| written.until_secs);
        let ends = ends.map(|until| until - clock_secs.unwrap_or(0.0)).filter(|secs| secs.abs() < 4000.0);
        ends.fold(stands_back, f64::max).max(0.0)
    }

    /// Within so many ticks the count is what it should be, and every policy had its ticks.
    fn check_rested(&self, stage: &Stage) {
        let mut world = stage.world.lock();
        if world.broken.is_some() {
            return;
        }
        let ticks = world.places[0].record.ticks - self.began_ticks;
        if ticks + HELD_TICKS < RESTED_TICKS {
            world.check(Err(format!("the loop is dead: {ticks} ticks in {RESTED_TICKS} intervals")));
        }
        for place in 0..world.places.len() {
            let verdict = at_rest(&world, stage, place);
            world.check(verdict);
        }
    }

    /// Afterwards it stays there, and no more is told and written than must be.
    fn check_still(&self, stage: &Stage, watched: &Watched) {
        let mut world = stage.world.lock();
        if world.broken.is_some() {
            return;
        }
        let steady = world.setting.capacity_declared && !world.setting.erratic_model;
        let mut scaled = 0;
        for place in 0..world.places.len() {
            let verdict = at_rest(&world, stage, place);
            world.check(verdict);
            let changes = &world.places[place].record.our_changes;
            let lately: Vec<_> =
                changes.iter().filter(|change| watched.from_secs <= change.secs).copied().collect();
            let ups = lately.iter().filter(|change| change.from < change.to).count();
            scaled += lately.len() as u32;
            // Where nobody knows what a pod can serve, fewer are tried now and then.
            if steady && 0 < ups.min(lately.len() - ups) {
                world.check(Err(format!("it does not come to rest: {lately:?}")));
            }
        }
        let now = counted(&world);
        let secs = world.now_secs() - watched.from_secs;
        let places = world.places.len() as u32;
        let told = now.events - watched.counted.events;
        if steady && 2 * scaled + 2 * places < told {
            world.check(Err(format!("growth: {told} events at rest, with {scaled} scalings")));
        }
        let written = now.status_writes - watched.counted.status_writes;
        let interval_secs = f64::from(world.setting.interval_secs);
        let (least, most) =
            ((secs / (60.0 + interval_secs)) as u32 - 1, (secs / 60.0) as u32 + 2 + 2 * scaled);
        if written < places * least || (steady && places * most + 2 * scaled < written) {
            world.check(Err(format!(
                "{written} writes of status in {secs:.0} s at rest, with {scaled} scalings"
            )));
        }
    }
}

/// The last stretch.
struct Watched {
    from_secs: f64,
    counted: Counted,
}

/// The count at rest, by the contract.
fn at_rest(world: &World, stage: &Stage, index: usize) -> Result<(), String> {
    let place = &world.places[index];
    let workload = &place.workload;
    let (Some(target), Some(version), Some(operator)) =
        (&workload.target, place.versions.last(), stage.operators.last())
    else {
        return Ok(());
    };
    let replicas = target.replicas;
    let clock_secs = world.clock_secs(operator.number);
    let wish = version.wish(clock_secs);
    if let Some(pinned) = version.pinned(wish) {
        return if replicas == pinned {
            Ok(())
        } else {
            Err(format!("pinned to {pinned}, but at {replicas}"))
        };
    }
    let by_another = target.writer != "rlscaler";
    if wish == Wish::Pause || (replicas == 0 && by_another && 0 < version.min) {
        return Ok(());
    }
    let needed = workload.needed().max(u32::from(0.0 < workload.busy_pods));
    let least = version.clamp(needed);
    let (times, beside) = GENEROUS;
    let most = version.clamp((f64::from(needed) * times).ceil() as u32 + beside);
    let too_few = replicas < least && wish != Wish::NoUp;
    let known = world.setting.capacity_declared && !world.setting.erratic_model;
    // A scale-down that was undone is held off for longer than it is waited here.
    let held =
        place.policy.as_ref().and_then(|policy| policy.status.as_ref()?.scale_down_hold.as_ref()).is_some();
    let too_many = known && !held && !world.deceived && most < replicas && wish != Wish::NoDown;
    if too_few && known {
        return Err(format!(
            "no rest: {replicas} replicas, {least} are needed ({:.1} busy pods)",
            workload.busy_pods
        ));
    }
    if too_many {
        return Err(format!(
            "no rest: {replicas} replicas, {most} are plenty ({:.1} busy pods)",
            workload.busy_pods
        ));
    }
    let outside =
        (replicas < version.min && wish != Wish::NoUp) || (version.max < replicas && wish != Wish::NoDown);
    if outside {
        return Err(format!("at rest out of bounds: {replicas} of {}..{}", version.min, version.max));
    }
    Ok(())
}

/// Nothing grows without an end.
fn check_growth(stage: &Stage) {
    let mut world = stage.world.lock();
    if world.broken.is_some() {
        return;
    }
    let Counted { ticks, events, .. } = counted(&world);
    let starts = world.seats.len() as u32;
    if TOLD_PER_TICK * ticks + 20 * starts < events {
        world.check(Err(format!("growth: {events} events in {ticks} ticks")));
    }
    let Some(operator) = stage.operators.last() else { return };
    let states = operator.ctx.states.len();
    if states != world.places.len() {
        let policies = world.places.len();
        world.check(Err(format!("growth: {states} states of {policies} policies")));
    }
    let policy = world.places[0].policy.clone();
    let Some((uid, name)) = policy.and_then(|policy| policy.metadata.uid.zip(policy.metadata.name)) else {
        return;
    };
    let key = crate::metrics::PolicyKey { namespace: "shop".to_owned(), name };
    let known = operator.ctx.states.of(&uid, &key);
    let Ok(known) = known.try_lock() else { return };
    let sizes = [
        ("told", known.told.len(), 64),
        ("failures", known.failures.len(), 6),
        ("replica sets", known.replica_sets.len(), 20),
    ];
    for (what, found, most) in sizes {
        if most < found {
            world.check(Err(format!("growth: {found} {what} remembered")));
        }
    }
}
