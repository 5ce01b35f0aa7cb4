//! The pages of `evaluate`, `simulate` and `train` in a real browser: every chart is drawn, every text can be read in light and in
//! dark, and the page does not overflow its window.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::browser::{self, Scheme};

/// Appended to a copy of the page: measures what a reader would see and leaves it in the title.
const PROBE: &str = r#"<script>
const channels = color => color.match(/[\d.]+/g).slice(0, 3).map(Number);
const luminance = color => {
  const [r, g, b] = channels(color).map(c => c / 255).map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const back = luminance(getComputedStyle(document.body).backgroundColor);
let least = 21;
for (const element of document.querySelectorAll('h1,h2,p,th,td,figcaption,text')) {
  const style = getComputedStyle(element);
  const front = luminance(element.tagName === 'text' ? style.fill : style.color);
  const contrast = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
  least = Math.min(least, contrast);
}
const charts = [...document.querySelectorAll('figure > svg')];
const empty = charts.filter(svg => svg.getBoundingClientRect().height < 50 || svg.querySelectorAll('path,circle,polygon').length === 0);
const clipped = charts.filter(svg => [...svg.querySelectorAll('text')].some(text => {
  const [a, b] = [text.getBoundingClientRect(), svg.getBoundingClientRect()];
  return a.left < b.left - 1 || b.right + 1 < a.right || b.bottom + 1 < a.bottom;
}));
document.title = JSON.stringify({
  back, least, charts: charts.length, empty: empty.length, clipped: clipped.length,
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
});
</script>"#;

/// Contrast that WCAG 2 asks of text, level AA.
const LEAST_CONTRAST: f64 = 4.5;

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn check(name: &str, arguments: &[&str], charts: u64) {
    let folder = folder(name);
    let page = folder.join("page.html");
    let out = page.display().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_rlscaler"))
        .args(arguments)
        .args(["--format", "html", "--out", &out])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check_page(&folder, &page, charts);
}

fn check_page(folder: &Path, page: &Path, charts: u64) {
    let probed = std::fs::read_to_string(page).unwrap().replace("</body>", &format!("{PROBE}</body>"));
    std::fs::write(page, probed).unwrap();
    let browser = browser::find_or_install().unwrap();
    for scheme in [Scheme::Light, Scheme::Dark] {
        let seen = look(&browser, page, scheme, folder);
        let number = |field: &str| seen[field].as_f64().unwrap();
        assert_eq!(seen["charts"].as_u64().unwrap(), charts, "{scheme:?}: {seen}");
        assert_eq!(
            (number("empty"), number("clipped"), number("overflow")),
            (0.0, 0.0, 0.0),
            "{scheme:?}: {seen}"
        );
        assert!(LEAST_CONTRAST <= number("least"), "{scheme:?}: a text cannot be read: {seen}");
        assert_eq!(0.5 < number("back"), scheme == Scheme::Light, "{scheme:?}: {seen}");
    }
}

fn look(browser: &browser::Browser, page: &Path, scheme: Scheme, folder: &Path) -> serde_json::Value {
    let document = browser.document(page, scheme, &folder.join(format!("{scheme:?}"))).unwrap();
    let title = document.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    let (title, _) = title.expect("the page has a title");
    serde_json::from_str(title).unwrap_or_else(|error| panic!("the probe did not run: {error}: {title}"))
}

#[test]
fn the_page_of_evaluate_can_be_read_in_light_and_dark() {
    let trace = ["evaluate", "--trace", "gen:markov:9102,azure_llm_2023", "--hours", "0.5"];
    let scalers = ["--scalers", "hpa:60,hpa:tuned,keda-rate,phpa,planner,rl,clairvoyant"];
    // A Pareto plot and seven courses for each of two traces.
    check("page-of-evaluate", &[&trace[..], &scalers[..]].concat(), 2 * 8);
}

#[test]
fn the_page_of_simulate_can_be_read_in_light_and_dark() {
    let policy = format!("{}/../../examples/web-histogram.yaml", env!("CARGO_MANIFEST_DIR"));
    let trace = ["--trace", "autothrottle_diurnal", "--hours", "0.5", "--reasons"];
    check("page-of-simulate", &[&["simulate", "--policy", &policy], &trace[..]].concat(), 1);
}

#[test]
fn the_page_of_train_can_be_read_in_light_and_dark() {
    let folder = folder("page-of-train");
    let out = folder.join("out");
    let _ = std::fs::remove_dir_all(&out);
    let config = folder.join("tiny.toml");
    let settings = "episode_count = 4\n[episodes]\nslots = 80\n[pathwise]\nbatch = 20\nupdates = 9\n";
    std::fs::write(&config, settings).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rlscaler"))
        .args(["train", "--validate-every", "0", "--config"])
        .arg(&config)
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check_page(&folder, &out.join("report.html"), 5);
}
