//! Child processes that cannot outlive their parent, and processes told apart from whoever gets their number next.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// Starts a process in a process group of its own (so Ctrl-C in the terminal reaches only us) that the kernel kills
/// when this process ends, however it ends.
///
/// # Errors
/// When the process cannot be started.
pub fn spawn_tied(command: Command) -> io::Result<Child> {
    // The kernel ties a child to the *thread* that started it. A test's thread ends long before its process, so
    // one thread that lasts as long as the process starts them all.
    type Order = (Command, mpsc::Sender<io::Result<Child>>);
    static SPAWNER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, incoming) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (command, answer) in incoming {
                // Nobody waits for the answer any more: the child is dropped, and dies with us.
                let _ = answer.send(spawn_tied_to_this_thread(command));
            }
        });
        orders
    });
    let (answer, answered) = mpsc::channel();
    let gone = |_| io::Error::other("the thread that starts processes is gone");
    spawner.send((command, answer)).map_err(|_| gone(()))?;
    answered.recv().map_err(|_| gone(()))?
}

#[allow(unsafe_code)] // `pre_exec` is unsafe to call; see below why this use is sound
fn spawn_tied_to_this_thread(mut command: Command) -> io::Result<Child> {
    let parent = rustix::process::getpid();
    command.process_group(0);
    // SAFETY: between fork and exec only two system calls are made, no allocation and no lock.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have died before the line above: then no signal will come.
            match rustix::process::getppid() {
                Some(found) if found == parent => Ok(()),
                _ => Err(io::Error::other("the parent is gone")),
            }
        });
    }
    command.spawn()
}

/// Starts a process in a session of its own: it outlives us and our terminal.
///
/// # Errors
/// When the process cannot be started.
#[allow(unsafe_code)] // `pre_exec` is unsafe to call; see below why this use is sound
pub fn spawn_detached(mut command: Command) -> io::Result<Child> {
    // SAFETY: between fork and exec one system call is made, no allocation and no lock.
    unsafe {
        command.pre_exec(|| Ok(rustix::process::setsid().map(|_| ())?));
    }
    command.spawn()
}

/// A process, by number and by the moment it started, so that a recycled number is never taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The process number.
    pub pid: u32,
    /// Start time in clock ticks since boot, from `/proc/PID/stat`.
    started_ticks: u64,
}

impl Identity {
    /// The process that has this number now; `None` when there is none or it has ended.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // proc_pid_stat(5): `pid (name) state ppid …`, the start time is field 22; the name may hold anything.
        let (_, after_name) = stat.rsplit_once(')')?;
        let mut fields = after_name.split_whitespace();
        let state = fields.next()?;
        if state == "Z" || state == "X" {
            return None; // ended, and only not yet collected by its parent
        }
        let started_ticks = fields.nth(18)?.parse().ok()?;
        Some(Self { pid, started_ticks })
    }

    /// Whether this very process still runs.
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid) == Some(*self)
    }

    /// Sends a signal to this very process; false when it has ended.
    ///
    /// # Errors
    /// When the signal may not be sent.
    pub fn signal(&self, signal: Signal) -> io::Result<bool> {
        let Some(handle) = self.handle() else { return Ok(false) };
        match pidfd_send_signal(&handle, signal) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the process has ended; false when it has not within the time.
    pub fn wait_end(&self, at_most: Duration) -> bool {
        let deadline = Instant::now() + at_most;
        let Some(handle) = self.handle() else { return true };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&timeout)) {
                Ok(0) => return false,
                Ok(_) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return !self.is_alive(),
            }
        }
    }

    /// Memory it holds in RAM, in bytes.
    pub fn resident_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(kibibytes * 1024)
    }

    /// A handle that stays with the process even if its number is given away. The identity is checked after the
    /// handle is taken: a number given away before that shows here.
    fn handle(&self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        self.is_alive().then_some(handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        command.arg("1000");
        spawn_tied(command).unwrap()
    }

    #[test]
    fn a_recycled_number_is_not_the_process() {
        let mut child = sleeper();
        let itself = Identity::of(child.id()).unwrap();
        let earlier = Identity { started_ticks: itself.started_ticks - 1, ..itself };
        assert!(itself.is_alive() && !earlier.is_alive());
        assert!(!earlier.signal(Signal::KILL).unwrap());
        assert!(child.try_wait().unwrap().is_none(), "the newcomer was killed");
        assert!(itself.signal(Signal::KILL).unwrap());
        assert!(itself.wait_end(Duration::from_secs(10)));
        child.wait().unwrap();
        assert_eq!(Identity::of(itself.pid), None);
    }

    #[test]
    fn a_child_outlives_the_thread_that_asked_for_it() {
        let mut child = thread::spawn(sleeper).join().unwrap();
        let itself = Identity::of(child.id()).unwrap();
        assert!(!itself.wait_end(Duration::from_millis(100)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
