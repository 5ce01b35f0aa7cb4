//! A person's will, from annotations and spec of the live object. Source first, then kind: any override annotation
//! outranks `spec.override`; within one source pin > pause > one direction. What cannot be read pauses, which is the
//! safe state, and is named. Pure: never reads a status, never panics whatever an annotation holds.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use rlscaler_core::settings::Override;

use crate::annotations;
use crate::conditions::EventReason;
use crate::limits::{MAX_REASON_CHARS, MAX_REPLICAS, cut};
use crate::policy::{OverrideMode, OverrideSpec};
use crate::scalar;
use crate::status::OverrideFrom;

/// Longest part of an unreadable value that is shown, characters.
const MAX_SHOWN_CHARS: usize = 40;
/// Most unknown annotations that are warned of.
const MAX_UNKNOWN: usize = 8;

/// What a person wants, and what is to be said about it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resolved {
    /// For the brain.
    pub will: Override,
    /// Where what counts is written; `None` when nothing is.
    pub from: Option<OverrideFrom>,
    /// The annotation that counts, to find out who wrote it.
    pub annotation: Option<&'static str>,
    /// Why, in the person's words, cut to [`MAX_REASON_CHARS`].
    pub reason: Option<String>,
    /// When it ends by itself.
    pub until: Option<Timestamp>,
    /// What a person should be told, each an event.
    pub warnings: Vec<Warning>,
}

impl Resolved {
    /// An override that is still written down although its time is over.
    #[must_use]
    pub fn expired(&self) -> Option<&Warning> {
        self.warnings.iter().find(|warning| matches!(warning, Warning::Expired { .. }))
    }

    /// An annotation or field that could not be read.
    #[must_use]
    pub fn invalid(&self) -> Option<&Warning> {
        self.warnings.iter().find(|warning| matches!(warning, Warning::Unreadable { .. }))
    }

    /// The mode as status writes it; `None` when automatic.
    #[must_use]
    pub fn mode(&self) -> Option<OverrideMode> {
        match self.will {
            Override::None => None,
            Override::Pin { .. } => Some(OverrideMode::Pin),
            Override::Pause => Some(OverrideMode::Pause),
            Override::PauseScaleDown => Some(OverrideMode::PauseScaleDown),
            Override::PauseScaleUp => Some(OverrideMode::PauseScaleUp),
        }
    }
}

/// What a person should be told about an override.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// A value that is not what its place takes: scaling is paused.
    Unreadable {
        /// The annotation, or the field of the spec.
        place: &'static str,
        /// What stands there, cut.
        value: String,
        /// What the place takes.
        takes: &'static str,
    },
    /// The time of an override is over: it does not apply.
    Expired {
        /// Where it is written.
        from: OverrideFrom,
        /// When it ended.
        until: Timestamp,
    },
    /// An annotation with our prefix that means nothing, perhaps a typing error.
    Unknown {
        /// Its key, cut.
        annotation: String,
    },
}

impl Warning {
    /// The event that tells it.
    #[must_use]
    pub fn event(&self) -> EventReason {
        match self {
            Warning::Unreadable { .. } => EventReason::OverrideInvalid,
            Warning::Expired { .. } => EventReason::OverrideExpired,
            Warning::Unknown { .. } => EventReason::UnknownAnnotation,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Unreadable { place, value, takes } => {
                write!(f, "{place} is {value:?} but takes {takes}: paused until it is corrected or removed")
            }
            Warning::Expired { from: OverrideFrom::Annotation, until } => write!(
                f,
                "the override of the annotations ended at {until} ({}) and does not apply: remove it",
                annotations::OVERRIDE_UNTIL
            ),
            Warning::Expired { from: OverrideFrom::Spec, until } => {
                write!(
                    f,
                    "spec.override ended at {until} (spec.override.until) and does not apply: remove it"
                )
            }
            Warning::Unknown { annotation } => {
                write!(f, "annotation {annotation:?} is not one of rlscaler's and has no effect")
            }
        }
    }
}

/// What applies now.
#[must_use]
pub fn resolve(
    annotations: &BTreeMap<String, String>,
    spec: Option<&OverrideSpec>,
    now: Timestamp,
) -> Resolved {
    let mut warnings = unknown_annotations(annotations);
    let written = read_annotations(annotations, &mut warnings);
    if let Some(written) = written {
        match written.until {
            Some(until) if until <= now => {
                warnings.push(Warning::Expired { from: OverrideFrom::Annotation, until });
            }
            _ => return Resolved { warnings, ..written },
        }
    }
    let Some(spec) = spec else { return Resolved { warnings, ..Resolved::default() } };
    let written = read_spec(spec, allows_out_of_bounds(annotations), &mut warnings);
    match written.until {
        Some(until) if until <= now => {
            warnings.push(Warning::Expired { from: OverrideFrom::Spec, until });
            Resolved { warnings, ..Resolved::default() }
        }
        _ => Resolved { warnings, ..written },
    }
}

/// Whether the policy may scale although another autoscaler has the same target. Anything but `"true"` is no.
#[must_use]
pub fn ignores_conflicts(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(annotations::IGNORE_CONFLICTS).is_some_and(|value| value == "true")
}

const TAKES_BOOLEAN: &str = "\"true\" or \"false\"";
const TAKES_REPLICAS: &str = "a replica count from 0 to 100000";
const TAKES_TIME: &str = "a time as in RFC 3339, such as 2027-01-01T00:00:00Z";
const _: () = assert!(MAX_REPLICAS == 100_000, "the sentence above names the limit");

/// What the annotations ask for; `None` when none of them is an override. Warnings are added, those of modifiers too.
fn read_annotations(annotations: &BTreeMap<String, String>, warnings: &mut Vec<Warning>) -> Option<Resolved> {
    let mut unreadable: Vec<&'static str> = Vec::new();
    let mut read = |key: &'static str, takes: &'static str| -> Option<&String> {
        let value = annotations.get(key)?;
        let readable = if takes == TAKES_BOOLEAN {
            scalar::boolean(value).is_some()
        } else if takes == TAKES_REPLICAS {
            scalar::replicas(value).is_some()
        } else {
            scalar::time(value).is_some()
        };
        if !readable {
            warnings.push(Warning::Unreadable { place: key, value: cut(value, MAX_SHOWN_CHARS), takes });
            unreadable.push(key);
        }
        readable.then_some(value)
    };

    let flag = |value: Option<&String>| value.and_then(|value| scalar::boolean(value));
    let pin = read(annotations::REPLICAS, TAKES_REPLICAS).and_then(|value| scalar::replicas(value));
    let pause = flag(read(annotations::PAUSE, TAKES_BOOLEAN));
    let down = flag(read(annotations::PAUSE_SCALE_DOWN, TAKES_BOOLEAN));
    let up = flag(read(annotations::PAUSE_SCALE_UP, TAKES_BOOLEAN));
    let until = read(annotations::OVERRIDE_UNTIL, TAKES_TIME).and_then(|value| scalar::time(value));
    let allow = flag(read(annotations::ALLOW_OUT_OF_BOUNDS, TAKES_BOOLEAN));

    // A pin outranks a pause, but not what might have been another pin, or an end or a leave that cannot be read.
    let pin_is_clear =
        ![annotations::REPLICAS, annotations::OVERRIDE_UNTIL, annotations::ALLOW_OUT_OF_BOUNDS]
            .iter()
            .any(|key| unreadable.contains(key));
    let (will, annotation) = match (pin, unreadable.first()) {
        (Some(replicas), _) if pin_is_clear => {
            (Override::Pin { replicas, allow_out_of_bounds: allow == Some(true) }, annotations::REPLICAS)
        }
        (_, Some(key)) => (Override::Pause, *key),
        _ if pause == Some(true) => (Override::Pause, annotations::PAUSE),
        _ if down == Some(true) && up == Some(true) => (Override::Pause, annotations::PAUSE_SCALE_DOWN),
        _ if down == Some(true) => (Override::PauseScaleDown, annotations::PAUSE_SCALE_DOWN),
        _ if up == Some(true) => (Override::PauseScaleUp, annotations::PAUSE_SCALE_UP),
        _ if pause.is_some() => (Override::None, annotations::PAUSE),
        _ if down.is_some() => (Override::None, annotations::PAUSE_SCALE_DOWN),
        _ if up.is_some() => (Override::None, annotations::PAUSE_SCALE_UP),
        _ => return None,
    };
    let reason = annotations.get(annotations::OVERRIDE_REASON).map(|reason| cut(reason, MAX_REASON_CHARS));
    Some(Resolved {
        will,
        from: Some(OverrideFrom::Annotation),
        annotation: Some(annotation),
        reason,
        until,
        warnings: Vec::new(),
    })
}

fn read_spec(spec: &OverrideSpec, allow_out_of_bounds: bool, warnings: &mut Vec<Warning>) -> Resolved {
    let OverrideSpec { mode, replicas, reason, until } = spec;
    let mut unreadable = |place: &'static str, value: &str, takes: &'static str| {
        warnings.push(Warning::Unreadable { place, value: cut(value, MAX_SHOWN_CHARS), takes });
        Override::Pause
    };
    let mut will = match mode {
        OverrideMode::Pause => Override::Pause,
        OverrideMode::PauseScaleDown => Override::PauseScaleDown,
        OverrideMode::PauseScaleUp => Override::PauseScaleUp,
        OverrideMode::Pin => match replicas.map(|replicas| (replicas, u32::try_from(replicas))) {
            Some((asked, Ok(replicas))) if asked <= MAX_REPLICAS => {
                Override::Pin { replicas, allow_out_of_bounds }
            }
            Some((asked, _)) => unreadable("spec.override.replicas", &asked.to_string(), TAKES_REPLICAS),
            None => unreadable("spec.override.replicas", "", TAKES_REPLICAS),
        },
    };
    let mut ends = None;
    if let Some(text) = until {
        ends = scalar::time(text);
        if ends.is_none() {
            will = unreadable("spec.override.until", text, TAKES_TIME);
        }
    }
    Resolved {
        will,
        from: Some(OverrideFrom::Spec),
        annotation: None,
        reason: reason.as_deref().map(|reason| cut(reason, MAX_REASON_CHARS)),
        until: ends,
        warnings: Vec::new(),
    }
}

fn allows_out_of_bounds(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(annotations::ALLOW_OUT_OF_BOUNDS).is_some_and(|value| value == "true")
}

fn unknown_annotations(annotations: &BTreeMap<String, String>) -> Vec<Warning> {
    annotations
        .keys()
        .filter(|key| key.starts_with(annotations::PREFIX) && !annotations::ALL.contains(&key.as_str()))
        .take(MAX_UNKNOWN)
        .map(|key| Warning::Unknown { annotation: cut(key, MAX_SHOWN_CHARS) })
        .collect()
}

#[cfg(test)]
mod tests;
