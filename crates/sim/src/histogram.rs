//! Counts of latencies in fixed buckets, as a service exports them to Prometheus.

use std::sync::Arc;

/// Latencies counted in buckets with stated upper bounds; the last bucket is open.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    bounds: Arc<[f64]>,
    counts: Vec<u64>,
    sum_secs: f64,
}

impl Histogram {
    /// An empty histogram; `bounds` are upper bounds in seconds, rising.
    #[must_use]
    pub fn new(bounds: Arc<[f64]>) -> Self {
        let counts = vec![0; bounds.len() + 1];
        Self { bounds, counts, sum_secs: 0.0 }
    }

    /// Bounds that contain the latency target exactly, with steps of 10 % from a hundredth of it to a hundred times.
    #[must_use]
    pub fn bounds_around(target_secs: f64) -> Arc<[f64]> {
        const STEP: f64 = 1.1;
        const STEPS: i32 = 48;
        (-STEPS..=STEPS).map(|step| target_secs * STEP.powi(step)).collect()
    }

    /// Counts one latency.
    pub fn record(&mut self, latency_secs: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < latency_secs);
        self.counts[bucket] += 1;
        self.sum_secs += latency_secs;
    }

    /// Adds the counts of `other`, which has the same bounds.
    pub fn add(&mut self, other: &Histogram) {
        debug_assert_eq!(self.bounds, other.bounds);
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.sum_secs += other.sum_secs;
    }

    /// Upper bounds, seconds.
    #[must_use]
    pub fn bounds(&self) -> &[f64] {
        &self.bounds
    }

    /// Counts per bucket (not cumulative), one more than bounds.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Latencies counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of all latencies, seconds.
    #[must_use]
    pub fn sum_secs(&self) -> f64 {
        self.sum_secs
    }

    /// The `quantile` (0..1), interpolated within its bucket as Prometheus does; `None` when empty. The open
    /// bucket answers the largest bound.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<f64> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let rank = quantile * total as f64;
        let mut below = 0.0;
        for (bucket, count) in self.counts.iter().enumerate() {
            let count = *count as f64;
            if rank <= below + count && 0.0 < count {
                let upper = *self.bounds.get(bucket).or(self.bounds.last())?;
                let lower = if bucket == 0 { 0.0 } else { self.bounds[bucket - 1] };
                return Some(lower + (upper - lower) * (rank - below) / count);
            }
            below += count;
        }
        self.bounds.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_equal_to_a_bound_is_below_it() {
        let mut histogram = Histogram::new(Histogram::bounds_around(0.25));
        histogram.record(0.25);
        let bucket = histogram.counts().iter().position(|count| *count == 1).unwrap();
        assert_eq!(histogram.bounds()[bucket], 0.25);
    }

    #[test]
    fn quantiles_are_interpolated_and_empty_has_none() {
        let mut histogram = Histogram::new(Arc::from([1.0, 2.0]));
        assert_eq!(histogram.quantile(0.5), None);
        for latency in [0.5, 1.5, 1.6, 9.0] {
            histogram.record(latency);
        }
        assert_eq!(histogram.quantile(0.5), Some(1.5));
        assert_eq!(histogram.quantile(0.99), Some(2.0));
    }
}
