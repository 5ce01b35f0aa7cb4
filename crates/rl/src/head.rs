//! The actor's head: how the log-multiplier depends on the price of lateness.
//!
//! `g = e * (a + sum over anchors of |gate_i| * softplus(b_i) * ramp_i(log price))`, where e is the running error of the
//! planner's own forecasts: the net answers in margins of the load at hand, so what it has learnt on a wild load does
//! not disturb a calm one. Every factor of the sum is at least 0 and every ramp never falls, so a higher price can
//! never ask for fewer replicas, whatever the weights are. This also holds in floating point, since rounding preserves
//! order. The gates let a net of zeros answer exactly 0, which softplus alone (ln 2 at 0) would not.

use rlscaler_core::features;

/// Ramps, and so outputs of the actor beside `a`.
pub const ANCHORS: usize = 4;

/// Outputs of the actor's last layer: `a`, then one `b` per anchor.
pub const HEAD: usize = 1 + ANCHORS;

/// Prices below and above are answered as the nearest of these; training draws log-uniformly between them. They are the
/// error budget's limits.
pub use rlscaler_core::budget::{PRICE_MAX, PRICE_MIN};

/// Most the actor may raise the planner's answer by, as a logarithm: a factor of 6. Twice what training
/// ever asked for; anything beyond is a net gone astray.
pub const LOG_MULTIPLIER_LIMIT: f32 = 1.8;

/// How strongly a gate acts. A gate grows from 0 with the optimiser's step, and this brings its term to full
/// strength within some hundred of them.
pub const GATE_SCALE: f32 = 10.0;

/// The ramps at `price`: piecewise linear in its logarithm, equally spaced, each 0 before and 1 after its stretch.
#[must_use]
pub fn ramps(price: f64) -> [f32; ANCHORS] {
    let stretch = (PRICE_MAX / PRICE_MIN).ln() / ANCHORS as f64;
    let position = (bounded(price) / PRICE_MIN).ln() / stretch;
    std::array::from_fn(|anchor| (position - anchor as f64).clamp(0.0, 1.0) as f32)
}

/// `price` moved into what training draws from; one that is not a number becomes the lowest.
#[must_use]
#[allow(clippy::manual_clamp, reason = "clamp would let a NaN through")]
pub fn bounded(price: f64) -> f64 {
    price.max(PRICE_MIN).min(PRICE_MAX)
}

/// `ln(1 + exp(x))`, without overflow.
#[must_use]
pub fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// Place of the planner's running error among the features: the unit of the actor's answer.
pub const UNIT_FEATURE: usize = place("planner_error");

/// Smallest unit: a load that has not surprised anybody yet may still do so.
pub const UNIT_MIN: f32 = 0.03;

/// Largest unit: forecasts can be worse than this, margins by them would be no margins.
pub const UNIT_MAX: f32 = 0.7;

/// Where a feature stands. A name that does not exist does not compile.
pub(crate) const fn place(name: &str) -> usize {
    let mut place = 0;
    while place < features::NAMES.len() {
        if same(features::NAMES[place].as_bytes(), name.as_bytes()) {
            return place;
        }
        place += 1;
    }
    panic!("no such feature")
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}

/// How far below the planner without its margin the actor may answer, as a logarithm: a fifth. The planner keeps every
/// moment in time, which nobody asked for who allows one request in a hundred to be late.
const BELOW_THE_PLANNER: f32 = 0.25;

/// The least the actor may answer: it takes the planner's margin away, and little of what the planner expects
/// to come.
#[must_use]
pub fn lowest(planner_error: f32) -> f32 {
    -(planner_error.clamp(UNIT_MIN, UNIT_MAX).ln_1p() + BELOW_THE_PLANNER)
}

/// The log-multiplier from the last layer's outputs, the gates, and the running error of the planner's forecasts.
#[must_use]
pub fn log_multiplier(
    output: &[f32; HEAD],
    gates: &[f32; ANCHORS],
    ramps: &[f32; ANCHORS],
    planner_error: f32,
) -> f32 {
    let mut g = output[0];
    for anchor in 0..ANCHORS {
        let slope = (GATE_SCALE * gates[anchor]).abs() * softplus(output[1 + anchor]);
        g += slope * ramps[anchor];
    }
    let unit = planner_error.clamp(UNIT_MIN, UNIT_MAX);
    (g * unit).clamp(lowest(unit), LOG_MULTIPLIER_LIMIT)
}

/// The same without the constraint, for the ablation: the price may pull either way, and the gates have no part in it.
#[must_use]
pub fn unconstrained(output: &[f32; HEAD], ramps: &[f32; ANCHORS], planner_error: f32) -> f32 {
    let mut g = output[0];
    for anchor in 0..ANCHORS {
        g += output[1 + anchor] * ramps[anchor];
    }
    let unit = planner_error.clamp(UNIT_MIN, UNIT_MAX);
    (g * unit).clamp(lowest(unit), LOG_MULTIPLIER_LIMIT)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_head_of_zeros_answers_exactly_zero_at_every_price() {
        for price in [0.0, 1.0, 4.0, 20.0, 1500.0, 1e9, f64::NAN] {
            assert_eq!(log_multiplier(&[0.0; HEAD], &[0.0; ANCHORS], &ramps(price), 0.1), 0.0);
        }
    }

    #[test]
    fn ramps_fill_one_after_the_other() {
        assert_eq!(ramps(PRICE_MIN), [0.0; ANCHORS]);
        assert_eq!(ramps(PRICE_MAX), [1.0; ANCHORS]);
        let middle = ramps((PRICE_MIN * PRICE_MAX).sqrt());
        assert!(middle[0] == 1.0 && (middle[1] - 1.0).abs() < 1e-6 && middle[2] < 1e-6 && middle[3] == 0.0);
    }

    #[test]
    fn softplus_does_not_overflow() {
        assert_eq!(softplus(1000.0), 1000.0);
        assert_eq!(softplus(-1000.0), 0.0);
        assert!((softplus(0.0) - std::f32::consts::LN_2).abs() < 1e-7);
    }

    proptest! {
        #[test]
        fn a_higher_price_never_asks_for_fewer(
            output in prop::array::uniform5(-50.0f32..50.0),
            gates in prop::array::uniform4(-3.0f32..3.0),
            low in 0.0f64..2000.0,
            raise in 0.0f64..2000.0,
            error in -1.0f32..2.0,
        ) {
            let at = |price| log_multiplier(&output, &gates, &ramps(price), error);
            prop_assert!(at(low) <= at(low + raise));
        }
    }
}
