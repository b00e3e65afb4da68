//! `cutover plan`: what a push would change in a live control plane. Writes nothing there.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::clone;
use super::connection::{ClusterArgs, GitArgs, StatusBranchArgs};
use super::output::{self, OUTPUT};
use super::progress;
use cutover_controller::reconcile::sync::Range;
use cutover_controller::reconcile::{self, Previews, Target};
use cutover_core::error::{Error, Kind, Result};
use cutover_core::plan::{DiffStyle, Palette, Problem, TextOptions};
use cutover_core::report::review::{COMMENT_LIMIT, Review};
use cutover_core::report::{MOST_ANNOTATIONS, annotation_commands, plan_annotations};
use cutover_git::{self as repo, RemoteUrl};
use cutover_karmada::name::Revision;

#[derive(Args, Debug)]
pub struct Plan {
    /// A clone on this machine: the commit that is checked out is planned
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// A repository elsewhere, instead of PATH
    #[arg(long, value_name = "URL", conflicts_with = "path")]
    repo: Option<RemoteUrl>,
    /// The branch to plan [default: what is checked out in PATH; main with --repo]
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// A commit to plan; or A..B: only what B changes compared with A; or A...B: with where B branched off from A
    #[arg(long, value_name = "COMMITS", conflicts_with = "branch")]
    revision: Option<String>,
    /// `markdown`: for a comment; `github`: as annotations of a workflow
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help_heading = OUTPUT)]
    output: Format,
    /// How changes are shown; `auto`: field by field, or as a diff of the YAML, whichever reads better
    #[arg(long, value_name = "STYLE", default_value = "auto", help_heading = OUTPUT)]
    diff: Diff,
    /// The most characters that `-o markdown` may take: GitHub refuses longer comments
    #[arg(long, value_name = "CHARACTERS", default_value_t = COMMENT_LIMIT, help_heading = OUTPUT)]
    limit: usize,
    /// Exit with 2 when there are changes
    #[arg(long, help_heading = OUTPUT)]
    detailed_exitcode: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    allowed: StatusBranchArgs,
    #[command(flatten)]
    git: GitArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
    Markdown,
    Github,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Diff {
    Auto,
    Unified,
    Fields,
}

const CHANGES: u8 = 2;

impl Plan {
    pub async fn run(self) -> Result<ExitCode> {
        let cluster = self.cluster.connect().await?;
        cluster.require_karmada().await?;
        let cluster = match self.output {
            Format::Text | Format::Markdown => progress::shown(cluster),
            Format::Json | Format::Github => cluster,
        };
        let clone = match &self.repo {
            Some(_) => None,
            None => repo::discover(&self.path).ok(),
        };
        let (url, branch, target) = self.source(clone.as_ref())?;
        let options = self.git.options(url, &branch)?;
        let mut plan = reconcile::plan(&options, &cluster, target, &CancellationToken::new()).await?;
        let mut previews = reconcile::previews(&cluster, &plan, Timestamp::now()).await;
        if let Some(clone) = &clone {
            previews.remember(&clone::history(clone, &plan.revision));
            if let Some(told) = clone::uncommitted(clone, &plan.revision) {
                output::note(format!("note: {told}"));
            }
        }
        previews.note_in(&mut plan.changes);
        let synced = self.repo.is_some().then_some(branch.as_str());
        let refused = plan
            .status
            .check(synced.or(self.branch.as_deref()), &self.allowed.branches());
        if let Err(error) = refused {
            // A run carries out nothing of it.
            plan.changes.problems.push(Problem {
                message: error.to_string(),
                hint: error.hint_text().map(str::to_owned),
                at: error.location().cloned(),
            });
        }
        self.tell(&plan, &previews, cluster.server())
    }

    /// Returns the repository, the branch and the commits that are meant.
    fn source(&self, clone: Option<&git2::Repository>) -> Result<(RemoteUrl, String, Target)> {
        let branch = self.branch.clone().unwrap_or_else(|| "main".to_owned());
        if let Some(url) = &self.repo {
            let target = match &self.revision {
                Some(text) => Target::Range(written_out(text)?),
                None => Target::Newest,
            };
            return Ok((url.clone(), branch, target));
        }
        let clone = clone.ok_or_else(|| {
            Error::user(format!("{} is not in a Git repository", self.path.display()))
                .hint("name a clone, or a remote with --repo")
        })?;
        let url = local(clone.path())?;
        let range = match (&self.revision, &self.branch) {
            (Some(text), _) => range(clone, text)?,
            (None, Some(branch)) => range(clone, &format!("refs/heads/{branch}"))?,
            (None, None) => range(clone, "HEAD")?,
        };
        Ok((url, branch, Target::Range(range)))
    }

    fn tell(&self, plan: &reconcile::Plan, previews: &Previews, server: &str) -> Result<ExitCode> {
        let view = plan.changes.view(Some(&plan.hash));
        match self.output {
            Format::Text => output::data(view.text(&self.options()))?,
            Format::Json => {
                let text = serde_json::to_string_pretty(&view.document())
                    .map_err(|error| Error::internal(format!("the plan cannot be written: {error}")))?;
                output::json(text + "\n")?;
            }
            Format::Markdown => {
                let review = Review {
                    key: "plan",
                    plan: Some(view),
                    endings: &previews.endings,
                    server: Some(server),
                    ..Review::default()
                };
                output::data(review.markdown(self.limit))?;
            }
            Format::Github => {
                output::commands(annotation_commands(&plan_annotations(&view), MOST_ANNOTATIONS))?;
            }
        }
        for problem in &plan.changes.problems {
            output::problem(&problem.message, problem.at.as_ref(), problem.hint.as_deref());
        }
        let is_blocked = plan.changes.summary().blocked > 0 || plan.changes.refuses();
        Ok(if is_blocked || !plan.changes.problems.is_empty() {
            ExitCode::from(Kind::User.exit_code())
        } else if self.detailed_exitcode && !plan.changes.is_noop() {
            ExitCode::from(CHANGES)
        } else {
            ExitCode::SUCCESS
        })
    }

    fn options(&self) -> TextOptions {
        TextOptions {
            palette: Palette::coloured(),
            style: match self.diff {
                Diff::Auto => DiffStyle::Auto,
                Diff::Unified => DiffStyle::Unified,
                Diff::Fields => DiffStyle::Fields,
            },
            ..TextOptions::default()
        }
    }
}

pub(super) fn local(path: &Path) -> Result<RemoteUrl> {
    Ok(path.to_string_lossy().parse()?)
}

/// Finds a commit as Git names it, in a clone.
pub(super) fn commit(clone: &git2::Repository, name: &str) -> Result<git2::Oid> {
    let name = if name.is_empty() { "HEAD" } else { name };
    repo::named(clone, name).map_err(|error| {
        if error.class() == git2::ErrorClass::Odb && error.code() == git2::ErrorCode::Invalid {
            return Error::user(format!("cannot read {name:?}: {}", error.message()))
                .hint("look for the damage (git fsck), and restore the objects from another clone");
        }
        if let Some(branch) = name.strip_prefix("refs/heads/") {
            return Error::user(format!("there is no branch {branch} here")).hint(
                "git branch shows those that are; of a remote one, name the commit: --revision origin/main",
            );
        }
        Error::user(format!("there is no commit {name:?} here"))
            .hint("commit, or fetch it first (in GitHub's checkout action: `fetch-depth: 0`)")
    })
}

/// Reads commits as Git names them, in a clone.
pub(super) fn range(clone: &git2::Repository, text: &str) -> Result<Range> {
    let commit = |name: &str| commit(clone, name);
    let revision = |id: git2::Oid| -> Result<Revision> {
        id.to_string()
            .parse()
            .map_err(|error| Error::internal(format!("{error}")))
    };
    let Some((from, to)) = text.split_once("..") else {
        return Ok(Range {
            revision: revision(commit(text)?)?,
            base: None,
        });
    };
    let (from, to, fork) = match to.strip_prefix('.') {
        Some(to) => (commit(from)?, commit(to)?, true),
        None => (commit(from)?, commit(to)?, false),
    };
    let base = if fork {
        clone.merge_base(from, to).map_err(|_| {
            Error::user("these commits have no history in common").hint("compare them with two dots: A..B")
        })?
    } else {
        from
    };
    Ok(Range {
        revision: revision(to)?,
        base: Some(revision(base)?),
    })
}

/// Reads commits that are written out: without a clone, no name can be looked up.
fn written_out(text: &str) -> Result<Range> {
    let revision = |text: &str| -> Result<Revision> {
        text.parse().map_err(|_| {
            Error::user(format!("not a commit: {text:?}"))
                .hint("with --repo, write all digits of a commit; names can be used in a clone")
        })
    };
    Ok(match text.split_once("..") {
        Some((base, to)) => Range {
            revision: revision(to)?,
            base: Some(revision(base)?),
        },
        None => Range {
            revision: revision(text)?,
            base: None,
        },
    })
}
