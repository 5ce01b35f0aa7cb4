//! Loopback ports that no other cluster on this machine takes, in this checkout or another.

use std::fs::{self, File, TryLockError};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// Below the ports the kernel gives to outgoing connections (from 32768), so none of those can take a port between
/// our looking and the program's listening.
const PORTS: std::ops::RangeInclusive<u16> = 21000..=29999;

/// Reserved ports. A reservation is a locked file, so the kernel ends it with this process.
#[derive(Debug)]
pub(super) struct Ports {
    folder: PathBuf,
    locks: Vec<File>,
}

impl Ports {
    /// Reservations are kept per user, for all checkouts together.
    pub(super) fn new() -> Result<Self> {
        let user = rustix::process::getuid().as_raw();
        let folder = std::env::temp_dir().join(format!("rlscaler-ports-{user}"));
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        Ok(Self { folder, locks: Vec::new() })
    }

    /// Reserves a port that nobody listens on, until `self` is dropped.
    pub(super) fn reserve(&mut self) -> Result<u16> {
        for port in PORTS {
            let lock = File::create(self.folder.join(port.to_string()))?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(error)) => return Err(error).context("reserving a port"),
            }
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                self.locks.push(lock);
                return Ok(port);
            }
        }
        bail!("no free loopback port between {} and {}", PORTS.start(), PORTS.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_clusters_never_get_the_same_port() {
        let (mut ours, mut theirs) = (Ports::new().unwrap(), Ports::new().unwrap());
        let mut taken: Vec<u16> = Vec::new();
        for _ in 0..10 {
            taken.extend([ours.reserve().unwrap(), theirs.reserve().unwrap()]);
        }
        let all = taken.len();
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), all);
    }

    #[test]
    fn a_port_somebody_listens_on_is_passed_over() {
        let mut ports = Ports::new().unwrap();
        let listeners: Vec<_> =
            (21000..21040).filter_map(|p| TcpListener::bind(("127.0.0.1", p)).ok()).collect();
        let port = ports.reserve().unwrap();
        assert!(listeners.iter().all(|listener| listener.local_addr().unwrap().port() != port));
    }
}
