//! The intents of an [`Overview`], whatever their kind: a new kind is one line in the list below, and a field of the overview.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::io;

use cutover_base::escape;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::summary::{Summarized, Summary, section, section_of};
use super::{MANY, Many, Overview, many, names, path, yaml};
use crate::api::{FailoverPlan, Intent, Migration, ReplicaShift, Rollout, RolloutPolicy, Suspension};
use crate::error::Error;
use crate::intent::record;

macro_rules! kinds {
    ($($field:ident: $kind:ty,)*) => {
        impl Overview {
            /// Reads the intents of every kind; `list` returns the objects of one. `unreadable` hears of those that have a form
            /// which this release doesn't know.
            pub fn of_intents<O: Borrow<Value>>(
                mut list: impl FnMut(&'static str) -> Vec<O>,
                mut unreadable: impl FnMut(&'static str, &Value, serde_json::Error),
            ) -> Self {
                Self {
                    migrations: read::<Migration, O>(&mut list, &mut unreadable),
                    $($field: read::<$kind, O>(&mut list, &mut unreadable),)*
                    many: MANY
                        .into_iter()
                        .flat_map(&mut list)
                        .filter_map(|object| Many::read(object.borrow()))
                        .collect(),
                    ..Self::default()
                }
            }

            /// Leaves out the intents that are not wanted, by kind, namespace and name.
            pub(super) fn retain(&mut self, wanted: impl Fn(&str, (&str, &str)) -> bool) {
                self.migrations.retain(|one| wanted(Migration::KIND, names(one)));
                $(self.$field.retain(|one| wanted(<$kind>::KIND, names(one)));)*
                self.many.retain(|one| wanted(one.kind, ("", &one.name)));
            }

            /// Returns kind, namespace and name of every intent; no namespace of those of cluster scope.
            pub(super) fn intent_names(&self) -> Vec<(&str, &str, &str)> {
                let mut all: Vec<(&str, &str, &str)> = Vec::new();
                for one in &self.migrations {
                    let (namespace, name) = names(one);
                    all.push((Migration::KIND, namespace, name));
                }
                $(for one in &self.$field {
                    let (namespace, name) = names(one);
                    all.push((<$kind>::KIND, namespace, name));
                })*
                all.extend(self.many.iter().map(|one| (one.kind, "", one.name.as_str())));
                all
            }

            pub(super) fn has_no_intents(&self) -> bool {
                self.migrations.is_empty() && self.many.is_empty() $(&& self.$field.is_empty())*
            }

            /// Returns the intents without the styles of others in their texts.
            pub(super) fn plain_intents(&self) -> Self {
                Self {
                    migrations: self.migrations.iter().map(plain).collect(),
                    $($field: self.$field.iter().map(plain).collect(),)*
                    many: self.many.iter().map(plain_many).collect(),
                    ..Self::default()
                }
            }

            /// Returns how every intent stands but the Migrations, in the order in which a terminal shows them.
            pub(super) fn summaries(&self) -> Vec<Summary> {
                let mut all = Vec::new();
                $(all.extend(self.$field.iter().map(Summarized::summary));)*
                all.extend(self.many.iter().map(Many::summary));
                all
            }

            /// Writes the parts of the page that are about other intents than Migrations.
            pub(super) fn sections(&self, page: &mut String) {
                $(section(page, &self.$field);)*
                let many = self.many.iter().map(Many::summary).collect();
                section_of(page, many::TITLE, many::COLUMNS, many);
            }

            /// Adds the record of every intent.
            pub(super) fn records(&self, files: &mut BTreeMap<String, Vec<u8>>) -> Result<(), Error> {
                add_records(files, &self.migrations)?;
                $(add_records(files, &self.$field)?;)*
                for one in &self.many {
                    files.insert(one.path(), yaml(&one.document)?.into_bytes());
                }
                Ok(())
            }
        }
    };
}

kinds! {
    rollout_policies: RolloutPolicy,
    rollouts: Rollout,
    suspensions: Suspension,
    shifts: ReplicaShift,
    failover_plans: FailoverPlan,
}

fn read<I: Intent, O: Borrow<Value>>(
    list: &mut impl FnMut(&'static str) -> Vec<O>,
    unreadable: &mut impl FnMut(&'static str, &Value, serde_json::Error),
) -> Vec<I> {
    let mut all = Vec::new();
    for object in list(I::KIND) {
        match I::deserialize(object.borrow()) {
            Ok(intent) => all.push(intent),
            Err(error) => unreadable(I::KIND, object.borrow(), error),
        }
    }
    all
}

/// Of an intent that no pass has looked at yet nothing is recorded: it looks first for a record of the one before.
fn add_records<I: Intent>(files: &mut BTreeMap<String, Vec<u8>>, all: &[I]) -> Result<(), Error> {
    for one in all.iter().filter(|one| one.status().is_some()) {
        files.insert(path(one), yaml(&record::document(one))?.into_bytes());
    }
    Ok(())
}

/// Looks for the character that a style begins with, in JSON, which is thrown away.
#[derive(Default)]
struct Styles {
    found: bool,
}

impl io::Write for Styles {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // It comes escaped, in one piece.
        self.found |= bytes == b"\\u001b";
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the same with [`escape::without_styles`] applied to its texts. A name that would be none then has no style to begin
/// with.
pub(super) fn plain<T: Clone + Serialize + DeserializeOwned>(one: &T) -> T {
    // Hardly anything has one.
    let mut styles = Styles::default();
    if serde_json::to_writer(&mut styles, one).is_ok() && !styles.found {
        return one.clone();
    }
    let value = serde_json::to_value(one).map(escape::without_styles);
    value
        .and_then(serde_json::from_value)
        .unwrap_or_else(|_| one.clone())
}

fn plain_many(one: &Many) -> Many {
    Many {
        kind: one.kind,
        name: one.name.clone(),
        waits_for_leave: one.waits_for_leave,
        document: escape::without_styles(one.document.clone()),
        status: plain(&one.status),
    }
}
