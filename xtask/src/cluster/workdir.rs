//! A cluster's own folder under `target/cluster/`: data, keys, logs. It is removed with the cluster; what a killed
//! process left behind is removed at the next start.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

/// Folders of clusters that live with the process that started them.
const RUN_PREFIX: &str = "run-";

#[derive(Debug)]
pub(super) struct WorkDir {
    path: PathBuf,
    keep: bool,
    /// Held while the cluster lives. The kernel lets it go with this process: then the folder is anybody's to remove.
    _lock: File,
}

impl WorkDir {
    /// Makes a folder nobody else uses, after removing those whose owners are gone.
    pub(super) fn new(parent: &Path) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        remove_abandoned(parent);
        Self::at(&parent.join(format!("{RUN_PREFIX}{}-{number}", std::process::id())))
    }

    fn at(path: &Path) -> Result<Self> {
        // Keys and tokens of an administrator stand in it.
        DirBuilder::new().mode(0o700).create(path).with_context(|| format!("creating {}", path.display()))?;
        let lock = File::create(lock_of(path))?;
        lock.lock().context("locking the cluster's folder")?;
        Ok(Self { path: path.to_owned(), keep: false, _lock: lock })
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder for somebody to read its logs; the next start removes it.
    pub(super) fn keep(&mut self) {
        self.keep = true;
    }

    /// Writes a file only its owner can read.
    pub(super) fn write_secret(&self, name: &str, content: &str) -> Result<PathBuf> {
        let path = self.join(name);
        OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(content.as_bytes()))
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if !self.keep && !std::thread::panicking() {
            remove(&self.path);
        }
    }
}

/// Beside the folder, not in it: the lock must outlive the folder's removal.
fn lock_of(path: &Path) -> PathBuf {
    path.with_extension("lock")
}

fn remove(path: &Path) {
    // Left-overs cost disk space and nothing else; the next start tries again.
    let _ = fs::remove_dir_all(path);
    if !path.exists() {
        let _ = fs::remove_file(lock_of(path));
    }
}

/// Removes the folders of clusters whose process is gone.
pub(super) fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_run = entry.file_name().to_string_lossy().starts_with(RUN_PREFIX) && path.is_dir();
        if !is_run {
            continue;
        }
        // A folder without a lock file is being made this very moment.
        let Ok(lock) = File::open(lock_of(&path)) else { continue };
        if lock.try_lock().is_ok() {
            remove(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_without_an_owner_are_removed() {
        let parent = std::env::temp_dir().join(format!("rlscaler-workdir-{}", std::process::id()));
        let owned = WorkDir::new(&parent).unwrap();
        let mut abandoned = WorkDir::new(&parent).unwrap();
        abandoned.keep();
        let abandoned_path = abandoned.path().to_owned();
        drop(abandoned);
        assert!(abandoned_path.exists());

        let third = WorkDir::new(&parent).unwrap();
        assert!(!abandoned_path.exists());
        assert!(owned.path().exists() && third.path().exists());
        drop((owned, third));
        fs::remove_dir_all(parent).unwrap();
    }
}
