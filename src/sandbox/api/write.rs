//! Create, update and patch: one pipeline that every write goes through.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::registry::{CRDS, Generation, Kind, NAMESPACES, Version};
use super::rules::{self, Applied};
use super::status::{Cause, Reason, Status};
use super::{
    Admission, ApiServer, FieldValidation, Object, Operation, Patch, Resource, Review, State, Subresource,
    WriteOptions, metadata, scale, strategy,
};
use crate::sandbox::store::Key;

/// What a write answers with.
#[derive(Debug)]
pub(super) struct Written {
    pub object: Object,
    pub created: bool,
    /// Fields that were dropped, for the `Warning` header.
    pub warnings: Vec<String>,
}

/// What a write is aimed at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub resource: &'a Resource,
    /// The version in which the client speaks; none means that of the body.
    pub version: Option<&'a str>,
    pub namespace: Option<&'a str>,
    /// Empty for a creation.
    pub name: &'a str,
    pub subresource: Option<Subresource>,
}

impl ApiServer {
    /// Creates an object.
    pub fn create(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        body: Value,
        options: &WriteOptions,
    ) -> Result<Object, Status> {
        let target = Target {
            resource,
            version: None,
            namespace,
            name: "",
            subresource: None,
        };
        self.create_at(target, body, options)
            .map(|written| written.object)
    }

    /// Replaces an object, or a subresource of it.
    pub fn update(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
        subresource: Option<Subresource>,
        body: Value,
        options: &WriteOptions,
    ) -> Result<Object, Status> {
        let target = Target {
            resource,
            version: None,
            namespace,
            name,
            subresource,
        };
        self.update_at(target, body, options)
            .map(|written| written.object)
    }

    /// Changes an object, or a subresource of it; apply also creates.
    pub fn patch(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
        subresource: Option<Subresource>,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<Object, Status> {
        let target = Target {
            resource,
            version: None,
            namespace,
            name,
            subresource,
        };
        self.patch_at(target, patch, options)
            .map(|written| written.object)
    }

    pub(super) fn create_at(
        &self,
        target: Target<'_>,
        body: Value,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        self.write(target, options, |write| write.create(body, None))
    }

    pub(super) fn update_at(
        &self,
        target: Target<'_>,
        body: Value,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        self.write(target, options, |write| write.update(body))
    }

    pub(super) fn patch_at(
        &self,
        target: Target<'_>,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        self.write(target, options, |write| write.patch(patch))
    }

    fn write(
        &self,
        target: Target<'_>,
        options: &WriteOptions,
        run: impl FnOnce(&mut Write<'_>) -> Result<Written, Status>,
    ) -> Result<Written, Status> {
        let hooks = self.hooks();
        let now = self.now();
        self.with(|state| {
            let kind = state.served(target.resource)?;
            run(&mut Write {
                state,
                kind,
                target,
                options,
                hooks: &hooks,
                now,
                warnings: Vec::new(),
            })
        })
    }
}

/// One write in progress.
struct Write<'a> {
    state: &'a mut State,
    kind: Arc<Kind>,
    target: Target<'a>,
    options: &'a WriteOptions,
    hooks: &'a [Arc<dyn Admission>],
    now: Timestamp,
    warnings: Vec<String>,
}

impl<'a> Write<'a> {
    /// Creates an object; `applied` says which fields an apply owns.
    fn create(&mut self, mut body: Value, applied: Option<Applied>) -> Result<Written, Status> {
        let kind = Arc::clone(&self.kind);
        let version = version_of(&kind, self.target.version, &body)?;
        let namespace = self.namespace_of(&kind, &body)?;
        if !metadata::text(&body, "resourceVersion").is_empty() && applied.is_none() {
            return Err(Status::new(
                500,
                Reason::Unknown,
                "resourceVersion should not be set on objects to be created",
            ));
        }
        self.check_fields(&kind, version, &mut body)?;
        self.name(&mut body);
        self.fill_system_fields(&kind, namespace, &mut body);
        strategy::prepare_create(&kind, version, &mut body);
        rules::default(&kind, version, &mut body);
        match applied {
            Some(applied) => applied.record(&mut body, self.now),
            None => rules::own(
                &kind,
                version,
                None,
                &mut body,
                self.ownership(&kind, version),
                self.now,
            ),
        }
        self.admit(&kind, version, Operation::Create, None, &mut body)?;
        self.namespace_lives(&kind, namespace, metadata::name(&body))?;
        refuse_invalid(&kind, rules::validate(&kind, version, &body, None), &body)?;

        let key = metadata::key(&body);
        if self.state.store.get(&kind.resource, &key).is_some() {
            return Err(Status::already_exists(&kind.resource, &key.name));
        }
        let object = if self.options.dry_run {
            Arc::new(body)
        } else {
            self.state.commit(&kind, &key, None, body, self.now)
        };
        Ok(Written {
            object,
            created: true,
            warnings: std::mem::take(&mut self.warnings),
        })
    }

    /// Replaces an object with the body of a PUT.
    fn update(&mut self, mut body: Value) -> Result<Written, Status> {
        let kind = Arc::clone(&self.kind);
        if self.target.subresource == Some(Subresource::Scale) {
            return self.update_scale(&kind, |scale| {
                *scale = body;
                Ok(())
            });
        }
        let version = version_of(&kind, self.target.version, &body)?;
        let key = self.check_identity(&kind, &mut body)?;
        let old = Arc::clone(self.state.existing(&kind, &key)?);
        self.check_subresource(version)?;
        if metadata::text(&body, "resourceVersion").is_empty() && !kind.unconditional_update {
            let cause = Cause::invalid_value(
                "metadata.resourceVersion",
                &json!(0),
                "must be specified for an update",
            );
            return Err(Status::invalid(
                kind.group(),
                &kind.resource.plural,
                &key.name,
                vec![cause],
            ));
        }
        let (wanted, present) = (metadata::uid(&body), metadata::uid(&old));
        if !wanted.is_empty() && wanted != present {
            let why =
                format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {present}");
            return Err(Status::conflict(&kind.resource, &key.name, &why));
        }
        self.check_fields(&kind, version, &mut body)?;
        self.replace(&kind, version, &key, &old, body, None)
    }

    fn patch(&mut self, patch: &Patch) -> Result<Written, Status> {
        let kind = Arc::clone(&self.kind);
        if let Patch::Apply(configuration) = patch {
            return self.apply(&kind, configuration);
        }
        if self.target.subresource == Some(Subresource::Scale) {
            return self.update_scale(&kind, |scale| {
                *scale = rules::patch(None, scale, patch)?;
                Ok(())
            });
        }
        let version = version_of(&kind, self.target.version, &Value::Null)?;
        let key = Key::new(self.target.namespace, self.target.name);
        let old = Arc::clone(self.state.existing(&kind, &key)?);
        self.check_subresource(version)?;
        let base = super::registry::convert(&kind, &old, &version.name);
        let mut body = rules::patch(Some((&kind, version)), &base, patch)?;
        self.check_identity(&kind, &mut body)?;
        self.check_fields(&kind, version, &mut body)?;
        self.replace(&kind, version, &key, &old, body, None)
    }

    fn apply(&mut self, kind: &Arc<Kind>, configuration: &Value) -> Result<Written, Status> {
        if self.options.manager.is_empty() {
            let cause = Cause::required("fieldManager", "is required for apply patch");
            return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", vec![cause]));
        }
        let mut configuration = configuration.clone();
        let version = version_of(kind, self.target.version, &configuration)?;
        let key = self.check_identity(kind, &mut configuration)?;
        self.check_subresource(version)?;
        self.check_fields(kind, version, &mut configuration)?;
        strategy::keep_applicable(self.target.subresource, version, &mut configuration);
        let old = self.state.store.get(&kind.resource, &key).map(Arc::clone);
        let ownership = self.ownership(kind, version);
        let Some(old) = old else {
            if self.target.subresource.is_some() {
                return Err(Status::not_found(&kind.resource, &key.name));
            }
            let wanted = metadata::uid(&configuration);
            if !wanted.is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {wanted}, and no existing object was found"
                );
                return Err(Status::conflict(&kind.resource, &key.name, &why));
            }
            metadata::set(&mut configuration, "resourceVersion", None);
            let (body, applied) =
                rules::apply(kind, version, None, &configuration, ownership, self.options.force)?;
            return self.create(body, Some(applied));
        };
        let live = super::registry::convert(kind, &old, &version.name);
        let (body, applied) = rules::apply(
            kind,
            version,
            Some(&live),
            &configuration,
            ownership,
            self.options.force,
        )?;
        self.replace(kind, version, &key, &old, body, Some(applied))
    }

    /// Writes the new state of an object that exists.
    fn replace(
        &mut self,
        kind: &Arc<Kind>,
        version: &Version,
        key: &Key,
        old: &Object,
        mut body: Value,
        applied: Option<Applied>,
    ) -> Result<Written, Status> {
        let wanted = metadata::text(&body, "resourceVersion");
        if !wanted.is_empty() && wanted != metadata::text(old, "resourceVersion") {
            return Err(Status::modified(&kind.resource, &key.name));
        }
        restore_system_fields(&mut body, old);
        strategy::separate(kind, version, self.target.subresource, old, &mut body);
        rules::default(kind, version, &mut body);
        match applied {
            Some(applied) => applied.record(&mut body, self.now),
            None => rules::own(
                kind,
                version,
                Some(old),
                &mut body,
                self.ownership(kind, version),
                self.now,
            ),
        }
        self.admit(kind, version, Operation::Update, Some(old), &mut body)?;
        let mut causes = strategy::validate_transition(old, &body);
        causes.extend(rules::validate(kind, version, &body, Some(old)));
        refuse_invalid(kind, causes, &body)?;
        if rises(kind.generation, old, &body) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
            metadata::set(&mut body, "generation", Some(json!(generation + 1)));
        }

        let object = if strategy::same(old, &body) {
            super::registry::convert(kind, old, &version.name)
        } else if self.options.dry_run {
            Arc::new(body)
        } else if is_finished(&body) {
            self.state.erase(kind, key, body.clone(), self.now);
            Arc::new(body)
        } else {
            self.state.commit(kind, key, Some(old), body, self.now)
        };
        Ok(Written {
            object,
            created: false,
            warnings: std::mem::take(&mut self.warnings),
        })
    }

    /// Writes an object through its scale.
    fn update_scale(
        &mut self,
        kind: &Arc<Kind>,
        change: impl FnOnce(&mut Value) -> Result<(), Status>,
    ) -> Result<Written, Status> {
        let version = version_of(kind, self.target.version, &Value::Null)?;
        let paths = version.scale.as_ref().ok_or_else(Status::no_such_resource)?;
        let key = Key::new(self.target.namespace, self.target.name);
        let old = Arc::clone(self.state.existing(kind, &key)?);
        let mut wanted = scale::of(&old, paths);
        change(&mut wanted)?;
        let mut body = (*old).clone();
        scale::write(&mut body, paths, &wanted);
        metadata::set(
            &mut body,
            "resourceVersion",
            wanted["metadata"].get("resourceVersion").cloned(),
        );
        let mut written = self.replace(kind, version, &key, &old, body, None)?;
        written.object = Arc::new(scale::of(&written.object, paths));
        Ok(written)
    }

    fn ownership(&self, kind: &Kind, version: &Version) -> rules::Ownership {
        rules::Ownership {
            manager: self.options.manager.clone(),
            api_version: kind.api_version(version),
            subresource: self.target.subresource,
        }
    }

    fn check_subresource(&self, version: &Version) -> Result<(), Status> {
        let served = match self.target.subresource {
            None => true,
            Some(Subresource::Status) => version.status,
            Some(Subresource::Scale) => version.scale.is_some(),
            Some(Subresource::Finalize) => *self.target.resource == NAMESPACES,
        };
        if served {
            Ok(())
        } else {
            Err(Status::no_such_resource())
        }
    }

    /// Sees to it that the body is about the object of the request; what it leaves out is filled in.
    fn check_identity(&self, kind: &Kind, body: &mut Value) -> Result<Key, Status> {
        let namespace = self.namespace_of(kind, body)?.map(str::to_owned);
        let name = metadata::name(body);
        if !name.is_empty() && name != self.target.name {
            return Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                self.target.name
            )));
        }
        metadata::set(body, "name", Some(self.target.name.into()));
        metadata::set(body, "namespace", namespace.as_deref().map(Into::into));
        Ok(Key::new(namespace.as_deref(), self.target.name))
    }

    fn namespace_of(&self, kind: &Kind, body: &Value) -> Result<Option<&'a str>, Status> {
        let said = metadata::text(body, "namespace");
        match self.target.namespace.filter(|namespace| !namespace.is_empty()) {
            _ if !kind.namespaced => Ok(None),
            None => Err(Status::bad_request(
                "an empty namespace may not be set during creation",
            )),
            Some(namespace) if said.is_empty() || said == namespace => Ok(Some(namespace)),
            Some(_) => Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            )),
        }
    }

    fn check_fields(&mut self, kind: &Kind, version: &Version, body: &mut Value) -> Result<(), Status> {
        let unknown = rules::prune(kind, version, body)?;
        if unknown.is_empty() {
            return Ok(());
        }
        let unknown: Vec<String> = unknown
            .iter()
            .map(|field| format!("unknown field \"{field}\""))
            .collect();
        match self.options.field_validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => self.warnings.extend(unknown),
            FieldValidation::Strict => {
                return Err(Status::bad_request(format!(
                    "{kind} in version \"{}\" cannot be handled as a {kind}: strict decoding error: {}",
                    version.name,
                    unknown.join(", "),
                    kind = kind.kind,
                )));
            }
        }
        Ok(())
    }

    fn name(&mut self, body: &mut Value) {
        let prefix = metadata::text(body, "generateName");
        if metadata::name(body).is_empty() && !prefix.is_empty() {
            const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
            let suffix: String = (0..5)
                .filter_map(|_| self.state.random.choice(ALPHABET))
                .copied()
                .map(char::from)
                .collect();
            let name = format!("{}{suffix}", prefix.chars().take(58).collect::<String>());
            metadata::set(body, "name", Some(name.into()));
        }
    }

    fn fill_system_fields(&mut self, kind: &Kind, namespace: Option<&str>, body: &mut Value) {
        for field in [
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "generation",
            "resourceVersion",
        ] {
            metadata::set(body, field, None);
        }
        let uid = self.state.uid();
        metadata::set(body, "namespace", namespace.map(Into::into));
        metadata::set(body, "uid", Some(uid.into()));
        metadata::set(body, "creationTimestamp", Some(metadata::time(self.now)));
        if kind.generation != Generation::None {
            metadata::set(body, "generation", Some(json!(1)));
        }
    }

    /// Refuses to create in a namespace that isn't there, or is on its way out.
    fn namespace_lives(&self, kind: &Kind, namespace: Option<&str>, name: &str) -> Result<(), Status> {
        let Some(namespace) = namespace else { return Ok(()) };
        let Some(object) = self.state.store.get(&NAMESPACES, &Key::new(None, namespace)) else {
            return Err(Status::not_found(&NAMESPACES, namespace));
        };
        if !metadata::is_terminating(object) {
            return Ok(());
        }
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        Err(
            Status::forbidden(&kind.resource, name, &why).with_causes(vec![Cause::new(
                "NamespaceTerminating",
                format!("namespace {namespace} is being terminated"),
                "metadata.namespace",
            )]),
        )
    }

    fn admit(
        &self,
        kind: &Kind,
        version: &Version,
        operation: Operation,
        old: Option<&Object>,
        body: &mut Value,
    ) -> Result<(), Status> {
        let name = metadata::name(body).to_owned();
        for hook in self.hooks {
            let changed = hook.review(&Review {
                operation,
                resource: &kind.resource,
                subresource: self.target.subresource,
                namespace: self.target.namespace,
                name: &name,
                old: old.map(|old| &**old),
                new: Some(body),
                user: &self.options.user,
                dry_run: self.options.dry_run,
                store: &self.state.store,
            })?;
            if let Some(changed) = changed {
                *body = changed;
                rules::default(kind, version, body);
            }
        }
        Ok(())
    }
}

impl State {
    /// Writes an object and does what follows from it.
    pub(super) fn commit(
        &mut self,
        kind: &Kind,
        key: &Key,
        old: Option<&Object>,
        mut body: Value,
        now: Timestamp,
    ) -> Object {
        if let (Some(version), Some(fields)) = (kind.storage(), body.as_object_mut()) {
            fields.insert("apiVersion".to_owned(), kind.api_version(version).into());
            fields.insert("kind".to_owned(), kind.kind.as_str().into());
        }
        let object = self.store.put(&kind.resource, key, body);
        self.owners
            .wrote(&kind.resource, key, old.map(|old| &**old), &object);
        if kind.resource == CRDS {
            self.accept_definition(key, &object, now);
        }
        object
    }

    /// Removes an object whose last state is `last`, and does what follows from it.
    pub(super) fn erase(&mut self, kind: &Kind, key: &Key, last: Value, _now: Timestamp) {
        if let Some(object) = self.store.remove(&kind.resource, key, last) {
            self.owners.removed(&kind.resource, key, &object);
            if kind.resource == CRDS {
                self.withdraw_definition(&object);
            }
        }
    }

    fn uid(&mut self) -> String {
        let bits = self.random.u128(..);
        // The version and variant of a random UUID.
        let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        format!(
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        )
    }
}

fn refuse_invalid(kind: &Kind, causes: Vec<Cause>, body: &Value) -> Result<(), Status> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(
        kind.group(),
        &kind.kind,
        metadata::name(body),
        causes,
    ))
}

/// Returns the version of a request: that of the path, or that of the body; the body must agree with the path.
fn version_of<'a>(kind: &'a Kind, version: Option<&str>, body: &Value) -> Result<&'a Version, Status> {
    let said = body["apiVersion"].as_str().unwrap_or_default();
    let version = match version {
        Some(version) => kind.served(version),
        None if said.is_empty() => kind.storage(),
        None => kind
            .versions
            .iter()
            .find(|version| kind.api_version(version) == said),
    };
    let version = version.ok_or_else(Status::no_such_resource)?;
    strategy::check_type(kind, version, body)?;
    Ok(version)
}

/// Puts back what clients can't change; a difference that a real server refuses is left for validation.
fn restore_system_fields(body: &mut Value, old: &Value) {
    for field in [
        "creationTimestamp",
        "generation",
        "selfLink",
        "resourceVersion",
        "deletionGracePeriodSeconds",
    ] {
        metadata::set(body, field, old["metadata"].get(field).cloned());
    }
    for field in ["uid", "deletionTimestamp"] {
        if body["metadata"][field].is_null() {
            metadata::set(body, field, old["metadata"].get(field).cloned());
        }
    }
}

/// Returns whether an object that is being deleted has nothing to wait for.
fn is_finished(object: &Value) -> bool {
    let held_by_spec = object["kind"] == "Namespace"
        && object["spec"]["finalizers"]
            .as_array()
            .is_some_and(|finalizers| !finalizers.is_empty());
    metadata::is_terminating(object) && metadata::finalizers(object).next().is_none() && !held_by_spec
}

fn rises(rule: Generation, old: &Value, new: &Value) -> bool {
    let content = |object: &Value| -> Vec<(String, Value)> {
        let fields = object.as_object().into_iter().flatten();
        let mut fields: Vec<(String, Value)> = fields
            .filter(|(name, _)| !matches!(name.as_str(), "metadata" | "status" | "apiVersion" | "kind"))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        fields.sort_by(|(left, _), (right, _)| left.cmp(right));
        fields
    };
    match rule {
        Generation::None => false,
        Generation::Content => content(old) != content(new),
        Generation::ContentAndAnnotations => {
            content(old) != content(new) || old["metadata"]["annotations"] != new["metadata"]["annotations"]
        }
    }
}
