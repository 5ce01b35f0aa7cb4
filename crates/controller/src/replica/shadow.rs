//! What would have been, as status tells it. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rlscaler_api::limits::{MAX_MESSAGE_CHARS, cut};
use rlscaler_api::status::{ShadowStatus, ShadowTrust, ShadowWindowStatus};
use rlscaler_core::shadow::{ShadowReport, Trust, Window};

use super::status::{time, trimmed};

/// For status; `None` for a time no calendar has.
#[must_use]
pub fn status(report: &ShadowReport) -> Option<ShadowStatus> {
    let (trust, message) = told(report.trust);
    let since: Time = time(report.since_secs)?;
    Some(ShadowStatus {
        since,
        trust,
        message: cut(&message, MAX_MESSAGE_CHARS),
        total: window(&report.whole),
        last_day: window(&report.day),
    })
}

fn window(window: &Window) -> ShadowWindowStatus {
    let hours = |hours: f64| trimmed(hours, 2);
    let percent = |share: f64| trimmed(100.0 * share, 3);
    ShadowWindowStatus {
        replica_hours: hours(window.replica_hours),
        would_be_replica_hours: hours(window.would_be_hours),
        hpa_replica_hours: window.hpa_hours.map(hours),
        late_percent: window.late.map(percent),
        predicted_late_percent: window.predicted_late.map(percent),
        would_be_late_percent: window.would_be_late.map(percent),
    }
}

fn told(trust: Trust) -> (ShadowTrust, String) {
    match trust {
        Trust::NotYet => {
            (ShadowTrust::NotYetKnown, "too little was seen to tell whether the prediction is right".to_owned())
        }
        Trust::Unmeasured => (
            ShadowTrust::NotMeasured,
            "the late share is not measured (no sla or requests signal): nothing says whether the prediction is right"
                .to_owned(),
        ),
        Trust::Agrees => (
            ShadowTrust::Agrees,
            "for the replicas that really ran the queue model predicts what was measured".to_owned(),
        ),
        Trust::LatenessDisagrees { measured, predicted } => (
            ShadowTrust::LatenessDisagrees,
            format!(
                "not to be trusted: for the replicas that really ran {:.2} % late are predicted and {:.2} % were measured",
                100.0 * predicted,
                100.0 * measured
            ),
        ),
        Trust::CapacityDisagrees { measured, declared } => (
            ShadowTrust::CapacityDisagrees,
            format!(
                "not to be trusted: by spec.capacity pods were {:.0} % busy, by their CPU {:.0} %: check spec.capacity",
                100.0 * declared,
                100.0 * measured
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_that_is_not_to_be_trusted_says_so_with_both_figures() {
        let window = Window { replica_hours: 12.3456, late: Some(0.012_34), ..Window::default() };
        let report = |trust| ShadowReport { since_secs: 1_800_000_000.5, whole: window, day: window, trust };
        let check = |trust, expected, words: &[&str]| {
            let told = status(&report(trust)).unwrap();
            assert_eq!(told.trust, expected);
            assert!(words.iter().all(|word| told.message.contains(word)), "{}", told.message);
        };
        check(
            Trust::LatenessDisagrees { measured: 0.05, predicted: 0.01 },
            ShadowTrust::LatenessDisagrees,
            &["not to be trusted", "1.00 %", "5.00 %"],
        );
        check(
            Trust::CapacityDisagrees { measured: 0.6, declared: 0.46 },
            ShadowTrust::CapacityDisagrees,
            &["not to be trusted", "46 %", "60 %", "spec.capacity"],
        );
        check(Trust::Agrees, ShadowTrust::Agrees, &["what was measured"]);
        let told = status(&report(Trust::NotYet)).unwrap();
        assert_eq!(told.last_day.replica_hours, "12.35");
        assert_eq!(told.last_day.late_percent.as_deref(), Some("1.234"));
        assert_eq!(told.total.would_be_late_percent, None);
        let wire = serde_json::to_value(&told).unwrap();
        assert_eq!(wire["replicaHours"], "12.35", "{wire}");
    }
}
