//! What opens a repository, read at each use so that a rotated token or key is picked up; nothing is ever prompted for.

use std::path::{Path, PathBuf};

use git2::{Cred, CredentialType, ErrorClass, ErrorCode};

use super::known_hosts::{self, HostKeyCheck};
use super::url::{RemoteUrl, Transport};
use super::{Error, process};
use cutover_base::Secret;

/// How to authenticate, and which servers to trust. Credentials in the URL go before [`Credentials::https`].
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    pub https: HttpsCredentials,
    pub ssh: SshCredentials,
    /// Host keys to trust instead of those in `~/.ssh/known_hosts`. An unknown host is never trusted.
    pub known_hosts: Option<PathBuf>,
    /// Certificate authorities (PEM) to trust besides those of the system.
    pub ca_file: Option<PathBuf>,
}

/// Where the user name and the password of HTTP basic authentication come from.
#[derive(Clone, Debug, Default)]
pub enum HttpsCredentials {
    #[default]
    None,
    Token {
        /// Most servers take any name with a token; the default is [`TOKEN_USER`].
        user: Option<String>,
        token: Secret,
    },
    /// A token that something else rotates (a mounted Secret): read at each connection.
    TokenFile { user: Option<String>, path: PathBuf },
}

/// The user name sent with a token if none is given: GitHub wants this one for tokens of an App, others take any.
pub const TOKEN_USER: &str = "x-access-token";

#[derive(Clone, Debug, Default)]
pub enum SshCredentials {
    #[default]
    Agent,
    KeyFile {
        path: PathBuf,
        /// A file with the passphrase, if the key has one.
        passphrase_file: Option<PathBuf>,
    },
}

impl Credentials {
    /// Makes libgit2 trust [`Credentials::ca_file`]; checked here because libgit2 tells nothing of a file it can't read.
    pub(super) fn install(&self) -> Result<(), Error> {
        let Some(path) = &self.ca_file else {
            return Ok(());
        };
        let pem = read(path)?;
        let certificates = openssl::x509::X509::stack_from_pem(pem.as_bytes()).unwrap_or_default();
        if certificates.is_empty() {
            return Err(Error::Setting {
                path: path.clone(),
                why: "it has no certificate in PEM form".to_owned(),
            });
        }
        process::trust(path).map_err(|error| Error::Setting {
            path: path.clone(),
            why: error.message().to_owned(),
        })
    }

    /// Judges the host key of an SSH server; `None` leaves it to libgit2, which reads `~/.ssh/known_hosts`.
    pub(super) fn check_host_key(
        &self,
        url: &RemoteUrl,
        host: &str,
        key: Option<&[u8]>,
    ) -> Option<Result<(), Error>> {
        let path = self.known_hosts.as_ref()?;
        let Transport::Ssh(server) = url.transport() else {
            return None;
        };
        let verdict = || {
            let known = read(path)?;
            let why = match known_hosts::judge(&known, &server.host, server.port, key.unwrap_or_default()) {
                HostKeyCheck::Known if key.is_some() => return Ok(()),
                HostKeyCheck::Known | HostKeyCheck::Unknown => "it is not in",
                HostKeyCheck::Different => "it is not the one in",
                HostKeyCheck::Revoked => "it is revoked in",
            };
            Err(Error::HostKey {
                host: host.to_owned(),
                why: format!("{why} {}", path.display()),
            })
        };
        Some(verdict())
    }

    fn https(&self, url: &RemoteUrl) -> Result<Cred, Error> {
        let cred = |user: &str, password: &str| {
            Cred::userpass_plaintext(user, password).map_err(|error| auth(url, error.message()))
        };
        if let Some(info) = url.userinfo() {
            return cred(info.user.reveal(), info.password.reveal());
        }
        let user_or_default = |user: &Option<String>| user.clone().unwrap_or_else(|| TOKEN_USER.to_owned());
        match &self.https {
            HttpsCredentials::None => Err(auth(url, "the server wants credentials and none are configured")),
            HttpsCredentials::Token { user, token } => cred(&user_or_default(user), token.reveal()),
            HttpsCredentials::TokenFile { user, path } => {
                cred(&user_or_default(user), first_line(&read(path)?))
            }
        }
    }

    fn ssh(&self, url: &RemoteUrl, user: &str) -> Result<Cred, Error> {
        let cred = match &self.ssh {
            SshCredentials::Agent => Cred::ssh_key_from_agent(user),
            SshCredentials::KeyFile {
                path,
                passphrase_file,
            } => {
                let passphrase = passphrase_file.as_deref().map(read).transpose()?;
                // Read here: libssh2 reports a missing file as a wrong key.
                read(path)?;
                Cred::ssh_key(user, None, path, passphrase.as_deref().map(first_line))
            }
        };
        cred.map_err(|error| auth(url, error.message()))
    }
}

/// Answers the credentials callback of one connection. libgit2 asks again when a server refuses: the second time is an
/// error, or a wrong token would be sent for ever.
#[derive(Debug, Default)]
pub(super) struct Answers {
    given: bool,
}

impl Answers {
    pub(super) fn answer(
        &mut self,
        credentials: &Credentials,
        url: &RemoteUrl,
        asked_by: &str,
        allowed: CredentialType,
    ) -> Result<Cred, Error> {
        let user = match url.transport() {
            Transport::Ssh(server) => server.user.as_deref().unwrap_or("git"),
            _ => TOKEN_USER,
        };
        if allowed == CredentialType::USERNAME {
            return Cred::username(user).map_err(|error| auth(url, error.message()));
        }
        // `asked_by` is where a redirect led: a token is for the server it was given for, no other.
        if matches!(url.transport(), Transport::Http(_)) && !url.same_server(asked_by) {
            return Err(auth(
                url,
                "it redirects to another server, which wants credentials",
            ));
        }
        if self.given {
            return Err(auth(url, "the server did not accept the credentials"));
        }
        self.given = true;
        if allowed.contains(CredentialType::SSH_KEY) {
            credentials.ssh(url, user)
        } else if allowed.contains(CredentialType::USER_PASS_PLAINTEXT)
            && matches!(url.transport(), Transport::Http(_))
        {
            credentials.https(url)
        } else {
            Err(auth(
                url,
                "the server offers no way to authenticate that is supported",
            ))
        }
    }
}

/// What libgit2 is told when a callback fails; the real error is kept beside (see `remote`).
pub(super) fn refusal() -> git2::Error {
    git2::Error::new(ErrorCode::Auth, ErrorClass::Callback, "refused by cutover")
}

fn auth(url: &RemoteUrl, why: &str) -> Error {
    Error::Auth {
        url: url.clone(),
        why: why.to_owned(),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim()
}

fn read(path: impl AsRef<Path>) -> Result<String, Error> {
    let path = path.as_ref();
    std::fs::read_to_string(path).map_err(|error| Error::Setting {
        path: path.to_owned(),
        why: error.to_string(),
    })
}
