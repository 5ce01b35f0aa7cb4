//! Adam with a cosine learning rate, and a bound on a gradient's norm, over plain vectors.
//!
//! Plain vectors because candle's optimiser has no clipping and keeps its moments where a checkpoint cannot reach
//! them. Sums run in the order of the layout, so a run repeats to the bit.
//! Source: Kingma & Ba 2015 (arXiv 1412.6980), algorithm 1.

/// How weights follow gradients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamSettings {
    /// Learning rate of the first update.
    pub learning_rate: f64,
    /// Updates over which it falls to 0 along a cosine.
    pub updates: u64,
}

/// Weight of the past in the mean gradient; as published.
const BETA1: f64 = 0.9;
/// Weight of the past in the mean squared gradient; as published.
const BETA2: f64 = 0.999;
/// Keeps the step finite where no gradient was seen; as published.
const EPSILON: f64 = 1e-8;

/// The optimiser's memory: everything a checkpoint must keep beside the weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Adam {
    /// Updates made.
    pub updates: u64,
    /// Mean gradient, per tensor.
    pub mean: Vec<Vec<f32>>,
    /// Mean squared gradient, per tensor.
    pub square: Vec<Vec<f32>>,
}

impl Adam {
    /// No update made yet, for tensors of the lengths of `weights`.
    #[must_use]
    pub fn new(weights: &[Vec<f32>]) -> Self {
        let zeros: Vec<_> = weights.iter().map(|tensor| vec![0.0; tensor.len()]).collect();
        Self { updates: 0, mean: zeros.clone(), square: zeros }
    }

    /// One update of `weights` against `gradients`. A tensor whose gradient is empty is left to others, with its moments.
    pub fn step(&mut self, settings: &AdamSettings, weights: &mut [Vec<f32>], gradients: &[Vec<f32>]) {
        let rate = learning_rate(settings, self.updates);
        self.updates += 1;
        let exponent = i32::try_from(self.updates).unwrap_or(i32::MAX);
        let mean_scale = 1.0 / (1.0 - BETA1.powi(exponent));
        let square_scale = 1.0 / (1.0 - BETA2.powi(exponent));
        let moments = self.mean.iter_mut().zip(self.square.iter_mut());
        for ((mean, square), (weights, gradients)) in moments.zip(weights.iter_mut().zip(gradients)) {
            let numbers = mean.iter_mut().zip(square).zip(weights.iter_mut().zip(gradients));
            for ((mean, square), (weight, &gradient)) in numbers {
                let gradient = f64::from(gradient);
                let next_mean = BETA1 * f64::from(*mean) + (1.0 - BETA1) * gradient;
                let next_square = BETA2 * f64::from(*square) + (1.0 - BETA2) * gradient * gradient;
                (*mean, *square) = (next_mean as f32, next_square as f32);
                let step = rate * next_mean * mean_scale / ((next_square * square_scale).sqrt() + EPSILON);
                *weight = (f64::from(*weight) - step) as f32;
            }
        }
    }
}

/// The learning rate of the update after `done` others.
#[must_use]
pub fn learning_rate(settings: &AdamSettings, done: u64) -> f64 {
    let progress = (done as f64 / settings.updates.max(1) as f64).min(1.0);
    settings.learning_rate * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
}

/// Shortens `gradients` to `limit` where their common norm is longer, and forgets them where it is not a number.
/// Returns the norm they had.
pub fn clip(gradients: &mut [Vec<f32>], limit: f64) -> f64 {
    let norm = gradients.iter().flatten().map(|&g| f64::from(g) * f64::from(g)).sum::<f64>().sqrt();
    if !norm.is_finite() {
        gradients.iter_mut().for_each(|tensor| tensor.fill(0.0));
    } else if limit < norm {
        let factor = (limit / norm) as f32;
        gradients.iter_mut().flatten().for_each(|g| *g *= factor);
    }
    norm
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: AdamSettings = AdamSettings { learning_rate: 0.1, updates: 300 };

    #[test]
    fn a_long_gradient_is_shortened_to_the_limit_and_a_short_one_is_left() {
        let mut long = vec![vec![3.0], vec![4.0]];
        assert_eq!(clip(&mut long, 1.0), 5.0);
        assert_eq!(long, [vec![0.6], vec![0.8]]);
        let mut short = vec![vec![0.3], vec![0.4]];
        let before = short.clone();
        assert!((clip(&mut short, 1.0) - 0.5).abs() < 1e-7);
        assert_eq!(short, before);
    }

    #[test]
    fn a_gradient_that_is_not_a_number_changes_nothing_for_long() {
        let mut gradients = vec![vec![f32::NAN, 1.0]];
        assert!(clip(&mut gradients, 1.0).is_nan());
        assert_eq!(gradients, [vec![0.0, 0.0]]);
    }

    #[test]
    fn the_minimum_of_a_parabola_is_found() {
        let mut weights = vec![vec![5.0_f32, -3.0]];
        let mut adam = Adam::new(&weights);
        for _ in 0..SETTINGS.updates {
            let gradients = vec![vec![weights[0][0] - 1.0, weights[0][1] - 2.0]];
            adam.step(&SETTINGS, &mut weights, &gradients);
        }
        assert!((weights[0][0] - 1.0).abs() < 0.01 && (weights[0][1] - 2.0).abs() < 0.01, "{weights:?}");
    }

    #[test]
    fn a_tensor_without_a_gradient_is_left_to_others() {
        let (mut weights, mut adam) = (vec![vec![1.0_f32], vec![1.0]], Adam::new(&[vec![0.0], vec![0.0]]));
        adam.mean[0][0] = 7.0;
        adam.step(&SETTINGS, &mut weights, &[vec![], vec![1.0]]);
        assert_eq!((weights[0][0], adam.mean[0][0]), (1.0, 7.0));
        assert!(weights[1][0] < 1.0);
    }

    #[test]
    fn the_learning_rate_falls_from_its_value_to_zero() {
        assert_eq!(learning_rate(&SETTINGS, 0), 0.1);
        assert!((learning_rate(&SETTINGS, 150) - 0.05).abs() < 1e-12);
        assert!(learning_rate(&SETTINGS, 300).abs() < 1e-12);
        assert!(learning_rate(&SETTINGS, 301).abs() < 1e-12);
    }
}
