//! `status` of `cutover.yaml`: where status is committed to, and which branches the program lets it name.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{Config, Interval, PATH, Sync, glob};
use crate::error::Error;
use crate::finding::{Code, Finding};
use crate::manifest::{self, Limits};

/// Where status is committed to.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Status {
    /// `cutover-status` by default; the branch that is synced, if only a directory is named. Another name than
    /// `cutover-status` or `cutover-status-…` has to be allowed by `cutover run --status-branch`.
    pub branch: Option<String>,
    /// A folder of the branch, under which everything is put. One of the branch that is synced is never synced itself.
    pub directory: Option<String>,
    /// How often at most a commit is made while things move. What ends or fails is committed at once.
    pub every: Interval,
    /// After how many days commits become one, so that the branch stays small; by default they stay for ever. The
    /// files stay either way.
    #[schemars(range(min = 1, max = 36500))]
    pub keep_days: Option<u32>,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            branch: None,
            directory: None,
            every: Interval(Duration::from_secs(10)),
            keep_days: None,
        }
    }
}

/// The branch that status is committed to where nobody names another one.
pub const STATUS_BRANCH: &str = "cutover-status";

/// The branches that `cutover.yaml` may name for status. The program says so and not the repository: who may push to the
/// branch that is synced may not be allowed to push to all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusBranches(Vec<String>);

impl Default for StatusBranches {
    fn default() -> Self {
        Self::of([format!("{STATUS_BRANCH}-*")])
    }
}

impl StatusBranches {
    /// Returns the branches of some patterns, with `*` and `?` within a part of a name, and [`STATUS_BRANCH`].
    pub fn of(patterns: impl IntoIterator<Item = String>) -> Self {
        Self(patterns.into_iter().collect())
    }

    fn allow(&self, branch: &str) -> bool {
        let matches = |pattern: &String| {
            let same_depth = pattern.split('/').count() == branch.split('/').count();
            let mut parts = pattern.split('/').zip(branch.split('/'));
            same_depth && parts.all(|(pattern, part)| glob::name(pattern, part))
        };
        branch == STATUS_BRANCH || self.0.iter().any(matches)
    }
}

impl Status {
    /// Returns the branch; `source` is the one that is synced.
    pub fn branch_beside<'a>(&'a self, source: &'a str) -> &'a str {
        match &self.branch {
            Some(branch) => branch,
            None if self.directory.is_some() => source,
            None => STATUS_BRANCH,
        }
    }

    /// Returns the folder in the branch that is synced, if it is there that status is committed to.
    pub fn within_source(&self) -> Option<&str> {
        self.directory.as_deref().filter(|_| self.branch.is_none())
    }

    /// Checks that status may go where the file says, in the repository that is synced: from the branch `source`, if that is
    /// known.
    pub fn check(&self, source: Option<&str>, allowed: &StatusBranches) -> Result<(), Error> {
        if self.within_source().is_some() {
            return Ok(());
        }
        self.check_branch(self.branch_beside(STATUS_BRANCH), source, allowed)
    }

    /// Checks that status may go to a branch of its own, `branch`. `source`: the branch of the same repository that is
    /// synced.
    pub fn check_branch(
        &self,
        branch: &str,
        source: Option<&str>,
        allowed: &StatusBranches,
    ) -> Result<(), Error> {
        if source == Some(branch) {
            let message = format!("{PATH}: the status branch {branch:?} is the branch that is synced");
            return Err(Error::user(message).hint(format!(
                "name another one: status: {{branch: {STATUS_BRANCH}}}; or only a folder of this one: status: {{directory: status}}"
            )));
        }
        if !allowed.allow(branch) {
            let message =
                format!("{PATH}: the status branch {branch:?} is none of those that `cutover run` allows");
            return Err(Error::user(message).hint(format!(
                "name {STATUS_BRANCH} or {STATUS_BRANCH}-…; or, if status may go there, say so to the program: cutover run --status-branch {branch}"
            )));
        }
        Ok(())
    }

    pub(super) fn faults(&self, syncs: &[Sync], report: &mut impl FnMut(&str, String)) {
        if self.keep_days.is_some() && self.within_source().is_some() {
            report(
                "keepDays",
                "the history of the branch that is synced is not rewritten".to_owned(),
            );
        }
        let Some(directory) = &self.directory else { return };
        let is_name = |name: &str| {
            !matches!(name, "" | "." | "..")
                && !name.eq_ignore_ascii_case(".git")
                && !name.contains(|c: char| c.is_control() || c == '\\')
        };
        if !directory.split('/').all(is_name) {
            report(
                "directory",
                format!("{directory:?} is not a folder of the branch"),
            );
        }
        let inside = |sync: &&Sync| {
            let rest = sync.folder().strip_prefix(directory.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if let (Some(sync), Some(_)) = (syncs.iter().find(inside), self.within_source()) {
            let why = format!("{directory:?} has the files of the sync {:?}", sync.name);
            report("directory", why);
        }
    }
}

/// Returns a warning at the status branch that `cutover.yaml` names, if `cutover run` refuses it unless it is told
/// otherwise. What the program is told isn't known here.
pub fn refused_status_branch(bytes: &[u8], config: &Config) -> Option<Finding> {
    let branch = config.status.branch.as_deref()?;
    if StatusBranches::default().allow(branch) {
        return None;
    }
    let (_, positions) = manifest::parse_one(PATH, bytes, &Limits::default()).ok()??;
    let message =
        format!("`cutover run` refuses the status branch {branch:?} unless it is allowed by a flag");
    let at = positions.value("/status/branch").of(PATH);
    let hint = format!(
        "name {STATUS_BRANCH} or {STATUS_BRANCH}-…, or pass --status-branch {branch} to `cutover run`"
    );
    Some(Finding::new(Code::StatusBranch, at, message).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(branch: &str, patterns: Option<&[&str]>) -> Option<String> {
        let allowed = patterns.map(|patterns| StatusBranches::of(patterns.iter().map(|&one| one.to_owned())));
        let checked = Status::default().check_branch(branch, Some("main"), &allowed.unwrap_or_default());
        checked.err().map(|error| error.to_string())
    }

    #[test]
    fn a_repository_may_name_no_branch_that_the_program_does_not_allow() {
        for branch in ["cutover-status", "cutover-status-east"] {
            assert_eq!(refusal(branch, None), None, "{branch}");
        }
        for branch in [
            "production",
            "main",
            "cutover-statusx",
            "x/cutover-status",
            "cutover-status-a/b",
        ] {
            assert!(refusal(branch, None).is_some(), "{branch}");
        }
        assert_eq!(refusal("told", Some(&["told"])), None);
        assert_eq!(refusal("told/east", Some(&["told/*"])), None);
        assert!(refusal("told/east/1", Some(&["told/*"])).is_some());
        assert!(refusal("cutover-status-east", Some(&["told"])).is_some());
        assert_eq!(refusal("cutover-status", Some(&["told"])), None);
        assert!(
            refusal("main", Some(&["*"])).is_some(),
            "it is the one that is synced"
        );
    }

    #[test]
    fn what_a_run_refuses_unless_it_is_told_is_a_warning_where_it_stands() {
        let head = "apiVersion: cutover.dev/v1alpha1\nkind: Config\n";
        let of = |status: &str| {
            let text = format!("{head}status: {status}\n");
            let config = Config::parse(text.as_bytes()).unwrap();
            refused_status_branch(text.as_bytes(), &config).map(|finding| finding.to_string())
        };
        assert_eq!(of("{branch: cutover-status-east}"), None);
        assert_eq!(of("{directory: told}"), None);
        let told = of("{branch: production, keepDays: 1}").unwrap();
        assert!(told.contains("cutover.yaml:3:18"), "{told}");
    }
}
