//! `cargo xtask model`: the shipped model again, from nothing but this checkout.
//!
//! In: the settings and the seed that are committed. Out: a folder as `rlscaler train` leaves it, and a verdict: the same
//! bytes, equal within the spread over training seeds, or worse, which is an error. It must never touch the committed
//! model.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

mod verdict;

use crate::cargo::build_rlscaler;
use crate::tools::repository_root;
use verdict::{Committed, Trained, Verdict};

/// Training may take this long on two cores.
const SECS_MAX: u64 = 600;

/// Training may hold this much memory, MiB.
const MEMORY_MIB_MAX: u64 = 2048;

/// Between two looks at the memory of the trainer.
const LOOK_PERIOD: Duration = Duration::from_millis(50);

/// Where the model is put unless told otherwise; disposable, as all of `target/` is.
const DEFAULT_OUT: &str = "target/model";

/// Threads of one matrix product. Where it is not set candle asks the system for its processors at every product, a tenth of
/// the time of a training; the trainer's own pool is not bound to it.
pub const CANDLE_THREADS: &str = "RAYON_NUM_THREADS";

/// Updates between two looks at the loads models are chosen on, for the curve.
const VALIDATE_EVERY: &str = "1000";

/// The shipped model's weights, its manifest, and the scores of other training seeds.
const WEIGHTS: &str = "models/base.safetensors";
const MANIFEST: &str = "models/base.json";
const SEEDS: &str = "models/seeds.json";

/// The shipped model's name.
const NAME: &str = "base";

/// What to train.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Another seed than the shipped model's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Folder for the model [default: target/model, which is emptied first].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Put this run's scores into models/seeds.json, from which the spread over seeds is known.
    #[arg(long)]
    record: bool,
}

/// Trains and compares.
///
/// # Errors
/// When something does not build, training fails, or the model is worse than the shipped one.
pub fn run(arguments: &Arguments) -> Result<()> {
    let root = repository_root();
    let mut committed = Committed::read(&root.join(WEIGHTS), &root.join(MANIFEST), &root.join(SEEDS))?;
    let seed = arguments.seed.unwrap_or(committed.seed());
    let program = build_rlscaler()?;
    let out = out(arguments, root)?;
    let commit = commit(root)?;
    let began = Instant::now();
    let child = Command::new(program)
        .env(CANDLE_THREADS, "1")
        .args(["train", "--name", NAME, "--seed", &seed.to_string(), "--validate-every", VALIDATE_EVERY])
        .args(["--commit", &commit, "--out"])
        .arg(&out)
        .spawn()
        .context("starting rlscaler train")?;
    let (status, peak_mib) = wait(child)?;
    let secs = began.elapsed().as_secs();
    ensure!(status.success(), "training ended with {status}, see above");
    let trained = Trained::read(&out.join("model.safetensors"), &out.join("model.json"))?;
    println!("seed {seed}, commit {commit}: {secs} s{}", over(secs, SECS_MAX, "s on 2 cores"));
    if let Some(mib) = peak_mib {
        println!("peak memory {mib} MiB{}", over(mib, MEMORY_MIB_MAX, "MiB"));
    }
    let verdict = verdict::verdict(&committed, &trained);
    println!("{}", verdict::table(&committed, &trained));
    println!("{verdict}");
    if arguments.record {
        committed.record(seed, &trained);
        let file = root.join(SEEDS);
        fs::write(&file, committed.seeds_json()).with_context(|| format!("writing {}", file.display()))?;
    }
    match verdict {
        Verdict::Same | Verdict::Equal | Verdict::First => Ok(()),
        Verdict::Worse(_) => bail!("the model is worse than the one that is shipped"),
    }
}

/// The folder to train into; the trainer itself refuses one that is used.
fn out(arguments: &Arguments, root: &Path) -> Result<PathBuf> {
    if let Some(out) = &arguments.out {
        return Ok(out.clone());
    }
    let out = root.join(DEFAULT_OUT);
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("emptying {}", out.display()))?;
    }
    Ok(out)
}

/// Where the checkout is, and whether it is as committed.
pub(crate) fn commit(root: &Path) -> Result<String> {
    let git = |arguments: &[&str]| -> Result<String> {
        let output =
            Command::new("git").args(arguments).current_dir(root).output().context("starting git")?;
        ensure!(
            output.status.success(),
            "git {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let hash = git(&["rev-parse", "HEAD"])?;
    let edited = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Ok(if edited { format!("{hash}-edited") } else { hash })
}

/// Waits for the trainer; answers the most memory it was seen to hold, MiB, where the system tells.
fn wait(mut child: Child) -> Result<(ExitStatus, Option<u64>)> {
    let file = format!("/proc/{}/status", child.id());
    let mut peak_mib = None;
    loop {
        if let Some(status) = child.try_wait().context("waiting for the training")? {
            return Ok((status, peak_mib));
        }
        peak_mib = fs::read_to_string(&file).ok().and_then(|text| high_water_mib(&text)).or(peak_mib);
        std::thread::sleep(LOOK_PERIOD);
    }
}

/// The high-water mark in a process's status.
fn high_water_mib(status: &str) -> Option<u64> {
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next())?;
    kib.parse::<u64>().ok().map(|kib| kib / 1024)
}

fn over(found: u64, limit: u64, unit: &str) -> String {
    let is_over = if limit < found { ", OVER the limit of" } else { ", limit" };
    format!("{is_over} {limit} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_is_read_from_a_status() {
        assert_eq!(
            high_water_mib("Name:\tx\nVmPeak:\t 9 kB\nVmHWM:\t  534528 kB\nVmRSS:\t 1 kB\n"),
            Some(522)
        );
        assert_eq!(high_water_mib("Name:\tx\n"), None);
    }

    #[test]
    fn the_committed_model_can_be_compared_with() {
        let root = repository_root();
        let committed =
            Committed::read(&root.join(WEIGHTS), &root.join(MANIFEST), &root.join(SEEDS)).expect("it reads");
        assert_eq!(verdict::verdict(&committed, &committed.as_trained()), committed.expected_of_itself());
    }
}
