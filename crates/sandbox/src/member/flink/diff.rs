//! What a change of the spec asks for (`ReflectiveDiffBuilder`, the `@SpecDiff` marks of `JobSpec` and
//! `AbstractFlinkSpec`).

use serde_json::{Map, Value};

use super::spec::{Spec, flatten};

/// How much a change asks for, in rising order (`DiffType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiffType {
    /// Nothing happens.
    Ignore,
    /// Could be done in place, by an operator that is allowed to.
    Scale,
    /// Suspend and start again.
    Upgrade,
    /// Throw the job away and start from `initialSavepointPath`.
    SavepointRedeploy,
}

/// Returns what the change from the last reconciled spec to this one asks for.
pub fn diff(before: &Spec, after: &Spec) -> DiffType {
    let (before, after) = (before.fields(), after.fields());
    changed(before, after)
        .map(|(field, left, right)| match (field, left, right) {
            ("job", Some(Value::Object(left)), Some(Value::Object(right))) => job(left, right),
            ("flinkConfiguration", left, right) => configuration(left, right),
            ("restartNonce", _, None) => DiffType::Ignore,
            _ => DiffType::Upgrade,
        })
        .max()
        .unwrap_or(DiffType::Ignore)
}

fn job(before: &Map<String, Value>, after: &Map<String, Value>) -> DiffType {
    changed(before, after)
        .map(|(field, _, right)| match (field, right) {
            (
                "initialSavepointPath"
                | "upgradeMode"
                | "allowNonRestoredState"
                | "savepointTriggerNonce"
                | "checkpointTriggerNonce"
                | "autoscalerResetNonce",
                _,
            )
            | ("savepointRedeployNonce", None) => DiffType::Ignore,
            ("savepointRedeployNonce", Some(_)) => DiffType::SavepointRedeploy,
            _ => DiffType::Upgrade,
        })
        .max()
        .unwrap_or(DiffType::Ignore)
}

fn configuration(before: Option<&Value>, after: Option<&Value>) -> DiffType {
    let (before, after) = (flatten(before), flatten(after));
    before
        .keys()
        .chain(after.keys())
        .filter(|key| before.get(*key) != after.get(*key))
        .map(|key| match key {
            key if key.starts_with("job.autoscaler") => DiffType::Ignore,
            key if key.starts_with("parallelism.default") => DiffType::Ignore,
            key if key.starts_with("kubernetes.operator") => DiffType::Ignore,
            key if key.starts_with("pipeline.jobvertex-parallelism-overrides") => DiffType::Scale,
            _ => DiffType::Upgrade,
        })
        .max()
        .unwrap_or(DiffType::Ignore)
}

fn changed<'a>(
    before: &'a Map<String, Value>,
    after: &'a Map<String, Value>,
) -> impl Iterator<Item = (&'a str, Option<&'a Value>, Option<&'a Value>)> {
    let added = after.keys().filter(|key| !before.contains_key(*key));
    before
        .keys()
        .chain(added)
        .map(|key| (key.as_str(), before.get(key), after.get(key)))
        .filter(|(_, left, right)| left != right)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn base() -> Value {
        json!({
            "image": "flink:1.20",
            "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "2"},
            "job": {"parallelism": 2, "state": "running", "upgradeMode": "savepoint", "savepointRedeployNonce": 1},
        })
    }

    fn with(pointer: &str, value: Value) -> DiffType {
        let mut after = base();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        after
            .pointer_mut(parent)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .insert(field.into(), value);
        diff(&Spec::new(&base()), &Spec::new(&after))
    }

    #[test]
    fn state_handles_and_upgrade_modes_never_restart_a_job() {
        assert_eq!(
            with("/job/initialSavepointPath", json!("s3://x")),
            DiffType::Ignore
        );
        assert_eq!(with("/job/upgradeMode", json!("last-state")), DiffType::Ignore);
        assert_eq!(with("/job/allowNonRestoredState", json!(true)), DiffType::Ignore);
    }

    #[test]
    fn image_parallelism_state_and_configuration_upgrade() {
        assert_eq!(with("/image", json!("flink:1.20.1")), DiffType::Upgrade);
        assert_eq!(with("/job/parallelism", json!(4)), DiffType::Upgrade);
        assert_eq!(with("/job/state", json!("suspended")), DiffType::Upgrade);
        assert_eq!(
            with("/flinkConfiguration/taskmanager.numberOfTaskSlots", json!("4")),
            DiffType::Upgrade
        );
    }

    #[test]
    fn the_operators_own_options_are_ignored() {
        let key = "/flinkConfiguration/kubernetes.operator.job.upgrade.last-state-fallback.enabled";
        assert_eq!(with(key, json!("false")), DiffType::Ignore);
    }

    #[test]
    fn a_new_redeploy_nonce_redeploys_and_a_removed_one_does_nothing() {
        assert_eq!(
            with("/job/savepointRedeployNonce", json!(2)),
            DiffType::SavepointRedeploy
        );
        assert_eq!(with("/job/savepointRedeployNonce", Value::Null), DiffType::Ignore);
        assert_eq!(with("/restartNonce", json!(1)), DiffType::Upgrade);
    }

    #[test]
    fn the_strongest_change_decides() {
        let mut after = base();
        after["job"]["savepointRedeployNonce"] = json!(7);
        after["image"] = json!("flink:2.0");
        assert_eq!(
            diff(&Spec::new(&base()), &Spec::new(&after)),
            DiffType::SavepointRedeploy
        );
    }
}
