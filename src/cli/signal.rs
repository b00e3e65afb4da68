//! Ctrl-C and SIGTERM end a command in order: what was begun is journaled, and the next run goes on from there.

use tokio_util::sync::CancellationToken;

use super::progress;

/// How a command exits that a signal has ended before it was done, as shells say it of Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// Returns a token that the first signal from now on cancels. The second ends the process.
pub fn cancelled_by_signals() -> CancellationToken {
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let mut signals = Signals::listen();
    tokio::spawn(async move {
        signals.next().await;
        token.cancel();
        signals.next().await;
        progress::end();
        std::process::exit(INTERRUPTED.into());
    });
    cancel
}

/// Returns when the user or the system asks for the end.
pub async fn asked_to_end() {
    Signals::listen().next().await;
}

/// The signals that ask for the end, from the moment on when this was made.
struct Signals {
    /// One that can't be listened to keeps what it does by itself: it ends the process.
    #[cfg(unix)]
    kinds: [Option<tokio::signal::unix::Signal>; 2],
}

impl Signals {
    fn listen() -> Self {
        #[cfg(unix)]
        use tokio::signal::unix::{SignalKind, signal};
        Self {
            #[cfg(unix)]
            kinds: [SignalKind::interrupt(), SignalKind::terminate()].map(|kind| signal(kind).ok()),
        }
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        let [interrupt, terminate] = &mut self.kinds;
        tokio::select! {
            () = received(interrupt) => {}
            () = received(terminate) => {}
        }
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}

#[cfg(unix)]
async fn received(signal: &mut Option<tokio::signal::unix::Signal>) {
    let heard = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    // No signal can come any more.
    if heard.is_none() {
        std::future::pending::<()>().await;
    }
}
