//! How a plan, and a failover, ends: nobody is let go by it, and nothing is forgotten that was not looked at.

use serde_json::json;

use super::scene::{EARLY, EAST, Scene, WEST, approve, binding, held, lost, member, running, seen, work};
use crate::api::{ConditionStatus, FailoverGate, FailoverPhase as Phase, Fence};
use crate::intent::{Effect, fence};

/// It runs in east, the plan is deleted, and a copy of before is in west.
fn deleted(west: crate::intent::member::Member) -> Scene {
    let mut scene = Scene::guarding();
    let old = json!({"attempt": 1, "since": scene.now, "identity": "uid-of-west/west"});
    scene
        .status
        .old_copies
        .insert(WEST.into(), serde_json::from_value(old).unwrap());
    scene.status.common.attempt = 1;
    scene.see(WEST, west);
    scene.deleting = true;
    scene
}

/// Passes until it rests; returns whether the pin is about to go, or gone.
fn takes_the_pin_away(scene: &mut Scene) -> bool {
    scene.settle();
    let journal = scene.status.journal.as_ref();
    journal.is_none_or(|journal| journal.pin.unpinning)
}

#[test]
fn a_plan_that_ends_looks_at_its_old_copies() {
    let mut nobodys = running("of-before", "s3://seen");
    nobodys["metadata"]["labels"] = json!({});
    for west in [lost(), member(Some(nobodys))] {
        let mut scene = deleted(west);
        assert!(!takes_the_pin_away(&mut scene), "{}", scene.waits());
        assert!(scene.is(Phase::Disarming), "{}", scene.status.phase);
        assert!(scene.waits().contains(WEST), "{}", scene.waits());
    }
    let mut scene = deleted(member(None));
    assert!(takes_the_pin_away(&mut scene), "{}", scene.waits());
}

#[test]
fn what_a_plan_that_ends_asks_of_an_old_copy_can_be_answered() {
    let mut scene = deleted(lost());
    scene.settle();
    assert_eq!(scene.status.asks[0].gate, FailoverGate::Fenced);
    approve(&mut scene, "Fenced", WEST, 1);
    assert!(takes_the_pin_away(&mut scene), "{}", scene.waits());
    assert!(
        scene.status.old_copies.contains_key(&WEST.into()),
        "nobody has seen it gone"
    );
}

#[test]
fn what_fails_while_a_plan_ends_is_a_failover_like_any_other() {
    let mut scene = Scene::guarding();
    scene.deleting = true;
    while !scene.is(Phase::Disarming) {
        scene.pass();
    }
    // The pin is not off yet.
    scene.status.journal.as_mut().unwrap().pin.unpinning = false;
    scene.snapshot.around.plane.binding = seen(Some(binding("binding-1", &[WEST], false)), EARLY);
    scene.play();
    assert!(
        scene.is(Phase::Evicted),
        "{}: {}",
        scene.status.phase,
        scene.waits()
    );
}

#[test]
fn a_cluster_that_is_listed_as_the_pin_is_about_to_go_stays_held() {
    let mut scene = Scene::guarding();
    scene.deleting = true;
    while !scene.status.journal.as_ref().unwrap().pin.unpinning {
        scene.pass();
    }
    scene.snapshot.around.plane.binding = seen(Some(binding("binding-1", &[EAST, WEST], false)), EARLY);
    scene.work_in(WEST);
    let marker = scene.marker();
    scene.see(WEST, member(Some(held(&marker))));
    for _ in 0..5 {
        let effects = scene.settle();
        assert!(
            effects
                .iter()
                .all(|effect| !matches!(effect, Effect::DeletePin { .. })),
            "{effects:?}"
        );
        for effect in effects {
            scene.send(effect);
        }
    }
    assert!(
        !scene.status.journal.as_ref().unwrap().pin.unpinning,
        "{}",
        scene.waits()
    );
}

/// West runs it well, and the failover is about to be given back.
fn settling() -> Scene {
    let mut scene = Scene::fencing();
    assert_eq!(scene.play(), [WEST]);
    let marker = scene.marker();
    scene.see(WEST, member(Some(running(&marker, "s3://seen"))));
    while !scene.is(Phase::Settling) {
        scene.pass();
    }
    scene.status.journal.as_mut().unwrap().fence.failover =
        Some(json!({"application": {"decisionConditions": {"tolerationSeconds": 30}}}));
    scene.play();
    assert!(scene.is(Phase::Settling), "{}", scene.status.phase);
    scene
}

#[test]
fn failover_is_put_back_also_where_somebody_has_resumed_scheduling() {
    let mut scene = settling();
    scene.snapshot.around.plane.binding = seen(Some(binding("binding-1", &[WEST], false)), EARLY);
    let effects = scene.settle();
    assert!(scene.is(Phase::Settling), "{}", scene.status.phase);
    assert!(
        effects
            .iter()
            .any(|effect| effect.to_string().contains("suspend scheduling")),
        "{effects:?}"
    );
    scene.snapshot.around.plane.binding = seen(Some(binding("binding-1", &[WEST], true)), EARLY);
    let effects = scene.settle();
    assert!(
        effects
            .iter()
            .any(|effect| effect.to_string().contains("restore failover")),
        "{effects:?}"
    );
}

#[test]
fn whatever_is_written_to_a_binding_late_finds_another_generation() {
    let mut seen = binding("binding-1", &[WEST], true);
    seen.spec.failover =
        serde_json::from_value(json!({"application": {"decisionConditions": {"tolerationSeconds": 30}}}))
            .unwrap();
    let mut before = Fence::default();
    fence::record(&seen, &mut before);
    let mut bare = seen.clone();
    bare.spec.failover = None;
    let effects = [
        Some(fence::raise(&seen, None)),
        fence::failover_off(&seen),
        fence::failover_off_alone(&seen),
        fence::restored(&bare, &before),
        Some(fence::resume(&seen)),
    ];
    for effect in effects {
        let Some(Effect::PatchBinding { patch, why, .. }) = effect else {
            panic!("{effect:?}");
        };
        let tests_generation = |operation: &serde_json::Value| {
            operation["op"] == "test" && operation["path"] == "/metadata/generation"
        };
        assert!(patch.iter().any(tests_generation), "{why}: {patch:?}");
    }
}

/// The old copy is gone but for a node that nobody sees: the word that let the failover go on lets it end, too.
#[test]
fn a_failover_ends_on_the_word_that_it_went_on_by() {
    let mut scene = settling();
    scene.flight().fenced = Some("ann".to_owned());
    let journal = scene.status.journal.as_mut().unwrap();
    journal.nodes.insert(EAST.into(), ["node-1".to_owned()].into());
    journal.fence.failover = None;
    scene.see(EAST, member(None));
    let effects = scene.settle();
    assert!(
        effects
            .iter()
            .any(|effect| effect.to_string().contains("resume scheduling")),
        "{effects:?} {}",
        scene.waits()
    );
}

#[test]
fn a_work_of_the_writer_is_all_that_a_plan_leaves() {
    let mut scene = Scene::guarding();
    scene.deleting = true;
    let mut works = scene.snapshot.around.plane.works.get().unwrap().clone();
    works.insert(WEST.into(), work("of-before"));
    scene.snapshot.around.plane.works = seen(works, EARLY);
    scene.see(WEST, member(Some(running("of-before", "s3://seen"))));
    assert!(!takes_the_pin_away(&mut scene), "{}", scene.waits());
}

#[test]
fn a_plan_that_has_failed_says_so_in_its_conditions() {
    let mut scene = Scene::guarding();
    scene.status.journal = None;
    scene.settle();
    assert!(scene.is(Phase::Failed), "{}", scene.status.phase);
    let conditions = &scene.status.common.conditions;
    let says = |type_: &str| {
        let said = conditions.iter().find(|condition| condition.type_ == type_);
        said.map(|condition| condition.status)
    };
    for (type_, status) in [
        ("Failed", Some(ConditionStatus::True)),
        ("Ended", Some(ConditionStatus::True)),
        ("Stalled", Some(ConditionStatus::True)),
        ("Ready", Some(ConditionStatus::False)),
        ("Reconciling", None),
    ] {
        assert_eq!(says(type_), status, "{type_}");
    }
}
