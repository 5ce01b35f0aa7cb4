//! A report as one page that needs nothing else: no script, no font, no request. Light and dark by the reader's wish.

use std::fmt::Write;

use super::chart::{self, Mark, STYLES, escape};
use super::contestant::{Setting, family};
use super::goals;
use super::judge::Verdict;
use super::report::{CellPart, Report, median};
use super::series::Series;
use super::table::{left_out, percent, slas};
use crate::suite::Suite;

/// Styles of the page and of its charts, shared with `simulate`.
pub(crate) const STYLE: &str = include_str!("page.css");

/// The page.
pub(crate) fn page(suite: &Suite, verdict: &Verdict, report: &Report) -> String {
    let title = format!("rlscaler evaluate: {}", escape(&suite.name));
    let mut body = format!(
        "<h1>{title}</h1><p>{} cases, seeds {}, SLA {} %. rlscaler {}, commit {}, model {}.{}</p>",
        suite.cases.len(),
        suite.seeds.iter().map(|seed| seed.0.to_string()).collect::<Vec<_>>().join(", "),
        slas(&report.suite),
        escape(&report.program.version),
        escape(&report.program.commit),
        escape(&report.program.model),
        escape(&left_out(&report.suite)),
    );
    body.push_str(&goals::html(&report.goals));
    body.push_str(&summary(report));
    for case in 0..suite.cases.len() {
        body.push_str(&section(suite, verdict, report, case));
    }
    document(&title, &body)
}

/// A whole document around a body.
pub(crate) fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\
         <title>{title}</title><style>{STYLE}</style></head>\n<body><main>{body}</main></body></html>\n"
    )
}

fn summary(report: &Report) -> String {
    let mut text = String::from(
        "<h2>All cells</h2><div class=\"wide\"><table><thead><tr><th>scaler<th>SLA met<th>late, median<th>late, worst \
         cell<th>over floor<th>matched cost<th>worst<th>in cells<th>changes/h<th>p95/target<th>p99/target<th>reward\
         <th>latency<th>saving<th>SLA<th>won</tr></thead><tbody>",
    );
    for (index, scaler) in report.scalers.iter().enumerate() {
        let optional = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.3}"));
        let over_target =
            |value: Option<f64>| value.map_or("never".to_owned(), |value| format!("{value:.2}"));
        let matched = scaler.matched.as_ref();
        let middle = &scaler.median;
        let _ = write!(
            text,
            "<tr><th>{} {}<td>{}/{}<td>{} %<td>{} %<td>{:.3}<td>{}<td>{}<td>{}<td>{:.1}<td>{}<td>{}\
             <td>{:+.3}<td>{:+.3}<td>{:+.3}<td>{:+.3}<td>{}</tr>",
            chart::legend_mark(index % STYLES),
            escape(&scaler.scaler),
            scaler.sla_met,
            scaler.cells,
            percent(middle.late_ratio),
            percent(scaler.worst.late_ratio),
            middle.over_clairvoyant,
            optional(matched.and_then(|matched| matched.median)),
            optional(matched.and_then(|matched| matched.worst)),
            matched.map_or(0, |matched| matched.cells),
            middle.changes_per_hour,
            over_target(middle.p95_over_target),
            over_target(middle.p99_over_target),
            middle.reward,
            middle.latency_reduction,
            middle.resource_saving,
            middle.sla_completion,
            scaler.cells_won,
        );
    }
    text.push_str(
        "</tbody></table></div><p class=\"note\">Late: share of requests not answered within the target. Over floor: \
         replica-hours over those of the clairvoyant, which knows the future. Matched cost: replica-hours of the \
         cheapest setting that is late no more than allowed, over those of hpa:tuned, whose best setting is chosen in \
         hindsight. Won: the cheapest within the SLA.</p>",
    );
    text
}

fn section(suite: &Suite, verdict: &Verdict, report: &Report, case: usize) -> String {
    let part = &report.suite.cases[case];
    let mut text = format!(
        "<section><h2>{}</h2><p>{} h judged, {} h of history, target {} ms.</p>",
        escape(&suite.cases[case].label()),
        super::measures::round(part.hours),
        part.history_hours,
        part.target_ms
    );
    let allowed = 1.0 - suite.cases[case].sla;
    let _ = write!(
        text,
        "<figure class=\"tall\">{}<figcaption>Every setting tried, means over seeds; large: what each scaler ran with. Down and left is \
         better.</figcaption></figure>",
        chart::pareto(&marks(suite, verdict, case), allowed)
    );
    let of_case: Vec<(usize, &Series, &CellPart)> = verdict
        .cells
        .iter()
        .zip(&report.cells)
        .filter(|(cell, _)| cell.case == case)
        .filter_map(|(cell, part)| Some((cell.contestant, cell.series.as_ref()?, part)))
        .collect();
    let top = of_case.iter().map(|(_, series, _)| series.top()).fold(1.0, f64::max);
    for (contestant, series, cell) in of_case {
        let style = contestant % STYLES;
        let _ = write!(
            text,
            "<figure>{}<figcaption>{} <b>{}</b> ({}), seed {}: {} % late, {:.1} replica-hours, {:.1} changes/h\
             </figcaption></figure>",
            chart::replicas(series, style, top, allowed),
            chart::legend_mark(style),
            escape(&cell.scaler),
            escape(&cell.setting),
            cell.seed,
            percent(cell.measures.late_ratio),
            cell.measures.replica_hours,
            cell.measures.changes_per_hour,
        );
    }
    text.push_str(
        "<p class=\"note\">Grey: the load in busy pods. Line: replicas wanted. Below: late requests beyond what is \
         allowed.</p></section>",
    );
    text
}

/// Every setting as a small mark, every contestant as a large one.
fn marks(suite: &Suite, verdict: &Verdict, case: usize) -> Vec<Mark> {
    let mean = |setting: usize, pick: fn(&super::judge::Rung) -> f64| {
        let of_seeds = &verdict.rungs[case];
        of_seeds.iter().map(|rungs| pick(&rungs[setting])).sum::<f64>() / of_seeds.len() as f64
    };
    let style_of = |setting: &Setting| {
        let own = suite.contestants.iter().position(|who| who.ladder.contains(setting));
        let kin = || suite.contestants.iter().position(|who| who.family() == family(setting.kind));
        own.or_else(kin)
    };
    let mut marks = Vec::new();
    for (index, setting) in verdict.settings.iter().enumerate() {
        let Some(style) = style_of(setting) else { continue };
        let late_share = mean(index, |rung| rung.late_share);
        let hours = mean(index, |rung| rung.replica_hours);
        let shown = setting.shown(&suite.competitors);
        let title = format!("{shown}: {} % late, {hours:.1} replica-hours", percent(late_share));
        marks.push(Mark { hours, late_share, style: style % STYLES, chosen: false, title });
    }
    for (index, contestant) in suite.contestants.iter().enumerate() {
        let own: Vec<_> =
            verdict.cells.iter().filter(|cell| cell.case == case && cell.contestant == index).collect();
        let middle = |pick: fn(&super::measures::Measures) -> f64| {
            median(own.iter().map(|cell| pick(&cell.measures)).collect()).unwrap_or(0.0)
        };
        let late_share = middle(|measures| measures.late_ratio);
        let hours = middle(|measures| measures.replica_hours);
        let title = format!("{}: {} % late, {hours:.1} replica-hours", contestant.name, percent(late_share));
        marks.push(Mark { hours, late_share, style: index % STYLES, chosen: true, title });
    }
    marks
}
