//! Create, update and patch: one pipeline that every write goes through.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::admission::attributes::{self, Attributes};
use super::admission::{self, Operation, Review};
use super::commit::{is_released, is_same, raise_generation, restore_identity};
use super::registry::{self, Kind, NAMESPACES, SERVICES, Version};
use super::rules::{Ownership, patch_untyped};
use super::status::{Cause, Reason, Status};
use super::strategy::Said;
use super::{
    Admission, ApiServer, FieldValidation, Object, Patch, Resource, State, Subresource, WriteOptions, apply,
    builtin, metadata, object_meta, owners, scale, schema, services, strategy,
};
use crate::store::Key;

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
        mut body: Value,
        options: &WriteOptions,
    ) -> Result<Object, Status> {
        owners::unpack(&mut body);
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
        mut body: Value,
        options: &WriteOptions,
    ) -> Result<Object, Status> {
        owners::unpack(&mut body);
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
        let said = strategy::type_of(&body);
        self.write(target, options, &said, |write| {
            let mut body = body;
            write.check_body(&mut body)?;
            write.create(body, Owned::ByChange)
        })
    }

    pub(super) fn update_at(
        &self,
        target: Target<'_>,
        body: Value,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        if target.subresource == Some(Subresource::Scale) {
            return self.write(target, options, &Said::default(), |write| {
                write.scale(true, |_| Ok(body))
            });
        }
        let said = strategy::type_of(&body);
        self.write(target, options, &said, |write| write.update(body))
    }

    pub(super) fn patch_at(
        &self,
        target: Target<'_>,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        if target.subresource == Some(Subresource::Scale) {
            return self.write(target, options, &Said::default(), |write| {
                write.scale(false, |scale| {
                    patch_untyped(scale, patch, options.field_validation)
                })
            });
        }
        match patch {
            Patch::Apply(configuration) => {
                let said = strategy::type_of(configuration);
                self.write(target, options, &said, |write| write.apply(configuration))
            }
            _ => self.write(target, options, &Said::default(), |write| write.patch(patch)),
        }
    }

    /// Runs a write; `said` is what the body says of its type, if there is one.
    fn write(
        &self,
        target: Target<'_>,
        options: &WriteOptions,
        said: &Said,
        run: impl FnOnce(&mut Write<'_>) -> Result<Written, Status>,
    ) -> Result<Written, Status> {
        let hooks = self.hooks();
        let now = self.now();
        self.with(|state| {
            let kind = state.served(target.resource)?;
            let version = strategy::version_of(&kind, target.version, said)?;
            if !strategy::has_subresource(&kind, version, target.subresource) {
                return Err(Status::no_such_resource());
            }
            let mut write = Write {
                state,
                said,
                kind: &kind,
                version,
                target,
                options,
                hooks: &hooks,
                now,
                warnings: Vec::new(),
                fractions: false,
            };
            match run(&mut write) {
                Ok(written) => Ok(Written {
                    warnings: write.warnings,
                    ..written
                }),
                Err(status) => Err(Status {
                    warnings: write.warnings,
                    ..status
                }),
            }
        })
    }
}

/// One write in progress.
struct Write<'a> {
    state: &'a mut State,
    kind: &'a Kind,
    version: &'a Version,
    target: Target<'a>,
    options: &'a WriteOptions,
    hooks: &'a [Arc<dyn Admission>],
    now: Timestamp,
    warnings: Vec<String>,
    /// What the body says of its type.
    said: &'a Said,
    /// Whether the body has whole numbers with a fraction, which differ from those without for a real server.
    fractions: bool,
}

/// Returns whether a write is for one version of an object only; 0 is none.
fn is_conditional(body: &Value) -> bool {
    !matches!(metadata::text(body, "resourceVersion"), "" | "0")
}

/// How the owners of fields are found out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owned {
    /// Whoever writes owns what the write changes.
    ByChange,
    /// They are recorded already.
    Recorded,
}

impl Write<'_> {
    fn create(&mut self, mut body: Value, owned: Owned) -> Result<Written, Status> {
        let (kind, version) = (self.kind, self.version);
        let namespace = self.namespace_of(&body)?.map(str::to_owned);
        // An update that creates has no say in it.
        let versioned = owned == Owned::ByChange && self.target.name.is_empty() && is_conditional(&body);
        let revision = body["metadata"].get("resourceVersion").cloned();
        strategy::prepare_defaults(kind, version, &mut body);
        self.fill_defaults(&mut body);
        self.state.generate_name(&mut body);
        self.state
            .identify(kind, namespace.as_deref(), &mut body, self.now);
        if owned == Owned::ByChange {
            version.rules.own(None, &mut body, version, &self.ownership());
        }
        strategy::prepare_create(kind, version, &mut body);
        self.admit(Operation::Create, None, &mut body)?;
        self.namespace_lives(namespace.as_deref(), metadata::name(&body))?;
        self.allocate(None, &mut body)?;
        self.refuse_invalid(None, &body)?;
        let empty = self.tidy(&mut body);
        if self.options.dry_run {
            // What isn't stored keeps what was said of its version.
            metadata::set(&mut body, "resourceVersion", revision);
        }

        let key = metadata::key(&body);
        let body = Arc::new(body);
        self.obey(Operation::Create, None, &body)?;
        if versioned && !self.options.dry_run {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Status::new(500, Reason::Unknown, message));
        }
        if let Some(present) = self.state.store.get(&kind.resource, &key) {
            let mut status = Status::already_exists(&kind.resource, &key.name);
            if metadata::is_terminating(&present) {
                status.message = format!("object is being deleted: {}", status.message);
            }
            return Err(status);
        }
        let object = if self.options.dry_run {
            body
        } else {
            self.state.keep_empty(kind, &key, empty);
            self.state
                .commit(kind, &key, None, Arc::unwrap_or_clone(body), self.now)
        };
        Ok(Written {
            object,
            created: true,
            warnings: Vec::new(),
        })
    }

    /// Replaces an object with the body of a PUT.
    fn update(&mut self, mut body: Value) -> Result<Written, Status> {
        let kind = self.kind;
        self.check_body(&mut body)?;
        self.namespace_of(&body)?;
        self.check_named(&body)?;
        let key = self.check_identity(&body)?;
        let old = match self.state.existing(kind, &key) {
            Ok(old) => Some(old),
            Err(status) if !kind.created_by_update || !status.is_not_found() => return Err(status),
            Err(_) => None,
        };
        let wanted = metadata::uid(&body);
        let present = old.as_ref().map(|old| metadata::uid(old)).unwrap_or_default();
        if !wanted.is_empty() && wanted != present {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
                 failed: UID in precondition: {wanted}, UID in object meta: {present}",
                strategy::place_of(kind, &key, self.options.dry_run)
            );
            return Err(Status::conflict(&kind.resource, &key.name, &why));
        }
        let Some(old) = old else {
            return self.create(body, Owned::ByChange);
        };
        self.check_conditional(&body, &key)?;
        self.replace(&key, &old, body, Owned::ByChange)
    }

    fn patch(&mut self, patch: &Patch) -> Result<Written, Status> {
        let key = Key::new(self.target.namespace, self.target.name);
        let old = self.state.existing(self.kind, &key)?;
        let base = owners::unpacked(&registry::convert(self.kind, &old, &self.version.name));
        let mut body = self
            .version
            .rules
            .patch(&base, patch, self.options.field_validation)?;
        self.check_kind(&body)?;
        self.check_patched(&mut body)?;
        self.check_named(&body)?;
        self.check_identity(&body)?;
        self.check_conditional(&body, &key)?;
        self.replace(&key, &old, body, Owned::ByChange)
    }

    fn apply(&mut self, configuration: &Value) -> Result<Written, Status> {
        let (kind, version) = (self.kind, self.version);
        if self.options.manager.is_empty() {
            let cause = Cause::required("fieldManager", "is required for apply patch");
            return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", vec![cause]));
        }
        let key = Key::new(self.target.namespace, self.target.name);
        if self.target.subresource.is_some() && !kind.created_by_update {
            self.state.existing(kind, &key)?;
        }
        strategy::check_applied(kind, version, configuration)?;
        let ownership = self.ownership();
        let force = self.options.force;
        if let Some(old) = self.state.store.get(&kind.resource, &key) {
            let live = registry::convert(kind, &old, &version.name);
            let body = version
                .rules
                .apply(Some(&live), configuration, version, &ownership, force)?;
            self.check_repeated()?;
            self.namespace_of(&body)?;
            self.check_named(&body)?;
            self.check_identity(&body)?;
            if !metadata::text(configuration, "resourceVersion").is_empty() {
                self.check_conditional(&body, &key)?;
            }
            return self.replace(&key, &old, body, Owned::Recorded);
        }
        let body = version
            .rules
            .apply(None, configuration, version, &ownership, force)?;
        self.check_repeated()?;
        let wanted = metadata::uid(configuration);
        if !wanted.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {wanted}, and no existing object was found"
            );
            return Err(Status::conflict(&kind.resource, &key.name, &why));
        }
        self.namespace_of(&body)?;
        self.check_named(&body)?;
        self.check_identity(&body)?;
        self.create(body, Owned::Recorded)
    }

    /// Tells what stands in an applied configuration twice, in the words of a reader of YAML.
    fn check_repeated(&mut self) -> Result<(), Status> {
        let repeated = self.options.duplicates.iter();
        // The text is JSON in one line.
        let repeated = repeated.map(|field| format!("line 1: key {:?} already set in map", field.name));
        match self.options.field_validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => self.warnings.extend(repeated),
            FieldValidation::Strict => {
                let repeated: Vec<String> = repeated.map(|line| format!("\n  {line}")).collect();
                if !repeated.is_empty() {
                    let why =
                        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:";
                    return Err(Status::bad_request(format!("{why}{}", repeated.concat())));
                }
            }
        }
        Ok(())
    }

    /// Writes an object through its scale, which is replaced or patched.
    fn scale(
        &mut self,
        replaced: bool,
        change: impl FnOnce(&Value) -> Result<Value, Status>,
    ) -> Result<Written, Status> {
        let paths = self.version.scale.as_ref().ok_or_else(Status::no_such_resource)?;
        let key = Key::new(self.target.namespace, self.target.name);
        let old = self.state.existing(self.kind, &key)?;
        let wanted = change(&scale::of(&old, paths))?;
        let mut body = (*owners::unpacked(&old)).clone();
        scale::write(&mut body, paths, &wanted);
        metadata::set(
            &mut body,
            "resourceVersion",
            wanted["metadata"].get("resourceVersion").cloned(),
        );
        if !metadata::text(&body, "resourceVersion").is_empty() {
            self.check_conditional(&body, &key)?;
        }
        let ownership = self.ownership();
        apply::scaled(
            &old,
            &mut body,
            &paths.spec_replicas,
            ownership.writer(),
            replaced,
        );
        let written = self.replace(&key, &old, body, Owned::Recorded)?;
        Ok(Written {
            object: Arc::new(scale::of(&written.object, paths)),
            ..written
        })
    }

    /// Writes the new state of an object that exists.
    fn replace(&mut self, key: &Key, old: &Object, mut body: Value, owned: Owned) -> Result<Written, Status> {
        let (kind, version) = (self.kind, self.version);
        let wanted = metadata::text(&body, "resourceVersion");
        if is_conditional(&body) && wanted != metadata::text(old, "resourceVersion") {
            return Err(Status::modified(&kind.resource, &key.name));
        }
        restore_identity(&mut body, old);
        strategy::set_type(kind, version, &mut body);
        // A namespace without finalizers would get them back.
        if self.target.subresource != Some(Subresource::Finalize) {
            self.fill_defaults(&mut body);
        }
        if owned == Owned::ByChange {
            version
                .rules
                .own(Some(old), &mut body, version, &self.ownership());
        }
        strategy::separate(kind, version, self.target.subresource, old, &mut body);
        self.admit(Operation::Update, Some(old), &mut body)?;
        self.allocate(Some(old), &mut body)?;
        self.refuse_invalid(Some(old), &body)?;
        let empty = self.tidy(&mut body);
        if self.target.subresource != Some(Subresource::Status) {
            raise_generation(kind.generation, old, &mut body, self.fractions);
        }
        let body = Arc::new(body);
        self.obey(Operation::Update, Some(old), &body)?;

        let object = if is_same(old, &body) && !self.fractions && empty == self.state.kept_empty(kind, key) {
            Arc::clone(old)
        } else if self.options.dry_run {
            body
        } else if metadata::is_terminating(&body) && is_released(kind, &body) {
            // Watches are told what was there before the last finalizer went.
            self.state.erase(kind, key, (**old).clone());
            body
        } else {
            self.state.keep_empty(kind, key, empty);
            self.state
                .commit(kind, key, Some(old), Arc::unwrap_or_clone(body), self.now)
        };
        Ok(Written {
            object,
            created: false,
            warnings: Vec::new(),
        })
    }

    /// Gives a Service the addresses and ports that it needs.
    fn allocate(&mut self, old: Option<&Object>, body: &mut Value) -> Result<(), Status> {
        if self.kind.resource != SERVICES || self.target.subresource.is_some() {
            return Ok(());
        }
        let old = old.map(|old| &**old);
        self.state.services.allocate(old, body, self.options.dry_run)
    }

    /// Fills in what the client left out, unless it speaks of something else.
    fn fill_defaults(&self, body: &mut Value) {
        let said = self.said.kind.as_ref();
        if said.is_none_or(|said| *said == self.kind.kind) {
            self.version.rules.fill_defaults(body);
        }
    }

    /// Leaves out of a valid body what isn't kept, and returns the empty parts of its metadata.
    fn tidy(&self, body: &mut Value) -> BTreeSet<String> {
        // Conversion to the stored version loses them.
        let empty = if self.kind.custom && self.version.storage {
            object_meta::empty_fields(body)
        } else {
            BTreeSet::new()
        };
        self.version.rules.tidy(body);
        if self.kind.resource == SERVICES {
            services::tidy(body);
        }
        empty
    }

    fn ownership(&self) -> Ownership {
        Ownership {
            manager: self.options.manager.clone(),
            api_version: self.kind.api_version(self.version),
            subresource: self.target.subresource,
            now: self.now,
        }
    }

    /// Refuses a body without a name.
    fn check_named(&self, body: &Value) -> Result<(), Status> {
        if !metadata::name(body).is_empty() {
            return Ok(());
        }
        Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            self.target.name
        )))
    }

    /// Refuses what a patch has made when it no longer says what it is.
    fn check_kind(&self, body: &Value) -> Result<(), Status> {
        if !self.kind.custom || body["kind"].as_str().is_some_and(|kind| !kind.is_empty()) {
            return Ok(());
        }
        let patched = body.to_string();
        let why = format!("Object 'Kind' is missing in '{patched}'");
        let cause = Cause::invalid_value("patch", &patched.into(), &why);
        Err(Status::invalid("", "", "", vec![cause]))
    }

    /// Refuses a body without a resourceVersion, if the kind has to have one.
    fn check_conditional(&self, body: &Value, key: &Key) -> Result<(), Status> {
        let kind = self.kind;
        if is_conditional(body) || kind.unconditional_update {
            return Ok(());
        }
        let why = "must be specified for an update";
        let cause = Cause::invalid_value("metadata.resourceVersion", &json!(0), why);
        Err(Status::invalid(
            kind.group(),
            &kind.resource.plural,
            &key.name,
            vec![cause],
        ))
    }

    /// Sees to it that the body is about the object of the request, as far as it says.
    fn check_identity(&self, body: &Value) -> Result<Key, Status> {
        let namespace = self.namespace_of(body)?;
        let name = metadata::name(body);
        if !name.is_empty() && name != self.target.name {
            return Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                self.target.name
            )));
        }
        Ok(Key::new(namespace, self.target.name))
    }

    fn namespace_of(&self, body: &Value) -> Result<Option<&str>, Status> {
        let said = metadata::text(body, "namespace");
        match self.target.namespace.filter(|namespace| !namespace.is_empty()) {
            _ if !self.kind.namespaced => Ok(None),
            None => Err(Status::bad_request(
                "an empty namespace may not be set during creation",
            )),
            Some(namespace) if said.is_empty() || said == namespace => Ok(Some(namespace)),
            Some(_) => Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            )),
        }
    }

    /// Sees to it that a body is of the kind, and drops what its schema doesn't know, as loudly as the client wishes.
    fn check_body(&mut self, body: &mut Value) -> Result<(), Status> {
        // Callers in this program needn't say what they send.
        if self.target.version.is_some() {
            let lenient = self.options.field_validation == FieldValidation::Ignore;
            strategy::check_type(self.kind, self.version, self.said, body, lenient)?;
        }
        let (kind, version) = (&self.kind.kind, &self.version.name);
        let refusal = format!("{kind} in version \"{version}\" cannot be handled as a {kind}: ");
        let schema = match self.target.version {
            Some(_) => strategy::schema_of(self.kind, self.version, self.said),
            None => Some(self.version),
        };
        match schema {
            Some(schema) => self.drop_unknown(schema, body, |why| Status::bad_request(refusal + &why))?,
            None => {
                let unknown = strategy::unknown_to_none(self.kind, self.said, body);
                self.tell_unknown(&unknown, |why| Status::bad_request(refusal + &why))?;
            }
        }
        if self.target.version.is_some() {
            strategy::check_version(self.kind, self.version, self.said)?;
        }
        Ok(())
    }

    /// Does the same for what a patch has made; a strict refusal has other words then.
    fn check_patched(&mut self, body: &mut Value) -> Result<(), Status> {
        let patched = body.to_string();
        self.drop_unknown(self.version, body, |why| {
            Status::invalid(
                "",
                "",
                "",
                vec![Cause::invalid_value("patch", &patched.into(), &why)],
            )
        })
    }

    fn drop_unknown(
        &mut self,
        version: &Version,
        body: &mut Value,
        refuse: impl FnOnce(String) -> Status,
    ) -> Result<(), Status> {
        self.fractions = self.kind.custom && schema::has_fractions_of_nothing(body);
        let unknown = match version.rules.read(body) {
            Ok(unknown) => unknown,
            Err(why) => return Err(refuse(why)),
        };
        self.tell_unknown(&unknown, refuse)
    }

    /// Tells of unknown fields, and of those that stand twice.
    fn tell_unknown(
        &mut self,
        unknown: &[String],
        refuse: impl FnOnce(String) -> Status,
    ) -> Result<(), Status> {
        let duplicates = self.options.duplicates.iter();
        let duplicates = duplicates.map(|field| format!("duplicate field \"{}\"", field.path));
        let unknown = unknown.iter().map(|field| format!("unknown field \"{field}\""));
        let unknown: Vec<String> = duplicates.chain(unknown).collect();
        match self.options.field_validation {
            FieldValidation::Strict if !unknown.is_empty() => {
                return Err(refuse(format!("strict decoding error: {}", unknown.join(", "))));
            }
            FieldValidation::Warn => self.warnings.extend(unknown),
            FieldValidation::Strict | FieldValidation::Ignore => {}
        }
        Ok(())
    }

    /// Refuses to create in a namespace that isn't there, or is on its way out.
    fn namespace_lives(&self, namespace: Option<&str>, name: &str) -> Result<(), Status> {
        let Some(namespace) = namespace else { return Ok(()) };
        let Some(object) = self.state.store.get(&NAMESPACES, &Key::new(None, namespace)) else {
            return Err(Status::not_found(&NAMESPACES, namespace));
        };
        if !metadata::is_terminating(&object) {
            return Ok(());
        }
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = Cause::new(
            "NamespaceTerminating",
            format!("namespace {namespace} is being terminated"),
            "metadata.namespace",
        );
        Err(Status::forbidden(&self.kind.resource, name, &why).with_causes(vec![cause]))
    }

    fn admit(&self, operation: Operation, old: Option<&Object>, body: &mut Value) -> Result<(), Status> {
        let review = Review {
            operation,
            resource: &self.kind.resource,
            subresource: self.target.subresource,
            namespace: self.target.namespace,
            name: metadata::name(body),
            old: old.map(|old| &**old),
            new: Some(body),
            user: &self.options.user,
            dry_run: self.options.dry_run,
            store: &self.state.store,
        };
        if let Some(changed) = admission::ask(self.hooks, &review)? {
            *body = changed;
            self.version.rules.fill_defaults(body);
        }
        Ok(())
    }

    /// Asks the admission policies, the last to have a say.
    fn obey(&mut self, operation: Operation, old: Option<&Object>, body: &Object) -> Result<(), Status> {
        let said = match operation {
            Operation::Create => "CreateOptions",
            Operation::Update | Operation::Delete => "UpdateOptions",
        };
        let namespace = if self.kind.resource == NAMESPACES {
            metadata::name(body)
        } else {
            metadata::text(body, "namespace")
        };
        // A creation is named by its body, and has no name while that is still to be generated.
        let name = match self.target.name {
            "" => self.said.name.as_str(),
            name => name,
        };
        let attributes = Attributes {
            operation,
            kind: self.kind,
            version: self.version,
            subresource: self.target.subresource,
            namespace,
            name,
            object: Some(body),
            old,
            options: attributes::write_options(said, self.options),
            dry_run: self.options.dry_run,
            user: &self.options.user,
        };
        let State {
            store,
            registry,
            policies,
            ..
        } = &mut *self.state;
        self.warnings
            .extend(policies.review(&attributes, store, registry)?);
        Ok(())
    }

    fn refuse_invalid(&mut self, old: Option<&Object>, body: &Value) -> Result<(), Status> {
        if let Some(said) = &self.said.kind
            && *said != self.kind.kind
        {
            let why = format!("must be {}", self.kind.kind);
            let mut causes = vec![Cause::invalid_value("kind", &said.as_str().into(), &why)];
            causes.extend(self.version.rules.broken(body, old.map(|old| &**old)));
            let name = metadata::name(body);
            return Err(Status::invalid(self.kind.group(), said, name, causes));
        }
        let causes = self.version.rules.validate(
            self.kind,
            self.version.scale.as_ref(),
            self.target.subresource,
            body,
            old.map(|old| &**old),
        );
        if causes.is_empty() {
            if self.target.subresource.is_none() || old.is_none() {
                let old = old.map(|old| &**old);
                self.warnings.extend(object_meta::warnings(self.kind, body, old));
                if self.kind.resource == SERVICES {
                    self.warnings.extend(builtin::services::warnings(body));
                }
            }
            return Ok(());
        }
        Err(Status::invalid(
            self.kind.group(),
            &self.kind.kind,
            metadata::name(body),
            causes,
        ))
    }
}
