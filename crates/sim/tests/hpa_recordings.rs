//! Our HPA against what the real one was recorded to decide. `cargo xtask differential --record FILE` makes a recording;
//! a test of xtask makes a fresh one each time.

use std::fs;
use std::path::Path;

use rlscaler_sim::recorded_hpa::replay;

/// Decisions that must be compared at the least, over all recordings.
const DECISIONS: usize = 300;

/// Every kind must have been met this often.
const OF_EACH_KIND: usize = 5;

const KINDS: [&str; 16] = [
    "scaled up",
    "scaled down",
    "left alone though metrics ask for change",
    "metrics ask for what is there",
    "nothing to compute from",
    "scaling disabled at zero",
    "outside the bounds",
    "with an ignored pod",
    "with an unready pod",
    "with a pod without metric",
    "with a pod without request",
    "held below what metrics ask for",
    "held above what metrics ask for",
    "with behavior",
    "without behavior",
    "with a tolerance of its own",
];

#[test]
fn ours_decides_what_the_real_hpa_was_recorded_to_decide() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings");
    let (mut compared, mut kinds) = (0, std::collections::BTreeMap::new());
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let found = replay(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(found.differences, Vec::<String>::new(), "{}", path.display());
        compared += found.compared;
        for (kind, count) in found.kinds {
            *kinds.entry(kind).or_insert(0) += count;
        }
    }
    println!("{compared} decisions: {kinds:?}");
    assert!(DECISIONS <= compared, "{compared}");
    let rare: Vec<&str> =
        KINDS.into_iter().filter(|kind| kinds.get(kind).copied().unwrap_or(0) < OF_EACH_KIND).collect();
    assert_eq!(rare, Vec::<&str>::new(), "{kinds:?}");
}

#[test]
fn a_wrong_answer_is_found_and_a_broken_line_is_refused() {
    let controller = r#"{"controller":{"kubernetes":"v1.36.3","seed":1,"tolerance":0.1,"cpu_initialization_secs":120.0,"initial_readiness_secs":30.0,"down_window_secs":3.0}}"#;
    let service = r#"{"service":{"service":0,"min":1,"max":9,"target":50}}"#;
    let decision = |wanted: u32, desired: u32| {
        format!(
            r#"{{"decision":{{"service":0,"time":1.0,"current":2,"pods":[{{"request":100,"started":-500,"ready":["True",-490],"metric":[80,0,15.0]}}],"wanted":{wanted},"desired":{desired}}}}}"#
        )
    };
    let check = |lines: &[&str], expected: Result<&[&str], &str>| {
        let found = replay(&lines.join("\n")).map(|replay| replay.differences);
        let begins = |found: &str, with: &str| assert!(found.starts_with(with), "{found}");
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                assert_eq!(found.len(), expected.len(), "{found:?}");
                found.iter().zip(expected).for_each(|(found, with)| begins(found, with));
            }
            (Err(found), Err(with)) => begins(&found, with),
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        }
    };
    check(&[controller, service, &decision(2, 2)], Ok(&[]));
    check(
        &[controller, service, &decision(3, 3)],
        Ok(&["line 3: metrics ask for Some(2), the original said Some(3)"]),
    );
    check(&[controller, service, &decision(2, 4)], Ok(&["line 3: desired 2, the original said 4"]));
    check(&[controller, &decision(2, 2)], Err("line 2: expected its service first"));
    check(&[controller, "{"], Err("line 2: "));
}
