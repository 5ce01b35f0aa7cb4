//! Settings of a training run from a TOML file, and what two runs differ in. Bad input is refused with file, line and
//! field.

use std::io::Read;
use std::path::Path;

use rlscaler_rl::training::TrainingSettings;
use serde_json::Value;

use super::folder::Run;
use crate::Unusable;

/// Largest file read, bytes.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// Settings from a file; what it leaves out has its default.
pub(super) fn read(file: &Path) -> anyhow::Result<TrainingSettings> {
    let shown = file.display();
    let cannot = |error: std::io::Error| Unusable(format!("{shown}: cannot be read: {error}"));
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(cannot)?;
    opened.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
    if FILE_BYTES_MAX < text.len() as u64 {
        return Err(Unusable(format!("{shown}: more than the {FILE_BYTES_MAX} bytes of settings")).into());
    }
    parse(&text, &shown.to_string())
}

fn parse(text: &str, file: &str) -> anyhow::Result<TrainingSettings> {
    let settings: TrainingSettings = toml::from_str(text).map_err(|fault| {
        Unusable(format!("{file}: not settings of a training run: {}", fault.to_string().trim_end()))
    })?;
    settings.check().map_err(|fault| Unusable(format!("{file}: {fault}")))?;
    Ok(settings)
}

/// The first field in which two runs differ, and its two values. The commit may differ: a checkpoint outlives a rebuild.
pub(super) fn difference(before: &Run, now: &Run) -> Option<(String, String, String)> {
    let same_commit = Run { commit: before.commit.clone(), ..now.clone() };
    let json = |run: &Run| {
        let mut value = serde_json::to_value(run).expect("a run has only string keys");
        value["settings"] = serde_json::to_value(&run.settings).expect("settings are numbers under names");
        value
    };
    difference_of_values("", &json(before), &json(&same_commit))
}

fn difference_of_values(path: &str, before: &Value, now: &Value) -> Option<(String, String, String)> {
    if let (Value::Object(old), Value::Object(new)) = (before, now) {
        return old.iter().find_map(|(field, value)| {
            let inner = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
            difference_of_values(&inner, value, new.get(field).unwrap_or(&Value::Null))
        });
    }
    (before != now).then(|| (path.to_owned(), before.to_string(), now.to_string()))
}

#[cfg(test)]
mod tests {
    use rlscaler_rl::settings_text::documented;

    use super::*;

    fn fault(text: &str) -> String {
        parse(text, "mine.toml").unwrap_err().to_string()
    }

    #[test]
    fn the_printed_settings_read_back_to_the_bit() {
        let mut settings = TrainingSettings::default();
        assert_eq!(parse(&documented(&settings), "printed").unwrap(), settings);
        settings.episodes.startup_secs.1 = 1.0 / 3.0 + 100.0;
        settings.pathwise.learning_rate = 1.234_567_890_123_456_7e-8;
        assert_eq!(parse(&documented(&settings), "printed").unwrap(), settings);
        assert_eq!(parse("", "empty").unwrap(), TrainingSettings::default());
    }

    #[test]
    fn an_unknown_key_is_named_with_file_and_line() {
        let told = fault("episode_count = 5\n\n[pathwise]\nbatches = 3\n");
        assert!(
            told.contains("mine.toml") && told.contains("line 4") && told.contains("`batches`"),
            "{told}"
        );
        let told = fault("episode_counts = 5\n");
        assert!(told.contains("line 1") && told.contains("`episode_counts`"), "{told}");
    }

    #[test]
    fn a_value_of_the_wrong_kind_or_size_is_named() {
        let told = fault("[pathwise]\nbatch = \"many\"\n");
        assert!(told.contains("line 2") && told.contains("batch"), "{told}");
        let told = fault("[episodes]\nworkers = [3, 2]\n");
        assert!(told.contains("mine.toml: episodes.workers: ") && told.contains("the lower first"), "{told}");
    }
}
