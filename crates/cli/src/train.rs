//! `rlscaler train`: a model from settings and a seed. In: a TOML file, a seed. Out: a folder with the model's two
//! files, the course of the run as CSV and as a page, and a checkpoint to go on from. The same settings and seed give
//! the same bytes on one machine, whatever the number of threads and however often the run was interrupted.

mod config;
mod course;
mod curves;
mod folder;
mod interrupt;
mod learn;
mod page;
mod telling;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use rlscaler_core::features;
use rlscaler_rl::actor_critic::ActorCritic;
use rlscaler_rl::manifest::{Versions, schema_hash_text};
use rlscaler_rl::model_file::NAME_CHARS_MAX;
use rlscaler_rl::pathwise::Learner;
use rlscaler_rl::training::{self, Provenance, TrainingSettings};
use rlscaler_rl::validation::{self, Validation};
use rlscaler_rl::{checkpoint, settings_text};
use rlscaler_sim::seed::Seed;

use crate::Unusable;
use crate::evaluate::report::COMMIT;
use crate::evaluate::write_out;
use course::Course;
use folder::{CHECKPOINT, Folder, MANIFEST, PROGRESS, REPORT, Run, WEIGHTS};
pub(crate) use interrupt::EXIT_STATUS_BASE;
use interrupt::Watch;
use learn::Session;
use telling::Teller;

/// Seed when none is given.
const DEFAULT_SEED: u64 = 1;

/// Folder when none is given.
const DEFAULT_OUT: &str = "trained";

/// The model's name when none is given.
const DEFAULT_NAME: &str = "trained";

/// Updates between two looks at the loads that models are chosen on; a look costs as much as some ten updates.
const DEFAULT_VALIDATE_EVERY: u64 = 100;

/// How to train, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Settings (TOML); `--print-config` shows them all with their defaults [default: the defaults].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Seed of all randomness [default: 1].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Folder for the model, its course and its checkpoint; one run each.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_OUT)]
    out: PathBuf,
    /// Go on with the run in --out where its last checkpoint left it.
    #[arg(long)]
    resume: bool,
    /// The model's name, as policies will give it [default: trained].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Updates between two looks at the loads that models are chosen on; 0: never, and no scores in the manifest
    /// [default: 100].
    #[arg(long, value_name = "UPDATES")]
    validate_every: Option<u64>,
    /// Seconds between two checkpoints.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    checkpoint_every: u64,
    /// Commit for the manifest [default: the one this program was built from, where the build was told].
    #[arg(long, value_name = "HASH")]
    commit: Option<String>,
    /// Threads [default: one for each core]; the result does not depend on it.
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Print the settings, each with its documentation, as a file for --config, and end.
    #[arg(long)]
    print_config: bool,
}

/// A run that a person ended early.
#[derive(Debug, thiserror::Error)]
#[error("stopped after {updates} of {of} updates; go on with: {how}")]
pub(crate) struct Stopped {
    updates: u64,
    of: u64,
    how: String,
    /// Number of the signal.
    pub(crate) signal: u8,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.print_config {
        let settings = args.config.as_deref().map(config::read).transpose()?.unwrap_or_default();
        return write_out(&settings_text::documented(&settings), None);
    }
    let began = Instant::now();
    let (folder, run) = open(args)?;
    let (resumed, course) = saved(&folder, &run)?;
    let how = format!("rlscaler train --out {} --resume", args.out.display());
    let watch = interrupt::watch(&how)?;
    let updates = run.settings.pathwise.updates;
    let done = course.rows().len() as u64;
    let teller = Teller::new(updates, done);
    teller.say(&format!(
        "training to update {updates} from update {done}, seed {}, into {}",
        run.seed,
        args.out.display()
    ));
    let threads = args.threads.or(std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    // A pool of our own: the global one belongs to the tensors.
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().context("threads cannot be started")?;
    let every = Duration::from_secs(args.checkpoint_every);
    pool.install(|| {
        train(&run, &folder, resumed.as_deref(), course, &Beside { every, watch: &watch, teller: &teller })
    })?
    .map_or(Ok(()), |updates_made| {
        let signal = watch.asked().unwrap_or_default();
        Err(Stopped { updates: updates_made, of: updates, how, signal })
    })?;
    teller.say(&format!("done in {} s{}", began.elapsed().as_secs(), telling::peak_memory()));
    Ok(())
}

/// What goes on beside a run and has no influence on it.
struct Beside<'a> {
    every: Duration,
    watch: &'a Watch,
    teller: &'a Teller,
}

/// Learns, judges and writes the model; answers the number of updates where it was stopped before.
fn train(
    run: &Run,
    folder: &Folder,
    resumed: Option<&[u8]>,
    course: Course,
    beside: &Beside<'_>,
) -> anyhow::Result<Option<u64>> {
    let Beside { every, watch, teller } = *beside;
    let validation = (0 < run.validate_every).then(Validation::begin);
    let score = |learner: &Learner| Some(validation.as_ref()?.score(&actor_critic(run, learner)));
    let began = Instant::now();
    let session = Session {
        run,
        folder,
        checkpoint_every: every,
        score: &score,
        clock: &|| began.elapsed(),
        stop: &|| watch.learning_and_asked(),
        teller,
    };
    let learner = learn::learn(&session, course, resumed)?;
    // All there is to lose is on disk.
    watch.learning_ends();
    let updates = learner.adam.updates;
    if updates < run.settings.pathwise.updates || watch.asked().is_some() {
        return Ok(Some(updates));
    }
    finish(run, folder, &learner, teller)?;
    Ok(None)
}

/// The networks as a model of this run would answer with them.
fn actor_critic(run: &Run, learner: &Learner) -> ActorCritic {
    ActorCritic::new(&learner.weights).without(&run.settings.pathwise.left_out)
}

/// Judges the model on all loads that models are chosen on and writes its two files, the manifest last: it is what
/// makes weights a model.
fn finish(run: &Run, folder: &Folder, learner: &Learner, teller: &Teller) -> anyhow::Result<()> {
    let mut scores = std::collections::BTreeMap::new();
    if 0 < run.validate_every {
        teller.say("judging it on all loads that models are chosen on");
        scores = validation::scores(&actor_critic(run, learner));
    }
    let told: Vec<String> = scores.iter().map(|(name, score)| format!("{name} {score:.4}")).collect();
    let provenance = Provenance {
        name: &run.name,
        settings: &run.settings,
        seed: Seed(run.seed),
        commit: run.commit.clone(),
        scores,
    };
    let (weights, manifest) = training::files(learner, provenance);
    folder.write(WEIGHTS, &weights)?;
    folder.write(MANIFEST, manifest.as_bytes())?;
    let shown = |name: &str| folder.shown(name);
    teller.say(&format!("model: {}, {}", shown(WEIGHTS), shown(MANIFEST)));
    teller.say(&format!("course: {}, {}", shown(PROGRESS), shown(REPORT)));
    if !told.is_empty() {
        teller.say(&format!("scores: {}", told.join(", ")));
    }
    Ok(())
}

/// The folder with the run that is wanted: a new one, or the one that is in it.
fn open(args: &Args) -> anyhow::Result<(Folder, Run)> {
    let settings = args.config.as_deref().map(config::read).transpose()?;
    if !args.resume {
        let run = wanted(args, settings.unwrap_or_default(), None);
        let chars = run.name.chars().count();
        if !(1..=NAME_CHARS_MAX).contains(&chars) {
            return Err(Unusable(format!(
                "--name: expected 1 to {NAME_CHARS_MAX} characters, found {chars}"
            ))
            .into());
        }
        return Ok((Folder::claim(&args.out, &run)?, run));
    }
    let (folder, stored) = Folder::reopen(&args.out)?;
    let run = wanted(args, settings.unwrap_or_else(|| stored.settings.clone()), Some(&stored));
    if let Some((field, before, now)) = config::difference(&stored, &run) {
        let out = args.out.display();
        return Err(Unusable(format!(
            "{out}: cannot be resumed: {field} was {before} and is {now} now; a run goes on as it was begun"
        ))
        .into());
    }
    if let (Some(before), Some(now)) = (&stored.commit, &args.commit)
        && before != now
    {
        eprintln!("rlscaler: begun on commit {before}; on {now} it may end in other bytes");
    }
    Ok((folder, stored))
}

/// The run that the flags ask for; what they leave open is as in the run that was begun.
fn wanted(args: &Args, settings: TrainingSettings, begun: Option<&Run>) -> Run {
    let built = (COMMIT != "unknown").then(|| COMMIT.to_owned());
    Run {
        version: folder::VERSION,
        name: args.name.clone().or(begun.map(|run| run.name.clone())).unwrap_or_else(|| DEFAULT_NAME.into()),
        seed: args.seed.or(begun.map(|run| run.seed)).unwrap_or(DEFAULT_SEED),
        commit: begun.map_or_else(|| args.commit.clone().or(built), |run| run.commit.clone()),
        schema_hash: schema_hash_text(features::schema_hash()),
        versions: Versions::current(),
        validate_every: args
            .validate_every
            .or(begun.map(|run| run.validate_every))
            .unwrap_or(DEFAULT_VALIDATE_EVERY),
        settings,
    }
}

/// The checkpoint of a run, and its course as far as the checkpoint knows it; nothing of either in a new run.
fn saved(folder: &Folder, run: &Run) -> anyhow::Result<(Option<Vec<u8>>, Course)> {
    let Some(bytes) = folder.read(CHECKPOINT)? else { return Ok((None, Course::default())) };
    let fingerprint = run.settings.fingerprint(Seed(run.seed));
    let learner = checkpoint::read(&bytes, features::WIDTH, &fingerprint).map_err(|fault| {
        Unusable(format!("{}: {:#}", folder.shown(CHECKPOINT), anyhow::Error::from(fault)))
    })?;
    let csv = folder.read(PROGRESS)?.unwrap_or_default();
    let course = Course::read(&String::from_utf8_lossy(&csv), learner.adam.updates)
        .map_err(|fault| Unusable(format!("{}: {fault}", folder.shown(PROGRESS))))?;
    Ok((Some(bytes), course))
}
