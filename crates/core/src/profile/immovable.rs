//! Kinds that can't be moved with their state, whatever a profile says, and why: what their operators lack.

use cutover_karmada::name::Gvk;

/// Kinds of one operator.
#[derive(Clone, Copy, Debug)]
pub struct Immovable {
    pub group: &'static str,
    pub kinds: &'static [&'static str],
    pub why: &'static str,
}

/// Facts: the API types of each operator, in the version that was current in 2026.
pub const IMMOVABLE: &[Immovable] = &[
    Immovable {
        group: "spark.apache.org",
        kinds: &["SparkApplication", "SparkCluster"],
        why: "Apache's Spark operator has no suspension: only a deletion stops them",
    },
    Immovable {
        group: "sparkoperator.k8s.io",
        kinds: &["ScheduledSparkApplication"],
        why: "its suspension only stops new runs, and those that are under way go on",
    },
    Immovable {
        group: "argoproj.io",
        kinds: &["Workflow"],
        why: "which of its nodes have finished is in its status, which stays behind",
    },
    Immovable {
        group: "argoproj.io",
        kinds: &["CronWorkflow"],
        why: "a tick in the midst of a stop is not to be seen, and could run in both clusters",
    },
    Immovable {
        group: "batch",
        kinds: &["CronJob"],
        why: "a tick in the midst of a stop is not to be seen, and could run in both clusters",
    },
    Immovable {
        group: "numaflow.numaproj.io",
        kinds: &["Pipeline"],
        why: "a pipeline that goes back in haste would leave messages in its buffer",
    },
    Immovable {
        group: "kafka.strimzi.io",
        kinds: &["KafkaConnector", "KafkaMirrorMaker2"],
        why: "whether the other Connect cluster goes on from the same offsets cannot be seen",
    },
    Immovable {
        group: "batch.volcano.sh",
        kinds: &["Job"],
        why: "it is stopped and resumed by objects of another kind, not by a field",
    },
    Immovable {
        group: "kafka.strimzi.io",
        kinds: &["Kafka"],
        why: "its operator does not stop it: MirrorMaker 2 moves its topics",
    },
    Immovable {
        group: "k8s.mariadb.com",
        kinds: &["MariaDB"],
        why: "a site is primary if its name says so, and Karmada gives both copies one name",
    },
    Immovable {
        group: "acid.zalan.do",
        kinds: &["postgresql"],
        why: "its status does not say what its operator has acted on, and a cluster that ran cannot safely become a standby",
    },
    Immovable {
        group: "elasticsearch.k8s.elastic.co",
        kinds: &["Elasticsearch"],
        why: "it cannot run without nodes, and its snapshots are calls of its own API",
    },
    Immovable {
        group: "redis.redis.opstreelabs.in",
        kinds: &["Redis", "RedisCluster"],
        why: "its operator can be told to leave it alone, not to stop it",
    },
    Immovable {
        group: "mysql.oracle.com",
        kinds: &["InnoDBCluster"],
        why: "it needs one instance at least",
    },
    Immovable {
        group: "scylla.scylladb.com",
        kinds: &["ScyllaCluster"],
        why: "its operator does not stop it: it replicates to a second site by itself",
    },
    Immovable {
        group: "minio.min.io",
        kinds: &["Tenant"],
        why: "its operator does not stop it: it replicates to a second site by itself",
    },
    Immovable {
        group: "planetscale.com",
        kinds: &["VitessCluster"],
        why: "its operator does not stop it: it replicates to a second site by itself",
    },
    Immovable {
        group: "crdb.cockroachlabs.com",
        kinds: &["CrdbCluster"],
        why: "its operator does not stop it: it replicates to a second site by itself",
    },
];

/// Returns why no profile can move a kind; nothing of one of which that isn't known.
pub fn why_immovable(kind: &Gvk) -> Option<&'static str> {
    let mut all = IMMOVABLE.iter();
    let found = all.find(|one| one.group == kind.group && one.kinds.contains(&kind.kind.as_str()));
    found.map(|one| one.why)
}
