//! Learning curves as inline SVG, coloured by the page's style sheet. In: numbers over updates. Out: text. Narrow enough
//! that their words can be read on a telephone.

use std::fmt::Write;

use crate::evaluate::chart::{escape, ticks};

/// A curve over updates.
pub(super) struct Line<'a> {
    /// Beside the chart and in tooltips.
    pub(super) name: &'a str,
    /// Colour of the style sheet.
    pub(super) style: usize,
    /// (Updates made, value), in order.
    pub(super) points: Vec<(f64, f64)>,
    /// Each point is a measurement of its own: dots with tooltips, and no smoothing.
    pub(super) dots: bool,
}

/// What a chart shows.
pub(super) struct Chart<'a> {
    /// For those who cannot see it.
    pub(super) what: &'a str,
    pub(super) lines: Vec<Line<'a>>,
    /// Updates at the right edge.
    pub(super) updates: f64,
    /// A level that stands for something, and its name.
    pub(super) level: Option<(f64, &'a str)>,
    /// After the numbers at the axis.
    pub(super) unit: &'a str,
    /// The axis begins at zero.
    pub(super) from_zero: bool,
}

const WIDTH: f64 = 430.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 36.0;

/// Most points of a curve; what is between them is averaged.
const POINTS_MAX: usize = 240;

/// A curve is smoothed over this share of its length to either side.
const SMOOTHED_SHARE: usize = 40;

/// Share of the values of an update-by-update curve that the axis must hold: single gradients may be huge.
const SHOWN_QUANTILE: f64 = 0.99;

/// The chart.
pub(super) fn draw(chart: &Chart<'_>) -> String {
    let thinned: Vec<Vec<(f64, f64)>> = chart.lines.iter().map(|line| thin(&line.points)).collect();
    let (low, high) = bounds(chart, &thinned);
    let x = |updates: f64| LEFT + updates / chart.updates.max(1.0) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| {
        let share = ((value - low) / (high - low)).clamp(0.0, 1.0);
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    };
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", escape(chart.what));
    for tick in ticks(low, high, 5) {
        let at = y(tick);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"t e\" x=\"{:.1}\" y=\"{:.1}\">{tick}{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            escape(chart.unit)
        );
    }
    let floor = HEIGHT - BOTTOM;
    for tick in ticks(0.0, chart.updates, 5) {
        let at = x(tick);
        // The last number would leave the chart if it stood in the middle of its place.
        let class = if WIDTH - 2.0 * RIGHT < at { "t e" } else { "t m" };
        let at = if class == "t e" { WIDTH - 2.0 } else { at };
        let _ = write!(svg, "<text class=\"{class}\" x=\"{at:.1}\" y=\"{:.1}\">{tick}</text>", floor + 15.0);
    }
    let _ = write!(
        svg,
        "<text class=\"t m\" x=\"{:.1}\" y=\"{:.1}\">updates</text>",
        0.5 * (WIDTH + LEFT),
        HEIGHT - 4.0
    );
    if let Some((level, name)) = chart.level {
        let at = y(level);
        let _ = write!(
            svg,
            "<line class=\"sla\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"t e sla-t\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            WIDTH - RIGHT,
            at - 4.0,
            escape(name)
        );
    }
    for (line, thinned) in chart.lines.iter().zip(&thinned) {
        if line.dots {
            svg.push_str(&path(&line.points, line.style, "", &x, &y));
            for &(updates, value) in &line.points {
                let _ = write!(
                    svg,
                    "<circle class=\"big f{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>{}, {updates} updates: \
                     {value:.3}{}</title></circle>",
                    line.style,
                    x(updates),
                    y(value),
                    escape(line.name),
                    escape(chart.unit)
                );
            }
        } else {
            svg.push_str(&path(thinned, line.style, " opacity=\"0.25\"", &x, &y));
            svg.push_str(&path(&smooth(thinned), line.style, "", &x, &y));
        }
    }
    svg.push_str("</svg>");
    svg
}

/// The key of a chart with several curves.
pub(super) fn key(style: usize) -> String {
    format!(
        "<svg class=\"legend\" viewBox=\"0 0 16 16\" aria-hidden=\"true\"><path class=\"line s{style}\" \
         d=\"M1 8L15 8\" stroke-width=\"2\"/></svg>"
    )
}

fn path(
    points: &[(f64, f64)],
    style: usize,
    extra: &str,
    x: &impl Fn(f64) -> f64,
    y: &impl Fn(f64) -> f64,
) -> String {
    let mut way = String::new();
    for (index, &(updates, value)) in points.iter().filter(|(_, value)| value.is_finite()).enumerate() {
        let start = if index == 0 { 'M' } else { 'L' };
        let _ = write!(way, "{start}{:.1} {:.1}", x(updates), y(value));
    }
    format!("<path class=\"line s{style}\"{extra} d=\"{way}\"/>")
}

/// Lowest and highest value of the axis.
fn bounds(chart: &Chart<'_>, thinned: &[Vec<(f64, f64)>]) -> (f64, f64) {
    let mut values: Vec<f64> = thinned.iter().flatten().map(|&(_, value)| value).collect();
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let highest_shown = (values.len() as f64 * SHOWN_QUANTILE) as usize;
    let dots = chart.lines.iter().any(|line| line.dots);
    let highest = if dots { values.last() } else { values.get(highest_shown).or(values.last()) };
    let level = chart.level.map(|(level, _)| level);
    let low = values.first().copied().into_iter().chain(level).fold(f64::INFINITY, f64::min);
    let high = highest.copied().into_iter().chain(level).fold(f64::NEG_INFINITY, f64::max);
    let low = if chart.from_zero { low.min(0.0) } else { low };
    if !(low.is_finite() && high.is_finite()) {
        return (0.0, 1.0);
    }
    let margin = (0.06 * (high - low)).max(1e-3 * high.abs()).max(1e-9);
    (if chart.from_zero && 0.0 <= low { 0.0 } else { low - margin }, high + margin)
}

/// At most [`POINTS_MAX`] points, each the mean of its stretch.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let width = points.len().div_ceil(POINTS_MAX).max(1);
    let mean = |stretch: &[(f64, f64)]| {
        let finite: Vec<_> = stretch.iter().filter(|(_, value)| value.is_finite()).collect();
        let count = finite.len() as f64;
        (0.0 < count).then(|| {
            let sum = finite.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
            (sum.0 / count, sum.1 / count)
        })
    };
    points.chunks(width).filter_map(mean).collect()
}

/// Each point the median of its neighbourhood: one update that went astray bends no curve.
fn smooth(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let reach = points.len() / SMOOTHED_SHARE;
    let median = |index: usize| {
        let near = &points[index.saturating_sub(reach)..(index + reach + 1).min(points.len())];
        let mut values: Vec<f64> = near.iter().map(|&(_, value)| value).collect();
        values.sort_by(f64::total_cmp);
        let middle = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        (points[index].0, middle)
    };
    (0..points.len()).map(median).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart<'static> {
        let line = Line { name: "net", style: 1, points, dots: false };
        Chart { what: "loss", lines: vec![line], updates: 100.0, level: None, unit: "", from_zero: false }
    }

    #[test]
    fn a_chart_of_nothing_one_point_or_what_is_not_a_number_is_still_a_chart() {
        for points in [vec![], vec![(1.0, 2.0)], vec![(1.0, f64::NAN)], vec![(1.0, 0.0), (2.0, 0.0)]] {
            let svg = draw(&chart(points.clone()));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{points:?}: {svg}");
        }
    }

    #[test]
    fn thinning_keeps_the_mean() {
        let points: Vec<_> = (0..4 * POINTS_MAX).map(|index| (index as f64, (index % 4) as f64)).collect();
        let thinned = thin(&points);
        assert_eq!(thinned.len(), POINTS_MAX);
        assert!(thinned.iter().all(|(_, value)| *value == 1.5));
        assert_eq!(thinned[0].0, 1.5);
    }

    #[test]
    fn one_huge_value_in_a_hundred_does_not_flatten_the_curve() {
        let points: Vec<_> = (0..200)
            .map(|index| (index as f64, if index == 0 { 1e6 } else { 1.0 + index as f64 / 200.0 }))
            .collect();
        let (_, high) = bounds(&chart(points.clone()), &[thin(&points)]);
        assert!(high < 3.0, "{high}");
    }

    #[test]
    fn one_stray_value_bends_no_smoothed_curve() {
        let points: Vec<_> =
            (0..120).map(|index| (index as f64, if index == 60 { 1e6 } else { 1.0 })).collect();
        assert!(smooth(&points).iter().all(|(_, value)| *value == 1.0));
        assert_eq!(smooth(&points[59..61]), &points[59..61]);
    }
}
