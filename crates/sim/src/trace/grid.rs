//! From samples at any times to a fixed step, linear in between. Gaps are bridged; that is what a person would draw.

use super::{MAX_SAMPLES, Trace};

/// Samples (seconds, rate), rising in time; at least two. The step is the median distance of neighbours. `Err` says
/// in words what was found instead.
pub(super) fn on_a_grid(name: &str, samples: &[(f64, f64)]) -> Result<Trace, String> {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return Err("no sample".to_owned());
    };
    if samples.len() < 2 {
        return Err("only one sample".to_owned());
    }
    let mut steps: Vec<f64> = samples.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    steps.sort_by(f64::total_cmp);
    let step_secs = steps[(steps.len() - 1) / 2];
    let count = ((last.0 - first.0) / step_secs).round() + 1.0;
    if (MAX_SAMPLES as f64) < count {
        return Err(format!("{count} steps of {step_secs} s"));
    }
    let mut after = 1;
    let mut rates = Vec::with_capacity(count as usize);
    for index in 0..count as usize {
        let time = first.0 + step_secs * index as f64;
        while after + 1 < samples.len() && samples[after].0 < time {
            after += 1;
        }
        let (from, to) = (samples[after - 1], samples[after]);
        let share = ((time - from.0) / (to.0 - from.0)).clamp(0.0, 1.0);
        rates.push(from.1 + (to.1 - from.1) * share);
    }
    Trace::new(name, step_secs, rates).ok_or_else(|| "a rate that is negative or not a number".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_bridged_and_the_step_is_the_usual_one() {
        let trace = on_a_grid("t", &[(0.0, 1.0), (10.0, 2.0), (20.0, 3.0), (50.0, 6.0)]).unwrap();
        assert_eq!(trace.step_secs(), 10.0);
        assert_eq!(trace.rates(), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }
}
