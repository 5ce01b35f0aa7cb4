//! Events: what is worth a line in `kubectl describe`. Pure.
//!
//! Created as they are, not through a recorder: that folds equal reasons and actions for minutes and keeps the first
//! note. The name is derived from what the event is about, so that a restarted operator repeats none: the second
//! create is refused as already existing.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

use super::target::TargetRef;

/// Who we are in events.
pub const CONTROLLER: &str = "rlscaler.io/operator";
/// Longest note of an event, bytes.
const MAX_NOTE_BYTES: usize = 1024;
/// Longest action, bytes.
const MAX_ACTION_BYTES: usize = 128;
/// Longest name of an object.
const MAX_NAME_CHARS: usize = 253;

/// Whether somebody should look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// It happened.
    Normal,
    /// Somebody should look.
    Warning,
}

/// One thing to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telling {
    /// Whether somebody should look.
    pub severity: Severity,
    /// UpperCamel; distinct for distinct things.
    pub reason: &'static str,
    /// What was done, machine-readable.
    pub action: String,
    /// For people; never empty.
    pub note: String,
    /// What makes this telling the same as another: a decision's time, a generation.
    pub identity: String,
}

/// The policy an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// What it scales, where that is known.
    pub target: Option<TargetRef>,
}

/// The event as the API server takes it.
#[must_use]
pub fn event(about: &About, telling: &Telling, instance: &str, now: Timestamp) -> Event {
    let About { namespace, name, uid, target } = about;
    let Telling { severity, reason, action, note, .. } = telling;
    let reference = ObjectReference {
        api_version: Some("rlscaler.io/v1alpha1".to_owned()),
        kind: Some("RLReplicaPolicy".to_owned()),
        namespace: Some(namespace.clone()),
        name: Some(name.clone()),
        uid: Some(uid.clone()),
        ..ObjectReference::default()
    };
    let related = target.as_ref().map(|target| ObjectReference {
        api_version: Some(target.api_version.clone()),
        kind: Some(target.kind.clone()),
        namespace: Some(namespace.clone()),
        name: Some(target.name.clone()),
        ..ObjectReference::default()
    });
    Event {
        metadata: ObjectMeta {
            name: Some(event_name(about, telling)),
            namespace: Some(namespace.clone()),
            ..ObjectMeta::default()
        },
        type_: Some(match severity {
            Severity::Normal => "Normal".to_owned(),
            Severity::Warning => "Warning".to_owned(),
        }),
        reason: Some((*reason).to_owned()),
        action: Some(cut(action, MAX_ACTION_BYTES)),
        note: Some(cut(note, MAX_NOTE_BYTES)),
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(cut(instance, MAX_ACTION_BYTES)),
        regarding: Some(reference),
        related,
        ..Event::default()
    }
}

/// The policy's name and a hash of everything that makes the telling what it is, as long as a name may be.
fn event_name(about: &About, telling: &Telling) -> String {
    let parts = [&about.uid, telling.reason, &telling.action, &telling.identity];
    let suffix = format!(".{:016x}", fnv1a(&parts.join("\u{0}")));
    let mut name: String = about.name.chars().take(MAX_NAME_CHARS - suffix.len()).collect();
    // What is left must not end in a separator.
    name.truncate(name.trim_end_matches(['.', '-']).len());
    name + &suffix
}

/// FNV-1a, 64 bits: stable from build to build, unlike the standard library's hasher.
fn fnv1a(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// At most so many bytes, at a character's end, nothing hidden in it.
#[must_use]
pub fn cut(text: &str, max_bytes: usize) -> String {
    const ELLIPSIS: &str = "…";
    let text = rlscaler_core::text::visible(text, max_bytes);
    if text.len() <= max_bytes {
        return text;
    }
    let mut end = max_bytes - ELLIPSIS.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{ELLIPSIS}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(name: &str) -> About {
        About { namespace: "shop".into(), name: name.into(), uid: "u".into(), target: None }
    }

    fn telling(identity: &str) -> Telling {
        Telling {
            severity: Severity::Normal,
            reason: "SuccessfulRescale",
            action: "ScaleFrom3To5".into(),
            note: "New size: 5; reason: load".into(),
            identity: identity.into(),
        }
    }

    fn name(about: &About, telling: &Telling) -> String {
        event(about, telling, "pod", Timestamp::UNIX_EPOCH).metadata.name.unwrap()
    }

    #[test]
    fn the_same_decision_has_the_same_name_whoever_tells_it_and_another_has_another() {
        let first = name(&about("web"), &telling("10:00"));
        assert_eq!(first, name(&about("web"), &telling("10:00")));
        assert_ne!(first, name(&about("web"), &telling("10:05")));
        assert!(first.starts_with("web.") && first.len() == 4 + 16, "{first}");
    }

    #[test]
    fn a_note_cannot_forge_a_line_or_turn_the_text_around() {
        let forged = Telling { note: "load\nWarning  Evil\u{202e}\u{1b}[2J".into(), ..telling("x") };
        let event = event(&about("web"), &forged, "pod", Timestamp::UNIX_EPOCH);
        assert_eq!(event.note.unwrap(), "load Warning  Evil  [2J");
    }

    #[test]
    fn a_name_of_253_characters_and_a_long_note_fit() {
        let long = about(&"a".repeat(253));
        assert_eq!(name(&long, &telling("x")).len(), MAX_NAME_CHARS);
        let dotted = about(&(format!("{}.", "a".repeat(235)) + &"b".repeat(17)));
        assert!(!name(&dotted, &telling("x")).contains(".."));
        let note = Telling { note: "ü".repeat(2000), ..telling("x") };
        let note = event(&long, &note, "pod", Timestamp::UNIX_EPOCH).note.unwrap();
        assert!(note.len() <= MAX_NOTE_BYTES && note.ends_with('…'));
    }
}
