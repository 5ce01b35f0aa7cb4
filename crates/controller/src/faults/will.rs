//! What a person may want of a policy, how it is written down, and what the contract (`docs/api.md`, the annotations and
//! their order) makes of it. Written from the contract alone: nothing here asks the code under test.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::dice::Dice;

/// When every schedule begins.
pub(crate) const EPOCH_SECS: i64 = 1_800_000_000;

/// The time `secs` after the beginning.
pub(crate) fn at(secs: f64) -> Timestamp {
    let begin = Timestamp::from_second(EPOCH_SECS).unwrap();
    begin + SignedDuration::from_millis((secs * 1000.0).round() as i64)
}

/// What a person wants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wish {
    Automatic,
    Pin { replicas: u32, beyond: bool },
    Pause,
    NoDown,
    NoUp,
}

/// A wish, and when it ends, seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Written {
    pub(crate) wish: Wish,
    pub(crate) until_secs: Option<f64>,
}

impl Written {
    /// `None` when its time is over.
    pub(crate) fn at(self, clock_secs: f64) -> Option<Wish> {
        self.until_secs.is_none_or(|until| clock_secs < until).then_some(self.wish)
    }
}

/// Override annotations as people write them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Annotated {
    Pin(u32),
    PinBeyond(u32),
    PinAndPause(u32),
    PinAndNoDown(u32),
    Pause,
    PauseAndNoUp,
    PauseFalse,
    NoDown,
    NoUp,
    BothDirections,
    JunkPause,
    JunkPin,
    JunkBesideNoDown,
}

impl Annotated {
    pub(crate) fn any(dice: &mut Dice) -> Self {
        let replicas = dice.count(0, 30);
        dice.pick(&[
            Self::Pin(replicas),
            Self::Pin(replicas),
            Self::PinBeyond(replicas),
            Self::PinAndPause(replicas),
            Self::PinAndNoDown(replicas),
            Self::Pause,
            Self::Pause,
            Self::PauseAndNoUp,
            Self::PauseFalse,
            Self::NoDown,
            Self::NoUp,
            Self::BothDirections,
            Self::JunkPause,
            Self::JunkPin,
            Self::JunkBesideNoDown,
        ])
    }

    /// As annotations.
    pub(crate) fn pairs(self) -> Vec<(&'static str, String)> {
        const PIN: &str = "rlscaler.io/replicas";
        const PAUSE: &str = "rlscaler.io/pause";
        const DOWN: &str = "rlscaler.io/pause-scale-down";
        const UP: &str = "rlscaler.io/pause-scale-up";
        let yes = || "true".to_owned();
        match self {
            Self::Pin(n) => vec![(PIN, n.to_string())],
            Self::PinBeyond(n) => {
                vec![(PIN, n.to_string()), ("rlscaler.io/allow-out-of-bounds", yes())]
            }
            Self::PinAndPause(n) => vec![(PIN, n.to_string()), (PAUSE, yes())],
            Self::PinAndNoDown(n) => vec![(PIN, n.to_string()), (DOWN, yes())],
            Self::Pause => vec![(PAUSE, yes())],
            Self::PauseAndNoUp => vec![(PAUSE, yes()), (UP, yes())],
            Self::PauseFalse => vec![(PAUSE, "false".to_owned())],
            Self::NoDown => vec![(DOWN, yes())],
            Self::NoUp => vec![(UP, yes())],
            Self::BothDirections => vec![(DOWN, yes()), (UP, yes())],
            Self::JunkPause => vec![(PAUSE, "maybe".to_owned())],
            Self::JunkPin => vec![(PIN, "a dozen".to_owned())],
            Self::JunkBesideNoDown => vec![(UP, "ja".to_owned()), (DOWN, yes())],
        }
    }

    /// What the contract makes of it: pin > pause > one direction; junk pauses; `pause: "false"` is automatic.
    pub(crate) fn wish(self) -> Wish {
        match self {
            Self::Pin(replicas) | Self::PinAndPause(replicas) | Self::PinAndNoDown(replicas) => {
                Wish::Pin { replicas, beyond: false }
            }
            Self::PinBeyond(replicas) => Wish::Pin { replicas, beyond: true },
            Self::Pause | Self::PauseAndNoUp | Self::BothDirections => Wish::Pause,
            Self::JunkPause | Self::JunkPin | Self::JunkBesideNoDown => Wish::Pause,
            Self::PauseFalse => Wish::Automatic,
            Self::NoDown => Wish::NoDown,
            Self::NoUp => Wish::NoUp,
        }
    }
}

/// As `spec.override`.
pub(crate) fn spec_override(written: Written) -> Value {
    let mut spec = match written.wish {
        Wish::Automatic => return Value::Null,
        Wish::Pin { replicas, .. } => json!({"mode": "Pin", "replicas": replicas, "reason": "a sale"}),
        Wish::Pause => json!({"mode": "Pause"}),
        Wish::NoDown => json!({"mode": "PauseScaleDown"}),
        Wish::NoUp => json!({"mode": "PauseScaleUp"}),
    };
    if let Some(until) = written.until_secs {
        spec["until"] = at(until).to_string().into();
    }
    spec
}

/// The facts of one version of a policy that the contract speaks of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Version {
    pub(crate) number: usize,
    pub(crate) uid: String,
    pub(crate) min: u32,
    pub(crate) max: u32,
    pub(crate) auto: bool,
    pub(crate) valid: bool,
    /// `rlscaler.io/ignore-conflicts`.
    pub(crate) insists: bool,
    pub(crate) annotated: Option<Written>,
    pub(crate) spec: Option<Written>,
    /// After so many seconds, so many replicas.
    pub(crate) fallback: Option<(f64, u32)>,
    pub(crate) interval_secs: f64,
}

impl Version {
    /// Source first, then kind: any override annotation outranks `spec.override`.
    pub(crate) fn wish(&self, clock_secs: f64) -> Wish {
        let annotated = self.annotated.and_then(|written| written.at(clock_secs));
        let spec = || self.spec.and_then(|written| written.at(clock_secs));
        annotated.or_else(spec).unwrap_or(Wish::Automatic)
    }

    pub(crate) fn clamp(&self, replicas: u32) -> u32 {
        replicas.clamp(self.min, self.max)
    }

    /// The count a pin asks for.
    pub(crate) fn pinned(&self, wish: Wish) -> Option<u32> {
        match wish {
            Wish::Pin { replicas, beyond: true } => Some(replicas),
            Wish::Pin { replicas, beyond: false } => Some(self.clamp(replicas)),
            _ => None,
        }
    }
}
