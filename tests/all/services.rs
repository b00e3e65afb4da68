//! Services whose operators say that they have stopped before they have, or that they run when they don't: `RayCluster`, `RayService`,
//! `KafkaConnect`, Numaflow's Pipeline and `MonoVertex`, `StatefulSet` and the Rollout of Argo Rollouts, each moved with its operator
//! simulated after its source.

use std::collections::BTreeSet;
use std::time::Duration;

use cutover::api::Phase;
use cutover::cluster::{Cluster, Limits};
use cutover::reconcile;
use cutover::report::review::Verdict;
use cutover::sandbox::api::{Resource, WriteOptions};
use cutover::sandbox::member::batch::{Kind, OTHERS, SCALED, SERVICES};
use cutover::sandbox::member::kafka_connect::FAILS;
use cutover::sandbox::member::pipeline::DRAINS;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::batch::{BUFFERS, Needed, Stage, migration, template};
use crate::kinds::{SCALED_OBJECTS, scaler};
use crate::support::wait::until;

/// What a `KafkaConnect` has its connectors in.
const CONNECTORS: Needed = Needed {
    group: "kafka.strimzi.io",
    kind: "KafkaConnector",
    plural: "kafkaconnectors",
    version: "v1",
    scope: "Namespaced",
};

/// What a `TrainJob` runs by.
const RUNTIMES: Needed = Needed {
    group: "trainer.kubeflow.org",
    kind: "ClusterTrainingRuntime",
    plural: "clustertrainingruntimes",
    version: "v1alpha1",
    scope: "Cluster",
};

fn kind(name: &str) -> &'static Kind {
    let (services, scaled): (&'static [Kind], &'static [Kind]) = (&SERVICES, &SCALED);
    let mut all = services.iter().chain(scaled);
    all.find(|kind| kind.kind == name).unwrap()
}

fn other(cluster: &str) -> &'static str {
    if cluster == "east" { "west" } else { "east" }
}

/// A template of a Pipeline whose buffers take so many seconds.
fn filled(seconds: u32) -> String {
    let name = "name: train, namespace: shop";
    template(kind("Pipeline")).replace(name, &format!("{name}, annotations: {{{DRAINS}: '{seconds}'}}"))
}

/// Guards `noPods` of `RayService`, `KafkaConnect` and `MonoVertex`: what their status says of a stop is written while their pods end. Two
/// of a `RayService` may answer, but not where the source is to stop first. The operators of the source look late: what a status says
/// until then is of the time before.
#[tokio::test]
async fn a_service_moves_and_its_pods_are_gone_before_it_goes_on_elsewhere() {
    for kind in &SERVICES {
        moves_when_its_pods_are_gone(kind).await;
    }
}

/// Guards `noPods` of Argo's Rollout, whose status no longer counts pods that end. The pods of a `StatefulSet` end one after the other.
#[tokio::test]
async fn what_is_held_by_its_replicas_moves_and_its_pods_are_gone_before_it_goes_on_elsewhere() {
    for kind in &SCALED {
        moves_when_its_pods_are_gone(kind).await;
    }
}

async fn moves_when_its_pods_are_gone(kind: &'static Kind) {
    let (stage, from) = Stage::set_slowly(kind).await;
    let operators = format!("operators/{from}");
    stage.world.faults().lag(&operators, Duration::from_millis(300));
    let _running = stage.plane.start();
    stage.plane.push(&[("move.yaml", &migration(kind, from, ""))]);
    let end = stage.end_of("move").await;
    assert_eq!(end, Phase::Completed, "{}: {:#}", kind.kind, stage.status());
    stage.is_clean();
    let ledger = stage.world.ledger();
    let verdict = ledger.verdict();
    assert_eq!(verdict.runs.len(), 2, "{}: {ledger}", kind.kind);
    assert!(verdict.max_stateless_at_once <= 1, "{}: {ledger}", kind.kind);
    assert_eq!(stage.running(), [other(from)], "{}", kind.kind);
}

/// Guards `ScaledFromZero` for what is held by its replicas, whatever its kind: who starts it from none undoes the hold.
#[tokio::test]
async fn what_an_autoscaler_starts_from_zero_is_not_moved() {
    let hpa = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "spec": {"minReplicas": 0, "maxReplicas": 5, "scaleTargetRef": target(kind("StatefulSet"))},
    });
    let hpas = Resource::new("autoscaling", "horizontalpodautoscalers");
    is_refused_beside(kind("StatefulSet"), &hpas, hpa).await;
    let scaled_object = json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
        "spec": {"triggers": [], "scaleTargetRef": target(kind("KafkaConnect"))},
    });
    is_refused_beside(kind("KafkaConnect"), &SCALED_OBJECTS, scaled_object).await;
}

fn target(kind: &Kind) -> Value {
    json!({"apiVersion": kind.api_version(), "kind": kind.kind, "name": "train"})
}

/// A workload stays where it is, as something in its cluster scales it.
async fn is_refused_beside(kind: &'static Kind, scalers: &Resource, mut scaler_of_it: Value) {
    let (stage, from) = Stage::set(kind).await;
    let member = &stage.world.member(from).api;
    member.install(&scaler("keda.sh", "ScaledObject")).unwrap();
    scaler_of_it["metadata"] = json!({"name": "scales", "namespace": "shop"});
    let writer = WriteOptions::manager("person");
    member
        .create(scalers, Some("shop"), scaler_of_it, &writer)
        .unwrap();
    let _running = stage.plane.start();
    stage.plane.push(&[("move.yaml", &migration(kind, from, ""))]);
    let (end, status) = (stage.end_of("move").await, stage.status());
    assert_eq!(end, Phase::Failed, "{}: {status:#}", kind.kind);
    assert_eq!(status["findings"][0]["code"], "ScaledFromZero", "{status:#}");
    assert_eq!(stage.running(), [from], "{}", kind.kind);
    stage.is_clean();
}

/// Guards what each says of a copy that has moved once. `observedWhen` of `RayCluster`: the pin leaves a generation that its operator
/// never writes down. `suspendedWhen` and `capture` of Pipeline: the drain of the first stop is not that of the second.
#[tokio::test]
async fn a_service_moves_back_as_it_has_come() {
    for kind in [kind("RayCluster"), kind("Pipeline")] {
        let (stage, from) = Stage::set(kind).await;
        let _running = stage.plane.start();
        stage.plane.push(&[("move.yaml", &migration(kind, from, ""))]);
        assert_eq!(stage.end_of("move").await, Phase::Completed, "{}", kind.kind);
        let back = migration(kind, other(from), "").replace("name: move,", "name: back,");
        stage
            .plane
            .push(&[("move.yaml", "# done\n"), ("back.yaml", &back)]);
        let end = stage.end_of("back").await;
        let status = stage.status_of("back");
        assert_eq!(end, Phase::Completed, "{}: {status:#}", kind.kind);
        stage.is_clean();
        let ledger = stage.world.ledger();
        assert_eq!(ledger.verdict().runs.len(), 3, "{}: {ledger}", kind.kind);
        assert_eq!(stage.running(), [from], "{}", kind.kind);
    }
}

/// Guards the condition in `suspendedWhen` of `KafkaConnect`: the status of a reconciliation that failed says no replicas, too, while
/// the workers were told nothing, and one that ends by itself would be made again.
#[tokio::test]
async fn a_kafka_connect_whose_operator_fails_is_not_taken_for_stopped() {
    let kind = kind("KafkaConnect");
    let (stage, from) = Stage::set(kind).await;
    stage.annotate(from, &json!({FAILS: "true"}));
    let _running = stage.plane.start();
    stage.plane.push(&[("move.yaml", &migration(kind, from, ""))]);
    let is_waited_for = || {
        let status = stage.status();
        let reason = status["waitingFor"]["reason"].as_str().unwrap_or_default();
        reason.contains("not suspended yet")
    };
    until("its workers are waited for", is_waited_for).await;
    let status = stage.copy(from)["status"].clone();
    assert_eq!(status["replicas"], 0, "{status:#}");
    assert_eq!(status["conditions"][0]["type"], "NotReady", "{status:#}");
    assert_eq!(stage.running(), [from]);
    stage.annotate(from, &json!({FAILS: null}));
    assert_eq!(
        stage.end_of("move").await,
        Phase::Completed,
        "{:#}",
        stage.status()
    );
    stage.is_clean();
    assert_eq!(stage.running(), [other(from)]);
}

/// Its reconciliations are repeated all the time: one that fails after the stop says nothing of a target that runs as it should. Its order is
/// the one that it has carried out, and the workers that would write are seen to be gone.
#[tokio::test]
async fn a_stopped_kafka_connect_whose_operator_fails_later_takes_nothing_from_the_target() {
    const PAUSED: &str = "strimzi.io/pause-reconciliation";
    let kind = kind("KafkaConnect");
    let (stage, from) = Stage::set(kind).await;
    let _running = stage.plane.start();
    let wanted = migration(kind, from, "").replace("healthyFor: 1s", "healthyFor: 5s, timeout: 20s");
    stage.plane.push(&[("move.yaml", &wanted)]);
    until("the target is verified", || {
        stage.phase_of("move") == Phase::Verify
    })
    .await;
    // What follows a pause is reconciled again.
    stage.annotate(from, &json!({PAUSED: "true"}));
    let shows = |condition: &str| stage.copy(from)["status"]["conditions"][0]["type"] == condition;
    until("its operator pauses", || shows("ReconciliationPaused")).await;
    stage.annotate(from, &json!({PAUSED: null, FAILS: "true"}));
    until("its operator fails", || shows("NotReady")).await;
    let end = stage.end_of("move").await;
    assert_eq!(end, Phase::Completed, "{:#}", stage.status());
    let steps = stage.status()["steps"].to_string();
    assert!(steps.contains("the reconciliation failed"), "{steps}");
    stage.is_clean();
    assert_eq!(stage.running(), [other(from)]);
}

/// Guards the grace that `suspend` of Pipeline writes, and `drainedOnPause` in its `suspendedWhen`: by its own grace it is paused
/// after a second, with messages in its buffers that the target would never see.
#[tokio::test]
async fn a_pipeline_moves_when_its_buffers_are_empty_and_not_when_its_grace_is_over() {
    let kind = kind("Pipeline");
    let (stage, from) = Stage::set_as(kind, &filled(3)).await;
    let _running = stage.plane.start();
    stage.plane.push(&[("move.yaml", &migration(kind, from, ""))]);
    until("it stops", || stage.copy(from)["status"]["phase"] == "Pausing").await;
    assert_eq!(
        stage.end_of("move").await,
        Phase::Completed,
        "{:#}",
        stage.status()
    );
    stage.is_clean();
}

/// Guards the way back of Pipeline: one that can't be drained is resumed where it is.
#[tokio::test]
async fn a_pipeline_that_is_never_drained_goes_on_where_it_is() {
    let kind = kind("Pipeline");
    let (stage, from) = Stage::set_as(kind, &filled(100_000)).await;
    let _running = stage.plane.start();
    let wanted = migration(kind, from, "");
    stage.plane.push(&[("move.yaml", &wanted)]);
    until("it stops", || stage.copy(from)["status"]["phase"] == "Pausing").await;
    stage
        .plane
        .push(&[("move.yaml", &format!("{wanted}  abort: true\n"))]);
    assert_eq!(stage.end_of("move").await, Phase::Aborted, "{:#}", stage.status());
    until("it runs on", || stage.copy(from)["status"]["phase"] == "Running").await;
    stage.is_clean();
    assert_eq!(stage.running(), [from]);
}

/// Guards the label that `noPods` of `RayService` asks for: during an upgrade the pods of two `RayCluster`s have to be gone, and their
/// names, which the operator generates, are forgotten when it stops.
#[tokio::test]
async fn a_ray_service_in_the_midst_of_an_upgrade_leaves_with_both_of_its_clusters() {
    let kind = kind("RayService");
    let (stage, from) = Stage::set(kind).await;
    let clusters = || -> BTreeSet<String> {
        let pods = stage.pods(from).into_iter();
        pods.filter_map(|pod| {
            let labels = &pod["metadata"]["labels"];
            Some(labels["ray.io/cluster"].as_str()?.to_owned())
        })
        .collect()
    };
    let upgraded = template(kind).replace("train:1", "train:2");
    stage.plane.push(&[("run.yaml", &upgraded)]);
    stage.plane.run().await;
    until("it has two clusters", || clusters().len() == 2).await;
    let serves = || {
        let conditions = stage.copy(from)["status"]["conditions"].clone();
        let mut conditions = conditions.as_array().cloned().unwrap_or_default().into_iter();
        conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
    };
    until("it serves", serves).await;
    let _running = stage.plane.start();
    stage.plane.push(&[("move.yaml", &migration(kind, from, ""))]);
    assert_eq!(
        stage.end_of("move").await,
        Phase::Completed,
        "{:#}",
        stage.status()
    );
    let ledger = stage.world.ledger();
    let verdict = ledger.verdict();
    assert_eq!(
        (verdict.runs.len(), verdict.max_stateless_at_once),
        (2, 1),
        "{ledger}"
    );
    assert_eq!(stage.running(), [other(from)]);
}

/// Returns what a plan and a review say of the one migration in Git.
async fn verdict(stage: &Stage) -> Verdict {
    let cluster = Cluster::from_client(stage.world.client(), Limits::default());
    let (repo, stop) = (stage.plane.repo(), CancellationToken::new());
    let plan = reconcile::plan(&repo, &cluster, reconcile::Target::Newest, &stop)
        .await
        .unwrap();
    let told = reconcile::previews(&cluster, &plan, Timestamp::now()).await;
    let [one] = &*told.moves else { panic!("{told:?}") };
    one.preview.verdict.clone()
}

/// The target lacks something: plan, review and Preflight say so, and nothing is touched. `comes`: brings it there.
async fn waits_until_it_is_there(
    stage: Stage,
    kind: &Kind,
    from: &str,
    lacks: &str,
    comes: impl FnOnce(&Stage),
) {
    let wanted = migration(kind, from, "");
    stage.plane.push(&[("move.yaml", &wanted)]);
    let Verdict::Blocked(findings) = verdict(&stage).await else {
        panic!("{:?}", verdict(&stage).await)
    };
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].message.starts_with(lacks), "{findings:?}");
    let _running = stage.plane.start();
    assert_eq!(stage.end_of("move").await, Phase::Failed, "{:#}", stage.status());
    let found = stage.status()["findings"][0].clone();
    assert_eq!(found["code"], "MissingDependency", "{found}");
    assert!(found["message"].as_str().unwrap().starts_with(lacks), "{found}");
    assert_eq!(stage.running(), [from], "{}", kind.kind);
    until("it runs as before", || {
        stage.world.ledger().verdict().runs.len() == 1
    })
    .await;
    comes(&stage);
    let again = wanted.replace("name: move,", "name: again,");
    stage
        .plane
        .push(&[("move.yaml", "# done\n"), ("again.yaml", &again)]);
    let end = stage.end_of("again").await;
    assert_eq!(end, Phase::Completed, "{:#}", stage.status_of("again"));
    stage.is_clean();
    assert_eq!(stage.running(), [other(from)], "{}", kind.kind);
}

fn of_train() -> Value {
    json!({"strimzi.io/cluster": "train"})
}

/// Guards `needs` of `KafkaConnect`: the operator of the target would delete every connector of the group that it has no
/// `KafkaConnector` of. One of another `KafkaConnect` doesn't matter.
#[tokio::test]
async fn a_kafka_connect_waits_for_its_connectors_in_the_target() {
    let kind = kind("KafkaConnect");
    let (stage, from) = Stage::set(kind).await;
    CONNECTORS.install(&stage.world);
    CONNECTORS.create(&stage.world, from, "orders", &of_train());
    let others = json!({"strimzi.io/cluster": "other"});
    CONNECTORS.create(&stage.world, from, "others", &others);
    let to = other(from);
    let lacks = format!(
        "{to} has no KafkaConnector orders, which {from} has beside the workload: the operator there deletes"
    );
    let comes = |stage: &Stage| CONNECTORS.create(&stage.world, to, "orders", &of_train());
    waits_until_it_is_there(stage, kind, from, &lacks, comes).await;
}

/// A person may approve long after Preflight has looked.
#[tokio::test]
async fn a_kafka_connect_is_not_stopped_when_a_connector_has_left_the_target_since() {
    let kind = kind("KafkaConnect");
    let (stage, from) = Stage::set(kind).await;
    CONNECTORS.install(&stage.world);
    for cluster in ["east", "west"] {
        CONNECTORS.create(&stage.world, cluster, "orders", &of_train());
    }
    let _running = stage.plane.start();
    let waits = migration(kind, from, "  approval: {before: [Capture]}\n");
    stage.plane.push(&[("move.yaml", &waits)]);
    let is_asked = || {
        let status = stage.status();
        let code = status.pointer("/waitingFor/code");
        code.is_some_and(|code| code == "Approval")
    };
    until("it waits for approval", is_asked).await;
    CONNECTORS.delete(&stage.world, other(from), "orders");
    let approved = format!("{waits}  approvals: [{{phase: Capture, attempt: 1}}]\n");
    stage.plane.push(&[("move.yaml", &approved)]);
    let end = stage.end_of("move").await;
    let status = stage.status();
    assert_eq!(end, Phase::RolledBack, "{status:#}");
    let lacks = format!("{} has no KafkaConnector orders", other(from));
    assert!(status.to_string().contains(&lacks), "{status:#}");
    assert_eq!(stage.world.ledger().verdict().runs.len(), 1, "it was not stopped");
    stage.is_clean();
    assert_eq!(stage.running(), [from]);
}

/// Guards `needs` of Pipeline, with the name that its controller takes where the template has none.
#[tokio::test]
async fn a_pipeline_waits_for_its_buffers_in_the_target() {
    let kind = kind("Pipeline");
    let (stage, from) = Stage::set(kind).await;
    let to = other(from);
    BUFFERS.delete(&stage.world, to, "default");
    let lacks = format!("{to} has no InterStepBufferService default, which the workload needs");
    let comes = |stage: &Stage| BUFFERS.create(&stage.world, to, "default", &json!({}));
    waits_until_it_is_there(stage, kind, from, &lacks, comes).await;
}

/// Guards `needs` of `TrainJob`: its runtime is of cluster scope.
#[tokio::test]
async fn a_train_job_waits_for_its_runtime_in_the_target() {
    let all: &'static [Kind] = &OTHERS;
    let kind = all.iter().find(|kind| kind.kind == "TrainJob").unwrap();
    let by = template(kind).replace("runtimeRef: {", "runtimeRef: {kind: ClusterTrainingRuntime, ");
    let (stage, from) = Stage::set_as(kind, &by).await;
    let to = other(from);
    RUNTIMES.install(&stage.world);
    RUNTIMES.create(&stage.world, from, "torch-distributed", &json!({}));
    let lacks = format!("{to} has no ClusterTrainingRuntime torch-distributed, which the workload needs");
    let comes = |stage: &Stage| RUNTIMES.create(&stage.world, to, "torch-distributed", &json!({}));
    waits_until_it_is_there(stage, kind, from, &lacks, comes).await;
}
