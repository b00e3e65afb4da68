//! What an intent leaves in Git: enough to know, without the control plane, that it ended and with which state.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::api::{
    self, FailoverPlan, FailoverPlanStatus, Intent, Journal, Migration, MigrationSpec, MigrationStatus, Phase,
};
use crate::redact;
use cutover_karmada::name::{ClusterName, ObjectKey};

/// An intent as the status branch has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Whose it is: another intent of that name may have left one.
    #[serde(skip)]
    pub uid: Option<String>,
    pub spec: MigrationSpec,
    /// Without the values of secret handles.
    pub status: MigrationStatus,
}

impl Record {
    /// Returns what Git gets of an attempt.
    pub fn new(uid: &str, spec: MigrationSpec, mut status: MigrationStatus) -> Self {
        Migration::forget_secrets(&mut status);
        Self {
            uid: Some(uid.to_owned()),
            spec,
            status,
        }
    }

    /// Returns whether this record is the end of the attempt that a spec asks for.
    pub fn ends(&self, spec: &MigrationSpec) -> bool {
        self.status.phase.is_terminal() && asks_the_same(&self.spec, spec)
    }

    /// Returns the cluster in which the attempt left the workload.
    pub fn tenant<'j>(&self, journal: &'j Journal) -> &'j ClusterName {
        if self.status.phase == Phase::Completed {
            &journal.target
        } else {
            &journal.source
        }
    }

    /// Returns whether this record is of an attempt that had begun and has not ended.
    pub fn is_cut_short(&self) -> bool {
        !self.status.phase.is_terminal() && self.status.journal_in_force().is_some()
    }
}

/// What a standing intent has Git keep before it goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    pub intent: ObjectKey,
    pub uid: String,
    /// The document that stands at [`path`].
    pub document: Value,
    pub status: FailoverPlanStatus,
    /// What is news about it, as the subject of a commit says it.
    pub news: String,
}

impl Kept {
    /// Returns a plan as it is to stand in Git, with the status that is to be written.
    pub fn new(mut plan: FailoverPlan, mut status: FailoverPlanStatus, news: &str) -> Self {
        FailoverPlan::forget_secrets(&mut status);
        plan.status = Some(status.clone());
        Self {
            intent: ObjectKey {
                group: api::GROUP.to_owned(),
                kind: FailoverPlan::KIND.to_owned(),
                namespace: plan.metadata.namespace.clone(),
                name: plan.metadata.name.clone().unwrap_or_default(),
            },
            uid: plan.metadata.uid.clone().unwrap_or_default(),
            document: document(&plan),
            status,
            news: news.to_owned(),
        }
    }
}

/// Returns the path on the status branch of the record of an intent. No namespace has the name `_cluster`.
pub fn path(kind: &str, namespace: Option<&str>, name: &str) -> String {
    let folder = namespace.unwrap_or("_cluster");
    format!("intents/{folder}/{}-{name}.yaml", kind.to_lowercase())
}

/// Returns the document that stands at [`path`], with the fields of the object that last.
pub fn document<I: Intent>(intent: &I) -> Value {
    let meta = intent.meta();
    let mut metadata = json!({"name": meta.name, "uid": meta.uid});
    if let Some(namespace) = &meta.namespace {
        metadata["namespace"] = json!(namespace);
    }
    let mut status = intent.status().cloned();
    if let Some(status) = &mut status {
        I::forget_secrets(status);
    }
    let mut document = json!({
        "apiVersion": api::API_VERSION,
        "kind": I::KIND,
        "metadata": metadata,
        "spec": intent.spec(),
        "status": status,
    });
    for pointer in I::TEMPLATES {
        if let Some(templates) = document.pointer_mut(pointer) {
            *templates = redact::kept(templates);
        }
    }
    document
}

/// Returns the document of a Migration with the whole journal of the attempt, which the record has and the document does not: it is
/// stored without it after the end. Nothing where that is not so.
pub fn completed(ours: &Value, recorded: &Value) -> Option<Value> {
    let is_same =
        |pointer: &str| ours.pointer(pointer).is_some() && ours.pointer(pointer) == recorded.pointer(pointer);
    let journal = |of: &Value| Journal::deserialize(of.pointer(JOURNAL)?).ok();
    // One that was applied again goes on from the record of the one before.
    let attempt = [
        "/status/attempt",
        "/status/startedAt",
        "/status/journal/binding/uid",
    ];
    let is_worth_it = ours["kind"] == Migration::KIND
        && attempt.into_iter().all(is_same)
        && recorded.pointer("/status/finishedAt").is_some()
        && journal(ours).is_some_and(|journal| journal.is_trimmed())
        && journal(recorded).is_some_and(|journal| !journal.is_trimmed());
    if !is_worth_it {
        return None;
    }
    let mut completed = ours.clone();
    *completed.pointer_mut(JOURNAL)? = recorded.pointer(JOURNAL)?.clone();
    Some(completed)
}

const JOURNAL: &str = "/status/journal";

/// Returns whether two specs ask for the same operation: control fields never make a new attempt.
pub fn asks_the_same(one: &MigrationSpec, other: &MigrationSpec) -> bool {
    without_controls(one) == without_controls(other)
}

fn without_controls(spec: &MigrationSpec) -> MigrationSpec {
    MigrationSpec {
        approvals: Vec::new(),
        assume: Vec::new(),
        paused: false,
        abort: false,
        deadline: None,
        window: None,
        ..spec.clone()
    }
}

/// Returns what an object is made of beside its name: everything but metadata and status.
pub fn content(object: &Value) -> Value {
    let fields = object.as_object().into_iter().flatten();
    let is_content = |name: &str| !matches!(name, "apiVersion" | "kind" | "metadata" | "status");
    let kept = fields.filter(|(name, _)| is_content(name));
    Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// Returns the digest of a manifest, the same whatever the order of its fields.
pub fn digest(manifest: &Value) -> String {
    let mut hasher = Sha256::new();
    feed(&mut hasher, manifest);
    hasher
        .finalize()
        .iter()
        .take(8)
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn feed(hasher: &mut Sha256, value: &Value) {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<_> = fields.keys().collect();
            names.sort_unstable();
            hasher.update(b"{");
            for name in names {
                hasher.update(format!("{name:?}:"));
                feed(hasher, &fields[name]);
            }
            hasher.update(b"}");
        }
        Value::Array(items) => {
            hasher.update(b"[");
            for item in items {
                feed(hasher, item);
                hasher.update(b",");
            }
            hasher.update(b"]");
        }
        scalar => hasher.update(format!("{scalar};")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_that_git_gets_has_the_value_of_a_secret_handle() {
        let spec: MigrationSpec = serde_json::from_value(json!({
            "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"}, "to": "west",
        }))
        .unwrap();
        let profile = crate::profile::built_in().unwrap()[0].spec.clone();
        let binding = json!({"name": "orders", "uid": "u", "id": "i"});
        let guarded = json!({"workload": spec.workload});
        let mut plan = FailoverPlan::new("guard", serde_json::from_value(guarded).unwrap());
        let journal = json!({
            "spec": plan.spec, "profile": profile, "binding": binding, "templateUid": "t", "round": 1, "seq": 1, "writer": "east",
        });
        let mut journal: api::FailoverJournal = serde_json::from_value(journal).unwrap();
        journal.secrets.add("C4n4ry");
        plan.status = Some(FailoverPlanStatus {
            journal: Some(journal),
            ..FailoverPlanStatus::default()
        });
        let binding = serde_json::from_value(binding).unwrap();
        let mut journal = Journal::begin(&spec, profile, "east".into(), binding);
        journal.secrets.add("C4n4ry");
        let status = MigrationStatus {
            journal: Some(journal),
            ..MigrationStatus::default()
        };
        let mut migration = Migration::new("move", spec.clone());
        migration.status = Some(status.clone());
        let record = serde_json::to_string(&Record::new("uid", spec, status)).unwrap();
        let source = r#""source":"east""#;
        for (text, part) in [
            (document(&migration).to_string(), source),
            (record, source),
            (document(&plan).to_string(), r#""writer":"east""#),
        ] {
            assert!(text.contains(part), "{text}");
            assert!(!text.contains("C4n4ry"), "{text}");
        }
    }

    #[test]
    fn what_the_control_plane_keeps_no_more_of_the_end_stays_on_record() {
        let status = |text: &str| serde_json::from_str::<MigrationStatus>(text).unwrap();
        let whole = status(include_str!("../api/ended/completed.json"));
        let stored = api::Progress::folded(&whole).unwrap();
        let of = |uid: &str, status: MigrationStatus| {
            let spec = (*status.journal.as_ref().unwrap().spec).clone();
            let mut migration = Migration::new("move", spec);
            migration.metadata.uid = Some(uid.to_owned());
            migration.status = Some(status);
            document(&migration)
        };
        let recorded = of("a", whole.clone());
        let mut found = status(&stored.to_string());
        found.common.revision = Some("later".to_owned());
        let completed = completed(&of("a", found.clone()), &recorded).unwrap();
        assert_eq!(completed["status"]["revision"], "later");
        assert_eq!(completed["status"]["journal"], recorded["status"]["journal"]);
        assert!(
            super::completed(&of("b", found.clone()), &recorded).is_some(),
            "it was applied again"
        );
        assert_eq!(super::completed(&recorded, &recorded), None);
        let trimmed = of("a", found.clone());
        assert_eq!(super::completed(&trimmed, &trimmed), None);
        found.common.started_at = found.common.finished_at;
        assert_eq!(
            super::completed(&of("a", found), &recorded),
            None,
            "it is another attempt"
        );
    }

    #[test]
    fn a_digest_does_not_depend_on_the_order_of_fields() {
        assert_eq!(
            digest(&json!({"a": 1, "b": [1, 2]})),
            digest(&json!({"b": [1, 2], "a": 1}))
        );
        assert_ne!(digest(&json!({"a": [1, 2]})), digest(&json!({"a": [2, 1]})));
    }
}
