//! A binding that was deleted, and recreated. Karmada deletes the Works with it; the copies stay where the belt was on, and are
//! deleted where it wasn't. The pin stands all the while, so that whatever is created is held, but where the token is.
//!
//! Karmada makes a binding only when it looks at the template, and that it does with the next change: so the template is touched.
//! Where nothing holds the workload, or where the copy that may run is gone with its state, a person has to say so first: what
//! is created begins from nothing.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Interrupt, Operation};
use crate::api::{BindingId, Fact, Fence, Finding, Journal};
use crate::intent::effect::{Effect, Exactly, add, remove, segment, test};
use crate::intent::fence::identify;
use crate::intent::proof::{Gone, NotProved};
use cutover_karmada::ResourceBinding;
use cutover_karmada::name::ClusterName;

/// On the template while Karmada is to look at it; says since when.
const TOUCHED: &str = "cutover.dev/touched";

/// How long Karmada may take before the template is touched again.
const AGAIN: SignedDuration = SignedDuration::from_mins(1);

impl Operation<'_> {
    /// The migration goes on with the binding that there is now, which Karmada is made to create where there is none.
    pub(super) fn rebind(&mut self) -> Result<(), Interrupt> {
        let Some(journal) = self.status.journal_in_force() else {
            return Ok(());
        };
        let Ok(Some(template)) = self.snapshot().plane.template.get() else {
            return Ok(());
        };
        let metadata = &template["metadata"];
        if metadata["uid"] != journal.template_uid.as_str() || !metadata["deletionTimestamp"].is_null() {
            return Ok(());
        }
        match self.snapshot().plane.binding.get() {
            Ok(None) if self.is_only_to_go(journal) => Ok(()),
            Ok(None) => self.revive(template),
            Ok(Some(binding)) => {
                if let Some(since) = touched(template) {
                    let patch = vec![test(&path(), json!(since)), remove(&path())];
                    return Err(self.patch_template(template, patch));
                }
                self.adopt_recreated(binding)
            }
            Err(_) => Ok(()),
        }
    }

    /// Nothing was begun, and nobody asks for it any more.
    fn is_only_to_go(&self, journal: &Journal) -> bool {
        self.input.deleting && !journal.pin.pinned && !journal.fence.recorded
    }

    /// Has Karmada make a binding again: all that comes of it is held, or the copy that may run is there, or a person has said
    /// that it may begin from nothing.
    fn revive(&mut self, template: &Value) -> Result<(), Interrupt> {
        self.no_old_work()?;
        let journal = self.journal()?;
        let ends = if journal.pin.unpinning {
            // Of the others it was seen that they are gone.
            journal.clusters.clone()
        } else {
            vec![journal.source.clone(), journal.target.clone()]
        };
        if self.is_held_by_the_pin()? {
            for cluster in &ends {
                self.has_its_copy(cluster)?;
            }
        } else if self.journal()?.profile.stateful {
            for cluster in &ends {
                self.has_no_copy(cluster)?;
            }
            if let Some(first) = ends.first() {
                self.may_begin_from_nothing(first)?;
            }
        }
        let now = self.input.now;
        let since = touched(template).and_then(|since| since.parse::<Timestamp>().ok());
        if since.is_some_and(|since| now.duration_since(since) < AGAIN) {
            return Err(Interrupt::Wait(
                "Karmada to recreate the binding, which was deleted: a policy has to select the workload for that".to_owned(),
            ));
        }
        let mut patch = Vec::new();
        if template.pointer("/metadata/annotations").is_none() {
            patch.push(add("/metadata/annotations", json!({})));
        }
        patch.push(add(&path(), json!(now.to_string())));
        Err(self.patch_template(template, patch))
    }

    /// Where nothing holds the workload, Karmada may let it run in another cluster than before.
    fn has_no_copy(&self, cluster: &ClusterName) -> Result<(), Interrupt> {
        match self.prove(cluster, Gone::prove)? {
            Err(NotProved::No(why)) => Err(Interrupt::Wait(format!(
                "{why}: the binding was deleted, and no pin holds the workload: Karmada to delete the copy, or to recreate the \
                 binding, which it does when the template is changed"
            ))),
            Err(why) => self.vouched_for(cluster, why),
            Ok(_) => Ok(()),
        }
    }

    fn patch_template(&self, template: &Value, patch: Vec<Value>) -> Interrupt {
        let text = |pointer: &str| template.pointer(pointer).and_then(Value::as_str);
        let template = Exactly {
            namespace: self.workload().namespace.clone(),
            name: self.workload().name.clone(),
            uid: text("/metadata/uid").unwrap_or_default().to_owned(),
            resource_version: text("/metadata/resourceVersion").map(str::to_owned),
        };
        Interrupt::Act(vec![Effect::PatchTemplate { template, patch }])
    }

    /// Returns whether the pin in the API server is this attempt's, and stays.
    fn is_held_by_the_pin(&self) -> Result<bool, Interrupt> {
        let journal = self.journal()?;
        if journal.pin.unpinning || !journal.pin.pinned {
            return Ok(false);
        }
        let Some(live) = self.snapshot().plane.pin.get()? else {
            return Ok(false);
        };
        Ok(self.compile()?.is_written_as(live) || self.is_ours_from_before(live)?)
    }

    /// A cluster that the pin lets run has the copy that it had, or gets a state handle from the pin.
    fn has_its_copy(&self, cluster: &ClusterName) -> Result<(), Interrupt> {
        let journal = self.journal()?;
        if !self.runs_by_the_pin(cluster)? || !journal.profile.stateful || journal.captured.is_some() {
            return Ok(());
        }
        let is_there = if *cluster == journal.source {
            self.source_is_intact()
        } else {
            self.uid_in(cluster).map(|uid| uid.is_some())
        };
        match is_there {
            Ok(true) => Ok(()),
            Ok(false) | Err(Interrupt::Wait(_)) => self.may_begin_from_nothing(cluster),
            Err(stop) => Err(stop),
        }
    }

    fn may_begin_from_nothing(&self, cluster: &ClusterName) -> Result<(), Interrupt> {
        if self.assumed(Fact::FromNothing, cluster).is_some() {
            return Ok(());
        }
        let captured = self.journal()?.captured.as_ref();
        let known = captured.map_or_else(
            || "no state handle was taken".to_owned(),
            |captured| {
                let values: Vec<&str> = captured.values.values().map(String::as_str).collect();
                format!(
                    "the last state handle is {}, which the template could name",
                    values.join(", ")
                )
            },
        );
        let offer = self.offer_at(
            Fact::FromNothing,
            cluster,
            format!("all the state that the workload had in {cluster}"),
        );
        Err(Interrupt::Wait(format!(
            "manual intervention required: the binding was deleted, no copy of the workload is left in {cluster}, and {known}: a \
             person can let Karmada create the workload from nothing, there or where the policy has it ({offer})"
        )))
    }

    /// Takes over a binding that isn't the one of before, once no Work of that one is left: such a Work keeps its copy as it is,
    /// and no pin reaches it any more. What became of the copies is looked at as ever.
    fn adopt_recreated(&mut self, binding: &ResourceBinding) -> Result<(), Interrupt> {
        let journal = self.journal()?;
        if journal.pin.unpinning || binding.metadata.uid.as_deref() == Some(&journal.binding.uid) {
            return Ok(());
        }
        let Some(id) = identify(binding) else {
            return Err(Interrupt::Wait(
                "Karmada to mark the binding that was recreated".to_owned(),
            ));
        };
        self.no_old_work()?;
        let journal = self.journal()?;
        let binding = BindingId {
            replicas: id.replicas.or(journal.binding.replicas),
            target_affinity: journal.binding.target_affinity.clone(),
            ..id
        };
        let fence = Fence {
            canary: journal.fence.canary + 1,
            admission: journal.fence.admission.clone(),
            ..Fence::default()
        };
        let journal = self.journal_mut()?;
        (journal.binding, journal.fence) = (binding, fence);
        journal.pin.renew();
        _ = self.note_recreated();
        Err(Interrupt::Requeue)
    }

    pub(super) fn note_recreated(&mut self) -> Result<(), Interrupt> {
        let finding = recreated(self.journal()?.writer.as_ref());
        if self.status.common.findings.contains(&finding) {
            return Ok(());
        }
        self.status
            .common
            .findings
            .retain(|known| known.code != finding.code);
        self.status.common.findings.push(finding);
        Err(Interrupt::Requeue)
    }

    fn no_old_work(&self) -> Result<(), Interrupt> {
        let mut works = self.snapshot().plane.works.get()?.iter();
        match works.find(|(_, work)| work.metadata.deletion_timestamp.is_none()) {
            Some((cluster, work)) => Err(Interrupt::Wait(format!(
                "the Work {} of the deleted binding, of {cluster}, to be removed: if Karmada leaves it, a person must delete it",
                work.metadata.name.as_deref().unwrap_or_default()
            ))),
            None => Ok(()),
        }
    }
}

fn touched(template: &Value) -> Option<&str> {
    template["metadata"]["annotations"][TOUCHED].as_str()
}

fn path() -> String {
    format!("/metadata/annotations/{}", segment(TOUCHED))
}

fn recreated(writer: Option<&ClusterName>) -> Finding {
    let run = writer.map_or_else(String::new, |writer| {
        format!("; one that is created in {writer} begins from what the template and the pin say")
    });
    Finding::new(
        "BindingRecreated",
        format!("the binding was deleted and recreated, and copies may have been lost with it{run}"),
        "find out who deleted it, and see from which state the workload runs",
    )
}
