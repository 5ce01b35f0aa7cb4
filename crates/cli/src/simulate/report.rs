//! What one simulated run came to. In: the outcome and the decisions. Out: [`Report`], the JSON form, and its table.

use std::fmt::Write;

use rlscaler_core::Decision;
use rlscaler_sim::outcome::Outcome;
use rlscaler_sim::scenario::Scenario;
use serde::Serialize;

use super::Watched;
use crate::evaluate::measures::{Measures, Yardstick, round};
use crate::evaluate::report::COMMIT;
use crate::evaluate::table::{grid, percent};

/// Name and version of the form: fields may be added within a version, none is removed or changes its meaning.
const SCHEMA: &str = "rlscaler.io/simulate/v1";

/// What a report is made of.
pub(super) struct Facts<'a> {
    pub(super) policy: &'a str,
    pub(super) scaler: &'a str,
    pub(super) model: &'a str,
    pub(super) seed: u64,
    pub(super) trace: &'a str,
    /// 0 < sla < 1.
    pub(super) sla: f64,
    pub(super) scenario: &'a Scenario,
    pub(super) outcome: &'a Outcome,
    pub(super) references: &'a References,
    pub(super) watched: &'a [Watched],
    pub(super) with_reasons: bool,
}

/// Who it is measured against, in the same world.
pub(super) struct References {
    /// An HPA on CPU 60 %.
    pub(super) stock: Outcome,
    /// The clairvoyant.
    pub(super) floor: Outcome,
}

/// A run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) schema: &'static str,
    pub(super) version: &'static str,
    pub(super) commit: &'static str,
    pub(super) policy: String,
    pub(super) scaler: String,
    pub(super) model: String,
    pub(super) trace: String,
    pub(super) seed: u64,
    pub(super) sla_percent: f64,
    pub(super) target_ms: f64,
    pub(super) history_hours: f64,
    pub(super) hours: f64,
    pub(super) measures: Measures,
    /// Pod-hours of the HPA on CPU 60 % in the same world.
    pub(super) hpa_replica_hours: f64,
    /// Late share of that HPA, 0..1.
    pub(super) hpa_late_ratio: f64,
    /// Every decision with `--reasons`, else those that changed something.
    pub(super) decisions: Vec<Told>,
}

/// One decision.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    /// Seconds of the run.
    pub(super) time: f64,
    /// Replicas before.
    pub(super) from: u32,
    /// Replicas after.
    pub(super) to: u32,
    /// Requests per second in the interval after it.
    pub(super) rate: f64,
    /// Ready at that interval's end.
    pub(super) ready: u32,
    /// Late share of that interval, 0..1.
    pub(super) late_ratio: f64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) ours: Option<Ours>,
}

/// What only our own scalers tell.
#[derive(Debug, Serialize)]
pub(super) struct Ours {
    pub(super) planner: u32,
    pub(super) proposed: u32,
    pub(super) driver: &'static str,
    pub(super) reasons: Vec<ToldReason>,
}

/// A reason, as the policy's status has it.
#[derive(Debug, Serialize)]
pub(super) struct ToldReason {
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Report {
    /// Rounds and words.
    pub(super) fn new(facts: &Facts<'_>) -> Self {
        let Facts { scenario, outcome, references, .. } = facts;
        let stock_pods: Vec<f64> = references.stock.points.iter().map(|point| point.paid).collect();
        let yardstick = Yardstick {
            sla: facts.sla,
            stock_pods: &stock_pods,
            floor_hours: references.floor.replica_hours(),
        };
        let told = facts.watched.iter().zip(&outcome.points).map(|(watched, point)| Told {
            time: round(watched.time_secs),
            from: watched.from,
            to: point.wanted,
            rate: round(point.rate),
            ready: point.ready,
            late_ratio: round(point.late_share),
            ours: watched.decision.as_ref().map(ours),
        });
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            commit: COMMIT,
            policy: facts.policy.to_owned(),
            scaler: facts.scaler.to_owned(),
            model: facts.model.to_owned(),
            trace: facts.trace.to_owned(),
            seed: facts.seed,
            sla_percent: round(100.0 * facts.sla),
            target_ms: round(1e3 * scenario.profile.service.target_secs),
            history_hours: round(scenario.history_secs / 3_600.0),
            hours: round(outcome.duration_secs / 3_600.0),
            measures: Measures::new(outcome, scenario, &yardstick),
            hpa_replica_hours: round(references.stock.replica_hours()),
            hpa_late_ratio: round(references.stock.late_share()),
            decisions: told.filter(|told| facts.with_reasons || told.from != told.to).collect(),
        }
    }
}

impl Ours {
    /// The reasons in a line.
    pub(super) fn words(&self) -> String {
        self.reasons.iter().map(|reason| reason.message.as_str()).collect::<Vec<_>>().join("; ")
    }
}

fn ours(decision: &Decision) -> Ours {
    let reason =
        |reason: &rlscaler_core::Reason| ToldReason { code: reason.code(), message: reason.to_string() };
    Ours {
        planner: decision.planner(),
        proposed: decision.proposed(),
        driver: decision.driver().as_str(),
        reasons: decision.reasons().iter().map(reason).collect(),
    }
}

/// The report as text.
pub(super) fn table(report: &Report) -> String {
    let mut text = format!("{}\n", heading(report));
    text.push_str(&grid(&rows(report)));
    let _ = writeln!(text);
    for told in &report.decisions {
        let [time, from, to, rate, ready, late] = figures(told);
        let _ = write!(text, "{time}  {from:>4} -> {to:<4} {rate:>11}  ready {ready:<4} late {late:>8}");
        if let Some(ours) = &told.ours {
            let Ours { planner, proposed, driver, .. } = ours;
            let _ = write!(text, "  {driver}: planner {planner}, proposed {proposed}; {}", ours.words());
        }
        text.push('\n');
    }
    text
}

/// What it came to, as a table for a document.
pub(super) fn markdown(report: &Report) -> String {
    let mut text = format!("{}\n| | |\n| --- | ---: |\n", heading(report));
    for row in rows(report) {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

/// Figures of a decision, in every form: time, from, to, rate, ready, late.
pub(super) fn figures(told: &Told) -> [String; 6] {
    let Told { time, from, to, rate, ready, late_ratio, ours: _ } = told;
    [
        clock(*time),
        from.to_string(),
        to.to_string(),
        format!("{rate:.1}/s"),
        ready.to_string(),
        format!("{} %", percent(*late_ratio)),
    ]
}

/// What was run.
pub(super) fn heading(report: &Report) -> String {
    format!(
        "policy {} on {}, {}, model {}, seed {}: {:.2} h, {:.1} h of history, target {} ms, SLA {} %; rlscaler {} \
         (commit {})\n",
        report.policy,
        report.trace,
        report.scaler,
        report.model,
        report.seed,
        report.hours,
        report.history_hours,
        report.target_ms,
        report.sla_percent,
        report.version,
        report.commit,
    )
}

/// What it came to, a name and a value a row.
pub(super) fn rows(report: &Report) -> Vec<Vec<String>> {
    let measures = &report.measures;
    let millis = |value: Option<f64>| {
        value.map_or("not within the time-out".to_owned(), |value| format!("{value:.0} ms"))
    };
    let reward = &measures.reward;
    [
        ("SLA", if measures.sla_met { "met" } else { "missed" }.to_owned()),
        ("late", format!("{} %", percent(measures.late_ratio))),
        ("late in the worst hour", format!("{} %", percent(measures.worst_hour_late_ratio))),
        ("never answered", format!("{} %", percent(measures.dropped_ratio))),
        ("replica-hours", format!("{:.2}", measures.replica_hours)),
        ("over the clairvoyant's", format!("{:.3}", measures.over_clairvoyant)),
        ("cost", format!("{:.2}", measures.cost)),
        ("changes per hour", format!("{:.1}", measures.changes_per_hour)),
        ("replicas", format!("{}..{}", measures.min_replicas, measures.max_replicas)),
        ("p95", millis(measures.p95_ms)),
        ("p99", millis(measures.p99_ms)),
        (
            "reward (latency, saving, SLA)",
            format!(
                "{:+.3} ({:+.3}, {:+.3}, {:+.3})",
                reward.total, reward.latency_reduction, reward.resource_saving, reward.sla_completion
            ),
        ),
        (
            "an HPA on CPU 60 % here",
            format!(
                "{} % late, {:.2} replica-hours",
                percent(report.hpa_late_ratio),
                report.hpa_replica_hours
            ),
        ),
    ]
    .map(|(name, value)| vec![name.to_owned(), value])
    .to_vec()
}

/// Seconds of the run as hours, minutes and seconds.
fn clock(secs: f64) -> String {
    let secs = secs as u64;
    format!("{:02}:{:02}:{:02}", secs / 3_600, secs / 60 % 60, secs % 60)
}
