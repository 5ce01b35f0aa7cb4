//! Suites that ship, and suites that are wrong.

use super::*;
use crate::suite::from_file;

/// A shipped suite without the traces that do not ship.
fn shipped(name: &str) -> Suite {
    let wishes = Wishes { missing: Missing::LeaveOut, ..Wishes::default() };
    from_file(Some(name), &wishes).unwrap()
}

/// Every trace a model was trained or chosen on.
fn used() -> Vec<String> {
    let chosen = rlscaler_rl::choosing::cases();
    let trained = rlscaler_rl::episodes::training_traces();
    let trained = trained.iter().map(|trace| trace.name().to_owned());
    trained.chain(chosen.iter().map(|case| case.trace.name().to_owned())).collect()
}

#[test]
fn the_standing_suite_can_be_read() {
    let suite = from_file(None, &Wishes::default()).unwrap();
    assert!(10 <= suite.cases.len() && suite.contestants.len() == DEFAULT_SCALERS.len());
}

#[test]
fn what_is_reported_on_was_never_trained_or_chosen_on() {
    let used = used();
    for name in ["standing", "reporting", "reporting-robustness"] {
        for case in &shipped(name).cases {
            assert!(!used.contains(&case.trace), "{name}: {} is not unseen", case.trace);
        }
    }
}

#[test]
fn the_choosing_suite_chooses_on_every_choosing_trace_and_on_no_other() {
    let suite = shipped("choosing");
    let mut main: Vec<&str> =
        suite.cases.iter().filter(|case| case.role == Role::Main).map(|case| case.trace.as_str()).collect();
    main.dedup();
    let chosen = rlscaler_rl::choosing::cases();
    let expected: Vec<&str> = chosen.iter().map(|case| case.trace.name()).collect();
    assert_eq!(main, expected);
    for case in &suite.cases {
        let bursts = case.trace.starts_with("gen:bursts:80");
        assert!(bursts || expected.contains(&case.trace.as_str()), "{}", case.trace);
    }
    assert!(suite.left_out.is_empty());
}

#[test]
fn robustness_is_chosen_on_choosing_traces_and_told_nothing_of_what_is_wrong() {
    let chosen = rlscaler_rl::choosing::cases();
    let suite = shipped("robustness");
    let robust: Vec<&Case> = suite.cases.iter().filter(|case| case.role == Role::Robust).collect();
    for case in &suite.cases {
        assert!(chosen.iter().any(|known| known.trace.name() == case.trace), "{}", case.trace);
        assert_eq!(case.told_lag_secs, 15.0);
    }
    for wrong in [
        |case: &Case| case.scenario.true_capacity == 0.7,
        |case: &Case| case.scenario.true_capacity == 1.3,
        |case: &Case| case.scenario.metrics.lag_secs == 60.0,
        |case: &Case| case.scenario.metrics.missing == 0.1,
    ] {
        assert_eq!(robust.iter().filter(|case| wrong(case)).count() * 4, robust.len());
    }
    assert!(suite.contestants.iter().all(|who| who.family() == "hpa" || who.ladder.len() == 1));
}

#[test]
fn a_trace_that_does_not_ship_is_refused_or_left_out_and_named() {
    let fault = from_file(Some("reporting"), &Wishes::default()).err().unwrap().to_string();
    assert!(fault.contains("worldcup98") && fault.contains("--traces-folder"), "{fault}");
    let suite = shipped("reporting");
    assert_eq!(suite.left_out.len(), 1);
    assert!(suite.left_out[0].starts_with("worldcup98"));
}

#[test]
fn a_trace_is_found_in_the_folder_that_was_named() {
    let folder = std::env::temp_dir().join(format!("rlscaler-traces-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let rates = (0..10_080).map(|minute| format!("{},{}\n", 60 * minute, 5 + minute % 7)).collect::<String>();
    let file = folder.join("worldcup98_1998-06-22_week_1min.csv");
    std::fs::write(&file, format!("t_seconds,requests_per_second\n{rates}")).unwrap();
    let wishes = Wishes { traces_folder: Some(folder.clone()), ..Wishes::default() };
    let suite = from_file(Some("reporting"), &wishes);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(suite.unwrap().cases.iter().any(|case| case.trace.starts_with("worldcup98")));
}

#[test]
fn every_case_is_judged_at_each_sla_in_the_same_world() {
    let text = "version = 1\nname = \"t\"\nsla_percents = [99, 99.9]\nseeds = 1\nscalers = [\"planner\"]\n\
                [[cases]]\ntraces = [\"gen:step:1\", \"gen:step:2\"]\nprofiles = [\"web\"]\nhours = 1\n";
    let suite = parse(text, "my.toml", &Wishes::default()).unwrap();
    let seen: Vec<(usize, f64)> = suite.cases.iter().map(|case| (case.world, case.sla)).collect();
    let strict = 99.9 / 100.0;
    assert_eq!(seen, [(0, 0.99), (0, strict), (1, 0.99), (1, strict)]);
    assert_eq!(suite.cases[1].label(), "gen:step:1 / web, SLA 99.9 %");
}

#[test]
fn a_wrong_suite_is_refused_with_its_field() {
    let good = "version = 1\nname = \"t\"\nsla_percent = 99\nseeds = 1\nscalers = [\"planner\"]\n\
                [[cases]]\ntraces = [\"gen:step:1\"]\nprofiles = [\"web\"]\nhours = 1\n";
    assert!(parse(good, "my.toml", &Wishes::default()).is_ok());
    for (from, to, named) in [
        ("version = 1", "version = 2", "version: expected 1, found 2"),
        ("seeds = 1", "seeds = 0", "seeds: expected 1 to 1000, found 0"),
        ("seeds = 1", "sedes = 1", "sedes"),
        ("99", "100", "sla_percent: expected a percentage over 0 and under 100, found 100"),
        ("sla_percent = 99", "sla_percents = [99, 99]", "sla_percents: expected every percentage once"),
        ("sla_percent = 99", "sla_percents = []", "sla_percents: expected at least one percentage"),
        ("sla_percent = 99", "", "sla_percent: expected it or sla_percents"),
        ("\"planner\"", "\"hpa:x\"", "scalers: expected "),
        ("\"planner\"", "\"planner\", \"planner\"", "`planner` twice"),
        ("\"planner\"", "\"rl:nowhere\"", "scalers: nowhere"),
        ("gen:step:1", "gen:stop:1", "gen:stop:1: expected "),
        ("\"web\"", "\"wab\"", "wab: cannot be read"),
        ("hours = 1", "hours = 500", "cases[0].hours: expected a trace at least as long"),
        ("hours = 1", "hours = -1", "cases[0].hours: expected 0.01 to 8760, found -1"),
        ("hours = 1", "role = \"mian\"", "main"),
        ("hours = 1", "role = \"robust\"", "cases: expected a case with role main"),
    ] {
        let text = good.replacen(from, to, 1);
        let fault = parse(&text, "my.toml", &Wishes::default()).err().unwrap().to_string();
        assert!(fault.contains(named), "{from} -> {to}: {fault}");
    }
}
