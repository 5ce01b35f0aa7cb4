//! Trains the ablation `rl::ppo` with its defaults on the windows of the shipped recipe, and writes a model for
//! `rlscaler evaluate --scalers rl:FOLDER`:
//! `cargo run -p rlscaler-rl --example ppo -- --seed N --updates N --out FOLDER [--episodes N] [--commit HASH]`.
//! Says how it goes on stderr.

use std::error::Error;
use std::path::Path;

use rlscaler_core::features::WIDTH;
use rlscaler_rl::ppo::{self, Learner, PpoSettings};
use rlscaler_rl::training::{self, TrainingSettings};
use rlscaler_sim::seed::Seed;

/// Lines of progress over a run.
const LINES: u64 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = |flag: &str| {
        let (flags, values) = (arguments.iter().step_by(2), arguments.iter().skip(1).step_by(2));
        flags.zip(values).find(|(name, _)| *name == flag).map(|(_, value)| value)
    };
    let needed = |flag: &str| given(flag).ok_or(format!("expected {flag} and its value"));
    let seed = Seed(needed("--seed")?.parse()?);
    let folder = Path::new(needed("--out")?);
    let settings = PpoSettings { updates: needed("--updates")?.parse()?, ..PpoSettings::default() };
    let mut training = TrainingSettings::default();
    if let Some(episodes) = given("--episodes") {
        training.episode_count = episodes.parse()?;
    }
    let episodes = training::draw_episodes(&training, seed);
    let mut learner = Learner::new(&settings, WIDTH, &episodes, seed);
    for _ in 0..settings.updates {
        let report = ppo::update(&mut learner, &settings, &training.pathwise, &episodes, seed)?;
        if (report.update + 1).is_multiple_of((settings.updates / LINES).max(1)) {
            let ppo::UpdateReport { update, loss, planner_loss, entropy } = report;
            eprintln!(
                "update {}: loss {loss:.3}, the planner's {planner_loss:.3}, entropy {entropy:.2}",
                update + 1
            );
        }
    }
    let (weights, manifest) = ppo::files(&learner, &settings, &training, seed, given("--commit").cloned());
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("model.safetensors"), weights)?;
    std::fs::write(folder.join("model.json"), manifest)?;
    Ok(())
}
