//! What a scaler came to, from a report of `rlscaler evaluate` (`docs/evaluate.schema.json`). In: JSON. Out: the few figures
//! of the table. Never: a figure that the report does not have.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One scaler on the main cells.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Cells.
    pub(super) cells: usize,
    /// Cells in which the SLA was met.
    pub(super) sla_met: usize,
    /// Replica-time at the lateness of `hpa:tuned` over its, geometric mean; none where one setting was tried.
    pub(super) matched: Option<f64>,
    /// The same over the planner's tuned in hindsight.
    pub(super) over_planner: Option<f64>,
    /// Replica-time over that of `hpa:tuned` where that reaches the SLA, geometric mean.
    pub(super) own_cost: Option<f64>,
    /// Median of changes per hour.
    pub(super) changes_per_hour: f64,
    /// CPU time of training, seconds.
    pub(super) train_cpu_secs: Option<f64>,
    /// With capacity misjudged, where it was looked at.
    pub(super) capacity: Option<Capacity>,
}

/// One scaler with pods that serve less or more than declared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Capacity {
    /// 30 % less.
    pub(super) weaker: Misjudged,
    /// 30 % more.
    pub(super) stronger: Misjudged,
}

/// Cells of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Misjudged {
    /// Cells.
    pub(super) cells: usize,
    /// Cells in which the SLA was met.
    pub(super) sla_met: usize,
    /// Median late share.
    pub(super) late_share: f64,
    /// Pod-hours over those of the clairvoyant, median.
    pub(super) over_clairvoyant: f64,
}

impl Outcome {
    /// Of this scaler in a report.
    pub(super) fn read(report: &str, scaler: &str) -> Result<Self> {
        let report: Value = serde_json::from_str(report).context("the report is not JSON")?;
        let of = |list: &str| -> Result<&Value> {
            let parts = report[list].as_array().with_context(|| format!("the report has no {list}"))?;
            let part = parts.iter().find(|part| part["scaler"] == scaler);
            part.with_context(|| format!("the report has no {scaler} among its {list}"))
        };
        let (part, goals) = (of("scalers")?, of("goals")?);
        let count =
            |field: &str| part[field].as_u64().map(|count| count as usize).with_context(|| missing(field));
        Ok(Self {
            cells: count("cells")?,
            sla_met: count("sla_met")?,
            matched: goals["matched"]["over_hpa"].as_f64(),
            over_planner: goals["matched"]["over_planner"].as_f64(),
            own_cost: goals["reached"]["geometric_mean"].as_f64(),
            changes_per_hour: part["median"]["changes_per_hour"]
                .as_f64()
                .with_context(|| missing("changes"))?,
            train_cpu_secs: None,
            capacity: None,
        })
    }
}

impl Capacity {
    /// Of this scaler in a report.
    pub(super) fn read(report: &str, scaler: &str) -> Result<Self> {
        let report: Value = serde_json::from_str(report).context("the report is not JSON")?;
        let of = |note: &str| -> Result<Misjudged> {
            let cells = report["cells"].as_array().with_context(|| missing("cells"))?;
            let noted = |cell: &&Value| {
                let case = cell["case"].as_u64().unwrap_or_default() as usize;
                cell["scaler"] == scaler && report["suite"]["cases"][case]["note"] == note
            };
            let cells: Vec<&Value> = cells.iter().filter(noted).collect();
            let all = |field: &str| -> Result<Vec<f64>> {
                cells.iter().map(|cell| cell[field].as_f64().with_context(|| missing(field))).collect()
            };
            Ok(Misjudged {
                cells: cells.len(),
                sla_met: cells.iter().filter(|cell| cell["sla_met"] == true).count(),
                late_share: median(all("late_ratio")?).with_context(|| format!("no cell with {note}"))?,
                over_clairvoyant: median(all("over_clairvoyant")?).unwrap_or_default(),
            })
        };
        Ok(Self { weaker: of("capacity 0.7")?, stronger: of("capacity 1.3")? })
    }
}

fn missing(field: &str) -> String {
    format!("the report has no {field}")
}

/// Of an even number the mean of the middle two; `None` of nothing.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        len if len % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_figures_are_the_scalers_own() {
        let report = json!({
            "scalers": [
                { "scaler": "hpa:tuned", "cells": 22, "sla_met": 20, "median": { "changes_per_hour": 6.0 } },
                { "scaler": "rl:x", "cells": 22, "sla_met": 15, "median": { "changes_per_hour": 16.5 } },
            ],
            "goals": [{
                "scaler": "rl:x",
                "matched": { "over_hpa": 0.9, "over_planner": 0.95 },
                "reached": { "geometric_mean": 0.97 },
            }],
        });
        let found = Outcome::read(&report.to_string(), "rl:x").expect("all is there");
        let expected = Outcome {
            cells: 22,
            sla_met: 15,
            matched: Some(0.9),
            over_planner: Some(0.95),
            own_cost: Some(0.97),
            changes_per_hour: 16.5,
            ..Outcome::default()
        };
        assert_eq!(found, expected);
        let fault = Outcome::read(&report.to_string(), "rl:y").expect_err("it did not run").to_string();
        assert!(fault.contains("rl:y"), "{fault}");
    }

    #[test]
    fn cells_with_misjudged_capacity_are_told_apart_by_their_note() {
        let cell = |case: u32, late: f64, met: bool| json!({ "case": case, "scaler": "rl", "late_ratio": late, "sla_met": met, "over_clairvoyant": 1.5 });
        let report = json!({
            "suite": { "cases": [{ "note": null }, { "note": "capacity 0.7" }, { "note": "capacity 1.3" }] },
            "cells": [cell(0, 0.5, false), cell(1, 0.02, false), cell(1, 0.004, true), cell(2, 0.001, true)],
        });
        let Capacity { weaker, stronger } = Capacity::read(&report.to_string(), "rl").expect("all is there");
        assert_eq!((weaker.cells, weaker.sla_met), (2, 1));
        assert!((weaker.late_share - 0.012).abs() < 1e-12);
        assert_eq!((stronger.cells, stronger.late_share), (1, 0.001));
    }
}
