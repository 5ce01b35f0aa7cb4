//! Both scalers side by side. In: scores in trace time. Out: the JSON of `--json` and the closing table. Pure.

use anyhow::{Context, Result};
use rlscaler_world::WorkloadNow;
use serde::{Deserialize, Serialize};

use super::plan::{INTERVAL_SECS, MAX_REPLICAS, MIN_REPLICAS, Plan};

/// What `--json` writes. Times are of the trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DemoResult {
    /// Seconds between two decisions.
    pub interval_seconds: u32,
    /// K.
    pub speed: u32,
    /// Bound of both scalers.
    pub min_replicas: u32,
    /// Bound of both scalers.
    pub max_replicas: u32,
    /// `rlscaler`, then `hpa`.
    pub scalers: Vec<ScalerResult>,
    /// The override and its release.
    pub r#override: OverrideResult,
}

/// What one scaler's users and owner got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScalerResult {
    /// `rlscaler` or `hpa`.
    pub name: String,
    /// Share of offered requests not answered within the target.
    pub late_ratio: f64,
    /// Pods, starting ones included, times hours.
    pub replica_hours: f64,
    /// Changes of `spec.replicas`.
    pub changes: u64,
    /// 95th percentile of the latency, milliseconds; 0 when nothing was answered.
    pub p95_ms: f64,
    /// Smallest `spec.replicas` seen.
    pub min_replicas: u32,
    /// Largest `spec.replicas` seen.
    pub max_replicas: u32,
}

/// How a person was obeyed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OverrideResult {
    /// Replicas asked for by annotation.
    pub asked: u32,
    /// From the annotation to `spec.replicas` being that.
    pub reached_after_seconds: f64,
    /// From the removal of the annotation to a decision of the scaler's own.
    pub released_after_seconds: f64,
}

impl DemoResult {
    /// From the scores of the policy's and the HPA's workload, in this order.
    ///
    /// # Errors
    /// When there are not two.
    pub fn new(plan: &Plan, scores: &[WorkloadNow], obeyed: OverrideResult) -> Result<Self> {
        let [ours, theirs] = scores else { anyhow::bail!("{} workloads were played, not 2", scores.len()) };
        Ok(Self {
            interval_seconds: INTERVAL_SECS,
            speed: plan.speed,
            min_replicas: MIN_REPLICAS,
            max_replicas: MAX_REPLICAS,
            scalers: vec![scaler("rlscaler", ours), scaler("hpa", theirs)],
            r#override: obeyed,
        })
    }

    /// The table that ends the demo.
    #[must_use]
    pub fn table(&self) -> String {
        let Self { interval_seconds, speed, min_replicas, max_replicas, scalers, r#override: obeyed } = self;
        let mut text = format!(
            "K = {speed}, trace time, bounds {min_replicas}..{max_replicas}\n{:<10} {:>8} {:>14} {:>8} {:>9} {:>11}\n",
            "SCALER", "LATE", "REPLICA-HOURS", "CHANGES", "P95", "REPLICAS"
        );
        for scaler in scalers {
            text += &format!(
                "{:<10} {:>6.2} % {:>14.2} {:>8} {:>6.0} ms {:>11}\n",
                scaler.name,
                100.0 * scaler.late_ratio,
                scaler.replica_hours,
                scaler.changes,
                scaler.p95_ms,
                format!("{}..{}", scaler.min_replicas, scaler.max_replicas),
            );
        }
        text + &format!(
            "override: {} replicas reached after {:.1} s, released after {:.1} s of the trace (interval {interval_seconds} s)",
            obeyed.asked, obeyed.reached_after_seconds, obeyed.released_after_seconds
        )
    }

    /// One scaler by name.
    ///
    /// # Errors
    /// When it was not played.
    pub fn scaler(&self, name: &str) -> Result<&ScalerResult> {
        self.scalers.iter().find(|scaler| scaler.name == name).with_context(|| format!("no scaler {name}"))
    }
}

fn scaler(name: &str, workload: &WorkloadNow) -> ScalerResult {
    let score = &workload.score;
    ScalerResult {
        name: name.to_owned(),
        late_ratio: rounded(score.late_ratio, 6),
        replica_hours: rounded(score.replica_hours, 4),
        changes: score.changes,
        p95_ms: rounded(score.p95_secs.unwrap_or(0.0) * 1000.0, 1),
        min_replicas: score.min_replicas,
        max_replicas: score.max_replicas,
    }
}

/// Digits beyond these mean nothing and make files hard to compare.
fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use rlscaler_world::Score;
    use serde_json::json;

    fn result() -> DemoResult {
        let workload = |replica_hours, late_ratio| WorkloadNow {
            wanted: 5,
            ready: 5,
            existing: 5,
            p95_secs: None,
            late_ratio: 0.0,
            score: Score {
                offered: 1000,
                late_ratio,
                replica_hours,
                changes: 7,
                p95_secs: Some(0.125),
                min_replicas: 3,
                max_replicas: 9,
                secs: 300.0,
            },
        };
        let obeyed = OverrideResult { asked: 12, reached_after_seconds: 4.5, released_after_seconds: 11.0 };
        let plan = Plan::new(5, 1.0, "gen:step:1", 1).unwrap();
        DemoResult::new(&plan, &[workload(8.0, 0.004), workload(11.0, 0.002)], obeyed).unwrap()
    }

    #[test]
    fn the_json_has_exactly_the_promised_fields() {
        let scaler = |name: &str, late: f64, hours: f64| {
            json!({"name": name, "late_ratio": late, "replica_hours": hours, "changes": 7, "p95_ms": 125.0,
                "min_replicas": 3, "max_replicas": 9})
        };
        let expected = json!({
            "interval_seconds": 15, "speed": 5, "min_replicas": 2, "max_replicas": 40,
            "scalers": [scaler("rlscaler", 0.004, 8.0), scaler("hpa", 0.002, 11.0)],
            "override": {"asked": 12, "reached_after_seconds": 4.5, "released_after_seconds": 11.0},
        });
        assert_eq!(serde_json::to_value(result()).unwrap(), expected);
    }

    #[test]
    fn the_table_says_the_factor_and_names_both() {
        let table = result().table();
        for part in
            ["K = 5", "trace time", "rlscaler", "hpa", "0.40 %", "3..9", "12 replicas reached after 4.5 s"]
        {
            assert!(table.contains(part), "{part}: {table}");
        }
    }
}
