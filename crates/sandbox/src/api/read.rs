//! Get and list.

use std::sync::Arc;

use serde_json::json;

use super::registry::Kind;
use super::rules::Selection;
use super::status::Status;
use super::{ApiServer, List, ListOptions, Object, Resource, State, VersionMatch};
use crate::store::Key;

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. \
    You can start a new list without the continue parameter.";

impl ApiServer {
    /// Returns one object.
    pub fn get(&self, resource: &Resource, namespace: Option<&str>, name: &str) -> Result<Object, Status> {
        self.with(|state| {
            let kind = state.served(resource)?;
            state.existing(&kind, &Key::new(namespace, name))
        })
    }

    /// Returns the objects of a resource, of one namespace or of all.
    pub fn list(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<List, Status> {
        self.with(|state| {
            let kind = state.served(resource)?;
            state.list(&kind, namespace, options)
        })
    }
}

impl State {
    pub(super) fn served(&self, resource: &Resource) -> Result<Arc<Kind>, Status> {
        self.registry.kind(resource).ok_or_else(Status::no_such_resource)
    }

    pub(super) fn existing(&self, kind: &Kind, key: &Key) -> Result<Object, Status> {
        self.store
            .get(&kind.resource, key)
            .ok_or_else(|| Status::not_found(&kind.resource, &key.name))
    }

    pub(super) fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<List, Status> {
        let selection = Selection::parse(kind, namespace, &options.labels, &options.fields)?;
        let current = self.store.revision();
        let page = match &options.continue_token {
            Some(token) => Some(Page::parse(token)?),
            None => None,
        };
        let past = match (&page, options.revision) {
            (Some(page), _) => Some(page.revision),
            (None, Some(revision)) if revision > current => return Err(Status::too_large(revision, current)),
            (None, Some(revision)) if revision > 0 && is_exact(options) => Some(revision),
            (None, _) => None,
        };
        match past.filter(|revision| *revision != current) {
            None => {
                let objects = self.store.scan(&kind.resource, namespace);
                Ok(paginate(
                    objects,
                    &selection,
                    page.as_ref(),
                    current,
                    options.limit,
                ))
            }
            Some(revision) => {
                let objects =
                    self.store
                        .scan_at(&kind.resource, namespace, revision)
                        .map_err(|compacted| {
                            if page.is_some() {
                                Status::expired(CONTINUE_EXPIRED)
                            } else {
                                Status::too_old(compacted)
                            }
                        })?;
                Ok(paginate(
                    objects.iter().map(|(key, object)| (key, Arc::clone(object))),
                    &selection,
                    page.as_ref(),
                    revision,
                    options.limit,
                ))
            }
        }
    }
}

fn is_exact(options: &ListOptions) -> bool {
    match options.version_match {
        Some(version_match) => version_match == VersionMatch::Exact,
        None => options.limit > 0,
    }
}

fn paginate<'a>(
    objects: impl Iterator<Item = (&'a Key, Object)>,
    selection: &Selection,
    page: Option<&Page>,
    revision: u64,
    limit: usize,
) -> List {
    let mut list = List {
        revision,
        ..List::default()
    };
    let mut end = None;
    let mut more = 0;
    for (key, object) in objects {
        if page.is_some_and(|page| *key <= page.after) || !selection.matches(&object) {
            continue;
        }
        if limit > 0 && list.items.len() == limit {
            more += 1;
            continue;
        }
        end = Some(key);
        list.items.push(object);
    }
    if more > 0 {
        list.continue_token = end.map(|key| {
            Page {
                revision,
                after: key.clone(),
            }
            .to_token()
        });
        list.remaining = selection.is_everything().then_some(more);
    }
    list
}

/// Where a page of a list begins; its text is opaque to clients.
struct Page {
    revision: u64,
    after: Key,
}

impl Page {
    fn parse(token: &str) -> Result<Self, Status> {
        let invalid = |why: &dyn std::fmt::Display| {
            Status::bad_request(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        };
        let base64 = token.replace('-', "+").replace('_', "/");
        let padded = format!("{base64}{}", "=".repeat((4 - base64.len() % 4) % 4));
        let json = openssl::base64::decode_block(&padded)
            .map_err(|_| invalid(&"illegal base64 data at input byte 0"))?;
        let told: serde_json::Value = serde_json::from_slice(&json).map_err(|error| invalid(&error))?;
        let start = told["start"].as_str().and_then(|start| start.split_once('/'));
        match (told["rv"].as_u64(), start) {
            (Some(revision), Some((namespace, name))) => Ok(Self {
                revision,
                after: Key::new(Some(namespace), name),
            }),
            _ => Err(invalid(&"it names no place")),
        }
    }

    fn to_token(&self) -> String {
        let start = format!("{}/{}", self.after.namespace, self.after.name);
        let told = json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": start});
        let base64 = openssl::base64::encode_block(told.to_string().as_bytes());
        base64
            .replace('+', "-")
            .replace('/', "_")
            .trim_end_matches('=')
            .to_owned()
    }
}
