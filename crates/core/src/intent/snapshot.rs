//! What a machine may look at in one pass: fresh reads, in the order in which they were sent.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::admission::Outcome;
use super::check::{Others, Sampled};
use super::control_plane::ControlPlane;
use super::dependencies::Dependencies;
use super::member::Member;
use super::other_managers::OtherManager;
use super::record::Record;
use super::scalers::Scaler;
use super::seen::Seen;
use super::warnings::Warned;
use crate::api::{Guard, HeldPolicy, PolicyName};
use crate::profile::Misfit;
use cutover_karmada::name::{ClusterName, ObjectKey};
use cutover_karmada::{PropagationPolicy, PropagationSpec};

/// One pass's view of the control plane, the members and Git.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Without a namespace, it is of cluster scope.
    pub workload: ObjectKey,
    pub plane: ControlPlane,
    /// What Prometheus says, by query; read only where checks are due.
    pub metrics: BTreeMap<String, Seen<Sampled>>,
    /// What checks are about beside the copy itself; read only where they are due.
    pub others: Others,
    /// Source, target, and every cluster that has a Work of the binding.
    pub members: BTreeMap<ClusterName, Member>,
    /// Who applies the template beside this tool; read before anything begins.
    pub other_managers: Vec<OtherManager>,
    /// What starts the workload by itself; read where that could undo a hold: see [`super::scalers::Concerns`].
    pub scalers: Seen<Vec<Scaler>>,
    /// Which of the objects that the workload needs are in the target; looked for before anything begins, and what its profile selects
    /// until the target runs.
    pub dependencies: Dependencies,
    /// What of its profile doesn't fit the workload's kind as the control plane defines it; asked before anything begins.
    pub misfits: Option<Seen<Vec<Misfit>>>,
    /// The template as Git wants it.
    pub desired: Seen<Desired>,
    /// Read before anything begins, and once more before a roll back leaves it unapplied.
    pub policy: Seen<Option<OwnPolicy>>,
    /// The policies in Git that would take the workload up were they applied. Read when that is.
    pub arriving: Seen<Vec<HeldPolicy>>,
    /// The policy that takes the workload up with the change that has set the Migration off, where that isn't its own: see
    /// [`super::driven`]. Read before anything begins.
    pub successor: Seen<Option<Successor>>,
    /// What came of trying what the admission fence must refuse, in the passes in which it is tried.
    pub admission: Option<Vec<(Guard, Outcome)>>,
    /// How long this process has watched the target healthy, in Verify: see [`super::migration::watch`].
    pub watched: Duration,
    /// What the Events of the target warn of, in the pass that gives it up: see [`super::warnings`].
    pub warnings: Vec<String>,
    /// What the Events of a cluster warn of whose copy is not as a phase waits for it to be, in the passes that read them.
    pub warned: Option<Warned>,
    /// What the status branch says of this intent.
    pub record: Seen<Option<Record>>,
}

/// The policy that has taken the workload up.
#[derive(Clone, Debug)]
pub struct OwnPolicy {
    pub name: PolicyName,
    pub live: PropagationPolicy,
    /// When Git wants another one; sync holds it back for now.
    pub change: Option<PolicyChange>,
}

/// The policy that takes a workload up when its own goes.
#[derive(Clone, Debug)]
pub struct Successor {
    pub name: PolicyName,
    /// As Git has it, once that is applied.
    pub spec: PropagationSpec,
}

/// A policy in Git that is not applied yet.
#[derive(Clone, Debug)]
pub struct PolicyChange {
    /// Digest of what stands in Git.
    pub hash: String,
    /// What the live one would become.
    pub applied: PropagationSpec,
}

/// What Git has of a template.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    pub is_in_git: bool,
    /// When it differs from the live one and is held back.
    pub change: Option<DesiredTemplate>,
}

/// A template in Git that is not applied yet.
#[derive(Clone, Debug)]
pub struct DesiredTemplate {
    pub manifest: Value,
    /// Digest of the manifest.
    pub hash: String,
    pub revision: Option<String>,
    /// What the live object would become: the answer of a dry-run.
    pub applied: Value,
}

impl Snapshot {
    /// Nothing was read.
    pub fn unread(workload: ObjectKey, why: &str) -> Self {
        Self {
            workload,
            plane: ControlPlane::unread(why),
            metrics: BTreeMap::new(),
            others: Others::new(),
            members: BTreeMap::new(),
            other_managers: Vec::new(),
            scalers: Seen::unread(why),
            dependencies: Dependencies::default(),
            misfits: None,
            desired: Seen::unread(why),
            policy: Seen::unread(why),
            arriving: Seen::unread(why),
            successor: Seen::unread(why),
            admission: None,
            watched: Duration::ZERO,
            warnings: Vec::new(),
            warned: None,
            record: Seen::unread(why),
        }
    }

    /// Returns what was read of a member.
    pub fn member(&self, cluster: &ClusterName) -> Result<&Member, super::NotKnown> {
        self.members
            .get(cluster)
            .ok_or_else(|| super::NotKnown(format!("{cluster} was not read")))
    }
}
