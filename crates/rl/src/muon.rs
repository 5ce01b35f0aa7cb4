//! A step for weight matrices that turns them in every direction alike: the momentum of the gradient, orthogonalised.
//!
//! What few loads ask for is a weak direction of a gradient; Adam, which measures number by number, follows it late. Sources:
//! Jordan et al. 2024 (Muon, <https://kellerjordan.github.io/posts/muon/>) for the step and the iteration's coefficients, Liu et
//! al. 2025 (arXiv 2502.16982) for its size: that of a step of Adam.
//!
//! In: a gradient, its running mean, rows and columns. Out: the step at a learning rate of 1. Never: randomness.

/// Weight of the past in the mean gradient; as published.
const MOMENTUM: f32 = 0.95;

/// Root mean square of a step at a learning rate of 1: what Adam's steps have.
const STEP_RMS: f32 = 0.2;

/// Newton-Schulz iterations: singular values come to 0.7..1.2 in five.
const ITERATIONS: usize = 5;

/// Coefficients of the iteration `a x + b (x xT) x + c (x xT)^2 x`; as published.
const COEFFICIENTS: [f32; 3] = [3.4445, -4.7750, 2.0315];

/// Keeps a gradient of zeros finite.
const NORM_MIN: f32 = 1e-12;

/// Books `gradient` in `mean` and tells the step against it, at a learning rate of 1. Row-major matrices of `rows` rows.
#[must_use]
pub fn step(mean: &mut [f32], gradient: &[f32], rows: usize) -> Vec<f32> {
    let columns = gradient.len() / rows.max(1);
    for (mean, gradient) in mean.iter_mut().zip(gradient) {
        *mean = MOMENTUM * *mean + (1.0 - MOMENTUM) * gradient;
    }
    // Nesterov's: the mean as it will be if the gradient stays.
    let ahead = |(mean, gradient): (&f32, &f32)| MOMENTUM * mean + (1.0 - MOMENTUM) * gradient;
    let ahead: Vec<f32> = mean.iter().zip(gradient).map(ahead).collect();
    let size = STEP_RMS * (rows.max(columns) as f32).sqrt();
    orthogonalised(ahead, rows).into_iter().map(|value| size * value).collect()
}

/// The nearest matrix with singular values of about 1.
fn orthogonalised(mut x: Vec<f32>, rows: usize) -> Vec<f32> {
    let [a, b, c] = COEFFICIENTS;
    let norm = x.iter().map(|value| value * value).sum::<f32>().sqrt().max(NORM_MIN);
    x.iter_mut().for_each(|value| *value /= norm);
    for _ in 0..ITERATIONS {
        let gram = gram(&x, rows);
        let squared = product(&gram, &gram, rows);
        let factor: Vec<f32> =
            squared.iter().zip(&gram).map(|(square, gram)| c * square + b * gram).collect();
        let moved = product(&factor, &x, rows);
        x.iter_mut().zip(&moved).for_each(|(x, moved)| *x = a * *x + moved);
    }
    x
}

/// `x xT`, (rows, rows).
fn gram(x: &[f32], rows: usize) -> Vec<f32> {
    let columns = x.len() / rows.max(1);
    let row = |at: usize| &x[at * columns..(at + 1) * columns];
    let dot = |one: &[f32], other: &[f32]| one.iter().zip(other).map(|(p, q)| p * q).sum::<f32>();
    (0..rows * rows).map(|at| dot(row(at / rows), row(at % rows))).collect()
}

/// `left right`: (rows, rows) times (rows, columns).
fn product(left: &[f32], right: &[f32], rows: usize) -> Vec<f32> {
    let columns = right.len() / rows.max(1);
    let mut out = vec![0.0; right.len()];
    for (out, weights) in out.chunks_exact_mut(columns.max(1)).zip(left.chunks_exact(rows.max(1))) {
        for (&weight, row) in weights.iter().zip(right.chunks_exact(columns.max(1))) {
            out.iter_mut().zip(row).for_each(|(out, value)| *out += weight * value);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_turns_a_matrix_as_far_in_its_weak_direction_as_in_its_strong_one() {
        // Singular values 5 and 0.05, in directions turned by 30 and 50 degrees.
        let turned = |degrees: f32| [degrees.to_radians().cos(), degrees.to_radians().sin()];
        let ([c, s], [e, f]) = (turned(30.0), turned(50.0));
        let gradient = [
            5.0 * c * e + 0.05 * s * f,
            5.0 * c * f - 0.05 * s * e,
            5.0 * s * e - 0.05 * c * f,
            5.0 * s * f + 0.05 * c * e,
        ];
        let step = step(&mut [0.0; 4], &gradient, 2);
        let along = |[p, q]: [f32; 2], [u, v]: [f32; 2]| {
            p * (step[0] * u + step[1] * v) + q * (step[2] * u + step[3] * v)
        };
        let unit = STEP_RMS * 2.0_f32.sqrt();
        let (strong, weak) = (along([c, s], [e, f]) / unit, along([s, -c], [f, -e]) / unit);
        assert!((0.6..1.3).contains(&strong) && (0.6..1.3).contains(&weak), "{strong} {weak} {step:?}");
    }

    #[test]
    fn a_step_has_the_size_of_adams_whatever_the_gradients() {
        for scale in [1e-6_f32, 1.0, 1e6] {
            let gradient: Vec<f32> = (0..12).map(|at| scale * ((at * at % 7) as f32 - 3.0)).collect();
            let step = step(&mut [0.0; 12], &gradient, 3);
            let rms = (step.iter().map(|value| value * value).sum::<f32>() / 12.0).sqrt();
            assert!((0.6 * STEP_RMS..1.4 * STEP_RMS).contains(&rms), "{scale} {rms}");
        }
    }

    #[test]
    fn no_gradient_is_no_step() {
        assert_eq!(step(&mut [0.0; 6], &[0.0; 6], 2), [0.0; 6]);
    }
}
