//! Which pods count, with which number, as a table.

use super::*;

const NOW: i64 = 1_800_000_000;

fn at(secs_ago: i64) -> Timestamp {
    Timestamp::from_second(NOW - secs_ago).unwrap()
}

fn pod(name: &str, ready_for_secs: i64) -> ReadyPod {
    ReadyPod { name: name.into(), ready_since: Some(at(ready_for_secs)) }
}

fn metrics(name: &str, secs_ago: i64, cpu: &[&str]) -> PodMetrics {
    let containers: Vec<_> =
        cpu.iter().map(|cpu| serde_json::json!({"name": "c", "usage": {"cpu": cpu}})).collect();
    serde_json::from_value(serde_json::json!({
        "metadata": {"name": name, "namespace": "shop"},
        "timestamp": at(secs_ago).to_string(), "window": "30s", "containers": containers,
    }))
    .unwrap()
}

fn used(pods: &[ReadyPod], list: &[PodMetrics]) -> Result<CpuUse, ReadFault> {
    sum(pods, list, at(0), 60.0)
}

#[test]
fn containers_and_pods_are_summed_and_the_oldest_sample_gives_the_time() {
    let pods = [pod("a", 600), pod("b", 600)];
    let list = [metrics("a", 10, &["250m", "1"]), metrics("b", 20, &["500000000n"])];
    let expected = CpuUse { cores: 1.75, sample_time: at(20), counted: 2, new: 0, filled_in: 0 };
    assert_eq!(used(&pods, &list), Ok(expected));
}

// Cases 15 and 29: pods that are not the target's, or are gone, are not looked at.
#[test]
fn a_pod_that_is_not_in_the_list_of_ready_pods_does_not_count() {
    let list = [metrics("a", 10, &["1"]), metrics("deleted", 10, &["7"])];
    assert_eq!(used(&[pod("a", 600)], &list).unwrap().cores, 1.0);
}

// Case 27: 2 pods with load, 2 new ones without samples. Filling them in would double the sum and scale up again.
#[test]
fn a_new_pod_without_a_sample_adds_nothing() {
    let pods = [pod("a", 600), pod("b", 600), pod("c", 59), pod("d", 1)];
    let list = [metrics("a", 10, &["1"]), metrics("b", 10, &["1"])];
    let used = used(&pods, &list).unwrap();
    assert_eq!((used.cores, used.new, used.filled_in), (2.0, 2, 0));
}

// Case 24: the storm of a start is not load.
#[test]
fn a_sample_whose_window_began_before_the_pod_was_ready_is_not_load() {
    let pods = [pod("a", 600), pod("b", 39), pod("c", 41)];
    let list = [metrics("a", 10, &["1"]), metrics("b", 10, &["9"]), metrics("c", 10, &["1"])];
    let used = used(&pods, &list).unwrap();
    assert_eq!((used.cores, used.counted, used.new), (2.0, 2, 1));
}

// Case 1's neighbour: the metrics server is blind for a node. That is not idleness.
#[test]
fn an_old_pod_without_a_sample_counts_as_the_mean_of_the_others() {
    let pods = [pod("a", 600), pod("b", 600), pod("c", 60), pod("d", 600)];
    let list = [metrics("a", 10, &["1"]), metrics("b", 10, &["3"]), metrics("d", 61, &["9"])];
    let used = used(&pods, &list).unwrap();
    assert_eq!((used.cores, used.counted, used.filled_in), (8.0, 2, 2));
}

#[test]
fn more_than_half_without_a_sample_is_no_reading() {
    let pods = [pod("a", 600), pod("b", 600), pod("c", 600)];
    let fault = used(&pods, &[metrics("a", 10, &["1"])]).unwrap_err();
    assert_eq!(fault, ReadFault::PodsWithoutSamples { without: 2, ready: 3 });
    assert_eq!(used(&pods, &[]).unwrap_err(), ReadFault::PodsWithoutSamples { without: 3, ready: 3 });
    assert_eq!(used(&[], &[metrics("a", 10, &["1"])]), Err(ReadFault::NoReadyPods));
}

#[test]
fn old_samples_alone_are_given_with_their_age() {
    let used = used(&[pod("a", 600)], &[metrics("a", 300, &["1"])]).unwrap();
    assert_eq!((used.cores, used.sample_time), (1.0, at(300)));
}

#[test]
fn a_pod_that_cannot_be_read_in_full_counts_as_without_a_sample() {
    let pods = [pod("a", 600), pod("b", 600)];
    for broken in [metrics("b", 10, &["1", "-1"]), metrics("b", 10, &["x"]), metrics("b", 10, &[])] {
        let used = used(&pods, &[metrics("a", 10, &["2"]), broken]).unwrap();
        assert_eq!((used.cores, used.filled_in), (4.0, 1));
    }
}

#[test]
fn quantities_of_cpu_are_read_and_nothing_else() {
    for (text, cores) in [
        ("0", 0.0),
        ("250m", 0.25),
        ("1500u", 0.0015),
        ("250000000n", 0.25),
        ("1.5", 1.5),
        ("2e-1", 0.2),
        ("2k", 2000.0),
    ] {
        let read = parse_cores(text).unwrap();
        assert!((read - cores).abs() < 1e-12, "{text} gave {read}");
    }
    for text in ["", "m", "-1", "-250m", "NaN", "inf", "1 m", "1Ki", "0x1", "ñ", "é", "1é"] {
        assert_eq!(parse_cores(text), None, "{text}");
    }
}

#[test]
fn windows_are_go_durations() {
    for (text, millis) in [
        ("30s", 30_000),
        ("1m0s", 60_000),
        ("15.034s", 15_034),
        ("250ms", 250),
        ("1h1m1s", 3_661_000),
        ("", 0),
    ] {
        assert_eq!(parse_go_duration(text), Some(Duration::from_millis(millis)), "{text}");
    }
    for text in ["30", "s", "-1s", "1x", "1.2.3s"] {
        assert_eq!(parse_go_duration(text), None, "{text}");
    }
}

#[test]
fn what_is_shown_can_be_given_to_kubectl_get_raw() {
    assert_eq!(shown_query("shop", ""), "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods");
    assert_eq!(
        shown_query("shop", "app=web"),
        "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods?labelSelector=app=web"
    );
}
