//! Keeps the mirror from growing without end: libgit2 has no `git gc`, and each publish leaves loose objects.
//!
//! Failures are logged and otherwise ignored: an untidy mirror works as well.

use std::fs;
use std::path::{Path, PathBuf};

use git2::{Oid, PackBuilder, Repository};

use super::reach;

/// The thresholds of `git gc --auto`.
const LOOSE_OBJECTS: usize = 6700;
const PACKS: usize = 50;

/// Keeps the number of files small. What no branch holds goes when everything is packed anew.
///
/// Each fetch leaves a pack. Once there are many, the small ones become one: that costs what they hold, not what the
/// repository holds. Only when they have grown to a part of it, everything is packed.
///
/// The caller keeps others from writing to the mirror. Readers may go on: what they need is in the new pack, which
/// libgit2 looks for when an object isn't where it was. Returns whether files have gone.
pub(super) fn tidy(repo: &Repository) -> bool {
    let objects = repo.path().join("objects");
    // As git does: objects are spread evenly over 256 directories, so one tells of all.
    let loose = entries(&objects.join("17")).len() * 256;
    let mut packs = packs(&objects);
    if loose <= LOOSE_OBJECTS && packs.len() <= PACKS {
        return false;
    }
    let size = |pack: &PathBuf| fs::metadata(pack).map_or(0, |metadata| metadata.len());
    packs.sort_by_key(size);
    let largest = packs.pop();
    let small: u64 = packs.iter().map(size).sum();
    let all = loose > LOOSE_OBJECTS || small > largest.as_ref().map_or(0, size) / 2;
    let tidied = if all {
        repack(repo, &objects)
    } else {
        join(repo, &objects, &packs)
    };
    if let Err(error) = tidied {
        tracing::warn!(%error, "cannot tidy the mirror");
    }
    true
}

/// Makes one pack of several.
fn join(repo: &Repository, objects: &Path, packs: &[PathBuf]) -> Result<(), git2::Error> {
    let mut pack = repo.packbuilder()?;
    for old in packs {
        let Some(ids) = fs::read(old.with_extension("idx"))
            .ok()
            .and_then(|index| ids(&index))
        else {
            return repack(repo, objects);
        };
        for id in ids {
            pack.insert_object(id, None)?;
        }
    }
    if let Some(new) = write(&mut pack, objects)? {
        for old in packs.iter().filter(|old| **old != new) {
            for extension in ["idx", "rev", "pack"] {
                let file = old.with_extension(extension);
                if file.exists() {
                    delete(&file);
                }
            }
        }
    }
    Ok(())
}

/// Returns the objects of a pack by its index (gitformat-pack, version 2): after a header of eight bytes how many ids begin
/// with a byte up to each, then the ids.
fn ids(index: &[u8]) -> Option<Vec<Oid>> {
    const HEADER: usize = 8;
    const COUNTS: usize = 256 * 4;
    const ID: usize = 20;
    let rest = index.strip_prefix(&[0xff, b't', b'O', b'c', 0, 0, 0, 2])?;
    let count = rest
        .get(COUNTS - 4..COUNTS)?
        .try_into()
        .ok()
        .map(u32::from_be_bytes)?;
    let end = COUNTS + ID * usize::try_from(count).ok()?;
    let ids = index.get(HEADER + COUNTS..HEADER + end)?;
    ids.chunks(ID).map(|id| Oid::from_bytes(id).ok()).collect()
}

/// Writes a pack beside the others and returns its path; nothing if it isn't there.
fn write(pack: &mut PackBuilder<'_>, objects: &Path) -> Result<Option<PathBuf>, git2::Error> {
    let directory = objects.join("pack");
    pack.write(&directory, 0)?;
    let file = pack
        .name()?
        .map(|name| directory.join(format!("pack-{name}.pack")));
    Ok(file.filter(|file| file.exists()))
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

/// Removes the lock files of processes that were killed while they wrote a reference or the configuration: as long as they are
/// there, libgit2 writes neither. The caller keeps others from writing to the mirror.
pub(super) fn remove_stale_locks(repo: &Repository) {
    let mut folders = vec![repo.path().join("refs")];
    let mut files = entries(repo.path());
    while let Some(folder) = folders.pop() {
        for entry in entries(&folder) {
            if entry.is_dir() {
                folders.push(entry);
            } else {
                files.push(entry);
            }
        }
    }
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|e| e == "lock"))
    {
        tracing::info!(file = %file.display(), "removing the lock of a process that was killed");
        delete(file);
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
    reach::insert(repo, &mut pack, walk, &|_| true)?;
    let Some(new) = write(&mut pack, objects)? else {
        return Ok(());
    };
    let is_new = |file: &Path| file.file_stem() == new.file_stem();
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

    #[test]
    fn repacking_keeps_what_a_change_and_its_revert_leave_alone() {
        let directory = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(directory.path()).unwrap();
        let blob = repo.blob(b"kept").unwrap();
        let other = repo.blob(b"other").unwrap();
        let mut parent = None;
        for (time, files) in (0..).zip([&[("a", blob)][..], &[("a", blob), ("b", other)], &[("a", blob)]]) {
            let who = git2::Signature::new("a", "a@b", &git2::Time::new(time, 0)).unwrap();
            let mut tree = repo.treebuilder(None).unwrap();
            for (file, content) in files {
                tree.insert(file, *content, 0o100_644).unwrap();
            }
            let tree = repo.find_tree(tree.write().unwrap()).unwrap();
            let parents: Vec<_> = parent
                .map(|id| repo.find_commit(id).unwrap())
                .into_iter()
                .collect();
            let parents: Vec<_> = parents.iter().collect();
            parent = Some(
                repo.commit(Some("refs/remotes/origin/main"), &who, &who, "m", &tree, &parents)
                    .unwrap(),
            );
        }

        repack(&repo, &directory.path().join("objects")).unwrap();

        let fresh = Repository::open_bare(directory.path()).unwrap();
        assert_eq!(fresh.find_blob(blob).unwrap().content(), b"kept");
    }

    #[test]
    fn many_small_packs_become_one_and_the_large_one_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(directory.path()).unwrap();
        let objects = directory.path().join("objects");
        let mut rng = fastrand::Rng::with_seed(1);
        let mut pack = |bytes: usize| {
            let content: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(bytes).collect();
            let id = repo.blob(&content).unwrap();
            let mut pack = repo.packbuilder().unwrap();
            pack.insert_object(id, None).unwrap();
            let file = write(&mut pack, &objects).unwrap().unwrap();
            let text = id.to_string();
            fs::remove_file(objects.join(&text[..2]).join(&text[2..])).unwrap();
            (id, file)
        };
        let large = pack(100_000);
        let small: Vec<_> = (0..PACKS).map(|_| pack(100)).collect();
        tidy(&repo);
        let packs = packs(&objects);
        assert_eq!(packs.len(), 2);
        assert!(packs.contains(&large.1));
        let fresh = Repository::open_bare(directory.path()).unwrap();
        for (id, _) in small.iter().chain([&large]) {
            assert!(fresh.find_blob(*id).is_ok());
        }
    }

    #[test]
    fn what_a_killed_process_had_locked_can_be_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(directory.path()).unwrap();
        let blob = repo.blob(b"a").unwrap();
        let (name, write) = ("refs/remotes/origin/main", |name: &str| {
            repo.reference(name, blob, true, "").map(drop)
        });
        write(name).unwrap();
        for locked in [
            format!("{name}.lock"),
            "config.lock".to_owned(),
            "packed-refs.lock".to_owned(),
        ] {
            fs::write(directory.path().join(locked), "").unwrap();
        }
        assert!(write(name).is_err(), "a lock file is in the way");
        remove_stale_locks(&repo);
        write(name).unwrap();
        repo.config().unwrap().set_str("remote.origin.url", "a").unwrap();
        assert!(!directory.path().join("packed-refs.lock").exists());
    }
}
