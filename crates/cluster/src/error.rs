//! What goes wrong between cutover and an API server, in words that never carry a credential.

use std::sync::Arc;

use kube::client::AuthError;
use kube::core::Status;
use tower::BoxError;

use cutover_core::error::Kind;
use cutover_http::{TimedOut, with_causes};
use cutover_leadership::Refused;

/// Why a request to an API server gave no answer that could be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "no Karmada API server is configured: no kubeconfig was found, and this is not a pod with a service account"
    )]
    NotConfigured,
    #[error("cannot use the kubeconfig{}: {why}", from.as_deref().map(|from| format!(" {from}")).unwrap_or_default())]
    Kubeconfig { from: Option<String>, why: String },
    #[error("cannot get credentials for the API server: {why}")]
    Credentials { why: String },
    /// The API server answered with a `Status` that is a failure.
    #[error("{call}: {}", describe(status))]
    Refused { call: String, status: Box<Status> },
    #[error("{call}: {why}{}", server.as_deref().map(|server| format!(" from {server}")).unwrap_or_default())]
    TimedOut {
        call: String,
        why: TimedOut,
        server: Option<Arc<str>>,
    },
    #[error("{call}: {why}")]
    Unreachable { call: String, why: String },
    #[error("{call}: the answer cannot be understood: {why}")]
    Malformed { call: String, why: String },
    /// Writing is not this process's to do at the moment.
    #[error("{call}: {why}")]
    NotSent { call: String, why: Refused },
    #[error("not a name that an API server takes: {0:?}")]
    BadName(String),
    /// What was said of the Prometheus server can't be used.
    #[error("cannot ask Prometheus: {why}")]
    Metrics { why: String },
    #[error("{0} is not a Karmada control plane: it does not serve Karmada's API")]
    NotKarmada(String),
}

/// What went wrong between here and a server.
#[derive(Debug, thiserror::Error)]
#[error("cannot reach {server}")]
pub(super) struct Unreached {
    /// Its address, without credentials.
    pub(super) server: Arc<str>,
    #[source]
    pub(super) why: BoxError,
}

impl Error {
    /// Returns the refusal of the API server, when that is what it is.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Returns the HTTP code of a refusal; 0 when there was no answer.
    pub fn code(&self) -> u16 {
        self.status().map_or(0, |status| status.code)
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::NotConfigured
            | Self::Kubeconfig { .. }
            | Self::BadName(_)
            | Self::NotKarmada(_)
            | Self::Metrics { .. } => Kind::User,
            Self::Credentials { .. } => Kind::Auth,
            Self::TimedOut { .. } | Self::Unreachable { .. } => Kind::Unreachable,
            Self::Malformed { .. } => Kind::Internal,
            Self::NotSent { .. } => Kind::Conflict,
            Self::Refused { status, .. } => match status.code {
                401 | 403 => Kind::Auth,
                409 => Kind::Conflict,
                429 => Kind::Unreachable,
                500.. if !is_untyped(status) => Kind::Unreachable,
                _ => Kind::User,
            },
        }
    }

    /// Returns the next thing to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NotConfigured => {
                "pass --kubeconfig, set KUBECONFIG, or run `cutover demo`, which needs no cluster"
            }
            Self::Kubeconfig { .. } => "`kubectl config view` with the same file shows what is in it",
            Self::Credentials { .. } => "run the credential plugin named in the kubeconfig by hand",
            Self::TimedOut { .. } | Self::Unreachable { .. } => {
                "check the server's address in the kubeconfig, and that it can be reached from here"
            }
            Self::NotKarmada(_) => {
                "point --kubeconfig and --context at the Karmada API server, not at a member cluster or the cluster that hosts Karmada"
            }
            Self::Metrics { .. } => "see --prometheus-url, --prometheus-token-file and --prometheus-ca-file",
            Self::Malformed { .. } | Self::BadName(_) | Self::NotSent { .. } => return None,
            Self::Refused { status, .. } => return hint_of(status),
        })
    }

    /// Translates an error of the kube client, leaving out everything that could hold a credential.
    pub fn from_kube(call: impl Into<String>, error: kube::Error) -> Self {
        let call = call.into();
        match error {
            kube::Error::Api(status) => Self::Refused { call, status },
            kube::Error::Auth(error) => Self::Credentials {
                why: without_secrets(&error),
            },
            // Of credentials that are fetched anew with a request.
            kube::Error::Service(error) if auth_error(error.as_ref()).is_some() => Self::Credentials {
                why: auth_error(error.as_ref())
                    .map(without_secrets)
                    .unwrap_or_default(),
            },
            kube::Error::Service(error) => Self::of_service(call, error, None),
            kube::Error::SerdeError(error) => Self::Malformed {
                call,
                why: error.to_string(),
            },
            // Their texts repeat the proxy's address, which may hold a password.
            kube::Error::ProxyProtocolUnsupported { .. } | kube::Error::ProxyProtocolDisabled { .. } => {
                Self::Kubeconfig {
                    from: None,
                    why: "its proxy-url has a scheme that is not supported".to_owned(),
                }
            }
            other => Self::Unreachable {
                call,
                why: with_causes(&other),
            },
        }
    }

    /// Translates what [`Sender`](super::limits::Sender) says.
    fn of_service(call: String, error: BoxError, server: Option<Arc<str>>) -> Self {
        if let Some(why) = error.downcast_ref::<TimedOut>() {
            let why = *why;
            return Self::TimedOut { call, why, server };
        }
        let error = match error.downcast::<Refused>() {
            Ok(why) => return Self::NotSent { call, why: *why },
            Err(error) => error,
        };
        match error.downcast::<Unreached>() {
            Ok(unreached) if unreached.why.is::<TimedOut>() => {
                Self::of_service(call, unreached.why, Some(unreached.server))
            }
            Ok(unreached) => Self::Unreachable {
                call,
                why: with_causes(&*unreached),
            },
            Err(error) => Self::Unreachable {
                call,
                why: with_causes(error.as_ref()),
            },
        }
    }
}

impl From<Error> for cutover_core::error::Error {
    fn from(error: Error) -> Self {
        let told = Self::new(error.kind(), error.to_string());
        match error.hint() {
            Some(hint) => told.hint(hint).caused_by(error),
            None => told.caused_by(error),
        }
    }
}

/// Returns a refusal in words: the server's message, and its causes where the message leaves them out.
pub(super) fn describe(status: &Status) -> String {
    let mut text = match (status.message.trim(), status.reason.as_str()) {
        ("", "") => format!("HTTP {}", status.code),
        ("", reason) => reason.to_owned(),
        (message, _) => message.to_owned(),
    };
    for cause in status.details.iter().flat_map(|details| &details.causes) {
        if !cause.message.is_empty() && !text.contains(&cause.message) {
            text.push_str("; ");
            if !cause.field.is_empty() {
                text.push_str(&cause.field);
                text.push_str(": ");
            }
            text.push_str(&cause.message);
        }
    }
    text
}

fn hint_of(status: &Status) -> Option<&'static str> {
    Some(match status.code {
        401 => "the credentials were not accepted: are they expired?",
        403 => {
            "`kubectl auth can-i` with the same kubeconfig shows what is allowed; docs/how-to/operate.md#rbac lists what is needed"
        }
        409 => "another client changes the same fields: see who with `kubectl get --show-managed-fields`",
        429 => "the API server is overloaded; cutover tries again by itself",
        500.. if is_untyped(status) => "compare the field with `kubectl explain` of its kind",
        500.. => "look at the logs of karmada-apiserver and of its webhooks",
        _ => return None,
    })
}

/// How server-side apply refuses a manifest that doesn't fit the schema: with a 500.
const UNTYPED: &str = "failed to create typed patch object";
/// How a server says that it can't ask a webhook about an object, with a 500 too.
const WEBHOOK: &str = "failed calling webhook";

fn is_untyped(status: &Status) -> bool {
    status.message.starts_with(UNTYPED)
}

/// Returns whether the body of a 5xx answer is about one object, so that others may fare better.
pub(super) fn is_about_the_object(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    text.contains(UNTYPED) || text.contains(WEBHOOK)
}

/// What is wrong with a token that has a line break in it.
pub(super) const UNFIT: &str =
    "the credentials have characters that no header can carry, such as a line break";

fn auth_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a AuthError> {
    std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
}

fn without_secrets(error: &AuthError) -> String {
    match error {
        // Its command line has arguments and environment in it, and these may be credentials.
        AuthError::AuthExecRun { out, .. } => format!("the credential plugin failed ({})", out.status),
        AuthError::AuthExecStart(error) => format!("the credential plugin cannot be started: {error}"),
        AuthError::ReadTokenFile(error, path) => format!("{}: {error}", path.display()),
        AuthError::MissingCommand => "the credential plugin has no command".to_owned(),
        AuthError::InvalidBasicAuth(_) | AuthError::InvalidBearerToken(_) => UNFIT.to_owned(),
        _ => "the credential plugin gave an answer that cannot be used".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn refused(code: u16) -> Error {
        Error::Refused {
            call: "GET /x".into(),
            status: Status::failure("no", "").with_code(code).boxed(),
        }
    }

    #[test]
    fn refusals_say_who_can_do_something_about_them() {
        let kinds: Vec<_> = [401, 403, 404, 409, 422, 429, 503]
            .map(|code| refused(code).kind())
            .into();
        assert_eq!(
            kinds,
            [
                Kind::Auth,
                Kind::Auth,
                Kind::User,
                Kind::Conflict,
                Kind::User,
                Kind::Unreachable,
                Kind::Unreachable
            ]
        );
    }

    #[test]
    fn a_server_that_cannot_be_reached_is_named() {
        let server: Arc<str> = "https://karmada.example.com:5443/".into();
        let unreached = |why: BoxError| {
            let server = Arc::clone(&server);
            let error = kube::Error::Service(Box::new(Unreached { server, why }));
            Error::from_kube("cannot list", error)
        };
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let error = unreached(refused.into());
        assert_eq!(
            error.to_string(),
            "cannot list: cannot reach https://karmada.example.com:5443/: connection refused"
        );
        assert_eq!(error.kind(), Kind::Unreachable);
        let error = unreached(TimedOut(Duration::from_secs(15)).into());
        assert_eq!(
            error.to_string(),
            "cannot list: no answer within 15 s from https://karmada.example.com:5443/"
        );
        assert!(matches!(error, Error::TimedOut { .. }));
    }

    #[test]
    fn what_a_credential_plugin_printed_is_not_repeated() {
        let out = std::process::Command::new("sh")
            .args(["-c", "echo secret-token; exit 3"])
            .output()
            .unwrap();
        let error = || AuthError::AuthExecRun {
            cmd: r#"A="secret-env" "login" "--client-secret" "secret-arg""#.into(),
            out: Box::new(out.clone()),
        };
        // At the start, and when the token has expired.
        for error in [
            kube::Error::Auth(error()),
            kube::Error::Service(Box::new(error())),
        ] {
            let error = Error::from_kube("GET /x", error);
            let text = format!("{error} {error:?}");
            assert!(
                text.contains("the credential plugin failed (exit status: 3)"),
                "{text}"
            );
            assert!(!text.contains("secret-"), "{text}");
        }
    }
}
