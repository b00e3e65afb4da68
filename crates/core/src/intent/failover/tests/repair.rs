//! A pin that somebody took away or changed.

use std::sync::Arc;

use jiff::SignedDuration;

use super::scene::{EARLY, EAST, Scene, WEST, binding, held, member, names_of, running, seen, work};
use crate::api::{FailoverPhase as Phase, PatchOp, StateSource};
use crate::intent::control_plane::Overrides;
use crate::intent::{Effect, Seen};
use cutover_karmada::{ClusterAffinity, Operator, OverridePolicy, OverrideRule, PlaintextOverrider};

/// It runs in east, and a held copy of it is in west.
fn other_managers() -> Scene {
    let mut scene = Scene::guarding();
    scene.snapshot.around.plane.binding = seen(Some(binding("binding-1", &[EAST, WEST], false)), EARLY);
    scene.work_in(WEST);
    let marker = scene.marker();
    scene.see(WEST, member(Some(held(&marker))));
    scene
}

fn change(scene: &mut Scene, pin: Option<OverridePolicy>) {
    scene.snapshot.around.plane.pin = seen(pin.clone(), EARLY);
    let namespaced = Arc::new(pin.into_iter().collect());
    scene.snapshot.around.plane.overrides = seen(
        Overrides {
            cluster_wide: Arc::default(),
            namespaced,
            ..Overrides::default()
        },
        EARLY,
    );
}

/// The pin that is there, with the hold of another kind.
fn edited(scene: &Scene, target: Option<ClusterAffinity>) -> OverridePolicy {
    let mut pin = scene.snapshot.around.plane.pin.get().unwrap().clone().unwrap();
    match target {
        Some(target) => pin.spec.override_rules[0].target_cluster = Some(target),
        None => pin
            .spec
            .override_rules
            .retain(|rule| rule.overriders.plaintext.is_empty()),
    }
    pin
}

/// West has been let go by what somebody did.
fn let_go(scene: &mut Scene) {
    let copy = running("plan-uid.1.3", "s3://another");
    scene.see(WEST, member(Some(copy)));
}

#[test]
fn one_that_holds_nobody_any_more_holds_the_others_again_whatever_they_do() {
    for taken_away in [true, false] {
        let mut scene = other_managers();
        let pin = (!taken_away).then(|| edited(&scene, None));
        change(&mut scene, pin);
        let_go(&mut scene);
        assert_eq!(scene.play(), [EAST], "nobody else, and soon");
        assert!(scene.told().contains(&"SingleWriterLapse"), "{:?}", scene.told());
        assert_eq!(scene.status.journal.as_ref().unwrap().pin.seq, 4);
    }
}

#[test]
fn one_that_lets_another_cluster_run_instead_is_no_reason_to_let_the_writer_go_again() {
    let mut scene = other_managers();
    let pin = edited(&scene, Some(ClusterAffinity::all_but([WEST.into()])));
    change(&mut scene, Some(pin));
    let_go(&mut scene);
    assert_eq!(scene.play(), Vec::<String>::new());
    assert!(scene.status.phase.in_flight(), "{}", scene.status.phase);
    assert!(scene.told().contains(&"SingleWriterLapse"));
    let live = scene.snapshot.around.plane.pin.get().unwrap().as_ref().unwrap();
    assert!(
        live.spec.override_rules[0].target_cluster.is_none(),
        "everybody is held"
    );
}

#[test]
fn one_that_goes_in_the_midst_of_a_release_takes_the_token_back() {
    let mut scene = Scene::releasing();
    scene.flight().with_source = Some(true);
    scene.status.journal.as_mut().unwrap().clusters = vec![WEST.into(), EAST.into()];
    scene.snapshot.around.plane.binding = seen(Some(binding("binding-1", &[WEST, EAST], true)), EARLY);
    scene.work_in(EAST);
    change(&mut scene, None);
    let marker = scene.marker();
    scene.see(EAST, member(Some(running(&marker, "s3://newer"))));
    assert_eq!(scene.play(), Vec::<String>::new());
    assert!(scene.is(Phase::Fencing));
    let live = scene.snapshot.around.plane.pin.get().unwrap().as_ref().unwrap();
    assert!(
        live.spec.override_rules[0].target_cluster.is_none(),
        "everybody is held"
    );
    assert!(scene.flight().state.is_none(), "what it did meanwhile is newer");
}

#[test]
fn what_the_old_copy_left_before_stays_the_least_that_is_known_when_the_token_is_taken_back() {
    let mut scene = Scene::releasing();
    let flight = scene.flight();
    flight.preserved.insert("label".to_owned(), "older".to_owned());
    let state = flight.state.as_mut().unwrap();
    state.source = StateSource::Captured;
    state
        .values
        .insert("savepoint".to_owned(), "s3://captured".to_owned());
    change(&mut scene, None);
    assert_eq!(scene.play(), [WEST]);
    let state = scene.flight().state.clone().unwrap();
    assert_eq!(
        (state.source, state.values["savepoint"].as_str()),
        (StateSource::LastKnown, "s3://captured")
    );
}

#[test]
fn a_copy_that_is_kept_and_cannot_be_seen_stopped_does_not_keep_the_guard_from_its_upkeep() {
    let mut scene = other_managers();
    let copy = running("plan-uid.1.3", "s3://another");
    scene.see(WEST, member(Some(copy)));
    scene.status.journal.as_mut().unwrap().pin.renew();
    assert_eq!(scene.play(), [EAST]);
}

/// The write that creates it has no precondition: sent late, it must not hold whoever runs by then.
#[test]
fn a_pin_is_put_up_without_a_word_and_says_what_it_has_to_say_only_as_long_as_it_is_there() {
    let mut scene = Scene::guarding();
    change(&mut scene, None);
    let journal = scene.status.journal.as_mut().unwrap();
    (journal.pin.pinned, scene.status.phase) = (false, Phase::Arming);
    let effects = scene.settle();
    let [Effect::WritePin(write)] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert!(write.creates() && write.to_string() == "pin: says nothing yet");
    change(&mut scene, Some(write.policy().clone()));
    let effects = scene.settle();
    let [Effect::WritePin(write)] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert!(!write.creates() && names_of(&effects[0]).as_deref() == Some(EAST));
}

#[test]
fn with_nobody_beside_the_writer_it_is_just_written_again() {
    let mut scene = Scene::guarding();
    change(&mut scene, None);
    assert_eq!(scene.play(), [EAST]);
    assert!(scene.told().is_empty());
}

/// Karmada refuses an `add` below what a template doesn't have, and then applies nothing.
#[test]
fn a_pin_as_an_earlier_version_wrote_it_is_written_again_where_it_reaches_no_work() {
    let mut scene = Scene::guarding();
    let paused = PatchOp::add("/metadata/annotations/paused", "true");
    let hold = &mut scene.status.journal.as_mut().unwrap().profile.hold;
    hold.push(paused.clone());
    scene.come_about();
    let mut before = scene.snapshot.around.plane.pin.get().unwrap().clone().unwrap();
    let has_own = |rule: &OverrideRule| {
        let mut own = rule.overriders.annotations_overrider.iter();
        own.any(|own| own.value.contains_key("paused"))
    };
    for rule in &mut before.spec.override_rules {
        if has_own(rule) {
            rule.overriders.annotations_overrider.clear();
            rule.overriders.plaintext.push(PlaintextOverrider {
                path: paused.path.clone(),
                operator: Operator::Add,
                value: "true".into(),
                ..PlaintextOverrider::default()
            });
        }
    }
    assert!(!before.spec.override_rules.iter().any(has_own));
    change(&mut scene, Some(before.clone()));
    let is_as_before = |scene: &Scene| {
        let now = scene.snapshot.around.plane.pin.get().unwrap().as_ref();
        now.unwrap().spec.override_rules == before.spec.override_rules
    };
    // As soon as the Works show it, there is nothing to be done.
    scene.play();
    scene.later(SignedDuration::from_secs(60));
    scene.play();
    assert!(is_as_before(&scene));
    let frozen = work("plan-uid.1.2");
    let Seen::Known { value: works, .. } = &mut scene.snapshot.around.plane.works else {
        panic!("the Works are unknown");
    };
    works.insert(EAST.into(), frozen);
    scene.play();
    assert!(is_as_before(&scene));
    scene.later(SignedDuration::from_secs(60));
    scene.play();
    let now = scene.snapshot.around.plane.pin.get().unwrap().as_ref().unwrap();
    assert!(now.spec.override_rules.iter().any(has_own), "{now:#?}");
}
