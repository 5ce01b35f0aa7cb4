//! One table for each sentence of the contract on overrides.

use proptest::prelude::*;

use super::*;

const NOW: &str = "2026-11-30T12:00:00Z";
const LATER: &str = "2026-11-30T12:00:01Z";
const EARLIER: &str = "2026-11-30T11:59:59Z";

fn time(text: &str) -> Timestamp {
    scalar::time(text).expect("a valid time")
}

fn annotated(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| (format!("{}{key}", annotations::PREFIX), (*value).to_owned())).collect()
}

fn spec(mode: OverrideMode) -> OverrideSpec {
    OverrideSpec { mode, replicas: (mode == OverrideMode::Pin).then_some(9), reason: None, until: None }
}

fn pin(replicas: u32) -> Override {
    Override::Pin { replicas, allow_out_of_bounds: false }
}

/// What the annotations and the spec's mode ask for at [`NOW`].
fn will(pairs: &[(&str, &str)], mode: Option<OverrideMode>) -> Override {
    resolve(&annotated(pairs), mode.map(spec).as_ref(), time(NOW)).will
}

type Case<'a> = (&'a [(&'a str, &'a str)], Option<OverrideMode>, Override);

fn check(cases: &[Case]) {
    for (pairs, mode, expected) in cases {
        assert_eq!(will(pairs, *mode), *expected, "{pairs:?} over {mode:?}");
    }
}

#[test]
fn nothing_written_is_automatic() {
    let resolved = resolve(&BTreeMap::new(), None, time(NOW));
    assert_eq!(resolved, Resolved::default());
    assert_eq!(resolve(&annotated(&[("override-reason", "sale")]), None, time(NOW)), Resolved::default());
}

#[test]
fn each_annotation_and_each_mode_means_what_it_says() {
    check(&[
        (&[("pause", "true")], None, Override::Pause),
        (&[("replicas", "12")], None, pin(12)),
        (&[("replicas", "0")], None, pin(0)),
        (&[("pause-scale-down", "true")], None, Override::PauseScaleDown),
        (&[("pause-scale-up", "true")], None, Override::PauseScaleUp),
        (&[], Some(OverrideMode::Pause), Override::Pause),
        (&[], Some(OverrideMode::Pin), pin(9)),
        (&[], Some(OverrideMode::PauseScaleDown), Override::PauseScaleDown),
        (&[], Some(OverrideMode::PauseScaleUp), Override::PauseScaleUp),
    ]);
}

#[test]
fn any_override_annotation_outranks_the_spec() {
    check(&[
        (&[("pause-scale-up", "true")], Some(OverrideMode::Pin), Override::PauseScaleUp),
        (&[("pause-scale-down", "true")], Some(OverrideMode::Pause), Override::PauseScaleDown),
        (&[("pause", "true")], Some(OverrideMode::Pin), Override::Pause),
        (&[("replicas", "3")], Some(OverrideMode::Pin), pin(3)),
        (&[("pause-scale-up", "false")], Some(OverrideMode::Pause), Override::None),
        (&[("override-reason", "sale")], Some(OverrideMode::Pause), Override::Pause),
    ]);
}

#[test]
fn within_one_source_pin_outranks_pause_outranks_one_direction() {
    check(&[
        (&[("replicas", "3"), ("pause", "true")], None, pin(3)),
        (&[("replicas", "3"), ("pause-scale-down", "true")], None, pin(3)),
        (&[("pause", "true"), ("pause-scale-up", "true")], None, Override::Pause),
        (&[("pause-scale-up", "true"), ("pause-scale-down", "true")], None, Override::Pause),
        (&[("pause-scale-up", "false"), ("pause-scale-down", "true")], None, Override::PauseScaleDown),
    ]);
}

#[test]
fn pause_false_is_an_explicit_automatic_and_outranks_a_paused_spec() {
    check(&[
        (&[("pause", "false")], None, Override::None),
        (&[("pause", "false")], Some(OverrideMode::Pause), Override::None),
        (&[("pause", "false")], Some(OverrideMode::Pin), Override::None),
        (&[("pause", "false"), ("replicas", "3")], Some(OverrideMode::Pause), pin(3)),
        (&[("pause", "false"), ("pause-scale-down", "true")], None, Override::PauseScaleDown),
    ]);
}

#[test]
fn junk_pauses_and_is_named() {
    for (key, value) in [
        ("pause", "yes"),
        ("pause", "True"),
        ("pause", ""),
        ("pause", "1"),
        ("replicas", "twelve"),
        ("replicas", "-1"),
        ("replicas", "12.5"),
        ("replicas", ""),
        ("replicas", "100001"),
        ("pause-scale-down", "on"),
        ("pause-scale-up", " true"),
        ("override-until", "tomorrow"),
        ("override-until", "2027-01-01"),
        ("allow-out-of-bounds", "yes"),
    ] {
        let resolved = resolve(&annotated(&[(key, value)]), Some(&spec(OverrideMode::Pin)), time(NOW));
        assert_eq!(resolved.will, Override::Pause, "{key}: {value}");
        let warning = resolved.invalid().expect("a warning");
        assert_eq!(warning.event(), EventReason::OverrideInvalid);
        assert!(warning.to_string().contains(&format!("rlscaler.io/{key}")), "{warning}");
    }
}

#[test]
fn junk_in_what_a_pin_does_not_need_leaves_the_pin_and_is_named() {
    let resolved = resolve(&annotated(&[("replicas", "3"), ("pause", "maybe")]), None, time(NOW));
    assert_eq!(resolved.will, pin(3));
    assert!(resolved.invalid().is_some());
    let cases: [&[(&str, &str)]; 3] = [
        &[("replicas", "3"), ("override-until", "soon")],
        &[("replicas", "3"), ("allow-out-of-bounds", "yes")],
        &[("replicas", "3"), ("pause", "maybe"), ("override-until", "soon")],
    ];
    for pairs in cases {
        assert_eq!(will(pairs, None), Override::Pause, "{pairs:?}");
    }
}

#[test]
fn leaving_the_bounds_has_to_be_allowed() {
    let allowed = Override::Pin { replicas: 99, allow_out_of_bounds: true };
    check(&[
        (&[("replicas", "99"), ("allow-out-of-bounds", "true")], None, allowed),
        (&[("replicas", "99"), ("allow-out-of-bounds", "false")], None, pin(99)),
        (
            &[("allow-out-of-bounds", "true")],
            Some(OverrideMode::Pin),
            Override::Pin { replicas: 9, allow_out_of_bounds: true },
        ),
    ]);
}

#[test]
fn an_override_ends_at_its_time() {
    for (until, applies) in [(LATER, true), (NOW, false), (EARLIER, false)] {
        let by_annotation =
            resolve(&annotated(&[("replicas", "3"), ("override-until", until)]), None, time(NOW));
        let by_spec = OverrideSpec { until: Some(until.to_owned()), ..spec(OverrideMode::Pin) };
        let by_spec = resolve(&BTreeMap::new(), Some(&by_spec), time(NOW));
        for resolved in [by_annotation, by_spec] {
            assert_eq!(resolved.will != Override::None, applies, "{until}");
            assert_eq!(resolved.until.is_some(), applies, "{until}");
            assert_eq!(resolved.expired().is_some(), !applies, "{until}");
            assert!(resolved.warnings.iter().all(|warning| warning.event() == EventReason::OverrideExpired));
        }
    }
}

#[test]
fn an_expired_annotation_is_told_and_leaves_the_spec_in_force() {
    let pairs = [("pause", "false"), ("override-until", EARLIER)];
    let resolved = resolve(&annotated(&pairs), Some(&spec(OverrideMode::Pause)), time(NOW));
    assert_eq!(resolved.will, Override::Pause);
    assert_eq!(resolved.from, Some(OverrideFrom::Spec));
    assert!(resolved.expired().expect("a warning").to_string().contains("rlscaler.io/override-until"));
}

#[test]
fn an_end_without_an_override_means_nothing() {
    let resolved = resolve(&annotated(&[("override-until", EARLIER)]), None, time(NOW));
    assert_eq!(resolved, Resolved::default());
    assert_eq!(will(&[("override-until", LATER)], Some(OverrideMode::Pin)), pin(9));
}

#[test]
fn a_broken_spec_pauses_and_is_named() {
    let without = OverrideSpec { replicas: None, ..spec(OverrideMode::Pin) };
    let negative = OverrideSpec { replicas: Some(-1), ..spec(OverrideMode::Pin) };
    let timeless = OverrideSpec { until: Some("soon".to_owned()), ..spec(OverrideMode::Pin) };
    for (spec, field) in [(without, "replicas"), (negative, "replicas"), (timeless, "until")] {
        let resolved = resolve(&BTreeMap::new(), Some(&spec), time(NOW));
        assert_eq!(resolved.will, Override::Pause, "{spec:?}");
        let warning = resolved.invalid().expect("a warning").to_string();
        assert!(warning.contains(&format!("spec.override.{field}")), "{warning}");
    }
}

#[test]
fn reason_and_place_are_told() {
    let pairs = [("replicas", "3"), ("override-reason", "sale"), ("override-until", LATER)];
    let resolved = resolve(&annotated(&pairs), None, time(NOW));
    assert_eq!(resolved.reason.as_deref(), Some("sale"));
    assert_eq!(resolved.annotation, Some(annotations::REPLICAS));
    assert_eq!(resolved.from, Some(OverrideFrom::Annotation));
    assert_eq!(resolved.mode(), Some(OverrideMode::Pin));
    assert_eq!(resolved.until, Some(time(LATER)));
}

#[test]
fn a_reason_of_a_megabyte_is_cut() {
    let long = "x".repeat(1_000_000);
    let resolved = resolve(&annotated(&[("pause", "true"), ("override-reason", &long)]), None, time(NOW));
    assert_eq!(resolved.reason.map(|reason| reason.len()), Some(MAX_REASON_CHARS));
    let junk = resolve(&annotated(&[("pause", &long)]), None, time(NOW));
    assert!(junk.invalid().expect("a warning").to_string().len() < 256);
}

#[test]
fn a_misspelt_annotation_is_told_and_changes_nothing() {
    let resolved = resolve(&annotated(&[("puase", "true")]), None, time(NOW));
    assert_eq!(resolved.will, Override::None);
    assert_eq!(resolved.warnings.len(), 1);
    assert!(resolved.warnings[0].to_string().contains("rlscaler.io/puase"));
}

#[test]
fn conflicts_are_ignored_only_by_a_plain_true() {
    for (value, ignores) in [("true", true), ("True", false), ("yes", false), ("false", false)] {
        assert_eq!(ignores_conflicts(&annotated(&[("ignore-conflicts", value)])), ignores, "{value}");
    }
}

proptest! {
    #[test]
    fn no_annotation_makes_it_panic_and_what_cannot_be_read_never_runs_free(
        pause in proptest::option::of(".*"),
        replicas in proptest::option::of("(.*|[0-9]{1,12})"),
        down in proptest::option::of("(true|false|.*)"),
        until in proptest::option::of("(.*|[0-9T:Z+-]{0,30})"),
        other in ".*",
    ) {
        let mut annotations = BTreeMap::new();
        let keys = [annotations::PAUSE, annotations::REPLICAS, annotations::PAUSE_SCALE_DOWN, annotations::OVERRIDE_UNTIL];
        for (key, value) in keys.into_iter().zip([pause, replicas, down, until]) {
            if let Some(value) = value {
                annotations.insert(key.to_owned(), value);
            }
        }
        annotations.insert(format!("rlscaler.io/{other}"), other);
        let resolved = resolve(&annotations, None, time(NOW));
        if resolved.invalid().is_some() && resolved.expired().is_none() {
            let held = matches!(resolved.will, Override::Pause | Override::Pin { .. });
            prop_assert!(held);
        }
        for warning in &resolved.warnings {
            prop_assert!(warning.to_string().chars().count() < 400);
        }
    }
}
