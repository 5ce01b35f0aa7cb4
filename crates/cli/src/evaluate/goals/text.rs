//! Goals as text for a terminal and as a part of the page.

use std::fmt::Write;

use super::super::chart::escape;
use super::super::table::{grid, percent};
use super::{GoalsPart, MissPart};

const HEADS: [&str; 17] = [
    "scaler",
    "SLA",
    "1 as good",
    "x hpa",
    "2 as good",
    "3 x hpa",
    "in cells",
    "x planner",
    "4 changes/h",
    "x hpa",
    "most",
    "5 beaten",
    "cold beaten",
    "as good",
    "6 doubled",
    "anyway",
    "and missed",
];

/// What the columns say, a line for each goal.
const NOTES: [&str; 7] = [
    "1 where hpa:tuned reaches the SLA: cells that reach it too, at no more replica-time; its geometric mean",
    "2 where no HPA reaches it: cells that do, or are less late at no more replica-time",
    "3 replica-time at the lateness of hpa:tuned; cells as little late; and at that of the planner tuned in hindsight",
    "4 changes per hour: median, the same over that of hpa:tuned, most",
    "5 slow starts and bursts: cells where some HPA has both fewer late and less replica-time; cold: the same in the first \
     hour by one at 50, 60 or 70 %, and cells as good as the HPA tuned on that hour",
    "6 something is not as told: cells whose late share more than doubles; those of them where requests take too long by \
     themselves, whatever runs; those that miss the SLA",
    "+ holds, ! does not",
];

/// The goals and every miss, in some lines.
pub(crate) fn text(parts: &[GoalsPart]) -> String {
    if parts.is_empty() {
        return "no goals: the suite's cases have no role, or hpa:tuned does not run\n".to_owned();
    }
    let mut text = grid(&rows(parts));
    let _ = writeln!(text, "\n{}", NOTES.join("\n"));
    for part in parts.iter().filter(|part| 0 < part.robust.outside_bounds) {
        let (scaler, outside) = (&part.scaler, part.robust.outside_bounds);
        let _ = writeln!(text, "{scaler}: {outside} decisions outside of the bounds!");
    }
    for part in parts.iter().filter(|part| part.sla_percent.is_some() && !part.misses.is_empty()) {
        let _ = writeln!(text, "\n{} misses:", part.scaler);
        text.push_str(&grid(&miss_rows(part)));
    }
    text
}

/// The same for a page.
pub(crate) fn html(parts: &[GoalsPart]) -> String {
    if parts.is_empty() {
        return String::new();
    }
    let mut text = String::from("<h2>Goals</h2>");
    text.push_str(&html_table(&rows(parts)));
    let _ = write!(text, "<p class=\"note\">{}</p>", NOTES.join("<br>"));
    for part in parts.iter().filter(|part| part.sla_percent.is_some() && !part.misses.is_empty()) {
        let _ = write!(text, "<h3>{} misses</h3>", escape(&part.scaler));
        text.push_str(&html_table(&miss_rows(part)));
    }
    text
}

fn html_table(rows: &[Vec<String>]) -> String {
    let mut text = String::from("<div class=\"wide\"><table>");
    for (place, row) in rows.iter().enumerate() {
        text.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let tag = if place == 0 || column == 0 { "th" } else { "td" };
            let _ = write!(text, "<{tag}>{}", escape(cell));
        }
        text.push_str("</tr>");
    }
    text.push_str("</table></div>");
    text
}

fn rows(parts: &[GoalsPart]) -> Vec<Vec<String>> {
    let mut rows = vec![HEADS.map(str::to_owned).to_vec()];
    for part in parts {
        let GoalsPart {
            scaler,
            sla_percent,
            reached,
            unreached,
            matched,
            changes,
            hard,
            cold,
            robust,
            misses: _,
        } = part;
        let ratio = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
        rows.push(vec![
            scaler.clone(),
            sla_percent.map_or("all".to_owned(), |percent| percent.to_string()),
            format!("{}{}/{}", mark(reached.holds), reached.as_good, reached.cells),
            ratio(reached.geometric_mean),
            format!("{}{}/{}", mark(unreached.holds), unreached.as_good, unreached.cells),
            format!("{}{}", mark(matched.holds), ratio(matched.over_hpa)),
            format!("{}/{}", matched.cells, matched.of_cells),
            ratio(matched.over_planner),
            format!(
                "{}{}",
                mark(changes.holds),
                changes.median.map_or("-".to_owned(), |median| format!("{median:.1}"))
            ),
            ratio(changes.over_hpa),
            format!("{:.1}", changes.most),
            format!("{}{}/{}", mark(hard.holds), hard.dominated, hard.cells),
            format!("{}{}/{}", mark(cold.holds), cold.dominated, cold.cells),
            format!("{}/{}", cold.as_good, cold.reached),
            format!("{}{}/{}", mark(robust.holds), robust.doubled, robust.cells),
            robust.doubled_anyway.to_string(),
            robust.doubled_and_missed.to_string(),
        ]);
    }
    rows
}

fn mark(holds: Option<bool>) -> &'static str {
    match holds {
        None => "",
        Some(true) => "+ ",
        Some(false) => "! ",
    }
}

fn miss_rows(part: &GoalsPart) -> Vec<Vec<String>> {
    let heads = ["case", "seed", "goal", "late %", "changes/h", "against", "late %", "replica-time x its"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for miss in &part.misses {
        let MissPart { goal, case: _, label, seed, late_ratio, changes_per_hour, .. } = miss;
        rows.push(vec![
            label.clone(),
            seed.to_string(),
            goal.to_string(),
            percent(*late_ratio),
            format!("{changes_per_hour:.1}"),
            miss.against.clone(),
            percent(miss.against_late_ratio),
            format!("{:.3}", miss.cost_ratio),
        ]);
    }
    rows
}
