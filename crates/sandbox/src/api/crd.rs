//! `CustomResourceDefinition`s: from the object to a served kind.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::registry::{CRDS, Generation, Kind, ScalePaths, Version};
use super::rules::{Ownership, Rules};
use super::status::{Cause, Status};
use super::{ApiServer, Object, Resource, State, Subresource, WriteOptions, metadata};
use crate::store::Key;

impl ApiServer {
    /// Installs a CRD, or replaces the one that is there.
    pub fn install(&self, crd: &Value) -> Result<(), Status> {
        let options = WriteOptions::manager("sandbox");
        let name = metadata::name(crd);
        match self.get(&CRDS, None, name) {
            Ok(present) => {
                let mut crd = crd.clone();
                let version = metadata::text(&present, "resourceVersion");
                metadata::set(&mut crd, "resourceVersion", Some(version.into()));
                self.update(&CRDS, None, name, None, crd, &options)?;
            }
            Err(_) => drop(self.create(&CRDS, None, crd.clone(), &options)?),
        }
        Ok(())
    }
}

impl State {
    /// Serves what a CRD defines, and says so in its status.
    pub(super) fn accept_definition(&mut self, key: &Key, crd: &Object, now: Timestamp) {
        if metadata::is_terminating(crd) {
            return;
        }
        // What can't be served was refused by validation.
        let Ok(kind) = kind_of(crd) else { return };
        self.registry.install(kind);
        let names = accepted_names(crd);
        if crd["status"]["acceptedNames"] == names && is_established(crd) {
            return;
        }
        let Some(crd_kind) = self.registry.kind(&CRDS) else {
            return;
        };
        let Some(version) = crd_kind.storage() else { return };
        let mut body = (**crd).clone();
        let status = metadata::entry(&mut body, "status");
        status.insert("conditions".to_owned(), conditions(now));
        status.insert("acceptedNames".to_owned(), names);
        let ownership = Ownership {
            manager: "kube-apiserver".to_owned(),
            api_version: crd_kind.api_version(version),
            subresource: Some(Subresource::Status),
            now,
        };
        version.rules.own(Some(crd), &mut body, version, &ownership);
        self.commit(&crd_kind, key, Some(crd), body, now);
    }

    pub(super) fn withdraw_definition(&mut self, crd: &Value) {
        self.registry.remove(&resource_of(crd));
    }
}

/// Fills in what a CRD may leave out.
pub(super) fn default(crd: &mut Value) {
    let kind = crd["spec"]["names"]["kind"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let spec = metadata::entry(crd, "spec");
    spec.entry("conversion")
        .or_insert_with(|| json!({"strategy": "None"}));
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        names
            .entry("singular")
            .or_insert_with(|| kind.to_lowercase().into());
        names
            .entry("listKind")
            .or_insert_with(|| format!("{kind}List").into());
    }
}

/// Fills in the status of a new CRD, which nobody has looked at.
pub(super) fn first_status(crd: &mut Value) {
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    let stored = versions.filter(|version| version["storage"] == true);
    let stored: Vec<Value> = stored.map(|version| version["name"].clone()).collect();
    let status = metadata::entry(crd, "status");
    status.insert("conditions".to_owned(), Value::Null);
    status.insert("acceptedNames".to_owned(), json!({"plural": "", "kind": ""}));
    status.insert("storedVersions".to_owned(), Value::Array(stored));
}

/// Returns the resource that a CRD defines.
pub(super) fn resource_of(crd: &Value) -> Resource {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Resource::named(text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["plural"]))
}

/// Returns what is wrong with a CRD.
pub(super) fn validate(crd: &Value) -> Vec<Cause> {
    let resource = resource_of(crd);
    let wanted = format!("{}.{}", resource.plural, resource.group);
    let mut causes = Vec::new();
    if metadata::name(crd) != wanted {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid_value(
            "metadata.name",
            &crd["metadata"]["name"],
            why,
        ));
    }
    let versions = crd["spec"]["versions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if versions
        .iter()
        .filter(|version| version["storage"] == true)
        .count()
        != 1
    {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid_value(
            "spec.versions",
            &Value::Array(versions.to_vec()),
            why,
        ));
    }
    if let Err(errors) = kind_of(crd) {
        causes.extend(errors);
    }
    causes
}

/// Returns the kind that a CRD defines.
fn kind_of(crd: &Value) -> Result<Kind, Vec<Cause>> {
    let names = &crd["spec"]["names"];
    let text = |field: &str| names[field].as_str().unwrap_or_default().to_owned();
    let texts = |field: &str| -> Vec<String> {
        names[field]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let mut causes = Vec::new();
    let mut versions = Vec::new();
    for (index, version) in crd["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        match version_of(version, index) {
            Ok(version) => versions.push(version),
            Err(errors) => causes.extend(errors),
        }
    }
    if !causes.is_empty() {
        return Err(causes);
    }
    Ok(Kind {
        resource: resource_of(crd),
        kind: text("kind"),
        list_kind: text("listKind"),
        singular: text("singular"),
        short_names: texts("shortNames"),
        categories: texts("categories"),
        namespaced: crd["spec"]["scope"] == "Namespaced",
        custom: true,
        generation: Generation::ContentAndStatus,
        created_by_update: false,
        unconditional_update: false,
        versions,
    })
}

fn version_of(version: &Value, index: usize) -> Result<Version, Vec<Cause>> {
    let field = format!("spec.versions[{index}]");
    let rules = Rules::of_crd_version(version, &field)?;
    let subresources = &version["subresources"];
    Ok(Version {
        name: version["name"].as_str().unwrap_or_default().to_owned(),
        served: version["served"] == true,
        storage: version["storage"] == true,
        status: !subresources["status"].is_null(),
        scale: scale_of(&subresources["scale"]),
        rules,
    })
}

fn scale_of(scale: &Value) -> Option<ScalePaths> {
    let pointer = |field: &str| Some(scale[field].as_str()?.replace('.', "/"));
    Some(ScalePaths {
        spec_replicas: pointer("specReplicasPath")?,
        status_replicas: pointer("statusReplicasPath")?,
        selector: pointer("labelSelectorPath"),
    })
}

fn accepted_names(crd: &Value) -> Value {
    crd["spec"]["names"].clone()
}

fn is_established(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

fn conditions(now: Timestamp) -> Value {
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind,
            "status": "True",
            "lastTransitionTime": metadata::time(now),
            "reason": reason,
            "message": message,
        })
    };
    json!([
        condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        condition(
            "Established",
            "InitialNamesAccepted",
            "the initial names have been accepted"
        ),
    ])
}
