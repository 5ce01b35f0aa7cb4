//! Runs the ticks: which policy, when, and how many at once; alone, until told to stop.
//!
//! A policy's tick is started by a change of its spec or annotations and by its own timer, never twice at the same
//! time. A panic inside one holds that policy alone.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::controller::{self, Action, applier};
use kube::runtime::predicates::{annotations, generation};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{Predicate, WatchStreamExt};
use kube::{Client, Resource, ResourceExt};
use rlscaler_api::conditions::EventReason;
use rlscaler_api::{Limits, RLReplicaPolicy};
use rlscaler_signals::ReadSignals;

use crate::claims::Claims;
use crate::context::{Clock, Context, Health, States, Steady};
use crate::lease::Elector;
use crate::metrics::Metrics;
use crate::models::Models;
use crate::quotas::Quotas;
use crate::replica::target::Kinds;
use crate::replica::telling::{About, Severity, Telling};
use crate::replica::untold::Untold;
use crate::replica::{DEBOUNCE, REPORT_AGAIN, report, tick};
use crate::retry::{Quiet, WatchBackoff};
use crate::rivals::Rivals;

/// Ticks at the same time. One waits for other machines nearly all the time.
const CONCURRENT_TICKS: u16 = 64;
/// Pause of a policy whose tick panicked.
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(30);
/// Longest wait for ticks under way when told to stop; the kubelet waits 30 s.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(20);
/// Name of the lease.
pub const LEASE_NAME: &str = "rlscaler";

/// A policy as watched: one that cannot be read must not stop the others.
pub type Guarded = DeserializeGuard<RLReplicaPolicy>;

/// A tick under way.
pub(crate) type Ticking = BoxFuture<'static, Result<Action, std::convert::Infallible>>;

/// Resolves when the operator is to stop.
pub type Stop = Shared<BoxFuture<'static, ()>>;

/// How to run.
#[derive(Clone)]
pub struct Options {
    /// Floor of the interval, and the time factor.
    pub limits: Limits,
    /// Only policies of this namespace; all without.
    pub namespace: Option<String>,
    /// Namespace of the lease; `None`: run without election.
    pub lease_namespace: Option<String>,
    /// This process, unique among its peers: the pod's name.
    pub identity: String,
    /// The time.
    pub clock: Clock,
    /// How long things last.
    pub steady: Steady,
}

/// What the operator is made of.
pub struct Parts {
    /// The API server.
    pub client: Client,
    /// Where signals come from.
    pub signals: Arc<dyn ReadSignals>,
    /// Models by name.
    pub models: Models,
    /// Counters.
    pub metrics: Metrics,
    /// What probes ask.
    pub health: Arc<Health>,
}

/// Why the operator ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum RunFault {
    /// Another operator may be running now.
    #[error("the lease was lost: stopping, so that there is one operator at a time")]
    LeaseLost,
}

/// Runs until `stop` resolves: then ticks under way are finished and the lease is released.
///
/// # Errors
/// When the lease is lost.
pub async fn run(parts: Parts, options: Options, stop: Stop) -> Result<(), RunFault> {
    let health = parts.health.clone();
    let outcome = match options.lease_namespace.clone() {
        None => {
            work(parts, options, stop).await;
            Ok(())
        }
        Some(namespace) => lead(parts, options, stop, &namespace).await,
    };
    health.set_stopped();
    outcome
}

/// Waits for the lease, works while it is held, and gives it back.
async fn lead(parts: Parts, options: Options, stop: Stop, namespace: &str) -> Result<(), RunFault> {
    let api: Api<Lease> = Api::namespaced(parts.client.clone(), namespace);
    let mut elector = Elector::new(api, LEASE_NAME, options.identity.clone());
    let clock = options.clock.clone();
    // Standing by is being ready: a rolling update must not wait for the one it replaces.
    parts.health.set_ready();
    tracing::info!(namespace, lease = LEASE_NAME, "waiting for the lease");
    tokio::select! {
        () = elector.acquire(clock.as_ref()) => {}
        () = stop.clone() => return Ok(()),
    }
    tracing::info!(namespace, lease = LEASE_NAME, "the lease is held");
    let worked = tokio::select! {
        () = work(parts, options, stop) => Ok(()),
        () = elector.keep(clock.as_ref()) => Err(RunFault::LeaseLost),
    };
    if worked.is_ok() {
        elector.release(clock()).await;
    }
    worked
}

/// Watches and ticks until told to stop, and finishes what is under way.
async fn work(parts: Parts, options: Options, stop: Stop) {
    let Parts { client, signals, models, metrics, health } = parts;
    let Options { limits, namespace, lease_namespace: _, identity, clock, steady } = options;
    let (reader, writer) = reflector::store::<Guarded>();
    let ctx = Arc::new(Context {
        client: client.clone(),
        signals,
        models,
        metrics,
        rivals: Arc::new(Rivals::default()),
        quotas: Arc::new(Quotas::default()),
        claims: Claims::default(),
        quiet: Quiet::default(),
        kinds: Kinds::default(),
        clock,
        steady,
        limits,
        instance: identity,
        policies: reader,
        states: States::default(),
    });
    let (rivals, quotas) = (ctx.rivals.clone(), ctx.quotas.clone());
    let watching = tokio::spawn({
        let (client, namespace) = (client.clone(), namespace.clone());
        async move {
            let namespace = namespace.as_deref();
            futures::join!(rivals.watch(&client, namespace), quotas.watch(&client, namespace));
        }
    });
    let api: Api<Guarded> = match &namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let events = watcher::watcher(api, watcher::Config::default()).backoff(WatchBackoff::default());
    let events = events.reflect(writer);
    let ticks = drive(ctx, events, health, stop.clone(), |policy, ctx| guarded_tick(policy, ctx).boxed());
    let stopped = async {
        stop.await;
        tokio::time::sleep(SHUTDOWN_WAIT).await;
    };
    tokio::select! {
        () = ticks => {}
        () = stopped => tracing::warn!("ticks under way were not finished in time"),
    }
    watching.abort();
}

/// Starts a policy's tick when it changes and when its timer runs out, until `stop` resolves and what is under way is
/// finished. `events` have been reflected into the store of `ctx`.
pub(crate) async fn drive(
    ctx: Arc<Context>,
    events: impl Stream<Item = watcher::Result<Event<Guarded>>> + Send + 'static,
    health: Arc<Health>,
    stop: Stop,
    start: impl FnMut(Arc<Guarded>, Arc<Context>) -> Ticking,
) {
    let reader = ctx.policies.clone();
    let queue = changes(events, ctx.clone(), health).take_until(stop);
    let config = controller::Config::default().concurrency(CONCURRENT_TICKS).debounce(DEBOUNCE);
    let ticks =
        applier(start, |_, never: &std::convert::Infallible, _| match *never {}, ctx, reader, queue, config);
    ticks
        .for_each(|outcome| {
            if let Err(error) = outcome {
                tracing::debug!(%error, "a tick did not run");
            }
            std::future::ready(())
        })
        .await;
}

/// The policies to look at, as they change: by generation or by annotation, as an edit of an annotation does not
/// change the generation. Deleted ones are forgotten on the way.
fn changes(
    events: impl Stream<Item = watcher::Result<Event<Guarded>>> + Send + 'static,
    ctx: Arc<Context>,
    health: Arc<Health>,
) -> impl Stream<Item = watcher::Result<ObjectRef<Guarded>>> + Send {
    let watched = events.inspect(move |event| match event {
        Ok(Event::Delete(policy)) => forget(&ctx, policy),
        Ok(Event::Apply(policy) | Event::InitApply(policy)) => claim(&ctx, policy),
        Ok(Event::InitDone) => {
            health.set_ready();
            forget_missing(&ctx);
        }
        Ok(Event::Init) => {}
        Err(error) => {
            if let Some(unsaid) = ctx.quiet.may_say("policies") {
                tracing::warn!(%error, unsaid, "the policies cannot be watched; trying again");
            }
        }
    });
    watched
        .applied_objects()
        .predicate_filter(generation.combine(annotations), Default::default())
        .map_ok(|policy| ObjectRef::from_obj(&policy))
}

fn claim(ctx: &Context, policy: &Guarded) {
    match (&policy.0, policy.meta().uid.as_deref()) {
        (Ok(readable), _) => ctx.claims.apply(readable),
        (Err(_), Some(uid)) => ctx.claims.forget(uid),
        (Err(_), None) => {}
    }
}

fn forget(ctx: &Context, policy: &Guarded) {
    let Some(uid) = policy.meta().uid.as_deref() else { return };
    ctx.claims.forget(uid);
    if let Some(key) = ctx.states.forget(uid) {
        ctx.metrics.forget(&key);
    }
}

/// Policies that were deleted while nobody watched.
fn forget_missing(ctx: &Context) {
    let living: HashSet<String> =
        ctx.policies.state().iter().filter_map(|policy| policy.meta().uid.clone()).collect();
    ctx.claims.retain(&living);
    for key in ctx.states.retain(|uid| living.contains(uid)) {
        ctx.metrics.forget(&key);
    }
}

/// A tick inside its boundary: a policy that cannot be read is told so, a panic holds that policy alone.
pub(crate) async fn guarded_tick(
    policy: Arc<Guarded>,
    ctx: Arc<Context>,
) -> Result<Action, std::convert::Infallible> {
    let readable = match &policy.0 {
        Ok(readable) => readable,
        Err(fault) => {
            let why = format!("the policy cannot be read: {}", fault.error);
            let told = tell_about(&policy, &ctx, EventReason::InvalidPolicy.as_str(), why).await;
            return Ok(if told { Action::await_change() } else { Action::requeue(REPORT_AGAIN) });
        }
    };
    if readable.meta().deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    match AssertUnwindSafe(tick(readable, &ctx)).catch_unwind().await {
        Ok(action) => {
            // Deleted between the timer and the tick, which then began anew what had been forgotten.
            if ctx.policies.get(&ObjectRef::from_obj(policy.as_ref())).is_none() {
                forget(&ctx, &policy);
            }
            Ok(action)
        }
        Err(panic) => {
            ctx.metrics.panics.inc();
            report::count_error(&ctx, "tick", "bug");
            let why =
                format!("the tick panicked and the policy is held for a while: {}", told(panic.as_ref()));
            tracing::error!(policy = policy.name_any(), namespace = policy.namespace(), why);
            // Whatever the panic left half done is dropped; the brain comes back from its memory.
            if let Some(uid) = policy.meta().uid.as_deref() {
                ctx.states.forget(uid);
            }
            // Counted and logged in any case.
            let _told = tell_about(&policy, &ctx, "InternalError", why).await;
            Ok(Action::requeue(PAUSE_AFTER_PANIC))
        }
    }
}

/// What a panic said.
fn told(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// One event; false when the API server did not take it now.
async fn tell_about(policy: &Guarded, ctx: &Context, reason: &'static str, note: String) -> bool {
    let meta = policy.meta();
    let (Some(namespace), Some(name), Some(uid)) = (&meta.namespace, &meta.name, &meta.uid) else {
        return true;
    };
    let about = About { namespace: namespace.clone(), name: name.clone(), uid: uid.clone(), target: None };
    let identity = format!("{}-{note}", meta.generation.unwrap_or_default());
    let telling = Telling { severity: Severity::Warning, reason, action: "Hold".to_owned(), note, identity };
    let mut untold = Untold::default();
    untold.add(vec![telling], (ctx.clock)());
    report::tell(ctx, &about, &mut untold).await;
    untold.is_empty()
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "crowd_tests.rs"]
mod crowd_tests;
