//! Training settings as a TOML file that explains itself: every value with its documentation above it.
//!
//! In: [`TrainingSettings`]. Out: text that reads back to them. The documentation is the docstrings of the settings'
//! fields, taken from the source at compile time, so that it is written once. Never: a setting without a word on it.

use std::fmt::Write;

use serde_json::Value;

use crate::training::TrainingSettings;

/// Where the settings of each table are declared: path of the table, name of the struct, source.
const TABLES: [(&str, &str, &str); 3] = [
    ("", "TrainingSettings", include_str!("training.rs")),
    ("episodes", "EpisodeSettings", include_str!("episodes.rs")),
    ("pathwise", "PathwiseSettings", include_str!("pathwise.rs")),
];

/// Columns of a comment's line.
const COMMENT_CHARS_MAX: usize = 110;

/// The settings as TOML.
///
/// # Panics
/// When a setting is not documented; a test writes them all.
#[must_use]
pub fn documented(settings: &TrainingSettings) -> String {
    let value = serde_json::to_value(settings).expect("settings are numbers under names");
    let mut text = String::from("# Settings of `rlscaler train`. What is left out has its default.\n");
    for (table, name, source) in TABLES {
        let fields = if table.is_empty() { &value } else { &value[table] };
        let fields = fields.as_object().expect("settings are structs");
        if !table.is_empty() {
            let _ = write!(text, "\n[{table}]\n");
        }
        for (field, value) in fields.iter().filter(|(_, value)| !value.is_object()) {
            let words = docstring(source, name, field)
                .unwrap_or_else(|| panic!("{name}.{field} is documented in its source"));
            write_setting(&mut text, &words, field, value);
        }
    }
    text
}

/// JSON's numbers, arrays and truth values are TOML's too.
fn write_setting(text: &mut String, words: &str, field: &str, value: &Value) {
    text.push('\n');
    let mut line = String::from("#");
    for word in words.split_whitespace() {
        if COMMENT_CHARS_MAX < line.len() + 1 + word.len() {
            let _ = writeln!(text, "{line}");
            line = String::from("#");
        }
        let _ = write!(line, " {word}");
    }
    let _ = writeln!(text, "{line}");
    let _ = match value {
        // Absent is how TOML writes nothing.
        Value::Null => writeln!(text, "# {field} ="),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(Value::to_string).collect();
            writeln!(text, "{field} = [{}]", items.join(", "))
        }
        other => writeln!(text, "{field} = {other}"),
    };
}

/// The docstring of a public field of a struct as rustfmt writes it, in one line; links lose their brackets.
fn docstring(source: &str, name: &str, field: &str) -> Option<String> {
    let (_, body) = source.split_once(&format!("pub struct {name} {{\n"))?;
    let (body, _) = body.split_once("\n}")?;
    let declaration = format!("pub {field}: ");
    let mut words = Vec::new();
    for line in body.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("///") {
            words.push(comment.trim());
        } else if line.starts_with(&declaration) {
            let text = words.join(" ").replace("[`", "`").replace("`]", "`");
            return (!text.is_empty()).then_some(text);
        } else if line.starts_with("pub ") {
            words.clear();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_stands_under_its_documentation() {
        let text = documented(&TrainingSettings::default());
        let lines: Vec<&str> = text.lines().collect();
        let mut settings = 0;
        for pair in lines.windows(2).filter(|pair| pair[1].contains(" = ") && !pair[1].starts_with('#')) {
            assert!(pair[0].starts_with("# "), "{} is not explained", pair[1]);
            settings += 1;
        }
        let value = serde_json::to_value(TrainingSettings::default()).unwrap();
        let tables = ["episodes", "pathwise"].map(|table| value[table].as_object().unwrap().len());
        assert_eq!(settings, value.as_object().unwrap().len() - tables.len() + tables.iter().sum::<usize>());
        assert!(lines.iter().all(|line| line.len() <= COMMENT_CHARS_MAX), "{text}");
    }

    #[test]
    fn a_docstring_is_the_fields_own() {
        let source = "pub struct Other {\n    /// No.\n    pub a: u8,\n}\n\
                      #[derive(Debug)]\npub struct It {\n    /// First\n    /// of [`Other`].\n    #[serde(default)]\n    \
                      pub a: u8,\n    pub b: u8,\n}\n";
        assert_eq!(docstring(source, "It", "a").as_deref(), Some("First of `Other`."));
        assert_eq!(docstring(source, "It", "b"), None);
        assert_eq!(docstring(source, "It", "c"), None);
        assert_eq!(docstring(source, "Nobody", "a"), None);
    }
}
