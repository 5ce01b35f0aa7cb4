//! `cargo xtask codegen [--check]`: the files that are generated from the Rust types of the API and from the metrics.
//!
//! In: nothing but the code. Out: the CRD, its template in the chart, the reference pages; all of them are committed.
//! With `--check` nothing is written: a file that differs is an error that says how to mend it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rlscaler_api::{crd, reference};
use rlscaler_controller::glossary;

use crate::tools::repository_root;

/// Options of the command.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Arguments {
    /// Write nothing; fail when a committed file differs from what would be generated.
    #[arg(long)]
    check: bool,
}

/// Writes or checks, as asked.
///
/// # Errors
/// A file that cannot be written, or, with `--check`, one that is out of date.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.check { check() } else { write(repository_root()) }
}

/// Fails when a committed file differs from what would be generated.
///
/// # Errors
/// Names every such file.
pub fn check() -> Result<()> {
    let stale = stale(repository_root());
    if !stale.is_empty() {
        bail!("out of date: {}; run `cargo xtask codegen` and commit the result", stale.join(", "));
    }
    Ok(())
}

/// Where each generated file lies, and what belongs into it.
fn files() -> [(&'static str, String); 4] {
    [
        ("crds/rlreplicapolicies.yaml", crd::crd_yaml()),
        ("charts/rlscaler/templates/crd.yaml", crd::chart_template()),
        ("docs/api.md", reference::markdown()),
        ("docs/metrics.md", glossary::markdown()),
    ]
}

fn write(root: &Path) -> Result<()> {
    for (path, text) in files() {
        let file = root.join(path);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        eprintln!("xtask codegen: wrote {path}");
    }
    Ok(())
}

fn stale(root: &Path) -> Vec<&'static str> {
    let is_stale = |path: &str, text: &str| fs::read_to_string(root.join(path)).ok().as_deref() != Some(text);
    files().iter().filter(|(path, text)| is_stale(path, text)).map(|(path, _)| *path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_files_are_what_the_types_say() {
        assert_eq!(stale(repository_root()), Vec::<&str>::new(), "run `cargo xtask codegen`");
    }

    #[test]
    fn a_file_that_is_missing_or_edited_is_found() {
        let folder = std::env::temp_dir().join(format!("rlscaler-codegen-{}", std::process::id()));
        write(&folder).expect("writable");
        assert_eq!(stale(&folder), Vec::<&str>::new());
        fs::write(folder.join("docs/api.md"), "edited").expect("writable");
        fs::remove_file(folder.join("crds/rlreplicapolicies.yaml")).expect("removable");
        assert_eq!(stale(&folder), ["crds/rlreplicapolicies.yaml", "docs/api.md"]);
        fs::remove_dir_all(folder).expect("removable");
    }
}
