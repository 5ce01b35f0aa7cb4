//! `cargo xtask cluster up|down|status`.

use std::env;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};

use super::ClusterOptions;
use super::detached::{Health, Home, State, Up, supervise};

/// What to do with the cluster of this checkout.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Start a cluster that stays up, building its programs first where needed.
    Up(UpArguments),
    /// End the cluster and remove its files.
    Down,
    /// List the cluster's programs: process, port, health, memory.
    Status,
    /// Hold the cluster; started by `up`.
    #[command(hide = true)]
    Supervise,
}

/// Options of `up`.
#[derive(Debug, Args)]
pub struct UpArguments {
    /// How many nodes.
    #[arg(long, default_value_t = 3)]
    nodes: u32,
    /// CPU of each node, as a Kubernetes quantity.
    #[arg(long, default_value = "64")]
    node_cpu: String,
    /// Divide the HPA's periods and windows and the scrape interval by this.
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
    /// Start no Prometheus.
    #[arg(long)]
    no_prometheus: bool,
}

/// Does it.
///
/// # Errors
/// When the cluster cannot be started or ended.
pub fn run(action: &Action) -> Result<()> {
    let home = Home::of_checkout();
    match action {
        Action::Up(arguments) => up(&home, arguments),
        Action::Down => {
            println!(
                "{}",
                if home.down()? { "the cluster is down" } else { "no cluster was up in this checkout" }
            );
            Ok(())
        }
        Action::Status => status(&home),
        Action::Supervise => {
            if let Err(error) = supervise(&home) {
                eprintln!("{error:#}"); // `up` shows it as its own
                std::process::exit(1);
            }
            Ok(())
        }
    }
}

fn up(home: &Home, arguments: &UpArguments) -> Result<()> {
    let options = arguments.options()?;
    let mut supervisor = Command::new(env::current_exe().context("finding this program")?);
    supervisor.args(["cluster", "supervise"]);
    let state = match home.up(&options, supervisor, &mut |step| eprintln!("{step}"))? {
        Up::Started(state) => {
            eprintln!("the cluster is up; `cargo xtask cluster down` ends it. In your shell:");
            state
        }
        Up::AlreadyRunning(state, ended) => {
            eprintln!("the cluster of this checkout is already running; options given now do not change it");
            if !ended.is_empty() {
                eprintln!("but {} ended: `cargo xtask cluster down`, then `up` again", ended.join(", "));
            }
            state
        }
    };
    println!("{}", state.export_line());
    Ok(())
}

impl UpArguments {
    fn options(&self) -> Result<ClusterOptions> {
        let Self { nodes, node_cpu, speed, no_prometheus } = self;
        ensure!(speed.is_finite() && 0.0 < *speed, "--speed: {speed} is not a positive number");
        let mut options = ClusterOptions::default().sped_up(*speed);
        options.nodes.count = *nodes;
        options.nodes.cpu.clone_from(node_cpu);
        if *no_prometheus {
            options.prometheus = None;
        }
        Ok(options)
    }
}

fn status(home: &Home) -> Result<()> {
    match home.state()?.filter(|state| state.supervisor.is_alive()) {
        Some(state) => print!("{}", table(&state)),
        None => println!("no cluster is up in this checkout"),
    }
    Ok(())
}

fn table(state: &State) -> String {
    let mut text = format!("{:<24} {:>8} {:>6}  {:<9} {:>8}\n", "PROGRAM", "PID", "PORT", "HEALTH", "MEMORY");
    let mut total_bytes = 0;
    for member in state.members() {
        let health = match member.health {
            Health::Ready => "ready",
            Health::NotReady => "not ready",
            Health::Ended => "ended",
        };
        let memory = format!("{} MiB", member.resident_bytes >> 20);
        text +=
            &format!("{:<24} {:>8} {:>6}  {health:<9} {memory:>8}\n", member.name, member.pid, member.port);
        total_bytes += member.resident_bytes;
    }
    text += &format!("{:<24} {:>34}\n", "total", format!("{} MiB", total_bytes >> 20));
    text += &format!("{}\n", state.export_line());
    if let Some(url) = &state.prometheus_url {
        text += &format!("Prometheus: {url}\n");
    }
    text
}
