//! What can go wrong with Git, and what people are told about it. No message holds credentials.

use std::io;
use std::path::PathBuf;
use std::sync::LazyLock;

use cutover_base::budget::Exceeded;
use cutover_base::without_number;
use cutover_core::error::Kind;
use cutover_core::manifest::Obstacle;
use cutover_karmada::name::Revision;
use cutover_leadership::Refused;

use super::blob_id::BlobId;
use super::url::{RemoteUrl, scrub};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("not a Git URL that can be used: {url}: {why}")]
    Url { url: String, why: &'static str },
    #[error("not a branch name: {0:?}")]
    BranchName(String),
    #[error("cannot use {}: {why}", path.display())]
    Setting { path: PathBuf, why: String },
    #[error("cannot authenticate to {url}: {why}")]
    Auth { url: RemoteUrl, why: String },
    #[error("cannot trust {host}: its host key is not accepted: {why}")]
    HostKey { host: String, why: String },
    #[error("cannot trust {url}: {why}")]
    Certificate { url: RemoteUrl, why: String },
    #[error("cannot reach {url}: {why}")]
    Unreachable { url: RemoteUrl, why: String },
    #[error("interrupted")]
    Interrupted,
    #[error("no Git repository at {url}: {why}")]
    NoRepository { url: RemoteUrl, why: String },
    #[error("{url} has no branch {branch}")]
    NoBranch { url: RemoteUrl, branch: String },
    #[error("another process uses {}", .0.display())]
    InUse(PathBuf),
    #[error("cannot use the state directory {}: {source}", path.display())]
    State { path: PathBuf, source: std::io::Error },
    /// A forced push may have taken the commit away.
    #[error("no commit {0} in the mirror")]
    UnknownRevision(Revision),
    #[error("the mirror is damaged: {0}")]
    Damaged(String),
    #[error("{what} is larger than the limit of {limit} bytes: {size} bytes")]
    TooLarge { what: String, size: usize, limit: usize },
    #[error(transparent)]
    OverBudget(#[from] Exceeded),
    #[error("cannot read {path}: {why}")]
    NotAFile { path: String, why: Obstacle },
    /// What is stored there doesn't check out: asking again doesn't help.
    #[error("the repository at {url} is damaged: {why}")]
    Corrupt { url: RemoteUrl, why: String },
    /// libgit2 reads less than Git writes, for instance no date beyond 64 bits.
    #[error("cannot read commit {revision} of {url}: {why}")]
    BadCommit {
        url: RemoteUrl,
        revision: Revision,
        why: String,
    },
    /// Somebody committed it so: no mirror has it in another way.
    #[error("{0} is committed as the content of a file, and is none")]
    NotABlob(BlobId),
    #[error("{url} sends more than it may: the limit is {limit} bytes")]
    TooMuch { url: RemoteUrl, limit: u64 },
    #[error("cannot publish to a path such as {0:?}")]
    BadPath(String),
    #[error("branch {branch} moved under each of {attempts} attempts to publish")]
    Conflict { branch: String, attempts: u32 },
    /// The server has a rule against it: trying again would not help.
    #[error("{url} refuses pushes to branch {branch}: {reason}")]
    Refused {
        url: RemoteUrl,
        branch: String,
        reason: String,
    },
    /// The branch is somebody's, and not for status.
    #[error("status cannot be committed to branch {branch} of {url}: {why}")]
    NotOurs {
        url: RemoteUrl,
        branch: String,
        why: &'static str,
    },
    /// Publishing is not this process's to do at the moment.
    #[error("cannot publish: {0}")]
    NotPushed(Refused),
    /// What the callback of a publish failed with.
    #[error("cannot draft the commit")]
    Draft(#[source] Box<cutover_core::error::Error>),
    #[error("Git: {0}")]
    Git(String),
}

impl Error {
    pub(super) fn not_a_file(path: &str, why: Obstacle) -> Self {
        Self::NotAFile {
            path: path.to_owned(),
            why,
        }
    }

    /// Returns who can do something about it.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Auth { .. }
            | Self::HostKey { .. }
            | Self::Certificate { .. }
            | Self::Refused { .. }
            | Self::NotOurs { .. } => Kind::Auth,
            Self::Unreachable { .. } | Self::Interrupted => Kind::Unreachable,
            Self::Conflict { .. } | Self::InUse(_) | Self::NotPushed(_) => Kind::Conflict,
            Self::BadPath(_) => Kind::Internal,
            Self::Draft(error) => error.kind(),
            _ => Kind::User,
        }
    }

    /// Returns the next thing to do, where there is one.
    pub const fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Url { .. } => "use a path, or a file, ssh, http, https or git URL",
            Self::Auth { .. } => {
                "check the token or the key, and that it may read (and, to publish, write) the repository"
            }
            Self::HostKey { .. } => {
                "add the host's keys to known_hosts (ssh-keyscan prints them; compare them with what the host's owner publishes)"
            }
            Self::Certificate { .. } => {
                "if the server has a private certificate authority, pass its certificate as CA file"
            }
            Self::NoRepository { .. } => {
                "check the URL; servers also answer so when the credentials may not see the repository"
            }
            Self::NotAFile { .. } => "put a regular file there",
            Self::NoBranch { .. } => "push the branch, or name another one",
            Self::State { .. } => {
                "check that the directory is writable, that its disk has space, and that the process may open enough files \
                 (ulimit -n)"
            }
            Self::InUse(_) => "give each process a state directory of its own",
            Self::TooLarge { .. } => {
                "split the file, or raise the limit where cutover runs: --budget file-bytes=NUMBER"
            }
            Self::NotABlob(_) => "commit the file again",
            Self::Damaged(_) => "the next fetch recreates the mirror",
            Self::Refused { .. } => {
                "exempt the status branch from branch protection and hooks for this identity, or name another status branch"
            }
            Self::Corrupt { .. } => {
                "look for the damage there (git fsck --full), and restore the objects from another clone"
            }
            Self::BadCommit { .. } => {
                "rewrite the commit (git show --format=raw shows its dates) and push by force; a server with receive.fsckObjects=true refuses such commits"
            }
            Self::TooMuch { .. } => {
                "check that it is the repository that is meant; one that is larger needs a higher --git-receive-limit, one with more than 500,000 branches and tags fewer of them"
            }
            Self::NotOurs { .. } => {
                "name a branch in cutover.yaml that doesn't exist yet, or one that cutover made: status: {branch: cutover-status}"
            }
            Self::Conflict { .. } => {
                "something else pushes to the status branch all the time: give it a branch of its own"
            }
            _ => return None,
        })
    }

    /// Says whether it is about one content as it was committed: others can be read, and this one never.
    pub const fn is_of_content(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::NotABlob(_))
    }

    /// Says whether only a new mirror helps.
    pub(super) const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }
}

impl From<Error> for cutover_core::error::Error {
    fn from(error: Error) -> Self {
        if let Error::OverBudget(exceeded) = error {
            return exceeded.into();
        }
        let mapped = Self::new(error.kind(), error.to_string());
        let mapped = match error.hint() {
            Some(hint) => mapped.hint(hint),
            None => mapped,
        };
        match error {
            Error::Draft(source) => mapped.caused_by(*source),
            _ => mapped,
        }
    }
}

/// Errors of libgit2 about the mirror itself; those of a conversation with a server go through [`classify`].
impl From<git2::Error> for Error {
    fn from(error: git2::Error) -> Self {
        use git2::{ErrorClass as Class, ErrorCode as Code};
        let why = scrub(error.message());
        match (error.code(), error.class()) {
            _ if is_shortage(&why) => Self::Git(why),
            (
                Code::NotFound,
                Class::Odb | Class::Object | Class::Tree | Class::Reference | Class::Repository | Class::Os,
            )
            | (_, Class::Odb | Class::Zlib | Class::Indexer | Class::Object | Class::Tree) => {
                Self::Damaged(why)
            }
            _ => Self::Git(why),
        }
    }
}

/// `ENOMEM`, `ENFILE`, `EMFILE`, `ENOSPC`: the same numbers on every Unix.
const SHORTAGES: [i32; 4] = [12, 23, 24, 28];

/// What the system calls these shortages: libgit2 tells the words, and not the number.
static SHORTAGE_WORDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let words = SHORTAGES
        .iter()
        .map(|code| io::Error::from_raw_os_error(*code).to_string());
    let bare = words.map(|words| match words.split_once(" (os error") {
        Some((bare, _)) => bare.to_owned(),
        None => words,
    });
    bare.collect()
});

/// Returns whether a message tells of a lack of descriptors, memory or space. That says nothing of what is in a file.
pub(super) fn is_shortage(message: &str) -> bool {
    SHORTAGE_WORDS
        .iter()
        .any(|words| message.contains(words.as_str()))
}

/// Turns what libgit2 says after a conversation with a server into an error that people can act on.
pub(super) fn classify(url: &RemoteUrl, error: &git2::Error) -> Error {
    use git2::{ErrorClass as Class, ErrorCode as Code};
    let why = scrub(error.message());
    let (url, why) = (url.clone(), without_number(&why).to_owned());
    let says = |part: &str| why.contains(part);
    match (error.code(), error.class()) {
        (Code::Certificate, Class::Ssh) => Error::HostKey {
            host: url.to_string(),
            why: "it is not in ~/.ssh/known_hosts".to_owned(),
        },
        (Code::Certificate, _) => Error::Certificate { url, why },
        (_, Class::Ssl) if says("certificate") => Error::Certificate { url, why },
        (Code::Auth, _) => Error::Auth { url, why },
        _ if says("status code: 401") || says("status code: 403") => Error::Auth { url, why },
        _ if says("status code: 404") || says("not exported") => Error::NoRepository { url, why },
        (Code::Owner, _) => Error::NoRepository {
            url,
            why: "it belongs to another user (git config --global --add safe.directory makes an exception)"
                .to_owned(),
        },
        // Over ssh a server says why in words, and hangs up.
        (_, Class::Ssh) if is_denial(&why) => Error::Auth { url, why },
        (Code::NotFound, Class::Repository | Class::Os) if url.local_path().is_some() => {
            Error::NoRepository { url, why }
        }
        (Code::Timeout | Code::Eof, _)
        | (_, Class::Net | Class::Http | Class::Ssl | Class::Ssh | Class::Os) => {
            Error::Unreachable { url, why }
        }
        // A pack that doesn't check out; one that breaks off is an error of the network.
        (_, Class::Indexer | Class::Zlib) => Error::Corrupt { url, why },
        // The mirror is only written to, so it is an object over there.
        (_, Class::Odb | Class::Object | Class::Tree) if url.local_path().is_some() => {
            Error::Corrupt { url, why }
        }
        _ => Error::from(git2::Error::new(error.code(), error.class(), why)),
    }
}

/// Says whether somebody isn't allowed something, by the words of GitHub (deploy keys, archived repositories), GitLab, Gitea,
/// Bitbucket and gitolite.
fn is_denial(words: &str) -> bool {
    const DENIALS: &[&str] = &[
        "read only",
        "read-only",
        "not allowed",
        "denied",
        "not permitted",
        "not authorized",
        "unauthorized",
        "forbidden",
    ];
    let words = words.to_ascii_lowercase();
    DENIALS.iter().any(|denial| words.contains(denial))
}

#[cfg(test)]
mod tests {
    use git2::{ErrorClass, ErrorCode};

    use super::*;

    #[test]
    fn what_is_stored_damaged_is_no_network_to_wait_for() {
        for (url, class) in [
            ("/srv/fleet.git", ErrorClass::Zlib),
            ("/srv/fleet.git", ErrorClass::Odb),
            ("https://git.example.com/fleet", ErrorClass::Indexer),
            ("https://git.example.com/fleet", ErrorClass::Zlib),
        ] {
            let error = git2::Error::new(ErrorCode::GenericError, class, "it doesn't inflate");
            let error = classify(&url.parse().unwrap(), &error);
            assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
            assert_eq!(error.kind(), Kind::User);
        }
    }

    #[test]
    fn a_shortage_is_no_damage() {
        for code in SHORTAGES {
            let words = io::Error::from_raw_os_error(code).to_string();
            let words = words.split(" (os error").next().unwrap();
            for class in [
                ErrorClass::Os,
                ErrorClass::Odb,
                ErrorClass::Zlib,
                ErrorClass::Object,
            ] {
                for kind in [ErrorCode::GenericError, ErrorCode::NotFound] {
                    let message = format!("failed to open '/state/mirror.git/HEAD': {words}");
                    let error = Error::from(git2::Error::new(kind, class, message));
                    assert!(!error.is_damage(), "{class:?}: {error}");
                }
            }
        }
        let missing = git2::Error::new(ErrorCode::NotFound, ErrorClass::Odb, "object not found");
        assert!(Error::from(missing).is_damage());
    }

    #[test]
    fn who_may_not_is_told_from_who_cannot_reach_a_server() {
        let url: RemoteUrl = "git@git.example.com:shop/fleet.git".parse().unwrap();
        let of = |code, class, words: &str| classify(&url, &git2::Error::new(code, class, words)).kind();
        for words in [
            "ERROR: The key you are authenticating with has been marked as read only.",
            "ERROR: This repository was archived so it is read-only.",
            "ERROR: You are not allowed to push code to this project.",
            "Gitea: Unauthorized",
            "FATAL: W any shop/fleet cutover DENIED by fallthru",
        ] {
            assert_eq!(of(ErrorCode::Eof, ErrorClass::Ssh, words), Kind::Auth, "{words}");
        }
        for words in [
            "unexpected http status code: 403",
            "unexpected http status code: 401",
        ] {
            assert_eq!(
                of(ErrorCode::GenericError, ErrorClass::Http, words),
                Kind::Auth,
                "{words}"
            );
        }
        for words in ["Connection reset by peer", "Failed to write to channel"] {
            assert_eq!(
                of(ErrorCode::GenericError, ErrorClass::Ssh, words),
                Kind::Unreachable,
                "{words}"
            );
        }
    }
}
