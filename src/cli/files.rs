//! The files of a work tree, as `validate` looks at them: before they are committed.
//!
//! What is read here, and what is said to be unreadable, is what sync makes of the same entries once they are committed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, FileType, Metadata};
use std::io::Read;
use std::path::Path;

use cutover_base::budget::{Budget, Limit, Size};
use cutover_base::without_number;
use cutover_core::config::{self, Config, Shape, link_target};
use cutover_core::error::{Error, Result};
use cutover_core::manifest::{self, Obstacle, Parsed, Set, Source, parse};
use cutover_git as repo;

/// A file, with its path relative to the root, written with `/`.
#[derive(Debug)]
pub struct File {
    pub path: String,
    /// Its bytes, or why it can't be read.
    pub content: Result<Vec<u8>, Obstacle>,
}

impl File {
    /// Returns the objects in it, and what is wrong with it.
    fn parse(&self, budget: &Budget) -> Parsed {
        match &self.content {
            Ok(bytes) => parse(Source::new(&self.path), bytes, budget),
            Err(why) => Parsed::unreadable(&self.path, *why),
        }
    }
}

/// Reads the files under a directory that the syncs of a configuration own, in order of their paths; and says which
/// entries can't be read that may be theirs.
fn read(root: &Path, config: &Config, budget: &Budget) -> Result<Vec<File>> {
    let mut walk = Walk {
        root,
        config,
        budget,
        limits: repo::Limits::default().within(budget),
        submodules: repo::submodules(root),
        visited: 0,
        bytes: 0,
        files: Vec::new(),
    };
    walk.directory(root, "", 0)?;
    let mut files = walk.files;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Returns the objects in the files under a directory, as far as they are within the budget, and calls `with` for every file.
pub fn objects(root: &Path, config: &Config, budget: &Budget, mut with: impl FnMut(File)) -> Result<Set> {
    let (mut set, mut size) = (Set::new().within(budget), Size::default());
    for file in read(root, config, budget)? {
        let parsed = file.parse(budget);
        size = size + parsed.size;
        budget.check_size(&size)?;
        set.update(&file.path, parsed);
        with(file);
    }
    Ok(set)
}

/// Returns what a commit wants, as far as it is within the budget: its configuration, and the objects in its files.
pub fn objects_at(clone: &git2::Repository, commit: git2::Oid, budget: &Budget) -> Result<(Config, Set)> {
    let limits = repo::Limits::default().within(budget);
    let bytes = repo::file(clone, &limits, commit, config::PATH)?.unwrap_or_default();
    let config = Config::parse_within(&bytes, budget)?;
    let all = repo::files(clone, &limits, commit)?;
    let (mut set, mut size) = (Set::new().within(budget), Size::default());
    for file in all
        .files
        .iter()
        .filter(|file| config.sync_of(&file.path).is_some())
    {
        let bytes = repo::blob(clone, &limits, file.blob)?;
        let parsed = parse(Source::new(&file.path), &bytes, budget);
        size = size + parsed.size;
        budget.check_size(&size)?;
        set.update(&file.path, parsed);
    }
    for repo::Skipped { path, why, shape } in all.skipped {
        if !config.affected_by(&path, shape).is_empty() {
            set.update(&path, Parsed::unreadable(&path, why));
        }
    }
    Ok((config, set))
}

/// Reads `cutover.yaml` under a directory; without it, the settings are the default ones.
pub fn read_config(root: &Path, budget: &Budget) -> Result<Result<Config, config::Error>> {
    let bytes = read_config_bytes(root, budget)?;
    Ok(bytes.and_then(|bytes| Config::parse_within(&bytes, budget)))
}

/// Reads `cutover.yaml` under a directory as it is written; nothing if there is none.
pub fn read_config_bytes(root: &Path, budget: &Budget) -> Result<Result<Vec<u8>, config::Error>> {
    let content = read_one(root, config::PATH, budget.of(Limit::FileBytes))?;
    let content = content.unwrap_or_else(|| Ok(Vec::new()));
    Ok(content.map_err(|why| manifest::Error::unreadable(config::PATH, why).into()))
}

/// Reads one file under a directory; `None` if there is none.
fn read_one(root: &Path, path: &str, limit: usize) -> Result<Option<Result<Vec<u8>, Obstacle>>> {
    let place = root.join(path);
    let found = match fs::symlink_metadata(&place) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(&place, &error)),
    };
    if found.is_dir() {
        return Ok(Some(Err(Obstacle::Folder)));
    }
    match obstacle(found.file_type()) {
        Some(why) => Ok(Some(Err(why))),
        None => content(&place, &found, limit).map(Some),
    }
}

/// Reads a file that a person names, wherever it is, that is no longer than a limit; `-`: what comes on stdin.
pub fn read_given(path: &Path, limit: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = limit as u64 + 1;
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
    read.map_err(|error| unreadable(path, &error))?;
    if bytes.len() > limit {
        let message = format!("{} has more than {limit} bytes", path.display());
        return Err(Error::user(message).hint("raise the limit with --budget file-bytes=NUMBER"));
    }
    Ok(bytes)
}

/// Reads the objects in what a person names, wherever it is: a file, `-` for stdin, or a folder of files.
pub fn given(path: &Path, budget: &Budget) -> Result<Set> {
    let set = if path.is_dir() {
        objects(path, &Config::default(), budget, |_| ())?
    } else {
        let (name, bytes) = (
            path.display().to_string(),
            read_given(path, budget.of(Limit::FileBytes))?,
        );
        let parsed = parse(Source::new(&name), &bytes, budget);
        budget.check_size(&parsed.size)?;
        let mut set = Set::new().within(budget);
        set.update(&name, parsed);
        set
    };
    let wrong = set.errors().next().map(ToString::to_string);
    match wrong {
        Some(error) => Err(Error::user(format!("{}: {error}", path.display()))),
        None => Ok(set),
    }
}

/// Checks that a file may be written: nothing on its way from the root is a link, and it isn't one itself.
pub fn check_writable(root: &Path, path: &str) -> Result<()> {
    let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
    for end in ends {
        let part = &path[..end];
        let Ok(found) = fs::symlink_metadata(root.join(part)) else {
            // What isn't there yet is made, and everything below it.
            return Ok(());
        };
        let why = match obstacle(found.file_type()) {
            Some(why) => why,
            None if end == path.len() && found.is_dir() => Obstacle::Folder,
            None => continue,
        };
        return Err(
            Error::user(format!("cannot write {path}: {part}: {why}")).hint("name another file with --file")
        );
    }
    Ok(())
}

/// Fails where a person names something else than a folder as the root of a repository.
pub fn must_be_folder(path: &Path) -> Result<()> {
    let hint = "name the root of a repository; all of its files are checked together";
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Error::user(format!("{} is not a folder", path.display())).hint(hint)),
        Err(error) => Err(unreadable(path, &error).hint(hint)),
    }
}

/// Returns whether there is anything at a path, be it a link that leads nowhere.
pub fn is_taken(root: &Path, path: &str) -> bool {
    fs::symlink_metadata(root.join(path)).is_ok()
}

struct Walk<'a> {
    root: &'a Path,
    config: &'a Config,
    budget: &'a Budget,
    limits: repo::Limits,
    /// Those that aren't checked out are empty folders.
    submodules: BTreeSet<String>,
    visited: usize,
    bytes: usize,
    files: Vec<File>,
}

impl Walk<'_> {
    fn directory(&mut self, dir: &Path, prefix: &str, depth: usize) -> Result<()> {
        let entries = fs::read_dir(dir).map_err(|error| unreadable(dir, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(dir, &error))?;
            self.visited += 1;
            self.budget.check(Limit::RevisionEntries, self.visited)?;
            let name = entry.file_name();
            let lossy = name.to_string_lossy();
            if lossy.starts_with('.') {
                continue;
            }
            let path = if prefix.is_empty() {
                lossy.into_owned()
            } else {
                format!("{prefix}/{lossy}")
            };
            let found = entry
                .metadata()
                .map_err(|error| unreadable(&entry.path(), &error))?;
            self.entry(&entry.path(), &name, path, &found, prefix, depth)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        place: &Path,
        name: &OsStr,
        path: String,
        found: &Metadata,
        parent: &str,
        depth: usize,
    ) -> Result<()> {
        let is_submodule = self.submodules.contains(&path) || found.is_dir() && is_taken(place, ".git");
        let by_kind = || is_submodule.then_some(Obstacle::Submodule);
        let why = self
            .limits
            .obstacle(name.as_encoded_bytes(), &path, depth)
            .or_else(|| obstacle(found.file_type()))
            .or_else(by_kind);
        if let Some(why) = why {
            let shape = self.shape(place, found, parent);
            if !self.config.affected_by(&path, shape).is_empty() {
                let content = Err(why);
                self.files.push(File { path, content });
            }
        } else if found.is_dir() {
            self.directory(place, &path, depth + 1)?;
        } else if self.config.sync_of(&path).is_some() {
            let content = content(place, found, self.limits.file_bytes)?;
            self.bytes += content.as_ref().map_or(0, Vec::len);
            self.budget.check(Limit::RevisionBytes, self.bytes)?;
            self.files.push(File { path, content });
            self.budget.check(Limit::RevisionFiles, self.files.len())?;
        }
        Ok(())
    }

    fn shape(&self, place: &Path, found: &Metadata, parent: &str) -> Shape {
        if found.is_dir() {
            return Shape::Folder;
        }
        if !found.is_symlink() {
            return Shape::File;
        }
        let target = fs::read_link(place).ok();
        let path = target
            .as_deref()
            .and_then(Path::to_str)
            .and_then(|target| link_target(parent, target));
        // Another link on the way is not followed either.
        match path.and_then(|path| fs::symlink_metadata(self.root.join(path)).ok()) {
            Some(found) if found.is_dir() => Shape::Folder,
            Some(found) if found.is_file() => Shape::File,
            _ => Shape::Either,
        }
    }
}

fn obstacle(kind: FileType) -> Option<Obstacle> {
    if kind.is_symlink() {
        Some(Obstacle::Symlink)
    } else if kind.is_file() || kind.is_dir() {
        None
    } else {
        Some(Obstacle::Special)
    }
}

/// Reads a file that is no longer than a limit, whatever becomes of it meanwhile.
fn content(place: &Path, found: &Metadata, limit: usize) -> Result<Result<Vec<u8>, Obstacle>> {
    if found.len() > limit as u64 {
        let size = found.len();
        return Ok(Err(Obstacle::TooLarge { size, limit }));
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(place).map_err(|error| unreadable(place, &error))?;
    file.take(limit as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(place, &error))?;
    if bytes.len() > limit {
        let size = bytes.len() as u64;
        return Ok(Err(Obstacle::TooLarge { size, limit }));
    }
    Ok(Ok(bytes))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    let why = error.to_string();
    Error::user(format!(
        "cannot read {}: {}",
        path.display(),
        without_number(&why)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_large_is_not_read() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a.yaml", config::PATH] {
            let file = fs::File::create(root.path().join(name)).unwrap();
            // A hole: it takes no room on disk, and would take all of the memory.
            file.set_len(1 << 40).unwrap();
        }
        let budget = Budget::default();
        let error = read_config(root.path(), &budget).unwrap().unwrap_err();
        let set = objects(root.path(), &Config::default(), &budget, |_| ()).unwrap();
        let told = set.errors().next().unwrap();
        for hint in [told.hint(), error.findings()[0].hint.clone()] {
            assert!(hint.unwrap().contains("--budget file-bytes="));
        }
    }

    #[test]
    fn files_that_are_too_large_together_are_not_read_to_their_end() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a.yaml", "b.yaml", "c.yaml"] {
            fs::write(root.path().join(name), [b'#'; 600]).unwrap();
        }
        let with = |limit, most| {
            let budget = Budget::default().with(limit, most);
            read(root.path(), &Config::default(), &budget).map(|files| files.len())
        };
        assert_eq!(with(Limit::RevisionBytes, 1_800).unwrap(), 3);
        for (limit, most) in [(Limit::RevisionBytes, 1_700), (Limit::RevisionFiles, 2)] {
            let error = with(limit, most).unwrap_err();
            assert!(error.to_string().contains(limit.name()), "{error}");
        }
    }
}
