//! What kube-controller-manager does with what the verbs leave behind: garbage collection by owner, the content of
//! namespaces that are deleted, the objects of CRDs that are deleted.
//!
//! The verbs note chores; a task carries them out, some time later as in life.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::delete::{CRD_CLEANUP, FOREGROUND, ORPHAN};
use super::registry::{CRDS, NAMESPACES};
use super::status::Status;
use super::{
    ApiServer, DeleteOptions, ListOptions, Patch, Propagation, Resource, Subresource, WriteOptions, crd,
    metadata,
};
use crate::store::Key;

const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";
const NAMESPACE_CONTROLLER: &str = "system:serviceaccount:kube-system:namespace-controller";
/// How long a chore that was refused rests, first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_mins(1));

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    resource: Resource,
    key: Key,
}

/// Something to do after a write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Chore {
    /// An owner may be gone: look after an object that it owned.
    Check(Place),
    /// An object waits for its dependents before it goes.
    Finish(Place),
    /// A namespace is being deleted.
    Empty(String),
    /// A CRD is being deleted.
    Withdraw(String),
}

/// Who owns whom, and what is to be done about it.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners {
    alive: BTreeMap<String, Place>,
    dependents: BTreeMap<String, BTreeSet<Place>>,
    /// Namespaces and CRDs that are being deleted.
    ending: BTreeSet<Chore>,
    chores: VecDeque<Chore>,
}

impl Owners {
    pub(super) fn wrote(&mut self, resource: &Resource, key: &Key, old: Option<&Value>, new: &Value) {
        let place = Place {
            resource: resource.clone(),
            key: key.clone(),
        };
        if old.is_none() {
            self.alive.insert(metadata::uid(new).to_owned(), place.clone());
        }
        let references = &new["metadata"]["ownerReferences"];
        if old.map_or(&Value::Null, |old| &old["metadata"]["ownerReferences"]) != references {
            self.index(&place, old, new);
            self.note(Chore::Check(place.clone()));
        }
        if !metadata::is_terminating(new) {
            return;
        }
        if metadata::finalizers(new).any(|finalizer| finalizer == FOREGROUND || finalizer == ORPHAN) {
            self.note(Chore::Finish(place));
        }
        let ending = match () {
            () if *resource == NAMESPACES => Chore::Empty(key.name.clone()),
            () if *resource == CRDS => Chore::Withdraw(key.name.clone()),
            () => return,
        };
        self.ending.insert(ending.clone());
        self.note(ending);
    }

    pub(super) fn removed(&mut self, resource: &Resource, key: &Key, last: &Value) {
        let place = Place {
            resource: resource.clone(),
            key: key.clone(),
        };
        self.alive.remove(metadata::uid(last));
        self.index(&place, Some(last), &Value::Null);
        for owner in owners(last) {
            if let Some(owner) = self.alive.get(owner).cloned() {
                self.note(Chore::Finish(owner));
            }
        }
        for dependent in self
            .dependents
            .get(metadata::uid(last))
            .cloned()
            .unwrap_or_default()
        {
            self.note(Chore::Check(dependent));
        }
        self.ending.remove(&Chore::Empty(key.name.clone()));
        self.ending.remove(&Chore::Withdraw(key.name.clone()));
        let emptied: Vec<Chore> = self
            .ending
            .iter()
            .filter(|ending| match ending {
                Chore::Empty(namespace) => *namespace == key.namespace,
                Chore::Withdraw(crd) => *crd == format!("{}.{}", resource.plural, resource.group),
                _ => false,
            })
            .cloned()
            .collect();
        for ending in emptied {
            self.note(ending);
        }
    }

    pub(super) fn has_chores(&self) -> bool {
        !self.chores.is_empty()
    }

    fn index(&mut self, place: &Place, old: Option<&Value>, new: &Value) {
        for owner in old.into_iter().flat_map(owners) {
            if let Some(dependents) = self.dependents.get_mut(owner) {
                dependents.remove(place);
                if dependents.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
        for owner in owners(new) {
            self.dependents
                .entry(owner.to_owned())
                .or_default()
                .insert(place.clone());
        }
    }

    fn note(&mut self, chore: Chore) {
        if !self.chores.contains(&chore) {
            self.chores.push_back(chore);
        }
    }

    /// Returns whether the owner that a reference names is there, for an object in a namespace.
    fn is_alive(&self, uid: &str, namespace: &str) -> bool {
        self.alive.get(uid).is_some_and(|owner| {
            let owner = &owner.key.namespace;
            owner.is_empty() || owner == namespace
        })
    }
}

fn owners(object: &Value) -> impl Iterator<Item = &str> {
    references(object).filter_map(|reference| reference["uid"].as_str())
}

fn references(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
}

/// Starts the task that carries out the chores of a server, in rounds, each `lag` after its first chore became known.
pub fn spawn(server: ApiServer, lag: Duration) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            server.inner.chores.notified().await;
            tokio::time::sleep(lag).await;
            server.carry_out_chores();
        }
    })
}

impl ApiServer {
    /// Carries out what there is to do now; what follows from it is for the next round.
    fn carry_out_chores(&self) {
        for chore in self.with(|state| std::mem::take(&mut state.owners.chores)) {
            if self.carry_out(&chore).is_err() {
                self.retry_later(chore, RETRY.0);
            }
        }
    }

    /// Tries a chore again that was refused, such as the deletion of a protected object.
    fn retry_later(&self, chore: Chore, rest: Duration) {
        // Without a runtime there is no later; the next write of the object brings the chore back.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let server = std::sync::Arc::downgrade(&self.inner);
        runtime.spawn(async move {
            let mut rest = rest;
            loop {
                tokio::time::sleep(rest).await;
                let Some(inner) = server.upgrade() else { return };
                if (ApiServer { inner }).carry_out(&chore).is_ok() {
                    return;
                }
                rest = (rest * 2).min(RETRY.1);
            }
        });
    }

    fn carry_out(&self, chore: &Chore) -> Result<(), Status> {
        let done = match chore {
            Chore::Check(place) => self.check(place),
            Chore::Finish(place) => self.finish(place),
            Chore::Empty(namespace) => self.empty(namespace),
            Chore::Withdraw(crd) => self.withdraw(crd),
        };
        match done {
            // Somebody else was faster; if there is more to do, that write has noted it.
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
            done => done,
        }
    }

    /// Deletes an object whose owners are all gone; of several owners, removes those that are.
    fn check(&self, place: &Place) -> Result<(), Status> {
        let object = self.get(&place.resource, place.namespace(), &place.key.name)?;
        let (solid, dangling): (Vec<&Value>, Vec<&Value>) = self.with(|state| {
            references(&object).partition(|reference| {
                let uid = reference["uid"].as_str().unwrap_or_default();
                state.owners.is_alive(uid, &place.key.namespace)
            })
        });
        if dangling.is_empty() || (solid.is_empty() && metadata::is_terminating(&object)) {
            return Ok(());
        }
        if !solid.is_empty() {
            return self.set_owners(place, &object, &solid);
        }
        let finalizer = |wanted: &str| metadata::finalizers(&object).any(|finalizer| finalizer == wanted);
        let propagation = match () {
            () if finalizer(ORPHAN) => Propagation::Orphan,
            () if finalizer(FOREGROUND) => Propagation::Foreground,
            () => Propagation::Background,
        };
        self.collect(place, &object, propagation)
    }

    /// Lets an object go that waited for its dependents, or tells the dependents to go.
    fn finish(&self, place: &Place) -> Result<(), Status> {
        let object = self.get(&place.resource, place.namespace(), &place.key.name)?;
        if !metadata::is_terminating(&object) {
            return Ok(());
        }
        let dependents = self.with(|state| state.owners.dependents.get(metadata::uid(&object)).cloned());
        let dependents = dependents.unwrap_or_default();
        if metadata::finalizers(&object).any(|finalizer| finalizer == ORPHAN) {
            for dependent in &dependents {
                let owned = self.get(&dependent.resource, dependent.namespace(), &dependent.key.name)?;
                let others =
                    references(&owned).filter(|reference| reference["uid"] != object["metadata"]["uid"]);
                self.set_owners(dependent, &owned, &others.collect::<Vec<_>>())?;
            }
            return self.release(place, &object, ORPHAN);
        }
        if !metadata::finalizers(&object).any(|finalizer| finalizer == FOREGROUND) {
            return Ok(());
        }
        let mut blocked = false;
        for dependent in &dependents {
            let owned = self.get(&dependent.resource, dependent.namespace(), &dependent.key.name)?;
            blocked |= references(&owned).any(|reference| {
                reference["uid"] == object["metadata"]["uid"] && reference["blockOwnerDeletion"] == true
            });
            let others = references(&owned).filter(|reference| reference["uid"] != object["metadata"]["uid"]);
            let others: Vec<&Value> = others.collect();
            if !others.is_empty() {
                self.set_owners(dependent, &owned, &others)?;
            } else if !metadata::is_terminating(&owned) {
                self.collect(dependent, &owned, Propagation::Foreground)?;
            }
        }
        // The removal of a dependent brings this chore back.
        if blocked {
            Ok(())
        } else {
            self.release(place, &object, FOREGROUND)
        }
    }

    fn collect(&self, place: &Place, object: &Value, propagation: Propagation) -> Result<(), Status> {
        let options = DeleteOptions {
            user: COLLECTOR.to_owned(),
            propagation: Some(propagation),
            uid: Some(metadata::uid(object).to_owned()),
            ..DeleteOptions::default()
        };
        self.delete(&place.resource, place.namespace(), &place.key.name, &options)
            .map(drop)
    }

    fn set_owners(&self, place: &Place, object: &Value, owners: &[&Value]) -> Result<(), Status> {
        let owners = if owners.is_empty() {
            Value::Null
        } else {
            json!(owners)
        };
        self.write_metadata(place, object, json!({"ownerReferences": owners}))
    }

    fn release(&self, place: &Place, object: &Value, finalizer: &str) -> Result<(), Status> {
        let left: Vec<&str> = metadata::finalizers(object)
            .filter(|present| *present != finalizer)
            .collect();
        self.write_metadata(place, object, json!({"finalizers": left}))
    }

    fn write_metadata(&self, place: &Place, object: &Value, mut fields: Value) -> Result<(), Status> {
        fields["uid"] = object["metadata"]["uid"].clone();
        fields["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
        let options = WriteOptions {
            manager: "kube-controller-manager".to_owned(),
            user: COLLECTOR.to_owned(),
            ..WriteOptions::default()
        };
        let patch = Patch::Merge(json!({"metadata": fields}));
        self.patch(
            &place.resource,
            place.namespace(),
            &place.key.name,
            None,
            &patch,
            &options,
        )
        .map(drop)
    }

    /// Deletes what is in a namespace, and the namespace once it is empty.
    fn empty(&self, namespace: &str) -> Result<(), Status> {
        let object = self.get(&NAMESPACES, None, namespace)?;
        if !metadata::is_terminating(&object) {
            return Ok(());
        }
        let resources: Vec<Resource> = self.with(|state| {
            state
                .registry
                .kinds()
                .filter(|kind| kind.namespaced)
                .map(|kind| kind.resource.clone())
                .collect()
        });
        let options = DeleteOptions {
            user: NAMESPACE_CONTROLLER.to_owned(),
            ..DeleteOptions::default()
        };
        let mut left = 0;
        let mut refused = Ok(());
        for resource in resources {
            let list = self.list(&resource, Some(namespace), &ListOptions::default())?;
            for object in list.items {
                if !metadata::is_terminating(&object) {
                    let deleted = self.delete(&resource, Some(namespace), metadata::name(&object), &options);
                    refused = refused.and(deleted.map(drop));
                }
            }
            left += self
                .list(&resource, Some(namespace), &ListOptions::default())?
                .items
                .len();
        }
        if left > 0 {
            return refused;
        }
        let mut body = (*object).clone();
        metadata::entry(&mut body, "spec").shift_remove("finalizers");
        let options = WriteOptions {
            manager: "kube-controller-manager".to_owned(),
            user: NAMESPACE_CONTROLLER.to_owned(),
            ..WriteOptions::default()
        };
        self.update(
            &NAMESPACES,
            None,
            namespace,
            Some(Subresource::Finalize),
            body,
            &options,
        )
        .map(drop)
    }

    /// Deletes the objects that a CRD defines, and the CRD once there are none.
    fn withdraw(&self, name: &str) -> Result<(), Status> {
        let definition = self.get(&CRDS, None, name)?;
        if !metadata::is_terminating(&definition) {
            return Ok(());
        }
        let resource = crd::resource_of(&definition);
        for object in self.list(&resource, None, &ListOptions::default())?.items {
            let place = Place {
                resource: resource.clone(),
                key: metadata::key(&object),
            };
            if !metadata::is_terminating(&object) {
                self.delete(
                    &resource,
                    place.namespace(),
                    &place.key.name,
                    &DeleteOptions::default(),
                )?;
            }
        }
        if !self
            .list(&resource, None, &ListOptions::default())?
            .items
            .is_empty()
        {
            return Ok(());
        }
        let place = Place {
            resource: CRDS,
            key: Key::new(None, name),
        };
        let definition = self.get(&CRDS, None, name)?;
        self.release(&place, &definition, CRD_CLEANUP)
    }
}

impl Place {
    fn namespace(&self) -> Option<&str> {
        (!self.key.namespace.is_empty()).then_some(self.key.namespace.as_str())
    }
}
