//! The `cutover.dev/v1alpha1` types, one file a kind; CRDs and JSON Schemas are generated from them.

mod claim;
mod common;
mod ended;
mod evacuation;
mod eviction;
mod failover_plan;
mod floor;
mod format;
mod intent;
mod lifecycle;
mod migration;
mod moves;
mod offer;
mod pin_state;
mod policy;
mod profile;
mod rebalance;
mod replica_shift;
mod rollout;
mod rollout_policy;
mod secret_handles;
mod standing;
mod suspension;
mod time_span;
pub mod watched;
mod window;

pub use claim::{Claim, ClaimOwner, ClaimSpec, Differences, claim_name};
pub use common::{
    Approval, ApprovalGate, Assumption, Common, Condition, ConditionStatus, Finding, PatchOp, Progress,
    StepRecord, WaitCode, WaitingFor, WorkloadRef,
};
pub use evacuation::{Evacuation, EvacuationSpec, EvacuationStatus, TaintMatch};
pub use eviction::{Eviction, EvictionStage, Share};
pub use failover_plan::{
    ContinuousCapture, FailoverApproval, FailoverGate, FailoverJournal, FailoverPhase, FailoverPlan,
    FailoverPlanSpec, FailoverPlanStatus, FailoverRequest, FencedBy, Flight, HistoryLimit, Inject, LastKnown,
    MovedState, OldCopy, OpenQuestion, PreservedHandle, Purge, Relocation, SourceUnreachable, StateSource,
    UnreachableAction, WriterCopy,
};
pub use floor::{Floor, NotAFloor, percent_of};
pub use format::format_of_guests;
pub use intent::{Intent, IntentState, KINDS, Kind, kind};
pub use lifecycle::Lifecycle;
pub use migration::{
    AdmissionTest, Barrier, Belt, BindingId, Capture, Changes, Check, Fence, Guard, HeldBack, HeldPolicy,
    InGit, Journal, LeaseSeen, Migration, MigrationSpec, MigrationStatus, Offered, OnFailure, Phase,
    RollBack, RollBackStage, RunOrder, Starts, Strategy, TemplateChange, UnknownGuard, UsedWord, Verify,
};
pub use moves::{
    Choose, Means, Move, MoveState, MovesApproval, MovesEnding, MovesGate, MovesJournal, MovesPhase,
    MovesSpec, MovesStatus, Rank, Selection, Stay, Tally, Targets, Unmovable, WorkloadName,
};
pub use offer::{Fact, Offer, quoted};
pub use pin_state::{PinState, PinnedRule};
pub use policy::{PolicyKind, PolicyName};
pub use profile::{
    AppliesTo, CaptureRule, HandleObjects, LastKnownRule, NeededObject, Pods, Repeated, Requirement,
    StartsOver, WorkloadProfile, WorkloadProfileSpec,
};
pub use rebalance::{Occasion, Rebalance, RebalanceSpec, RebalanceStatus};
pub use replica_shift::{
    Pause, ReplicaShift, ReplicaShiftSpec, ReplicaShiftStatus, ShiftApproval, ShiftBack, ShiftJournal,
    ShiftPhase, ShiftSource, Then,
};
pub use rollout::{
    OnRolloutFailure, ROLLOUT_WAVE_ANNOTATION, Released, Rollout, RolloutCluster, RolloutClusterState,
    RolloutControls, RolloutJournal, RolloutPhase, RolloutProgress, RolloutRevision, RolloutSpec,
    RolloutStatus, RolloutStrategy, Wave, WaveApproval, WaveGate,
};
pub use rollout_policy::{
    RolloutPolicy, RolloutPolicyPhase, RolloutPolicySpec, RolloutPolicyStatus, RolloutTurn, SelectedWorkload,
    WorkloadControls, WorkloadSelector,
};
pub use secret_handles::{SecretHandles, is_reference, reference};
pub use standing::Standing;
pub use suspension::{
    Contested, Ending, HeldCopy, PolicyTarget, Scope, Suspension, SuspensionFence, SuspensionJournal,
    SuspensionPhase, SuspensionPin, SuspensionSpec, SuspensionStatus, SuspensionTarget,
};
pub use time_span::{NotATimeSpan, TimeSpan};
pub use watched::Watched;
pub use window::{ClockTime, Daily, NotAClockTime, Opening, Weekday, Window};

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

/// The API group of every kind of cutover.
pub const GROUP: &str = "cutover.dev";
pub const VERSION: &str = "v1alpha1";
pub const API_VERSION: &str = "cutover.dev/v1alpha1";

/// The newest format that this program reads and writes. It rises when a program of before could not go on safely from something that
/// this one writes: that one leaves such an intent alone, and says so.
pub const STATUS_FORMAT: u32 = PROFILE_FORMAT;

/// The format of whatever every version can go on from safely: most of what is written, so that versions can take turns with it.
pub const PLAIN_FORMAT: u32 = 1;

/// The format of what stands on a pin that a version that reads only [`PLAIN_FORMAT`] would get wrong: secret handles, own labels and
/// annotations, and a `restart` that names a handle.
pub const PIN_FORMAT: u32 = 2;

/// The format of a Migration that has ended and is stored without its journal. An earlier version would take any change of its spec, a
/// control field too, for a request to move the workload once more.
pub const ENDED_FORMAT: u32 = 3;

/// The format of what goes by a profile with optional parents, with needs that a label selector finds, with `settleFor`, or with pods that
/// come and go: an earlier version cannot read such a profile, nor the journal that has it. And of a pin that creates what its template lacks: an earlier version would take it for one that
/// another client has changed.
pub const PROFILE_FORMAT: u32 = 4;

/// The namespace of cutover's own objects in the Karmada API server; nothing in it goes to members.
pub const OWN_NAMESPACE: &str = "cutover-system";

/// The field manager of what sync applies from Git.
pub const SYNC_MANAGER: &str = "cutover";
/// The field manager of what intents write: suspension, pins, claims, status.
pub const INTENT_MANAGER: &str = "cutover-intent";

/// On an intent: keeps it until a running operation has been aborted or finished.
pub const INTENT_FINALIZER: &str = "cutover.dev/settle";
/// On a pin: keeps it effective until its intent has taken it off.
pub const PIN_FINALIZER: &str = "cutover.dev/pin";
/// On a policy or a binding: which intents suspend it, and what of it.
pub const SUSPENSIONS_ANNOTATION: &str = "cutover.dev/suspensions";
/// On the parent of a sync's set, and on a Migration that a sync has set off: the repository and the branch of that sync.
pub const SOURCE_ANNOTATION: &str = "cutover.dev/source";
/// On what an intent has created to be carried out: the uid of that intent.
pub const PARENT_LABEL: &str = "cutover.dev/parent";
/// On such an intent: it does nothing until the one that created it has seen it, and takes this off.
pub const WAITS_ANNOTATION: &str = "cutover.dev/waits-for-parent";
/// Keys of the taints that keep new work off a cluster that is being emptied; the name of the intent follows.
pub const CORDON_PREFIX: &str = "evacuating.cutover.dev/";
/// On a binding out of which a cluster is taken: for which move. Whoever takes it out says so here first, and takes this off
/// last, so that what is sent late is refused.
pub const EVICTING_ANNOTATION: &str = "cutover.dev/evicting";
/// Who has written an eviction task.
pub const EVICTION_PRODUCER: &str = "cutover";
/// On everything a pin reaches: `<intent uid>.<attempt>.<sequence>`.
pub const MARKER_ANNOTATION: &str = "cutover.dev/pin";

/// Returns the CRDs of every kind, in the order in which they are listed in documentation.
pub fn crds() -> Vec<CustomResourceDefinition> {
    static ALL: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(generated);
    ALL.clone()
}

fn generated() -> Vec<CustomResourceDefinition> {
    let mut crds: Vec<_> = KINDS.iter().map(Kind::crd).collect();
    crds.extend([Claim::crd(), WorkloadProfile::crd()]);
    let versions = crds.iter_mut().flat_map(|crd| &mut crd.spec.versions);
    for schema in versions.filter_map(|version| version.schema.as_mut()) {
        schema
            .open_api_v3_schema
            .iter_mut()
            .for_each(without_unknown_formats);
    }
    crds
}

/// Takes out what an API server warns of: it has no unsigned numbers, and `minimum` says the same.
fn without_unknown_formats(schema: &mut JSONSchemaProps) {
    schema
        .format
        .take_if(|format| matches!(format.as_str(), "uint32" | "uint64"));
    let properties = schema.properties.iter_mut().flat_map(|all| all.values_mut());
    properties.for_each(without_unknown_formats);
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => without_unknown_formats(items),
        Some(JSONSchemaPropsOrArray::Schemas(all)) => all.iter_mut().for_each(without_unknown_formats),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(more)) = &mut schema.additional_properties {
        without_unknown_formats(more);
    }
}
