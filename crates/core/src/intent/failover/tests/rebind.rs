//! A binding that was deleted and made anew under a plan.

use std::collections::BTreeMap;

use serde_json::json;

use super::scene::{EARLY, EAST, Scene, WEST, binding, lost, member, seen, work};
use crate::api::FailoverPhase as Phase;

fn adopted(scene: &Scene) -> bool {
    let journal = scene.status.journal.as_ref().unwrap();
    journal.binding.uid == "binding-2" && journal.binding.id == "id-of-binding-2"
}

#[test]
fn one_that_lists_the_writer_is_guarded_and_people_are_told_what_it_began_from() {
    let mut scene = Scene::guarding();
    scene.play();
    scene.snapshot.around.plane.binding = seen(Some(binding("binding-2", &[EAST], false)), EARLY);
    scene.snapshot.around.plane.works = seen(BTreeMap::new(), EARLY);
    scene.pass();
    assert!(scene.is(Phase::Arming) && adopted(&scene));
    assert_eq!(scene.told(), ["MadeAnew"]);
    assert!(scene.status.common.findings[0].message.contains("s3://seen"));
    scene.work_in(EAST);
    assert_eq!(scene.play(), [EAST]);
    assert!(scene.is(Phase::Guarding));
    assert_eq!(
        scene
            .snapshot
            .around
            .plane
            .claim
            .get()
            .unwrap()
            .as_ref()
            .unwrap()
            .spec
            .binding_id,
        "id-of-binding-2"
    );
}

#[test]
fn one_that_lists_another_cluster_is_a_failover() {
    let mut scene = Scene::guarding();
    scene.snapshot.around.plane.binding = seen(Some(binding("binding-2", &[WEST], false)), EARLY);
    scene.snapshot.around.plane.works = seen(BTreeMap::new(), EARLY);
    assert_eq!(scene.play(), Vec::<String>::new());
    assert!(
        adopted(&scene) && scene.is(Phase::Evicted),
        "{}",
        scene.status.phase
    );
}

#[test]
fn a_failover_begins_to_choose_again_and_keeps_the_state_that_it_has() {
    let mut scene = Scene::fencing();
    let state = scene.flight().state.clone();
    scene.snapshot.around.plane.binding = seen(Some(binding("binding-2", &[], false)), EARLY);
    scene.snapshot.around.plane.works = seen(BTreeMap::new(), EARLY);
    assert_eq!(scene.play(), Vec::<String>::new());
    assert!(adopted(&scene) && scene.is(Phase::Evicted));
    assert_eq!(scene.flight().state, state);
    assert!(
        scene.waits().contains("Karmada to choose a cluster"),
        "{}",
        scene.waits()
    );
}

#[test]
fn a_work_of_the_one_before_that_stays_is_no_copy_that_goes() {
    let mut scene = Scene::guarding();
    scene.snapshot.around.plane.binding = seen(Some(binding("binding-2", &[WEST], false)), EARLY);
    assert_eq!(scene.play(), Vec::<String>::new());
    assert!(!adopted(&scene));
    assert!(
        scene.waits().contains("a person must delete it"),
        "{}",
        scene.waits()
    );
    let mut leaves = work("plan-uid.1.3");
    leaves.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    scene.snapshot.around.plane.works = seen(BTreeMap::from([(EAST.into(), leaves)]), EARLY);
    scene.play();
    assert!(adopted(&scene));
}

#[test]
fn one_that_comes_in_the_midst_of_a_release_is_fenced_for_the_same_cluster_and_gets_its_failover_back() {
    let mut scene = Scene::releasing();
    let mut anew = binding("binding-2", &[], false);
    anew.spec.failover =
        serde_json::from_value(json!({"application": {"decisionConditions": {"tolerationSeconds": 30}}}))
            .unwrap();
    scene.snapshot.around.plane.binding = seen(Some(anew), EARLY);
    scene.snapshot.around.plane.works = seen(BTreeMap::new(), EARLY);
    scene.pass();
    assert!(adopted(&scene) && scene.is(Phase::Releasing));
    let journal = scene.status.journal.as_ref().unwrap();
    assert_eq!(journal.clusters, [cutover_karmada::name::ClusterName::new(WEST)]);
    assert!(journal.fence.recorded && journal.fence.failover.is_some() && journal.fence.barrier.is_none());
}

/// The pin lets it run already: what else that says is said to copies which are looked at again.
#[test]
fn one_that_comes_when_the_new_copy_may_run_already_changes_what_the_pin_says_of_others() {
    let mut scene = Scene::releasing();
    scene.status.journal.as_mut().unwrap().suspended = vec![EAST.into()];
    scene.come_about();
    scene.snapshot.around.plane.binding = seen(Some(binding("binding-2", &[WEST], true)), EARLY);
    scene.snapshot.around.plane.works = seen(BTreeMap::new(), EARLY);
    while !adopted(&scene) {
        scene.pass();
    }
    let journal = scene.status.journal.as_mut().unwrap();
    assert!(journal.suspended.is_empty());
    let fence = json!({
        "recorded": true, "canary": 2, "suspending": 6,
        "barrier": {"canary": "canary-2", "passedAt": "2026-01-01T00:59:00Z", "leases": {}},
    });
    journal.fence = serde_json::from_value(fence).unwrap();
    scene.play();
    let pin = scene.snapshot.around.plane.pin.get().unwrap().as_ref().unwrap();
    assert_eq!(
        crate::intent::pin::marker_of(pin),
        Some(&*scene.marker()),
        "{}",
        scene.waits()
    );
}

#[test]
fn a_plan_ends_also_when_the_binding_is_another_one() {
    let mut scene = Scene::guarding();
    scene.deleting = true;
    scene.snapshot.around.plane.binding = seen(Some(binding("binding-2", &[EAST], false)), EARLY);
    scene.snapshot.around.plane.works = seen(BTreeMap::new(), EARLY);
    while !scene.is(Phase::Disarming) {
        scene.pass();
    }
    assert!(adopted(&scene));
}

#[test]
fn a_workload_that_is_deleted_in_the_midst_of_a_failover_frees_the_plan_when_no_copy_is_left() {
    let mut scene = Scene::fencing();
    scene.snapshot.around.plane.template = seen(None, EARLY);
    scene.snapshot.around.plane.binding = seen(None, EARLY);
    scene.snapshot.around.plane.works = seen(BTreeMap::new(), EARLY);
    scene.see(WEST, member(None));
    scene.see(EAST, lost());
    assert!(scene.settle().is_empty());
    assert!(scene.is(Phase::Fencing) && scene.waits().contains("sourceUnreachable: Hold"));
    scene.see(EAST, member(None));
    while scene.is(Phase::Fencing) {
        scene.pass();
    }
    assert!(scene.is(Phase::Disarming));
}

#[test]
fn a_cluster_that_has_had_the_token_is_not_forgotten_with_the_binding() {
    let mut scene = Scene::fencing();
    scene.flight().released = true;
    scene.snapshot.around.plane.binding = seen(Some(binding("binding-2", &[], false)), EARLY);
    scene.snapshot.around.plane.works = seen(BTreeMap::new(), EARLY);
    scene.play();
    assert!(adopted(&scene) && scene.is(Phase::Evicted));
    assert!(scene.status.old_copies.contains_key(&WEST.into()));
}
