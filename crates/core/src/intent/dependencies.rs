//! Objects that a workload refers to by name, and can't start without: they have to be in the target before anything is stopped for it.
//!
//! Found are those of the fields that pods have, wherever a template has such a field, and those that the profile says (`needs`). Of a
//! claim it matters that it is there; what is on its volume is the profile's to judge.
//!
//! What a profile selects by labels is stricter: its operator may take the absence of one for an order to delete what it stands for. So
//! each one that the source's cluster has must be seen in the target, and what can't be seen there is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use crate::api::{Finding, WorkloadProfileSpec, quoted};
use crate::manifest::is_subdomain;
use crate::profile::Profile;
use cutover_karmada::name::{ClusterName, Gvk};

/// On a template: `ignore` leaves out what is looked for here, where override policies rename it or a driver makes it with the pod.
pub const MODE_ANNOTATION: &str = "cutover.dev/dependencies";

/// How many objects are looked for, for one workload.
pub const MOST: usize = 30;

/// How many of those that are missing a finding names.
const SHOWN: usize = 5;

/// The code of the finding that a cluster lacks what a workload needs there.
const MISSING: &str = "MissingDependency";
/// The code of the finding that it can't be seen whether a cluster lacks it.
const UNSEEN: &str = "DependencyUnseen";

/// An object in the workload's namespace, or of cluster scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    pub gvk: Gvk,
    pub name: String,
}

impl Reference {
    /// An object of the core group.
    fn core(kind: &str, name: &str) -> Self {
        Self {
            gvk: Gvk::new("v1", kind),
            name: name.to_owned(),
        }
    }

    fn is_core(&self, kind: &str) -> bool {
        self.gvk.group.is_empty() && self.gvk.kind == kind
    }

    /// Whether an object can have that name: templates also have placeholders there, and words for what is made with the pod.
    pub fn is_name(&self) -> bool {
        is_subdomain(&self.name)
    }

    /// Whether every namespace has it.
    fn is_everywhere(&self) -> bool {
        self.is_core("ServiceAccount") && self.name == "default"
    }

    /// Whether there is a volume behind it, with data that Karmada does not bring.
    fn is_claim(&self) -> bool {
        self.is_core("PersistentVolumeClaim")
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.gvk.kind, self.name)
    }
}

/// What a reference comes to in the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is there.
    There,
    /// It is not, and Karmada brings it along.
    Comes,
    /// It is not, and nothing brings it.
    Missing,
    /// It could not be looked for, and why.
    Unknown(String),
    /// It was not looked for: the template refers to more than [`MOST`].
    NotRead,
}

/// What a workload needs in the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// What its template refers to by name.
    pub named: Vec<(Reference, Presence)>,
    /// What its profile selects by labels.
    pub selected: Vec<Selected>,
}

/// Objects that a label selector finds beside the source's copy, each of which has to be in the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    pub gvk: Gvk,
    /// The label selector, as it is in the source's cluster.
    pub selector: String,
    pub source: ClusterName,
    /// What happens without one of them.
    pub otherwise: Option<String>,
    /// What each comes to in the target, by name; or why that is not known.
    pub seen: Result<BTreeMap<String, Presence>, String>,
}

impl Selected {
    fn all(&self) -> impl Iterator<Item = (&String, &Presence)> {
        self.seen.iter().flatten()
    }

    fn kind(&self) -> String {
        format!("{} ({})", self.gvk.kind, self.selector)
    }

    /// Returns a finding where the target lacks some. `then`: how its hint ends.
    fn missing(&self, target: &ClusterName, then: &str) -> Option<Finding> {
        let missing = self.all().filter(|(_, presence)| **presence == Presence::Missing);
        let names: Vec<&str> = missing.map(|(name, _)| name.as_str()).collect();
        let (shown, more) = names.split_at(names.len().min(SHOWN));
        if shown.is_empty() {
            return None;
        }
        let more = if more.is_empty() {
            String::new()
        } else {
            format!(" and {} more", more.len())
        };
        let otherwise = self.otherwise.as_ref();
        let otherwise = otherwise.map_or_else(String::new, |otherwise| format!(": {otherwise}"));
        let message = format!(
            "{target} has no {} {}{more}, which {} has beside the workload{otherwise}",
            self.gvk.kind,
            shown.join(", "),
            self.source
        );
        let hint = format!(
            "propagate every {} to {} and to {target} first, by a policy that lists both clusters{then}",
            self.kind(),
            self.source
        );
        Some(Finding::new(MISSING, message, hint))
    }

    /// Returns what is told of a cluster that a workload may fail over to: that it lacks some, and that it can't be seen.
    pub(super) fn before_failover(&self, target: &ClusterName) -> Vec<Finding> {
        let missing = self.missing(target, ": a failover does not wait for them");
        missing.into_iter().chain(self.unseen(target)).collect()
    }

    /// Returns a finding where it can't be seen whether the target has all of them.
    fn unseen(&self, target: &ClusterName) -> Option<Finding> {
        let unknown = |presence: &Presence| match presence {
            Presence::Unknown(why) => Some(why.clone()),
            _ => None,
        };
        let why = match &self.seen {
            Ok(seen) => seen.values().find_map(unknown)?,
            Err(why) => why.clone(),
        };
        let otherwise = self.otherwise.as_ref();
        let otherwise = otherwise.map_or_else(String::new, |otherwise| {
            format!("; without one of them, {otherwise}")
        });
        Some(Finding::new(
            UNSEEN,
            format!(
                "{UNSEEN_IN}{target} has every {} that {} has: {}{otherwise}",
                self.kind(),
                self.source,
                quoted(&why)
            ),
            format!(
                "allow cutover to list {} in both clusters, and see that {target} has each of them: a failover does not wait for them",
                self.gvk.kind
            ),
        ))
    }

    /// Returns whether a look that didn't show all leaves it open that the target still lacks what an earlier one has told.
    pub(super) fn may_still_lack(&self, target: &ClusterName, told: &Finding) -> bool {
        let of_kind = format!("{target} has no {} ", self.gvk.kind);
        let than_source = format!(", which {} has beside the workload", self.source);
        self.seen.is_err()
            && told.code == MISSING
            && told.message.starts_with(&of_kind)
            && told.message.contains(&than_source)
    }

    /// Returns what has to be waited for before it is known that the target has all of them.
    fn awaited(&self, target: &ClusterName) -> Option<String> {
        if let Err(why) = &self.seen {
            let kind = self.kind();
            return Some(format!(
                "{target} to show whether it has every {kind} that {} has: {why}",
                self.source
            ));
        }
        let (name, presence) = self.all().find(|(_, presence)| **presence != Presence::There)?;
        let kind = &self.gvk.kind;
        Some(match presence {
            Presence::Unknown(why) => format!("{target} to show {kind} {name}: {why}"),
            _ => format!("{kind} {name} to arrive in {target}, where Karmada brings it"),
        })
    }

    /// Says that the target has all of them.
    fn note(&self, target: &ClusterName) -> Option<String> {
        let count = self.all().count();
        let is_there = self.seen.is_ok() && self.all().all(|(_, presence)| *presence == Presence::There);
        (is_there && count > 0).then(|| {
            format!(
                "{target} has every {} that {} has: {count}",
                self.kind(),
                self.source
            )
        })
    }
}

impl Dependencies {
    /// Returns a finding for each that is missing in the target.
    pub(super) fn findings(&self, target: &ClusterName) -> Vec<Finding> {
        let mut findings = findings(&self.named, target);
        findings.extend(self.missing(target));
        findings
    }

    /// Returns a finding for what the profile selects and the target lacks.
    pub(super) fn missing(&self, target: &ClusterName) -> Option<Finding> {
        let then = ", and ask for the move again when they are there";
        let mut selected = self.selected.iter();
        selected.find_map(|selected| selected.missing(target, then))
    }

    /// Returns what has to be waited for before the workload may be stopped, and before it may run in the target. What was not looked
    /// for is waited for, too.
    pub(super) fn awaited(&self, profile: &WorkloadProfileSpec, target: &ClusterName) -> Option<String> {
        if self.selected.len() < profile.selected().count() {
            return Some(format!("a look for what the workload needs in {target}"));
        }
        self.selected.iter().find_map(|selected| selected.awaited(target))
    }

    /// Says what is not known of the target, which volumes come to it without their data, and what the profile selects and it has.
    pub(super) fn notes(&self, target: &ClusterName) -> Vec<String> {
        let mut notes = notes(&self.named, target);
        notes.extend(self.selected.iter().filter_map(|selected| selected.note(target)));
        notes
    }
}

/// How the message of [`UNSEEN`] begins.
const UNSEEN_IN: &str = "cutover cannot see whether ";

/// Returns whether a finding of a plan is about what a cluster lacks that the workload may fail over to.
pub(super) fn is_of_failover(finding: &Finding) -> bool {
    [MISSING, UNSEEN].contains(&finding.code.as_str())
}

/// Returns whether a finding of a plan is about what this cluster lacks.
pub(super) fn is_of_failover_to(finding: &Finding, cluster: &ClusterName) -> bool {
    let about = finding
        .message
        .strip_prefix(UNSEEN_IN)
        .unwrap_or(&finding.message);
    is_of_failover(finding) && about.starts_with(&format!("{cluster} has "))
}

/// Returns the objects that a template refers to. What is optional is left out.
pub fn references(template: &Value, profile: Option<&Profile>) -> BTreeSet<Reference> {
    let mut found = BTreeSet::new();
    let annotations = template.pointer("/metadata/annotations");
    if annotations.is_some_and(|all| all[MODE_ANNOTATION] == "ignore") {
        return found;
    }
    if let Some(spec) = template.get("spec") {
        walk(spec, &mut found);
    }
    let needs = profile.map(|profile| profile.needs(template));
    found.extend(needs.into_iter().flatten().map(|(need, name)| Reference {
        gvk: need.gvk(),
        name: name.to_owned(),
    }));
    found.retain(|reference| !reference.name.is_empty() && !reference.is_everywhere());
    found
}

fn walk(value: &Value, found: &mut BTreeSet<Reference>) {
    match value {
        Value::Object(fields) => {
            if fields.get("containers").is_some_and(Value::is_array) {
                of_pod(value, found);
            }
            for (field, value) in fields {
                of_field(field, value, found);
                walk(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
        _ => {}
    }
}

/// A field of an object, the field of its name, and the kind that has that name.
type Place = (&'static str, &'static str, &'static str);

const VOLUME: &[Place] = &[
    ("configMap", "name", "ConfigMap"),
    ("secret", "secretName", "Secret"),
    ("persistentVolumeClaim", "claimName", "PersistentVolumeClaim"),
];
const PROJECTED: &[Place] = &[("configMap", "name", "ConfigMap"), ("secret", "name", "Secret")];
const ENV_FROM: &[Place] = &[
    ("configMapRef", "name", "ConfigMap"),
    ("secretRef", "name", "Secret"),
];
const VALUE_FROM: &[Place] = &[
    ("configMapKeyRef", "name", "ConfigMap"),
    ("secretKeyRef", "name", "Secret"),
];

/// These fields mean something else outside of a pod.
fn of_pod(spec: &Value, found: &mut BTreeSet<Reference>) {
    let account = spec["serviceAccountName"].as_str();
    found.extend(account.map(|name| Reference::core("ServiceAccount", name)));
    let secrets = items(&spec["imagePullSecrets"]).filter_map(|secret| secret["name"].as_str());
    found.extend(secrets.map(|name| Reference::core("Secret", name)));
}

/// These are looked at wherever they stand: operators take volumes and environments over from pods and containers, and not always
/// with the pod around them.
fn of_field(field: &str, value: &Value, found: &mut BTreeSet<Reference>) {
    match field {
        "volumes" => {
            for volume in items(value) {
                look(volume, VOLUME, found);
                items(&volume["projected"]["sources"]).for_each(|source| look(source, PROJECTED, found));
            }
        }
        "envFrom" => items(value).for_each(|source| look(source, ENV_FROM, found)),
        "valueFrom" => look(value, VALUE_FROM, found),
        _ => {}
    }
}

fn look(value: &Value, places: &[Place], found: &mut BTreeSet<Reference>) {
    for (field, name, kind) in places {
        let reference = &value[*field];
        if reference["optional"] != true {
            let name = reference[*name].as_str();
            found.extend(name.map(|name| Reference::core(kind, name)));
        }
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns a finding for each that is missing in the target.
fn findings(seen: &[(Reference, Presence)], target: &ClusterName) -> Vec<Finding> {
    let missing = seen.iter().filter(|(_, presence)| *presence == Presence::Missing);
    missing.map(|(reference, _)| finding(reference, target)).collect()
}

fn finding(reference: &Reference, target: &ClusterName) -> Finding {
    let (bring, hint) = if reference.is_claim() {
        (
            "does not bring it, nor what is on its volume",
            "keep the data where both clusters reach it, or copy it and create the claim there, or annotate the template with \
             cutover.dev/dependencies: ignore",
        )
    } else {
        (
            "does not bring it",
            "propagate it to the target (propagateDeps: true in the policy, or a policy of its own), create it there, mark the \
             reference optional, or annotate the template with cutover.dev/dependencies: ignore",
        )
    };
    let message = format!("{target} has no {reference}, which the workload needs, and Karmada {bring}");
    Finding::new(MISSING, message, hint)
}

/// Says what is not known of the target, and which volumes come to it without their data.
fn notes(seen: &[(Reference, Presence)], target: &ClusterName) -> Vec<String> {
    let mut notes = Vec::new();
    let why = seen.iter().find_map(|(_, presence)| match presence {
        Presence::Unknown(why) => Some(why),
        _ => None,
    });
    if let Some(why) = why {
        let unknown = those(seen, |presence| matches!(presence, Presence::Unknown(_)));
        notes.extend(not_known(&unknown, target, why));
    }
    let left_out = those(seen, |presence| *presence == Presence::NotRead);
    let why = format!(
        "it refers to {} objects, and only {MOST} are looked up",
        seen.len()
    );
    notes.extend(not_known(&left_out, target, &why));
    let come = those(seen, |presence| *presence == Presence::Comes);
    let claims = come.into_iter().filter(|reference| reference.is_claim());
    notes.extend(claims.map(|claim| format!("{claim} reaches {target} without the data on its volume")));
    notes
}

fn those(seen: &[(Reference, Presence)], is: fn(&Presence) -> bool) -> Vec<&Reference> {
    let those = seen.iter().filter(|(_, presence)| is(presence));
    those.map(|(reference, _)| reference).collect()
}

fn not_known(references: &[&Reference], target: &ClusterName, why: &str) -> Option<String> {
    let (first, others) = references.split_first()?;
    Some(match others.len() {
        0 => format!("whether {target} has {first} is not known: {why}"),
        more => format!(
            "whether {target} has {first} and {more} more that the workload needs is not known: {why}"
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::profile;

    fn named(references: &BTreeSet<Reference>) -> Vec<String> {
        references.iter().map(ToString::to_string).collect()
    }

    /// What is found in a template of a kind that has a built-in profile.
    fn found(api_version: &str, kind: &str, spec: Value) -> Vec<String> {
        let gvk = Gvk::new(api_version, kind);
        let profile = profile::find(&[], None, &gvk).unwrap().unwrap();
        let profile = Profile::compile(kind, &profile.spec).unwrap();
        let template = json!({"apiVersion": api_version, "kind": kind, "spec": spec});
        named(&references(&template, Some(&profile)))
    }

    #[test]
    fn what_pods_refer_to_is_found_wherever_a_template_describes_them() {
        let pod = json!({
            "serviceAccountName": "runner",
            "imagePullSecrets": [{"name": "pull"}],
            "volumes": [
                {"configMap": {"name": "a"}}, {"secret": {"secretName": "b"}}, {"persistentVolumeClaim": {"claimName": "c"}},
                {"projected": {"sources": [{"configMap": {"name": "d"}}, {"secret": {"name": "e", "optional": true}}]}},
                {"emptyDir": {}}, {"hostPath": {"path": "/var"}}, {"configMap": {"name": "i", "optional": true}},
            ],
            "initContainers": [{"envFrom": [{"secretRef": {"name": "f"}}]}],
            "containers": [{"env": [
                {"valueFrom": {"configMapKeyRef": {"name": "g", "key": "k"}}}, {"value": "x"},
                {"valueFrom": {"secretKeyRef": {"name": "h", "key": "k", "optional": true}}},
            ]}],
        });
        for template in [
            json!({"spec": {"template": {"spec": pod}}}),
            json!({"spec": {"podTemplate": {"spec": pod}, "job": {"state": "running"}}}),
            json!({"spec": {"workerGroupSpecs": [{"template": {"spec": pod}}]}}),
        ] {
            assert_eq!(
                named(&references(&template, None)),
                [
                    "ConfigMap a",
                    "ConfigMap d",
                    "ConfigMap g",
                    "PersistentVolumeClaim c",
                    "Secret b",
                    "Secret f",
                    "Secret pull",
                    "ServiceAccount runner"
                ]
            );
        }
        let plain =
            json!({"spec": {"template": {"spec": {"serviceAccountName": "default", "containers": []}}}});
        assert!(references(&plain, None).is_empty());
        let ignored = json!({
            "metadata": {"annotations": {"cutover.dev/dependencies": "ignore"}},
            "spec": {"template": {"spec": pod}},
        });
        assert!(references(&ignored, None).is_empty());
    }

    #[test]
    fn of_a_flink_deployment_its_service_account_is_found() {
        let spec = json!({
            "image": "orders:1", "serviceAccount": "flink", "flinkVersion": "v1_20",
            "flinkConfiguration": {"kubernetes.service-account": "other"},
            "podTemplate": {"spec": {"volumes": [{"name": "jars", "configMap": {"name": "jars"}}]}},
            "job": {"jarURI": "local:///opt/orders.jar", "state": "running"},
        });
        let names = found("flink.apache.org/v1beta1", "FlinkDeployment", spec);
        assert_eq!(names, ["ConfigMap jars", "ServiceAccount flink"]);
    }

    #[test]
    fn of_a_stateful_set_its_service_is_found() {
        let spec = |service: Value| {
            json!({
                "serviceName": service, "replicas": 3, "selector": {"matchLabels": {"app": "db"}},
                "template": {"spec": {"containers": [{"name": "main", "envFrom": [{"secretRef": {"name": "db"}}]}]}},
            })
        };
        let names = found("apps/v1", "StatefulSet", spec(json!("db")));
        assert_eq!(names, ["Secret db", "Service db"]);
        // It need not have one.
        let names = found("apps/v1", "StatefulSet", spec(json!("")));
        assert_eq!(names, ["Secret db"]);
    }

    #[test]
    fn of_a_session_job_the_session_cluster_is_found() {
        let spec = json!({
            "deploymentName": "session",
            "job": {"jarURI": "https://repo.example.org/orders.jar", "state": "running"},
        });
        let names = found("flink.apache.org/v1beta1", "FlinkSessionJob", spec);
        assert_eq!(names, ["FlinkDeployment session"]);
    }

    #[test]
    fn of_a_spark_application_the_driver_and_the_executors_are_looked_at() {
        let spec = json!({
            "image": "spark:3.5.5", "mainApplicationFile": "local:///opt/app.jar",
            "sparkConfigMap": "spark-conf", "hadoopConfigMap": "hadoop-conf", "imagePullSecrets": ["pull"],
            "sparkConf": {"spark.kubernetes.driver.secretKeyRef.X": "unread:key"},
            "volumes": [
                {"name": "scratch", "emptyDir": {}}, {"name": "rules", "configMap": {"name": "rules"}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            ],
            "driver": {
                "serviceAccount": "spark", "labels": {"name": "unrelated"},
                "configMaps": [{"name": "driver-files", "path": "/etc/driver"}],
                "secrets": [{"name": "gcp", "path": "/etc/gcp", "secretType": "GCPServiceAccount"}],
                "envSecretKeyRefs": {"PASSWORD": {"name": "db", "key": "password"}},
                "envVars": {"NAME": "unrelated"},
                "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "t"}}}],
                "sidecars": [{"name": "logs", "envFrom": [{"configMapRef": {"name": "logs"}}]}],
            },
            "executor": {
                "serviceAccount": "executor",
                "configMaps": [{"name": "executor-files", "path": "/etc/executor"}],
                "secrets": [{"name": "keytab", "path": "/etc/keytab", "secretType": "Generic"}],
                "envSecretKeyRefs": {"PASSWORD": {"name": "db-read", "key": "password"}},
                "envFrom": [{"secretRef": {"name": "all"}}, {"secretRef": {"name": "some", "optional": true}}],
            },
        });
        assert_eq!(
            found("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec),
            [
                "ConfigMap driver-files",
                "ConfigMap executor-files",
                "ConfigMap hadoop-conf",
                "ConfigMap logs",
                "ConfigMap rules",
                "ConfigMap spark-conf",
                "PersistentVolumeClaim data",
                "Secret all",
                "Secret db",
                "Secret db-read",
                "Secret gcp",
                "Secret keytab",
                "Secret pull",
                "Secret token",
                "ServiceAccount executor",
                "ServiceAccount spark",
            ]
        );
    }

    #[test]
    fn of_a_kafka_connect_secrets_and_files_of_settings_are_found() {
        let spec = json!({
            "replicas": 3, "groupId": "shop", "bootstrapServers": "kafka.shop.example.org:9093",
            "config": {"config.providers": "secrets", "name": "unrelated"},
            "tls": {"trustedCertificates": [{"secretName": "ca", "pattern": "*.crt"}, {"secretName": "ca-old", "certificate": "ca.crt"}]},
            "authentication": {
                "type": "oauth", "clientId": "connect", "tokenEndpointUri": "https://sso.example.org",
                "clientSecret": {"secretName": "client", "key": "secret"},
                "accessToken": {"secretName": "access", "key": "token"},
                "tlsTrustedCertificates": [{"secretName": "sso-ca", "certificate": "tls.crt"}],
            },
            "externalConfiguration": {
                "env": [{"name": "AWS_KEY", "valueFrom": {"secretKeyRef": {"name": "aws", "key": "key"}}}],
                "volumes": [{"name": "files", "configMap": {"name": "files"}}, {"name": "keys", "secret": {"secretName": "keys"}}],
            },
            "build": {
                "output": {"type": "docker", "image": "registry.example.org/connect:1", "pushSecret": "push"},
                "plugins": [{"name": "unrelated", "artifacts": [{"type": "jar", "url": "https://example.org/a.jar"}]}],
            },
            "metricsConfig": {
                "type": "jmxPrometheusExporter",
                "valueFrom": {"configMapKeyRef": {"name": "metrics", "key": "metrics.yml"}},
            },
            "logging": {"type": "external", "valueFrom": {"configMapKeyRef": {"name": "logging", "key": "log4j2.properties", "optional": true}}},
            "template": {"pod": {"imagePullSecrets": [{"name": "pull"}]}},
        });
        assert_eq!(
            found("kafka.strimzi.io/v1", "KafkaConnect", spec),
            [
                "ConfigMap files",
                "ConfigMap metrics",
                "Secret access",
                "Secret aws",
                "Secret ca",
                "Secret ca-old",
                "Secret client",
                "Secret keys",
                "Secret pull",
                "Secret push",
                "Secret sso-ca",
            ]
        );
        for (authentication, secret) in [
            (
                json!({"type": "scram-sha-512", "username": "connect", "passwordSecret": {"secretName": "p", "password": "key"}}),
                "Secret p",
            ),
            (
                json!({"type": "tls", "certificateAndKey": {"secretName": "c", "certificate": "a.crt", "key": "a.key"}}),
                "Secret c",
            ),
        ] {
            let spec = json!({"replicas": 1, "authentication": authentication});
            assert_eq!(found("kafka.strimzi.io/v1", "KafkaConnect", spec), [secret]);
        }
    }

    #[test]
    fn of_a_mono_vertex_each_single_container_is_looked_at() {
        let env = |secret: &str| json!([{"name": "X", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}}]);
        let spec = json!({
            "serviceAccountName": "flow", "imagePullSecrets": [{"name": "pull"}],
            "lifecycle": {"desiredPhase": "Running"}, "scale": {"min": 1},
            "source": {
                "udsource": {"container": {"image": "source:1", "env": env("source")}},
                "transformer": {"container": {"image": "transform:1", "envFrom": [{"configMapRef": {"name": "rules"}}]}},
            },
            "sink": {"udsink": {"container": {"image": "sink:1", "env": env("sink")}}, "fallback": {"udsink": {"container": {"env": env("spare")}}}},
            "volumes": [{"name": "lookup", "configMap": {"name": "lookup"}}],
            "daemonTemplate": {"serviceAccountName": "daemon", "containerTemplate": {"resources": {}}},
        });
        assert_eq!(
            found("numaflow.numaproj.io/v1alpha1", "MonoVertex", spec),
            [
                "ConfigMap lookup",
                "ConfigMap rules",
                "Secret pull",
                "Secret sink",
                "Secret source",
                "Secret spare",
                "ServiceAccount daemon",
                "ServiceAccount flow",
            ]
        );
    }

    fn secret(name: &str) -> Reference {
        Reference::core("Secret", name)
    }

    #[test]
    fn only_what_is_known_to_be_missing_is_a_finding_and_what_is_unknown_is_noted() {
        let seen = [
            (secret("a"), Presence::There),
            (secret("b"), Presence::Comes),
            (secret("c"), Presence::Missing),
            (secret("d"), Presence::Unknown("no right".to_owned())),
            (secret("e"), Presence::Unknown("no right".to_owned())),
        ];
        let west = ClusterName::new("west");
        let found: Vec<String> = findings(&seen, &west)
            .into_iter()
            .map(|found| found.message)
            .collect();
        assert_eq!(
            found,
            ["west has no Secret c, which the workload needs, and Karmada does not bring it"]
        );
        assert_eq!(
            notes(&seen, &west),
            ["whether west has Secret d and 1 more that the workload needs is not known: no right"]
        );
        assert!(notes(&seen[..3], &west).is_empty());
    }

    #[test]
    fn of_a_claim_it_is_said_that_its_data_stays_behind() {
        let west = ClusterName::new("west");
        let claim = Reference::core("PersistentVolumeClaim", "data");
        let missing = findings(&[(claim.clone(), Presence::Missing)], &west);
        assert_eq!(
            missing[0].message,
            "west has no PersistentVolumeClaim data, which the workload needs, and Karmada does not bring it, nor what is on its \
             volume"
        );
        assert_eq!(
            notes(&[(claim.clone(), Presence::Comes)], &west),
            ["PersistentVolumeClaim data reaches west without the data on its volume"]
        );
        assert!(notes(&[(claim, Presence::There)], &west).is_empty());
    }

    fn connectors(seen: Result<&[(&str, Presence)], &str>) -> Dependencies {
        let seen = seen.map(|all| {
            all.iter()
                .map(|(name, presence)| ((*name).to_owned(), presence.clone()))
        });
        Dependencies {
            named: Vec::new(),
            selected: vec![Selected {
                gvk: Gvk::new("kafka.strimzi.io/v1", "KafkaConnector"),
                selector: "strimzi.io/cluster=hub".to_owned(),
                source: ClusterName::new("east"),
                otherwise: Some("they are deleted".to_owned()),
                seen: seen.map(Iterator::collect).map_err(str::to_owned),
            }],
        }
    }

    #[test]
    fn of_what_is_selected_each_has_to_be_seen_in_the_target() {
        let west = ClusterName::new("west");
        let connect = profile::find(&[], None, &Gvk::new("kafka.strimzi.io/v1", "KafkaConnect"));
        let connect = connect.unwrap().unwrap().spec;
        let there = connectors(Ok(&[("a", Presence::There), ("b", Presence::There)]));
        assert!(there.findings(&west).is_empty() && there.awaited(&connect, &west).is_none());
        assert_eq!(
            there.notes(&west),
            ["west has every KafkaConnector (strimzi.io/cluster=hub) that east has: 2"]
        );
        let missing = connectors(Ok(&[
            ("a", Presence::Missing),
            ("b", Presence::There),
            ("c", Presence::Missing),
        ]));
        assert_eq!(
            missing.findings(&west)[0].message,
            "west has no KafkaConnector a, c, which east has beside the workload: they are deleted"
        );
        assert!(missing.notes(&west).is_empty());
        for (seen, waits_for) in [
            (
                connectors(Ok(&[("a", Presence::There), ("b", Presence::Comes)])),
                "KafkaConnector b to arrive in west, where Karmada brings it",
            ),
            (
                connectors(Ok(&[("a", Presence::Unknown("no right".to_owned()))])),
                "west to show KafkaConnector a: no right",
            ),
            (
                connectors(Err("no right")),
                "west to show whether it has every KafkaConnector (strimzi.io/cluster=hub) that east has: no right",
            ),
            // It was not looked for.
            (
                Dependencies::default(),
                "a look for what the workload needs in west",
            ),
        ] {
            assert!(seen.findings(&west).is_empty(), "{waits_for}");
            assert_eq!(seen.awaited(&connect, &west).as_deref(), Some(waits_for));
        }
        let none = connectors(Ok(&[]));
        assert!(none.findings(&west).is_empty() && none.awaited(&connect, &west).is_none());
    }

    #[test]
    fn of_many_that_are_missing_a_few_are_named() {
        let all = ["a", "b", "c", "d", "e", "f", "g"].map(|name| (name, Presence::Missing));
        let message = &connectors(Ok(&all)).findings(&ClusterName::new("west"))[0].message;
        assert!(
            message.starts_with("west has no KafkaConnector a, b, c, d, e and 2 more, which east has"),
            "{message}"
        );
    }

    #[test]
    fn of_a_pipeline_its_buffers_and_the_accounts_of_its_vertices_are_found() {
        let kind = ("numaflow.numaproj.io/v1alpha1", "Pipeline");
        let vertices = json!([
            {"name": "in", "serviceAccountName": "reader", "imagePullSecrets": [{"name": "pull"}]},
            {"name": "out", "sink": {"log": {}}},
        ]);
        let spec = json!({
            "lifecycle": {}, "vertices": vertices,
            "templates": {"daemon": {"serviceAccountName": "daemon", "imagePullSecrets": [{"name": "daemon-pull"}]}},
        });
        assert_eq!(
            found(kind.0, kind.1, spec),
            [
                "Secret daemon-pull",
                "Secret pull",
                "ServiceAccount daemon",
                "ServiceAccount reader",
                "InterStepBufferService default",
            ]
        );
        let spec = json!({"interStepBufferServiceName": "fast", "lifecycle": {}});
        assert_eq!(found(kind.0, kind.1, spec), ["InterStepBufferService fast"]);
    }

    #[test]
    fn of_a_train_job_its_runtime_and_the_secrets_of_its_initializers_are_found() {
        let kind = ("trainer.kubeflow.org/v1alpha1", "TrainJob");
        let spec = |runtime: &str| {
            json!({
                "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": runtime, "name": "torch"},
                "initializer": {
                    "dataset": {"storageUri": "hf://set", "secretRef": {"name": "set"}},
                    "model": {"storageUri": "hf://model", "secretRef": {"name": "model"}},
                },
            })
        };
        for runtime in ["ClusterTrainingRuntime", "TrainingRuntime"] {
            let expected = [
                "Secret model".to_owned(),
                "Secret set".to_owned(),
                format!("{runtime} torch"),
            ];
            assert_eq!(found(kind.0, kind.1, spec(runtime)), expected);
        }
    }

    #[test]
    fn what_is_beyond_the_limit_is_noted_beside_what_could_not_be_read() {
        let west = ClusterName::new("west");
        let seen = [
            (secret("a"), Presence::Unknown("no right".to_owned())),
            (secret("b"), Presence::NotRead),
            (secret("c"), Presence::NotRead),
        ];
        assert_eq!(
            notes(&seen, &west),
            [
                "whether west has Secret a is not known: no right",
                "whether west has Secret b and 1 more that the workload needs is not known: it refers to 3 objects, and only 30 \
                 are looked up",
            ]
        );
        assert!(findings(&seen, &west).is_empty());
    }
}
