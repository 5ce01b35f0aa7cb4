//! The last decisions, for people: those that are not like the one before. Pure and bounded; status holds them.

use rlscaler_api::limits::{MAX_EARLIER_MESSAGE_CHARS, MAX_EARLIER_REASONS, MAX_STATUS_DECISIONS, cut};
use rlscaler_api::status::{DecisionStatus, ReasonStatus};

/// Newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recent {
    decisions: Vec<DecisionStatus>,
    /// The guardrail that had the last word at the newest.
    held_by: Option<&'static str>,
}

impl Recent {
    /// As status has them.
    #[must_use]
    pub fn resume(decisions: &[DecisionStatus]) -> Self {
        Self { decisions: decisions.iter().take(MAX_STATUS_DECISIONS).cloned().collect(), held_by: None }
    }

    /// Adds a decision, unless nothing came of it and it is like the newest: the same number by the same driver, held by
    /// the same guardrail. The terms of the number and what was measured differ at every tick.
    pub fn add(&mut self, decision: &DecisionStatus, held_by: Option<&'static str>) {
        let DecisionStatus { from, to, driver, action, .. } = decision;
        let written = matches!(action.as_deref(), Some("up" | "down"));
        let like = |newest: &DecisionStatus| {
            (newest.from, newest.to) == (*from, *to)
                && (&newest.driver, &newest.action) == (driver, action)
                && self.held_by == held_by
                && !written
        };
        if self.decisions.first().is_some_and(like) {
            return;
        }
        let reasons = decision.reasons.iter().take(MAX_EARLIER_REASONS).map(|reason| ReasonStatus {
            code: reason.code.clone(),
            message: cut(&reason.message, MAX_EARLIER_MESSAGE_CHARS),
        });
        let decision = DecisionStatus { reasons: reasons.collect(), ..decision.clone() };
        self.decisions.insert(0, decision);
        self.decisions.truncate(MAX_STATUS_DECISIONS);
        self.held_by = held_by;
    }

    /// For status.
    #[must_use]
    pub fn status(&self) -> Vec<DecisionStatus> {
        self.decisions.clone()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn decision(from: i32, to: i32) -> DecisionStatus {
        DecisionStatus {
            time: Time(Timestamp::UNIX_EPOCH),
            from,
            to,
            proposed: to,
            planner: to,
            hpa_would_be: None,
            driver: "planner".into(),
            action: Some(if from == to { "hold" } else { "up" }.into()),
            why_not_more: None,
            why_not_fewer: None,
            reasons: vec![ReasonStatus { code: "Load".into(), message: "x".repeat(5_000) }; 20],
        }
    }

    #[test]
    fn a_hold_like_the_one_before_is_not_kept_and_every_change_is() {
        let mut recent = Recent::default();
        recent.add(&decision(3, 9), None);
        (0..50).for_each(|_| recent.add(&decision(9, 9), None));
        recent.add(&decision(9, 9), Some("Deadband"));
        recent.add(&decision(9, 9), Some("Deadband"));
        recent.add(&decision(9, 3), None);
        recent.add(&decision(9, 3), None);
        let numbers: Vec<_> = recent.status().iter().map(|one| (one.from, one.to)).collect();
        assert_eq!(numbers, [(9, 3), (9, 3), (9, 9), (9, 9), (3, 9)]);
        assert_eq!(Recent::resume(&recent.status()).status(), recent.status());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut recent = Recent::default();
        (0..100).for_each(|count| recent.add(&decision(count, count + 1), None));
        let status = recent.status();
        assert_eq!((status.len(), status[0].to), (MAX_STATUS_DECISIONS, 100));
        let bytes = serde_json::to_string(&status).unwrap().len();
        assert!(bytes < 20_000, "{bytes} bytes");
    }
}
