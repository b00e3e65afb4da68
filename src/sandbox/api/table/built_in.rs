//! The columns of the built-in kinds, as a kube-apiserver 1.36 names them.

use jiff::Timestamp;
use serde_json::Value;

/// Name, type, priority, cell.
type Row = (&'static str, &'static str, i64, fn(&Value, Timestamp) -> Value);

pub(super) fn columns(group: &str, plural: &str) -> &'static [Row] {
    match (group, plural) {
        ("", "namespaces") => NAMESPACE,
        ("", "configmaps") => CONFIG_MAP,
        ("", "secrets") => SECRET,
        ("", "services") => SERVICE,
        ("", "pods") => POD,
        ("", "nodes") => NODE,
        ("", "events") => EVENT,
        ("apps", "deployments") => DEPLOYMENT,
        ("apps", "statefulsets") => STATEFUL_SET,
        ("apps", "replicasets") => REPLICA_SET,
        ("apps", "daemonsets") => DAEMON_SET,
        ("batch", "jobs") => JOB,
        ("coordination.k8s.io", "leases") => LEASE,
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => BINDING,
        ("rbac.authorization.k8s.io", "roles" | "clusterroles")
        | ("apiextensions.k8s.io", "customresourcedefinitions")
        | ("", "limitranges") => CREATED,
        _ => ANY,
    }
}

const ANY: &[Row] = &[("Name", "string", 0, name), ("Age", "string", 0, age)];
const CREATED: &[Row] = &[
    ("Name", "string", 0, name),
    ("Created At", "date", 0, |object, _| {
        at(object, "/metadata/creationTimestamp").clone()
    }),
];
const NAMESPACE: &[Row] = &[
    ("Name", "string", 0, name),
    ("Status", "string", 0, |object, _| text(object, "/status/phase")),
    ("Age", "string", 0, age),
];
const CONFIG_MAP: &[Row] = &[
    ("Name", "string", 0, name),
    ("Data", "string", 0, |object, _| {
        (count(object, "/data") + count(object, "/binaryData")).into()
    }),
    ("Age", "string", 0, age),
];
const SECRET: &[Row] = &[
    ("Name", "string", 0, name),
    ("Type", "string", 0, |object, _| text(object, "/type")),
    ("Data", "string", 0, |object, _| count(object, "/data").into()),
    ("Age", "string", 0, age),
];
const SERVICE: &[Row] = &[
    ("Name", "string", 0, name),
    ("Type", "string", 0, |object, _| text(object, "/spec/type")),
    ("Cluster-IP", "string", 0, |object, _| {
        text(object, "/spec/clusterIP")
    }),
    ("External-IP", "string", 0, |_, _| NONE.into()),
    ("Port(s)", "string", 0, |object, _| ports(object)),
    ("Age", "string", 0, age),
    ("Selector", "string", 1, |object, _| {
        labels(at(object, "/spec/selector"))
    }),
];
const POD: &[Row] = &[
    ("Name", "string", 0, name),
    ("Ready", "string", 0, |object, _| ready_containers(object)),
    ("Status", "string", 0, |object, _| pod_status(object)),
    ("Restarts", "string", 0, |object, _| restarts(object)),
    ("Age", "string", 0, age),
    ("IP", "string", 1, |object, _| text(object, "/status/podIP")),
    ("Node", "string", 1, |object, _| text(object, "/spec/nodeName")),
    ("Nominated Node", "string", 1, |object, _| {
        text(object, "/status/nominatedNodeName")
    }),
    ("Readiness Gates", "string", 1, |_, _| NONE.into()),
];
const NODE: &[Row] = &[
    ("Name", "string", 0, name),
    ("Status", "string", 0, |object, _| node_status(object)),
    ("Roles", "string", 0, |_, _| NONE.into()),
    ("Age", "string", 0, age),
    ("Version", "string", 0, |object, _| {
        text(object, "/status/nodeInfo/kubeletVersion")
    }),
];
const EVENT: &[Row] = &[
    ("Last Seen", "string", 0, |object, now| last_seen(object, now)),
    ("Type", "string", 0, |object, _| text(object, "/type")),
    ("Reason", "string", 0, |object, _| text(object, "/reason")),
    ("Object", "string", 0, |object, _| involved(object)),
    ("Source", "string", 1, |object, _| {
        text(object, "/source/component")
    }),
    ("Message", "string", 0, |object, _| text(object, "/message")),
    ("Count", "string", 1, |object, _| number(object, "/count")),
    ("Name", "string", 1, name),
];
const DEPLOYMENT: &[Row] = &[
    ("Name", "string", 0, name),
    ("Ready", "string", 0, |object, _| ready(object)),
    ("Up-to-date", "string", 0, |object, _| {
        number(object, "/status/updatedReplicas")
    }),
    ("Available", "string", 0, |object, _| {
        number(object, "/status/availableReplicas")
    }),
    ("Age", "string", 0, age),
    ("Containers", "string", 1, |object, _| containers(object, "name")),
    ("Images", "string", 1, |object, _| containers(object, "image")),
    ("Selector", "string", 1, |object, _| {
        labels(at(object, "/spec/selector/matchLabels"))
    }),
];
const STATEFUL_SET: &[Row] = &[
    ("Name", "string", 0, name),
    ("Ready", "string", 0, |object, _| ready(object)),
    ("Age", "string", 0, age),
    ("Containers", "string", 1, |object, _| containers(object, "name")),
    ("Images", "string", 1, |object, _| containers(object, "image")),
];
const REPLICA_SET: &[Row] = &[
    ("Name", "string", 0, name),
    ("Desired", "integer", 0, |object, _| {
        number(object, "/spec/replicas")
    }),
    ("Current", "integer", 0, |object, _| {
        number(object, "/status/replicas")
    }),
    ("Ready", "integer", 0, |object, _| {
        number(object, "/status/readyReplicas")
    }),
    ("Age", "string", 0, age),
    ("Containers", "string", 1, |object, _| containers(object, "name")),
    ("Images", "string", 1, |object, _| containers(object, "image")),
    ("Selector", "string", 1, |object, _| {
        labels(at(object, "/spec/selector/matchLabels"))
    }),
];
const DAEMON_SET: &[Row] = &[
    ("Name", "string", 0, name),
    ("Desired", "integer", 0, |object, _| {
        number(object, "/status/desiredNumberScheduled")
    }),
    ("Current", "integer", 0, |object, _| {
        number(object, "/status/currentNumberScheduled")
    }),
    ("Ready", "integer", 0, |object, _| {
        number(object, "/status/numberReady")
    }),
    ("Up-to-date", "integer", 0, |object, _| {
        number(object, "/status/updatedNumberScheduled")
    }),
    ("Available", "integer", 0, |object, _| {
        number(object, "/status/numberAvailable")
    }),
    ("Node Selector", "string", 0, |object, _| {
        labels(at(object, "/spec/template/spec/nodeSelector"))
    }),
    ("Age", "string", 0, age),
];
const JOB: &[Row] = &[
    ("Name", "string", 0, name),
    ("Status", "string", 0, |object, _| job_status(object)),
    ("Completions", "string", 0, |object, _| {
        let done = at(object, "/status/succeeded").as_i64().unwrap_or_default();
        format!("{done}/{}", at(object, "/spec/completions").as_i64().unwrap_or(1)).into()
    }),
    ("Age", "string", 0, age),
];
const LEASE: &[Row] = &[
    ("Name", "string", 0, name),
    ("Holder", "string", 0, |object, _| {
        at(object, "/spec/holderIdentity")
            .as_str()
            .unwrap_or_default()
            .into()
    }),
    ("Age", "string", 0, age),
];
const BINDING: &[Row] = &[
    ("Name", "string", 0, name),
    ("Role", "string", 0, |object, _| {
        let part = |field: &str| object["roleRef"][field].as_str().unwrap_or_default();
        format!("{}/{}", part("kind"), part("name")).into()
    }),
    ("Age", "string", 0, age),
];

const NONE: &str = "<none>";

pub(super) fn name(object: &Value, _: Timestamp) -> Value {
    at(object, "/metadata/name").clone()
}

fn age(object: &Value, now: Timestamp) -> Value {
    since(at(object, "/metadata/creationTimestamp"), now)
}

fn since(then: &Value, now: Timestamp) -> Value {
    let then = then.as_str().and_then(|text| text.parse().ok());
    then.map_or_else(|| "<unknown>".into(), |then| super::age(then, now).into())
}

fn at<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    object.pointer(pointer).unwrap_or(&Value::Null)
}

fn text(object: &Value, pointer: &str) -> Value {
    at(object, pointer)
        .as_str()
        .filter(|text| !text.is_empty())
        .unwrap_or(NONE)
        .into()
}

fn number(object: &Value, pointer: &str) -> Value {
    at(object, pointer).as_i64().unwrap_or_default().into()
}

fn count(object: &Value, pointer: &str) -> usize {
    at(object, pointer).as_object().map_or(0, serde_json::Map::len)
}

fn ready(object: &Value) -> Value {
    format!(
        "{}/{}",
        number(object, "/status/readyReplicas"),
        number(object, "/spec/replicas")
    )
    .into()
}

fn joined(texts: impl Iterator<Item = String>) -> Value {
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() {
        NONE.into()
    } else {
        texts.join(",").into()
    }
}

fn labels(labels: &Value) -> Value {
    let pairs = labels.as_object().into_iter().flatten();
    joined(pairs.map(|(label, value)| format!("{label}={}", value.as_str().unwrap_or_default())))
}

fn items<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    at(object, pointer).as_array().into_iter().flatten()
}

fn containers(object: &Value, field: &str) -> Value {
    let containers = items(object, "/spec/template/spec/containers");
    joined(containers.map(|container| container[field].as_str().unwrap_or_default().to_owned()))
}

fn ports(object: &Value) -> Value {
    joined(items(object, "/spec/ports").map(|port| {
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        format!("{}/{protocol}", port["port"])
    }))
}

fn ready_containers(object: &Value) -> Value {
    let ready = items(object, "/status/containerStatuses")
        .filter(|status| status["ready"] == true)
        .count();
    format!("{ready}/{}", items(object, "/spec/containers").count()).into()
}

fn restarts(object: &Value) -> Value {
    let restarts =
        items(object, "/status/containerStatuses").filter_map(|status| status["restartCount"].as_i64());
    restarts.sum::<i64>().to_string().into()
}

fn pod_status(object: &Value) -> Value {
    if !at(object, "/metadata/deletionTimestamp").is_null() {
        return "Terminating".into();
    }
    let waiting = items(object, "/status/containerStatuses")
        .find_map(|status| status["state"]["waiting"]["reason"].as_str());
    waiting.map_or_else(|| text(object, "/status/phase"), Into::into)
}

fn node_status(object: &Value) -> Value {
    let ready = items(object, "/status/conditions").find(|condition| condition["type"] == "Ready");
    let mut status = match ready.map(|condition| condition["status"] == "True") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if at(object, "/spec/unschedulable") == true {
        status.push_str(",SchedulingDisabled");
    }
    status.into()
}

fn job_status(object: &Value) -> Value {
    let holds = |kind: &str| {
        items(object, "/status/conditions")
            .any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if holds("Suspended") => "Suspended",
        () => "Running",
    }
    .into()
}

fn last_seen(object: &Value, now: Timestamp) -> Value {
    let times = [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/eventTime",
        "/metadata/creationTimestamp",
    ];
    let latest = times
        .iter()
        .map(|pointer| at(object, pointer))
        .find(|time| time.is_string());
    since(latest.unwrap_or(&Value::Null), now)
}

fn involved(object: &Value) -> Value {
    let part = |field: &str| object["involvedObject"][field].as_str().unwrap_or_default();
    format!("{}/{}", part("kind").to_lowercase(), part("name")).into()
}
