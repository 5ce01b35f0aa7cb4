//! Small checks that collect faults instead of stopping at the first.

use super::Fault;
use crate::limits::{MAX_OBJECT_NAME_CHARS, cut};
use crate::scalar;

/// Longest part of a wrong value that is shown, characters.
const MAX_SHOWN_CHARS: usize = 60;
/// Most faults that are kept; a policy has fewer places than this.
const MAX_FAULTS: usize = 100;

/// The beginning of a wrong value.
pub(super) fn shown(text: &str) -> String {
    cut(text, MAX_SHOWN_CHARS)
}

/// Faults and warnings of one validation.
#[derive(Debug, Default)]
pub(super) struct Checks {
    faults: Vec<Fault>,
    warnings: Vec<Fault>,
}

impl Checks {
    pub(super) fn fault(&mut self, field: impl Into<String>, message: impl Into<String>) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(Fault { field: field.into(), message: message.into() });
        }
    }

    pub(super) fn warning(&mut self, field: &str, message: String) {
        self.warnings.push(Fault { field: field.to_owned(), message });
    }

    pub(super) fn into_faults(self) -> Vec<Fault> {
        self.faults
    }

    /// Faults and warnings.
    pub(super) fn finish(self) -> (Vec<Fault>, Vec<Fault>) {
        (self.faults, self.warnings)
    }

    /// The number, when it lies in `min..=max` (both within u32).
    pub(super) fn whole(&mut self, field: &str, value: i64, min: i64, max: i64) -> Option<u32> {
        if value < min || max < value {
            self.fault(field, format!("must be {min} to {max}, but is {value}"));
            return None;
        }
        u32::try_from(value).ok()
    }

    pub(super) fn length(&mut self, field: &str, text: &str, min: usize, max: usize) {
        let length = text.chars().count();
        if length < min || max < length {
            self.fault(field, format!("must have {min} to {max} characters, but has {length}"));
        }
    }

    pub(super) fn name(&mut self, field: &str, of: &str, name: &str) {
        if !scalar::is_name(name) {
            self.fault(field, format!("{:?} must be the name of {of} (a-z, 0-9, '-' and '.')", shown(name)));
        }
    }

    pub(super) fn object_name(&mut self, field: &str, name: &str) {
        let outer = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let valid = name.len() <= MAX_OBJECT_NAME_CHARS
            && name.starts_with(outer)
            && name.ends_with(outer)
            && name.chars().all(|c| outer(c) || c == '-' || c == '.');
        if !valid {
            let message = format!(
                "{:?} must be the name of an object: a-z, 0-9, '-' and '.', beginning and ending with a letter or digit",
                shown(name)
            );
            self.fault(field, message);
        }
    }
}
