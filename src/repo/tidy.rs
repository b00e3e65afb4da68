//! Keeps the mirror from growing without end: libgit2 has no `git gc`, and each publish leaves loose objects.
//!
//! Failures are logged and otherwise ignored: an untidy mirror works as well.

use std::fs;
use std::path::{Path, PathBuf};

use git2::Repository;

/// The thresholds of `git gc --auto`.
const LOOSE_OBJECTS: usize = 6700;
const PACKS: usize = 50;

/// Packs what branches hold into one file, once there are many. What no branch holds goes.
///
/// The caller keeps others from writing to the mirror. Readers may go on: what they need is in the new pack, which
/// libgit2 looks for when an object isn't where it was.
pub(super) fn tidy(repo: &Repository) {
    let objects = repo.path().join("objects");
    // As git does: objects are spread evenly over 256 directories, so one tells of all.
    let loose = entries(&objects.join("17")).len() * 256;
    if (loose > LOOSE_OBJECTS || packs(&objects).len() > PACKS)
        && let Err(error) = repack(repo, &objects)
    {
        tracing::warn!(%error, "cannot tidy the mirror");
    }
}

/// Removes the temporary files of fetches that were interrupted.
pub(super) fn remove_partial_packs(repo: &Repository) {
    for file in entries(&repo.path().join("objects").join("pack")) {
        let whole = file
            .extension()
            .is_some_and(|e| ["pack", "idx", "rev", "keep"].iter().any(|whole| e == *whole));
        if !whole {
            delete(&file);
        }
    }
}

fn repack(repo: &Repository, objects: &Path) -> Result<(), git2::Error> {
    let mut walk = repo.revwalk()?;
    for reference in repo.references()? {
        if let Some(tip) = reference?.target() {
            walk.push(tip)?;
        }
    }
    let mut pack = repo.packbuilder()?;
    pack.insert_walk(&mut walk)?;
    pack.write(&objects.join("pack"), 0)?;
    let Some(name) = pack.name()?.map(|name| format!("pack-{name}")) else {
        return Ok(());
    };
    let is_new = |file: &Path| file.file_stem().is_some_and(|stem| stem == name.as_str());
    if !packs(objects).iter().any(|file| is_new(file)) {
        return Ok(());
    }
    for old in entries(&objects.join("pack")).iter().filter(|file| !is_new(file)) {
        delete(old);
    }
    for directory in entries(objects) {
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        if name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            for object in entries(&directory) {
                delete(&object);
            }
        }
    }
    Ok(())
}

fn packs(objects: &Path) -> Vec<PathBuf> {
    let mut files = entries(&objects.join("pack"));
    files.retain(|file| file.extension().is_some_and(|extension| extension == "pack"));
    files
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect()
}

fn delete(file: &Path) {
    if let Err(error) = fs::remove_file(file) {
        tracing::warn!(file = %file.display(), %error, "cannot delete");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repacking_keeps_what_branches_hold_and_drops_the_rest() {
        let directory = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(directory.path()).unwrap();
        let who = git2::Signature::new("a", "a@b", &git2::Time::new(0, 0)).unwrap();
        let kept = repo.blob(b"kept").unwrap();
        let lost = repo.blob(b"lost").unwrap();
        let mut tree = repo.treebuilder(None).unwrap();
        tree.insert("file", kept, 0o100_644).unwrap();
        let tree = repo.find_tree(tree.write().unwrap()).unwrap();
        let tip = repo
            .commit(Some("refs/remotes/origin/main"), &who, &who, "m", &tree, &[])
            .unwrap();

        repack(&repo, &directory.path().join("objects")).unwrap();

        let fresh = Repository::open_bare(directory.path()).unwrap();
        assert_eq!(fresh.find_blob(kept).unwrap().content(), b"kept");
        assert!(fresh.find_commit(tip).is_ok());
        assert!(fresh.find_blob(lost).is_err());
        assert_eq!(packs(&directory.path().join("objects")).len(), 1);
        repack(&fresh, &directory.path().join("objects")).unwrap();
        assert!(
            fresh.find_blob(kept).is_ok(),
            "packing what is packed loses nothing"
        );
    }
}
