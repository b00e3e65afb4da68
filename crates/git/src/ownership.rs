//! Whose the status branch is. Status is committed to a branch that cutover made, or that doesn't exist yet; commits are
//! squashed only if cutover made them. What `cutover.yaml` names may be anybody's branch.

use git2::{Commit, Oid, Repository};

use super::mirror::Mirror;
use super::publish::Message;
use super::remote::Tips;
use super::{Branch, Error};

impl Mirror {
    /// Returns whether status has a branch to itself, and not a folder of the branch that is synced.
    pub(super) fn has_status_branch(&self) -> bool {
        self.options.status_only || self.options.status_branch != self.options.branch
    }

    /// Refuses to commit status to somebody else's branch.
    pub(super) fn check_ownership(&self, repo: &Repository, tips: &Tips) -> Result<(), Error> {
        let branch = self.branch(Branch::Status);
        let Some(tip) = tips.get(branch).filter(|_| self.has_status_branch()) else {
            return Ok(());
        };
        // A host makes the first branch of an empty repository the default one: where there is nothing but status, it is ours.
        if !self.options.status_only && tips.may_be_default(branch) {
            return Err(self.not_ours("it is the default branch of the repository"));
        }
        let mut owned = self.owned();
        if *owned != Some(tip) && !is_made_by_cutover(repo, tip, *owned)? {
            return Err(self.not_ours("its first commit is not one of cutover's"));
        }
        *owned = Some(tip);
        Ok(())
    }

    fn not_ours(&self, why: &'static str) -> Error {
        Error::NotOurs {
            url: self.options.url.clone(),
            branch: self.branch(Branch::Status).to_owned(),
            why,
        }
    }
}

/// Returns whether cutover made a commit of a status branch.
pub(super) fn is_of_cutover(commit: &Commit<'_>) -> bool {
    Message::is_of_status(&String::from_utf8_lossy(commit.message_raw_bytes()))
}

/// Says whether a history begins with a commit of cutover's; `known` is one that does.
fn is_made_by_cutover(repo: &Repository, tip: Oid, known: Option<Oid>) -> Result<bool, Error> {
    let mut commit = repo.find_commit(tip)?;
    while commit.parent_count() > 0 {
        if Some(commit.id()) == known {
            return Ok(true);
        }
        commit = commit.parent(0)?;
    }
    Ok(Some(commit.id()) == known || is_of_cutover(&commit))
}

#[cfg(test)]
mod tests {
    use git2::{Signature, Time};

    use super::*;

    #[test]
    fn a_branch_is_whose_first_commit_it_has() {
        let directory = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(directory.path()).unwrap();
        let who = Signature::new("cutover", "a@b", &Time::new(0, 0)).unwrap();
        let tree = repo.treebuilder(None).unwrap().write().unwrap();
        let tree = repo.find_tree(tree).unwrap();
        let commit = |message: &str, parent: Option<Oid>| {
            let parent = parent.map(|parent| repo.find_commit(parent).unwrap());
            let parents: Vec<_> = parent.iter().collect();
            repo.commit(None, &who, &who, message, &tree, &parents).unwrap()
        };
        let is_ours = |first: &str| {
            let root = commit(first, None);
            let then = commit("status\n\nCutover-Phase: Hold\n", Some(root));
            let tip = commit("by hand", Some(then));
            is_made_by_cutover(&repo, tip, None).unwrap()
        };
        assert!(is_ours("status\n\nCutover-Revision: 1f2e\n"));
        assert!(is_ours("status\n\nCutover-Status: cutover-status\n"));
        let squashed = "status: as it stood on 2026-01-02\n\n120 commits up to then are this one. What they \
                        recorded stands in history/ and intents/.\n";
        assert!(is_ours(squashed), "one from before it had a trailer");
        for theirs in [
            "release",
            "release\n\nSigned-off-by: Ada <a@b>\n",
            "Cutover-Phase: Hold",
            // As `cutover migrate` commits to the branch that is synced.
            "migrate\n\nCutover-Intent: shop/a\n",
        ] {
            assert!(!is_ours(theirs), "{theirs:?}");
        }
    }
}
