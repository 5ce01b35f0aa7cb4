//! Step 1: reads the target's scale, its pods, and the signals. Never writes. Missing stays missing.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::ApiResource;
use rlscaler_api::{RLReplicaPolicy, Validated};
use rlscaler_core::{Observation, Pods};
use rlscaler_signals::SignalRequest;
use rlscaler_signals::request::Tick;

use super::apply::FIELD_MANAGER;
use super::pods::{Counted, count, owners_are_outdated};
use super::seen::{Blind, Others, Seen};
use super::state::Known;
use super::target::{Parent, Scale, TargetRef, list_pods, list_replica_sets, read_parent, read_scale};
use super::wish;
use crate::call::{Class, call, class, code, words};
use crate::context::Context;

/// Share of the interval the signals may take; the rest is for deciding and writing.
const SIGNALS_SHARE: f64 = 0.8;
/// Longest and shortest wait for the signals, seconds.
const SIGNALS_WAIT_SECS: (f64, f64) = (0.5, 10.0);
/// ReplicaSets remembered of one target; Deployments keep ten old ones unless told otherwise.
const MAX_REPLICA_SETS: usize = 1_000;

/// The target's resource beside what was seen of it.
pub struct Observed {
    /// Where to write.
    pub resource: ApiResource,
    /// What was seen.
    pub seen: Seen,
    /// What was asked of the sources.
    pub request: SignalRequest,
}

/// Reads everything a decision may use.
///
/// # Errors
/// [`Blind`] when the scale or the pods cannot be read.
pub async fn observe(
    ctx: &Context,
    policy: &RLReplicaPolicy,
    validated: &Validated,
    known: &mut Known,
    now: Timestamp,
) -> Result<Observed, Blind> {
    let namespace = policy.namespace().unwrap_or_default();
    let target = TargetRef::from(&validated.target);
    let resource =
        call(ctx.kinds.find(&ctx.client, &target)).await.map_err(|error| blind(&target, "found", &error))?;
    let scale = call(read_scale(&ctx.client, &namespace, &resource, &target.name))
        .await
        .map_err(|error| blind(&target, "read", &error))?;
    let request = wish::request(&namespace, validated, &scale.selector);
    let pods = pods(ctx, &namespace, &target, &scale, known, now).await?;
    known.startups.learn(pods.startups.clone(), pods.waiting.clone());

    let wait_secs = validated.settings.interval_secs * SIGNALS_SHARE;
    let wait_secs = wait_secs.clamp(SIGNALS_WAIT_SECS.0, SIGNALS_WAIT_SECS.1);
    let tick = Tick { now, deadline: Duration::from_secs_f64(wait_secs), pods: &pods.ready };
    let asked = parent(ctx, &namespace, &target, &resource, &scale, &pods, known);
    let (report, asked) = futures::join!(ctx.signals.read(&request, tick), asked);
    let parent = asked.unwrap_or_default();
    if parent.by_us && known.rewrites.is_foreign(scale.replicas) {
        known.rewrites.wrote(now, scale.replicas);
    }
    let writers = Some(parent.writers).filter(|writers| !writers.is_empty());
    known.rewrites.see(now, scale.replicas, writers, validated.settings.time_factor);

    let others = others(ctx, policy, &namespace, &target, (known, now));
    let headroom = ctx.quotas.headroom(&namespace, pods.newest.as_ref());
    let room = headroom.as_ref().map(|headroom| pods.total().saturating_add(headroom.pods));
    let is_refused = parent.refused.is_some();
    let observation = Observation {
        time_secs: now.as_millisecond() as f64 / 1000.0,
        // Known when it is decided.
        lived_secs: None,
        replicas: scale.replicas,
        pods: with_missing(&pods, scale.replicas, is_refused),
        pod_cpu_request: pods.cpu_request,
        cpu_pods: report.cpu_pods,
        room,
        signals: report.signals,
        startup_secs: known.startups.p90_secs(),
    };
    let quota = headroom.map(|headroom| headroom.why);
    let seen = Seen { observation, scale, pods, report, refused: parent.refused, quota, rivals: others };
    Ok(Observed { resource, seen, request })
}

fn blind(target: &TargetRef, verb: &str, error: &kube::Error) -> Blind {
    let TargetRef { kind, name, .. } = target;
    let class = match error {
        // Discovery answers a kind the cluster does not have with an error of its own.
        kube::Error::Discovery(_) => Class::Invalid,
        error => class(error),
    };
    let hint = if code(error) == Some(404) { ": does it exist, and does its kind have /scale?" } else { "" };
    Blind { class, why: format!("the scale of {kind} {name} cannot be {verb}: {}{hint}", words(error)) }
}

async fn pods(
    ctx: &Context,
    namespace: &str,
    target: &TargetRef,
    scale: &Scale,
    known: &mut Known,
    now: Timestamp,
) -> Result<Counted, Blind> {
    if scale.selector.is_empty() {
        let why =
            format!("the scale of {} {} has no selector: its pods cannot be found", target.kind, target.name);
        return Err(Blind { class: Class::Invalid, why });
    }
    let told = |error: kube::Error| Blind {
        class: class(&error),
        why: format!("the pods of {} {} cannot be listed: {}", target.kind, target.name, words(&error)),
    };
    let pods = call(list_pods(&ctx.client, namespace, &scale.selector)).await.map_err(told)?;
    if owners_are_outdated(&pods, &scale.uid, &known.replica_sets) {
        // At the first tick, once for each rollout, and while not one pod is the target's.
        let listed = call(list_replica_sets(&ctx.client, namespace, &scale.selector)).await.map_err(told)?;
        known.replica_sets = listed.into_iter().take(MAX_REPLICA_SETS).collect();
    }
    let owned = |(uid, owner): (&String, &String)| (*owner == scale.uid).then(|| uid.clone());
    let owned: BTreeSet<String> = known.replica_sets.iter().filter_map(owned).collect();
    Ok(count(&pods, &scale.uid, &owned, now))
}

/// The target itself, asked for only when its replicas changed by another hand or pods are missing.
async fn parent(
    ctx: &Context,
    namespace: &str,
    target: &TargetRef,
    resource: &ApiResource,
    scale: &Scale,
    pods: &Counted,
    known: &Known,
) -> Option<Parent> {
    let missing = pods.total() < scale.replicas;
    if !missing && !known.rewrites.is_foreign(scale.replicas) {
        return None;
    }
    match call(read_parent(&ctx.client, namespace, resource, &target.name, FIELD_MANAGER)).await {
        Ok(parent) => Some(parent),
        Err(error) => {
            tracing::debug!(%error, "the target itself cannot be read");
            None
        }
    }
}

fn others(
    ctx: &Context,
    policy: &RLReplicaPolicy,
    namespace: &str,
    target: &TargetRef,
    (known, now): (&Known, Timestamp),
) -> Others {
    let autoscalers = ctx.rivals.of(namespace, target);
    Others {
        known: autoscalers.is_some(),
        autoscalers: autoscalers.unwrap_or_default(),
        older_policy: ctx.claims.older(policy),
        quarrel: known.rewrites.quarrel(now),
    }
}

/// What was asked for and is not there yet is part of what was asked for: refused, or not made until now.
fn with_missing(pods: &Counted, replicas: u32, is_refused: bool) -> Pods {
    let missing = replicas.saturating_sub(pods.total());
    let Pods { starting, unschedulable, .. } = pods.pods;
    if is_refused {
        Pods { unschedulable: unschedulable + missing, ..pods.pods }
    } else {
        Pods { starting: starting + missing, ..pods.pods }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Cases 27 and 31.
    #[test]
    fn pods_that_were_asked_for_and_are_not_there_start_or_are_refused() {
        let pods = Pods { ready: 3, starting: 1, unhealthy: 1, ..Pods::default() };
        let counted = Counted { pods, ..Counted::default() };
        assert_eq!(with_missing(&counted, 9, false), Pods { starting: 5, ..pods });
        assert_eq!(with_missing(&counted, 9, true), Pods { unschedulable: 4, ..pods });
        assert_eq!(with_missing(&counted, 5, false), pods);
        // A rollout with surge has more than was asked for.
        assert_eq!(with_missing(&counted, 4, true), pods);
    }
}
