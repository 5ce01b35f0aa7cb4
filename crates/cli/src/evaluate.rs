//! `rlscaler evaluate`: sets scalers side by side in the same worlds. In: a suite, or traces and profiles. Out: a table,
//! JSON or one self-contained page. The same suite, seeds and program give the same bytes, whatever the number of
//! threads. What the figures mean is in `docs/simulator.md`.

pub(crate) mod chart;
pub(crate) mod competitors;
pub(crate) mod contestant;
mod gate;
pub(crate) mod goals;
pub(crate) mod html;
mod judge;
pub(crate) mod measures;
pub(crate) mod report;
pub(crate) mod series;
pub(crate) mod table;

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use crate::Unusable;
use crate::suite::{self, Ladder, Missing, Part, Suite, Wishes};

/// What to judge, and how to tell.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Suite: standing, choosing, reporting, robustness, reporting-robustness, or a file (TOML) [default: standing; choosing
    /// with --gate].
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trace", "profile", "history_hours", "hours"])]
    suite: Option<String>,
    /// Traces: bundled names, gen:SHAPE:SEED, or files (CSV, Prometheus JSON, access log).
    #[arg(long, value_name = "F[,F…]", value_delimiter = ',')]
    trace: Vec<String>,
    /// Profiles: web, small, jvm, edge, llm, or files.
    #[arg(long, value_name = "P[,P…]", value_delimiter = ',', default_value = "web", requires = "trace")]
    profile: Vec<String>,
    /// Scalers: planner, rl, rl:PATH (a model's files: a folder or a file stem), hpa[:TARGET[:WINDOW]],
    /// keda-rate[:PERCENT], phpa[:TARGET], clairvoyant, any with :tuned. Ours without a part of the brain:
    /// planner, rl or rl:PATH with +fixed-price (no error budget), +no-estimator (capacity as declared).
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    scalers: Vec<String>,
    /// Number of seeds; all scalers see the same draws of each.
    #[arg(long, value_name = "N")]
    seeds: Option<u32>,
    /// The first seed [default: 1].
    #[arg(long, value_name = "N")]
    first_seed: Option<u64>,
    /// Percent of requests that must not be late; every case is judged at each [default: the suite's, 99 with --trace].
    #[arg(long, value_name = "PERCENT[,…]", value_delimiter = ',')]
    sla: Vec<f64>,
    /// Folder of traces that do not ship: NAME or NAME.csv in it.
    #[arg(long, value_name = "DIR")]
    traces_folder: Option<PathBuf>,
    /// Leave out traces whose file is not there, and say so in the report.
    #[arg(long)]
    skip_missing: bool,
    /// Run the planner and models with their own setting only: quicker, without their cost at matched lateness.
    #[arg(long)]
    no_ladder: bool,
    /// Hours of each trace before the judged part, as history that scalers may see.
    #[arg(long, value_name = "H", requires = "trace")]
    history_hours: Option<f64>,
    /// Hours of each trace that are judged.
    #[arg(long, value_name = "H", requires = "trace")]
    hours: Option<f64>,
    /// May this model (its files: a folder or a file stem) take the place of the current one? Both, the planner and HPAs run
    /// in the same worlds. Exit status 0 to accept, 1 to reject, 2 where what was given cannot be used.
    #[arg(long, value_name = "CANDIDATE", conflicts_with_all = ["scalers", "goals"])]
    gate: Option<String>,
    /// The current model of --gate, its files [default: the built-in one].
    #[arg(long, value_name = "CURRENT", requires = "gate")]
    against: Option<String>,
    /// Tell only what is asked of the planner and of models, and every cell that misses it: short enough to choose by.
    #[arg(long, conflicts_with = "format")]
    goals: bool,
    /// Form of the report.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Where to write it [default: stdout].
    #[arg(long, value_name = "FILE")]
    out: Option<std::path::PathBuf>,
    /// Threads [default: one for each core]; the result does not depend on it.
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Print the JSON schema of the report (with --gate: of its report) and end.
    #[arg(long)]
    schema: bool,
}

/// Form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For a terminal.
    Table,
    /// For a document: the scalers side by side, as a Markdown table.
    Markdown,
    /// For programs; the schema is versioned.
    Json,
    /// One page that needs nothing else.
    Html,
}

/// Steps of the progress bar.
const PROGRESS_STEPS: f64 = 10_000.0;

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.schema {
        let schema =
            if args.gate.is_some() { schema::<gate::GateReport>()? } else { schema::<report::Report>()? };
        return write_out(&schema, args.out.as_deref());
    }
    let suite = read_suite(args)?;
    let verdict = judged(args, &suite)?;
    if args.gate.is_some() {
        return gate::finish(&suite, &verdict, args.format, args.out.as_deref());
    }
    let report = report::Report::new(&suite, &verdict);
    let text = match args.format {
        _ if args.goals => format!("{}\n{}", table::heading(&report), goals::text(&report.goals)),
        Format::Table => table::table(&report),
        Format::Markdown => table::markdown(&report),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&report)?),
        Format::Html => html::page(&suite, &verdict, &report),
    };
    write_out(&text, args.out.as_deref())
}

/// Runs the suite on threads of its own, with a progress bar.
fn judged(args: &Args, suite: &Suite) -> anyhow::Result<judge::Verdict> {
    let threads = args.threads.or(std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    // A pool of our own: the global one belongs to the tensors.
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().context("threads cannot be started")?;
    let bar = progress_bar(suite);
    let verdict = judge::judge(suite, &pool, &|share| {
        bar.inc((share * PROGRESS_STEPS * PROGRESS_STEPS).round() as u64);
    });
    bar.finish_and_clear();
    Ok(verdict)
}

fn read_suite(args: &Args) -> anyhow::Result<Suite> {
    let gated = args.gate.as_deref();
    let wishes = Wishes {
        scalers: gated.map_or(args.scalers.clone(), |path| gate::scalers(path, args.against.as_deref())),
        gated: gated.is_some(),
        seeds: args.seeds,
        first_seed: args.first_seed,
        sla_percents: args.sla.clone(),
        traces_folder: args.traces_folder.clone(),
        missing: if args.skip_missing { Missing::LeaveOut } else { Missing::Refuse },
        ladder: match gated {
            Some(_) => Ladder::Bare,
            None if args.no_ladder => Ladder::Own,
            None => Ladder::Whole,
        },
    };
    if args.trace.is_empty() {
        return suite::from_file(args.suite.as_deref().or(gated.map(|_| gate::SUITE)), &wishes);
    }
    let part = Part { history_hours: args.history_hours, hours: args.hours };
    suite::from_names(&args.trace, &args.profile, part, &wishes)
}

/// On stderr, and only where that is a terminal.
fn progress_bar(suite: &Suite) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {percent} %, about {eta} left")
        .expect("the template is well-formed");
    let bar = ProgressBar::new((PROGRESS_STEPS * PROGRESS_STEPS) as u64).with_style(style);
    bar.set_message(format!("{} cells", suite.cases.len() * suite.seeds.len() * suite.contestants.len()));
    bar
}

/// The JSON schema of a report, from the types that are written.
fn schema<Report: schemars::JsonSchema>() -> anyhow::Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(&schemars::schema_for!(Report))?))
}

/// To a file, or to stdout.
pub(crate) fn write_out(text: &str, file: Option<&std::path::Path>) -> anyhow::Result<()> {
    match file {
        None => match std::io::stdout().write_all(text.as_bytes()) {
            // Who reads only the beginning has what they wanted.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            outcome => outcome.context("stdout cannot be written"),
        },
        Some(file) => std::fs::write(file, text).map_err(|error| {
            Unusable(format!("--out: {}: cannot be written: {error}", file.display())).into()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_schemas_are_those_of_the_types() {
        let write = "write it with `cargo run -p rlscaler-cli -- evaluate";
        let judged =
            include_str!("../../../docs/evaluate.schema.json") == schema::<report::Report>().unwrap();
        assert!(judged, "{write} --schema --out docs/evaluate.schema.json`");
        let gated = include_str!("../../../docs/gate.schema.json") == schema::<gate::GateReport>().unwrap();
        assert!(gated, "{write} --gate any --schema --out docs/gate.schema.json`");
    }
}
