//! The window against finite differences, and what it hands on.

use proptest::prelude::*;

use super::*;

const SERVICE: Service = Service { workers: 4, service_secs: 0.05, target_secs: 0.25, variability: 1.0 };
const END: State = State { ready: -0.2, ordered: 0.1, backlog: 0.03 };
const NOTHING: State = State { ready: 0.0, ordered: 0.0, backlog: 0.0 };
const WEIGHTS: Weights = Weights { replicas: 0.1, lateness: 5.0, change: 0.3, end: NOTHING };

fn window(load: &[f64]) -> Window<'_> {
    Window {
        service: SERVICE,
        load,
        slot_secs: 15.0,
        startup_slots: 2,
        timeout_secs: 10.0,
        burn_in: 1,
        softness: 0.5,
    }
}

fn total(window: &Window<'_>, orders: &[f64], end: State) -> f64 {
    cost(window, orders, &mut Scratch::default()).total(&Weights { end, ..WEIGHTS })
}

const UP: Lean = Lean { down: 0.0, up: 1.0 };
const DOWN: Lean = Lean { down: 1.0, up: 0.0 };
const HELD: Lean = Lean { down: 0.0, up: 0.0 };

fn gradient(window: &Window<'_>, orders: &[f64], lean: Lean) -> Vec<f64> {
    gradient_with(window, orders, &vec![lean; orders.len()], NOTHING)
}

fn gradient_with(window: &Window<'_>, orders: &[f64], leans: &[Lean], end: State) -> Vec<f64> {
    let mut gradient = vec![0.0; orders.len()];
    let weights = Weights { end, ..WEIGHTS };
    let _ = cost_and_gradient(window, (orders, leans), &weights, &mut Scratch::default(), &mut gradient);
    gradient
}

/// What the total rises by as all orders move by `step`, over it.
fn slope_together(window: &Window<'_>, orders: &[f64], step: f64) -> f64 {
    let moved: Vec<f64> = orders.iter().map(|order| order + step).collect();
    (total(window, &moved, NOTHING) - total(window, orders, NOTHING)) / step
}

/// Slope of the total along `lean`: the mean of both sides, `step` away.
fn slope(window: &Window<'_>, orders: &[f64], end: State, lean: &[f64], step: f64) -> f64 {
    let moved = |by: f64| orders.iter().zip(lean).map(|(o, d)| o + by * d).collect::<Vec<_>>();
    (total(window, &moved(step), end) - total(window, &moved(-step), end)) / (2.0 * step)
}

fn unit(slot: usize, slots: usize) -> Vec<f64> {
    (0..slots).map(|at| f64::from(u8::from(at == slot))).collect()
}

#[test]
fn what_was_simulated_before_with_the_same_memory_changes_nothing() {
    let mut scratch = Scratch::default();
    let slower = Service { service_secs: 0.1, ..SERVICE };
    for (service, load) in [(SERVICE, [5.0, 6.0, 7.5]), (SERVICE, [5.0, 9.0, 7.5]), (slower, [5.0, 9.0, 7.5])]
    {
        let window = Window { service, ..window(&load) };
        for orders in [[8.0, 8.0, 9.0], [10.0, 9.0, 7.0]] {
            let again = cost(&window, &orders, &mut scratch);
            assert_eq!(again, cost(&window, &orders, &mut Scratch::default()), "{load:?} {orders:?}");
        }
    }
}

#[test]
fn orders_below_the_load_are_late_and_those_far_above_are_not() {
    let load = [10.0; 8];
    let few = cost(&window(&load), &[5.0; 8], &mut Scratch::default());
    let many = cost(&window(&load), &[20.0; 8], &mut Scratch::default());
    assert_eq!(few.late_share, 1.0);
    assert!(few.late_share < few.lateness, "the soft term tells how far below");
    assert!(many.late_share < 1e-4, "{many:?}");
    assert_eq!((few.replicas, many.replicas, many.change), (5.0, 20.0, 0.0));
}

#[test]
fn an_order_serves_only_after_the_start_up_and_is_paid_for_at_once() {
    let load = [2.0, 2.0, 10.0, 10.0, 10.0, 10.0];
    let early = cost(&window(&load), &[14.0; 6], &mut Scratch::default());
    let late = cost(&window(&load), &[4.0, 4.0, 14.0, 14.0, 14.0, 14.0], &mut Scratch::default());
    assert!(early.late_share < 0.01 && 0.4 < late.late_share, "{early:?} {late:?}");
    assert_eq!(late.replicas, (4.0 + 4.0 * 14.0) / 5.0);
}

#[test]
fn a_window_without_load_costs_its_replicas_and_nothing_is_late() {
    let found = cost(&window(&[0.0; 4]), &[3.0; 4], &mut Scratch::default());
    assert_eq!((found.late_share, found.lateness, found.replicas), (0.0, 0.0, 3.0));
    assert!(gradient(&window(&[0.0; 4]), &[3.0; 4], UP).iter().all(|g| g.is_finite()));
}

#[test]
fn what_is_under_way_is_what_the_next_slot_begins_with() {
    let load = [2.0, 2.0, 9.0, 9.0, 9.0];
    let orders = [4.0, 4.0, 7.0, 12.0, 12.0];
    let mut scratch = Scratch::default();
    let end = cost(&window(&load), &orders, &mut scratch).end;
    // The same with a slot more: what the shorter one hands on is what this one has there.
    let longer = [2.0, 2.0, 9.0, 9.0, 9.0, 0.0];
    let _ = cost(&window(&longer), &[4.0, 4.0, 7.0, 12.0, 12.0, 12.0], &mut scratch);
    assert_eq!(state_before(&window(&longer), &orders, 5, &scratch), end);
    assert_eq!((end.ordered, end.ready), (12.0, 12.0));
    assert_eq!(state_before(&window(&longer), &orders, 4, &scratch).ready, 7.0);
    assert!(0.0 < end.backlog, "{end:?}");
}

#[test]
fn the_slots_add_up_to_the_whole_and_those_that_are_not_counted_add_nothing() {
    let load = [12.0, 9.0, 8.5, 9.0, 3.0, 11.0];
    let orders = [11.0, 8.0, 9.0, 10.0, 10.0, 6.0];
    let slots = by_slot(&window(&load), &orders, &WEIGHTS, &mut Scratch::default());
    let whole = cost(&window(&load), &orders, &mut Scratch::default()).total(&WEIGHTS);
    assert!((slots.iter().sum::<f64>() - whole).abs() < 1e-12, "{slots:?} {whole}");
    assert_eq!(slots[0], 0.0);
}

#[test]
fn on_a_whole_number_all_orders_together_see_the_slope_on_the_side_they_go_to() {
    // The last one begins a slot behind a backlog that is gone before it ends.
    let cases = [
        (vec![10.4; 10], 11.0),
        (vec![1.3; 10], 2.0),
        (vec![1.3; 10], 3.0),
        (vec![0.4; 10], 1.0),
        (vec![3.0, 4.5, 3.1, 3.1, 3.1], 4.0),
    ];
    for (load, count) in cases {
        let orders = vec![count; load.len()];
        let window = window(&load);
        let sum = |lean| gradient(&window, &orders, lean).iter().sum::<f64>();
        let (right, left) = (slope_together(&window, &orders, 1e-6), slope_together(&window, &orders, -1e-6));
        assert!((sum(UP) - right).abs() < 1e-5, "{load:?} {count}: {} {right}", sum(UP));
        assert!((sum(DOWN) - left).abs() < 1e-5, "{load:?} {count}: {} {left}", sum(DOWN));
        assert!(left < right, "what one more saves is less than what one fewer loses");
    }
}

#[test]
fn without_a_backlog_the_way_up_is_what_one_replica_more_costs() {
    let load = [1.3; 10];
    let found: f64 = gradient(&window(&load), &[2.0; 10], UP).iter().sum();
    let step = slope_together(&window(&load), &[2.0; 10], 1.0);
    assert!((found - step).abs() < 1e-9 && 0.0 < found, "{found} {step}");
    assert!(gradient(&window(&load), &[2.0; 10], DOWN).iter().sum::<f64>() < 0.0, "one fewer is late");
}

#[test]
fn orders_that_share_the_minimum_each_see_their_own_side_and_a_held_one_sees_nothing() {
    let load = [10.4; 10];
    let (window, orders) = (window(&load), [11.0; 10]);
    let mut leans = [UP, DOWN, HELD, DOWN, UP, UP, HELD, DOWN, DOWN, UP];
    let found = gradient_with(&window, &orders, &leans, END);
    let of = |lean| gradient_with(&window, &orders, &[lean; 10], END);
    let (up, down) = (of(UP), of(DOWN));
    assert_ne!(up, down);
    for (slot, lean) in leans.into_iter().enumerate() {
        assert_eq!(found[slot], lean.up * up[slot] + lean.down * down[slot], "slot {slot}");
    }
    leans.fill(HELD);
    assert_eq!(gradient_with(&window, &orders, &leans, END), [0.0; 10]);
}

#[test]
fn exactly_at_capacity_both_sides_ask_for_more() {
    let (load, orders) = ([8.0; 6], [8.0; 6]);
    for lean in [UP, DOWN] {
        let found: f64 = gradient(&window(&load), &orders, lean).iter().sum();
        assert!(found.is_finite() && found < 0.0, "{lean:?} {found}");
    }
}

#[test]
fn where_everything_is_late_more_replicas_still_help() {
    let load = [40.0; 10];
    assert!(gradient(&window(&load), &[10.0; 10], UP).iter().sum::<f64>() < 0.0);
    assert!(gradient(&window(&load), &[0.0; 10], UP).iter().all(|g| g.is_finite()));
}

proptest! {
    #[test]
    fn the_adjoint_is_the_derivative(
        load in prop::collection::vec(0.0..14.0_f64, 12),
        orders in prop::collection::vec(0.6..16.0_f64, 12),
        startup_slots in 0_usize..5,
        slot in 0_usize..12,
        end in prop::sample::select(vec![NOTHING, END]),
        leans in prop::collection::vec(prop::sample::select(vec![UP, DOWN]), 12),
    ) {
        const STEP: f64 = 1e-6;
        let window = Window { startup_slots, ..window(&load) };
        let lean = unit(slot, 12);
        // Next to a kink the two sides differ and neither is wrong; such draws are left to the tests above.
        let (near, wide) = (slope(&window, &orders, end, &lean, STEP), slope(&window, &orders, end, &lean, 3.0 * STEP));
        prop_assume!((near - wide).abs() < 1e-3 * (1.0 + near.abs()));
        let found = gradient_with(&window, &orders, &leans, end)[slot];
        prop_assert!((found - near).abs() < 2e-3 * (1.0 + near.abs()), "{found} {near}");
    }

    #[test]
    fn nothing_is_ever_not_a_number(
        load in prop::collection::vec(0.0..200.0_f64, 9),
        orders in prop::collection::vec(0_u32..200, 9),
        startup_slots in 0_usize..12,
        lean in prop::sample::select(vec![UP, DOWN]),
    ) {
        let orders: Vec<f64> = orders.into_iter().map(f64::from).collect();
        let window = Window { startup_slots, ..window(&load) };
        prop_assert!(gradient(&window, &orders, lean).iter().all(|g| g.is_finite()));
        let found = cost(&window, &orders, &mut Scratch::default());
        prop_assert!((0.0..=1.0 + 1e-12).contains(&found.late_share));
    }
}
