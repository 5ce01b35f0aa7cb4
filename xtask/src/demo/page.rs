//! The page with charts: one file, no script, nothing loaded from elsewhere, readable in light and dark. In: the result
//! and both series. Out: HTML. Pure.

use rlscaler_world::Point;

use super::chart::{Between, Chart, Line, svg};
use super::plan::{HPA_CPU_PERCENT, INTERVAL_SECS, Plan};
use super::result::{DemoResult, ScalerResult};

/// Bins of the share late, trace seconds: shorter ones show noise.
const LATE_BIN_SECS: f64 = 60.0;

const STYLE: &str = "
:root { color-scheme: light dark; --back: #fff; --text: #1c2430; --soft: #5b6675; --grid: #e3e7ec; --rate: #6b7683; --ours: #0a66c2; --hpa: #c2570a; }
@media (prefers-color-scheme: dark) { :root { --back: #12161c; --text: #e6eaf0; --soft: #9aa5b3; --grid: #2a323d; --rate: #94a0ae; --ours: #5aa9ff; --hpa: #ff9d4d; } }
body { margin: 0 auto; padding: 24px; max-width: 920px; background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 22px; margin: 0; } h2 { font-size: 16px; margin: 28px 0 4px; } p { margin: 4px 0; color: var(--soft); }
table { border-collapse: collapse; margin: 16px 0; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 8px; text-align: right; border-bottom: 1px solid var(--grid); } th { color: var(--soft); font-weight: 600; }
th:first-child, td:first-child { text-align: left; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--soft); font: 12px system-ui, sans-serif; }
.end { text-anchor: end; } .middle { text-anchor: middle; } .grid { stroke: var(--grid); } .mark { stroke: var(--soft); stroke-dasharray: 4 4; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; } .rate { stroke: var(--rate); } .ours { stroke: var(--ours); } .hpa { stroke: var(--hpa); }
.key { display: inline-block; width: 18px; height: 3px; vertical-align: middle; margin-right: 6px; } .key.ours { background: var(--ours); } .key.hpa { background: var(--hpa); }
.thin { stroke-width: 1; opacity: .65; }
";

/// Which color is whose.
const KEYS: &str = "<span class=\"key ours\"></span>rlscaler&ensp;<span class=\"key hpa\"></span>hpa&ensp;";

/// The whole page.
pub(super) fn render(plan: &Plan, result: &DemoResult, series: &[Vec<Point>]) -> String {
    let none = Vec::new();
    let ours = series.first().unwrap_or(&none);
    let theirs = series.get(1).unwrap_or(&none);
    let target_ms = plan.profile.service.target_secs * 1000.0;
    let charts = [
        section("Requests per second", "", &rate(ours)),
        section("Replicas", &format!("{KEYS}thick: asked for, thin: ready"), &replicas(ours, theirs)),
        section(
            "Share late",
            &format!(
                "{KEYS}per minute; not answered within {target_ms:.0} ms, dropped and timed out included"
            ),
            &late(ours, theirs),
        ),
        section(
            "95th percentile of the latency",
            &format!("{KEYS}over the last minute"),
            &latency(ours, theirs, target_ms),
        ),
    ];
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>rlscaler demo</title><style>{STYLE}</style></head>\n<body>\n<h1>One service, the same traffic, two scalers</h1>\n{}\n{}\n{}\n</body>\n</html>\n",
        introduction(plan, result),
        table(plan, &result.scalers),
        charts.join("\n"),
    )
}

fn introduction(plan: &Plan, result: &DemoResult) -> String {
    let obeyed = result.r#override;
    format!(
        "<p>Trace {}, {:.0} minutes, replayed with K = {}: every time of cluster, scalers and trace divided by K alike; \
         all figures here are in trace time. Seed {}. Both decide every {INTERVAL_SECS} s within {}..{} replicas and began with {}.</p>\n\
         <p><span class=\"key ours\"></span>rlscaler: an RLReplicaPolicy for 99 % within {:.0} ms.&ensp;\
         <span class=\"key hpa\"></span>hpa: autoscaling/v2, CPU {HPA_CPU_PERCENT} %, defaults.</p>\n\
         <p>After the trace {} replicas were asked for by annotation: reached after {:.1} s, released {:.1} s after its removal.</p>",
        escaped(plan.trace.name()),
        plan.trace.duration_secs() / 60.0,
        result.speed,
        plan.seed,
        result.min_replicas,
        result.max_replicas,
        plan.start_replicas,
        plan.profile.service.target_secs * 1000.0,
        obeyed.asked,
        obeyed.reached_after_seconds,
        obeyed.released_after_seconds,
    )
}

fn table(plan: &Plan, scalers: &[ScalerResult]) -> String {
    let row = |scaler: &ScalerResult| {
        format!(
            "<tr><td>{}</td><td>{:.2} %</td><td>{:.2}</td><td>${:.3}</td><td>{}</td><td>{:.0} ms</td><td>{}..{}</td></tr>",
            escaped(&scaler.name),
            100.0 * scaler.late_ratio,
            scaler.replica_hours,
            scaler.replica_hours * plan.profile.price_per_replica_hour,
            scaler.changes,
            scaler.p95_ms,
            scaler.min_replicas,
            scaler.max_replicas,
        )
    };
    let rows: String = scalers.iter().map(row).collect();
    format!(
        "<table><thead><tr><th>Scaler</th><th>Late</th><th>Replica-hours</th><th>Cost</th><th>Changes</th><th>p95</th><th>Replicas</th></tr></thead>\
         <tbody>{rows}</tbody></table>"
    )
}

fn section(title: &str, note: &str, chart: &str) -> String {
    format!("<h2>{title}</h2>\n<p>{note}</p>\n{chart}")
}

fn rate(ours: &[Point]) -> String {
    let points = ours.iter().map(|point| (point.secs, point.rate)).collect();
    let lines = vec![Line { name: "offered", class: "rate", points, between: Between::Slope }];
    svg(&Chart { title: "Requests per second over the trace", unit: "", lines, mark: None })
}

fn replicas(ours: &[Point], theirs: &[Point]) -> String {
    let line = |name, class, points: &[Point], of: fn(&Point) -> u32| Line {
        name,
        class,
        points: points.iter().map(|point| (point.secs, f64::from(of(point)))).collect(),
        between: Between::Step,
    };
    let lines = vec![
        line("hpa, ready", "hpa thin", theirs, |point| point.ready),
        line("rlscaler, ready", "ours thin", ours, |point| point.ready),
        line("hpa, asked for", "hpa", theirs, |point| point.wanted),
        line("rlscaler, asked for", "ours", ours, |point| point.wanted),
    ];
    svg(&Chart { title: "Replicas of both scalers over the trace", unit: "", lines, mark: None })
}

fn late(ours: &[Point], theirs: &[Point]) -> String {
    let line = |name, class, points: &[Point]| Line {
        name,
        class,
        points: late_percent(points),
        between: Between::Slope,
    };
    let lines = vec![line("hpa", "hpa", theirs), line("rlscaler", "ours", ours)];
    svg(&Chart {
        title: "Share of late requests of both scalers",
        unit: " %",
        lines,
        mark: Some((1.0, "1 % allowed")),
    })
}

fn latency(ours: &[Point], theirs: &[Point], target_ms: f64) -> String {
    let line = |name, class, points: &[Point]| Line {
        name,
        class,
        points: points.iter().filter_map(|point| Some((point.secs, point.p95_secs? * 1000.0))).collect(),
        between: Between::Slope,
    };
    let lines = vec![line("hpa", "hpa", theirs), line("rlscaler", "ours", ours)];
    svg(&Chart {
        title: "95th percentile of the latency of both scalers",
        unit: " ms",
        lines,
        mark: Some((target_ms, "target")),
    })
}

/// Percent late in bins, each at its middle.
fn late_percent(points: &[Point]) -> Vec<(f64, f64)> {
    let mut bins: Vec<(u64, u64)> = Vec::new();
    for point in points {
        let bin = ((point.secs - 1e-6).max(0.0) / LATE_BIN_SECS) as usize;
        bins.resize(bins.len().max(bin + 1), (0, 0));
        bins[bin].0 += point.late;
        bins[bin].1 += point.offered;
    }
    let percent = |(late, offered): (u64, u64)| 100.0 * (late as f64 / (offered.max(1)) as f64).min(1.0);
    bins.into_iter()
        .enumerate()
        .map(|(bin, counts)| ((bin as f64 + 0.5) * LATE_BIN_SECS, percent(counts)))
        .collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::result::OverrideResult;

    fn point(secs: f64, late: u64) -> Point {
        Point { secs, rate: 10.0, wanted: 3, ready: 2, offered: 50, late, p95_secs: Some(0.1) }
    }

    #[test]
    fn lateness_is_summed_by_the_minute() {
        let points = [point(5.0, 5), point(60.0, 0), point(65.0, 50)];
        assert_eq!(late_percent(&points), [(30.0, 5.0), (90.0, 100.0)]);
        assert!(late_percent(&[]).is_empty());
    }

    #[test]
    fn the_page_stands_alone_and_says_the_factor() {
        let scaler = |name: &str| ScalerResult {
            name: name.into(),
            late_ratio: 0.01,
            replica_hours: 1.0,
            changes: 2,
            p95_ms: 3.0,
            min_replicas: 2,
            max_replicas: 4,
        };
        let plan = Plan::new(5, 1.0, "gen:step:1", 1).unwrap();
        let result = DemoResult {
            interval_seconds: 15,
            speed: 5,
            min_replicas: 2,
            max_replicas: 40,
            scalers: vec![scaler("rlscaler"), scaler("<hpa>")],
            r#override: OverrideResult { asked: 12, reached_after_seconds: 1.0, released_after_seconds: 2.0 },
        };
        let page = render(&plan, &result, &[vec![point(5.0, 0)], vec![point(5.0, 1)]]);
        for part in ["K = 5", "prefers-color-scheme: dark", "&lt;hpa&gt;", "<svg", "12 replicas"] {
            assert!(page.contains(part), "{part}");
        }
        for outside in ["http://", "https://", "<script", "<link", "@import"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
