//! What a member's Events warn of about a workload: read when it is given up, for they go with it, or an hour later.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use serde_json::Value;

use super::member::Pod;
use crate::api::{WaitingFor, quoted};
use crate::redact;
use cutover_karmada::name::{ClusterName, ObjectKey};

/// What the Events of a cluster warn of about a copy and its pods, the newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warned {
    pub cluster: ClusterName,
    pub said: Vec<String>,
}

/// How long something is waited for before Events are read for it: most comes to its end before.
pub(super) const WARNS_AFTER: SignedDuration = SignedDuration::from_secs(15);

/// How many of them a reason bears.
const MOST: usize = 3;

/// How many characters of an Event are passed on.
const LONGEST: usize = 200;

/// Returns the last warning about the copy in a cluster, as `west: Pod web-1: Failed: why`: what was read in this pass, else what was
/// said of the same cluster before. Nothing is decided by it. `without_secrets`: hides the values of secret handles in a text.
pub(super) fn newest(
    cluster: &ClusterName,
    warned: Option<&Warned>,
    before: Option<&WaitingFor>,
    without_secrets: impl Fn(String) -> String,
) -> Option<String> {
    let begin = format!("{cluster}: ");
    match warned.filter(|warned| warned.cluster == *cluster) {
        Some(warned) => {
            // Of a secret handle that is cut in two a part would stay.
            let said = without_secrets(warned.said.first()?.clone());
            Some(begin + &shortened(&said, LONGEST))
        }
        None => {
            let said = before.and_then(|wait| wait.last_warning.clone());
            said.filter(|said| said.starts_with(&begin))
        }
    }
}

/// Returns the last warnings about a copy and its pods, as `Pod web-1: Failed: why`, the newest first.
pub fn last(events: &[Value], workload: &ObjectKey, uid: Option<&str>, pods: &[Pod]) -> Vec<String> {
    let about: Vec<&Value> = events
        .iter()
        .filter(|event| is_about(event, workload, uid, pods))
        .collect();
    let mut about: Vec<(String, String)> = about
        .into_iter()
        .map(|event| (time(event).to_owned(), said(event)))
        .collect();
    about.sort_by(|one, other| other.cmp(one));
    let mut seen = BTreeSet::new();
    let news = about.into_iter().map(|(_, said)| said);
    news.filter(|said| seen.insert(said.clone())).take(MOST).collect()
}

fn is_about(event: &Value, workload: &ObjectKey, uid: Option<&str>, pods: &[Pod]) -> bool {
    let of = &event["involvedObject"];
    let text = |field: &str| of[field].as_str().filter(|text| !text.is_empty());
    let (Some(kind), Some(name)) = (text("kind"), text("name")) else {
        return false;
    };
    // What another object of the same name was told of is not about this one.
    let is_same = |known: &str| text("uid").is_none_or(|uid| known.is_empty() || uid == known);
    match kind {
        "Pod" => pods.iter().any(|pod| pod.name == name && is_same(&pod.uid)),
        // The ReplicaSet of a Deployment is named after it and a hash.
        "ReplicaSet" => {
            let hash = name
                .strip_prefix(&workload.name)
                .and_then(|rest| rest.strip_prefix('-'));
            hash.is_some_and(|hash| !hash.is_empty() && !hash.contains('-'))
        }
        kind => kind == workload.kind && name == workload.name && is_same(uid.unwrap_or_default()),
    }
}

/// Of several times, an RFC 3339 text each, the latest that an Event has.
fn time(event: &Value) -> &str {
    let times = [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/eventTime",
        "/metadata/creationTimestamp",
    ];
    let times = times
        .iter()
        .filter_map(|pointer| event.pointer(pointer)?.as_str());
    times.max().unwrap_or_default()
}

fn said(event: &Value) -> String {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let of = (text("/involvedObject/kind"), text("/involvedObject/name"));
    format!("{} {}: {}: {}", of.0, of.1, text("/reason"), text("/message"))
}

/// Returns the first line of another client's text, without secrets, and at most so many characters of it.
pub(super) fn shortened(text: &str, longest: usize) -> String {
    let text = redact::text(text);
    let line = text.trim().lines().next().unwrap_or_default();
    let mut brief: String = line
        .chars()
        .filter(|letter| !letter.is_control())
        .take(longest)
        .collect();
    if brief.len() < line.len() {
        brief.push('…');
    }
    quoted(&brief).into_owned()
}

#[cfg(test)]
mod tests {
    use std::convert::identity;

    use serde_json::json;

    use super::*;
    use crate::api::SecretHandles;

    fn web() -> ObjectKey {
        ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "web".to_owned(),
        }
    }

    fn event(kind: &str, name: &str, uid: &str, second: u32, message: &str) -> Value {
        json!({
            "involvedObject": {"kind": kind, "name": name, "uid": uid}, "type": "Warning", "reason": "Failed",
            "message": message, "lastTimestamp": format!("2026-01-01T00:00:{second:02}Z"),
        })
    }

    #[test]
    fn the_last_warnings_about_this_copy_and_its_pods_are_named_once_each() {
        let pod = Pod {
            name: "web-1".to_owned(),
            uid: "pod-1".to_owned(),
            ..Pod::default()
        };
        let events = [
            event("Pod", "web-1", "pod-1", 1, "first"),
            event("Pod", "web-1", "pod-1", 2, "again"),
            event("Pod", "web-1", "pod-1", 9, "again"),
            event("Pod", "web-1", "another", 9, "of the pod before"),
            event("Pod", "web-admin-1", "", 9, "of another workload"),
            event("ReplicaSet", "web-5d8f", "", 5, "no quota"),
            event("ReplicaSet", "web-admin-5d8f", "", 9, "of another workload"),
            event("Deployment", "web", "uid-1", 4, "of the copy"),
            event("Deployment", "web", "uid-0", 9, "of the copy before"),
        ];
        assert_eq!(
            last(&events, &web(), Some("uid-1"), &[pod]),
            [
                "Pod web-1: Failed: again",
                "ReplicaSet web-5d8f: Failed: no quota",
                "Deployment web: Failed: of the copy",
            ]
        );
    }

    #[test]
    fn what_was_said_stays_until_something_newer_is_read_of_the_same_cluster() {
        let west = ClusterName::new("west");
        let warned = |cluster: &str| Warned {
            cluster: ClusterName::new(cluster),
            said: vec!["Pod web-1: Failed: no image".to_owned()],
        };
        let said = newest(&west, Some(&warned("west")), None, identity);
        assert_eq!(said.as_deref(), Some("west: Pod web-1: Failed: no image"));
        let before: WaitingFor = serde_json::from_value(json!({
            "reason": "west to be healthy", "since": "2026-03-01T10:00:00Z", "lastWarning": said,
        }))
        .unwrap();
        assert_eq!(newest(&west, None, Some(&before), identity), said);
        assert_eq!(
            newest(&west, Some(&warned("east")), Some(&before), identity),
            said
        );
        assert_eq!(
            newest(&ClusterName::new("east"), None, Some(&before), identity),
            None
        );
    }

    #[test]
    fn of_a_secret_handle_that_does_not_fit_nothing_is_told() {
        let west = ClusterName::new("west");
        let mut secrets = SecretHandles::default();
        secrets.add("s3://C4n4ry/of/a/long/path");
        for fits in 0..LONGEST {
            let warned = Warned {
                cluster: west.clone(),
                said: vec!["x".repeat(fits) + "s3://C4n4ry/of/a/long/path"],
            };
            let said = newest(&west, Some(&warned), None, |said| secrets.hidden(&said)).unwrap();
            assert!(!said.contains("s3:"), "{said}");
        }
    }
}
