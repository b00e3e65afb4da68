//! A template that lacks what a patch is made in, or gets it, while the guard stands.

use serde_json::{Value, json};

use super::scene::{EARLY, EAST, Scene, WEST, held, member, names, seen, template};
use crate::api::{FailoverPhase as Phase, PROFILE_FORMAT, PatchOp, Progress, WorkloadProfileSpec};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{ClusterOverridePolicy, overrides};

const PARENT: &str = "/spec/flinkConfiguration";

fn within(mut scene: Scene, change: impl FnOnce(&mut WorkloadProfileSpec)) -> Scene {
    let profile = &mut scene.status.journal.as_mut().unwrap().profile;
    profile.optional_parents = vec![PARENT.to_owned()];
    change(profile);
    scene
}

fn template_has(scene: &mut Scene, configuration: Option<Value>) {
    let mut template = template();
    let spec = template["spec"].as_object_mut().unwrap();
    spec.remove("flinkConfiguration");
    spec.extend(configuration.map(|there| ("flinkConfiguration".to_owned(), there)));
    scene.snapshot.around.plane.template = seen(Some(template), EARLY);
}

/// What the template and the pin that is there make of the configuration in west; `None`: Karmada can't apply the pin.
fn in_west(scene: &Scene) -> Option<Value> {
    let plane = &scene.snapshot.around.plane;
    let (template, pin) = (plane.template.get().unwrap(), plane.pin.get().unwrap());
    let cluster = &plane.clusters.get().unwrap()[&ClusterName::from(WEST)];
    let none: [ClusterOverridePolicy; 0] = [];
    let pins = [pin.clone().unwrap()];
    let made = overrides::effective(template.as_ref().unwrap(), cluster, &none, &pins).ok()?;
    Some(made["spec"]["flinkConfiguration"].clone())
}

#[test]
fn the_pin_creates_what_a_template_lacks_as_long_as_it_does() {
    let hold = PatchOp::add("/spec/flinkConfiguration/held", "yes");
    let mut scene = within(Scene::guarding(), |profile| profile.hold.push(hold));
    scene.come_about();
    assert_eq!(in_west(&scene), Some(json!({"held": "yes"})));
    template_has(&mut scene, None);
    assert_eq!(
        in_west(&scene),
        None,
        "it would not be held in west, nor run there"
    );
    let before = scene.marker();
    assert_eq!(scene.play(), [EAST], "it runs on");
    assert_eq!(in_west(&scene), Some(json!({"held": "yes"})));
    assert_ne!(scene.marker(), before);
    assert_eq!(scene.status.format(), PROFILE_FORMAT);
    template_has(&mut scene, Some(json!({"a": "b"})));
    assert_eq!(in_west(&scene), Some(json!({"held": "yes"})), "until it is seen");
    assert_eq!(scene.play(), [EAST]);
    assert_eq!(in_west(&scene), Some(json!({"a": "b", "held": "yes"})));
    assert!(scene.is(Phase::Guarding), "{}", scene.waits());
    assert!(scene.told().is_empty(), "{:?}", scene.told());
    assert!(scene.settle().is_empty());
}

/// The pin in force holds everybody, and was written when the template lacked nothing: it was not loosened.
#[test]
fn a_template_that_loses_a_parent_when_the_token_is_given_does_not_keep_it() {
    let hold = PatchOp::add("/spec/flinkConfiguration/held", "yes");
    let mut scene = within(Scene::fencing(), |profile| profile.hold.push(hold));
    scene.come_about();
    let mut copy = held(&scene.marker());
    copy["spec"]["flinkConfiguration"] = json!({"held": "yes"});
    scene.see(WEST, member(Some(copy)));
    scene.snapshot.kept = seen(Some(scene.status.clone()), EARLY);
    while scene.is(Phase::Fencing) {
        assert_eq!(names(&scene.pass()), Vec::<String>::new());
    }
    let decided = scene.status.journal.as_ref().unwrap().pin.seq;
    template_has(&mut scene, None);
    assert_eq!(scene.play(), [WEST]);
    assert_eq!(scene.status.journal.as_ref().unwrap().pin.seq, decided + 1);
    assert!(!scene.told().contains(&"SingleWriterLapse"), "{:?}", scene.told());
}

/// A guest keeps the spec of before, which has no parent. Without one that the pin creates nothing could be held anywhere.
#[test]
fn a_pin_beside_a_guest_that_takes_a_parent_away_goes_on_creating_it() {
    let hold = PatchOp::add("/spec/flinkConfiguration/held", "yes");
    let mut scene = within(Scene::guarding(), |profile| profile.hold.push(hold));
    template_has(&mut scene, None);
    scene.come_about();
    assert_eq!(scene.play(), [EAST]);
    let before = scene
        .snapshot
        .around
        .plane
        .template
        .get()
        .unwrap()
        .as_ref()
        .unwrap();
    let keeps = json!({
        "owner": {"kind": "Rollout", "namespace": "shop", "name": "orders", "uid": "rollout"},
        "rules": [{"patches": [{"op": "add", "path": "/spec", "value": before["spec"]}]}],
    });
    super::guests::says(&mut scene, Some(serde_json::from_value(keeps).unwrap()));
    for has_parent in [false, true] {
        if has_parent {
            template_has(&mut scene, Some(json!({"a": "b"})));
        }
        scene.play();
        let held = Some(json!({"held": "yes"}));
        assert_eq!(in_west(&scene), held, "{has_parent}: {:?}", scene.told());
    }
    assert!(scene.is(Phase::Guarding), "{}", scene.waits());
    // When the guest has left, the pin creates only what the template lacks.
    super::guests::says(&mut scene, None);
    scene.play();
    assert_eq!(in_west(&scene), Some(json!({"a": "b", "held": "yes"})));
}
