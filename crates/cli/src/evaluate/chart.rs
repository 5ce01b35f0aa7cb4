//! Charts as inline SVG, coloured by the page's style sheet so that they can be read in light and dark. In: numbers.
//! Out: text. Every mark has a shape beside its colour, and a tooltip.

use std::fmt::Write;

use super::series::{Column, Series};

/// A point of a Pareto plot.
pub(crate) struct Mark {
    /// Replica-hours.
    pub(crate) hours: f64,
    /// Late share, 0..1.
    pub(crate) late_share: f64,
    /// Which colour and shape; see [`STYLES`].
    pub(crate) style: usize,
    /// Drawn large: what the scaler ran with.
    pub(crate) chosen: bool,
    /// Tooltip.
    pub(crate) title: String,
}

/// Number of colours and shapes; more scalers share them.
pub(crate) const STYLES: usize = 8;

/// Late shares below this are drawn at it.
const LEAST_LATE: f64 = 1e-4;

const WIDTH: f64 = 620.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 10.0;

/// Late share (logarithmic, up) against replica-hours: whatever is further down and left is better.
pub(crate) fn pareto(marks: &[Mark], allowed: f64) -> String {
    const HEIGHT: f64 = 300.0;
    const BOTTOM: f64 = 38.0;
    let hours = |pick: fn(f64, f64) -> f64, start| marks.iter().map(|mark| mark.hours).fold(start, pick);
    let (least, most) = (hours(f64::min, f64::INFINITY), hours(f64::max, 0.0));
    let margin = (0.05 * (most - least)).max(0.01 * most).max(1e-9);
    let (first, last) = ((least - margin).max(0.0), most + margin);
    let x = |hours: f64| LEFT + (hours - first) / (last - first) * (WIDTH - LEFT - RIGHT);
    let (low, high) = (LEAST_LATE.log10(), 0.0);
    let y = |late: f64| {
        let share = (late.clamp(LEAST_LATE, 1.0).log10() - low) / (high - low);
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    };
    let mut svg = open(HEIGHT, "Late share against replica-hours");
    for late in [1e-4, 1e-3, 1e-2, 1e-1, 1.0] {
        let label = if late <= LEAST_LATE { "≤ 0.01 %".to_owned() } else { format!("{} %", 100.0 * late) };
        grid_line(&mut svg, y(late), &label);
    }
    for tick in ticks(first, last, 7) {
        let at = x(tick);
        let _ = write!(
            svg,
            "<text class=\"t m\" x=\"{at:.1}\" y=\"{:.1}\">{tick}</text>",
            HEIGHT - BOTTOM + 16.0
        );
    }
    let _ = write!(
        svg,
        "<text class=\"t m\" x=\"{:.1}\" y=\"{:.1}\">replica-hours</text>",
        0.5 * (WIDTH + LEFT),
        HEIGHT - 6.0
    );
    let bar = y(allowed);
    let _ = write!(
        svg,
        "<line class=\"sla\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{bar:.1}\" y2=\"{bar:.1}\"/>\
         <text class=\"t e sla-t\" x=\"{:.1}\" y=\"{:.1}\">allowed</text>",
        WIDTH - RIGHT,
        WIDTH - RIGHT,
        bar - 4.0
    );
    for mark in marks.iter().filter(|mark| !mark.chosen).chain(marks.iter().filter(|mark| mark.chosen)) {
        let size = if mark.chosen { 6.5 } else { 2.8 };
        let class = if mark.chosen { "big" } else { "small" };
        svg.push_str(&shape(mark.style, x(mark.hours), y(mark.late_share), size, class, &mark.title));
    }
    svg.push_str("</svg>");
    svg
}

/// Replicas of one scaler over the load, and where requests were late.
pub(crate) fn replicas(series: &Series, style: usize, top: f64, allowed: f64) -> String {
    const HEIGHT: f64 = 130.0;
    const BOTTOM: f64 = 22.0;
    /// Height of the strip that shows lateness.
    const STRIP: f64 = 5.0;
    let count = series.columns.len().max(1) as f64;
    let hours = series.column_hours * count;
    let x = |index: f64| LEFT + index / count * (WIDTH - LEFT - RIGHT);
    let floor = HEIGHT - BOTTOM;
    let y = |replicas: f64| floor - replicas / top * (floor - TOP);
    let mut svg = open(HEIGHT, "Replicas over the load");
    for tick in ticks(0.0, top, 4) {
        grid_line(&mut svg, y(tick), &tick.to_string());
    }
    for tick in ticks(0.0, hours, 8) {
        let at = x(tick / hours * count);
        let _ = write!(svg, "<text class=\"t m\" x=\"{at:.1}\" y=\"{:.1}\">{tick} h</text>", floor + 18.0);
    }
    let mut area = format!("M{LEFT:.1} {floor:.1}");
    let mut line = String::new();
    for (index, column) in series.columns.iter().enumerate() {
        let Column { load, wanted, late_share: _ } = *column;
        let (from, to) = (x(index as f64), x(index as f64 + 1.0));
        let _ = write!(area, "L{from:.1} {:.1}L{to:.1} {:.1}", y(load), y(load));
        let start = if index == 0 { 'M' } else { 'L' };
        let at = y(f64::from(wanted));
        let _ = write!(line, "{start}{from:.1} {at:.1}L{to:.1} {at:.1}");
    }
    let _ = write!(area, "L{:.1} {floor:.1}Z", x(count));
    let _ = write!(svg, "<path class=\"load\" d=\"{area}\"/><path class=\"line s{style}\" d=\"{line}\"/>");
    for (index, column) in series.columns.iter().enumerate() {
        if allowed < column.late_share {
            let (from, to) = (x(index as f64), x(index as f64 + 1.0));
            let strength = 0.35 + 0.65 * (column.late_share / (10.0 * allowed)).min(1.0);
            let _ = write!(
                svg,
                "<rect class=\"late\" x=\"{from:.1}\" width=\"{:.1}\" y=\"{floor:.1}\" height=\"{STRIP}\" \
                 opacity=\"{strength:.2}\"><title>{:.2} % late</title></rect>",
                (to - from).max(1.0),
                100.0 * column.late_share
            );
        }
    }
    svg.push_str("</svg>");
    svg
}

/// A mark for a legend.
pub(crate) fn legend_mark(style: usize) -> String {
    let mark = shape(style, 8.0, 8.0, 5.5, "big", "");
    format!(
        "<svg class=\"legend\" width=\"16\" height=\"16\" viewBox=\"0 0 16 16\" aria-hidden=\"true\">{mark}</svg>"
    )
}

fn open(height: f64, what: &str) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{what}\">")
}

fn grid_line(svg: &mut String, y: f64, label: &str) {
    let _ = write!(
        svg,
        "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
         <text class=\"t e\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>",
        WIDTH - RIGHT,
        LEFT - 6.0,
        y + 4.0
    );
}

/// Circle, square, diamond, triangle, and the same hollow.
fn shape(style: usize, x: f64, y: f64, size: f64, class: &str, title: &str) -> String {
    let style = style % STYLES;
    let hollow = if style < STYLES / 2 { "" } else { " hollow" };
    let points = |points: &[(f64, f64)]| {
        let at = points.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx * size, y + dy * size));
        at.collect::<Vec<_>>().join(" ")
    };
    let attributes = format!("class=\"{class} f{style}{hollow}\"");
    let tip = if title.is_empty() { String::new() } else { format!("<title>{}</title>", escape(title)) };
    match style % (STYLES / 2) {
        0 => format!("<circle {attributes} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{size}\">{tip}</circle>"),
        1 => {
            let square = points(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]);
            format!("<polygon {attributes} points=\"{square}\">{tip}</polygon>")
        }
        2 => {
            let diamond = points(&[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)]);
            format!("<polygon {attributes} points=\"{diamond}\">{tip}</polygon>")
        }
        _ => {
            let triangle = points(&[(0.0, -1.2), (1.1, 0.9), (-1.1, 0.9)]);
            format!("<polygon {attributes} points=\"{triangle}\">{tip}</polygon>")
        }
    }
}

/// Round numbers between two, at most about `count` of them.
pub(crate) fn ticks(first: f64, last: f64, count: usize) -> Vec<f64> {
    let raw = (last - first) / count as f64;
    if !raw.is_finite() || raw <= 0.0 {
        return vec![first];
    }
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| raw <= *step);
    let step = step.unwrap_or(10.0 * power);
    let start = (first / step).ceil() as i64;
    let end = (last / step + 1e-9).floor() as i64;
    // Rounded, so that 3 * 0.1 is shown as 0.3.
    (start..=end).map(|index| super::measures::round(index as f64 * step)).collect()
}

/// Text for HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers_within_the_axis() {
        for (first, last, expected) in [
            (0.0, 1.0, vec![0.0, 0.5, 1.0]),
            (0.0, 24.0, vec![0.0, 10.0, 20.0]),
            (93.0, 121.0, vec![100.0, 110.0, 120.0]),
            (5.0, 5.0, vec![5.0]),
        ] {
            assert_eq!(ticks(first, last, 3), expected, "{first}..{last}");
        }
    }

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let mark = Mark { hours: 1.0, late_share: 0.0, style: 0, chosen: true, title: "<script>\"&".into() };
        let svg = pareto(&[mark], 0.01);
        assert!(svg.contains("&lt;script&gt;&quot;&amp;") && !svg.contains("<script>"));
    }
}
