//! How soon a look begins once somebody has said that there is something new.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cutover::forge::{Hook, signature};
use cutover::repo::{Options, Polling, Repo, Secret, Tick, Trigger};
use cutover::serve::{ConnectionLimits, HookOptions, hooks};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

const SECRET: &str = "0123456789abcdef-swordfish";
const BODY: &str = r#"{"ref": "refs/heads/main"}"#;
/// Nobody waits for that.
const NEVER: Polling = Polling {
    interval: Duration::from_hours(1),
    slowest: Duration::from_hours(1),
};

/// Returns how long each of `count` requests took, from its first byte to the tick that begins a look.
pub async fn delays(count: usize) -> Vec<Duration> {
    let state = tempfile::tempdir().unwrap();
    let trigger = Trigger::default();
    let url = "https://git.example.com/shop/fleet".parse().unwrap();
    let options = Options {
        trigger: trigger.clone(),
        ..Options::new(url, "main", state.path())
    };
    let cancel = CancellationToken::new();
    let repo = Repo::open(options, cancel.clone()).await.unwrap();
    let mut watch = repo.watch(NEVER);
    assert_eq!(watch.next().await, Tick::Start);
    let listening = HookOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        hook: Hook::new(Secret::new(SECRET), "main").unwrap(),
        trigger,
        limits: ConnectionLimits::default(),
    };
    let (address, serving) = hooks(listening, cancel.clone()).await.unwrap();
    tokio::spawn(serving);
    let mut delays = Vec::new();
    for _ in 0..count {
        let began = Instant::now();
        let sent = tokio::spawn(send(address));
        assert_eq!(watch.next().await, Tick::Manual);
        delays.push(began.elapsed());
        sent.await.unwrap();
    }
    cancel.cancel();
    delays
}

async fn send(to: SocketAddr) {
    let signature = signature(SECRET, BODY.as_bytes()).unwrap();
    let request = format!(
        "POST /hook HTTP/1.1\r\nhost: it\r\nconnection: close\r\nx-github-event: push\r\n\
         x-hub-signature-256: sha256={signature}\r\ncontent-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
}
