//! Carries out what was decided: server-side apply, wave after wave, and says of every object what became of it.
//!
//! An object that fails never stops the others. A kind whose CRD is in the same set is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;
use tokio::time::Instant;

use super::connect::Cluster;
use super::discover::{Lookup, Served};
use super::object::meta;
use super::{Applied, Error, FieldConflict, Mode, Observer};
use crate::api::SYNC_MANAGER;
use crate::error::Kind;
use crate::manifest::{Entry, Manifest};
use crate::name::{Gvk, Location, ObjectKey};

/// One object to apply.
#[derive(Clone, Debug)]
pub struct Write {
    /// With the namespace that it goes to. Unpacked when its turn comes.
    pub entry: Arc<Entry>,
    /// The `resourceVersion` that was live when this was decided; `None`: there was no such object.
    pub live: Option<String>,
}

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Created,
    Configured,
    /// The server made no difference of it.
    Unchanged,
    /// Others own fields that Git wants to have another value; nothing was written.
    Conflict(Vec<FieldConflict>),
    /// Nobody serves the kind yet.
    NotServed,
    Failed(Failure),
}

/// Why an object could not be applied, and where that stands in Git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub message: String,
    pub hint: Option<String>,
    /// Where the object begins, until somebody looks up where `field` is written.
    pub at: Location,
    /// JSON pointer to the field that the server names.
    pub field: Option<String>,
    /// Whether trying the same again may help.
    pub passing: bool,
}

impl Outcome {
    /// Returns whether Git and the API server agree on the object now.
    pub const fn is_in_sync(&self) -> bool {
        matches!(self, Self::Created | Self::Configured | Self::Unchanged)
    }

    /// Returns whether the same may go better later, without a new commit.
    pub const fn is_worth_repeating(&self) -> bool {
        match self {
            Self::Created | Self::Configured | Self::Unchanged => false,
            Self::Conflict(_) | Self::NotServed => true,
            Self::Failed(failure) => failure.passing,
        }
    }
}

/// How long a kind is waited for after its CRD was applied.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Applies the objects of each wave together, and each wave after the one before. Takes the answers into the observer.
pub async fn apply(
    cluster: &Cluster,
    observer: Option<&Observer>,
    waves: Vec<Vec<Write>>,
) -> BTreeMap<ObjectKey, Outcome> {
    let mut applying = Applying {
        cluster,
        observer,
        defined: BTreeSet::new(),
    };
    let mut outcomes = BTreeMap::new();
    for wave in waves {
        let writes: Vec<_> = wave.iter().map(|write| applying.one(write)).collect();
        let results: Vec<_> = futures::stream::iter(writes)
            .buffer_unordered(cluster.limits().in_flight)
            .collect()
            .await;
        let defined: Vec<_> = wave
            .iter()
            .filter_map(|write| defined_kind(&write.entry))
            .collect();
        if !defined.is_empty()
            && let Some(observer) = observer
        {
            observer.look_again();
        }
        applying.defined.extend(defined);
        outcomes.extend(results);
    }
    outcomes
}

/// Tries on the server what applying would give; nothing is written.
pub async fn rehearse(cluster: &Cluster, manifest: &Manifest) -> Result<Value, Outcome> {
    match cluster.lookup(&manifest.gvk).await {
        Ok(Lookup::Served(served)) => send(cluster, &served, manifest, Mode::Rehearse).await,
        Ok(Lookup::NotServed) => Err(Outcome::NotServed),
        Err(error) => Err(failure(manifest, &error)),
    }
}

/// Applies one object. What somebody changed by hand is drift and taken back; the fields of controllers are theirs.
async fn send(cluster: &Cluster, served: &Served, manifest: &Manifest, mode: Mode) -> Result<Value, Outcome> {
    if served.namespaced && manifest.key.namespace.is_none() {
        return Err(overtaken(manifest, "it has no metadata.namespace".to_owned()));
    }
    let writer = cluster.writer(SYNC_MANAGER);
    let mut applied = writer.apply(served, &manifest.value, mode).await;
    if let Ok(Applied::Conflicts(fields)) = &applied
        && fields.iter().all(|own| is_a_person(&own.manager))
    {
        applied = writer.take_over(served, &manifest.value, mode).await;
    }
    match applied {
        Ok(Applied::Done(object)) => Ok(object),
        Ok(Applied::Conflicts(fields)) => Err(Outcome::Conflict(fields)),
        Ok(Applied::Precondition(why)) => Err(overtaken(manifest, why)),
        // Discovery lists a new kind a moment before its paths are served.
        Err(error) if error.code() == 404 && names_nothing(&error) => {
            cluster.discovery().forget(&manifest.gvk);
            Err(Outcome::NotServed)
        }
        Err(error) => Err(failure(manifest, &error)),
    }
}

/// Returns whether a field manager is a tool in somebody's hands. `before-first-apply` is what was there without any.
fn is_a_person(manager: &str) -> bool {
    manager.starts_with("kubectl") || matches!(manager, "k9s" | "before-first-apply")
}

struct Applying<'a> {
    cluster: &'a Cluster,
    observer: Option<&'a Observer>,
    /// Group and kind of the CRDs that earlier waves applied.
    defined: BTreeSet<(String, String)>,
}

impl Applying<'_> {
    async fn one(&self, write: &Write) -> (ObjectKey, Outcome) {
        let manifest = &write.entry.manifest();
        let deadline = Instant::now() + ESTABLISHED_WITHIN;
        let outcome = loop {
            let outcome = match self.cluster.lookup(&manifest.gvk).await {
                Ok(Lookup::Served(served)) => self.send(&served, manifest, write.live.as_deref()).await,
                Ok(Lookup::NotServed) => Outcome::NotServed,
                Err(error) => failure(manifest, &error),
            };
            if outcome != Outcome::NotServed || !self.is_coming(&manifest.gvk) || Instant::now() > deadline {
                break outcome;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        };
        (manifest.key.clone(), outcome)
    }

    fn is_coming(&self, gvk: &Gvk) -> bool {
        self.defined.contains(&(gvk.group.clone(), gvk.kind.clone()))
    }

    async fn send(&self, served: &Served, manifest: &Manifest, live: Option<&str>) -> Outcome {
        match send(self.cluster, served, manifest, Mode::Write).await {
            Ok(object) => {
                if let Some(observer) = self.observer {
                    observer.note(&manifest.key, &object);
                }
                match live {
                    None => Outcome::Created,
                    Some(version) if meta(&object, "resourceVersion") == Some(version) => Outcome::Unchanged,
                    Some(_) => Outcome::Configured,
                }
            }
            Err(outcome) => outcome,
        }
    }
}

/// Returns the group and kind that a CRD defines.
fn defined_kind(entry: &Entry) -> Option<(String, String)> {
    if entry.gvk.kind != "CustomResourceDefinition" {
        return None;
    }
    let spec = entry.written().get("spec")?;
    let kind = spec.get("names")?.get("kind")?.as_str()?;
    Some((spec.get("group")?.as_str()?.to_owned(), kind.to_owned()))
}

fn names_nothing(error: &Error) -> bool {
    let details = error.status().and_then(|status| status.details.as_ref());
    details.is_none_or(|details| details.name.is_empty() && details.kind.is_empty())
}

fn overtaken(manifest: &Manifest, why: String) -> Outcome {
    Outcome::Failed(Failure {
        message: why,
        hint: None,
        at: manifest.source.clone(),
        field: None,
        passing: true,
    })
}

fn failure(manifest: &Manifest, error: &Error) -> Outcome {
    Outcome::Failed(Failure {
        message: told(manifest, error),
        hint: error.hint().map(str::to_owned),
        at: manifest.source.clone(),
        field: named_field(error).map(|field| pointer_of(&field)),
        passing: matches!(error.kind(), Kind::Unreachable | Kind::Auth | Kind::Conflict)
            // A namespace or a webhook that isn't there yet.
            || error.code() == 404,
    })
}

/// Returns what the server says; of a Secret only where, as it likes to quote values.
fn told(manifest: &Manifest, error: &Error) -> String {
    match error.status() {
        None => error.to_string(),
        Some(status) if manifest.gvk.group.is_empty() && manifest.gvk.kind == "Secret" => {
            let field = named_field(error)
                .map(|field| format!(" at {field}"))
                .unwrap_or_default();
            format!(
                "the API server refuses it{field} (HTTP {}, {})",
                status.code, status.reason
            )
        }
        Some(status) => super::error::describe(status),
    }
}

/// Returns the first field that a refusal names: in its causes, or in the words of a server that doesn't know the field
/// (`unknown field "spec.x"`) or can't take its value (`…, Kind=X): .spec.x: expected string`).
fn named_field(error: &Error) -> Option<String> {
    let status = error.status()?;
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let named = causes
        .map(|cause| cause.field.as_str())
        .find(|field| !field.is_empty());
    let unknown = || status.message.split_once("unknown field \"")?.1.split('"').next();
    let untyped = || status.message.split_once("): .")?.1.split(": ").next();
    named.or_else(unknown).or_else(untyped).map(str::to_owned)
}

/// Returns a field path of the API server as a JSON pointer: `spec.items[0].x` is `/spec/items/0/x`.
fn pointer_of(field: &str) -> String {
    let mut pointer = String::new();
    let mut rest = field;
    while !rest.is_empty() {
        let (part, after) = match rest.strip_prefix('[') {
            Some(inside) => inside.split_once(']').unwrap_or((inside, "")),
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        if !part.is_empty() {
            pointer.push('/');
            pointer.push_str(&part.replace('~', "~0").replace('/', "~1"));
        }
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_api_server_are_pointers() {
        for (field, pointer) in [
            ("spec.placement.clusterAfinity", "/spec/placement/clusterAfinity"),
            ("spec.containers[0].image", "/spec/containers/0/image"),
            ("metadata.labels[a.b/c]", "/metadata/labels/a.b~1c"),
            ("", ""),
        ] {
            assert_eq!(pointer_of(field), pointer);
        }
    }
}
