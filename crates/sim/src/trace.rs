//! A rate over time: requests per second on a fixed step. In: a file somebody has, a bundled name or a generator.
//! Out: `Trace`, which answers the rate at any second. Bad input is refused with the file, the line and what was
//! expected.

mod access_log;
pub mod bundled;
mod csv_file;
mod grid;
mod prometheus;
mod read;

use std::path::PathBuf;

use thiserror::Error;

use crate::generators::{self, Shape};

/// Longest trace accepted, in samples: about a year of 5-second steps.
pub const MAX_SAMPLES: usize = 6_500_000;

/// A rate over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    name: String,
    step_secs: f64,
    rates: Vec<f64>,
}

/// Why a trace cannot be used.
#[derive(Debug, Error)]
pub enum TraceFault {
    /// The file cannot be opened or read.
    #[error("{file}: cannot be read")]
    Read {
        /// The file as given.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line is not what it should be.
    #[error("{file}:{line}: expected {expected}, found {found}")]
    Line {
        /// The file as given.
        file: String,
        /// Counted from 1.
        line: u64,
        /// What should stand there.
        expected: String,
        /// What stands there, shortened.
        found: String,
    },
    /// The file as a whole is not what it should be.
    #[error("{file}: expected {expected}, found {found}")]
    Content {
        /// The file as given.
        file: String,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
}

impl Trace {
    /// A trace from samples `step_secs` apart, the first at time zero. `None` when there is no sample, the step is
    /// not positive, or a rate is negative or not finite.
    #[must_use]
    pub fn new(name: &str, step_secs: f64, rates: Vec<f64>) -> Option<Self> {
        let usable = rates.iter().all(|rate| rate.is_finite() && 0.0 <= *rate);
        let sized =
            !rates.is_empty() && rates.len() <= MAX_SAMPLES && 0.0 < step_secs && step_secs.is_finite();
        (usable && sized).then(|| Self { name: name.to_owned(), step_secs, rates })
    }

    /// What a person calls a trace: the name of a bundled one, `gen:SHAPE:SEED`, or a file in any accepted form.
    ///
    /// # Errors
    /// Says what was expected, where in the file.
    pub fn open(what: &str) -> Result<Self, TraceFault> {
        if let Some(generator) = what.strip_prefix("gen:") {
            return open_generator(what, generator);
        }
        match bundled::load(what) {
            Some(trace) => Ok(trace),
            None => read::read(&PathBuf::from(what)),
        }
    }

    /// A trace in any accepted form from any reader; `name` stands in errors as well.
    ///
    /// # Errors
    /// Says what was expected, where.
    pub fn read(reader: impl std::io::BufRead + 'static, name: &str) -> Result<Self, TraceFault> {
        read::read_from(Box::new(reader), name, name)
    }

    /// Its name, as shown in tables.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Seconds between two samples.
    #[must_use]
    pub fn step_secs(&self) -> f64 {
        self.step_secs
    }

    /// The samples, requests per second.
    #[must_use]
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// Seconds from the first sample to one step after the last.
    #[must_use]
    pub fn duration_secs(&self) -> f64 {
        self.step_secs * self.rates.len() as f64
    }

    /// Requests per second at `secs`, linear between samples; the first and last rate hold outside.
    #[must_use]
    pub fn rate_at(&self, secs: f64) -> f64 {
        let position = (secs / self.step_secs).max(0.0);
        let index = position as usize;
        let last = self.rates.len() - 1;
        if last <= index {
            return self.rates[last];
        }
        let share = position - index as f64;
        self.rates[index] + (self.rates[index + 1] - self.rates[index]) * share
    }

    /// The rate that is exceeded 0.1 % of the time: the peak, where a single wild sample does not count.
    #[must_use]
    pub fn peak(&self) -> f64 {
        const PEAK_QUANTILE: f64 = 0.999;
        let mut rates = self.rates.clone();
        let index = ((rates.len() - 1) as f64 * PEAK_QUANTILE) as usize;
        *rates.select_nth_unstable_by(index, f64::total_cmp).1
    }

    /// The same shape with every rate multiplied, a factor that is finite and not negative.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        debug_assert!(factor.is_finite() && 0.0 <= factor);
        let rates = self.rates.iter().map(|rate| rate * factor).collect();
        Self { name: self.name.clone(), step_secs: self.step_secs, rates }
    }

    /// The same shape with the peak at this rate; unchanged where the peak is zero.
    #[must_use]
    pub fn scaled_to_peak(&self, rate: f64) -> Self {
        let peak = self.peak();
        if 0.0 < peak { self.scaled(rate / peak) } else { self.clone() }
    }

    /// Samples from `start_secs` for `duration_secs`, as a trace of its own; at least one sample.
    #[must_use]
    pub fn slice(&self, start_secs: f64, duration_secs: f64) -> Self {
        let first = ((start_secs / self.step_secs) as usize).min(self.rates.len() - 1);
        let count = ((duration_secs / self.step_secs).ceil() as usize).max(1);
        let last = (first + count).min(self.rates.len());
        Self { name: self.name.clone(), step_secs: self.step_secs, rates: self.rates[first..last].to_vec() }
    }
}

fn open_generator(what: &str, generator: &str) -> Result<Trace, TraceFault> {
    let wrong = || TraceFault::Content {
        file: what.to_owned(),
        expected: format!("gen:SHAPE:SEED with a shape of {} and a whole number", Shape::names()),
        found: generator.to_owned(),
    };
    let (shape, seed) = generator.split_once(':').ok_or_else(wrong)?;
    let shape = Shape::parse(shape).ok_or_else(wrong)?;
    let seed = seed.parse().map_err(|_| wrong())?;
    Ok(generators::generate(shape, crate::seed::Seed(seed), generators::DEFAULT_SECS))
}

/// A piece of input as an error shows it: one line, shortened.
pub(crate) fn shorten(text: &str) -> String {
    const MAX_SHOWN: usize = 80;
    let line = text.trim_end();
    let shown = rlscaler_core::text::visible(line, MAX_SHOWN);
    let more = if line.chars().nth(MAX_SHOWN).is_some() { "…" } else { "" };
    format!("`{shown}{more}`")
}
