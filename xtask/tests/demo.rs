//! The demo as a newcomer starts it, shortened: it ends with its promises kept, and Ctrl-C leaves nothing behind.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use xtask::cluster::process::Identity;
use xtask::demo::result::DemoResult;
use xtask::tools::repository_root;

/// Twelve seconds of the wall, a minute of trace.
const MINUTES: &str = "0.2";

/// Programs are killed, not asked.
const END_DEADLINE: Duration = Duration::from_secs(30);

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command
        .args(["demo", "--minutes", MINUTES])
        .args(arguments)
        .current_dir(repository_root())
        .stdin(Stdio::null());
    command
}

#[test]
fn the_demo_keeps_its_bounds_obeys_and_writes_its_results() {
    let folder = std::env::temp_dir().join(format!("rlscaler-demo-{}", std::process::id()));
    let (json, html) = (folder.join("demo.json"), folder.join("demo.html"));
    let output =
        demo(&["--json", json.to_str().unwrap(), "--html", html.to_str().unwrap()]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");

    let result: DemoResult = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let page = fs::read_to_string(html).unwrap();
    fs::remove_dir_all(folder).unwrap();
    let names: Vec<_> = result.scalers.iter().map(|scaler| scaler.name.as_str()).collect();
    assert_eq!(names, ["rlscaler", "hpa"]);
    for scaler in &result.scalers {
        assert!(
            result.min_replicas <= scaler.min_replicas && scaler.max_replicas <= result.max_replicas,
            "{result:?}"
        );
        assert!(0.0 < scaler.replica_hours && 0.0 < scaler.p95_ms, "{result:?}");
    }
    let two_intervals = f64::from(2 * result.interval_seconds);
    let obeyed = result.r#override;
    assert!(
        obeyed.reached_after_seconds <= two_intervals && obeyed.released_after_seconds <= two_intervals,
        "{obeyed:?}"
    );
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("K = 5")
            && page.contains("K = 5")
            && told.contains("K=5")
    );
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    let mut child =
        demo(&["--html", "/dev/null"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let folder = repository_root().join(format!("target/cluster/run-{}-0", child.id()));
    let started = read_until(&mut child, "starting both scalers");
    assert!(started, "the demo ended before its scalers started");
    let programs = programs_of(&child);
    assert!(6 <= programs.len(), "{programs:?}");
    Identity::of(child.id()).unwrap().signal(Signal::INT).unwrap();
    assert!(!child.wait().unwrap().success());
    for program in programs {
        assert!(program.wait_end(END_DEADLINE), "{program:?} is still there");
    }
    assert!(!folder.exists(), "{} is still there", folder.display());
}

/// Reads what the demo tells up to a line that contains `text`; the rest is read by a thread, so that it cannot block.
fn read_until(child: &mut Child, text: &str) -> bool {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let found = lines.by_ref().any(|line| line.contains(text));
    std::thread::spawn(move || lines.for_each(drop));
    found
}

/// The processes the demo has started.
fn programs_of(child: &Child) -> Vec<Identity> {
    let listing =
        Command::new("ps").args(["-o", "pid=", "--ppid", &child.id().to_string()]).output().unwrap();
    let listing = String::from_utf8(listing.stdout).unwrap();
    listing.split_whitespace().filter_map(|pid| Identity::of(pid.parse().unwrap())).collect()
}
