//! Guests of a plan's claim: what they say is in the pin, and the plan stands until they have left.

use serde_json::json;

use super::scene::{EARLY, Scene, WEST, binding, held, member, seen};
use crate::api::{
    Claim, Differences, FailoverPhase as Phase, PIN_FORMAT, PLAIN_FORMAT, PatchOp, Progress, SecretHandles,
};
use crate::intent::custody::included;
use crate::intent::{Effect, pin};

fn said(path: &str, image: &str) -> Differences {
    serde_json::from_value(json!({
        "owner": {"kind": "Rollout", "namespace": "shop", "name": "orders", "uid": "rollout"},
        "rules": [{"allBut": [WEST], "patches": [{"op": "add", "path": path, "value": image}]}],
    }))
    .unwrap()
}

fn claim(scene: &Scene) -> Claim {
    scene.snapshot.around.plane.claim.get().unwrap().clone().unwrap()
}

/// A guest writes its entry, or takes it out.
pub(super) fn says(scene: &mut Scene, entry: Option<Differences>) {
    let mut claim = claim(scene);
    match entry {
        Some(entry) => drop(claim.spec.differences.insert("rollout".to_owned(), entry)),
        None => drop(claim.spec.differences.remove("rollout")),
    }
    scene.snapshot.around.plane.claim = seen(Some(claim), EARLY);
}

/// The claim says which wording its marker stands for, and the pin of that marker has it.
fn is_in_force(scene: &Scene, entry: &Differences) -> bool {
    let (claim, live) = (
        claim(scene),
        scene.snapshot.around.plane.pin.get().unwrap().clone().unwrap(),
    );
    let is_included = claim.spec.included == included(&claim.spec.differences);
    let is_written = pin::marker_of(&live) == Some(&claim.spec.marker) && pin::includes(&live, &entry.rules);
    claim.spec.differences.get("rollout") == Some(entry) && is_included && is_written
}

const IMAGE: &str = "/spec/image";

#[test]
fn what_a_guest_says_is_in_the_pin_under_a_sequence_of_its_own() {
    let mut scene = Scene::guarding();
    let before = scene.marker();
    let entry = said(IMAGE, "orders:1");
    says(&mut scene, Some(entry.clone()));
    assert!(
        scene.play().iter().all(|writer| writer == WEST),
        "the rule of the guest comes first"
    );
    assert!(is_in_force(&scene, &entry) && scene.marker() != before);
    assert!(scene.is(Phase::Guarding), "{}", scene.waits());
    let now = scene.marker();
    assert!(scene.settle().is_empty());
    assert_eq!(scene.marker(), now, "nothing is renewed without need");
    let other = said(IMAGE, "orders:2");
    says(&mut scene, Some(other.clone()));
    scene.play();
    assert!(is_in_force(&scene, &other) && scene.marker() != now);
    says(&mut scene, None);
    scene.play();
    let left = claim(&scene).spec;
    assert!(left.included.is_empty() && left.differences.is_empty());
    let live = scene.snapshot.around.plane.pin.get().unwrap().clone().unwrap();
    assert!(!pin::includes(&live, &other.rules));
}

/// Between two of its writes a claim never says of a marker what the pin of that marker doesn't say.
#[test]
fn a_marker_stands_for_one_wording_whenever_the_plan_is_cut_short() {
    let mut scene = Scene::guarding();
    says(&mut scene, Some(said(IMAGE, "orders:1")));
    let mut wordings = std::collections::BTreeMap::new();
    for image in ["orders:1", "orders:2", "orders:3"] {
        says(&mut scene, Some(said(IMAGE, image)));
        for _ in 0..20 {
            for effect in scene.settle() {
                scene.send(effect);
                let spec = claim(&scene).spec;
                let known = wordings
                    .entry(spec.marker.clone())
                    .or_insert_with(|| spec.included.clone());
                assert_eq!(*known, spec.included, "{}", spec.marker);
            }
        }
    }
    assert!(wordings.len() >= 3, "{wordings:?}");
}

#[test]
fn nothing_is_taken_in_while_it_fails_over_and_what_was_said_stays() {
    let mut scene = Scene::guarding();
    let entry = said(IMAGE, "orders:1");
    says(&mut scene, Some(entry.clone()));
    scene.play();
    scene.snapshot.around.plane.binding = seen(Some(binding("binding-1", &[WEST], false)), EARLY);
    scene.play();
    assert!(scene.is(Phase::Evicted), "{}", scene.status.phase);
    says(&mut scene, Some(said(IMAGE, "orders:2")));
    scene.play();
    let live = scene.snapshot.around.plane.pin.get().unwrap().clone().unwrap();
    assert!(
        pin::includes(&live, &entry.rules),
        "the pin says what it said before"
    );
    let spec = claim(&scene).spec;
    assert_ne!(spec.included, included(&spec.differences));
}

/// The rule of a guest is about every cluster but the one that is to run: that lets nobody run.
#[test]
fn a_failover_with_a_guest_names_its_writer_by_the_hold_alone() {
    let mut scene = Scene::fencing();
    let entry = said("/spec/job/state", "suspended");
    scene
        .status
        .journal
        .as_mut()
        .unwrap()
        .guests
        .insert("rollout".to_owned(), entry.clone());
    scene.come_about();
    let marker = scene.marker();
    scene.see(WEST, member(Some(held(&marker))));
    scene.snapshot.kept = seen(Some(scene.status.clone()), EARLY);
    scene.play();
    assert!(
        scene.is(Phase::Releasing),
        "{}: {}",
        scene.status.phase,
        scene.waits()
    );
    let live = scene.snapshot.around.plane.pin.get().unwrap().clone().unwrap();
    assert!(pin::includes(&live, &entry.rules));
    let hold = &pin::writer_of(&live)[0];
    let excluded = hold.target_cluster.as_ref().unwrap().exclude.as_ref().unwrap();
    assert_eq!(excluded.as_slice(), ["west".into()]);
}

#[test]
fn what_would_keep_the_hold_from_a_cluster_is_not_taken_in() {
    let mut scene = Scene::guarding();
    let before = scene.marker();
    says(&mut scene, Some(said("/spec/nothing/at/all", "x")));
    scene.play();
    assert_eq!(scene.told(), ["GuestBlocks"]);
    assert_eq!((scene.marker(), claim(&scene).spec.included.len()), (before, 0));
    says(&mut scene, Some(said(IMAGE, "orders:1")));
    scene.play();
    assert_eq!(scene.told(), [""; 0]);
}

#[test]
fn a_plan_that_is_deleted_guards_until_its_guest_has_left() {
    let mut scene = Scene::guarding();
    says(&mut scene, Some(said(IMAGE, "orders:1")));
    scene.play();
    scene.deleting = true;
    scene.play();
    assert!(scene.is(Phase::Disarming));
    assert!(
        scene.waits().starts_with("Rollout shop/orders to end"),
        "{}",
        scene.waits()
    );
    assert!(!scene.status.journal.as_ref().unwrap().pin.unpinning);
    // Its guest changes what it says meanwhile, and the pin follows.
    let other = said(IMAGE, "orders:2");
    says(&mut scene, Some(other.clone()));
    scene.play();
    assert!(is_in_force(&scene, &other));
    says(&mut scene, None);
    while !scene.status.journal.as_ref().unwrap().pin.unpinning {
        let effects = scene.settle();
        assert!(
            effects
                .iter()
                .all(|effect| !matches!(effect, Effect::DeletePin { .. }))
        );
        for effect in effects {
            scene.send(effect);
        }
    }
    assert!(claim(&scene).spec.included.is_empty());
}

#[test]
fn a_guest_that_comes_as_the_pin_is_about_to_go_keeps_it() {
    let mut scene = Scene::guarding();
    scene.deleting = true;
    while !scene.status.journal.as_ref().unwrap().pin.unpinning {
        scene.pass();
    }
    let entry = said(IMAGE, "orders:1");
    says(&mut scene, Some(entry.clone()));
    scene.play();
    assert!(
        !scene.status.journal.as_ref().unwrap().pin.unpinning,
        "{}",
        scene.waits()
    );
    assert!(is_in_force(&scene, &entry));
}

#[test]
fn a_workload_with_a_guest_is_not_lent() {
    let borrower = || super::super::Borrower {
        owner: serde_json::from_value(
            json!({"kind": "Migration", "namespace": "shop", "name": "move", "uid": "move"}),
        )
        .unwrap(),
        workload: Scene::guarding().spec.workload,
        waits: true,
        ended: false,
        captured: None,
        secrets: SecretHandles::default(),
    };
    let mut scene = Scene::guarding();
    says(&mut scene, Some(said(IMAGE, "orders:1")));
    scene.snapshot.migrations = seen(vec![borrower()], EARLY);
    scene.play();
    assert!(scene.is(Phase::Guarding), "{}", scene.status.phase);
    // One that came between journal and write is seen before the claim is given away.
    let mut scene = Scene::guarding();
    scene.snapshot.kept = seen(Some(scene.status.clone()), EARLY);
    scene.play();
    scene.snapshot.migrations = seen(vec![borrower()], EARLY);
    for _ in 0..20 {
        if !scene.is(Phase::Lent) {
            scene.pass();
        }
    }
    assert!(scene.is(Phase::Lent), "{}", scene.waits());
    let entry = said(IMAGE, "orders:1");
    says(&mut scene, Some(entry.clone()));
    scene.play();
    assert!(
        scene.is(Phase::Guarding),
        "{}: {}",
        scene.status.phase,
        scene.waits()
    );
    assert_eq!(claim(&scene).spec.owner.kind, "FailoverPlan");
    assert!(is_in_force(&scene, &entry));
}

#[test]
fn a_claim_that_somebody_took_away_is_recreated_with_what_guests_say() {
    let mut scene = Scene::guarding();
    let entry = said(IMAGE, "orders:1");
    says(&mut scene, Some(entry.clone()));
    scene.play();
    scene.snapshot.around.plane.claim = seen(None, EARLY);
    scene.play();
    assert!(is_in_force(&scene, &entry));
}

#[test]
fn a_pin_that_was_changed_under_a_guest_is_repaired_with_what_it_says() {
    let mut scene = Scene::guarding();
    let entry = said(IMAGE, "orders:1");
    says(&mut scene, Some(entry.clone()));
    scene.play();
    let mut edited = scene.snapshot.around.plane.pin.get().unwrap().clone().unwrap();
    edited.spec.override_rules.remove(0);
    scene.snapshot.around.plane.overrides = seen(
        crate::intent::control_plane::Overrides {
            namespaced: std::sync::Arc::new(vec![edited.clone()]),
            ..crate::intent::control_plane::Overrides::default()
        },
        EARLY,
    );
    scene.snapshot.around.plane.pin = seen(Some(edited), EARLY);
    let before = scene.marker();
    scene.play();
    assert!(is_in_force(&scene, &entry) && scene.marker() != before);
}

/// A version that can't tell such a hold from the marker would write a pin without it.
#[test]
fn a_hold_by_an_annotation_is_written_in_a_format_that_earlier_versions_leave_alone() {
    let mut scene = Scene::guarding();
    let formats = |scene: &Scene| {
        let claim = scene.snapshot.around.plane.claim.get().unwrap().as_ref();
        (claim.unwrap().spec.format, scene.status.format())
    };
    assert_eq!(formats(&scene), (PLAIN_FORMAT, PLAIN_FORMAT));
    let hold = &mut scene.status.journal.as_mut().unwrap().profile.hold;
    hold.push(PatchOp::add("/metadata/annotations/paused", "true"));
    scene.come_about();
    assert_eq!(formats(&scene), (PIN_FORMAT, PIN_FORMAT));
}
