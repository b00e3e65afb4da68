//! A TCP proxy in front of an API server: connections fall silent, and the server goes away for a while.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub struct Proxy {
    pub address: SocketAddr,
    server: SocketAddr,
    fate: watch::Sender<Fate>,
    accepting: Option<JoinHandle<()>>,
}

/// How often something has happened to all connections that there were.
#[derive(Clone, Copy, Default)]
struct Fate {
    silenced: u64,
    cut: u64,
}

impl Proxy {
    pub async fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut proxy = Self {
            address: listener.local_addr().unwrap(),
            server,
            fate: watch::Sender::default(),
            accepting: None,
        };
        proxy.accept(listener);
        proxy
    }

    /// The connections that there are stay open, and nothing comes on them any more.
    pub fn silence(&self) {
        self.fate.send_modify(|fate| fate.silenced += 1);
    }

    /// The server is gone: connections break, and nobody listens.
    pub async fn down(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
            let _ = accepting.await;
        }
        self.fate.send_modify(|fate| fate.cut += 1);
    }

    /// The server is there again.
    pub async fn up(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.accept(listener);
    }

    fn accept(&mut self, listener: TcpListener) {
        let (server, fate) = (self.server, self.fate.subscribe());
        self.accepting = Some(tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, server, fate.clone()));
            }
        }));
    }
}

async fn carry(mut client: TcpStream, server: SocketAddr, mut fate: watch::Receiver<Fate>) {
    let own = *fate.borrow();
    let Ok(mut server) = TcpStream::connect(server).await else {
        return;
    };
    let mut other = fate.clone();
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => return,
        _ = other.wait_for(|fate| fate.cut > own.cut) => return,
        _ = fate.wait_for(|fate| fate.silenced > own.silenced) => {}
    }
    // Both ends are held open.
    let _ = other.wait_for(|fate| fate.cut > own.cut).await;
}
