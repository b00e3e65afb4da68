//! Where a repository is shown on the web: the pages of its commits and files. Nothing is asked for here.

use std::fmt;
use std::str::FromStr;

use cutover_karmada::name::Revision;

/// What serves a repository to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    GitHub,
    GitLab,
    /// And Forgejo, whose addresses and API are the same.
    Gitea,
    Bitbucket,
}

/// Not the name of a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is none of github, gitlab, gitea, forgejo, bitbucket")]
pub struct NoHost(String);

impl Host {
    /// Returns what a server is by its name, where that tells: the public ones, and those that bear it in their name.
    pub fn of(server: &str) -> Option<Self> {
        let server = server.to_ascii_lowercase();
        if matches!(server.as_str(), "codeberg.org") {
            return Some(Self::Gitea);
        }
        server.split(['.', '-', '_']).find_map(|part| part.parse().ok())
    }

    /// Returns where the REST API of a server is; `root` is what its addresses begin with.
    pub fn api(self, root: &str) -> String {
        match self {
            Self::GitHub if root == "https://github.com" => "https://api.github.com".to_owned(),
            Self::GitHub => format!("{root}/api/v3"),
            Self::GitLab => format!("{root}/api/v4"),
            Self::Gitea => format!("{root}/api/v1"),
            Self::Bitbucket => "https://api.bitbucket.org/2.0".to_owned(),
        }
    }
}

impl FromStr for Host {
    type Err = NoHost;

    fn from_str(name: &str) -> Result<Self, NoHost> {
        match name.to_ascii_lowercase().as_str() {
            "github" => Ok(Self::GitHub),
            "gitlab" => Ok(Self::GitLab),
            "gitea" | "forgejo" => Ok(Self::Gitea),
            "bitbucket" => Ok(Self::Bitbucket),
            _ => Err(NoHost(name.to_owned())),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The web pages of one repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Web {
    pub host: Host,
    /// The repository's own page, without a slash at the end.
    page: String,
}

impl Web {
    /// `None` for what is no address of a page, or can't stand in a Markdown link as it is.
    pub fn new(host: Host, page: &str) -> Option<Self> {
        let page = page.trim_end_matches('/');
        let (scheme, rest) = page.split_once("://")?;
        let (server, path) = rest.split_once('/')?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~%/:".contains(c);
        let fits = matches!(scheme, "https" | "http") && !server.is_empty() && !path.is_empty();
        (fits && rest.chars().all(plain)).then(|| Self {
            host,
            page: page.to_owned(),
        })
    }

    pub fn page(&self) -> &str {
        &self.page
    }

    pub fn commit(&self, revision: &Revision) -> String {
        let folder = match self.host {
            Host::GitHub | Host::Gitea => "commit",
            Host::GitLab => "-/commit",
            Host::Bitbucket => "commits",
        };
        format!("{}/{folder}/{revision}", self.page)
    }

    /// Returns the page of a file as a branch has it now.
    pub fn file(&self, branch: &str, path: &str) -> String {
        let folder = match self.host {
            Host::GitHub => "blob",
            Host::GitLab => "-/blob",
            Host::Gitea => "src/branch",
            Host::Bitbucket => "src",
        };
        format!("{}/{folder}/{}/{}", self.page, encoded(branch), encoded(path))
    }

    /// Returns the page of a file as a commit has it, at a line, which counts from 1.
    pub fn line(&self, revision: &Revision, path: &str, line: u32) -> String {
        let (folder, anchor) = match self.host {
            Host::GitHub => ("blob", "L"),
            Host::GitLab => ("-/blob", "L"),
            Host::Gitea => ("src/commit", "L"),
            Host::Bitbucket => ("src", "lines-"),
        };
        let path = encoded(path);
        format!("{}/{folder}/{revision}/{path}#{anchor}{line}", self.page)
    }
}

/// Escapes what has a meaning in an address or in Markdown.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_its_name_or_not_at_all() {
        for (server, host) in [
            ("github.com", Some(Host::GitHub)),
            ("GitHub.example.com", Some(Host::GitHub)),
            ("gitlab.com", Some(Host::GitLab)),
            ("my-gitlab.example.com", Some(Host::GitLab)),
            ("codeberg.org", Some(Host::Gitea)),
            ("forgejo.example.com", Some(Host::Gitea)),
            ("bitbucket.org", Some(Host::Bitbucket)),
            ("git.example.com", None),
            ("notgithub.com", None),
        ] {
            assert_eq!(Host::of(server), host, "{server}");
        }
    }

    #[test]
    fn pages_are_those_of_the_host() {
        let revision: Revision = "4a8f0c1d2e3b4a5968778695a4b3c2d1e0f9a8b7".parse().unwrap();
        for (host, commit, file) in [
            (Host::GitHub, "commit", "blob/cutover-status/a%20b%29.md"),
            (Host::GitLab, "-/commit", "-/blob/cutover-status/a%20b%29.md"),
            (Host::Gitea, "commit", "src/branch/cutover-status/a%20b%29.md"),
            (Host::Bitbucket, "commits", "src/cutover-status/a%20b%29.md"),
        ] {
            let web = Web::new(host, "https://git.example.com/team/fleet/").unwrap();
            assert_eq!(
                web.commit(&revision),
                format!("https://git.example.com/team/fleet/{commit}/{revision}")
            );
            assert_eq!(
                web.file("cutover-status", "a b).md"),
                format!("https://git.example.com/team/fleet/{file}")
            );
        }
    }

    #[test]
    fn a_line_of_a_file_is_that_of_one_commit() {
        let revision: Revision = "4a8f0c1d2e3b4a5968778695a4b3c2d1e0f9a8b7".parse().unwrap();
        for (host, folder, anchor) in [
            (Host::GitHub, "blob", "#L12"),
            (Host::GitLab, "-/blob", "#L12"),
            (Host::Gitea, "src/commit", "#L12"),
            (Host::Bitbucket, "src", "#lines-12"),
        ] {
            let web = Web::new(host, "https://git.example.com/team/fleet").unwrap();
            assert_eq!(
                web.line(&revision, "apps/a b).yaml", 12),
                format!("https://git.example.com/team/fleet/{folder}/{revision}/apps/a%20b%29.yaml{anchor}")
            );
        }
    }

    #[test]
    fn what_would_not_be_a_link_is_none() {
        for page in [
            "https://git.example.com",
            "https://git.example.com/",
            "/srv/fleet.git",
            "ssh://git.example.com/fleet",
            "https://me@git.example.com/fleet",
            "https://git.example.com/fl eet",
            "https://git.example.com/x) [y](z",
        ] {
            assert_eq!(Web::new(Host::Gitea, page), None, "{page}");
        }
    }
}
