//! The course of a training run as one page that needs nothing else. In: the run and its course. Out: HTML, the same for
//! the same course.

use std::fmt::Write;

use rlscaler_rl::settings_text::documented;

use super::course::{Course, Row};
use super::curves::{self, Chart, Line, key};
use super::folder::Run;
use super::telling::score_text;
use crate::evaluate::chart::escape;
use crate::evaluate::html::document;

/// Colours of the style sheet.
const NET: usize = 1;
const PLANNER: usize = 0;

/// What this page adds to the style of all pages: smaller columns, and the settings as they were written.
const STYLE: &str = "<style>section{grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr))}\
                     pre{font-size:12.5px;line-height:1.45;white-space:pre-wrap;overflow-wrap:anywhere}\
                     .line{stroke-width:2}td.w,.facts th{white-space:normal}</style>";

/// The page.
pub(super) fn page(run: &Run, course: &Course) -> String {
    let updates = run.settings.pathwise.updates;
    let title = format!("rlscaler train: {}", escape(&run.name));
    let mut body = format!(
        "{STYLE}<h1>{title}</h1><p>{} of {updates} updates, seed {}, commit {}, features {}. rlscaler {}, candle {}.</p>",
        course.rows().len(),
        run.seed,
        escape(run.commit.as_deref().unwrap_or("unknown")),
        escape(&run.schema_hash),
        escape(&run.versions.rlscaler),
        escape(&run.versions.candle),
    );
    body.push_str(&summary(course));
    body.push_str("<section><h2>On loads it never learns from</h2>");
    body.push_str(&scores(course, updates as f64));
    body.push_str("<h2>On the windows it learns from</h2>");
    body.push_str(&figures(course, updates as f64));
    let _ = write!(
        body,
        "<p class=\"note\">Faint: means over a few updates. Strong: smoothed. The planner's curves are what its orders \
         cost in the same windows.</p></section><h2>Settings</h2><pre>{}</pre>",
        escape(&documented(&run.settings))
    );
    document(&title, &body)
}

fn summary(course: &Course) -> String {
    let Some(last) = course.rows().last() else { return "<p>No update has been made yet.</p>".into() };
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let report = &last.report;
    let rows = [
        ("loss", format!("{:.3}", report.loss), format!("{:.3}", report.planner_loss)),
        ("late", percent(report.late_share), percent(report.planner_late_share)),
        (
            "replicas over the mean need",
            format!("{:.3}", report.replicas),
            format!("{:.3}", report.planner_replicas),
        ),
    ];
    let mut text = String::from(
        "<div class=\"wide\"><table class=\"facts\"><thead><tr><th>last update<th>net<th>planner</tr></thead><tbody>",
    );
    for (what, net, planner) in rows {
        let _ = write!(text, "<tr><th>{what}<td>{net}<td>{planner}</tr>");
    }
    text.push_str("</tbody></table></div>");
    if let Some((updates, score)) = course.last_score() {
        let _ = write!(text, "<p>Chosen-on loads after {updates} updates: {}.</p>", score_text(&score));
    }
    text
}

fn scores(course: &Course, updates: f64) -> String {
    let scored = |figure: fn(&Row) -> Option<f64>| -> Vec<(f64, f64)> {
        course.rows().iter().filter_map(|row| Some((row.updates() as f64, figure(row)?))).collect()
    };
    let cost = scored(|row| row.score?.matched_cost);
    let changes = scored(|row| Some(row.score?.changes_per_hour));
    if changes.is_empty() {
        return "<p>Nobody has looked yet.</p>".into();
    }
    let dots = |points| vec![Line { name: "net", style: NET, points, dots: true }];
    let cost = Chart {
        what: "Replicas over the planner's at the same lateness",
        lines: dots(cost),
        updates,
        level: Some((1.0, "the planner")),
        unit: "",
        from_zero: false,
    };
    let changes = Chart {
        what: "Changes per hour",
        lines: dots(changes),
        updates,
        level: None,
        unit: "",
        from_zero: true,
    };
    let caption = "<b>Cost</b>: replicas over the planner's at the same late share, geometric mean over six of the loads that \
                   models are chosen on. Lower is better.";
    figure(&cost, caption)
        + &figure(&changes, "<b>Changes</b> of the replica count per hour, median over loads and prices.")
}

fn figures(course: &Course, updates: f64) -> String {
    let line = |name, style, figure: fn(&Row) -> f64| Line {
        name,
        style,
        points: course.rows().iter().map(|row| (row.updates() as f64, figure(row))).collect(),
        dots: false,
    };
    let pair = |what, unit, from_zero, net: fn(&Row) -> f64, planner: fn(&Row) -> f64| Chart {
        what,
        lines: vec![line("planner", PLANNER, planner), line("net", NET, net)],
        updates,
        level: None,
        unit,
        from_zero,
    };
    let single = |what, net: fn(&Row) -> f64| Chart {
        what,
        lines: vec![line("net", NET, net)],
        updates,
        level: None,
        unit: "",
        from_zero: true,
    };
    let loss = pair("Loss", "", false, |row| row.report.loss, |row| row.report.planner_loss);
    let late = pair(
        "Late share",
        " %",
        true,
        |row| 100.0 * row.report.late_share,
        |row| 100.0 * row.report.planner_late_share,
    );
    let replicas = pair(
        "Replicas over the mean need",
        "",
        false,
        |row| row.report.replicas,
        |row| row.report.planner_replicas,
    );
    let critic = single("Error of the critic", |row| row.report.critic_error);
    let norm = single("Norm of the gradient", |row| row.report.gradient_norm);
    let keys = format!("{} net {} planner", key(NET), key(PLANNER));
    [
        figure(
            &loss,
            &format!(
                "{keys} · <b>Loss</b>: replicas, lateness at its price and changes, over each window's difficulty."
            ),
        ),
        figure(
            &late,
            &format!(
                "{keys} · <b>Late share</b>: requests not answered within the target, over all prices of lateness."
            ),
        ),
        figure(&replicas, &format!("{keys} · <b>Replicas</b> ordered, over what would just have been enough.")),
        figure(&critic, "<b>Critic</b>: root mean square error, in units of the loss."),
        figure(&norm, "<b>Gradient</b>: norm of the actor's before it was shortened."),
    ]
    .concat()
}

fn figure(chart: &Chart<'_>, caption: &str) -> String {
    format!("<figure>{}<figcaption>{caption}</figcaption></figure>", curves::draw(chart))
}
