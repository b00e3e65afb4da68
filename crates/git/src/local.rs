//! Conversations with a repository on this machine: libgit2's own copy all branches, and overwrite what they push to.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use git2::{ErrorClass, ErrorCode, OdbLookupFlags, Oid, Repository};

use super::blob_id::BlobId;
use super::loose::{self, Loose};
use super::reach;
use super::remote::{Head, Push, Tips, tracking};
use super::tree::{self, Changes};
use super::url::scrub;
use super::{Error, Limits};
use cutover_karmada::name::Revision;

/// Opens a repository on this machine: bare or with a work tree, but at `path` and not above it.
pub(super) fn open(path: &Path) -> Result<Repository, git2::Error> {
    check_frame(path)?;
    Repository::open(path)
}

/// Returns an error if nobody here may write into a repository on this machine.
pub(super) fn try_push(path: &Path) -> Result<(), git2::Error> {
    let repo = open(path)?;
    let objects = repo.commondir().join("objects");
    let written = tempfile::tempfile_in(&objects).map(drop);
    written.map_err(|error| {
        git2::Error::new(
            ErrorCode::Auth,
            ErrorClass::Os,
            format!("cannot write into {}: {error}", objects.display()),
        )
    })
}

/// Opens the repository that a directory is in.
pub fn discover(directory: &Path) -> Result<Repository, git2::Error> {
    if let Ok(directory) = directory.canonicalize() {
        directory.ancestors().try_for_each(check_frame)?;
    }
    Repository::discover(directory)
}

/// Returns an error if something that libgit2 opens at once, or to look for an object, is no file.
fn check_frame(path: &Path) -> Result<(), git2::Error> {
    let inside = path.join(".git");
    if inside.is_dir() {
        check_directory(&inside)?;
    } else if let Some(elsewhere) = said_in(&inside, "gitdir: ")? {
        // Of a work tree beside others, or of a submodule.
        check_directory(&path.join(elsewhere))?;
    }
    if path.join("objects").is_dir() {
        check_directory(path)?;
    }
    Ok(())
}

/// Returns every file of a commit of a clone on this machine, and what of it isn't read.
pub fn files(clone: &Repository, limits: &Limits, commit: Oid) -> Result<Changes, Error> {
    tree::changed(clone, limits, None, &revision(commit)?, &[])
}

/// Returns the content of a file of a commit, `None` if there is none.
pub fn file(clone: &Repository, limits: &Limits, commit: Oid, path: &str) -> Result<Option<Vec<u8>>, Error> {
    tree::read_at(clone, limits, &revision(commit)?, path)
}

/// Returns the content of a blob.
pub fn blob(clone: &Repository, limits: &Limits, blob: BlobId) -> Result<Vec<u8>, Error> {
    tree::read(&clone.odb()?, limits, blob)
}

fn revision(commit: Oid) -> Result<Revision, Error> {
    let revision = commit.to_string().parse();
    revision.map_err(|error| Error::Damaged(format!("{commit}: {error}")))
}

fn check_directory(directory: &Path) -> Result<(), git2::Error> {
    const FILES: [&str; 8] = [
        "HEAD",
        "config",
        "packed-refs",
        "shallow",
        "index",
        "info/exclude",
        "info/attributes",
        "logs/HEAD",
    ];
    // What work trees have in common is in the repository that they are of.
    let common = said_in(&directory.join("commondir"), "")?.map(|common| directory.join(common));
    for place in [Some(directory), common.as_deref()].into_iter().flatten() {
        for name in FILES {
            loose::is_there(&place.join(name))?;
        }
    }
    loose::check_stores(&common.as_deref().unwrap_or(directory).join("objects"))
}

/// Returns the path that a file of Git's says after some words; `None`: there is no such file.
fn said_in(file: &Path, words: &str) -> Result<Option<PathBuf>, git2::Error> {
    /// Longer than any path.
    const MOST: u64 = 1 << 16;
    if !loose::is_there(file)? {
        return Ok(None);
    }
    let mut text = String::new();
    let read = File::open(file).and_then(|file| file.take(MOST).read_to_string(&mut text));
    // What is wrong with it is libgit2's to say.
    let said = read.ok().and_then(|_| text.trim_end().strip_prefix(words));
    Ok(said.map(PathBuf::from))
}

/// Returns an error if something that a commit reads is no file, or is an object that can't be read: the branch that is
/// checked out, its newest commits and their trees, and what is to be ignored on the way to a path.
pub(super) fn check_head(clone: &Repository, branch: &str, path: &Path) -> Result<(), git2::Error> {
    for log in [clone.path(), clone.commondir()] {
        let log = log.join("logs/refs/heads").join(branch);
        if !log.is_dir() {
            loose::is_there(&log)?;
        }
    }
    for folder in path.ancestors().skip(1) {
        let folder = clone.workdir().unwrap_or(clone.path()).join(folder);
        for name in [".gitignore", ".gitattributes"] {
            loose::is_there(&folder.join(name))?;
        }
    }
    let Some(tip) = tip(clone, branch)? else {
        return Ok(());
    };
    check_history(clone, tip)?;
    reach::check_trees(clone, clone.find_commit(tip)?.tree_id())
}

/// Returns the commit that people mean by a name, as `git rev-parse` would.
pub fn named(clone: &Repository, name: &str) -> Result<Oid, git2::Error> {
    let end = name.find(['~', '^', '@', ':']).unwrap_or(name.len());
    let start = match &name[..end] {
        "" => "HEAD",
        start => start,
    };
    let head = clone.find_reference("HEAD").ok();
    let head = head.and_then(|head| head.symbolic_target().ok().flatten().map(str::to_owned));
    let name_of_branch = match head {
        Some(branch) if start == "HEAD" => branch,
        _ => start.to_owned(),
    };
    let branch = name_of_branch
        .strip_prefix("refs/heads/")
        .unwrap_or(&name_of_branch);
    let tip = match tip(clone, branch)? {
        Some(tip) => Some(tip),
        None => ["", "refs/", "refs/tags/", "refs/remotes/"]
            .iter()
            .find_map(|place| clone.refname_to_id(&format!("{place}{start}")).ok()),
    };
    let tip = tip.or_else(|| {
        clone
            .odb()
            .ok()?
            .exists_prefix(Oid::from_str(start).ok()?, start.len())
            .ok()
    });
    if let Some(tip) = tip {
        check_history(clone, tip)?;
    }
    Ok(clone.revparse_single(name)?.peel_to_commit()?.id())
}

/// Looks at the commits of a history that are loose, so far back as names reach.
pub(super) fn check_history(clone: &Repository, tip: Oid) -> Result<(), git2::Error> {
    const MOST: usize = 10_000;
    let loose = Loose::of(clone);
    let (mut next, mut seen) = (vec![tip], HashSet::from([tip]));
    while let Some(id) = next.pop() {
        if loose.check(id)? && seen.len() < MOST {
            let parents = clone
                .find_commit(id)
                .map(|commit| commit.parent_ids().collect::<Vec<_>>());
            next.extend(
                parents
                    .unwrap_or_default()
                    .into_iter()
                    .filter(|parent| seen.insert(*parent)),
            );
        }
    }
    Ok(())
}

/// Returns where a branch is of a repository on this machine.
pub(super) fn tip(repo: &Repository, branch: &str) -> Result<Option<Oid>, git2::Error> {
    let name = format!("refs/heads/{branch}");
    let place = repo.commondir().join(&name);
    if !place.is_dir() {
        loose::is_there(&place)?;
    }
    match repo.refname_to_id(&name) {
        Ok(tip) => Ok(Some(tip)),
        Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::InvalidSpec) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Fetches from a repository on this machine. libgit2's own local fetch copies all branches, wanted or not.
pub(super) fn fetch(
    mirror: &Repository,
    remote: &Repository,
    branches: &[&str],
) -> Result<Tips, git2::Error> {
    let mut tips = Tips::default();
    let head = remote.find_reference("HEAD").ok();
    let head = head.and_then(|head| head.symbolic_target().ok().flatten().map(str::to_owned));
    if let Some(name) = head.as_ref().and_then(|head| head.strip_prefix("refs/heads/")) {
        tips.head = Head::Branch(name.to_owned());
    }
    for branch in branches {
        if let Some(tip) = tip(remote, branch)? {
            tips.branches.insert((*branch).to_owned(), tip);
        }
    }
    let known: Vec<Oid> = branches
        .iter()
        .filter_map(|branch| mirror.refname_to_id(&tracking(branch)).ok())
        .collect();
    let missing: Vec<Oid> = tips
        .branches
        .values()
        .copied()
        .filter(|tip| !known.contains(tip))
        .collect();
    download(remote, mirror, &missing, &known)?;
    Ok(tips)
}

/// Copies commits, with all they need, from a repository on this machine, whatever branch they are on.
pub(super) fn obtain(mirror: &Repository, remote: &Repository, commits: &[Oid]) -> Result<(), git2::Error> {
    let known: Vec<Oid> = mirror
        .references()?
        .filter_map(|reference| reference.ok()?.target())
        .collect();
    let missing: Vec<Oid> = commits.iter().copied().filter(|id| !known.contains(id)).collect();
    download(remote, mirror, &missing, &known)?;
    for (place, commit) in commits.iter().enumerate() {
        mirror.reference(&format!("refs/cutover/obtained/{place}"), *commit, true, "obtain")?;
    }
    Ok(())
}

/// Pushes to a repository on this machine.
///
/// libgit2's own local push overwrites whatever the branch points to by then, and refuses repositories with a work
/// tree. Here the old value is compared under the reference's lock, which git respects too. Hooks aren't run.
pub(super) fn push(
    mirror: &Repository,
    remote: &Repository,
    refname: &str,
    commit: Oid,
    expected: Option<Oid>,
) -> Result<Push, git2::Error> {
    if !remote.is_bare()
        && remote
            .find_reference("HEAD")
            .is_ok_and(|head| head.symbolic_target().ok().flatten() == Some(refname))
    {
        return Ok(Push::Refused("the branch is checked out there".to_owned()));
    }
    copy(mirror, remote, &[commit], expected.as_slice())?;
    let old = expected.unwrap_or(Oid::ZERO_SHA1);
    match remote.reference_matching(refname, commit, true, old, "cutover: publish") {
        Ok(_) => Ok(Push::Done),
        Err(error) if matches!(error.code(), ErrorCode::Modified | ErrorCode::Locked) => Ok(Push::Moved),
        Err(error) if error.code() == ErrorCode::NotFound && expected.is_some() => Ok(Push::Moved),
        Err(error) if error.code() == ErrorCode::Exists => Ok(Push::Refused(scrub(error.message()))),
        Err(error) => Err(error),
    }
}

/// Brings commits with all they need into a mirror, except what `known` commits have.
///
/// What a mirror that has nothing yet lacks is in packs already: those are taken as they are.
fn download(
    remote: &Repository,
    mirror: &Repository,
    wanted: &[Oid],
    known: &[Oid],
) -> Result<(), git2::Error> {
    if known.is_empty() && !wanted.is_empty() {
        // Before the packs are taken: what somebody packs meanwhile was loose.
        let is_packed = is_packed(remote);
        let all_taken = take_packs(remote, mirror)?;
        let there = mirror.odb()?;
        if is_packed && all_taken && wanted.iter().all(|id| there.exists(*id)) {
            return Ok(());
        }
    }
    copy(remote, mirror, wanted, known)
}

/// Gives a mirror the packs of a repository on this machine, as links or else as copies; says whether it got all of them.
///
/// A pack never changes, and one that goes there stays here.
fn take_packs(from: &Repository, to: &Repository) -> Result<bool, git2::Error> {
    let packs = from.commondir().join("objects").join("pack");
    let directory = pack_directory(to)?;
    let mut all = true;
    let files = std::fs::read_dir(packs).into_iter().flatten().flatten();
    for index in files.map(|entry| entry.path()) {
        if index.extension().is_some_and(|extension| extension == "idx") {
            // A pack is there for its readers as soon as its index is.
            let taken = ["pack", "idx"]
                .iter()
                .try_for_each(|extension| take(&index.with_extension(extension), &directory));
            if let Err(error) = taken {
                tracing::debug!(%error, pack = %index.display(), "cannot take a pack: its objects are copied");
                all = false;
            }
        }
    }
    to.odb()?.refresh()?;
    Ok(all)
}

/// Links a file into a directory, or copies it where that can't be.
fn take(file: &Path, directory: &Path) -> io::Result<()> {
    let Some(name) = file.file_name() else {
        return Ok(());
    };
    let place = directory.join(name);
    if place.exists() || std::fs::hard_link(file, &place).is_ok() {
        return Ok(());
    }
    // Under another name until it is complete; what is left of a broken copy goes when the mirror is opened next.
    let partial = place.with_extension("partial");
    std::fs::copy(file, &partial)?;
    std::fs::rename(&partial, &place)
}

fn pack_directory(repo: &Repository) -> Result<PathBuf, git2::Error> {
    let directory = repo.commondir().join("objects").join("pack");
    std::fs::create_dir_all(&directory)
        .map_err(|error| git2::Error::new(ErrorCode::GenericError, ErrorClass::Os, error.to_string()))?;
    Ok(directory)
}

/// Returns whether all objects of a repository are in its packs.
fn is_packed(repo: &Repository) -> bool {
    let objects = repo.commondir().join("objects");
    let Ok(entries) = std::fs::read_dir(&objects) else {
        return false;
    };
    let mut names = entries.flatten().map(|entry| entry.file_name());
    // Loose objects are in directories of two digits; a directory that has become empty is taken for one with objects.
    names.all(|name| name == "pack" || name == "info") && !objects.join("info").join("alternates").exists()
}

/// Copies commits with all they need, except what `known` commits have and what is there already, as one pack.
pub(super) fn copy(
    from: &Repository,
    to: &Repository,
    wanted: &[Oid],
    known: &[Oid],
) -> Result<(), git2::Error> {
    let there = to.odb()?;
    let lacks = |id: Oid| !there.exists_ext(id, OdbLookupFlags::NO_REFRESH);
    if wanted.is_empty() {
        return Ok(());
    }
    let commits = reach::lacked(from, to, wanted, known)?;
    let mut pack = from.packbuilder()?;
    reach::insert(from, &mut pack, commits.into_iter().map(Ok), &lacks)?;
    if pack.object_count() == 0 {
        return Ok(());
    }
    pack.write(&pack_directory(to)?, 0)?;
    there.refresh()
}
