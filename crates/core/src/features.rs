//! What a policy sees: a fixed-length vector of exogenous facts about the load and the planner, and the price.
//!
//! A level z is compared with the present level u as ln((z + 0.1) / (u + 0.1)) in busy pods, clipped to +-4, so one net
//! serves every service. Nothing in the vector depends on the replicas of the service itself: a training window's
//! features can be computed before its actions are known.

/// Length of the vector.
pub const WIDTH: usize = NAMES.len();

/// Meaning of each place, in order. Changing anything here changes [`schema_hash`] and makes older models unusable.
pub const NAMES: [&str; 56] = [
    "last_slot",
    "mean_1m",
    "mean_5m",
    "mean_15m",
    "mean_60m",
    "mean_6h",
    "max_1m",
    "max_5m",
    "max_15m",
    "max_60m",
    "max_24h",
    "min_5m",
    "min_15m",
    "slope_1m",
    "slope_5m",
    "noise_5m",
    "noise_60m",
    "noise_poisson",
    "p75_60m",
    "p90_60m",
    "p98_60m",
    "deviation_60m",
    "rise_p50",
    "rise_p90",
    "rise_p98",
    "rise_p995",
    "day_rise",
    "day_rise_after",
    "day_level",
    "day_known",
    "week_rise",
    "week_rise_after",
    "week_level",
    "week_known",
    "days_rise_mean",
    "days_rise_max",
    "lag30m_rise",
    "lag30m_rise_after",
    "lag30m_level",
    "lag30m_known",
    "lag60m_rise",
    "lag60m_rise_after",
    "lag60m_level",
    "lag60m_known",
    "day_skill",
    "week_skill",
    "log_level",
    "planner_ratio",
    "log_planner",
    "planner_error",
    "forecast_ratio",
    "log_startup",
    "log_horizon",
    "log_target_over_service",
    "log_workers",
    "history_length",
];

/// One tick's features.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Features {
    values: [f32; WIDTH],
    price: f64,
    planner: f64,
    busy_pods: f64,
}

impl Features {
    /// From its parts; anything not finite becomes 0. `planner`: n0 in replicas, before bounds; `busy_pods`: the
    /// present load.
    #[must_use]
    pub fn new(mut values: [f32; WIDTH], price: f64, planner: f64, busy_pods: f64) -> Self {
        for value in &mut values {
            if !value.is_finite() {
                *value = 0.0;
            }
        }
        Self { values, price, planner, busy_pods }
    }

    /// The vector, in the order of [`NAMES`].
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Price of lateness.
    #[must_use]
    pub fn price(&self) -> f64 {
        self.price
    }

    /// n0, the number the multiplier is applied to, in replicas, before bounds.
    #[must_use]
    pub fn planner(&self) -> f64 {
        self.planner
    }

    /// Present load in busy pods.
    #[must_use]
    pub fn busy_pods(&self) -> f64 {
        self.busy_pods
    }
}

/// FNV-1a over the names and their order, and over the version of their meaning.
#[must_use]
pub fn schema_hash() -> u64 {
    /// Raised when a feature keeps its name and changes its meaning.
    const VERSION: u8 = 1;
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut hash = (OFFSET ^ u64::from(VERSION)).wrapping_mul(PRIME);
    for name in NAMES {
        for byte in name.bytes().chain([b'\n']) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
    }
    hash
}
