//! What a clone on this machine says beside the commit that is looked at: changes that are not committed, the history of earlier
//! migrations, where its files are shown to people.

use std::path::Path;

use super::{global, output};
use cutover_core::config::{self, Config};
use cutover_core::report::review::Links;
use cutover_core::report::{HISTORY_DIR, History, Host, Web};
use cutover_git::{self as repo, Checkout};
use cutover_karmada::name::Revision;

/// So many files are named.
const NAMED: usize = 5;
/// Files of the history, one a month, that are looked at.
const MONTHS: usize = 24;

/// Names the files that a plan of HEAD leaves out, because they are not committed; `None`: there are none, or another commit is
/// planned.
pub fn uncommitted(clone: &git2::Repository, revision: &Revision) -> Option<String> {
    let head = repo::named(clone, "HEAD").ok()?;
    if head.to_string() != revision.as_str() {
        return None;
    }
    let changed = repo::uncommitted(clone)
        .inspect_err(|error| {
            output::note(format!(
                "note: what is not committed is not known: {}",
                error.message()
            ));
        })
        .ok()?;
    let is_manifest = |path: &String| {
        let extension = Path::new(path).extension();
        extension.is_some_and(|extension| {
            ["yaml", "yml", "json"]
                .iter()
                .any(|one| extension.eq_ignore_ascii_case(one))
        })
    };
    let files: Vec<String> = changed.into_iter().filter(is_manifest).collect();
    let more = files.len().saturating_sub(NAMED);
    let named = files.get(..files.len() - more)?.join(", ");
    match (files.len(), more) {
        (0, _) => None,
        (_, 0) => Some(format!("not committed, and not in the plan: {named}")),
        (_, more) => Some(format!(
            "not committed, and not in the plan: {named} and {more} more"
        )),
    }
}

/// Returns the history of migrations, as far as the clone has the status branch. Nothing is fetched.
pub fn history(clone: &git2::Repository, revision: &Revision) -> History {
    let mut history = History::default();
    for file in history_files(clone, revision).unwrap_or_default() {
        history.add(&file);
    }
    history
}

fn history_files(clone: &git2::Repository, revision: &Revision) -> Option<Vec<Vec<u8>>> {
    let limits = repo::Limits::default().within(&global::budget());
    let planned: git2::Oid = revision.as_str().parse().ok()?;
    let bytes = repo::file(clone, &limits, planned, config::PATH).ok()?;
    let config = Config::parse_within(&bytes.unwrap_or_default(), &global::budget()).ok()?;
    let status = &config.status;
    let commit = match status.within_source() {
        Some(_) => planned,
        None => repo::branch_tip(clone, status.branch_beside(""))?,
    };
    let folder = match &status.directory {
        Some(directory) => format!("{directory}/{HISTORY_DIR}/"),
        None => format!("{HISTORY_DIR}/"),
    };
    let all = repo::files(clone, &limits, commit).ok()?.files;
    let mut months: Vec<_> = all
        .into_iter()
        .filter(|file| file.path.starts_with(&folder))
        .collect();
    months.sort_by(|a, b| b.path.cmp(&a.path));
    let read = |file: &repo::Change| repo::blob(clone, &limits, file.blob).ok();
    Some(months.iter().take(MONTHS).filter_map(read).collect())
}

/// Returns where the files of a commit are shown, if the clone's remote says so and is known to have the commit.
pub fn links(clone: &git2::Repository, revision: &Revision) -> Option<Links> {
    let commit = revision.as_str().parse().ok()?;
    if !repo::is_published(clone, commit) {
        return None;
    }
    let remote = Checkout::find(clone.workdir()?).ok()?.remote().ok()?;
    let (server, page) = remote.page()?;
    Some(Links {
        web: Web::new(Host::of(server)?, &page)?,
        revision: revision.clone(),
    })
}
