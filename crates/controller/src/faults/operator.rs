//! One operator: the real reconcilers on the real scheduler, over a client, sources and a clock of the world's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::StreamExt;
use futures::channel::{mpsc, oneshot};
use kube::api::DynamicObject;
use kube::core::DeserializeGuard;
use kube::runtime::reflector;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource};
use prometheus_client::registry::Registry;
use rlscaler_api::Limits;
use rlscaler_core::policy::{Action as Answer, PolicyFault};
use rlscaler_core::{Features, PlannerOnly, Policy};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::oracle::Sight;
use super::schedule::Site;
use super::server::handle;
use super::signals::Reader;
use super::will::{Version, at};
use super::world::{Delivery, Seat, Shared, World};
use crate::claims::Claims;
use crate::context::{Context, Health, States};
use crate::metrics::Metrics;
use crate::models::{LoadedModel, Models};
use crate::quotas::Quotas;
use crate::replica::target::Kinds;
use crate::retry::Quiet;
use crate::rivals::{RivalKind, Rivals};
use crate::run::{Guarded, drive, guarded_tick};

/// The service that nothing happens to.
const NEIGHBOUR: usize = 1;
/// Its ticks are never this many intervals apart.
const LATE: f64 = 1.5;

/// A running operator.
pub(crate) struct Operator {
    pub(crate) number: usize,
    pub(crate) ctx: Arc<Context>,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<()>,
}

/// A model that answers anything, now and then something that is no number, and panics while the world says so.
struct Erratic(Shared);

impl Policy for Erratic {
    fn act(&self, _: &Features) -> Result<Answer, PolicyFault> {
        let mut world = self.0.lock();
        if world.panics("web", Site::Model) {
            drop(world);
            // Without the hook, which would fill the screen.
            std::panic::resume_unwind(Box::new("a bug in a model"));
        }
        let multiplier =
            if world.places[0].dice.chance(0.05) { f64::NAN } else { world.places[0].dice.between(0.7, 1.5) };
        Ok(Answer { multiplier, value: 0.0 })
    }

    fn describe(&self) -> String {
        "erratic@1".to_owned()
    }
}

impl Operator {
    /// Starts one; it lists the policies and watches them from then on.
    pub(crate) fn start(world: &Shared) -> Self {
        let (events, watched) = mpsc::unbounded();
        let (number, listed) = world.lock().seat(events);
        let (reader, writer) = reflector::store::<Guarded>();
        let rivals = Arc::new(Rivals::default());
        tokio::spawn(tell_of_rivals(world.clone(), number, rivals.clone()));
        let service = {
            let world = world.clone();
            tower::service_fn(move |request| handle(world.clone(), number, request))
        };
        let clock_of = world.clone();
        let begun = Instant::now();
        let erratic = world.lock().setting.erratic_model;
        let model = match erratic {
            true => LoadedModel { policy: Arc::new(Erratic(world.clone())), trained: true },
            false => LoadedModel { policy: Arc::new(PlannerOnly), trained: false },
        };
        let ctx = Arc::new(Context {
            client: Client::new(service, "shop"),
            signals: Arc::new(Reader { world: world.clone(), operator: number }),
            models: Models {
                default: "base".into(),
                by_name: BTreeMap::from([("base".to_owned(), Ok(model))]),
            },
            metrics: Metrics::register(&mut Registry::default()),
            rivals,
            quotas: Arc::new(Quotas::default()),
            claims: Claims::default(),
            quiet: Quiet::default(),
            kinds: Kinds::default(),
            clock: Arc::new(move || at(clock_of.lock().clock_secs(number))),
            steady: Arc::new(move || begun.elapsed()),
            limits: Limits::default(),
            instance: format!("operator-{number}"),
            policies: reader,
            states: States::default(),
        });
        let events = listed.into_iter().map(Ok::<_, watcher::Error>);
        let events = futures::stream::iter(events).chain(watched.map(Ok)).boxed();
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = stopped.map(drop).boxed().shared();
        let of_tick = world.clone();
        let running = drive(
            ctx.clone(),
            events.reflect(writer),
            Arc::new(Health::default()),
            stopped,
            move |policy, ctx| {
                let world = of_tick.clone();
                async move {
                    world.lock().tick_begins(number, &policy);
                    let panics = ctx.metrics.panics.get();
                    let action = guarded_tick(policy.clone(), ctx.clone()).await;
                    world.lock().tick_ends(number, &policy, &ctx, panics < ctx.metrics.panics.get());
                    action
                }
                .boxed()
            },
        );
        Self { number, ctx, stop: Some(stop), running: tokio::spawn(running) }
    }

    /// Dies between two steps, wherever it is.
    pub(crate) fn kill(self, world: &Shared) {
        self.running.abort();
        world.lock().leave(self.number);
    }

    /// Ends the ticks under way and starts no others, as when it is told to stop.
    pub(crate) async fn end(mut self, world: &Shared) {
        const LONGEST: Duration = Duration::from_secs(20);
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
        let running = &mut self.running;
        if tokio::time::timeout(LONGEST, running).await.is_err() {
            self.running.abort();
        }
        world.lock().leave(self.number);
    }
}

/// Keeps an operator's knowledge of other autoscalers as its watches would: nothing at first, then what there is.
async fn tell_of_rivals(world: Shared, number: usize, rivals: Arc<Rivals>) {
    const LOOK: Duration = Duration::from_secs(1);
    let first = world.lock().dice.between(0.0, 2.0);
    sleep(Duration::from_secs_f64(first)).await;
    let hpa: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "hpa", "namespace": "shop"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}))
    .unwrap();
    for kind in [RivalKind::Hpa, RivalKind::ScaledObject, RivalKind::Vpa] {
        rivals.apply(kind, Event::InitDone);
    }
    loop {
        let there = {
            let mut world = world.lock();
            if !world.seats[number].alive {
                return;
            }
            let there = world.has_rival();
            world.seats[number].rival_told = Some(there);
            there
        };
        let event = if there { Event::Apply(hpa.clone()) } else { Event::Delete(hpa.clone()) };
        rivals.apply(RivalKind::Hpa, event);
        sleep(LOOK).await;
    }
}

/// Hands events to the operators' watches, each when it is due.
pub(crate) async fn deliver(world: Shared, mut sent: mpsc::UnboundedReceiver<Delivery>) {
    while let Some(Delivery { operator, place, version, event, due_secs }) = sent.next().await {
        let world = world.clone();
        let wait = Duration::from_secs_f64((due_secs - world.lock().now_secs()).max(0.0));
        tokio::spawn(async move {
            sleep(wait).await;
            let mut world = world.lock();
            let seat = &mut world.seats[operator];
            if let Some(version) = version {
                seat.sights[place].deliver(&version);
            }
            // Nobody listens when the operator is gone.
            seat.events.unbounded_send(event).ok();
        });
    }
}

impl World {
    /// A new operator: its number, and what its list of the policies says.
    fn seat(&mut self, events: mpsc::UnboundedSender<Event<Guarded>>) -> (usize, Vec<Event<Guarded>>) {
        let skew_secs = self.dice.between(-2.0, 2.0);
        let clock_offset_secs = self.seats.last().map_or(0.0, |seat| seat.clock_offset_secs);
        let number = self.seats.len();
        self.seats.push(Seat {
            alive: true,
            clock_offset_secs: clock_offset_secs + skew_secs,
            sights: self.places.iter().map(|place| Sight::restored(&place.record)).collect(),
            events,
            last_delivery_secs: vec![0.0; self.places.len()],
            rival_told: None,
        });
        self.tell(|| format!("operator {number} starts"));
        self.note_overlap();
        let policies = self.places.iter().filter_map(|place| place.policy.clone());
        let listed = policies.map(|policy| Event::InitApply(DeserializeGuard(Ok(policy))));
        let events = std::iter::once(Event::Init).chain(listed).chain(std::iter::once(Event::InitDone));
        (number, events.collect())
    }

    /// Two operators at once know different things.
    fn note_overlap(&mut self) {
        if 1 < self.seats.iter().filter(|seat| seat.alive).count() {
            self.doubtful_secs = self.now_secs();
        }
    }

    fn leave(&mut self, number: usize) {
        self.note_overlap();
        self.tell(|| format!("operator {number} is gone"));
        self.seats[number].alive = false;
    }

    fn tick_begins(&mut self, number: usize, policy: &Guarded) {
        let (now_secs, clock_secs) = (self.now_secs(), self.clock_secs(number));
        let Some((place, version)) = self.version_of(policy) else { return };
        let rival = self.knows_rival(number, place);
        self.note_overlap();
        if place == NEIGHBOUR {
            let interval_secs = f64::from(self.setting.interval_secs);
            let before = self.seats[number].sights[place].tick.began_secs;
            let gap_secs = now_secs - before;
            if 0.0 < before && LATE * interval_secs < gap_secs {
                self.check(Err(format!("the neighbour waited {gap_secs:.0} s for its tick")));
            }
        }
        self.seats[number].sights[place].begin(now_secs, clock_secs, version.clone(), rival);
        self.tell(|| {
            format!("operator {number} begins a tick of {} at version {}", place_name(policy), version.number)
        });
    }

    fn tick_ends(&mut self, number: usize, policy: &Guarded, ctx: &Context, panicked: bool) {
        let (now_secs, clock_secs) = (self.now_secs(), self.clock_secs(number));
        let Some((place, _)) = self.version_of(policy) else { return };
        self.pass(place);
        let rival = self.knows_rival(number, place);
        let replicas = self.places[place].workload.target.as_ref().map(|target| target.replicas);
        let record = &mut self.places[place].record;
        let sight = &mut self.seats[number].sights[place];
        if panicked {
            sight.disturb();
            sight.forget(record);
        }
        let verdict = sight.end(record, replicas, rival, (now_secs, clock_secs));
        self.tell(|| {
            format!(
                "operator {number} ends the tick at {replicas:?} replicas{}",
                if panicked { " with a panic" } else { "" }
            )
        });
        self.check(verdict);
        // One that is deleted may still be known until its watch says so.
        if self.places.len() + 1 < ctx.states.len() {
            self.check(Err(format!("growth: {} states of {} policies", ctx.states.len(), self.places.len())));
        }
    }

    /// Another autoscaler is known, or it is not known yet that there is none.
    pub(crate) fn knows_rival(&self, number: usize, place: usize) -> bool {
        match self.seats[number].rival_told {
            None => true,
            Some(there) => there && place == 0,
        }
    }

    fn version_of(&self, policy: &Guarded) -> Option<(usize, Arc<Version>)> {
        let place = self.place_of(&place_name(policy))?;
        let number: usize = policy.meta().labels.as_ref()?.get("version")?.parse().ok()?;
        Some((place, self.places[place].versions.get(number)?.clone()))
    }
}

fn place_name(policy: &Guarded) -> String {
    policy.meta().name.clone().unwrap_or_default()
}
