//! The policies a person would start from are valid, and show what their names promise.

use std::path::Path;

use rlscaler_api::policy::{Mode, OverrideMode};
use rlscaler_api::{Limits, RLReplicaPolicy, Validated, yaml};

fn read(name: &str) -> (RLReplicaPolicy, Validated) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    yaml::read_valid_policy(&text, name, Limits::default()).unwrap_or_else(|faults| {
        panic!("{}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    })
}

#[test]
fn every_example_is_valid_and_warns_of_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("the folder exists")
        .map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"))
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    names.sort();
    let expected = [
        "cpu-only.yaml",
        "shadow.yaml",
        "signals-one-by-one.yaml",
        "web-histogram.yaml",
        "with-override.yaml",
    ];
    assert_eq!(names, expected);
    for name in names {
        assert_eq!(read(&name).1.warnings, vec![], "{name}");
    }
}

#[test]
fn the_histogram_gives_load_latency_and_sla() {
    let (_, policy) = read("web-histogram.yaml");
    let declared = policy.settings.declared;
    assert!(declared.qps && declared.latency && declared.sla && declared.cpu);
    assert!(policy.settings.fallback.is_some() && policy.settings.price_per_replica_hour == Some(0.096));
}

#[test]
fn one_by_one_shows_every_signal() {
    let (_, policy) = read("signals-one-by-one.yaml");
    let declared = policy.settings.declared;
    assert!(declared.qps && declared.latency && declared.sla && declared.errors && declared.price);
    assert_eq!(policy.settings.bounds.min(), 0);
}

#[test]
fn cpu_only_needs_no_prometheus() {
    let (_, policy) = read("cpu-only.yaml");
    let declared = policy.settings.declared;
    assert!(declared.cpu && !declared.qps && !declared.latency && !declared.sla && !declared.price);
}

#[test]
fn the_override_pins_and_ends() {
    let (policy, _) = read("with-override.yaml");
    let will = policy.spec.override_.expect("an override");
    assert_eq!((will.mode, will.replicas, will.until.is_some()), (OverrideMode::Pin, Some(12), true));
}

#[test]
fn shadow_is_shadow() {
    assert_eq!(read("shadow.yaml").0.spec.mode, Mode::Shadow);
}
