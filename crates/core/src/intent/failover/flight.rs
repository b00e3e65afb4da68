//! A failover begins: somebody took the writer's cluster off the binding, or a person asked for it.

use serde_json::json;

use super::{Interrupt, Operation, Phase};
use crate::api::{FailoverRequest, Fence, Finding, Flight};
use crate::intent::fence::affinity_in_use;
use crate::intent::placement::keeps_target;
use cutover_karmada::PurgeMode;
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    /// Begins a failover when the binding says that the writer's cluster is left.
    pub(super) fn moved(&mut self) -> Result<(), Interrupt> {
        let binding = self.binding()?;
        let writer = self.writer()?;
        let listed = self.listed()?;
        let tasks = &binding.spec.graceful_eviction_tasks;
        let task = tasks.iter().find(|task| task.from_cluster == writer);
        if let Some(task) = task {
            let reason = format!("{} by {}", task.reason, task.producer);
            return self.begin(reason, None, task.purge_mode, None);
        }
        if listed.contains(&writer) {
            match listed.as_slice() {
                [_] => self.untell("SeveralClusters"),
                _ => self.tell(Finding::new(
                    "SeveralClusters",
                    "the binding lists several clusters: all but the writer's hold their copies",
                    "limit the policy with spreadConstraints maxGroups: 1",
                ))?,
            }
            return Ok(());
        }
        let reason = if listed.is_empty() {
            format!("the binding lists {writer} no more, and no other cluster")
        } else {
            let names: Vec<&str> = listed.iter().map(ClusterName::as_str).collect();
            format!("the binding lists {} instead of {writer}", names.join(", "))
        };
        self.begin(reason, None, None, None)
    }

    /// Begins a failover that a person asked for, once.
    pub(super) fn requested(&mut self) -> Result<(), Interrupt> {
        let Some(request) = &self.input.spec.request else {
            return Ok(());
        };
        if request.attempt != self.status.common.attempt + 1 {
            return Ok(());
        }
        let writer = self.writer()?;
        let why = if request.to == writer {
            Some(format!("{writer} may run it already"))
        } else {
            self.cannot_take(request)?
        };
        if let Some(why) = why {
            return self.refuse(request, why);
        }
        self.untell("RequestRefused");
        let (reason, by) = (request.reason.clone(), request.by.clone());
        self.begin(reason, Some(request.to.clone()), None, by)
    }

    /// Returns why a cluster that a person asks for can't take the workload.
    pub(super) fn cannot_take(&self, request: &FailoverRequest) -> Result<Option<String>, Interrupt> {
        let clusters = self.around().plane.clusters.get()?;
        let binding = self.binding()?;
        let kept = binding
            .spec
            .placement
            .as_ref()
            .map(|placement| keeps_target(placement, &request.to, clusters, affinity_in_use(binding)));
        Ok(match clusters.get(&request.to) {
            None => Some(format!("no cluster {} is joined", request.to)),
            Some(cluster) if !cluster.is_ready() => Some(format!("{} is not Ready", request.to)),
            Some(_) if self.status.old_copies.contains_key(&request.to) => {
                Some(format!("an old copy is still in {}", request.to))
            }
            Some(_) => match kept {
                Some(Err(finding)) => Some(finding.message),
                _ => None,
            },
        })
    }

    pub(super) fn refuse(&mut self, request: &FailoverRequest, why: String) -> Result<(), Interrupt> {
        self.tell(Finding::new(
            "RequestRefused",
            format!("request {}: {why}", request.attempt),
            "fix spec.request",
        ))
    }

    /// From now on nobody may run it: whatever gets a copy holds it, the old cluster included.
    pub(super) fn begin(
        &mut self,
        reason: String,
        to: Option<ClusterName>,
        purge_mode: Option<PurgeMode>,
        by: Option<String>,
    ) -> Result<(), Interrupt> {
        let now = self.input.now;
        let from = self.writer()?;
        let journal = self.journal_mut()?;
        journal.pin.renew();
        journal.writer = None;
        journal.carried = None;
        journal.redeploy = None;
        journal.suspended.clear();
        journal.fence = Fence {
            canary: journal.fence.canary,
            ..Fence::default()
        };
        journal.flight = Some(Flight {
            requested: to.is_some(),
            from: from.clone(),
            to,
            reason: reason.clone(),
            by,
            since: now,
            purge_mode,
            tasks: std::collections::BTreeMap::new(),
            preserved: std::collections::BTreeMap::new(),
            with_source: None,
            handle_before: std::collections::BTreeMap::new(),
            stopping: None,
            unproved: None,
            cut_off: None,
            fenced: None,
            refuted: 0,
            unwell: None,
            released: false,
            state: None,
            evidence: Vec::new(),
            up_since: None,
        });
        self.status.common.attempt += 1;
        self.keep_only_missing();
        self.note_tasks()?;
        self.enter(Phase::Evicted, vec![format!("{from}: {reason}")]);
        Err(Interrupt::Requeue)
    }

    /// What Karmada preserved stands nowhere but in its task, and for a short time. A held copy that was evicted in its turn
    /// has no state of its own.
    fn note_tasks(&mut self) -> Result<bool, Interrupt> {
        let tasks = self.binding()?.spec.graceful_eviction_tasks.clone();
        let flight = self.flight_mut()?;
        let mut news = false;
        for task in tasks {
            if flight.tasks.contains_key(&task.from_cluster) {
                continue;
            }
            if task.from_cluster == flight.from {
                flight.preserved.clone_from(&task.preserved_label_state);
                flight.purge_mode = task.purge_mode;
            }
            flight.tasks.insert(task.from_cluster.clone(), json!(task));
            news = true;
        }
        Ok(news)
    }

    /// Failover is off the binding, everybody is held, and the scheduler has chosen: then it is kept from choosing again.
    pub(super) fn evicted(&mut self) -> Result<(), Interrupt> {
        if self.note_tasks()? {
            return Err(Interrupt::Requeue);
        }
        self.claim()?;
        self.failover_off()?;
        self.pin()?;
        self.not_paused()?;
        let to = self.chosen()?;
        self.fence(&to)?;
        let scheduler = if self.journal()?.fence.barrier.is_some() {
            "scheduling is suspended and the scheduler past it"
        } else {
            "scheduling is suspended, and no canary may show when the scheduler is past it"
        };
        let with_source = self.takes_source_along(&to)?;
        let identity = self.identity(&to)?;
        let from = self.flight()?.from.clone();
        let handle_before = match self
            .input
            .snapshot
            .around
            .member(&from)
            .ok()
            .and_then(|member| member.object.get().ok())
        {
            Some(Some(copy)) => self.profile()?.handles(copy)?,
            _ => std::collections::BTreeMap::new(),
        };
        let journal = self.journal_mut()?;
        if let Some(identity) = identity {
            journal.identities.insert(to.clone(), identity);
        }
        journal.pin.renew();
        journal.clusters = if with_source {
            vec![to.clone(), from.clone()]
        } else {
            vec![to.clone()]
        };
        journal.suspended = if with_source || to == from {
            vec![from]
        } else {
            Vec::new()
        };
        let flight = self.flight_mut()?;
        flight.to = Some(to.clone());
        flight.with_source = Some(with_source);
        flight.handle_before = handle_before;
        self.enter(
            Phase::Fencing,
            vec![format!("{to} is to run it; failover is off, {scheduler}")],
        );
        Err(Interrupt::Requeue)
    }

    /// Returns the cluster that Karmada, or a person, has chosen.
    fn chosen(&mut self) -> Result<ClusterName, Interrupt> {
        let flight = self.flight()?;
        if let Some(to) = flight.to.as_ref().filter(|_| flight.requested) {
            return Ok(to.clone());
        }
        let listed = self.listed()?;
        let from = flight.from.clone();
        let others: Vec<&ClusterName> = listed.iter().filter(|name| **name != from).collect();
        match others.as_slice() {
            [one] => Ok((*one).clone()),
            [] if listed.contains(&from) => Ok(from),
            [] => Err(Interrupt::Wait(format!(
                "Karmada to choose a cluster instead of {from}"
            ))),
            several => {
                let names: Vec<&str> = several.iter().map(|name| name.as_str()).collect();
                Err(Interrupt::Wait(format!(
                    "Karmada chose several clusters ({}), and one can run it: limit the policy with spreadConstraints \
                     maxGroups: 1",
                    names.join(", ")
                )))
            }
        }
    }

    /// The old copy is listed again, under the pin, where it can be stopped with its state, or is to be kept. Karmada writes
    /// nothing to a copy that it evicts.
    fn takes_source_along(&self, to: &ClusterName) -> Result<bool, Interrupt> {
        let flight = self.flight()?;
        let from = &flight.from;
        if from == to || !self.around().plane.clusters.get()?.contains_key(from) {
            return Ok(false);
        }
        if flight.purge_mode == Some(PurgeMode::Never) || self.is_dropped(from) {
            return Ok(true);
        }
        let is_purged = matches!(
            flight.purge_mode,
            Some(PurgeMode::Directly | PurgeMode::Immediately)
        );
        let evicted = flight.requested || (flight.purge_mode.is_some() && !is_purged);
        let copy = self.around().member(from)?.object.get();
        let Ok(Some(copy)) = copy else { return Ok(false) };
        let stays = copy.pointer("/metadata/deletionTimestamp").is_none();
        Ok(evicted && stays && self.profile()?.healthy(copy)?)
    }
}
