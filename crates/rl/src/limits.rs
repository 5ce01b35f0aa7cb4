//! Which settings a training run can have. In: [`TrainingSettings`]. Out: the first that none can have, with what was
//! expected. Never: a judgement of what is wise.

use crate::episodes::EpisodeSettings;
use crate::pathwise::PathwiseSettings;
use crate::training::{EPISODES_MAX, TrainingFault, TrainingSettings};

/// Most slots over all episodes: their features take 300 bytes a slot, and a run is to stay below 2 GiB.
pub const EPISODE_SLOTS_MAX: u64 = 6_000_000;

/// Most renewals: beyond as many as updates they would only cost time.
pub const RENEWALS_MAX: u64 = UPDATES_MAX;

/// Most windows of an update; more only cost time.
pub const BATCH_MAX: usize = 4096;

/// Most updates: a line of the course is kept for each.
pub const UPDATES_MAX: u64 = 1_000_000;

/// Most slots of a window: one takes part in the network's gradient as a whole.
pub const WINDOW_SLOTS_MAX: usize = 2000;

/// Most requests that a pod works on at once.
pub const WORKERS_MAX: u32 = 1000;

/// Most prices at which a window is followed.
pub const PRICES_MAX: usize = 64;

/// Most that a load may drift in a day, as a logarithm.
pub const DRIFT_MAX: f64 = 5.0;

/// # Errors
/// The first setting that no run can have.
pub(crate) fn check(settings: &TrainingSettings) -> Result<(), TrainingFault> {
    let TrainingSettings { episode_count, renewals, episodes, pathwise } = settings;
    let window_slots = pathwise.window_slots();
    let slots = episode_count.saturating_mul(episodes.slots as u64);
    must("episode_count", (1..=EPISODES_MAX).contains(episode_count), || format!("1 to {EPISODES_MAX}"))?;
    must("renewals", *renewals <= RENEWALS_MAX, || format!("at most {RENEWALS_MAX}"))?;
    check_pathwise(pathwise)?;
    must("episodes.slots", window_slots <= episodes.slots, || {
        format!("at least the {window_slots} slots of a window")
    })?;
    must("episodes.slots", slots <= EPISODE_SLOTS_MAX, || {
        format!("at most {EPISODE_SLOTS_MAX} slots in {episode_count} episodes")
    })?;
    check_episodes(episodes)
}

fn check_pathwise(settings: &PathwiseSettings) -> Result<(), TrainingFault> {
    let at_least_zero =
        |field, value: f64| must(field, value.is_finite() && 0.0 <= value, || "0 or more".into());
    must("pathwise.batch", (1..=BATCH_MAX).contains(&settings.batch), || format!("1 to {BATCH_MAX}"))?;
    must("pathwise.updates", (1..=UPDATES_MAX).contains(&settings.updates), || {
        format!("1 to {UPDATES_MAX}")
    })?;
    must("pathwise.counted_slots", 1 <= settings.counted_slots, || "at least 1".into())?;
    let slots = settings.burn_in_slots.saturating_add(settings.counted_slots);
    must("pathwise.counted_slots", slots <= WINDOW_SLOTS_MAX, || {
        format!("at most {WINDOW_SLOTS_MAX} with pathwise.burn_in_slots")
    })?;
    at_least_zero("pathwise.learning_rate", settings.learning_rate)?;
    at_least_zero("pathwise.matrix_learning_rate", settings.matrix_learning_rate)?;
    at_least_zero("pathwise.gradient_norm_max", settings.gradient_norm_max)?;
    at_least_zero("pathwise.change_price", settings.change_price)?;
    at_least_zero("pathwise.softness_first", settings.softness_first)?;
    at_least_zero("pathwise.softness_last", settings.softness_last)?;
    must("pathwise.prices", (1..=PRICES_MAX).contains(&settings.prices), || format!("1 to {PRICES_MAX}"))?;
    at_least_zero("pathwise.own_max_secs", settings.own_max_secs)?;
    must("pathwise.deadband", (0.0..1.0).contains(&settings.deadband), || "0 to below 1".into())?;
    must("pathwise.softness_share", (0.0..=1.0).contains(&settings.softness_share), || "0 to 1".into())?;
    at_least_zero("pathwise.late_floor", settings.late_floor)?;
    at_least_zero("pathwise.raise_slack", settings.raise_slack)?;
    at_least_zero("pathwise.lower_slack", settings.lower_slack)?;
    at_least_zero("pathwise.end_value_weight", settings.end_value_weight)?;
    let decayed = settings.weight_decay * settings.learning_rate;
    must("pathwise.weight_decay", (0.0..=1.0).contains(&decayed), || {
        "0 to 1 over pathwise.learning_rate".into()
    })
}

fn check_episodes(settings: &EpisodeSettings) -> Result<(), TrainingFault> {
    let share = |field, value: f64| must(field, (0.0..=1.0).contains(&value), || "0 to 1".into());
    let range = |field, (lowest, highest): (f64, f64), least: f64| {
        let valid = least <= lowest && lowest <= highest && highest.is_finite();
        must(field, valid, || format!("two numbers from {least} up, the lower first"))
    };
    share("episodes.real_share", settings.real_share)?;
    share("episodes.cold_share", settings.cold_share)?;
    share("episodes.known_share", settings.known_share)?;
    must("episodes.cold_share", settings.cold_share + settings.known_share <= 1.0, || {
        "at most 1 together with episodes.known_share".into()
    })?;
    share("episodes.squeezed_share", settings.squeezed_share)?;
    share("episodes.drifting_share", settings.drifting_share)?;
    share("episodes.blended_share", settings.blended_share)?;
    must("episodes.drift_per_day", (0.0..=DRIFT_MAX).contains(&settings.drift_per_day), || {
        format!("0 to {DRIFT_MAX}")
    })?;
    let (fewest, most) = settings.workers;
    let workers = 1 <= fewest && fewest <= most && most <= WORKERS_MAX;
    must("episodes.workers", workers, || format!("two numbers from 1 to {WORKERS_MAX}, the lower first"))?;
    range("episodes.startup_secs", settings.startup_secs, LEAST_OF_A_LOGARITHM)?;
    range("episodes.service_secs", settings.service_secs, LEAST_OF_A_LOGARITHM)?;
    range("episodes.slack", settings.slack, 0.0)?;
    range("episodes.service_cv", settings.service_cv, 0.0)?;
    range("episodes.peak_busy_pods", settings.peak_busy_pods, LEAST_OF_A_LOGARITHM)?;
    range("episodes.history_secs", settings.history_secs, LEAST_OF_A_LOGARITHM)?;
    range("episodes.load_power", settings.load_power, 0.0)?;
    range("episodes.squeeze", settings.squeeze, LEAST_OF_A_LOGARITHM)?;
    range("episodes.capacity_error", settings.capacity_error, LEAST_OF_A_LOGARITHM)
}

/// What is drawn log-uniformly has a logarithm; a millisecond and a thousandth of a pod are less than anybody means.
const LEAST_OF_A_LOGARITHM: f64 = 1e-3;

fn must(field: &'static str, valid: bool, expected: impl FnOnce() -> String) -> Result<(), TrainingFault> {
    if valid { Ok(()) } else { Err(TrainingFault::Setting { field, expected: expected() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field_of(change: impl FnOnce(&mut TrainingSettings)) -> Option<&'static str> {
        let mut settings = TrainingSettings::default();
        change(&mut settings);
        match check(&settings) {
            Ok(()) => None,
            Err(TrainingFault::Setting { field, .. }) => Some(field),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn the_defaults_can_be_run() {
        assert_eq!(field_of(|_| ()), None);
    }

    #[test]
    fn a_setting_is_refused_one_past_its_limit_and_taken_at_it() {
        type Change = fn(&mut TrainingSettings);
        let cases: [(Option<&str>, Change); 32] = [
            (Some("episode_count"), |s| s.episode_count = 0),
            (Some("episode_count"), |s| s.episode_count = EPISODES_MAX + 1),
            (Some("renewals"), |s| s.renewals = RENEWALS_MAX + 1),
            (Some("episodes.slots"), |s| s.episodes.slots = s.pathwise.window_slots() - 1),
            (None, |s| s.episodes.slots = s.pathwise.window_slots()),
            (None, |s| s.episodes.slots = (EPISODE_SLOTS_MAX / s.episode_count) as usize),
            (Some("episodes.slots"), |s| {
                s.episodes.slots = (EPISODE_SLOTS_MAX / s.episode_count) as usize + 1
            }),
            (Some("episodes.real_share"), |s| s.episodes.real_share = 1.1),
            (Some("episodes.cold_share"), |s| s.episodes.cold_share = f64::NAN),
            (Some("episodes.cold_share"), |s| s.episodes.cold_share = 0.7),
            (Some("episodes.known_share"), |s| s.episodes.known_share = 2.0),
            (Some("pathwise.raise_slack"), |s| s.pathwise.raise_slack = -1.0),
            (Some("pathwise.lower_slack"), |s| s.pathwise.lower_slack = f64::NAN),
            (Some("episodes.workers"), |s| s.episodes.workers = (3, 2)),
            (Some("episodes.workers"), |s| s.episodes.workers = (0, 2)),
            (None, |s| s.episodes.workers = (2, 2)),
            (Some("episodes.startup_secs"), |s| s.episodes.startup_secs = (0.0, 10.0)),
            (Some("episodes.slack"), |s| s.episodes.slack = (2.0, 1.0)),
            (Some("episodes.load_power"), |s| s.episodes.load_power = (1.0, f64::INFINITY)),
            (Some("pathwise.batch"), |s| s.pathwise.batch = 0),
            (Some("pathwise.batch"), |s| s.pathwise.batch = BATCH_MAX + 1),
            (None, |s| s.pathwise.batch = BATCH_MAX),
            (Some("pathwise.updates"), |s| s.pathwise.updates = 0),
            (Some("pathwise.counted_slots"), |s| s.pathwise.counted_slots = 0),
            (Some("pathwise.counted_slots"), |s| s.pathwise.burn_in_slots = WINDOW_SLOTS_MAX),
            (Some("pathwise.learning_rate"), |s| s.pathwise.learning_rate = -1.0),
            (Some("pathwise.softness_last"), |s| s.pathwise.softness_last = f64::NAN),
            (Some("pathwise.prices"), |s| s.pathwise.prices = 0),
            (Some("pathwise.deadband"), |s| s.pathwise.deadband = 1.0),
            (Some("pathwise.weight_decay"), |s| s.pathwise.weight_decay = 1.01 / s.pathwise.learning_rate),
            (Some("episodes.blended_share"), |s| s.episodes.blended_share = -0.1),
            (Some("episodes.drift_per_day"), |s| s.episodes.drift_per_day = f64::INFINITY),
        ];
        for (index, (expected, change)) in cases.into_iter().enumerate() {
            assert_eq!(field_of(change), expected, "case {index}");
        }
    }
}
