//! The labels, annotations, taints and finalizers that Karmada and this tool read of each other.

/// On a binding and its Works: an id that stays when names are hashed.
pub const BINDING_ID: &str = "resourcebinding.karmada.io/permanent-id";
/// The same for a `ClusterResourceBinding`.
pub const CLUSTER_BINDING_ID: &str = "clusterresourcebinding.karmada.io/permanent-id";
/// On a Work and on the member object that it makes.
pub const WORK_ID: &str = "work.karmada.io/permanent-id";
/// On a template: the policy that claimed it.
pub const POLICY_ID: &str = "propagationpolicy.karmada.io/permanent-id";
pub const CLUSTER_POLICY_ID: &str = "clusterpropagationpolicy.karmada.io/permanent-id";
pub const POLICY_NAMESPACE: &str = "propagationpolicy.karmada.io/namespace";
pub const POLICY_NAME: &str = "propagationpolicy.karmada.io/name";
pub const CLUSTER_POLICY_NAME: &str = "clusterpropagationpolicy.karmada.io/name";

/// On a Work: the binding that it belongs to.
pub const BINDING_NAMESPACE: &str = "resourcebinding.karmada.io/namespace";
pub const BINDING_NAME: &str = "resourcebinding.karmada.io/name";
pub const CLUSTER_BINDING_NAME: &str = "clusterresourcebinding.karmada.io/name";
/// On a member object: the Work that it belongs to.
pub const WORK_NAMESPACE: &str = "work.karmada.io/namespace";
pub const WORK_NAME: &str = "work.karmada.io/name";
/// On a member object: an object without it is somebody else's (a conflict).
pub const MANAGED: &str = "karmada.io/managed";

/// The placement that the scheduler last used, as JSON; also what the taint manager reads.
pub const APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";
/// On a Work, as JSON. Stale after the deletion of a policy: never evidence.
pub const APPLIED_OVERRIDES: &str = "policy.karmada.io/applied-overrides";
pub const APPLIED_CLUSTER_OVERRIDES: &str = "policy.karmada.io/applied-cluster-overrides";

/// On a manifest in a Work: the generation of the template that it was made from.
pub const TEMPLATE_GENERATION: &str = "resourcetemplate.karmada.io/generation";
pub const TEMPLATE_UID: &str = "resourcetemplate.karmada.io/uid";
pub const MANAGED_LABELS: &str = "resourcetemplate.karmada.io/managed-labels";
pub const MANAGED_ANNOTATIONS: &str = "resourcetemplate.karmada.io/managed-annotations";
/// With value [`PROTECTED_ALWAYS`], DELETE of the object that carries it is refused.
pub const DELETION_PROTECTED: &str = "resourcetemplate.karmada.io/deletion-protected";
pub const PROTECTED_ALWAYS: &str = "Always";
/// With value `true`, the member keeps its own replicas whatever the Work says.
pub const RETAIN_REPLICAS: &str = "resourcetemplate.karmada.io/retain-replicas";
/// On a manifest in a Work: `overwrite` or `abort`.
pub const CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";
/// On a binding that no policy made: by which part of Karmada it was.
pub const MANAGED_BY: &str = "binding.karmada.io/managed-by";
/// A binding without any of these is none of the scheduler's: no policy claims it any more.
pub const CLAIMED_BY: [&str; 3] = [POLICY_ID, CLUSTER_POLICY_ID, MANAGED_BY];
/// On a binding with `propagateDeps`: its dependencies, as JSON.
pub const DEPENDENCIES: &str = "resourcebinding.karmada.io/dependencies";
/// On a binding with `propagateDeps`, until its dependencies are freed.
pub const DEPENDENCIES_FINALIZER: &str = "karmada.io/binding-dependencies-distributor";
/// On an attached (dependency) binding: which binding requires it, as a prefix of a hashed key.
pub const DEPENDED_BY: &str = "resourcebinding.karmada.io/depended-by-";

/// With value `true`, a namespace is not propagated to the members by itself.
pub const SKIP_AUTO_PROPAGATION: &str = "namespace.karmada.io/skip-auto-propagation";

pub const TAINT_UNSCHEDULABLE: &str = "cluster.karmada.io/unschedulable";
pub const TAINT_NOT_READY: &str = "cluster.karmada.io/not-ready";
pub const TAINT_UNREACHABLE: &str = "cluster.karmada.io/unreachable";
pub const TAINT_TERMINATING: &str = "cluster.karmada.io/terminating";

pub const EXECUTION_FINALIZER: &str = "karmada.io/execution-controller";
pub const BINDING_FINALIZER: &str = "karmada.io/binding-controller";
pub const CLUSTER_BINDING_FINALIZER: &str = "karmada.io/cluster-resource-binding-controller";
pub const POLICY_FINALIZER: &str = "karmada.io/propagation-policy-controller";
pub const CLUSTER_POLICY_FINALIZER: &str = "karmada.io/cluster-propagation-policy-controller";
pub const CLUSTER_FINALIZER: &str = "karmada.io/cluster-controller";

/// The execution namespace of a member holds its Works.
const EXECUTION_PREFIX: &str = "karmada-es-";

/// Returns the label of bindings and Works with the id of the binding.
pub const fn binding_id_label(cluster_scoped: bool) -> &'static str {
    if cluster_scoped {
        CLUSTER_BINDING_ID
    } else {
        BINDING_ID
    }
}

/// Returns the kind of a binding or a policy for workloads of this scope: `OverridePolicy`, or `ClusterOverridePolicy`.
pub fn scoped_kind(kind: &str, cluster_scoped: bool) -> String {
    if cluster_scoped {
        format!("Cluster{kind}")
    } else {
        kind.to_owned()
    }
}

/// Returns the namespace that holds the Works of a member.
pub fn execution_namespace(cluster: &str) -> String {
    format!("{EXECUTION_PREFIX}{cluster}")
}

/// Returns the member whose Works a namespace holds, if it holds any.
pub fn cluster_of(namespace: &str) -> Option<&str> {
    namespace.strip_prefix(EXECUTION_PREFIX)
}

/// Returns the name of the binding of a template, as Karmada builds it: lower-cased name and kind.
pub fn binding_name(name: &str, kind: &str) -> String {
    format!("{}-{}", name.replace(':', "."), kind).to_lowercase()
}
