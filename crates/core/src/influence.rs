//! What mattered most in the model's answer, in a person's words.
//!
//! In: the features the model answered from, and the model. Out: at most [`MOST`] reasons. Features are grouped; each
//! group in turn is replaced by what a steady service of the same size would show, and the model asked again. What the
//! answer changes by is what the group mattered. Nothing is claimed that does not move the answer by a replica, nor
//! where the neutral features are strange to the model. Exact for one group at a time; several need not add up.

use std::fmt;

use crate::budget::BudgetReport;
use crate::features::{Features, WIDTH};
use crate::history::{BIN_SLOTS, MAX_BINS, SLOT_SECS};
use crate::policy::{Policy, multiplied};
use crate::reason::Reason;

/// Most influences told of one decision.
pub const MOST: usize = 3;
/// Less than this many replicas, before rounding, is not worth a claim.
const REPLICAS_MIN: f64 = 0.5;

/// Features that are understood together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Where the load comes from and where it goes.
    Trend,
    /// The highest loads of the last hour and day.
    Peaks,
    /// What repeats by the hour, day and week.
    Season,
    /// How unsteady the load is.
    Burstiness,
    /// How far the planner's forecasts fell short.
    ForecastError,
    /// What a pod is like: start-up, service time, workers.
    Startup,
    /// How much of the past is known.
    History,
    /// The error budget and the price of replicas.
    Price,
}

impl Group {
    /// All of them.
    pub const ALL: [Group; 8] = [
        Group::Trend,
        Group::Peaks,
        Group::Season,
        Group::Burstiness,
        Group::ForecastError,
        Group::Startup,
        Group::History,
        Group::Price,
    ];
}

/// What a steady service of the same size would show.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Neutral {
    /// Of no group: the size itself, and what follows from it.
    Kept,
    /// This value.
    Is(Group, f32),
    /// This many times the noise of a Poisson stream of this size (`noise_poisson`), and independently of it this: the
    /// root of the sum of their squares.
    Noise(Group, f32, f32),
}

use Neutral::{Is, Kept, Noise};

/// Beside each feature's name, what replaces it. Start-up, horizon, target and workers: a pod that serves after 60 s,
/// 90 s looked ahead, a target of 5 service times, 4 workers. Multiples of the noise: means over steady Poisson streams
/// (`a_steady_service_shows_about_the_neutral_values`).
const NEUTRAL: [(&str, Neutral); WIDTH] = [
    ("last_slot", Is(Group::Trend, 0.0)),
    ("mean_1m", Is(Group::Trend, 0.0)),
    ("mean_5m", Is(Group::Trend, 0.0)),
    ("mean_15m", Is(Group::Trend, 0.0)),
    ("mean_60m", Is(Group::Trend, 0.0)),
    ("mean_6h", Is(Group::Trend, 0.0)),
    ("max_1m", Noise(Group::Peaks, 0.95, 0.0)),
    ("max_5m", Noise(Group::Peaks, 1.7, 0.0)),
    ("max_15m", Noise(Group::Peaks, 2.15, 0.0)),
    ("max_60m", Noise(Group::Peaks, 2.6, 0.0)),
    ("max_24h", Noise(Group::Peaks, 1.0, 0.0)),
    ("min_5m", Noise(Group::Burstiness, -1.8, 0.0)),
    ("min_15m", Noise(Group::Burstiness, -2.25, 0.0)),
    ("slope_1m", Is(Group::Trend, 0.0)),
    ("slope_5m", Is(Group::Trend, 0.0)),
    ("noise_5m", Noise(Group::Burstiness, 1.0, 0.0)),
    ("noise_60m", Noise(Group::Burstiness, 1.0, 0.0)),
    ("noise_poisson", Kept),
    ("p75_60m", Noise(Group::Burstiness, 0.65, 0.0)),
    ("p90_60m", Noise(Group::Burstiness, 1.25, 0.0)),
    ("p98_60m", Noise(Group::Burstiness, 2.0, 0.0)),
    ("deviation_60m", Noise(Group::Burstiness, 1.0, 0.0)),
    ("rise_p50", Noise(Group::Burstiness, 1.1, 0.0)),
    ("rise_p90", Noise(Group::Burstiness, 2.6, 0.011)),
    ("rise_p98", Noise(Group::Burstiness, 3.6, 0.012)),
    ("rise_p995", Noise(Group::Burstiness, 4.3, 0.013)),
    ("day_rise", Is(Group::Season, 0.0)),
    ("day_rise_after", Is(Group::Season, 0.0)),
    ("day_level", Is(Group::Season, 0.0)),
    ("day_known", Is(Group::History, 1.0)),
    ("week_rise", Is(Group::Season, 0.0)),
    ("week_rise_after", Is(Group::Season, 0.0)),
    ("week_level", Is(Group::Season, 0.0)),
    ("week_known", Is(Group::History, 1.0)),
    ("days_rise_mean", Is(Group::Season, 0.0)),
    ("days_rise_max", Is(Group::Season, 0.0)),
    ("lag30m_rise", Is(Group::Season, 0.0)),
    ("lag30m_rise_after", Is(Group::Season, 0.0)),
    ("lag30m_level", Is(Group::Season, 0.0)),
    ("lag30m_known", Is(Group::History, 1.0)),
    ("lag60m_rise", Is(Group::Season, 0.0)),
    ("lag60m_rise_after", Is(Group::Season, 0.0)),
    ("lag60m_level", Is(Group::Season, 0.0)),
    ("lag60m_known", Is(Group::History, 1.0)),
    ("day_skill", Is(Group::Season, 0.0)),
    ("week_skill", Is(Group::Season, 0.0)),
    ("log_level", Kept),
    ("planner_ratio", Kept),
    ("log_planner", Kept),
    ("planner_error", Noise(Group::ForecastError, 2.1, 0.033)),
    ("forecast_ratio", Is(Group::Trend, 0.0)),
    ("log_startup", Is(Group::Startup, 0.0)),
    ("log_horizon", Is(Group::Startup, -0.287_682)),
    ("log_target_over_service", Is(Group::Startup, 1.609_438)),
    ("log_workers", Is(Group::Startup, 1.386_294)),
    ("history_length", Is(Group::History, 1.0)),
    ("surprise", Is(Group::Burstiness, -1.95)),
];

/// Place of a feature.
const fn place(name: &str) -> usize {
    let mut at = 0;
    while at < WIDTH {
        if same(NEUTRAL[at].0.as_bytes(), name.as_bytes()) {
            return at;
        }
        at += 1;
    }
    panic!("no feature of this name")
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The features with one group replaced by what a steady service of the same size would show; the price by
/// `usual_price`.
#[must_use]
pub fn neutral(features: &Features, group: Group, usual_price: f64) -> Features {
    const POISSON: usize = place("noise_poisson");
    let seen = features.values();
    let values = std::array::from_fn(|at| match NEUTRAL[at].1 {
        Is(of, value) if of == group => value,
        Noise(of, times, floor) if of == group => (times * seen[POISSON]).hypot(floor).copysign(times),
        Kept | Is(..) | Noise(..) => seen[at],
    });
    let price = if group == Group::Price { usual_price } else { features.price() };
    Features::new(values, price, features.planner(), features.busy_pods())
}

/// How much each group moved the answer's logarithm, in the order of [`Group::ALL`]; 0 where the neutral features are
/// strange to the policy.
///
/// `log_multiplier`: the answer to `features`.
#[must_use]
pub fn effects(
    policy: &dyn Policy,
    features: &Features,
    usual_price: f64,
    log_multiplier: f64,
) -> [f64; Group::ALL.len()] {
    Group::ALL.map(|group| {
        let without = neutral(features, group, usual_price);
        if without == *features {
            return 0.0;
        }
        policy.multiplier(&without).map_or(0.0, |multiplier| log_multiplier - multiplier.ln())
    })
}

/// What an answer of the model stands on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    /// What it saw.
    pub features: Features,
    /// n0, replicas.
    pub planner: f64,
    /// What it answered.
    pub multiplier: f64,
    /// The price of lateness with the error budget where it should be, and replicas at their usual price.
    pub usual_price: f64,
    /// The error budget.
    pub budget: BudgetReport,
}

/// The influences that moved the answer by a replica or more, the strongest first; at most [`MOST`].
#[must_use]
pub fn strongest(policy: &dyn Policy, asked: &Asked) -> Influences {
    let Asked { features, planner, multiplier, usual_price, .. } = asked;
    let log_multiplier = multiplier.ln();
    let effects = effects(policy, features, *usual_price, log_multiplier);
    let answer = multiplied(*planner, *multiplier);
    let mut order: [usize; Group::ALL.len()] = std::array::from_fn(|at| at);
    order.sort_by(|&one, &other| effects[other].abs().total_cmp(&effects[one].abs()));
    let mut told = Influences::default();
    for at in order {
        let without = (log_multiplier - effects[at]).exp();
        let moved = *planner * (multiplier - without);
        let change = i64::from(answer) - i64::from(multiplied(*planner, without));
        let Some(influence) = Influence::seen(Group::ALL[at], asked) else { continue };
        if told.len < MOST && change != 0 && REPLICAS_MIN <= moved.abs() {
            let change = change.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
            told.items[told.len] = Some(Reason::Influence { influence, change });
            told.len += 1;
        }
    }
    told
}

/// At most [`MOST`] reasons, without allocation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Influences {
    items: [Option<Reason>; MOST],
    len: usize,
}

impl Influences {
    /// The strongest first.
    pub fn iter(&self) -> impl Iterator<Item = Reason> {
        self.items.into_iter().flatten()
    }
}

/// Which part of the past a season is told of: the longest that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Past {
    /// A day ago.
    Day,
    /// A week ago.
    Week,
    /// An hour ago.
    Hour,
    /// Half an hour ago.
    HalfHour,
}

/// What was seen in a group, in shares: 0.18 is 18 % more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Influence {
    /// See [`Group::Trend`].
    Trend {
        /// Load over the mean of the last hour, less 1.
        above_hour: f64,
        /// Growth of the last five minutes over the load.
        rise_5m: f64,
    },
    /// See [`Group::Peaks`].
    Peaks {
        /// Peak of the last hour over its mean, less 1.
        hour: f64,
        /// Peak of the last 24 hours over the load, less 1.
        day: f64,
    },
    /// See [`Group::Season`].
    Season {
        /// The time that is compared.
        past: Past,
        /// Load over that of then, less 1.
        above: f64,
        /// How much the load rose then until a new pod would have served.
        rose: f64,
    },
    /// See [`Group::Burstiness`].
    Burstiness {
        /// Root mean square difference of neighbouring quarter minutes within the last hour, over the load.
        swing: f64,
        /// The same in a Poisson stream of this rate.
        chance: f64,
    },
    /// See [`Group::ForecastError`].
    ForecastError {
        /// Running relative shortfall.
        short: f64,
    },
    /// See [`Group::Startup`].
    Startup {
        /// Seconds until a new pod serves.
        secs: f64,
        /// Latency target in service times.
        target: f64,
    },
    /// See [`Group::History`].
    History {
        /// Days of the past that are known.
        days: f64,
    },
    /// See [`Group::Price`].
    Price {
        /// Share of the error budget that is left.
        left: f64,
        /// Price of lateness over the usual one.
        times: f64,
    },
}

impl Influence {
    /// What was seen of a group; `None` where there is nothing to tell.
    fn seen(group: Group, asked: &Asked) -> Option<Self> {
        let Asked { features, usual_price, budget, .. } = asked;
        let value = |at: usize| f64::from(features.values()[at]);
        let more = |log_ratio: f64| log_ratio.exp() - 1.0;
        Some(match group {
            Group::Trend => Self::Trend {
                above_hour: more(-value(const { place("mean_60m") })),
                rise_5m: value(const { place("slope_5m") }),
            },
            Group::Peaks => Self::Peaks {
                hour: more(value(const { place("max_60m") }) - value(const { place("mean_60m") })),
                day: more(value(const { place("max_24h") })),
            },
            Group::Season => {
                const PASTS: [(Past, usize); 4] = [
                    (Past::Day, place("day_rise")),
                    (Past::Week, place("week_rise")),
                    (Past::Hour, place("lag60m_rise")),
                    (Past::HalfHour, place("lag30m_rise")),
                ];
                // Four features each: rise, rise after, level, known.
                let (past, at) = PASTS.into_iter().find(|&(_, at)| 0.5 < value(at + 3))?;
                Self::Season { past, above: more(-value(at + 2)), rose: more(value(at)) }
            }
            Group::Burstiness => Self::Burstiness {
                swing: value(const { place("noise_60m") }),
                chance: value(const { place("noise_poisson") }),
            },
            Group::ForecastError => Self::ForecastError { short: value(const { place("planner_error") }) },
            Group::Startup => Self::Startup {
                secs: 60.0 * value(const { place("log_startup") }).exp(),
                target: value(const { place("log_target_over_service") }).exp(),
            },
            Group::History => {
                let bins = MAX_BINS as f64 * value(const { place("history_length") });
                Self::History { days: bins * BIN_SLOTS as f64 * SLOT_SECS / 86_400.0 }
            }
            Group::Price => {
                Self::Price { left: budget.remaining_ratio, times: features.price() / usual_price }
            }
        })
    }

    /// The group it tells of.
    #[must_use]
    pub fn group(&self) -> Group {
        match self {
            Self::Trend { .. } => Group::Trend,
            Self::Peaks { .. } => Group::Peaks,
            Self::Season { .. } => Group::Season,
            Self::Burstiness { .. } => Group::Burstiness,
            Self::ForecastError { .. } => Group::ForecastError,
            Self::Startup { .. } => Group::Startup,
            Self::History { .. } => Group::History,
            Self::Price { .. } => Group::Price,
        }
    }

    /// Stable UpperCamel code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Trend { .. } => "RecentLoad",
            Self::Peaks { .. } => "RecentPeaks",
            Self::Season { .. } => "UsualLoad",
            Self::Burstiness { .. } => "Burstiness",
            Self::ForecastError { .. } => "ForecastError",
            Self::Startup { .. } => "StartupTime",
            Self::History { .. } => "KnownHistory",
            Self::Price { .. } => "ErrorBudget",
        }
    }
}

/// "18 % above", "5 % below" or "at".
struct Against(f64);

impl fmt::Display for Against {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = (self.0 * 100.0).round();
        if percent == 0.0 {
            f.write_str("at")
        } else if 0.0 < percent {
            write!(f, "{percent:.0} % above")
        } else {
            write!(f, "{:.0} % below", -percent)
        }
    }
}

/// Growth within five minutes that is worth a word.
const STEADY: f64 = 0.02;
/// A peak this much above the mean makes an hour bursty.
const BURSTY: f64 = 0.3;
/// Shares of the budget that are called half.
const HALF: std::ops::RangeInclusive<f64> = 0.45..=0.55;
/// A past shorter than this is told in hours, in days.
const SHORT_DAYS: f64 = 2.0;

impl fmt::Display for Influence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Trend { above_hour, rise_5m } => {
                write!(f, "load is {} the mean of the last hour and ", Against(above_hour))?;
                if rise_5m.abs() < STEADY {
                    f.write_str("steady")
                } else {
                    let way = if 0.0 < rise_5m { "rising" } else { "falling" };
                    write!(f, "{way}: by {:.0} % in five minutes", rise_5m.abs() * 100.0)
                }
            }
            Self::Peaks { hour, day } => {
                if BURSTY <= hour {
                    f.write_str("the last hour was bursty: peaks ")?;
                } else {
                    f.write_str("the peak of the last hour was ")?;
                }
                write!(f, "{} its mean, that of the last day {} the load now", Against(hour), Against(day))
            }
            Self::Season { past, above, rose } => {
                let (then, what) = match past {
                    Past::Day => ("the usual for this hour", "yesterday"),
                    Past::Week => ("the usual for this hour", "a week ago"),
                    Past::Hour => ("that of an hour ago", "then"),
                    Past::HalfHour => ("that of half an hour ago", "then"),
                };
                write!(f, "load is {} {then}; {what} it ", Against(above))?;
                let percent = (rose * 100.0).round();
                if percent <= 0.0 {
                    f.write_str("did not rise from here")
                } else {
                    write!(f, "rose by {percent:.0} % from here")
                }
            }
            Self::Burstiness { swing, chance } => write!(
                f,
                "load swings by {:.0} % from one quarter minute to the next, {:.1} times what chance would give",
                swing * 100.0,
                swing / chance
            ),
            Self::ForecastError { short } => {
                write!(f, "forecasts lately fell short by {:.0} %", short * 100.0)
            }
            Self::Startup { secs, target } => {
                write!(f, "a new pod serves after {secs:.0} s, and the target is {target:.1} service times")
            }
            Self::History { days } if days < SHORT_DAYS => {
                write!(f, "only {:.1} h of this service's past are known", days * 24.0)
            }
            Self::History { days } => write!(f, "{days:.0} days of this service's past are known"),
            Self::Price { left, times } => {
                if left <= 0.0 {
                    f.write_str("this week's error budget is used up")?;
                } else if HALF.contains(&left) {
                    f.write_str("half of this week's error budget is left")?;
                } else {
                    write!(f, "{:.0} % of this week's error budget is left", left * 100.0)?;
                }
                write!(f, ": a late request weighs {times:.1} times as much as usual")
            }
        }
    }
}
