//! `cargo xtask ablations`: what the parts of the model are worth, each taken away in turn, with the spread over training
//! seeds and what training cost.
//!
//! In: this checkout. Out: a Markdown table, and under `target/ablations/` the models, reports and outcomes; an arm whose
//! outcome stands there for the same code, updates and seed is not run again. It must never touch the committed model.

mod outcome;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cargo::build_program;
use crate::model::{CANDLE_THREADS, commit};
use crate::tools::repository_root;
use outcome::{Capacity, Outcome};

/// Updates between two renewals of the episodes, as in the recipe.
const UPDATES_PER_RENEWAL: u64 = 300;

/// Where everything is kept; disposable, as all of `target/` is.
const FOLDER: &str = "target/ablations";

/// What is judged: every arm, and those that are about capacity.
const SUITE: &str = "suites/ablations.toml";
const CAPACITY_SUITE: &str = "suites/ablations-capacity.toml";

/// Updates of the shipped recipe (`rl::pathwise`).
const UPDATES: u64 = 8000;

/// Which arms, how long and how often.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Updates of every training run.
    #[arg(long, value_name = "N", default_value_t = UPDATES)]
    updates: u64,
    /// Seeds of training.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 2, 3])]
    seeds: Vec<u64>,
    /// Arms [default: all]: full, with-critic, no-seasons, no-monotone, no-planner, ppo, fixed-price, no-estimator; and
    /// planner, which is judged whatever is asked.
    #[arg(long, value_name = "ARM,…", value_delimiter = ',')]
    arms: Vec<String>,
    /// Episodes of every training run [default: the recipe's]; fewer only to try this command.
    #[arg(long, value_name = "N")]
    episodes: Option<u64>,
    /// Threads of training and judging [default: one for each core].
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// How an arm comes to its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    /// By the recipe with these lines under `[pathwise]`.
    Recipe(&'static str),
    /// By `rl::ppo`.
    Ppo,
    /// The recipe's, judged with this at the end of the scaler's name.
    Judged(&'static str),
    /// No model: this scaler.
    Scaler(&'static str),
}

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Arm {
    name: &'static str,
    /// As the table has it.
    title: &'static str,
    made: Made,
}

/// The arm that others are compared with.
const FULL: &str = "full";

/// Without the capacity estimator.
const NO_ESTIMATOR: &str = "no-estimator";

const ARMS: [Arm; 9] = [
    Arm { name: "planner", title: "planner alone", made: Made::Scaler("planner") },
    Arm { name: FULL, title: "the recipe", made: Made::Recipe("") },
    Arm {
        name: "with-critic",
        title: "with a critic at the window's end",
        made: Made::Recipe("end_value_weight = 1.0"),
    },
    Arm {
        name: "no-seasons",
        title: "without seasonal features",
        made: Made::Recipe("left_out = [\"seasons\"]"),
    },
    Arm {
        name: "no-monotone",
        title: "without the monotone head",
        made: Made::Recipe("left_out = [\"monotone-price\"]"),
    },
    Arm {
        name: "no-planner",
        title: "without the planner underneath",
        made: Made::Recipe("left_out = [\"planner\"]"),
    },
    Arm { name: "ppo", title: "PPO", made: Made::Ppo },
    Arm { name: "fixed-price", title: "without the budget controller", made: Made::Judged("+fixed-price") },
    Arm { name: NO_ESTIMATOR, title: "without the capacity estimator", made: Made::Judged("+no-estimator") },
];

/// Trains, judges, and prints the table.
///
/// # Errors
/// When something does not build, an arm is unknown, or a run fails; what was done until then stands.
pub fn run(arguments: &Arguments) -> Result<()> {
    let arms = chosen(&arguments.arms)?;
    let root = repository_root();
    let commit = commit(root)?;
    let few = arguments.episodes.map_or(String::new(), |episodes| format!("-{episodes}-episodes"));
    let shop = Workshop {
        rlscaler: build_program(&["--package", "rlscaler-cli", "--bin", "rlscaler"], "rlscaler")?,
        ppo: build_program(&["--package", "rlscaler-rl", "--example", "ppo"], "ppo")?,
        folder: root.join(FOLDER).join(format!("{}-{}{few}", code(root)?, arguments.updates)),
        commit: commit.clone(),
        arguments,
    };
    println!("outcomes in {}", shop.folder.display());
    let runs: Vec<(Arm, u64)> = arms.iter().flat_map(|arm| seeds(*arm, arguments)).collect();
    let bar = progress_bar(runs.len());
    let mut outcomes = Vec::new();
    for (arm, seed) in runs {
        bar.set_message(format!("{}, seed {seed}", arm.name));
        outcomes.push((arm.name, shop.outcome(arm, seed)?));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let of = |arm: &Arm| -> Vec<Outcome> {
        outcomes.iter().filter(|(name, _)| *name == arm.name).map(|(_, outcome)| outcome.clone()).collect()
    };
    let rows: Vec<(&str, Vec<Outcome>)> = arms.iter().map(|arm| (arm.title, of(arm))).collect();
    let Arguments { updates, seeds, .. } = arguments;
    println!("commit {commit}, {updates} updates, seeds {seeds:?}, {SUITE}\n\n{}", table::table(&rows));
    Ok(())
}

/// The arms asked for, in the table's order; the planner is always among them.
fn chosen(names: &[String]) -> Result<Vec<Arm>> {
    if let Some(unknown) = names.iter().find(|name| ARMS.iter().all(|arm| arm.name != **name)) {
        let known: Vec<&str> = ARMS.iter().map(|arm| arm.name).collect();
        bail!("--arms: expected some of {}, found `{unknown}`", known.join(", "));
    }
    let wanted = |arm: &Arm| {
        names.is_empty() || matches!(arm.made, Made::Scaler(_)) || names.iter().any(|name| name == arm.name)
    };
    Ok(ARMS.into_iter().filter(wanted).collect())
}

/// An arm with every seed it is trained with; 0 where nothing is trained.
fn seeds(arm: Arm, arguments: &Arguments) -> Vec<(Arm, u64)> {
    match arm.made {
        Made::Scaler(_) => vec![(arm, 0)],
        _ => arguments.seeds.iter().map(|seed| (arm, *seed)).collect(),
    }
}

/// What names the code of a run: the trees of the crates and suites as committed, and whether anything is not.
fn code(root: &Path) -> Result<String> {
    let git = |arguments: &[&str]| -> Result<String> {
        let output =
            Command::new("git").args(arguments).current_dir(root).output().context("starting git")?;
        ensure!(output.status.success(), "git {} failed", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let [crates, suites] = ["HEAD:crates", "HEAD:suites"].map(|of| git(&["rev-parse", of]));
    let short = |tree: String| tree.chars().take(12).collect::<String>();
    let tree = format!("{}-{}", short(crates?), short(suites?));
    let edited = !git(&["status", "--porcelain", "--untracked-files=no", "crates", "suites"])?.is_empty();
    Ok(if edited { format!("{tree}-edited") } else { tree })
}

fn progress_bar(runs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos} of {len}, {elapsed}, about {eta} left")
        .expect("the template is well-formed");
    ProgressBar::new(runs as u64).with_style(style)
}

/// Where models are made and judged.
struct Workshop<'a> {
    rlscaler: PathBuf,
    ppo: PathBuf,
    folder: PathBuf,
    commit: String,
    arguments: &'a Arguments,
}

impl Workshop<'_> {
    /// What an arm came to with a seed: read where it stands, made otherwise.
    fn outcome(&self, arm: Arm, seed: u64) -> Result<Outcome> {
        let folder = self.folder.join(arm.name).join(format!("seed-{seed}"));
        let file = folder.join("outcome.json");
        if let Ok(text) = fs::read_to_string(&file) {
            return serde_json::from_str(&text).with_context(|| format!("reading {}", file.display()));
        }
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let (scaler, train_cpu_secs) = match arm.made {
            Made::Scaler(scaler) => (scaler.to_owned(), None),
            Made::Judged(suffix) => {
                let (model, _) = self.trained(full(), seed)?;
                (format!("rl:{}{suffix}", model.display()), None)
            }
            Made::Recipe(_) | Made::Ppo => {
                let (model, cpu_secs) = self.trained(arm, seed)?;
                (format!("rl:{}", model.display()), cpu_secs)
            }
        };
        let report = self.judged(SUITE, &scaler, &folder.join("report.json"))?;
        let mut outcome = Outcome::read(&report, &scaler)?;
        outcome.train_cpu_secs = train_cpu_secs;
        if arm.name == FULL || arm.name == NO_ESTIMATOR {
            let report = self.judged(CAPACITY_SUITE, &scaler, &folder.join("capacity.json"))?;
            outcome.capacity = Some(Capacity::read(&report, &scaler)?);
        }
        let text = serde_json::to_string_pretty(&outcome)?;
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        Ok(outcome)
    }

    /// The folder of an arm's model and the CPU time its training took; made where it is not there yet.
    fn trained(&self, arm: Arm, seed: u64) -> Result<(PathBuf, Option<f64>)> {
        let folder = self.folder.join(arm.name).join(format!("seed-{seed}"));
        let (model, time) = (folder.join("model"), folder.join("train-cpu-secs"));
        if let Ok(text) = fs::read_to_string(&time) {
            return Ok((model, text.trim().parse().ok()));
        }
        if model.exists() {
            // What was broken off has no time; it is begun anew, so that its time can be told.
            fs::remove_dir_all(&model).with_context(|| format!("emptying {}", model.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let mut command = self.trainer(arm, seed, &folder, &model)?;
        let before = children_cpu_secs();
        self.ran(&mut command, &folder.join("train.log"))?;
        let cpu_secs = children_cpu_secs().zip(before).map(|(after, before)| after - before);
        let told = cpu_secs.map_or("unknown".to_owned(), |secs| format!("{secs:.2}"));
        fs::write(&time, told).with_context(|| format!("writing {}", time.display()))?;
        Ok((model, cpu_secs))
    }

    fn trainer(&self, arm: Arm, seed: u64, folder: &Path, model: &Path) -> Result<Command> {
        let Arguments { updates, threads, episodes, .. } = self.arguments;
        let (seed, episodes) = (seed.to_string(), episodes.map(|episodes| episodes.to_string()));
        let lines = match arm.made {
            Made::Ppo => {
                let mut command = Command::new(&self.ppo);
                command.args(["--seed", &seed, "--updates", &updates.to_string()]).arg("--out").arg(model);
                command.args(["--commit", &self.commit]);
                if let Some(episodes) = &episodes {
                    command.args(["--episodes", episodes]);
                }
                if let Some(threads) = threads {
                    command.env("RAYON_NUM_THREADS", threads.to_string());
                }
                return Ok(command);
            }
            Made::Recipe(lines) => lines,
            Made::Judged(_) | Made::Scaler(_) => bail!("{} is not trained", arm.name),
        };
        let config = folder.join("config.toml");
        let few = episodes.map_or(String::new(), |episodes| format!("episode_count = {episodes}\n"));
        let renewals = updates / UPDATES_PER_RENEWAL;
        fs::write(&config, format!("{few}renewals = {renewals}\n[pathwise]\nupdates = {updates}\n{lines}\n"))
            .with_context(|| format!("writing {}", config.display()))?;
        let mut command = Command::new(&self.rlscaler);
        command.env(CANDLE_THREADS, "1");
        command.args(["train", "--validate-every", "0", "--name", arm.name, "--seed", &seed]);
        command.args(["--commit", &self.commit]).arg("--config").arg(&config).arg("--out").arg(model);
        if let Some(threads) = threads {
            command.args(["--threads", &threads.to_string()]);
        }
        Ok(command)
    }

    /// The report of a scaler on a suite.
    fn judged(&self, suite: &str, scaler: &str, report: &Path) -> Result<String> {
        let mut command = Command::new(&self.rlscaler);
        command.args(["evaluate", "--suite", suite, "--format", "json"]);
        command.arg("--scalers").arg(format!("hpa:tuned,planner:tuned,{scaler}")).arg("--out").arg(report);
        if let Some(threads) = self.arguments.threads {
            command.args(["--threads", &threads.to_string()]);
        }
        self.ran(command.current_dir(repository_root()), &report.with_extension("log"))?;
        fs::read_to_string(report).with_context(|| format!("reading {}", report.display()))
    }

    /// Runs a program with everything it says in a file.
    fn ran(&self, command: &mut Command, log: &Path) -> Result<()> {
        let file = fs::File::create(log).with_context(|| format!("writing {}", log.display()))?;
        let again = file.try_clone().context("opening the log twice")?;
        command.stdin(Stdio::null()).stdout(file).stderr(again);
        let status = command.status().with_context(|| format!("starting {command:?}"))?;
        ensure!(status.success(), "{command:?} ended with {status}, see {}", log.display());
        Ok(())
    }
}

fn full() -> Arm {
    ARMS.into_iter().find(|arm| arm.name == FULL).expect("the recipe is an arm")
}

/// CPU time of all children that have ended, seconds, where the system tells.
fn children_cpu_secs() -> Option<f64> {
    children_of(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// `cutime` and `cstime` of `/proc/PID/stat` (proc(5)), fields 16 and 17, in hundredths of a second.
fn children_of(stat: &str) -> Option<f64> {
    const TICKS_PER_SEC: f64 = 100.0;
    // The name of the program, in brackets, may hold blanks.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: Vec<f64> = fields.split(' ').skip(13).take(2).filter_map(|field| field.parse().ok()).collect();
    (ticks.len() == 2).then(|| (ticks[0] + ticks[1]) / TICKS_PER_SEC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_that_is_not_known_is_refused_and_the_planner_is_always_there() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let found = chosen(&names(&["ppo", "full"])).expect("they are known");
        assert_eq!(found.iter().map(|arm| arm.name).collect::<Vec<_>>(), ["planner", "full", "ppo"]);
        assert_eq!(chosen(&[]).expect("all are known").len(), ARMS.len());
        let fault = chosen(&names(&["full", "none"])).expect_err("there is no such arm").to_string();
        assert!(fault.contains("found `none`") && fault.contains("no-seasons"), "{fault}");
    }

    #[test]
    fn the_time_of_children_is_read_past_a_name_with_blanks() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 150 50 20 0 1 0";
        assert_eq!(children_of(stat), Some(2.0));
        assert_eq!(children_of("7 (a) S 1"), None);
        assert!(children_cpu_secs().is_none_or(|secs| 0.0 <= secs));
    }
}
