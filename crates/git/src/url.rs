//! Where a repository is, without what opens it: credentials in a URL are taken out when it is parsed.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use super::Error;
use cutover_base::Secret;

/// The address of a repository: a path, `file://`, `ssh://`, `user@host:path`, `http(s)://` or `git://`.
///
/// Credentials in the URL are kept apart, so that no error, log line or `Debug` can show them:
///
/// ```
/// use cutover_git::RemoteUrl;
///
/// let url: RemoteUrl = "https://ci:s3cret@git.example.com/team/fleet.git".parse()?;
/// assert_eq!(url.to_string(), "https://***@git.example.com/team/fleet.git");
/// assert_eq!(format!("{url:?}"), "\"https://***@git.example.com/team/fleet.git\"");
/// # Ok::<(), cutover_git::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteUrl(Arc<Parts>);

#[derive(PartialEq, Eq)]
struct Parts {
    /// What libgit2 is given: never a password or a token.
    address: String,
    transport: Transport,
    userinfo: Option<UserInfo>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Local(PathBuf),
    Ssh(Server),
    Http(Server),
    Git(Server),
}

/// The server of a URL; two URLs with equal servers go to the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) scheme: String,
    pub(super) host: String,
    pub(super) port: u16,
    /// The login name of an SSH URL. Never that of an HTTP URL, where a name alone may be a token.
    pub(super) user: Option<String>,
}

/// User name and password or token of an HTTP URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UserInfo {
    pub(super) user: Secret,
    pub(super) password: Secret,
}

impl RemoteUrl {
    /// Returns what may be shown of a text that was meant to be a URL and is none.
    pub fn hidden(text: &str) -> String {
        hidden(text)
    }

    /// Returns the URL as libgit2 is given it: without credentials.
    pub fn address(&self) -> &str {
        &self.0.address
    }

    pub(super) fn transport(&self) -> &Transport {
        &self.0.transport
    }

    pub(super) fn userinfo(&self) -> Option<&UserInfo> {
        self.0.userinfo.as_ref()
    }

    /// Returns the name of the place that this URL leads to, whatever the transport, the port and the login: `host/path`
    /// without `.git`, or a path on this machine.
    pub fn place(&self) -> String {
        let address = self.0.address.as_str();
        let name = match &self.0.transport {
            Transport::Local(path) => return path.display().to_string(),
            Transport::Ssh(server) | Transport::Http(server) | Transport::Git(server) => {
                let path = match address.split_once("://") {
                    Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
                    None => address.split_once(':').map_or("", |(_, path)| path),
                };
                format!("{}/{}", server.host.to_ascii_lowercase(), path.trim_matches('/'))
            }
        };
        name.strip_suffix(".git").unwrap_or(&name).to_owned()
    }

    /// Returns the server's name and the address under which it shows the repository to people, if it does so where a server
    /// usually does: by https, whatever the way in which Git goes.
    pub fn page(&self) -> Option<(&str, String)> {
        let (server, root) = match &self.0.transport {
            Transport::Ssh(server) => (server, format!("https://{}", server.host)),
            Transport::Http(server) => {
                let usual = if server.scheme == "https" { 443 } else { 80 };
                let port = (server.port != usual).then(|| format!(":{}", server.port));
                let root = format!("{}://{}{}", server.scheme, server.host, port.unwrap_or_default());
                (server, root)
            }
            Transport::Local(_) | Transport::Git(_) => return None,
        };
        let place = self.place();
        let (_, path) = place.split_once('/')?;
        Some((&server.host, format!("{root}/{path}")))
    }

    /// Returns the directory of a repository on this machine.
    pub fn local_path(&self) -> Option<&Path> {
        match &self.0.transport {
            Transport::Local(path) => Some(path),
            _ => None,
        }
    }

    /// Returns the URL with a path that doesn't depend on where the program was started: what belongs to a repository is found
    /// again by its place, and `../fleet.git` is another one from another directory. Links stay in a path that is absolute.
    pub fn absolute(&self) -> std::io::Result<Self> {
        let Some(path) = self.local_path() else {
            return Ok(self.clone());
        };
        let depends = |part: Component<'_>| matches!(part, Component::CurDir | Component::ParentDir);
        if path.is_absolute() && !path.components().any(depends) {
            return Ok(self.clone());
        }
        let path = match path.canonicalize() {
            Err(error) if error.kind() == ErrorKind::NotFound => std::path::absolute(path)?,
            found => found?,
        };
        let text = path.display().to_string();
        Ok(local(path, &text))
    }

    /// Says whether `url`, which a server may have redirected to, is on the same server as this URL.
    pub(super) fn same_server(&self, url: &str) -> bool {
        let (Transport::Http(ours) | Transport::Ssh(ours)) = &self.0.transport else {
            return false;
        };
        match url.parse::<Self>().as_ref().map(Self::transport) {
            Ok(Transport::Http(theirs) | Transport::Ssh(theirs)) => {
                (&ours.scheme, &ours.host, ours.port) == (&theirs.scheme, &theirs.host, theirs.port)
            }
            _ => false,
        }
    }
}

impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0.userinfo, self.0.address.split_once("://")) {
            (Some(_), Some((scheme, rest))) => write!(f, "{scheme}://***@{rest}"),
            _ => f.write_str(&self.0.address),
        }
    }
}

impl fmt::Debug for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl FromStr for RemoteUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).map_err(|why| Error::Url {
            url: hidden(text),
            why,
        })
    }
}

fn parse(text: &str) -> Result<RemoteUrl, &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    if text.starts_with('-') {
        return Err("it looks like an option of a command");
    }
    if text.chars().any(char::is_control) {
        return Err("it has a control character");
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        return parse_scheme(&scheme.to_ascii_lowercase(), rest, text);
    }
    if text.contains("::") && !text.contains('/') || text.split('/').next().is_some_and(|s| s.contains("::"))
    {
        return Err("remote helpers (transport::address) run commands and are not supported");
    }
    match text.split_once(':') {
        Some((login, path)) if !login.contains('/') => parse_scp(login, path, text),
        // `host/user:password@other`, where a scheme was forgotten or misspelt: as a path, it would be shown.
        Some((_, rest)) if rest.contains('@') && !is_written_as_path(text) => Err(PASSWORD_IN_PATH),
        _ => Ok(local(PathBuf::from(text), text)),
    }
}

/// Returns whether nobody can have meant a URL by it.
fn is_written_as_path(text: &str) -> bool {
    text.starts_with("./") || text.starts_with("../") || text.starts_with('/') && !text.starts_with("//")
}

fn local(path: PathBuf, text: &str) -> RemoteUrl {
    RemoteUrl(Arc::new(Parts {
        address: text.to_owned(),
        transport: Transport::Local(path),
        userinfo: None,
    }))
}

fn parse_scheme(scheme: &str, rest: &str, text: &str) -> Result<RemoteUrl, &'static str> {
    let default_port = match scheme {
        "file" => {
            let path = rest.strip_prefix("localhost").unwrap_or(rest);
            if !path.starts_with('/') {
                return Err("a file URL needs an absolute path");
            }
            return Ok(local(PathBuf::from(percent_decoded(path)?), text));
        }
        "ssh" => 22,
        "http" => 80,
        "https" => 443,
        "git" => 9418,
        _ => return Err("only paths, file, ssh, http, https and git URLs are supported"),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if path.contains(['?', '#']) || authority.contains(['?', '#']) {
        return Err("it has a query or a fragment");
    }
    if path.len() < 2 {
        return Err("it has no path");
    }
    if path.contains('@') {
        // A `/` in a password that is written as it is makes the host end there: the rest would be shown as a path.
        return Err(AT_IN_PATH);
    }
    let (login, host_port) = match authority.rsplit_once('@') {
        Some((login, host_port)) => (Some(login), host_port),
        None => (None, authority),
    };
    let (host, port) = split_port(host_port, default_port)?;
    let mut server = server(scheme, host, port)?;
    let mut userinfo = None;
    let transport = match scheme {
        "ssh" => {
            server.user = login.map(ssh_user).transpose()?;
            if path.starts_with("/-") {
                return Err("its path looks like an option of a command");
            }
            Transport::Ssh(server)
        }
        "git" if login.is_some() => return Err("a git URL has no user"),
        "git" => Transport::Git(server),
        _ => {
            userinfo = login
                .filter(|login| !login.is_empty())
                .map(parse_userinfo)
                .transpose()?;
            Transport::Http(server)
        }
    };
    let address = match (&transport, login) {
        (Transport::Ssh(_), Some(login)) => format!("{scheme}://{login}@{host_port}{path}"),
        _ => format!("{scheme}://{host_port}{path}"),
    };
    Ok(RemoteUrl(Arc::new(Parts {
        address,
        transport,
        userinfo,
    })))
}

fn parse_scp(login: &str, path: &str, text: &str) -> Result<RemoteUrl, &'static str> {
    let (user, host) = match login.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, login),
    };
    let mut server = server("ssh", host, 22)?;
    server.user = user.map(ssh_user).transpose()?;
    if path.is_empty() {
        return Err("it has no path");
    }
    if path.starts_with('-') {
        return Err("its path looks like an option of a command");
    }
    // `user:password@host:path` reads as the host `user`, with the password in the path.
    if path.contains('@') {
        return Err("SSH with a password is not supported: use a key or an agent");
    }
    Ok(RemoteUrl(Arc::new(Parts {
        address: text.to_owned(),
        transport: Transport::Ssh(server),
        userinfo: None,
    })))
}

fn server(scheme: &str, host: &str, port: u16) -> Result<Server, &'static str> {
    if host.is_empty() {
        return Err("it has no host");
    }
    if host.starts_with('-') || host.contains(char::is_whitespace) {
        return Err("its host is not a host name");
    }
    Ok(Server {
        scheme: scheme.to_owned(),
        host: host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_ascii_lowercase(),
        port,
        user: None,
    })
}

fn ssh_user(login: &str) -> Result<String, &'static str> {
    if login.contains(':') {
        return Err("SSH with a password is not supported: use a key or an agent");
    }
    if login.is_empty() || login.starts_with('-') {
        return Err("its user is not a user name");
    }
    Ok(login.to_owned())
}

fn parse_userinfo(login: &str) -> Result<UserInfo, &'static str> {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    Ok(UserInfo {
        user: Secret::new(percent_decoded(user)?),
        password: Secret::new(percent_decoded(password)?),
    })
}

fn split_port(host_port: &str, default: u16) -> Result<(&str, u16), &'static str> {
    match host_port.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            let port = port.parse().map_err(|_| "its port is not a number")?;
            Ok((host, port))
        }
        _ => Ok((host_port, default)),
    }
}

fn percent_decoded(text: &str) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let hex = |digit: u8| char::from(digit).to_digit(16);
        match tail {
            [high, low, after @ ..] => {
                let (high, low) = hex(*high).zip(hex(*low)).ok_or(BAD_ESCAPE)?;
                bytes.push(u8::try_from(high * 16 + low).map_err(|_| BAD_ESCAPE)?);
                rest = after;
            }
            _ => return Err(BAD_ESCAPE),
        }
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(BAD_ESCAPE),
    }
}

const AT_IN_PATH: &str = "its path has an `@`: write a `/` in a password as %2F, and an `@` in a path as %40";
const PASSWORD_IN_PATH: &str =
    "it may have a password in it: write a path with a `:` and an `@` from ./ or / on";
const BAD_ESCAPE: &str = "it has a malformed percent escape";

/// Masks all before the last `@` of a refused URL: what can't be parsed has its password anywhere.
fn hidden(url: &str) -> String {
    match url.split_once("://").zip(url.rfind('@')) {
        Some(((scheme, rest), at)) if at >= url.len() - rest.len() => {
            scrub(&format!("{scheme}://***{}", &url[at..]))
        }
        _ => match url.rfind('@') {
            Some(at) => scrub(&format!("***{}", &url[at..])),
            None => scrub(url),
        },
    }
}

/// Masks what stands between `://` and the last `@` of a word in a text that others wrote, such as a library's message; and what
/// stands before `://` where that is no scheme. A password may have a `/` in it, or even `://`.
pub(super) fn scrub(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace);
    let clean: String = words
        .map(|word| masked(word).unwrap_or_else(|| word.to_owned()))
        .collect();
    clean
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn masked(word: &str) -> Option<String> {
    let (before, after) = word.split_once("://")?;
    let (_, rest) = after.rsplit_once('@')?;
    let scheme = if before.contains([':', '@']) {
        "***"
    } else {
        before
    };
    Some(format!("{scheme}://***@{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> RemoteUrl {
        text.parse().unwrap()
    }

    #[test]
    fn a_place_has_one_name_however_one_gets_there() {
        for text in [
            "git@Example.com:team/fleet.git",
            "ssh://git@example.com:2222/team/fleet",
            "https://ci:token@example.com/team/fleet.git",
            "git://example.com/team/fleet/",
        ] {
            assert_eq!(url(text).place(), "example.com/team/fleet", "{text}");
        }
        assert_eq!(url("/srv/fleet.git").place(), "/srv/fleet.git");
    }

    #[test]
    fn a_path_leads_to_the_same_place_from_every_directory() {
        let here = std::env::current_dir().unwrap();
        let absolute = |text: &str| url(text).absolute().unwrap().place();
        assert_eq!(absolute("src/../src"), here.join("src").display().to_string());
        assert_eq!(absolute("src"), here.join("src").display().to_string());
        assert_eq!(
            absolute("not-there.git"),
            here.join("not-there.git").display().to_string()
        );
        assert_eq!(absolute("/srv/fleet.git"), "/srv/fleet.git");
        assert_eq!(absolute("file:///srv/fleet.git"), "/srv/fleet.git");
        assert_eq!(url("https://a/b").absolute().unwrap(), url("https://a/b"));
    }

    #[test]
    fn a_repository_is_shown_where_its_server_shows_repositories() {
        for (text, page) in [
            (
                "git@GitHub.com:team/fleet.git",
                Some(("github.com", "https://github.com/team/fleet")),
            ),
            (
                "ssh://git@git.example.com:2222/team/fleet",
                Some(("git.example.com", "https://git.example.com/team/fleet")),
            ),
            (
                "https://ci:token@git.example.com:8443/team/fleet.git/",
                Some(("git.example.com", "https://git.example.com:8443/team/fleet")),
            ),
            (
                "http://127.0.0.1:3000/team/fleet",
                Some(("127.0.0.1", "http://127.0.0.1:3000/team/fleet")),
            ),
            ("git://example.com/team/fleet", None),
            ("/srv/fleet.git", None),
        ] {
            let found = url(text);
            let found = found.page();
            assert_eq!(
                found.as_ref().map(|(host, page)| (*host, page.as_str())),
                page,
                "{text}"
            );
        }
    }

    #[test]
    fn every_supported_form_is_recognised() {
        let kind = |text: &str| match url(text).transport().clone() {
            Transport::Local(path) => format!("local {}", path.display()),
            Transport::Ssh(s) => format!("ssh {:?} {} {}", s.user, s.host, s.port),
            Transport::Http(s) => format!("{} {} {}", s.scheme, s.host, s.port),
            Transport::Git(s) => format!("git {} {}", s.host, s.port),
        };
        assert_eq!(kind("/srv/fleet.git"), "local /srv/fleet.git");
        for path in ["./fleet:odd", "./a:b@c", "/srv/a:b@c", "a/b:c", "a/b@c"] {
            assert_eq!(kind(path), format!("local {path}"));
        }
        assert_eq!(kind("file:///srv/a%20b.git"), "local /srv/a b.git");
        assert_eq!(
            kind("git@example.com:team/fleet.git"),
            "ssh Some(\"git\") example.com 22"
        );
        assert_eq!(
            kind("ssh://git@Example.com:2222/fleet"),
            "ssh Some(\"git\") example.com 2222"
        );
        assert_eq!(kind("ssh://git@[::1]:2222/fleet"), "ssh Some(\"git\") ::1 2222");
        assert_eq!(kind("HTTPS://example.com/fleet"), "https example.com 443");
        assert_eq!(kind("http://example.com:8080/fleet"), "http example.com 8080");
        assert_eq!(kind("git://example.com/fleet"), "git example.com 9418");
    }

    #[test]
    fn addresses_that_could_run_something_are_refused() {
        for text in [
            "",
            "-oProxyCommand=x",
            "--upload-pack=x",
            "ext::sh -c x",
            "fd::17/x",
            "ssh://-oProxyCommand=x/fleet",
            "git@-oProxyCommand=x:fleet",
            "git@host:-x",
            "ssh://git@host/-x",
            "https://host/a\nb",
            "ftp://host/x",
            "https://host",
            "https://host/fleet?token=x",
            "ssh://git:password@host/fleet",
            "git:password@host:fleet",
            "ssh://host/:password@other/fleet",
            "git://host/:password@other/fleet",
            "host/user:password@other/fleet",
            "//user:password@host/fleet",
        ] {
            assert!(text.parse::<RemoteUrl>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn credentials_are_in_no_text_of_a_url() {
        for (text, masked) in [
            ("https://ci:s3cret@host/x", "https://***@host/x"),
            ("https://s3cret@host:8443/x", "https://***@host:8443/x"),
            ("https://ci:s3%40cret@host/x", "https://***@host/x"),
            ("https://ci:s3cret@odd@host/x", "https://***@host/x"),
        ] {
            let url = url(text);
            assert_eq!(url.to_string(), masked);
            assert!(!url.address().contains("cret"));
            assert!(!format!("{url:?} {:?}", url.userinfo()).contains("cret"));
        }
        for text in [
            "https://ci:a/s3cret@host/x",
            "https://ci:1/s3cret@host/x",
            "https://ci:a s3cret/b@host/x",
            "https://ci:a://s3cret@host/x",
        ] {
            let error = text.parse::<RemoteUrl>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        }
        assert_eq!(
            scrub("cannot reach https://ci:a/b@host/x now"),
            "cannot reach https://***@host/x now"
        );
        assert_eq!(
            scrub("not a URL: ci:s3cret://@host:team/fleet"),
            "not a URL: ***://***@host:team/fleet"
        );
        let refused = "https://ci:s3cret@host/x?y".parse::<RemoteUrl>().unwrap_err();
        assert!(!format!("{refused} {refused:?}").contains("s3cret"));
        assert_eq!(
            scrub("see http://a:b@c/d and e://f@g"),
            "see http://***@c/d and e://***@g"
        );
    }

    proptest::proptest! {
        /// What is taken is taken again as it is shown, for the same place.
        #[test]
        fn any_text_is_refused_or_a_url(text in "[a-zA-Z0-9:/@.?#%&=+~_\\[\\] \u{0}-\u{9f}\u{202e}-]{0,40}") {
            if let Ok(url) = text.parse::<RemoteUrl>() {
                let again = url.address().parse::<RemoteUrl>();
                proptest::prop_assert_eq!(again.unwrap().place(), url.place());
            }
        }

        /// Wherever a login may stand, and whatever is in the password.
        #[test]
        fn no_text_of_any_url_has_its_password(
            shape in proptest::sample::select(vec![
                "https://USER:PASSWORD@HOST/PATH",
                "http://USER:PASSWORD@HOST:8080/PATH.git",
                "https://PASSWORD@HOST/PATH",
                "https://HOST/USER:PASSWORD@HOST/PATH",
                "https://HOST/:PASSWORD@HOST/",
                "https://USER:PASSWORD@HOST",
                "https://USER:PASSWORD@HOST/PATH?ref=main",
                "ssh://USER:PASSWORD@HOST/PATH",
                "ssh://HOST/:PASSWORD@HOST/",
                "ssh://USER:PASSWORD@HOST:22/PATH",
                "git://USER:PASSWORD@HOST/PATH",
                "git://HOST/:PASSWORD@HOST/PATH",
                "ftp://USER:PASSWORD@HOST/PATH",
                "file://USER:PASSWORD@HOST/PATH",
                "USER:PASSWORD@HOST:PATH",
                "USER:PASSWORD@HOST/PATH",
                "HOST/USER:PASSWORD@HOST/PATH",
                "//USER:PASSWORD@HOST/PATH",
                "//HOST/USER:PASSWORD@HOST/PATH",
                "USER@HOST:PASSWORD@HOST:PATH",
                "USER:PASSWORD@HOST:22:PATH",
                "ext::ssh USER:PASSWORD@HOST",
            ]),
            user in "[a-z]{1,6}",
            before in "[a-z0-9/:@%?#&=+!.-]{0,4}",
            after in "[a-z0-9/:@%?#&=+!.-]{0,4}",
        ) {
            let text = shape
                .replace("USER", &user)
                .replace("HOST", "git.example.com")
                .replace("PATH", "team/fleet")
                .replace("PASSWORD", &format!("{before}C4n4ry{after}"));
            let shown = match text.parse::<RemoteUrl>() {
                Ok(url) => format!(
                    "{url} {url:?} {} {:?} {} {:?}",
                    url.address(), url.page(), url.place(), url.userinfo(),
                ),
                Err(error) => format!("{error} {error:?}"),
            };
            proptest::prop_assert!(!shown.contains("C4n4ry"), "{text}: {shown}");
        }
    }

    #[test]
    fn escapes_in_credentials_are_decoded() {
        let url = url("https://c%69:a%40b%3Ac@host/x");
        let info = url.userinfo().unwrap();
        assert_eq!((info.user.reveal(), info.password.reveal()), ("ci", "a@b:c"));
        assert!("https://a%4:b@host/x".parse::<RemoteUrl>().is_err());
    }

    #[test]
    fn another_server_is_not_the_same_server() {
        let url = url("https://ci:x@host/fleet");
        assert!(url.same_server("https://HOST:443/elsewhere"));
        assert!(!url.same_server("https://evil/fleet"));
        assert!(!url.same_server("http://host/fleet"));
        assert!(!url.same_server("https://host:8443/fleet"));
    }
}
