//! A folder of the repository, and how its objects are brought into the cluster.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::order::Graph;
use super::{Config, Interval, PATH};
use crate::api::{OnFailure, Selection, Targets, Verify, Window};
use crate::finding::{Code, Finding};
use crate::manifest::{self, Limits};

/// A folder of the repository, and how its objects are applied.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sync {
    /// Lower-case letters, digits and `-`. Names the sync in status, and the set of what it applied. Under another name it takes its
    /// objects along.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// A folder, relative to the root. A file that is in the folders of several syncs belongs to the innermost.
    #[serde(default = "root")]
    pub path: String,
    /// Patterns of files to leave out, relative to `path`: `*` within a name, `**` across folders; without `/`, a name in any folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// The namespace of objects that name none.
    pub namespace: Option<String>,
    /// Whether namespaces that objects need and no file defines are created.
    #[serde(default, skip_serializing_if = "is_default")]
    pub create_namespaces: bool,
    /// Syncs that have to be in sync with the same commit before anything of this one is applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// How long a wave waits for the objects of the one before to be healthy, for instance `5m`. None: it doesn't wait.
    pub wait: Option<Interval>,
    /// Whether fields that other managers own are taken over. The annotation `cutover.dev/force` overrides it for one object.
    #[serde(default, skip_serializing_if = "is_default")]
    pub force: bool,
    /// Whether an object is deleted and recreated when a field changes that can't be changed. The annotation
    /// `cutover.dev/recreate` overrides it for one object.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recreate: bool,
    /// Whether objects that Git no longer has are deleted. The annotation `cutover.dev/keep` keeps one.
    #[serde(default)]
    pub prune: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub prune_limit: PruneLimit,
    #[serde(default, skip_serializing_if = "is_default")]
    pub drift: Drift,
    #[serde(default, skip_serializing_if = "is_default")]
    pub gate: Gate,
}

/// Returns a finding for each sync whose folder is not there, as `is_there` says.
pub fn missing_folders(bytes: &[u8], config: &Config, is_there: impl Fn(&str) -> bool) -> Vec<Finding> {
    let missing = config
        .syncs
        .iter()
        .enumerate()
        .filter(|(_, sync)| !is_there(&sync.path));
    let Ok(Some((_, positions))) = manifest::parse_one(PATH, bytes, &Limits::default()) else {
        return Vec::new();
    };
    let finding = |(index, sync): (usize, &Sync)| {
        let at = positions.value(&format!("/syncs/{index}/path")).of(PATH);
        let message = format!(
            "sync {} has no folder {}: it would apply nothing",
            sync.name, sync.path
        );
        Finding::new(Code::NoFolder, at, message)
            .hint("name a folder that has files, relative to the root of the repository")
    };
    missing.map(finding).collect()
}

/// When so much is to be deleted at once that a person has to confirm it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PruneLimit {
    /// Up to this many objects are always deleted without asking.
    pub objects: usize,
    /// Beyond, at most this part of all objects of the sync.
    #[schemars(range(max = 100))]
    pub percent: u8,
    /// The hash that status and plan show for a deletion beyond the limit: exactly that one is approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approve: Option<String>,
}

impl Default for PruneLimit {
    fn default() -> Self {
        Self {
            objects: 5,
            percent: 30,
            approve: None,
        }
    }
}

/// Which live workloads no write of this sync takes out of their clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Gate {
    /// What becomes of a write that would move a workload of a kind of which neither a profile nor cutover says whether it has state.
    pub unknown_kinds: UnknownKinds,
    /// What becomes of a change of a policy that would move workloads with state.
    #[serde(skip_serializing_if = "is_default")]
    pub migrations: Migrations,
    /// What becomes of workloads with state in a member cluster that is tainted, deleted or cordoned.
    #[serde(skip_serializing_if = "is_default")]
    pub evacuations: Evacuations,
}

/// What becomes of a change of a policy that would move live workloads with state.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Migrations {
    /// Whether such a change sets Migrations off. The annotation `cutover.dev/migrations` overrides it for one policy, or for one workload:
    /// `auto` or `manual`.
    pub mode: MigrationsMode,
    /// How many of the Migrations that this sync sets off are under way at the same time.
    #[schemars(range(min = 1))]
    pub max_parallel: u32,
    /// Karmada runs with its feature gate `PropagationPolicyPreemption`, which it doesn't report: a policy with `preemption: Always` that
    /// takes a workload from another one sets a Migration off, too.
    #[serde(skip_serializing_if = "is_default")]
    pub preemption: bool,
    /// When a workload counts as good where it was moved to.
    pub verify: Option<Verify>,
    /// What happens when a phase takes too long or the target fails.
    #[serde(skip_serializing_if = "is_default")]
    pub on_failure: OnFailure,
    /// When Migrations may begin; one that has begun goes on.
    pub window: Option<Window>,
}

impl Default for Migrations {
    fn default() -> Self {
        Self {
            mode: MigrationsMode::default(),
            max_parallel: 2,
            preemption: false,
            verify: None,
            on_failure: OnFailure::default(),
            window: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MigrationsMode {
    /// The policy is held back until a Migration has moved what it would move, or a person accepts the loss.
    #[default]
    Manual,
    /// Each workload that it would move gets a Migration, and the policy goes out when all of them are committed.
    Auto,
}

/// What becomes of workloads with state in a member cluster that Karmada would evict them from. One sync says so for the whole control
/// plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Evacuations {
    /// Whether such a cluster is evacuated.
    pub mode: EvacuationsMode,
    /// What of a cluster has it evacuated.
    #[schemars(length(min = 1))]
    pub causes: Vec<EvacuationCause>,
    /// Which workloads are meant.
    #[serde(skip_serializing_if = "is_default")]
    pub select: EvacuationSelection,
    /// Where the workloads go.
    #[serde(skip_serializing_if = "is_default")]
    pub to: Targets,
    /// How many workloads move at the same time.
    #[schemars(range(min = 1))]
    pub max_parallel: u32,
    /// How many moves may fail before nothing more begins. Karmada evicts what has not moved.
    pub max_failures: u32,
    /// When a workload counts as good where it was moved to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// When moves may begin; one that has begun goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

impl Default for Evacuations {
    fn default() -> Self {
        Self {
            mode: EvacuationsMode::default(),
            causes: vec![EvacuationCause::NoExecute, EvacuationCause::Deletion],
            select: EvacuationSelection::default(),
            to: Targets::default(),
            max_parallel: 2,
            max_failures: 100,
            verify: None,
            window: None,
        }
    }
}

/// Which workloads a cluster is evacuated of. Both must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EvacuationSelection {
    /// `FlinkDeployment`, or `FlinkDeployment.flink.apache.org`; none: every kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// None: every namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
}

impl From<EvacuationSelection> for Selection {
    fn from(of: EvacuationSelection) -> Self {
        Self {
            kinds: of.kinds,
            namespaces: of.namespaces,
            label_selector: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EvacuationsMode {
    /// Nothing happens by itself.
    #[default]
    Manual,
    /// An Evacuation plans the moves, and waits for an approval.
    Ask,
    /// An Evacuation moves the workloads at once.
    Auto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EvacuationCause {
    /// A taint with the effect `NoExecute`, other than those of Karmada about the health of a cluster.
    NoExecute,
    /// The Cluster is deleted. Karmada deletes everything in it at once, so that is refused until the cluster has been emptied for another
    /// cause: cutover labels it `deletion-protected`.
    Deletion,
    /// The cluster is cordoned, as by `karmadactl cordon`. Karmada evicts nothing for that.
    Cordon,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UnknownKinds {
    /// It goes out: such a workload counts as one without state.
    #[default]
    Pass,
    /// It is held back: such a workload counts as one with state. Kinds that Kubernetes itself defines are not meant.
    Block,
}

/// What is done about objects that another client changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Drift {
    /// What is done about manual changes. The annotation `cutover.dev/drift` overrides it for one object: `correct`, `warn` or `ignore`.
    pub mode: DriftMode,
    /// Differences that are left alone, whatever the mode.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<Ignore>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriftMode {
    /// What Git says is put back.
    #[default]
    Correct,
    /// It is reported only, until the object changes in Git.
    Warn,
    /// It is neither corrected nor reported, until the object changes in Git.
    Ignore,
}

/// Fields that are left to others.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ignore {
    /// Of objects of this API group; of any without it.
    pub group: Option<String>,
    /// Of objects of this kind; of any without it.
    pub kind: Option<String>,
    /// Of objects with this name (`*` stands for any text); of any without it.
    pub name: Option<String>,
    /// JSON pointers (RFC 6901) to the fields, for instance `/spec/replicas`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pointers: Vec<String>,
    /// Field managers: what they own is theirs, whatever Git says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managers: Vec<String>,
}

fn root() -> String {
    ".".to_owned()
}

pub(super) fn whole_repository() -> Vec<Sync> {
    vec![Sync::named("main")]
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Sync {
    /// Returns a sync of the whole repository that says nothing of itself but its name.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            path: root(),
            exclude: Vec::new(),
            namespace: None,
            create_namespaces: false,
            depends_on: Vec::new(),
            wait: None,
            force: false,
            recreate: false,
            prune: false,
            prune_limit: PruneLimit::default(),
            drift: Drift::default(),
            gate: Gate::default(),
        }
    }

    /// Returns the path without `./` before and `/` after it; empty for the root.
    pub(super) fn folder(&self) -> &str {
        let path = self.path.trim_end_matches('/');
        let path = path.strip_prefix("./").unwrap_or(path);
        if path == "." { "" } else { path }
    }

    /// Returns the rest of a path in this folder.
    pub(super) fn inside<'a>(&self, path: &'a str) -> Option<&'a str> {
        match self.folder() {
            "" => Some(path),
            folder => path.strip_prefix(folder)?.strip_prefix('/'),
        }
    }

    /// Reports what the schema can't see, with the field. `index` is this one's place among all.
    pub(super) fn faults(&self, all: &Syncs<'_>, index: usize, report: &mut impl FnMut(&str, String)) {
        if self.folder().split('/').any(|part| matches!(part, "." | "..")) || self.path.starts_with('/') {
            report(
                "path",
                format!("{:?} is not a folder of the repository", self.path),
            );
        }
        if !is_label(&self.name) {
            report(
                "name",
                format!("{:?} is not lower-case letters, digits and `-`", self.name),
            );
        }
        if all.graph.place(&self.name).is_some_and(|first| first < index) {
            report("name", format!("two syncs are called {:?}", self.name));
        }
        if let Some((first, earlier)) = all.folders.get(self.folder())
            && *first < index
        {
            report(
                "path",
                format!("{:?} and {:?} have the same path", earlier, self.name),
            );
        }
        for (place, wanted) in self.depends_on.iter().enumerate() {
            if all.graph.place(wanted).is_none() {
                report(
                    &format!("dependsOn/{place}"),
                    format!("no sync is called {wanted:?}"),
                );
            }
        }
        if all.circular.contains(&index) {
            report("dependsOn", format!("{:?} waits for itself", self.name));
        }
        if let Some((first, earlier)) = all.evacuates
            && first < index
            && self.gate.evacuations.mode != EvacuationsMode::Manual
        {
            report(
                "gate/evacuations/mode",
                format!(
                    "sync {earlier:?} evacuates clusters already: one sync does, for the whole control plane"
                ),
            );
        }
        for (place, ignore) in self.drift.ignore.iter().enumerate() {
            let at = format!("drift/ignore/{place}");
            if ignore.pointers.is_empty() && ignore.managers.is_empty() {
                report(&at, "it names neither pointers nor managers".to_owned());
            }
            for (field, pointer) in ignore.pointers.iter().enumerate() {
                if !pointer.starts_with('/') {
                    report(
                        &format!("{at}/pointers/{field}"),
                        format!("{pointer:?} is no JSON pointer: it begins with a slash"),
                    );
                }
            }
        }
    }
}

/// What is asked of all syncs for each of them, found once.
pub(super) struct Syncs<'a> {
    graph: Graph<'a>,
    circular: BTreeSet<usize>,
    /// The first sync of each folder: its place and its name.
    folders: BTreeMap<&'a str, (usize, &'a str)>,
    /// The first sync that evacuates clusters.
    evacuates: Option<(usize, &'a str)>,
}

impl<'a> Syncs<'a> {
    pub(super) fn of(syncs: &'a [Sync]) -> Self {
        let graph = Graph::of(syncs);
        let evacuates = |(_, sync): &(usize, &Sync)| sync.gate.evacuations.mode != EvacuationsMode::Manual;
        let first = syncs.iter().enumerate().find(evacuates);
        let mut folders = BTreeMap::new();
        for (place, sync) in syncs.iter().enumerate() {
            folders
                .entry(sync.folder())
                .or_insert((place, sync.name.as_str()));
        }
        Self {
            circular: graph.circular(),
            graph,
            folders,
            evacuates: first.map(|(place, sync)| (place, sync.name.as_str())),
        }
    }
}

fn is_label(name: &str) -> bool {
    name.bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
}
