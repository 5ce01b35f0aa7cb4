//! Prometheus' text format. In: counters of each workload. Out: what a gateway before these services would expose, in
//! wall time. Pure. <https://prometheus.io/docs/instrumenting/exposition_formats/>
//!
//! A request without an answer (dropped or timed out) is in the histogram's open bucket only, so that the share
//! within any bound is a share of the *offered* requests.

use std::fmt::Write;

use rlscaler_sim::model::ServiceModel;

use crate::load::Counters;
use crate::pods::Workload;

/// Content type of the format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The whole page.
pub(crate) fn page(workloads: &[(&Workload, &Counters)], model: &ServiceModel, speed: f64) -> String {
    let mut page = String::from(
        "# HELP http_requests_total Requests that ended, by status code.\n# TYPE http_requests_total counter\n",
    );
    for (workload, counters) in workloads {
        let outcomes = [("200", counters.answered), ("503", counters.dropped), ("504", counters.timed_out)];
        for (code, count) in outcomes {
            line(&mut page, "http_requests_total", workload, &format!(",code=\"{code}\""), count as f64);
        }
    }
    page += "# HELP http_request_duration_seconds Time from arrival to answer.\n# TYPE http_request_duration_seconds histogram\n";
    for (workload, counters) in workloads {
        histogram(&mut page, workload, counters, model, speed);
    }
    page +=
        "# HELP http_requests_waiting Requests waiting for a worker.\n# TYPE http_requests_waiting gauge\n";
    for (workload, counters) in workloads {
        line(&mut page, "http_requests_waiting", workload, "", counters.waiting as f64);
    }
    page
}

fn histogram(page: &mut String, workload: &Workload, counters: &Counters, model: &ServiceModel, speed: f64) {
    let name = "http_request_duration_seconds";
    let mut below = 0;
    for (bound, count) in counters.latencies.bounds().iter().zip(counters.latencies.counts()) {
        below += count;
        let bound = to_nanos(bound / speed);
        line(page, &format!("{name}_bucket"), workload, &format!(",le=\"{bound}\""), below as f64);
    }
    let ended = counters.answered + counters.dropped + counters.timed_out;
    line(page, &format!("{name}_bucket"), workload, ",le=\"+Inf\"", ended as f64);
    let waited_in_vain_secs = counters.timed_out as f64 * model.timeout_secs;
    let sum_secs = (counters.latencies.sum_secs() + waited_in_vain_secs) / speed;
    line(page, &format!("{name}_sum"), workload, "", sum_secs);
    line(page, &format!("{name}_count"), workload, "", ended as f64);
}

/// Bounds are rounded so that a target of whole milliseconds is found by equality.
fn to_nanos(secs: f64) -> f64 {
    const NANOS: f64 = 1e9;
    (secs * NANOS).round() / NANOS
}

fn line(page: &mut String, name: &str, workload: &Workload, more_labels: &str, value: f64) {
    let Workload { namespace, deployment } = workload;
    // Names of namespaces and Deployments hold nothing that would need escaping. Writing to a string cannot fail.
    let _ = writeln!(page, "{name}{{namespace=\"{namespace}\",app=\"{deployment}\"{more_labels}}} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use rlscaler_sim::histogram::Histogram;

    #[test]
    fn the_page_is_in_wall_time_and_counts_the_unanswered_above_every_bound() {
        let mut latencies = Histogram::new(Arc::from([0.1, 0.25]));
        [0.05, 0.2, 0.2, 3.0].into_iter().for_each(|latency| latencies.record(latency));
        let counters = Counters { answered: 4, dropped: 1, timed_out: 2, waiting: 9, latencies };
        let workload = Workload::new("shop", "web");
        let page = page(&[(&workload, &counters)], &ServiceModel::new(4, 0.05, 0.25), 5.0);
        let lines: Vec<_> = page.lines().filter(|line| !line.starts_with('#')).collect();
        let labels = "namespace=\"shop\",app=\"web\"";
        let expected = [
            format!("http_requests_total{{{labels},code=\"200\"}} 4"),
            format!("http_requests_total{{{labels},code=\"503\"}} 1"),
            format!("http_requests_total{{{labels},code=\"504\"}} 2"),
            format!("http_request_duration_seconds_bucket{{{labels},le=\"0.02\"}} 1"),
            format!("http_request_duration_seconds_bucket{{{labels},le=\"0.05\"}} 3"),
            format!("http_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 7"),
            format!("http_request_duration_seconds_sum{{{labels}}} {}", (3.45 + 20.0) / 5.0),
            format!("http_request_duration_seconds_count{{{labels}}} 7"),
            format!("http_requests_waiting{{{labels}}} 9"),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn every_family_is_declared_once_and_together() {
        let counters = Counters {
            answered: 0,
            dropped: 0,
            timed_out: 0,
            waiting: 0,
            latencies: Histogram::new(Arc::from([1.0])),
        };
        let (web, api) = (Workload::new("shop", "web"), Workload::new("shop", "api"));
        let page = page(&[(&web, &counters), (&api, &counters)], &ServiceModel::new(1, 1.0, 1.0), 1.0);
        let families: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        assert_eq!(
            families,
            [
                "http_requests_total counter",
                "http_request_duration_seconds histogram",
                "http_requests_waiting gauge"
            ]
        );
        assert!(page.ends_with('\n'));
    }
}
