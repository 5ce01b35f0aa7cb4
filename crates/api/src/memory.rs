//! The brain's memory in `status.memory`: JSON in one bounded string, because it is the operator's own and changes as a
//! whole. Floats keep their bits. What cannot be read is refused as a whole: a brain with half a memory is worse than
//! one that knows it has none.

mod shadow;

use rlscaler_core::behavior::{MAX_EVENTS, MAX_RECOMMENDATIONS};
use rlscaler_core::budget::MAX_BUCKETS;
use rlscaler_core::driving::Doubt;
use rlscaler_core::memory::{
    BudgetBucket, BudgetMemory, CapacityMemory, DrivingMemory, ForecastMemory, HoldOffMemory, Memory,
    OwnDown, Recommendation, RegressionMemory, ScaleEvent, ScalingMemory, ShadowMemory,
};
use rlscaler_core::regression::MAX_DOWNS;
use rlscaler_core::shadow as core_shadow;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use self::shadow::ShadowWire;
use crate::limits::MAX_MEMORY_BYTES;
use crate::status::MemoryStatus;

/// Version of the form. Another one is not read.
pub const VERSION: i32 = 1;
/// Most loads or forecasts of slots that are read back.
const MAX_SLOTS: usize = 512;

/// Why a memory cannot be read.
#[derive(Debug, Error)]
pub enum MemoryFault {
    /// Written by an operator with another form.
    #[error("version {found} of the memory cannot be read, only {VERSION}")]
    Version {
        /// What was found.
        found: i32,
    },
    /// Longer than it is ever written.
    #[error("the memory has {found} bytes, at most {MAX_MEMORY_BYTES} are read")]
    TooLong {
        /// What was found.
        found: usize,
    },
    /// A list is longer than it is ever written.
    #[error("{list} has {found} entries, at most {max} are read")]
    ListTooLong {
        /// Which list.
        list: &'static str,
        /// Its length.
        found: usize,
        /// The limit.
        max: usize,
    },
    /// No JSON of this form.
    #[error("the memory cannot be parsed")]
    Form(#[source] serde_json::Error),
}

/// The memory as it is written to status.
///
/// # Panics
/// Never: numbers and lists can be written as JSON.
#[must_use]
pub fn to_status(memory: &Memory) -> MemoryStatus {
    let state = serde_json::to_string(&Wire::from(memory)).expect("numbers and lists are JSON");
    MemoryStatus { version: VERSION, state, rewrites: None }
}

/// The memory as it was written.
///
/// # Errors
/// [`MemoryFault`]; nothing is then remembered.
pub fn from_status(status: &MemoryStatus) -> Result<Memory, MemoryFault> {
    let MemoryStatus { version, state, rewrites: _ } = status;
    if *version != VERSION {
        return Err(MemoryFault::Version { found: *version });
    }
    if MAX_MEMORY_BYTES < state.len() {
        return Err(MemoryFault::TooLong { found: state.len() });
    }
    let wire: Wire = serde_json::from_str(state).map_err(MemoryFault::Form)?;
    wire.checked().map(Memory::from)
}

// A field that is missing was added later and takes its default; one that is unknown was added by a newer operator.

/// (time in seconds, smallest, largest answer).
type RecommendationWire = (f64, u32, u32);
/// (time in seconds, replicas).
type EventWire = (f64, u32);
/// (time in seconds, replicas before, after, load).
type OwnDownWire = (f64, u32, u32, f64);
/// (replicas, load, since, until).
type HoldOffWire = (u32, f64, f64, f64);
/// (index, late, offered).
type BucketWire = (i64, f64, f64);

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Wire {
    started: f64,
    last_tick: f64,
    scaling: ScalingWire,
    hpa: ScalingWire,
    #[serde(skip_serializing_if = "Option::is_none")]
    failing_since: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sudden_zero_since: Option<f64>,
    busy_cores: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    typical_age: Option<f64>,
    zeroed_by_us: bool,
    raised: f64,
    last_replicas: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_since: Option<f64>,
    driving: DrivingWire,
    backlog: f64,
    regression: RegressionWire,
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<ShadowWire>,
    capacity: CapacityWire,
    budget: BudgetWire,
    forecast: ForecastWire,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct ScalingWire {
    recommendations: Vec<RecommendationWire>,
    ups: Vec<EventWire>,
    downs: Vec<EventWire>,
    pace: (f64, f64),
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RegressionWire {
    downs: Vec<OwnDownWire>,
    highest_load: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    broken_since: Option<f64>,
    broken_readings: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    hold_off: Option<HoldOffWire>,
    hold_off_secs: f64,
    ended: f64,
    undone: u32,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct CapacityWire {
    scale: f64,
    sums: [f64; 5],
    good_density: f64,
    bad_density: f64,
    steady_since: f64,
    steady_density: f64,
    extremes_since: f64,
    extremes: [f64; 2],
    extremes_before: [f64; 2],
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct BudgetWire {
    late: f64,
    offered: f64,
    secs: f64,
    price_mean: f64,
    price_secs: f64,
    buckets: Vec<BucketWire>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ForecastWire {
    last_slot: i64,
    open_sum: f64,
    open_count: u32,
    slots: Vec<f32>,
    open_forecasts: Vec<f32>,
    error: [f64; 2],
    #[serde(default)]
    surprises: [f64; 3],
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct DrivingWire {
    #[serde(skip_serializing_if = "Option::is_none")]
    doubt: Option<String>,
    calm: f64,
    strikes: u32,
    takeovers: u32,
    clean: f64,
    fast: [f64; 2],
    slow: [f64; 2],
}

impl Wire {
    fn checked(self) -> Result<Self, MemoryFault> {
        let check = |list: &'static str, found: usize, max: usize| {
            if max < found { Err(MemoryFault::ListTooLong { list, found, max }) } else { Ok(()) }
        };
        let shadow = self.shadow.as_ref();
        for scaling in [&self.scaling, &self.hpa].into_iter().chain(shadow.map(|shadow| &shadow.scaling)) {
            check("recommendations", scaling.recommendations.len(), MAX_RECOMMENDATIONS)?;
            check("ups", scaling.ups.len(), MAX_EVENTS)?;
            check("downs", scaling.downs.len(), MAX_EVENTS)?;
        }
        if let Some(shadow) = shadow {
            check("orders", shadow.orders.len(), core_shadow::MAX_ORDERS)?;
            check("counts", shadow.counts.len(), core_shadow::MAX_COUNTS)?;
            check("hours", shadow.buckets.len(), core_shadow::MAX_BUCKETS)?;
        }
        check("downs", self.regression.downs.len(), MAX_DOWNS)?;
        check("buckets", self.budget.buckets.len(), MAX_BUCKETS)?;
        check("slots", self.forecast.slots.len(), MAX_SLOTS)?;
        check("openForecasts", self.forecast.open_forecasts.len(), MAX_SLOTS)?;
        Ok(self)
    }
}

impl From<&Memory> for Wire {
    fn from(memory: &Memory) -> Self {
        let Memory {
            started_secs,
            last_tick_secs,
            scaling,
            hpa,
            failing_since_secs,
            sudden_zero_since_secs,
            busy_cores,
            typical_age_secs,
            zeroed_by_us,
            raised_secs,
            last_replicas,
            idle_since_secs,
            driving,
            backlog,
            regression,
            shadow,
            capacity,
            budget,
            forecast,
        } = memory;
        Self {
            started: *started_secs,
            last_tick: *last_tick_secs,
            scaling: scaling.into(),
            hpa: hpa.into(),
            failing_since: *failing_since_secs,
            sudden_zero_since: *sudden_zero_since_secs,
            busy_cores: *busy_cores,
            typical_age: *typical_age_secs,
            zeroed_by_us: *zeroed_by_us,
            raised: *raised_secs,
            last_replicas: *last_replicas,
            idle_since: *idle_since_secs,
            driving: driving.into(),
            backlog: *backlog,
            regression: regression.into(),
            shadow: shadow.as_ref().map(ShadowWire::from),
            capacity: capacity.into(),
            budget: budget.into(),
            forecast: forecast.into(),
        }
    }
}

impl From<Wire> for Memory {
    fn from(wire: Wire) -> Self {
        Self {
            started_secs: wire.started,
            last_tick_secs: wire.last_tick,
            scaling: wire.scaling.into(),
            hpa: wire.hpa.into(),
            failing_since_secs: wire.failing_since,
            sudden_zero_since_secs: wire.sudden_zero_since,
            busy_cores: wire.busy_cores,
            typical_age_secs: wire.typical_age,
            zeroed_by_us: wire.zeroed_by_us,
            raised_secs: wire.raised,
            last_replicas: wire.last_replicas,
            idle_since_secs: wire.idle_since,
            driving: wire.driving.into(),
            backlog: wire.backlog,
            regression: wire.regression.into(),
            shadow: wire.shadow.map(ShadowMemory::from),
            capacity: wire.capacity.into(),
            budget: wire.budget.into(),
            forecast: wire.forecast.into(),
        }
    }
}

impl From<&ScalingMemory> for ScalingWire {
    fn from(ScalingMemory { recommendations, ups, downs, pace }: &ScalingMemory) -> Self {
        let event = |ScaleEvent { time_secs, change }: &ScaleEvent| (*time_secs, *change);
        let recommendation =
            |Recommendation { time_secs, low, high }: &Recommendation| (*time_secs, *low, *high);
        Self {
            recommendations: recommendations.iter().map(recommendation).collect(),
            ups: ups.iter().map(event).collect(),
            downs: downs.iter().map(event).collect(),
            pace: *pace,
        }
    }
}

impl From<ScalingWire> for ScalingMemory {
    fn from(ScalingWire { recommendations, ups, downs, pace }: ScalingWire) -> Self {
        let event = |(time_secs, change): EventWire| ScaleEvent { time_secs, change };
        let recommendation =
            |(time_secs, low, high): RecommendationWire| Recommendation { time_secs, low, high };
        Self {
            recommendations: recommendations.into_iter().map(recommendation).collect(),
            ups: ups.into_iter().map(event).collect(),
            downs: downs.into_iter().map(event).collect(),
            pace,
        }
    }
}

impl From<&RegressionMemory> for RegressionWire {
    fn from(regression: &RegressionMemory) -> Self {
        let RegressionMemory {
            downs,
            highest_load,
            broken_since_secs,
            broken_readings,
            hold_off,
            hold_off_secs,
            ended_secs,
            undone,
        } = regression;
        let down = |OwnDown { time_secs, from, to, load }: &OwnDown| (*time_secs, *from, *to, *load);
        let held = |HoldOffMemory { replicas, load, since_secs, until_secs }: HoldOffMemory| {
            (replicas, load, since_secs, until_secs)
        };
        Self {
            downs: downs.iter().map(down).collect(),
            highest_load: *highest_load,
            broken_since: *broken_since_secs,
            broken_readings: *broken_readings,
            hold_off: hold_off.map(held),
            hold_off_secs: *hold_off_secs,
            ended: *ended_secs,
            undone: *undone,
        }
    }
}

impl From<RegressionWire> for RegressionMemory {
    fn from(wire: RegressionWire) -> Self {
        let down = |(time_secs, from, to, load): OwnDownWire| OwnDown { time_secs, from, to, load };
        let held = |(replicas, load, since_secs, until_secs): HoldOffWire| HoldOffMemory {
            replicas,
            load,
            since_secs,
            until_secs,
        };
        Self {
            downs: wire.downs.into_iter().map(down).collect(),
            highest_load: wire.highest_load,
            broken_since_secs: wire.broken_since,
            broken_readings: wire.broken_readings,
            hold_off: wire.hold_off.map(held),
            hold_off_secs: wire.hold_off_secs,
            ended_secs: wire.ended,
            undone: wire.undone,
        }
    }
}

impl From<&CapacityMemory> for CapacityWire {
    fn from(capacity: &CapacityMemory) -> Self {
        let CapacityMemory {
            scale,
            sums,
            good_density,
            bad_density,
            steady_since_secs,
            steady_density,
            extremes_since_secs,
            extremes,
            extremes_before,
        } = *capacity;
        Self {
            scale,
            sums,
            good_density,
            bad_density,
            steady_since: steady_since_secs,
            steady_density,
            extremes_since: extremes_since_secs,
            extremes,
            extremes_before,
        }
    }
}

impl From<CapacityWire> for CapacityMemory {
    fn from(wire: CapacityWire) -> Self {
        let CapacityWire {
            scale,
            sums,
            good_density,
            bad_density,
            steady_since,
            steady_density,
            extremes_since,
            extremes,
            extremes_before,
        } = wire;
        Self {
            scale,
            sums,
            good_density,
            bad_density,
            steady_since_secs: steady_since,
            steady_density,
            extremes_since_secs: extremes_since,
            extremes,
            extremes_before,
        }
    }
}

impl From<&BudgetMemory> for BudgetWire {
    fn from(budget: &BudgetMemory) -> Self {
        let BudgetMemory { late, offered, secs, price_mean, price_secs, buckets } = budget;
        let bucket = |BudgetBucket { index, late, offered }: &BudgetBucket| (*index, *late, *offered);
        Self {
            late: *late,
            offered: *offered,
            secs: *secs,
            price_mean: *price_mean,
            price_secs: *price_secs,
            buckets: buckets.iter().map(bucket).collect(),
        }
    }
}

impl From<BudgetWire> for BudgetMemory {
    fn from(wire: BudgetWire) -> Self {
        let BudgetWire { late, offered, secs, price_mean, price_secs, buckets } = wire;
        let bucket = |(index, late, offered): BucketWire| BudgetBucket { index, late, offered };
        Self {
            late,
            offered,
            secs,
            price_mean,
            price_secs,
            buckets: buckets.into_iter().map(bucket).collect(),
        }
    }
}

impl From<&ForecastMemory> for ForecastWire {
    fn from(forecast: &ForecastMemory) -> Self {
        let ForecastMemory { last_slot, open_sum, open_count, slots, open_forecasts, error, surprises } =
            forecast.clone();
        Self { last_slot, open_sum, open_count, slots, open_forecasts, error, surprises }
    }
}

impl From<ForecastWire> for ForecastMemory {
    fn from(wire: ForecastWire) -> Self {
        let ForecastWire { last_slot, open_sum, open_count, slots, open_forecasts, error, surprises } = wire;
        Self { last_slot, open_sum, open_count, slots, open_forecasts, error, surprises }
    }
}

impl From<&DrivingMemory> for DrivingWire {
    fn from(driving: &DrivingMemory) -> Self {
        let DrivingMemory { doubt, calm_secs, strikes, takeovers, clean_secs, fast, slow } = *driving;
        let doubt = doubt.map(|doubt| doubt.as_str().to_owned());
        Self { doubt, calm: calm_secs, strikes, takeovers, clean: clean_secs, fast, slow }
    }
}

impl From<DrivingWire> for DrivingMemory {
    fn from(wire: DrivingWire) -> Self {
        let DrivingWire { doubt, calm, strikes, takeovers, clean, fast, slow } = wire;
        // A doubt that only a newer operator knows is a doubt all the same.
        let known = |name: &str| Doubt::ALL.into_iter().find(|doubt| doubt.as_str() == name);
        let doubt = doubt.map(|name| known(&name).unwrap_or(Doubt::Failed));
        Self { doubt, calm_secs: calm, strikes, takeovers, clean_secs: clean, fast, slow }
    }
}

#[cfg(test)]
mod tests;
