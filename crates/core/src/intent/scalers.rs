//! What scales a workload by itself. A copy that is held has no replicas: who scales it up from there starts a second writer,
//! whatever the pin says.

use std::fmt;

use serde_json::Value;

use crate::api::{Finding, WorkloadProfileSpec};
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};

/// KEDA's kind, and where it is served.
pub const SCALED_OBJECT: (&str, &str) = ("keda.sh/v1alpha1", "ScaledObject");
/// What Kubernetes itself has.
pub const HPA: (&str, &str) = ("autoscaling/v2", "HorizontalPodAutoscaler");

/// The finding that stays while one is seen that doesn't leave a held copy alone.
pub(super) const CODE: &str = "ScaledFromZero";

const PAUSED: &str = "autoscaling.keda.sh/paused";
const PAUSED_REPLICAS: &str = "autoscaling.keda.sh/paused-replicas";

/// Something that sets the replicas of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaler {
    pub kind: String,
    pub name: String,
    /// Nothing on the control plane scales anything in a member, but what is there is there to be propagated.
    pub cluster: Option<ClusterName>,
    /// Why it doesn't leave a copy alone that has no replicas; `None` if it does.
    pub from_zero: Option<FromZero>,
}

/// What makes a scaler set the replicas of a copy that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromZero {
    /// KEDA does so as soon as a trigger is active, and without one if `minReplicaCount` says so.
    NotPaused,
    /// The annotation is there, and nothing says yet that KEDA has heard of it.
    NotPausedYet,
    /// It is paused at another number than none.
    PausedAtMore,
    /// An HPA leaves a workload without replicas alone, unless its minimum is zero.
    MinimumZero,
}

impl fmt::Display for Scaler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)?;
        match &self.cluster {
            Some(cluster) => write!(f, " in {cluster}"),
            None => Ok(()),
        }
    }
}

impl Scaler {
    /// Reads an object of a kind that scales; `None` when it isn't about the workload.
    pub fn of(
        kind: &str,
        object: &Value,
        workload: &ObjectKey,
        cluster: Option<&ClusterName>,
    ) -> Option<Self> {
        let target = object.pointer("/spec/scaleTargetRef")?;
        let text = |field: &str| target[field].as_str().filter(|text| !text.is_empty());
        let of_keda = kind == SCALED_OBJECT.1;
        // Without a kind KEDA means a Deployment.
        let meant = text("kind").or_else(|| of_keda.then_some("Deployment"))?;
        let group = text("apiVersion").map(|version| Gvk::new(version, meant).group);
        let is_meant = meant == workload.kind
            && text("name") == Some(&workload.name)
            && group.is_none_or(|group| group == workload.group);
        is_meant.then(|| Self {
            kind: kind.to_owned(),
            name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            cluster: cluster.cloned(),
            from_zero: match kind {
                _ if of_keda => of_scaled_object(object, cluster.is_some()),
                _ if kind == HPA.1 => (object.pointer("/spec/minReplicas") == Some(&Value::from(0)))
                    .then_some(FromZero::MinimumZero),
                // Karmada's set the replicas of the template, which the pin overrides.
                _ => None,
            },
        })
    }

    /// Returns whether it sets replicas at all: one that is paused does not.
    pub fn is_active(&self) -> bool {
        self.kind != SCALED_OBJECT.1 || self.from_zero.is_some()
    }

    /// Says why a copy can't be held beside it, and what to do about it.
    pub(super) fn finding(&self) -> Option<Finding> {
        let from_zero = self.from_zero?;
        let why = match from_zero {
            FromZero::NotPaused => "KEDA would start it again",
            FromZero::NotPausedYet => "KEDA would start it again: it has not said yet that it is paused",
            FromZero::PausedAtMore => "KEDA would start it again, with the replicas that it is paused at",
            FromZero::MinimumZero => "it can be started from there again, as its minReplicas is 0",
        };
        let hint = match from_zero {
            FromZero::NotPaused | FromZero::PausedAtMore => {
                "for as long as the workload is held, pause it with the annotation autoscaling.keda.sh/paused: \"true\" and without \
                 paused-replicas, where it is kept in Git, or remove it"
            }
            FromZero::NotPausedYet => "check what KEDA reports about it there, or remove it",
            FromZero::MinimumZero => {
                "set its minReplicas to 1 for as long as the workload is held, or remove it"
            }
        };
        let message =
            format!("{self} scales the workload: where the workload is held with no replicas, {why}");
        Some(Finding::new(CODE, message, hint))
    }
}

/// What is paused scales nothing, if that is what KEDA says of it, too.
fn of_scaled_object(object: &Value, in_member: bool) -> Option<FromZero> {
    let annotation = |name: &str| object["metadata"]["annotations"][name].as_str();
    match annotation(PAUSED_REPLICAS) {
        Some("0") => {}
        Some(_) => return Some(FromZero::PausedAtMore),
        None if annotation(PAUSED) == Some("true") => {}
        None => return Some(FromZero::NotPaused),
    }
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let is_paused = |condition: &Value| condition["type"] == "Paused" && condition["status"] == "True";
    let has_said = conditions.into_iter().flatten().any(is_paused);
    (in_member && !has_said).then_some(FromZero::NotPausedYet)
}

/// Returns whether a kind of workload is held by the number of its replicas: then who scales it undoes the hold.
pub fn concerns(profile: &WorkloadProfileSpec) -> bool {
    let mut patches = profile.hold.iter().chain(&profile.suspend);
    patches.any(|patch| patch.path.ends_with("/replicas"))
}

/// Returns a finding for each that doesn't leave a held copy alone.
pub(super) fn findings(scalers: &[Scaler]) -> Vec<Finding> {
    scalers.iter().filter_map(Scaler::finding).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn web() -> ObjectKey {
        ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "web".to_owned(),
        }
    }

    fn scaled(annotations: Value, status: Value) -> Value {
        json!({
            "metadata": {"name": "web", "annotations": annotations},
            "spec": {"scaleTargetRef": {"name": "web"}, "triggers": []},
            "status": status,
        })
    }

    fn undoes(kind: &str, object: &Value, cluster: Option<&str>) -> Option<FromZero> {
        let cluster = cluster.map(ClusterName::new);
        let scaler = Scaler::of(kind, object, &web(), cluster.as_ref());
        scaler.expect("it is about the workload").from_zero
    }

    #[test]
    fn keda_leaves_a_held_copy_alone_only_when_it_says_that_it_is_paused() {
        let paused = json!({"conditions": [{"type": "Paused", "status": "True"}]});
        let cases = [
            (json!({}), json!({}), Some(FromZero::NotPaused)),
            (
                json!({PAUSED: "false"}),
                paused.clone(),
                Some(FromZero::NotPaused),
            ),
            (json!({PAUSED: "true"}), json!({}), Some(FromZero::NotPausedYet)),
            (json!({PAUSED: "true"}), paused.clone(), None),
            (json!({PAUSED_REPLICAS: "0"}), paused.clone(), None),
            (
                json!({PAUSED: "true", PAUSED_REPLICAS: "3"}),
                paused,
                Some(FromZero::PausedAtMore),
            ),
        ];
        for (annotations, status, expected) in cases {
            let object = scaled(annotations, status);
            let kind = SCALED_OBJECT.1;
            assert_eq!(undoes(kind, &object, Some("west")), expected, "{object}");
        }
        // What is to be propagated has no status.
        let template = scaled(json!({PAUSED: "true"}), json!({}));
        assert_eq!(undoes(SCALED_OBJECT.1, &template, None), None);
    }

    #[test]
    fn an_hpa_leaves_it_alone_unless_its_minimum_is_zero() {
        let hpa = |spec: Value| {
            let mut object = json!({"metadata": {"name": "web"}, "spec": {"scaleTargetRef": {
                "apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
            }}});
            let fields = spec.as_object().unwrap().clone();
            object["spec"].as_object_mut().unwrap().extend(fields);
            undoes(HPA.1, &object, Some("west"))
        };
        assert_eq!(hpa(json!({})), None);
        assert_eq!(hpa(json!({"minReplicas": 2})), None);
        assert_eq!(hpa(json!({"minReplicas": 0})), Some(FromZero::MinimumZero));
    }

    #[test]
    fn what_scales_another_workload_is_none_of_its_business() {
        for target in [
            json!({"name": "shop"}),
            json!({"kind": "StatefulSet", "name": "web"}),
            json!({"apiVersion": "example.org/v1", "kind": "Deployment", "name": "web"}),
        ] {
            let object = json!({"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target}});
            assert_eq!(
                Scaler::of(SCALED_OBJECT.1, &object, &web(), None),
                None,
                "{object}"
            );
        }
    }

    #[test]
    fn only_what_is_held_by_its_replicas_is_concerned() {
        let of = |kind: &str, group: &str| {
            let api_version = format!("{group}/v1");
            let found = crate::profile::find(&[], None, &Gvk::new(&api_version, kind));
            concerns(&found.unwrap().unwrap().spec)
        };
        assert!(of("Deployment", "apps"));
        assert!(of("StatefulSet", "apps"));
        assert!(!of("FlinkDeployment", "flink.apache.org"));
    }
}
