//! What Git has: the template as it is wanted, and the record of an intent.

use serde_json::Value;

use super::ask::rehearse;
use super::reader::MigrationReader;
use cutover_core::api::{self, Phase};
use cutover_core::intent::record::Record;
use cutover_core::intent::snapshot::{Desired, DesiredTemplate};
use cutover_core::intent::{Seen, migration};
use cutover_karmada::name::ObjectKey;

impl MigrationReader<'_> {
    /// What the live template would become if sync applied what Git wants.
    pub(super) async fn desired(&self, template: &Seen<Option<Value>>) -> Seen<Desired> {
        if self.status.phase != Phase::Preflight {
            return Seen::unknown("not read in this phase");
        }
        let Ok(Some(live)) = template.get() else {
            return Seen::unknown("the template was not read");
        };
        let wanted = match self.parts.templates.template(&self.workload) {
            Ok(Some(wanted)) => wanted,
            Ok(None) => return Seen::known(Desired::default(), self.instant()),
            Err(error) => return Seen::unknown(error.to_string()),
        };
        match rehearse(&self.parts.cluster, &self.spec.workload.gvk(), &wanted.manifest).await {
            Ok(applied) => {
                let same = applied.get("spec") == live.get("spec");
                let change = (!same).then(|| DesiredTemplate {
                    hash: wanted.hash.clone(),
                    revision: wanted.revision.clone(),
                    manifest: wanted.manifest.clone(),
                    applied,
                });
                let desired = Desired {
                    is_in_git: true,
                    change,
                };
                Seen::known(desired, self.instant())
            }
            Err(why) => Seen::unknown(format!("the template in Git cannot be applied: {why}")),
        }
    }

    pub(super) async fn record(&self) -> Seen<Option<Record>> {
        if !migration::wants_record(self.status) {
            return Seen::unknown("not read in this phase");
        }
        let key = ObjectKey {
            group: api::GROUP.to_owned(),
            kind: "Migration".to_owned(),
            namespace: self.intent.metadata.namespace.clone(),
            name: self.intent.metadata.name.clone().unwrap_or_default(),
        };
        match self.parts.records.read(&key).await {
            Ok(record) => Seen::known(record, self.instant()),
            Err(error) => Seen::unknown(format!("the record in Git cannot be read: {error}")),
        }
    }
}
