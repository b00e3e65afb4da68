//! Has libgit2 open its connections through `relay`: the one place where libgit2 calls back into this crate's own C
//! interface.
//!
//! The structures are those of libgit2's `sys/stream.h` and `streams/socket.h`; its ssh transport reads the socket of the
//! latter. They are checked against the release that is built from source when it is upgraded (see
//! docs/decisions/0013-conversations-with-a-budget.md).
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::budget::Budget;
use super::relay::{self, Relayed};

/// How long a server may take to accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long a server may stay silent in the middle of a conversation.
const SILENT_WITHIN: Duration = Duration::from_secs(30);
/// For a connection of which nobody has said what it may cost.
const DEFAULT_BUDGET: (Duration, u64) = (Duration::from_mins(10), 2 << 30);

const VERSION: c_int = 1;
const STANDARD: c_int = 1;
const FAILED: c_int = -1;
/// `GIT_TIMEOUT`
const TIMED_OUT: isize = -37;
/// `GIT_ERROR_OS`, `GIT_ERROR_NET`
const OS: c_int = 2;
const NET: c_int = 12;

#[repr(C)]
struct Stream {
    version: c_int,
    /// Whether it is encrypted, and whether it takes a proxy: neither.
    flags: c_uint,
    timeout: c_int,
    connect_timeout: c_int,
    connect: extern "C" fn(*mut Stream) -> c_int,
    certificate: Option<extern "C" fn(*mut *mut c_void, *mut Stream) -> c_int>,
    set_proxy: Option<extern "C" fn(*mut Stream, *const c_void) -> c_int>,
    read: extern "C" fn(*mut Stream, *mut c_void, usize) -> isize,
    write: extern "C" fn(*mut Stream, *const c_char, usize, c_int) -> isize,
    close: extern "C" fn(*mut Stream) -> c_int,
    free: extern "C" fn(*mut Stream),
}

/// `git_socket_stream`, and what is ours behind it.
#[repr(C)]
struct SocketStream {
    stream: Stream,
    host: *mut c_char,
    port: *mut c_char,
    /// libgit2's ssh transport reads and writes it by itself.
    socket: c_int,
    host_name: CString,
    port_name: CString,
    relayed: Option<Relayed>,
    buffer: Vec<u8>,
}

#[repr(C)]
struct Registration {
    version: c_int,
    init: extern "C" fn(*mut *mut Stream, *const c_char, *const c_char) -> c_int,
    wrap: Option<extern "C" fn(*mut *mut Stream, *mut Stream, *const c_char) -> c_int>,
}

unsafe extern "C" {
    fn git_stream_register(kind: c_int, registration: *mut Registration) -> c_int;
    fn git_error_set_str(class: c_int, message: *const c_char) -> c_int;
}

/// Has libgit2 open every connection of this process here from now on, that under TLS, too.
///
/// libgit2 has been initialised by then.
pub(super) fn register() {
    let mut registration = Registration {
        version: VERSION,
        init,
        wrap: None,
    };
    // SAFETY: libgit2 copies the structure under a lock of its own. It has the layout of `git_stream_registration`.
    let _ = unsafe { git_stream_register(STANDARD, &raw mut registration) };
}

extern "C" fn init(out: *mut *mut Stream, host: *const c_char, port: *const c_char) -> c_int {
    // SAFETY: libgit2 passes two strings that live as long as this call.
    let (host, port) = unsafe { (CStr::from_ptr(host).to_owned(), CStr::from_ptr(port).to_owned()) };
    let made = Box::into_raw(Box::new(SocketStream {
        stream: Stream {
            version: VERSION,
            flags: 0,
            timeout: 0,
            connect_timeout: 0,
            connect,
            certificate: None,
            set_proxy: None,
            read,
            write,
            close,
            free,
        },
        host: host.as_ptr().cast_mut(),
        port: port.as_ptr().cast_mut(),
        socket: -1,
        host_name: host,
        port_name: port,
        relayed: None,
        buffer: vec![0; 16 << 10],
    }));
    // SAFETY: `out` is where libgit2 wants the stream. Its first field is the `git_stream`; it lives until `free`.
    unsafe { *out = made.cast() };
    0
}

/// Returns the stream that `init` made.
fn own<'a>(stream: *mut Stream) -> &'a mut SocketStream {
    // SAFETY: libgit2 calls with nothing but streams that `init` made and `free` hasn't ended, from one thread at a time.
    unsafe { &mut *stream.cast::<SocketStream>() }
}

extern "C" fn connect(stream: *mut Stream) -> c_int {
    let own = own(stream);
    let budget = Budget::current().unwrap_or_else(|| {
        let (timeout, most) = DEFAULT_BUDGET;
        Budget::new(timeout, most, CancellationToken::new())
    });
    let (host, port) = (own.host_name.to_string_lossy(), own.port_name.to_string_lossy());
    match relay::connect(&host, &port, CONNECT_WITHIN, SILENT_WITHIN, Arc::clone(&budget)) {
        Ok(relayed) => {
            own.socket = relayed.socket.as_raw_fd();
            own.relayed = Some(relayed);
            0
        }
        Err(error) if error.kind() == ErrorKind::TimedOut => {
            explain(NET, &format!("failed to connect to {host}: Operation timed out"));
            FAILED
        }
        Err(error) => {
            explain(OS, &format!("failed to connect to {host}: {error}"));
            FAILED
        }
    }
}

extern "C" fn read(stream: *mut Stream, data: *mut c_void, length: usize) -> isize {
    let SocketStream { relayed, buffer, .. } = own(stream);
    let Some(relayed) = relayed else {
        return failed("it is closed");
    };
    let room = length.min(buffer.len());
    let read = loop {
        match relayed.socket.read(&mut buffer[..room]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => break other,
        }
    };
    match (read, relayed.failure()) {
        (Ok(0), Some(failure)) => failed(&failure),
        (Ok(read), _) => {
            // SAFETY: libgit2 has room for `length` bytes at `data`, and `read` isn't more than that.
            unsafe { ptr::copy_nonoverlapping(buffer.as_ptr(), data.cast::<u8>(), read) };
            isize::try_from(read).unwrap_or(-1)
        }
        (Err(error), _) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            explain(NET, "could not read from socket: timed out");
            TIMED_OUT
        }
        (Err(error), _) => failed(&error.to_string()),
    }
}

extern "C" fn write(stream: *mut Stream, data: *const c_char, length: usize, _: c_int) -> isize {
    let Some(relayed) = &mut own(stream).relayed else {
        return failed("it is closed");
    };
    // SAFETY: libgit2 has `length` bytes at `data`, and doesn't change them during the call.
    let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) };
    let written = loop {
        match relayed.socket.write(data) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => break other,
        }
    };
    match (written, relayed.failure()) {
        (Ok(written), _) => isize::try_from(written).unwrap_or(-1),
        (Err(error), _) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            explain(NET, "could not write to socket: timed out");
            TIMED_OUT
        }
        (Err(_), Some(failure)) => failed(&failure),
        (Err(error), None) => failed(&error.to_string()),
    }
}

extern "C" fn close(stream: *mut Stream) -> c_int {
    let own = own(stream);
    own.relayed = None;
    own.socket = -1;
    0
}

extern "C" fn free(stream: *mut Stream) {
    // SAFETY: `init` made it of a box, and libgit2 doesn't use it any more.
    drop(unsafe { Box::from_raw(stream.cast::<SocketStream>()) });
}

fn failed(why: &str) -> isize {
    explain(NET, &format!("the connection is broken: {why}"));
    -1
}

fn explain(class: c_int, why: &str) {
    let why = CString::new(why).unwrap_or_default();
    // SAFETY: libgit2 copies the string.
    let _ = unsafe { git_error_set_str(class, why.as_ptr()) };
}
