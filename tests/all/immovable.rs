//! Kinds that cannot be moved with their state: no push moves them, no Migration is set off, and what is asked to move them says why it
//! does not.

use std::sync::Arc;

use cutover::plan::{Action, Change};
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::World;
use cutover::sandbox::api::Resource;
use serde_json::{Value, json};

use crate::placement::{migration, named, phase, policy, started};
use crate::support::fleet::POLICIES;
use crate::support::many::{EVACUATION, Stage, named_policy};
use crate::support::plane::{Plane, settings};
use crate::support::wait::until;

const BINDINGS: Resource = Resource::new("work.karmada.io", "resourcebindings");
const CLUSTERS: Resource = Resource::new("cluster.karmada.io", "clusters");
const CRON_WORKFLOWS: Resource = Resource::new("argoproj.io", "cronworkflows");
const MIGRATIONS: Resource = Resource::new("cutover.dev", "migrations");

const MARIADB: &str = "apiVersion: k8s.mariadb.com/v1alpha1
kind: MariaDB
metadata: {name: db, namespace: shop}
spec: {storage: {size: 1Gi}}
";
const DB_MOVES: &str = "MariaDB shop/db would stop in east and start in west from nothing; MariaDB cannot be moved with its state: \
     a site is primary if its name says so";
const TICK_MOVES: &str = "CronWorkflow shop/tick would start in west while its copy in east may still run; CronWorkflow cannot be moved with \
     its state: Karmada drops its status in a member";

fn definition(group: &str, version: &str, kind: &str, plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

fn install(world: &World, definition: &Value) {
    let members = world.members().map(|member| &member.api);
    for server in members.chain([world.control_plane()]) {
        server.install(definition).unwrap();
    }
}

/// Every server gets the kind; like Argo's own, its definition has no status subresource.
pub(crate) fn install_cron_workflows(world: &World) {
    let definition = definition("argoproj.io", "v1alpha1", "CronWorkflow", "cronworkflows");
    install(world, &definition);
}

pub(crate) fn cron_workflow() -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "CronWorkflow", "metadata": {"name": "tick", "namespace": "shop"},
        "spec": {"schedules": ["0 3 * * *"], "workflowSpec": {"entrypoint": "tick"}},
    })
}

fn of_mariadb(text: &str) -> String {
    text.replace("flink.apache.org/v1beta1", "k8s.mariadb.com/v1alpha1")
        .replace("FlinkDeployment", "MariaDB")
}

fn db_policy(clusters: &str) -> String {
    of_mariadb(&policy("db", "db", clusters))
}

fn tick_policy(clusters: &str) -> String {
    policy("tick", "tick", clusters)
        .replace("flink.apache.org/v1beta1", "argoproj.io/v1alpha1")
        .replace("FlinkDeployment", "CronWorkflow")
}

/// A `MariaDB` and a `CronWorkflow` in east, where a job runs.
async fn with_both(sync: &str) -> (World, Plane) {
    let settings = settings(sync);
    let (world, plane) = started(
        &policy("orders", "orders", "east"),
        &[("cutover.yaml", &settings)],
    )
    .await;
    install(
        &world,
        &definition("k8s.mariadb.com", "v1alpha1", "MariaDB", "mariadbs"),
    );
    install_cron_workflows(&world);
    // What doesn't fit when it is first looked at, the scheduler doesn't look at again.
    let serves = |name: &str| {
        let cluster = plane.get(&CLUSTERS, None, name).unwrap_or_default();
        let served = cluster["status"]["apiEnablements"].to_string();
        ["k8s.mariadb.com/v1alpha1", "CronWorkflow"]
            .iter()
            .all(|kind| served.contains(kind))
    };
    until("the members' kinds are known", || {
        ["east", "west"].into_iter().all(serves)
    })
    .await;
    plane.push(&[
        ("db.yaml", MARIADB),
        ("db-policy.yaml", &db_policy("east")),
        ("tick.yaml", &cron_workflow().to_string()),
        ("tick-policy.yaml", &tick_policy("east")),
    ]);
    plane.run().await;
    let is_placed = |name: &str| {
        let binding = plane.get(&BINDINGS, Some("shop"), name);
        binding.is_some_and(|binding| binding["spec"]["clusters"][0]["name"] == "east")
    };
    until("both are placed", || {
        ["db-mariadb", "tick-cronworkflow"].into_iter().all(is_placed)
    })
    .await;
    (world, plane)
}

/// Why the change of a policy is blocked.
fn blocked(changes: &[Change], name: &str) -> String {
    let is_policy = |change: &&Change| change.key.kind == "PropagationPolicy" && change.key.name == name;
    match changes.iter().find(is_policy).map(|change| &change.action) {
        Some(Action::Blocked { reason }) => reason.clone(),
        other => panic!("{name}: {other:?}"),
    }
}

#[tokio::test]
async fn an_edited_policy_is_held_back_and_sets_no_migration_off() {
    for (sync, says_so) in [
        ("- {name: main}", ""),
        (
            "- {name: main, gate: {migrations: {mode: Auto}}}",
            "no Migration is set off: MariaDB shop/db: no profile says how it is moved",
        ),
    ] {
        let (_world, plane) = with_both(sync).await;
        plane.push(&[
            ("db-policy.yaml", &db_policy("west")),
            ("tick-policy.yaml", &tick_policy("west")),
        ]);
        let planned = plane.plan().await;
        let reason = blocked(&planned, "db");
        for part in [
            DB_MOVES,
            "restore a backup of it there",
            "cutover.dev/accept-state-loss: ",
            says_so,
        ] {
            assert!(reason.contains(part), "{part}: {reason}");
        }
        assert!(!reason.contains("cutover migrate"), "{reason}");
        let reason = blocked(&planned, "tick");
        assert!(
            reason.contains(TICK_MOVES) && reason.contains("until then suspend it"),
            "{reason}"
        );
        for _ in 0..2 {
            let report = plane.sync("main").await;
            let said: Vec<String> = report.all_problems().iter().map(ToString::to_string).collect();
            let said = said.join("\n");
            for part in [DB_MOVES, TICK_MOVES, says_so] {
                assert!(said.contains(part), "{part}: {said}");
            }
            assert_eq!(named(&plane, "db"), json!(["east"]));
            assert_eq!(named(&plane, "tick"), json!(["east"]));
            assert!(plane.server.list(&MIGRATIONS, Some("shop")).is_empty());
        }
    }
}

#[tokio::test]
async fn a_migration_that_a_file_asks_for_ends_in_preflight_with_the_reason() {
    let (_world, plane) = with_both("- {name: main}").await;
    let _running = plane.start();
    plane.push(&[("move.yaml", &of_mariadb(&migration("db", "")))]);
    until("it has ended", || phase(&plane, "db") == "Failed").await;
    let ended = plane
        .get(&MIGRATIONS, Some("shop"), "db-to-west")
        .unwrap_or_default();
    let findings = ended["status"]["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["code"] == "Immovable");
    let finding = finding.unwrap_or_else(|| panic!("{ended:#}"));
    let message = finding["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("MariaDB cannot be moved with its state: a site is primary"),
        "{message}"
    );
    assert_eq!(named(&plane, "db"), json!(["east"]));
}

#[tokio::test(start_paused = true)]
async fn an_evacuation_leaves_it_with_the_reason() {
    let stage = Stage::start(EVACUATION, &[]).await;
    install_cron_workflows(&stage.fleet.world);
    stage
        .fleet
        .until("Karmada knows that east has the kind", |fleet| {
            let east = fleet.world.control_plane().get(&CLUSTERS, None, "east");
            east.is_ok_and(|east| {
                let served = east["status"]["apiEnablements"].to_string();
                served.contains("CronWorkflow")
            })
        })
        .await;
    let only_east = json!({"clusterAffinity": {"clusterNames": ["east"]}});
    stage.fleet.apply(
        &POLICIES,
        named_policy("tick", "argoproj.io/v1alpha1", "CronWorkflow", only_east),
    );
    stage.fleet.apply(&CRON_WORKFLOWS, cron_workflow());
    let is_in_east = || stage.clusters_of("tick", "cronworkflow") == ["east"];
    stage.fleet.until("it is placed", |_| is_in_east()).await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    let spec = |unmovable: &str| {
        json!({
            "cluster": "east", "unmovable": unmovable, "verify": {"healthyFor": "1s", "timeout": "20s"},
        })
    };
    stage.ask("drain", &spec("Wait"));
    let status = stage.waits("drain", "1 workload can't be moved").await;
    let all = status["stays"].as_array().unwrap();
    let stay = all
        .iter()
        .find(|stay| stay["workload"]["name"] == "tick")
        .unwrap();
    assert_eq!(stay["why"]["code"], "Immovable", "{stay:#}");
    let hint = stay["why"]["hint"].as_str().unwrap_or_default();
    assert!(hint.contains("until then suspend it"), "{hint}");
    stage.ask("drain", &spec("Leave"));
    stage.is("drain", "Completed").await;
    stage.assert_all_left();
    assert!(is_in_east());
    let moved = stage.migrations();
    assert!(
        moved
            .iter()
            .all(|one| one["spec"]["workload"]["kind"] == "FlinkDeployment"),
        "{moved:#?}"
    );
}
