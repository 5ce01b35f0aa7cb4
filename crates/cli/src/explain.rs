//! `rlscaler explain NAMESPACE/NAME`: why the count is what it is, from what anybody with kubectl may read: the
//! policy's status, and its events for the changes before those. Needs no access to the operator. Writes nothing.

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
/// Decisions shown; status holds as many.
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
    /// How many decisions are shown, newest first: those not like the one before, as far as status and events go.
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
    let policy = found(policies.get_opt(name).await, &format!("RLReplicaPolicy {namespace}/{name}"))?;
    let events: Api<Event> = Api::namespaced(client, namespace);
    let about = format!("regarding.kind=RLReplicaPolicy,regarding.name={name}");
    // Without the right to list events the present decision can still be explained.
    let listed = events.list(&ListParams::default().fields(&about).limit(MAX_EVENTS)).await;
    let events = listed.map(|list| list.items).unwrap_or_else(|error| {
        eprintln!("rlscaler: events cannot be listed, so decisions older than those in status are not shown: {error}");
        Vec::new()
    });
    Ok((policy, events))
}

/// The policy, or what a person can do about it.
fn found(answer: kube::Result<Option<RLReplicaPolicy>>, what: &str) -> anyhow::Result<RLReplicaPolicy> {
    const NOT_FOUND: u16 = 404;
    match answer {
        Ok(Some(policy)) => Ok(policy),
        Ok(None) => Err(crate::Unusable(format!("{what}: there is none of this name")).into()),
        // An apiserver that knows the kind says so with a reason, and kube makes `None` of it.
        Err(kube::Error::Api(status)) if status.code == NOT_FOUND => Err(crate::Unusable(format!(
            "{what}: this cluster does not know the kind; is the chart, or crds/rlreplicapolicies.yaml, installed?"
        ))
        .into()),
        Err(kube::Error::Api(status)) => Err(anyhow::anyhow!("{what}: {}", status.message)),
        Err(error) => Err(error).with_context(|| format!("{what} cannot be read")),
    }
}

/// Everything there is to tell, as JSON; the table is made from it.
fn explanation(policy: &RLReplicaPolicy, events: &[Event], last: usize) -> Value {
    let status = policy.status.clone().unwrap_or_default();
    let decision = status.decision.as_ref();
    let why =
        |code: fn(&DecisionStatus) -> &Option<String>| decision.and_then(|decision| reason(decision, code));
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
        "whyNotMore": why(|decision| &decision.why_not_more),
        "whyNotFewer": why(|decision| &decision.why_not_fewer),
        "signals": status.signals,
        "override": status.override_,
        "budget": status.budget,
        "savings": status.savings,
        "scaleDownHold": status.scale_down_hold,
        "shadow": status.shadow,
        "model": status.model,
        "conditions": status.conditions,
        "decisions": decisions(policy, &status.decisions, events, last),
    })
}

/// The guardrail or the term that decides, in its own words.
fn reason(decision: &DecisionStatus, code: fn(&DecisionStatus) -> &Option<String>) -> Option<ReasonStatus> {
    let code = code(decision).as_ref()?;
    decision.reasons.iter().find(|reason| reason.code == *code).cloned()
}

/// The last decisions, newest first: those status holds, and before them the changes the API server still has events of.
fn decisions(policy: &RLReplicaPolicy, held: &[DecisionStatus], events: &[Event], last: usize) -> Vec<Value> {
    let uid = policy.metadata.uid.as_ref();
    let oldest = held.last().map(|decision| decision.time.0);
    let earlier = events.iter().filter_map(|event| {
        let time = event.event_time.as_ref()?.0;
        let ours = event.regarding.as_ref().is_some_and(|about| about.uid.as_ref() == uid);
        let kind = matches!(event.reason.as_deref(), Some("SuccessfulRescale" | "ShadowDecision"));
        if !ours || !kind || oldest.is_some_and(|oldest| oldest <= time) {
            return None;
        }
        let (from, to) = numbers(event.action.as_deref().unwrap_or_default())?;
        let advised = event.reason.as_deref() == Some("ShadowDecision");
        let action = match (from < to, advised) {
            (true, false) => "up",
            (false, false) => "down",
            (true, true) => "advise_up",
            (false, true) => "advise_down",
        };
        Some((time, json!({"time": time, "from": from, "to": to, "action": action, "note": event.note})))
    });
    let mut earlier: Vec<_> = earlier.collect();
    earlier.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    let held = held.iter().map(|decision| json!(decision));
    held.chain(earlier.into_iter().map(|(_, decision)| decision)).take(last).collect()
}

/// `ScaleFrom3To9`, `WouldScaleFrom3To9`.
fn numbers(action: &str) -> Option<(u32, u32)> {
    let (from, to) = action.split_once("From")?.1.split_once("To")?;
    Some((from.parse().ok()?, to.parse().ok()?))
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
    for (title, field) in [("Why not more?", "whyNotMore"), ("Why not fewer?", "whyNotFewer")] {
        let why = &told[field];
        list(title, &if why.is_null() { Value::Null } else { json!([why]) }, &reason);
    }
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
    let row = |cells: [String; 8]| {
        let [time, from, to, action, driver, planner, hpa, why] = cells;
        format!("{time:<20}  {from:>5} {to:>5}  {action:<11} {driver:<8} {planner:>7} {hpa:>5}  {why}")
    };
    let heads = ["TIME", "FROM", "TO", "BECAME", "DRIVER", "PLANNER", "HPA", "WHY"].map(str::to_owned);
    let title = format!("Decisions, newest first\n  {}", row(heads));
    list(&title, &told["decisions"], &|decision| {
        let why = decision["reasons"][0]["message"].as_str().or(decision["note"].as_str());
        let cell = |field: &str| text(&decision[field]);
        row([
            cell("time"),
            cell("from"),
            cell("to"),
            cell("action"),
            cell("driver"),
            cell("planner"),
            cell("hpaWouldBe"),
            why.unwrap_or("-").to_owned(),
        ])
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
    let shadow = &told["shadow"];
    if !shadow.is_null() {
        for (when, window) in [
            (format!("since {}", text(&shadow["since"])), shadow),
            ("last 24 h".to_owned(), &shadow["lastDay"]),
        ] {
            lines.push(format!(
                "Shadow, {when}: replica-hours {} really, {} had it been followed, {} an HPA; late {} % measured, {} % \
                 predicted for what really ran, {} % had it been followed",
                text(&window["replicaHours"]),
                text(&window["wouldBeReplicaHours"]),
                text(&window["hpaReplicaHours"]),
                text(&window["latePercent"]),
                text(&window["predictedLatePercent"]),
                text(&window["wouldBeLatePercent"])
            ));
        }
        lines.push(format!("  prediction: {}: {}", text(&shadow["trust"]), text(&shadow["message"])));
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
