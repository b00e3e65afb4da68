//! `cutover validate`: what can be told without a cluster.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::{files, global, output};
use cutover_core::config::{self, Config};
use cutover_core::error::{Kind, Result};
use cutover_core::lint::{self, Context, Finding, Severity};
use cutover_core::report::{findings_github, findings_json, findings_summary, findings_text};

#[derive(Args, Debug)]
pub struct Validate {
    /// The root of the repository; what is in its work tree is checked, committed or not
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// How findings are written; `github`: as annotations of a workflow
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
    Github,
}

impl Validate {
    pub fn run(self) -> Result<ExitCode> {
        let (objects, findings) = check(&self.path)?;
        match self.output {
            Format::Text => output::data(findings_text(&findings))?,
            Format::Json => output::json(findings_json(&findings)?)?,
            Format::Github => output::commands(findings_github(&findings))?,
        }
        output::note(format!("objects: {objects}, {}", findings_summary(&findings)));
        let failed = findings.iter().any(|finding| finding.severity == Severity::Error);
        Ok(if failed {
            ExitCode::from(Kind::User.exit_code())
        } else {
            ExitCode::SUCCESS
        })
    }
}

/// Returns the number of objects under a root, and all that can be said about them.
pub(super) fn check(root: &Path) -> Result<(usize, Vec<Finding>)> {
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
    let context = Context {
        now: Some(jiff::Timestamp::now()),
        budget,
        ..Context::built_in()?
    };
    let mut findings: Vec<Finding> = config::refused_status_branch(&bytes, &config)
        .into_iter()
        .collect();
    findings.extend(lint::check(&set, &context));
    Ok((set.iter().count(), findings))
}
