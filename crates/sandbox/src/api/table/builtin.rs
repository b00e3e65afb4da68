//! The columns of the built-in kinds, in the words and order of a real server.

use jiff::Timestamp;
use serde_json::Value;

use super::ColumnType::{self, Boolean, Integer, String};
use super::{Cell, Column, cells};

/// Where a cell of a built-in kind comes from.
enum Source {
    /// A JSON pointer. What isn't there is shown as the zero of its type.
    At(&'static str),
    By(fn(&Value, Timestamp) -> Value),
}

use Source::{At, By};

/// A heading with its type, its priority and its cells.
type Heading = (&'static str, ColumnType, i64, Source);

/// Returns the columns of a built-in kind.
pub fn columns(group: &str, plural: &str) -> Vec<Column> {
    let headings = TABLES
        .iter()
        .find(|(known, _)| *known == (group, plural))
        .map_or(CREATED_AT, |(_, table)| *table);
    // An Event has its name among the last columns, for wide tables.
    let name = ((group, plural) != ("", "events")).then(Column::name);
    name.into_iter().chain(headings.iter().map(column)).collect()
}

fn column((name, kind, priority, source): &Heading) -> Column {
    match source {
        By(cell) if *name == "Age" => Column {
            kind: *kind,
            priority: *priority,
            cell: Cell::Computed(*cell),
            ..Column::age()
        },
        By(cell) => Column::computed(name, *kind, *priority, *cell),
        At(pointer) => Column {
            cell: Cell::Pointer(pointer),
            ..Column::computed(name, *kind, *priority, cells::age)
        },
    }
}

const AGE: Heading = ("Age", String, 0, By(cells::age));
/// What kinds without columns of their own show.
const CREATED_AT: &[Heading] = &[("Created At", String, 0, At("/metadata/creationTimestamp"))];

const CONTAINERS: Heading = (
    "Containers",
    String,
    1,
    By(|object, _| cells::containers(object, "name")),
);
const IMAGES: Heading = (
    "Images",
    String,
    1,
    By(|object, _| cells::containers(object, "image")),
);
const SELECTOR: Heading = (
    "Selector",
    String,
    1,
    By(|object, _| cells::selector(&object["spec"]["selector"])),
);
const READY_OF_WANTED: Heading = (
    "Ready",
    String,
    0,
    By(|object, _| cells::of(object, "/status/readyReplicas", "/spec/replicas")),
);

type Table = ((&'static str, &'static str), &'static [Heading]);

#[rustfmt::skip]
const TABLES: &[Table] = &[
    (("", "namespaces"), &[("Status", String, 0, At("/status/phase")), AGE]),
    (("", "configmaps"), &[
        ("Data", String, 0, By(|object, _| cells::count(&[&object["data"], &object["binaryData"]]))),
        AGE,
    ]),
    (("", "secrets"), &[
        ("Type", String, 0, At("/type")),
        ("Data", String, 0, By(|object, _| cells::count(&[&object["data"]]))),
        AGE,
    ]),
    (("", "services"), &[
        ("Type", String, 0, At("/spec/type")),
        ("Cluster-IP", String, 0, By(|object, _| cells::or_none(&object["spec"]["clusterIP"]))),
        ("External-IP", String, 0, By(|object, _| cells::external_ip(object))),
        ("Port(s)", String, 0, By(|object, _| cells::service_ports(object))),
        AGE,
        ("Selector", String, 1, By(|object, _| cells::labels(&object["spec"]["selector"]))),
    ]),
    (("", "serviceaccounts"), &[
        ("Secrets", Integer, 0, By(|object, _| cells::count(&[&object["secrets"]]))),
        AGE,
    ]),
    (("", "pods"), &[
        ("Ready", String, 0, By(|object, _| cells::pod_ready(object))),
        ("Status", String, 0, By(|object, _| cells::pod_status(object))),
        ("Restarts", String, 0, By(cells::pod_restarts)),
        AGE,
        ("IP", String, 1, By(|object, _| cells::or_none(&object["status"]["podIP"]))),
        ("Node", String, 1, By(|object, _| cells::or_none(&object["spec"]["nodeName"]))),
        ("Nominated Node", String, 1, By(|object, _| cells::or_none(&object["status"]["nominatedNodeName"]))),
        ("Readiness Gates", String, 1, By(|_, _| cells::NONE.into())),
    ]),
    (("", "nodes"), &[
        ("Status", String, 0, By(|object, _| cells::node_status(object))),
        ("Roles", String, 0, By(|object, _| cells::node_roles(object))),
        AGE,
        ("Version", String, 0, At("/status/nodeInfo/kubeletVersion")),
        ("Internal-IP", String, 1, By(|object, _| cells::node_address(object, "InternalIP"))),
        ("External-IP", String, 1, By(|object, _| cells::node_address(object, "ExternalIP"))),
        ("OS-Image", String, 1, By(|object, _| cells::or_unknown(&object["status"]["nodeInfo"]["osImage"]))),
        ("Kernel-Version", String, 1, By(|object, _| cells::or_unknown(&object["status"]["nodeInfo"]["kernelVersion"]))),
        ("Container-Runtime", String, 1,
            By(|object, _| cells::or_unknown(&object["status"]["nodeInfo"]["containerRuntimeVersion"]))),
    ]),
    (("", "events"), &[
        ("Last Seen", String, 0, By(cells::event_last_seen)),
        ("Type", String, 0, At("/type")),
        ("Reason", String, 0, At("/reason")),
        ("Object", String, 0, By(|object, _| cells::event_object(object))),
        ("Subobject", String, 1, At("/involvedObject/fieldPath")),
        ("Source", String, 1, By(|object, _| cells::event_source(object))),
        ("Message", String, 0, By(|object, _| cells::trimmed(&object["message"]))),
        ("First Seen", String, 1, By(cells::event_first_seen)),
        ("Count", Integer, 1, By(|object, _| cells::event_count(object))),
        ("Name", String, 1, At("/metadata/name")),
    ]),
    (("", "persistentvolumeclaims"), &[
        ("Status", String, 0, By(|object, _| cells::phase(object))),
        ("Volume", String, 0, At("/spec/volumeName")),
        ("Capacity", String, 0, At("/status/capacity/storage")),
        ("Access Modes", String, 0, By(|object, _| cells::access_modes(&object["status"]["accessModes"]))),
        ("StorageClass", String, 0, At("/spec/storageClassName")),
        ("VolumeAttributesClass", String, 0, By(|object, _| cells::or_unset(&object["spec"]["volumeAttributesClassName"]))),
        AGE,
        ("VolumeMode", String, 1, By(|object, _| cells::or_unset(&object["spec"]["volumeMode"]))),
    ]),
    (("", "persistentvolumes"), &[
        ("Capacity", String, 0, At("/spec/capacity/storage")),
        ("Access Modes", String, 0, By(|object, _| cells::access_modes(&object["spec"]["accessModes"]))),
        ("Reclaim Policy", String, 0, At("/spec/persistentVolumeReclaimPolicy")),
        ("Status", String, 0, By(|object, _| cells::phase(object))),
        ("Claim", String, 0, By(|object, _| cells::claim(&object["spec"]["claimRef"]))),
        ("StorageClass", String, 0, At("/spec/storageClassName")),
        ("VolumeAttributesClass", String, 0, By(|object, _| cells::or_unset(&object["spec"]["volumeAttributesClassName"]))),
        ("Reason", String, 0, At("/status/reason")),
        AGE,
        ("VolumeMode", String, 1, By(|object, _| cells::or_unset(&object["spec"]["volumeMode"]))),
    ]),
    (("apps", "deployments"), &[
        READY_OF_WANTED,
        ("Up-to-date", String, 0, By(|object, _| object["status"]["updatedReplicas"].as_i64().unwrap_or(0).into())),
        ("Available", String, 0, By(|object, _| object["status"]["availableReplicas"].as_i64().unwrap_or(0).into())),
        AGE, CONTAINERS, IMAGES, SELECTOR,
    ]),
    (("apps", "statefulsets"), &[READY_OF_WANTED, AGE, CONTAINERS, IMAGES]),
    (("apps", "replicasets"), &[
        ("Desired", Integer, 0, At("/spec/replicas")),
        ("Current", Integer, 0, At("/status/replicas")),
        ("Ready", Integer, 0, At("/status/readyReplicas")),
        AGE, CONTAINERS, IMAGES, SELECTOR,
    ]),
    (("apps", "daemonsets"), &[
        ("Desired", Integer, 0, At("/status/desiredNumberScheduled")),
        ("Current", Integer, 0, At("/status/currentNumberScheduled")),
        ("Ready", Integer, 0, At("/status/numberReady")),
        ("Up-to-date", Integer, 0, At("/status/updatedNumberScheduled")),
        ("Available", Integer, 0, At("/status/numberAvailable")),
        ("Node Selector", String, 0, By(|object, _| cells::labels(&object["spec"]["template"]["spec"]["nodeSelector"]))),
        AGE, CONTAINERS, IMAGES, SELECTOR,
    ]),
    (("apps", "controllerrevisions"), &[
        ("Controller", String, 0, By(|object, _| cells::controller(object))),
        ("Revision", String, 0, At("/revision")),
        AGE,
    ]),
    (("batch", "jobs"), &[
        ("Status", String, 0, By(|object, _| cells::job_status(object))),
        ("Completions", String, 0, By(|object, _| cells::job_completions(object))),
        ("Duration", String, 0, By(cells::job_duration)),
        AGE, CONTAINERS, IMAGES, SELECTOR,
    ]),
    (("batch", "cronjobs"), &[
        ("Schedule", String, 0, At("/spec/schedule")),
        ("Timezone", String, 0, By(|object, _| cells::or_none(&object["spec"]["timeZone"]))),
        ("Suspend", Boolean, 0, At("/spec/suspend")),
        ("Active", Integer, 0, By(|object, _| cells::count(&[&object["status"]["active"]]))),
        ("Last Schedule", String, 0, By(|object, now| cells::since_or_none(&object["status"]["lastScheduleTime"], now))),
        AGE,
    ]),
    (("autoscaling", "horizontalpodautoscalers"), &[
        ("Reference", String, 0, By(|object, _| cells::reference(&object["spec"]["scaleTargetRef"]))),
        ("MinPods", String, 0, By(|object, _| cells::or_unset(&object["spec"]["minReplicas"]))),
        ("MaxPods", Integer, 0, At("/spec/maxReplicas")),
        ("Replicas", Integer, 0, At("/status/currentReplicas")),
        AGE,
    ]),
    (("networking.k8s.io", "ingresses"), &[
        ("Class", String, 0, By(|object, _| cells::or_none(&object["spec"]["ingressClassName"]))),
        ("Hosts", String, 0, By(|object, _| cells::ingress_hosts(object))),
        ("Address", String, 0, By(|object, _| cells::load_balancer(object))),
        ("Ports", String, 0, By(|object, _| cells::ingress_ports(object))),
        AGE,
    ]),
    (("networking.k8s.io", "ingressclasses"), &[
        ("Controller", String, 0, At("/spec/controller")),
        ("Parameters", String, 0, By(|object, _| cells::reference(&object["spec"]["parameters"]))),
        AGE,
    ]),
    (("networking.k8s.io", "networkpolicies"), &[
        ("Pod-Selector", String, 0, By(|object, _| cells::selector(&object["spec"]["podSelector"]))),
        AGE,
    ]),
    (("policy", "poddisruptionbudgets"), &[
        ("Min Available", String, 0, By(|object, _| cells::or_not_applicable(&object["spec"]["minAvailable"]))),
        ("Max Unavailable", String, 0, By(|object, _| cells::or_not_applicable(&object["spec"]["maxUnavailable"]))),
        ("Allowed Disruptions", Integer, 0, At("/status/disruptionsAllowed")),
        AGE,
    ]),
    (("coordination.k8s.io", "leases"), &[("Holder", String, 0, At("/spec/holderIdentity")), AGE]),
    (("rbac.authorization.k8s.io", "rolebindings"), &[
        ("Role", String, 0, By(|object, _| cells::reference(&object["roleRef"]))), AGE,
    ]),
    (("rbac.authorization.k8s.io", "clusterrolebindings"), &[
        ("Role", String, 0, By(|object, _| cells::reference(&object["roleRef"]))), AGE,
    ]),
    (("storage.k8s.io", "storageclasses"), &[
        ("Provisioner", String, 0, At("/provisioner")),
        ("ReclaimPolicy", String, 0, At("/reclaimPolicy")),
        ("VolumeBindingMode", String, 0, At("/volumeBindingMode")),
        ("AllowVolumeExpansion", Boolean, 0, At("/allowVolumeExpansion")),
        AGE,
    ]),
    (("scheduling.k8s.io", "priorityclasses"), &[
        ("Value", Integer, 0, At("/value")),
        ("Global-Default", Boolean, 0, At("/globalDefault")),
        AGE,
        ("PreemptionPolicy", String, 0, At("/preemptionPolicy")),
    ]),
    (("admissionregistration.k8s.io", "validatingwebhookconfigurations"), &[
        ("Webhooks", Integer, 0, By(|object, _| cells::count(&[&object["webhooks"]]))), AGE,
    ]),
    (("admissionregistration.k8s.io", "validatingadmissionpolicies"), &[
        ("Validations", Integer, 0, By(|object, _| cells::count(&[&object["spec"]["validations"]]))),
        ("ParamKind", String, 0, By(|object, _| cells::param_kind(&object["spec"]["paramKind"]))), AGE,
    ]),
    (("admissionregistration.k8s.io", "validatingadmissionpolicybindings"), &[
        ("PolicyName", String, 0, At("/spec/policyName")),
        ("ParamRef", String, 0, By(|object, _| cells::param_ref(&object["spec"]["paramRef"]))), AGE,
    ]),
    (("admissionregistration.k8s.io", "mutatingwebhookconfigurations"), &[
        ("Webhooks", Integer, 0, By(|object, _| cells::count(&[&object["webhooks"]]))), AGE,
    ]),
    (("", "endpoints"), &[("Endpoints", String, 0, By(|object, _| cells::endpoints(object))), AGE]),
    (("discovery.k8s.io", "endpointslices"), &[("AddressType", String, 0, At("/addressType")), AGE]),
    (("", "resourcequotas"), &[AGE]),
];

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::super::super::builtin::KINDS;
    use super::super::{Include, table};
    use super::*;

    fn shown(group: &str, plural: &str, object: &Value) -> Value {
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        let columns = columns(group, plural);
        table(&columns, true, &[object], Map::new(), Include::None, now)["rows"][0]["cells"].clone()
    }

    fn object(name: &str, rest: Value) -> Value {
        let mut object = json!({"metadata": {"name": name, "creationTimestamp": "2026-01-01T11:54:57Z"}});
        object
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        object
    }

    #[test]
    fn every_table_is_of_a_served_kind() {
        for ((group, plural), _) in TABLES {
            assert!(
                KINDS
                    .iter()
                    .any(|kind| (kind.group, kind.plural) == (*group, *plural)),
                "{group} {plural}"
            );
        }
    }

    #[test]
    fn an_empty_object_of_every_kind_can_be_shown() {
        for kind in KINDS {
            let cells = shown(kind.group, kind.plural, &object("a", json!({})));
            assert_eq!(
                cells.as_array().unwrap().len(),
                columns(kind.group, kind.plural).len(),
                "{}",
                kind.kind
            );
        }
    }

    #[test]
    fn deployments_show_their_replicas() {
        let deployment = object(
            "web",
            json!({
                "spec": {
                    "replicas": 3,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {"spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:2"}]}},
                },
                "status": {"readyReplicas": 2, "updatedReplicas": 3},
            }),
        );
        let cells = json!(["web", "2/3", 3, 0, "5m3s", "a,b", "x:1,y:2", "app=web"]);
        assert_eq!(shown("apps", "deployments", &deployment), cells);
    }

    #[test]
    fn pods_show_what_their_containers_are_up_to() {
        let containers = json!({"containers": [{"name": "a"}, {"name": "b"}]});
        for (status, ready, shows, restarts) in [
            (json!({"phase": "Pending"}), "0/2", "Pending", "0"),
            (
                json!({"phase": "Running", "containerStatuses": [
                    {"ready": true, "restartCount": 0, "state": {"running": {}}},
                    {"ready": false, "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                     "lastState": {"terminated": {"finishedAt": "2026-01-01T11:59:00Z"}}},
                ]}),
                "1/2",
                "CrashLoopBackOff",
                "4 (60s ago)",
            ),
            (
                json!({"phase": "Failed", "containerStatuses": [
                    {"ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 3}}},
                ]}),
                "0/2",
                "ExitCode:3",
                "0",
            ),
            (
                json!({"phase": "Failed", "reason": "Evicted"}),
                "0/2",
                "Evicted",
                "0",
            ),
        ] {
            let pod = object("p", json!({"spec": containers, "status": status}));
            let cells = shown("", "pods", &pod);
            assert_eq!(
                (&cells[1], &cells[2], &cells[3]),
                (&json!(ready), &json!(shows), &json!(restarts)),
                "{status}"
            );
        }
        let mut leaving = object("p", json!({"spec": containers, "status": {"phase": "Running"}}));
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T11:59:00Z");
        assert_eq!(shown("", "pods", &leaving)[2], "Terminating");
    }

    #[test]
    fn other_kinds_show_what_a_real_server_shows() {
        for (group, plural, rest, cells) in [
            (
                "",
                "namespaces",
                json!({"status": {"phase": "Active"}}),
                json!(["a", "Active", "5m3s"]),
            ),
            (
                "",
                "configmaps",
                json!({"data": {"x": "", "y": ""}}),
                json!(["a", 2, "5m3s"]),
            ),
            (
                "",
                "secrets",
                json!({"type": "Opaque", "data": {"x": ""}}),
                json!(["a", "Opaque", 1, "5m3s"]),
            ),
            (
                "apiextensions.k8s.io",
                "customresourcedefinitions",
                json!({}),
                json!(["a", "2026-01-01T11:54:57Z"]),
            ),
            (
                "batch",
                "jobs",
                json!({
                    "spec": {"completions": 1},
                    "status": {
                        "succeeded": 1,
                        "startTime": "2026-01-01T11:55:00Z",
                        "completionTime": "2026-01-01T11:55:09Z",
                        "conditions": [{"type": "Complete", "status": "True"}],
                    },
                }),
                json!(["a", "Complete", "1/1", "9s", "5m3s", "", "", "<none>"]),
            ),
        ] {
            assert_eq!(shown(group, plural, &object("a", rest)), cells, "{plural}");
        }
    }

    #[test]
    fn nodes_and_events_begin_with_what_matters() {
        let node = object(
            "n",
            json!({
                "spec": {"unschedulable": true},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "nodeInfo": {"kubeletVersion": "v1.36.0"},
                },
            }),
        );
        let cells = shown("", "nodes", &node);
        assert_eq!(
            cells.as_array().unwrap()[..5],
            [
                json!("n"),
                json!("Ready,SchedulingDisabled"),
                json!("<none>"),
                json!("5m3s"),
                json!("v1.36.0"),
            ]
        );
        let event = object(
            "e",
            json!({
                "type": "Warning", "reason": "Late", "message": "it is late\n",
                "involvedObject": {"kind": "Pod", "name": "p"},
                "firstTimestamp": "2026-01-01T11:50:00Z", "lastTimestamp": "2026-01-01T11:59:00Z", "count": 3,
            }),
        );
        let cells = shown("", "events", &event);
        assert_eq!(
            cells,
            json!([
                "60s",
                "Warning",
                "Late",
                "pod/p",
                "",
                "",
                "it is late",
                "10m",
                3,
                "e"
            ])
        );
    }
}
