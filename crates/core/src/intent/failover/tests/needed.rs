//! What the clusters that a workload may fail over to lack of what its profile selects by labels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::json;

use super::super::wants_needed;
use super::scene::{EARLY, EAST, Scene, WEST, approve, binding, cut_off, lost, refused, seen};
use crate::api::{FailoverPhase as Phase, PROFILE_FORMAT, Progress};
use crate::intent::dependencies::{Presence, Selected};
use cutover_karmada::name::{ClusterName, Gvk};

const LACKS_A: &str =
    "west has no KafkaConnector a, which east has beside the workload: its configuration is deleted";

/// It runs in east, and its profile selects connectors.
fn guarding() -> Scene {
    with_needs(Scene::guarding())
}

fn with_needs(mut scene: Scene) -> Scene {
    let profile = &mut scene.status.journal.as_mut().unwrap().profile;
    let needs = json!([{
        "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaConnector", "labelSelector": "strimzi.io/cluster=${name}",
        "message": "its configuration is deleted",
    }]);
    profile.needs = serde_json::from_value(needs).unwrap();
    scene.come_about();
    scene
}

/// This is seen of west's connectors.
fn west_has(scene: &mut Scene, source: &str, connectors: Result<&[(&str, Presence)], &str>) {
    let connectors = connectors.map(|all| {
        all.iter()
            .map(|(name, presence)| ((*name).to_owned(), presence.clone()))
            .collect()
    });
    let selected = Selected {
        gvk: Gvk::new("kafka.strimzi.io/v1", "KafkaConnector"),
        selector: "strimzi.io/cluster=orders".to_owned(),
        source: source.into(),
        otherwise: Some("its configuration is deleted".to_owned()),
        seen: connectors.map_err(str::to_owned),
    };
    scene.snapshot.needed = Some(BTreeMap::from([(ClusterName::from(WEST), vec![selected])]));
    scene.play();
}

fn messages(scene: &Scene) -> Vec<&str> {
    let findings = scene.status.common.findings.iter();
    findings.map(|finding| finding.message.as_str()).collect()
}

#[test]
fn while_nothing_fails_it_is_told_what_another_cluster_lacks_until_it_is_there() {
    let mut scene = guarding();
    scene.play();
    let waits = scene.waits();
    let there = [("a", Presence::There), ("b", Presence::There)];
    west_has(
        &mut scene,
        EAST,
        Ok(&[("a", Presence::Missing), there[1].clone()]),
    );
    assert_eq!(scene.told(), ["MissingDependency"]);
    assert_eq!(messages(&scene), [LACKS_A]);
    let hint = scene.status.common.findings[0].hint.clone().unwrap();
    assert!(
        hint.starts_with(
            "propagate every KafkaConnector (strimzi.io/cluster=orders) to east and to west first"
        )
    );
    assert!(hint.ends_with("a failover does not wait for them"), "{hint}");
    assert!(scene.is(Phase::Guarding));
    assert_eq!(scene.waits(), waits, "it waits for nothing else");
    // What was not looked for in a pass is no news.
    scene.snapshot.needed = None;
    scene.play();
    assert_eq!(messages(&scene), [LACKS_A]);
    west_has(&mut scene, EAST, Ok(&there));
    assert!(scene.told().is_empty(), "{:?}", scene.told());
    // Karmada brings it.
    west_has(&mut scene, EAST, Ok(&[("a", Presence::Comes)]));
    assert!(scene.told().is_empty(), "{:?}", scene.told());
}

#[test]
fn where_it_can_not_be_seen_that_is_told_and_what_was_seen_before_stays() {
    const UNSEEN: &str = "cutover cannot see whether west has every KafkaConnector (strimzi.io/cluster=orders) that east has: \
                          403 forbidden; without one of them, its configuration is deleted";
    let mut scene = guarding();
    west_has(&mut scene, EAST, Err("403 forbidden"));
    assert_eq!(
        (scene.told(), messages(&scene)),
        (vec!["DependencyUnseen"], vec![UNSEEN])
    );
    west_has(&mut scene, EAST, Ok(&[("a", Presence::Missing)]));
    assert_eq!(messages(&scene), [LACKS_A]);
    west_has(&mut scene, EAST, Err("403 forbidden"));
    assert_eq!(messages(&scene), [LACKS_A, UNSEEN]);
    west_has(
        &mut scene,
        EAST,
        Ok(&[("a", Presence::Unknown("403 forbidden".to_owned()))]),
    );
    assert_eq!(messages(&scene), [UNSEEN]);
    // What was said of another source is not about this one.
    west_has(&mut scene, EAST, Ok(&[("a", Presence::Missing)]));
    west_has(&mut scene, "north", Err("403 forbidden"));
    assert_eq!(scene.told(), ["DependencyUnseen"]);
    assert!(messages(&scene)[0].contains("that north has"));
}

#[test]
fn a_failover_does_not_wait_for_it_and_tells_it_on() {
    let mut scene = guarding();
    west_has(&mut scene, EAST, Ok(&[("a", Presence::Missing)]));
    scene.snapshot.needed = None;
    scene.snapshot.around.plane.binding = seen(Some(binding("binding-1", &[WEST], false)), EARLY);
    scene.play();
    assert!(scene.status.phase.in_flight(), "{}", scene.status.phase);
    assert!(messages(&scene).contains(&LACKS_A), "{:?}", messages(&scene));
}

#[test]
fn who_lets_a_cluster_run_it_is_told_what_that_lacks() {
    let told = {
        let mut scene = guarding();
        west_has(&mut scene, EAST, Ok(&[("a", Presence::Missing)]));
        scene.status.common.findings
    };
    for (findings, says) in [(told, Some(LACKS_A)), (Vec::new(), None)] {
        let mut scene = with_needs(Scene::fencing());
        scene.spec.source_unreachable =
            serde_json::from_value(json!({"proceedAfter": "10m", "fencedBy": "Approval"})).unwrap();
        scene.status.common.findings = findings;
        scene.snapshot.kept = seen(Some(scene.status.clone()), EARLY);
        scene.see(EAST, lost());
        cut_off(&mut scene, EAST);
        assert_eq!(scene.watch(SignedDuration::from_mins(11)), Vec::<String>::new());
        let asks = scene.waits();
        assert!(
            asks.contains("is it certain that no copy in east writes?"),
            "{asks}"
        );
        let adds = asks
            .split_once(" Seen before the failover: ")
            .map(|(_, adds)| adds);
        assert_eq!(adds, says, "{asks}");
        approve(&mut scene, "Fenced", EAST, 1);
        assert_eq!(scene.play(), [WEST]);
    }
}

/// Those that the scheduler may choose instead.
fn wanted(scene: &Scene) -> Option<(ClusterName, BTreeSet<ClusterName>)> {
    let (writer, others) = wants_needed(&scene.status, &scene.snapshot.around)?;
    Some((writer.clone(), others))
}

#[test]
fn it_is_looked_for_in_the_clusters_that_the_scheduler_may_choose_instead() {
    let mut scene = guarding();
    let mut clusters = (**scene.snapshot.around.plane.clusters.get().unwrap()).clone();
    let mut serving = clusters[&ClusterName::from(WEST)].clone();
    clusters.insert("bare".into(), serving.clone());
    let kinds = json!([{
        "groupVersion": "flink.apache.org/v1beta1", "resources": [{"name": "flinkdeployments", "kind": "FlinkDeployment"}],
    }]);
    serving.status.as_mut().unwrap().api_enablements = serde_json::from_value(kinds).unwrap();
    for name in [WEST, "north", "south"] {
        serving.metadata.name = Some(name.to_owned());
        clusters.insert(name.into(), serving.clone());
    }
    scene.snapshot.around.plane.clusters = seen(Arc::new(clusters), EARLY);
    let place = |scene: &mut Scene, placement: serde_json::Value| {
        let mut placed = binding("binding-1", &[EAST], false);
        placed.spec.placement = serde_json::from_value(placement).unwrap();
        scene.snapshot.around.plane.binding = seen(Some(placed), EARLY);
    };
    let groups = json!([
        {"affinityName": "near", "clusterNames": ["east", "west"]}, {"affinityName": "far", "clusterNames": ["south", "bare"]},
    ]);
    for (placement, expected) in [
        (json!(null), vec!["north", "south", WEST]),
        (
            json!({"clusterAffinity": {"clusterNames": ["east", "west"]}}),
            vec![WEST],
        ),
        (json!({"clusterAffinities": groups}), vec!["south", WEST]),
        (json!({"clusterAffinity": {"clusterNames": ["east"]}}), vec![]),
    ] {
        place(&mut scene, placement);
        let expected: BTreeSet<ClusterName> = expected.into_iter().map(ClusterName::from).collect();
        assert_eq!(wanted(&scene), Some((ClusterName::from(EAST), expected)));
    }
    // East shows nothing to compare with.
    scene.see(EAST, refused());
    assert_eq!(wanted(&scene), None);
}

#[test]
fn nothing_is_looked_for_where_nothing_is_selected_or_the_workload_is_leaving() {
    assert_eq!(wanted(&Scene::guarding()), None);
    assert_eq!(wanted(&with_needs(Scene::fencing())), None);
    let mut scene = guarding();
    scene.snapshot.around.plane.binding = seen(Some(binding("binding-1", &[WEST], false)), EARLY);
    assert_eq!(wanted(&scene), None);
}

/// An earlier version can't read such a profile.
#[test]
fn a_journal_with_what_is_selected_is_not_plain() {
    assert_eq!(guarding().status.format(), PROFILE_FORMAT);
}
