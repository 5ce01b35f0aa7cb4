//! A run keeps what it must keep: the same bytes however often it was interrupted, and nothing lost on the way.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rlscaler_rl::pathwise::PathwiseSettings;
use rlscaler_rl::validation::Score;

use super::*;
use folder::SETTINGS;

/// Updates of a tiny run.
const UPDATES: u64 = 7;

/// Seconds of a run.
fn settings() -> TrainingSettings {
    let pathwise = PathwiseSettings { batch: 20, updates: UPDATES, ..PathwiseSettings::default() };
    let mut settings = TrainingSettings { episode_count: 4, pathwise, ..TrainingSettings::default() };
    settings.episodes.slots = 80;
    settings.episodes.history_secs = (3600.0, 7200.0);
    settings
}

fn run_of(seed: u64) -> Run {
    Run {
        version: folder::VERSION,
        name: "tiny".into(),
        seed,
        commit: Some("abc".into()),
        schema_hash: schema_hash_text(features::schema_hash()),
        versions: Versions::current(),
        validate_every: 3,
        settings: settings(),
    }
}

/// A folder that is gone when the test is.
struct Scratch(PathBuf);

impl Deref for Scratch {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A folder of this test's own that does not exist yet.
fn fresh(name: &str) -> Scratch {
    let path = std::env::temp_dir().join(format!("rlscaler-train-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    Scratch(path)
}

/// A score that tells which net it is of.
fn score(learner: &Learner) -> Option<Score> {
    let sum: f32 = learner.weights.values().iter().flatten().filter(|value| value.abs() < 1e3).sum();
    Some(Score { matched_cost: Some(f64::from(sum)), changes_per_hour: 1.0 })
}

/// How a part of a run goes.
#[derive(Clone, Copy)]
struct Part {
    threads: usize,
    /// Stops after so many updates of its own.
    stop_after: u64,
    /// A checkpoint after each update, or only at the end.
    checkpoint_each: bool,
}

const WHOLE: Part = Part { threads: 1, stop_after: u64::MAX, checkpoint_each: false };

/// Goes on with what is in the folder, and writes the model when it is done.
fn go_on(folder: &Folder, run: &Run, part: Part) -> anyhow::Result<Learner> {
    let (resumed, course) = saved(folder, run)?;
    let (asked, ticks) = (AtomicU64::new(0), AtomicU64::new(0));
    let teller = Teller::Nobody;
    let session = Session {
        run,
        folder,
        checkpoint_every: Duration::from_secs(if part.checkpoint_each { 0 } else { 1_000_000 }),
        score: &score,
        clock: &|| Duration::from_secs(ticks.fetch_add(1, Ordering::SeqCst)),
        stop: &|| part.stop_after <= asked.fetch_add(1, Ordering::SeqCst) + 1,
        teller: &teller,
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(part.threads).build()?;
    let learner = pool.install(|| learn::learn(&session, course, resumed.as_deref()))?;
    if learner.adam.updates == UPDATES {
        finish(&Run { validate_every: 0, ..run.clone() }, folder, &learner, &teller)?;
    }
    Ok(learner)
}

/// The parts one after the other, each as a process of its own would.
fn train_in(name: &str, run: &Run, parts: &[Part]) -> Scratch {
    let path = fresh(name);
    drop(Folder::claim(&path, run).unwrap());
    for part in parts {
        let (folder, stored) = Folder::reopen(&path).unwrap();
        assert_eq!(&stored, run);
        go_on(&folder, &stored, *part).unwrap();
    }
    path
}

fn bytes(path: &Path, name: &str) -> Vec<u8> {
    std::fs::read(path.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

const OUTCOME: [&str; 7] = [WEIGHTS, MANIFEST, PROGRESS, REPORT, CHECKPOINT, SETTINGS, folder::RUN];

fn assert_same(one: &Path, other: &Path) {
    for name in OUTCOME {
        assert!(bytes(one, name) == bytes(other, name), "{name} differs");
    }
}

#[test]
fn the_same_seed_gives_the_same_files_on_any_number_of_threads_and_another_seed_others() {
    let whole = train_in("whole", &run_of(3), &[WHOLE]);
    for threads in [2, 3] {
        assert_same(
            &whole,
            &train_in(&format!("threads-{threads}"), &run_of(3), &[Part { threads, ..WHOLE }]),
        );
    }
    let other = train_in("other", &run_of(4), &[WHOLE]);
    assert!(bytes(&whole, WEIGHTS) != bytes(&other, WEIGHTS), "the seed does nothing");
    let model = crate::models::from_files(&whole).unwrap();
    assert_eq!(model.manifest().commit.as_deref(), Some("abc"));
    assert_eq!(model.manifest().seed, 3);
}

#[test]
fn a_run_that_was_interrupted_at_any_update_ends_in_the_files_of_one_that_was_not() {
    let whole = train_in("unbroken", &run_of(3), &[WHOLE]);
    for stop_after in 1..UPDATES {
        let first = Part { stop_after, ..WHOLE };
        assert_same(&whole, &train_in(&format!("stopped-{stop_after}"), &run_of(3), &[first, WHOLE]));
    }
    let each = Part { stop_after: 1, ..WHOLE };
    assert_same(&whole, &train_in("stopped-each", &run_of(3), &[each; UPDATES as usize]));
    assert_same(&whole, &train_in("finished", &run_of(3), &[WHOLE, WHOLE]));
    let rows = String::from_utf8(bytes(&whole, PROGRESS)).unwrap();
    let updates: Vec<&str> = rows.lines().skip(1).filter_map(|row| row.split(',').next()).collect();
    assert_eq!(updates, ["1", "2", "3", "4", "5", "6", "7"]);
    let looked: Vec<bool> = rows.lines().skip(1).map(|row| !row.ends_with(",,")).collect();
    assert_eq!(looked, [false, false, true, false, false, true, true]);
}

#[test]
fn a_checkpoint_older_than_the_course_is_gone_on_from() {
    let whole = train_in("for-course", &run_of(3), &[WHOLE]);
    let path = train_in("killed", &run_of(3), &[Part { stop_after: 3, ..WHOLE }]);
    let old = bytes(&path, CHECKPOINT);
    let (folder, run) = Folder::reopen(&path).unwrap();
    go_on(&folder, &run, Part { stop_after: 2, checkpoint_each: true, ..WHOLE }).unwrap();
    // As if it had been killed after the course was written and before the checkpoint was.
    std::fs::write(path.join(CHECKPOINT), old).unwrap();
    go_on(&folder, &run, WHOLE).unwrap();
    assert_same(&whole, &path);
}

#[test]
fn a_folder_that_holds_a_run_is_left_as_it_is() {
    let path = train_in("used", &run_of(3), &[WHOLE]);
    let before: Vec<_> = OUTCOME.map(|name| bytes(&path, name)).into();
    let fault = Folder::claim(&path, &run_of(4)).unwrap_err();
    assert!(fault.is::<Unusable>() && fault.to_string().contains("--resume"), "{fault:#}");
    assert!(before == OUTCOME.map(|name| bytes(&path, name)), "something was overwritten");
    let only_a_model = fresh("only-a-model");
    std::fs::create_dir_all(&*only_a_model).unwrap();
    std::fs::write(only_a_model.join(WEIGHTS), "mine").unwrap();
    let fault = Folder::claim(&only_a_model, &run_of(4)).unwrap_err();
    assert!(fault.to_string().contains(WEIGHTS), "{fault:#}");
    assert_eq!(std::fs::read_dir(&*only_a_model).unwrap().count(), 1);
}

#[test]
fn a_folder_belongs_to_one_process_at_a_time() {
    let path = fresh("locked");
    let held = Folder::claim(&path, &run_of(3)).unwrap();
    let fault = Folder::reopen(&path).unwrap_err();
    assert!(fault.to_string().contains("another process"), "{fault:#}");
    drop(held);
    Folder::reopen(&path).unwrap();
}

#[test]
fn a_file_that_cannot_be_written_ends_the_run_with_its_name_and_keeps_the_last_checkpoint() {
    let run = run_of(3);
    let path = train_in("unwritable", &run, &[Part { stop_after: 2, ..WHOLE }]);
    let before = bytes(&path, CHECKPOINT);
    let partial = path.join(format!("{CHECKPOINT}.partial"));
    std::fs::create_dir(&partial).unwrap();
    let (folder, stored) = Folder::reopen(&path).unwrap();
    let fault = go_on(&folder, &stored, Part { checkpoint_each: true, ..WHOLE }).unwrap_err();
    let told = format!("{fault:#}");
    assert!(told.contains(CHECKPOINT) && told.contains("--resume"), "{told}");
    assert!(before == bytes(&path, CHECKPOINT));
    std::fs::remove_dir(&partial).unwrap();
    go_on(&folder, &stored, WHOLE).unwrap();
    assert_same(&train_in("for-unwritable", &run, &[WHOLE]), &path);
}

#[test]
fn a_resume_is_refused_where_the_run_differs_and_the_field_is_named() {
    let field_of = |change: fn(&mut Run)| {
        let mut now = run_of(3);
        change(&mut now);
        config::difference(&run_of(3), &now).map(|(field, before, now)| format!("{field} {before} {now}"))
    };
    assert_eq!(field_of(|_| ()), None);
    assert_eq!(field_of(|run| run.commit = None), None);
    assert_eq!(field_of(|run| run.seed = 4).as_deref(), Some("seed 3 4"));
    assert_eq!(field_of(|run| run.validate_every = 0).as_deref(), Some("validateEvery 3 0"));
    assert_eq!(
        field_of(|run| run.versions.candle = "0.1".into()).as_deref(),
        Some("versions.candle \"0.11\" \"0.1\"")
    );
    assert_eq!(
        field_of(|run| run.settings.pathwise.batch = 21).as_deref(),
        Some("settings.pathwise.batch 20 21")
    );
    assert_eq!(
        field_of(|run| run.settings.episodes.workers.1 = 9).as_deref(),
        Some("settings.episodes.workers [1,8] [1,9]")
    );
}

#[test]
fn a_checkpoint_or_course_that_is_not_the_runs_is_refused_with_its_name() {
    let path = train_in("foreign", &run_of(3), &[Part { stop_after: 2, ..WHOLE }]);
    let (folder, run) = Folder::reopen(&path).unwrap();
    let fault = |run: &Run| format!("{:#}", saved(&folder, run).unwrap_err());
    assert!(fault(&run_of(4)).contains("checkpoint.safetensors: the checkpoint is of another run"));
    std::fs::remove_file(path.join(PROGRESS)).unwrap();
    assert!(fault(&run).contains("progress.csv: line 1"), "{}", fault(&run));
    std::fs::write(path.join(CHECKPOINT), b"torn").unwrap();
    assert!(fault(&run).contains("checkpoint.safetensors: the checkpoint cannot be read"), "{}", fault(&run));
}
