//! Ctrl-C. In: SIGINT and SIGTERM. Out: while learning, the wish to stop after the update under way, so that a
//! checkpoint is left; else, and on the second signal, the end of the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What an exit status says of a signal, by convention of shells.
pub(crate) const EXIT_STATUS_BASE: u8 = 128;

/// Numbers of the two signals, the same on every Unix.
const SIGINT: u8 = 2;
const SIGTERM: u8 = 15;

/// Shared with the thread that listens.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The signal that came, 0 before.
    asked: AtomicU8,
    /// There is something to save that is not on disk.
    learning: AtomicBool,
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// To end after the update under way.
    Finish,
    /// To end now.
    End,
}

impl Watch {
    fn heard(&self, signal: u8) -> Then {
        let first = self.asked.swap(signal, Ordering::SeqCst) == 0;
        if first && self.learning.load(Ordering::SeqCst) { Then::Finish } else { Then::End }
    }

    /// The signal that asked for the end.
    pub(super) fn asked(&self) -> Option<u8> {
        Some(self.asked.load(Ordering::SeqCst)).filter(|&signal| signal != 0)
    }

    /// Says that there is something to save, and answers whether it is time to.
    pub(super) fn learning_and_asked(&self) -> bool {
        self.learning.store(true, Ordering::SeqCst);
        self.asked().is_some()
    }

    /// Everything is on disk.
    pub(super) fn learning_ends(&self) {
        self.learning.store(false, Ordering::SeqCst);
    }
}

/// Listens from now on. `how` tells how to go on with the run.
pub(super) fn watch(how: &str) -> anyhow::Result<Arc<Watch>> {
    let watch = Arc::new(Watch::default());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("signals cannot be heard")?;
    let entered = runtime.enter();
    let interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be heard")?;
    let terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be heard")?;
    drop(entered);
    let (listening, how) = (Arc::clone(&watch), how.to_owned());
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || runtime.block_on(listen(&listening, interrupt, terminate, &how)))
        .context("signals cannot be heard")?;
    Ok(watch)
}

async fn listen(watch: &Watch, mut interrupt: Signal, mut terminate: Signal, how: &str) {
    loop {
        let number = tokio::select! {
            _ = interrupt.recv() => SIGINT,
            _ = terminate.recv() => SIGTERM,
        };
        if watch.heard(number) == Then::Finish {
            eprintln!("rlscaler: stopping after this update; once more ends at once");
            continue;
        }
        eprintln!("rlscaler: stopped; go on with: {how}");
        std::process::exit(i32::from(EXIT_STATUS_BASE + number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_while_learning_waits_for_the_update_and_the_next_does_not() {
        let watch = Watch::default();
        assert!(!watch.learning_and_asked());
        assert_eq!(watch.heard(SIGINT), Then::Finish);
        assert!(watch.learning_and_asked());
        assert_eq!(watch.heard(SIGTERM), Then::End);
        assert_eq!(watch.asked(), Some(SIGTERM));
    }

    #[test]
    fn a_signal_with_nothing_to_save_ends_at_once() {
        let before = Watch::default();
        assert_eq!(before.heard(SIGINT), Then::End);
        let after = Watch::default();
        assert!(!after.learning_and_asked());
        after.learning_ends();
        assert_eq!(after.heard(SIGTERM), Then::End);
    }
}
