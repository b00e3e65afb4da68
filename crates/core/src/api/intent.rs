//! The registry of kinds of intents: whoever handles all of them alike asks here, and a new kind is one line in [`KINDS`].

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::object::{HasSpec, HasStatus};
use kube::{CustomResourceExt, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use strum::VariantNames;

use super::{
    Evacuation, FailoverPlan, Migration, Progress, Rebalance, ReplicaShift, Rollout, RolloutPolicy, Standing,
    Suspension, WaitingFor,
};

/// An intent of some kind.
pub trait Intent:
    Resource<DynamicType = ()>
    + CustomResourceExt
    + HasSpec<Spec: Serialize>
    + HasStatus<Status: Progress>
    + DeserializeOwned
    + Clone
{
    /// The kind, as it is written in YAML.
    const KIND: &'static str;

    /// It claims workloads, or stands as a guest in the claim of another intent.
    const CLAIMS: bool = true;

    /// Where in an object templates stand, as JSON pointers: they are in Git as they are, and in a record without their secrets.
    const TEMPLATES: &'static [&'static str] = &[];

    /// How far an attempt has come.
    type Rank: PartialOrd;

    /// Returns how far a status has come: of two copies of one intent, the one with the higher rank is the newer.
    fn rank(status: &Self::Status) -> Self::Rank;

    /// Forgets the values of secret handles: no record has them.
    fn forget_secrets(_status: &mut Self::Status) {}
}

/// Attempt, whether it has ended, how many phases there were: what kinds with nothing better go by.
pub(super) fn common_rank(status: &impl Progress) -> (u32, bool, usize) {
    let common = status.common();
    (common.attempt, status.has_ended(), common.steps.len())
}

/// A kind of intents, as whoever handles all of them alike knows it.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub name: &'static str,
    /// See [`Intent::CLAIMS`].
    pub claims: bool,
    /// Every phase, as it is written in YAML, in the order in which the kind lists them.
    pub phases: &'static [&'static str],
    crd: fn() -> CustomResourceDefinition,
    plural: fn() -> String,
    short_names: fn() -> &'static [&'static str],
    state: fn(&Value) -> Option<IntentState>,
    has_ended: fn(&Value) -> bool,
    is_newer: fn(&Value, &Value) -> bool,
}

/// How an intent stands, whatever its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentState {
    pub phase: &'static str,
    /// The phases of the attempt so far.
    pub passed: Vec<String>,
    pub standing: Standing,
    pub has_ended: bool,
    pub waiting_for: Option<WaitingFor>,
}

/// Every kind of intents, in the order in which documentation lists them.
pub static KINDS: [Kind; 8] = [
    Kind::of::<FailoverPlan>(),
    Kind::of::<Migration>(),
    Kind::of::<ReplicaShift>(),
    Kind::of::<Rollout>(),
    Kind::of::<RolloutPolicy>(),
    Kind::of::<Suspension>(),
    Kind::of::<Evacuation>(),
    Kind::of::<Rebalance>(),
];

/// Returns a kind of intents by its name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

impl Kind {
    /// Returns what the registry knows of a kind.
    pub const fn of<I: Intent>() -> Self {
        Self {
            name: I::KIND,
            claims: I::CLAIMS,
            phases: <<I::Status as Progress>::Phase as VariantNames>::VARIANTS,
            crd: I::crd,
            plural: plural::<I>,
            short_names: I::shortnames,
            state: state::<I>,
            has_ended: has_ended::<I>,
            is_newer: is_newer::<I>,
        }
    }

    pub(super) fn crd(&self) -> CustomResourceDefinition {
        (self.crd)()
    }

    /// Returns whether a word names the kind, as kubectl takes it: by its singular, its plural or a short name, in lower case.
    pub fn is_called(&self, word: &str) -> bool {
        word == self.name.to_ascii_lowercase()
            || word == (self.plural)()
            || (self.short_names)().contains(&word)
    }

    /// Reads how an intent of this kind stands; `None`: it has a form that this release doesn't know.
    pub fn state(&self, intent: &Value) -> Option<IntentState> {
        (self.state)(intent)
    }

    /// Returns whether an attempt of an intent has certainly ended. One that can't be read has not, nor has one without a status.
    pub fn has_ended(&self, intent: &Value) -> bool {
        (self.has_ended)(intent)
    }

    /// Returns whether a recorded copy of an intent must not be overwritten by ours, because it is newer. A copy that can't be
    /// read never replaces one that can. Nor does one of an intent that has not begun: it asks the record first whether it ran
    /// before, under another uid perhaps.
    pub fn is_newer(&self, recorded: &Value, ours: &Value) -> bool {
        (self.is_newer)(recorded, ours)
    }
}

fn plural<I: Intent>() -> String {
    I::plural(&()).into_owned()
}

/// Reads the status of an intent of which no more may be there; the default where no pass has looked at it yet.
fn status<I: Intent>(intent: &Value) -> Option<I::Status> {
    let status = intent.get("status").cloned().unwrap_or_default();
    let status = serde_json::from_value::<Option<I::Status>>(status).ok()?;
    Some(status.unwrap_or_default())
}

fn state<I: Intent>(intent: &Value) -> Option<IntentState> {
    let status = status::<I>(intent)?;
    Some(IntentState {
        phase: status.phase_name(),
        passed: status
            .common()
            .steps
            .iter()
            .map(|step| step.name.clone())
            .collect(),
        standing: status.standing(),
        has_ended: status.has_ended(),
        waiting_for: status.waiting_for().cloned(),
    })
}

fn has_ended<I: Intent>(intent: &Value) -> bool {
    let intent = serde_json::from_value::<I>(intent.clone());
    intent.is_ok_and(|intent| intent.status().is_some_and(Progress::has_ended))
}

fn is_newer<I: Intent>(recorded: &Value, ours: &Value) -> bool {
    let uid = |intent: &Value| intent.pointer("/metadata/uid").cloned();
    let has_status = ours.get("status").is_some_and(|status| !status.is_null());
    let Some(ours_is) = status::<I>(ours).filter(|_| has_status) else {
        return true;
    };
    if uid(recorded).is_none() || uid(recorded) != uid(ours) {
        let common = ours_is.common();
        return common.attempt == 0 && common.started_at.is_none();
    }
    status::<I>(recorded).is_some_and(|recorded| I::rank(&recorded) > I::rank(&ours_is))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_registry_names_every_kind_as_its_crd_does() {
        for kind in &KINDS {
            assert_eq!(kind.crd().spec.names.kind, kind.name);
        }
        assert!(kind("Migration").is_some_and(|kind| kind.claims));
        assert!(kind("Claim").is_none());
    }

    #[test]
    fn a_column_shows_what_people_read_no_object_no_list_and_no_milliseconds() {
        for crd in crate::api::crds() {
            let crd = serde_json::to_value(crd).unwrap();
            for version in crd["spec"]["versions"].as_array().unwrap() {
                let columns = version["additionalPrinterColumns"].as_array();
                for column in columns.into_iter().flatten() {
                    let path = column["jsonPath"].as_str().unwrap();
                    assert!(!path.ends_with("Ms"), "{path}");
                    let mut shown = &version["schema"]["openAPIV3Schema"];
                    for field in path.split('.').skip(1) {
                        shown = &shown["properties"][field];
                    }
                    let is_many = matches!(shown["type"].as_str(), Some("object" | "array"));
                    assert!(!is_many, "{} {path}", crd["spec"]["names"]["kind"]);
                }
            }
        }
    }

    #[test]
    fn every_phase_is_one_that_a_status_of_the_kind_may_have() {
        for kind in &KINDS {
            assert!(kind.phases.len() > 2, "{}", kind.name);
            for phase in kind.phases {
                let state = kind.state(&json!({"status": {"phase": phase}}));
                assert_eq!(state.map(|state| state.phase), Some(*phase), "{}", kind.name);
            }
        }
    }

    #[test]
    fn what_cannot_be_read_or_has_no_status_has_not_ended() {
        for kind in &KINDS {
            assert!(!kind.has_ended(&json!({})), "{}", kind.name);
            assert!(
                !kind.has_ended(&json!({"status": {"phase": "Newer"}})),
                "{}",
                kind.name
            );
        }
        let suspension = |spec: Value| {
            json!({
                "apiVersion": "cutover.dev/v1alpha1", "kind": "Suspension", "metadata": {"name": "a"},
                "spec": spec, "status": {"phase": "Completed"},
            })
        };
        let kind = kind("Suspension").unwrap();
        assert!(kind.has_ended(&suspension(json!({"target": {}, "reason": "a"}))));
        assert!(
            !kind.has_ended(&suspension(json!({"target": 1}))),
            "its spec can't be read"
        );
    }

    #[test]
    fn an_intent_that_has_not_begun_leaves_the_record_of_the_one_before() {
        let ended = json!({"metadata": {"uid": "a"}, "status": {"phase": "Completed", "attempt": 1}});
        let waits = json!({"metadata": {"uid": "b"}, "status": {"attempt": 0}});
        let fresh = json!({"metadata": {"uid": "b"}, "status": null});
        let begun = json!({"metadata": {"uid": "b"}, "status": {"attempt": 1}});
        let kind = kind("Migration").unwrap();
        assert!(kind.is_newer(&ended, &fresh));
        assert!(kind.is_newer(&ended, &waits));
        assert!(!kind.is_newer(&ended, &begun));
        assert!(!kind.is_newer(&waits, &waits), "its own record goes on");
    }

    #[test]
    fn only_a_newer_copy_of_the_same_intent_is_newer() {
        let copy =
            |uid: &str, attempt: u32| json!({"metadata": {"uid": uid}, "status": {"attempt": attempt}});
        let kind = kind("Suspension").unwrap();
        assert!(kind.is_newer(&copy("a", 2), &copy("a", 1)));
        assert!(!kind.is_newer(&copy("a", 1), &copy("a", 1)));
        assert!(!kind.is_newer(&copy("b", 2), &copy("a", 1)));
        assert!(!kind.is_newer(&json!({"metadata": {"uid": "a"}, "status": 1}), &copy("a", 1)));
        assert!(kind.is_newer(&copy("a", 1), &json!({"metadata": {"uid": "a"}, "status": 1})));
    }
}
