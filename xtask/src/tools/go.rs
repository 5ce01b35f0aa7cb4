//! Running Go: finding it, checking that it is new enough, building with progress on standard error.

use std::collections::VecDeque;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};

use super::Tool;

/// Kubernetes 1.36 and its fellows ask for this release.
pub const OLDEST_GO: (u32, u32) = (1, 26);

/// Lines of a failed build that are shown.
const SHOWN_ERROR_LINES: usize = 40;

/// Without a terminal, a line is printed whenever this many more packages are compiled.
const PACKAGES_PER_LINE: u64 = 250;

/// A Go that is new enough.
#[derive(Debug)]
pub struct Go {
    program: OsString,
}

impl Go {
    /// The Go named by `$GO`, else the one on the search path.
    ///
    /// # Errors
    /// When there is none or it is older than [`OLDEST_GO`]; the message says what to install.
    pub fn find() -> Result<Self> {
        Self::check(&env::var_os("GO").unwrap_or_else(|| "go".into()))
    }

    /// Checks one Go program.
    ///
    /// # Errors
    /// As [`Go::find`].
    pub fn check(program: &OsStr) -> Result<Self> {
        let (major, minor) = OLDEST_GO;
        let wanted = format!(
            "Go {major}.{minor} or newer is needed to build the local cluster's programs: \
             install it from https://go.dev/dl/ and put it on PATH, or name it in $GO"
        );
        let output = Command::new(program)
            .arg("version")
            .env("GOTOOLCHAIN", "local")
            .output()
            .map_err(|error| anyhow!("cannot run `{}`: {error}\n{wanted}", program.display()))?;
        let told = String::from_utf8_lossy(&output.stdout);
        let Some(found) = parse_version(&told) else {
            bail!("`{} version` answered {:?}\n{wanted}", program.display(), told.trim());
        };
        if found < OLDEST_GO {
            bail!("`{}` is Go {}.{}\n{wanted}", program.display(), found.0, found.1);
        }
        Ok(Self { program: program.to_owned() })
    }

    /// Compiles the tool's programs into `into`, replacing each only when it is complete.
    pub(super) fn build(
        &self,
        module_dir: &Path,
        tool: &Tool,
        version: &str,
        link_flags: &str,
        into: &Path,
    ) -> Result<()> {
        let progress = Progress::new(&format!("{} {version}", tool.name));
        let packages: Vec<&str> = tool.programs.iter().map(|(package, _)| *package).collect();

        let mut list = self.command(module_dir);
        list.args(["list", "-deps", "-tags", tool.tags, "-f", "{{.ImportPath}}"]).args(&packages);
        let listed = run_watched(list, |line| progress.note(line))?;
        progress.expect_packages(listed.lines().count() as u64);

        for (package, program) in tool.programs {
            // A name of its own until it is whole: a cluster may be running the old one, and a build may be cut short.
            let unfinished = into.join(format!("{program}.unfinished"));
            let mut build = self.command(module_dir);
            build
                .args([
                    "build",
                    "-v",
                    "-trimpath",
                    "-buildvcs=false",
                    "-tags",
                    tool.tags,
                    "-ldflags",
                    link_flags,
                    "-o",
                ])
                .arg(&unfinished)
                .arg(package);
            run_watched(build, |line| progress.note(line))?;
            fs::rename(&unfinished, into.join(program))
                .with_context(|| format!("go build left no {}", unfinished.display()))?;
        }
        progress.finish();
        Ok(())
    }

    /// Where the source of a module stands on this machine.
    pub(super) fn module_source(&self, module_dir: &Path, module: &str) -> Result<PathBuf> {
        let mut list = self.command(module_dir);
        list.args(["list", "-m", "-f", "{{.Dir}}", module]);
        Ok(PathBuf::from(run_watched(list, |_| {})?.trim()))
    }

    /// Go, deaf to the user's own flags and workspace, so that every machine builds the same.
    fn command(&self, module_dir: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(module_dir)
            .env("GOTOOLCHAIN", "local")
            .env("GOFLAGS", "")
            .env("GOWORK", "off")
            .env("CGO_ENABLED", "0");
        command
    }
}

/// `(1, 26)` from `go version go1.26.8 linux/amd64`.
fn parse_version(told: &str) -> Option<(u32, u32)> {
    let release = told.split_whitespace().find_map(|word| word.strip_prefix("go1."))?;
    let minor: String = release.chars().take_while(char::is_ascii_digit).collect();
    Some((1, minor.parse().ok()?))
}

/// Runs Go to its end and answers its standard output; every line of standard error is shown to `see`.
fn run_watched(mut command: Command, see: impl Fn(&str)) -> Result<String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting Go")?;
    let mut stdout = child.stdout.take().expect("stdout is piped");
    let stderr = child.stderr.take().expect("stderr is piped");
    // Both pipes are drained at once, else a full one would block Go for good.
    let answer = thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let mut last_lines = VecDeque::new();
    for line in BufReader::new(stderr).lines() {
        let line = line.context("reading what Go says")?;
        see(&line);
        last_lines.push_back(line);
        if last_lines.len() > SHOWN_ERROR_LINES {
            last_lines.pop_front();
        }
    }
    let status = child.wait().context("waiting for Go")?;
    let answer = answer.join().map_err(|_| anyhow!("reading Go's answer panicked"))?;
    if !status.success() {
        let said = Vec::from(last_lines).join("\n");
        bail!("{command:?} failed ({status}); the end of what it said:\n{said}");
    }
    answer.context("reading Go's answer")
}

/// A bar on a terminal, a line now and then elsewhere.
struct Progress {
    bar: ProgressBar,
    what: String,
    on_terminal: bool,
}

impl Progress {
    fn new(what: &str) -> Self {
        let bar = ProgressBar::new_spinner();
        bar.set_style(
            ProgressStyle::with_template("{spinner} {prefix}: {msg} ({elapsed})")
                .expect("the template is constant"),
        );
        bar.set_prefix(format!("building {what}"));
        bar.enable_steady_tick(Duration::from_millis(200));
        let on_terminal = std::io::stderr().is_terminal();
        if !on_terminal {
            eprintln!("building {what}: fetching modules (minutes the first time, then cached)");
        }
        Self { bar, what: what.to_owned(), on_terminal }
    }

    /// Packages that Go's own cache holds are not reported by it, so the number is an upper bound.
    fn expect_packages(&self, at_most: u64) {
        self.bar.set_length(at_most);
        let template = "{spinner} {prefix}: {bar:30} {pos} of at most {len} packages ({elapsed}) {wide_msg}";
        self.bar.set_style(ProgressStyle::with_template(template).expect("the template is constant"));
    }

    /// `go: downloading …` or, with `-v`, the path of a package that is compiled now.
    fn note(&self, line: &str) {
        self.bar.set_message(line.to_owned());
        if line.contains(' ') {
            return;
        }
        self.bar.inc(1);
        let compiled = self.bar.position();
        if !self.on_terminal && compiled.is_multiple_of(PACKAGES_PER_LINE) {
            let at_most = self.bar.length().unwrap_or_default();
            eprintln!("building {}: {compiled} of at most {at_most} packages", self.what);
        }
    }

    fn finish(&self) {
        let seconds = self.bar.elapsed().as_secs();
        self.bar.finish_and_clear();
        eprintln!("built {} in {seconds} s", self.what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_read_from_what_go_says() {
        assert_eq!(parse_version("go version go1.26.8 linux/amd64"), Some((1, 26)));
        assert_eq!(parse_version("go version go1.27rc1 darwin/arm64"), Some((1, 27)));
        assert_eq!(parse_version("go version devel go1.28-abc linux/amd64"), Some((1, 28)));
        assert_eq!(parse_version("no such thing"), None);
    }

    #[test]
    fn a_missing_go_says_what_to_install() {
        let error = Go::check(OsStr::new("/nowhere/bin/go")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/bin/go"), "{error}");
        assert!(error.contains("Go 1.26 or newer is needed"), "{error}");
        assert!(error.contains("https://go.dev/dl/"), "{error}");
    }
}
