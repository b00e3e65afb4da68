//! Carries out what was decided: server-side apply of many objects at once, and says of every object what became of it.
//!
//! An object that fails never stops the others, and nothing is waited for here: what isn't served yet, or has to go
//! before it can be created anew, is said to be so. In which order things are applied is decided elsewhere.

mod outcome;
mod recreate;
mod refusal;

pub use outcome::{Conflict, Failure, Outcome};

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use serde_json::{Value, json};

use super::compute::off_the_runtime;
use super::connect::Cluster;
use super::discover::Lookup;
use super::object::{Served, meta};
use super::{Applied, Exactly, Mode, Observer, TaskProgress, Written};
use cutover_core::api::SYNC_MANAGER;
use cutover_core::manifest::{Entry, Manifest};
use cutover_core::plan::ApplyOptions;
use cutover_core::plan::drift::ApplyContext;
use cutover_core::redact::Secrets;
use cutover_karmada::name::{Gvk, ObjectKey};
use refusal::failure;

/// One object to apply.
#[derive(Clone, Debug)]
pub struct Write {
    /// With the namespace that it goes to. Unpacked when its turn comes.
    pub entry: Arc<Entry>,
    /// What is added to what Git says, and left out.
    pub context: Arc<ApplyContext>,
    /// The `resourceVersion` that was live when this was decided; `None`: there was no such object.
    pub live: Option<String>,
    /// For what the object doesn't say itself.
    pub options: ApplyOptions,
    /// This very content was created anew already: if it is refused again, once more wouldn't help.
    pub recreated: bool,
    /// Why the live object must not be deleted, not even to be created anew.
    pub spared: Option<String>,
    /// What the write was judged on: it is not sent to another version. What isn't there yet has none: server-side apply has no precondition
    /// by which an object that has come since would be spared.
    pub judged: Option<Exactly>,
}

/// What became of objects that were applied together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    pub outcomes: BTreeMap<ObjectKey, Outcome>,
    /// The `resourceVersion` of each object that was accepted, as the server answered it. Others may have changed the
    /// object since, and the observer may know of that already.
    pub versions: BTreeMap<ObjectKey, String>,
}

/// Applies objects together, as many at a time as the limits allow. Takes the answers into the observer.
pub async fn apply(
    cluster: &Cluster,
    observer: Option<&Observer>,
    writes: Vec<Write>,
    progress: &TaskProgress,
) -> Answers {
    let writes = writes.iter().map(|write| one(cluster, observer, write));
    let mut answered =
        futures::stream::iter(writes.collect::<Vec<_>>()).buffer_unordered(cluster.limits().in_flight);
    let mut answers = Answers::default();
    while let Some((key, outcome, version)) = answered.next().await {
        progress.advance();
        if let Some(version) = version {
            answers.versions.insert(key.clone(), version);
        }
        answers.outcomes.insert(key, outcome);
    }
    answers
}

/// Tries on the server what applying would give; nothing is written.
pub async fn rehearse(
    cluster: &Cluster,
    manifest: &Manifest,
    options: ApplyOptions,
) -> Result<Value, Outcome> {
    match cluster.lookup(&manifest.gvk).await {
        Ok(Lookup::Served(served)) => send(cluster, &served, manifest, options, Mode::Rehearse).await,
        Ok(Lookup::NotServed) => Err(Outcome::NotServed),
        Err(error) => Err(failure(manifest, &error)),
    }
}

/// Creates a namespace that isn't there; one that is there meanwhile is just as well.
pub async fn create_namespace(cluster: &Cluster, observer: &Observer, name: &str) -> super::Result<()> {
    let namespaces = Served {
        gvk: Gvk::new("v1", "Namespace"),
        plural: "namespaces".to_owned(),
        namespaced: false,
        watchable: true,
    };
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let writer = cluster.writer(SYNC_MANAGER);
    if let Written::Done(object) | Written::Exists(object) =
        writer.create(&namespaces, &object, Mode::Write).await?
    {
        let key = ObjectKey {
            group: String::new(),
            kind: "Namespace".to_owned(),
            namespace: None,
            name: name.to_owned(),
        };
        observer.note(&key, &object);
    }
    Ok(())
}

async fn one(
    cluster: &Cluster,
    observer: Option<&Observer>,
    write: &Write,
) -> (ObjectKey, Outcome, Option<String>) {
    let written = write.entry.manifest();
    let there = observer.and_then(|observer| observer.get(&written.key));
    let manifest = &*write.context.on(&written, there.as_deref(), SYNC_MANAGER);
    let (outcome, version) = match cluster.lookup(&manifest.gvk).await {
        Ok(Lookup::Served(served)) => write_one(cluster, observer, &served, write, manifest).await,
        Ok(Lookup::NotServed) => (Outcome::NotServed, None),
        Err(error) => (failure(manifest, &error), None),
    };
    let outcome = discreet(observer, &manifest.key, outcome);
    (manifest.key.clone(), outcome, version)
}

/// A webhook may quote what is there as well as what was sent: neither's secrets are repeated.
fn discreet(observer: Option<&Observer>, key: &ObjectKey, outcome: Outcome) -> Outcome {
    match (outcome, observer.and_then(|observer| observer.get(key))) {
        (Outcome::Failed(failure), Some(live)) => Outcome::Failed(Failure {
            message: off_the_runtime(|| Secrets::of([&*live]).scrub(&failure.message)),
            ..failure
        }),
        (outcome, _) => outcome,
    }
}

/// Returns the version too at which the object was accepted.
async fn write_one(
    cluster: &Cluster,
    observer: Option<&Observer>,
    served: &Served,
    write: &Write,
    manifest: &Manifest,
) -> (Outcome, Option<String>) {
    let options = write.options.of(&manifest.value);
    let sent = of_version(manifest, write.judged.as_ref());
    match send(cluster, served, &sent, options, Mode::Write).await {
        Ok(object) => {
            if let Some(observer) = observer {
                observer.note(&manifest.key, &object);
            }
            let version = meta(&object, "resourceVersion");
            let outcome = match write.live.as_deref() {
                None => Outcome::Created,
                before if before == version => Outcome::Unchanged,
                Some(_) => Outcome::Configured,
            };
            (outcome, version.map(str::to_owned))
        }
        Err(Outcome::Failed(refused)) if !refused.fixed.is_empty() && options.recreate => {
            let outcome = match &write.spared {
                Some(why) => recreate::spared(why, refused),
                None => recreate::instead(cluster, served, manifest, write.recreated, refused).await,
            };
            (outcome, None)
        }
        Err(outcome) => (outcome, None),
    }
}

/// Returns a manifest that is applied to this version of the object alone.
fn of_version<'m>(manifest: &'m Manifest, judged: Option<&Exactly>) -> Cow<'m, Manifest> {
    let Some(judged) = judged else {
        return Cow::Borrowed(manifest);
    };
    let mut manifest = manifest.clone();
    if let Some(metadata) = manifest.value.get_mut("metadata").and_then(Value::as_object_mut) {
        let fields = [
            ("uid", &judged.uid),
            ("resourceVersion", &judged.resource_version),
        ];
        for (field, value) in fields {
            metadata.extend(
                value
                    .as_deref()
                    .map(|value| (field.to_owned(), Value::from(value))),
            );
        }
    }
    Cow::Owned(manifest)
}

/// Applies one object. What somebody changed by hand is drift and taken back; the fields of controllers are theirs,
/// unless they are to be taken over.
async fn send(
    cluster: &Cluster,
    served: &Served,
    manifest: &Manifest,
    options: ApplyOptions,
    mode: Mode,
) -> Result<Value, Outcome> {
    if served.namespaced && manifest.key.namespace.is_none() {
        return Err(Outcome::overtaken(manifest, "it has no metadata.namespace"));
    }
    let writer = cluster.writer(SYNC_MANAGER);
    let mut applied = writer.apply(served, &manifest.value, mode).await;
    if let Ok(Applied::Conflicts(fields)) = &applied
        && (options.force || fields.iter().all(|own| is_a_person(&own.manager)))
    {
        applied = writer.take_over(served, &manifest.value, mode).await;
    }
    match applied {
        Ok(Applied::Done(object)) => Ok(object),
        Ok(Applied::Conflicts(fields)) => Err(refusal::conflict(manifest, fields)),
        Ok(Applied::Precondition(why)) => Err(Outcome::overtaken(manifest, why)),
        // Discovery lists a new kind a moment before its paths are served.
        Err(error) if error.code() == 404 && refusal::names_nothing(&error) => {
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
