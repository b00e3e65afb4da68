//! The kinds that sequences are about: built-in ones, those of the project, and two made up to have every feature of
//! a structural schema.

use serde_json::{Map, Value, json};

use super::values::{self, Dice};

/// The object whose creation ends every watch of a sequence.
pub const LAST: &str = "zz-last";

/// A kind, and how to make objects of it.
#[expect(clippy::struct_field_names, reason = "`kind` is what Kubernetes calls it")]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
    pub status: bool,
    pub built_in: bool,
    /// How often sequences are about it.
    pub weight: usize,
    /// One object in so many is broken.
    pub mistakes: usize,
    /// Where nothing is broken at random: the sandbox doesn't know all the rules for what stands there.
    pub closed: &'static [&'static str],
    /// Everything of an object but type and metadata; valid most of the time.
    pub body: fn(&Dice) -> Map<String, Value>,
    pub status_body: fn(&Dice) -> Value,
    /// What an object has to have.
    pub minimal: fn() -> Map<String, Value>,
    /// The fields that selectors may name, and some that they may not.
    pub fields: &'static [&'static str],
}

const NO_STATUS: fn(&Dice) -> Value = |_| json!({});
const NOTHING: fn() -> Map<String, Value> = Map::new;

const fn built_in(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    body: fn(&Dice) -> Map<String, Value>,
) -> Kind {
    Kind {
        group,
        version,
        kind,
        plural,
        namespaced: true,
        status: false,
        built_in: true,
        weight: 4,
        mistakes: 10,
        closed: &[],
        body,
        status_body: NO_STATUS,
        minimal: NOTHING,
        fields: &["metadata.name", "metadata.namespace", "spec.foo"],
    }
}

pub const KINDS: &[Kind] = &[
    built_in("", "v1", "ConfigMap", "configmaps", values::config_map),
    Kind {
        fields: &["metadata.name", "type"],
        ..built_in("", "v1", "Secret", "secrets", values::secret)
    },
    Kind {
        status: true,
        weight: 5,
        closed: &["/spec/template", "/spec/selector", "/spec/strategy", "/status"],
        status_body: values::deployment_status,
        minimal: values::smallest_deployment,
        ..built_in("apps", "v1", "Deployment", "deployments", values::deployment)
    },
    Kind {
        status: true,
        status_body: values::service_status,
        minimal: values::smallest_service,
        fields: &["metadata.name", "spec.type", "spec.clusterIP"],
        ..built_in("", "v1", "Service", "services", values::service)
    },
    Kind {
        namespaced: false,
        status: true,
        weight: 2,
        status_body: values::namespace_status,
        fields: &["metadata.name", "status.phase"],
        ..built_in("", "v1", "Namespace", "namespaces", values::namespace)
    },
    Kind {
        status: true,
        weight: 12,
        status_body: values::gadget_status,
        minimal: values::smallest_gadget,
        fields: &["metadata.name", "spec.mode", "spec.size", "spec.note"],
        ..built_in("diff.example.dev", "v1", "Gadget", "gadgets", values::gadget).custom()
    },
    Kind {
        weight: 2,
        minimal: values::smallest_gadget,
        ..built_in("diff.example.dev", "v1beta1", "Gadget", "gadgets", values::gadget).custom()
    },
    Kind {
        weight: 2,
        fields: &["metadata.name"],
        ..built_in("diff.example.dev", "v1", "Plain", "plains", values::plain).custom()
    },
    Kind {
        weight: 3,
        minimal: values::smallest_override_policy,
        ..built_in(
            "policy.karmada.io",
            "v1alpha1",
            "OverridePolicy",
            "overridepolicies",
            values::override_policy,
        )
        .custom()
    },
    Kind {
        weight: 3,
        minimal: values::smallest_propagation_policy,
        ..built_in(
            "policy.karmada.io",
            "v1alpha1",
            "PropagationPolicy",
            "propagationpolicies",
            values::propagation_policy,
        )
        .custom()
    },
    Kind {
        status: true,
        weight: 3,
        status_body: values::migration_status,
        minimal: values::smallest_migration,
        ..built_in(
            "cutover.dev",
            "v1alpha1",
            "Migration",
            "migrations",
            values::migration,
        )
        .custom()
    },
    Kind {
        namespaced: false,
        weight: 1,
        minimal: values::smallest_claim,
        ..built_in("cutover.dev", "v1alpha1", "Claim", "claims", values::claim).custom()
    },
];

/// The kinds that sequences of their own are about.
const OTHERS: &[&str] = &[
    "customresourcedefinitions",
    "things",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

impl Kind {
    const fn custom(self) -> Self {
        Self {
            built_in: false,
            ..self
        }
    }

    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the path of all objects, of the sequence's namespace if the kind has one.
    pub fn path(&self) -> String {
        let root = if self.group.is_empty() {
            "/api".to_owned()
        } else {
            format!("/apis/{}", self.group)
        };
        let within = if self.namespaced { "/namespaces/${ns}" } else { "" };
        format!("{root}/{}{within}/{}", self.version, self.plural)
    }
}

/// Returns the definitions of the made-up kinds.
pub fn definitions() -> Vec<Value> {
    vec![gadgets(), plains()]
}

/// Returns the plural in a path.
pub fn plural_of(path: &str) -> &str {
    let parts: Vec<&str> = path.split('/').collect();
    let namespaced = parts
        .iter()
        .position(|part| *part == "namespaces")
        .filter(|place| parts.len() > place + 2);
    let known = |part: &&str| OTHERS.contains(part) || KINDS.iter().any(|kind| kind.plural == *part);
    let place = namespaced.map(|place| place + 2);
    place
        .and_then(|place| parts.get(place).copied())
        .filter(known)
        .or_else(|| parts.iter().copied().find(known))
        .unwrap_or_default()
}

/// Returns the smallest object that may be created at a path.
pub fn minimal(path: &str, name: &str) -> Option<Value> {
    let kind = KINDS.iter().find(|kind| kind.path() == path)?;
    let mut object = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": name}});
    object.as_object_mut()?.extend((kind.minimal)());
    Some(object)
}

/// Returns whether a path is about a built-in kind.
pub fn is_built_in(path: &str) -> bool {
    KINDS
        .iter()
        .any(|kind| kind.built_in && kind.plural == plural_of(path))
}

/// Returns what is known of an object that was not seen yet: its type.
pub fn unseen(path: &str) -> Value {
    let kind = KINDS.iter().find(|kind| kind.plural == plural_of(path));
    kind.map_or(
        json!({}),
        |kind| json!({"apiVersion": kind.api_version(), "kind": kind.kind}),
    )
}

/// Returns whether an event is about the object that ends watches.
pub fn is_last(event: &Value) -> bool {
    let object = &event["object"];
    let row = &object["rows"][0]["object"];
    [object, row]
        .iter()
        .any(|object| object["metadata"]["name"] == LAST)
}

fn gadgets() -> Value {
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage,
            "subresources": {
                "status": {},
                "scale": {
                    "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
                    "labelSelectorPath": ".status.selector",
                },
            },
            "additionalPrinterColumns": [
                {"name": "Mode", "type": "string", "jsonPath": ".spec.mode"},
                {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "How many."},
                {"name": "Note", "type": "string", "jsonPath": ".spec.note", "priority": 1},
                {"name": "Ready", "type": "boolean", "jsonPath": ".status.ready"},
                {"name": "At", "type": "date", "jsonPath": ".spec.at"},
            ],
            "selectableFields": [{"jsonPath": ".spec.mode"}, {"jsonPath": ".spec.size"}],
            "schema": {"openAPIV3Schema": gadget_schema()},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.diff.example.dev"},
        "spec": {
            "group": "diff.example.dev", "scope": "Namespaced",
            "names": {"kind": "Gadget", "listKind": "GadgetList", "plural": "gadgets", "singular": "gadget", "shortNames": ["gd"]},
            "versions": [version("v1", true), version("v1beta1", false)],
        },
    })
}

#[expect(clippy::too_many_lines, reason = "one literal for each part")]
fn gadget_schema() -> Value {
    let text = json!({"type": "string"});
    let port = json!({
        "type": "object", "required": ["port"],
        "properties": {
            "port": {"type": "integer", "minimum": 1, "maximum": 65535},
            "protocol": {"type": "string", "default": "TCP", "enum": ["TCP", "UDP"]},
            "name": {"type": "string", "maxLength": 8},
        },
    });
    let spec = json!({
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 10},
            "least": {"type": "integer", "default": 0},
            "mode": {"type": "string", "enum": ["fast", "safe"], "default": "safe"},
            "note": {"type": "string", "minLength": 2, "maxLength": 12, "pattern": "^[a-z ]+$"},
            "maybe": {"type": "string", "nullable": true},
            "either": {"x-kubernetes-int-or-string": true},
            "ratio": {"type": "number", "exclusiveMaximum": true, "maximum": 4},
            "active": {"type": "boolean", "default": true},
            "at": {"type": "string", "format": "date-time"},
            "fixed": {"type": "string", "maxLength": 20, "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "fixed is fixed"},
            ]},
            "tags": {"type": "array", "items": text, "x-kubernetes-list-type": "set", "maxItems": 4},
            "words": {"type": "array", "items": text},
            "ports": {
                "type": "array", "items": port, "maxItems": 4,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
            },
            "labels": {"type": "object", "additionalProperties": text},
            "limits": {"type": "object", "maxProperties": 3, "additionalProperties": {"x-kubernetes-int-or-string": true}},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": text, "b": text}},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": {"type": "integer"}}},
            "object": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            "nested": {
                "type": "object", "default": {},
                "properties": {
                    "depth": {"type": "integer", "default": 1},
                    "choice": {
                        "type": "object",
                        "properties": {"one": text, "two": {"type": "integer"}},
                        "oneOf": [{"required": ["one"]}, {"required": ["two"]}],
                    },
                },
            },
        },
        "x-kubernetes-validations": [
            {"rule": "self.least <= self.size", "message": "least is at most size", "fieldPath": ".least"},
            {"rule": "!has(self.note) || self.note != self.mode", "messageExpression": "'note is ' + self.note"},
            {"rule": "!has(oldSelf.tags) || has(self.tags)", "message": "tags stay", "reason": "FieldValueForbidden"},
        ],
    });
    let status = json!({
        "type": "object",
        "properties": {
            "ready": {"type": "boolean"}, "size": {"type": "integer"}, "selector": text,
            "conditions": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                "items": {"type": "object", "required": ["type", "status"], "properties": {"type": text, "status": text, "reason": text}},
            },
        },
    });
    json!({"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": status}})
}

/// A kind without subresources whose schema keeps what it doesn't know.
fn plains() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "plains.diff.example.dev"},
        "spec": {
            "group": "diff.example.dev", "scope": "Namespaced",
            "names": {"kind": "Plain", "plural": "plains"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {
                        "spec": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}},
                        "data": {"type": "object", "additionalProperties": {"type": "string"}},
                    },
                }},
            }],
        },
    })
}
