//! The folder of a training run. In: files by name. Out: the same files. A file is replaced as a whole or not at all,
//! so that an end at any time leaves the last checkpoint; a folder belongs to one run, and to one process at a time.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rlscaler_rl::manifest::Versions;
use rlscaler_rl::settings_text;
use rlscaler_rl::training::TrainingSettings;
use serde::{Deserialize, Serialize};

use super::config;
use crate::Unusable;

/// What was begun; made first, and locked while a process is at it.
pub(super) const RUN: &str = "run.json";
/// The settings it was begun with.
pub(super) const SETTINGS: &str = "config.toml";
/// To go on from.
pub(super) const CHECKPOINT: &str = "checkpoint.safetensors";
/// The course as CSV.
pub(super) const PROGRESS: &str = "progress.csv";
/// The course as a page.
pub(super) const REPORT: &str = "report.html";
/// The model.
pub(super) const WEIGHTS: &str = "model.safetensors";
/// Its manifest.
pub(super) const MANIFEST: &str = "model.json";

/// All of them.
const FILES: [&str; 7] = [RUN, SETTINGS, CHECKPOINT, PROGRESS, REPORT, WEIGHTS, MANIFEST];

/// Version of [`Run`].
pub(super) const VERSION: u32 = 1;

/// Largest file read back, bytes: a course of the most updates.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// What a run is, and what it depends on beside the program's own text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Run {
    /// See [`VERSION`].
    pub(super) version: u32,
    /// The model's name.
    pub(super) name: String,
    /// Of all randomness.
    pub(super) seed: u64,
    /// Commit it was begun on, for the manifest.
    pub(super) commit: Option<String>,
    /// Features it learns from.
    pub(super) schema_hash: String,
    /// Libraries whose arithmetic it depends on.
    pub(super) versions: Versions,
    /// Updates between two looks at the loads that models are chosen on; 0 is never.
    pub(super) validate_every: u64,
    /// In a file of their own, where they are explained and floats come back to the bit.
    #[serde(skip)]
    pub(super) settings: TrainingSettings,
}

/// A folder that this process holds.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Locked until it is closed.
    run: File,
}

impl Folder {
    /// Begins a run in a folder that has none. Nothing in it is overwritten.
    pub(super) fn claim(path: &Path, run: &Run) -> anyhow::Result<Self> {
        let shown = path.display();
        fs::create_dir_all(path)
            .map_err(|error| Unusable(format!("--out: {shown}: cannot be made: {error}")))?;
        let used = |name: &str| {
            Unusable(format!(
                "--out: {shown}: already holds a training run ({name}); go on with --resume, or give another folder"
            ))
        };
        if let Some(name) = FILES.iter().find(|name| path.join(name).exists()) {
            return Err(used(name).into());
        }
        let file = File::create_new(path.join(RUN)).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => used(RUN),
            _ => Unusable(format!("--out: {shown}: cannot be written: {error}")),
        })?;
        let folder = Self::locked(path, file)?;
        folder.begin(run).inspect_err(|_| {
            // Nothing was begun, so nothing is to be in the way of the next attempt.
            let _ = fs::remove_file(path.join(SETTINGS));
            let _ = fs::remove_file(path.join(RUN));
        })?;
        Ok(folder)
    }

    /// Not renamed into place, as the lock is on the file itself; last, so that a run that can be read is complete.
    fn begin(&self, run: &Run) -> anyhow::Result<()> {
        self.write(SETTINGS, settings_text::documented(&run.settings).as_bytes())?;
        let json = serde_json::to_string_pretty(run).expect("a run has only string keys");
        let mut file = &self.run;
        file.write_all(format!("{json}\n").as_bytes())
            .with_context(|| format!("{}: cannot be written", self.shown(RUN)))
    }

    /// The run in a folder.
    pub(super) fn reopen(path: &Path) -> anyhow::Result<(Self, Run)> {
        let shown = path.join(RUN).display().to_string();
        let mut file = File::open(path.join(RUN)).map_err(|error| {
            Unusable(format!("--resume: {shown}: cannot be read: {error}; no run was begun here"))
        })?;
        let mut text = String::new();
        Read::take(&mut file, FILE_BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(|error| Unusable(format!("{shown}: cannot be read: {error}")))?;
        let folder = Self::locked(path, file)?;
        let mut run: Run = serde_json::from_str(&text).map_err(|fault| {
            Unusable(format!("{shown}: not a training run: {fault}; begin anew in another folder"))
        })?;
        run.settings = config::read(&path.join(SETTINGS))?;
        Ok((folder, run))
    }

    fn locked(path: &Path, run: File) -> anyhow::Result<Self> {
        match run.try_lock() {
            Ok(()) => Ok(Self { path: path.to_path_buf(), run }),
            Err(TryLockError::WouldBlock) => {
                Err(Unusable(format!("--out: {}: another process is training into it", path.display()))
                    .into())
            }
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("{}: cannot be locked", path.join(RUN).display()))
            }
        }
    }

    /// Its path, for messages.
    pub(super) fn shown(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    /// Replaces a file, or leaves it as it was.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let partial = self.path.join(format!("{name}.partial"));
        let written = (|| {
            let mut file = File::create(&partial)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&partial, self.path.join(name))
        })();
        written.with_context(|| {
            // What was written of it helps nobody, and takes up room where there is none.
            let _ = fs::remove_file(&partial);
            format!("{}: cannot be written", self.shown(name))
        })
    }

    /// A file's bytes; `None` where there is none.
    pub(super) fn read(&self, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
        let cannot = || format!("{}: cannot be read", self.shown(name));
        let file = match File::open(self.path.join(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.with_context(cannot)?,
        };
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).with_context(cannot)?;
        Ok(Some(bytes))
    }
}
