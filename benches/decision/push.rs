//! A push that changes one policy among many: what the gate makes of it, and the Migrations that it calls for.

use std::collections::BTreeMap;
use std::hint::black_box;

use cutover::api::{PolicyName, WorkloadRef};
use cutover::config::{Migrations, MigrationsMode};
use cutover::intent::driven::{self, Called, Cause, Driven, MigrationsByWorkload};
use cutover::intent::gate::{Ground, State, Tenant, Write};
use cutover::karmada::meta::{POLICY_NAME, POLICY_NAMESPACE};
use cutover::karmada::{Cluster, PropagationPolicy, PropagationSpec, ResourceBinding};
use cutover::name::{ClusterName, GroupKind};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{at, millis, times};

pub const NAMESPACE: &str = "shop";
const API_VERSION: &str = "flink.apache.org/v1beta1";
const KIND: &str = "FlinkDeployment";
const SYNC: &str = "fleet";
const SOURCE: &str = "fleet.git@main";
const ROUNDS: usize = 500;

/// What the policy that changes places.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// One workload; each of the others has a policy of its own.
    One,
    /// Every workload.
    All,
    /// Every workload that has no policy of its own: none, which is found out by looking at all of both.
    Outranked,
}

pub fn row(sizes: &[usize]) {
    println!(
        "\n| workloads | the policy places | Migrations that have ended | decided p50 | p99 | if it had not changed p50 | \
         answers read before p50 | Migrations |\n|---|---|---|---|---|---|---|---|"
    );
    for (shape, places) in [
        (Shape::One, "one of them"),
        (Shape::All, "all of them"),
        (Shape::Outranked, "none: all have their own"),
    ] {
        for &size in sizes {
            for ended in [0, size] {
                show(shape, places, size, ended);
            }
        }
    }
}

fn show(shape: Shape, places: &str, size: usize, ended: usize) {
    let answers = Answers::of(shape, size, ended);
    let known = answers.read();
    let (changed, same) = (Pushed::to("west", shape), Pushed::to("east", shape));
    let expected = match shape {
        Shape::One => Some(1),
        Shape::All => Some(size.min(usize::try_from(settings().max_parallel).unwrap())),
        Shape::Outranked => None,
    };
    let set_off = decide(&known, &changed).map(|all| all.len());
    assert_eq!((set_off, decide(&known, &same)), (expected, None));
    let decided = times(ROUNDS, || decide(black_box(&known), black_box(&changed)));
    let unchanged = times(ROUNDS, || decide(black_box(&known), black_box(&same)));
    let read = times(ROUNDS, || black_box(&answers).read());
    println!(
        "| {size} | {places} | {ended} | {} | {} | {} | {} | {} |",
        millis(at(&decided, 50)),
        millis(at(&decided, 99)),
        millis(at(&unchanged, 50)),
        millis(at(&read, 50)),
        set_off.unwrap_or_default(),
    );
}

fn settings() -> Migrations {
    Migrations {
        mode: MigrationsMode::Auto,
        ..Migrations::default()
    }
}

/// A policy as a push has it.
struct Pushed {
    policy: PolicyName,
    object: Value,
    spec: PropagationSpec,
    write: Write,
}

impl Pushed {
    fn to(cluster: &str, shape: Shape) -> Self {
        let object = match shape {
            Shape::One => own(0, cluster),
            Shape::All => of_all(Some(NAMESPACE), cluster),
            Shape::Outranked => of_all(None, cluster),
        };
        let typed: PropagationPolicy = serde_json::from_value(object.clone()).unwrap();
        let policy = PolicyName {
            namespace: typed.metadata.namespace,
            name: typed.metadata.name.unwrap(),
        };
        Self {
            write: Write::Policy(policy.clone(), Some(Box::new(typed.spec.clone()))),
            policy,
            object,
            spec: typed.spec,
        }
    }
}

/// What is known of a control plane.
struct Known {
    ground: Ground,
    migrations: Vec<Value>,
}

/// Decides as a sync does that sets Migrations off; `None`: the policy goes out.
fn decide(known: &Known, pushed: &Pushed) -> Option<Vec<Value>> {
    let refusal = known.ground.judge(&pushed.write, None).err()?;
    let settings = settings();
    let automatic = driven::check_automatic(&settings, &pushed.object, &known.ground, &refusal);
    assert_eq!(automatic, Ok(()));
    let change = (&pushed.policy, Some(&pushed.spec));
    let called =
        driven::called_for(&known.ground, &refusal, change, &settings, |_| None, |_, _| false).unwrap();
    let own = known.migrations.iter().filter_map(Driven::of);
    let under_way = own.filter(|one| one.is_by(SYNC) && one.is_under_way()).count();
    let room = usize::try_from(settings.max_parallel).unwrap() - under_way;
    let there = MigrationsByWorkload::of(&known.migrations);
    let open: Vec<&Called> = called
        .iter()
        .filter(|called| is_open(&there, pushed, called))
        .collect();
    let cause = Cause {
        sync: SYNC,
        source: SOURCE,
        policy: &pushed.policy,
        wanted: &pushed.object,
    };
    let migrations = open.into_iter().take(room);
    Some(
        migrations
            .map(|called| driven::migration(called, cause, &settings, Timestamp::UNIX_EPOCH))
            .collect(),
    )
}

/// Nothing moves the workload, and nothing has failed to.
fn is_open(there: &MigrationsByWorkload<'_>, pushed: &Pushed, called: &Called) -> bool {
    let is_moving = there.about(called).any(|one| !driven::has_ended(one));
    let mut answers = there
        .about(called)
        .filter_map(Driven::of)
        .filter(|one| one.answers(called, &pushed.object));
    !is_moving && !answers.any(|one| one.has_failed())
}

/// What an API server answers to those who ask what there is.
struct Answers {
    bindings: Vec<u8>,
    templates: Vec<Vec<u8>>,
    policies: Vec<u8>,
    clusters: Vec<u8>,
    migrations: Vec<u8>,
}

impl Answers {
    /// So many workloads in east, and so many Migrations that brought them there.
    fn of(shape: Shape, size: usize, ended: usize) -> Self {
        let all = || 0..size;
        let mut policies = match shape {
            Shape::All => vec![of_all(Some(NAMESPACE), "east")],
            Shape::One | Shape::Outranked => all().map(|number| own(number, "east")).collect(),
        };
        if shape == Shape::Outranked {
            policies.push(of_all(None, "east"));
        }
        let owner = |number| match shape {
            Shape::All => "all".to_owned(),
            Shape::One | Shape::Outranked => job(number),
        };
        let bytes = |value: &Value| serde_json::to_vec(value).unwrap();
        Self {
            bindings: bytes(&all().map(binding).collect::<Value>()),
            templates: all()
                .map(|number| bytes(&template(number, &owner(number))))
                .collect(),
            policies: bytes(&Value::Array(policies)),
            clusters: bytes(
                &["east", "west", "north"]
                    .map(cluster)
                    .into_iter()
                    .collect::<Value>(),
            ),
            migrations: bytes(&(0..ended).map(migration).collect::<Value>()),
        }
    }

    fn read(&self) -> Known {
        let bindings: Vec<ResourceBinding> = serde_json::from_slice(&self.bindings).unwrap();
        let tenants = bindings
            .into_iter()
            .zip(&self.templates)
            .map(|(binding, template)| {
                let template: Value = serde_json::from_slice(template).unwrap();
                let annotations = &template["metadata"]["annotations"];
                let owner = annotations[POLICY_NAME].as_str();
                Tenant {
                    workload: GroupKind::new("flink.apache.org", KIND)
                        .key_of(&template)
                        .unwrap(),
                    owner: Some(named(Some(NAMESPACE), owner.unwrap())),
                    template,
                    binding,
                    state: State::Kept,
                    in_hand: None,
                }
            });
        let tenants: Vec<Tenant> = tenants.collect();
        let clusters: Vec<Cluster> = serde_json::from_slice(&self.clusters).unwrap();
        let clusters = clusters.into_iter().map(|cluster| {
            let name = cluster.metadata.name.clone().unwrap();
            (ClusterName::new(name), cluster)
        });
        let policies: Vec<PropagationPolicy> = serde_json::from_slice(&self.policies).unwrap();
        let policies = policies.into_iter().map(|policy| {
            let name = policy.metadata.name.unwrap();
            (named(policy.metadata.namespace.as_deref(), &name), policy.spec)
        });
        Known {
            ground: Ground {
                tenants,
                clusters: clusters.collect(),
                policies: policies.collect::<BTreeMap<_, _>>(),
                ..Ground::default()
            },
            migrations: serde_json::from_slice(&self.migrations).unwrap(),
        }
    }
}

fn named(namespace: Option<&str>, name: &str) -> PolicyName {
    PolicyName {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    }
}

pub fn job(number: usize) -> String {
    format!("orders-{number}")
}

/// A policy of one workload.
pub fn own(number: usize, cluster: &str) -> Value {
    let selector =
        json!({"apiVersion": API_VERSION, "kind": KIND, "namespace": NAMESPACE, "name": job(number)});
    policy(Some(NAMESPACE), &job(number), &selector, cluster)
}

/// A policy of all workloads, of their namespace or of the whole control plane.
fn of_all(namespace: Option<&str>, cluster: &str) -> Value {
    let selector = json!({"apiVersion": API_VERSION, "kind": KIND, "namespace": NAMESPACE});
    policy(namespace, "all", &selector, cluster)
}

fn policy(namespace: Option<&str>, name: &str, selector: &Value, cluster: &str) -> Value {
    let kind = if namespace.is_some() {
        "PropagationPolicy"
    } else {
        "ClusterPropagationPolicy"
    };
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": metadata,
        "spec": {"resourceSelectors": [selector], "propagateDeps": true, "placement": placement(cluster)},
    })
}

fn placement(cluster: &str) -> Value {
    json!({
        "clusterAffinity": {"clusterNames": [cluster]},
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
    })
}

/// A workload as Git has it.
pub fn manifest(number: usize) -> Value {
    let resource = json!({"resource": {"memory": "1024m", "cpu": 1}});
    json!({
        "apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": job(number), "namespace": NAMESPACE},
        "spec": {
            "image": "registry.example.org/shop/orders:1.4.2", "flinkVersion": "v1_20", "serviceAccount": "flink",
            "flinkConfiguration": {
                "taskmanager.numberOfTaskSlots": "1", "high-availability.type": "kubernetes",
                "state.savepoints.dir": "s3://state/savepoints", "state.checkpoints.dir": "s3://state/checkpoints",
            },
            "jobManager": resource, "taskManager": resource,
            "job": {
                "jarURI": "local:///opt/orders.jar", "parallelism": 1, "upgradeMode": "savepoint", "state": "running",
            },
        },
    })
}

/// The annotations by which Karmada notes a workload's policy.
pub fn owned_by(policy: &str) -> Value {
    json!({POLICY_NAMESPACE: NAMESPACE, POLICY_NAME: policy})
}

/// A workload as the control plane has it.
fn template(number: usize, owner: &str) -> Value {
    let mut template = manifest(number);
    template["metadata"]["uid"] = json!(uid(number));
    template["metadata"]["labels"] = json!({"app": job(number)});
    template["metadata"]["annotations"] = owned_by(owner);
    template["status"] = status();
    template
}

fn uid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

fn status() -> Value {
    json!({
        "observedGeneration": 1, "lifecycleState": "STABLE", "jobManagerDeploymentStatus": "READY",
        "jobStatus": {
            "jobId": "0a1b2c3d4e5f60718293a4b5c6d7e8f9", "jobName": "orders", "state": "RUNNING",
            "startTime": "1767225600000", "updateTime": "1767225660000",
        },
    })
}

pub fn binding(number: usize) -> Value {
    json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": format!("{}-flinkdeployment", job(number)), "namespace": NAMESPACE},
        "spec": {
            "resource": {"apiVersion": API_VERSION, "kind": KIND, "namespace": NAMESPACE, "name": job(number)},
            "propagateDeps": true, "schedulerName": "default-scheduler", "placement": placement("east"),
            "clusters": [{"name": "east"}],
        },
        "status": {
            "schedulerObservedGeneration": 2,
            "aggregatedStatus": [{
                "clusterName": "east", "applied": true, "health": "Healthy", "status": status(),
            }],
        },
    })
}

pub fn cluster(name: &str) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "spec": {"syncMode": "Push"},
        "status": {"apiEnablements": [{
            "groupVersion": API_VERSION, "resources": [{"kind": KIND, "name": "flinkdeployments"}],
        }]},
    })
}

/// A Migration that a sync has set off and that is over.
fn migration(number: usize) -> Value {
    let called = Called {
        workload: WorkloadRef {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            name: job(number),
        },
        namespace: NAMESPACE.to_owned(),
        uid: uid(number),
        from: ClusterName::new("west"),
        to: ClusterName::new("east"),
        open: vec![ClusterName::new("east")],
        successor: None,
    };
    let (policy, wanted) = (named(Some(NAMESPACE), &job(number)), own(number, "east"));
    let cause = Cause {
        sync: SYNC,
        source: SOURCE,
        policy: &policy,
        wanted: &wanted,
    };
    let mut migration = driven::migration(&called, cause, &settings(), Timestamp::UNIX_EPOCH);
    migration["status"] = json!({"phase": "Completed", "attempt": 1, "observedGeneration": 1});
    migration
}
