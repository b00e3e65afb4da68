//! The roles that come along, held to what is asked for: API group, resource, subresource, verb, namespace and name included.

use std::collections::BTreeSet;
use std::io::Write;

use cutover_sandbox::api::RequestInfo;
use cutover_sandbox::traffic::Traffic;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Names a file to which every fleet adds what was asked for in it: what tests/all/rbac.rs judges the roles by.
pub const RECORD: &str = "CUTOVER_RBAC_RECORD";

/// What a client has asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Asked {
    pub verb: String,
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub dry_run: bool,
}

impl Asked {
    fn of(request: &RequestInfo) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let subresource = text(&request.subresource);
        Self {
            verb: request.verb.to_owned(),
            group: request.group.clone(),
            resource: request.resource.clone(),
            // What follows is the path within a member.
            subresource: subresource.split('/').next().unwrap_or_default().to_owned(),
            namespace: text(&request.namespace),
            name: text(&request.name),
            dry_run: request.dry_run,
        }
    }

    /// The resource as rules name it.
    pub fn named(&self) -> String {
        match self.subresource.as_str() {
            "" => self.resource.clone(),
            part => format!("{}/{part}", self.resource),
        }
    }

    /// Whether the roles that come along are to allow it. What sync applies, workloads, and what checks and other tools' kinds
    /// are about is the user's to allow (docs/how-to/operate.md#rbac).
    pub fn is_ours(&self) -> bool {
        let group = self.group.as_str();
        match (group, self.resource.as_str()) {
            // A namespace of its own, where nobody has made it: docs/how-to/operate.md#rbac.
            ("", "namespaces") => self.verb != "create" && self.subresource.is_empty(),
            ("", "events") => true,
            ("", _) => self.namespace == "cutover-system",
            ("argoproj.io", resource) => resource == "applications",
            // What is written of them, and watched, is in Git.
            ("apiextensions.k8s.io", _) => self.verb == "get",
            _ => {
                OURS.contains(&group)
                    || group.ends_with(".karmada.io")
                    || group.ends_with(".toolkit.fluxcd.io")
            }
        }
    }
}

/// Groups of which users need not allow anything.
const OURS: [&str; 4] = ["cutover.dev", "coordination.k8s.io", "autoscaling", "keda.sh"];

/// One thing that a role allows: it can't be split any further.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    pub role: String,
    /// In this namespace alone.
    pub namespace: Option<String>,
    pub group: String,
    pub resource: String,
    pub verb: String,
    /// Of this name alone.
    pub name: Option<String>,
}

impl Grant {
    pub fn allows(&self, asked: &Asked) -> bool {
        let in_scope = self
            .namespace
            .as_ref()
            .is_none_or(|namespace| *namespace == asked.namespace);
        let of_name = self.name.as_ref().is_none_or(|name| *name == asked.name);
        self.verb == asked.verb
            && self.group == asked.group
            && self.resource == asked.named()
            && in_scope
            && of_name
    }

    /// The rule that allows this and nothing else.
    pub fn rule(&self) -> Value {
        let mut rule = serde_json::json!({
            "apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb],
        });
        if let Some(name) = &self.name {
            rule["resourceNames"] = serde_json::json!([name]);
        }
        rule
    }
}

/// The objects of the files that come along.
pub fn objects() -> Vec<Value> {
    let files = [
        include_str!("../../../deploy/rbac.yaml"),
        include_str!("../../../deploy/rbac-fence.yaml"),
    ];
    let documents = files.iter().flat_map(|text| text.split("\n---\n"));
    documents
        .map(|document| serde_yaml::from_str(document).unwrap())
        .collect()
}

/// Returns what these objects allow the service account, by their bindings.
pub fn grants_to_the_account(objects: &[Value]) -> BTreeSet<Grant> {
    let mut grants = BTreeSet::new();
    for binding in objects {
        let account =
            serde_json::json!([{"kind": "ServiceAccount", "name": "cutover", "namespace": "cutover-system"}]);
        if binding["subjects"] != account {
            continue;
        }
        let reference = &binding["roleRef"];
        let namespace = binding["metadata"]["namespace"].as_str();
        let role = objects.iter().find(|role| {
            let same_place =
                reference["kind"] == "ClusterRole" || role["metadata"]["namespace"].as_str() == namespace;
            role["kind"] == reference["kind"] && role["metadata"]["name"] == reference["name"] && same_place
        });
        grants.extend(grants_of(role.expect("a binding's role"), namespace));
    }
    grants
}

/// Returns what a role allows, bound in a namespace or everywhere.
pub fn grants_of(role: &Value, namespace: Option<&str>) -> Vec<Grant> {
    let texts = |value: &Value| -> Vec<String> {
        let texts = value.as_array().into_iter().flatten();
        texts.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut grants = Vec::new();
    for rule in role["rules"].as_array().unwrap() {
        let names = texts(&rule["resourceNames"]).into_iter().map(Some);
        let names: Vec<_> = if rule["resourceNames"].is_null() {
            vec![None]
        } else {
            names.collect()
        };
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    grants.extend(names.iter().map(|name| Grant {
                        role: role["metadata"]["name"].as_str().unwrap().to_owned(),
                        namespace: namespace.map(str::to_owned),
                        group: group.clone(),
                        resource: resource.clone(),
                        verb: verb.clone(),
                        name: name.clone(),
                    }));
                }
            }
        }
    }
    grants
}

/// Dropped, it fails if something was asked for that the roles don't allow.
pub struct Suffice(Traffic);

impl Suffice {
    pub fn of(traffic: &Traffic) -> Self {
        traffic.record();
        Self(traffic.clone())
    }
}

impl Drop for Suffice {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            keep(&asked(&self.0));
            let lacking = lacking(&self.0);
            assert!(lacking.is_empty(), "deploy/rbac.yaml lacks {lacking:#?}");
        }
    }
}

/// Returns what was asked for in the name of the program, of what the roles are to allow.
pub fn asked(traffic: &Traffic) -> BTreeSet<Asked> {
    let recorded = traffic.recorded();
    let ours = recorded
        .iter()
        .filter(|request| request.user == "cutover")
        .map(Asked::of);
    ours.filter(Asked::is_ours).collect()
}

/// Returns what was asked for in the name of the program that no role of its account allows.
pub fn lacking(traffic: &Traffic) -> BTreeSet<Asked> {
    let grants = grants_to_the_account(&objects());
    let refused = |asked: &Asked| !grants.iter().any(|grant| grant.allows(asked));
    asked(traffic).into_iter().filter(refused).collect()
}

/// Adds to the record, where one is asked for.
pub fn keep(asked: &BTreeSet<Asked>) {
    let Some(path) = std::env::var_os(RECORD) else {
        return;
    };
    let mut lines = String::new();
    for asked in asked {
        lines += &format!("{}\n", serde_json::to_string(asked).unwrap());
    }
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    // One write, so that lines of several tests don't mix.
    file.unwrap().write_all(lines.as_bytes()).unwrap();
}
