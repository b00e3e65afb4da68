//! Connections from anybody: how many there are, how long each may take, and who has to go when there is no room.
//!
//! A connection is a file descriptor, and Git, the API server and the state directory need descriptors too. So there is a cap,
//! and each connection has one request and a deadline. Where the cap is reached, the connection goes that has kept its
//! place longest without having sent its request, of the peer that has the most: an honest host sends its request at once,
//! so it gets through however many others do nothing.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::refusals::Refusals;

/// How many connections there are, and how long they may take.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    pub connections: usize,
    /// From one address; of IPv6, from one network of 64 bits.
    pub per_peer: usize,
    /// How many may send the body of a request at once.
    pub receiving: usize,
    /// How long the head of a request may take.
    pub head: Duration,
    /// How long a connection may last, its answer included.
    pub lifetime: Duration,
    /// How long to wait after a connection could not be accepted.
    pub pause: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: 128,
            per_peer: 64,
            receiving: 16,
            head: Duration::from_secs(5),
            lifetime: Duration::from_secs(20),
            pause: Duration::from_millis(200),
        }
    }
}

/// The largest head of a request. Hosts send about one KiB.
const HEAD_BYTES: usize = 16 << 10;
/// How long requests may take to be answered once the program is to stop.
const GRACE: Duration = Duration::from_secs(1);

/// Serves until it is cancelled. Nothing that a peer does, and no shortage of descriptors, ends it before.
pub(super) async fn serve(
    listener: TcpListener,
    app: Router,
    limits: ConnectionLimits,
    refusals: Arc<Refusals>,
    cancel: CancellationToken,
) {
    let seats = Seats::new(limits);
    let mut connections = JoinSet::new();
    let mut report = tokio::time::interval(Refusals::PERIOD);
    loop {
        tokio::select! {
            () = cancel.cancelled() => break,
            _ = report.tick() => refusals.report(),
            Some(_ended) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => match seats.take(from) {
                    Some(seat) => drop(connections.spawn(connection(stream, app.clone(), seat, limits))),
                    None => refusals.note("there is no room for another connection"),
                },
                Err(error) if is_of_the_peer(&error) => {}
                Err(error) => {
                    // Descriptors are most likely short: those that nobody needs are given back at once.
                    let closed = seats.close_idle();
                    tracing::debug!(%error, closed, "cannot accept a connection");
                    refusals.note("connections cannot be accepted: descriptors or memory are short");
                    tokio::select! {
                        () = cancel.cancelled() => break,
                        () = sleep(limits.pause) => {}
                    }
                }
            },
        }
    }
    seats.close_idle();
    let ended = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(GRACE, ended).await;
    refusals.report();
}

/// Returns whether a peer has gone away before it was accepted.
fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

/// Answers the one request of a connection.
async fn connection(stream: TcpStream, app: Router, seat: Seat, limits: ConnectionLimits) {
    let closed = seat.closed.clone();
    let number = (Arc::clone(&seat.seats), seat.number);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (app, place) = (app.clone(), Place(Arc::clone(&number.0), number.1));
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(place);
            app.oneshot(request).await
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        () = closed.cancelled() => {}
        // What goes wrong with one connection is nobody else's concern.
        _ = timeout(limits.lifetime, served) => {}
    }
    drop(seat);
}

/// What a connection is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its request has not come.
    Idle,
    /// The head of its request has come.
    Receiving,
    /// Its request is whole.
    Answering,
}

#[derive(Debug)]
struct Connection {
    peer: IpAddr,
    state: State,
    closed: CancellationToken,
}

/// The connections there are, by number: the oldest first.
#[derive(Debug)]
pub(super) struct Seats {
    limits: ConnectionLimits,
    taken: Mutex<(u64, BTreeMap<u64, Connection>)>,
}

/// A connection's seat, which is free again when it ends.
struct Seat {
    seats: Arc<Seats>,
    number: u64,
    closed: CancellationToken,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock().1.remove(&self.number);
    }
}

/// What a request knows of the connection that it came by.
#[derive(Clone, Debug)]
pub(super) struct Place(Arc<Seats>, u64);

impl Place {
    /// Says that the body is about to be read. Where too many are, the one that has taken longest is closed.
    pub(super) fn receiving(&self) {
        self.0.receiving(self.1);
    }

    /// Says that the request is whole: it is not closed any more.
    pub(super) fn answering(&self) {
        if let Some(connection) = self.0.lock().1.get_mut(&self.1) {
            connection.state = State::Answering;
        }
    }
}

impl Seats {
    fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            taken: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Connection>)> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a seat, if need be by closing a connection that does nothing.
    fn take(self: &Arc<Self>, from: SocketAddr) -> Option<Seat> {
        let peer = peer(from.ip());
        let mut taken = self.lock();
        let (next, connections) = &mut *taken;
        let of_peer = connections.values().filter(|one| one.peer == peer).count();
        if of_peer >= self.limits.per_peer {
            close(connections, State::Idle, Some(peer))?;
        } else if connections.len() >= self.limits.connections {
            close(connections, State::Idle, None)?;
        }
        let number = *next;
        *next += 1;
        let closed = CancellationToken::new();
        let connection = Connection {
            peer,
            state: State::Idle,
            closed: closed.clone(),
        };
        connections.insert(number, connection);
        Some(Seat {
            seats: Arc::clone(self),
            number,
            closed,
        })
    }

    fn receiving(&self, number: u64) {
        let mut taken = self.lock();
        let connections = &mut taken.1;
        let receiving = connections
            .values()
            .filter(|one| one.state == State::Receiving)
            .count();
        if receiving >= self.limits.receiving {
            close(connections, State::Receiving, None);
        }
        if let Some(connection) = connections.get_mut(&number) {
            connection.state = State::Receiving;
        }
    }

    /// Closes all that do nothing; returns how many these are.
    fn close_idle(&self) -> usize {
        let mut taken = self.lock();
        let before = taken.1.len();
        while close(&mut taken.1, State::Idle, None).is_some() {}
        before - taken.1.len()
    }
}

/// Closes the oldest connection in a state, of a peer or of the peer that has the most in that state.
fn close(connections: &mut BTreeMap<u64, Connection>, state: State, peer: Option<IpAddr>) -> Option<()> {
    let mut counts: BTreeMap<IpAddr, (usize, u64)> = BTreeMap::new();
    for (number, one) in connections.iter().filter(|(_, one)| one.state == state) {
        counts.entry(one.peer).or_insert((0, *number)).0 += 1;
    }
    let oldest = match peer {
        Some(peer) => counts.get(&peer)?.1,
        // Of equals the one whose oldest is oldest.
        None => {
            counts
                .values()
                .max_by_key(|(count, oldest)| (*count, u64::MAX - oldest))?
                .1
        }
    };
    connections.remove(&oldest)?.closed.cancel();
    Some(())
}

/// Returns what counts as one peer: whoever has one address of IPv6 has 2^64 of them.
fn peer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(connections: usize, per_peer: usize) -> Arc<Seats> {
        Seats::new(ConnectionLimits {
            connections,
            per_peer,
            receiving: 2,
            ..ConnectionLimits::default()
        })
    }

    fn from(address: &str) -> SocketAddr {
        SocketAddr::new(address.parse().unwrap(), 1)
    }

    #[test]
    fn the_oldest_idle_one_of_who_has_the_most_goes() {
        let seats = seats(4, 9);
        let honest = seats.take(from("10.0.0.1")).unwrap();
        let idle: Vec<Seat> = (0..3).map(|_| seats.take(from("10.0.0.2")).unwrap()).collect();
        let next = seats.take(from("10.0.0.3")).unwrap();
        let closed = |seat: &Seat| seat.closed.is_cancelled();
        assert!(!closed(&honest) && !closed(&next));
        assert_eq!(idle.iter().map(closed).collect::<Vec<_>>(), [true, false, false]);
        drop(idle);
        assert_eq!(seats.lock().1.len(), 2, "seats are given back");
    }

    #[test]
    fn who_sends_a_request_is_not_closed_for_who_sends_none() {
        let seats = seats(2, 9);
        let [one, two] = [0, 1].map(|_| seats.take(from("10.0.0.1")).unwrap());
        seats.receiving(one.number);
        Place(Arc::clone(&seats), two.number).answering();
        assert!(seats.take(from("10.0.0.2")).is_none());
        assert!(!one.closed.is_cancelled() && !two.closed.is_cancelled());
        assert_eq!(seats.close_idle(), 0);
    }

    #[test]
    fn a_peer_that_has_its_share_replaces_its_own() {
        let seats = seats(9, 2);
        let other = seats.take(from("10.0.0.9")).unwrap();
        let own: Vec<Seat> = (0..3)
            .map(|n| seats.take(from(&format!("2001:db8::{n}"))).unwrap())
            .collect();
        assert!(own[0].closed.is_cancelled() && !own[1].closed.is_cancelled());
        assert!(!other.closed.is_cancelled());
        assert_eq!(peer("::ffff:10.0.0.9".parse().unwrap()), other_peer());
    }

    fn other_peer() -> IpAddr {
        "10.0.0.9".parse().unwrap()
    }

    #[test]
    fn the_slowest_body_goes_when_too_many_are_sent() {
        let seats = seats(9, 9);
        let all: Vec<Seat> = (0..3).map(|_| seats.take(from("10.0.0.1")).unwrap()).collect();
        for seat in &all {
            seats.receiving(seat.number);
        }
        let closed: Vec<bool> = all.iter().map(|seat| seat.closed.is_cancelled()).collect();
        assert_eq!(closed, [true, false, false]);
    }
}
