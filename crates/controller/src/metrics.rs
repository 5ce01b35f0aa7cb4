//! What Prometheus is told: one registry, names `rlscaler_*`, units last.
//!
//! Series that belong to one policy are made at scrape time from what its last tick left behind, so they vanish with
//! the policy. The others are counters and histograms of the whole operator, with closed sets of labels.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, RwLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use rlscaler_core::Driver;
use rlscaler_core::shadow::{ShadowReport, Trust};
use rlscaler_signals::report::SignalName;

/// Lateness of a decision that is worth a bucket of its own: from unnoticeable to two long intervals.
pub(crate) const LATENESS_BUCKETS_SECS: [f64; 12] =
    [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 600.0];
/// Duration of a tick, I/O included.
pub(crate) const TICK_BUCKETS_SECS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0];

/// A policy by namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyKey {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// One signal's state at the last tick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignalSample {
    /// Age at the last tick, seconds, where known.
    pub age_secs: Option<f64>,
    /// Ticks at which it could not be read, since the operator started.
    pub failures: u64,
}

/// What a policy's last tick left behind.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PolicySample {
    /// `spec.replicas` of the target.
    pub current: u32,
    /// Ready pods.
    pub ready: u32,
    /// What the decision asks for.
    pub desired: u32,
    /// The driver's answer before guardrails.
    pub proposed: u32,
    /// The planner's answer.
    pub planner: u32,
    /// What a stock HPA would ask for.
    pub hpa_would_be: Option<u32>,
    /// What a policy in `Shadow` would have written; `None` in `Auto`.
    pub shadow: Option<u32>,
    /// The override that applies, `none` otherwise.
    pub override_mode: &'static str,
    /// Who drove.
    pub driver: &'static str,
    /// Name and content hash of the model.
    pub model: String,
    /// Why the planner drives in place of the model, where it does.
    pub model_doubt: Option<&'static str>,
    /// The model's factor on the planner's answer, where it drives.
    pub model_multiplier: Option<f64>,
    /// How often the planner had to take over from the model.
    pub model_takeovers: u32,
    /// How much more forecasts fall short than they used to.
    pub forecast_drift: Option<f64>,
    /// Share of the error budget that is left.
    pub budget_remaining_ratio: f64,
    /// Burn rate over one hour.
    pub burn_1h: f64,
    /// Burn rate over six hours.
    pub burn_6h: f64,
    /// Price of lateness.
    pub lateness_price: f64,
    /// What would have been, in `Shadow`.
    pub shadow_report: Option<ShadowReport>,
    /// Scale-downs of ours that had to be undone, since the policy began.
    pub scale_downs_undone: u32,
    /// Start-up time learnt, seconds.
    pub startup_secs: Option<f64>,
    /// Signals in the order of the API.
    pub signals: Vec<(SignalName, SignalSample)>,
}

/// Labels of `rlscaler_decisions_total`. Closed sets: an action and a reason's code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DecisionLabels {
    /// `up`, `down`, `hold`, or `advise_up`, `advise_down` where nothing is written.
    pub action: &'static str,
    /// Code of the main reason.
    pub reason: &'static str,
}

/// Labels of `rlscaler_tick_errors_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ErrorLabels {
    /// `observe`, `apply`, `report` or `tick`.
    pub step: &'static str,
    /// `transient`, `invalid` or `bug`.
    pub class: &'static str,
}

/// Everything the operator counts.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Seconds between when a decision was due and when its tick began.
    pub lateness: Histogram,
    /// Seconds a tick took.
    pub tick: Histogram,
    /// Decisions.
    pub decisions: Family<DecisionLabels, Counter>,
    /// Failed steps.
    pub errors: Family<ErrorLabels, Counter>,
    /// Panics caught.
    pub panics: Counter,
    /// Writes of a status.
    pub status_writes: Counter,
    policies: Arc<Policies>,
}

impl Metrics {
    /// Registers everything.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            lateness: Histogram::new(LATENESS_BUCKETS_SECS),
            tick: Histogram::new(TICK_BUCKETS_SECS),
            decisions: Family::default(),
            errors: Family::default(),
            panics: Counter::default(),
            status_writes: Counter::default(),
            policies: Arc::new(Policies::default()),
        };
        registry.register_with_unit(
            "rlscaler_decision_lateness",
            "Time between when a decision was due and when its tick began",
            Unit::Seconds,
            metrics.lateness.clone(),
        );
        registry.register_with_unit(
            "rlscaler_tick_duration",
            "Time one tick of one policy took, reads and writes included",
            Unit::Seconds,
            metrics.tick.clone(),
        );
        registry.register(
            "rlscaler_decisions",
            "Decisions by what was done and the reason that weighed most",
            metrics.decisions.clone(),
        );
        registry.register("rlscaler_tick_errors", "Steps of a tick that failed", metrics.errors.clone());
        registry.register(
            "rlscaler_panics",
            "Ticks that panicked and held their policy",
            metrics.panics.clone(),
        );
        registry.register("rlscaler_status_writes", "Status writes", metrics.status_writes.clone());
        registry.register_collector(Box::new(metrics.policies.clone()));
        metrics
    }

    /// What the last tick left behind.
    pub fn publish(&self, key: PolicyKey, sample: PolicySample) {
        self.policies.samples.write().expect("no panic while locked").insert(key, sample);
    }

    /// Forgets a policy.
    pub fn forget(&self, key: &PolicyKey) {
        self.policies.samples.write().expect("no panic while locked").remove(key);
    }
}

#[derive(Default)]
struct Policies {
    samples: RwLock<BTreeMap<PolicyKey, PolicySample>>,
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Policies")
    }
}

/// A gauge of every policy: name, help, and its value, where there is one.
type PolicyGauge = (&'static str, &'static str, fn(&PolicySample) -> Option<f64>);

const GAUGES: [PolicyGauge; 22] = [
    ("rlscaler_replicas_current", "Replicas asked of the target", |s| Some(f64::from(s.current))),
    ("rlscaler_replicas_ready", "Ready pods of the target", |s| Some(f64::from(s.ready))),
    ("rlscaler_replicas_desired", "Replicas the decision asks for", |s| Some(f64::from(s.desired))),
    ("rlscaler_replicas_proposed", "The driver's answer before the guardrails", |s| {
        Some(f64::from(s.proposed))
    }),
    ("rlscaler_replicas_planner", "The planner's answer", |s| Some(f64::from(s.planner))),
    ("rlscaler_replicas_hpa_would_be", "What an HPA on CPU 60 % would ask for", |s| {
        s.hpa_would_be.map(f64::from)
    }),
    ("rlscaler_replicas_shadow", "What a policy in Shadow would have written", |s| s.shadow.map(f64::from)),
    ("rlscaler_budget_remaining_ratio", "Share of the error budget that is left", |s| {
        Some(s.budget_remaining_ratio)
    }),
    ("rlscaler_budget_burn_rate_1h", "Late share of the last hour over what the SLA allows", |s| {
        Some(s.burn_1h)
    }),
    ("rlscaler_budget_burn_rate_6h", "Late share of six hours over what the SLA allows", |s| Some(s.burn_6h)),
    ("rlscaler_lateness_price", "Price of a late request the actor is given", |s| Some(s.lateness_price)),
    ("rlscaler_shadow_replica_hours_1d", "Replica-hours really asked for in the last 24 hours", |s| {
        Some(s.shadow_report?.day.replica_hours)
    }),
    (
        "rlscaler_shadow_would_be_replica_hours_1d",
        "Replica-hours of the last 24 hours, had the decisions been followed",
        |s| Some(s.shadow_report?.day.would_be_hours),
    ),
    (
        "rlscaler_shadow_hpa_replica_hours_1d",
        "Replica-hours of the last 24 hours by an HPA on CPU 60 %",
        |s| s.shadow_report?.day.hpa_hours,
    ),
    ("rlscaler_shadow_late_ratio_1d", "Late share of the last 24 hours as measured", |s| {
        s.shadow_report?.day.late
    }),
    (
        "rlscaler_shadow_predicted_late_ratio_1d",
        "Late share of the last 24 hours by the queue model with the replicas that really ran",
        |s| s.shadow_report?.day.predicted_late,
    ),
    (
        "rlscaler_shadow_would_be_late_ratio_1d",
        "Late share of the last 24 hours by the queue model, had the decisions been followed",
        |s| s.shadow_report?.day.would_be_late,
    ),
    ("rlscaler_shadow_trusted", "1 where prediction and measurement agree, 0 where not", |s| {
        match s.shadow_report?.trust {
            Trust::Agrees => Some(1.0),
            Trust::LatenessDisagrees { .. } | Trust::CapacityDisagrees { .. } => Some(0.0),
            Trust::NotYet | Trust::Unmeasured => None,
        }
    }),
    ("rlscaler_model_driving", "1 while the model drives, else 0", |s| {
        Some(f64::from(u8::from(s.driver == Driver::Model.as_str())))
    }),
    ("rlscaler_model_multiplier_ratio", "The model's answer over the planner's", |s| s.model_multiplier),
    ("rlscaler_model_forecast_drift_ratio", "Shortfall of forecasts over that of the service's past", |s| {
        s.forecast_drift
    }),
    ("rlscaler_startup_seconds", "Start-up time learnt from pods, p90", |s| s.startup_secs),
];

impl Collector for Policies {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let samples = self.samples.read().expect("no panic while locked");
        for (name, help, value) in GAUGES {
            let gauge = ConstGauge::new(0.0);
            let mut family = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            for (key, sample) in samples.iter() {
                if let Some(value) = value(sample) {
                    ConstGauge::new(value).encode(family.encode_family(&labels(key))?)?;
                }
            }
        }
        let gauge = ConstGauge::new(0.0);
        let help = "1 for the override, driver and model of the last decision";
        let mut family =
            encoder.encode_descriptor("rlscaler_policy_info", help, None, gauge.metric_type())?;
        for (key, sample) in samples.iter() {
            let mut labels = labels(key).to_vec();
            labels.push(("override", sample.override_mode));
            labels.push(("driver", sample.driver));
            labels.push(("model", &sample.model));
            ConstGauge::new(1.0).encode(family.encode_family(&labels.as_slice())?)?;
        }
        let help = "1 for the reason for which the planner drives in place of the model";
        let mut family =
            encoder.encode_descriptor("rlscaler_model_doubt", help, None, gauge.metric_type())?;
        for (key, sample) in samples.iter() {
            let Some(doubt) = sample.model_doubt else { continue };
            let [namespace, policy] = labels(key);
            let labels = [namespace, policy, ("reason", doubt)];
            ConstGauge::new(1.0).encode(family.encode_family(&labels)?)?;
        }
        self.encode_counters(&samples, &mut encoder)?;
        self.encode_signals(&samples, encoder)
    }
}

impl Policies {
    fn encode_counters(
        &self,
        samples: &BTreeMap<PolicyKey, PolicySample>,
        encoder: &mut DescriptorEncoder,
    ) -> Result<(), fmt::Error> {
        let counter = ConstCounter::new(0u64);
        let help = "Times the planner took over from the model";
        let mut family =
            encoder.encode_descriptor("rlscaler_model_takeovers", help, None, counter.metric_type())?;
        for (key, sample) in samples {
            let takeovers = u64::from(sample.model_takeovers);
            ConstCounter::new(takeovers).encode(family.encode_family(&labels(key))?)?;
        }
        let help = "Scale-downs after which the objective was no longer met and which were undone";
        let mut family =
            encoder.encode_descriptor("rlscaler_scale_downs_undone", help, None, counter.metric_type())?;
        for (key, sample) in samples {
            let undone = u64::from(sample.scale_downs_undone);
            ConstCounter::new(undone).encode(family.encode_family(&labels(key))?)?;
        }
        Ok(())
    }

    fn encode_signals(
        &self,
        samples: &BTreeMap<PolicyKey, PolicySample>,
        mut encoder: DescriptorEncoder,
    ) -> Result<(), fmt::Error> {
        let gauge = ConstGauge::new(0.0);
        let help = "Age of the newest sample behind a signal";
        let mut family =
            encoder.encode_descriptor("rlscaler_signal_age_seconds", help, None, gauge.metric_type())?;
        for (key, name, signal) in signals(samples) {
            if let Some(age_secs) = signal.age_secs {
                ConstGauge::new(age_secs).encode(family.encode_family(&signal_labels(key, name))?)?;
            }
        }
        let counter = ConstCounter::new(0u64);
        let help = "Ticks at which a signal could not be acted on";
        let mut family =
            encoder.encode_descriptor("rlscaler_signal_failures", help, None, counter.metric_type())?;
        for (key, name, signal) in signals(samples) {
            ConstCounter::new(signal.failures).encode(family.encode_family(&signal_labels(key, name))?)?;
        }
        Ok(())
    }
}

fn signals(
    samples: &BTreeMap<PolicyKey, PolicySample>,
) -> impl Iterator<Item = (&PolicyKey, SignalName, &SignalSample)> {
    samples
        .iter()
        .flat_map(|(key, sample)| sample.signals.iter().map(move |(name, signal)| (key, *name, signal)))
}

fn labels(key: &PolicyKey) -> [(&'static str, &str); 2] {
    [("namespace", &key.namespace), ("policy", &key.name)]
}

fn signal_labels(key: &PolicyKey, name: SignalName) -> [(&'static str, &str); 3] {
    [("namespace", &key.namespace), ("policy", &key.name), ("signal", name.as_str())]
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    fn scrape(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn the_series_of_a_policy_vanish_with_it() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let key = PolicyKey { namespace: "shop".into(), name: "web".into() };
        let signal = SignalSample { age_secs: Some(7.5), failures: 3 };
        let sample = PolicySample {
            desired: 6,
            driver: "planner",
            model_doubt: Some("ForecastDrift"),
            model_takeovers: 2,
            scale_downs_undone: 2,
            signals: vec![(SignalName::Qps, signal)],
            ..PolicySample::default()
        };
        metrics.publish(key.clone(), sample);
        let text = scrape(&registry);
        assert!(text.contains("rlscaler_replicas_desired{namespace=\"shop\",policy=\"web\"} 6.0"), "{text}");
        assert!(
            text.contains(
                "rlscaler_signal_age_seconds{namespace=\"shop\",policy=\"web\",signal=\"qps\"} 7.5"
            )
        );
        assert!(
            text.contains(
                "rlscaler_signal_failures_total{namespace=\"shop\",policy=\"web\",signal=\"qps\"} 3"
            )
        );
        let undone = "rlscaler_scale_downs_undone_total{namespace=\"shop\",policy=\"web\"} 2";
        assert!(text.contains(undone), "{text}");
        assert!(!text.contains("rlscaler_replicas_shadow{"));
        assert!(text.contains("rlscaler_model_driving{namespace=\"shop\",policy=\"web\"} 0.0"), "{text}");
        assert!(text.contains(
            "rlscaler_model_doubt{namespace=\"shop\",policy=\"web\",reason=\"ForecastDrift\"} 1.0"
        ));
        assert!(text.contains("rlscaler_model_takeovers_total{namespace=\"shop\",policy=\"web\"} 2"));
        assert!(!text.contains("rlscaler_model_multiplier_ratio{"));
        metrics.forget(&key);
        assert!(!scrape(&registry).contains("shop"));
    }

    #[test]
    fn label_values_cannot_break_out() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let key = PolicyKey { namespace: "shop".into(), name: "web".into() };
        let sample = PolicySample { model: "a\"} 1\nevil\\ 2\u{202e}".into(), ..PolicySample::default() };
        metrics.publish(key, sample);
        let text = scrape(&registry);
        assert!(!text.contains("\nevil"), "{text}");
        assert!(text.contains(r#"a\"} 1\nevil\\ 2"#), "{text}");
    }

    #[test]
    fn a_name_of_253_characters_is_a_label_like_any_other() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let key = PolicyKey { namespace: "n".repeat(63), name: "a".repeat(253) };
        metrics.publish(key, PolicySample { desired: 6, ..PolicySample::default() });
        let line = format!(
            "rlscaler_replicas_desired{{namespace=\"{}\",policy=\"{}\"}} 6.0",
            "n".repeat(63),
            "a".repeat(253)
        );
        assert!(scrape(&registry).contains(&line));
    }
}
