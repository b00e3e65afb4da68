//! The spec of a `FlinkDeployment` or a `FlinkSessionJob` as the operator reads it: with its defaults filled in.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// `spec.job.state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    Running,
    Suspended,
}

impl JobState {
    const fn text(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Suspended => "suspended",
        }
    }
}

/// `spec.job.upgradeMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradeMode {
    Savepoint,
    LastState,
    Stateless,
}

impl UpgradeMode {
    const fn text(self) -> &'static str {
        match self {
            Self::Savepoint => "savepoint",
            Self::LastState => "last-state",
            Self::Stateless => "stateless",
        }
    }
}

/// A spec with the defaults of `JobSpec` and without nulls, so that equal specs compare equal.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Spec(Map<String, Value>);

impl Spec {
    pub fn new(spec: &Value) -> Self {
        let mut fields = spec.as_object().cloned().unwrap_or_default();
        fields.retain(|_, value| !value.is_null());
        if let Some(Value::Object(job)) = fields.get_mut("job") {
            job.retain(|_, value| !value.is_null());
            for (field, default) in [
                ("args", json!([])),
                ("state", json!(JobState::Running.text())),
                ("upgradeMode", json!(UpgradeMode::Stateless.text())),
            ] {
                job.entry(field).or_insert(default);
            }
        }
        Self(fields)
    }

    pub fn value(&self) -> Value {
        Value::Object(self.0.clone())
    }

    pub fn fields(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Returns whether this has a job; a `FlinkDeployment` without one is a session cluster.
    pub fn has_job(&self) -> bool {
        self.job_fields().is_some()
    }

    pub fn job_state(&self) -> JobState {
        match self.job("state").and_then(Value::as_str) {
            Some("suspended") => JobState::Suspended,
            _ => JobState::Running,
        }
    }

    pub fn upgrade_mode(&self) -> UpgradeMode {
        match self.job("upgradeMode").and_then(Value::as_str) {
            Some("savepoint") => UpgradeMode::Savepoint,
            Some("last-state") => UpgradeMode::LastState,
            _ => UpgradeMode::Stateless,
        }
    }

    pub fn initial_savepoint(&self) -> Option<&str> {
        self.job("initialSavepointPath").and_then(Value::as_str)
    }

    pub fn redeploy_nonce(&self) -> Option<&Value> {
        self.job("savepointRedeployNonce")
    }

    /// Returns the job's parallelism; 0 when it isn't given.
    pub fn parallelism(&self) -> i64 {
        self.job("parallelism").and_then(Value::as_i64).unwrap_or(0)
    }

    pub fn image(&self) -> &str {
        self.text("image").unwrap_or("flink")
    }

    pub fn flink_version(&self) -> Option<&str> {
        self.text("flinkVersion")
    }

    /// Returns the session cluster that a session job names.
    pub fn deployment_name(&self) -> &str {
        self.text("deploymentName").unwrap_or_default()
    }

    /// Returns the spec of a session job with what its cluster adds: image, version, and the configuration that the job leaves open.
    pub fn in_session(&self, session: &Self) -> Self {
        let mut fields = self.0.clone();
        for field in ["image", "flinkVersion"] {
            if let Some(value) = session.0.get(field) {
                fields.insert(field.to_owned(), value.clone());
            }
        }
        let mut conf = Conf::own(session.0.get("flinkConfiguration")).0;
        conf.extend(Conf::own(self.0.get("flinkConfiguration")).0);
        fields.insert("flinkConfiguration".to_owned(), json!(conf));
        Self(fields)
    }

    pub fn mode(&self) -> &str {
        self.text("mode").unwrap_or("native")
    }

    pub fn conf(&self) -> Conf {
        Conf::new(self.0.get("flinkConfiguration"))
    }

    /// Returns how many `TaskManagers` a job of this spec asks for.
    pub fn task_managers(&self) -> u32 {
        let slots = self
            .conf()
            .get("taskmanager.numberOfTaskSlots")
            .and_then(|n| n.parse().ok());
        let slots = slots.unwrap_or(1_i64).max(1);
        let needed = (self.parallelism().max(1) + slots - 1) / slots;
        u32::try_from(needed).unwrap_or(1)
    }

    pub fn set_job_state(&mut self, state: JobState) {
        self.set_job("state", json!(state.text()));
    }

    pub fn set_upgrade_mode(&mut self, mode: UpgradeMode) {
        self.set_job("upgradeMode", json!(mode.text()));
    }

    /// Returns the directory for one kind of state of a workload: the one its own configuration names, else a
    /// folder of its own below the operator's default.
    pub fn directory(&self, key: &str, namespace: &str, name: &str) -> String {
        let own = self.0.get("flinkConfiguration").map(|own| Conf::own(Some(own)));
        if let Some(directory) = own.as_ref().and_then(|own| own.get(key)) {
            return directory.trim_end_matches('/').to_owned();
        }
        let root = DEFAULTS
            .iter()
            .find(|(default, _)| *default == key)
            .map_or("s3://flink", |(_, root)| *root);
        format!("{root}/{namespace}/{name}")
    }

    fn text(&self, field: &str) -> Option<&str> {
        self.0.get(field).and_then(Value::as_str)
    }

    fn job_fields(&self) -> Option<&Map<String, Value>> {
        self.0.get("job").and_then(Value::as_object)
    }

    fn job(&self, field: &str) -> Option<&Value> {
        self.job_fields()?.get(field)
    }

    fn set_job(&mut self, field: &str, value: Value) {
        if let Some(Value::Object(job)) = self.0.get_mut("job") {
            job.insert(field.to_owned(), value);
        }
    }
}

/// What an installation of the operator brings along as its default configuration; a resource's own wins.
///
/// `shutdown-ttl` is the one that differs from the operator's built-in value (`1 d`): with that, the `JobManager`'s pod
/// outlives a job stopped with a savepoint by a day, and "its pods are gone" can't be proved.
const DEFAULTS: &[(&str, &str)] = &[
    (CHECKPOINT_DIR, "s3://checkpoints"),
    (SAVEPOINT_DIR, "s3://savepoints"),
    (SHUTDOWN_TTL, "0 s"),
];

pub const CHECKPOINT_DIR: &str = "execution.checkpointing.dir";
pub const SAVEPOINT_DIR: &str = "execution.checkpointing.savepoint-dir";
pub const SHUTDOWN_TTL: &str = "kubernetes.operator.jm-deployment.shutdown-ttl";
pub const LAST_STATE_FALLBACK: &str = "kubernetes.operator.job.upgrade.last-state-fallback.enabled";
pub const LAST_STATE_CANCEL: &str = "kubernetes.operator.job.upgrade.last-state.job-cancel.enabled";
pub const SAVEPOINT_ON_DELETION: &str = "kubernetes.operator.job.savepoint-on-deletion";
pub const RESTART_FAILED: &str = "kubernetes.operator.job.restart.failed";
pub const JM_RECOVERY: &str = "kubernetes.operator.jm-deployment-recovery.enabled";
pub const HEALTH_CHECK: &str = "kubernetes.operator.cluster.health-check.enabled";
pub const ROLLBACK: &str = "kubernetes.operator.deployment.rollback.enabled";
pub const BLOCK_ON_SESSION_JOBS: &str = "kubernetes.operator.session.deletion.block-on-session-jobs";
pub const READINESS_TIMEOUT: &str = "kubernetes.operator.deployment.readiness.timeout";

/// The names that older versions of Flink gave to options.
const OLD_NAMES: &[(&str, &str)] = &[
    ("state.checkpoints.dir", CHECKPOINT_DIR),
    ("state.savepoints.dir", SAVEPOINT_DIR),
    ("high-availability", "high-availability.type"),
];

/// The effective Flink configuration: the operator's defaults below the resource's own, nested keys flattened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conf(BTreeMap<String, String>);

impl Conf {
    fn new(own: Option<&Value>) -> Self {
        let defaults = DEFAULTS
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let mut conf = Self(defaults.collect());
        conf.0.extend(Self::own(own).0);
        conf
    }

    fn own(own: Option<&Value>) -> Self {
        let current = |key: String| match OLD_NAMES.iter().find(|(old, _)| *old == key) {
            Some((_, new)) => (*new).to_owned(),
            None => key,
        };
        Self(
            flatten(own)
                .into_iter()
                .map(|(key, value)| (current(key), value))
                .collect(),
        )
    }

    /// Returns an option's value; blank counts as absent.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .get(key)
            .map(|value| value.trim())
            .filter(|value| !value.is_empty())
    }

    pub fn flag(&self, key: &str, default: bool) -> bool {
        self.get(key)
            .map_or(default, |value| value.eq_ignore_ascii_case("true"))
    }

    pub fn duration(&self, key: &str, default: Duration) -> Duration {
        self.get(key).and_then(duration).unwrap_or(default)
    }

    /// Returns whether high availability is on, so that a job's state survives its `JobManager` in the same cluster.
    pub fn high_availability(&self) -> bool {
        self.get("high-availability.type")
            .is_some_and(|kind| !kind.eq_ignore_ascii_case("none"))
    }
}

/// Flattens nested configuration to dotted keys (`ConfigObjectNode.asFlatMap`).
pub fn flatten(conf: Option<&Value>) -> BTreeMap<String, String> {
    fn visit(prefix: &str, value: &Value, flat: &mut BTreeMap<String, String>) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let key = if prefix.is_empty() {
                        key.clone()
                    } else {
                        format!("{prefix}.{key}")
                    };
                    visit(&key, value, flat);
                }
            }
            Value::Null => {}
            Value::String(text) => {
                flat.insert(prefix.to_owned(), text.clone());
            }
            other => {
                flat.insert(prefix.to_owned(), other.to_string());
            }
        }
    }
    let mut flat = BTreeMap::new();
    if let Some(conf) = conf {
        visit("", conf, &mut flat);
    }
    flat
}

/// Reads a duration as Flink writes it: a number and a unit, milliseconds without one.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let millis = match unit.trim() {
        "" | "ms" => 1,
        "s" | "sec" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.saturating_mul(millis)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_make_equal_specs_compare_equal() {
        let short = Spec::new(&json!({"job": {"jarURI": "local:///a.jar", "initialSavepointPath": null}}));
        let long = Spec::new(&json!({
            "job": {"jarURI": "local:///a.jar", "args": [], "state": "running", "upgradeMode": "stateless"},
        }));
        assert_eq!(short, long);
    }

    #[test]
    fn nested_and_dotted_configuration_are_the_same_and_old_names_are_known() {
        let nested =
            Spec::new(&json!({"flinkConfiguration": {"state": {"savepoints": {"dir": "s3://mine"}}}}));
        assert_eq!(nested.conf().get(SAVEPOINT_DIR), Some("s3://mine"));
        assert_eq!(nested.conf().get(CHECKPOINT_DIR), Some("s3://checkpoints"));
    }

    #[test]
    fn a_session_job_has_what_its_cluster_has_and_it_leaves_open() {
        let session = Spec::new(&json!({
            "image": "flink:1.20",
            "flinkConfiguration": {"state.savepoints.dir": "s3://session", "state.checkpoints.dir": "s3://checkpoints/session"},
        }));
        let job = Spec::new(&json!({
            "deploymentName": "session", "job": {}, "flinkConfiguration": {"state.savepoints.dir": "s3://own"},
        }));
        let both = job.in_session(&session);
        assert_eq!(both.image(), "flink:1.20");
        assert_eq!(both.conf().get(SAVEPOINT_DIR), Some("s3://own"));
        assert_eq!(both.conf().get(CHECKPOINT_DIR), Some("s3://checkpoints/session"));
    }

    #[test]
    fn durations_are_read_as_flink_writes_them() {
        for (text, millis) in [("1 d", 86_400_000), ("10s", 10_000), ("500 ms", 500), ("7", 7)] {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(duration("soon"), None);
    }
}
