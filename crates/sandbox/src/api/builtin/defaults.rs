//! What a kube-apiserver fills in.

use serde_json::{Map, Value, json};

use super::{BuiltIn, services};

/// Fields that Go doesn't write when they are zero: those that are no pointers, as far as clients set them.
pub(super) const OMITTED_WHEN_ZERO: &[(&str, &[&str])] = &[
    ("apps.v1.DeploymentSpec", &["paused", "minReadySeconds"]),
    (
        "apps.v1.DeploymentStatus",
        &[
            "availableReplicas",
            "observedGeneration",
            "readyReplicas",
            "replicas",
            "unavailableReplicas",
            "updatedReplicas",
        ],
    ),
    ("apps.v1.StatefulSetSpec", &["minReadySeconds"]),
    ("core.v1.Container", &["stdin", "stdinOnce", "tty", "workingDir"]),
    ("core.v1.ContainerPort", &["hostIP", "hostPort", "name"]),
    ("core.v1.EnvVar", &["value"]),
    (
        "core.v1.PodSpec",
        &[
            "hostIPC",
            "hostNetwork",
            "hostPID",
            "hostname",
            "nodeName",
            "serviceAccountName",
            "subdomain",
        ],
    ),
    ("core.v1.Secret", &["type"]),
    ("core.v1.ServicePort", &["name", "nodePort", "protocol"]),
    (
        "core.v1.ServiceSpec",
        &[
            "clusterIP",
            "externalName",
            "externalTrafficPolicy",
            "healthCheckNodePort",
            "loadBalancerIP",
            "publishNotReadyAddresses",
            "sessionAffinity",
            "type",
        ],
    ),
    ("core.v1.VolumeMount", &["readOnly", "subPath"]),
];

/// Defaults of fields: the type, the field, the value as JSON. A default that stands in a field's own object is filled in
/// when that object is there.
#[rustfmt::skip]
pub(super) const TABLE: &[(&str, &str, &str)] = &[
    ("admissionregistration.v1.ValidatingAdmissionPolicySpec", "failurePolicy", r#""Fail""#),
    ("admissionregistration.v1.MatchResources", "matchPolicy", r#""Equivalent""#),
    ("admissionregistration.v1.MatchResources", "namespaceSelector", "{}"),
    ("admissionregistration.v1.MatchResources", "objectSelector", "{}"),
    ("admissionregistration.v1.NamedRuleWithOperations", "scope", r#""*""#),
    ("apps.v1.DeploymentSpec", "replicas", "1"),
    ("apps.v1.DeploymentSpec", "revisionHistoryLimit", "10"),
    ("apps.v1.DeploymentSpec", "progressDeadlineSeconds", "600"),
    ("apps.v1.DeploymentSpec", "strategy", r#"{"type": "RollingUpdate"}"#),
    ("apps.v1.DeploymentStrategy", "type", r#""RollingUpdate""#),
    ("apps.v1.RollingUpdateDeployment", "maxSurge", r#""25%""#),
    ("apps.v1.RollingUpdateDeployment", "maxUnavailable", r#""25%""#),
    ("apps.v1.StatefulSetSpec", "replicas", "1"),
    ("apps.v1.StatefulSetSpec", "revisionHistoryLimit", "10"),
    ("apps.v1.StatefulSetSpec", "podManagementPolicy", r#""OrderedReady""#),
    ("apps.v1.StatefulSetSpec", "updateStrategy", r#"{"type": "RollingUpdate"}"#),
    ("apps.v1.StatefulSetSpec", "persistentVolumeClaimRetentionPolicy", "{}"),
    ("apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy", "whenDeleted", r#""Retain""#),
    ("apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy", "whenScaled", r#""Retain""#),
    ("apps.v1.StatefulSetUpdateStrategy", "type", r#""RollingUpdate""#),
    ("apps.v1.RollingUpdateStatefulSetStrategy", "partition", "0"),
    ("apps.v1.DaemonSetSpec", "revisionHistoryLimit", "10"),
    ("apps.v1.DaemonSetSpec", "updateStrategy", r#"{"type": "RollingUpdate"}"#),
    ("apps.v1.RollingUpdateDaemonSet", "maxSurge", "0"),
    ("apps.v1.RollingUpdateDaemonSet", "maxUnavailable", "1"),
    ("apps.v1.ReplicaSetSpec", "replicas", "1"),
    ("batch.v1.JobSpec", "backoffLimit", "6"),
    ("batch.v1.JobSpec", "completionMode", r#""NonIndexed""#),
    ("batch.v1.JobSpec", "suspend", "false"),
    ("batch.v1.JobSpec", "podReplacementPolicy", r#""TerminatingOrFailed""#),
    ("batch.v1.CronJobSpec", "concurrencyPolicy", r#""Allow""#),
    ("batch.v1.CronJobSpec", "suspend", "false"),
    ("batch.v1.CronJobSpec", "successfulJobsHistoryLimit", "3"),
    ("batch.v1.CronJobSpec", "failedJobsHistoryLimit", "1"),
    ("core.v1.PodSpec", "restartPolicy", r#""Always""#),
    ("core.v1.PodSpec", "dnsPolicy", r#""ClusterFirst""#),
    ("core.v1.PodSpec", "schedulerName", r#""default-scheduler""#),
    ("core.v1.PodSpec", "securityContext", "{}"),
    ("core.v1.PodSpec", "terminationGracePeriodSeconds", "30"),
    ("core.v1.Container", "resources", "{}"),
    ("core.v1.Container", "terminationMessagePath", r#""/dev/termination-log""#),
    ("core.v1.Container", "terminationMessagePolicy", r#""File""#),
    ("core.v1.ContainerPort", "protocol", r#""TCP""#),
    ("core.v1.ServicePort", "port", "0"),
    ("core.v1.ServicePort", "protocol", r#""TCP""#),
    ("core.v1.EndpointPort", "protocol", r#""TCP""#),
    ("core.v1.Probe", "failureThreshold", "3"),
    ("core.v1.Probe", "periodSeconds", "10"),
    ("core.v1.Probe", "successThreshold", "1"),
    ("core.v1.Probe", "timeoutSeconds", "1"),
    ("core.v1.HTTPGetAction", "path", r#""/""#),
    ("core.v1.HTTPGetAction", "scheme", r#""HTTP""#),
    ("core.v1.ObjectFieldSelector", "apiVersion", r#""v1""#),
    ("core.v1.ConfigMapVolumeSource", "defaultMode", "420"),
    ("core.v1.SecretVolumeSource", "defaultMode", "420"),
    ("core.v1.DownwardAPIVolumeSource", "defaultMode", "420"),
    ("core.v1.ProjectedVolumeSource", "defaultMode", "420"),
    ("core.v1.ServiceAccountTokenProjection", "expirationSeconds", "3600"),
    ("core.v1.HostPathVolumeSource", "type", r#""""#),
    ("core.v1.PersistentVolumeClaimSpec", "volumeMode", r#""Filesystem""#),
    ("core.v1.PersistentVolumeSpec", "volumeMode", r#""Filesystem""#),
    ("core.v1.PersistentVolumeSpec", "persistentVolumeReclaimPolicy", r#""Retain""#),
    ("core.v1.ServiceSpec", "type", r#""ClusterIP""#),
    ("core.v1.ServiceSpec", "sessionAffinity", r#""None""#),
    ("core.v1.Secret", "type", r#""Opaque""#),
    ("autoscaling.v2.HorizontalPodAutoscalerSpec", "minReplicas", "1"),
    ("networking.v1.NetworkPolicyPort", "protocol", r#""TCP""#),
    ("storage.v1.StorageClass", "reclaimPolicy", r#""Delete""#),
    ("storage.v1.StorageClass", "volumeBindingMode", r#""Immediate""#),
    ("scheduling.v1.PriorityClass", "preemptionPolicy", r#""PreemptLowerPriority""#),
];

/// Applies the table, and the defaults that depend on other fields.
pub(super) fn apply(kind: &BuiltIn, object: &mut Value) {
    drop_nulls(object);
    if kind.plural == "services" {
        ensure(object, &["spec"]);
    }
    kind.schema().fill_defaults(object);
    match kind.plural {
        "namespaces" => namespace(object),
        "secrets" => string_data(object),
        "services" => service(object),
        "deployments" => rolling_update(
            object,
            "/spec/strategy",
            &json!({"maxSurge": "25%", "maxUnavailable": "25%"}),
        ),
        "statefulsets" => rolling_update(object, "/spec/updateStrategy", &json!({"partition": 0})),
        "daemonsets" => rolling_update(
            object,
            "/spec/updateStrategy",
            &json!({"maxSurge": 0, "maxUnavailable": 1}),
        ),
        "jobs" => job(object),
        "customresourcedefinitions" => custom_resource_definition(object),
        "rolebindings" | "clusterrolebindings" => role_references(object),
        _ => {}
    }
    for pointer in [
        "/spec",
        "/spec/template/spec",
        "/spec/jobTemplate/spec/template/spec",
    ] {
        if let Some(spec) = at(object, pointer).filter(|spec| spec.contains_key("containers")) {
            if kind.plural == "pods" {
                requests(spec);
            }
            pod(spec);
        }
    }
}

/// What is limited and not requested is requested up to the limit: of pods, not of templates.
fn requests(spec: &mut Fields) {
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let Some(Value::Object(limits)) = container.pointer("/resources/limits").cloned() else {
                continue;
            };
            if let Some(requests) = ensure(container, &["resources", "requests"]) {
                for (name, limit) in limits {
                    set_missing(requests, &name, limit);
                }
            }
        }
    }
}

fn namespace(object: &mut Value) {
    let name = object.pointer("/metadata/name").cloned();
    if let Some(status) = ensure(object, &["status"]) {
        set_missing(status, "phase", json!("Active"));
    }
    ensure(object, &["spec"]);
    if let Some(name) = name
        && let Some(labels) = ensure(object, &["metadata", "labels"])
    {
        set_missing(labels, "kubernetes.io/metadata.name", name);
    }
}

fn pod(spec: &mut Fields) {
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let latest = container
                .get("image")
                .and_then(Value::as_str)
                .is_some_and(has_latest_tag);
            if let Some(container) = container.as_object_mut() {
                set_missing(
                    container,
                    "imagePullPolicy",
                    json!(if latest { "Always" } else { "IfNotPresent" }),
                );
            }
        }
    }
    // Two names of one field.
    for (name, other) in [
        ("serviceAccountName", "serviceAccount"),
        ("serviceAccount", "serviceAccountName"),
    ] {
        if let Some(account) = spec.get(name).cloned() {
            set_missing(spec, other, account);
        }
    }
}

/// Whether an image is pulled under the tag `latest`, said or unsaid.
fn has_latest_tag(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn rolling_update(object: &mut Value, strategy: &str, parameters: &Value) {
    if let Some(strategy) = at(object, strategy).filter(|strategy| strategy["type"] == "RollingUpdate") {
        set_missing(strategy, "rollingUpdate", parameters.clone());
    }
}

fn job(object: &mut Value) {
    let Some(spec) = at(object, "/spec") else { return };
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        set_missing(spec, "completions", json!(1));
    }
    set_missing(spec, "parallelism", json!(1));
}

fn service(object: &mut Value) {
    let balanced = at(object, "/spec").is_some_and(|spec| {
        services::defaults(spec);
        spec.get("type").is_some_and(|kind| kind == "LoadBalancer")
    });
    let Some(status) = ensure(object, &["status"]) else {
        return;
    };
    set_missing(status, "loadBalancer", json!({}));
    let ingress = status
        .get_mut("loadBalancer")
        .and_then(|at| at.get_mut("ingress"));
    let ingress = ingress.and_then(Value::as_array_mut).into_iter().flatten();
    for at in ingress.filter(|_| balanced).filter_map(Value::as_object_mut) {
        if at.get("ip").is_some_and(|ip| *ip != "") {
            set_missing(at, "ipMode", json!("VIP"));
        }
    }
}

/// `stringData` is written for convenience and kept as `data`.
fn string_data(object: &mut Value) {
    let texts = object
        .as_object_mut()
        .and_then(|fields| fields.shift_remove("stringData"));
    let Some(Value::Object(texts)) =
        texts.filter(|texts| texts.as_object().is_some_and(|texts| !texts.is_empty()))
    else {
        return;
    };
    let Some(data) = ensure(object, &["data"]) else {
        return;
    };
    for (name, text) in texts {
        data.insert(name, json!(base64(text.as_str().unwrap_or_default().as_bytes())));
    }
}

fn custom_resource_definition(object: &mut Value) {
    if let Some(names) = at(object, "/spec/names") {
        let kind = names
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        set_missing(names, "singular", json!(kind.to_lowercase()));
        set_missing(names, "listKind", json!(format!("{kind}List")));
    }
    if let Some(spec) = at(object, "/spec") {
        set_missing(spec, "conversion", json!({"strategy": "None"}));
    }
}

fn role_references(object: &mut Value) {
    const RBAC: &str = "rbac.authorization.k8s.io";
    if let Some(role) = at(object, "/roleRef") {
        set_missing(role, "apiGroup", json!(RBAC));
    }
    let subjects = object.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten().filter_map(Value::as_object_mut) {
        if subject.get("kind").is_some_and(|kind| kind != "ServiceAccount") {
            set_missing(subject, "apiGroup", json!(RBAC));
        }
    }
}

/// A decoder of Go types takes null for absent, everywhere but in the schema of a CRD, where it may be a default.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            for (name, value) in fields {
                if name != "openAPIV3Schema" {
                    drop_nulls(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

type Fields = Map<String, Value>;

fn at<'a>(object: &'a mut Value, pointer: &str) -> Option<&'a mut Fields> {
    object.pointer_mut(pointer)?.as_object_mut()
}

/// Returns the object at a path, which is made if it isn't there.
fn ensure<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut Fields> {
    let mut fields = object.as_object_mut()?;
    for name in path {
        fields = fields.entry(*name).or_insert_with(|| json!({})).as_object_mut()?;
    }
    Some(fields)
}

fn set_missing(fields: &mut Fields, name: &str, value: Value) {
    fields.entry(name).or_insert(value);
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4 {
            if position <= chunk.len() {
                let index = (bits >> (18 - 6 * position)) & 63;
                text.push(char::from(ALPHABET[index as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::by_plural;
    use super::*;

    #[test]
    fn a_deployment_gets_the_defaults_that_clients_see() {
        let mut deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "creationTimestamp": null},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{
                        "name": "web", "image": "nginx:1.27", "ports": [{"containerPort": 80}],
                        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
                    }]},
                },
            },
        });
        by_plural("apps", "deployments").unwrap().default(&mut deployment);
        assert_eq!(
            deployment,
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
                "spec": {
                    "progressDeadlineSeconds": 600, "replicas": 1, "revisionHistoryLimit": 10,
                    "selector": {"matchLabels": {"app": "web"}},
                    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                    "template": {
                        "metadata": {"labels": {"app": "web"}},
                        "spec": {
                            "containers": [{
                                "name": "web", "image": "nginx:1.27", "imagePullPolicy": "IfNotPresent",
                                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                                "resources": {
                                    "limits": {"cpu": "1", "memory": "1Gi"},
                                    "requests": {"cpu": "500m"},
                                },
                                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                            }],
                            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
                            "schedulerName": "default-scheduler", "securityContext": {},
                            "terminationGracePeriodSeconds": 30,
                        },
                    },
                },
            })
        );
        let once = deployment.clone();
        by_plural("apps", "deployments").unwrap().default(&mut deployment);
        assert_eq!(deployment, once, "defaulting twice changes nothing");
    }

    #[test]
    fn images_without_a_tag_are_the_latest() {
        for (image, latest) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("registry:5000/nginx", true),
            ("nginx:1.27", false),
            ("nginx@sha256:0123", false),
        ] {
            assert_eq!(has_latest_tag(image), latest, "{image}");
        }
    }

    #[test]
    fn string_data_of_a_secret_becomes_data() {
        let mut secret = json!({"stringData": {"a": "x", "b": "hello"}, "data": {"c": "eg=="}});
        by_plural("", "secrets").unwrap().default(&mut secret);
        assert_eq!(
            secret,
            json!({"data": {"a": "eA==", "b": "aGVsbG8=", "c": "eg=="}, "type": "Opaque"})
        );
    }
}
