//! Why an entry of a tree can't be read as a file of objects.

use std::fmt;

use cutover_base::budget::Exceeded;

/// Why nothing is known of what an entry of a repository defines.
///
/// An entry that can't be read is never taken for one that isn't there: what it defined before is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// It may lead out of the repository, or to a file that is read anyway.
    Symlink,
    Submodule,
    /// A folder where a file is expected.
    Folder,
    /// A device, a socket or a pipe in a work tree.
    Special,
    NotUtf8,
    /// A name that no file can have (`..`), or one with a control character.
    BadName,
    /// It lies below too many folders.
    TooDeep(Exceeded),
    PathTooLong(Exceeded),
    TooLarge {
        /// In bytes.
        size: u64,
        limit: usize,
    },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self {
            Self::TooLarge { size, limit } => {
                return write!(f, "it has {size} bytes, more than the limit of {limit} bytes");
            }
            Self::TooDeep(exceeded) => {
                return write!(f, "it lies below more folders than are read: {exceeded}");
            }
            Self::PathTooLong(exceeded) => {
                return write!(f, "its path is longer than is read: {exceeded}");
            }
            Self::Symlink => "a symbolic link is not followed",
            Self::Submodule => "a submodule is not read",
            Self::Folder => "a folder stands where a file is expected",
            Self::Special => "not a regular file",
            Self::NotUtf8 => "its name is not UTF-8",
            Self::BadName => "its name has a control character, or is none that a file can have",
        };
        f.write_str(why)
    }
}

impl Obstacle {
    /// Returns what to do about it.
    pub(super) fn hint(self) -> String {
        let hint = match self {
            Self::Symlink => {
                "put the files themselves there, or exclude it in cutover.yaml (`syncs[].exclude`); \
                 until then nothing is pruned"
            }
            Self::Submodule => {
                "sync the other repository by itself, or exclude it in cutover.yaml (`syncs[].exclude`); \
                 until then nothing is pruned"
            }
            Self::NotUtf8 | Self::BadName => {
                "rename it, or exclude it in cutover.yaml (`syncs[].exclude`); until then nothing is pruned"
            }
            Self::TooLarge { .. } => {
                "split the file, or raise the limit where cutover runs: --budget file-bytes=NUMBER"
            }
            Self::Folder | Self::Special => "put a regular file there",
            Self::TooDeep(exceeded) | Self::PathTooLong(exceeded) => {
                return format!("{}; until then nothing is pruned", exceeded.hint());
            }
        };
        hint.to_owned()
    }
}
