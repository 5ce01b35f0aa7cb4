//! Step 5: writes the telling: status, events, metrics, and one log line for each change.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, Patch, PatchParams, PostParams};
use rlscaler_api::{RLReplicaPolicy, RLReplicaPolicyStatus};
use serde_json::json;

use super::apply::FIELD_MANAGER;
use super::state::Known;
use super::status::{Write, must_write};
use super::telling::{About, event};
use super::untold::{Untold, Waiting};
use crate::call::{Class, call, class, code};
use crate::context::Context;
use crate::metrics::ErrorLabels;

/// How urgently a status is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// When something of weight changed, or the last write is a while ago.
    WhenDue,
    /// In any case: something is about to rest on it.
    Now,
}

/// Writes the status if it is due; true when it stands, or need not be written.
///
/// The whole status is set by one JSON patch: nobody else writes it, and no version is needed. The `test` on the UID
/// keeps a policy of the same name that was created anew from inheriting it.
pub async fn status(
    ctx: &Context,
    about: &About,
    known: &mut Known,
    before: &RLReplicaPolicyStatus,
    status: &RLReplicaPolicyStatus,
    (now, interval): (Timestamp, SignedDuration),
    urgency: Urgency,
) -> bool {
    // A clock that was set back tells nothing about the time that passed.
    let written = known.written.as_ref().filter(|(_, at)| *at <= now);
    let since_secs = written.map_or(f64::MAX, |(_, at)| now.duration_since(*at).as_secs_f64());
    if urgency == Urgency::WhenDue {
        if must_write(before, status, since_secs) == Write::Later {
            return true;
        }
        if !known.writing.is_due(now) {
            return false;
        }
    }
    let api: Api<RLReplicaPolicy> = Api::namespaced(ctx.client.clone(), &about.namespace);
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": about.uid},
        {"op": "add", "path": "/status", "value": status},
    ]);
    let patch = Patch::<()>::Json(serde_json::from_value(patch).expect("a patch of two operations"));
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match call(api.patch_status(&about.name, &params, &patch)).await {
        Ok(_) => {
            ctx.metrics.status_writes.inc();
            known.writing.succeeded();
            known.written = Some((status.clone(), now));
            true
        }
        // Deleted, or deleted and created anew: there is nobody to tell.
        Err(error) if code(&error) == Some(404) => false,
        Err(error) => {
            let class = class(&error);
            count_error(ctx, "report", class.as_str());
            known.writing.failed(class, now, interval);
            if let Some(unsaid) = ctx.quiet.may_say("status") {
                let About { name: policy, namespace, .. } = about;
                tracing::warn!(policy, namespace, %error, unsaid, "the status cannot be written");
            }
            false
        }
    }
}

/// Creates the events that wait, oldest first, until the API server does not answer; what is left is told at a later
/// tick. One that exists was told before a restart; one that is refused would be refused again.
pub async fn tell(ctx: &Context, about: &About, untold: &mut Untold) {
    let api: Api<Event> = Api::namespaced(ctx.client.clone(), &about.namespace);
    while let Some(Waiting { telling, at, .. }) = untold.first() {
        let reason = telling.reason;
        let event = event(about, telling, &ctx.instance, *at);
        // As in the event: cut, and nothing hidden in it.
        let note = event.note.as_deref();
        let Err(error) = call(api.create(&PostParams::default(), &event)).await else {
            tracing::info!(namespace = about.namespace, policy = about.name, reason, note, "told");
            untold.done();
            continue;
        };
        if code(&error) == Some(409) {
            untold.done();
            continue;
        }
        let class = class(&error);
        count_error(ctx, "report", class.as_str());
        if let Some(unsaid) = ctx.quiet.may_say("event") {
            let About { name: policy, namespace, .. } = about;
            tracing::warn!(policy, namespace, reason, note, %error, unsaid, "an event cannot be written");
        }
        match class {
            Class::Invalid => untold.done(),
            Class::Transient | Class::Bug => return untold.later(),
        }
    }
}

/// Counts a failed step.
pub fn count_error(ctx: &Context, step: &'static str, class: &'static str) {
    ctx.metrics.errors.get_or_create(&ErrorLabels { step, class }).inc();
}
