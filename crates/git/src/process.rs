//! The settings of libgit2 that hold for the whole process: timeouts and additional certificate authorities.
//!
//! With `stream` the only place with unsafe code. git2 marks these setters unsafe because they write C globals without a lock;
//! here every write happens before the first connection that could read it, under a lock of our own.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT_MS: i32 = 10_000;
/// How long a server may stay silent in the middle of a conversation.
const SILENCE_TIMEOUT_MS: i32 = 30_000;

static SETTLED: Once = Once::new();
static TRUSTED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Sets the timeouts of sockets; every connection calls this first.
///
/// By default libgit2 waits for ever for a server that accepts a connection and then says nothing.
pub(super) fn settle() {
    SETTLED.call_once(|| {
        // SAFETY: only connections read these two integers, each calls `settle` before it is opened, and `Once`
        // orders this write before every return from `settle`. The setters can't fail for positive values.
        unsafe {
            let _ = git2::opts::set_server_connect_timeout_in_milliseconds(CONNECT_TIMEOUT_MS);
            let _ = git2::opts::set_server_timeout_in_milliseconds(SILENCE_TIMEOUT_MS);
        }
        #[cfg(unix)]
        super::stream::register();
    });
}

/// Trusts the certificate authorities of a PEM file in addition to those of the system.
pub(super) fn trust(ca_file: &Path) -> Result<(), git2::Error> {
    settle();
    let mut trusted = TRUSTED.lock().unwrap_or_else(PoisonError::into_inner);
    if !trusted.contains(ca_file) {
        // SAFETY: adds to OpenSSL's certificate store, which has a lock of its own; calls from here are serialised.
        unsafe { git2::opts::set_ssl_cert_file(ca_file)? };
        trusted.insert(ca_file.to_owned());
    }
    Ok(())
}
