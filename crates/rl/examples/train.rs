//! Trains an actor-critic and says how it does on the loads that nets are chosen on. Writes `weights.safetensors`
//! into the folder given: `cargo run -p rlscaler-rl --example train -- SEED UPDATES EPISODES FOLDER`.

use std::path::PathBuf;
use std::time::Instant;

use rayon::prelude::*;
use rlscaler_core::features;
use rlscaler_rl::actor_critic::ActorCritic;
use rlscaler_rl::choosing;
use rlscaler_rl::episodes::{self, EpisodeSettings};
use rlscaler_rl::model_file;
use rlscaler_rl::pathwise::{self, Learner, PathwiseSettings};
use rlscaler_sim::seed::Seed;

fn argument(index: usize, default: u64) -> u64 {
    std::env::args().nth(index).and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seed = Seed(argument(1, 1));
    let settings = PathwiseSettings { updates: argument(2, 1500), ..PathwiseSettings::default() };
    let count = argument(3, 3000);
    let folder = PathBuf::from(std::env::args().nth(4).unwrap_or_else(|| "target/training".into()));
    std::fs::create_dir_all(&folder)?;

    let started = Instant::now();
    let real = episodes::training_traces();
    let draw = |index| episodes::draw(&EpisodeSettings::default(), &real, seed, index);
    let pool: Vec<_> = (0..count).into_par_iter().map(draw).collect();
    println!("{count} episodes in {:.1} s", started.elapsed().as_secs_f64());

    let mut learner = Learner::new(features::WIDTH, &pool, seed);
    for number in 0..settings.updates {
        let r = pathwise::update(&mut learner, &settings, &pool, seed)?;
        if number % 50 == 0 || number + 1 == settings.updates {
            println!(
                "{:5} {:6.1} s  loss {:.3} (planner {:.3})  late {:.4} ({:.4})  replicas {:.3} ({:.3})  critic {:.3}  norm {:.2}",
                r.update,
                started.elapsed().as_secs_f64(),
                r.loss,
                r.planner_loss,
                r.late_share,
                r.planner_late_share,
                r.replicas,
                r.planner_replicas,
                r.critic_error,
                r.gradient_norm,
            );
        }
    }
    std::fs::write(folder.join("weights.safetensors"), model_file::write(&learner.weights))?;

    let curves = choosing::curves(&choosing::cases(), &ActorCritic::new(&learner.weights), Seed(1));
    for case in &curves {
        println!("{} matched {:.3?}", case.name, case.matched());
        let show = |points: &[choosing::Point]| {
            let each = |p: &choosing::Point| {
                format!("{:6.2}% {:5.2} {:3.0}/h", 100.0 * p.late_share, p.replicas, p.changes_per_hour)
            };
            points.iter().map(each).collect::<Vec<_>>().join(" | ")
        };
        println!("   net     {}\n   planner {}", show(&case.net), show(&case.planner));
    }
    println!("replicas at matched lateness over the planner's: {:.3?}", choosing::matched_cost(&curves));
    println!("{:.1} s in all", started.elapsed().as_secs_f64());
    Ok(())
}
