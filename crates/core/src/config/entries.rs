//! Which entries of a repository are about objects: what sync reads, and what it would miss when it can't read them.

use super::{Config, PATH, Sync, glob};

/// What an entry that isn't read could stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One file, under the entry's own name.
    File,
    /// A folder with any number of files.
    Folder,
    /// One or the other: a link that leads out of the repository, or nowhere.
    Either,
}

impl Config {
    /// Returns the syncs that can't know all they want while an entry can't be read.
    ///
    /// None of what sync never looks at: what is hidden, excluded or of the status directory, and files that are no
    /// manifests by their names.
    pub fn affected_by(&self, path: &str, shape: Shape) -> Vec<&Sync> {
        if path == PATH || self.is_ignored(path) {
            return Vec::new();
        }
        let mut affected: Vec<&Sync> = Vec::new();
        if shape != Shape::Folder {
            affected.extend(self.sync_of(path));
        }
        // A link called `notes.md` that leads nowhere is no folder of manifests.
        let may_be_folder = shape == Shape::Folder || shape == Shape::Either && !has_extension(path);
        if may_be_folder {
            affected.extend(self.sync_of_folder(path));
            let below = |sync: &&Sync| is_within(sync.folder(), path);
            affected.extend(self.syncs.iter().filter(below));
        }
        affected.dedup_by(|a, b| a.name == b.name);
        affected
    }

    /// Returns the sync in whose folder a folder is, unless it is excluded there.
    fn sync_of_folder(&self, path: &str) -> Option<&Sync> {
        let inside = self
            .syncs
            .iter()
            .filter_map(|sync| Some((sync, sync.inside(path)?)));
        let (sync, rest) = inside.min_by_key(|(_, rest)| rest.len())?;
        let anything = format!("{rest}/-");
        let is_excluded =
            |pattern: &String| glob::matches(pattern, rest) || glob::matches(pattern, &anything);
        (!sync.exclude.iter().any(is_excluded)).then_some(sync)
    }

    /// Returns whether a path is hidden, or in the status directory.
    pub(super) fn is_ignored(&self, path: &str) -> bool {
        let is_status = |folder: &str| is_within(path, folder) && path.len() > folder.len();
        path.split('/').any(|part| part.starts_with('.'))
            || self.status.within_source().is_some_and(is_status)
    }
}

fn has_extension(path: &str) -> bool {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    name.contains('.')
}

/// Returns whether a path is a folder or something in it.
fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the path, from the root of the repository, that a link in `folder` leads to; `None` if that is outside.
pub fn link_target(folder: &str, target: &str) -> Option<String> {
    if target.starts_with('/') || target.contains('\\') {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONFIG: &str = "apiVersion: cutover.dev/v1alpha1\nkind: Config\nstatus: {directory: fleet/status}\nsyncs:\n\
        - {name: fleet, path: fleet, exclude: ['charts/**', 'old/', '*.tmpl.yaml']}\n\
        - {name: team, path: fleet/teams/a}\n";

    #[test]
    fn an_entry_that_is_not_read_affects_the_syncs_that_could_want_what_is_in_it() {
        let config = Config::parse(CONFIG.as_bytes()).unwrap();
        let affected = |path: &str, shape| {
            let syncs = config.affected_by(path, shape);
            syncs.iter().map(|sync| sync.name.as_str()).collect::<Vec<_>>()
        };
        for (path, shape, expected) in [
            ("fleet/a.yaml", Shape::File, &["fleet"][..]),
            ("fleet/a.yaml", Shape::Either, &["fleet"]),
            ("fleet/a.yaml", Shape::Folder, &["fleet"]),
            ("fleet/teams/a/b.json", Shape::File, &["team"]),
            ("fleet/README.md", Shape::File, &[]),
            ("fleet/README.md", Shape::Either, &[]),
            ("fleet/v1.2", Shape::Folder, &["fleet"]),
            ("fleet/base", Shape::Either, &["fleet"]),
            ("fleet/base", Shape::File, &[]),
            ("fleet/charts", Shape::Folder, &[]),
            ("fleet/old", Shape::Either, &[]),
            ("fleet/x.tmpl.yaml", Shape::File, &[]),
            ("fleet/teams", Shape::Folder, &["fleet", "team"]),
            ("fleet/teams/a", Shape::Folder, &["fleet", "team"]),
            ("fleet/teams/a/x", Shape::Folder, &["team"]),
            ("fleet", Shape::Either, &["fleet", "team"]),
            ("fleet/.git", Shape::Folder, &[]),
            ("fleet/status/x.yaml", Shape::File, &[]),
            ("other", Shape::Folder, &[]),
            ("cutover.yaml", Shape::Either, &[]),
        ] {
            assert_eq!(affected(path, shape), expected, "{path} {shape:?}");
        }
    }

    #[test]
    fn a_link_is_followed_in_name_only_and_never_out_of_the_repository() {
        for (folder, target, expected) in [
            ("", "a/b", Some("a/b")),
            ("a/b", "../c", Some("a/c")),
            ("a", "./../b//c/.", Some("b/c")),
            ("a", "../..", None),
            ("", "/etc/passwd", None),
            ("a/b", "../..", Some("")),
        ] {
            assert_eq!(
                link_target(folder, target).as_deref(),
                expected,
                "{folder} {target}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// As a file system would, one name after the other; it counts how far up it is.
        #[test]
        fn a_link_leads_where_its_names_lead_and_never_above_the_root(
            folder in prop::collection::vec("[ab]", 0..4),
            target in prop::collection::vec(prop::sample::select(vec!["a", "b", "..", ".", ""]), 0..8),
        ) {
            let depths = target.iter().scan(folder.len(), |depth, name| {
                *depth = match *name {
                    ".." => depth.checked_sub(1)?,
                    "." | "" => *depth,
                    _ => *depth + 1,
                };
                Some(*depth)
            });
            let depths: Vec<usize> = depths.collect();
            let text = target.join("/");
            let found = link_target(&folder.join("/"), &text);
            let is_inside = depths.len() == target.len() && !text.starts_with('/');
            prop_assert_eq!(found.is_some(), is_inside, "{} {}", folder.join("/"), text);
            if let Some(found) = found {
                let parts: Vec<&str> = found.split('/').filter(|part| !part.is_empty()).collect();
                prop_assert_eq!(parts.len(), depths.last().copied().unwrap_or(folder.len()));
                prop_assert!(parts.iter().all(|part| !matches!(*part, "." | "..")), "{}", found);
            }
        }

        #[test]
        fn no_text_leads_out(folder in "[a-z/.]{0,8}", target in "[a-z/.\\\\ ]{0,16}") {
            if let Some(found) = link_target(&folder, &target) {
                prop_assert!(!found.starts_with('/'), "{}", found);
                prop_assert!(!target.starts_with('/') && !target.contains('\\'), "{}", target);
            }
        }
    }
}
