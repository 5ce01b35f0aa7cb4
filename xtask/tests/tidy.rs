//! The walls of the house, held by tests: what a crate may depend on, who may write to Kubernetes, and what no file
//! may contain. Each finding names the file and the line.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const LONGEST_FILE_LINES: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_path_buf()
}

/// Every file git knows whose name ends in `.rs`, with its text.
fn sources() -> Vec<(String, String)> {
    let listing =
        Command::new("git").args(["ls-files", "*.rs"]).current_dir(root()).output().expect("git runs");
    String::from_utf8(listing.stdout)
        .expect("paths are UTF-8")
        .lines()
        .filter_map(|path| Some((path.to_owned(), fs::read_to_string(root().join(path)).ok()?)))
        .collect()
}

/// Fails with one line a finding.
fn check(rule: &str, findings: Vec<String>) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}

/// Lines of `text` before its unit tests, numbered from 1.
fn product_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .take_while(|(_, line)| !line.contains("#[cfg(test)]"))
}

#[test]
fn no_file_is_longer_than_its_limit() {
    let findings = sources()
        .iter()
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| LONGEST_FILE_LINES < *lines)
        .map(|(path, lines)| format!("{path}: {lines} lines, split it"))
        .collect();
    check("files longer than the limit", findings);
}

#[test]
fn every_file_says_what_it_is() {
    let findings =
        sources().into_iter().filter(|(_, text)| !text.starts_with("//!")).map(|(path, _)| path).collect();
    check("files that do not open with //!", findings);
}

#[test]
fn modules_are_named_files() {
    let findings =
        sources().into_iter().map(|(path, _)| path).filter(|path| path.ends_with("/mod.rs")).collect();
    check("mod.rs files", findings);
}

#[test]
fn no_test_is_ignored_and_nothing_is_left_unfinished() {
    // Spelled in two halves, so that this file does not find itself.
    let forbidden =
        [concat!("#[ig", "nore"), concat!("FIX", "ME"), concat!("TO", "DO"), concat!("todo", "!(")];
    let mut findings = Vec::new();
    for (path, text) in sources() {
        for (index, line) in text.lines().enumerate() {
            if forbidden.iter().any(|word| line.contains(word)) {
                findings.push(format!("{path}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    check("unfinished", findings);
}

#[test]
fn only_apply_and_report_write_to_kubernetes() {
    const WRITES: &[&str] = &[
        ".patch(",
        ".patch_status(",
        ".patch_scale(",
        ".replace(&",
        ".replace_status(",
        ".create(&",
        ".delete(&",
    ];
    // The leader's Lease is the operator's own object, not a user's. A TokenReview is a question: nothing is stored.
    const WRITERS: &[&str] =
        &["replica/apply", "replica/report", "controller/src/lease", "controller/src/authentication"];
    let mut findings = Vec::new();
    for (path, text) in sources().iter().filter(|(path, _)| path.starts_with("crates/controller/src/")) {
        if WRITERS.iter().any(|writer| path.contains(writer)) {
            continue;
        }
        for (number, line) in product_lines(text) {
            if WRITES.iter().any(|call| line.contains(call)) {
                findings.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    check("writes to Kubernetes outside apply and report", findings);
}

/// Names of all crates that `package` depends on, without those for tests and without the crate that only unifies
/// features.
fn dependencies_of(package: &str) -> BTreeSet<String> {
    let arguments = ["--edges", "normal", "--prefix", "none", "--format", "{lib}", "--offline"];
    let prune = ["--prune", "workspace-hack"];
    let tree = |prune: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.args(["tree", "--package", package]).args(arguments).args(prune).current_dir(root());
        command.output().expect("cargo runs")
    };
    // Cargo refuses to prune what is not there: the brain and the simulator do without it.
    let pruned = tree(&prune);
    let listing = if pruned.status.success() { pruned } else { tree(&[]) };
    assert!(listing.status.success(), "{}", String::from_utf8_lossy(&listing.stderr));
    String::from_utf8(listing.stdout)
        .expect("names are UTF-8")
        .lines()
        .map(|line| line.trim().to_owned())
        .collect()
}

#[test]
fn the_crates_keep_their_walls() {
    let walls: &[(&str, &[&str])] = &[
        ("rlscaler-core", &["tokio", "kube", "kube_core", "candle_core", "serde", "rand", "reqwest"]),
        ("rlscaler-api", &["candle_core", "reqwest"]),
        ("rlscaler-signals", &["candle_core"]),
        ("rlscaler-rl", &["kube", "kube_core", "reqwest", "hyper"]),
        ("rlscaler-sim", &["kube", "kube_core", "candle_core", "tokio"]),
        ("rlscaler-controller", &["candle_core", "candle_nn"]),
    ];
    let mut findings = Vec::new();
    for (package, forbidden) in walls {
        let found = dependencies_of(package);
        findings.extend(
            forbidden
                .iter()
                .filter(|name| found.contains(**name))
                .map(|name| format!("{package} depends on {name}")),
        );
    }
    check("walls between crates", findings);
}
