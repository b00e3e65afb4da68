//! The API server itself: its version and clock, Karmada's kinds, the CRDs, the admission fence.

use http::Request;
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use serde_json::Value;

use super::Check;
use crate::reconcile::intents::try_fence;
use cutover_cluster::{self as cluster, Answer, Cluster, Lookup};
use cutover_core::api;
use cutover_core::error::Error;
use cutover_core::intent::admission::Outcome;
use cutover_karmada::name::Gvk;

/// From which minor version of Kubernetes on admission policies are served.
const POLICIES_SINCE: u32 = 30;
/// Nothing is decided by comparing clocks; times in journals and records are less true then.
const SKEW_WARNS: SignedDuration = SignedDuration::from_secs(2);
const SKEW_FAILS: SignedDuration = SignedDuration::from_secs(60);

/// The kinds of Karmada that cutover works with.
const KARMADA: [(&str, &str); 8] = [
    ("policy.karmada.io/v1alpha1", "PropagationPolicy"),
    ("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy"),
    ("policy.karmada.io/v1alpha1", "OverridePolicy"),
    ("policy.karmada.io/v1alpha1", "ClusterOverridePolicy"),
    ("work.karmada.io/v1alpha2", "ResourceBinding"),
    ("work.karmada.io/v1alpha2", "ClusterResourceBinding"),
    ("work.karmada.io/v1alpha1", "Work"),
    ("cluster.karmada.io/v1alpha1", "Cluster"),
];

/// Fields without which a migration can't be held: the definition, and where in its `spec`.
const FIELDS: [(&str, &[&str]); 3] = [
    (
        "propagationpolicies.policy.karmada.io",
        &["preserveResourcesOnDeletion"],
    ),
    ("propagationpolicies.policy.karmada.io", &["suspension"]),
    ("resourcebindings.work.karmada.io", &["suspension", "scheduling"]),
];

/// What the API server said of itself.
pub(super) struct Reached {
    /// Its clock, and when by ours it may have looked at it.
    date: Option<Timestamp>,
    sent: Timestamp,
    answered: Timestamp,
}

pub(super) async fn reach(cluster: &Cluster) -> (Vec<Check>, Option<Reached>) {
    const NAME: &str = "API server";
    let sent = Timestamp::now();
    let (version, date) = match version(cluster).await {
        Ok(answer) => answer,
        Err(error) => return (vec![Check::of_error(NAME, &error)], None),
    };
    let reached = Reached {
        date,
        sent,
        answered: Timestamp::now(),
    };
    let named = version["gitVersion"].as_str().unwrap_or("of an unknown version");
    let said = format!("Kubernetes {named} at {}", cluster.server());
    let minor = version["minor"].as_str().unwrap_or_default();
    let minor: String = minor.chars().take_while(char::is_ascii_digit).collect();
    let check = match minor.parse::<u32>() {
        Ok(minor) if minor < POLICIES_SINCE => {
            Check::warning(NAME, format!("{said}: it has no admission policies")).fix(format!(
                "the admission fence needs Kubernetes 1.{POLICIES_SINCE}; migrations are safe without it"
            ))
        }
        _ => Check::ok(NAME, said),
    };
    (vec![check], Some(reached))
}

async fn version(cluster: &Cluster) -> Result<(Value, Option<Timestamp>), Error> {
    let call = "cannot ask the API server for its version";
    let failed = |error: kube::Error| Error::from(cluster::Error::from_kube(call, error));
    let request = Request::get("/version")
        .body(Body::empty())
        .map_err(|error| Error::internal(format!("{call}: {error}")))?;
    let response = cluster.client().send(request).await.map_err(failed)?;
    let (head, body) = response.into_parts();
    let body = body.collect_bytes().await.map_err(failed)?;
    if !head.status.is_success() {
        let kind = match head.status.as_u16() {
            401 | 403 => cutover_core::error::Kind::Auth,
            _ => cutover_core::error::Kind::Unreachable,
        };
        return Err(Error::new(kind, format!("{call}: it answers {}", head.status)));
    }
    let date = head.headers.get(http::header::DATE);
    let date = date.and_then(|date| date.to_str().ok()).and_then(moment);
    let version = serde_json::from_slice(&body).unwrap_or_default();
    Ok((version, date))
}

fn moment(date: &str) -> Option<Timestamp> {
    let parsed = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date);
    parsed.ok()
}

pub(super) fn clock(reached: &Reached) -> Check {
    const NAME: &str = "clock";
    let Some(date) = reached.date else {
        return Check::skipped(NAME, "the API server does not report its time");
    };
    let skew = skew(date, reached.sent, reached.answered);
    let said = format!("{} s apart from the API server's", skew.as_secs());
    if skew >= SKEW_FAILS {
        Check::failed(NAME, said).fix("let NTP set the clocks of both machines")
    } else if skew >= SKEW_WARNS {
        Check::warning(NAME, said).fix("let NTP set the clocks of both machines")
    } else {
        Check::ok(NAME, "within 2 s of the API server's")
    }
}

/// Returns how far a clock is from ours at the least. It tells whole seconds, at some time between question and answer.
fn skew(date: Timestamp, sent: Timestamp, answered: Timestamp) -> SignedDuration {
    let behind = sent.duration_since(date) - SignedDuration::from_secs(1);
    let ahead = date.duration_since(answered);
    behind.max(ahead).max(SignedDuration::ZERO)
}

pub(super) async fn karmada(cluster: &Cluster) -> Vec<Check> {
    const NAME: &str = "Karmada";
    let mut missing = Vec::new();
    for (api_version, kind) in KARMADA {
        match cluster.lookup(&Gvk::new(api_version, kind)).await {
            Ok(Lookup::Served(_)) => {}
            Ok(Lookup::NotServed) => missing.push(format!("{kind} ({api_version})")),
            Err(error) => return vec![Check::of_error(NAME, &error.into())],
        }
    }
    if missing.len() == KARMADA.len() {
        let message = format!("{} serves none of Karmada's kinds", cluster.server());
        return vec![
            Check::failed(NAME, message)
                .fix("name the kubeconfig of the Karmada API server, not that of the cluster that hosts it"),
        ];
    }
    if !missing.is_empty() {
        let message = format!("not served: {}", missing.join(", "));
        return vec![Check::failed(NAME, message).fix("upgrade Karmada; cutover is tested with 1.18")];
    }
    vec![fields(cluster).await]
}

/// Checks that Karmada's definitions have what a migration writes: an API server prunes a field that it doesn't know.
async fn fields(cluster: &Cluster) -> Check {
    const NAME: &str = "Karmada";
    let mut lacking = Vec::new();
    for (definition, path) in FIELDS {
        match definition_of(cluster, definition).await {
            Answer::Found(definition_found) => {
                if !has_field(&definition_found, path) {
                    lacking.push(format!("spec.{} of {definition}", path.join(".")));
                }
            }
            Answer::NotFound => lacking.push(definition.to_owned()),
            Answer::Unknown { .. } => {
                return Check::ok(
                    NAME,
                    "all kinds are served (their fields were not looked at: this identity may not read definitions)",
                );
            }
        }
    }
    if lacking.is_empty() {
        Check::ok(
            NAME,
            "all kinds are served, with the fields that a migration writes",
        )
    } else {
        Check::failed(NAME, format!("missing: {}", lacking.join(", ")))
            .fix("upgrade Karmada; cutover is tested with 1.18")
    }
}

fn has_field(definition: &Value, path: &[&str]) -> bool {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let mut served = versions.filter(|version| version["served"] == true);
    served.any(|version| {
        let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let found = path
            .iter()
            .fold(spec, |schema, name| &schema["properties"][*name]);
        found.is_object()
    })
}

async fn definition_of(cluster: &Cluster, name: &str) -> Answer<Value> {
    let gvk = Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    match cluster.lookup(&gvk).await {
        Ok(Lookup::Served(served)) => cluster.reader().get(&served, None, name).await.answer,
        Ok(Lookup::NotServed) => Answer::NotFound,
        Err(error) => Answer::Unknown {
            why: error.to_string(),
        },
    }
}

pub(super) async fn definitions(cluster: &Cluster) -> Vec<Check> {
    const NAME: &str = "CRDs";
    const FIX: &str = "cutover init --cluster, with the rights of the ClusterRole cutover-install";
    let (mut missing, mut other, mut unread) = (Vec::new(), Vec::new(), false);
    let crds = api::crds();
    for crd in &crds {
        let name = crd.metadata.name.clone().unwrap_or_default();
        let kind = &crd.spec.names.kind;
        match cluster.lookup(&Gvk::new(api::API_VERSION, kind)).await {
            Ok(Lookup::Served(_)) => {}
            Ok(Lookup::NotServed) => {
                missing.push(name);
                continue;
            }
            Err(error) => return vec![Check::of_error(NAME, &error.into())],
        }
        let wanted = serde_json::to_value(crd).unwrap_or_default();
        match definition_of(cluster, &name).await {
            Answer::Found(live) => {
                if !includes(&live["spec"]["versions"], &wanted["spec"]["versions"]) {
                    other.push(name);
                }
            }
            Answer::NotFound => missing.push(name),
            Answer::Unknown { .. } => unread = true,
        }
    }
    let count = crds.len();
    let check = if !missing.is_empty() {
        Check::failed(NAME, format!("not served: {}", missing.join(", "))).fix(FIX)
    } else if !other.is_empty() {
        Check::failed(NAME, format!("of another version: {}", other.join(", "))).fix(FIX)
    } else if unread {
        let message = format!(
            "all {count} are served (their version was not looked at: this identity may not read definitions)"
        );
        Check::ok(NAME, message)
    } else {
        Check::ok(NAME, format!("all {count} are there and of this version"))
    };
    vec![check]
}

/// Returns whether a value has all that another one has; an API server adds defaults, and leaves out what is null.
fn includes(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().all(|(name, wanted)| {
            wanted.is_null() || live.get(name).is_some_and(|live| includes(live, wanted))
        }),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len()
                && live
                    .iter()
                    .zip(wanted)
                    .all(|(live, wanted)| includes(live, wanted))
        }
        (Value::Number(live), Value::Number(wanted)) => live.as_f64() == wanted.as_f64(),
        (live, wanted) => live == wanted,
    }
}

pub(super) async fn fence(cluster: &Cluster, identity: Option<&str>) -> Check {
    const NAME: &str = "admission fence";
    let whom = identity.unwrap_or("NAME");
    let install = format!("cutover init --cluster --reconciler {whom}; migrations are safe without it");
    match try_fence(cluster).await {
        Ok(None) => Check::skipped(NAME, "this API server has no admission policies"),
        Ok(Some(fence)) => match (fence.self_test, fence.pins) {
            (Outcome::Accepted, _) => Check::warning(NAME, "it is not installed, or not in force").fix(install),
            (Outcome::Unknown(why), _) => Check::skipped(NAME, format!("it could not be tried: {why}")),
            (Outcome::Refused, Outcome::Refused) => Check::warning(
                NAME,
                format!("it stands, and {whom} is not among those who may write pins"),
            )
            .fix(format!(
                "check with the reconciler's kubeconfig; if this is it, cutover init --cluster --reconciler {whom}"
            )),
            (Outcome::Refused, _) => Check::ok(NAME, "it refuses what it must"),
        },
        Err(error) => Check::of_error(NAME, &error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_clock_that_tells_whole_seconds_is_not_taken_for_a_wrong_one() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let date = moment("Sun, 01 Mar 2026 10:00:00 GMT").unwrap();
        assert_eq!(date, at("2026-03-01T10:00:00Z"));
        let skew_of = |sent, answered| skew(date, at(sent), at(answered));
        for (sent, answered, expected) in [
            ("2026-03-01T10:00:00.9Z", "2026-03-01T10:00:01.5Z", 0),
            ("2026-03-01T09:59:59.5Z", "2026-03-01T10:00:00Z", 0),
            ("2026-03-01T10:00:08Z", "2026-03-01T10:00:09Z", 7),
            ("2026-03-01T09:59:50Z", "2026-03-01T09:59:51Z", 9),
        ] {
            assert_eq!(skew_of(sent, answered).as_secs(), expected, "{sent} {answered}");
        }
    }

    #[test]
    fn defaults_of_the_server_make_no_other_version() {
        let wanted = json!([{"name": "v1alpha1", "schema": {"minimum": 0, "description": null}}]);
        let live = json!([{"name": "v1alpha1", "schema": {"minimum": 0.0}, "storage": true}]);
        assert!(includes(&live, &wanted));
        let older = json!([{"name": "v1alpha1", "schema": {}}]);
        assert!(!includes(&older, &wanted));
        assert!(!includes(&json!([]), &wanted));
    }
}
