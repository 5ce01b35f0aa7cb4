//! The learning itself, with what is kept of it on the way. In: a run, perhaps a checkpoint with its course. Out: the
//! learner where it ended or was stopped; by then checkpoint, course and page are on disk. The clock decides when to
//! save and what to say, never what is learnt.

use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::Context;
use rlscaler_rl::checkpoint;
use rlscaler_rl::pathwise::Learner;
use rlscaler_rl::training::{self, TrainingFault};
use rlscaler_rl::validation::Score;
use rlscaler_sim::seed::Seed;

use super::course::{Course, Row};
use super::folder::{CHECKPOINT, Folder, PROGRESS, REPORT, Run};
use super::page;
use super::telling::Teller;
use crate::Unusable;

/// A run and what goes on around it.
pub(super) struct Session<'a> {
    pub(super) run: &'a Run,
    pub(super) folder: &'a Folder,
    /// Between two checkpoints.
    pub(super) checkpoint_every: Duration,
    /// How the net does on the loads that models are chosen on.
    pub(super) score: &'a (dyn Fn(&Learner) -> Option<Score> + Sync),
    /// Time since any moment.
    pub(super) clock: &'a (dyn Fn() -> Duration + Sync),
    /// True when the run is to end early.
    pub(super) stop: &'a (dyn Fn() -> bool + Sync),
    pub(super) teller: &'a Teller,
}

/// Learns to the end, or until it is stopped.
pub(super) fn learn(
    session: &Session<'_>,
    course: Course,
    resumed: Option<&[u8]>,
) -> anyhow::Result<Learner> {
    let Session { run, checkpoint_every, score, clock, stop, teller, .. } = *session;
    let mut course = course;
    let mut saved_at = clock();
    let mut failed = None;
    let updates = run.settings.pathwise.updates;
    let learner = training::run(&run.settings, Seed(run.seed), resumed, &mut |learner, report| {
        let made = report.update + 1;
        // Before anything is said of the update, so that whoever hears of it finds it saved.
        let ends = stop() || made == updates;
        let looked = 0 < run.validate_every && (made % run.validate_every == 0 || made == updates);
        let row = Row { report: *report, score: if looked { score(learner) } else { None } };
        course.push(row);
        teller.tell(&row, course.last_score());
        if ends || saved_at + checkpoint_every <= clock() {
            saved_at = clock();
            failed = save(session, learner, &course).err();
        }
        if ends || failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .map_err(|fault| match fault {
        TrainingFault::Setting { .. } => Unusable(fault.to_string()).into(),
        other => anyhow::Error::from(other),
    })?;
    match failed {
        Some(error) => {
            Err(error).context("the run ends here; with --resume it goes on from its last checkpoint")
        }
        None => Ok(learner),
    }
}

/// The course first: one that is longer than its checkpoint can be gone on with, one that is shorter cannot.
fn save(session: &Session<'_>, learner: &Learner, course: &Course) -> anyhow::Result<()> {
    let Session { run, folder, .. } = *session;
    folder.write(PROGRESS, course.csv().as_bytes())?;
    let fingerprint = run.settings.fingerprint(Seed(run.seed));
    folder.write(CHECKPOINT, &checkpoint::write(learner, &fingerprint))?;
    folder.write(REPORT, page::page(run, course).as_bytes())
}
