//! The flags that say who hosts the repository, and what is told there.

use std::path::{Path, PathBuf};

use clap::Args;

use cutover_controller::reconcile::Statuses;
use cutover_core::error::{Error, Result};
use cutover_core::report::{Host, Web};
use cutover_forge::{Api, Commits, RetryPolicy, Teller, Telling, Token};
use cutover_git::{RemoteUrl, Secret};

/// Who hosts the repository, and what commits are told of there.
#[derive(Args, Debug)]
#[command(next_help_heading = "Forge options")]
pub struct ForgeArgs {
    /// What hosts the repository: github, gitlab, gitea, forgejo or bitbucket; default: what its server's name says
    #[arg(long, value_name = "NAME")]
    forge: Option<Host>,
    /// The repository's page, where it isn't at the place that the URL of the repository says
    #[arg(long, value_name = "URL")]
    forge_page: Option<String>,
    /// The REST API of the host, where it isn't at its usual place; for instance https://git.example.com/api/v1
    #[arg(long, value_name = "URL")]
    forge_api: Option<String>,
    /// Report each commit's result as a commit status: a file with a token that may write these, read at each use
    #[arg(long, value_name = "FILE", conflicts_with = "forge_token")]
    forge_token_file: Option<PathBuf>,
    /// That token; better given by the environment, where other users can't read it
    #[arg(
        long,
        value_name = "TOKEN",
        env = "CUTOVER_FORGE_TOKEN",
        hide_env_values = true
    )]
    forge_token: Option<String>,
    /// What the names of commit statuses begin with; each control plane that one repository is for needs its own
    #[arg(long, value_name = "NAME", default_value = "cutover")]
    commit_status_name: String,
    /// Where commit statuses link to; default: the status branch
    #[arg(long, value_name = "URL")]
    commit_status_link: Option<http::Uri>,
}

impl ForgeArgs {
    /// Returns where people see the repository, as far as that is known.
    pub fn web(&self, repo: &RemoteUrl) -> Result<Option<Web>> {
        let found = repo.page();
        let host = self.forge.or_else(|| Host::of(found.as_ref()?.0));
        let page = self.forge_page.clone().or(found.map(|(_, page)| page));
        let (Some(host), Some(page)) = (host, page) else {
            return Ok(None);
        };
        match Web::new(host, &page) {
            None if self.forge_page.is_some() => {
                Err(Error::user(format!("not the page of a repository: {page:?}"))
                    .hint("for instance https://git.example.com/team/fleet"))
            }
            web => Ok(web),
        }
    }

    /// Starts to tell how commits fare, if there is a token.
    pub fn statuses(
        &self,
        web: Option<&Web>,
        ca_file: Option<&Path>,
        policy: RetryPolicy,
    ) -> Result<Option<(Statuses, Telling)>> {
        let token = match (&self.forge_token, &self.forge_token_file) {
            (Some(token), _) => Token::Given(Secret::new(token)),
            (None, Some(path)) => Token::File(path.clone()),
            (None, None) => return Ok(None),
        };
        let Some(web) = web else {
            return Err(
                Error::user("commit statuses can't be written: it is not known who hosts the repository")
                    .hint("name the host with --forge, and the page of the repository with --forge-page if its URL doesn't say it"),
            );
        };
        let api = match &self.forge_api {
            Some(api) => api.clone(),
            None => web.host.api(root(web.page())),
        };
        let api = Api::trusting(&api, None, policy, ca_file)?;
        let (teller, telling) = Teller::start(Commits::new(api, web, token)?, Teller::AGAIN);
        let statuses = Statuses {
            teller,
            name: self.commit_status_name.clone(),
            link: self.commit_status_link.as_ref().map(ToString::to_string),
        };
        Ok(Some((statuses, telling)))
    }
}

/// Returns the server of an address.
fn root(page: &str) -> &str {
    let after = page.find("://").map_or(0, |at| at + 3);
    page[after..].find('/').map_or(page, |at| &page[..after + at])
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        forge: ForgeArgs,
    }

    fn web(repo: &str, args: &[&str]) -> Result<Option<Web>> {
        let cli = Cli::parse_from([&["cutover"], args].concat());
        cli.forge.web(&repo.parse().unwrap())
    }

    #[test]
    fn the_host_is_known_by_the_url_or_named() {
        let page = |repo: &str, args: &[&str]| {
            web(repo, args)
                .unwrap()
                .map(|web| (web.host, web.page().to_owned()))
        };
        let expected = |host, page: &str| Some((host, page.to_owned()));
        assert_eq!(
            page("git@github.com:team/fleet.git", &[]),
            expected(Host::GitHub, "https://github.com/team/fleet")
        );
        assert_eq!(page("git@git.example.com:team/fleet.git", &[]), None);
        assert_eq!(
            page("git@git.example.com:team/fleet.git", &["--forge", "forgejo"]),
            expected(Host::Gitea, "https://git.example.com/team/fleet")
        );
        let given = [
            "--forge",
            "gitlab",
            "--forge-page",
            "https://web.example.com/team/fleet",
        ];
        assert_eq!(
            page("/srv/fleet.git", &given),
            expected(Host::GitLab, "https://web.example.com/team/fleet")
        );
        assert!(web("/srv/fleet.git", &["--forge", "gitlab", "--forge-page", "fleet"]).is_err());
        assert_eq!(root("https://a.b:1/c/d"), "https://a.b:1");
    }
}
