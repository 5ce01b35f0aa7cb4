//! Step 4: writes the scale. Everything the API server may answer is an outcome.
//!
//! The write is a JSON patch on `/scale`: `test` that the count is still the one decided upon, then set it. A
//! resourceVersion would fail on every change of the workload's status; this fails only when the count changed, which
//! then is news for another decision and never overwritten unseen.

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::target::{Scale, read_scale};
use crate::call::{Class, call, class, code, words};

/// Field manager of every write of ours.
pub const FIELD_MANAGER: &str = "rlscaler";
/// Attempts against a busy API server (409) within one tick.
const MAX_ATTEMPTS: usize = 3;

/// What became of a scaling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// Written.
    Scaled,
    /// The count is no longer the one decided upon: nothing was written, decide again on this.
    Moved {
        /// `spec.replicas` now.
        now: u32,
    },
    /// The target is gone.
    Gone,
    /// Not written.
    Failed {
        /// Whose move it is.
        class: Class,
        /// What the API server said.
        why: String,
    },
}

/// Where to write.
#[derive(Clone, Copy)]
pub struct At<'a> {
    /// Client.
    pub client: &'a Client,
    /// Namespace of policy and target.
    pub namespace: &'a str,
    /// The target's resource.
    pub resource: &'a ApiResource,
    /// The target's name.
    pub name: &'a str,
}

/// Sets the count, if it is still `from`.
pub async fn scale(at: At<'_>, from: u32, to: u32) -> Applied {
    let At { client, namespace, resource, name } = at;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let patch =
        Patch::<()>::Json(serde_json::from_value(operations(from, to)).expect("a patch of two operations"));
    for attempt in 1..=MAX_ATTEMPTS {
        let error = match call(api.patch_scale(name, &params, &patch)).await {
            Ok(_) => return Applied::Scaled,
            Err(error) => error,
        };
        if code(&error) == Some(404) {
            return Applied::Gone;
        }
        let failed = Applied::Failed { class: class(&error), why: words(&error) };
        // A failed `test` is a 422 as a refused value is, and a lost answer tells nothing: look.
        match call(read_scale(client, namespace, resource, name)).await {
            Ok(Scale { replicas, .. }) if replicas == to && class(&error) == Class::Transient => {
                return Applied::Scaled;
            }
            Ok(Scale { replicas, .. }) if replicas != from => return Applied::Moved { now: replicas },
            Ok(_) if code(&error) == Some(409) && attempt < MAX_ATTEMPTS => {}
            Err(error) if code(&error) == Some(404) => return Applied::Gone,
            Ok(_) | Err(_) => return failed,
        }
    }
    unreachable!("the last attempt returns")
}

/// `spec.replicas` of 0 is left out of a Scale as the API server writes it: there is then nothing to replace.
fn operations(from: u32, to: u32) -> Value {
    let (seen, set) = if from == 0 { (Value::Null, "add") } else { (Value::from(from), "replace") };
    json!([
        {"op": "test", "path": "/spec/replicas", "value": seen},
        {"op": set, "path": "/spec/replicas", "value": to},
    ])
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
