//! The files of a work tree, as `validate` looks at them: before they are committed.

use std::path::Path;

use crate::error::{Error, Result};

/// A file, with its path relative to the root, written with `/`.
#[derive(Debug)]
pub struct File {
    pub path: String,
    pub content: Vec<u8>,
}

/// Reads the files under a directory for which `wanted` says so, in order of their paths. Links and what begins with a
/// dot are left out, as sync leaves them out.
pub fn read(root: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<File>> {
    let mut files = Vec::new();
    visit(root, "", &wanted, &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Reads one file under a directory; `None` if there is none.
pub fn read_one(root: &Path, path: &str) -> Result<Option<Vec<u8>>> {
    match std::fs::read(root.join(path)) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(&root.join(path), &error)),
    }
}

fn visit(dir: &Path, prefix: &str, wanted: &impl Fn(&str) -> bool, files: &mut Vec<File>) -> Result<()> {
    let entries = std::fs::read_dir(dir).map_err(|error| unreadable(dir, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| unreadable(dir, &error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().map_err(|error| unreadable(dir, &error))?;
        if name.starts_with('.') {
            continue;
        }
        let path = if prefix.is_empty() {
            name
        } else {
            format!("{prefix}/{name}")
        };
        if kind.is_dir() {
            visit(&entry.path(), &path, wanted, files)?;
        } else if kind.is_file() && wanted(&path) {
            let content = std::fs::read(entry.path()).map_err(|error| unreadable(&entry.path(), &error))?;
            files.push(File { path, content });
        }
    }
    Ok(())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::user(format!("cannot read {}: {error}", path.display()))
}
