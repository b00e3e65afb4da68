//! Where the verbs meet the pure rules: schemas, patches, field ownership, selectors.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::apply::{self, ApplyError, Resets, Writer};
use super::builtin::{self, BuiltIn};
use super::patch::{self, PatchError};
use super::registry::{CRDS, Generation, Kind, ScalePaths, Version};
use super::schema::{self, FieldError, Schema};
use super::selector::{FieldSelector, Selector, selectable_fields};
use super::status::{Cause, Reason, Status};
use super::table::{Column, built_in_columns, crd_columns};
use super::{FieldValidation, Object, Patch, Resource, Subresource, crd, metadata, object_meta, scale};
use crate::store::Key;

/// What is known of the objects of one version of a kind.
#[derive(Clone, Debug)]
pub struct Rules {
    pub schema: Arc<Schema>,
    /// The schema as the CRD has it.
    pub source: Arc<Value>,
    /// What `kubectl get` prints.
    pub columns: Arc<[Column]>,
    /// The fields that a field selector may name, beside name and namespace.
    selectable: Vec<String>,
    built_in: Option<&'static BuiltIn>,
}

/// Mistakes after which rules are not run: they may rely on what is missing.
const BLOCKING: &[&str] = &[
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
];

const NOT_CHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing \
    errors to complete validation";

/// Who comes to own the fields of a write.
#[derive(Clone, Debug)]
pub(super) struct Ownership {
    pub manager: String,
    pub api_version: String,
    pub subresource: Option<Subresource>,
    pub now: Timestamp,
}

impl Rules {
    /// Reads a version of a CRD; `field` is where it stands in the CRD.
    pub(super) fn of_crd_version(version: &Value, field: &str) -> Result<Self, Vec<Cause>> {
        let source = &version["schema"]["openAPIV3Schema"];
        let of_schema = format!("{field}.schema.openAPIV3Schema");
        if source.is_null() {
            return Err(vec![Cause::required(of_schema, "schemas are required")]);
        }
        let schema = Schema::of_crd(source).map_err(|errors| {
            let below = |error: FieldError| FieldError {
                field: format!("{of_schema}.{}", error.field),
                ..error
            };
            errors
                .into_iter()
                .map(|error| cause(&below(error)))
                .collect::<Vec<_>>()
        })?;
        let columns = crd_columns(version).map_err(|(column, why)| {
            let path = &version["additionalPrinterColumns"][column]["jsonPath"];
            let field = format!("{field}.additionalPrinterColumns[{column}].jsonPath");
            vec![Cause::invalid_value(field, path, &why)]
        })?;
        let paths = version["selectableFields"].as_array().into_iter().flatten();
        Ok(Self {
            schema: Arc::new(schema),
            source: Arc::new(source.clone()),
            columns: columns.into(),
            selectable: paths
                .filter_map(|path| path["jsonPath"].as_str())
                .map(|path| path.trim_start_matches('.').to_owned())
                .collect(),
            built_in: None,
        })
    }

    /// Drops what the schema doesn't know and returns the paths of that, or says why this isn't of the kind at all.
    pub(super) fn read(&self, body: &mut Value) -> Result<Vec<String>, String> {
        let error = match self.built_in {
            Some(_) => self.schema.decode_error(body),
            // Of a custom resource only the metadata has a Go type.
            None => builtin::object_meta().decode_error(&body["metadata"]),
        };
        if let Some(error) = error {
            return Err(error);
        }
        let unknown = self.schema.prune(body);
        if self.built_in.is_none() {
            self.schema.tidy_embedded(body);
        }
        if self.built_in.is_some() {
            self.schema.zero_nulls(body);
        }
        self.schema.drop_nulls(body);
        object_meta::tidy(body);
        self.simplify(body);
        Ok(unknown)
    }

    /// Leaves out what Go types don't hold: zeros that aren't told from nothing, fractions of whole numbers.
    fn simplify(&self, body: &mut Value) {
        if self.built_in.is_some() {
            self.schema.drop_zeros(body);
            self.schema.canonical_quantities(body);
        } else {
            schema::whole_numbers(body);
        }
    }

    /// Leaves out what isn't written to the store, though validation has seen it: what is empty.
    pub(super) fn tidy(&self, body: &mut Value) {
        object_meta::tidy(body);
        if self.built_in.is_some() {
            self.schema.drop_empty(body);
        } else {
            self.schema.drop_nulls(body);
        }
    }

    /// Fills in what the client left out.
    pub(super) fn fill_defaults(&self, body: &mut Value) {
        match self.built_in {
            Some(kind) => kind.default(body),
            None => self.schema.fill_defaults(body),
        }
    }

    /// Returns what is wrong with an object that is written through a subresource or as a whole; `old` is what it
    /// replaces.
    pub(super) fn validate(
        &self,
        kind: &Kind,
        scale: Option<&ScalePaths>,
        subresource: Option<Subresource>,
        body: &Value,
        old: Option<&Value>,
    ) -> Vec<Cause> {
        let mut causes = object_meta::validate(kind, body, old);
        let errors = match self.built_in {
            Some(built_in) => builtin::validate(built_in, body, old),
            None => {
                let whole = subresource != Some(Subresource::Status);
                let mut errors = if whole {
                    self.schema.check(body, old)
                } else {
                    self.schema.check_status(body, old)
                };
                // Metadata is checked by itself, not by the schema.
                errors.retain(|error| !error.field.starts_with("metadata."));
                errors.extend(
                    scale
                        .into_iter()
                        .flat_map(|paths| scale::check(body, paths, whole)),
                );
                errors
            }
        };
        causes.extend(errors.iter().map(cause));
        self.run_rules(body, old, &mut causes);
        if kind.resource == CRDS {
            causes.extend(crd::validate(body));
        }
        causes
    }

    /// Returns what is wrong with an object that isn't of the kind, and is looked at all the same.
    pub(super) fn broken(&self, body: &Value, old: Option<&Value>) -> Vec<Cause> {
        let errors = self.schema.check_structure(body, old);
        let mut causes = errors.iter().map(cause).collect();
        self.run_rules(body, old, &mut causes);
        causes
    }

    /// Runs the rules of a custom resource, unless something is wrong with what they may rely on.
    fn run_rules(&self, body: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
        if self.built_in.is_some() || !self.schema.has_rules() {
            return;
        }
        let blocks = |cause: &Cause| BLOCKING.contains(&cause.reason.as_str());
        if causes.iter().any(blocks) {
            causes.push(Cause::invalid_value("<nil>", &Value::Null, NOT_CHECKED));
        } else {
            causes.extend(self.schema.check_rules(body, old).iter().map(cause));
        }
    }

    /// Records who owns what a create, an update or a patch changes.
    pub(super) fn own(
        &self,
        old: Option<&Value>,
        body: &mut Value,
        version: &Version,
        ownership: &Ownership,
    ) {
        let mut tidy = body.clone();
        self.tidy(&mut tidy);
        apply::update_from(
            old,
            &self.blank(),
            &mut tidy,
            &self.schema,
            ownership.writer(),
            ownership.resets(self.built_in, version),
        );
        metadata::set(
            body,
            "managedFields",
            tidy["metadata"].get("managedFields").cloned(),
        );
    }

    /// Returns what an object with nothing in it still has.
    fn blank(&self) -> Value {
        self.built_in
            .map_or_else(|| Value::Object(Map::new()), BuiltIn::blank)
    }

    /// Returns the object that an apply makes of the live one, with its owners.
    pub(super) fn apply(
        &self,
        live: Option<&Value>,
        configuration: &Value,
        version: &Version,
        ownership: &Ownership,
        force: bool,
    ) -> Result<Value, Status> {
        let resets = ownership.resets(self.built_in, version);
        let mut configuration = configuration.clone();
        schema::whole_numbers(&mut configuration);
        apply::apply(
            live,
            &self.blank(),
            &configuration,
            &self.schema,
            ownership.writer(),
            resets,
            force,
        )
        .map(|mut applied| {
            self.simplify(&mut applied);
            applied
        })
        .map_err(refused_apply)
    }

    /// Returns an object as a patch changes it.
    pub(super) fn patch(
        &self,
        object: &Value,
        change: &Patch,
        validation: FieldValidation,
    ) -> Result<Value, Status> {
        match change {
            Patch::Strategic(change) if self.built_in.is_some() => {
                patch::strategic(object, change, &self.schema).map_err(|error| refused_patch(&error))
            }
            change => patch_untyped(object, change, validation),
        }
    }
}

impl Ownership {
    pub(super) fn writer(&self) -> Writer<'_> {
        Writer {
            manager: &self.manager,
            api_version: &self.api_version,
            subresource: self.subresource.map(Subresource::as_str),
            now: self.now,
        }
    }

    fn resets(&self, built_in: Option<&BuiltIn>, version: &Version) -> Resets {
        match self.subresource {
            Some(Subresource::Status) => match built_in {
                None => Resets::AllButStatus,
                Some(kind) if kind.plural == "deployments" => Resets::SpecAndLabels,
                Some(_) => Resets::Spec,
            },
            None if version.status => Resets::Status,
            _ => Resets::Nothing,
        }
    }
}

/// Returns a value without a schema as a patch changes it.
pub(super) fn patch_untyped(
    object: &Value,
    change: &Patch,
    validation: FieldValidation,
) -> Result<Value, Status> {
    let patched = match change {
        Patch::Json(operations) => patch::json(object, operations),
        Patch::Merge(change) => patch::merge(object, change),
        Patch::Strategic(_) | Patch::Apply(_) => {
            let accepted = ["application/json-patch+json", "application/merge-patch+json"];
            return Err(Status::unsupported_media_type(&accepted));
        }
    };
    patched.map_err(|error| match (error, change) {
        // What isn't checked for unknown fields is first read by the patch's own library.
        (PatchError::Decode(_), Patch::Merge(_)) if validation == FieldValidation::Ignore => {
            Status::bad_request("Invalid JSON Patch")
        }
        (PatchError::Decode(why), _) if validation == FieldValidation::Ignore => Status::bad_request(why),
        (error, _) => refused_patch(&error),
    })
}

/// Which objects a list or a watch is about.
#[derive(Debug)]
pub(super) struct Selection {
    namespace: Option<String>,
    labels: Selector,
    fields: FieldSelector,
}

impl Selection {
    pub(super) fn parse(
        kind: &Kind,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
    ) -> Result<Self, Status> {
        let bad_request = |error: &dyn std::fmt::Display| Status::bad_request(error.to_string());
        let labels = Selector::parse(labels).map_err(|error| bad_request(&error))?;
        let fields = FieldSelector::parse(fields).map_err(|error| bad_request(&error))?;
        let known = kind
            .storage()
            .map(|version| version.rules.selectable.as_slice())
            .unwrap_or_default();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        if let Some(error) = fields.unsupported(&known) {
            let field = error.to_string().replace("field label not supported: ", "");
            if kind.custom || !known.is_empty() {
                return Err(bad_request(&error));
            }
            let message = format!(
                "\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            );
            return Err(Status::bad_request(message));
        }
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            labels,
            fields,
        })
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        let namespace = self.namespace.as_deref();
        namespace.is_none_or(|namespace| metadata::text(object, "namespace") == namespace)
            && (self.labels.is_empty() || self.labels.selects(object))
            && (self.fields.is_empty() || self.fields.selects(object))
    }

    /// Returns whether an object matches, which is read only where its key doesn't decide.
    pub(super) fn takes(&self, key: &Key, object: impl FnOnce() -> Object) -> bool {
        let namespace = self.namespace.as_deref();
        namespace.is_none_or(|namespace| key.namespace == namespace)
            && (self.is_everything() || self.matches(&object()))
    }

    /// Returns whether neither labels nor fields are selected.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}

/// Returns the kinds that every server has.
pub(super) fn built_in_kinds() -> impl Iterator<Item = Kind> {
    builtin::KINDS.iter().map(built_in_kind)
}

fn built_in_kind(kind: &'static BuiltIn) -> Kind {
    let resource = Resource::new(kind.group, kind.plural);
    Kind {
        kind: kind.kind.to_owned(),
        list_kind: format!("{}List", kind.kind),
        singular: kind.singular(),
        short_names: kind.short_names.iter().map(|&name| name.to_owned()).collect(),
        categories: kind
            .categories
            .iter()
            .map(|&category| category.to_owned())
            .collect(),
        namespaced: kind.namespaced,
        custom: false,
        generation: match kind.generation {
            builtin::Generation::Never => Generation::None,
            builtin::Generation::Spec => Generation::Content,
            builtin::Generation::SpecAndAnnotations => Generation::ContentAndAnnotations,
        },
        created_by_update: matches!(
            kind.plural,
            "clusterrolebindings"
                | "clusterroles"
                | "endpoints"
                | "events"
                | "leases"
                | "limitranges"
                | "rolebindings"
                | "roles"
                | "services"
        ),
        unconditional_update: resource != CRDS
            && kind.plural != "leases"
            && !kind.plural.starts_with("validatingadmissionpolic"),
        versions: vec![Version {
            name: kind.version.to_owned(),
            served: true,
            storage: true,
            status: kind.status,
            scale: kind.scale.then(|| ScalePaths {
                spec_replicas: "/spec/replicas".to_owned(),
                status_replicas: "/status/replicas".to_owned(),
                selector: Some("/spec/selector".to_owned()),
            }),
            rules: Rules {
                schema: kind.schema(),
                source: Arc::default(),
                columns: built_in_columns(kind.group, kind.plural).into(),
                selectable: selectable_fields(kind.group, kind.plural)
                    .iter()
                    .map(|&path| path.to_owned())
                    .collect(),
                built_in: Some(kind),
            },
        }],
        resource,
    }
}

pub(super) fn cause(error: &FieldError) -> Cause {
    Cause::new(error.mistake.reason(), error.body(), error.field.clone())
}

fn refused_apply(error: ApplyError) -> Status {
    let message = error.to_string();
    match error {
        ApplyError::Conflicts(conflicts) => {
            let cause = |conflict: apply::Conflict| {
                Cause::new("FieldManagerConflict", conflict.message(), conflict.field())
            };
            Status::new(409, Reason::Conflict, message)
                .with_causes(conflicts.into_iter().map(cause).collect())
        }
        ApplyError::BadRequest(_) => Status::bad_request(message),
        // As a real server answers: without a reason.
        ApplyError::Untyped(_) => Status::new(500, Reason::Unknown, message),
    }
}

fn refused_patch(error: &PatchError) -> Status {
    match error {
        PatchError::Rejected(_) => Status::patch_failed(),
        PatchError::Decode(_) => Status::bad_request(error.to_string()),
        PatchError::MissingKey(_) => Status::new(500, Reason::Unknown, error.to_string()),
    }
}
