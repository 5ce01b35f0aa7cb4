//! Runs the ticks: which policy, when, and how many at once; alone, until told to stop.
//!
//! A policy's tick is started by a change of its spec or annotations and by its own timer, never twice at the same
//! time. A panic inside one holds that policy alone.

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

use crate::context::{Clock, Context, Health, States};
use crate::lease::Elector;
use crate::metrics::Metrics;
use crate::models::Models;
use crate::quotas::Quotas;
use crate::replica::target::Kinds;
use crate::replica::telling::{About, Severity, Telling};
use crate::replica::{DEBOUNCE, report, tick};
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
    let Options { limits, namespace, lease_namespace: _, identity, clock } = options;
    let (reader, writer) = reflector::store::<Guarded>();
    let ctx = Arc::new(Context {
        client: client.clone(),
        signals,
        models,
        metrics,
        rivals: Arc::new(Rivals::default()),
        quotas: Arc::new(Quotas::default()),
        kinds: Kinds::default(),
        clock,
        limits,
        instance: identity,
        policies: reader.clone(),
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
    let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
    let queue = changes(events.reflect(writer), ctx.clone(), health).take_until(stop.clone());
    let config = controller::Config::default().concurrency(CONCURRENT_TICKS).debounce(DEBOUNCE);
    let ticks = applier(
        |policy, ctx| guarded_tick(policy, ctx).boxed(),
        |_, never: &std::convert::Infallible, _| match *never {},
        ctx,
        reader,
        queue,
        config,
    );
    let ticks = ticks.for_each(|outcome| {
        if let Err(error) = outcome {
            tracing::debug!(%error, "a tick did not run");
        }
        std::future::ready(())
    });
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

/// The policies to look at, as they change: by generation or by annotation, as an edit of an annotation does not
/// change the generation. Deleted ones are forgotten on the way.
fn changes(
    events: impl Stream<Item = watcher::Result<Event<Guarded>>> + Send + 'static,
    ctx: Arc<Context>,
    health: Arc<Health>,
) -> impl Stream<Item = watcher::Result<ObjectRef<Guarded>>> + Send {
    let watched = events.inspect(move |event| match event {
        Ok(Event::Delete(policy)) => forget(&ctx, policy),
        Ok(Event::InitDone) => {
            health.set_ready();
            forget_missing(&ctx);
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "the policies cannot be watched; trying again"),
    });
    watched
        .applied_objects()
        .predicate_filter(generation.combine(annotations), Default::default())
        .map_ok(|policy| ObjectRef::from_obj(&policy))
}

fn forget(ctx: &Context, policy: &Guarded) {
    if let Some(key) = policy.meta().uid.as_deref().and_then(|uid| ctx.states.forget(uid)) {
        ctx.metrics.forget(&key);
    }
}

/// Policies that were deleted while nobody watched.
fn forget_missing(ctx: &Context) {
    let living: Vec<String> =
        ctx.policies.state().iter().filter_map(|policy| policy.meta().uid.clone()).collect();
    for key in ctx.states.retain(|uid| living.iter().any(|living| living == uid)) {
        ctx.metrics.forget(&key);
    }
}

/// A tick inside its boundary: a policy that cannot be read is told so, a panic holds that policy alone.
async fn guarded_tick(policy: Arc<Guarded>, ctx: Arc<Context>) -> Result<Action, std::convert::Infallible> {
    let readable = match &policy.0 {
        Ok(readable) => readable,
        Err(fault) => {
            let why = format!("the policy cannot be read: {}", fault.error);
            tell_about(&policy, &ctx, EventReason::InvalidPolicy.as_str(), why).await;
            return Ok(Action::await_change());
        }
    };
    if readable.meta().deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    match AssertUnwindSafe(tick(readable, &ctx)).catch_unwind().await {
        Ok(action) => Ok(action),
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
            tell_about(&policy, &ctx, "InternalError", why).await;
            Ok(Action::requeue(PAUSE_AFTER_PANIC))
        }
    }
}

/// What a panic said.
fn told(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

async fn tell_about(policy: &Guarded, ctx: &Context, reason: &'static str, note: String) {
    let meta = policy.meta();
    let (Some(namespace), Some(name), Some(uid)) = (&meta.namespace, &meta.name, &meta.uid) else { return };
    let about = About { namespace: namespace.clone(), name: name.clone(), uid: uid.clone(), target: None };
    let identity = format!("{}-{note}", meta.generation.unwrap_or_default());
    let telling = Telling { severity: Severity::Warning, reason, action: "Hold".to_owned(), note, identity };
    report::tell(ctx, &about, &[telling], (ctx.clock)()).await;
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
