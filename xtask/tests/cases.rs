//! `docs/cases.md` held against the repository: every test it names is where it says, and no case is without one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The list of reports has numbers up to this one, with gaps.
const LAST_CASE: u32 = 96;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_path_buf()
}

fn page() -> String {
    fs::read_to_string(root().join("docs/cases.md")).expect("the page is there")
}

/// Number and last cell of every row.
fn rows(page: &str) -> Vec<(u32, &str)> {
    page.lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
            Some((cells.first()?.parse().ok()?, *cells.last()?))
        })
        .collect()
}

/// Every "`name` (path)" of a text.
fn tests(text: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = text.split('`').collect();
    let named = parts.iter().enumerate().skip(1).step_by(2);
    named
        .filter_map(|(index, name)| {
            let path = parts.get(index + 1)?.strip_prefix(" (")?.split_once(')')?.0;
            path.ends_with(".rs").then_some((*name, path))
        })
        .collect()
}

/// One line for each test that is not where the text says.
fn missing(text: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut files = BTreeMap::new();
    let mut findings = Vec::new();
    for (name, path) in tests(text) {
        match files.entry(path).or_insert_with(|| read(path)) {
            None => findings.push(format!("there is no {path}, where {name} should be")),
            Some(text) if !text.contains(&format!("fn {name}(")) => {
                findings.push(format!("{path} has no test {name}"));
            }
            Some(_) => {}
        }
    }
    findings
}

#[test]
fn every_test_named_on_the_page_is_in_the_file_named() {
    let page = page();
    assert!(100 < tests(&page).len(), "{} tests found on the page", tests(&page).len());
    let findings = missing(&page, |path| fs::read_to_string(root().join(path)).ok());
    assert!(findings.is_empty(), "docs/cases.md:\n  {}", findings.join("\n  "));
}

#[test]
fn every_case_has_one_row_and_at_least_one_test() {
    let page = page();
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for (case, held_by) in rows(&page) {
        if !seen.insert(case) {
            findings.push(format!("case {case} has two rows"));
        }
        if !(1..=LAST_CASE).contains(&case) {
            findings.push(format!("there is no case {case}"));
        }
        if tests(held_by).is_empty() {
            findings.push(format!("case {case} has no test"));
        }
    }
    assert_eq!(seen.len(), 59, "rows: {seen:?}");
    assert!(findings.is_empty(), "docs/cases.md:\n  {}", findings.join("\n  "));
}

#[test]
fn a_test_that_was_renamed_or_moved_is_found() {
    let text = "| 1 | Owed. | `here` (a.rs); `renamed` (a.rs); `moved` (gone.rs); `no_test`. Not yet: x |";
    let read = |path: &str| (path == "a.rs").then(|| "async fn here() {}\nfn renamed_since() {}".to_owned());
    let expected = ["a.rs has no test renamed", "there is no gone.rs, where moved should be"];
    assert_eq!(missing(text, read), expected);
    assert_eq!(rows(text)[0].0, 1);
}
