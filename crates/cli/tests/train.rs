//! `rlscaler train` as people run it: Ctrl-C leaves something to go on from, and what cannot be used is named.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A run that never ends by itself, of updates that take milliseconds.
const ENDLESS: &str = "episode_count = 4\n[episodes]\nslots = 80\nhistory_secs = [3600, 7200]\n\
                       [pathwise]\nbatch = 20\nupdates = 1_000_000\n";

fn rlscaler(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rlscaler"));
    command.arg("train").args(arguments);
    command
}

fn output(arguments: &[&str]) -> Output {
    rlscaler(arguments).output().unwrap()
}

/// A fresh folder of this test's own, with a settings file beside it.
fn folder(name: &str, settings: &str) -> (String, String) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("train-{name}"));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    let config = path.join("settings.toml");
    std::fs::write(&config, settings).unwrap();
    (path.join("out").display().to_string(), config.display().to_string())
}

/// A run under way: it has made an update. What it says after that is still to be read.
struct Going {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Going {
    fn start(arguments: &[&str]) -> Self {
        let mut child = rlscaler(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("update ") {
            line.clear();
            assert!(0 < stderr.read_line(&mut line).unwrap(), "it ended before its first update");
        }
        Self { child, stderr }
    }

    /// Sends a signal; answers the exit status and what it said.
    fn end(mut self, signal: &str) -> (Option<i32>, String) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

/// Updates in a course, which are counted without a gap.
fn updates(out: &str) -> u64 {
    let csv = std::fs::read_to_string(Path::new(out).join("progress.csv")).unwrap();
    let numbers: Vec<u64> =
        csv.lines().skip(1).map(|row| row.split(',').next().unwrap().parse().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    numbers.len() as u64
}

#[test]
fn a_signal_leaves_a_checkpoint_that_is_gone_on_from() {
    let (out, config) = folder("signals", ENDLESS);
    let fresh = ["--config", &config, "--out", &out, "--validate-every", "0", "--threads", "1"];
    let (status, said) = Going::start(&fresh).end("-INT");
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains(&format!("go on with: rlscaler train --out {out} --resume")), "{said}");
    let before = updates(&out);
    assert!(1 <= before);
    let (status, said) = Going::start(&["--out", &out, "--resume"]).end("-TERM");
    assert_eq!(status, Some(143), "{said}");
    assert!(before < updates(&out), "{said}");
    assert!(!Path::new(&out).join("model.json").exists(), "a run that did not end is no model");
}

/// Runs, and holds status 2 and words that must be in what it says.
fn refused(arguments: &[&str], words: &[&str]) {
    let output = output(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{arguments:?}: {word:?} is not in {said}");
    }
}

#[test]
fn what_cannot_be_used_is_named() {
    let (out, config) = folder("refusals", "[pathwise]\nbatches = 3\n");
    refused(&["--config", &config, "--out", &out], &[&config, "line 2", "batches"]);
    refused(&["--config", "nowhere.toml", "--out", &out], &["nowhere.toml: cannot be read"]);
    assert!(!Path::new(&out).exists(), "a refused run leaves nothing behind");
    refused(&["--out", &out, "--resume"], &["run.json", "no run was begun here"]);
    refused(&["--out", &config], &["--out", &config]);
    refused(&["--out", &out, "--name", ""], &["--name"]);
}

#[test]
fn a_used_folder_is_refused_and_so_is_a_resume_with_other_settings() {
    let settings = ENDLESS.replace("1_000_000", "2");
    let (out, config) = folder("used", &settings);
    let run = ["--config", &config, "--out", &out, "--validate-every", "0"];
    assert!(output(&run).status.success());
    refused(&run, &[&out, "already holds a training run", "--resume"]);
    std::fs::write(&config, settings.replace("batch = 20", "batch = 21")).unwrap();
    refused(
        &["--config", &config, "--out", &out, "--resume"],
        &["settings.pathwise.batch was 20 and is 21 now"],
    );
    refused(&["--seed", "5", "--out", &out, "--resume"], &["seed was 1 and is 5 now"]);
    let model = |name: &str| std::fs::read(Path::new(&out).join(name)).unwrap();
    let before = (model("model.safetensors"), model("model.json"));
    assert!(output(&["--out", &out, "--resume"]).status.success());
    assert!(before == (model("model.safetensors"), model("model.json")));
}

#[test]
fn the_printed_settings_are_a_config_file() {
    let printed = output(&["--print-config"]);
    let (_, config) = folder("printed", &String::from_utf8(printed.stdout.clone()).unwrap());
    assert_eq!(output(&["--config", &config, "--print-config"]).stdout, printed.stdout);
}
