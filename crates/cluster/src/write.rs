//! The writes, each with the precondition under which it may take effect. A precondition that fails is an answer, not an error.

use http::{Method, Request, header};
use kube::core::Status;
use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use super::connect::Cluster;
use super::error::describe;
use super::object::{Served, collection, escape, item, meta};
use super::{Answer, Error, Result};

impl Cluster {
    /// Writes to the control plane in the name of a field manager.
    pub fn writer(&self, manager: &'static str) -> Writer {
        Writer::new(self.clone(), manager)
    }
}

/// Whether a write is meant, or only tried on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Write,
    /// `dryRun=All`: validated and admitted, then thrown away.
    Rehearse,
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// The object as it is now; for a deletion, as it was last.
    Done(Value),
    /// Nothing was written: what was read before isn't so any more. Observe again.
    Precondition(String),
    /// Nothing was created: this object has the name.
    Exists(Value),
}

/// What became of a status that was to be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// The `resourceVersion` that the object has now.
    Done(String),
    /// Nothing was written: what was read before isn't so any more. Observe again.
    Precondition(String),
}

/// What became of a server-side apply.
#[derive(Clone, Debug, PartialEq)]
pub enum Applied {
    Done(Value),
    /// Nothing was written: the object isn't the one that was meant.
    Precondition(String),
    /// Nothing was written: others own these fields.
    Conflicts(Vec<FieldConflict>),
}

/// A field that an apply would take from another manager.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldConflict {
    pub manager: String,
    /// For instance `.spec.replicas`.
    pub field: String,
}

/// Names an object, and which one: another one under the same name is not meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exactly {
    pub namespace: Option<String>,
    pub name: String,
    pub uid: Option<String>,
    /// When given, the object must not have changed since it was read.
    pub resource_version: Option<String>,
}

impl Exactly {
    /// Returns the object that was read, as it was read.
    pub fn of(object: &Value) -> Self {
        Self {
            namespace: meta(object, "namespace").map(str::to_owned),
            name: meta(object, "name").unwrap_or_default().to_owned(),
            uid: meta(object, "uid").map(str::to_owned),
            resource_version: meta(object, "resourceVersion").map(str::to_owned),
        }
    }
}

/// An object with another status, written without a tree of it in between.
struct WithStatus<'a, S> {
    object: &'a Value,
    status: &'a S,
}

impl<S: Serialize> Serialize for WithStatus<'_, S> {
    fn serialize<W: Serializer>(&self, serializer: W) -> Result<W::Ok, W::Error> {
        let fields = self.object.as_object().into_iter().flatten();
        let mut map = serializer.serialize_map(None)?;
        for (field, value) in fields.filter(|(field, _)| *field != "status") {
            map.serialize_entry(field, value)?;
        }
        map.serialize_entry("status", self.status)?;
        map.end()
    }
}

/// All that is read of an answer of which the rest is known.
#[derive(Deserialize)]
struct Head {
    metadata: HeadMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMeta {
    resource_version: String,
}

/// Writes in the name of one field manager.
#[derive(Clone, Debug)]
pub struct Writer {
    cluster: Cluster,
    manager: &'static str,
}

impl Writer {
    pub(super) const fn new(cluster: Cluster, manager: &'static str) -> Self {
        Self { cluster, manager }
    }

    /// Creates an object. One that is there already is told apart, and returned.
    pub async fn create(&self, served: &Served, object: &Value, mode: Mode) -> Result<Written> {
        let namespace = meta(object, "namespace");
        let path = collection(served, namespace)?;
        match self
            .send(Method::POST, &path, "application/json", object, mode)
            .await
        {
            Ok(created) => Ok(Written::Done(created)),
            Err(error) if error.status().is_some_and(Status::is_already_exists) => {
                let name = meta(object, "name").unwrap_or_default();
                match self.cluster.reader().get(served, namespace, name).await.answer {
                    Answer::Found(there) => Ok(Written::Exists(there)),
                    Answer::NotFound => Ok(Written::Precondition(format!(
                        "{name} was there and is gone again"
                    ))),
                    Answer::Unknown { .. } => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Replaces an object with what was made of it; it must carry the `resourceVersion` that was read.
    pub async fn replace(&self, served: &Served, object: &Value, mode: Mode) -> Result<Written> {
        let path = exact_path(served, object)?;
        unless_changed(
            self.send(Method::PUT, &path, "application/json", object, mode)
                .await,
        )
    }

    /// Replaces the status of an object; it must carry the `resourceVersion` that was read. What status it had doesn't matter.
    pub async fn replace_status(
        &self,
        served: &Served,
        object: &Value,
        status: &impl Serialize,
    ) -> Result<Replaced> {
        let path = format!("{}/status", exact_path(served, object)?);
        let whole = WithStatus { object, status };
        let sent = self.send::<Head>(Method::PUT, &path, "application/json", &whole, Mode::Write);
        match sent.await {
            // Without a version the next write would have no precondition; an answer that has none is malformed.
            Ok(written) => Ok(Replaced::Done(written.metadata.resource_version)),
            Err(error) => match failed_precondition(&error) {
                Some(why) => Ok(Replaced::Precondition(why)),
                None => Err(error),
            },
        }
    }

    /// Merges into the status of an object that is still as it was read. Fields that are to go must be given as null.
    pub async fn merge_status(&self, served: &Served, object: &Exactly, status: &Value) -> Result<Written> {
        let path = format!(
            "{}/status",
            item(served, object.namespace.as_deref(), &object.name)?
        );
        let Some(resource_version) = &object.resource_version else {
            return Err(missing("resourceVersion", &path));
        };
        let mut body = json!({"metadata": {"resourceVersion": resource_version}, "status": status});
        if let Some(uid) = &object.uid {
            body["metadata"]["uid"] = uid.as_str().into();
        }
        let sent = self
            .send(
                Method::PATCH,
                &path,
                "application/merge-patch+json",
                &body,
                Mode::Write,
            )
            .await;
        unless_changed(sent)
    }

    /// Patches an object; the `test` operations are the precondition.
    pub async fn patch(
        &self,
        served: &Served,
        object: &Exactly,
        operations: &[Value],
        mode: Mode,
    ) -> Result<Written> {
        self.patch_at(served, object, "", operations, mode).await
    }

    /// The same on the status of an object.
    pub async fn patch_status(
        &self,
        served: &Served,
        object: &Exactly,
        operations: &[Value],
    ) -> Result<Written> {
        self.patch_at(served, object, "/status", operations, Mode::Write)
            .await
    }

    async fn patch_at(
        &self,
        served: &Served,
        object: &Exactly,
        sub: &str,
        operations: &[Value],
        mode: Mode,
    ) -> Result<Written> {
        let path = format!(
            "{}{sub}",
            item(served, object.namespace.as_deref(), &object.name)?
        );
        let tests = [
            ("uid", &object.uid),
            ("resourceVersion", &object.resource_version),
        ]
        .into_iter()
        .filter_map(|(field, value)| {
            let value = value.as_ref()?;
            Some(json!({"op": "test", "path": format!("/metadata/{field}"), "value": value}))
        });
        let body: Vec<Value> = tests.chain(operations.iter().cloned()).collect();
        let sent = self
            .send(
                Method::PATCH,
                &path,
                "application/json-patch+json",
                &Value::Array(body),
                mode,
            )
            .await;
        match sent {
            Err(error) if error.status().is_some_and(is_failed_test) => Ok(Written::Precondition(
                "a test of the patch failed: the object has changed".to_owned(),
            )),
            other => unless_changed(other),
        }
    }

    /// Deletes an object, and in the background what depends on it, if it is still the one that was read.
    pub async fn delete(&self, served: &Served, object: &Exactly, mode: Mode) -> Result<Written> {
        self.delete_as(served, object, mode, "Background").await
    }

    /// Deletes what depends on an object and then the object, if it is still the one that was read.
    pub async fn delete_with_dependents(
        &self,
        served: &Served,
        object: &Exactly,
        mode: Mode,
    ) -> Result<Written> {
        self.delete_as(served, object, mode, "Foreground").await
    }

    async fn delete_as(
        &self,
        served: &Served,
        object: &Exactly,
        mode: Mode,
        propagation: &str,
    ) -> Result<Written> {
        let path = item(served, object.namespace.as_deref(), &object.name)?;
        let mut preconditions = json!({});
        if let Some(uid) = &object.uid {
            preconditions["uid"] = uid.as_str().into();
        }
        if let Some(resource_version) = &object.resource_version {
            preconditions["resourceVersion"] = resource_version.as_str().into();
        }
        let mut body = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "propagationPolicy": propagation, "preconditions": preconditions,
        });
        if mode == Mode::Rehearse {
            // With a body, the API server doesn't look at the query.
            body["dryRun"] = json!(["All"]);
        }
        unless_changed(
            self.send(Method::DELETE, &path, "application/json", &body, mode)
                .await,
        )
    }

    /// Applies a manifest, taking no field from anybody. With a `metadata.uid` in it, nothing is created anew.
    pub async fn apply(&self, served: &Served, manifest: &Value, mode: Mode) -> Result<Applied> {
        self.apply_as(served, manifest, mode, false).await
    }

    /// Applies a manifest, and takes its fields from whoever owns them.
    pub async fn take_over(&self, served: &Served, manifest: &Value, mode: Mode) -> Result<Applied> {
        self.apply_as(served, manifest, mode, true).await
    }

    async fn apply_as(&self, served: &Served, manifest: &Value, mode: Mode, force: bool) -> Result<Applied> {
        let name = meta(manifest, "name").unwrap_or_default();
        let path = item(served, meta(manifest, "namespace"), name)?;
        let options = if force { "&force=true" } else { "" };
        let content = "application/apply-patch+yaml";
        match self
            .send_with(Method::PATCH, &path, content, manifest, mode, options)
            .await
        {
            Ok(object) => Ok(Applied::Done(object)),
            Err(error) => match error.status() {
                Some(status) if status.code == 409 => {
                    let conflicts = field_conflicts(status);
                    Ok(if conflicts.is_empty() {
                        Applied::Precondition(describe(status))
                    } else {
                        Applied::Conflicts(conflicts)
                    })
                }
                _ => Err(error),
            },
        }
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: &impl Serialize,
        mode: Mode,
    ) -> Result<T> {
        self.send_with(method, path, content, body, mode, "").await
    }

    async fn send_with<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: &impl Serialize,
        mode: Mode,
        options: &str,
    ) -> Result<T> {
        let call = format!("cannot {} {path}", verb(&method));
        // A field that the server doesn't know would be dropped in silence otherwise.
        let validation = if method == Method::DELETE {
            ""
        } else {
            "&fieldValidation=Strict"
        };
        let dry_run = if mode == Mode::Rehearse { "&dryRun=All" } else { "" };
        let uri = format!(
            "{path}?fieldManager={}{validation}{dry_run}{options}",
            escape(self.manager)
        );
        let body = serde_json::to_vec(body).map_err(|error| Error::Malformed {
            call: call.clone(),
            why: error.to_string(),
        })?;
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::CONTENT_TYPE, content)
            .body(body)
            .map_err(|_invalid| Error::BadName(path.to_owned()))?;
        self.cluster.send(&call, request).await
    }
}

fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create in",
        Method::DELETE => "delete",
        Method::PUT => "replace",
        _ => "change",
    }
}

/// Returns the path of an object that is to be replaced as it was read.
fn exact_path(served: &Served, object: &Value) -> Result<String> {
    let name = meta(object, "name").unwrap_or_default();
    let path = item(served, meta(object, "namespace"), name)?;
    if meta(object, "resourceVersion").is_none() {
        return Err(missing("resourceVersion", &path));
    }
    Ok(path)
}

/// Takes a conflict and an object that is gone for a precondition that failed.
fn unless_changed(sent: Result<Value>) -> Result<Written> {
    match sent {
        Ok(object) => Ok(Written::Done(object)),
        Err(error) => match failed_precondition(&error) {
            Some(why) => Ok(Written::Precondition(why)),
            None => Err(error),
        },
    }
}

fn failed_precondition(error: &Error) -> Option<String> {
    let status = error.status()?;
    (status.code == 409 || is_gone(status)).then(|| describe(status))
}

/// A 404 that names an object: a path that nobody serves says nothing of the kind.
fn is_gone(status: &Status) -> bool {
    status.code == 404
        && status
            .details
            .as_ref()
            .is_some_and(|details| !details.name.is_empty())
}

/// Tells a failed `test` operation from an object that isn't valid: only the latter says which object and why.
fn is_failed_test(status: &Status) -> bool {
    status.code == 422
        && status
            .details
            .as_ref()
            .is_none_or(|details| details.kind.is_empty() && details.causes.is_empty())
}

/// Reads who owns which fields from the causes of a conflict.
fn field_conflicts(status: &Status) -> Vec<FieldConflict> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut conflicts: Vec<_> = causes
        .filter(|cause| cause.reason == "FieldManagerConflict")
        .map(|cause| FieldConflict {
            manager: cause
                .message
                .split('"')
                .nth(1)
                .unwrap_or(&cause.message)
                .to_owned(),
            field: cause.field.clone(),
        })
        .collect();
    conflicts.sort();
    conflicts
}

fn missing(field: &str, path: &str) -> Error {
    Error::Malformed {
        call: format!("cannot change {path}"),
        why: format!("it was given without {field}, so a change in between could not be detected"),
    }
}
