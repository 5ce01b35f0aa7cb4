//! The objects of the demo. In: a plan. Out: JSON, which is YAML too, with every time divided by K. Pure.

use serde_json::{Value, json};

use super::plan::{
    HPA_CPU_PERCENT, HPA_DOWN_WINDOW_SECS, INTERVAL_SECS, MAX_REPLICAS, MIN_REPLICAS,
    POLICY_DOWN_WINDOW_SECS, Plan, WINDOW_SECS,
};

/// Where the services live.
pub const NAMESPACE: &str = "shop";
/// The Deployment under the policy, and the policy.
pub const POLICY: &str = "web";
/// The Deployment under the HPA, and the HPA.
pub const HPA: &str = "web-hpa";

/// CPU request of one pod, millicores. Any: scalers see shares of it.
const CPU_REQUEST_MILLICORES: u32 = 500;

/// A Deployment whose pods take a stated time to become ready.
#[derive(Debug, Clone, Copy)]
pub struct Service<'a> {
    /// Its name, and the value of its label `app`.
    pub name: &'a str,
    /// Replicas it starts with.
    pub replicas: u32,
    /// Shortest and longest start-up, milliseconds of the wall.
    pub startup_wall_ms: (u32, u32),
}

/// The Deployment. kwok draws a start-up uniformly between the two annotations `delay` and `jitter-delay`.
#[must_use]
pub fn deployment(service: Service<'_>) -> Value {
    let Service { name, replicas, startup_wall_ms: (shortest, longest) } = service;
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {
                    "labels": {"app": name},
                    "annotations": {
                        // Being created takes no time, so that becoming ready takes all of it.
                        "pod-create.stage.kwok.x-k8s.io/delay": "1ms",
                        "pod-create.stage.kwok.x-k8s.io/jitter-delay": "1ms",
                        "pod-ready.stage.kwok.x-k8s.io/delay": format!("{shortest}ms"),
                        "pod-ready.stage.kwok.x-k8s.io/jitter-delay": format!("{longest}ms"),
                    },
                },
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "server",
                        "image": "example.com/web",
                        "resources": {"requests": {"cpu": format!("{CPU_REQUEST_MILLICORES}m")}},
                    }],
                },
            },
        },
    })
}

/// Everything but the scalers: the namespace and both Deployments.
#[must_use]
pub fn services(plan: &Plan) -> Value {
    let service = |name| {
        deployment(Service { name, replicas: plan.start_replicas, startup_wall_ms: plan.startup_wall_ms() })
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    json!({"apiVersion": "v1", "kind": "List", "items": [namespace, service(POLICY), service(HPA)]})
}

/// What a person would write for this service, with every time divided by K.
#[must_use]
pub fn policy(plan: &Plan) -> Value {
    json!({
        "apiVersion": "rlscaler.io/v1alpha1",
        "kind": "RLReplicaPolicy",
        "metadata": {"name": POLICY, "namespace": NAMESPACE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": POLICY},
            "minReplicas": MIN_REPLICAS,
            "maxReplicas": MAX_REPLICAS,
            "mode": "Auto",
            "intervalSeconds": plan.wall_secs(INTERVAL_SECS),
            "objective": {"latency": {"targetMilliseconds": plan.target_wall_ms()}, "slaPercent": "99"},
            "signals": {"requests": {"histogram": {
                "source": "default",
                "metric": "http_request_duration_seconds",
                "matchers": format!("namespace=\"{NAMESPACE}\",app=\"{POLICY}\""),
                "windowSeconds": plan.wall_secs(WINDOW_SECS),
            }}},
            "capacity": {
                "concurrency": plan.profile.service.workers,
                "serviceMilliseconds": plan.service_wall_ms(),
            },
            "startupSeconds": plan.profile.startup.p90_secs as u32 / plan.speed,
            "cost": {"perReplicaHour": format!("{:.4}", plan.wall_price_per_replica_hour()), "currency": "USD"},
            "behavior": behavior(plan, POLICY_DOWN_WINDOW_SECS),
        },
    })
}

/// A stock HPA on CPU, its defaults divided by K.
#[must_use]
pub fn hpa(plan: &Plan) -> Value {
    json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": HPA, "namespace": NAMESPACE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": HPA},
            "minReplicas": MIN_REPLICAS,
            "maxReplicas": MAX_REPLICAS,
            "metrics": [{
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": HPA_CPU_PERCENT}},
            }],
            "behavior": behavior(plan, HPA_DOWN_WINDOW_SECS),
        },
    })
}

/// The default `behavior` of both scalers; only the down-window differs.
fn behavior(plan: &Plan, down_window_secs: u32) -> Value {
    let period = plan.wall_secs(INTERVAL_SECS);
    let double = json!({"type": "Percent", "value": 100, "periodSeconds": period});
    json!({
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": 4, "periodSeconds": period}, double],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": plan.wall_secs(down_window_secs),
            "policies": [double],
        },
    })
}

/// The operator's configuration.
#[must_use]
pub fn sources(prometheus_url: &str) -> Value {
    json!({"sources": [{"name": "default", "url": prometheus_url, "timeoutSeconds": 5}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(speed: u32) -> Plan {
        Plan::new(speed, 1.0, "gen:step:1", 1).unwrap()
    }

    #[test]
    fn the_factor_divides_every_time_of_both_scalers() {
        let times = |speed| {
            let (policy, hpa) = (policy(&plan(speed)), hpa(&plan(speed)));
            [
                policy.pointer("/spec/intervalSeconds"),
                policy.pointer("/spec/startupSeconds"),
                policy.pointer("/spec/signals/requests/histogram/windowSeconds"),
                policy.pointer("/spec/behavior/scaleUp/policies/0/periodSeconds"),
                policy.pointer("/spec/behavior/scaleUp/policies/1/periodSeconds"),
                policy.pointer("/spec/behavior/scaleDown/stabilizationWindowSeconds"),
                policy.pointer("/spec/behavior/scaleDown/policies/0/periodSeconds"),
                hpa.pointer("/spec/behavior/scaleUp/policies/0/periodSeconds"),
                hpa.pointer("/spec/behavior/scaleDown/stabilizationWindowSeconds"),
            ]
            .map(|time| time.unwrap().as_u64().unwrap())
        };
        assert_eq!(times(1), [15, 60, 30, 15, 15, 30, 15, 15, 300]);
        assert_eq!(times(5), times(1).map(|time| time / 5));
    }

    #[test]
    fn both_scalers_have_the_same_bounds_and_steps() {
        let (policy, hpa) = (policy(&plan(5)), hpa(&plan(5)));
        for field in ["/spec/minReplicas", "/spec/maxReplicas", "/spec/behavior/scaleUp"] {
            assert_eq!(policy.pointer(field), hpa.pointer(field), "{field}");
        }
    }
}
