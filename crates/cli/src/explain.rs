//! `rlscaler explain NAMESPACE/NAME`: why the count is what it is, from what anybody with kubectl may read: the
//! policy's status, and its events for the scalings before. Needs no access to the operator. Writes nothing.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use rlscaler_api::RLReplicaPolicy;
use rlscaler_api::status::{DecisionStatus, ReasonStatus};
use serde_json::{Value, json};

use crate::run::client;

/// Most events read; a policy has a handful within the hour the API server keeps them.
const MAX_EVENTS: u32 = 500;
/// Earlier decisions shown.
const DEFAULT_LAST: usize = 10;

/// Which policy, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The policy, as NAMESPACE/NAME.
    #[arg(value_name = "NAMESPACE/NAME")]
    policy: String,
    /// How to tell.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
    /// How many of the scalings before are shown.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LAST)]
    last: usize,
    /// Kubeconfig; without it $KUBECONFIG or ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let Some((namespace, name)) = args.policy.split_once('/') else {
        return Err(crate::Unusable(format!("{:?} is not NAMESPACE/NAME", args.policy)).into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (policy, events) = runtime.block_on(read(args, namespace, name))?;
    let told = explanation(&policy, &events, args.last);
    let text = match args.output {
        Output::Json => format!("{}\n", serde_json::to_string_pretty(&told)?),
        Output::Table => table(&told),
    };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

async fn read(args: &Args, namespace: &str, name: &str) -> anyhow::Result<(RLReplicaPolicy, Vec<Event>)> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = client(args.kubeconfig.as_deref()).await?;
    let policies: Api<RLReplicaPolicy> = Api::namespaced(client.clone(), namespace);
    let policy = policies
        .get(name)
        .await
        .with_context(|| format!("RLReplicaPolicy {namespace}/{name} cannot be read"))?;
    let events: Api<Event> = Api::namespaced(client, namespace);
    let about = format!("regarding.kind=RLReplicaPolicy,regarding.name={name}");
    // Without the right to list events the present decision can still be explained.
    let listed = events.list(&ListParams::default().fields(&about).limit(MAX_EVENTS)).await;
    let events = listed.map(|list| list.items).unwrap_or_else(|error| {
        eprintln!("rlscaler: events cannot be listed, so the scalings before are not shown: {error}");
        Vec::new()
    });
    Ok((policy, events))
}

/// Everything there is to tell, as JSON; the table is made from it.
fn explanation(policy: &RLReplicaPolicy, events: &[Event], last: usize) -> Value {
    let status = policy.status.clone().unwrap_or_default();
    let uid = policy.metadata.uid.as_ref();
    let ours =
        events.iter().filter(|event| event.regarding.as_ref().is_some_and(|about| about.uid.as_ref() == uid));
    let mut before: Vec<Value> = ours
        .filter(|event| matches!(event.reason.as_deref(), Some("SuccessfulRescale" | "ShadowDecision")))
        .map(|event| {
            json!({
                "time": event.event_time.as_ref().map(|time| time.0.to_string()),
                "reason": event.reason,
                "action": event.action,
                "note": event.note,
            })
        })
        .collect();
    before.sort_by(|one, other| other["time"].as_str().cmp(&one["time"].as_str()));
    before.truncate(last);
    let decision = status.decision.as_ref();
    json!({
        "policy": {
            "namespace": policy.metadata.namespace, "name": policy.metadata.name,
            "mode": policy.spec.mode, "minReplicas": policy.spec.min_replicas, "maxReplicas": policy.spec.max_replicas,
            "target": policy.spec.scale_target_ref,
        },
        "replicas": {
            "current": status.current_replicas, "desired": status.desired_replicas, "ready": status.ready_replicas,
        },
        "decision": decision,
        "whyNotMore": decision.map(|decision| why(decision, HELD_DOWN)),
        "whyNotFewer": decision.map(|decision| why(decision, HELD_UP)),
        "signals": status.signals,
        "override": status.override_,
        "budget": status.budget,
        "savings": status.savings,
        "scaleDownHold": status.scale_down_hold,
        "model": status.model,
        "conditions": status.conditions,
        "before": before,
    })
}

/// Codes of what keeps the number from being larger.
const HELD_DOWN: &[&str] = &[
    "ScaleUpStabilized",
    "ScaleUpLimit",
    "TooManyReplicas",
    "CapacityUnavailable",
    "ScalingWontHelp",
    "LatencyComfortable",
    "ScaleUpPaused",
];
/// Codes of what keeps the number from being smaller.
const HELD_UP: &[&str] = &[
    "ScaleDownStabilized",
    "ScaleDownLimit",
    "ScaleDownUndone",
    "ScaleDownHeldOff",
    "TooFewReplicas",
    "Deadband",
    "SignalLost",
    "SuddenZero",
    "FallbackActive",
    "StillStarting",
    "NoPodReady",
    "ResumedFromZero",
    "Activated",
    "ScaleDownPaused",
    "ClockStepped",
];
/// Codes of what decides the number in both directions.
const FIXED: &[&str] =
    &["NoLoadSignal", "RolloutUnhealthy", "ScalingDisabled", "Pinned", "PinClamped", "Paused"];
/// Codes of what was merely seen.
const SEEN: &[&str] = &["Load", "Latency", "DesiredWithinRange"];

/// The guardrails that kept the number from going further, else the terms that made it.
fn why(decision: &DecisionStatus, held: &[&str]) -> Vec<ReasonStatus> {
    let of = |codes: &[&[&str]]| -> Vec<ReasonStatus> {
        let known = |reason: &&ReasonStatus| codes.iter().any(|codes| codes.contains(&reason.code.as_str()));
        decision.reasons.iter().filter(known).cloned().collect()
    };
    let guardrails = of(&[held, FIXED]);
    if !guardrails.is_empty() {
        return guardrails;
    }
    let spoken = [HELD_DOWN, HELD_UP, FIXED, SEEN];
    let is_term = |reason: &&ReasonStatus| !spoken.iter().any(|codes| codes.contains(&reason.code.as_str()));
    decision.reasons.iter().filter(is_term).cloned().collect()
}

fn table(told: &Value) -> String {
    let text = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut lines = Vec::new();
    let (policy, replicas) = (&told["policy"], &told["replicas"]);
    lines.push(format!(
        "{}/{}  {} {}  mode {}  {}..{}",
        text(&policy["namespace"]),
        text(&policy["name"]),
        text(&policy["target"]["kind"]),
        text(&policy["target"]["name"]),
        text(&policy["mode"]),
        text(&policy["minReplicas"]),
        text(&policy["maxReplicas"])
    ));
    lines.push(format!(
        "replicas  current {}  ready {}  desired {}",
        text(&replicas["current"]),
        text(&replicas["ready"]),
        text(&replicas["desired"])
    ));
    let decision = &told["decision"];
    if decision.is_null() {
        lines.push("no decision yet; see the conditions".to_owned());
    } else {
        lines.push(format!(
            "decided   {} -> {} at {}  driver {}  planner {}  proposed {}  an HPA would be at {}",
            text(&decision["from"]),
            text(&decision["to"]),
            text(&decision["time"]),
            text(&decision["driver"]),
            text(&decision["planner"]),
            text(&decision["proposed"]),
            text(&decision["hpaWouldBe"])
        ));
        lines.push(format!("model     {}", text(&told["model"])));
    }
    let hold = &told["scaleDownHold"];
    if !hold.is_null() {
        lines.push(format!(
            "held off  not below {} until {}: a scale-down was undone at {}",
            text(&hold["replicas"]),
            text(&hold["until"]),
            text(&hold["since"])
        ));
    }
    let mut list = |title: &str, values: &Value, line: &dyn Fn(&Value) -> String| {
        let Some(values) = values.as_array().filter(|values| !values.is_empty()) else { return };
        lines.push(String::new());
        lines.push(title.to_owned());
        lines.extend(values.iter().map(|value| format!("  {}", line(value))));
    };
    let reason = |reason: &Value| format!("{:<20} {}", text(&reason["code"]), text(&reason["message"]));
    list("Reasons", &decision["reasons"], &reason);
    list("Why not more?", &told["whyNotMore"], &reason);
    list("Why not fewer?", &told["whyNotFewer"], &reason);
    list("Signals", &told["signals"], &|signal| {
        let mut line = format!(
            "{:<8} {:<14} {} {}",
            text(&signal["name"]),
            text(&signal["state"]),
            text(&signal["value"]),
            text(&signal["unit"])
        );
        for (label, field) in [("sampled", "sampleTime"), ("because", "message"), ("query", "query")] {
            if !signal[field].is_null() {
                line += &format!("\n           {label}: {}", text(&signal[field]));
            }
        }
        line
    });
    list("Conditions", &told["conditions"], &|condition| {
        format!(
            "{:<16} {:<7} {:<22} {}",
            text(&condition["type"]),
            text(&condition["status"]),
            text(&condition["reason"]),
            text(&condition["message"])
        )
    });
    list("Scalings before (as far as the API server keeps events)", &told["before"], &|event| {
        format!("{}  {}", text(&event["time"]), text(&event["note"]))
    });
    let budget = &told["budget"];
    if !budget.is_null() {
        lines.push(String::new());
        lines.push(format!(
            "Error budget  {} % left of {} %  burn rate 1 h {}  6 h {}  price of lateness {}",
            text(&budget["remainingPercent"]),
            text(&budget["slaPercent"]),
            text(&budget["burnRate1h"]),
            text(&budget["burnRate6h"]),
            text(&budget["latenessPrice"])
        ));
    }
    let savings = &told["savings"];
    if !savings.is_null() {
        lines.push(format!(
            "Replica-hours {} since {}  an HPA: {}  cost {} {}",
            text(&savings["replicaHours"]),
            text(&savings["since"]),
            text(&savings["hpaReplicaHours"]),
            text(&savings["cost"]),
            text(&savings["currency"])
        ));
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
