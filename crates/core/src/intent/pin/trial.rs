//! What a pin makes of one object by a profile, without a control plane: for whoever writes the profile. The patches are filled
//! in, compiled and applied by what writes pins, and by what computes Works of them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::overriders::{keeps_plain, overriders};
use super::parents::{creating, lacking};
use super::{Token, Writer};
use crate::api::PatchOp;
use crate::intent::fight::differ;
use crate::profile::{self, Action, Profile, Site, Variables};
use cutover_karmada::name::ClusterName;
use cutover_karmada::overrides::apply_overriders;

/// What the cluster of a trial is called.
pub const HERE: &str = "here";

/// What a pin asks of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Not to run: no cluster may.
    Held,
    /// To stop, with its state saved.
    Stopped,
    /// To run from a state handle, as the first copy in its cluster.
    Started,
}

/// Why a patch can't be written, or not on this object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Failed {
    /// The patch of the profile: a JSON pointer.
    pub pointer: String,
    /// The same for people.
    pub field: String,
    pub message: String,
}

/// Returns what an object becomes in a cluster where a pin asks this of it. `captured`: the handles that a start is given.
pub fn trial(
    profile: &Profile,
    role: Role,
    captured: &BTreeMap<String, String>,
    object: &Value,
) -> Result<Value, Failed> {
    let here = ClusterName::new(HERE);
    let mut made = object.clone();
    let (token, lists) = token(profile, role, captured, object, &here)?;
    let listed = token.rules();
    let rules = creating(listed.clone(), &lacking(object, profile.spec()));
    let reaching = rules
        .iter()
        .zip(&listed)
        .filter(|(rule, _)| rule.place.contains(&here));
    for ((rule, listed), list) in reaching.zip(lists) {
        // What is created comes before what the profile lists.
        let created = rule.patches.len() - listed.patches.len();
        let pointer = |index: usize| format!("/spec/{list}/{}", index.saturating_sub(created));
        let mut alone = made.clone();
        for (index, patch) in rule.patches.iter().enumerate() {
            let said = overriders(std::slice::from_ref(patch));
            apply_overriders(&mut alone, &said).map_err(|cause| failed(pointer(index), &cause))?;
        }
        // Karmada gets those of a rule together, and one of them may keep its mapping plain text.
        apply_overriders(&mut made, &overriders(&rule.patches)).map_err(|cause| {
            let odd = keeps_plain(&rule.patches).unwrap_or_default();
            failed(pointer(odd), &cause)
        })?;
    }
    Ok(made)
}

/// Returns an object as the patches make it that go along with a move. What can't be applied is left out: it has a finding of its own.
pub fn patched(object: &Value, patches: &[PatchOp]) -> Value {
    let mut made = object.clone();
    match apply_overriders(&mut made, &overriders(patches)) {
        Ok(()) => made,
        Err(_) => object.clone(),
    }
}

/// Returns whether the pin of a copy has to stay until its template has what the pin wrote.
pub fn has_to_stay(profile: &Profile, template: &Value, made: &Value) -> bool {
    differ(made.clone(), template.clone(), &profile.spec().ignored_on_removal)
}

/// Returns the token, and the lists of the profile that its rules about a cluster are made of.
fn token(
    profile: &Profile,
    role: Role,
    captured: &BTreeMap<String, String>,
    object: &Value,
    here: &ClusterName,
) -> Result<(Token, &'static [&'static str]), Failed> {
    let fill = |action, list: &str, captured: Option<&BTreeMap<String, String>>| {
        let variables = Variables {
            captured,
            secrets: None,
            attempt: 1,
            object: None,
            site: Some(Site::of(object, here.as_str())),
        };
        profile
            .patches(action, &variables)
            .map_err(|error| unfilled(profile, action, list, &error))
    };
    let held = Token {
        may_run: Writer::Nobody,
        hold: fill(Action::Hold, "hold", None)?,
        suspended: Vec::new(),
        suspend: Vec::new(),
        // All of it is about this cluster.
        named: BTreeMap::new(),
        carry: Vec::new(),
    };
    Ok(match role {
        Role::Held => (held, &["hold"]),
        Role::Stopped => {
            let suspend = fill(Action::Suspend, "suspend", None)?;
            let suspended = vec![here.clone()];
            (
                Token {
                    suspended,
                    suspend,
                    ..held
                },
                &["hold", "suspend"],
            )
        }
        Role::Started => {
            let carry = fill(Action::Start, "start", Some(captured))?;
            let may_run = Writer::Only(here.clone());
            (
                Token {
                    may_run,
                    carry,
                    ..held
                },
                &["start"],
            )
        }
    })
}

/// Says which patch it is that can't be filled in.
fn unfilled(profile: &Profile, action: Action, list: &str, error: &profile::Error) -> Failed {
    let names_it = |patch: &PatchOp| match (error, &patch.value) {
        (profile::Error::Variable(name), Some(value)) => value.to_string().contains(&format!("${{{name}}}")),
        _ => false,
    };
    let pointer = match profile.listed(action).iter().position(names_it) {
        Some(index) => format!("/spec/{list}/{index}"),
        None => format!("/spec/{list}"),
    };
    failed(pointer, error)
}

fn failed(pointer: String, why: &dyn std::fmt::Display) -> Failed {
    Failed {
        field: profile::field(&pointer),
        pointer,
        message: why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::profile::built_in;

    fn flink() -> Profile {
        Profile::compile("flink", &built_in().unwrap()[0].spec).unwrap()
    }

    fn job() -> Value {
        json!({"spec": {"job": {"state": "running", "upgradeMode": "last-state"}, "flinkConfiguration": {}}})
    }

    #[test]
    fn a_copy_that_is_held_carries_the_hold_and_nothing_else() {
        let made = trial(&flink(), Role::Held, &BTreeMap::new(), &job()).unwrap();
        assert!(flink().carries_hold(&made, &HERE.into()));
        assert_eq!(
            made["spec"]["job"],
            json!({"state": "suspended", "upgradeMode": "last-state"})
        );
    }

    #[test]
    fn a_copy_that_is_stopped_is_held_and_saves_its_state() {
        let made = trial(&flink(), Role::Stopped, &BTreeMap::new(), &job()).unwrap();
        assert!(flink().carries_hold(&made, &HERE.into()));
        assert_eq!(made["spec"]["job"]["upgradeMode"], "savepoint");
    }

    #[test]
    fn a_copy_that_is_started_gets_the_handle() {
        let captured = BTreeMap::from([("savepoint".to_owned(), "s3://a".to_owned())]);
        let made = trial(&flink(), Role::Started, &captured, &job()).unwrap();
        assert_eq!(made["spec"]["job"]["initialSavepointPath"], "s3://a");
        assert!(!flink().carries_hold(&made, &HERE.into()));
        assert!(!has_to_stay(&flink(), &job(), &made));
        let mut template = job();
        template["spec"]["job"]["state"] = json!("suspended");
        assert!(has_to_stay(&flink(), &template, &made));
    }

    #[test]
    fn the_variables_of_place_are_those_of_the_object_in_a_cluster_called_here() {
        let mut spec = built_in().unwrap()[0].spec.clone();
        let placed = PatchOp::add("/spec/placed", "${cluster}/${namespace}/${name}");
        spec.hold.push(placed.clone());
        spec.start
            .retain(|patch| !patch.path.contains("initialSavepointPath"));
        spec.start.push(placed);
        let profile = Profile::compile("flink", &spec).unwrap();
        let mut object = job();
        object["metadata"] = json!({"namespace": "shop", "name": "orders"});
        for role in [Role::Held, Role::Started] {
            let made = trial(&profile, role, &BTreeMap::new(), &object).unwrap();
            assert_eq!(made["spec"]["placed"], "here/shop/orders", "{role:?}");
            assert_eq!(profile.carries_hold(&made, &HERE.into()), role == Role::Held);
        }
    }

    #[test]
    fn a_patch_that_fails_is_named() {
        let of = |role, object: &Value| trial(&flink(), role, &BTreeMap::new(), object).unwrap_err();
        assert_eq!(of(Role::Started, &job()).pointer, "/spec/start/2");
        let bare = json!({"spec": {"job": {"state": "running"}}});
        let why = of(Role::Stopped, &bare);
        assert_eq!(why.field, "suspend[2]");
        assert!(why.message.contains("flinkConfiguration"), "{why}");
    }

    #[test]
    fn a_patch_that_keeps_others_from_being_overriders_is_named() {
        let mut spec = built_in().unwrap()[0].spec.clone();
        let whole = PatchOp::add("/metadata/labels", json!({"held": "yes"}));
        let absent = PatchOp {
            op: "remove".to_owned(),
            path: "/metadata/labels/absent".to_owned(),
            value: None,
        };
        spec.hold = vec![absent, whole];
        let profile = Profile::compile("flink", &spec).unwrap();
        let mut object = job();
        object["metadata"] = json!({"name": "orders"});
        let why = trial(&profile, Role::Held, &BTreeMap::new(), &object).unwrap_err();
        assert_eq!(why.pointer, "/spec/hold/1");
    }
}
