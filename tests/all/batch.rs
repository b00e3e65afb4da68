//! Runs to completion, whose operators say that they are suspended before their pods are gone, and never suspend what has ended.

use std::sync::Arc;
use std::time::Duration;

use cutover::api::Phase;
use cutover::sandbox::api::{DeleteOptions, ListOptions, Patch, Resource, WriteOptions};
use cutover::sandbox::member::Timings;
use cutover::sandbox::member::batch::{ENDS, JOB, Kind, OTHERS, SUCCEEDED, TRAININGS};
use cutover::sandbox::{World, WorldOptions};
use serde_json::{Value, json};

use crate::support::fleet::opened;
use crate::support::plane::{NAMESPACE, Plane, settings};
use crate::support::wait::until;

const MIGRATIONS: Resource = Resource::new("cutover.dev", "migrations");
/// How long a move may take.
const PATIENCE: Duration = Duration::from_mins(1);
const CONTAINER: &str =
    "{containers: [{name: main, image: 'train:1', resources: {requests: {cpu: 1}}}], restartPolicy: Never}";

/// The spec of a workload, as its users write it.
fn spec(kind: &Kind) -> String {
    let template = format!("{{metadata: {{labels: {{workload: train}}}}, spec: {CONTAINER}}}");
    let ray = format!(
        "{{headGroupSpec: {{rayStartParams: {{}}, template: {template}}}, workerGroupSpecs: [{{groupName: small, replicas: 2, \
         minReplicas: 1, maxReplicas: 4, rayStartParams: {{}}, template: {template}}}]}}"
    );
    let topic = "{kafka: {brokers: ['kafka.example.org:9092'], topic: orders, consumerGroup: orders}}";
    match kind.kind {
        "Job" => format!("{{template: {{spec: {CONTAINER}}}}}"),
        "SparkApplication" => {
            "{type: Scala, mode: cluster, sparkVersion: 4.0.0, image: 'train:1', mainApplicationFile: 'local:///app.jar', \
             driver: {cores: 1}, executor: {instances: 1}}"
                .to_owned()
        }
        "RayJob" => format!(
            "{{entrypoint: python train.py, shutdownAfterJobFinishes: true, rayClusterSpec: {{headGroupSpec: {{rayStartParams: {{}}, \
             template: {template}}}}}}}"
        ),
        "PyTorchJob" => training("pytorchReplicaSpecs", "Master"),
        "TFJob" => without_run_policy(&training("tfReplicaSpecs", "Worker")),
        "XGBoostJob" => training("xgbReplicaSpecs", "Master"),
        "PaddleJob" => training("paddleReplicaSpecs", "Worker"),
        "JAXJob" => training("jaxReplicaSpecs", "Worker"),
        "JobSet" => format!(
            "{{replicatedJobs: [{{name: workers, template: {{spec: {{template: {{spec: {CONTAINER}}}}}}}}}]}}"
        ),
        "TrainJob" => "{runtimeRef: {name: torch-distributed}, trainer: {numNodes: 1}}".to_owned(),
        "MPIJob" => format!(
            "{{runPolicy: {{cleanPodPolicy: Running}}, mpiReplicaSpecs: {{Launcher: {{replicas: 1, template: {{spec: {CONTAINER}}}}}, \
             Worker: {{replicas: 2, template: {{spec: {CONTAINER}}}}}}}}}"
        ),
        "RayCluster" => ray,
        "RayService" => format!("{{serveConfigV2: '', rayClusterDeletionDelaySeconds: 60, rayClusterConfig: {ray}}}"),
        "KafkaConnect" => "{replicas: 2, bootstrapServers: 'kafka.example.org:9092', groupId: train, configStorageTopic: train-config, \
             offsetStorageTopic: train-offsets, statusStorageTopic: train-status}"
            .to_owned(),
        // A grace of its own, which is shorter than its buffers take.
        "Pipeline" => format!(
            "{{lifecycle: {{pauseGracePeriodSeconds: 1}}, vertices: [{{name: in, source: {topic}}}, {{name: out, sink: {{log: {{}}}}}}], \
             edges: [{{from: in, to: out}}]}}"
        ),
        "MonoVertex" => format!("{{lifecycle: {{}}, source: {topic}, sink: {{log: {{}}}}}}"),
        "StatefulSet" => scaled(""),
        "Rollout" => scaled(", strategy: {canary: {}}"),
        other => panic!("{other}"),
    }
}

fn training(replicas: &str, role: &str) -> String {
    format!("{{runPolicy: {{}}, {replicas}: {{{role}: {{replicas: 1, template: {{spec: {CONTAINER}}}}}}}}}")
}

/// The spec of what is held by its replicas.
fn scaled(more: &str) -> String {
    format!(
        "{{replicas: 2, selector: {{matchLabels: {{workload: train}}}}, template: {{metadata: {{labels: {{workload: train}}}}, spec: \
         {{containers: [{{name: main, image: 'train:1', resources: {{requests: {{cpu: 1}}}}}}]}}}}{more}}}"
    )
}

/// As in most examples of the operator.
fn without_run_policy(text: &str) -> String {
    assert!(text.contains("runPolicy: {}, "), "{text}");
    text.replace("runPolicy: {}, ", "")
}

pub(crate) fn template(kind: &Kind) -> String {
    format!(
        "apiVersion: {}\nkind: {}\nmetadata: {{name: train, namespace: shop}}\nspec: {}\n",
        kind.api_version(),
        kind.kind,
        spec(kind)
    )
}

fn policy(kind: &Kind) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: train, namespace: shop}}
spec:
  resourceSelectors: [{{apiVersion: {}, kind: {}, name: train}}]
  placement: {{clusterAffinity: {{clusterNames: [east, west]}}, spreadConstraints: [{{spreadByField: cluster, maxGroups: 1, minGroups: 1}}]}}
",
        kind.api_version(),
        kind.kind
    )
}

pub(crate) fn migration(kind: &Kind, from: &str, more: &str) -> String {
    let to = if from == "east" { "west" } else { "east" };
    format!(
        "apiVersion: cutover.dev/v1alpha1
kind: Migration
metadata: {{name: move, namespace: shop}}
spec:
  workload: {{apiVersion: {}, kind: {}, name: train}}
  to: {to}
  verify: {{healthyFor: 1s}}
{more}",
        kind.api_version(),
        kind.kind
    )
}

/// A kind that workloads need beside them; the members have it, and the control plane does not.
pub(crate) struct Needed {
    pub(crate) group: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) version: &'static str,
    pub(crate) scope: &'static str,
}

/// What a Pipeline has its buffers in.
pub(crate) const BUFFERS: Needed = Needed {
    group: "numaflow.numaproj.io",
    kind: "InterStepBufferService",
    plural: "interstepbufferservices",
    version: "v1alpha1",
    scope: "Namespaced",
};

impl Needed {
    fn resource(&self) -> Resource {
        Resource::new(self.group, self.plural)
    }

    fn namespace(&self) -> Option<&'static str> {
        (self.scope == "Namespaced").then_some("shop")
    }

    /// Installs it in every member.
    pub(crate) fn install(&self, world: &World) {
        let Self {
            group,
            kind,
            plural,
            version,
            scope,
        } = self;
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": scope,
                "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{
                    "name": version, "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open}}},
                }],
            },
        });
        for member in world.members() {
            member.api.install(&definition).unwrap();
        }
    }

    pub(crate) fn create(&self, world: &World, cluster: &str, name: &str, labels: &Value) {
        let mut object = json!({
            "apiVersion": format!("{}/{}", self.group, self.version), "kind": self.kind,
            "metadata": {"name": name, "labels": labels}, "spec": {},
        });
        if let Some(namespace) = self.namespace() {
            object["metadata"]["namespace"] = json!(namespace);
        }
        let (api, writer) = (&world.member(cluster).api, WriteOptions::manager("kubectl"));
        api.create(&self.resource(), self.namespace(), object, &writer)
            .unwrap();
    }

    pub(crate) fn delete(&self, world: &World, cluster: &str, name: &str) {
        let api = &world.member(cluster).api;
        api.delete(
            &self.resource(),
            self.namespace(),
            name,
            &DeleteOptions::default(),
        )
        .unwrap();
    }
}

/// Lets every member have the operator of a kind.
pub(crate) fn operate(world: &World, kind: &'static Kind) {
    // Those of `apps` are Kubernetes' own.
    if kind.group != "apps" {
        let servers = world.members().map(|member| &member.api);
        for server in servers.chain([world.control_plane()]) {
            server.install(&kind.definition()).unwrap();
        }
    }
    for member in world.members() {
        member.simulators(|simulators| simulators.simulate(kind));
    }
}

pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) plane: Plane,
    kind: &'static Kind,
}

impl Stage {
    /// The workload runs in one of two clusters.
    pub(crate) async fn set(kind: &'static Kind) -> (Self, &'static str) {
        Self::set_as(kind, &template(kind)).await
    }

    /// The workload runs by this template.
    pub(crate) async fn set_as(kind: &'static Kind, template: &str) -> (Self, &'static str) {
        Self::set_in(WorldOptions::fast(), kind, template).await
    }

    /// The same where its pods end long after they are told to: a hand-over that doesn't wait for them is faster.
    pub(crate) async fn set_slowly(kind: &'static Kind) -> (Self, &'static str) {
        let options = WorldOptions {
            timings: Timings {
                teardown: Duration::from_millis(1500),
                ..Timings::default()
            },
            ..WorldOptions::fast()
        };
        Self::set_in(options, kind, &template(kind)).await
    }

    async fn set_in(options: WorldOptions, kind: &'static Kind, template: &str) -> (Self, &'static str) {
        let world = World::start(options);
        if kind.kind != JOB.kind {
            operate(&world, kind);
        }
        if kind.kind == "Pipeline" {
            BUFFERS.install(&world);
        }
        let policy = policy(kind);
        let all = [NAMESPACE, ("policy.yaml", &*policy), ("run.yaml", template)];
        let plane = Plane::on(world.control_plane(), &all);
        plane.run().await;
        let stage = Self { world, plane, kind };
        until("it runs", || !stage.running().is_empty()).await;
        let [from] = stage.running()[..] else {
            panic!("{:?}", stage.running())
        };
        if kind.kind == "Pipeline" {
            for cluster in ["east", "north", "west"] {
                BUFFERS.create(&stage.world, cluster, "default", &json!({}));
            }
        }
        (stage, from)
    }

    fn resource(&self) -> Resource {
        Resource::new(self.kind.group, self.kind.plural)
    }

    /// The pods of it in a cluster that have not ended. Those that only watch it are none of them.
    pub(crate) fn pods(&self, cluster: &str) -> Vec<Arc<Value>> {
        const PODS: Resource = Resource::new("", "pods");
        let api = &self.world.member(cluster).api;
        let pods = api.list(&PODS, Some("shop"), &ListOptions::default());
        let runs = |pod: &Arc<Value>| {
            let watches = pod["metadata"]["labels"]["app.kubernetes.io/component"].as_str();
            pod.pointer("/status/containerStatuses/0/state/terminated")
                .is_none_or(Value::is_null)
                && !watches.is_some_and(|component| component.ends_with("daemon"))
        };
        pods.map(|pods| pods.items.into_iter().filter(runs).collect())
            .unwrap_or_default()
    }

    /// The clusters in which a pod of it is that has not ended.
    pub(crate) fn running(&self) -> Vec<&'static str> {
        let has_pod = |cluster: &&str| !self.pods(cluster).is_empty();
        ["east", "north", "west"].into_iter().filter(has_pod).collect()
    }

    /// The copy in a cluster.
    pub(crate) fn copy(&self, cluster: &str) -> Value {
        let api = &self.world.member(cluster).api;
        let copy = api.get(&self.resource(), Some("shop"), "train");
        copy.map(|copy| (*copy).clone()).unwrap_or_default()
    }

    pub(crate) fn status(&self) -> Value {
        self.status_of("move")
    }

    pub(crate) fn status_of(&self, name: &str) -> Value {
        let found = self.plane.get(&MIGRATIONS, Some("shop"), name);
        found.map(|found| opened(&found["status"])).unwrap_or_default()
    }

    fn phase(&self) -> Phase {
        self.phase_of("move")
    }

    pub(crate) fn phase_of(&self, name: &str) -> Phase {
        serde_json::from_value(self.status_of(name)["phase"].clone()).unwrap_or_default()
    }

    async fn ends(&self) -> Phase {
        self.end_of("move").await
    }

    pub(crate) async fn end_of(&self, name: &str) -> Phase {
        let is_over = || self.phase_of(name).is_terminal();
        let what = format!("the move of a {} ends", self.kind.kind);
        if tokio::time::timeout(PATIENCE, until(&what, is_over))
            .await
            .is_err()
        {
            panic!("{what}: {:#}", self.status_of(name));
        }
        self.phase_of(name)
    }

    /// Writes annotations of the copy in a cluster.
    pub(crate) fn annotate(&self, cluster: &str, annotations: &Value) {
        let api = &self.world.member(cluster).api;
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let writer = WriteOptions::manager("operator");
        api.patch(&self.resource(), Some("shop"), "train", None, &patch, &writer)
            .unwrap();
    }

    /// Changes the template as another client.
    fn edit(&self, change: Value) {
        let (patch, writer) = (Patch::Merge(change), WriteOptions::manager("kubectl"));
        let server = self.world.control_plane();
        server
            .patch(&self.resource(), Some("shop"), "train", None, &patch, &writer)
            .unwrap();
    }

    async fn waits_for_approval(&self) {
        let waits = || self.status().pointer("/waitingFor/code") == Some(&json!("Approval"));
        until("it waits for approval", waits).await;
    }

    /// Lets the run in a cluster come to its end.
    async fn end_run(&self, cluster: &str, how: &str) {
        self.annotate(cluster, &json!({ENDS: how}));
        until("its pod has ended", || self.running().is_empty()).await;
    }

    pub(crate) fn is_clean(&self) {
        let ledger = self.world.ledger();
        assert!(ledger.verdict().is_clean(), "{}: {ledger}", self.kind.kind);
    }
}

fn kinds() -> impl Iterator<Item = &'static Kind> {
    std::iter::once(&JOB).chain(&OTHERS)
}

/// Guards `noPods` of each: what their status says of a suspension is written while their pods end. The launcher of an `MPIJob`
/// outlives its workers.
#[tokio::test]
async fn a_run_moves_and_its_pods_are_gone_before_it_goes_on_elsewhere() {
    for kind in kinds().chain(&TRAININGS) {
        let (stage, from) = Stage::set_slowly(kind).await;
        let _running = stage.plane.start();
        stage.plane.push(&[("move.yaml", &migration(kind, from, ""))]);
        let end = stage.ends().await;
        assert_eq!(end, Phase::Completed, "{}: {:#}", kind.kind, stage.status());
        stage.is_clean();
        let runs = stage.world.ledger().verdict().runs;
        assert_eq!(runs.len(), 2, "{}: {}", kind.kind, stage.world.ledger());
        assert!(!stage.running().contains(&from), "{}", kind.kind);
    }
}

fn pytorch() -> &'static Kind {
    kinds().find(|kind| kind.kind == "PyTorchJob").unwrap()
}

/// The suspension stands in the `runPolicy`, which the pin creates and takes away.
#[tokio::test]
async fn a_run_whose_template_lacks_what_its_hold_stands_in_moves_there_and_back() {
    let kind = pytorch();
    let (stage, from) = Stage::set_as(kind, &without_run_policy(&template(kind))).await;
    let to = if from == "east" { "west" } else { "east" };
    let _running = stage.plane.start();
    stage.plane.push(&[("move.yaml", &migration(kind, from, ""))]);
    assert_eq!(stage.ends().await, Phase::Completed, "{:#}", stage.status());
    assert_eq!(
        stage.copy(to)["spec"].get("runPolicy"),
        None,
        "{:#}",
        stage.copy(to)
    );
    let back = migration(kind, to, "").replace("name: move,", "name: back,");
    stage.plane.push(&[("back.yaml", &back)]);
    let end = stage.end_of("back").await;
    assert_eq!(end, Phase::Completed, "{:#}", stage.status_of("back"));
    assert_eq!(stage.running(), [from]);
    assert_eq!(stage.copy(from)["spec"].get("runPolicy"), None);
    stage.is_clean();
    assert_eq!(stage.world.ledger().verdict().runs.len(), 3);
}

/// A pin that goes on creating what the template has got would keep that from the copies, and one that doesn't create what it has lost
/// can't be applied.
#[tokio::test]
async fn what_a_template_gets_and_loses_in_mid_flight_reaches_a_copy_that_stays_held() {
    let kind = pytorch();
    let (stage, from) = Stage::set_as(kind, &without_run_policy(&template(kind))).await;
    let to = if from == "east" { "west" } else { "east" };
    let _running = stage.plane.start();
    let waits = migration(kind, from, "  approval: {before: [Capture]}\n");
    stage.plane.push(&[("move.yaml", &waits)]);
    stage.waits_for_approval().await;
    let run_policy = |cluster: &str| stage.copy(cluster)["spec"]["runPolicy"].clone();
    assert_eq!(run_policy(to), json!({"suspend": true}));
    for policy in [json!("All"), Value::Null, json!("All")] {
        let (edit, held) = if policy.is_null() {
            (Value::Null, json!({"suspend": true}))
        } else {
            let held = json!({"cleanPodPolicy": policy, "suspend": true});
            (json!({"cleanPodPolicy": policy}), held)
        };
        stage.edit(json!({"spec": {"runPolicy": edit}}));
        until("the held copy has the change", || run_policy(to) == held).await;
        assert_eq!(stage.running(), [from]);
    }
    let approved = format!("{waits}  approvals: [{{phase: Capture, attempt: 1}}]\n");
    stage.plane.push(&[("move.yaml", &approved)]);
    assert_eq!(stage.ends().await, Phase::Completed, "{:#}", stage.status());
    assert_eq!(run_policy(to), json!({"cleanPodPolicy": "All"}));
    stage.is_clean();
    assert_eq!(stage.world.ledger().verdict().runs.len(), 2);
}

#[tokio::test]
async fn a_run_that_has_ended_is_not_run_again_elsewhere() {
    for kind in kinds() {
        for how in ["well", "badly"] {
            let (stage, from) = Stage::set(kind).await;
            stage.end_run(from, how).await;
            let _running = stage.plane.start();
            stage.plane.push(&[("move.yaml", &migration(kind, from, ""))]);
            stage.ends().await;
            let findings = stage.status()["findings"].clone();
            assert_eq!(
                findings[0]["code"],
                "Finished",
                "{} {how}: {:#}",
                kind.kind,
                stage.status()
            );
            assert_eq!(stage.world.ledger().verdict().runs.len(), 1, "{}", kind.kind);
        }
    }
}

#[tokio::test]
async fn a_run_that_ends_before_it_is_stopped_is_left_as_it_is() {
    for kind in kinds() {
        for how in ["well", "badly"] {
            let (stage, from) = Stage::set(kind).await;
            let _running = stage.plane.start();
            let waits = migration(kind, from, "  approval: {before: [Capture]}\n");
            stage.plane.push(&[("move.yaml", &waits)]);
            stage.waits_for_approval().await;
            stage.end_run(from, how).await;
            let approved = format!("{waits}  approvals: [{{phase: Capture, attempt: 1}}]\n");
            stage.plane.push(&[("move.yaml", &approved)]);
            stage.ends().await;
            let status = stage.status();
            assert_eq!(status["phase"], "RolledBack", "{} {how}: {status:#}", kind.kind);
            assert_eq!(
                stage.world.ledger().verdict().runs.len(),
                1,
                "{} {how}",
                kind.kind
            );
        }
    }
}

#[tokio::test]
async fn a_run_that_ends_in_the_target_has_arrived() {
    let (stage, from) = Stage::set(&JOB).await;
    let to = if from == "east" { "west" } else { "east" };
    let _running = stage.plane.start();
    let long = migration(&JOB, from, "").replace("healthyFor: 1s", "healthyFor: 5s");
    stage.plane.push(&[("move.yaml", &long)]);
    until("it runs there", || {
        stage.phase() == Phase::Verify && stage.running() == [to]
    })
    .await;
    stage.end_run(to, "well").await;
    let end = stage.ends().await;
    assert_eq!(end, Phase::Completed, "{:#}", stage.status());
    assert_eq!(stage.world.ledger().verdict().runs.len(), 2);
    stage.is_clean();
}

#[tokio::test]
async fn an_evacuation_leaves_what_has_ended_where_it_is() {
    const EVACUATIONS: Resource = Resource::new("cutover.dev", "evacuations");
    for how in ["well", "badly"] {
        let (stage, from) = Stage::set(&JOB).await;
        stage.end_run(from, how).await;
        let _running = stage.plane.start();
        let evacuation = format!(
            "apiVersion: cutover.dev/v1alpha1\nkind: Evacuation\nmetadata: {{name: empty}}\nspec: {{cluster: {from}, select: {{namespaces: \
             [shop]}}, verify: {{healthyFor: 1s}}}}\n"
        );
        stage.plane.push(&[("empty.yaml", &evacuation)]);
        let status = || {
            let found = stage.plane.get(&EVACUATIONS, None, "empty");
            found.map(|found| found["status"].clone()).unwrap_or_default()
        };
        let is_over = || ["Completed", "Failed"].contains(&status()["phase"].as_str().unwrap_or_default());
        until("the evacuation ends", is_over).await;
        assert_eq!(status()["phase"], "Completed", "{how}: {:#}", status());
        assert_eq!(stage.world.ledger().verdict().runs.len(), 1, "{how}");
    }
}

/// Its state is elsewhere, and one copy at a time may write it: Karmada would begin in one cluster while it stops in the other.
#[tokio::test]
async fn a_push_that_moves_a_run_is_held_back_and_becomes_a_migration_where_that_is_asked_for() {
    for kind in kinds() {
        let (stage, from) = Stage::set(kind).await;
        let to = if from == "east" { "west" } else { "east" };
        let elsewhere = policy(kind).replace("[east, west]", &format!("[{to}]"));
        stage.plane.push(&[("policy.yaml", &elsewhere)]);
        let report = stage.plane.sync("main").await;
        let problems: Vec<String> = report.all_problems().iter().map(ToString::to_string).collect();
        let says = format!("would start in {to} while its copy in {from} may still run");
        assert!(problems.join("\n").contains(&says), "{problems:?}");
        assert_eq!(stage.running(), [from]);
        let _running = stage.plane.start();
        let automatic = elsewhere.replace(
            "namespace: shop}",
            "namespace: shop, annotations: {cutover.dev/migrations: auto}}",
        );
        stage.plane.push(&[("policy.yaml", &automatic)]);
        until("it runs there", || stage.running() == [to]).await;
        let runs = || stage.world.ledger().verdict().runs.len();
        until("its second run is known", || runs() == 2).await;
        stage.is_clean();
    }
}

/// It takes nothing along when it ends.
#[tokio::test]
async fn a_run_may_leave_git_with_its_policy() {
    let (stage, _) = Stage::set(&JOB).await;
    let prunes = settings("- {name: main, prune: true, pruneLimit: {objects: 100, percent: 100}}");
    stage.plane.push(&[("cutover.yaml", &prunes)]);
    stage.plane.run().await;
    stage.plane.push(&[("run.yaml", "# nothing\n")]);
    let pruned = stage.plane.pruned("main").await;
    assert_eq!(pruned.deleted.len(), 1, "{pruned:?}");
    until("it has ended", || stage.running().is_empty()).await;
}

/// Going back would run it a second time.
#[tokio::test]
async fn a_run_that_has_ended_in_the_target_is_not_brought_back() {
    let (stage, from) = Stage::set(&JOB).await;
    let to = if from == "east" { "west" } else { "east" };
    let _running = stage.plane.start();
    let long = migration(&JOB, from, "").replace("healthyFor: 1s", "healthyFor: 10s");
    stage.plane.push(&[("move.yaml", &long)]);
    until("it runs there", || {
        stage.phase() == Phase::Verify && stage.running() == [to]
    })
    .await;
    stage.end_run(to, "well").await;
    stage.plane.push(&[("move.yaml", &(long + "  abort: true\n"))]);
    assert_eq!(stage.ends().await, Phase::Completed, "{:#}", stage.status());
    assert_eq!(stage.world.ledger().verdict().runs.len(), 2);
    assert_eq!(
        stage.status()["findings"][0]["code"],
        "NotRolledBack",
        "{:#}",
        stage.status()
    );
}

/// Its completions are counted in its status, which stays behind.
#[tokio::test]
async fn a_move_says_how_much_of_a_run_is_done_again() {
    let (stage, from) = Stage::set(&JOB).await;
    let to = if from == "east" { "west" } else { "east" };
    stage.annotate(from, &json!({SUCCEEDED: "60"}));
    let is_counted = || stage.copy(from)["status"]["succeeded"] == 60;
    until("its completions are counted", is_counted).await;
    let _running = stage.plane.start();
    stage.plane.push(&[("move.yaml", &migration(&JOB, from, ""))]);
    assert_eq!(stage.ends().await, Phase::Completed, "{:#}", stage.status());
    let says =
        format!("completions that {to} does again, because only the copy in {from} has counted them: 60");
    let evidence = stage.status()["steps"].to_string();
    assert!(evidence.contains(&says), "{evidence}");
}

/// Its controller has said that the copy is suspended before the copy was let run, and is about to act on that order.
#[tokio::test]
async fn a_target_whose_controller_is_behind_is_not_taken_for_one_that_has_stopped() {
    let (stage, from) = Stage::set(&JOB).await;
    let to = if from == "east" { "west" } else { "east" };
    let _running = stage.plane.start();
    let waits = migration(&JOB, from, "  approval: {before: [Handoff]}\n");
    stage.plane.push(&[("move.yaml", &waits)]);
    until("it waits for approval", || {
        stage
            .status()
            .pointer("/waitingFor/approval")
            .is_some_and(|phase| phase == "Handoff")
    })
    .await;
    let says_suspended = || {
        let conditions = stage.copy(to)["status"]["conditions"].clone();
        conditions.as_array().is_some_and(|all| {
            all.iter()
                .any(|condition| condition["type"] == "Suspended" && condition["status"] == "True")
        })
    };
    until("the target says that it is suspended", says_suspended).await;
    let behind = Duration::from_secs(5);
    stage.world.faults().lag(&format!("operators/{to}"), behind);
    let approved = format!("{waits}  approvals: [{{phase: Handoff, attempt: 1}}]\n");
    stage.plane.push(&[("move.yaml", &approved)]);
    let is_let_run = || stage.copy(to)["spec"]["suspend"] == false;
    until("the target is let run", is_let_run).await;
    assert!(says_suspended(), "{:#}", stage.copy(to));
    stage
        .plane
        .push(&[("move.yaml", &(approved + "  abort: true\n"))]);
    assert_eq!(stage.ends().await, Phase::Aborted, "{:#}", stage.status());
    assert_eq!(stage.running(), [from]);
    stage.is_clean();
}
