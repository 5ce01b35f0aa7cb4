//! When requests arrive: Poisson on a rate, or burstier. In: a rate for a stretch of time. Out: arrival times.
//! The times depend on the rate as a function of time and on the seed, not on how the time is cut into stretches
//! (up to rounding), so any number of services can be given the very same arrivals.

use rand_distr::{Distribution, Exp1, Gamma};

use crate::seed::{Seed, Stream};

/// Length of the slots whose rates are drawn when arrivals are burstier than Poisson.
const BURST_SLOT_SECS: f64 = 1.0;

/// Arrivals a single call may return: a guard against a rate in the wrong unit.
pub const MAX_ARRIVALS_PER_CALL: usize = 20_000_000;

/// A stream of arrivals.
#[derive(Debug, Clone)]
pub struct Arrivals {
    now_secs: f64,
    /// What is left of the integrated rate until the next arrival: unit exponential.
    remaining: f64,
    gaps: Stream,
    bursts: Option<Bursts>,
}

#[derive(Debug, Clone)]
struct Bursts {
    dispersion: f64,
    slot_end_secs: f64,
    factor: f64,
    draws: Stream,
}

impl Arrivals {
    /// Poisson arrivals from time `start_secs` on; uses the stream "arrivals".
    #[must_use]
    pub fn poisson(seed: Seed, start_secs: f64) -> Self {
        let mut gaps = seed.stream("arrivals");
        let remaining = Exp1.sample(&mut gaps);
        Self { now_secs: start_secs, remaining, gaps, bursts: None }
    }

    /// Arrivals whose count in one second has variance `dispersion` times its mean (`dispersion` > 1): the rate of
    /// each second is multiplied by a gamma draw of mean one. At 1 or below: Poisson.
    #[must_use]
    pub fn bursty(seed: Seed, start_secs: f64, dispersion: f64) -> Self {
        let mut arrivals = Self::poisson(seed, start_secs);
        if 1.0 < dispersion {
            arrivals.bursts = Some(Bursts {
                dispersion,
                slot_end_secs: start_secs,
                factor: 1.0,
                draws: seed.stream("bursts"),
            });
        }
        arrivals
    }

    /// Appends the arrival times in (now, `to_secs`] to `times`, the rate (requests per second) being constant
    /// over the stretch. A rate that is not finite or is negative counts as zero. A second's burst factor uses the
    /// rate at its start.
    pub fn until(&mut self, to_secs: f64, rate: f64, times: &mut Vec<f64>) {
        let rate = if rate.is_finite() { rate.max(0.0) } else { 0.0 };
        while self.now_secs < to_secs {
            let (end_secs, factor) = match &mut self.bursts {
                None => (to_secs, 1.0),
                Some(bursts) => {
                    bursts.renew(self.now_secs, rate);
                    (to_secs.min(bursts.slot_end_secs), bursts.factor)
                }
            };
            self.constant_until(end_secs, rate * factor, times);
        }
    }

    fn constant_until(&mut self, end_secs: f64, rate: f64, times: &mut Vec<f64>) {
        let room = times.len() + MAX_ARRIVALS_PER_CALL;
        loop {
            let mass = (end_secs - self.now_secs) * rate;
            if mass < self.remaining || room <= times.len() {
                self.remaining = (self.remaining - mass).max(0.0);
                self.now_secs = end_secs;
                return;
            }
            self.now_secs = (self.now_secs + self.remaining / rate).min(end_secs);
            self.remaining = Exp1.sample(&mut self.gaps);
            times.push(self.now_secs);
        }
    }
}

impl Bursts {
    fn renew(&mut self, now_secs: f64, rate: f64) {
        if now_secs < self.slot_end_secs {
            return;
        }
        self.slot_end_secs = now_secs + BURST_SLOT_SECS;
        // Variance / mean of a gamma-mixed Poisson count is 1 + mean * variance of the factor.
        let variance = (self.dispersion - 1.0) / (rate * BURST_SLOT_SECS).max(f64::MIN_POSITIVE);
        self.factor = match Gamma::new(1.0 / variance, variance) {
            Ok(law) if 0.0 < rate => law.sample(&mut self.draws),
            _ => 1.0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(mut arrivals: Arrivals, cuts: &[f64], rate: f64) -> Vec<f64> {
        let mut times = Vec::new();
        for cut in cuts {
            arrivals.until(*cut, rate, &mut times);
        }
        times
    }

    #[test]
    fn arrivals_do_not_depend_on_how_time_is_cut() {
        let whole = times(Arrivals::poisson(Seed(1), 0.0), &[100.0], 7.0);
        let cut = times(Arrivals::poisson(Seed(1), 0.0), &[3.0, 3.5, 50.0, 100.0], 7.0);
        assert_eq!(whole.len(), cut.len());
        assert!(whole.iter().zip(&cut).all(|(a, b)| (a - b).abs() < 1e-9));
    }

    #[test]
    fn counts_have_the_stated_dispersion() {
        for dispersion in [1.0, 4.0] {
            let times = times(Arrivals::bursty(Seed(2), 0.0, dispersion), &[20_000.0], 10.0);
            let mut counts = vec![0.0; 20_000];
            for time in &times {
                counts[(*time as usize).min(19_999)] += 1.0;
            }
            let mean = counts.iter().sum::<f64>() / 20_000.0;
            let variance = counts.iter().map(|n| (n - mean) * (n - mean)).sum::<f64>() / 20_000.0;
            assert!((mean - 10.0).abs() < 0.2, "mean {mean}");
            assert!((variance / mean / dispersion - 1.0).abs() < 0.1, "dispersion {}", variance / mean);
        }
    }

    #[test]
    fn no_rate_no_arrivals() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(times(Arrivals::poisson(Seed(3), 0.0), &[50.0], rate).is_empty());
        }
    }
}
