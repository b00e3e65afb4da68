//! The parts of Karmada's API that are used, typed, and what its override policies make of a template.
//!
//! Only fields that the tool or the sandbox reads are typed; every struct keeps the others in `rest`, so that an
//! object survives a round trip through these types unchanged but for empty values, which Go leaves out too.

mod affinity;
mod binding;
mod cluster;
mod image;
pub mod meta;
/// Names parsed once at the border: clusters, revisions, objects, workloads.
pub mod name;
mod override_policy;
pub mod overrides;
/// Which parts of an object an expression looks at.
pub mod parts;
mod placement;
mod policy;
mod resources;
mod schema;
mod selector;
mod work;

pub use affinity::{ClusterAffinity, FieldRequirement, FieldSelector};
pub use binding::{
    AggregatedStatus, BindingSnapshot, ClusterResourceBinding, ClusterResourceBindingSpec, EvictionTask,
    Health, ObjectReference, ResourceBinding, ResourceBindingSpec, ResourceBindingStatus, Suspension,
    TargetCluster,
};
pub use cluster::{ApiEnablement, ApiResource, Cluster, ClusterSpec, ClusterStatus, SyncMode, Taint};
pub use override_policy::{
    ClusterOverridePolicy, ClusterOverridePolicySpec, CommandOverrider, FieldOverrider, ImageComponent,
    ImageOverrider, ImagePredicate, MapOverrider, Operator, OverridePolicy, OverrideRule, OverrideSpec,
    Overriders, PatchOperation, PlaintextOverrider,
};
pub use placement::{
    AffinityTerm, Placement, ReplicaDivision, ReplicaScheduling, ReplicaSchedulingType, SpreadConstraint,
    StaticWeight, Toleration, WeightPreference,
};
pub use policy::{
    ApplicationFailover, ClusterFailover, ClusterPropagationPolicy, ClusterPropagationPolicySpec,
    DEFAULT_SCHEDULER, DecisionConditions, DispatchSuspension, Failover, PropagationPolicy, PropagationSpec,
    PurgeMode, StatePreservation, StateRule, SuspendedClusters,
};
pub use resources::{Amounts, Capacity, Need};
pub use schema::crds;
pub use selector::{BadSelector, LabelRequirement, LabelSelector, ResourceSelector, Specificity};
pub use work::{Identifier, ManifestStatus, Work, WorkSpec, WorkStatus, Workload};

/// The fields of an object that no type here names.
pub type Rest = serde_json::Map<String, serde_json::Value>;
