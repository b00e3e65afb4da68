//! What the objects that profiles are tried on may have: the fields that the definitions of their kinds have. `kinds.yaml` says it of the
//! operators' kinds, and the sandbox's API server of Kubernetes' own.

use cutover::api::WorkloadProfileSpec;
use cutover::finding::Finding;
use cutover::lint::{self, Context, misfits_with};
use cutover::manifest::{Limits, Set, Source, parse};
use cutover::name::Gvk;
use cutover::profile::{self, built_in};
use cutover::sandbox::api::{
    ApiServer, FieldValidation, Options, Patch, Resource, Subresource, WriteOptions,
};
use cutover::schema::violations;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Fixture, fixtures};

/// Kubernetes' own kinds.
static KUBERNETES: [(&str, Resource); 4] = [
    ("Deployment", Resource::new("apps", "deployments")),
    ("StatefulSet", Resource::new("apps", "statefulsets")),
    ("Job", Resource::new("batch", "jobs")),
    ("CronJob", Resource::new("batch", "cronjobs")),
];

/// A kind in one version, as far as `kinds.yaml` says what its definition has.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Definition {
    kind: String,
    api_version: String,
    /// `repository@tag:path` of the definition.
    from: String,
    fields: Value,
}

impl Definition {
    pub(crate) fn gvk(&self) -> Gvk {
        Gvk::new(&self.api_version, &self.kind)
    }

    fn tag(&self) -> &str {
        let (_, at) = self.from.split_once('@').unwrap();
        let (tag, _) = at.split_once(':').unwrap();
        tag
    }

    pub(crate) fn schema(&self) -> Value {
        schema(&self.fields)
    }

    fn definition(&self) -> Value {
        let Gvk { group, version, kind } = self.gvk();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": {
                "group": group, "names": {"kind": kind},
                "versions": [{"name": version, "schema": {"openAPIV3Schema": self.schema()}}],
            },
        })
    }
}

/// Returns the kinds of operators, each version's newest definition first.
pub(crate) fn all() -> Vec<Definition> {
    serde_yaml::from_str(include_str!("kinds.yaml")).unwrap()
}

fn schema(type_of: &Value) -> Value {
    match type_of {
        Value::String(name) => named(name),
        Value::Array(items) => json!({"type": "array", "items": schema(&items[0])}),
        Value::Object(fields) if fields.contains_key("*") => {
            json!({"type": "object", "additionalProperties": schema(&fields["*"])})
        }
        Value::Object(fields) => object(fields),
        other => panic!("{other}"),
    }
}

fn object(fields: &Map<String, Value>) -> Value {
    let required: Vec<&str> = fields.keys().filter_map(|name| name.strip_suffix('!')).collect();
    let properties = fields
        .iter()
        .map(|(name, type_of)| (name.trim_end_matches('!').to_owned(), schema(type_of)));
    let properties: Map<String, Value> = properties.collect();
    json!({"type": "object", "required": required, "properties": properties})
}

fn named(name: &str) -> Value {
    match name {
        "open" => json!({"x-kubernetes-preserve-unknown-fields": true}),
        "int-or-string" => json!({"x-kubernetes-int-or-string": true}),
        "time" => json!({"type": "string", "format": "date-time"}),
        "condition" => schema(&json!({
            "lastTransitionTime!": "time", "message!": "string", "observedGeneration": "integer", "reason!": "string",
            "status!": "True|False|Unknown", "type!": "string",
        })),
        "string" | "integer" | "number" | "boolean" => json!({"type": name}),
        texts if texts.contains('|') => {
            json!({"type": "string", "enum": texts.split('|').collect::<Vec<_>>()})
        }
        other => panic!("{other} is no type"),
    }
}

#[test]
fn each_object_that_a_profile_is_tried_on_is_one_that_its_definition_takes() {
    let (known, kubernetes) = (all(), Kubernetes::start());
    for built_in in built_in().unwrap() {
        let name = built_in.metadata.name.as_deref().unwrap();
        for (n, fixture) in fixtures(name).iter().enumerate() {
            let context = format!("{name}: {}", fixture.phase);
            match definition_of(fixture, &known) {
                Some(kind) => assert_eq!(violations(&fixture.object, &kind.schema()), [], "{context}"),
                None => kubernetes.takes(&fixture.object, &format!("{name}-{n}"), &context),
            }
        }
    }
}

fn definition_of<'k>(fixture: &Fixture, known: &'k [Definition]) -> Option<&'k Definition> {
    let text = |field: &str| fixture.object[field].as_str().unwrap();
    let gvk = Gvk::new(text("apiVersion"), text("kind"));
    let mut of_kind = known.iter().filter(|kind| kind.gvk() == gvk);
    match &fixture.of {
        Some(tag) => Some(of_kind.find(|kind| kind.tag() == tag).unwrap()),
        None => of_kind.next(),
    }
}

/// An API server that refuses what its kinds don't have.
struct Kubernetes(ApiServer);

impl Kubernetes {
    fn start() -> Self {
        let server = ApiServer::new(Options::new("kubernetes", 1));
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        let namespaces = Resource::new("", "namespaces");
        server
            .create(&namespaces, None, namespace, &WriteOptions::manager("test"))
            .unwrap();
        Self(server)
    }

    fn takes(&self, object: &Value, name: &str, context: &str) {
        let kind = object["kind"].as_str().unwrap();
        let found = KUBERNETES.iter().find(|(known, _)| *known == kind);
        let (_, resource) =
            found.unwrap_or_else(|| panic!("{context}: kinds.yaml has no {kind} of its version"));
        let strict = WriteOptions {
            field_validation: FieldValidation::Strict,
            ..WriteOptions::manager("test")
        };
        let mut object = object.clone();
        object["metadata"]["name"] = json!(name);
        let status = Patch::Merge(json!({"status": object["status"]}));
        let created = self.0.create(resource, Some("shop"), object, &strict);
        created.unwrap_or_else(|why| panic!("{context}: {why}"));
        let part = Some(Subresource::Status);
        let told = self.0.patch(resource, Some("shop"), name, part, &status, &strict);
        told.unwrap_or_else(|why| panic!("{context}: {why}"));
    }
}

#[test]
fn each_built_in_profile_fits_the_definitions_of_its_kinds() {
    let (known, context) = (all(), Context::built_in().unwrap());
    for built_in in built_in().unwrap() {
        let (name, applies_to) = (built_in.metadata.name.as_deref(), &built_in.spec.applies_to);
        for kind in &applies_to.kinds {
            let is_meant = |one: &&Definition| one.kind == *kind && one.gvk().group == applies_to.group;
            let of_kind: Vec<&Definition> = known.iter().filter(is_meant).collect();
            let is_kubernetes = KUBERNETES.iter().any(|(known, _)| known == kind);
            assert!(is_kubernetes || !of_kind.is_empty(), "{name:?}: {kind}");
            for one in of_kind {
                let misfits = misfits_with(&built_in.spec, &one.gvk(), &one.definition());
                assert_eq!(misfits, [], "{name:?} and {}", one.from);
            }
        }
        assert_eq!(found_in(&built_in.spec, &known, &context), [], "{name:?}");
    }
}

/// Returns what `cutover validate` says of a profile, where it knows the definitions of all versions of its kinds.
fn found_in(spec: &WorkloadProfileSpec, known: &[Definition], context: &Context) -> Vec<Finding> {
    let profile = json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "WorkloadProfile", "metadata": {"name": "tried"}, "spec": spec,
    });
    // The first of a version is the newest, and stays.
    let definitions: Vec<Value> = known.iter().rev().map(Definition::definition).collect();
    let context = Context {
        schemas: context.schemas.with_definitions(&definitions),
        profiles: context.profiles.clone(),
        ..Context::default()
    };
    let mut set = Set::new();
    let parsed = parse(
        Source::new("profile.yaml"),
        profile.to_string().as_bytes(),
        &Limits::default(),
    );
    set.update("profile.yaml", parsed);
    lint::check(&set, &context)
}

/// Guards the two tests above: a field that no definition has is seen in an object, and in a profile.
#[test]
fn a_field_that_a_definition_does_not_have_is_found() {
    let known = all();
    let mut fixture = fixtures("rayjob").remove(0);
    let kind = definition_of(&fixture, &known).unwrap();
    fixture.object["status"]["jobDeploymentStage"] = json!("Running");
    assert_eq!(violations(&fixture.object, &kind.schema()).len(), 1);
    let rayjob = built_in()
        .unwrap()
        .iter()
        .find(|one| one.spec.applies_to.kinds == ["RayJob"]);
    let spec = WorkloadProfileSpec {
        healthy_when: "object.status.jobDeploymentStage == 'Running'".to_owned(),
        ..rayjob.unwrap().spec.clone()
    };
    let misfits: Vec<profile::Misfit> = misfits_with(&spec, &kind.gvk(), &kind.definition());
    assert_eq!(misfits.len(), 1, "{misfits:?}");
    assert_eq!(found_in(&spec, &known, &Context::built_in().unwrap()).len(), 1);
}
