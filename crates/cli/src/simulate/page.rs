//! A simulated run as one page that needs nothing else.

use std::fmt::Write;

use rlscaler_sim::outcome::Outcome;
use rlscaler_sim::scenario::Scenario;

use super::report::{Report, figures, heading, rows};
use crate::evaluate::chart::{self, escape};
use crate::evaluate::html::document;
use crate::evaluate::series::Series;

/// The accent colour of the charts.
const STYLE: usize = 1;

/// Most decisions listed; the JSON form has them all.
const MAX_LISTED: usize = 6_000;

/// The page.
pub(super) fn page(report: &Report, outcome: &Outcome, scenario: &Scenario) -> String {
    let title = format!("rlscaler simulate: {} on {}", escape(&report.policy), escape(&report.trace));
    let series = Series::new(outcome, scenario);
    let mut body = format!("<h1>{title}</h1><p>{}</p>", escape(&heading(report)));
    let allowed = 1.0 - report.sla_percent / 100.0;
    let _ = write!(
        body,
        "<figure>{}<figcaption>Grey: the load in busy pods. Line: replicas wanted. Below: late requests beyond what is \
         allowed.</figcaption></figure><h2>What it came to</h2><div class=\"wide\"><table><tbody>",
        chart::replicas(&series, STYLE, series.top(), allowed)
    );
    for row in rows(report) {
        let _ = write!(body, "<tr><th>{}<td>{}</tr>", escape(&row[0]), escape(&row[1]));
    }
    body.push_str("</tbody></table></div><h2>Decisions</h2>");
    if MAX_LISTED < report.decisions.len() {
        let _ = write!(body, "<p class=\"note\">The first {MAX_LISTED} of {}.</p>", report.decisions.len());
    }
    body.push_str(
        "<div class=\"wide\"><table><thead><tr><th>time<th>from<th>to<th>rate<th>ready<th>late<th>driver<th>why</tr>\
         </thead><tbody>",
    );
    for told in report.decisions.iter().take(MAX_LISTED) {
        let figures = figures(told);
        let _ = write!(body, "<tr><th>{}", figures.join("<td>"));
        let (driver, reasons) =
            told.ours.as_ref().map_or(("", String::new()), |ours| (ours.driver, ours.words()));
        let _ = write!(body, "<td>{driver}<td class=\"w\">{}</tr>", escape(&reasons));
    }
    body.push_str("</tbody></table></div>");
    document(&title, &body)
}
