//! A headless browser, for tests that look at a page as people would. In: a page's file and a color scheme. Out: its
//! document after everything in it has run. It must never fetch anything but what the page itself asks for.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Names under which Chromium is installed.
const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// A page that has not finished by then never will, milliseconds.
const PAGE_MILLIS: u32 = 60_000;

/// What the reader prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Dark text on light.
    Light,
    /// Light text on dark.
    Dark,
}

/// A browser that is installed.
#[derive(Debug, Clone)]
pub struct Browser {
    program: PathBuf,
}

/// The browser of this machine; installed from the distribution's packages where there is none.
///
/// # Errors
/// When there is none and none can be installed; says what to do.
pub fn find_or_install() -> Result<Browser> {
    if let Some(found) = find() {
        return Ok(found);
    }
    eprintln!("xtask: no Chromium here; installing it with apt-get");
    // A fresh machine has no package lists: the first attempt fails there, the second does not.
    for step in [&["install", "-y", "chromium"][..], &["update"], &["install", "-y", "chromium"]] {
        let status = Command::new("apt-get").args(step).env("DEBIAN_FRONTEND", "noninteractive").status();
        let installed = status.context("no Chromium and no apt-get: install Chromium")?.success();
        if installed && let Some(found) = find() {
            return Ok(found);
        }
    }
    bail!("Chromium cannot be installed with apt-get: install it, so that one of {PROGRAMS:?} is in PATH")
}

fn find() -> Option<Browser> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let candidates = PROGRAMS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    candidates.into_iter().find(|program| program.is_file()).map(|program| Browser { program })
}

impl Browser {
    /// The document of a page after its scripts have run. `profile` is a folder for the browser's own files, one for
    /// each call that may run at the same time.
    ///
    /// # Errors
    /// When the browser cannot be started or does not finish.
    pub fn document(&self, page: &Path, scheme: Scheme, profile: &Path) -> Result<String> {
        let preferred = match scheme {
            Scheme::Dark => 0,
            Scheme::Light => 1,
        };
        let output = Command::new(&self.program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .arg("--window-size=1400,1000")
            .arg(format!("--blink-settings=preferredColorScheme={preferred}"))
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("--timeout={PAGE_MILLIS}"))
            .arg("--dump-dom")
            .arg(format!("file://{}", page.display()))
            .output()
            .with_context(|| format!("starting {}", self.program.display()))?;
        if !output.status.success() {
            bail!("{} ended with {}: {}", self.program.display(), output.status, tail(&output.stderr));
        }
        String::from_utf8(output.stdout).context("the document is not UTF-8")
    }
}

/// The end of what a program said.
fn tail(bytes: &[u8]) -> String {
    const LINES: usize = 5;
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
