//! The paths of a kind: which requests it takes, with their parameters.

use serde_json::{Map, Value, json};

use super::super::builtin::OBJECT_META;
use super::{Served, definition_name, type_of};

/// The definitions that operations refer to.
pub(super) const REFERRED: &[&str] = &[
    OBJECT_META,
    STATUS,
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    SCALE,
];

const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// The two generations of documents differ in where they put schemas and bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    V2,
    V3,
}

/// What an operation answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Object,
    List,
    Status,
}

/// One request that a path takes.
struct Operation {
    method: &'static str,
    /// `x-kubernetes-action`.
    action: &'static str,
    parameters: &'static [Parameter],
    body: Body,
    answer: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    None,
    Object,
    Patch,
    DeleteOptions,
}

/// A query parameter: its name, its type and what it is for.
type Parameter = (&'static str, &'static str, &'static str);

const DRY_RUN: Parameter = (
    "dryRun",
    "string",
    "When present, modifications are not persisted. The only valid value is All.",
);
const FIELD_MANAGER: Parameter = ("fieldManager", "string", "The actor that makes the change.");
const FIELD_VALIDATION: Parameter = (
    "fieldValidation",
    "string",
    "What to do with unknown or duplicate fields: Ignore, Warn (the default) or Strict.",
);
const FORCE: Parameter = (
    "force",
    "boolean",
    "Takes the fields that others own. Only for apply.",
);
const LABELS: Parameter = (
    "labelSelector",
    "string",
    "Restricts the objects by their labels.",
);
const FIELDS: Parameter = (
    "fieldSelector",
    "string",
    "Restricts the objects by their fields.",
);
const LIMIT: Parameter = ("limit", "integer", "The largest number of objects to return.");
const CONTINUE: Parameter = ("continue", "string", "Where to go on, from an earlier answer.");
const REVISION: Parameter = ("resourceVersion", "string", "The revision to read at.");
const MATCH: Parameter = ("resourceVersionMatch", "string", "How the revision is meant.");
const WATCH: Parameter = ("watch", "boolean", "Sends changes as they happen.");
const BOOKMARKS: Parameter = (
    "allowWatchBookmarks",
    "boolean",
    "Tells a watch where it is when nothing happens.",
);
const INITIAL: Parameter = (
    "sendInitialEvents",
    "boolean",
    "Begins a watch with the objects there are.",
);
const TIMEOUT: Parameter = ("timeoutSeconds", "integer", "Ends a watch after this time.");
const GRACE: Parameter = (
    "gracePeriodSeconds",
    "integer",
    "How long the object may take to go.",
);
const PROPAGATION: Parameter = (
    "propagationPolicy",
    "string",
    "What becomes of the objects that it owns.",
);

const SELECTION: &[Parameter] = &[
    LABELS, FIELDS, LIMIT, CONTINUE, REVISION, MATCH, WATCH, BOOKMARKS, INITIAL, TIMEOUT,
];
const WRITE: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
const PATCH: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
const DELETE: &[Parameter] = &[DRY_RUN, GRACE, PROPAGATION];
const DELETE_MANY: &[Parameter] = &[DRY_RUN, GRACE, PROPAGATION, LABELS, FIELDS, LIMIT, CONTINUE];

#[rustfmt::skip]
const COLLECTION: &[Operation] = &[
    Operation { method: "get", action: "list", parameters: SELECTION, body: Body::None, answer: Answer::List },
    Operation { method: "post", action: "post", parameters: WRITE, body: Body::Object, answer: Answer::Object },
    Operation {
        method: "delete", action: "deletecollection", parameters: DELETE_MANY, body: Body::DeleteOptions,
        answer: Answer::Status,
    },
];
#[rustfmt::skip]
const PART: &[Operation] = &[
    Operation { method: "get", action: "get", parameters: &[], body: Body::None, answer: Answer::Object },
    Operation { method: "put", action: "put", parameters: WRITE, body: Body::Object, answer: Answer::Object },
    Operation { method: "patch", action: "patch", parameters: PATCH, body: Body::Patch, answer: Answer::Object },
];
#[rustfmt::skip]
const REMOVAL: &[Operation] = &[
    Operation {
        method: "delete", action: "delete", parameters: DELETE, body: Body::DeleteOptions, answer: Answer::Status,
    },
];

const PATCHES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
];
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Returns the paths of one served version of a kind.
pub(super) fn paths(served: Served<'_>, style: Style) -> Map<String, Value> {
    let Served { kind, version, .. } = served;
    let root = format!("/{}", super::place(kind.group(), &version.name));
    let plural = &kind.resource.plural;
    let name = definition_name(served);
    let own = Writer {
        style,
        served,
        definition: &name,
        of: type_of(served),
    };
    let scale_type = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
    let scale = Writer {
        style,
        served,
        definition: SCALE,
        of: scale_type,
    };
    let everywhere = format!("{root}/{plural}");
    let collection = if kind.namespaced {
        format!("{root}/namespaces/{{namespace}}/{plural}")
    } else {
        everywhere.clone()
    };
    let item = format!("{collection}/{{name}}");
    let mut paths = Map::new();
    if kind.namespaced {
        paths.insert(everywhere, own.path("all", &COLLECTION[..1], &[]));
    }
    let outer: &[&str] = if kind.namespaced { &["namespace"] } else { &[] };
    let inner: &[&str] = if kind.namespaced {
        &["namespace", "name"]
    } else {
        &["name"]
    };
    paths.insert(collection, own.path("", COLLECTION, outer));
    let whole = PART.iter().chain(REMOVAL);
    paths.insert(item.clone(), own.path("", whole, inner));
    if version.status {
        paths.insert(format!("{item}/status"), own.path("status", PART, inner));
    }
    if version.scale.is_some() {
        paths.insert(format!("{item}/scale"), scale.path("scale", PART, inner));
    }
    paths
}

/// Writes the operations of a kind.
struct Writer<'a> {
    style: Style,
    served: Served<'a>,
    /// The name of the definition of what goes in and comes out.
    definition: &'a str,
    /// What `x-kubernetes-group-version-kind` says.
    of: Value,
}

impl Writer<'_> {
    fn path<'o>(
        &self,
        part: &str,
        operations: impl IntoIterator<Item = &'o Operation>,
        names: &[&str],
    ) -> Value {
        let mut path = Map::new();
        for operation in operations {
            path.insert(operation.method.to_owned(), self.operation(part, operation));
        }
        let parameters: Vec<Value> = names
            .iter()
            .map(|name| self.parameter(name, "path", "string", ""))
            .collect();
        if !parameters.is_empty() {
            path.insert("parameters".to_owned(), parameters.into());
        }
        Value::Object(path)
    }

    fn operation(&self, part: &str, operation: &Operation) -> Value {
        let Served { kind, version, .. } = self.served;
        let mut parameters: Vec<Value> = operation
            .parameters
            .iter()
            .map(|(name, kind, description)| self.parameter(name, "query", kind, description))
            .collect();
        let tag = [kind.group(), &version.name].join("_");
        let id = [
            operation.action,
            kind.group(),
            &version.name,
            &kind.resource.plural,
            part,
        ]
        .join("_");
        let mut written = json!({
            "description": format!("{} {} {part}", operation.action, kind.kind).trim(),
            "operationId": id,
            "tags": [tag],
            "x-kubernetes-action": operation.action,
            "x-kubernetes-group-version-kind": self.of,
            "responses": {"200": self.answer(operation.answer)},
        });
        match self.style {
            Style::V3 => {
                if let Some(content) = self.body(operation.body) {
                    written["requestBody"] = json!({"content": content});
                }
            }
            Style::V2 => {
                if let Some((types, schema)) = self.body_types(operation.body) {
                    parameters
                        .push(json!({"in": "body", "name": "body", "required": true, "schema": schema}));
                    written["consumes"] = json!(types);
                }
                written["produces"] = json!(["application/json", "application/yaml"]);
            }
        }
        written["parameters"] = parameters.into();
        written
    }

    fn parameter(&self, name: &str, place: &str, kind: &str, description: &str) -> Value {
        let mut parameter = json!({"name": name, "in": place, "description": description});
        match self.style {
            Style::V3 => parameter["schema"] = json!({"type": kind, "uniqueItems": true}),
            Style::V2 => {
                parameter["type"] = kind.into();
                parameter["uniqueItems"] = true.into();
            }
        }
        if place == "path" {
            parameter["required"] = true.into();
        }
        parameter
    }

    fn answer(&self, answer: Answer) -> Value {
        let schema = match answer {
            Answer::Object => self.reference(self.definition),
            Answer::List => self.reference(&format!("{}List", self.definition)),
            Answer::Status => self.reference(STATUS),
        };
        match self.style {
            Style::V2 => json!({"description": "OK", "schema": schema}),
            Style::V3 => json!({
                "description": "OK",
                "content": {"application/json": {"schema": schema}, "application/yaml": {"schema": schema}},
            }),
        }
    }

    fn reference(&self, name: &str) -> Value {
        match self.style {
            Style::V2 => super::reference(name),
            Style::V3 => json!({"$ref": format!("#/components/schemas/{name}")}),
        }
    }

    fn body(&self, body: Body) -> Option<Value> {
        let (types, schema) = self.body_types(body)?;
        let content: Map<String, Value> = types
            .iter()
            .map(|&media_type| (media_type.to_owned(), json!({"schema": schema})))
            .collect();
        Some(Value::Object(content))
    }

    fn body_types(&self, body: Body) -> Option<(Vec<&'static str>, Value)> {
        match body {
            Body::None => None,
            Body::Object => Some((
                vec!["application/json", "application/yaml"],
                self.reference(self.definition),
            )),
            Body::DeleteOptions => Some((
                vec!["application/json", "application/yaml"],
                self.reference(DELETE_OPTIONS),
            )),
            Body::Patch => {
                // Strategic merge patches are for built-in kinds only.
                let strategic = (!self.served.kind.custom).then_some(STRATEGIC);
                Some((
                    PATCHES.iter().copied().chain(strategic).collect(),
                    json!({"type": "object"}),
                ))
            }
        }
    }
}
