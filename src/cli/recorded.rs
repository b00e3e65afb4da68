//! What the status branch says, read at the remote without a control plane.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::connection::GitArgs;
use cutover_core::config::{Config, StatusBranches};
use cutover_core::error::{Error, Kind, Result};
use cutover_core::intent::record;
use cutover_core::report::{self, Overview, View};
use cutover_git::{self as repo, Checkout, RemoteUrl, Repo};

/// The status branch of a repository.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub url: RemoteUrl,
    pub branch: String,
    /// The folder of it that has everything.
    pub directory: Option<String>,
}

impl Recorded {
    /// Returns the one that the settings of a clone name, if a reconciler commits there: what stands on another branch says
    /// nothing of how anything is.
    pub fn of(checkout: &Checkout, config: &Config, allowed: &StatusBranches) -> Result<Self> {
        let status = &config.status;
        status.check(None, allowed)?;
        let source = match status.within_source() {
            Some(_) => checkout.branch()?,
            None => String::new(),
        };
        Ok(Self {
            url: checkout.remote()?,
            branch: status.branch_beside(&source).to_owned(),
            directory: status.directory.clone(),
        })
    }

    /// Returns everything that the branch says; `None` if there is no such branch.
    pub async fn view(&self, git: &GitArgs) -> Result<Option<View>> {
        let repo = self.open(git).await?;
        let paths = [report::SNAPSHOT_FILE, "intents"];
        let Some(files) = self.read_in(&repo, &paths).await? else {
            return Ok(None);
        };
        let (intents, others): (Vec<_>, Vec<_>) = files
            .into_iter()
            .partition(|(path, _)| path.starts_with("intents/"));
        let mut documents: BTreeMap<String, Vec<serde_json::Value>> = BTreeMap::new();
        for (path, bytes) in &intents {
            let document: serde_json::Value =
                serde_yaml::from_slice(bytes).map_err(|error| unreadable(path, &error))?;
            let kind = document["kind"].as_str().unwrap_or_default().to_owned();
            documents.entry(kind).or_default().push(document);
        }
        let mut failed = None;
        let intents = Overview::of_intents(
            |kind| documents.remove(kind).unwrap_or_default(),
            |kind, document, error| {
                let text = |field: &str| document["metadata"][field].as_str();
                let path = record::path(kind, text("namespace"), text("name").unwrap_or_default());
                failed = Some(unreadable(&path, &error));
            },
        );
        if let Some(failed) = failed {
            return Err(failed);
        }
        let snapshot = others.first().map(|(_, bytes)| bytes.as_slice());
        let view = View::recorded(snapshot, intents)?;
        // A branch that has the status in a folder is ahead of what the status is of.
        let branch = view.branch().filter(|branch| *branch != self.branch);
        let head = match branch.map(str::to_owned) {
            // What can't be had says nothing.
            Some(branch) => repo.remote_tip(branch).await.ok().flatten(),
            None => None,
        };
        Ok(Some(view.with_head(head)))
    }

    /// Returns the record of an intent, in a namespace or of cluster scope; `None` if there certainly is none.
    pub async fn document<T: DeserializeOwned>(
        &self,
        git: &GitArgs,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<T>> {
        let path = record::path(kind, namespace, name);
        let files = self.read(git, &[&path]).await?.unwrap_or_default();
        let read = |(path, bytes): &(String, Vec<u8>)| {
            serde_yaml::from_slice(bytes).map_err(|error| unreadable(path, &error))
        };
        files.first().map(read).transpose()
    }

    async fn read(&self, git: &GitArgs, paths: &[&str]) -> Result<Option<Vec<(String, Vec<u8>)>>> {
        let repo = self.open(git).await?;
        self.read_in(&repo, paths).await
    }

    async fn open(&self, git: &GitArgs) -> Result<Repo> {
        let mut options = git.options(self.url.clone(), &self.branch)?;
        options.status_branch.clone_from(&self.branch);
        // A reconciler on this machine has the mirror of the repository for itself.
        options.state_dir = options.state_dir.join("status");
        Ok(Repo::open(options, CancellationToken::new()).await?)
    }

    async fn read_in(&self, repo: &Repo, paths: &[&str]) -> Result<Option<Vec<(String, Vec<u8>)>>> {
        let fetched = match repo.fetch().await {
            Ok(fetched) => fetched,
            Err(repo::Error::NoBranch { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let within = |path: &&str| match &self.directory {
            Some(directory) => format!("{directory}/{path}"),
            None => (*path).to_owned(),
        };
        let paths: Vec<String> = paths.iter().map(within).collect();
        let changes = repo.files(fetched.revision, &paths).await?;
        let short = |path: String| match &self.directory {
            Some(directory) => path[directory.len() + 1..].to_owned(),
            None => path,
        };
        let (names, blobs): (Vec<_>, Vec<_>) = changes
            .files
            .into_iter()
            .map(|file| (short(file.path), file.blob))
            .unzip();
        let contents = repo.read(blobs).await?;
        let files = names.into_iter().zip(contents);
        let files: Result<Vec<_>> = files.map(|(path, content)| Ok((path, content?))).collect();
        files.map(Some)
    }
}

fn unreadable(path: &str, error: &dyn std::fmt::Display) -> Error {
    Error::new(
        Kind::User,
        format!("{path} on the status branch cannot be read: {error}"),
    )
    .hint("is it of a newer release, or was it edited?")
}
