//! Which members of a sync's set go, in which order, and when that is too much to be meant.
//!
//! A stray is a live member that Git has no word of. What is known of each is handed in; nothing here asks anybody.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::applyset::Approved;
use super::order::{self, Place, Rank};
use super::{Change, ChangeSet};
use crate::config::PruneLimit;
use cutover_karmada::meta::{DELETION_PROTECTED, PROTECTED_ALWAYS};
use cutover_karmada::name::{Gvk, ObjectKey};

/// On an object, with the value `true`: it is never pruned.
pub const KEEP_ANNOTATION: &str = "cutover.dev/keep";

/// A live object that a sync applied earlier and that Git doesn't have any more.
#[derive(Clone, Debug)]
pub struct Stray<'a> {
    pub key: ObjectKey,
    pub live: &'a Value,
    /// The intent that holds it.
    pub held_by: Option<String>,
    /// What would go along with it that isn't ours to delete.
    pub occupied: Option<String>,
}

/// What is to become of the strays of a sync.
#[derive(Clone, Debug, Default)]
pub struct Pruning {
    /// What is to be deleted: what goes first is first.
    pub doomed: Vec<Doomed>,
    /// What is being deleted already, and what it waits for.
    pub leaving: BTreeMap<ObjectKey, String>,
    /// What stays, and why.
    pub kept: BTreeMap<ObjectKey, String>,
    /// What an intent holds.
    pub held_back: BTreeMap<ObjectKey, String>,
    /// What can't be deleted as things are, and why.
    pub blocked: BTreeMap<ObjectKey, String>,
    /// Why nothing is deleted at all.
    pub stop: Option<Stop>,
    /// Why only intents are deleted for now.
    pub pause: Option<String>,
    changes: Vec<Change>,
    places: Places,
}

/// An object that is to be deleted, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doomed {
    pub key: ObjectKey,
    pub gvk: Gvk,
    pub uid: String,
    pub resource_version: String,
    place: Place,
}

/// Why nothing is deleted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// It isn't known whether Git wants them.
    #[error("nothing is deleted: {0}")]
    Doubt(String),
    #[error("{deletions} of {all} objects would be deleted at once, which has to be approved")]
    TooMany {
        deletions: usize,
        all: usize,
        hash: String,
    },
    #[error("Git has no object of this sync any more: the deletion of all {deletions} has to be approved")]
    Everything { deletions: usize, hash: String },
}

impl Stop {
    /// Returns what to write into `cutover.yaml` for it to go on.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Doubt(_) => None,
            Self::TooMany { hash, .. } | Self::Everything { hash, .. } => Some(format!(
                "if that is meant, say so in cutover.yaml: pruneLimit: {{approve: {hash}}}; \
                 `cutover plan` lists the objects"
            )),
        }
    }
}

/// The highest place that is still taken: of all, of objects of cluster scope, and by namespace.
#[derive(Clone, Debug, Default)]
struct Places {
    all: Option<Place>,
    cluster: Option<Place>,
    namespaces: BTreeMap<String, Place>,
}

impl Places {
    fn take(&mut self, namespace: Option<&str>, place: Place) {
        self.all = self.all.max(Some(place));
        match namespace {
            None => self.cluster = self.cluster.max(Some(place)),
            Some(namespace) => {
                let highest = self.namespaces.entry(namespace.to_owned()).or_insert(place);
                *highest = place.max(*highest);
            }
        }
    }

    /// Returns whether nothing has to go before.
    fn is_next(&self, namespace: Option<&str>, place: Place) -> bool {
        match namespace {
            None => self.all <= Some(place),
            Some(namespace) => {
                self.cluster.is_none_or(|highest| highest <= place)
                    && self
                        .namespaces
                        .get(namespace)
                        .is_none_or(|highest| *highest <= place)
            }
        }
    }
}

/// Decides about the strays of a sync that wants `desired` objects. `doubt` says why it isn't known what Git wants.
pub fn prune(
    strays: &[Stray<'_>],
    desired: usize,
    limit: &PruneLimit,
    approved: &Approved,
    doubt: Option<String>,
) -> Pruning {
    let mut pruning = Pruning::default();
    let mut deletions = Vec::new();
    for stray in strays {
        pruning.sort_in(stray, &mut deletions);
    }
    let deletions = ChangeSet::new(None, deletions).changes;
    let mut doomed: BTreeMap<ObjectKey, Doomed> = std::mem::take(&mut pruning.doomed)
        .into_iter()
        .map(|doomed| (doomed.key.clone(), doomed))
        .collect();
    pruning.doomed = deletions
        .iter()
        .filter_map(|change| doomed.remove(&change.key))
        .collect();
    pruning.stop = doubt
        .map(Stop::Doubt)
        .or_else(|| too_many(&pruning.doomed, desired, limit, approved));
    pruning.changes.extend(match &pruning.stop {
        None => deletions,
        Some(stop) => {
            let why = stop.to_string();
            deletions.into_iter().map(|change| change.blocked(&why)).collect()
        }
    });
    pruning
}

impl Pruning {
    /// Returns the strays as changes, for a plan. What stays and what is going already is no change.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Returns what may be deleted now: in each namespace, what comes last when objects are applied. What comes before
    /// waits until these are gone.
    pub fn next(&self) -> impl Iterator<Item = &Doomed> {
        let allowed = |doomed: &&Doomed| {
            // To abort an intent may be what heals.
            self.stop.is_none() && (self.pause.is_none() || doomed.place.rank == Rank::Intent)
        };
        let is_next = |doomed: &&Doomed| self.places.is_next(doomed.key.namespace.as_deref(), doomed.place);
        self.doomed.iter().filter(allowed).filter(is_next)
    }

    /// Returns the deletion as it is to be remembered when it was approved: its hash, and a digest of each object.
    pub fn approval(&self) -> Approved {
        approval(&self.doomed)
    }

    fn sort_in(&mut self, stray: &Stray<'_>, deletions: &mut Vec<Change>) {
        let text = |field: &str| {
            let metadata = stray.live.get("metadata");
            metadata
                .and_then(|metadata| metadata.get(field)?.as_str())
                .unwrap_or_default()
                .to_owned()
        };
        let live_text = |field: &str| stray.live.get(field).and_then(Value::as_str).unwrap_or_default();
        let gvk = Gvk::new(live_text("apiVersion"), live_text("kind"));
        let place = Place {
            rank: Rank::of(&gvk),
            wave: order::wave(stray.live),
        };
        let namespace = stray.key.namespace.as_deref();
        let key = stray.key.clone();
        let change = |key: ObjectKey| Change::delete(key, gvk.clone(), stray.live);
        if !text("deletionTimestamp").is_empty() {
            self.places.take(namespace, place);
            self.leaving.insert(key, waits_for(stray.live));
        } else if let Some(why) = protection(stray.live) {
            self.kept.insert(key, why);
        } else if let Some(by) = &stray.held_by {
            self.changes.push(change(key.clone()).held_back(by.as_str()));
            self.held_back.insert(key, by.clone());
        } else if let Some(why) = &stray.occupied {
            self.changes.push(change(key.clone()).blocked(why.as_str()));
            self.blocked.insert(key, why.clone());
        } else {
            self.places.take(namespace, place);
            deletions.push(change(key.clone()));
            self.doomed.push(Doomed {
                key,
                gvk,
                uid: text("uid"),
                resource_version: text("resourceVersion"),
                place,
            });
        }
    }
}

/// Says why an object is never to be deleted by itself, if it isn't.
pub fn protection(live: &Value) -> Option<String> {
    let metadata = |field: &str, name: &str| live.get("metadata")?.get(field)?.get(name)?.as_str();
    if metadata("annotations", KEEP_ANNOTATION) == Some("true") {
        Some(format!("annotation {KEEP_ANNOTATION}: true"))
    } else if metadata("labels", DELETION_PROTECTED) == Some(PROTECTED_ALWAYS) {
        Some(format!("label {DELETION_PROTECTED}: {PROTECTED_ALWAYS}"))
    } else {
        None
    }
}

fn waits_for(live: &Value) -> String {
    let finalizers = live.pointer("/metadata/finalizers").and_then(Value::as_array);
    let names: Vec<&str> = finalizers
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match names.as_slice() {
        [] => "it is being deleted".to_owned(),
        names => format!("waits for {}", names.join(", ")),
    }
}

fn too_many(doomed: &[Doomed], desired: usize, limit: &PruneLimit, approved: &Approved) -> Option<Stop> {
    let deletions = doomed.len();
    let all = desired + deletions;
    let believed = deletions <= limit.objects || deletions * 100 <= all * usize::from(limit.percent);
    if deletions == 0 || desired > 0 && believed || is_approved(doomed, limit, approved) {
        return None;
    }
    let hash = approval(doomed).hash;
    Some(if desired == 0 {
        Stop::Everything { deletions, hash }
    } else {
        Stop::TooMany { deletions, all, hash }
    })
}

/// What is left of a deletion that was approved is approved, too.
fn is_approved(doomed: &[Doomed], limit: &PruneLimit, approved: &Approved) -> bool {
    let Some(hash) = &limit.approve else {
        return false;
    };
    let asked = approval(doomed);
    asked.hash == *hash || approved.hash == *hash && asked.objects.is_subset(&approved.objects)
}

fn approval(doomed: &[Doomed]) -> Approved {
    let objects: BTreeSet<String> = doomed
        .iter()
        .map(|doomed| {
            let key = &doomed.key;
            let namespace = key.namespace.as_deref().unwrap_or_default();
            short(&format!(
                "{}/{}/{namespace}/{} {}",
                key.group, key.kind, key.name, doomed.uid
            ))
        })
        .collect();
    let all = objects
        .iter()
        .fold(String::new(), |text, object| text + object + "\n");
    Approved {
        // In YAML, hexadecimal digits alone may be a number.
        hash: format!("prune-{}", short(&all)),
        objects,
    }
}

/// Returns the beginning of a digest: enough to recognise, and short enough to keep by the ten thousand.
fn short(text: &str) -> String {
    let digest = Sha256::digest(text);
    digest.iter().take(6).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: &str, namespace: Option<&str>, name: &str) -> Value {
        let api_version = match kind {
            "Migration" => "cutover.dev/v1alpha1",
            "PropagationPolicy" => "policy.karmada.io/v1alpha1",
            _ => "v1",
        };
        json!({"apiVersion": api_version, "kind": kind, "metadata": {
            "name": name, "namespace": namespace, "uid": format!("{kind}-{name}"), "resourceVersion": "1",
        }})
    }

    fn configs(count: usize) -> Vec<Value> {
        (0..count)
            .map(|number| object("ConfigMap", Some("shop"), &format!("c{number:02}")))
            .collect()
    }

    fn strays(objects: &[Value]) -> Vec<Stray<'_>> {
        objects
            .iter()
            .map(|live| {
                let gvk = Gvk::new(
                    live["apiVersion"].as_str().unwrap(),
                    live["kind"].as_str().unwrap(),
                );
                Stray {
                    key: ObjectKey {
                        group: gvk.group,
                        kind: gvk.kind,
                        namespace: live["metadata"]["namespace"].as_str().map(str::to_owned),
                        name: live["metadata"]["name"].as_str().unwrap().to_owned(),
                    },
                    live,
                    held_by: None,
                    occupied: None,
                }
            })
            .collect()
    }

    fn decide(objects: &[Value], desired: usize, limit: &PruneLimit) -> Pruning {
        prune(&strays(objects), desired, limit, &Approved::default(), None)
    }

    fn names<'a>(doomed: impl Iterator<Item = &'a Doomed>) -> Vec<&'a str> {
        doomed.map(|doomed| doomed.key.name.as_str()).collect()
    }

    #[test]
    fn what_others_need_goes_last_and_waits_until_the_rest_is_gone() {
        let all = [
            object("Namespace", None, "shop"),
            object("PropagationPolicy", Some("shop"), "policy"),
            object("Service", Some("shop"), "orders"),
            object("Migration", Some("shop"), "move"),
            object("Service", Some("other"), "elsewhere"),
        ];
        let pruning = decide(&all, 100, &PruneLimit::default());
        assert_eq!(
            names(pruning.doomed.iter()),
            ["move", "orders", "elsewhere", "policy", "shop"]
        );
        assert_eq!(names(pruning.next()), ["move", "elsewhere"]);
        let mut leaving = all;
        leaving[3]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        leaving[3]["metadata"]["finalizers"] = json!(["cutover.dev/settle"]);
        let pruning = decide(&leaving, 100, &PruneLimit::default());
        assert_eq!(names(pruning.next()), ["elsewhere"]);
        assert_eq!(
            pruning.leaving.into_values().collect::<Vec<_>>(),
            ["waits for cutover.dev/settle"]
        );
    }

    #[test]
    fn while_something_waits_only_intents_go() {
        let all = [
            object("Migration", Some("shop"), "move"),
            object("Service", Some("other"), "elsewhere"),
        ];
        let mut pruning = decide(&all, 100, &PruneLimit::default());
        assert_eq!(names(pruning.next()), ["move", "elsewhere"]);
        pruning.pause = Some("web waits".to_owned());
        assert_eq!(names(pruning.next()), ["move"]);
    }

    #[test]
    fn what_is_protected_stays_and_is_no_change() {
        let mut all = configs(3);
        all[0]["metadata"]["annotations"] = json!({KEEP_ANNOTATION: "true"});
        all[1]["metadata"]["labels"] = json!({DELETION_PROTECTED: PROTECTED_ALWAYS});
        let pruning = decide(&all, 100, &PruneLimit::default());
        assert_eq!(names(pruning.doomed.iter()), ["c02"]);
        assert_eq!(pruning.changes().len(), 1);
        assert_eq!(
            pruning.kept.into_values().collect::<Vec<_>>(),
            [
                "annotation cutover.dev/keep: true",
                "label resourcetemplate.karmada.io/deletion-protected: Always"
            ]
        );
    }

    #[test]
    fn what_an_intent_holds_and_what_is_not_empty_stays() {
        let all = configs(2);
        let mut strays = strays(&all);
        strays[0].held_by = Some("Migration shop/move".into());
        strays[1].occupied = Some("Secret shop/theirs is in it".into());
        let pruning = prune(&strays, 1, &PruneLimit::default(), &Approved::default(), None);
        assert_eq!(names(pruning.next()), [""; 0]);
        assert_eq!(pruning.held_back.len(), 1);
        assert_eq!(pruning.blocked.len(), 1);
        assert_eq!(pruning.changes().len(), 2);
    }

    #[test]
    fn in_doubt_nothing_goes() {
        let all = configs(1);
        let doubt = Some("a.yaml cannot be read".to_owned());
        let pruning = prune(
            &strays(&all),
            9,
            &PruneLimit::default(),
            &Approved::default(),
            doubt,
        );
        assert_eq!(names(pruning.next()), [""; 0]);
        assert_eq!(
            pruning.stop.unwrap().to_string(),
            "nothing is deleted: a.yaml cannot be read"
        );
    }

    #[test]
    fn many_at_once_wait_for_somebody_to_approve_exactly_them() {
        let limit = PruneLimit {
            objects: 5,
            percent: 30,
            approve: None,
        };
        for (deletions, desired, stops) in [
            (0, 0, false),
            (5, 1, false),
            (6, 14, false),
            (6, 13, true),
            (1, 0, true),
        ] {
            let pruning = decide(&configs(deletions), desired, &limit);
            assert_eq!(pruning.stop.is_some(), stops, "{deletions} of {desired} more");
        }
        let all = configs(6);
        let asked = decide(&all, 1, &limit);
        let approved = asked.approval();
        let limit = PruneLimit {
            approve: Some(approved.hash.clone()),
            ..limit
        };
        assert_eq!(decide(&all, 1, &limit).next().count(), 6);
        // One more, or another object under the same name, is not what was approved.
        assert_eq!(decide(&configs(7), 1, &limit).next().count(), 0);
        let mut other = all.clone();
        other[0]["metadata"]["uid"] = "another".into();
        assert_eq!(decide(&other, 1, &limit).next().count(), 0);
        // What a crash left of it is.
        let rest = prune(&strays(&configs(7)[1..7]), 1, &limit, &approved, None);
        assert!(rest.stop.is_some());
        let limit = PruneLimit { objects: 0, ..limit };
        let rest = prune(&strays(&all[1..]), 0, &limit, &approved, None);
        assert_eq!(rest.next().count(), 5);
    }
}
