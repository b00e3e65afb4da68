//! The cells of built-in kinds that take more than a look at one field.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::super::metadata;
use super::age::age as told;

pub(super) const NONE: &str = "<none>";
const UNKNOWN: &str = "<unknown>";
const UNSET: &str = "<unset>";
const INVALID: &str = "<invalid>";

/// Returns the age of an object.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    since(&object["metadata"]["creationTimestamp"], now)
        .unwrap_or_else(|| UNKNOWN.to_owned())
        .into()
}

/// Returns how long ago the moment of a text was.
pub(super) fn age_of(text: &str, now: Timestamp) -> String {
    text.parse::<Timestamp>()
        .map_or_else(|_| INVALID.to_owned(), |then| told(now.duration_since(then)))
}

fn since(time: &Value, now: Timestamp) -> Option<String> {
    time.as_str().map(|text| age_of(text, now))
}

pub(super) fn since_or_none(time: &Value, now: Timestamp) -> Value {
    since(time, now).unwrap_or_else(|| NONE.to_owned()).into()
}

fn or(value: &Value, otherwise: &str) -> Value {
    let text = scalar(value);
    if text.is_empty() {
        otherwise.into()
    } else {
        text.into()
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The kind of the parameters of an admission policy.
pub(super) fn param_kind(kind: &Value) -> Value {
    if kind.is_null() {
        return UNSET.into();
    }
    format!("{}/{}", scalar(&kind["apiVersion"]), scalar(&kind["kind"])).into()
}

/// The parameters of a binding of an admission policy.
pub(super) fn param_ref(reference: &Value) -> Value {
    let name = scalar(&reference["name"]);
    if reference.is_null() || name.is_empty() {
        return UNSET.into();
    }
    match scalar(&reference["namespace"]).as_str() {
        "" => format!("*/{name}").into(),
        namespace => format!("{namespace}/{name}").into(),
    }
}

pub(super) fn or_none(value: &Value) -> Value {
    or(value, NONE)
}

pub(super) fn or_unknown(value: &Value) -> Value {
    or(value, UNKNOWN)
}

pub(super) fn or_unset(value: &Value) -> Value {
    or(value, UNSET)
}

pub(super) fn or_not_applicable(value: &Value) -> Value {
    or(value, "N/A")
}

pub(super) fn trimmed(value: &Value) -> Value {
    text(value).trim().into()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: Option<&Value>) -> i64 {
    value.and_then(Value::as_i64).unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(",")
}

/// Returns how many entries lists and maps have together.
pub(super) fn count(collections: &[&Value]) -> Value {
    let length = |value: &&Value| {
        value
            .as_array()
            .map_or_else(|| value.as_object().map_or(0, serde_json::Map::len), Vec::len)
    };
    collections.iter().map(length).sum::<usize>().into()
}

/// Returns `2/3`.
pub(super) fn of(object: &Value, part: &str, whole: &str) -> Value {
    format!(
        "{}/{}",
        number(object.pointer(part)),
        number(object.pointer(whole))
    )
    .into()
}

/// Returns a field of the containers of an object's pods.
pub(super) fn containers(object: &Value, field: &str) -> Value {
    joined(
        items(&object["spec"]["template"]["spec"]["containers"]).map(|container| scalar(&container[field])),
    )
    .into()
}

pub(super) fn labels(labels: &Value) -> Value {
    or_none(&label_list(labels).into())
}

fn label_list(labels: &Value) -> String {
    let mut pairs: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect();
    pairs.sort();
    pairs.join(",")
}

/// Returns a label selector in its text form.
pub(super) fn selector(selector: &Value) -> Value {
    let expressions = items(&selector["matchExpressions"]).map(|expression| {
        let key = text(&expression["key"]);
        let values = joined(items(&expression["values"]).map(scalar));
        match text(&expression["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        }
    });
    or_none(&joined(std::iter::once(label_list(&selector["matchLabels"])).chain(expressions)).into())
}

/// Returns `Kind/name`.
pub(super) fn reference(reference: &Value) -> Value {
    if reference.is_null() {
        return NONE.into();
    }
    format!("{}/{}", text(&reference["kind"]), text(&reference["name"])).into()
}

pub(super) fn claim(claim: &Value) -> Value {
    if claim.is_null() {
        return "".into();
    }
    format!("{}/{}", text(&claim["namespace"]), text(&claim["name"])).into()
}

pub(super) fn controller(object: &Value) -> Value {
    let owner = items(&object["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == true);
    owner.map_or_else(
        || NONE.into(),
        |owner| {
            let api_version = text(&owner["apiVersion"]);
            let group = api_version
                .split_once('/')
                .map_or(String::new(), |(group, _)| format!(".{group}"));
            format!(
                "{}{group}/{}",
                text(&owner["kind"]).to_lowercase(),
                text(&owner["name"])
            )
            .into()
        },
    )
}

/// Returns the phase of a volume or claim.
pub(super) fn phase(object: &Value) -> Value {
    if metadata::is_terminating(object) {
        return "Terminating".into();
    }
    text(&object["status"]["phase"]).into()
}

pub(super) fn access_modes(modes: &Value) -> Value {
    const SHORT: &[(&str, &str)] = &[
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |long: &str| items(modes).any(|mode| mode == long);
    joined(
        SHORT
            .iter()
            .filter(|(long, _)| has(long))
            .map(|(_, short)| (*short).to_owned()),
    )
    .into()
}

pub(super) fn load_balancer(object: &Value) -> Value {
    let ingress = items(&object["status"]["loadBalancer"]["ingress"]);
    joined(ingress.map(|at| {
        scalar(if at["ip"].is_null() {
            &at["hostname"]
        } else {
            &at["ip"]
        })
    }))
    .into()
}

pub(super) fn external_ip(service: &Value) -> Value {
    let spec = &service["spec"];
    let given = joined(items(&spec["externalIPs"]).map(scalar));
    match text(&spec["type"]) {
        "ExternalName" => text(&spec["externalName"]).into(),
        "LoadBalancer" => {
            let balanced = scalar(&load_balancer(service));
            or(&joined([balanced, given].into_iter()).into(), "<pending>")
        }
        _ => or_none(&given.into()),
    }
}

pub(super) fn service_ports(service: &Value) -> Value {
    let ports = items(&service["spec"]["ports"]).map(|port| {
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        match port["nodePort"].as_i64() {
            Some(node) if node > 0 => format!("{}:{node}/{protocol}", scalar(&port["port"])),
            _ => format!("{}/{protocol}", scalar(&port["port"])),
        }
    });
    or_none(&joined(ports).into())
}

pub(super) fn endpoints(object: &Value) -> Value {
    let addresses = items(&object["subsets"]).flat_map(|subset| {
        items(&subset["addresses"]).map(move |address| {
            let port = subset["ports"][0]["port"].as_i64();
            port.map_or_else(
                || scalar(&address["ip"]),
                |port| format!("{}:{port}", text(&address["ip"])),
            )
        })
    });
    or_none(&joined(addresses).into())
}

pub(super) fn ingress_hosts(ingress: &Value) -> Value {
    or(
        &joined(items(&ingress["spec"]["rules"]).map(|rule| scalar(&rule["host"]))).into(),
        "*",
    )
}

pub(super) fn ingress_ports(ingress: &Value) -> Value {
    if items(&ingress["spec"]["tls"]).next().is_some() {
        "80, 443".into()
    } else {
        "80".into()
    }
}

fn containers_of(pod: &Value) -> impl Iterator<Item = &Value> {
    items(&pod["status"]["containerStatuses"])
}

pub(super) fn pod_ready(pod: &Value) -> Value {
    let ready = containers_of(pod)
        .filter(|status| status["ready"] == true)
        .count();
    format!("{ready}/{}", items(&pod["spec"]["containers"]).count()).into()
}

/// Returns the one word about a pod: why its containers don't run, or its phase.
pub(super) fn pod_status(pod: &Value) -> Value {
    let status = &pod["status"];
    if metadata::is_terminating(pod) {
        return if status["reason"] == "NodeLost" {
            "Unknown"
        } else {
            "Terminating"
        }
        .into();
    }
    let phase = if status["reason"].is_string() {
        text(&status["reason"])
    } else {
        text(&status["phase"])
    };
    if let Some(waits) = initializing(pod) {
        return waits.into();
    }
    let stopped = containers_of(pod).find_map(|container| why_stopped(&container["state"]));
    let running = containers_of(pod)
        .any(|container| container["ready"] == true && container["state"]["running"].is_object());
    match stopped {
        Some(reason) if reason == "Completed" && running => "Running".into(),
        Some(reason) => reason.into(),
        None => phase.into(),
    }
}

/// Returns what the first init container that isn't through is doing.
fn initializing(pod: &Value) -> Option<String> {
    let total = items(&pod["spec"]["initContainers"]).count();
    let through = |status: &Value| status["state"]["terminated"]["exitCode"] == 0;
    let (index, container) = items(&pod["status"]["initContainerStatuses"])
        .enumerate()
        .find(|(_, status)| !through(status))?;
    let started =
        pod["spec"]["initContainers"][index]["restartPolicy"] == "Always" && container["started"] == true;
    if started {
        return None;
    }
    let why = why_stopped(&container["state"]).filter(|reason| reason != "PodInitializing");
    Some(why.map_or_else(
        || format!("Init:{index}/{total}"),
        |reason| format!("Init:{reason}"),
    ))
}

/// Returns why a container doesn't run.
fn why_stopped(state: &Value) -> Option<String> {
    let terminated = &state["terminated"];
    if let Some(reason) = state["waiting"]["reason"]
        .as_str()
        .or_else(|| terminated["reason"].as_str())
    {
        return Some(reason.to_owned());
    }
    let signal = terminated["signal"]
        .as_i64()
        .filter(|signal| *signal != 0)
        .map(|signal| format!("Signal:{signal}"));
    signal.or_else(|| {
        terminated["exitCode"]
            .as_i64()
            .map(|code| format!("ExitCode:{code}"))
    })
}

pub(super) fn pod_restarts(pod: &Value, now: Timestamp) -> Value {
    let restarts: i64 = containers_of(pod)
        .map(|status| number(status.get("restartCount")))
        .sum();
    let last = containers_of(pod)
        .filter_map(|status| {
            status["lastState"]["terminated"]["finishedAt"]
                .as_str()?
                .parse::<Timestamp>()
                .ok()
        })
        .max();
    match last {
        Some(last) if restarts > 0 => format!("{restarts} ({} ago)", told(now.duration_since(last))).into(),
        _ => restarts.to_string().into(),
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(&object["status"]["conditions"]).find(|condition| condition["type"] == kind)
}

pub(super) fn node_status(node: &Value) -> Value {
    let ready = match condition(node, "Ready").map(|condition| text(&condition["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let closed = if node["spec"]["unschedulable"] == true {
        ",SchedulingDisabled"
    } else {
        ""
    };
    format!("{ready}{closed}").into()
}

pub(super) fn node_roles(node: &Value) -> Value {
    const PREFIX: &str = "node-role.kubernetes.io/";
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| {
            key.strip_prefix(PREFIX)
                .or_else(|| (key == "kubernetes.io/role").then(|| text(value)))
        })
        .collect();
    roles.sort_unstable();
    or_none(&roles.join(",").into())
}

pub(super) fn node_address(node: &Value, kind: &str) -> Value {
    let address = items(&node["status"]["addresses"]).find(|address| address["type"] == kind);
    or_none(address.map_or(&Value::Null, |address| &address["address"]))
}

/// Events come with times, or as a series with micro times.
fn event_times(event: &Value) -> (&Value, &Value) {
    let first = if event["firstTimestamp"].is_null() {
        &event["eventTime"]
    } else {
        &event["firstTimestamp"]
    };
    let series = &event["series"]["lastObservedTime"];
    let last = [series, &event["lastTimestamp"]]
        .into_iter()
        .find(|time| !time.is_null());
    (first, last.unwrap_or(first))
}

pub(super) fn event_last_seen(event: &Value, now: Timestamp) -> Value {
    since(event_times(event).1, now)
        .unwrap_or_else(|| UNKNOWN.to_owned())
        .into()
}

pub(super) fn event_first_seen(event: &Value, now: Timestamp) -> Value {
    since(event_times(event).0, now)
        .unwrap_or_else(|| UNKNOWN.to_owned())
        .into()
}

pub(super) fn event_object(event: &Value) -> Value {
    let about = &event["involvedObject"];
    let (kind, name) = (text(&about["kind"]).to_lowercase(), text(&about["name"]));
    if name.is_empty() {
        kind.into()
    } else {
        format!("{kind}/{name}").into()
    }
}

pub(super) fn event_source(event: &Value) -> Value {
    let source = &event["source"];
    let component = if source["component"].is_null() {
        &event["reportingComponent"]
    } else {
        &source["component"]
    };
    joined([scalar(component), scalar(&source["host"])].into_iter())
        .replace(',', ", ")
        .into()
}

pub(super) fn event_count(event: &Value) -> Value {
    let count = event["series"]["count"]
        .as_i64()
        .or_else(|| event["count"].as_i64());
    count.filter(|count| *count > 0).unwrap_or(1).into()
}

pub(super) fn job_status(job: &Value) -> Value {
    const SAYING: &[(&str, &str)] = &[
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ];
    let holds = |kind: &str| condition(job, kind).is_some_and(|condition| condition["status"] == "True");
    if metadata::is_terminating(job) && !holds("Complete") && !holds("Failed") {
        return "Terminating".into();
    }
    SAYING
        .iter()
        .find(|(kind, _)| holds(kind))
        .map_or("Running", |(_, text)| text)
        .into()
}

pub(super) fn job_completions(job: &Value) -> Value {
    let succeeded = number(job.pointer("/status/succeeded"));
    match (
        job["spec"]["completions"].as_i64(),
        number(job.pointer("/spec/parallelism")),
    ) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}").into(),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}").into(),
        (None, _) => format!("{succeeded}/1").into(),
    }
}

pub(super) fn job_duration(job: &Value, now: Timestamp) -> Value {
    let time = |field: &str| job["status"][field].as_str()?.parse::<Timestamp>().ok();
    let Some(start) = time("startTime") else {
        return "".into();
    };
    let took: SignedDuration = time("completionTime").unwrap_or(now).duration_since(start);
    told(took).into()
}
