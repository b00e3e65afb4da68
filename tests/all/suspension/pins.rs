//! Suspensions of one workload of several that a policy has: a pin keeps it as it is.

use std::sync::Arc;
use std::time::Duration;

use cutover::reconcile::intents::{FailpointHook, NoFailpoints};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{CONFIG_MAPS, DEPLOYMENTS, SUSPENSIONS, Stage, Until, policy, selector, web};
use crate::support::fleet::{BINDINGS, CLAIMS, JOBS, PINS, POLICIES, job};

/// The stage, with a policy that has another object as well.
pub async fn shared() -> Stage {
    let stage = Stage::start().await;
    let both = json!([selector("Deployment", "web"), selector("ConfigMap", "prices")]);
    stage.fleet.apply(&POLICIES, policy("web", both));
    stage.fleet.apply(&CONFIG_MAPS, prices("1"));
    stage
        .fleet
        .until("both are bound", |fleet| fleet.count(&BINDINGS) == 3)
        .await;
    stage
}

fn prices(value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices", "namespace": "shop"},
        "data": {"a": value},
    })
}

/// What of a copy comes from its template.
fn content(copy: &Value) -> Value {
    let entries = |field: &str| -> Vec<Value> {
        let entries = copy["metadata"][field].as_object().cloned().unwrap_or_default();
        let theirs = entries
            .into_iter()
            .filter(|(key, _)| !key.contains("karmada.io/") && !key.starts_with("cutover.dev/"));
        theirs.map(|(key, value)| json!([key, value])).collect()
    };
    json!([copy["spec"], entries("labels"), entries("annotations")])
}

/// Another version each time: of its spec, its replicas, its labels and its annotations.
fn version(number: usize) -> Value {
    let mut template = web("web", number);
    template["spec"]["replicas"] = (number % 7).into();
    template["metadata"]["labels"] = json!({"version": format!("v{number}")});
    template["metadata"]["annotations"] =
        json!({"note": format!("{number}"), format!("only-{}", number % 3): "x"});
    template
}

#[tokio::test(start_paused = true)]
async fn a_thousand_changes_a_minute_change_nothing_in_a_suspended_cluster_whoever_controls() {
    let mut stage = shared().await;
    stage.suspend("freeze", json!({"clusters": ["east", "north"]}));
    stage.is("freeze", "Suspended").await;
    assert_eq!(stage.codes("freeze"), ["HeldByPin"]);
    stage.assert_policy_is_clean();
    let held = |stage: &Stage| ["east", "north"].map(|cluster| content(&stage.copy(cluster)));
    let before = held(&stage);
    for number in 1..=1000 {
        stage.fleet.apply(&DEPLOYMENTS, version(number));
        if number % 100 == 0 {
            stage.controller = Some(stage.fleet.controller(Arc::new(NoFailpoints)));
        }
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert_eq!(held(&stage), before, "{number}");
    }
    stage.fleet.apply(&CONFIG_MAPS, prices("2"));
    stage
        .fleet
        .until("the others have what is newest", |_| {
            let east = &stage.fleet.world.member("east").api;
            let prices = east.get(&CONFIG_MAPS, Some("shop"), "prices").unwrap();
            stage.image("west") == "web:1000" && prices["data"]["a"] == "2"
        })
        .await;
    stage
        .fleet
        .until("what would go out is told", |_| {
            let held = stage.status("freeze")["held"].clone();
            let fields = "/spec/template/spec/containers";
            let all = held.as_array().cloned().unwrap_or_default();
            all.len() == 2
                && all
                    .iter()
                    .all(|held| held["pending"].to_string().contains(fields))
        })
        .await;
    assert_eq!(
        stage.status("freeze")["workloads"],
        json!(["Deployment shop/web"])
    );
    stage.delete(&SUSPENSIONS, "freeze");
    stage.fleet.until("it is gone", |_| stage.is_gone("freeze")).await;
    stage.catches_up("web:1000").await;
    assert_eq!((stage.fleet.count(&PINS), stage.fleet.count(&CLAIMS)), (0, 0));
}

/// Karmada's own note of the template's generation counts as a change of a Deployment, and of no custom resource.
#[tokio::test(start_paused = true)]
async fn no_generation_passes_in_a_member_where_notes_do_not_count() {
    let mut stage = Stage::start().await;
    let orders = json!([
        {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
        selector("ConfigMap", "prices"),
    ]);
    stage.fleet.patch(
        &POLICIES,
        "orders",
        json!({"spec": {"resourceSelectors": orders}}),
    );
    let target = json!({"workload": {
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders",
    }});
    stage.suspend("freeze", json!({"target": target}));
    stage.is("freeze", "Suspended").await;
    let generation = || stage.fleet.copy("east").unwrap()["metadata"]["generation"].clone();
    let before = generation();
    for number in 1..=1000 {
        stage.fleet.apply(&JOBS, job(&format!("orders:{number}")));
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert_eq!(
            stage.fleet.copy("east").unwrap()["metadata"]["generation"],
            before,
            "{number}"
        );
        if number % 250 == 0 {
            stage.controller = Some(stage.fleet.controller(Arc::new(NoFailpoints)));
        }
    }
    assert!(stage.fleet.runs_in("east"));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_chosen_later_gets_what_is_held_and_nothing_newer() {
    let stage = shared().await;
    let within =
        |clusters: Value| json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": clusters}}}});
    stage.fleet.patch(&POLICIES, "web", within(json!(["east"])));
    stage
        .fleet
        .until("north is left", |_| stage.copy("north").is_null())
        .await;
    stage.suspend("freeze", json!({}));
    stage.is("freeze", "Suspended").await;
    stage.fleet.apply(&DEPLOYMENTS, version(1));
    tokio::time::sleep(Duration::from_secs(5)).await;
    stage
        .fleet
        .patch(&POLICIES, "web", within(json!(["east", "north"])));
    stage
        .fleet
        .until("north has it", |_| {
            let image = stage.image("north");
            assert!(image.is_empty() || image == "web:0", "{image} got there");
            image == "web:0"
        })
        .await;
    stage.delete(&SUSPENSIONS, "freeze");
    stage
        .fleet
        .until("north is up to date", |_| stage.image("north") == "web:1")
        .await;
}

#[tokio::test(start_paused = true)]
async fn what_has_no_spec_is_refused_under_a_policy_with_others_and_touched_by_nothing() {
    let stage = shared().await;
    let prices = json!({"workload": {"apiVersion": "v1", "kind": "ConfigMap", "name": "prices"}});
    stage.suspend("freeze", json!({"target": prices}));
    stage.is("freeze", "Failed").await;
    assert_eq!(stage.codes("freeze"), ["SharedPolicy"]);
    stage.assert_policy_is_clean();
    assert_eq!((stage.fleet.count(&PINS), stage.fleet.count(&CLAIMS)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_pin_that_somebody_edits_is_written_anew() {
    let stage = shared().await;
    stage.suspend("freeze", json!({"clusters": ["east"]}));
    stage.is("freeze", "Suspended").await;
    let pin = || {
        let server = stage.fleet.world.control_plane();
        let pins = server
            .list(
                &PINS,
                Some("shop"),
                &cutover::sandbox::api::ListOptions::default(),
            )
            .unwrap();
        (*pins.items[0]).clone()
    };
    let name = pin()["metadata"]["name"].as_str().unwrap().to_owned();
    let said = pin()["spec"]["overrideRules"].clone();
    let mut edited = said.clone();
    edited[0]["overriders"]["plaintext"][0]["value"]["replicas"] = 9.into();
    stage
        .fleet
        .patch(&PINS, &name, json!({"spec": {"overrideRules": edited}}));
    stage
        .fleet
        .until("it says again what it said", |_| {
            pin()["spec"]["overrideRules"][0] == said[0] && stage.copy("east")["spec"]["replicas"] == 1
        })
        .await;
    stage.fleet.apply(&DEPLOYMENTS, version(3));
    stage
        .fleet
        .until("west has it", |_| stage.image("west") == "web:3")
        .await;
    assert_eq!(stage.image("east"), "web:0");
}

#[tokio::test(start_paused = true)]
async fn a_suspension_of_the_whole_policy_stands_beside_one_by_a_pin() {
    let stage = shared().await;
    stage.suspend("one", json!({"clusters": ["east"]}));
    stage.is("one", "Suspended").await;
    stage.suspend("all", json!({"target": {"policy": {"name": "web"}}}));
    stage.is("all", "Suspended").await;
    stage.fleet.apply(&DEPLOYMENTS, version(1));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(stage.image("west"), "web:0");
    stage.delete(&SUSPENSIONS, "all");
    stage
        .fleet
        .until("west has it", |_| stage.image("west") == "web:1")
        .await;
    assert_eq!(stage.image("east"), "web:0");
    stage.delete(&SUSPENSIONS, "one");
    stage.catches_up("web:1").await;
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_line_a_pin_comes_into_force_without_a_leak_and_ends_clean() {
    let mut stage = shared().await;
    for lines in 0.. {
        stage.controller = None;
        let until = Arc::new(Until(lines.into(), Notify::new()));
        stage.controller = Some(
            stage
                .fleet
                .controller(Arc::clone(&until) as Arc<dyn FailpointHook>),
        );
        stage.suspend("freeze", json!({"clusters": ["east"]}));
        let killed = tokio::select! {
            () = until.1.notified() => true,
            () = stage.is("freeze", "Suspended") => false,
        };
        let survived = if killed {
            false
        } else {
            stage.delete(&SUSPENSIONS, "freeze");
            tokio::select! {
                () = until.1.notified() => false,
                () = stage.fleet.until("it is gone", |_| stage.is_gone("freeze")) => true,
            }
        };
        stage.controller = None;
        stage.controller = Some(stage.fleet.controller(Arc::new(NoFailpoints)));
        if killed {
            stage.is("freeze", "Suspended").await;
            let held = content(&stage.copy("east"));
            stage.fleet.apply(&DEPLOYMENTS, version(lines + 1));
            let image = format!("web:{}", lines + 1);
            stage
                .fleet
                .until("west has it", |_| stage.image("west") == image)
                .await;
            assert_eq!(content(&stage.copy("east")), held, "killed after {lines} lines");
            stage.delete(&SUSPENSIONS, "freeze");
        }
        stage.fleet.until("it is gone", |_| stage.is_gone("freeze")).await;
        assert_eq!(
            (stage.fleet.count(&PINS), stage.fleet.count(&CLAIMS)),
            (0, 0),
            "{lines}"
        );
        if survived {
            assert!(lines > 10, "only {lines} lines");
            return;
        }
    }
}
