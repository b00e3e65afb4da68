//! Ctrl-C and SIGTERM end a command in order: what was begun is journaled, and the next run goes on from there.

use tokio_util::sync::CancellationToken;

/// Returns a token that the first signal cancels. The second ends the process.
pub fn cancelled_by_signals() -> CancellationToken {
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    tokio::spawn(async move {
        asked_to_end().await;
        token.cancel();
        asked_to_end().await;
        std::process::exit(130);
    });
    cancel
}

/// Returns when the user or the system asks for the end.
pub async fn asked_to_end() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
