//! Kinds that no built-in profile is for, and why: what their operators, or profiles as they are, lack.

use super::{Error, all_for};
use crate::api::{Finding, WorkloadProfile};
use cutover_karmada::name::Gvk;

/// Where the state of a kind is that cannot be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateAt {
    /// With its copy: it ends with that one, and another one starts from nothing.
    Copy,
    /// Where every cluster reaches it: a copy that ends takes nothing along, and two copies must not write it.
    Elsewhere,
}

/// Kinds of one operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Immovable {
    pub group: &'static str,
    pub kinds: &'static [&'static str],
    /// Absent: it writes nothing by itself, and a copy in one more cluster is as harmless as one of a kind that nothing is known of.
    pub state: Option<StateAt>,
    pub why: &'static str,
    /// What it would take to move them.
    pub needs: &'static str,
    /// What a person can do meanwhile.
    pub by_hand: &'static str,
}

impl Immovable {
    /// Returns why one of its kinds can't be moved.
    pub fn message(&self, kind: &str) -> String {
        format!("{kind} cannot be moved with its state: {}", self.why)
    }

    /// Returns what would help, and what can be done.
    pub fn hint(&self) -> String {
        format!(
            "it would take {}; until then {}, or write a WorkloadProfile if you know better",
            self.needs, self.by_hand
        )
    }
}

/// What all lack whose data is on volumes.
const VOLUMES: &str =
    "its volumes carried over between the stop and the start, and a proof that they have arrived";
const COPY_VOLUMES: &str = "restore a backup of it there, or stop it and copy its volumes (VolSync, Velero)";
const RESTORE: &str =
    "restore a backup of it there, or let a replica there take over, once nothing writes here";

/// What lacks whatever runs in Kafka Connect.
const STOP_IS_NOT_SENT: &str = "a stop soon after a resumption is never sent while Connect still shows STOPPED, and no object says whether the other Connect cluster goes on from the same offsets";
const STOP_THAT_LASTS: &str = "a stop that is seen to last over two reconciliations, and offsets carried over in between (spec.listOffsets, spec.alterOffsets)";
const CARRY_OFFSETS: &str =
    "stop it, carry its offsets over (spec.listOffsets, spec.alterOffsets), and let it run when it has moved";

/// Facts: the API types of each operator, in the version that was current in 2026; where a comment stands, the source it names.
pub const IMMOVABLE: &[Immovable] = &[
    Immovable {
        group: "spark.apache.org",
        kinds: &["SparkApplication", "SparkCluster"],
        state: Some(StateAt::Elsewhere),
        why: "Apache's Spark operator has no suspension: only a deletion stops them",
        needs: "a field of its operator that stops an application and keeps the object",
        by_hand: "let it end here, and submit it there",
    },
    Immovable {
        group: "sparkoperator.k8s.io",
        kinds: &["ScheduledSparkApplication"],
        state: Some(StateAt::Elsewhere),
        why: "its suspension only stops new runs, and those that are under way go on",
        needs: "its SparkApplications looked up by their owner, and proved to be gone",
        by_hand: "suspend it, wait until its SparkApplications have ended, and resume it when it has moved",
    },
    Immovable {
        group: "argoproj.io",
        kinds: &["Workflow"],
        state: Some(StateAt::Copy),
        why: "which of its nodes have finished is in its status, which stays behind",
        needs: "a Workflow that goes on from the finished nodes of another one",
        by_hand: "let it end here, or submit it there from its beginning",
    },
    // argoproj/argo-workflows@v4.1.2: workflow/cron/operator.go (run: the Workflow is submitted, and then status.active is written;
    // shouldOutstandingWorkflowsBeRun: a resumption makes up for the last tick), cron_workflow_types.go (no observedGeneration); its CRD has
    // no status subresource. karmada-io/karmada@v1.18.2: pkg/util/objectwatcher/objectwatcher.go (Update: what it writes has no status;
    // retainClusterFields keeps none), pkg/resourceinterpreter/default/thirdparty/resourcecustomizations/argoproj.io (Workflow only).
    Immovable {
        group: "argoproj.io",
        kinds: &["CronWorkflow"],
        state: Some(StateAt::Elsewhere),
        why: "Karmada drops its status in a member whenever it changes its spec there, a suspension too, and with it which Workflows run and which tick was the last, so a tick could run in both clusters",
        needs: "a status subresource in its definition, an observedGeneration in its status, and its Workflows looked up by their label",
        by_hand: "suspend it, wait until its Workflows have ended, and resume it when it has moved",
    },
    // strimzi/strimzi-kafka-operator@1.2.0: AbstractConnectOperator.java (updateState: what is sent depends on the state that Connect
    // shows, and STOPPED stays for a while after a resumption was sent; maybeCreateOrUpdateConnector). The group and the topics of a
    // Connect cluster are in another object, and a deletion deletes the connector of whoever has that group.
    Immovable {
        group: "kafka.strimzi.io",
        kinds: &["KafkaMirrorMaker2"],
        state: Some(StateAt::Elsewhere),
        why: STOP_IS_NOT_SENT,
        needs: STOP_THAT_LASTS,
        by_hand: CARRY_OFFSETS,
    },
    // The workers of its KafkaConnect write. Before a KafkaConnect moves, its KafkaConnectors have to be in both clusters.
    Immovable {
        group: "kafka.strimzi.io",
        kinds: &["KafkaConnector"],
        state: None,
        why: STOP_IS_NOT_SENT,
        needs: STOP_THAT_LASTS,
        by_hand: CARRY_OFFSETS,
    },
    Immovable {
        group: "batch.volcano.sh",
        kinds: &["Job"],
        state: Some(StateAt::Elsewhere),
        why: "it is stopped and resumed by objects of another kind, not by a field",
        needs: "steps of a move that create objects of other kinds: its Commands",
        by_hand: "abort it by a Command, and submit it there",
    },
    // apache/flink-kubernetes-operator@1.15.0: controller/bluegreen/BlueGreenDeploymentService (checkAndInitiateDeployment,
    // finalizeSuspendedDeployment), utils/bluegreen/BlueGreenUtils (prepareFlinkDeployment); its status has no observedGeneration.
    Immovable {
        group: "flink.apache.org",
        kinds: &["FlinkBlueGreenDeployment"],
        state: Some(StateAt::Copy),
        why: "its savepoint is in the status of a child FlinkDeployment, and profiles capture a handle from the copy alone",
        needs: "a handle that is captured from an object beside the copy",
        by_hand: "stop it with a savepoint (spec.template.spec.job.state: suspended), and start it there from that one (initialSavepointPath)",
    },
    Immovable {
        group: "kafka.strimzi.io",
        kinds: &["Kafka"],
        state: Some(StateAt::Copy),
        why: "its operator does not stop it: MirrorMaker 2 moves its topics",
        needs: "a field of its operator that stops it, and its volumes carried over",
        by_hand: "run a second Kafka there that MirrorMaker 2 keeps up with this one, and move its clients",
    },
    // kubevirt/kubevirt@v1.9.0: pkg/virt-controller/watch/vm/vm.go (syncRunStrategy, updateStatus), core/v1/types.go
    // (VirtualMachineSpec: dataVolumeTemplates).
    Immovable {
        group: "kubevirt.io",
        kinds: &["VirtualMachine"],
        state: Some(StateAt::Copy),
        why: "its disks are on volumes, which a halt leaves behind, and what it imports at its creation would be imported again",
        needs: VOLUMES,
        by_hand: "copy its volumes (VolSync, Velero) while it is halted",
    },
    // cloudnative-pg/cloudnative-pg@v1.30.0: pkg/reconciler/replicaclusterswitch (Reconcile, generateDemotionToken),
    // api/v1/cluster_funcs.go (IsReplica), internal/webhook/v1/cluster_webhook.go (validateReplicaMode).
    Immovable {
        group: "postgresql.cnpg.io",
        kinds: &["Cluster"],
        state: Some(StateAt::Copy),
        why: "its held copy is a standby that runs: it has to have caught up before the source is demoted, and its template has to name the new primary afterwards",
        needs: "a hold that may run and is waited for, and a move that changes its template (spec.replica)",
        by_hand: "switch over by its demotion and promotion tokens (spec.replica)",
    },
    // percona/percona-xtradb-cluster-operator@v1.19.0: pkg/controller/pxc/status.go (appStatus), pkg/apis/pxc/v1.
    Immovable {
        group: "pxc.percona.com",
        kinds: &["PerconaXtraDBCluster"],
        state: Some(StateAt::Copy),
        why: "its data is on volumes, which a pause leaves behind; a backup is of a cluster that runs, and what is written between the backup and the pause is lost",
        needs: VOLUMES,
        by_hand: COPY_VOLUMES,
    },
    // percona/percona-server-mongodb-operator@v1.22.0: psmdb_controller.go (reconcilePause).
    Immovable {
        group: "psmdb.percona.com",
        kinds: &["PerconaServerMongoDB"],
        state: Some(StateAt::Copy),
        why: "its data is on volumes, which a pause leaves behind; a pause is ignored while a backup runs",
        needs: VOLUMES,
        by_hand: COPY_VOLUMES,
    },
    // percona/percona-postgresql-operator@v3.0.0: percona/controller/pgcluster (controller.go, status.go getState, standby.go).
    Immovable {
        group: "pgv2.percona.com",
        kinds: &["PerconaPGCluster"],
        state: Some(StateAt::Copy),
        why: "its data is on volumes, which a pause leaves behind, and nothing proves that a standby has replayed all of it",
        needs: VOLUMES,
        by_hand: COPY_VOLUMES,
    },
    Immovable {
        group: "postgres-operator.crunchydata.com",
        kinds: &["PostgresCluster"],
        state: Some(StateAt::Copy),
        why: "its data is on volumes, which a shutdown leaves behind, and nothing proves that a standby has replayed all of it",
        needs: VOLUMES,
        by_hand: COPY_VOLUMES,
    },
    // Altinity/clickhouse-operator@0.25.6: pkg/model/chi/normalizer/normalizer.go (normalizeStop), type_host.go (GetStatefulSetReplicasNum).
    Immovable {
        group: "clickhouse.altinity.com",
        kinds: &["ClickHouseInstallation"],
        state: Some(StateAt::Copy),
        why: "its data is on volumes, which a stop leaves behind",
        needs: VOLUMES,
        by_hand: COPY_VOLUMES,
    },
    // rabbitmq/cluster-operator@v2.22.3: internal/controller/reconcile_scale_zero.go.
    Immovable {
        group: "rabbitmq.com",
        kinds: &["RabbitmqCluster"],
        state: Some(StateAt::Copy),
        why: "its queues are on volumes, which a stop leaves behind",
        needs: VOLUMES,
        by_hand: "drain its queues into a second one there (shovels), or stop it and copy its volumes (VolSync, Velero)",
    },
    // k8ssandra/cass-operator@v1.32.0: pkg/reconciliation/reconcile_racks.go (CheckRackStoppedState).
    Immovable {
        group: "cassandra.datastax.com",
        kinds: &["CassandraDatacenter"],
        state: Some(StateAt::Copy),
        why: "its data is on volumes, which a stop leaves behind, with the addresses and tokens of its nodes",
        needs: VOLUMES,
        by_hand: COPY_VOLUMES,
    },
    // pingcap/tidb-operator@v1.6.6: pkg/manager/suspender/suspender.go (only components whose phase is Normal are suspended).
    Immovable {
        group: "pingcap.com",
        kinds: &["TidbCluster"],
        state: Some(StateAt::Copy),
        why: "its data is on volumes, which a suspension leaves behind, and a new copy cannot be created suspended",
        needs: VOLUMES,
        by_hand: COPY_VOLUMES,
    },
    Immovable {
        group: "k8s.mariadb.com",
        kinds: &["MariaDB"],
        state: Some(StateAt::Copy),
        why: "a site is primary if its name says so, and Karmada gives both copies one name",
        needs: "a field of its operator that names the site, other than metadata.name",
        by_hand: RESTORE,
    },
    Immovable {
        group: "acid.zalan.do",
        kinds: &["postgresql"],
        state: Some(StateAt::Copy),
        why: "its status does not say what its operator has acted on, and a cluster that ran cannot safely become a standby",
        needs: "an observedGeneration in its status, and a proof that the last WAL has arrived",
        by_hand: RESTORE,
    },
    Immovable {
        group: "elasticsearch.k8s.elastic.co",
        kinds: &["Elasticsearch"],
        state: Some(StateAt::Copy),
        why: "it cannot run without nodes, and its snapshots are calls of its own API",
        needs: "zero nodes in its operator, and snapshots and restores that are objects",
        by_hand: "restore a snapshot of it there that was made when nothing wrote any more",
    },
    Immovable {
        group: "redis.redis.opstreelabs.in",
        kinds: &["Redis", "RedisCluster"],
        state: Some(StateAt::Copy),
        why: "its operator can be told to leave it alone, not to stop it",
        needs: "a field of its operator that stops it",
        by_hand: RESTORE,
    },
    Immovable {
        group: "mysql.oracle.com",
        kinds: &["InnoDBCluster"],
        state: Some(StateAt::Copy),
        why: "it needs one instance at least",
        needs: "zero instances in its operator",
        by_hand: RESTORE,
    },
    Immovable {
        group: "scylla.scylladb.com",
        kinds: &["ScyllaCluster"],
        state: Some(StateAt::Copy),
        why: "its operator does not stop it: it replicates to a second site by itself",
        needs: "a field of its operator that stops it, and its volumes carried over",
        by_hand: "run a second site that it replicates to, and move its clients there",
    },
    Immovable {
        group: "minio.min.io",
        kinds: &["Tenant"],
        state: Some(StateAt::Copy),
        why: "its operator does not stop it: it replicates to a second site by itself",
        needs: "a field of its operator that stops it, and its volumes carried over",
        by_hand: "run a second site that it replicates to, and move its clients there",
    },
    Immovable {
        group: "planetscale.com",
        kinds: &["VitessCluster"],
        state: Some(StateAt::Copy),
        why: "its operator does not stop it: it replicates to a second site by itself",
        needs: "a field of its operator that stops it, and its volumes carried over",
        by_hand: "run a second site that it replicates to, and move its clients there",
    },
    Immovable {
        group: "crdb.cockroachlabs.com",
        kinds: &["CrdbCluster"],
        state: Some(StateAt::Copy),
        why: "its operator does not stop it: it replicates to a second site by itself",
        needs: "a field of its operator that stops it, and its volumes carried over",
        by_hand: "run a second site that it replicates to, and move its clients there",
    },
];

/// Returns why no built-in profile can move a kind; nothing of one of which that isn't known.
pub fn why_immovable(kind: &Gvk) -> Option<&'static Immovable> {
    let mut all = IMMOVABLE.iter();
    all.find(|one| one.group == kind.group && one.kinds.contains(&kind.kind.as_str()))
}

/// Returns why a kind can't be moved for which there is no profile, given or built in; nothing of one of which that isn't known.
pub fn immovable(given: &[WorkloadProfile], kind: &Gvk) -> Result<Option<&'static Immovable>, Error> {
    let has_profile = !all_for(given, kind)?.is_empty();
    Ok(why_immovable(kind).filter(|_| !has_profile))
}

/// Returns the finding about a kind that no profile is for: with the reason where none can be, else with what helps.
/// `says`: what a profile would say, such as `how a Valve is moved`.
pub fn no_profile(kind: &Gvk, says: &str, hint: &str) -> Finding {
    let message = format!("no WorkloadProfile says {says}");
    match why_immovable(kind) {
        Some(known) => {
            let message = format!("{message}; {}", known.message(&kind.kind));
            Finding::new("Immovable", message, known.hint())
        }
        None => Finding::new("NoProfile", message, hint),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(group: &str, kind: &str) -> Gvk {
        Gvk {
            group: group.to_owned(),
            version: "v1".to_owned(),
            kind: kind.to_owned(),
        }
    }

    #[test]
    fn a_kind_that_cannot_be_moved_is_said_to_be_one_with_what_it_would_take() {
        let found = no_profile(
            &kind("argoproj.io", "CronWorkflow"),
            "how a CronWorkflow is moved",
            "add one",
        );
        assert_eq!(found.code, "Immovable");
        let begins = "no WorkloadProfile says how a CronWorkflow is moved; CronWorkflow cannot be moved with its state: Karmada drops its";
        assert!(found.message.starts_with(begins), "{}", found.message);
        let hint = found.hint.unwrap_or_default();
        assert!(hint.starts_with("it would take a status subresource"), "{hint}");
        assert!(
            hint.contains("until then suspend it, wait until its Workflows have ended"),
            "{hint}"
        );
    }

    #[test]
    fn a_profile_of_ones_own_makes_a_kind_one_that_can_be_moved() {
        let mut own = crate::profile::built_in().unwrap()[0].clone();
        let cluster = kind("postgresql.cnpg.io", "Cluster");
        assert!(immovable(std::slice::from_ref(&own), &cluster).unwrap().is_some());
        own.spec.applies_to.group.clone_from(&cluster.group);
        own.spec.applies_to.kinds = vec![cluster.kind.clone()];
        assert_eq!(immovable(&[own], &cluster).unwrap(), None);
    }

    /// What the design of profiles found to need more than a profile can say, or that no profile can be for.
    #[test]
    fn operators_that_need_more_than_a_profile_can_say_are_known() {
        for (group, name) in [
            ("postgresql.cnpg.io", "Cluster"),
            ("pxc.percona.com", "PerconaXtraDBCluster"),
            ("psmdb.percona.com", "PerconaServerMongoDB"),
            ("pgv2.percona.com", "PerconaPGCluster"),
            ("postgres-operator.crunchydata.com", "PostgresCluster"),
            ("clickhouse.altinity.com", "ClickHouseInstallation"),
            ("rabbitmq.com", "RabbitmqCluster"),
            ("cassandra.datastax.com", "CassandraDatacenter"),
            ("pingcap.com", "TidbCluster"),
            ("kubevirt.io", "VirtualMachine"),
            ("flink.apache.org", "FlinkBlueGreenDeployment"),
            ("argoproj.io", "CronWorkflow"),
            ("kafka.strimzi.io", "KafkaConnector"),
        ] {
            let found = no_profile(&kind(group, name), "how it is moved", "add one");
            assert_eq!(found.code, "Immovable", "{name}");
        }
    }

    #[test]
    fn no_kind_stands_in_the_list_twice() {
        let mut seen = std::collections::BTreeSet::new();
        for known in IMMOVABLE {
            for name in known.kinds {
                assert!(seen.insert((known.group, *name)), "{name}.{}", known.group);
            }
        }
    }

    #[test]
    fn a_kind_of_another_group_is_only_one_without_a_profile() {
        let found = no_profile(
            &kind("example.org", "CronJob"),
            "how a CronJob is moved",
            "add one",
        );
        assert_eq!(
            (found.code.as_str(), found.hint.as_deref()),
            ("NoProfile", Some("add one"))
        );
    }

    #[test]
    fn no_kind_has_a_built_in_profile_and_a_reason_why_it_has_none() {
        for profile in crate::profile::built_in().unwrap() {
            let of = &profile.spec.applies_to;
            for name in &of.kinds {
                assert!(why_immovable(&kind(&of.group, name)).is_none(), "{name}");
            }
        }
    }
}
