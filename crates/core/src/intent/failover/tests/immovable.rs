//! A workload of a kind that cannot be moved is not guarded: the plan says why, and what can be done by hand.

use serde_json::json;

use super::scene::{EARLY, Scene, seen};
use crate::api::{FailoverPhase as Phase, FailoverPlanStatus};
use crate::intent::Effect;
use cutover_karmada::name::ObjectKey;

#[test]
fn a_kind_that_cannot_be_moved_is_refused_and_nothing_is_written() {
    let mut scene = Scene::guarding();
    let workload = json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": "MariaDB", "name": "db"});
    let template = json!({
        "apiVersion": "k8s.mariadb.com/v1alpha1", "kind": "MariaDB", "metadata": {"name": "db", "namespace": "shop"},
    });
    scene.spec.workload = serde_json::from_value(workload).unwrap();
    scene.status = FailoverPlanStatus::default();
    scene.snapshot.kept = seen(None, EARLY);
    let around = &mut scene.snapshot.around;
    around.workload = ObjectKey {
        group: "k8s.mariadb.com".to_owned(),
        kind: "MariaDB".to_owned(),
        namespace: Some("shop".to_owned()),
        name: "db".to_owned(),
    };
    around.plane.template = seen(Some(template), EARLY);
    around.plane.claim = seen(None, EARLY);
    around.plane.profiles = seen(Vec::new(), EARLY);
    let effects = scene.settle();
    // It comes after the end, and nothing was sent before it.
    assert!(matches!(effects[..], [Effect::RemoveFinalizer]), "{effects:?}");
    assert!(scene.is(Phase::Failed), "{}", scene.status.phase);
    assert!(scene.status.journal.is_none());
    assert_eq!(scene.told(), ["Immovable"]);
    let finding = &scene.status.common.findings[0];
    assert_eq!(
        finding.message,
        "no WorkloadProfile says how k8s.mariadb.com/v1alpha1 MariaDB is held; MariaDB cannot be moved with its state: a site is primary \
         if its name says so, and Karmada gives both copies one name"
    );
    let hint = finding.hint.as_deref().unwrap_or_default();
    assert!(
        hint.contains("until then restore a backup of it there, or let a replica there take over"),
        "{hint}"
    );
}
