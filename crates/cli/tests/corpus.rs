//! Every committed fuzz input goes through the function it was found for, so that neither the inputs nor the harness
//! rot: a finding stays fixed, and the targets keep compiling with what they drive.
#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/src/targets.rs"]
#[allow(unreachable_pub)] // the same file is a library's module for the fuzzer
mod targets;

/// Runs all inputs of a target; too few of them, or one that is too large, is a mistake in the corpus.
fn check(target: &str, run: fn(&[u8])) {
    const FEWEST: usize = 3;
    const MAX_INPUT_BYTES: usize = 128 * 1024;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut inputs: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    assert!(FEWEST <= inputs.len(), "{} holds {} inputs", folder.display(), inputs.len());
    for input in inputs {
        let bytes = fs::read(&input).unwrap();
        assert!(bytes.len() <= MAX_INPUT_BYTES, "{}: {} bytes", input.display(), bytes.len());
        // Printed only when it fails: which input it was.
        println!("{}", input.display());
        run(&bytes);
    }
}

#[test]
fn every_trace_file_is_read_or_refused() {
    check("trace", targets::trace);
}

#[test]
fn every_answer_of_a_source_becomes_a_number_or_a_reason() {
    check("answers", targets::answers);
}

#[test]
fn every_query_is_admitted_within_bounds_or_refused() {
    check("promql", targets::promql);
}

#[test]
fn every_annotation_is_obeyed_or_pauses() {
    check("annotations", targets::annotations);
}

#[test]
fn every_policy_file_is_valid_or_refused_by_line_and_field() {
    check("policy", targets::policy);
}

#[test]
fn every_model_file_is_loaded_or_refused() {
    check("model", targets::model);
}

#[test]
fn every_line_of_decide_is_answered_or_named() {
    check("decide", targets::decide);
}
