//! What a revision may cost: one table of limits, and the accounts that are held against it.
//!
//! Whoever may push must not be able to use up the memory or the time of a reconciler. The limits are therefore never the
//! repository's to say: whoever runs the program raises one with `--budget NAME=NUMBER`.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

macro_rules! limits {
    ($($limit:ident = $name:literal, $default:expr, $unit:literal, $advice:literal;)*) => {
        /// Something of which a revision, or a file of it, may have only so much.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Limit {
            $(#[doc = $unit] $limit,)*
        }

        impl Limit {
            /// Every limit.
            pub const ALL: &'static [Self] = &[$(Self::$limit,)*];
            const COUNT: usize = Self::ALL.len();
            const DEFAULTS: [usize; Self::COUNT] = [$($default,)*];

            /// Returns what `--budget` calls it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$limit => $name,)*
                }
            }

            /// Returns what is counted.
            pub const fn unit(self) -> &'static str {
                match self {
                    $(Self::$limit => $unit,)*
                }
            }

            const fn advice(self) -> &'static str {
                match self {
                    $(Self::$limit => $advice,)*
                }
            }
        }
    };
}

limits! {
    FileBytes = "file-bytes", 4 << 20, "bytes in a file", "split the file";
    FileDocuments = "file-documents", 10_000, "documents in a file", "split the file";
    FileDepth = "file-depth", 100, "levels of nesting", "nest less deeply";
    FileValues = "file-values", 500_000, "values in a file", "split the file";
    FileCopies = "file-copies", 40_000, "values copied by anchors and aliases in a file", "write out what the aliases stand for";
    FileCopiedBytes = "file-copied-bytes", 4 << 20, "bytes copied by anchors and aliases in a file", "write out what the aliases stand for";
    FileFindings = "file-findings", 20, "findings in a file", "fix those that are shown";
    RevisionFiles = "revision-files", 50_000, "files in a revision", "leave files out with syncs[].exclude in cutover.yaml";
    RevisionBytes = "revision-bytes", 128 << 20, "bytes in the files of a revision", "leave files out with syncs[].exclude in cutover.yaml";
    RevisionObjects = "revision-objects", 100_000, "objects in a revision", "split the repository";
    RevisionValues = "revision-values", 6_000_000, "values in the files of a revision", "split the repository";
    RevisionFindings = "revision-findings", 1_000, "findings in a revision", "fix those that are shown";
    RevisionSyncs = "revision-syncs", 500, "syncs in cutover.yaml", "name fewer";
    RevisionSeconds = "revision-seconds", 120, "seconds to read a revision", "split the repository";
    RevisionEntries = "revision-entries", 1_000_000, "files and folders looked at in a revision", "name the root of one repository, or split it";
    PathFolders = "path-folders", 64, "folders above a file", "move it up, or exclude it with syncs[].exclude in cutover.yaml";
    PathBytes = "path-bytes", 1024, "bytes in a path", "shorten it, or exclude it with syncs[].exclude in cutover.yaml";
}

impl Limit {
    /// Returns how far it may be raised: what is nested is taken apart by functions that call themselves, and no system
    /// opens a longer path.
    const fn most(self) -> usize {
        match self {
            Self::FileDepth | Self::PathFolders => 200,
            Self::PathBytes => 4096,
            _ => usize::MAX,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The limits in force. Nobody who writes manifests gets near them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget([usize; Limit::COUNT]);

impl Default for Budget {
    fn default() -> Self {
        Self(Limit::DEFAULTS)
    }
}

impl Budget {
    /// Returns how much of something there may be.
    pub const fn of(&self, limit: Limit) -> usize {
        self.0[limit as usize]
    }

    #[must_use]
    pub const fn with(mut self, limit: Limit, value: usize) -> Self {
        self.0[limit as usize] = value;
        self
    }

    /// Returns how long it may take to read a revision.
    pub fn time(&self) -> Duration {
        Duration::from_secs(self.of(Limit::RevisionSeconds) as u64)
    }

    /// Returns an error if there is more of something than there may be.
    pub fn check(&self, limit: Limit, amount: usize) -> Result<(), Exceeded> {
        if amount > self.of(limit) {
            Err(self.exceeded(limit))
        } else {
            Ok(())
        }
    }

    pub const fn exceeded(&self, limit: Limit) -> Exceeded {
        Exceeded {
            limit,
            allowed: self.of(limit),
        }
    }

    /// Returns an error if all files together are too much.
    pub fn check_size(&self, size: &Size) -> Result<(), Exceeded> {
        self.check(Limit::RevisionFiles, size.files)?;
        self.check(Limit::RevisionBytes, size.bytes)?;
        self.check(Limit::RevisionObjects, size.objects)?;
        self.check(Limit::RevisionValues, size.values)
    }
}

/// There is more of something than the limit allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("more than {allowed} {} (limit {limit})", limit.unit())]
pub struct Exceeded {
    pub limit: Limit,
    pub allowed: usize,
}

impl Exceeded {
    /// Returns what to do about it, and who can raise the limit.
    pub fn hint(&self) -> String {
        let (advice, raised) = (self.limit.advice(), self.allowed.saturating_mul(2));
        if raised > self.limit.most() {
            return advice.to_owned();
        }
        format!(
            "{advice}, or raise the limit where cutover runs: --budget {}={raised}",
            self.limit
        )
    }
}

/// One limit as whoever runs the program sets it: `file-bytes=8Mi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    pub limit: Limit,
    pub value: usize,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text
            .split_once('=')
            .ok_or("write it as NAME=NUMBER, for instance file-bytes=8Mi")?;
        let limit = Limit::ALL.iter().copied().find(|limit| limit.name() == name);
        let Some(limit) = limit else {
            let names: Vec<_> = Limit::ALL.iter().map(|limit| limit.name()).collect();
            return Err(format!(
                "there is no limit {name:?}; there are {}",
                names.join(", ")
            ));
        };
        let value = number(value).ok_or_else(|| format!("not a number: {value:?}"))?;
        if value == 0 || value > limit.most() {
            return Err(format!("{limit} is a number from 1 to {}", limit.most()));
        }
        Ok(Self { limit, value })
    }
}

/// Reads a whole number, with a binary suffix as Kubernetes writes it.
fn number(text: &str) -> Option<usize> {
    let suffixes = [("Ki", 10), ("Mi", 20), ("Gi", 30)];
    let with_suffix = suffixes
        .iter()
        .find_map(|(suffix, bits)| Some((text.strip_suffix(suffix)?, *bits)));
    let (digits, bits) = with_suffix.unwrap_or((text, 0));
    digits.parse::<usize>().ok()?.checked_mul(1 << bits)
}

/// How much some files are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub files: usize,
    pub bytes: usize,
    pub objects: usize,
    pub values: usize,
}

impl Add for Size {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            files: self.files.saturating_add(other.files),
            bytes: self.bytes.saturating_add(other.bytes),
            objects: self.objects.saturating_add(other.objects),
            values: self.values.saturating_add(other.values),
        }
    }
}

impl Sub for Size {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            files: self.files.saturating_sub(other.files),
            bytes: self.bytes.saturating_sub(other.bytes),
            objects: self.objects.saturating_sub(other.objects),
            values: self.values.saturating_sub(other.values),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_set_by_its_name() {
        let set = |text: &str| text.parse::<Setting>();
        for (text, limit, value) in [
            ("file-bytes=8Mi", Limit::FileBytes, 8 << 20),
            ("revision-objects=250000", Limit::RevisionObjects, 250_000),
            ("file-depth=200", Limit::FileDepth, 200),
        ] {
            assert_eq!(set(text), Ok(Setting { limit, value }));
            assert_eq!(Budget::default().with(limit, value).of(limit), value);
        }
        for text in [
            "file-bytes",
            "file-bytes=",
            "file-bytes=0",
            "file-depth=201",
            "path-folders=201",
            "x=1",
            "files=1Ti",
        ] {
            assert!(set(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_limit_is_documented() {
        let page = include_str!("../../../docs/reference/limits.md");
        for limit in Limit::ALL {
            let row = format!(
                "| `{limit}` | {} | {}",
                Budget::default().of(*limit),
                limit.unit()
            );
            assert!(page.contains(&row), "{row}");
        }
    }

    #[test]
    fn who_is_over_a_limit_is_told_which_and_who_raises_it() {
        let over = Budget::default().check(Limit::FileDocuments, 10_001).unwrap_err();
        insta::assert_snapshot!(
            format!("{over}\n{}", over.hint()),
            @"
        more than 10000 documents in a file (limit file-documents)
        split the file, or raise the limit where cutover runs: --budget file-documents=20000
        "
        );
        let depth = Budget::default().with(Limit::FileDepth, 200);
        assert_eq!(depth.exceeded(Limit::FileDepth).hint(), "nest less deeply");
    }
}
