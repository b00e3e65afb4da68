//! Conversations with the remote repository: what it has, download, push. Blocking; knows nothing of the mirror's life.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use git2::{
    CertificateCheckStatus, Direction, ErrorClass, ErrorCode, FetchOptions, Oid, ProxyOptions, PushOptions,
    Remote, RemoteCallbacks, Repository, RepositoryInitOptions,
};
use tokio_util::sync::CancellationToken;

use super::budget::{Budget, Spent};
use super::credentials::{Answers, Credentials, refusal};
use super::error::classify;
use super::url::scrub;
use super::{Error, RemoteUrl, local, log, process};

/// The most that is kept of what a server says during a push.
const SAID_LIMIT: usize = 4096;

/// How to reach a remote repository.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) url: RemoteUrl,
    pub(super) credentials: Credentials,
    /// For one conversation as a whole; a silent server is given up much earlier (see `process`).
    pub(super) timeout: Duration,
    /// The most that is received in one conversation.
    pub(super) most_bytes: u64,
    pub(super) cancel: CancellationToken,
}

/// What became of a push.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Push {
    Done,
    /// The branch is not where it was expected: somebody else pushed.
    Moved,
    /// The server won't have it, in its own words.
    Refused(String),
}

/// Where branches are at a remote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tips {
    /// Those of the branches asked for that exist.
    pub(super) branches: BTreeMap<String, Oid>,
    pub(super) head: Head,
}

/// What the remote says of its default branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Head {
    /// There is none, or it is a commit that was checked out.
    #[default]
    None,
    Branch(String),
    /// A server that doesn't say which branch it is.
    At(Oid),
}

impl Tips {
    pub(super) fn get(&self, branch: &str) -> Option<Oid> {
        self.branches.get(branch).copied()
    }

    /// Says whether a branch is the default one; yes, if that can't be told.
    pub(super) fn may_be_default(&self, branch: &str) -> bool {
        match &self.head {
            Head::None => false,
            Head::Branch(name) => name == branch,
            Head::At(tip) => self.get(branch) == Some(*tip),
        }
    }
}

/// Where a push may take a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    /// To a commit that has the present one in its history.
    Forward,
    Anywhere,
}

/// The name under which the mirror keeps a branch of the remote.
pub(super) fn tracking(branch: &str) -> String {
    format!("refs/remotes/origin/{branch}")
}

impl Access {
    /// Asks where branches are, and downloads what the mirror lacks of them: one round trip if that is nothing.
    ///
    /// Returns the tips of those branches that exist. References of the mirror are left as they are.
    pub(super) fn fetch(&self, mirror: &Repository, branches: &[&str]) -> Result<Tips, Error> {
        if let Some(path) = self.url.local_path() {
            let result = local::open(path).and_then(|remote| local::fetch(mirror, &remote, branches));
            return result.map_err(|error| classify(&self.url, &error));
        }
        let call = Call::new(self);
        call.explain(call.fetch(mirror, branches))
    }

    /// Copies commits, with all they need, from a repository on this machine, whatever branch they are on; does nothing
    /// with one elsewhere, of which only branches are fetched.
    pub(super) fn obtain(&self, mirror: &Repository, commits: &[Oid]) -> Result<(), Error> {
        let Some(path) = self.url.local_path() else {
            return Ok(());
        };
        let result = local::open(path).and_then(|remote| local::obtain(mirror, &remote, commits));
        result.map_err(|error| classify(&self.url, &error))
    }

    /// Asks where a branch stands, and fetches nothing; `None`: there is no such branch.
    pub(super) fn tip(&self, mirror: &Repository, branch: &str) -> Result<Option<Oid>, Error> {
        if let Some(path) = self.url.local_path() {
            let tip = local::open(path).and_then(|remote| local::tip(&remote, branch));
            return tip.map_err(|error| classify(&self.url, &error));
        }
        let call = Call::new(self);
        call.explain(call.tip(mirror, branch))
    }

    /// Begins a push and sends nothing: a server says by then whether it lets this identity in.
    pub(super) fn try_push(&self, mirror: &Repository) -> Result<(), Error> {
        if let Some(path) = self.url.local_path() {
            return local::try_push(path).map_err(|error| classify(&self.url, &error));
        }
        let call = Call::new(self);
        call.explain(call.try_push(mirror))
    }

    /// Pushes `commit` to `branch` if it still is at `expected` (`None`: doesn't exist): compare-and-swap.
    ///
    /// The parent of `commit` must be `expected`, and its objects in the mirror. Two comparisons make the swap exact:
    /// - libgit2 reads the branch's tip at the start of the push; `push_negotiation` compares it with `expected`. (Git's
    ///   fast-forward rule alone would not do: it also lets a commit through after the branch was reset to an ancestor.)
    /// - the push names that tip as the old value, and the server changes the branch only if it still has it.
    pub(super) fn push(
        &self,
        mirror: &Repository,
        branch: &str,
        commit: Oid,
        expected: Option<Oid>,
    ) -> Result<Push, Error> {
        self.swap(mirror, branch, commit, expected, Move::Forward)
    }

    /// The same for a commit that has another history than `expected`.
    pub(super) fn replace(
        &self,
        mirror: &Repository,
        branch: &str,
        commit: Oid,
        expected: Oid,
    ) -> Result<Push, Error> {
        self.swap(mirror, branch, commit, Some(expected), Move::Anywhere)
    }

    fn swap(
        &self,
        mirror: &Repository,
        branch: &str,
        commit: Oid,
        expected: Option<Oid>,
        how: Move,
    ) -> Result<Push, Error> {
        let refname = format!("refs/heads/{branch}");
        if let Some(path) = self.url.local_path() {
            let result =
                local::open(path).and_then(|remote| local::push(mirror, &remote, &refname, commit, expected));
            return result.map_err(|error| classify(&self.url, &error));
        }
        let old = expected.unwrap_or(Oid::ZERO_SHA1);
        let call = Call::new(self);
        let result = call.push(mirror, &refname, commit, old, how);
        let Err(error) = &result else {
            return call.judge_push(result, how);
        };
        if call.has_heard() || !log::stumbles(mirror, error) {
            return call.judge_push(result, how);
        }
        // libgit2 walks from every branch that both have before it pushes one, and gives up at a commit that it can't read. Where
        // there is only what is pushed, it doesn't come there.
        let folder = tempfile::tempdir_in(mirror.path()).map_err(|source| Error::State {
            path: mirror.path().to_owned(),
            source,
        })?;
        let alone = Repository::init_opts(
            folder.path(),
            RepositoryInitOptions::new().bare(true).external_template(false),
        )?;
        local::copy(mirror, &alone, &[commit], &[])?;
        let call = Call::new(self);
        let result = call.push(&alone, &refname, commit, old, how);
        call.judge_push(result, how)
    }
}

/// One conversation: its budget, and what callbacks learned that libgit2's error doesn't tell.
struct Call<'a> {
    access: &'a Access,
    budget: Arc<Budget>,
    heard: RefCell<Heard>,
}

#[derive(Default)]
struct Heard {
    failure: Option<Error>,
    moved: bool,
    /// The server's verdict on the branch.
    status: Option<String>,
    said: Vec<u8>,
}

impl<'a> Call<'a> {
    fn new(access: &'a Access) -> Self {
        process::settle();
        Self {
            access,
            budget: Budget::new(access.timeout, access.most_bytes, access.cancel.clone()),
            heard: RefCell::default(),
        }
    }

    fn fetch(&self, mirror: &Repository, branches: &[&str]) -> Result<Tips, git2::Error> {
        let _conversation = self.budget.begin();
        let mut remote = mirror.remote_anonymous(self.access.url.address())?;
        let mut connection = remote.connect_auth(Direction::Fetch, Some(self.callbacks()), Some(proxy()))?;
        let mut tips = Tips::default();
        for head in connection.list()? {
            if head.name() == "HEAD" {
                let branch = head
                    .symref_target()
                    .and_then(|name| name.strip_prefix("refs/heads/"));
                tips.head = branch.map_or(Head::At(head.oid()), |name| Head::Branch(name.to_owned()));
            }
            if let Some(branch) = head.name().strip_prefix("refs/heads/")
                && branches.contains(&branch)
            {
                tips.branches.insert(branch.to_owned(), head.oid());
            }
        }
        self.budget.begin_negotiation();
        let missing: Vec<String> = tips
            .branches
            .iter()
            .filter(|(branch, tip)| mirror.refname_to_id(&tracking(branch)).ok() != Some(**tip))
            .map(|(branch, _)| format!("+refs/heads/{branch}:{}", tracking(branch)))
            .collect();
        if !missing.is_empty() {
            let mut options = FetchOptions::new();
            options
                .remote_callbacks(self.callbacks())
                .proxy_options(proxy())
                .download_tags(git2::AutotagOption::None);
            connection.remote().download(&missing, Some(&mut options))?;
        }
        Ok(tips)
    }

    fn tip(&self, mirror: &Repository, branch: &str) -> Result<Option<Oid>, git2::Error> {
        let _conversation = self.budget.begin();
        let mut remote = mirror.remote_anonymous(self.access.url.address())?;
        let connection = remote.connect_auth(Direction::Fetch, Some(self.callbacks()), Some(proxy()))?;
        let name = format!("refs/heads/{branch}");
        let heads = connection.list()?;
        let tip = heads.iter().find(|head| head.name() == name);
        Ok(tip.map(git2::RemoteHead::oid))
    }

    fn try_push(&self, mirror: &Repository) -> Result<(), git2::Error> {
        let _conversation = self.budget.begin();
        let mut remote = mirror.remote_anonymous(self.access.url.address())?;
        let connection = remote.connect_auth(Direction::Push, Some(self.callbacks()), Some(proxy()))?;
        connection.list().map(drop)
    }

    fn push(
        &self,
        mirror: &Repository,
        refname: &str,
        commit: Oid,
        expected: Oid,
        how: Move,
    ) -> Result<(), git2::Error> {
        let _conversation = self.budget.begin();
        let mut callbacks = self.callbacks();
        callbacks.push_negotiation(move |updates| {
            if updates.iter().all(|update| update.src() == expected) {
                return Ok(());
            }
            self.heard.borrow_mut().moved = true;
            Err(git2::Error::new(
                ErrorCode::Modified,
                ErrorClass::Callback,
                "moved",
            ))
        });
        callbacks.push_update_reference(|_, status| {
            self.heard.borrow_mut().status = status.map(str::to_owned);
            Ok(())
        });
        let mut options = PushOptions::new();
        options.remote_callbacks(callbacks).proxy_options(proxy());
        let mut remote: Remote<'_> = mirror.remote_anonymous(self.access.url.address())?;
        let force = if how == Move::Anywhere { "+" } else { "" };
        remote.push(&[format!("{force}{commit}:{refname}")], Some(&mut options))
    }

    fn callbacks(&self) -> RemoteCallbacks<'_> {
        let access = self.access;
        let mut answers = Answers::default();
        let mut callbacks = RemoteCallbacks::new();
        callbacks
            .credentials(move |asked_by, _, allowed| {
                self.keep(answers.answer(&access.credentials, &access.url, asked_by, allowed))
            })
            .certificate_check(move |certificate, host| {
                let key = certificate.as_hostkey();
                let verdict = key.and_then(|key| {
                    access
                        .credentials
                        .check_host_key(&access.url, host, key.hostkey())
                });
                match verdict {
                    Some(verdict) => self.keep(verdict).map(|()| CertificateCheckStatus::CertificateOk),
                    None => Ok(CertificateCheckStatus::CertificatePassthrough),
                }
            })
            .transfer_progress(|_| {
                self.budget.begin_pack();
                self.go_on()
            })
            .sideband_progress(|text| {
                let mut heard = self.heard.borrow_mut();
                let room = SAID_LIMIT.saturating_sub(heard.said.len());
                heard.said.extend_from_slice(&text[..text.len().min(room)]);
                drop(heard);
                self.go_on()
            });
        callbacks
    }

    /// Says whether to go on; libgit2 asks on every piece that arrives.
    fn go_on(&self) -> bool {
        self.budget.goes_on()
    }

    /// Returns why the conversation was ended before its end, if it was.
    fn ended(&self) -> Option<Error> {
        let url = self.access.url.clone();
        Some(match self.budget.spent()? {
            Spent::Cancelled => Error::Interrupted,
            Spent::Time => Error::Unreachable {
                url,
                why: format!("not done within {} s", self.access.timeout.as_secs()),
            },
            Spent::Bytes(limit) => Error::TooMuch { url, limit },
        })
    }

    fn keep<T>(&self, result: Result<T, Error>) -> Result<T, git2::Error> {
        result.map_err(|error| {
            self.heard.borrow_mut().failure.get_or_insert(error);
            refusal()
        })
    }

    fn explain<T>(&self, result: Result<T, git2::Error>) -> Result<T, Error> {
        result.map_err(|error| {
            let known = self.heard.borrow_mut().failure.take();
            known
                .or_else(|| self.ended())
                .unwrap_or_else(|| classify(&self.access.url, &error))
        })
    }

    /// Returns whether it is known what came of it: then no commit of the mirror stood in the way.
    fn has_heard(&self) -> bool {
        let heard = self.heard.borrow();
        heard.moved || heard.status.is_some() || heard.failure.is_some()
    }

    fn judge_push(&self, result: Result<(), git2::Error>, how: Move) -> Result<Push, Error> {
        let (moved, status) = {
            let mut heard = self.heard.borrow_mut();
            (heard.moved, heard.status.take())
        };
        match (result, status) {
            (Err(error), _) if moved || error.code() == ErrorCode::NotFastForward => Ok(Push::Moved),
            // The server took the commits and couldn't keep them: too large, no space, no permission.
            (Err(error), _) if error.message().contains("unpacking the sent packfile failed") => {
                Ok(Push::Refused(self.words("it cannot store the commits")))
            }
            (Err(error), _) => self.explain(Err(error)),
            (Ok(()), None) => Ok(Push::Done),
            // The server lets nobody rewrite a history: that is no race.
            (Ok(()), Some(status)) if how == Move::Anywhere && status.contains("non-fast-forward") => {
                Ok(Push::Refused(self.words(&status)))
            }
            (Ok(()), Some(status)) if is_race(&status) => Ok(Push::Moved),
            (Ok(()), Some(status)) => Ok(Push::Refused(self.words(&status))),
        }
    }

    /// Returns the verdict on the branch together with what the server said to explain it.
    fn words(&self, status: &str) -> String {
        let heard = self.heard.borrow();
        let said = String::from_utf8_lossy(&heard.said);
        let said: Vec<&str> = said.split_whitespace().collect();
        let words = if said.is_empty() {
            status.to_owned()
        } else {
            format!("{status} ({})", said.join(" "))
        };
        scrub(&words)
    }
}

fn proxy() -> ProxyOptions<'static> {
    let mut proxy = ProxyOptions::new();
    proxy.auto();
    proxy
}

/// Tells a lost race from a refusal, by the words of git's `receive-pack` (also behind GitHub and Gitea) and of Gitaly
/// (GitLab). All else (hooks, protected branches, read-only or hidden references) would be refused again.
fn is_race(status: &str) -> bool {
    const RACES: &[&str] = &[
        "fetch first",
        "non-fast-forward",
        "failed to update ref",
        "failed to lock",
        "cannot lock ref",
        "reference already exists",
        "incorrect old value provided",
        "stale info",
        "reference update failed",
        "reference does not point to expected object",
    ];
    let status = status.to_ascii_lowercase();
    RACES.iter().any(|race| status.contains(race))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use super::*;

    #[test]
    fn lost_races_are_told_from_refusals() {
        for race in [
            "failed to update ref",
            "cannot lock ref 'refs/heads/status': is at 1f but expected 2e",
            "reference already exists",
            "incorrect old value provided",
        ] {
            assert!(is_race(race), "{race}");
        }
        for refusal in [
            "protected branch hook declined",
            "pre-receive hook declined",
            "hook declined",
            "deny updating a hidden ref",
            "push declined due to repository rule violations",
            "unpacker error",
            "branch is currently checked out",
        ] {
            assert!(!is_race(refusal), "{refusal}");
        }
    }

    /// A server that does with each connection what `serve` says, and what opens it.
    fn server(timeout: Duration, serve: impl Fn(TcpStream) + Send + 'static) -> Access {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
        Access {
            url: format!("git://{address}/fleet.git").parse().unwrap(),
            credentials: Credentials::default(),
            timeout,
            most_bytes: 1 << 30,
            cancel: CancellationToken::new(),
        }
    }

    fn fetch(access: &Access) -> Error {
        let directory = tempfile::tempdir().unwrap();
        let mirror = Repository::init_bare(directory.path()).unwrap();
        access.fetch(&mirror, &["main"]).unwrap_err()
    }

    #[test]
    fn a_server_that_announces_branches_without_end_is_left() {
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let access = server(Duration::from_mins(1), move |mut stream| {
            let line = format!("0041{} refs/heads/abcdef01\n", "1".repeat(40));
            let lines = line.repeat(1000);
            while stream.write_all(lines.as_bytes()).is_ok() {
                count.fetch_add(lines.len(), Ordering::Relaxed);
            }
        });
        let error = fetch(&access);
        assert!(matches!(error, Error::TooMuch { .. }), "{error:?}");
        let sent = sent.load(Ordering::Relaxed);
        assert!(sent < 100 << 20, "{sent} bytes");
    }

    #[test]
    fn a_server_that_never_ends_its_first_line_is_left_when_the_time_is_over() {
        // Shorter pauses than the one after which a server counts as silent.
        let access = server(Duration::from_secs(1), |mut stream| {
            while stream.write_all(b"1").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let http = format!("{}", access.url).replace("git://", "http://");
        for url in [access.url.clone(), http.parse().unwrap()] {
            let began = Instant::now();
            let error = fetch(&Access {
                url,
                ..access.clone()
            });
            assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        }
    }

    #[test]
    fn a_conversation_with_a_silent_server_ends_when_it_is_cancelled() {
        let access = server(Duration::from_mins(1), |stream| {
            std::mem::forget(stream);
        });
        access.cancel.cancel();
        let error = fetch(&access);
        assert!(matches!(error, Error::Interrupted), "{error:?}");
    }
}
