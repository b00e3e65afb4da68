//! Stands between libgit2 and a server: hands bytes on, counts them, and hangs up when the budget of the conversation is spent.
//!
//! libgit2 has no deadline for a conversation and calls back in few of its phases: branches without end, or a byte every 29
//! seconds, would go on for ever. It is given one end of a pair of sockets instead of the connection itself, for http, TLS,
//! git and ssh alike.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::budget::Budget;

/// How often a silent connection is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const BUFFER: usize = 64 << 10;

/// A connection, as it is for whoever uses it.
#[derive(Debug)]
pub(super) struct Relayed {
    pub(super) socket: UnixStream,
    /// What the connection broke with.
    failure: Arc<Mutex<Option<String>>>,
}

impl Relayed {
    pub(super) fn failure(&self) -> Option<String> {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Connects to a server.
pub(super) fn connect(
    host: &str,
    port: &str,
    connect_within: Duration,
    silent_within: Duration,
    budget: Arc<Budget>,
) -> io::Result<Relayed> {
    let server = dial(host, port, connect_within, &budget)?;
    server.set_nodelay(true)?;
    server.set_read_timeout(Some(LOOK_EVERY))?;
    server.set_write_timeout(Some(silent_within))?;
    let (ours, theirs) = UnixStream::pair()?;
    theirs.set_read_timeout(Some(silent_within))?;
    theirs.set_write_timeout(Some(silent_within))?;
    let failure = Arc::new(Mutex::new(None));
    let (to_server, from_client) = (server.try_clone()?, ours.try_clone()?);
    let broken = Arc::clone(&failure);
    let name = || std::thread::Builder::new().name("git".to_owned());
    name().spawn(move || send(from_client, to_server))?;
    name().spawn(move || {
        if let Err(error) = receive(&server, &ours, &budget) {
            *broken.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
        }
        let _ = ours.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    })?;
    Ok(Relayed {
        socket: theirs,
        failure,
    })
}

fn dial(host: &str, port: &str, within: Duration, budget: &Budget) -> io::Result<TcpStream> {
    let port = port
        .parse()
        .map_err(|_| io::Error::new(ErrorKind::InvalidInput, "its port is not a number"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut last = None;
    for address in (host, port).to_socket_addrs()? {
        let within = within.min(budget.time_left()).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&address, within) {
            Ok(server) => return Ok(server),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::new(ErrorKind::NotFound, "it has no address")))
}

/// Hands on what the server sends, until it ends, nobody wants it any more, or the budget is spent.
fn receive(mut server: &TcpStream, mut client: &UnixStream, budget: &Budget) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = match server.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if is_nothing_yet(&error) => 0,
            Err(error) => return Err(error),
        };
        if !budget.receive(length) || client.write_all(&buffer[..length]).is_err() {
            return Ok(());
        }
    }
}

/// Hands on what the client sends. It ends when either side has hung up.
fn send(mut client: UnixStream, mut server: TcpStream) {
    let _ = io::copy(&mut client, &mut server);
    let _ = server.flush();
    // A client that has said its last word doesn't listen any more.
    let _ = server.shutdown(Shutdown::Both);
}

fn is_nothing_yet(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}
