//! Keeps the history of the status branch from growing for ever: what is older than is asked for becomes one commit. The
//! files stay as they are, and with them the history of operations; only how they came about is forgotten.

use git2::{Commit, Oid, Repository, Signature};
use jiff::Timestamp;

use super::mirror::Mirror;
use super::ownership::is_of_cutover;
use super::publish::{Message, SQUASHED, SQUASHED_INTO, Trailer};
use super::remote::{Push, tracking};
use super::{Branch, Error, log};
use cutover_karmada::name::Revision;
use cutover_leadership::Leadership;

/// Fewer old commits are not worth a new history: whoever has a clone has to throw it away.
const FEWEST: usize = 100;

/// What became of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Squashed {
    /// It is short enough, or nobody's to change: somebody has merged into it.
    Kept,
    /// So many commits are one now.
    Done(usize),
    /// Somebody else pushed meanwhile.
    Moved,
    /// This commit would be dropped, and is none of cutover's.
    Foreign(Revision),
}

impl Mirror {
    /// Makes one commit of all that were made before a time, once they are worth it: at least [`FEWEST`], and a quarter of
    /// those that stay. Pushes by force, and over nothing that it hasn't seen. Drops no commit of anybody else's.
    pub(super) fn squash(&self, before: Timestamp, leadership: &Leadership) -> Result<Squashed, Error> {
        self.write(|repo| {
            let branch = self.branch(Branch::Status);
            if !self.has_status_branch() {
                return Ok(Squashed::Kept);
            }
            let tips = self.update(repo, &[branch])?;
            let Some(tip) = tips.get(branch) else {
                return Ok(Squashed::Kept);
            };
            self.check_ownership(repo, &tips)?;
            let Some(line) = line(repo, tip)? else {
                return Ok(Squashed::Kept);
            };
            let is_old = |commit: &Commit<'_>| commit.time().seconds() < before.as_second();
            let young = line.iter().position(is_old).unwrap_or(line.len());
            let old = line.len() - young;
            if old < FEWEST || old < young / 4 {
                return Ok(Squashed::Kept);
            }
            if let Some(foreign) = line[young..].iter().find(|commit| !is_of_cutover(commit)) {
                return Ok(Squashed::Foreign(log::revision(foreign.id())?));
            }
            let new = self.rewritten(repo, &line[..young], &line[young], old)?;
            leadership.may_publish().map_err(Error::NotPushed)?;
            match self.access.replace(repo, branch, new, tip)? {
                Push::Done => {
                    repo.reference(&tracking(branch), new, true, "squash")?;
                    Ok(Squashed::Done(old))
                }
                Push::Moved => Ok(Squashed::Moved),
                Push::Refused(reason) => Err(Error::Refused {
                    url: self.options.url.clone(),
                    branch: branch.to_owned(),
                    reason,
                }),
            }
        })
    }

    /// Writes one commit with the files of the `last` old one, and the young ones, the newest first, onto it.
    fn rewritten(
        &self,
        repo: &Repository,
        young: &[Commit<'_>],
        last: &Commit<'_>,
        old: usize,
    ) -> Result<Oid, Error> {
        let until = Timestamp::from_second(last.time().seconds()).unwrap_or_default();
        let message = Message::new(format!("{SQUASHED}{}", until.strftime("%Y-%m-%d")))
            .body(format!("{old} {SQUASHED_INTO}"))
            .trailer(Trailer::Status, self.branch(Branch::Status));
        let author = &self.options.author;
        let who = Signature::new(&author.name, &author.email, &last.time())?;
        let mut new = self.commit(repo, &who, &who, &message.to_string(), &last.tree()?, None)?;
        for commit in young.iter().rev() {
            let (author, committer) = (commit.author(), commit.committer());
            let message = String::from_utf8_lossy(commit.message_raw_bytes());
            let parent = repo.find_commit(new)?;
            new = self.commit(
                repo,
                &author,
                &committer,
                &message,
                &commit.tree()?,
                Some(&parent),
            )?;
        }
        Ok(new)
    }
}

/// Returns a history, the newest first; `None` if it isn't a line.
fn line(repo: &Repository, tip: Oid) -> Result<Option<Vec<Commit<'_>>>, Error> {
    let mut line = vec![repo.find_commit(tip)?];
    while let Some(parents) = line.last().map(Commit::parent_count).filter(|count| *count > 0) {
        if parents > 1 {
            return Ok(None);
        }
        if let Some(parent) = line.last().map(|commit| commit.parent(0)) {
            line.push(parent?);
        }
    }
    Ok(Some(line))
}
