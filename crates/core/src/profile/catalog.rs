//! Every profile there is, those of a repository and the built-in ones, each with where it was written; and which of them is
//! used for a kind.

use std::sync::Arc;

use serde_json::Value;

use super::{BUILT_IN, Error, find};
use crate::api::{GROUP, WorkloadProfile};
use crate::manifest::{Limits, Manifest, Set, Source, parse};
use cutover_karmada::name::{GroupKind, Gvk, Location};

/// A profile, and where it was written.
#[derive(Clone, Debug)]
pub struct Entry {
    pub name: String,
    pub profile: WorkloadProfile,
    pub is_built_in: bool,
    manifest: Arc<Manifest>,
}

impl Entry {
    /// Returns where a field was written: in a file of the repository, or in one that comes with the program.
    pub fn location(&self, pointer: &str) -> Location {
        self.manifest.location(pointer)
    }

    /// Returns the kinds that it is for.
    pub fn kinds(&self) -> impl Iterator<Item = GroupKind> + '_ {
        let of = &self.profile.spec.applies_to;
        of.kinds.iter().map(move |kind| GroupKind::new(&of.group, kind))
    }

    /// Returns the profile as it was written, as JSON.
    pub fn value(&self) -> &Value {
        &self.manifest.value
    }

    /// Returns the file of a built-in profile, comments and all.
    pub fn source(&self) -> Option<&'static str> {
        let path = &self.manifest.source.path;
        let file = BUILT_IN
            .iter()
            .find(|(known, _)| self.is_built_in && known == path);
        file.map(|(_, text)| *text)
    }

    /// Returns what the comments of a built-in profile say under a word: `# operator: …`, whose source was read; `# source: …`, the place
    /// in it; `# stopped: …`, what `suspendedWhen` asks for.
    pub fn noted(&self, word: &str) -> Vec<&'static str> {
        let begins = format!("# {word}: ");
        let lines = self.source().unwrap_or_default().lines();
        lines
            .filter_map(|line| line.trim_start().strip_prefix(begins.as_str()))
            .collect()
    }
}

/// A profile of a repository that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub name: String,
    pub location: Location,
    pub message: String,
}

/// All profiles: those of a repository by name, then those that are built in.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    pub entries: Vec<Entry>,
    pub unreadable: Vec<Unreadable>,
}

impl Catalog {
    /// Reads the profiles among the objects of a repository, and adds the built-in ones.
    pub fn of(set: &Set) -> Self {
        let mut catalog = Self::default();
        for manifest in set.of_kind(GROUP, "WorkloadProfile") {
            catalog.add(manifest, false);
        }
        for (path, text) in BUILT_IN {
            for manifest in parse(Source::new(path), text.as_bytes(), &Limits::default()).objects {
                catalog.add(&Arc::new(manifest), true);
            }
        }
        catalog
    }

    fn add(&mut self, manifest: &Arc<Manifest>, is_built_in: bool) {
        let name = manifest.key.name.clone();
        match serde_json::from_value(manifest.value.clone()) {
            Ok(profile) => self.entries.push(Entry {
                name,
                profile,
                is_built_in,
                manifest: Arc::clone(manifest),
            }),
            Err(error) => self.unreadable.push(Unreadable {
                name,
                location: manifest.source.clone(),
                message: error.to_string(),
            }),
        }
    }

    /// Returns the profile with a name: one of the repository before a built-in one.
    pub fn named(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Returns the profile that is used for a kind where an intent names none.
    pub fn used_for(&self, kind: &GroupKind) -> Result<Option<&Entry>, Error> {
        let own = self.entries.iter().filter(|entry| !entry.is_built_in);
        let given: Vec<WorkloadProfile> = own.map(|entry| entry.profile.clone()).collect();
        let gvk = Gvk {
            group: kind.group.clone(),
            version: String::new(),
            kind: kind.kind.clone(),
        };
        let found = find(&given, None, &gvk)?;
        let is_found = |entry: &&Entry| found.as_ref().is_some_and(|found| is_same(found, &entry.profile));
        Ok(self.entries.iter().find(is_found))
    }

    /// Returns why another profile than this one is used for a kind; `None` if this one is.
    pub fn why_not(&self, entry: &Entry, kind: &GroupKind) -> Result<Option<String>, Error> {
        let used = self.used_for(kind)?;
        let Some(used) = used.filter(|used| !is_same(&used.profile, &entry.profile)) else {
            return Ok(None);
        };
        let because = if entry.is_built_in {
            "a profile of the repository replaces a built-in one"
        } else {
            "of several in the repository the first by name is used, and an intent has to name one"
        };
        let at = used.location("/spec/appliesTo");
        Ok(Some(format!("{} ({at}) is used: {because}", used.name)))
    }
}

fn is_same(one: &WorkloadProfile, other: &WorkloadProfile) -> bool {
    one.metadata.name == other.metadata.name && one.spec == other.spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::built_in;

    fn catalog(text: &str) -> Catalog {
        let mut set = Set::new();
        set.update(
            "a.yaml",
            parse(Source::new("a.yaml"), text.as_bytes(), &Limits::default()),
        );
        Catalog::of(&set)
    }

    fn profile(name: &str) -> String {
        format!(
            "---\napiVersion: cutover.dev/v1alpha1\nkind: WorkloadProfile\nmetadata: {{name: {name}}}\nspec:\n  \
             appliesTo: {{group: apps, kinds: [Deployment]}}\n  stateful: false\n  suspend: []\n  hold: []\n  start: []\n  \
             restart: []\n  observedWhen: 'true'\n  suspendedWhen: 'true'\n  healthyWhen: 'true'\n"
        )
    }

    #[test]
    fn the_catalog_has_every_built_in_profile_as_the_program_uses_it() {
        let catalog = catalog("");
        let listed: Vec<&WorkloadProfile> = catalog.entries.iter().map(|entry| &entry.profile).collect();
        let built_in: Vec<&WorkloadProfile> = built_in().unwrap().iter().collect();
        assert_eq!(listed.len(), built_in.len());
        assert!(
            listed
                .iter()
                .zip(built_in)
                .all(|(one, other)| is_same(one, other))
        );
        for entry in &catalog.entries {
            let written: WorkloadProfile = serde_yaml::from_str(entry.source().unwrap()).unwrap();
            assert!(is_same(&written, &entry.profile));
        }
    }

    /// Returns the sources that the comments directly above a field name.
    fn sources_of<'a>(text: &'a str, field: &str) -> Vec<&'a str> {
        let lines: Vec<&str> = text.lines().collect();
        let key = format!("  {field}:");
        let at = lines.iter().position(|line| line.starts_with(&key)).unwrap();
        let above = lines[..at].iter().rev();
        above
            .take_while(|line| line.starts_with("  #"))
            .filter_map(|line| line.strip_prefix("  # source: "))
            .collect()
    }

    #[test]
    fn every_built_in_profile_names_the_source_of_what_holds_stops_proves_hands_over_and_starts() {
        for entry in &catalog("").entries {
            let (name, text) = (&entry.name, entry.source().unwrap());
            // `NAME VERSION (OWNER/REPOSITORY@TAG)`.
            let operators = entry.noted("operator");
            let read = operators.iter().filter_map(|operator| {
                let (_, tag) = operator.strip_suffix(')')?.rsplit_once(" (")?;
                tag.contains('@').then_some(tag)
            });
            let read: Vec<&str> = read.collect();
            assert!(
                !read.is_empty() && read.len() == operators.len(),
                "{name}: {operators:?}"
            );
            let mut fields = vec!["hold", "suspend", "suspendedWhen", "start"];
            if !entry.profile.spec.capture.is_empty() {
                fields.push("capture");
            }
            for field in fields {
                assert!(
                    !sources_of(text, field).is_empty(),
                    "{name}: {field} names no source"
                );
            }
            for source in entry.noted("source") {
                let (tag, place) = source.split_once(' ').unwrap_or((source, ""));
                assert!(read.contains(&tag) && !place.is_empty(), "{name}: {source}");
            }
            assert_eq!(entry.noted("stopped").len(), 1, "{name}");
        }
    }

    #[test]
    fn which_profile_is_used_for_a_kind_is_what_the_machines_find() {
        let catalog = catalog(&(profile("web-b") + &profile("web-a")));
        let kind = GroupKind::new("apps", "Deployment");
        assert_eq!(catalog.used_for(&kind).unwrap().unwrap().name, "web-a");
        let why = |name: &str| {
            let entry = catalog.named(name).unwrap();
            catalog.why_not(entry, &kind).unwrap().unwrap_or_default()
        };
        assert_eq!(why("web-a"), "");
        assert_eq!(
            why("web-b"),
            "web-a (a.yaml:20:14) is used: of several in the repository the first by name is used, and an intent has to name one"
        );
        assert!(why("deployment").ends_with("a profile of the repository replaces a built-in one"));
        let other = GroupKind::new("example.org", "Valve");
        assert!(catalog.used_for(&other).unwrap().is_none());
    }

    #[test]
    fn a_profile_that_cannot_be_read_is_named_with_its_place() {
        let catalog =
            catalog("apiVersion: cutover.dev/v1alpha1\nkind: WorkloadProfile\nmetadata: {name: broken}\n");
        assert_eq!(catalog.unreadable[0].name, "broken");
        assert_eq!(catalog.unreadable[0].location.to_string(), "a.yaml:1:1");
    }
}
