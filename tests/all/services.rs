//! Services whose operators say that they have stopped before they have, or that they run when they don't: `RayCluster`, `RayService`,
//! `KafkaConnect`, and Numaflow's Pipeline and `MonoVertex`, each moved with its operator simulated after its source.

use std::collections::BTreeSet;
use std::time::Duration;

use cutover::api::Phase;
use cutover::sandbox::member::batch::{Kind, SERVICES};
use cutover::sandbox::member::kafka_connect::FAILS;
use cutover::sandbox::member::pipeline::DRAINS;
use serde_json::json;

use crate::batch::{Stage, migration, template};
use crate::support::wait::until;

fn kind(name: &str) -> &'static Kind {
    let all: &'static [Kind] = &SERVICES;
    all.iter().find(|kind| kind.kind == name).unwrap()
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
