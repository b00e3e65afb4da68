//! Delete: preconditions, finalizers, what becomes of the owned objects.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::admission::attributes::{self, Attributes};
use super::admission::{self, Operation, Review};
use super::commit::{is_held_by_spec, is_released};
use super::registry::{CRDS, Kind, NAMESPACES};
use super::status::Status;
use super::{
    Admission, ApiServer, DeleteOptions, List, ListOptions, Object, Propagation, Resource, State, metadata,
};
use crate::store::Key;

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";
pub(super) const CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// What a deletion answers with.
#[derive(Debug)]
pub(super) struct Deleted {
    pub object: Object,
    /// Whether the object is gone, and not only marked.
    pub gone: bool,
    /// What admission policies warn of.
    pub warnings: Vec<String>,
}

impl ApiServer {
    /// Deletes an object, or marks it when finalizers hold it; returns its last state.
    pub fn delete(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Object, Status> {
        self.delete_at(resource, namespace, name, options)
            .map(|deleted| deleted.object)
    }

    /// Deletes the objects that a list shows, and returns it.
    pub fn delete_collection(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<List, Status> {
        let listed = self.list(resource, namespace, list)?;
        for object in &listed.items {
            let Key { namespace, name } = metadata::key(object);
            let namespace = (!namespace.is_empty()).then_some(namespace.as_str());
            match self.delete_one(resource, namespace, &name, false, options) {
                Err(status) if !status.is_not_found() => return Err(status),
                _ => {}
            }
        }
        Ok(listed)
    }

    pub(super) fn delete_at(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        self.delete_one(resource, namespace, name, true, options)
    }

    /// Deletes an object that the request names, or that is one of a collection.
    fn delete_one(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
        named: bool,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let hooks = self.hooks();
        let now = self.now();
        self.with(|state| {
            let kind = state.served(resource)?;
            state.delete(&kind, &Key::new(namespace, name), named, options, &hooks, now)
        })
    }
}

impl State {
    fn delete(
        &mut self,
        kind: &Arc<Kind>,
        key: &Key,
        named: bool,
        options: &DeleteOptions,
        hooks: &[Arc<dyn Admission>],
        now: Timestamp,
    ) -> Result<Deleted, Status> {
        let old = self.existing(kind, key)?;
        check_preconditions(kind, &old, options)?;
        let review = Review {
            operation: Operation::Delete,
            resource: &kind.resource,
            subresource: None,
            namespace: kind.namespaced.then_some(key.namespace.as_str()),
            name: &key.name,
            old: Some(&old),
            new: None,
            user: &options.user,
            dry_run: options.dry_run,
            store: &self.store,
        };
        admission::ask(hooks, &review)?;
        let warnings = self.may_delete(kind, key, named, &old, options)?;
        if metadata::is_terminating(&old) && is_held_by_spec(kind, &old) {
            return Ok(Deleted {
                object: old,
                gone: false,
                warnings,
            });
        }
        let body = marked(kind, &old, options.propagation, now);
        let gone = is_released(kind, &body);
        if options.dry_run {
            return Ok(Deleted {
                object: if gone { old } else { Arc::new(body) },
                gone,
                warnings,
            });
        }
        if gone {
            let object = self.erase(kind, key, (*old).clone()).unwrap_or(old);
            return Ok(Deleted {
                object,
                gone,
                warnings,
            });
        }
        if body == *old {
            return Ok(Deleted {
                object: old,
                gone,
                warnings,
            });
        }
        let object = self.commit(kind, key, Some(&old), body, now);
        Ok(Deleted {
            object,
            gone,
            warnings,
        })
    }

    /// Asks the admission policies about a deletion; `named` says whether the request names the object.
    fn may_delete(
        &mut self,
        kind: &Kind,
        key: &Key,
        named: bool,
        old: &Object,
        options: &DeleteOptions,
    ) -> Result<Vec<String>, Status> {
        let Some(version) = kind.storage() else {
            return Ok(Vec::new());
        };
        let namespace = if kind.resource == NAMESPACES {
            &key.name
        } else {
            &key.namespace
        };
        let attributes = Attributes {
            operation: Operation::Delete,
            kind,
            version,
            subresource: None,
            namespace,
            name: if named { &key.name } else { "" },
            object: None,
            old: Some(old),
            options: attributes::delete_options(options),
            dry_run: options.dry_run,
            user: &options.user,
        };
        self.policies.review(&attributes, &self.store, &self.registry)
    }
}

fn check_preconditions(kind: &Kind, object: &Value, options: &DeleteOptions) -> Result<(), Status> {
    let name = metadata::name(object);
    let checks = [
        ("UID", options.uid.as_deref(), metadata::uid(object)),
        (
            "ResourceVersion",
            options.resource_version.as_deref(),
            metadata::text(object, "resourceVersion"),
        ),
    ];
    for (field, wanted, present) in checks {
        let Some(wanted) = wanted.filter(|wanted| *wanted != present) else {
            continue;
        };
        if kind.resource == NAMESPACES {
            let why = format!(
                "Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {present}"
            );
            return Err(Status::conflict(&kind.resource, name, &why));
        }
        let what = match field {
            "UID" => "deleted and then recreated",
            _ => "modified",
        };
        let why = format!(
            "the {field} in the precondition ({wanted}) does not match the {field} in record ({present}). The object \
             might have been {what}"
        );
        // Real servers name the kind here, not the resource.
        let named = Resource::named(kind.group(), kind.kind.as_str());
        return Err(Status::conflict(&named, name, &why));
    }
    Ok(())
}

/// Returns an object as it is once its deletion is asked for.
fn marked(kind: &Kind, old: &Value, propagation: Option<Propagation>, now: Timestamp) -> Value {
    let mut body = old.clone();
    let (add, remove): (Option<&str>, &[&str]) = match propagation {
        Some(Propagation::Foreground) => (Some(FOREGROUND), &[ORPHAN]),
        Some(Propagation::Orphan) => (Some(ORPHAN), &[FOREGROUND]),
        Some(Propagation::Background) => (None, &[ORPHAN, FOREGROUND]),
        None => (None, &[]),
    };
    for finalizer in remove
        .iter()
        .filter(|unwanted| metadata::finalizers(old).any(|present| present == **unwanted))
    {
        metadata::remove_finalizer(&mut body, finalizer);
    }
    if let Some(finalizer) = add {
        metadata::add_finalizer(&mut body, finalizer);
    }
    if metadata::is_terminating(old) {
        return body;
    }
    metadata::set(&mut body, "deletionTimestamp", Some(metadata::time(now)));
    if kind.resource == NAMESPACES {
        metadata::entry(&mut body, "status").insert("phase".to_owned(), json!("Terminating"));
        return body;
    }
    if kind.resource == CRDS {
        metadata::add_finalizer(&mut body, CRD_CLEANUP);
        return body;
    }
    metadata::set(&mut body, "deletionGracePeriodSeconds", Some(json!(0)));
    if let Some(generation) = old["metadata"]["generation"].as_i64() {
        metadata::set(&mut body, "generation", Some(json!(generation + 1)));
    }
    body
}
