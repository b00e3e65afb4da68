//! What Git has: the template as it is wanted, and the record of an intent.

use serde_json::Value;

use super::ask::rehearse;
use super::observe::MigrationReader;
use cutover_core::api::{self, HeldPolicy, InGit, Journal, MigrationStatus, Phase, WorkloadProfile};
use cutover_core::intent::Seen;
use cutover_core::intent::record::Record;
use cutover_core::intent::snapshot::{Desired, DesiredTemplate, OwnPolicy};
use cutover_karmada::name::ObjectKey;

/// A record is read only where a phase asks for it: it costs a conversation with the remote.
pub(super) fn wants_record(status: &MigrationStatus) -> bool {
    let journal = status.journal.as_ref();
    let asked = journal.is_some_and(|journal| journal.in_git == InGit::Asked);
    let handle = journal.filter(|journal| journal.captured.is_some());
    match status.phase {
        Phase::Pending => status.common.attempt == 0,
        Phase::Hold | Phase::Expand => asked,
        Phase::Capture => handle.is_some_and(Journal::records_handle_first),
        // From the token until the target runs, Git is not read: a slow Git host would add to the downtime.
        Phase::Handoff => {
            let before = handle.filter(|journal| journal.writer.is_none());
            asked || before.is_some_and(Journal::records_handle_first)
        }
        Phase::Cleanup | Phase::RollingBack => asked || journal.is_some_and(|journal| journal.pin.unpinning),
        _ => false,
    }
}

/// Behind the barrier only what is left of the canary matters: where it is taken down, and at the end.
pub(super) fn wants_canary(status: &MigrationStatus) -> bool {
    let journal = status.journal_in_force();
    let is_behind = journal.is_some_and(|journal| journal.fence.barrier.is_some() && !journal.pin.unpinning);
    !is_behind || status.phase == Phase::Hold || status.phase.is_terminal()
}

/// A roll back leaves unapplied what Git wants of the policy when it ends.
fn wants_policy(status: &MigrationStatus) -> bool {
    let journal = status.journal_in_force();
    status.phase == Phase::RollingBack && journal.is_some_and(|journal| journal.pin.unpinning)
}

impl MigrationReader<'_> {
    /// Profiles and the template that Git wants are copied into the journal; nobody looks at them afterwards.
    pub(super) async fn template_and_desired(
        &self,
    ) -> (
        Seen<Option<Value>>,
        Seen<Vec<WorkloadProfile>>,
        Seen<Desired>,
        (Seen<Option<OwnPolicy>>, Seen<Vec<HeldPolicy>>),
    ) {
        let workload = &self.workload;
        let gvk = self.spec.workload.gvk();
        let template = self.get(gvk, workload.namespace.as_deref(), &workload.name).await;
        if self.status.phase != Phase::Preflight {
            let unread = "not read in this phase";
            let policies = if wants_policy(self.status) {
                self.policies(&template).await
            } else {
                (Seen::unknown(unread), Seen::unknown(unread))
            };
            return (template, Seen::unknown(unread), Seen::unknown(unread), policies);
        }
        let (profiles, desired, policies) = tokio::join!(
            self.list(api::API_VERSION, "WorkloadProfile", None, None),
            self.desired(&template),
            self.policies(&template),
        );
        (template, profiles, desired, policies)
    }

    /// What the live template would become if sync applied what Git wants.
    async fn desired(&self, template: &Seen<Option<Value>>) -> Seen<Desired> {
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
        if !wants_record(self.status) {
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
