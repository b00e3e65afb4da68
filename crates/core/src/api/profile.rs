//! `WorkloadProfile`: how one kind of workload is held, suspended, captured, resumed and judged.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{PatchOp, TimeSpan};
use cutover_karmada::name::Gvk;

/// Patches and selectors may use `${cluster}`, `${namespace}` and `${name}`; patches but those of `hold` also `${attempt}` and
/// `${captured.NAME}`, selectors also `${object.PATH}`. Expressions are CEL over `object`.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cutover.dev",
    version = "v1alpha1",
    kind = "WorkloadProfile",
    plural = "workloadprofiles",
    shortname = "wprof",
    doc = "How one kind of workload is held, suspended, captured, resumed and judged"
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkloadProfileSpec {
    /// The kinds that the profile is for.
    pub applies_to: AppliesTo,
    /// What must be true of a template for this profile to move it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<Requirement>,
    /// Objects that a template names in fields of its own kind, and that a copy needs where it runs. What a pod needs by the fields
    /// that pods have is found without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<NeededObject>,
    /// Whether a second copy would lose or fork state.
    pub stateful: bool,
    /// Its state is kept where every cluster reaches it: two copies must not write it, but none takes it along when it ends. So
    /// what Git changes or deletes isn't held back for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub state_elsewhere: bool,
    /// Whether a copy created under `hold` waits without starting; else it is created only after the capture.
    #[serde(default)]
    pub born_held: bool,
    /// Stops a running copy and saves its state.
    pub suspend: Vec<PatchOp>,
    /// Keeps a copy from running. In a cluster that an intent isn't about, `${cluster}` is `elsewhere.cutover.dev`.
    pub hold: Vec<PatchOp>,
    /// Lets a copy run that was never deployed.
    pub start: Vec<PatchOp>,
    /// Lets a copy run that was deployed before: it restores from its own status. Where `${captured.NAME}` stands here, it is started
    /// again with the handle that its own stop has left: a source that got the order to stop and has not left it yet, such as when a move
    /// is aborted, has to stop before it runs again.
    pub restart: Vec<PatchOp>,
    /// Lets a copy run that was deployed before, from a handle other than its own.
    #[serde(default)]
    pub restart_from: Vec<PatchOp>,
    /// A copy that was deployed before can't be started from a handle other than its own. Where a roll back has to do that, it deletes
    /// the stopped copy, and the one that Karmada creates in its place starts with `start`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recreate_for_handle: bool,
    /// Fields that may vanish with the pin without restarting the workload; JSON pointers.
    #[serde(default)]
    pub ignored_on_removal: Vec<String>,
    /// Objects that a template may lack, where the operator takes an empty one for none; JSON pointers. A pin creates those that the
    /// template lacks before it patches below them. A patch whose parent is missing otherwise is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub optional_parents: Vec<String>,
    /// The operator has seen the current spec.
    pub observed_when: String,
    /// Nothing of this copy runs, and its operator says so.
    pub suspended_when: String,
    /// For how long a copy has to be watched without any change, held, suspended and without pods, before it counts as stopped: for an
    /// operator whose status does not tell whether it has seen the stop. It is taken to have seen it by then. Absent: what its status says
    /// counts at once.
    pub settle_for: Option<TimeSpan>,
    /// CEL over `object`, the copy in a member: the copy is healthy.
    pub healthy_when: String,
    /// CEL over `object`, the copy in a member: the copy will not become healthy by itself. Absent: no copy counts as failed.
    pub failed_when: Option<String>,
    /// CEL over `object`, the copy in a member: a run to completion that has ended, well or not. It isn't moved: it would run
    /// again. Absent: no copy ends by itself.
    pub finished_when: Option<String>,
    /// What a run has done so far and does again in the target, because only the source has counted it. Preflight and plans report how
    /// much that is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<Repeated>,
    /// The copy has run, so that it may have state of its own newer than the handle it was given.
    pub ran_when: Option<String>,
    /// Pods that must be gone before a copy counts as stopped.
    pub no_pods: Option<Pods>,
    /// What the stopped copy leaves as its state.
    #[serde(default)]
    pub capture: Vec<CaptureRule>,
    /// The handles stand in the stopped copy until it is let run again: Git need not have them before another one runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handle_stays: bool,
    /// The newest handle of a running copy, without stopping it: the first rule of a name that finds one, or of those with a time the
    /// one with the latest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_known: Vec<LastKnownRule>,
    /// The handle that a running copy was started from; a JSONPath.
    pub in_use: Option<String>,
    /// Pods that hold the state of a run in memory alone: a restart of one of them is reported.
    pub starts_over: Option<StartsOver>,
    /// What must not change when the pin is removed (a restart would change it); a JSONPath.
    pub run_id: Option<String>,
}

impl WorkloadProfileSpec {
    /// Returns whether the handle of that name is a secret.
    pub fn is_secret(&self, handle: &str) -> bool {
        self.capture.iter().any(|rule| rule.secret && rule.name == handle)
    }

    /// Returns whether pods that have ended stay for their logs: they are no proof that something runs.
    pub fn keeps_ended_pods(&self) -> bool {
        self.finished_when.is_some() || self.pods_come_and_go()
    }

    /// Returns whether pods come and go while a copy runs.
    pub fn pods_come_and_go(&self) -> bool {
        self.no_pods.as_ref().is_some_and(|pods| pods.come_and_go)
    }

    /// Returns the patches of every list.
    pub fn patches(&self) -> impl Iterator<Item = &PatchOp> {
        let lists = [
            &self.suspend,
            &self.hold,
            &self.start,
            &self.restart,
            &self.restart_from,
        ];
        lists.into_iter().flatten()
    }

    /// Returns it as a journal keeps it: without what counts only before anything begins, and what a version of before could not read.
    pub(crate) fn for_journal(&self) -> Self {
        Self {
            repeats: Vec::new(),
            needs: Vec::new(),
            ..self.clone()
        }
    }

    /// Returns it as the journal of what may bring the workload to another cluster keeps it.
    pub(crate) fn for_move(&self) -> Self {
        Self {
            needs: self.selected().cloned().collect(),
            ..self.for_journal()
        }
    }

    /// Returns the entries of `needs` that find objects by their labels. They count until the target runs.
    pub(crate) fn selected(&self) -> impl Iterator<Item = &NeededObject> {
        self.needs.iter().filter(|need| need.label_selector.is_some())
    }

    /// Returns whether any handle is a secret.
    pub fn has_secrets(&self) -> bool {
        self.capture.iter().any(|rule| rule.secret)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppliesTo {
    /// The API group; empty for the core group.
    pub group: String,
    /// The kinds of that group, for instance `FlinkDeployment`.
    pub kinds: Vec<String>,
}

/// What a profile can't move is found before anything is touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requirement {
    /// CEL over `object`, the template.
    pub cel: String,
    /// What is wrong where it doesn't hold.
    pub message: String,
    /// What to do when it doesn't hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Work that is done again where a run goes on elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Repeated {
    /// What is counted, for instance `completions`.
    pub what: String,
    /// Where the copy that runs shows how many are done; a JSONPath of a number, or of several that are added up.
    pub json_path: String,
}

/// Objects by the names that a template has for them, or by their labels. They are in the workload's namespace, or of a kind of cluster
/// scope.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NeededObject {
    /// For instance `flink.apache.org/v1beta1`. Absent: `v1`.
    pub api_version: Option<String>,
    /// The kind, for instance `Secret`.
    pub kind: String,
    /// Where the name stands in the template; a JSONPath, which may find several. Each entry has this or `labelSelector`.
    pub json_path: Option<String>,
    /// The name that counts where there is none at `jsonPath`.
    pub default_name: Option<String>,
    /// Finds them in the cluster that the workload runs in, and in the target: a label selector, in which `${cluster}`, `${namespace}`
    /// and `${name}` may be used. The target must have each of them before the workload is stopped. The kind is in an API group.
    pub label_selector: Option<String>,
    /// What happens in a target that has not all that `labelSelector` finds, in words that a finding can end with.
    pub message: Option<String>,
}

impl NeededObject {
    pub fn gvk(&self) -> Gvk {
        Gvk::new(self.api_version.as_deref().unwrap_or("v1"), &self.kind)
    }
}

/// Which pods are the workload's: those that any of its selectors matches.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pods {
    /// A label selector, in which `${cluster}`, `${namespace}`, `${name}` and `${object.PATH}` may be used.
    pub label_selector: Option<String>,
    /// Further label selectors, for a workload whose pods have no label in common.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub label_selectors: Vec<String>,
    /// The JSON pointer of a `LabelSelector` in the object.
    pub selector_at: Option<String>,
    /// They come and go while the copy runs, and stay for their logs when they have ended: those that have don't count, and a copy that has
    /// none may be healthy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub come_and_go: bool,
}

/// A copy that begins again by itself, without what it wrote since it was deployed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartsOver {
    /// A label selector among the workload's pods: when one of them restarts, the job starts over.
    pub label_selector: String,
    /// CEL over `object`: the copy keeps its state all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless: Option<String>,
    /// What that means, in words that a finding can end with.
    pub message: String,
}

/// One part of a state handle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaptureRule {
    /// Used as `${captured.NAME}`.
    pub name: String,
    /// Where the handle stands in the stopped object.
    pub json_path: String,
    /// Whether a stopped copy without this handle has no state that can be handed over.
    #[serde(default)]
    pub required: bool,
    /// The handle is a secret: Git, messages and every status show a digest in its place. The journal of the intent has its value.
    /// Every rule of the same name, of `lastKnown` too, is about a secret then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
    /// The handle was made by this suspension and can be used in another cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_when: Option<String>,
}

/// Where the newest state handle of a copy that runs may be found.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastKnownRule {
    /// The handle's name in `capture`.
    pub name: String,
    /// Objects beside the copy that show the handle: those that were created after the copy. Absent: the copy itself.
    pub from: Option<HandleObjects>,
    /// Where the handle stands in the object.
    pub json_path: String,
    /// Has no effect. Profiles of version 0.1.0 may have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// CEL over `object`: the handle is complete, and can be used in another cluster.
    pub valid_when: Option<String>,
    /// When the state was saved: a JSONPath of a time, or of milliseconds since 1970. Absent for objects beside the copy: their
    /// `creationTimestamp`.
    pub newest_by: Option<String>,
    /// CEL over `object`: who deletes the object deletes the handle with it. A `FailoverPlan` warns of such a handle.
    pub disposed_when: Option<String>,
    /// A regular expression with one group. The copy's `runId` has to begin with what that finds in the handle: it was made by the
    /// run that goes on, and is newer than what this run was started from.
    pub run_pattern: Option<String>,
}

/// Objects of the workload's namespace, in the cluster of a copy. A kind that is not served there has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HandleObjects {
    /// For instance `flink.apache.org/v1beta1`.
    pub api_version: String,
    /// The kind, for instance `FlinkStateSnapshot`.
    pub kind: String,
    /// A label selector, in which `${cluster}`, `${namespace}` and `${name}` may be used.
    pub label_selector: String,
}

impl HandleObjects {
    pub fn gvk(&self) -> Gvk {
        Gvk::new(&self.api_version, &self.kind)
    }
}
