//! Outcomes as Markdown: a line for each arm, each figure as the median over training seeds and, in brackets, its range.

use std::fmt::Write;

use super::outcome::{Misjudged, Outcome, median};

/// Stands for what there is not.
const NONE: &str = "-";

/// The tables: all arms, and those that were judged with capacity misjudged.
pub(super) fn table(rows: &[(&str, Vec<Outcome>)]) -> String {
    let mut text = String::from(
        "| | seeds | SLA met, of cells | x hpa:tuned at its lateness | x planner:tuned | x hpa:tuned where that meets \
         the SLA | changes/h | training, CPU-s |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for (title, outcomes) in rows.iter().filter(|(_, outcomes)| !outcomes.is_empty()) {
        let over = |of: fn(&Outcome) -> Option<f64>, decimals| spread(outcomes.iter().map(of), decimals);
        let met = over(|outcome| Some(outcome.sla_met as f64), 0);
        let _ = writeln!(
            text,
            "| {title} | {} | {met} of {} | {} | {} | {} | {} | {} |",
            outcomes.len(),
            outcomes[0].cells,
            over(|outcome| outcome.matched, 3),
            over(|outcome| outcome.over_planner, 3),
            over(|outcome| outcome.own_cost, 3),
            over(|outcome| Some(outcome.changes_per_hour), 1),
            over(|outcome| outcome.train_cpu_secs, 0),
        );
    }
    if rows.iter().flat_map(|(_, outcomes)| outcomes).any(|outcome| outcome.capacity.is_some()) {
        text.push_str(&capacity(rows));
    }
    text
}

fn capacity(rows: &[(&str, Vec<Outcome>)]) -> String {
    let mut text = String::from(
        "\n| pods that serve | | SLA met, of cells | late, median of cells | x clairvoyant, median of cells |\n\
         | --- | --- | ---: | ---: | ---: |\n",
    );
    for stronger in [false, true] {
        for (title, outcomes) in rows {
            let of_outcome = |outcome: &Outcome| {
                let capacity = outcome.capacity.clone()?;
                Some(if stronger { capacity.stronger } else { capacity.weaker })
            };
            let kinds: Vec<Misjudged> = outcomes.iter().filter_map(of_outcome).collect();
            if kinds.is_empty() {
                continue;
            }
            let over = |of: fn(&Misjudged) -> f64, decimals| {
                spread(kinds.iter().map(|kind| Some(of(kind))), decimals)
            };
            let _ = writeln!(
                text,
                "| 30 % {} | {title} | {} of {} | {} % | {} |",
                if stronger { "more" } else { "less" },
                over(|kind| kind.sla_met as f64, 0),
                kinds[0].cells,
                over(|kind| 100.0 * kind.late_share, 2),
                over(|kind| kind.over_clairvoyant, 2),
            );
        }
    }
    text
}

/// The median, and the range where there is one.
fn spread(values: impl Iterator<Item = Option<f64>>, decimals: usize) -> String {
    let Some(values) = values.collect::<Option<Vec<f64>>>() else { return NONE.to_owned() };
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let Some(middle) = median(values) else { return NONE.to_owned() };
    if least == most {
        format!("{middle:.decimals$}")
    } else {
        format!("{middle:.decimals$} ({least:.decimals$}-{most:.decimals$})")
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Capacity;
    use super::*;

    fn outcome(matched: f64, sla_met: usize) -> Outcome {
        Outcome { cells: 22, sla_met, matched: Some(matched), changes_per_hour: 16.0, ..Outcome::default() }
    }

    #[test]
    fn a_line_tells_median_and_range_over_seeds() {
        let rows = [
            ("planner alone", vec![outcome(1.0, 11)]),
            ("the recipe", vec![outcome(0.92, 15), outcome(0.9, 18), outcome(0.91, 15)]),
            ("not asked", vec![]),
        ];
        let text = table(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(lines[2], "| planner alone | 1 | 11 of 22 | 1.000 | - | - | 16.0 | - |");
        assert!(
            lines[3].starts_with("| the recipe | 3 | 15 (15-18) of 22 | 0.910 (0.900-0.920) |"),
            "{text}"
        );
    }

    #[test]
    fn capacity_has_a_table_of_its_own_where_it_was_looked_at() {
        let kind = |late_share| Misjudged { cells: 22, sla_met: 9, late_share, over_clairvoyant: 1.25 };
        let capacity = Some(Capacity { weaker: kind(0.07), stronger: kind(0.001) });
        let text = table(&[
            ("planner", vec![outcome(1.0, 9)]),
            ("full", vec![Outcome { capacity, ..outcome(0.9, 9) }]),
        ]);
        assert!(text.contains("| 30 % less | full | 9 of 22 | 7.00 % | 1.25 |"), "{text}");
        assert!(text.contains("| 30 % more | full | 9 of 22 | 0.10 % | 1.25 |"), "{text}");
    }
}
