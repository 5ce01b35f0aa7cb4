//! Goals counted over lines written by hand.

use super::*;

fn point(late_share: f64, replica_hours: f64) -> Point {
    Point { setting: "hpa".into(), stock: true, late_share, replica_hours }
}

/// A usual service at 99 %: the HPA with 0.9 % late at 10 hours.
fn line(own: Point) -> Line {
    Line {
        case: 0,
        label: "case".into(),
        seed: 1,
        role: Role::Main,
        sla: 0.99,
        own,
        changes_per_hour: 6.0,
        tuned_changes_per_hour: 4.0,
        outside_bounds: 0,
        as_told: None,
        late_anyway: 0.0,
        tuned: point(0.009, 10.0),
        hpa: vec![point(0.009, 10.0), point(0.002, 14.0)],
        over_hpa: None,
        over_planner: None,
    }
}

fn part(lines: &[Line]) -> GoalsPart {
    goals_part("rl", Some(0.99), &lines.iter().collect::<Vec<_>>())
}

#[test]
fn where_the_hpa_reaches_the_sla_a_late_or_dear_cell_misses() {
    let part = part(&[
        line(point(0.01, 10.0)),
        line(point(0.011, 5.0)),
        line(point(0.001, 10.1)),
        line(point(0.001, 8.0)),
    ]);
    assert_eq!((part.reached.cells, part.reached.as_good, part.unreached.cells), (4, 2, 0));
    let mean = (1.0_f64 * 0.5 * 1.01 * 0.8).powf(0.25);
    assert!((part.reached.geometric_mean.unwrap() - mean).abs() < 1e-5);
    assert_eq!(part.reached.holds, Some(false));
    let missed: Vec<(u8, f64)> = part.misses.iter().map(|miss| (miss.goal, miss.cost_ratio)).collect();
    assert_eq!(missed, [(1, 0.5), (1, 1.01)]);
}

#[test]
fn where_no_hpa_reaches_the_sla_fewer_late_at_no_more_cost_is_asked() {
    let unreached = |own: Point| Line { tuned: point(0.05, 10.0), ..line(own) };
    for (own, expected) in [
        (point(0.01, 20.0), 1),
        (point(0.049, 10.0), 1),
        (point(0.049, 10.1), 0),
        (point(0.05, 10.0), 0),
        (point(0.06, 1.0), 0),
    ] {
        let part = part(&[unreached(own.clone())]);
        assert_eq!((part.unreached.cells, part.unreached.as_good), (1, expected), "{own:?}");
        assert_eq!(part.reached.holds, None);
    }
}

#[test]
fn changes_are_held_against_the_median_of_the_hpa_and_a_limit() {
    let restless = |changes_per_hour| Line { changes_per_hour, ..line(point(0.0, 1.0)) };
    for (own, holds) in [(vec![6.0], true), (vec![6.1], false), (vec![1.0, 1.0, 31.0], false)] {
        let part = part(&own.iter().map(|changes| restless(*changes)).collect::<Vec<_>>());
        assert_eq!(part.changes.holds, Some(holds), "{own:?}");
    }
}

#[test]
fn a_cell_is_dominated_only_by_an_hpa_that_is_better_in_both() {
    for (own, dominated) in
        [(point(0.003, 15.0), 1), (point(0.003, 14.0), 0), (point(0.002, 15.0), 0), (point(0.01, 10.5), 1)]
    {
        let hard = Line { role: Role::Hard, ..line(own.clone()) };
        assert_eq!(part(&[hard]).hard.dominated, dominated, "{own:?}");
        let cold = Line { role: Role::Cold, ..line(own.clone()) };
        assert_eq!(part(std::slice::from_ref(&cold)).cold.dominated, dominated, "{own:?}");
        let mut tuned_only = cold;
        tuned_only.hpa.iter_mut().for_each(|point| point.stock = false);
        assert_eq!(part(&[tuned_only]).cold.dominated, 0);
    }
}

#[test]
fn a_late_share_may_double_where_something_is_wrong_and_no_decision_may_leave_the_bounds() {
    let robust = |late: f64, as_told: f64| Line {
        role: Role::Robust,
        as_told: Some(point(as_told, 10.0)),
        ..line(point(late, 10.0))
    };
    for (late, as_told, expected) in [
        (0.004, 0.002, (0, 0)),
        (0.004_1, 0.002, (1, 0)),
        (0.02, 0.005, (1, 1)),
        (0.000_2, 0.0, (0, 0)),
        (0.000_21, 0.0, (1, 0)),
    ] {
        let RobustPart { doubled, doubled_and_missed, holds, .. } = part(&[robust(late, as_told)]).robust;
        assert_eq!((doubled, doubled_and_missed), expected, "{late} {as_told}");
        assert_eq!(holds, Some(doubled == 0));
    }
    for (late_anyway, expected) in [(0.003_9, 0), (0.004, 0), (0.004_1, 1)] {
        let slow = Line { late_anyway, ..robust(0.005, 0.002) };
        let RobustPart { doubled, doubled_anyway, holds, .. } = part(&[slow]).robust;
        assert_eq!((doubled, doubled_anyway, holds), (1, expected, Some(false)), "{late_anyway}");
    }
    let outside = Line { outside_bounds: 1, ..robust(0.0, 0.0) };
    assert_eq!(part(&[outside]).robust.holds, Some(false));
}

#[test]
fn only_an_hpa_at_50_60_or_70_percent_with_its_default_window_is_one_that_nobody_tuned() {
    for (target_percent, down_window_secs, stock) in
        [(50, 300.0, true), (70, 300.0, true), (60, 60.0, false), (65, 300.0, false)]
    {
        assert_eq!(is_stock(Kind::Hpa { target_percent, down_window_secs }), stock);
    }
}

#[test]
fn cost_at_the_same_lateness_is_read_off_the_curve() {
    let curve = [point(0.001, 12.0), point(0.1, 8.0), point(0.05, 30.0)];
    for (at, expected) in
        [(point(0.1, 8.0), 1.0), (point(0.01, 10.0), 1.0), (point(0.5, 4.0), 2.0), (point(0.001, 6.0), 2.0)]
    {
        let matched = over(&curve, &[], &at).unwrap();
        assert!(matched.as_little_late && (matched.ratio - expected).abs() < 1e-9, "{at:?}: {matched:?}");
    }
    assert!(over(&curve[..1], &[], &point(0.5, 4.0)).is_none(), "one setting is no curve");
    let idle = [point(0.0, 3.0), point(0.2, 1.0)];
    assert_eq!(over(&idle, &[], &point(0.000_01, 3.0)).unwrap().ratio, 1.0, "below the floor all are equal");
}

#[test]
fn who_cannot_be_so_little_late_is_compared_where_it_is_least_late() {
    let curve = [point(0.01, 10.0), point(0.1, 8.0)];
    let rivals = [point(0.1, 10.0), point(0.001, 40.0)];
    let matched = over(&curve, &rivals, &rivals[1]).unwrap();
    assert!(!matched.as_little_late && (matched.ratio - 10.0 / 25.0).abs() < 1e-9, "{matched:?}");
}
