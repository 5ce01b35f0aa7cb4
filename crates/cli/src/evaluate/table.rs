//! A report as text for a terminal: what ran, the scalers side by side, then every case.

use std::fmt::Write;

use super::goals;
use super::report::{CellPart, Report, ScalerPart, SuitePart, median};

/// The report as text.
pub(crate) fn table(report: &Report) -> String {
    let mut text = heading(report);
    text.push('\n');
    if !report.goals.is_empty() {
        let _ = writeln!(text, "{}", goals::text(&report.goals));
    }
    text.push_str(&grid(&scaler_rows(report)));
    let _ = writeln!(
        text,
        "\nlate: share of requests not answered within the target; x floor: replica-hours over the clairvoyant's; \
         matched: replica-hours at the same\nlateness over hpa:tuned (cheapest setting of each; in how many cells one \
         was as good); p95, p99 over the target; won: cheapest within the SLA;\nnever: more requests than this percentile leaves were not answered at all."
    );
    for case in 0..report.suite.cases.len() {
        let part = &report.suite.cases[case];
        let note = part.note.as_ref().map_or(String::new(), |note| format!(", {note}"));
        let _ = writeln!(
            text,
            "\n{} / {}{note}: SLA {} %, {:.2} h judged, {:.1} h of history, target {} ms; medians over seeds",
            part.trace, part.profile, part.sla_percent, part.hours, part.history_hours, part.target_ms
        );
        text.push_str(&grid(&case_rows(report, case)));
    }
    text
}

/// The scalers side by side as a table for a document, with what it came from.
pub(crate) fn markdown(report: &Report) -> String {
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rows = scaler_rows(report);
    let mut text = format!("{}\n", heading(report));
    for (index, cells) in rows.iter().enumerate() {
        text.push_str(&row(cells));
        if index == 0 {
            let right = std::iter::repeat_n("---:".to_owned(), cells.len() - 1);
            text.push_str(&row(&std::iter::once("---".to_owned()).chain(right).collect::<Vec<_>>()));
        }
    }
    text
}

/// What ran: suite, seeds, SLAs, program and models.
pub(crate) fn heading(report: &Report) -> String {
    let suite = &report.suite;
    let seeds = match (suite.seeds.first(), suite.seeds.last()) {
        (Some(first), Some(last)) if first != last => format!("seeds {first}..{last}"),
        (Some(only), _) => format!("seed {only}"),
        _ => String::new(),
    };
    let models: String =
        report.program.models.iter().map(|part| format!(", {} = {}", part.scaler, part.model)).collect();
    format!(
        "suite {}: {} cases, {seeds}, SLA {} %; rlscaler {} (commit {}), model {}{models}\n{}",
        suite.name,
        suite.cases.len(),
        slas(suite),
        report.program.version,
        report.program.commit,
        report.program.model,
        left_out(suite),
    )
}

/// The SLAs asked, in percent.
pub(crate) fn slas(suite: &SuitePart) -> String {
    suite.sla_percents.iter().map(f64::to_string).collect::<Vec<_>>().join(" and ")
}

/// Which traces are not there; nothing where all are.
pub(crate) fn left_out(suite: &SuitePart) -> String {
    if suite.left_out.is_empty() {
        return String::new();
    }
    format!(" Left out, as there is no such file: {}.\n", suite.left_out.join(", "))
}

fn scaler_rows(report: &Report) -> Vec<Vec<String>> {
    let heads = [
        "scaler",
        "SLA met",
        "late %",
        "worst cell",
        "worst hour",
        "x floor",
        "matched",
        "worst",
        "in cells",
        "changes/h",
        "p95",
        "p99",
        "reward",
        "latency",
        "saving",
        "SLA",
        "won",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for scaler in &report.scalers {
        let ScalerPart { scaler: name, cells, sla_met, cells_won, median, worst, matched } = scaler;
        let optional = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
        rows.push(vec![
            name.clone(),
            format!("{sla_met}/{cells}"),
            percent(median.late_ratio),
            percent(worst.late_ratio),
            percent(median.worst_hour_late_ratio),
            format!("{:.3}", median.over_clairvoyant),
            optional(matched.as_ref().and_then(|matched| matched.median)),
            optional(matched.as_ref().and_then(|matched| matched.worst)),
            matched.as_ref().map_or("-".to_owned(), |matched| format!("{}/{cells}", matched.cells)),
            format!("{:.1}", median.changes_per_hour),
            median.p95_over_target.map_or("never".to_owned(), |ratio| format!("{ratio:.2}")),
            median.p99_over_target.map_or("never".to_owned(), |ratio| format!("{ratio:.2}")),
            format!("{:+.3}", median.reward),
            format!("{:+.3}", median.latency_reduction),
            format!("{:+.3}", median.resource_saving),
            format!("{:+.3}", median.sla_completion),
            cells_won.to_string(),
        ]);
    }
    rows
}

fn case_rows(report: &Report, case: usize) -> Vec<Vec<String>> {
    let heads = [
        "scaler",
        "setting",
        "SLA met",
        "late %",
        "worst hour",
        "replica-h",
        "x floor",
        "matched",
        "changes/h",
        "p95 ms",
        "p99 ms",
        "reward",
        "replicas",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for scaler in &report.scalers {
        let of_scaler = |cell: &&CellPart| cell.case == case && cell.scaler == scaler.scaler;
        let cells: Vec<&CellPart> = report.cells.iter().filter(of_scaler).collect();
        let of = |measure: &dyn Fn(&CellPart) -> Option<f64>| {
            median(cells.iter().filter_map(|cell| measure(cell)).collect())
        };
        let show = |value: Option<f64>, digits: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let latency = |measure: &dyn Fn(&CellPart) -> Option<f64>| {
            let millis = of(&|cell| Some(measure(cell).unwrap_or(f64::INFINITY)));
            millis
                .filter(|millis| millis.is_finite())
                .map_or("never".to_owned(), |millis| format!("{millis:.0}"))
        };
        let met = cells.iter().filter(|cell| cell.measures.sla_met).count();
        let mut settings: Vec<&str> = cells.iter().map(|cell| cell.setting.as_str()).collect();
        settings.dedup();
        let setting = if settings.len() == 1 { settings[0].to_owned() } else { "differs by seed".to_owned() };
        let least = cells.iter().map(|cell| cell.measures.min_replicas).min().unwrap_or(0);
        let most = cells.iter().map(|cell| cell.measures.max_replicas).max().unwrap_or(0);
        rows.push(vec![
            scaler.scaler.clone(),
            setting,
            format!("{met}/{}", cells.len()),
            of(&|cell| Some(cell.measures.late_ratio)).map_or("-".to_owned(), percent),
            of(&|cell| Some(cell.measures.worst_hour_late_ratio)).map_or("-".to_owned(), percent),
            show(of(&|cell| Some(cell.measures.replica_hours)), 1),
            show(of(&|cell| Some(cell.measures.over_clairvoyant)), 3),
            show(of(&|cell| cell.matched_cost), 3),
            show(of(&|cell| Some(cell.measures.changes_per_hour)), 1),
            latency(&|cell| cell.measures.p95_ms),
            latency(&|cell| cell.measures.p99_ms),
            of(&|cell| Some(cell.measures.reward.total))
                .map_or("-".to_owned(), |value| format!("{value:+.3}")),
            format!("{least}..{most}"),
        ]);
    }
    rows
}

/// A share as percent, with more digits where it is small.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.2}", 100.0 * share)
}

/// Columns under their heads: the first to the left, the others to the right.
pub(crate) fn grid(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if column == 0 {
                let _ = write!(line, "{cell:<width$}");
            } else {
                let _ = write!(line, "  {cell:>width$}");
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_their_heads() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(grid(&[row(["name", "n"]), row(["a", "100"])]), "name    n\na     100\n");
    }
}
