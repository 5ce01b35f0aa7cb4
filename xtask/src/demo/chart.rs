//! Line charts as SVG. In: named lines. Out: one `<svg>` that takes its colors from the page, so that it reads in light
//! and dark. Pure; small enough not to need a library, and a library would bring its own colors and fonts.

use std::fmt::Write;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 28.0;

/// Height of a label; a mark nearer to the top than this has its name below it.
const LABEL: f64 = 14.0;

/// Half the width of the widest label of time: one nearer to the right edge ends there.
const HALF_LABEL: f64 = 24.0;

/// Lines across the chart, about.
const GRID_LINES: f64 = 4.0;

/// One line of a chart.
pub(super) struct Line<'a> {
    /// For the legend.
    pub(super) name: &'a str,
    /// CSS class that gives it its color.
    pub(super) class: &'a str,
    /// Rising times and values.
    pub(super) points: Vec<(f64, f64)>,
    /// How values between the points are drawn.
    pub(super) between: Between,
}

/// What lies between two points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Between {
    /// A straight line.
    Slope,
    /// The former value, until the next.
    Step,
}

/// One chart.
pub(super) struct Chart<'a> {
    /// Said to those who cannot see it.
    pub(super) title: &'a str,
    /// Unit of the values, after the numbers.
    pub(super) unit: &'a str,
    /// Drawn in this order.
    pub(super) lines: Vec<Line<'a>>,
    /// A horizontal line and its name.
    pub(super) mark: Option<(f64, &'a str)>,
}

struct Scale {
    last_secs: f64,
    top: f64,
}

impl Scale {
    fn x(&self, secs: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * secs / self.last_secs
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value / self.top).min(1.0)
    }
}

/// Draws it.
pub(super) fn svg(chart: &Chart<'_>) -> String {
    let all = || chart.lines.iter().flat_map(|line| line.points.iter());
    let largest = all().map(|point| point.1).fold(chart.mark.map_or(0.0, |mark| mark.0), f64::max);
    let step = nice_step(largest / GRID_LINES);
    let top = ((largest / step).ceil() * step).max(step);
    let scale = Scale { last_secs: all().map(|point| point.0).fold(1.0, f64::max), top };
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", chart.title);
    grid(&mut svg, &scale, step, chart.unit);
    if let Some((value, name)) = chart.mark {
        let y = scale.y(value);
        let name_y = if y < TOP + LABEL { y + LABEL } else { y - 5.0 };
        put(
            &mut svg,
            format_args!(
                "<line class=\"mark\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                WIDTH - RIGHT
            ),
        );
        put(
            &mut svg,
            format_args!("<text class=\"end\" x=\"{}\" y=\"{name_y:.1}\">{name}</text>", WIDTH - RIGHT),
        );
    }
    for line in &chart.lines {
        put(
            &mut svg,
            format_args!(
                "<path class=\"line {}\" d=\"{}\"><title>{}</title></path>",
                line.class,
                path(line, &scale),
                line.name
            ),
        );
    }
    svg + "</svg>"
}

fn grid(svg: &mut String, scale: &Scale, step: f64, unit: &str) {
    let lines = (scale.top / step).round() as u32;
    for index in 0..=lines {
        let value = f64::from(index) * step;
        let y = scale.y(value);
        put(
            svg,
            format_args!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                WIDTH - RIGHT
            ),
        );
        put(
            svg,
            format_args!(
                "<text class=\"end\" x=\"{}\" y=\"{:.1}\">{}{unit}</text>",
                LEFT - 6.0,
                y + 4.0,
                tidy(value)
            ),
        );
    }
    let minutes = scale.last_secs / 60.0;
    let every = nice_step(minutes / 6.0).max(1.0);
    let mut minute = 0.0;
    while minute <= minutes {
        let x = scale.x(minute * 60.0);
        let (class, x) = if WIDTH - HALF_LABEL < x { ("end", WIDTH) } else { ("middle", x) };
        put(
            svg,
            format_args!(
                "<text class=\"{class}\" x=\"{x:.1}\" y=\"{}\">{} min</text>",
                HEIGHT - 8.0,
                tidy(minute)
            ),
        );
        minute += every;
    }
}

fn path(line: &Line<'_>, scale: &Scale) -> String {
    let mut path = String::new();
    for (index, (secs, value)) in line.points.iter().enumerate() {
        let (x, y) = (scale.x(*secs), scale.y(*value));
        match (index, line.between) {
            (0, _) => put(&mut path, format_args!("M{x:.1} {y:.1}")),
            (_, Between::Slope) => put(&mut path, format_args!("L{x:.1} {y:.1}")),
            (_, Between::Step) => put(&mut path, format_args!("H{x:.1}V{y:.1}")),
        }
    }
    path
}

/// 1, 2 or 5 times a power of ten, not below `wanted`.
fn nice_step(wanted: f64) -> f64 {
    if !(0.0 < wanted && wanted.is_finite()) {
        return 1.0;
    }
    let power = 10f64.powf(wanted.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| wanted <= *step)
        .unwrap_or(power * 10.0)
}

/// Without the dust of binary fractions.
fn tidy(value: f64) -> f64 {
    const DIGITS: f64 = 1e6;
    (value * DIGITS).round() / DIGITS
}

fn put(text: &mut String, piece: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(piece);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_numbers() {
        for (wanted, step) in
            [(0.3, 0.5), (1.0, 1.0), (1.1, 2.0), (4.0, 5.0), (7.0, 10.0), (0.0, 1.0), (f64::NAN, 1.0)]
        {
            assert!((nice_step(wanted) - step).abs() < 1e-9, "{wanted}: {}", nice_step(wanted));
        }
    }

    #[test]
    fn a_chart_of_nothing_is_still_a_chart() {
        let line = Line { name: "a", class: "a", points: Vec::new(), between: Between::Slope };
        let svg = svg(&Chart { title: "empty", unit: "", lines: vec![line], mark: None });
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn steps_hold_the_former_value_and_slopes_do_not() {
        let draw = |between| {
            let line = Line { name: "a", class: "a", points: vec![(0.0, 1.0), (60.0, 2.0)], between };
            svg(&Chart { title: "t", unit: "", lines: vec![line], mark: None })
        };
        assert!(draw(Between::Step).contains("H888.0V12.0"));
        assert!(draw(Between::Slope).contains("L888.0 12.0"));
    }
}
