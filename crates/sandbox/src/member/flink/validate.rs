//! What the operator refuses (`DefaultValidator`), in its order; the first error counts.
//!
//! Absent: ingress, resource quantities, autoscaler; memory counts as configured by the operator's defaults.

use super::spec::{
    CHECKPOINT_DIR, Conf, HEALTH_CHECK, JM_RECOVERY, JobState, ROLLBACK, SAVEPOINT_DIR, Spec, UpgradeMode,
};

const FLINK_VERSIONS: &[&str] = &[
    "v1_15", "v1_16", "v1_17", "v1_18", "v1_19", "v1_20", "v2_0", "v2_1", "v2_2", "v2_3", "v2_4",
];
const FORBIDDEN: &[&str] = &[
    "kubernetes.namespace",
    "kubernetes.cluster-id",
    "high-availability.cluster-id",
];

/// Returns why a spec is refused. `last` is the last reconciled spec, `None` before the first deployment.
pub fn validate(name: &str, spec: &Spec, last: Option<&Spec>) -> Option<String> {
    let conf = spec.conf();
    deployment_name(name)
        .or_else(|| flink_version(spec, last))
        .or_else(|| configuration(&conf))
        .or_else(|| job(spec, &conf))
        .or_else(|| job_manager(spec, &conf))
        .or_else(|| last.and_then(|last| change(spec, last)))
}

/// Returns why the spec of a session job is refused; `session` is the spec of the cluster that it names, where that is there.
pub fn validate_session_job(spec: &Spec, last: Option<&Spec>, session: Option<&Spec>) -> Option<String> {
    if !spec.has_job() {
        return Some("The job spec should not be empty".to_owned());
    }
    if last.is_some_and(|last| last.deployment_name() != spec.deployment_name()) {
        return Some("The deploymentName can't be changed".to_owned());
    }
    let session = session?;
    if session.has_job() {
        return Some("Can not submit session job to application cluster".to_owned());
    }
    job(spec, &spec.in_session(session).conf())
}

fn deployment_name(name: &str) -> Option<String> {
    let bytes = name.as_bytes();
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    let valid = bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.last().is_some_and(|b| inner(b) && *b != b'-')
        && bytes.iter().all(inner)
        && bytes.len() <= 45;
    (!valid).then(|| format!("The FlinkDeployment name: {name} is invalid"))
}

fn flink_version(spec: &Spec, last: Option<&Spec>) -> Option<String> {
    let Some(version) = spec.flink_version() else {
        return Some("Flink Version must be defined.".to_owned());
    };
    if !FLINK_VERSIONS.contains(&version) {
        return Some(format!(
            "Flink version {version} is not supported by this operator version"
        ));
    }
    let last = last.filter(|last| last.has_job() && spec.has_job())?;
    let suspended_with_last_state =
        last.job_state() == JobState::Suspended && last.upgrade_mode() == UpgradeMode::LastState;
    let forbidden = spec.upgrade_mode() != UpgradeMode::Stateless
        && suspended_with_last_state
        && last.flink_version() != Some(version);
    forbidden.then(|| "Changing flinkVersion after last-state suspend is not allowed.".to_owned())
}

fn configuration(conf: &Conf) -> Option<String> {
    if let Some(key) = FORBIDDEN.iter().find(|key| conf.get(key).is_some()) {
        return Some(format!("Forbidden Flink config key: {key}"));
    }
    if conf.flag(ROLLBACK, false) && !conf.high_availability() {
        return Some("HA must be enabled for rollback support.".to_owned());
    }
    (conf.flag(HEALTH_CHECK, false) && !conf.flag(JM_RECOVERY, true)).then(|| {
        format!("Deployment recovery ({JM_RECOVERY}) must be enabled for job health check ({HEALTH_CHECK}) support.")
    })
}

fn job(spec: &Spec, conf: &Conf) -> Option<String> {
    if !spec.has_job() {
        return None;
    }
    if spec.upgrade_mode() != UpgradeMode::Stateless && conf.get(CHECKPOINT_DIR).is_none() {
        return Some(format!(
            "Checkpoint directory[{CHECKPOINT_DIR}] must be defined for last-state and savepoint upgrade modes"
        ));
    }
    if spec.upgrade_mode() == UpgradeMode::Savepoint && conf.get(SAVEPOINT_DIR).is_none() {
        return Some(format!(
            "Job could not be upgraded with savepoint while config key[{SAVEPOINT_DIR}] is not set"
        ));
    }
    match spec
        .fields()
        .get("taskManager")
        .and_then(|tm| tm.get("replicas")?.as_i64())
    {
        Some(replicas) => (replicas < 1).then(|| "TaskManager replicas must be larger than 0".to_owned()),
        None => (spec.parallelism() < 1).then(|| "Job parallelism must be larger than 0".to_owned()),
    }
}

fn job_manager(spec: &Spec, conf: &Conf) -> Option<String> {
    let replicas = spec
        .fields()
        .get("jobManager")
        .and_then(|jm| jm.get("replicas")?.as_i64())
        .unwrap_or(1);
    if replicas < 1 {
        return Some("JobManager replicas should not be configured less than one.".to_owned());
    }
    (replicas > 1 && !conf.high_availability())
        .then(|| "High availability should be enabled when starting standby JobManagers.".to_owned())
}

fn change(spec: &Spec, last: &Spec) -> Option<String> {
    if spec.has_job() != last.has_job() {
        let (from, to) = if spec.has_job() {
            ("session", "job")
        } else {
            ("job", "session")
        };
        return Some(format!("Cannot switch from {from} to {to} cluster"));
    }
    if spec.mode() != last.mode() {
        return Some(format!(
            "Cannot switch from {} kubernetes to {} kubernetes cluster",
            last.mode(),
            spec.mode()
        ));
    }
    let redeploy = spec.redeploy_nonce().is_some() && spec.redeploy_nonce() != last.redeploy_nonce();
    let blank = spec.initial_savepoint().is_none_or(|path| path.trim().is_empty());
    (redeploy && blank)
        .then(|| "InitialSavepointPath must not be empty for savepoint redeployment".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec() -> Value {
        json!({"flinkVersion": "v1_20", "job": {"parallelism": 1, "upgradeMode": "savepoint"}})
    }

    fn refused(spec: &Value) -> String {
        validate("orders", &Spec::new(spec), None).expect("refused")
    }

    #[test]
    fn a_plain_application_is_accepted() {
        assert_eq!(validate("orders", &Spec::new(&spec()), None), None);
    }

    #[test]
    fn a_savepoint_upgrade_needs_a_savepoint_directory() {
        let mut spec = spec();
        spec["flinkConfiguration"] = json!({"state.savepoints.dir": ""});
        assert!(refused(&spec).starts_with("Job could not be upgraded with savepoint"));
    }

    #[test]
    fn a_session_job_stays_with_its_session_cluster() {
        let session = Spec::new(&json!({"flinkVersion": "v1_20"}));
        let named = |deployment: &str| {
            Spec::new(
                &json!({"deploymentName": deployment, "job": {"parallelism": 1, "upgradeMode": "savepoint"}}),
            )
        };
        let validate = |last: Option<&Spec>, session: Option<&Spec>| {
            validate_session_job(&named("session"), last, session)
        };
        assert_eq!(validate(Some(&named("session")), Some(&session)), None);
        assert!(
            validate(Some(&named("other")), None)
                .unwrap()
                .contains("deploymentName")
        );
        let application = Spec::new(&spec());
        assert!(
            validate(None, Some(&application))
                .unwrap()
                .contains("application cluster")
        );
    }

    #[test]
    fn parallelism_version_and_name_are_checked() {
        let mut bad = spec();
        bad["job"]["parallelism"] = json!(0);
        assert_eq!(refused(&bad), "Job parallelism must be larger than 0");
        bad["flinkVersion"] = json!("v1_14");
        assert!(refused(&bad).contains("not supported"));
        bad["flinkVersion"] = Value::Null;
        assert_eq!(refused(&bad), "Flink Version must be defined.");
        assert!(validate("Orders", &Spec::new(&spec()), None).is_some());
    }

    #[test]
    fn a_redeployment_needs_an_initial_savepoint() {
        let last = Spec::new(&spec());
        let mut next = spec();
        next["job"]["savepointRedeployNonce"] = json!(1);
        let error = validate("orders", &Spec::new(&next), Some(&last)).unwrap();
        assert_eq!(
            error,
            "InitialSavepointPath must not be empty for savepoint redeployment"
        );
        next["job"]["initialSavepointPath"] = json!("s3://savepoints/a");
        assert_eq!(validate("orders", &Spec::new(&next), Some(&last)), None);
    }
}
