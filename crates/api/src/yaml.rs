//! YAML, and the only place that knows which library reads it. Files are read strictly: a field the schema does not
//! know is an error, because in a file nobody else would tell. Every error names the file, the line and the field.

use std::fmt;
use std::sync::LazyLock;

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::crd;
use crate::policy::RLReplicaPolicy;
use crate::validate::{Fault, Limits, Validated, validate};

/// What a policy may hold; generated once, as that costs more than to read a file.
static SCHEMA: LazyLock<Value> = LazyLock::new(crd::schema);

/// Longest policy file, bytes: the API server takes no larger object either.
const MAX_FILE_BYTES: usize = 1_048_576;

/// Longest part of the library's complaint that is shown: it repeats what stands in the file, and names every field.
const MAX_SHOWN_CHARS: usize = 600;

/// One thing wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct FileFault {
    /// Name of the file.
    pub file: String,
    /// Line, from 1, where it is known.
    pub line: Option<usize>,
    /// Path of the field; empty where the text is no YAML at all.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Reads one policy; does not judge its values.
///
/// # Errors
/// The first thing that is no YAML, an unknown or repeated field, or a value of the wrong type.
pub fn read_policy(text: &str, file: &str) -> Result<RLReplicaPolicy, FileFault> {
    let fault = |line, field: &str, message: String| FileFault {
        file: file.to_owned(),
        line,
        field: field.to_owned(),
        message,
    };
    if MAX_FILE_BYTES < text.len() {
        return Err(fault(None, "", format!("is longer than {MAX_FILE_BYTES} bytes")));
    }
    let strict = Strict { schema: &SCHEMA, path: String::new(), wanted: None, is_root: true };
    strict.deserialize(serde_yaml::Deserializer::from_str(text)).map_err(|error| explained(&error, file))?;
    let policy: RLReplicaPolicy = serde_yaml::from_str(text).map_err(|error| explained(&error, file))?;
    let TypeMeta { api_version, kind } =
        serde_yaml::from_str(text).map_err(|error| explained(&error, file))?;
    for (field, found, expected) in
        [("apiVersion", api_version, "rlscaler.io/v1alpha1"), ("kind", kind, "RLReplicaPolicy")]
    {
        if found != expected {
            let message = format!("must be {expected}, but is {:?}", crate::limits::cut(&found, 60));
            return Err(fault(line_of(text, field), field, message));
        }
    }
    Ok(policy)
}

/// Reads one policy and validates it.
///
/// # Errors
/// As [`read_policy`], or every fault of the policy's values.
pub fn read_valid_policy(
    text: &str,
    file: &str,
    limits: Limits,
) -> Result<(RLReplicaPolicy, Validated), Vec<FileFault>> {
    read_checked_policy(text, file, limits, |_| Vec::new())
}

/// As [`read_valid_policy`], with further faults by whoever knows more, the reader of queries for one.
///
/// # Errors
/// As [`read_valid_policy`], or what `check` finds.
pub fn read_checked_policy(
    text: &str,
    file: &str,
    limits: Limits,
    check: impl FnOnce(&Validated) -> Vec<Fault>,
) -> Result<(RLReplicaPolicy, Validated), Vec<FileFault>> {
    let policy = read_policy(text, file).map_err(|fault| vec![fault])?;
    let checked = validate(&policy.spec, limits).and_then(|validated| {
        let faults = check(&validated);
        if faults.is_empty() { Ok(validated) } else { Err(faults) }
    });
    match checked {
        Ok(validated) => Ok((policy, validated)),
        Err(faults) => Err(faults.into_iter().map(|fault| located(fault, text, file)).collect()),
    }
}

fn located(fault: Fault, text: &str, file: &str) -> FileFault {
    let Fault { field, message } = fault;
    FileFault { file: file.to_owned(), line: line_of(text, &field), field, message }
}

/// The line on which a field stands, from 1; that of the nearest field around it when it is left out.
fn line_of(text: &str, field: &str) -> Option<usize> {
    let mut wanted = field;
    loop {
        let seed = Strict { schema: &SCHEMA, path: String::new(), wanted: Some(wanted), is_root: true };
        if let Err(error) = seed.deserialize(serde_yaml::Deserializer::from_str(text)) {
            return error.location().map(|location| location.line());
        }
        wanted = &wanted[..wanted.rfind(['.', '['])?];
    }
}

/// Reads anything in YAML, such as the operator's configuration.
///
/// # Errors
/// What is wrong, with file, line and field.
pub fn read<T: for<'de> Deserialize<'de>>(text: &str, file: &str) -> Result<T, FileFault> {
    serde_yaml::from_str(text).map_err(|error| explained(&error, file))
}

/// Writes anything as YAML.
///
/// # Panics
/// When the value cannot be written as YAML, which no type of ours does.
#[must_use]
pub fn write<T: Serialize>(value: &T) -> String {
    serde_yaml::to_string(value).expect("our types can be written as YAML")
}

/// The library writes `PATH: WHAT at line L column C`; taken apart so that the line stands in front.
fn explained(error: &serde_yaml::Error, file: &str) -> FileFault {
    let text = error.to_string();
    let line = error.location().map(|location| location.line());
    let message = text.split(" at line ").next().unwrap_or(&text);
    let (field, message) = match message.split_once(": ") {
        Some((field, rest)) if !field.contains(' ') => (field, rest),
        _ => ("", message),
    };
    let shown = |text: &str| crate::limits::cut(text, MAX_SHOWN_CHARS);
    FileFault { file: file.to_owned(), line, field: shown(field), message: shown(message) }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypeMeta {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
}

/// Walks a document beside its schema. Stops with an error, which the library gives a line, at a field the schema does
/// not know, at a repeated one, or at the field that is wanted.
struct Strict<'a> {
    schema: &'a Value,
    path: String,
    wanted: Option<&'a str>,
    is_root: bool,
}

impl<'a> Strict<'a> {
    fn below(&self, schema: &'a Value, path: String) -> Self {
        Strict { schema, path, wanted: self.wanted, is_root: false }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        // Metadata is Kubernetes' own and not described; scalars but strings are checked when they are read.
        let has = |key| self.schema.get(key).is_some();
        let known = has("properties") || has("items") || self.schema["type"] == "string";
        if known {
            deserializer.deserialize_any(self)
        } else {
            IgnoredAny::deserialize(deserializer).map(drop)
        }
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.schema["type"].as_str() {
            Some("string") => "a string, in quotes",
            Some("array") => "a list",
            _ => "a map",
        })
    }

    /// The library would take `99` where a string is wanted, the API server does not.
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        if self.schema["type"] == "string" {
            return Ok(());
        }
        Err(E::invalid_type(serde::de::Unexpected::Str(text), &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let nothing = Value::Null;
        let mut seen = Vec::new();
        while let Some(key) = map.next_key_seed(Key { parent: &self, seen: &seen })? {
            let property = &self.schema["properties"][&key];
            let property = if self.is_root && key == "metadata" { &nothing } else { property };
            map.next_value_seed(self.below(property, join(&self.path, &key)))?;
            seen.push(key);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        for index in 0usize.. {
            let path = format!("{}[{index}]", self.path);
            if self.wanted == Some(&path) {
                return Err(A::Error::custom("here"));
            }
            if items.next_element_seed(self.below(&self.schema["items"], path))?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A key of a map, checked while the library still knows its line.
struct Key<'a> {
    parent: &'a Strict<'a>,
    seen: &'a [String],
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<String, E> {
        let Strict { schema, path, wanted, is_root } = self.parent;
        if *wanted == Some(&join(path, key)) {
            return Err(E::custom("here"));
        }
        if self.seen.iter().any(|seen| seen == key) {
            return Err(E::custom(format!("field {key:?} is given twice")));
        }
        let properties = schema["properties"].as_object();
        let known = properties.is_some_and(|properties| properties.contains_key(key));
        if known || (*is_root && ["apiVersion", "kind", "metadata"].contains(&key)) {
            return Ok(key.to_owned());
        }
        let names: Vec<&str> = properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        Err(E::custom(format!("unknown field {key:?}, expected one of {}", names.join(", "))))
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests;
