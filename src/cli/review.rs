//! `cutover review`: what a reviewer of a pull request should know, on a terminal or where a workflow's results go.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::connection::{ClusterArgs, GitArgs};
use super::output::OUTPUT;
use super::plan::{commit, local, range};
use super::{clone, output, progress, validate};
use cutover_cluster::Cluster;
use cutover_controller::reconcile::sync::Range;
use cutover_controller::reconcile::{self, Previews, Target};
use cutover_core::error::{Error, Kind, Result};
use cutover_core::finding::Finding;
use cutover_core::plan::{ChangeSet, Hash};
use cutover_core::report::review::{COMMENT_LIMIT, Counts, Links, Review as Report, marker};
use cutover_core::report::{History, Host, MOST_ANNOTATIONS, Web, annotation_commands};
use cutover_forge::{Api, GitHub, RETRY_POLICY, Runner, Sticky};
use cutover_git::{self as repo, Secret};
use cutover_karmada::name::Revision;

#[derive(Args, Debug)]
pub struct Review {
    /// The clone, with what is proposed checked out
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// What is reviewed, as A...B or A..B [default: with -o github, what the pull request changes; else HEAD]
    #[arg(long, value_name = "COMMITS")]
    revision: Option<String>,
    /// `markdown`: the report to stdout; `github`: as a workflow's step: comment, summary, annotations, outputs
    #[arg(short, long, value_name = "FORMAT", default_value = "markdown", help_heading = OUTPUT)]
    output: Format,
    /// Ask no control plane: check the files, and compare the commits with each other
    #[arg(long, help_heading = "Control plane options")]
    offline: bool,
    /// Tells this report from others of the same pull request: letters, digits and dashes
    #[arg(long, value_name = "KEY", default_value = "plan", help_heading = OUTPUT)]
    key: String,
    /// The most characters that the comment may take
    #[arg(long, value_name = "CHARACTERS", default_value_t = COMMENT_LIMIT, help_heading = OUTPUT)]
    limit: usize,
    /// A file for the whole report, however long it is
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    report: Option<PathBuf>,
    /// With -o github: leave the pull request without a comment
    #[arg(long, help_heading = OUTPUT)]
    no_comment: bool,
    /// What makes the command exit with 1
    #[arg(long, value_name = "WHEN", default_value = "blocked")]
    fail_on: FailOn,
    /// The token that comments are written with
    #[arg(long, value_name = "TOKEN", env = "GITHUB_TOKEN", hide_env_values = true)]
    github_token: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    git: GitArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Markdown,
    Github,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// Something would block the change: an error in a file, a refusal of the server, a finding of Preflight
    Blocked,
    /// An error in a file
    Error,
    Never,
}

/// A step's summary may have 1 MiB; a character has four bytes at most.
const SUMMARY_LIMIT: usize = (1 << 20) / 4;

/// What was found out.
#[derive(Default)]
struct Reviewed {
    findings: Vec<Finding>,
    plan: Option<(ChangeSet, Option<Hash>)>,
    previews: Previews,
    /// The address of the control plane that was asked.
    server: Option<String>,
    links: Option<Links>,
    notes: Vec<String>,
    /// Why there is less than was asked for.
    failure: Option<Kind>,
}

/// What a control plane that was asked says.
struct Live {
    changes: ChangeSet,
    hash: Hash,
    previews: Previews,
    server: String,
}

impl Reviewed {
    fn take_live(&mut self, live: Live) {
        self.notes.extend(live.previews.notes.iter().cloned());
        self.plan = Some((live.changes, Some(live.hash)));
        self.previews = live.previews;
        self.server = Some(live.server);
    }

    fn take_offline(&mut self, mut changes: ChangeSet, history: &History) {
        let mut previews = reconcile::outlooks_offline(&changes);
        previews.remember(history);
        self.notes.extend(previews.notes.iter().cloned());
        previews.note_in(&mut changes);
        self.previews = previews;
        self.plan = Some((changes, None));
    }

    /// Says why the control plane could not be asked.
    fn note_failure(&mut self, error: &Error) {
        self.failure = Some(error.kind());
        let hint = error.hint_text().map(|hint| format!(" ({hint})"));
        self.notes.push(format!(
            "⚠️ Not compared with the control plane: {error}{}",
            hint.unwrap_or_default()
        ));
        output::failed(error);
    }
}

impl Review {
    pub async fn run(self) -> Result<ExitCode> {
        let runner = match self.output {
            Format::Github => Some(runner()?),
            Format::Markdown => None,
        };
        let reviewed = self.look(runner.as_ref()).await?;
        let whole = runner.as_ref().and_then(|runner| self.whole(runner));
        let report = Report {
            key: &self.key,
            plan: reviewed
                .plan
                .as_ref()
                .map(|(changes, hash)| changes.view(hash.as_ref())),
            findings: &reviewed.findings,
            moves: &reviewed.previews.moves,
            reaches: &reviewed.previews.reaches,
            endings: &reviewed.previews.endings,
            server: reviewed.server.as_deref(),
            links: reviewed.links.as_ref(),
            notes: &reviewed.notes,
            whole: whole.as_deref(),
        };
        if let Some(file) = &self.report {
            let written = std::fs::write(file, report.markdown(usize::MAX));
            written.map_err(|error| Error::user(format!("cannot write {}: {error}", file.display())))?;
        }
        match &runner {
            None => output::data(report.markdown(self.limit))?,
            Some(runner) => self.tell(runner, &report, &reviewed).await?,
        }
        Ok(self.exit(report.counts(), reviewed.failure))
    }

    async fn look(&self, runner: Option<&Runner>) -> Result<Reviewed> {
        let clone = repo::discover(&self.path).map_err(|_| {
            Error::user(format!("{} is not in a Git repository", self.path.display()))
                .hint("check the files alone with `cutover validate`")
        })?;
        let pull_request = runner.and_then(|runner| runner.pull_request.as_ref());
        let range = match (&self.revision, pull_request) {
            (Some(text), _) => range(&clone, text)?,
            (None, Some(pull)) => range(&clone, &format!("{}...HEAD", pull.base))?,
            (None, None) => range(&clone, "HEAD")?,
        };
        let mut reviewed = self.files(runner, &clone, &range)?;
        let history = clone::history(&clone, &range.revision);
        if self.offline {
            if pull_request.is_some_and(|pull| pull.from_fork) {
                reviewed.notes.push(
                    "From a fork: without secrets, the files are checked and compared in Git alone."
                        .to_owned(),
                );
            }
        } else {
            match self.live(&clone, range.clone(), &history).await {
                Ok(live) => {
                    reviewed.take_live(live);
                    return Ok(reviewed);
                }
                // The report has what is known without it.
                Err(error) => reviewed.note_failure(&error),
            }
        }
        match self.in_git(&clone, &range).await {
            Ok(changes) => reviewed.take_offline(changes, &history),
            Err(error) => {
                reviewed.failure.get_or_insert(error.kind());
                reviewed.notes.push(format!("⚠️ Not compared in Git: {error}"));
            }
        }
        Ok(reviewed)
    }

    /// Checks the files as they are.
    fn files(&self, runner: Option<&Runner>, clone: &git2::Repository, range: &Range) -> Result<Reviewed> {
        let base = match &range.base {
            Some(base) => validate::at(clone, commit(clone, base.as_str())?)?,
            None => validate::Base::Unknown,
        };
        // What runs, and would lose its state, is asked of the control plane where there is one.
        let (_, findings) = validate::check(&self.path, &base, self.offline, &[])?;
        let uncommitted = clone::uncommitted(clone, &range.revision);
        let notes = uncommitted.map(|told| format!("⚠️ The files are checked as they are; {told}."));
        Ok(Reviewed {
            findings,
            links: links(runner, clone, &range.revision),
            notes: notes.into_iter().collect(),
            ..Reviewed::default()
        })
    }

    async fn live(&self, clone: &git2::Repository, range: Range, history: &History) -> Result<Live> {
        let mut cluster: Cluster = self.cluster.connect().await?;
        cluster.require_karmada().await?;
        if matches!(self.output, Format::Markdown) {
            cluster = progress::shown(cluster);
        }
        let options = self.git.options(local(clone.path())?, "main")?;
        let cancel = CancellationToken::new();
        let mut plan = reconcile::plan(&options, &cluster, Target::Range(range), &cancel).await?;
        let mut previews = reconcile::previews(&cluster, &plan, Timestamp::now()).await;
        previews.remember(history);
        previews.note_in(&mut plan.changes);
        Ok(Live {
            changes: plan.changes,
            hash: plan.hash,
            previews,
            server: cluster.server().to_owned(),
        })
    }

    async fn in_git(&self, clone: &git2::Repository, range: &Range) -> Result<ChangeSet> {
        let options = self.git.options(local(clone.path())?, "main")?;
        reconcile::plan_offline(&options, range, &CancellationToken::new()).await
    }

    /// Says where the whole report is.
    fn whole(&self, runner: &Runner) -> Option<String> {
        let run = runner.run.as_ref()?;
        Some(match &self.report {
            Some(_) => format!("the artifact `cutover-{}` of [this run]({run})", self.key),
            None => format!("in the summary of [this run]({run})"),
        })
    }

    async fn tell(&self, runner: &Runner, report: &Report<'_>, reviewed: &Reviewed) -> Result<()> {
        output::commands(annotation_commands(&report.annotations(), MOST_ANNOTATIONS))?;
        if let Some(path) = &runner.summary {
            append(path, &report.markdown(SUMMARY_LIMIT))?;
        }
        let comment = self.comment(runner, report).await;
        let address = match &comment {
            Ok(Some(Sticky::Created(url) | Sticky::Updated(url) | Sticky::Unchanged(url))) => url.as_str(),
            Ok(Some(Sticky::NotAllowed(why))) => {
                output::note(format!("no comment: {why}"));
                output::commands(
                    "::notice title=cutover::The token may not comment here (a fork's may only read): the report is in the \
                     summary of this run\n",
                )?;
                ""
            }
            Ok(None) | Err(_) => "",
        };
        if let Some(path) = &runner.output {
            append(path, &self.outputs(report, reviewed, address))?;
        }
        comment.map(|_| ())
    }

    async fn comment(&self, runner: &Runner, report: &Report<'_>) -> Result<Option<Sticky>> {
        let Some(pull_request) = runner.pull_request.as_ref().filter(|_| !self.no_comment) else {
            return Ok(None);
        };
        let token = self
            .github_token
            .as_ref()
            .filter(|token| !token.trim().is_empty());
        let Some(token) = token else {
            let why = "no token is given (--github-token, or GITHUB_TOKEN)";
            return Ok(Some(Sticky::NotAllowed(why.to_owned())));
        };
        let api = Api::new(&runner.api, Some(&Secret::new(token)), RETRY_POLICY)?;
        let github = GitHub::new(api, &runner.repository)?;
        let sticky = github
            .comment(pull_request, &marker(&self.key), &report.markdown(self.limit))
            .await?;
        Ok(Some(sticky))
    }

    fn outputs(&self, report: &Report<'_>, reviewed: &Reviewed, comment: &str) -> String {
        let counts = report.counts();
        let (summary, hash) = reviewed.plan.as_ref().map_or_else(
            || (cutover_core::plan::Summary::default(), String::new()),
            |(changes, hash)| {
                let hash = hash.as_ref().map(ToString::to_string);
                (changes.summary(), hash.unwrap_or_default())
            },
        );
        let changes = summary.create + summary.change + summary.delete + summary.recreate;
        let file = self.report.as_ref().map(|file| file.display().to_string());
        let mut text = String::new();
        for (name, value) in [
            ("changes", changes.to_string()),
            ("hash", hash),
            ("live", reviewed.server.is_some().to_string()),
            ("create", summary.create.to_string()),
            ("change", summary.change.to_string()),
            ("delete", summary.delete.to_string()),
            ("recreate", summary.recreate.to_string()),
            ("held-back", summary.held_back.to_string()),
            ("left-behind", summary.left_behind.to_string()),
            ("migrations", reviewed.previews.moves.len().to_string()),
            ("blockers", counts.blockers.to_string()),
            ("errors", counts.errors.to_string()),
            ("warnings", counts.warnings.to_string()),
            ("comment", comment.to_owned()),
            ("report", file.unwrap_or_default()),
        ] {
            // A line end would begin another output.
            let value: String = value.chars().filter(|c| !c.is_control()).collect();
            let _ = writeln!(text, "{name}={value}");
        }
        text
    }

    fn exit(&self, counts: Counts, failure: Option<Kind>) -> ExitCode {
        let failed = match self.fail_on {
            FailOn::Never => false,
            FailOn::Error => counts.errors > 0,
            FailOn::Blocked => counts.errors + counts.blockers > 0,
        };
        match failure {
            _ if failed => ExitCode::from(Kind::User.exit_code()),
            Some(kind) if self.fail_on != FailOn::Never => ExitCode::from(kind.exit_code()),
            _ => ExitCode::SUCCESS,
        }
    }
}

/// Returns where the files are shown: on the page of the repository that a workflow runs for, else where the clone's remote is.
fn links(runner: Option<&Runner>, clone: &git2::Repository, revision: &Revision) -> Option<Links> {
    let Some(runner) = runner else {
        return clone::links(clone, revision);
    };
    Some(Links {
        web: Web::new(Host::GitHub, &runner.page)?,
        revision: revision.clone(),
    })
}

fn runner() -> Result<Runner> {
    let event =
        match std::env::var_os("GITHUB_EVENT_PATH").filter(|path| !path.is_empty()) {
            Some(path) => Some(std::fs::read(&path).map_err(|error| {
                Error::user(format!("cannot read {}: {error}", Path::new(&path).display()))
            })?),
            None => None,
        };
    Ok(Runner::read(|name| std::env::var(name).ok(), event.as_deref())?)
}

fn append(path: &Path, text: &str) -> Result<()> {
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Error::user(format!("cannot write {}: {error}", path.display())))
}
