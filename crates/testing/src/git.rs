//! Real Git remotes for tests: bare repositories behind a path, `git daemon`, `git http-backend` (plain, TLS, with a
//! password) and `sshd`. Every server runs one process a connection with the socket as its standard streams, so none is
//! left behind and no port is guessed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover_git::{Options, RemoteUrl, Repo, Retry};
use cutover_karmada::name::Revision;
use git2::Repository;
use openssl::ssl::SslAcceptor;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A bare repository to fetch from and push to.
pub struct Origin {
    root: TempDir,
}

impl Origin {
    /// Makes an empty repository that takes pushes over any transport.
    pub fn empty() -> Self {
        let root = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(root.path().join("fleet.git")).unwrap();
        repo.set_head("refs/heads/main").unwrap();
        repo.config().unwrap().set_bool("http.receivepack", true).unwrap();
        repo.config()
            .unwrap()
            .set_bool("daemon.receivepack", true)
            .unwrap();
        Self { root }
    }

    pub fn with(files: &[(&str, &str)]) -> Self {
        let origin = Self::empty();
        origin.commit("main", files);
        origin
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn path(&self) -> PathBuf {
        self.root.path().join("fleet.git")
    }

    pub fn url(&self) -> RemoteUrl {
        self.path().to_str().unwrap().parse().unwrap()
    }

    pub fn repo(&self) -> Repository {
        Repository::open_bare(self.path()).unwrap()
    }

    /// Commits files on top of a branch; `""` as content removes one.
    pub fn commit(&self, branch: &str, files: &[(&str, &str)]) -> Revision {
        let parent = self.tip(branch);
        self.commit_on(branch, parent.as_ref(), files)
    }

    /// Commits on top of any commit and moves the branch there by force.
    pub fn commit_on(&self, branch: &str, parent: Option<&Revision>, files: &[(&str, &str)]) -> Revision {
        let repo = self.repo();
        let parent = parent.map(|tip| repo.find_commit(tip.as_str().parse().unwrap()).unwrap());
        let empty = repo
            .find_tree(repo.treebuilder(None).unwrap().write().unwrap())
            .unwrap();
        let base = parent.as_ref().map_or(empty, |parent| parent.tree().unwrap());
        let mut update = git2::build::TreeUpdateBuilder::new();
        for (path, content) in files {
            if content.is_empty() {
                update.remove(*path);
            } else {
                update.upsert(
                    *path,
                    repo.blob(content.as_bytes()).unwrap(),
                    git2::FileMode::Blob,
                );
            }
        }
        let tree = repo
            .find_tree(update.create_updated(&repo, &base).unwrap())
            .unwrap();
        commit_tree(&repo, branch, parent.as_ref(), &tree)
    }

    pub fn tip(&self, branch: &str) -> Option<Revision> {
        let id = self.repo().refname_to_id(&format!("refs/heads/{branch}")).ok()?;
        Some(id.to_string().parse().unwrap())
    }

    pub fn read(&self, branch: &str, path: &str) -> Option<String> {
        let repo = self.repo();
        let tree = repo
            .find_reference(&format!("refs/heads/{branch}"))
            .ok()?
            .peel_to_tree()
            .unwrap();
        let blob = tree
            .get_path(Path::new(path))
            .ok()?
            .to_object(&repo)
            .unwrap()
            .peel_to_blob()
            .unwrap();
        Some(String::from_utf8(blob.content().to_vec()).unwrap())
    }

    /// Installs a hook of the server.
    pub fn hook(&self, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path().join("hooks").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn commit_tree(
    repo: &Repository,
    branch: &str,
    parent: Option<&git2::Commit<'_>>,
    tree: &git2::Tree<'_>,
) -> Revision {
    let who = git2::Signature::new("Ada", "ada@example.com", &git2::Time::new(1_700_000_000, 0)).unwrap();
    let parents: Vec<_> = parent.into_iter().collect();
    // A status branch is cutover's from its first commit on, or it isn't used.
    let is_first_of_status = parents.is_empty() && matches!(branch, "cutover-status" | "cutover/status");
    let message = if is_first_of_status {
        "status: begin\n\nCutover-Phase: Hold\n"
    } else {
        "change files\n\nand say why\n"
    };
    let commit = repo.commit(None, &who, &who, message, tree, &parents).unwrap();
    repo.reference(&format!("refs/heads/{branch}"), commit, true, "test")
        .unwrap();
    commit.to_string().parse().unwrap()
}

/// Commits everything that is in a work tree.
pub fn commit_all(repo: &Repository, by: &git2::Signature<'_>, message: &str) {
    let mut index = repo.index().unwrap();
    index.add_all(["*"], git2::IndexAddOption::DEFAULT, None).unwrap();
    index.write().unwrap();
    let tree = repo.find_tree(index.write_tree().unwrap()).unwrap();
    let parent = repo.head().ok().map(|head| head.peel_to_commit().unwrap());
    let parents: Vec<_> = parent.iter().collect();
    repo.commit(Some("HEAD"), by, by, message, &tree, &parents)
        .unwrap();
}

/// A mirror of a remote in a directory of its own.
#[derive(Debug)]
pub struct Mirrored {
    repo: Repo,
    pub state: TempDir,
}

impl std::ops::Deref for Mirrored {
    type Target = Repo;

    fn deref(&self) -> &Repo {
        &self.repo
    }
}

pub fn options(url: RemoteUrl, state: &Path) -> Options {
    Options {
        retry: Retry {
            attempts: 30,
            wait: Duration::from_millis(5),
        },
        timeout: Duration::from_mins(1),
        ..Options::new(url, "main", state)
    }
}

impl Mirrored {
    pub async fn of(url: RemoteUrl) -> Self {
        Self::with(url, |_| {}).await
    }

    pub async fn with(url: RemoteUrl, change: impl FnOnce(&mut Options)) -> Self {
        let state = tempfile::tempdir().unwrap();
        let mut options = options(url, state.path());
        change(&mut options);
        let repo = Repo::open(options, CancellationToken::new()).await.unwrap();
        Self { repo, state }
    }
}

/// A server on loopback that hands each connection to `serve` in a thread of its own.
pub struct Server {
    pub port: u16,
    connections: Arc<AtomicUsize>,
}

impl Server {
    pub fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let (serve, count) = (Arc::new(serve), Arc::clone(&connections));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(stream));
            }
        });
        Self { port, connections }
    }

    /// Starts a Git server whose first line never ends, with shorter pauses than the one after which a server counts as silent.
    pub fn dripping() -> Self {
        Self::start(|mut stream| {
            while stream.write_all(b"1").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        })
    }

    /// Returns the URL of a repository for status on a server that speaks git's own protocol.
    pub fn status(&self) -> RemoteUrl {
        format!("git://127.0.0.1:{}/status.git", self.port)
            .parse()
            .unwrap()
    }

    /// Returns the URL of the repository of [`Origin`] on an HTTP server.
    pub fn http(&self) -> RemoteUrl {
        format!("http://127.0.0.1:{}/fleet.git", self.port)
            .parse()
            .unwrap()
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Serves each connection by a process with the socket as its standard input and output.
    fn processes(command: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        Self::start(move |stream| {
            let input = OwnedFd::from(stream.try_clone().unwrap());
            let mut child = command()
                .stdin(Stdio::from(input))
                .stdout(Stdio::from(OwnedFd::from(stream)))
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            child.wait().unwrap();
        })
    }

    /// `git://` of all repositories of a directory.
    pub fn daemon(root: &Path) -> Self {
        let root = root.to_owned();
        Self::processes(move || {
            let mut command = git();
            command
                .args(["daemon", "--inetd", "--export-all"])
                .arg(format!("--base-path={}", root.display()))
                .arg(&root);
            command
        })
    }
}

fn git() -> Command {
    let mut command = Command::new("git");
    command
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*");
    command
}

/// Before a push libgit2 sends a request with nothing but git's end mark, to find out how to authenticate.
const PROBE: usize = 4;

/// `git http-backend` behind the smallest HTTP server that speaks CGI.
#[derive(Default)]
pub struct Http {
    root: PathBuf,
    /// `user:password` that every request needs.
    login: Option<&'static str>,
    tls: Option<SslAcceptor>,
    /// Cuts answers to requests with a body off after so many bytes.
    cut: Arc<Mutex<Option<usize>>>,
    redirect: Option<String>,
    forbid_push: bool,
}

impl Http {
    pub fn of(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn login(mut self, login: &'static str) -> Self {
        self.login = Some(login);
        self
    }

    #[must_use]
    pub fn tls(mut self, acceptor: SslAcceptor) -> Self {
        self.tls = Some(acceptor);
        self
    }

    #[must_use]
    pub fn redirect(mut self, to: String) -> Self {
        self.redirect = Some(to);
        self
    }

    #[must_use]
    pub fn forbid_push(mut self) -> Self {
        self.forbid_push = true;
        self
    }

    /// Returns the handle that makes the next answers break off.
    pub fn cut(&self) -> Arc<Mutex<Option<usize>>> {
        Arc::clone(&self.cut)
    }

    pub fn start(self) -> Server {
        Server::start(move |stream| {
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            let _ = match &self.tls {
                Some(acceptor) => match acceptor.accept(stream) {
                    Ok(stream) => self.talk(stream),
                    Err(_) => Ok(()),
                },
                None => self.talk(stream),
            };
        })
    }

    fn talk(&self, stream: impl Read + Write) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        while let Some(request) = Request::read(&mut stream)? {
            let answer = self.answer(&request);
            let cut = self.cut.lock().unwrap().filter(|_| request.body.len() > PROBE);
            let whole = answer.len();
            stream
                .get_mut()
                .write_all(&answer[..cut.unwrap_or(whole).min(whole)])?;
            stream.get_mut().flush()?;
            if cut.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn answer(&self, request: &Request) -> Vec<u8> {
        let status = |line: &str, extra: &str| {
            format!("HTTP/1.1 {line}\r\n{extra}content-length: 0\r\n\r\n").into_bytes()
        };
        if let Some(to) = &self.redirect {
            return status("302 Found", &format!("location: {to}{}\r\n", request.target));
        }
        if let Some(login) = self.login {
            let wanted = format!("Basic {}", openssl::base64::encode_block(login.as_bytes()));
            if request.headers.get("authorization") != Some(&wanted) {
                return status("401 Unauthorized", "www-authenticate: Basic realm=\"git\"\r\n");
            }
        }
        if self.forbid_push && request.target.contains("receive-pack") {
            return status("403 Forbidden", "");
        }
        self.cgi(request)
    }

    fn cgi(&self, request: &Request) -> Vec<u8> {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let header = |name: &str| request.headers.get(name).cloned().unwrap_or_default();
        let mut child = git()
            .arg("http-backend")
            .env("GIT_PROJECT_ROOT", &self.root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("REQUEST_METHOD", &request.method)
            .env("PATH_INFO", path)
            .env("QUERY_STRING", query)
            .env("CONTENT_TYPE", header("content-type"))
            .env("CONTENT_LENGTH", request.body.len().to_string())
            .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
            .env("REMOTE_USER", "test")
            .env("REMOTE_ADDR", "127.0.0.1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (mut input, body) = (child.stdin.take().unwrap(), request.body.clone());
        let writer = std::thread::spawn(move || drop(input.write_all(&body)));
        let output = child.wait_with_output().unwrap().stdout;
        writer.join().unwrap();
        let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let (head, body) = (String::from_utf8_lossy(&output[..end]), &output[end + 4..]);
        let mut status = "200 OK".to_owned();
        let mut headers = String::new();
        for line in head.lines() {
            match line.strip_prefix("Status: ") {
                Some(other) => other.clone_into(&mut status),
                None => headers.extend([line, "\r\n"]),
            }
        }
        let mut answer = format!(
            "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        answer.extend_from_slice(body);
        answer
    }
}

struct Request {
    method: String,
    target: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Request {
    fn read(stream: &mut BufReader<impl Read + Write>) -> std::io::Result<Option<Self>> {
        let line = read_line(stream)?;
        let mut words = line.split(' ').map(str::to_owned);
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Ok(None);
        };
        let mut headers = BTreeMap::new();
        loop {
            let line = read_line(stream)?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        if headers
            .get("expect")
            .is_some_and(|expect| expect == "100-continue")
        {
            stream.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            stream.get_mut().flush()?;
        }
        let mut body = Vec::new();
        if headers
            .get("transfer-encoding")
            .is_some_and(|encoding| encoding == "chunked")
        {
            loop {
                let size = u64::from_str_radix(&read_line(stream)?, 16).unwrap();
                stream.by_ref().take(size).read_to_end(&mut body)?;
                read_line(stream)?;
                if size == 0 {
                    break;
                }
            }
        } else if let Some(length) = headers.get("content-length") {
            stream
                .by_ref()
                .take(length.parse().unwrap())
                .read_to_end(&mut body)?;
        }
        Ok(Some(Self {
            method,
            target,
            headers,
            body,
        }))
    }
}

fn read_line(stream: &mut impl BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// A certificate for `localhost` and `127.0.0.1`, signed by an authority of its own.
pub fn certificate() -> (SslAcceptor, Vec<u8>) {
    use openssl::asn1::Asn1Time;
    use openssl::bn::BigNum;
    use openssl::hash::MessageDigest;
    use openssl::pkey::PKey;
    use openssl::ssl::{SslAcceptor, SslMethod};
    use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
    use openssl::x509::{X509, X509NameBuilder};

    let key = || PKey::ec_gen("prime256v1").unwrap();
    let build = |name: &str, serial: u32| {
        let mut names = X509NameBuilder::new().unwrap();
        names.append_entry_by_text("CN", name).unwrap();
        let mut builder = X509::builder().unwrap();
        builder.set_version(2).unwrap();
        builder
            .set_serial_number(&BigNum::from_u32(serial).unwrap().to_asn1_integer().unwrap())
            .unwrap();
        builder.set_subject_name(&names.build()).unwrap();
        builder
            .set_not_before(&Asn1Time::days_from_now(0).unwrap())
            .unwrap();
        builder
            .set_not_after(&Asn1Time::days_from_now(1).unwrap())
            .unwrap();
        builder
    };
    let (ca_key, server_key) = (key(), key());
    let mut ca = build("test authority", 1);
    let subject = {
        let mut names = X509NameBuilder::new().unwrap();
        names.append_entry_by_text("CN", "test authority").unwrap();
        names.build()
    };
    ca.set_issuer_name(&subject).unwrap();
    ca.set_pubkey(&ca_key).unwrap();
    ca.append_extension(BasicConstraints::new().critical().ca().build().unwrap())
        .unwrap();
    ca.sign(&ca_key, MessageDigest::sha256()).unwrap();
    let ca = ca.build();
    let mut server = build("localhost", 2);
    server.set_issuer_name(ca.subject_name()).unwrap();
    server.set_pubkey(&server_key).unwrap();
    let names = SubjectAlternativeName::new()
        .dns("localhost")
        .ip("127.0.0.1")
        .build(&server.x509v3_context(Some(&ca), None))
        .unwrap();
    server.append_extension(names).unwrap();
    server.sign(&ca_key, MessageDigest::sha256()).unwrap();
    let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
    acceptor.set_private_key(&server_key).unwrap();
    acceptor.set_certificate(&server.build()).unwrap();
    (acceptor.build(), ca.to_pem().unwrap())
}

/// An `sshd` with throwaway keys that lets one key log in as whoever runs the test.
pub struct Sshd {
    pub server: Server,
    pub user: String,
    pub keys: TempDir,
}

impl Sshd {
    /// Returns `None` if no `sshd` is installed; with `CI=true` that is a failure.
    #[allow(clippy::print_stderr)]
    pub fn start() -> Option<Self> {
        let sshd = ["/usr/sbin/sshd", "/usr/bin/sshd", "/usr/local/sbin/sshd"].map(Path::new);
        let Some(sshd) = sshd.into_iter().find(|path| path.exists()) else {
            assert!(
                std::env::var("CI").as_deref() != Ok("true"),
                "sshd is not installed"
            );
            eprintln!("left out: sshd is not installed");
            return None;
        };
        let keys = tempfile::tempdir().unwrap();
        for name in ["host", "client", "stranger"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(keys.path().join(name))
                .status()
                .unwrap();
            assert!(made.success());
        }
        let key = |name: &str| keys.path().join(name).display().to_string();
        std::fs::write(
            keys.path().join("config"),
            format!(
                "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n\
                 PasswordAuthentication no\nPermitRootLogin prohibit-password\n",
                key("host"),
                key("client.pub")
            ),
        )
        .unwrap();
        // Where Debian's sshd confines its unprivileged part; made by its service otherwise.
        let _ = std::fs::create_dir_all("/run/sshd");
        let (sshd, config) = (sshd.to_owned(), keys.path().join("config"));
        let server = Server::processes(move || {
            let mut command = Command::new(&sshd);
            command.args(["-i", "-e", "-f"]).arg(&config);
            command
        });
        let user = Command::new("id").arg("-un").output().unwrap().stdout;
        let user = String::from_utf8(user).unwrap().trim().to_owned();
        Some(Self { server, user, keys })
    }

    pub fn url(&self, path: &Path) -> RemoteUrl {
        let url = format!(
            "ssh://{}@127.0.0.1:{}{}",
            self.user,
            self.server.port,
            path.display()
        );
        url.parse().unwrap()
    }

    pub fn key(&self, name: &str) -> PathBuf {
        self.keys.path().join(name)
    }

    /// Writes a `known_hosts` file that knows a key of `keys` for this server.
    pub fn known_hosts(&self, key: &str) -> PathBuf {
        let public = std::fs::read_to_string(self.key(&format!("{key}.pub"))).unwrap();
        let path = self.key(&format!("known_hosts.{key}"));
        std::fs::write(&path, format!("[127.0.0.1]:{} {public}", self.server.port)).unwrap();
        path
    }
}
