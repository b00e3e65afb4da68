//! `cutover wait`: an intent is followed to its end, or to a phase, by a script that knows nothing but its name.

use serde_json::{Value, json};

use crate::support::served::{Served, stderr, stdout};
use cutover::sandbox::api::{Patch, Resource, Subresource, WriteOptions};

const MIGRATIONS: Resource = Resource::new("cutover.dev", "migrations");
const ROLLOUTS: Resource = Resource::new("cutover.dev", "rollouts");
const SUSPENSIONS: Resource = Resource::new("cutover.dev", "suspensions");
const SHIFTS: Resource = Resource::new("cutover.dev", "replicashifts");
const MOVE: &str = "orders-to-west";

fn begun() -> Served {
    let served = Served::start("somebody");
    let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let writer = WriteOptions::manager("somebody");
    let namespaces = Resource::new("", "namespaces");
    served
        .server
        .sandbox()
        .create(&namespaces, None, shop, &writer)
        .unwrap();
    let spec = json!({
        "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"}, "to": "west",
    });
    create(&served, &MIGRATIONS, "Migration", spec);
    says(&served, json!({"phase": "Hold"}));
    served
}

fn create(served: &Served, kind: &Resource, name: &str, spec: Value) {
    let object = json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": name, "metadata": {"namespace": "shop", "name": MOVE}, "spec": spec,
    });
    let writer = WriteOptions::manager("somebody");
    served
        .server
        .sandbox()
        .create(kind, Some("shop"), object, &writer)
        .unwrap();
}

fn says(served: &Served, status: Value) {
    tells(served, &MIGRATIONS, status);
}

fn tells(served: &Served, kind: &Resource, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    let writer = WriteOptions::manager("somebody");
    let server = served.server.sandbox();
    server
        .patch(
            kind,
            Some("shop"),
            MOVE,
            Some(Subresource::Status),
            &patch,
            &writer,
        )
        .unwrap();
}

#[test]
fn each_phase_is_told_until_it_is_completed() {
    let served = begun();
    let mut told = served.follow(&["wait", MOVE]);
    assert_eq!(told.line(), "Migration shop/orders-to-west  Hold\n");
    says(&served, json!({"phase": "Verify"}));
    assert_eq!(told.line(), "Migration shop/orders-to-west  Verify\n");
    says(
        &served,
        json!({"waitingFor": {
            "code": "Approval", "reason": "approval BeforeCleanup", "approval": "Cleanup", "since": "2026-01-01T00:00:00Z",
        }}),
    );
    assert_eq!(
        told.line(),
        "Migration shop/orders-to-west  Verify  waits for a person: approval BeforeCleanup\n"
    );
    says(&served, json!({"phase": "Completed", "waitingFor": null}));
    assert_eq!(told.line(), "Migration shop/orders-to-west  Completed\n");
    assert_eq!(told.code(), Some(0));
}

#[test]
fn a_phase_can_be_waited_for_and_another_end_is_a_failure_that_says_why() {
    let served = begun();
    assert!(
        served
            .cutover(&["wait", "shop/orders-to-west", "--for", "hold"])
            .status
            .success()
    );
    let back = "orders-to-west: no copy came up";
    says(
        &served,
        json!({"phase": "RolledBack", "conditions": [{
            "type": "Completed", "status": "False", "reason": "RolledBack", "message": back, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}),
    );
    let ended = served.cutover(&["wait", MOVE]);
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(stdout(&ended), "Migration shop/orders-to-west  RolledBack\n");
    let why = format!("Migration shop/orders-to-west has ended as RolledBack: {back}");
    assert!(stderr(&ended).contains(&why), "{}", stderr(&ended));
    assert!(
        served
            .cutover(&["wait", MOVE, "--for", "RolledBack"])
            .status
            .success()
    );
}

#[test]
fn a_phase_that_is_over_has_come_also_once_the_end_is_stored_in_lines() {
    let served = begun();
    says(
        &served,
        json!({"phase": "Completed", "timeline": ["2026-01-01T00:00:00Z/PT1S Verify: west was watched healthy for 1s"]}),
    );
    for (phase, code) in [("Verify", 0), ("Capture", 1)] {
        let waited = served.cutover(&["wait", MOVE, "--for", phase, "--timeout", "10s"]);
        assert_eq!(waited.status.code(), Some(code), "{phase}: {}", stderr(&waited));
    }
}

#[test]
fn what_is_in_force_was_waited_for_and_what_halts_has_failed() {
    let served = begun();
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    create(
        &served,
        &SUSPENSIONS,
        "Suspension",
        json!({"target": {"workload": web}, "reason": "a freeze"}),
    );
    tells(&served, &SUSPENSIONS, json!({"phase": "Suspended"}));
    let frozen = served.cutover(&["wait", MOVE, "--kind", "suspension"]);
    assert_eq!(stdout(&frozen), "Suspension shop/orders-to-west  Suspended\n");
    assert_eq!(frozen.status.code(), Some(0), "{}", stderr(&frozen));

    create(&served, &ROLLOUTS, "Rollout", json!({"workload": web}));
    tells(&served, &ROLLOUTS, json!({"phase": "Halted"}));
    let halted = served.cutover(&["wait", MOVE, "--kind", "rollout"]);
    assert_eq!(halted.status.code(), Some(1));
    let why = "Rollout shop/orders-to-west has ended as Halted";
    assert!(stderr(&halted).contains(why), "{}", stderr(&halted));
}

#[test]
fn what_does_not_come_is_given_up_and_what_is_meant_has_to_be_said() {
    let served = begun();
    let late = served.cutover(&["wait", MOVE, "--timeout", "1s"]);
    assert_eq!(late.status.code(), Some(1));
    assert!(
        stderr(&late).contains("after 1s Migration shop/orders-to-west is in Hold"),
        "{}",
        stderr(&late)
    );
    let nobody = served.cutover(&["wait", "nobody", "--timeout", "1s"]);
    assert!(
        stderr(&nobody).contains("there is no intent nobody"),
        "{}",
        stderr(&nobody)
    );
    create(
        &served,
        &SHIFTS,
        "ReplicaShift",
        json!({
            "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "from": {"cluster": "east"}, "to": "west",
        }),
    );
    let which = served.cutover(&["wait", MOVE]);
    assert!(
        stderr(&which).contains(
            "could be any of Migration/orders-to-west in shop, ReplicaShift/orders-to-west in shop"
        ),
        "{}",
        stderr(&which)
    );
    let one = served.cutover(&["wait", MOVE, "--kind", "migration", "--for", "Hold"]);
    assert!(one.status.success(), "{}", stderr(&one));
    let unknown = served.cutover(&["wait", MOVE, "--kind", "Migraton"]);
    assert!(
        stderr(&unknown).contains("does not serve Migraton"),
        "{}",
        stderr(&unknown)
    );
}

#[test]
fn a_phase_that_no_intent_can_come_to_is_refused_before_anything_is_waited_for() {
    let served = begun();
    let refused = |arguments: &[&str], why: &str, hint: &str| {
        let output = served.cutover(&[&["wait"][..], arguments, &["--timeout", "10s"]].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert_eq!(said, format!("error: {why}\nhint: {hint}\n"), "{arguments:?}");
    };
    refused(
        &["mig/orders-to-west", "--for", "Handof"],
        "a Migration does not have a phase Handof",
        "did you mean Handoff?",
    );
    refused(
        &["nothing-yet", "--for", "Handof"],
        "no kind of intent has a phase Handof",
        "did you mean Handoff?",
    );
    refused(
        &[MOVE, "--kind", "susp", "--for", "Verify"],
        "a Suspension does not have a phase Verify",
        "phases are Pending, Suspending, Suspended, Resuming, Completed, Failed, Aborted",
    );
    // Of another kind there is such a phase: which one is meant shows when the intent is there.
    let output = served.cutover(&["wait", MOVE, "--for", "Guarding", "--timeout", "10s"]);
    assert!(
        stderr(&output).contains("a Migration does not have a phase Guarding"),
        "{}",
        stderr(&output)
    );
}
