//! Everything outside the operators: policies, targets, pods, trouble, persons, and the records of what was done.
//!
//! One lock, never held across an await. What the API server does with a request is in `server`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::channel::mpsc::UnboundedSender;
use kube::runtime::watcher::Event;
use rlscaler_api::RLReplicaPolicy;
use rlscaler_core::observation::Signals;
use serde_json::Value;
use tokio::time::Instant;

use super::dice::Dice;
use super::oracle::{Reality, Record, Sight};
use super::persons::Will;
use super::schedule::{Act, Call, How, PodTrouble, Schedule, Setting, Side, Site, Trouble, What, Which};
use super::service::Workload;
use super::signals::{Distortion, Measuring, measure};
use super::will::Version;
use crate::run::Guarded;

/// Noise of a measurement while there is trouble.
const NOISE: f64 = 0.02;
/// For so long after a step down a load counts as fading.
const FADING_SECS: f64 = 100.0;

/// The world, shared by the API server, the sources, the operators and whoever directs.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub(crate) fn new(world: World) -> Self {
        Self(Arc::new(Mutex::new(world)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// What whoever directs must do.
#[derive(Debug)]
pub(crate) enum Order {
    Act(Act),
    Broken,
}

pub(crate) struct World {
    begun: Instant,
    pub(crate) setting: Setting,
    pub(crate) places: Vec<Place>,
    trouble: Vec<(f64, What)>,
    /// Acts that wait for a call.
    waiting: Vec<Act>,
    pub(crate) seats: Vec<Seat>,
    /// Of operators; each service has its own, so that the order of two services in the same instant does not matter.
    pub(crate) dice: Dice,
    pub(crate) events: BTreeSet<String>,
    pub(crate) broken: Option<String>,
    pub(crate) story: Option<Vec<String>>,
    orders: UnboundedSender<Order>,
    deliveries: UnboundedSender<Delivery>,
    pub(crate) policies_made: u32,
    /// When two operators last ran at once.
    pub(crate) doubtful_secs: f64,
    /// When the load last fell by more than half.
    faded_secs: f64,
    /// The trouble is over: measurements are exact.
    exact: bool,
    /// Latency or late requests were told that look true and are not: pods are then rightly taken to be weaker.
    pub(crate) deceived: bool,
}

/// An event on its way to an operator's watch.
pub(crate) struct Delivery {
    pub(crate) operator: usize,
    pub(crate) place: usize,
    pub(crate) version: Option<Arc<Version>>,
    pub(crate) event: Event<Guarded>,
    pub(crate) due_secs: f64,
}

/// One policy, its workload, and what is known of them.
pub(crate) struct Place {
    pub(crate) workload: Workload,
    pub(crate) policy: Option<RLReplicaPolicy>,
    pub(crate) will: Will,
    /// All versions there were.
    pub(crate) versions: Vec<Arc<Version>>,
    pub(crate) record: Record,
    pub(crate) status_writes: u32,
    pub(crate) dice: Dice,
}

/// One operator.
pub(crate) struct Seat {
    pub(crate) alive: bool,
    pub(crate) clock_offset_secs: f64,
    pub(crate) sights: Vec<Sight>,
    /// Its watch of the policies.
    pub(crate) events: UnboundedSender<Event<Guarded>>,
    /// Nothing is delivered before what was sent earlier.
    pub(crate) last_delivery_secs: Vec<f64>,
    /// Whether it knows of another autoscaler; `None` before it has listed them.
    pub(crate) rival_told: Option<bool>,
}

impl World {
    pub(crate) fn new(
        schedule: &Schedule,
        story: bool,
        orders: UnboundedSender<Order>,
        deliveries: UnboundedSender<Delivery>,
    ) -> Self {
        let setting = schedule.setting.clone();
        let mut world = Self {
            begun: Instant::now(),
            places: Vec::new(),
            trouble: Vec::new(),
            waiting: Vec::new(),
            seats: Vec::new(),
            dice: Dice::new(schedule.seed, "world"),
            events: BTreeSet::new(),
            broken: None,
            story: story.then(Vec::new),
            orders,
            deliveries,
            policies_made: 0,
            doubtful_secs: f64::NEG_INFINITY,
            faded_secs: f64::NEG_INFINITY,
            exact: false,
            deceived: false,
            setting,
        };
        let Setting { start_replicas, busy_pods, startup_secs, neighbour, max, .. } = world.setting;
        world.place("web", start_replicas, busy_pods, startup_secs, schedule.seed);
        if neighbour {
            world.place("calm", max.div_ceil(2), f64::from(max) * 0.3, startup_secs, schedule.seed);
        }
        world
    }

    fn place(&mut self, name: &'static str, replicas: u32, busy_pods: f64, startup_secs: f64, seed: u64) {
        let will = Will::new(&self.setting);
        self.places.push(Place {
            workload: Workload::new(name, replicas, busy_pods, startup_secs, seed),
            policy: None,
            will,
            versions: Vec::new(),
            record: Record::default(),
            status_writes: 0,
            dice: Dice::new(seed, &format!("around {name}")),
        });
        self.create_policy(self.places.len() - 1);
    }

    pub(crate) fn now_secs(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    pub(crate) fn tell(&mut self, what: impl FnOnce() -> String) {
        let secs = self.now_secs();
        if let Some(story) = &mut self.story {
            story.push(format!("{secs:9.3} s  {}", what()));
        }
    }

    pub(crate) fn check(&mut self, verdict: Result<(), String>) {
        if let Err(why) = verdict
            && self.broken.is_none()
        {
            self.tell(|| format!("BROKEN: {why}"));
            self.broken = Some(why);
            self.orders.unbounded_send(Order::Broken).ok();
        }
    }

    pub(crate) fn place_of(&self, name: &str) -> Option<usize> {
        self.places.iter().position(|place| place.workload.name == name)
    }

    /// Lets time pass for a workload.
    pub(crate) fn pass(&mut self, place: usize) {
        let now_secs = self.now_secs();
        let trouble: Vec<PodTrouble> = match place {
            0 => self
                .lasting()
                .filter_map(|what| if let What::Pods { how, .. } = what { Some(how) } else { None })
                .collect(),
            _ => Vec::new(),
        };
        self.places[place].workload.pass(now_secs, &trouble);
    }

    /// Trouble that lasts now.
    pub(crate) fn lasting(&self) -> impl Iterator<Item = What> + '_ {
        let now_secs = self.now_secs();
        self.trouble.iter().filter(move |(until, _)| now_secs < *until).map(|(_, what)| *what)
    }

    pub(crate) fn has_rival(&self) -> bool {
        self.lasting().any(|what| matches!(what, What::Rival { .. }))
    }

    /// All trouble is over, and nothing waits any more.
    pub(crate) fn calm_down(&mut self) {
        self.tell(|| "all trouble is over".to_owned());
        self.trouble.clear();
        self.waiting.clear();
        self.exact = true;
    }

    /// What an act changes at once; what needs an operator started or stopped is for whoever directs.
    pub(crate) fn perform(&mut self, act: Act) {
        let now_secs = self.now_secs();
        self.tell(|| format!("{:?}", act.what));
        match act.what {
            What::Signals { secs, .. }
            | What::Api { secs, .. }
            | What::WatchLag { secs, .. }
            | What::Pods { secs, .. }
            | What::Rival { secs }
            | What::Panic { secs, .. } => self.trouble.push((now_secs + secs, act.what)),
            What::Load { busy_pods } => {
                self.pass(0);
                let before = std::mem::replace(&mut self.places[0].workload.busy_pods, busy_pods);
                if busy_pods < before / 2.0 {
                    self.faded_secs = now_secs;
                }
            }
            What::ClockStep { by_secs } => {
                for seat in self.seats.iter_mut().filter(|seat| seat.alive) {
                    seat.clock_offset_secs += by_secs;
                }
            }
            What::TargetGone { .. } => {
                self.pass(0);
                self.places[0].workload.target = None;
                self.pass(0);
                self.changed_by_another();
            }
            What::Person(person) => self.person(person),
            What::Restart { .. } | What::Second { .. } => {}
        }
    }

    /// A target that is still there is replaced without its pods going: its successor adopts the ReplicaSets.
    pub(crate) fn recreate_target(&mut self, replicas: u32) {
        let now_secs = self.now_secs();
        self.tell(|| format!("the Deployment is created anew with {replicas} replicas"));
        self.places[0].workload.recreate(replicas, now_secs);
        self.pass(0);
        self.changed_by_another();
    }

    pub(crate) fn changed_by_another(&mut self) {
        let now_secs = self.now_secs();
        let place = &mut self.places[0];
        let record = &mut place.record;
        record.set_by_another = place.workload.target.as_ref().map(|target| target.replicas);
        record.rewrites.push(now_secs);
        record.changed_secs = now_secs;
    }

    /// Sends an event to every watch, each in its own time.
    pub(crate) fn deliver(&mut self, place: usize, event: Event<Guarded>) {
        let lag = self.lasting().find_map(|what| match what {
            What::WatchLag { lag_secs, .. } => Some(lag_secs),
            _ => None,
        });
        let now_secs = self.now_secs();
        for operator in 0..self.seats.len() {
            let lag_secs = lag.unwrap_or(0.0) + self.places[place].dice.between(0.001, 0.03);
            let seat = &mut self.seats[operator];
            if !seat.alive {
                continue;
            }
            let due_secs = (now_secs + lag_secs).max(seat.last_delivery_secs[place] + 0.000_1);
            seat.last_delivery_secs[place] = due_secs;
            let version = match event {
                Event::Delete(_) => None,
                _ => self.places[place].versions.last().cloned(),
            };
            let delivery = Delivery { operator, place, version, event: event.clone(), due_secs };
            self.deliveries.unbounded_send(delivery).ok();
        }
    }

    /// The policy's status is set by an operator.
    pub(crate) fn set_status(&mut self, place: usize, status: &Value) {
        let Some(policy) = &mut self.places[place].policy else { return };
        policy.status = serde_json::from_value(status.clone()).unwrap();
        let policy = policy.clone();
        self.places[place].status_writes += 1;
        self.deliver(place, Event::Apply(kube::core::DeserializeGuard(Ok(policy))));
    }

    /// What the API server does to a call, where there is trouble with it.
    pub(crate) fn trouble_with(&mut self, place: usize, call: Call) -> Option<Trouble> {
        if place != 0 {
            return None;
        }
        let found = self.lasting().find_map(|what| match what {
            What::Api { on, how, share, .. } if on.is_none_or(|on| on == call) => Some((how, share)),
            _ => None,
        });
        let (how, share) = found?;
        self.places[place].dice.chance(share).then_some(how)
    }

    /// An act has waited for this call. True when the operator that made it dies of it.
    pub(crate) fn strike(&mut self, place: usize, call: Call, side: Side) -> bool {
        let now_secs = self.now_secs();
        if place != 0 {
            return false;
        }
        let found =
            self.waiting.iter().position(|act| act.secs <= now_secs && act.call == Some((call, side)));
        let Some(index) = found else { return false };
        let act = self.waiting.remove(index);
        let dies = matches!(act.what, What::Restart { graceful: false, .. });
        if matches!(act.what, What::Person(_)) {
            self.perform(act);
        } else {
            self.orders.unbounded_send(Order::Act(act)).ok();
        }
        dies
    }

    pub(crate) fn wait_for_call(&mut self, act: Act) {
        self.waiting.push(act);
    }

    /// Acts whose call has not come for so long that they happen now.
    pub(crate) fn overdue(&mut self, after_secs: f64) -> Vec<Act> {
        let now_secs = self.now_secs();
        let (overdue, waiting) = self.waiting.drain(..).partition(|act| act.secs + after_secs <= now_secs);
        self.waiting = waiting;
        overdue
    }

    /// Seconds for which a raise must stand, as far as that can be told now.
    pub(crate) fn window_secs(&self) -> f64 {
        let since = self.now_secs() - self.doubtful_secs;
        let window_secs = self.setting.behavior.down_window_secs();
        if since < 2.0 * window_secs { 0.0 } else { window_secs }
    }

    pub(crate) fn reading_takes(&mut self, name: &str, deadline: Duration) -> Duration {
        let place = self.place_of(name).unwrap_or(0);
        let slow =
            place == 0 && self.lasting().any(|what| matches!(what, What::Signals { how: How::Slow, .. }));
        if slow { deadline } else { Duration::from_secs_f64(self.places[place].dice.between(0.005, 0.05)) }
    }

    pub(crate) fn panics(&mut self, name: &str, site: Site) -> bool {
        const SHARE: f64 = 0.7;
        let lasts = self.lasting().any(|what| matches!(what, What::Panic { site: here, .. } if here == site));
        name == "web" && lasts && self.places[0].dice.chance(SHARE)
    }

    /// What the sources answer an operator.
    pub(crate) fn measured(&mut self, operator: usize, name: &str) -> Signals {
        let place = self.place_of(name).unwrap_or(0);
        self.pass(place);
        let truth = self.places[place].workload.truth();
        let mut faults = Vec::new();
        if place == 0 {
            let lasting: Vec<What> = self.lasting().collect();
            for what in lasting {
                if let What::Signals { which, how, share, .. } = what
                    && self.places[0].dice.chance(share)
                {
                    let late = which != Which::Qps && which != Which::Cpu;
                    self.deceived |= late && matches!(how, How::WrongUnit | How::Zero);
                    faults.push(Distortion { which, how });
                }
            }
        }
        let declared = self.setting.signals;
        let noise = if self.exact { 0.0 } else { NOISE };
        let how = Measuring { declared, ages_known: self.setting.ages_known, noise };
        let signals = measure(&truth, how, &faults, &mut self.places[place].dice);
        let now_secs = self.now_secs();
        let fading = place == 0 && now_secs - self.faded_secs < FADING_SECS;
        let reality = Reality { load: 0.0 < truth.qps, fading };
        self.seats[operator].sights[place].report(&signals, declared, reality);
        self.tell(|| format!("operator {operator} reads {name}: {} (faults {faults:?})", shown(&signals)));
        signals
    }

    /// How long the past takes to be read, and what it was; now and then there is none.
    pub(crate) fn past(&mut self, name: &str) -> (f64, Option<f64>) {
        let place = self.place_of(name).unwrap_or(0);
        let wait_secs = self.places[place].dice.pick(&[0.05, 0.05, 3.0, 40.0]);
        let qps = self.places[place].workload.qps();
        (wait_secs, self.places[place].dice.chance(0.6).then_some(qps))
    }
}

fn shown(signals: &Signals) -> String {
    use rlscaler_core::observation::{Reading, Signal};
    let one = |name: &str, signal: Signal| match signal {
        Signal::NotDeclared => String::new(),
        Signal::Fresh(Reading { value, .. }) => format!("{name} {value:.4} "),
        Signal::Stale(_) => format!("{name} stale "),
        other => format!("{name} {other:?} "),
    };
    let Signals { qps, latency, sla, cpu, .. } = *signals;
    [("qps", qps), ("latency", latency), ("sla", sla), ("cpu", cpu)]
        .map(|(name, signal)| one(name, signal))
        .concat()
}
