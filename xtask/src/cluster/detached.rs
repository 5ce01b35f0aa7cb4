//! One cluster per checkout that outlives the command that started it: `up`, `down`, `status`.
//!
//! `up` starts a supervisor in a session of its own, which holds a [`Cluster`] and does nothing else. The kernel kills
//! the cluster's programs with the supervisor, so `down` is one signal, and nothing is left behind if the supervisor
//! is killed. Until the cluster is ready the supervisor ends when `up` does (its standard input closes).

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::component::Probe;
use super::process::{Identity, spawn_detached};
use super::{Cluster, ClusterOptions, workdir};
use crate::tools;

/// The kernel kills at once; this long only a stuck disk takes.
const END_DEADLINE: Duration = Duration::from_secs(10);

/// What `up` says to a supervisor whose cluster is ready: from now on, live without me.
const DETACH: &str = "detach";

/// What a supervisor says when its cluster is ready. Anything else it says is progress.
const READY: &str = "READY";

/// What stands in `target/cluster/up.json` while a cluster is up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// The process that holds the cluster.
    pub supervisor: Identity,
    /// A kubeconfig of an administrator.
    pub kubeconfig: PathBuf,
    /// Prometheus' base address, when there is one.
    pub prometheus_url: Option<String>,
    /// The folder of kubectl.
    programs: PathBuf,
    /// kubectl keeps what it learned of a server by address, and another cluster may have had this one.
    cache: PathBuf,
    components: Vec<Member>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Member {
    name: String,
    process: Identity,
    probe: Probe,
    log: PathBuf,
}

/// Where `up` keeps its notes in a checkout.
#[derive(Clone, Debug)]
pub struct Home {
    folder: PathBuf,
}

/// What `up` did.
#[derive(Debug)]
pub enum Up {
    /// A cluster was started.
    Started(State),
    /// One was running, with the programs that have ended since.
    AlreadyRunning(State, Vec<String>),
}

/// One line of `status`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemberStatus {
    /// The program's name.
    pub name: String,
    /// Its process number.
    pub pid: u32,
    /// Its loopback port.
    pub port: u16,
    /// Whether it runs and answers.
    pub health: Health,
    /// Memory it holds in RAM, in bytes; 0 when it has ended.
    pub resident_bytes: u64,
}

/// How a program of a detached cluster fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Health {
    /// It answers its health endpoint.
    Ready,
    /// It runs and does not answer.
    NotReady,
    /// It has ended.
    Ended,
}

impl Home {
    /// This checkout's.
    pub fn of_checkout() -> Self {
        Self { folder: tools::repository_root().join("target/cluster") }
    }

    /// The cluster that is up, if any.
    ///
    /// # Errors
    /// When the notes cannot be read.
    pub fn state(&self) -> Result<Option<State>> {
        let path = self.state_path();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        let state = serde_json::from_str(&text).with_context(|| format!("{} is not ours", path.display()))?;
        Ok(Some(state))
    }

    /// Starts a cluster unless one is up. `supervisor` is a command that calls [`supervise`].
    ///
    /// # Errors
    /// When the cluster does not start; nothing is left of it then, but for its logs.
    pub fn up(
        &self,
        options: &ClusterOptions,
        supervisor: Command,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Up> {
        let _lock = self.lock()?;
        if let Some(state) = self.state()? {
            if state.supervisor.is_alive() {
                let ended = state.members_ended();
                return Ok(Up::AlreadyRunning(state, ended));
            }
            self.clean()?;
        }
        tools::build_all(tools::repository_root())?; // here, where its progress can be seen
        self.run_supervisor(options, supervisor, tell)?;
        Ok(Up::Started(self.state()?.context("the supervisor left no notes")?))
    }

    /// Ends the cluster that is up and removes its files; false when none is.
    ///
    /// # Errors
    /// When a process does not end.
    pub fn down(&self) -> Result<bool> {
        let _lock = self.lock()?;
        let Some(state) = self.state()? else { return Ok(false) };
        let was_up = state.supervisor.is_alive();
        state.supervisor.signal(Signal::TERM)?;
        if !state.supervisor.wait_end(END_DEADLINE) {
            state.supervisor.signal(Signal::KILL)?;
        }
        for member in &state.components {
            member.process.signal(Signal::KILL)?; // the kernel has done so already
            if !member.process.wait_end(END_DEADLINE) {
                bail!("{} (process {}) does not end", member.name, member.process.pid);
            }
        }
        self.clean()?;
        Ok(was_up)
    }

    fn run_supervisor(
        &self,
        options: &ClusterOptions,
        mut command: Command,
        tell: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let log_path = self.folder.join("supervisor.log");
        let log = File::create(&log_path)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut supervisor = spawn_detached(command).context("starting the supervisor")?;
        let mut orders = supervisor.stdin.take().expect("stdin is piped");
        let told = BufReader::new(supervisor.stdout.take().expect("stdout is piped"));
        writeln!(orders, "{}", serde_json::to_string(options)?)
            .context("telling the supervisor what to start")?;
        for line in told.lines() {
            let line = line.context("reading what the supervisor says")?;
            if line == READY {
                return writeln!(orders, "{DETACH}").context("letting the supervisor go");
            }
            tell(&line);
        }
        supervisor.wait()?;
        let said = fs::read_to_string(&log_path).unwrap_or_default();
        bail!("the cluster did not start: {}", said.trim());
    }

    fn lock(&self) -> Result<File> {
        fs::create_dir_all(&self.folder)?;
        let lock = OpenOptions::new().create(true).append(true).open(self.folder.join("up.lock"))?;
        lock.lock().context("waiting for another `cluster up` or `down`")?;
        Ok(lock)
    }

    fn clean(&self) -> Result<()> {
        workdir::remove_abandoned(&self.folder);
        fs::remove_file(self.state_path()).context("removing the notes of a cluster that is gone")
    }

    fn state_path(&self) -> PathBuf {
        self.folder.join("up.json")
    }
}

/// The supervisor's whole life: reads options from standard input, starts the cluster, waits to be killed.
///
/// # Errors
/// When the cluster does not start.
pub fn supervise(home: &Home) -> Result<()> {
    let mut orders = BufReader::new(stdin());
    let mut line = String::new();
    orders.read_line(&mut line).context("reading the options")?;
    let options: ClusterOptions = serde_json::from_str(&line).context("the options are no JSON")?;
    let parent = thread::spawn(move || {
        let mut line = String::new();
        if orders.read_line(&mut line).is_err() || line.trim() != DETACH {
            // `up` is gone before the cluster was ready. The kernel takes the programs with us.
            std::process::exit(1);
        }
    });
    // `up` may be gone: then the thread above ends us, and not a failure to print.
    let mut tell = |text: &str| drop(writeln!(stdout(), "{text}"));
    let cluster = Cluster::start_telling(&options, &mut tell)?;
    let state = serde_json::to_string_pretty(&State::of(&cluster)?)?;
    let unfinished = home.folder.join("up.json.unfinished");
    fs::write(&unfinished, state)?;
    fs::rename(&unfinished, home.state_path())?;
    tell(READY);
    drop(parent.join());
    loop {
        thread::park();
    }
}

impl State {
    fn of(cluster: &Cluster) -> Result<Self> {
        let mut components = Vec::new();
        for component in cluster.components() {
            components.push(Member {
                name: component.name().to_owned(),
                process: component.process().with_context(|| format!("{} has ended", component.name()))?,
                probe: component.probe().clone(),
                log: component.log().to_owned(),
            });
        }
        let has_prometheus = cluster.component("prometheus").is_ok();
        Ok(Self {
            supervisor: Identity::of(std::process::id()).context("/proc does not show this process")?,
            kubeconfig: cluster.kubeconfig().to_owned(),
            prometheus_url: has_prometheus.then(|| cluster.prometheus_url()),
            programs: cluster
                .programs()
                .kubectl
                .parent()
                .map(Path::to_owned)
                .context("kubectl has no folder")?,
            cache: cluster.folder().join("kube-cache"),
            components,
        })
    }

    /// The line a shell takes to find the cluster and its kubectl.
    pub fn export_line(&self) -> String {
        let Self { kubeconfig, programs, cache, .. } = self;
        let (kubeconfig, cache, programs) = (kubeconfig.display(), cache.display(), programs.display());
        format!("export KUBECONFIG='{kubeconfig}' KUBECACHEDIR='{cache}' PATH='{programs}':\"$PATH\"")
    }

    /// How each program fares now.
    pub fn members(&self) -> Vec<MemberStatus> {
        let status = |member: &Member| MemberStatus {
            name: member.name.clone(),
            pid: member.process.pid,
            port: member.probe.port,
            health: match (member.process.is_alive(), member.probe.answers()) {
                (false, _) => Health::Ended,
                (true, false) => Health::NotReady,
                (true, true) => Health::Ready,
            },
            resident_bytes: member.process.resident_bytes().unwrap_or_default(),
        };
        self.components.iter().map(status).collect()
    }

    fn members_ended(&self) -> Vec<String> {
        let ended = self.components.iter().filter(|member| !member.process.is_alive());
        ended.map(|member| member.name.clone()).collect()
    }
}
