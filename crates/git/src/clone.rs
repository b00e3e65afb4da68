//! What a clone on this machine says beside its commits: what is not committed, and what its remotes have.
//!
//! libgit2 would wait for a pipe that stands where it expects a file: what it opens is looked at before.

use std::path::Path;

use git2::{ErrorClass, ErrorCode, ObjectType, Oid, Repository};

use super::{local, loose};

/// The most files and folders of HEAD that are compared with the work tree: a small repository can hold the same tree a billion
/// times.
pub(super) const COMPARED: usize = 200_000;
/// Folders above a file of them.
const DEEPEST: usize = 200;

/// Returns the paths whose content in the work tree is not that of HEAD, staged or not; what is ignored is left out. None in a clone
/// without a work tree. An error if HEAD has too much to compare.
pub fn uncommitted(clone: &Repository) -> Result<Vec<String>, git2::Error> {
    let Some(root) = clone.workdir() else {
        return Ok(Vec::new());
    };
    // What libgit2 reads to know what is ignored: it would wait for a pipe.
    for file in [
        root.join(".gitignore"),
        root.join(".gitattributes"),
        clone.commondir().join("info/exclude"),
    ] {
        loose::is_there(&file)?;
    }
    check_size(clone)?;
    let mut options = git2::StatusOptions::new();
    options
        .include_untracked(true)
        .recurse_untracked_dirs(true)
        .include_ignored(false)
        .exclude_submodules(true);
    let statuses = clone.statuses(Some(&mut options))?;
    let paths = statuses
        .iter()
        .map(|entry| String::from_utf8_lossy(entry.path_bytes()).into_owned());
    Ok(paths.collect())
}

/// Returns an error if HEAD has more than can be compared: libgit2 would read all of it.
fn check_size(clone: &Repository) -> Result<(), git2::Error> {
    let too_much = |what: String| git2::Error::new(ErrorCode::GenericError, ErrorClass::Tree, what);
    let Ok(head) = clone.head() else {
        return Ok(());
    };
    let (mut next, mut seen) = (vec![(head.peel_to_tree()?, 0)], 0);
    while let Some((tree, depth)) = next.pop() {
        if depth > DEEPEST {
            return Err(too_much(format!(
                "HEAD has files below more than {DEEPEST} folders"
            )));
        }
        seen += tree.len();
        if seen > COMPARED {
            return Err(too_much(format!(
                "HEAD has more than {COMPARED} files and folders"
            )));
        }
        for entry in &tree {
            if entry.kind() == Some(ObjectType::Tree) {
                next.push((clone.find_tree(entry.id())?, depth + 1));
            }
        }
    }
    Ok(())
}

/// Returns the commit that a branch has at a remote, as far as this clone knows; else that of the clone's own branch.
pub fn branch_tip(clone: &Repository, branch: &str) -> Option<Oid> {
    let remotes = clone.remotes().ok()?;
    let names = remotes.iter().filter_map(|name| name.ok().flatten());
    let tracking = names.map(|name| format!("refs/remotes/{name}/{branch}"));
    let own = format!("refs/heads/{branch}");
    let mut names = tracking.chain(std::iter::once(own));
    names.find_map(|name| {
        let place = clone.commondir().join(&name);
        if !place.is_dir() {
            loose::is_there(&place).ok()?;
        }
        let tip = clone.refname_to_id(&name).ok()?;
        local::check_history(clone, tip).ok()?;
        Some(tip)
    })
}

/// Returns whether a commit is known to be at a remote: a branch of one that was fetched, or pushed to, has it.
pub fn is_published(clone: &Repository, commit: Oid) -> bool {
    let has = || {
        check_files(&clone.commondir().join("refs/remotes")).ok()?;
        let tracking = clone.references_glob("refs/remotes/*").ok()?;
        let mut tips = tracking.filter_map(|tip| tip.ok()?.resolve().ok()?.target());
        let has = |tip: Oid| {
            local::check_history(clone, tip)?;
            Ok::<bool, git2::Error>(tip == commit || clone.graph_descendant_of(tip, commit)?)
        };
        Some(tips.any(|tip| has(tip).unwrap_or(false)))
    };
    has().unwrap_or(false)
}

/// Returns an error if something under a directory is neither a file nor a directory.
fn check_files(directory: &Path) -> Result<(), git2::Error> {
    let Ok(entries) = directory.read_dir() else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            check_files(&path)?;
        } else {
            loose::is_there(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use git2::Signature;

    use super::*;

    fn commit(clone: &Repository, parents: &[Oid]) -> Oid {
        let mut index = clone.index().unwrap();
        index.add_all(["*"], git2::IndexAddOption::DEFAULT, None).unwrap();
        index.write().unwrap();
        let tree = clone.find_tree(index.write_tree().unwrap()).unwrap();
        let who = Signature::now("Ada", "ada@example.com").unwrap();
        let parents: Vec<_> = parents.iter().map(|id| clone.find_commit(*id).unwrap()).collect();
        let parents: Vec<_> = parents.iter().collect();
        clone
            .commit(Some("HEAD"), &who, &who, "c", &tree, &parents)
            .unwrap()
    }

    fn write(clone: &Repository, path: &str, text: &str) {
        let path = clone.workdir().unwrap().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn what_is_not_committed_is_named_and_what_is_ignored_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let clone = Repository::init(dir.path()).unwrap();
        write(&clone, ".gitignore", "secret.yaml\n");
        write(&clone, "apps/web.yaml", "a");
        write(&clone, "apps/cart.yaml", "a");
        commit(&clone, &[]);
        assert!(uncommitted(&clone).unwrap().is_empty());
        write(&clone, "apps/web.yaml", "b");
        write(&clone, "new/api.yaml", "a");
        write(&clone, "secret.yaml", "a");
        std::fs::remove_file(dir.path().join("apps/cart.yaml")).unwrap();
        let mut named = uncommitted(&clone).unwrap();
        named.sort();
        assert_eq!(named, ["apps/cart.yaml", "apps/web.yaml", "new/api.yaml"]);
    }

    #[test]
    fn a_commit_is_published_when_a_branch_of_a_remote_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let clone = Repository::init(dir.path()).unwrap();
        clone
            .remote("origin", "https://git.example.com/team/fleet")
            .unwrap();
        let old = commit(&clone, &[]);
        let pushed = commit(&clone, &[old]);
        let new = commit(&clone, &[pushed]);
        assert!(!is_published(&clone, old));
        clone
            .reference("refs/remotes/origin/main", pushed, true, "")
            .unwrap();
        assert_eq!(
            [old, pushed, new].map(|commit| is_published(&clone, commit)),
            [true, true, false]
        );
        assert_eq!(branch_tip(&clone, "main"), Some(pushed));
        assert_eq!(branch_tip(&clone, "cutover-status"), None);
        clone
            .reference("refs/heads/cutover-status", old, true, "")
            .unwrap();
        assert_eq!(branch_tip(&clone, "cutover-status"), Some(old));
    }
}
