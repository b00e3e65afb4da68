//! Kinds that no built-in profile is for, and why: what their operators, or profiles as they are, lack.

use crate::api::Finding;
use cutover_karmada::name::Gvk;

/// Kinds of one operator.
#[derive(Clone, Copy, Debug)]
pub struct Immovable {
    pub group: &'static str,
    pub kinds: &'static [&'static str],
    pub why: &'static str,
    /// What it would take to move them.
    pub needs: &'static str,
}

impl Immovable {
    /// Returns why one of its kinds can't be moved.
    pub fn message(&self, kind: &str) -> String {
        format!("{kind} cannot be moved with its state: {}", self.why)
    }

    /// Returns what would help.
    pub fn hint(&self) -> String {
        format!(
            "it would take {}; until then move its state by its own means, or write a WorkloadProfile if you know better",
            self.needs
        )
    }
}

/// Facts: the API types of each operator, in the version that was current in 2026; where a comment stands, the source it names.
pub const IMMOVABLE: &[Immovable] = &[
    Immovable {
        group: "spark.apache.org",
        kinds: &["SparkApplication", "SparkCluster"],
        why: "Apache's Spark operator has no suspension: only a deletion stops them",
        needs: "a field of its operator that stops an application and keeps the object",
    },
    Immovable {
        group: "sparkoperator.k8s.io",
        kinds: &["ScheduledSparkApplication"],
        why: "its suspension only stops new runs, and those that are under way go on",
        needs: "its SparkApplications looked up by their owner, and proved to be gone",
    },
    Immovable {
        group: "argoproj.io",
        kinds: &["Workflow"],
        why: "which of its nodes have finished is in its status, which stays behind",
        needs: "a Workflow that goes on from the finished nodes of another one; one that has not begun can be submitted elsewhere",
    },
    // argoproj/argo-workflows@v4.1.2: workflow/cron/controller.go (processNextCronItem: the schedule keeps the object as it was read),
    // workflow/cron/operator.go (run: the Workflow is submitted, and then status.active is written;
    // shouldOutstandingWorkflowsBeRun: a resumption makes up for the last tick), cron_workflow_types.go (no observedGeneration).
    Immovable {
        group: "argoproj.io",
        kinds: &["CronWorkflow"],
        why: "its controller may still submit a Workflow after the suspension, and its status does not say whether it has seen that, so a tick could run in both clusters",
        needs: "an observedGeneration in its status, its Workflows and their pods looked up by their owner, and the last tick carried over",
    },
    // kubernetes@1.32: pkg/controller/cronjob/cronjob_controllerv2.go (syncCronJob: the object comes from a cache; the Job is created,
    // and then status.active is written; a suspended one gets no status; without lastScheduleTime the last tick since the creation is
    // made up for), batch/v1 CronJobStatus (no observedGeneration). Pods of its Jobs have no label with its name.
    Immovable {
        group: "batch",
        kinds: &["CronJob"],
        why: "its controller may still create a Job after the suspension, and its status does not say whether it has seen that, so a tick could run in both clusters",
        needs: "an observedGeneration in its status, its Jobs and their pods looked up by their owner, and the last tick carried over",
    },
    // strimzi/strimzi-kafka-operator@1.2.0: AbstractConnectOperator.java (updateState: what is sent depends on the state that Connect
    // shows, and STOPPED stays for a while after a resumption was sent; maybeCreateOrUpdateConnector). The group and the topics of a
    // Connect cluster are in another object, and a deletion deletes the connector of whoever has that group.
    Immovable {
        group: "kafka.strimzi.io",
        kinds: &["KafkaConnector", "KafkaMirrorMaker2"],
        why: "a stop soon after a resumption is never sent while Connect still shows STOPPED, and no object says whether the other Connect cluster goes on from the same offsets",
        needs: "a stop that is seen to last over two reconciliations, and offsets carried over in between (spec.listOffsets, spec.alterOffsets)",
    },
    Immovable {
        group: "batch.volcano.sh",
        kinds: &["Job"],
        why: "it is stopped and resumed by objects of another kind, not by a field",
        needs: "steps of a move that create objects of other kinds: its Commands",
    },
    Immovable {
        group: "kafka.strimzi.io",
        kinds: &["Kafka"],
        why: "its operator does not stop it: MirrorMaker 2 moves its topics",
        needs: "a second Kafka that MirrorMaker 2 keeps up with the first, and clients that are moved to it",
    },
    Immovable {
        group: "k8s.mariadb.com",
        kinds: &["MariaDB"],
        why: "a site is primary if its name says so, and Karmada gives both copies one name",
        needs: "a field of its operator that names the site, other than metadata.name",
    },
    Immovable {
        group: "acid.zalan.do",
        kinds: &["postgresql"],
        why: "its status does not say what its operator has acted on, and a cluster that ran cannot safely become a standby",
        needs: "an observedGeneration in its status, and a proof that the last WAL has arrived",
    },
    Immovable {
        group: "elasticsearch.k8s.elastic.co",
        kinds: &["Elasticsearch"],
        why: "it cannot run without nodes, and its snapshots are calls of its own API",
        needs: "zero nodes in its operator, and snapshots and restores that are objects",
    },
    Immovable {
        group: "redis.redis.opstreelabs.in",
        kinds: &["Redis", "RedisCluster"],
        why: "its operator can be told to leave it alone, not to stop it",
        needs: "a field of its operator that stops it",
    },
    Immovable {
        group: "mysql.oracle.com",
        kinds: &["InnoDBCluster"],
        why: "it needs one instance at least",
        needs: "zero instances in its operator",
    },
    Immovable {
        group: "scylla.scylladb.com",
        kinds: &["ScyllaCluster"],
        why: "its operator does not stop it: it replicates to a second site by itself",
        needs: "a second site that it replicates to, and clients that are moved to it",
    },
    Immovable {
        group: "minio.min.io",
        kinds: &["Tenant"],
        why: "its operator does not stop it: it replicates to a second site by itself",
        needs: "a second site that it replicates to, and clients that are moved to it",
    },
    Immovable {
        group: "planetscale.com",
        kinds: &["VitessCluster"],
        why: "its operator does not stop it: it replicates to a second site by itself",
        needs: "a second site that it replicates to, and clients that are moved to it",
    },
    Immovable {
        group: "crdb.cockroachlabs.com",
        kinds: &["CrdbCluster"],
        why: "its operator does not stop it: it replicates to a second site by itself",
        needs: "a second site that it replicates to, and clients that are moved to it",
    },
];

/// Returns why no built-in profile can move a kind; nothing of one of which that isn't known.
pub fn why_immovable(kind: &Gvk) -> Option<&'static Immovable> {
    let mut all = IMMOVABLE.iter();
    all.find(|one| one.group == kind.group && one.kinds.contains(&kind.kind.as_str()))
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
        let found = no_profile(&kind("batch", "CronJob"), "how a CronJob is moved", "add one");
        assert_eq!(found.code, "Immovable");
        let begins = "no WorkloadProfile says how a CronJob is moved; CronJob cannot be moved with its state: its controller may";
        assert!(found.message.starts_with(begins), "{}", found.message);
        let hint = found.hint.unwrap_or_default();
        assert!(hint.starts_with("it would take an observedGeneration"), "{hint}");
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
