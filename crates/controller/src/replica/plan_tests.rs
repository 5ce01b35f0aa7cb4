//! What is planned and told, case by case.

use std::collections::BTreeMap;
use std::sync::Arc;

use rlscaler_api::overrides::{Resolved, resolve};
use rlscaler_api::status::ScaleDownHoldStatus;
use rlscaler_core::observation::{Observation, Pods, Reading, Signal, Signals};
use rlscaler_core::settings::{Bounds, Capacity, Objective, Override, Settings, Weights};
use rlscaler_core::{Action as Answer, Brain, Features, PlannerOnly, Policy, PolicyFault};

use super::*;
use crate::models::{Chosen, LoadedModel};
use crate::replica::rewrites::Quarrel;
use crate::replica::seen::{Others, Seen};
use crate::replica::status::{Write, must_write};
use crate::replica::target::{Scale, TargetRef};
use crate::rivals::{Rival, RivalKind};

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn settings(mode: Mode) -> Settings {
    let objective =
        Objective { target_secs: 0.25, sla: 0.99, latency_percentile: 0.95, weights: Weights::default() };
    Settings {
        mode,
        capacity: Some(Capacity { concurrency: 4, service_secs: 0.05 }),
        ..Settings::new(Bounds::new(2, 40).unwrap(), objective)
    }
}

fn seen(others: Others) -> Seen {
    let qps = Signal::Fresh(Reading { value: 640.0, age_secs: Some(5.0) });
    let observation = Observation {
        time_secs: now().as_second() as f64,
        replicas: 3,
        pods: Pods { ready: 3, ..Pods::default() },
        signals: Signals { qps, ..Signals::default() },
        ..Observation::default()
    };
    let scale = Scale { replicas: 3, ..Scale::default() };
    Seen { observation, scale, rivals: others, ..Seen::default() }
}

fn quarrel() -> Quarrel {
    Quarrel { names: vec!["argocd".into()], until: now() }
}

fn known() -> Others {
    Others { known: true, ..Others::default() }
}

/// Plans one decision of a fresh brain: 3 replicas where about 10 are needed.
fn check(change: impl FnOnce(&mut Case)) -> (Plan, Vec<String>, RLReplicaPolicyStatus) {
    let mut case = Case::default();
    change(&mut case);
    let Case { mode, others, will, insists, model, before } = case;
    let settings = settings(mode);
    let seen = seen(others);
    let policy: &dyn Policy = model.as_ref().map_or(&PlannerOnly, |model| model.policy.as_ref());
    let decision = Brain::new(settings.clone()).decide(policy, will.will, &seen.observation);
    let target = TargetRef { api_version: "apps/v1".into(), kind: "Deployment".into(), name: "web".into() };
    let conflict = Conflict::of(&seen.rivals, &target);
    let chosen = match &model {
        Ok(model) => Chosen::Loaded(model),
        Err(why) => Chosen::Unusable(why),
    };
    let facts = Facts {
        settings: &settings,
        queries: &rlscaler_api::validate::Queries::default(),
        will: &will,
        seen: &seen,
        decision: &decision,
        conflict: &conflict,
        insists,
        model: &chosen,
        history_secs: 0.0,
        notes: &[],
    };
    let frame = Frame { now: now(), generation: Some(1), before: &before, by: None, model: String::new() };
    let planned = plan(&frame, &facts);
    let conditions = planned.status.conditions.iter();
    let shown =
        conditions.map(|found| format!("{} {}/{}", found.type_, found.status, found.reason)).collect();
    (planned.plan, shown, planned.status)
}

struct Case {
    mode: Mode,
    others: Others,
    will: Resolved,
    insists: bool,
    model: Result<LoadedModel, String>,
    before: RLReplicaPolicyStatus,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            others: known(),
            will: Resolved::default(),
            insists: false,
            model: Ok(LoadedModel { policy: Arc::new(PlannerOnly), trained: false }),
            before: RLReplicaPolicyStatus::default(),
        }
    }
}

fn has(conditions: &[String], wanted: &str) {
    assert!(conditions.iter().any(|condition| condition == wanted), "no {wanted} in {conditions:#?}");
}

#[test]
fn auto_writes_and_shadow_advises() {
    let (plan, conditions, _) = check(|_| {});
    assert!(matches!(plan, Plan::Scale { from: 3, to } if 3 < to), "{plan:?}");
    assert_eq!(plan.action(), "up");
    let order: Vec<_> = conditions.iter().map(|condition| condition.split(' ').next().unwrap()).collect();
    let all: Vec<_> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(order, all, "every condition, always in the same order");
    has(&conditions, "ReplicasConflict False/NoConflict");
    has(&conditions, "ModelReady True/ModelUntrained");
    has(&conditions, "Fallback False/FallbackNotDeclared");

    let (plan, conditions, _) = check(|case| case.mode = Mode::Shadow);
    assert_eq!(plan.action(), "advise_up");
    has(&conditions, "AbleToScale True/ShadowMode");
}

// Case 56.
#[test]
fn auto_yields_to_any_other_scaler_and_names_it() {
    let hpa = || Rival { kind: RivalKind::Hpa, name: "stock".into() };
    let (plan, conditions, status) = check(|case| case.others.autoscalers.push(hpa()));
    assert_eq!(plan.action(), "advise_up");
    has(&conditions, "ReplicasConflict True/HorizontalPodAutoscaler");
    assert!(status.conditions.iter().any(|condition| condition.message.contains("stock")));

    let keda = Rival { kind: RivalKind::ScaledObject, name: "keda".into() };
    let (plan, conditions, _) = check(|case| case.others.autoscalers.push(keda));
    assert_eq!(plan.action(), "advise_up");
    has(&conditions, "ReplicasConflict True/ScaledObject");

    let (plan, conditions, _) = check(|case| case.others.older_policy = Some("old".into()));
    assert_eq!(plan.action(), "advise_up");
    has(&conditions, "ReplicasConflict True/OlderPolicy");

    let (plan, conditions, _) = check(|case| case.others.quarrel = Some(quarrel()));
    assert_eq!(plan.action(), "advise_up");
    has(&conditions, "ReplicasConflict True/OtherWriter");

    let (plan, conditions, _) = check(|case| {
        case.others.autoscalers.push(hpa());
        case.insists = true;
    });
    assert_eq!(plan.action(), "up");
    has(&conditions, "ReplicasConflict True/ConflictIgnored");
}

#[test]
fn nothing_is_written_before_the_other_autoscalers_are_known() {
    let (plan, conditions, _) = check(|case| case.others.known = false);
    assert_eq!(plan.action(), "advise_up");
    has(&conditions, "ReplicasConflict Unknown/NotYetKnown");
}

#[test]
fn a_model_that_cannot_be_used_is_told_and_the_planner_drives() {
    let (plan, conditions, status) = check(|case| case.model = Err("made for other features".into()));
    assert_eq!(plan.action(), "up");
    has(&conditions, "ModelReady False/SchemaMismatch");
    let told = tellings(&RLReplicaPolicyStatus::default(), &status, Mode::Auto);
    assert!(
        told.iter()
            .any(|telling| telling.reason == "ModelRejected" && telling.note.contains("other features"))
    );
}

/// Answers what it was made with.
struct Fixed(Result<f64, PolicyFault>);

impl Policy for Fixed {
    fn act(&self, _: &Features) -> Result<Answer, PolicyFault> {
        self.0.map(|multiplier| Answer { multiplier, value: 0.0 })
    }

    fn describe(&self) -> String {
        "fixed@1".to_owned()
    }
}

#[test]
fn model_ready_says_who_drives_and_why() {
    for (answer, condition, words) in [
        (Err(PolicyFault::OutOfDistribution), "ModelReady False/OutOfDistribution", "far outside"),
        (Err(PolicyFault::SchemaMismatch), "ModelReady False/SchemaMismatch", "another set of features"),
        (Err(PolicyFault::Failed), "ModelReady False/ModelRejected", "the model failed"),
        (Ok(f64::NAN), "ModelReady False/ModelRejected", "not a usable number"),
        (Ok(1.0), "ModelReady False/InsufficientHistory", "acting without it"),
    ] {
        let (_, conditions, status) = check(|case| {
            case.model = Ok(LoadedModel { policy: Arc::new(Fixed(answer)), trained: true });
        });
        has(&conditions, condition);
        let found = status.conditions.iter().find(|found| found.type_ == "ModelReady").unwrap();
        assert!(found.message.contains(words), "{}", found.message);
        assert_eq!(found.message.contains("the planner drives"), answer != Ok(1.0), "{}", found.message);
    }
}

#[test]
fn an_expired_override_stays_visible_and_is_told_once() {
    let annotations = BTreeMap::from([
        ("rlscaler.io/replicas".to_owned(), "9".to_owned()),
        ("rlscaler.io/override-until".to_owned(), "2020-01-01T00:00:00Z".to_owned()),
    ]);
    let will = resolve(&annotations, None, now());
    assert_eq!(will.will, Override::None);
    let (_, conditions, status) = check(|case| case.will = will.clone());
    has(&conditions, "Paused False/OverrideExpired");
    let told = |before: &RLReplicaPolicyStatus| {
        let told = tellings(before, &status, Mode::Auto);
        told.iter().filter(|telling| telling.reason == "OverrideExpired").count()
    };
    assert_eq!((told(&RLReplicaPolicyStatus::default()), told(&status)), (1, 0));
}

#[test]
fn a_transition_keeps_its_time_until_the_status_changes() {
    let (_, _, first) = check(|_| {});
    let earlier = Timestamp::from_second(1_700_000_000).unwrap();
    let mut before = first.clone();
    before.conditions.iter_mut().for_each(|condition| condition.last_transition_time = Time(earlier));
    let (_, _, second) = check(|case| case.before = before.clone());
    assert!(second.conditions.iter().all(|condition| condition.last_transition_time.0 == earlier));
    assert_eq!(tellings(&before, &second, Mode::Auto), [], "nothing changed, so nothing is told");
}

#[test]
fn a_scaling_that_failed_is_a_condition_and_the_plan_is_to_hold() {
    let (plan, _, status) = check(|_| {});
    let check = |applied: Applied, expected: &str, plan_left: &str| {
        let planned = settled(Planned { plan, status: status.clone() }, &applied, Some(1), now());
        let able =
            planned.status.conditions.iter().find(|condition| condition.type_ == "AbleToScale").unwrap();
        assert_eq!(format!("{}/{}", able.status, able.reason), expected);
        assert_eq!(planned.plan.action(), plan_left);
        assert_eq!(planned.status.last_scale_time.is_some(), applied == Applied::Scaled, "case 38");
    };
    check(Applied::Scaled, "True/SucceededRescale", "up");
    check(Applied::Moved { now: 7 }, "True/ReadyForNewScale", "hold");
    check(Applied::Gone, "False/FailedGetScale", "hold");
    let failed = Applied::Failed { class: Class::Invalid, why: "forbidden".into() };
    check(failed, "False/FailedUpdateScale", "hold");
}

#[test]
fn a_status_is_written_when_something_of_weight_changed_or_once_a_minute() {
    let (_, _, status) = check(|_| {});
    let expect = |since_secs: f64, change: fn(&mut RLReplicaPolicyStatus), expected: Write| {
        let mut new = status.clone();
        change(&mut new);
        assert_eq!(must_write(&status, &new, since_secs), expected);
    };
    let number: fn(&mut RLReplicaPolicyStatus) = |status| status.ready_replicas = Some(1);
    expect(0.0, |_| {}, Write::Later);
    expect(3600.0, |_| {}, Write::Later);
    expect(59.9, number, Write::Later);
    expect(60.0, number, Write::Refresh);
    expect(0.0, |status| status.conditions[0].status = "False".into(), Write::Now);
    expect(0.0, |status| status.conditions[0].message = "moved".into(), Write::Later);
    expect(0.0, |status| status.decision.as_mut().unwrap().to += 1, Write::Now);
    expect(0.0, |status| status.decision.as_mut().unwrap().proposed += 1, Write::Later);
    expect(0.0, |status| status.model = Some("other".into()), Write::Now);
}

#[test]
fn an_undone_scale_down_is_told_once_and_says_until_when() {
    let since = Time(now());
    let hold = |replicas| ScaleDownHoldStatus {
        since: since.clone(),
        replicas,
        until: Time(now() + jiff::SignedDuration::from_mins(10)),
    };
    let status = |hold| RLReplicaPolicyStatus { scale_down_hold: hold, ..RLReplicaPolicyStatus::default() };
    let told = tellings(&status(None), &status(Some(hold(12))), Mode::Auto);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0].severity, told[0].reason), (Severity::Warning, "ScaleDownUndone"));
    assert!(told[0].note.contains("not below 12 until 2027-01-15T08:10:00Z"), "{}", told[0].note);
    // Still held off, and at another count because the bounds changed: nothing new.
    assert!(tellings(&status(Some(hold(12))), &status(Some(hold(10))), Mode::Auto).is_empty());
    assert!(tellings(&status(Some(hold(12))), &status(None), Mode::Auto).is_empty());
    assert_eq!(must_write(&status(None), &status(Some(hold(12))), 0.0), Write::Now);
}
