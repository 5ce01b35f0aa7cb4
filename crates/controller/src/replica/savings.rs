//! Replica-hours asked for, beside what an HPA would have asked for, and what they cost. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rlscaler_api::status::SavingsStatus;

/// Longest gap between two ticks that is counted; a longer one is an operator that was not there.
const MAX_STEP_SECS: f64 = 900.0;

/// Running sums. Status holds them between restarts.
#[derive(Debug, Clone, PartialEq)]
pub struct Savings {
    since: Timestamp,
    last: Timestamp,
    replica_hours: f64,
    /// `None` until an HPA's answer was known once.
    hpa_replica_hours: Option<f64>,
    cost: Option<f64>,
}

impl Savings {
    /// Goes on from what status says, or starts now.
    #[must_use]
    pub fn resume(status: Option<&SavingsStatus>, now: Timestamp) -> Self {
        let number = |text: &String| text.parse::<f64>().ok().filter(|number| number.is_finite());
        match status {
            Some(status) => Self {
                since: status.since.0,
                last: now,
                replica_hours: number(&status.replica_hours).unwrap_or(0.0),
                hpa_replica_hours: status.hpa_replica_hours.as_ref().and_then(number),
                cost: status.cost.as_ref().and_then(number),
            },
            None => Self { since: now, last: now, replica_hours: 0.0, hpa_replica_hours: None, cost: None },
        }
    }

    /// Adds the time since the last tick, with what was asked for in it.
    pub fn add(&mut self, now: Timestamp, replicas: u32, hpa: Option<u32>, price: Option<f64>) {
        let hours = now.duration_since(self.last).as_secs_f64().clamp(0.0, MAX_STEP_SECS) / 3600.0;
        self.last = now;
        let used = f64::from(replicas) * hours;
        // Where the HPA's answer is not known for a while, it is taken to do as we do: nothing saved, nothing lost.
        if hpa.is_some() || self.hpa_replica_hours.is_some() {
            let before = self.hpa_replica_hours.unwrap_or(self.replica_hours);
            self.hpa_replica_hours = Some(before + f64::from(hpa.unwrap_or(replicas)) * hours);
        }
        self.replica_hours += used;
        if let Some(price) = price {
            self.cost = Some(self.cost.unwrap_or(0.0) + used * price);
        }
    }

    /// For status.
    #[must_use]
    pub fn status(&self, currency: Option<&String>) -> SavingsStatus {
        SavingsStatus {
            since: Time(self.since),
            replica_hours: format!("{:.4}", self.replica_hours),
            hpa_replica_hours: self.hpa_replica_hours.map(|hours| format!("{hours:.4}")),
            cost: self.cost.map(|cost| format!("{cost:.4}")),
            currency: currency.cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_and_cost_add_up_and_survive_a_restart() {
        let at = |minutes: i64| Timestamp::from_second(1_800_000_000 + minutes * 60).unwrap();
        let mut savings = Savings::resume(None, at(0));
        savings.add(at(6), 10, None, Some(0.5));
        savings.add(at(12), 10, Some(20), None);
        savings.add(at(18), 10, None, Some(0.5));
        let status = savings.status(None);
        assert_eq!(status.replica_hours, "3.0000");
        assert_eq!(status.hpa_replica_hours.as_deref(), Some("4.0000"));
        assert_eq!(status.cost.as_deref(), Some("1.0000"));
        let mut resumed = Savings::resume(Some(&status), at(600));
        resumed.add(at(606), 10, Some(10), None);
        assert_eq!(resumed.status(None).replica_hours, "4.0000");
    }
}
