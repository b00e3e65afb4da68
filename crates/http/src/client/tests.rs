use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::ssl::SslAcceptor;
use openssl::x509::X509NameBuilder;
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};

use super::*;

const OPTIONS: ClientOptions<'static> = ClientOptions {
    trust: Trust::System,
    https_only: true,
    timeout: Duration::from_secs(10),
    max_bytes: 100,
};

/// Answers one connection, and returns what it was sent.
fn serve(answer: impl Into<Vec<u8>>) -> (SocketAddr, JoinHandle<String>) {
    let answer = answer.into();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = std::thread::spawn(move || converse(listener.accept().unwrap().0, &answer));
    (address, served)
}

fn converse(mut stream: impl Read + Write, answer: &[u8]) -> String {
    let mut sent = Vec::new();
    let mut buffer = [0; 1024];
    while !sent.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer).unwrap() {
            0 => break,
            count => sent.extend(&buffer[..count]),
        }
    }
    stream.write_all(answer).unwrap();
    String::from_utf8(sent).unwrap()
}

fn client(address: SocketAddr) -> Client {
    let url = format!("http://{address}/ignored");
    Client::new(&url.parse().unwrap(), &OPTIONS).unwrap()
}

async fn get(client: &Client, uri: &str) -> Result<Response<Result<Bytes, Error>>, Error> {
    client.send(Request::get(uri).body(Vec::new()).unwrap()).await
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn a_request_goes_to_the_server_of_the_client_whatever_it_names() {
    for (uri, line) in [
        ("/a/b?c=d", "GET /a/b?c=d HTTP/1.1"),
        ("https://evil.example.com/a", "GET /a HTTP/1.1"),
        ("https://evil.example.com", "GET / HTTP/1.1"),
    ] {
        let (address, served) = serve(OK);
        let answer = get(&client(address), uri).await.unwrap();
        assert_eq!(answer.into_body(), Ok(Bytes::from("ok")));
        let sent = served.join().unwrap().to_ascii_lowercase();
        assert!(sent.starts_with(&line.to_ascii_lowercase()), "{sent}");
        assert!(sent.contains(&format!("host: {address}")), "{sent}");
        assert!(sent.contains(&format!("user-agent: {USER_AGENT}")), "{sent}");
    }
}

#[tokio::test]
async fn what_was_not_sent_is_told_from_what_may_have_been_carried_out() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = get(&client(closed), "/").await.unwrap_err();
    assert!(
        matches!(&error, Error::NotConnected(why) if why.contains("refused")),
        "{error:?}"
    );

    let (address, served) = serve("");
    let error = get(&client(address), "/").await.unwrap_err();
    assert!(matches!(error, Error::Interrupted(_)), "{error:?}");
    served.join().unwrap();

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = ClientOptions {
        timeout: Duration::from_millis(50),
        ..OPTIONS
    };
    let url = format!("http://{}", silent.local_addr().unwrap());
    let client = Client::new(&url.parse().unwrap(), &options).unwrap();
    let error = get(&client, "/").await.unwrap_err();
    assert_eq!(error.to_string(), "no answer within 50 ms");
}

#[tokio::test]
async fn the_status_is_known_of_an_answer_that_is_too_long_or_cut_off() {
    let head = |length| format!("HTTP/1.1 202 Accepted\r\ncontent-length: {length}\r\n\r\n");
    let (address, served) = serve(head(101) + &" ".repeat(101));
    let answer = get(&client(address), "/").await.unwrap();
    assert_eq!(answer.status(), 202);
    assert_eq!(answer.into_body(), Err(Error::TooLong(100)));
    served.join().unwrap();

    let (address, served) = serve(head(50) + "half of it");
    let answer = get(&client(address), "/").await.unwrap();
    assert_eq!(answer.status(), 202);
    assert!(matches!(answer.into_body(), Err(Error::Interrupted(_))));
    served.join().unwrap();
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (address, served) =
        serve("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(get(&client(address), "/").await.unwrap().status(), 302);
    served.join().unwrap();
}

#[test]
fn a_url_that_sends_a_token_in_the_open_or_names_no_server_is_refused_and_not_quoted() {
    let refused = |url: &str, https_only| {
        let options = ClientOptions {
            https_only,
            ..OPTIONS
        };
        let error = Client::new(&url.parse().unwrap(), &options).err()?;
        let text = error.to_string();
        assert!(!text.contains("swordfish"), "{text}");
        Some(text)
    };
    for url in [
        "https://swordfish.example.com",
        "http://127.0.0.1:1/swordfish",
        "http://localhost:1",
        "http://[::1]:1",
    ] {
        assert_eq!(refused(url, true), None, "{url}");
    }
    for (url, why) in [
        ("http://swordfish.example.com", "https only"),
        ("http://127.0.0.1.swordfish.example.com", "https only"),
        ("https://me:swordfish@example.com", "password"),
        ("ftp://swordfish.example.com", "neither"),
        ("swordfish.example.com:80", "https://"),
        ("/swordfish", "no host"),
    ] {
        let text = refused(url, true).unwrap();
        assert!(text.contains(why), "{url}: {text}");
    }
    assert_eq!(refused("http://swordfish.example.com", false), None);
}

/// A certificate of a server at 127.0.0.1 that is its own authority.
fn certificate() -> (X509, PKey<Private>) {
    let key = PKey::ec_gen("prime256v1").unwrap();
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", "cutover test").unwrap();
    let name = name.build();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    builder
        .set_serial_number(&BigNum::from_u32(1).unwrap().to_asn1_integer().unwrap())
        .unwrap();
    builder.set_subject_name(&name).unwrap();
    builder.set_issuer_name(&name).unwrap();
    builder.set_pubkey(&key).unwrap();
    builder
        .set_not_before(&Asn1Time::days_from_now(0).unwrap())
        .unwrap();
    builder
        .set_not_after(&Asn1Time::days_from_now(1).unwrap())
        .unwrap();
    builder
        .append_extension(BasicConstraints::new().ca().build().unwrap())
        .unwrap();
    let address = SubjectAlternativeName::new()
        .ip("127.0.0.1")
        .build(&builder.x509v3_context(None, None))
        .unwrap();
    builder.append_extension(address).unwrap();
    builder.sign(&key, MessageDigest::sha256()).unwrap();
    (builder.build(), key)
}

fn pem(certificate: &X509) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), certificate.to_pem().unwrap()).unwrap();
    file
}

/// Asks a server with a certificate by TLS; returns what came of it, and what the server was sent.
async fn by_tls(certificate: &X509, key: &PKey<Private>, trust: Trust<'_>) -> (Result<Bytes, Error>, String) {
    let mut acceptor = SslAcceptor::mozilla_intermediate(SslMethod::tls()).unwrap();
    acceptor.set_certificate(certificate).unwrap();
    acceptor.set_private_key(key).unwrap();
    let acceptor = acceptor.build();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let stream: TcpStream = listener.accept().unwrap().0;
        let stream = acceptor.accept(stream);
        stream.map_or(String::new(), |stream| converse(stream, OK.as_bytes()))
    });
    let options = ClientOptions { trust, ..OPTIONS };
    let client = Client::new(&url.parse().unwrap(), &options).unwrap();
    let answer = get(&client, "/").await.and_then(Response::into_body);
    (answer, served.join().unwrap())
}

#[tokio::test]
async fn a_server_whose_authority_is_not_trusted_is_sent_nothing() {
    let (certificate, key) = certificate();
    let file = pem(&certificate);
    for trust in [Trust::SystemAnd(file.path()), Trust::Only(file.path())] {
        let (answer, sent) = by_tls(&certificate, &key, trust).await;
        assert_eq!(answer, Ok(Bytes::from("ok")), "{trust:?}");
        assert!(sent.starts_with("GET /"), "{sent}");
    }
    let other = pem(&self::certificate().0);
    for trust in [
        Trust::System,
        Trust::SystemAnd(other.path()),
        Trust::Only(other.path()),
    ] {
        let (answer, sent) = by_tls(&certificate, &key, trust).await;
        let error = answer.unwrap_err();
        assert!(
            matches!(&error, Error::NotConnected(why) if why.contains("its certificate is not accepted")),
            "{error:?}"
        );
        assert_eq!(sent, "");
    }
}

#[test]
fn the_authorities_of_a_file_may_stand_alone_and_a_file_without_any_is_refused() {
    let file = pem(&certificate().0);
    let tls = connector(Trust::Only(file.path())).unwrap().build();
    assert_eq!(tls.context().cert_store().all_certificates().len(), 1);
    std::fs::write(file.path(), "no certificate").unwrap();
    for path in [file.path(), Path::new("/nowhere/ca.pem")] {
        let error = connector(Trust::SystemAnd(path)).err().unwrap().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
}
