//! Delete: preconditions, finalizers, what becomes of the owned objects.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::admission::attributes::{self, Attributes};
use super::admission::{self, Operation, Review};
use super::commit::is_released;
use super::registry::{CRDS, Kind, NAMESPACES};
use super::status::Status;
use super::{
    Admission, ApiServer, DeleteOptions, List, ListOptions, Object, Propagation, Resource, State, metadata,
};
use crate::sandbox::store::Key;

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
        let old = Arc::clone(self.existing(kind, key)?);
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
        if metadata::is_terminating(&old) && kind.resource == NAMESPACES {
            return Err(Status::conflict(
                &kind.resource,
                &key.name,
                "The system is ensuring all content is removed from this namespace.  Upon completion, this \
                 namespace will automatically be purged by the system.",
            ));
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
            self.erase(kind, key, (*old).clone());
            return Ok(Deleted {
                object: old,
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
    // Real servers name the kind here, not the resource.
    let named = Resource::named(kind.group(), kind.kind.as_str());
    let name = metadata::name(object);
    if let Some(wanted) = options
        .uid
        .as_deref()
        .filter(|wanted| *wanted != metadata::uid(object))
    {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({}). The object might have \
             been deleted and then recreated",
            metadata::uid(object)
        );
        return Err(Status::conflict(&named, name, &why));
    }
    let present = metadata::text(object, "resourceVersion");
    if let Some(wanted) = options
        .resource_version
        .as_deref()
        .filter(|wanted| *wanted != present)
    {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({present}). The object might have been modified"
        );
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
