//! One program of the cluster: started, awaited, stopped, paused, and started again on the same port.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use serde::{Deserialize, Serialize};

use super::process::{Identity, spawn_tied};

/// A healthy start takes seconds; a machine that compiles beside it may take a minute.
const START_DEADLINE: Duration = Duration::from_secs(120);

/// Between two looks at a program that is starting.
const POLL_PERIOD: Duration = Duration::from_millis(50);

/// A probe that takes longer counts as failed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Lines of a failed program's log that are shown.
const SHOWN_LOG_LINES: usize = 30;

/// "HTTP/1.0 200 OK" and its like, in bytes.
const LONGEST_STATUS_LINE: u64 = 256;

/// How to start a program and how to see that it works.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    pub(super) name: &'static str,
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
    pub(super) log: PathBuf,
    pub(super) probe: Probe,
}

/// A health endpoint on loopback.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Probe {
    pub(super) port: u16,
    pub(super) path: String,
    /// `None` for plain HTTP.
    pub(super) over_tls: Option<TlsProbe>,
}

/// kubectl speaks TLS for us, with a kubeconfig that takes any certificate: controllers make their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct TlsProbe {
    pub(super) kubectl: PathBuf,
    pub(super) kubeconfig: PathBuf,
}

/// One running (or stopped) program of a cluster.
#[derive(Debug)]
pub struct Component {
    recipe: Recipe,
    child: Mutex<Option<Child>>,
}

impl Component {
    /// Starts the program without waiting for it to be ready.
    pub(super) fn launch(recipe: Recipe) -> Result<Self> {
        let child = spawn(&recipe)?;
        Ok(Self { recipe, child: Mutex::new(Some(child)) })
    }

    /// The program's name, such as `kube-scheduler`.
    pub fn name(&self) -> &'static str {
        self.recipe.name
    }

    /// The loopback port it serves on, the same after a restart.
    pub fn port(&self) -> u16 {
        self.recipe.probe.port
    }

    /// Where its output goes.
    pub fn log(&self) -> &Path {
        &self.recipe.log
    }

    /// The running process; `None` while stopped.
    pub fn process(&self) -> Option<Identity> {
        self.child().as_ref().and_then(|child| Identity::of(child.id()))
    }

    /// Starts the program again after [`Component::stop`] and waits until it is ready. Does nothing if it runs.
    ///
    /// # Errors
    /// When it cannot be started, ends, or is not ready in time; with the end of its log.
    pub fn start(&self) -> Result<()> {
        {
            let mut child = self.child();
            if child.is_some() {
                return Ok(());
            }
            *child = Some(spawn(&self.recipe)?);
        }
        self.wait_ready()
    }

    /// Kills the program (`SIGKILL`, also when paused) and waits until it is gone.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub fn stop(&self) -> Result<()> {
        let Some(mut child) = self.child().take() else { return Ok(()) };
        child.kill().with_context(|| format!("killing {}", self.name()))?;
        child.wait().with_context(|| format!("waiting for the end of {}", self.name()))?;
        Ok(())
    }

    /// Stops the program where it stands (`SIGSTOP`): its port accepts connections and nobody answers.
    ///
    /// # Errors
    /// When it is not running.
    pub fn pause(&self) -> Result<()> {
        let child = self.child(); // held, so that nobody else collects the child while it is waited for
        let child = child.as_ref().with_context(|| format!("{} is not running", self.name()))?;
        let pid = Pid::from_child(child);
        rustix::process::kill_process(pid, Signal::STOP)
            .with_context(|| format!("pausing {}", self.name()))?;
        // Its threads stop one after the other. The child is only looked at, not collected, should it have ended.
        let stopped_or_ended = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), stopped_or_ended).with_context(|| format!("pausing {}", self.name()))?;
        Ok(())
    }

    /// Lets a paused program go on (`SIGCONT`).
    ///
    /// # Errors
    /// When it is not running.
    pub fn resume(&self) -> Result<()> {
        let process = self.process().with_context(|| format!("{} is not running", self.name()))?;
        process.signal(Signal::CONT).with_context(|| format!("resuming {}", self.name()))?;
        Ok(())
    }

    /// Waits until the program answers its probe.
    pub(super) fn wait_ready(&self) -> Result<()> {
        self.wait_until("ready", || self.recipe.probe.answers())
    }

    /// Waits until `done`; gives up when the program ends or the time is over, and shows the end of its log.
    pub(super) fn wait_until(&self, what: &str, mut done: impl FnMut() -> bool) -> Result<()> {
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            let ended = match self.child().as_mut() {
                Some(child) => child.try_wait()?.map(|status| status.to_string()),
                None => Some("it was stopped".to_owned()),
            };
            if let Some(status) = ended {
                bail!("{} ended before it was {what} ({status}){}", self.name(), self.log_tail());
            }
            if done() {
                return Ok(());
            }
            if deadline < Instant::now() {
                let seconds = START_DEADLINE.as_secs();
                bail!("{} is not {what} after {seconds} s{}", self.name(), self.log_tail());
            }
            thread::sleep(POLL_PERIOD);
        }
    }

    pub(super) fn probe(&self) -> &Probe {
        &self.recipe.probe
    }

    fn log_tail(&self) -> String {
        let mut last_lines = VecDeque::new();
        if let Ok(log) = File::open(self.log()) {
            for line in BufReader::new(log).lines().map_while(Result::ok) {
                last_lines.push_back(line);
                if last_lines.len() > SHOWN_LOG_LINES {
                    last_lines.pop_front();
                }
            }
        }
        format!("; the end of {}:\n{}", self.log().display(), Vec::from(last_lines).join("\n"))
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        // A panic elsewhere leaves the child as it is: still ours to kill.
        self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        // Nothing can be done about a failure here, and the kernel kills the program with this process anyway.
        let _ = self.stop();
    }
}

impl Probe {
    /// Whether the program answers 200 now.
    pub(super) fn answers(&self) -> bool {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        // A closed port is seen without starting kubectl, which costs more.
        let Ok(connection) = TcpStream::connect_timeout(&address, PROBE_TIMEOUT) else { return false };
        match &self.over_tls {
            None => http_status(connection, "GET", &self.path).is_ok_and(|status| status == 200),
            Some(tls) => self.answers_kubectl(tls),
        }
    }

    fn answers_kubectl(&self, tls: &TlsProbe) -> bool {
        Command::new(&tls.kubectl)
            .args(["get", "--raw", &self.path])
            .arg(format!("--kubeconfig={}", tls.kubeconfig.display()))
            .arg(format!("--server=https://127.0.0.1:{}", self.port))
            .arg(format!("--request-timeout={}s", PROBE_TIMEOUT.as_secs()))
            .stdin(Stdio::null())
            .output()
            .is_ok_and(|output| output.status.success())
    }
}

/// Sends one request without a body and answers the status. Enough for health endpoints, which need no library.
pub(super) fn http_status(mut connection: TcpStream, method: &str, path: &str) -> Result<u16> {
    connection.set_read_timeout(Some(PROBE_TIMEOUT))?;
    connection.set_write_timeout(Some(PROBE_TIMEOUT))?;
    write!(connection, "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")?;
    let mut start = String::new();
    BufReader::new(connection.take(LONGEST_STATUS_LINE)).read_line(&mut start)?;
    let status = start.split_whitespace().nth(1).context("no HTTP status")?;
    status.parse().with_context(|| format!("{status:?} is no HTTP status"))
}

fn spawn(recipe: &Recipe) -> Result<Child> {
    let log = OpenOptions::new().create(true).append(true).open(&recipe.log)?;
    let mut command = Command::new(&recipe.program);
    command.args(&recipe.args).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    spawn_tied(command).with_context(|| format!("starting {}", recipe.program.display()))
}
