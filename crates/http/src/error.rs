//! Why there is no answer, in words that never carry a credential.

use std::io;
use std::time::Duration;

use cutover_base::without_number;
use hyper_util::client::legacy;

/// Why there is no answer, or none that was read to its end. No text names a URL or a header: both may be secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There was no connection: nothing of the request was sent.
    #[error("{0}")]
    NotConnected(String),
    /// Whether the request was carried out is not known.
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
    /// Whether the request was carried out is not known.
    #[error("{0}")]
    Interrupted(String),
    #[error("the answer has more than {0} bytes")]
    TooLong(usize),
}

/// The request was cut off because the answer took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer within {}", in_words(self.0))]
pub struct TimedOut(pub Duration);

impl From<legacy::Error> for Error {
    fn from(error: legacy::Error) -> Self {
        if error.is_connect() {
            Self::NotConnected(with_causes(&error))
        } else {
            Self::Interrupted(with_causes(&error))
        }
    }
}

/// Returns an error with its causes on one line, each said once, in words of people: what clients say of their layers is left out.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    for layer in std::iter::successors(Some(error), |layer| layer.source()) {
        let Some(said) = in_plain_words(layer) else {
            continue;
        };
        if text.is_empty() {
            text = said;
        } else if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
    }
    text
}

/// What layers of clients say although their cause says it all.
const LAYERS: [&str; 4] = [
    "ServiceError: ",
    "client error (",
    "tcp connect error",
    "dns error",
];

/// Returns what one layer of an error says; `None`: its cause says it.
fn in_plain_words(layer: &(dyn std::error::Error + 'static)) -> Option<String> {
    let text = layer.to_string();
    if layer.source().is_some() && LAYERS.iter().any(|name| text.starts_with(name)) {
        return None;
    }
    if let Some(words) = layer.downcast_ref::<io::Error>().and_then(of_a_connection) {
        return Some(words.to_owned());
    }
    Some(
        if let Some(why) = text.strip_prefix("failed to lookup address information: ") {
            match why {
                "Name or service not known" => "no such host".to_owned(),
                why => format!("the name of the host cannot be resolved: {why}"),
            }
        } else if text.contains("SSL routines") {
            of_tls(&text)
        } else {
            without_number(&text).to_owned()
        },
    )
}

fn of_a_connection(error: &io::Error) -> Option<&'static str> {
    Some(match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::ConnectionReset => "the connection was reset",
        io::ErrorKind::HostUnreachable => "there is no route to the host",
        io::ErrorKind::NetworkUnreachable => "there is no route to its network",
        _ => return None,
    })
}

/// Returns what OpenSSL means: its texts name its functions and files, and the reason comes last.
fn of_tls(text: &str) -> String {
    if text.contains("certificate verify failed") {
        let why = text
            .rsplit(": ")
            .next()
            .filter(|why| !why.contains("SSL routines"));
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        return format!("its certificate is not accepted{why}");
    }
    if text.contains("wrong version number") {
        return "it does not speak TLS: is its address one with http://?".to_owned();
    }
    // error:NUMBER:LIBRARY:FUNCTION:REASON:FILE:LINE:
    let reason = text.split(':').nth(4).filter(|reason| !reason.is_empty());
    format!("TLS failed: {}", reason.unwrap_or(text))
}

fn in_words(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} ms", duration.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    #[test]
    fn every_cause_is_said_once() {
        let layer = |text, source| Some(Box::new(Layer { text, source }));
        let innermost = layer("connection refused", None);
        let error = Layer {
            text: "cannot connect",
            source: layer("tcp: connection refused", innermost),
        };
        assert_eq!(with_causes(&error), "cannot connect: tcp: connection refused");
    }

    #[test]
    fn a_connection_that_fails_is_told_in_plain_words() {
        let layers = |inner: io::Error, texts: &[&'static str]| {
            #[derive(Debug, thiserror::Error)]
            #[error("{text}")]
            struct Around {
                text: &'static str,
                source: Box<dyn std::error::Error + Send + Sync>,
            }
            let inner: Box<dyn std::error::Error + Send + Sync> = Box::new(inner);
            let around = texts
                .iter()
                .rev()
                .fold(inner, |source, text| Box::new(Around { text, source }));
            with_causes(around.as_ref())
        };
        let refused = io::Error::from_raw_os_error(111);
        let connect = [
            "ServiceError: client error (Connect)",
            "client error (Connect)",
            "tcp connect error",
        ];
        assert_eq!(layers(refused, &connect), "connection refused");
        for (text, expected) in [
            (
                "failed to lookup address information: Name or service not known",
                "no such host",
            ),
            (
                "failed to lookup address information: Temporary failure in name resolution",
                "the name of the host cannot be resolved: Temporary failure in name resolution",
            ),
            (
                "error:0A000086:SSL routines:tls_post_process_server_certificate:certificate verify failed:\
                 ssl/statem/statem_clnt.c:2125:: self-signed certificate",
                "its certificate is not accepted: self-signed certificate",
            ),
            (
                "error:0A00010B:SSL routines:tls_validate_record_header:wrong version number:ssl/record/methods/tlsany_meth.c:78:",
                "it does not speak TLS: is its address one with http://?",
            ),
            (
                "error:0A000410:SSL routines:ssl3_read_bytes:ssl/tls alert handshake failure:ssl/record/rec_layer_s3.c:918:",
                "TLS failed: ssl/tls alert handshake failure",
            ),
        ] {
            assert_eq!(
                layers(io::Error::other(text), &["client error (Connect)", "dns error"]),
                expected
            );
        }
        assert_eq!(
            layers(io::Error::from_raw_os_error(13), &["cannot read it"]),
            "cannot read it: Permission denied"
        );
    }

    #[test]
    fn a_time_limit_is_said_in_seconds_or_milliseconds() {
        let text = |millis| TimedOut(Duration::from_millis(millis)).to_string();
        assert_eq!(text(15_000), "no answer within 15 s");
        assert_eq!(text(250), "no answer within 250 ms");
    }
}
