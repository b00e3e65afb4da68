//! The flags that say where the cluster and the repository are, and what opens it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use sha2::{Digest, Sha256};

use super::global;
use cutover_cluster::{self as cluster, Cluster, ConnectOptions};
use cutover_controller::reconcile::Elsewhere;
use cutover_core::config::StatusBranches;
use cutover_core::error::{Error, Result};
use cutover_git::{
    Credentials, HttpsCredentials, Limits, Options, RemoteUrl, Secret, SigningKey, SshCredentials,
};

/// How long a command that can go on without the control plane waits for its answer.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Which Karmada API server.
#[derive(Args, Debug)]
#[command(next_help_heading = "Control plane options")]
pub struct ClusterArgs {
    /// The kubeconfig of the Karmada API server; default: KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in it; default: the current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl ClusterArgs {
    /// Returns whether a control plane was named: then it is said if it can't be asked.
    pub const fn is_named(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// Finds the API server; sends nothing yet.
    pub async fn connect(&self) -> Result<Cluster> {
        let options = ConnectOptions {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            ..ConnectOptions::default()
        };
        Ok(cluster::connect(&options).await?)
    }
}

/// Which control plane is asked before something is written, if one is.
#[derive(Args, Debug)]
pub struct AskArgs {
    /// Decide by the files alone: ask neither the control plane nor the status branch
    #[arg(long, help_heading = "Control plane options")]
    offline: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl AskArgs {
    pub const fn is_offline(&self) -> bool {
        self.offline
    }

    /// Returns how the control plane is reached; `None`: it is not to be asked.
    pub fn cluster(&self) -> Option<&ClusterArgs> {
        (!self.offline).then_some(&self.cluster)
    }

    /// Returns how the control plane is reached by what comes after.
    pub fn into_cluster(self) -> ClusterArgs {
        self.cluster
    }

    /// Finds the API server; sends nothing yet.
    pub async fn connect(&self) -> Result<Cluster> {
        self.cluster.connect().await
    }
}

/// What opens the repository, and where its mirror is kept.
#[derive(Args, Debug)]
#[command(next_help_heading = "Git options")]
pub struct GitArgs {
    /// Where the mirror of the repository is kept; losing it costs a clone [default: under ~/.local/state/cutover]
    #[arg(long, value_name = "DIR", env = "CUTOVER_STATE_DIR")]
    state_dir: Option<PathBuf>,
    /// A file with the token for https, read at each connection
    #[arg(long, value_name = "FILE", conflicts_with = "git_token")]
    git_token_file: Option<PathBuf>,
    /// The token for https; better given by the environment, where other users can't read it
    #[arg(long, value_name = "TOKEN", env = "CUTOVER_GIT_TOKEN", hide_env_values = true)]
    git_token: Option<String>,
    /// The user name that goes with the token
    #[arg(long, value_name = "NAME")]
    git_user: Option<String>,
    /// The private key for ssh; default: the agent
    #[arg(long, value_name = "FILE")]
    git_ssh_key: Option<PathBuf>,
    /// A file with the passphrase of that key
    #[arg(long, value_name = "FILE", requires = "git_ssh_key")]
    git_ssh_passphrase_file: Option<PathBuf>,
    /// The host keys to trust; default: ~/.ssh/known_hosts
    #[arg(long, value_name = "FILE")]
    git_known_hosts: Option<PathBuf>,
    /// More certificate authorities (PEM) to trust for https
    #[arg(long, value_name = "FILE")]
    git_ca_file: Option<PathBuf>,
    /// The most that is received in one conversation, the first clone included
    #[arg(long, value_name = "MIB", default_value_t = Limits::default().received_bytes >> 20)]
    git_receive_limit: u64,
}

impl GitArgs {
    /// Returns how to open a branch of a repository.
    pub fn options(&self, url: RemoteUrl, branch: &str) -> Result<Options> {
        let url = absolute(&url)?;
        let state_dir = match &self.state_dir {
            Some(dir) => dir.clone(),
            None => default_state_dir(&url)?,
        };
        let limits = Limits {
            received_bytes: self.git_receive_limit.saturating_mul(1 << 20),
            ..Limits::default()
        };
        Ok(Options {
            limits,
            credentials: self.credentials(),
            seed: fastrand::u64(..),
            ..Options::new(url, branch, state_dir).within(global::budget())
        })
    }

    /// Returns the certificate authorities to trust beside those of the system.
    pub fn ca_file(&self) -> Option<&Path> {
        self.git_ca_file.as_deref()
    }

    /// Returns what opens the repository.
    pub fn credentials(&self) -> Credentials {
        let user = self.git_user.clone();
        let https = match (&self.git_token, &self.git_token_file) {
            (Some(token), _) => HttpsCredentials::Token {
                user,
                token: Secret::new(token),
            },
            (None, Some(path)) => HttpsCredentials::TokenFile {
                user,
                path: path.clone(),
            },
            (None, None) => HttpsCredentials::None,
        };
        let ssh = match &self.git_ssh_key {
            Some(path) => SshCredentials::KeyFile {
                path: path.clone(),
                passphrase_file: self.git_ssh_passphrase_file.clone(),
            },
            None => SshCredentials::Agent,
        };
        Credentials {
            https,
            ssh,
            known_hosts: self.git_known_hosts.clone(),
            ca_file: self.git_ca_file.clone(),
        }
    }
}

/// Where `cutover.yaml` may have status committed to: every command that looks there has to be told what the reconciler is.
#[derive(Args, Debug)]
#[command(next_help_heading = "Status options")]
pub struct StatusBranchArgs {
    /// A branch that cutover.yaml may name for status, beside cutover-status; * and ? stand for letters within a name.
    /// May be given several times [default: cutover-status-*]
    #[arg(long = "status-branch", value_name = "PATTERN")]
    status_branches: Vec<String>,
}

impl StatusBranchArgs {
    /// Returns the branches that `cutover.yaml` may name.
    pub fn branches(&self) -> StatusBranches {
        if self.status_branches.is_empty() {
            return StatusBranches::default();
        }
        StatusBranches::of(self.status_branches.iter().cloned())
    }
}

/// Where status is committed to, and how.
#[derive(Args, Debug)]
#[command(next_help_heading = "Status options")]
pub struct StatusArgs {
    /// Commit status to this repository instead: to the branch and the folder that cutover.yaml names under status
    #[arg(long, value_name = "URL")]
    status_repo: Option<RemoteUrl>,
    /// A file with the token for it, read at each connection; default: what opens --repo
    #[arg(long, value_name = "FILE", requires = "status_repo")]
    status_token_file: Option<PathBuf>,
    /// The private key for it; default: what opens --repo
    #[arg(long, value_name = "FILE", requires = "status_repo")]
    status_ssh_key: Option<PathBuf>,
    #[command(flatten)]
    allowed: StatusBranchArgs,
    /// Sign the commits with this private key (OpenSSH's format; ed25519 or ECDSA), as git does with gpg.format=ssh
    #[arg(long, value_name = "FILE")]
    signing_key: Option<PathBuf>,
    /// A file with the passphrase of that key
    #[arg(long, value_name = "FILE", requires = "signing_key")]
    signing_passphrase_file: Option<PathBuf>,
}

impl StatusArgs {
    /// Returns what commits are signed with, if they are.
    pub fn signing(&self) -> Option<SigningKey> {
        self.signing_key.clone().map(|path| SigningKey {
            path,
            passphrase_file: self.signing_passphrase_file.clone(),
        })
    }

    /// Returns the branches that `cutover.yaml` may name.
    pub fn branches(&self) -> StatusBranches {
        self.allowed.branches()
    }

    /// Returns the repository and what opens it, if it is another one.
    pub fn elsewhere(&self, git: &GitArgs) -> Result<Option<Elsewhere>> {
        let mut credentials = git.credentials();
        if let Some(path) = &self.status_token_file {
            credentials.https = HttpsCredentials::TokenFile {
                user: git.git_user.clone(),
                path: path.clone(),
            };
        }
        if let Some(path) = &self.status_ssh_key {
            credentials.ssh = SshCredentials::KeyFile {
                path: path.clone(),
                passphrase_file: git.git_ssh_passphrase_file.clone(),
            };
        }
        let url = self.status_repo.as_ref().map(absolute).transpose()?;
        Ok(url.map(|url| Elsewhere { url, credentials }))
    }
}

fn absolute(url: &RemoteUrl) -> Result<RemoteUrl> {
    let failed = |error| Error::user(format!("cannot tell which directory {url} is: {error}"));
    url.absolute().map_err(failed)
}

/// Returns a directory of its own for each repository.
fn default_state_dir(url: &RemoteUrl) -> Result<PathBuf> {
    let base = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state")));
    let Some(base) = base else {
        return Err(
            Error::user("there is no home directory for the mirror of the repository")
                .hint("pass --state-dir"),
        );
    };
    let digest = Sha256::digest(url.to_string());
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Ok(base.join("cutover").join(name))
}
