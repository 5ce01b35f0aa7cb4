//! One policy's tick, in five verbs: observe, decide, plan, apply, report.
//!
//! In: the policy as watched. Out: when to come again. Only `apply` and `report` write.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use rlscaler_api::conditions::EventReason;
use rlscaler_api::overrides::{Resolved, ignores_conflicts, resolve};
use rlscaler_api::{RLReplicaPolicy, RLReplicaPolicyStatus, Validated};
use rlscaler_core::settings::Mode;
use rlscaler_core::{Brain, Decision};

pub mod apply;
pub mod conditions;
pub mod conflicts;
pub mod decide;
pub mod news;
pub mod observe;
pub mod plan;
pub mod pod;
pub mod pods;
pub mod recent;
pub mod report;
pub mod rewrites;
pub mod sample;
pub mod savings;
pub mod seen;
pub mod shadow;
pub mod startup;
pub mod state;
pub mod status;
pub mod target;
pub mod telling;
pub mod untold;
pub mod wish;

use crate::call::Class;
use crate::context::Context;
use crate::metrics::{DecisionLabels, PolicyKey, PolicySample};
use crate::run::Guarded;
use apply::{Applied, At};
use conditions::Facts;
use conflicts::Conflict;
use observe::Observed;
use plan::{Frame, Plan, Planned};
use report::Urgency;
use seen::{Blind, Seen};
use state::Known;
use telling::{About, Telling};

/// Decisions within one tick: a second one when a person changed the count while the first was being written.
const MAX_DECISIONS: usize = 3;
/// Edits of one policy within this time are one tick. Every tick waits for it, the timer's, too.
pub const DEBOUNCE: Duration = Duration::from_millis(100);

/// Before a policy that is refused, and could not be told so, is told again.
pub const REPORT_AGAIN: Duration = Duration::from_secs(15);

/// One tick.
pub async fn tick(policy: &RLReplicaPolicy, ctx: &Context) -> Action {
    let Some(about) = about(policy) else { return Action::await_change() };
    let key = PolicyKey { namespace: about.namespace.clone(), name: about.name.clone() };
    let known = ctx.states.of(&about.uid, &key);
    let mut known = known.lock().await;
    let (now, steady) = ((ctx.clock)(), (ctx.steady)());
    known.resume(policy);
    let tick = Tick { ctx, policy, about, key, now, steady };
    let action = match known.settings(policy, ctx.limits) {
        Ok(validated) => tick.run(&validated, &mut known).await,
        Err(faults) => {
            let before = known.before(policy);
            let planned = plan::refused(&tick.frame(&before, None, String::new()), &faults);
            let done = tick.report(&mut known, &before, &planned.status, Vec::new(), Mode::Auto).await;
            known.due = None;
            if done { Action::await_change() } else { Action::requeue(REPORT_AGAIN) }
        }
    };
    ctx.metrics.tick.observe((ctx.clock)().duration_since(now).as_secs_f64().max(0.0));
    action
}

fn about(policy: &RLReplicaPolicy) -> Option<About> {
    let reference = &policy.spec.scale_target_ref;
    Some(About {
        namespace: policy.namespace()?,
        name: policy.name_any(),
        uid: policy.uid()?,
        target: Some(target::TargetRef {
            api_version: reference.api_version.clone(),
            kind: reference.kind.clone(),
            name: reference.name.clone(),
        }),
    })
}

/// What all steps of one tick share.
struct Tick<'a> {
    ctx: &'a Context,
    policy: &'a RLReplicaPolicy,
    about: About,
    key: PolicyKey,
    now: Timestamp,
    /// The same moment by the clock that nobody sets.
    steady: Duration,
}

impl Tick<'_> {
    async fn run(&self, validated: &Validated, known: &mut Known) -> Action {
        let Self { ctx, policy, now, .. } = *self;
        if let Some(late_secs) = known.begin(now, validated.settings.interval_secs) {
            ctx.metrics.lateness.observe(late_secs);
        }
        let will = resolve(policy.annotations(), policy.spec.override_.as_ref(), now);
        let interval = state::interval(validated.settings.interval_secs);
        let mut longest = interval;
        match observe::observe(ctx, policy, validated, known, now).await {
            Ok(observed) => {
                known.sight.succeeded();
                self.scale(validated, observed, known).await;
            }
            Err(blind) => {
                self.hold(validated, &will, &blind, known).await;
                let again = known.sight.failed(blind.class, now, interval);
                // Looking ever later is no lateness.
                known.due = known.due.map(|due| due.max(again));
                longest = longest.max(again.duration_since(now));
            }
        }
        self.again(known, longest)
    }

    /// The target cannot be seen: nothing is decided, and status says why.
    async fn hold(&self, validated: &Validated, will: &Resolved, blind: &Blind, known: &mut Known) {
        report::count_error(self.ctx, "observe", blind.class.as_str());
        let before = known.before(self.policy);
        let by = news::written_by(self.policy, will);
        let model = self.ctx.models.choose(validated.model.as_deref()).describe();
        let mode = validated.settings.mode;
        let planned = plan::blind(&self.frame(&before, by.as_deref(), model), mode, will, blind);
        self.report(known, &before, &planned.status, Vec::new(), mode).await;
    }

    /// Decide, plan, apply, report; again when the count moved under the decision's feet.
    async fn scale(&self, validated: &Validated, observed: Observed, known: &mut Known) {
        let Self { ctx, policy, .. } = *self;
        let Observed { resource, mut seen, request } = observed;
        decide::recall(&ctx.signals, policy, validated, (&request, &seen.observation), known, self.now).await; // reads
        let model = ctx.models.choose(validated.model.as_deref());
        let before = known.before(policy);
        let mut steady = self.steady;
        for attempt in 1..=MAX_DECISIONS {
            let Some(live) = self.live() else { return };
            let will = &resolve(live.annotations(), live.spec.override_.as_ref(), (ctx.clock)());
            let by = news::written_by(&live, will);
            let insists = ignores_conflicts(live.annotations());
            seen.observation.lived_secs = known.lived_secs(steady);
            let decision = decide::decide(policy, validated, &model, will, &seen, known); // pure
            let conflict = Conflict::of(&seen.rivals, &(&validated.target).into());
            let history_secs = decide::history_secs(known, seen.observation.time_secs);
            let facts = Facts {
                settings: &validated.settings,
                queries: &validated.queries,
                will,
                seen: &seen,
                decision: &decision,
                conflict: &conflict,
                insists,
                model: &model,
                history_secs,
                notes: &validated.warnings,
            };
            let planned = plan::plan(&self.frame(&before, by.as_deref(), model.describe()), &facts); // pure
            let at = At {
                client: &ctx.client,
                namespace: &self.about.namespace,
                resource: &resource,
                name: &validated.target.name,
            };
            let applied = self.apply(at, &planned, &before, (validated, known)).await; // writes
            if let (Some(Applied::Moved { now: count }), true) = (&applied, attempt < MAX_DECISIONS) {
                seen.scale.replicas = *count;
                seen.observation.replicas = *count;
                seen.observation.time_secs = (ctx.clock)().as_millisecond() as f64 / 1000.0;
                steady = (ctx.steady)();
                known.rewrites.see(self.now, *count, None, validated.settings.time_factor);
                continue;
            }
            let planned = self.settle(planned, &decision, applied.as_ref(), validated, &seen, known);
            let news = self.news(&decision, planned.plan, will, &seen, known);
            let sample = sample::sample(&decision, &validated.settings, &seen, &model, known);
            self.publish(&decision, planned.plan, sample);
            self.report(known, &before, &planned.status, news, validated.settings.mode).await; // writes
            return;
        }
    }

    /// The policy as it is now: a person may have edited it while signals were read. `None` when it is gone or its spec
    /// changed: the tick which that change has started decides.
    fn live(&self) -> Option<RLReplicaPolicy> {
        let Self { ctx, policy, about, .. } = self;
        if !ctx.states.has(&about.uid) {
            return None;
        }
        let reference = ObjectRef::<Guarded>::new(&about.name).within(&about.namespace);
        let Some(live) = ctx.policies.get(&reference) else { return Some((*policy).clone()) };
        let live = live.0.as_ref().ok()?;
        let same = live.metadata.uid == policy.metadata.uid
            && live.metadata.generation == policy.metadata.generation
            && live.metadata.deletion_timestamp.is_none();
        same.then(|| live.clone())
    }

    /// Carries the plan out. Before a scale-down the memory must stand in status: a restart right after it then
    /// shortens no window. `None` when there was nothing to do.
    async fn apply(
        &self,
        at: At<'_>,
        planned: &Planned,
        before: &RLReplicaPolicyStatus,
        (validated, known): (&Validated, &mut Known),
    ) -> Option<Applied> {
        let Plan::Scale { from, to } = planned.plan else { return None };
        if let Some(why) = known.still_refused(to, self.now) {
            return Some(Applied::Failed { class: Class::Invalid, why });
        }
        let interval = state::interval(validated.settings.interval_secs);
        let decided_secs = self.now.as_millisecond() as f64 / 1000.0;
        if to < from {
            let mut after = known.brain.clone()?;
            after.record_scale(decided_secs, from, to);
            let mut first = planned.status.clone();
            first.memory = Some(known.memory_status(&after.memory()));
            let when = (self.now, interval);
            if !report::status(self.ctx, &self.about, known, before, &first, when, Urgency::Now).await {
                let why = "the memory could not be written to status first".to_owned();
                return Some(Applied::Failed { class: Class::Transient, why });
            }
        }
        let applied = apply::scale(at, from, to).await;
        match &applied {
            Applied::Scaled => {
                known.refusal = None;
                known.rewrites.wrote(self.now, to);
                if let Some(brain) = &mut known.brain {
                    brain.record_scale(decided_secs, from, to);
                }
            }
            Applied::Moved { .. } => {}
            Applied::Gone => report::count_error(self.ctx, "apply", "invalid"),
            Applied::Failed { class, why } => {
                report::count_error(self.ctx, "apply", class.as_str());
                known.refused(to, *class, why, self.now, interval);
            }
        }
        Some(applied)
    }

    /// The status as it will be written: with what became of the plan, savings and memory.
    fn settle(
        &self,
        planned: Planned,
        decision: &Decision,
        applied: Option<&Applied>,
        validated: &Validated,
        seen: &Seen,
        known: &mut Known,
    ) -> Planned {
        let Self { policy, now, .. } = *self;
        let mut planned = match applied {
            Some(applied) => plan::settled(planned, applied, policy.metadata.generation, now),
            None => planned,
        };
        if let Some(decided) = &mut planned.status.decision {
            decided.action = Some(planned.plan.action().to_owned());
            known.recent.add(decided, decision.held_by().map(|reason| reason.code()));
        }
        planned.status.decisions = known.recent.status();
        let stored = policy.status.as_ref().and_then(|status| status.savings.as_ref());
        let mut savings = known.savings.take().unwrap_or_else(|| savings::Savings::resume(stored, now));
        let price = seen.report.signals.price.usable().or(validated.settings.price_per_replica_hour);
        savings.add(now, seen.scale.replicas, decision.hpa_would_be(), price);
        planned.status.savings = Some(savings.status(validated.currency.as_ref()));
        known.savings = Some(savings);
        planned.status.shadow =
            known.brain.as_ref().and_then(Brain::shadow).and_then(|report| shadow::status(&report));
        let remembered = known.brain.as_ref().map(Brain::memory);
        planned.status.memory = remembered.as_ref().map(|memory| known.memory_status(memory));
        known.memory = remembered;
        planned
    }

    /// Events of this tick that are no change of a condition.
    fn news(
        &self,
        decision: &Decision,
        plan: Plan,
        will: &Resolved,
        seen: &Seen,
        known: &mut Known,
    ) -> Vec<Telling> {
        let mut news = news::hints(self.policy, &seen.report.hints, will, &seen.rivals, self.now);
        news.extend(news::unhealthy(&seen.pods, self.now));
        news.extend(plan::clamped(decision, format!("{:?}", will.will)));
        if std::mem::take(&mut known.memory_lost) {
            news.push(news::warning(
                EventReason::MemoryLost,
                "the memory in status could not be read; windows start anew",
                self.now,
            ));
        }
        news.retain(|telling| known.is_news(format!("{}-{}", telling.reason, telling.identity)));
        if let Plan::Scale { .. } = plan {
            news.insert(0, plan::rescaled(decision, self.now));
        }
        news
    }

    /// Counts the decision and leaves a sample of the policy behind, unless the policy is gone by now.
    fn publish(&self, decision: &Decision, plan: Plan, sample: PolicySample) {
        let labels = DecisionLabels { action: plan.action(), reason: decision.main_reason().code() };
        self.ctx.metrics.decisions.get_or_create(&labels).inc();
        if self.ctx.states.has(&self.about.uid) {
            self.ctx.metrics.publish(self.key.clone(), sample);
        }
    }

    /// News have names of their own and may be repeated; what changed in status is told once status stands, so that a
    /// restart in between repeats nothing. True when there is nothing left to write or to tell.
    async fn report(
        &self,
        known: &mut Known,
        before: &RLReplicaPolicyStatus,
        status: &RLReplicaPolicyStatus,
        news: Vec<Telling>,
        mode: Mode,
    ) -> bool {
        let Self { ctx, about, now, .. } = self;
        known.untold.add(news, *now);
        report::tell(ctx, about, &mut known.untold).await;
        let tellings = plan::tellings(before, status, mode);
        let when = (*now, SignedDuration::try_from(REPORT_AGAIN).unwrap_or_default());
        let stands = report::status(ctx, about, known, before, status, when, Urgency::WhenDue).await;
        if stands {
            known.untold.add(tellings, *now);
            report::tell(ctx, about, &mut known.untold).await;
        }
        stands && known.untold.is_empty()
    }

    fn frame<'b>(&self, before: &'b RLReplicaPolicyStatus, by: Option<&'b str>, model: String) -> Frame<'b> {
        Frame { now: self.now, generation: self.policy.metadata.generation, before, by, model }
    }

    /// At the next decision's time, however long this one took.
    fn again(&self, known: &Known, longest: SignedDuration) -> Action {
        let due = known.due.unwrap_or(self.now);
        Action::requeue(pause(due, (self.ctx.clock)(), longest))
    }
}

/// Until the next decision. Bounded: a clock that was set back must not stop the decisions.
fn pause(due: Timestamp, now: Timestamp, longest: SignedDuration) -> Duration {
    let pause = due.duration_since(now).min(longest);
    Duration::try_from(pause).unwrap_or_default().saturating_sub(DEBOUNCE)
}

#[cfg(test)]
#[path = "replica/tick_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "replica/seeing_tests.rs"]
mod seeing_tests;

#[cfg(test)]
#[path = "replica/owner_tests.rs"]
mod owner_tests;
