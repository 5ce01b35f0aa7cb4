//! A person takes over and lets go: the annotation is set, obeyed, removed, and the scaler's own decisions resume. Both
//! are timed from the moment `kubectl` is called, and told in trace time.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::block_in_place;

use super::live::Live;
use super::manifests::{NAMESPACE, POLICY};
use super::policy_status;
use super::result::OverrideResult;
use super::stage::Stage;

/// What the person asks for.
const ASKED: u32 = 12;

/// Asked for instead where the former would change nothing.
const ASKED_INSTEAD: u32 = 15;

/// How long it is held, trace time: two intervals, so that the scaler would have had its chance to disobey.
const HELD_SECS: f64 = 30.0;

/// How long the audience watches the scaler resume, trace time: a start-up and two intervals.
const RESUMING_SECS: f64 = 90.0;

/// Much more than the two intervals that are promised; wall time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks, wall time: the resolution of the result.
const LOOK: Duration = Duration::from_millis(50);

pub(super) async fn play(stage: &Stage<'_>, live: &mut Live) -> Result<OverrideResult> {
    let speed = f64::from(stage.plan.speed);
    let asked = if stage.world.now()[0].wanted == ASKED { ASKED_INSTEAD } else { ASKED };
    let set = annotate(stage, live, &format!("rlscaler.io/replicas={asked}"))?;
    while stage.world.now()[0].wanted != asked {
        ensure!(set.elapsed() < PATIENCE, "the override to {asked} replicas was not obeyed");
        tokio::time::sleep(LOOK).await;
    }
    let reached_after_seconds = set.elapsed().as_secs_f64() * speed;
    live.say(&format!("{asked} replicas asked for {reached_after_seconds:.1} s of the trace later"));
    let obeyed = Instant::now();
    while obeyed.elapsed().as_secs_f64() * speed < HELD_SECS {
        live.show(&stage.glance().await?);
        ensure!(stage.world.now()[0].wanted == asked, "the override was left before it was removed");
        tokio::time::sleep(LOOK).await;
    }
    let removed = annotate(stage, live, "rlscaler.io/replicas-")?;
    while policy_status::is_overridden(&stage.policy().await?) {
        ensure!(removed.elapsed() < PATIENCE, "the override was not released");
        tokio::time::sleep(LOOK).await;
    }
    let released_after_seconds = removed.elapsed().as_secs_f64() * speed;
    live.say(&format!("the scaler decides again {released_after_seconds:.1} s of the trace later"));
    while removed.elapsed().as_secs_f64() * speed < RESUMING_SECS {
        live.show(&stage.glance().await?);
        tokio::time::sleep(LOOK).await;
    }
    let rounded = |secs: f64| (secs * 10.0).round() / 10.0;
    Ok(OverrideResult {
        asked,
        reached_after_seconds: rounded(reached_after_seconds),
        released_after_seconds: rounded(released_after_seconds),
    })
}

/// Runs what a person would type, and answers when it was typed.
fn annotate(stage: &Stage<'_>, live: &Live, annotation: &str) -> Result<Instant> {
    let policy = format!("rlrp/{POLICY}");
    let arguments = ["annotate", &policy, "--namespace", NAMESPACE, annotation];
    live.say(&format!("$ kubectl {}", arguments.join(" ")));
    let typed = Instant::now();
    block_in_place(|| stage.cluster.kubectl_ok(&arguments))?;
    Ok(typed)
}
