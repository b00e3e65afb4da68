//! `cutover validate`: what can be told without a cluster.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::output::OUTPUT;
use super::plan::commit;
use super::{files, global, output};
use cutover_core::config::{self, Config};
use cutover_core::error::{Error, Kind, Result};
use cutover_core::finding::{Finding, Severity};
use cutover_core::lint::{self, Context, MayHaveEnded, Revision};
use cutover_core::manifest::Set;
use cutover_core::report::{findings_github, findings_json, findings_summary, findings_text};
use cutover_git as repo;

#[derive(Args, Debug)]
pub struct Validate {
    /// The root of the repository; what is in its work tree is checked, committed or not
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// The commit to compare the files with: what the change takes from workloads with state is a finding [default: HEAD, or the
    /// commit before it where the files are as HEAD has them]
    #[arg(long, value_name = "COMMIT")]
    base: Option<String>,
    /// A file or a folder with CustomResourceDefinitions that the repository doesn't have, such as those of an operator: objects and
    /// profiles are checked against them, too
    #[arg(long, value_name = "PATH")]
    crds: Vec<PathBuf>,
    /// How findings are written; `github`: as annotations of a workflow
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help_heading = OUTPUT)]
    output: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
    Github,
}

/// What the files are compared with.
pub(super) enum Base {
    /// There is no clone around them, or no commit before.
    None,
    /// There is one, and it is not in the clone.
    Unknown,
    Commit(Box<(Config, Set)>),
}

impl Base {
    /// Returns whether there was nothing that a change could have taken away.
    fn is_empty(&self) -> bool {
        match self {
            Self::None => true,
            Self::Unknown => false,
            Self::Commit(there) => there.1.iter().next().is_none(),
        }
    }
}

/// Says that a folder is probably not the one that was meant.
fn nothing(path: &Path) -> Error {
    Error::user(format!(
        "there is nothing to check in {}: no {}, and no object in a .yaml, .yml or .json file",
        path.display(),
        config::PATH
    ))
    .hint("name the root of a repository, or begin one: cutover init")
}

impl Validate {
    pub fn run(self) -> Result<ExitCode> {
        files::must_be_folder(&self.path)?;
        let base = self.base()?;
        let schemas = self.schemas()?;
        let (objects, findings) = check(&self.path, &base, true, &schemas)?;
        match self.output {
            Format::Text => output::data(findings_text(&findings))?,
            Format::Json => output::json(findings_json(&findings)?)?,
            Format::Github => output::commands(findings_github(&findings))?,
        }
        if !files::is_taken(&self.path, config::PATH) {
            if objects == 0 && findings.is_empty() && base.is_empty() {
                return Err(nothing(&self.path));
            }
            output::note(format!("no {}: every file is checked, as one sync", config::PATH));
        }
        output::note(format!("objects: {objects}, {}", findings_summary(&findings)));
        let failed = findings.iter().any(|finding| finding.severity == Severity::Error);
        Ok(if failed {
            ExitCode::from(Kind::User.exit_code())
        } else {
            ExitCode::SUCCESS
        })
    }

    fn schemas(&self) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        for path in &self.crds {
            let set = files::given(path, &global::budget())?;
            let crds = set.of_kind("apiextensions.k8s.io", "CustomResourceDefinition");
            let before = all.len();
            all.extend(crds.map(|crd| crd.value.clone()));
            if all.len() == before {
                let message = format!("{} has no CustomResourceDefinition", path.display());
                return Err(Error::user(message).hint("name the file or the folder with the operator's CRDs"));
            }
        }
        Ok(all)
    }

    /// Returns what the files are compared with: with HEAD; with the commit before it, where they are as HEAD has them.
    fn base(&self) -> Result<Base> {
        let is_top = |clone: &git2::Repository| {
            let top = clone.workdir().and_then(|top| top.canonicalize().ok());
            top.is_some() && top == self.path.canonicalize().ok()
        };
        let clone = repo::discover(&self.path).ok().filter(is_top);
        match (clone, &self.base) {
            (Some(clone), Some(base)) => at(&clone, commit(&clone, base)?),
            (Some(clone), None) => {
                let Ok(head) = repo::named(&clone, "HEAD") else {
                    return Ok(Base::None);
                };
                let head = at(&clone, head)?;
                if !is_as_in(&self.path, &head)? {
                    return Ok(head);
                }
                match repo::named(&clone, "HEAD^") {
                    Ok(before) => at(&clone, before),
                    Err(_) if clone.is_shallow() => {
                        output::note(
                            "the commit before is not in this clone: what has changed since is not known (in GitHub's checkout \
                             action: `fetch-depth: 2`)",
                        );
                        Ok(Base::Unknown)
                    }
                    Err(_) => Ok(Base::None),
                }
            }
            (None, Some(_)) => Err(Error::user(format!(
                "{} is not the root of a Git clone: there is no commit to compare it with",
                self.path.display()
            ))
            .hint("name the root of a clone, or leave out --base")),
            (None, None) => Ok(Base::None),
        }
    }
}

/// Reads what a commit asks for. A configuration that could not be used then wanted nothing.
pub(super) fn at(clone: &git2::Repository, commit: git2::Oid) -> Result<Base> {
    match files::objects_at(clone, commit, &global::budget()) {
        Ok(there) => Ok(Base::Commit(Box::new(there))),
        Err(error) if error.kind() == Kind::User => {
            output::note(format!("the files are not compared with {commit}: {error}"));
            Ok(Base::Unknown)
        }
        Err(error) => Err(error),
    }
}

/// Returns whether the files under a root ask for what a commit does.
fn is_as_in(root: &Path, commit: &Base) -> Result<bool> {
    let budget = global::budget();
    let (Ok(now), Base::Commit(there)) = (files::read_config(root, &budget)?, commit) else {
        return Ok(false);
    };
    let (then, before) = &**there;
    let after = files::objects(root, &now, &budget, |_| ())?;
    Ok(after.iter().eq(before.iter()) && now == *then)
}

/// Returns the number of objects under a root, and all that can be said about them: `loses`, also of what the change since the
/// base takes from workloads with state; `crds`: those that are not in the files.
pub(super) fn check(root: &Path, base: &Base, loses: bool, crds: &[Value]) -> Result<(usize, Vec<Finding>)> {
    let budget = global::budget();
    let bytes = match files::read_config_bytes(root, &budget)? {
        Ok(bytes) => bytes,
        Err(error) => return Ok((0, error.findings())),
    };
    let config = match Config::parse_within(&bytes, &budget) {
        Ok(config) => config,
        // Which files belong to a sync can't be told then.
        Err(error) => return Ok((0, error.findings())),
    };
    let set = files::objects(root, &config, &budget, |_| ())?;
    let built_in = Context::built_in()?;
    let context = Context {
        now: Some(jiff::Timestamp::now()),
        budget,
        schemas: built_in.schemas.with_definitions(crds),
        may_have_ended: match base {
            Base::None => MayHaveEnded::None,
            Base::Unknown => MayHaveEnded::All,
            Base::Commit(there) => MayHaveEnded::of(&there.1),
        },
        ..built_in
    };
    let mut findings: Vec<Finding> = config::refused_status_branch(&bytes, &config)
        .into_iter()
        .collect();
    let folders = |path: &str| root.join(path).is_dir();
    findings.extend(config::missing_folders(&bytes, &config, folders));
    findings.extend(lint::check(&set, &context));
    if let Base::Commit(there) = base
        && loses
    {
        let (then, before) = &**there;
        let before = Revision {
            config: then,
            set: before,
        };
        let after = Revision {
            config: &config,
            set: &set,
        };
        findings.extend(lint::compare(before, after));
        findings.sort();
    }
    Ok((set.iter().count(), findings))
}
