//! What an intent left when it went without ending in order: its claim and its pin, without the journal that would say
//! more. Both are taken down by the rules of a normal end, step by step; what can't be is a question for a person.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::binding::is_scheduled;
use super::control_plane::Overrides;
use super::custody::belt::belt_left;
use super::custody::{exactly, included, is_hosts, without_guest};
use super::effect::{Effect, Exactly};
use super::eviction::undo;
use super::fence::{affinity_in_use, resume};
use super::fight::{change_matters, removal_changes};
use super::pin::{self, OWNER_ANNOTATION, PinWrite};
use super::placement::keeps_target;
use super::seen::{NotKnown, Seen};
use crate::api::{Claim, ClaimSpec};
use cutover_karmada::name::ClusterName;
use cutover_karmada::overrides::OverrideError;
use cutover_karmada::{Cluster, OverridePolicy, ResourceBinding, Work, meta};

/// Fresh reads around a claim or a pin whose intent certainly is gone or has ended.
#[derive(Clone, Debug)]
pub struct Left {
    pub claim: Seen<Option<Claim>>,
    pub pin: Seen<Option<OverridePolicy>>,
    pub template: Seen<Option<Value>>,
    pub binding: Seen<Option<ResourceBinding>>,
    /// The `conflictResolution` of the policy that the workload is of; empty where there is none. Read where the binding
    /// overwrites.
    pub policy_says: Seen<String>,
    pub works: Seen<BTreeMap<ClusterName, Work>>,
    pub overrides: Seen<Overrides>,
    pub clusters: Seen<BTreeMap<ClusterName, Cluster>>,
    /// What may change in the manifest when the pin goes: see `WorkloadProfile`.
    pub ignored: Vec<String>,
}

/// What is done about it next.
#[derive(Clone, Debug)]
pub enum OrphanFate {
    /// Nothing is left.
    Done,
    Act(Box<Effect>),
    /// It may come right by itself.
    Wait(String),
    /// A person has to decide.
    Ask {
        why: String,
        todo: String,
    },
}

/// Decides the next step. What isn't known is waited for.
pub fn judge(left: &Left) -> OrphanFate {
    next(left).unwrap_or_else(|unknown| OrphanFate::Wait(unknown.0))
}

/// Decides the next step about what a guest of a claim left in it, whoever owns that: it is taken out of it where that changes
/// nothing, as at a normal end.
pub fn judge_guest(left: &Left, uid: &str) -> OrphanFate {
    next_of_guest(left, uid).unwrap_or_else(|unknown| OrphanFate::Wait(unknown.0))
}

fn next_of_guest(left: &Left, uid: &str) -> Result<OrphanFate, NotKnown> {
    let (claim, pin) = (left.claim.get()?.as_ref(), left.pin.get()?.as_ref());
    let Some((claim, said)) = claim.and_then(|claim| Some((claim, claim.spec.differences.get(uid)?))) else {
        return Ok(OrphanFate::Done);
    };
    let taken_out = || OrphanFate::Act(Box::new(without_guest(claim, uid)));
    // A suspension has only kept changes back, and who ended it has let them go.
    let is_included = claim.spec.included.contains_key(uid);
    let Some(pin) = pin.filter(|_| is_included && said.owner.kind != "Suspension") else {
        return Ok(taken_out());
    };
    let Some(instead) = pin::without(pin, &said.rules) else {
        return Ok(OrphanFate::Wait(
            "the pin does not carry the last change yet".to_owned(),
        ));
    };
    let todo = format!(
        "take it out by hand: kubectl patch claim {} --type=json -p='[{{\"op\":\"remove\",\"path\":\"/spec/differences/{uid}\"}}]'; \
         every cluster then gets the template as it is",
        claim.metadata.name.as_deref().unwrap_or_default()
    );
    let changes = |template: &Value, cluster: &Cluster, all: &Overrides| {
        change_matters(template, cluster, all, &instead, &[])
    };
    Ok(differs(left, changes, &todo)?.unwrap_or_else(taken_out))
}

/// Does for the guests of a claim what its owner would do, which is gone: the pin says of them what they say by now, under a new
/// sequence, and says the same as ever of who may run the workload.
pub fn tend(left: &Left) -> Result<Option<Effect>, NotKnown> {
    let (Some(claim), Some(pin)) = (left.claim.get()?, left.pin.get()?) else {
        return Ok(None);
    };
    let spec = &claim.spec;
    if !is_hosts(claim) || pin::is_blank(pin) || spec.marker.is_empty() {
        return Ok(None);
    }
    let included = included(&spec.differences);
    if spec.included != included {
        let seq = spec.seq + 1;
        return Ok(Some(Effect::ReplaceClaim {
            claim: exactly(claim),
            spec: ClaimSpec {
                seq,
                marker: pin::marker(&spec.owner.uid, spec.attempt, seq),
                included,
                ..spec.clone()
            },
        }));
    }
    // Without guests, and without what one has said, nothing has to be renewed.
    let says_something = pin.spec.override_rules.len() > pin::writer_of(pin).len();
    let is_meant = says_something || !included.is_empty();
    let is_behind = is_meant && pin::marker_of(pin) != Some(&spec.marker);
    let rules = spec.differences.values().flat_map(|said| &said.rules);
    let rules: Vec<pin::Rule> = rules.map(pin::Rule::from).collect();
    let write = || Effect::WritePin(Box::new(PinWrite::of_guests(pin, &rules, &spec.marker)));
    Ok(is_behind.then(write))
}

fn next(left: &Left) -> Result<OrphanFate, NotKnown> {
    let (claim, pin) = (left.claim.get()?, left.pin.get()?);
    if claim.is_none() && pin.is_none() {
        return Ok(OrphanFate::Done);
    }
    let binding = left.binding.get()?;
    // Put up by somebody who was late, or stopped before it had a say: it goes whatever else there is.
    if let Some(pin) = pin.as_ref().filter(|pin| pin::is_blank(pin)) {
        return Ok(take_down(None, Some(pin)));
    }
    // It has only kept changes back, and who ended it has let them go.
    if is_of("Suspension", claim.as_ref(), pin.as_ref()) {
        return Ok(take_down(claim.as_ref(), pin.as_ref()));
    }
    if is_of("Evacuation", claim.as_ref(), pin.as_ref()) {
        return evicted(left, claim.as_ref());
    }
    if is_of("Rollout", claim.as_ref(), pin.as_ref()) {
        if let Some(pin) = pin
            && let Some(verdict) = differs(
                left,
                |template, cluster, all| removal(template, cluster, all, pin),
                BY_HAND,
            )?
        {
            return Ok(verdict);
        }
        return Ok(take_down(claim.as_ref(), pin.as_ref()));
    }
    // Before anything is asked or let go: who takes a cluster out of the binding means its copy, too.
    if let Some(binding) = binding.as_ref()
        && ["Migration", "FailoverPlan"]
            .iter()
            .any(|kind| is_of(kind, claim.as_ref(), pin.as_ref()))
        && let Some(effect) = belt_left(binding, &left.policy_says)?
    {
        return Ok(OrphanFate::Act(Box::new(effect)));
    }
    if let Some(pin) = pin
        && let Some(verdict) = needed(left, pin, binding.as_ref())?
    {
        return Ok(verdict);
    }
    if let Some(binding) = binding
        && let Some(verdict) = suspended(left, binding)?
    {
        return Ok(verdict);
    }
    Ok(take_down(claim.as_ref(), pin.as_ref()))
}

/// A copy that was to go, and of which nobody says any more that it may, is where it was.
fn evicted(left: &Left, claim: Option<&Claim>) -> Result<OrphanFate, NotKnown> {
    let binding = left.binding.get()?;
    let undone = binding
        .as_ref()
        .zip(claim)
        .and_then(|(binding, claim)| undo(binding, &claim.spec.owner.uid));
    Ok(match undone {
        Some(effect) => OrphanFate::Act(Box::new(effect)),
        None => take_down(claim, None),
    })
}

/// The claim gives its marker up, then the pin goes, then the claim.
fn take_down(claim: Option<&Claim>, pin: Option<&OverridePolicy>) -> OrphanFate {
    OrphanFate::Act(Box::new(match (pin, claim) {
        // Where the API server refuses Works without the marker of a claim, the claim says first that there will be none.
        (Some(_), Some(claim)) if !claim.spec.marker.is_empty() => Effect::ReplaceClaim {
            claim: exactly(claim),
            spec: ClaimSpec {
                marker: String::new(),
                ..claim.spec.clone()
            },
        },
        (Some(pin), _) if PinWrite::is_protected(pin) => {
            Effect::WritePin(Box::new(PinWrite::unprotected(pin)))
        }
        (Some(pin), _) => Effect::DeletePin {
            pin: Exactly::policy(pin),
        },
        (None, Some(claim)) => Effect::DeleteClaim {
            claim: exactly(claim),
        },
        (None, None) => return OrphanFate::Done,
    }))
}

/// Returns whether it was left by an intent of a kind. Those that change what runs, and not where, have suspended no scheduling.
fn is_of(kind: &str, claim: Option<&Claim>, pin: Option<&OverridePolicy>) -> bool {
    let owner = pin.and_then(|pin| pin.metadata.annotations.as_ref()?.get(OWNER_ANNOTATION));
    match (claim, owner) {
        (Some(claim), _) => claim.spec.owner.kind == kind,
        (None, Some(owner)) => owner.split(' ').next() == Some(kind),
        (None, None) => false,
    }
}

const BY_HAND: &str = "delete the pin by hand, its label and its finalizer first: every cluster then gets the template as it is";

fn removal(
    template: &Value,
    cluster: &Cluster,
    all: &Overrides,
    pin: &OverridePolicy,
) -> Result<bool, OverrideError> {
    let name = pin.metadata.name.as_deref().unwrap_or_default();
    removal_changes(
        template,
        cluster,
        all,
        pin.metadata.namespace.as_deref(),
        name,
        &[],
    )
}

/// Returns why what lets clusters differ can't go, if so: each of them gets the same with and without it.
fn differs(
    left: &Left,
    changes: impl Fn(&Value, &Cluster, &Overrides) -> Result<bool, OverrideError>,
    todo: &str,
) -> Result<Option<OrphanFate>, NotKnown> {
    let Some(template) = left.template.get()? else {
        return Ok(None);
    };
    let (clusters, all) = (left.clusters.get()?, left.overrides.get()?);
    for cluster in left
        .works
        .get()?
        .keys()
        .filter_map(|cluster| clusters.get(cluster))
    {
        let there = cluster.metadata.name.as_deref().unwrap_or_default();
        match changes(template, cluster, all) {
            Ok(false) => {}
            Ok(true) => {
                return Ok(Some(OrphanFate::Ask {
                    why: format!(
                        "{there} would get another version without the pin: that one was not released yet"
                    ),
                    todo: todo.to_owned(),
                }));
            }
            Err(error) => return Ok(Some(OrphanFate::Wait(error.to_string()))),
        }
    }
    Ok(None)
}

/// Returns why a pin can't go, if so: only one cluster has the workload, and gets the same with and without the pin.
fn needed(
    left: &Left,
    pin: &OverridePolicy,
    binding: Option<&ResourceBinding>,
) -> Result<Option<OrphanFate>, NotKnown> {
    let (works, template) = (left.works.get()?, left.template.get()?);
    let Some(binding) = binding else {
        let gone = template.is_none() && works.is_empty();
        return Ok((!gone).then(|| OrphanFate::Wait("the workload has no binding".to_owned())));
    };
    let keeps = works
        .iter()
        .find(|(_, work)| work.spec.preserve_resources_on_deletion == Some(true));
    if let Some((cluster, _)) = keeps {
        return Ok(Some(OrphanFate::Wait(format!(
            "{cluster}: the Work to show that the copy there goes when the cluster leaves the binding"
        ))));
    }
    let keep = match only(binding) {
        Ok(keep) => keep,
        Err(verdict) => return Ok(Some(verdict)),
    };
    if !binding.spec.graceful_eviction_tasks.is_empty() {
        return Ok(Some(OrphanFate::Wait(
            "Karmada is evicting the workload".to_owned(),
        )));
    }
    if let Some(other) = works.keys().find(|cluster| *cluster != keep) {
        return Ok(Some(OrphanFate::Wait(format!("a Work is left in {other}"))));
    }
    let Some(template) = template else {
        return Ok(Some(OrphanFate::Wait("the workload is being deleted".to_owned())));
    };
    let made_from = works
        .get(keep)
        .and_then(|work| work.manifest_annotation(meta::TEMPLATE_GENERATION));
    let current = template.pointer("/metadata/generation").map(Value::to_string);
    if made_from.is_none() || made_from != current.as_deref() {
        return Ok(Some(OrphanFate::Wait(format!(
            "{keep}: the Work is not made from the current template"
        ))));
    }
    let Some(cluster) = left.clusters.get()?.get(keep) else {
        return Ok(Some(OrphanFate::Wait(format!("{keep} is not joined"))));
    };
    let metadata = &pin.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    let namespace = metadata.namespace.as_deref();
    match removal_changes(template, cluster, left.overrides.get()?, namespace, name, &left.ignored) {
        Ok(false) => Ok(None),
        Ok(true) => Ok(Some(OrphanFate::Ask {
            why: format!("{keep} would change without the pin: the pin holds it, or carries its state"),
            todo: "apply the same file of the migration again; or give the template the values of the pin, which cutover then \
                   removes; or delete the pin by hand, which lets the workload run"
                .to_owned(),
        })),
        Err(error) => Ok(Some(OrphanFate::Wait(error.to_string()))),
    }
}

/// Returns what lets the scheduler go on, as long as it can't: whoever claims a workload has suspended its scheduling himself.
fn suspended(left: &Left, binding: &ResourceBinding) -> Result<Option<OrphanFate>, NotKnown> {
    if !binding.spec.scheduling_suspended() {
        let observed = binding
            .status
            .as_ref()
            .map_or(0, |status| status.scheduler_observed_generation);
        let behind = is_scheduled(binding) && observed < binding.metadata.generation.unwrap_or_default();
        return Ok(
            behind.then(|| OrphanFate::Wait("the scheduler to look at the resumed binding".to_owned()))
        );
    }
    let keep = match only(binding) {
        Ok(keep) => keep,
        Err(verdict) => return Ok(Some(verdict)),
    };
    if let Some(placement) = binding.spec.placement.as_ref().filter(|_| is_scheduled(binding))
        && let Err(finding) = keeps_target(placement, keep, left.clusters.get()?, affinity_in_use(binding))
    {
        return Ok(Some(OrphanFate::Ask {
            why: finding.message,
            todo: finding.hint.unwrap_or_default(),
        }));
    }
    Ok(Some(OrphanFate::Act(Box::new(resume(binding)))))
}

fn only(binding: &ResourceBinding) -> Result<&ClusterName, OrphanFate> {
    match binding.spec.clusters.as_slice() {
        [only] => Ok(&only.name),
        clusters => {
            let names: Vec<_> = clusters.iter().map(|cluster| cluster.name.as_str()).collect();
            Err(OrphanFate::Ask {
                why: format!("its binding lists {}", json!(names)),
                todo: "apply the same file of the migration again; or leave only the cluster in the binding that is to keep the workload \
                       (docs/how-to/operate.md#in-an-emergency): cutover then removes the rest"
                    .to_owned(),
            })
        }
    }
}
