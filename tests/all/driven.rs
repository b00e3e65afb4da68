//! A push that changes a policy, and nothing else: where the sync says so, each workload that would lose its state gets a Migration,
//! and the policy goes out when all of them are across. Whatever Git says last is where it ends.

use cutover::name::{ObjectKey, Revision};
use cutover::plan::Action;
use cutover::sandbox::api::{Patch, Resource};
use cutover::sandbox::karmada::Features;
use cutover::sandbox::{World, WorldOptions};
use serde_json::{Value, json};

use crate::placement::{job, migration, named, policy, runs, started, started_in};
use crate::support::commands::Commands;
use crate::support::fleet::opened;
use crate::support::plane::{NAMESPACE, Plane, settings};
use crate::support::wait::until;

const MIGRATIONS: Resource = Resource::new("cutover.dev", "migrations");
const CLUSTERS: Resource = Resource::new("cluster.karmada.io", "clusters");
const POLICIES: Resource = Resource::new("policy.karmada.io", "propagationpolicies");
const BINDINGS: Resource = Resource::new("work.karmada.io", "resourcebindings");
/// The placement that `orders` begins with.
const EAST: &str = "{clusterAffinity: {clusterNames: [east]}}";
const AUTO: &str =
    "- {name: main, gate: {migrations: {mode: Auto, maxParallel: 1, verify: {healthyFor: 1s}}}}";
/// The target is watched for longer than any test takes.
const PATIENT: &str =
    "- {name: main, gate: {migrations: {mode: Auto, verify: {healthyFor: 2h, timeout: 3h}}}}";

/// The same two, of a sync that deletes what leaves Git.
const AUTO_PRUNES: &str = "- {name: main, prune: true, pruneLimit: {objects: 100, percent: 100}, \
     gate: {migrations: {mode: Auto, verify: {healthyFor: 1s}}}}";
const PATIENT_PRUNES: &str = "- {name: main, prune: true, pruneLimit: {objects: 100, percent: 100}, \
     gate: {migrations: {mode: Auto, verify: {healthyFor: 2h, timeout: 3h}}}}";

/// A copy of a job in west never comes up.
const BROKEN: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: broken, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment}]
  overrideRules:
  - targetCluster: {clusterNames: [west]}
    overriders: {plaintext: [{path: /spec/image, operator: replace, value: 'orders:broken'}]}
";
/// Selects every job, and places it in north, where nothing else selects it.
const EVERYTHING: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: everything}
spec:
  resourceSelectors: [{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment}]
  placement: {clusterAffinity: {clusterNames: [north]}}
";

fn migrations(plane: &Plane) -> Vec<Value> {
    plane.server.list(&MIGRATIONS, Some("shop"))
}

/// Why the first of them was rolled back.
fn why_back(plane: &Plane) -> Value {
    opened(&migrations(plane)[0]["status"])["journal"]["rollBack"]["reason"].clone()
}

fn phases(plane: &Plane) -> Vec<String> {
    let phase = |one: &Value| one["status"]["phase"].as_str().unwrap_or_default().to_owned();
    migrations(plane).iter().map(phase).collect()
}

/// Every sync has come to the newest commit, as the status branch says.
fn is_read(plane: &Plane) -> bool {
    let page = plane
        .origin
        .read("cutover-status", "STATUS.md")
        .unwrap_or_default();
    let tip = plane.origin.tip("main").unwrap().to_string();
    let rows = page.lines().skip_while(|line| *line != "## Syncs");
    let rows = rows
        .skip(1)
        .skip_while(|line| line.is_empty())
        .take_while(|line| line.starts_with('|'));
    // After the heads of the columns and the line below them.
    let mut rows = rows.skip(2).peekable();
    rows.peek().is_some() && rows.all(|row| row.contains(&tip[..7]))
}

fn is_clean(world: &World) {
    assert!(world.ledger().verdict().is_clean(), "{}", world.ledger());
}

async fn problems(plane: &Plane) -> String {
    let report = plane.sync("main").await;
    let all: Vec<String> = report.all_problems().iter().map(ToString::to_string).collect();
    all.join("\n")
}

#[tokio::test]
async fn a_policy_edit_is_a_migration() {
    let settings = settings(AUTO);
    let (world, plane) = started(
        &policy("orders", "orders", "east"),
        &[("cutover.yaml", &settings)],
    )
    .await;
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);

    // The plan says what the push sets off.
    let planned = plane.plan().await;
    let of = |kind: &str| planned.iter().find(|change| change.key.kind == kind).unwrap();
    let held = &of("PropagationPolicy").action;
    assert!(
        matches!(held, Action::HeldBack { by } if by.contains("Migration")),
        "{held:?}"
    );
    let created = of("Migration");
    assert_eq!(created.action, Action::Create);
    assert_eq!(created.after.as_ref().unwrap()["spec"]["to"], "west");
    assert!(migrations(&plane).is_empty(), "a plan has written something");

    let _running = plane.start();
    until("the policy is in force", || {
        named(&plane, "orders") == json!(["west"])
    })
    .await;
    until("it has ended", || phases(&plane) == ["Completed"]).await;
    is_clean(&world);
    assert_eq!(world.ledger().verdict().runs.len(), 2, "{}", world.ledger());
    assert!(runs(&world, "west", "orders"));
    let spec = migrations(&plane)[0]["spec"].clone();
    assert_eq!((&spec["from"], &spec["to"]), (&json!("east"), &json!("west")));
}

/// A run waits for no policy that only the next sync brings.
#[tokio::test]
async fn one_run_after_the_other_carries_a_policy_edit_to_its_end() {
    let settings = settings(AUTO_PRUNES);
    let files = [("cutover.yaml", &*settings)];
    let (edited, next) = (policy("orders", "orders", "west"), successor("west"));
    let pushes: [(&str, &[(&str, &str)]); 2] = [
        ("orders", &[("policy.yaml", &edited)]),
        ("orders-next", &[("policy.yaml", ""), ("next.yaml", &next)]),
    ];
    for (ends_with, push) in pushes {
        let (world, plane) = started(&policy("orders", "orders", "east"), &files).await;
        plane.push(push);
        // It is under way before the first of them: whether that sees a Migration that it has just set off is a matter of time.
        let running = plane.start();
        until("it is under way", || phases(&plane).len() == 1).await;
        drop(running);
        for _ in 0..3 {
            plane.run().await;
        }
        assert_eq!(phases(&plane), ["Completed"]);
        assert_eq!(named(&plane, ends_with), json!(["west"]));
        is_clean(&world);
    }
}

#[tokio::test]
async fn it_is_asked_for_by_the_sync_the_policy_or_the_workload() {
    let annotated = |text: &str, mode: &str| {
        text.replace(
            "namespace: shop",
            &format!("namespace: shop, annotations: {{cutover.dev/migrations: '{mode}'}}"),
        )
    };
    for (sync, on_policy, on_job, moves) in [
        ("- {name: main}", None, None, false),
        ("- {name: main}", Some("auto"), None, true),
        (AUTO, Some("manual"), None, false),
        (AUTO, None, Some("manual"), false),
        // The word of the job counts before both.
        ("- {name: main}", None, Some("auto"), true),
        ("- {name: main}", Some("manual"), Some("auto"), true),
        (AUTO, Some("auto"), Some("manual"), false),
        // A word that nobody knows asks for nothing.
        ("- {name: main}", Some("always"), None, false),
    ] {
        let settings = settings(sync);
        let more = [("cutover.yaml", &*settings)];
        let (world, plane) = started(&policy("orders", "orders", "east"), &more).await;
        if let Some(mode) = on_job {
            plane.push(&[("job.yaml", &annotated(&job("orders"), mode))]);
            plane.run().await;
        }
        let mut after = policy("orders", "orders", "west");
        if let Some(mode) = on_policy {
            after = annotated(&after, mode);
        }
        plane.push(&[("policy.yaml", &after)]);
        let problems = problems(&plane).await;
        let context = format!("{sync} {on_policy:?} {on_job:?}: {problems}");
        assert_eq!(migrations(&plane).len(), usize::from(moves), "{context}");
        assert_eq!(problems.contains("from nothing"), !moves, "{context}");
        let against = match (on_policy, on_job) {
            (_, Some(_)) => "of FlinkDeployment shop/orders does not say auto",
            (Some(_), None) => "of the policy does not say auto",
            (None, None) => "from nothing",
        };
        assert_eq!(problems.contains(against), !moves, "{context}");
        is_clean(&world);
    }
}

#[tokio::test]
async fn a_revert_in_mid_flight_brings_it_back() {
    let settings = settings(PATIENT);
    let before = policy("orders", "orders", "east");
    let (world, plane) = started(&before, &[("cutover.yaml", &settings)]).await;
    let running = plane.start();
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    until("the target is watched", || phases(&plane) == ["Verify"]).await;
    plane.push(&[("policy.yaml", &before)]);
    until("it is rolled back", || phases(&plane) == ["Aborted"]).await;
    assert_eq!(why_back(&plane), "called off: Git now asks for another placement");
    until("it runs where it did", || runs(&world, "east", "orders")).await;
    assert_eq!(named(&plane, "orders"), json!(["east"]));
    is_clean(&world);
    // Asked again, it is tried again.
    drop(running);
    plane.push(&[
        ("policy.yaml", &policy("orders", "orders", "west")),
        ("cutover.yaml", &crate::support::plane::settings(AUTO)),
    ]);
    let _running = plane.start();
    until("the policy is in force", || {
        named(&plane, "orders") == json!(["west"])
    })
    .await;
    until("it has ended", || {
        phases(&plane).contains(&"Completed".to_owned())
    })
    .await;
    is_clean(&world);
}

/// No file asks for it, so what a person says is written to the control plane; the sync that set it off lets that be.
#[tokio::test]
async fn the_commands_that_status_prints_control_a_migration_without_a_file() {
    let settings = settings(PATIENT);
    let before = policy("orders", "orders", "east");
    let (world, plane) = started(&before, &[("cutover.yaml", &settings)]).await;
    let _running = plane.start();
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    until("the target is watched", || phases(&plane) == ["Verify"]).await;
    let commands = Commands::of(&world, &plane).await;
    let name = format!(
        "shop/{}",
        migrations(&plane)[0]["metadata"]["name"].as_str().unwrap()
    );
    let wait = || migrations(&plane)[0]["status"]["waitingFor"].clone();
    let head = plane.origin.tip("main");

    let tried = commands.done(&format!("pause {name} --dry-run")).await;
    assert_eq!(tried, "");
    assert!(migrations(&plane)[0]["spec"]["paused"].is_null());
    let said = commands.done(&format!("pause {name}")).await;
    assert!(
        said.contains("because a change of PropagationPolicy shop/orders asks for it, and no file: Pause"),
        "{said}"
    );
    until("it is paused", || wait()["code"] == "Pause").await;
    let resume = commands.printed(&name).await;
    assert_eq!(resume, [format!("resume {name}")]);
    commands.done(&resume[0]).await;
    until("it goes on", || wait()["code"] != "Pause").await;

    world.faults().partition("east");
    commands.done(&format!("abort {name}")).await;
    let asks = || {
        wait()["offers"]
            .as_array()
            .is_some_and(|offers| !offers.is_empty())
    };
    until("it asks", asks).await;
    let printed = commands.printed(&name).await;
    let keep = format!("assume {name} to west");
    assert!(printed.contains(&keep), "{printed:?}");
    let said = commands.refused(&format!("assume {name} from north")).await;
    assert!(
        said.contains("does not currently ask for the assumption from north"),
        "{said}"
    );
    let said = commands.refused(&format!("approve {name} --wave 2")).await;
    assert!(said.contains("takes no such approval"), "{said}");
    commands.done(&keep).await;
    until("west keeps it", || phases(&plane) == ["Cleanup"]).await;
    world.faults().heal("east");
    until("it has ended", || phases(&plane) == ["Completed"]).await;
    assert_eq!(named(&plane, "orders"), json!(["west"]));
    assert_eq!(plane.origin.tip("main"), head, "nothing is committed");
    is_clean(&world);
}

#[tokio::test]
async fn two_commits_in_a_row_end_in_what_the_last_one_says() {
    let settings = settings(PATIENT);
    let (world, plane) = started(
        &policy("orders", "orders", "east"),
        &[("cutover.yaml", &settings)],
    )
    .await;
    let _running = plane.start();
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    until("the target is watched", || phases(&plane) == ["Verify"]).await;
    plane.push(&[
        ("policy.yaml", &policy("orders", "orders", "north")),
        ("cutover.yaml", &crate::support::plane::settings(AUTO)),
    ]);
    until("the policy is in force", || {
        named(&plane, "orders") == json!(["north"])
    })
    .await;
    until("it has ended", || phases(&plane) == ["Completed", "Aborted"]).await;
    assert!(runs(&world, "north", "orders"));
    is_clean(&world);
}

/// The sync that set the Migration off is there no more when Git asks for something else.
#[tokio::test]
async fn a_sync_that_is_renamed_in_mid_flight_leaves_no_move_behind() {
    let settings = settings(PATIENT);
    let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &settings)]).await;
    let running = plane.start();
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    until("the target is watched", || phases(&plane) == ["Verify"]).await;
    running.stop().await;
    let by = || migrations(&plane)[0]["metadata"]["annotations"]["cutover.dev/set-off-by"].clone();
    let before = by();
    plane.push(&[("cutover.yaml", &renamed(PATIENT))]);
    let running = plane.start();
    until("the renamed sync has taken it over", || by() != before).await;
    assert_eq!(phases(&plane), ["Verify"]);
    running.stop().await;
    plane.push(&[
        ("policy.yaml", &policy("orders", "orders", "north")),
        ("cutover.yaml", &renamed(AUTO)),
    ]);
    let _running = plane.start();
    until("it is where Git says", || {
        phases(&plane) == ["Completed", "Aborted"]
    })
    .await;
    assert_eq!(named(&plane, "orders"), json!(["north"]));
    assert!(runs(&world, "north", "orders"));
    is_clean(&world);
}

/// A push to another repository has set it off, or to this one in another place: nothing tells the two apart but a person.
#[tokio::test]
async fn a_committed_move_of_another_repository_is_told_with_what_a_person_can_do() {
    let (_world, plane) = overtaken_in_cleanup(|plane, _| {
        plane.push(&[("policy.yaml", &policy("orders", "orders", "north"))]);
    })
    .await;
    let name = migrations(&plane)[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let here = migrations(&plane)[0]["metadata"]["annotations"]["cutover.dev/source"].clone();
    let annotate = |source: &Value| {
        let annotations = json!({"cutover.dev/set-off-by": "another", "cutover.dev/source": source});
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let server = &plane.server;
        server.patch(&MIGRATIONS, Some("shop"), &name, None, &patch, "kubectl");
    };
    annotate(&json!("git.example.com/fleet@main"));
    let report = plane.sync("main").await;
    let problems = report.all_problems();
    let told = problems.iter().find(|problem| {
        let text = problem.to_string();
        text.contains(&name) && text.contains("a push to git.example.com/fleet@main has set it off")
    });
    let told = told.unwrap_or_else(|| panic!("{problems:?}"));
    let says = format!(
        "if this repository was in git.example.com/fleet@main before, annotate the Migration with cutover.dev/source={}",
        here.as_str().unwrap()
    );
    assert!(told.hint.as_ref().unwrap().contains(&says), "{told:?}");
    assert_eq!(phases(&plane), ["Cleanup"]);
    assert_eq!(named(&plane, "orders"), json!(["east"]));
    annotate(&here);
    let _running = plane.start();
    until("it is where Git says", || phases(&plane) == ["Completed"; 2]).await;
    assert_eq!(named(&plane, "orders"), json!(["north"]));
}

/// `orders` is committed in west, the policy that keeps it there is not applied yet, and `push` has changed Git since. No reconciler runs.
async fn overtaken_in_cleanup(push: impl FnOnce(&Plane, &Revision)) -> (World, Plane) {
    let settings = settings(AUTO);
    let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &settings)]).await;
    let tip = plane.origin.tip("main").unwrap();
    let running = plane.start();
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    until("it has begun", || {
        phases(&plane)
            .iter()
            .any(|phase| phase == "Handoff" || phase == "Verify")
    })
    .await;
    plane.refuse(&["PATCH /apis/policy.karmada.io/v1alpha1/namespaces/shop/propagationpolicies/orders"]);
    until("it is committed", || phases(&plane) == ["Cleanup"]).await;
    push(&plane, &tip);
    until("the push is read", || is_read(&plane)).await;
    running.stop().await;
    plane.refuse(&[]);
    (world, plane)
}

/// From where to where the Migrations have moved.
fn moves(plane: &Plane) -> Vec<(Value, Value)> {
    let all = migrations(plane);
    let each = all
        .iter()
        .map(|one| (one["spec"]["from"].clone(), one["spec"]["to"].clone()));
    each.collect()
}

/// The job was moved to west and from there to where Git says by now, each time with its state.
fn has_moved_by_way_of_west(world: &World, plane: &Plane, to: &str) {
    assert_eq!(phases(plane), ["Completed"; 2], "{to}");
    let moves = moves(plane);
    for (from, to) in [("east", "west"), ("west", to)] {
        assert!(moves.contains(&(json!(from), json!(to))), "{moves:?}");
    }
    assert_eq!(named(plane, "orders"), json!([to]));
    assert!(runs(world, to, "orders"));
    is_clean(world);
    assert_eq!(world.ledger().verdict().runs.len(), 3, "{}", world.ledger());
}

/// `cutover.yaml` with the sync of these under another name.
fn renamed(sync: &str) -> String {
    settings(&sync.replace("name: main", "name: fleet"))
}

/// A third cluster, the first one again, another history in which the policy never named west, and another name of the sync.
#[tokio::test]
async fn what_git_says_after_the_commit_point_is_reached_by_way_of_what_was_agreed() {
    type Push = fn(&Plane, &Revision);
    let pushes: [(&str, Push); 4] = [
        ("north", |plane, _| {
            plane.push(&[("policy.yaml", &policy("orders", "orders", "north"))]);
        }),
        ("east", |plane, _| plane.push(&[("policy.yaml", &placed(EAST))])),
        ("north", |plane, tip| {
            let north = policy("orders", "orders", "north");
            let files = [("policy.yaml", &*north)];
            plane.origin.commit_on("main", Some(tip), &files);
        }),
        ("north", |plane, _| {
            let north = policy("orders", "orders", "north");
            plane.push(&[("policy.yaml", &*north), ("cutover.yaml", &*renamed(AUTO))]);
        }),
    ];
    for (to, push) in pushes {
        let (world, plane) = overtaken_in_cleanup(push).await;
        let _running = plane.start();
        until("it is where Git says", || phases(&plane) == ["Completed"; 2]).await;
        has_moved_by_way_of_west(&world, &plane, to);
    }
}

/// Killed at its first writes and at some later ones, with and without an answer: what runs next goes on from there.
#[tokio::test]
async fn a_process_that_dies_after_the_commit_point_leaves_a_job_that_ends_where_git_says() {
    let north = policy("orders", "orders", "north");
    for (write, answered) in [
        (0, false),
        (0, true),
        (1, true),
        (3, false),
        (9, true),
        (20, false),
    ] {
        let (world, plane) = overtaken_in_cleanup(|plane, _| plane.push(&[("policy.yaml", &north)])).await;
        plane.run_until(write, answered).await;
        for _ in 0..6 {
            if phases(&plane) != ["Completed"; 2] {
                plane.run().await;
            }
        }
        has_moved_by_way_of_west(&world, &plane, "north");
    }
}

#[tokio::test]
async fn a_plan_says_that_the_placement_that_was_agreed_goes_first() {
    let north = policy("orders", "orders", "north");
    let (_world, plane) = overtaken_in_cleanup(|plane, _| plane.push(&[("policy.yaml", &north)])).await;
    let planned = plane.plan().await;
    let own = planned
        .iter()
        .find(|change| change.key.kind == "PropagationPolicy")
        .unwrap();
    assert!(
        matches!(&own.action, Action::HeldBack { by } if by.contains("Migration") && by.contains("goes first")),
        "{:?}",
        own.action
    );
}

/// Then nothing needs what was agreed, and the policy isn't written by turns.
#[tokio::test]
async fn a_newer_placement_whose_loss_is_accepted_is_written_once() {
    let annotated = |annotation: &str| {
        let annotations = format!("namespace: shop, annotations: {{{annotation}}}");
        policy("orders", "orders", "north").replace("namespace: shop", &annotations)
    };
    let manual = annotated("cutover.dev/migrations: manual");
    let (world, plane) = overtaken_in_cleanup(|plane, _| plane.push(&[("policy.yaml", &manual)])).await;
    let report = plane.sync("main").await;
    let problems = report.all_problems();
    let hint = problems.iter().find_map(|problem| {
        let (_, digest) = problem
            .hint
            .as_ref()?
            .split_once("cutover.dev/accept-state-loss: ")?;
        Some(digest.to_owned())
    });
    let digest = hint.unwrap();
    plane.push(&[(
        "policy.yaml",
        &annotated(&format!("cutover.dev/accept-state-loss: '{digest}'")),
    )]);
    for writes in [1, 0] {
        plane.writes();
        plane.run().await;
        let written = plane.writes();
        let of_policy = |line: &&String| line.ends_with("/propagationpolicies/orders");
        assert_eq!(written.iter().filter(of_policy).count(), writes, "{written:?}");
        assert_eq!(named(&plane, "orders"), json!(["north"]));
    }
    assert_eq!(phases(&plane), ["Cleanup"]);
    assert!(runs(&world, "west", "orders"));
}

#[tokio::test]
async fn a_policy_that_says_manual_leaves_what_was_agreed_to_a_person() {
    let manual = policy("orders", "orders", "north").replace(
        "namespace: shop",
        "namespace: shop, annotations: {cutover.dev/migrations: manual}",
    );
    let (world, plane) = overtaken_in_cleanup(|plane, _| plane.push(&[("policy.yaml", &manual)])).await;
    plane.run().await;
    assert_eq!(phases(&plane), ["Cleanup"]);
    assert_eq!(named(&plane, "orders"), json!(["east"]));
    let reason = &migrations(&plane)[0]["status"]["waitingFor"]["reason"];
    assert!(reason.as_str().unwrap().contains("west to be kept"), "{reason}");
    assert!(runs(&world, "west", "orders"));
    // What was agreed, and then the newer one.
    let _running = plane.start();
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    until("it has ended", || phases(&plane) == ["Completed"]).await;
    plane.push(&[("policy.yaml", &policy("orders", "orders", "north"))]);
    until("it is where Git says", || phases(&plane) == ["Completed"; 2]).await;
    has_moved_by_way_of_west(&world, &plane, "north");
}

/// The policy names west by the time, and its placement does not come to the workload: what is in the way is said.
#[tokio::test]
async fn a_policy_that_becomes_lazy_in_mid_flight_is_named_as_what_the_end_waits_for() {
    let west = policy("orders", "orders", "west");
    let lazy = west.replace("spec:", "spec:\n  activationPreference: Lazy");
    let (world, plane) = overtaken_in_cleanup(|plane, _| plane.push(&[("policy.yaml", &lazy)])).await;
    let _running = plane.start();
    until("the policy is in force", || {
        named(&plane, "orders") == json!(["west"])
    })
    .await;
    until("it says what it waits for", || {
        let reason = migrations(&plane)[0]["status"]["waitingFor"]["reason"].clone();
        reason.as_str().is_some_and(|reason| {
            reason.contains("does not hold west") && reason.contains("activationPreference")
        })
    })
    .await;
    assert_eq!(phases(&plane), ["Cleanup"]);
    plane.push(&[("policy.yaml", &west)]);
    until("it has ended", || phases(&plane) == ["Completed"]).await;
    assert!(runs(&world, "west", "orders"));
    is_clean(&world);
}

/// The policy is in force, and west is lost before the Migration has ended: the job goes back on a person's word, and Git has to follow.
#[tokio::test]
async fn a_job_that_is_given_back_after_the_commit_gets_the_policy_that_keeps_it_there() {
    let (world, plane) = overtaken_in_cleanup(|_, _| ()).await;
    let name = migrations(&plane)[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let pause = |paused: bool| {
        let patch = Patch::Merge(json!({"spec": {"paused": paused}}));
        let server = &plane.server;
        server.patch(&MIGRATIONS, Some("shop"), &name, None, &patch, "kubectl");
    };
    pause(true);
    let _running = plane.start();
    until("the policy is in force", || {
        named(&plane, "orders") == json!(["west"])
    })
    .await;
    world.faults().partition("west");
    let west = world.member("west");
    west.simulators(|simulators| simulators.jobs().vanish());
    pause(false);

    let commands = Commands::of(&world, &plane).await;
    let wait = || migrations(&plane)[0]["status"]["waitingFor"].clone();
    let asks = || {
        let offers = wait()["offers"].clone();
        offers.as_array().is_some_and(|offers| !offers.is_empty())
    };
    let waits = || {
        let reason = wait()["reason"].clone();
        let said = reason
            .as_str()
            .is_some_and(|reason| reason.contains("east to be kept"));
        said && phases(&plane) == ["RollingBack"]
    };
    until("it asks", asks).await;
    let mut word = format!("assume shop/{name} to east");
    while !waits() {
        let before = wait();
        commands.done(&word).await;
        until("the word counts", || wait() != before && (asks() || waits())).await;
        let printed = commands.printed(&format!("shop/{name}")).await;
        word = printed
            .into_iter()
            .find(|word| word.starts_with("assume "))
            .unwrap_or_default();
    }
    assert!(runs(&world, "east", "orders"));

    plane.push(&[("policy.yaml", &placed(EAST))]);
    until("it has ended", || phases(&plane) == ["RolledBack"]).await;
    assert_eq!(named(&plane, "orders"), json!(["east"]));
    assert!(runs(&world, "east", "orders"));
    assert!(world.ledger().verdict().overlaps.is_empty(), "{}", world.ledger());
}

/// One of the two is across, and the other one could not move: no placement keeps both.
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
#[tokio::test]
async fn where_another_workload_of_the_policy_has_stayed_it_waits_and_says_what_to_do() {
    let settings = settings(
        "- {name: main, gate: {migrations: {mode: Auto, maxParallel: 2, verify: {healthyFor: 1s}}}}",
    );
    let both = |clusters: &str| policy("orders", "", clusters).replace(", name: ''", "");
    // In west it never comes up.
    let broken = "apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: broken, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: bills}]
  overrideRules:
  - targetCluster: {clusterNames: [west]}
    overriders: {plaintext: [{path: /spec/image, operator: replace, value: 'orders:broken'}]}
";
    let bills = job("bills");
    let more = [
        ("cutover.yaml", &*settings),
        ("bills.yaml", &*bills),
        ("broken.yaml", broken),
    ];
    let (world, plane) = started(&both("east"), &more).await;
    until("bills runs in east", || runs(&world, "east", "bills")).await;
    let sorted = |plane: &Plane| {
        let mut phases = phases(plane);
        phases.sort();
        phases
    };
    let running = plane.start();
    plane.push(&[("policy.yaml", &both("west"))]);
    until("one is across, and one has stayed", || {
        sorted(&plane) == ["Cleanup", "RolledBack"]
    })
    .await;
    plane.push(&[("policy.yaml", &both("north"))]);
    until("the push is read", || is_read(&plane)).await;
    drop(running);
    let told = problems(&plane).await;
    assert!(
        told.contains("is committed and waits for the placement that it has carried out"),
        "{told}"
    );
    assert!(told.contains("shop/bills would stop in east"), "{told}");
    assert_eq!(sorted(&plane), ["Cleanup", "RolledBack"]);
    assert_eq!(named(&plane, "orders"), json!(["east"]));
    assert!(runs(&world, "west", "orders") && runs(&world, "east", "bills"));
    is_clean(&world);
    // The one that cannot move gets a policy of its own, before which the other one doesn't let it go.
    plane.push(&[
        ("bills-policy.yaml", &policy("bills", "bills", "east")),
        ("policy.yaml", &policy("orders", "orders", "north")),
    ]);
    plane.refuse(&["PATCH /apis/policy.karmada.io/v1alpha1/namespaces/shop/propagationpolicies/bills"]);
    plane.run().await;
    let own = plane.get(&POLICIES, Some("shop"), "orders").unwrap();
    assert_eq!(
        own["spec"]["resourceSelectors"][0]["name"],
        Value::Null,
        "{own:#}"
    );
    plane.refuse(&[]);
    let _running = plane.start();
    until("orders is where Git says", || {
        sorted(&plane) == ["Completed", "Completed", "RolledBack"]
    })
    .await;
    assert_eq!(named(&plane, "orders"), json!(["north"]));
    assert!(runs(&world, "north", "orders") && runs(&world, "east", "bills"));
    is_clean(&world);
}

#[tokio::test]
async fn a_policy_of_several_workloads_goes_out_when_all_are_across() {
    let settings = settings(AUTO);
    let jobs: Vec<String> = ["bills", "carts"].iter().map(|name| job(name)).collect();
    let all = |clusters: &str| policy("orders", "", clusters).replace(", name: ''", "");
    let more = [
        ("cutover.yaml", &*settings),
        ("bills.yaml", &*jobs[0]),
        ("carts.yaml", &*jobs[1]),
    ];
    let (world, plane) = started(&all("east"), &more).await;
    for name in ["bills", "carts"] {
        until("it runs", || runs(&world, "east", name)).await;
    }
    let _running = plane.start();
    plane.push(&[("policy.yaml", &all("west"))]);
    let under_way = |plane: &Plane| {
        let phases = phases(plane);
        phases
            .iter()
            .filter(|phase| !["Completed", "Cleanup"].contains(&&***phase))
            .count()
    };
    until("all are across", || {
        // One at a time, and the policy last.
        assert!(under_way(&plane) <= 1, "{:?}", phases(&plane));
        let across = ["orders", "bills", "carts"]
            .iter()
            .filter(|name| runs(&world, "west", name))
            .count();
        assert!(across == 3 || named(&plane, "orders") == json!(["east"]));
        phases(&plane) == ["Completed"; 3]
    })
    .await;
    assert_eq!(named(&plane, "orders"), json!(["west"]));
    is_clean(&world);
}

/// The policy would go out for both or for none of them.
#[tokio::test]
async fn a_workload_that_says_manual_keeps_the_others_of_its_policy_and_is_named() {
    let settings = settings(AUTO);
    let both = |clusters: &str| policy("orders", "", clusters).replace(", name: ''", "");
    let manual = "namespace: shop, annotations: {cutover.dev/migrations: manual}";
    let bills = job("bills").replace("namespace: shop", manual);
    let more = [("cutover.yaml", &*settings), ("bills.yaml", &*bills)];
    let (world, plane) = started(&both("east"), &more).await;
    until("bills runs in east", || runs(&world, "east", "bills")).await;
    plane.push(&[("policy.yaml", &both("west"))]);
    let whose = "no Migration is set off: the annotation cutover.dev/migrations of FlinkDeployment shop/bills does not say auto, and \
                 the workloads of a policy move together";
    let planned = plane.plan().await;
    let action = &planned
        .iter()
        .find(|change| change.key.kind == "PropagationPolicy")
        .unwrap()
        .action;
    assert!(
        matches!(action, Action::Blocked { reason } if reason.contains(whose)),
        "{action:?}"
    );
    let told = problems(&plane).await;
    assert!(told.contains(whose), "{told}");
    assert!(migrations(&plane).is_empty(), "{:#?}", migrations(&plane));
    assert!(runs(&world, "east", "orders") && runs(&world, "east", "bills"));
    is_clean(&world);
}

#[tokio::test]
async fn what_a_person_has_to_decide_sets_nothing_off() {
    let settings = settings(AUTO);
    for (after, says) in [
        (
            policy("orders", "orders", "west, north"),
            "several clusters would take it",
        ),
        (
            policy("orders", "orders", "east, west"),
            "a Migration cannot carry that out",
        ),
    ] {
        let (world, plane) = started(
            &policy("orders", "orders", "east"),
            &[("cutover.yaml", &settings)],
        )
        .await;
        plane.push(&[("policy.yaml", &after)]);
        let problems = problems(&plane).await;
        assert!(problems.contains(says), "{problems}");
        assert!(migrations(&plane).is_empty());
        is_clean(&world);
    }
}

/// Any of them would do, and one copy is wanted.
fn either(clusters: &str) -> String {
    placed(&format!(
        "{{clusterAffinity: {{clusterNames: [{clusters}]}}, \
         spreadConstraints: [{{spreadByField: cluster, minGroups: 1, maxGroups: 1}}]}}"
    ))
}

#[tokio::test]
async fn of_several_clusters_one_is_chosen_and_kept() {
    let settings = settings(AUTO);
    let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &settings)]).await;
    plane.push(&[("policy.yaml", &either("west, north"))]);
    let planned = plane.plan().await;
    let created = planned.iter().find(|change| change.key.kind == "Migration");
    let chosen = created.unwrap().after.as_ref().unwrap()["spec"]["to"].clone();
    assert!(chosen == "west" || chosen == "north", "{chosen}");

    let _running = plane.start();
    until("it has ended", || phases(&plane) == ["Completed"]).await;
    assert_eq!(migrations(&plane)[0]["spec"]["to"], chosen);
    assert!(runs(&world, chosen.as_str().unwrap(), "orders"));
    assert_eq!(named(&plane, "orders"), json!(["west", "north"]));
    // Another word for the same moves nothing.
    plane.push(&[("policy.yaml", &either("north, west"))]);
    until("the policy is in force", || {
        named(&plane, "orders") == json!(["north", "west"])
    })
    .await;
    assert_eq!(phases(&plane), ["Completed"]);
    is_clean(&world);
    assert_eq!(world.ledger().verdict().runs.len(), 2, "{}", world.ledger());
}

#[tokio::test]
async fn of_several_clusters_a_revert_or_another_choice_in_mid_flight_is_what_counts() {
    let settings = settings(PATIENT);
    let before = placed(EAST);
    let (world, plane) = started(&before, &[("cutover.yaml", &settings)]).await;
    let running = plane.start();
    plane.push(&[("policy.yaml", &either("west, north"))]);
    until("the target is watched", || phases(&plane) == ["Verify"]).await;
    plane.push(&[("policy.yaml", &before)]);
    until("it is rolled back", || phases(&plane) == ["Aborted"]).await;
    until("it runs where it did", || runs(&world, "east", "orders")).await;
    assert_eq!(named(&plane, "orders"), json!(["east"]));
    // Two commits in a row.
    plane.push(&[("policy.yaml", &either("west, north"))]);
    until("the target is watched again", || {
        phases(&plane).contains(&"Verify".to_owned())
    })
    .await;
    drop(running);
    plane.push(&[
        ("policy.yaml", &either("west")),
        ("cutover.yaml", &crate::support::plane::settings(AUTO)),
    ]);
    let _running = plane.start();
    until("the policy is in force", || {
        named(&plane, "orders") == json!(["west"])
    })
    .await;
    until("all have ended", || {
        let ended = ["Completed", "Aborted"];
        phases(&plane).iter().all(|phase| ended.contains(&&**phase))
    })
    .await;
    assert!(runs(&world, "west", "orders"));
    is_clean(&world);
}

#[tokio::test]
async fn one_that_failed_is_not_tried_again_until_something_changes() {
    let settings = settings(AUTO);
    let more = [("cutover.yaml", &*settings), ("broken.yaml", BROKEN)];
    let (world, plane) = started(&policy("orders", "orders", "east"), &more).await;
    let running = plane.start();
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    until("it is rolled back", || phases(&plane) == ["RolledBack"]).await;
    until("it runs where it did", || runs(&world, "east", "orders")).await;
    drop(running);
    let is_told = |(key, by): (&ObjectKey, &str)| {
        key.name == "orders"
            && by.starts_with("Migration shop/orders-to-west-")
            && by.ends_with(", which has not moved the workload that this policy places")
    };
    for _ in 0..2 {
        let report = plane.sync("main").await;
        assert!(report.held_back().any(is_told), "{:?}", report.objects);
        assert_eq!(phases(&plane), ["RolledBack"]);
    }
    assert_eq!(named(&plane, "orders"), json!(["east"]));
    is_clean(&world);
    // Git thinks better of it; the target is repaired; and the same is asked for again.
    plane.push(&[("policy.yaml", &policy("orders", "orders", "east"))]);
    plane.run().await;
    let repaired = BROKEN.replace("orders:broken", "orders:1.0");
    plane.push(&[("broken.yaml", &repaired)]);
    plane.run().await;
    let _running = plane.start();
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    until("it is across", || {
        phases(&plane).contains(&"Completed".to_owned())
    })
    .await;
    assert_eq!(migrations(&plane).len(), 2);
    is_clean(&world);
}

/// Another change of the policy, which asks for the same placement, says why it is not tried again; without that Migration it is.
#[tokio::test]
async fn one_that_failed_is_tried_again_when_it_is_deleted() {
    let settings = settings(AUTO);
    let more = [("cutover.yaml", &*settings), ("broken.yaml", BROKEN)];
    let (world, plane) = started(&placed(EAST), &more).await;
    let running = plane.start();
    let west = policy("orders", "orders", "west");
    plane.push(&[("policy.yaml", &west)]);
    until("it is rolled back", || phases(&plane) == ["RolledBack"]).await;
    until("it runs where it did", || runs(&world, "east", "orders")).await;
    running.stop().await;
    let repaired = BROKEN.replace("orders:broken", "orders:1.0");
    let labelled = west.replace("namespace: shop", "namespace: shop, labels: {team: a}");
    plane.push(&[("broken.yaml", &*repaired), ("policy.yaml", &*labelled)]);
    let failed = migrations(&plane)[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let told = problems(&plane).await;
    let says = format!(
        "Migration shop/{failed} has not moved it (RolledBack): change the placement, or delete that Migration to try again"
    );
    assert!(told.contains(&says), "{told}");
    assert_eq!(phases(&plane), ["RolledBack"]);
    plane.server.delete(&MIGRATIONS, Some("shop"), &failed);
    let _running = plane.start();
    until("it is across", || phases(&plane) == ["Completed"]).await;
    assert!(runs(&world, "west", "orders"));
    assert_eq!(named(&plane, "orders"), json!(["west"]));
    is_clean(&world);
}

/// Two moves, one at a time: the first one waits for its time window, and then for a person.
#[tokio::test]
async fn what_takes_the_turn_is_named_and_what_a_person_has_paused_before_it_began_takes_none() {
    let settings = settings(
        "- {name: main, gate: {migrations: {mode: Auto, maxParallel: 1, window: {notBefore: '2100-01-01T00:00:00Z'}}}}",
    );
    let (bills, east) = (job("bills"), policy("bills", "bills", "east"));
    let more = [
        ("cutover.yaml", &*settings),
        ("bills.yaml", &*bills),
        ("bills-policy.yaml", &*east),
    ];
    let (world, plane) = started(&placed(EAST), &more).await;
    until("bills runs in east", || runs(&world, "east", "bills")).await;
    let _running = plane.start();
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    let waits = || migrations(&plane)[0]["status"]["waitingFor"].clone();
    until("the first one waits", || {
        phases(&plane) == ["Pending"] && waits()["reason"].is_string()
    })
    .await;
    plane.push(&[("bills-policy.yaml", &policy("bills", "bills", "west"))]);
    let name = migrations(&plane)[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let says = format!(
        "Migrations that wait for a turn (1 under way: Migration shop/{name} is in Pending and waits: its time window to open at 2100-"
    );
    let is_told = || {
        let status = plane.origin.read("cutover-status", "status.yaml");
        let status: Option<Value> = status.and_then(|text| serde_yaml::from_str(&text).ok());
        status.is_some_and(|status| status.to_string().contains(&says))
    };
    until("its status says what it waits for", is_told).await;
    assert_eq!(migrations(&plane).len(), 1);
    let paused = Patch::Merge(json!({"spec": {"paused": true}}));
    plane
        .server
        .patch(&MIGRATIONS, Some("shop"), &name, None, &paused, "kubectl");
    until("the second one has its turn", || migrations(&plane).len() == 2).await;
    assert!(runs(&world, "east", "orders") && runs(&world, "east", "bills"));
    is_clean(&world);
}

/// The policy in force names a third cluster by then: the job stays where it was brought back to, and the Migration says for what it waits.
#[tokio::test]
async fn a_policy_that_another_client_changes_before_the_job_is_back_moves_nothing() {
    let settings = settings(PATIENT);
    let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &settings)]).await;
    let _running = plane.start();
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    until("the target is watched", || phases(&plane) == ["Verify"]).await;
    let place = |cluster: &str| {
        let placement = json!({"clusterAffinity": {"clusterNames": [cluster]}});
        let patch = Patch::Merge(json!({"spec": {"placement": placement}}));
        let server = &plane.server;
        server.patch(&POLICIES, Some("shop"), "orders", None, &patch, "kubectl");
    };
    place("north");
    plane.push(&[("policy.yaml", &placed(EAST))]);
    until("it waits for a placement", || {
        let reason = migrations(&plane)[0]["status"]["waitingFor"]["reason"].clone();
        reason
            .as_str()
            .is_some_and(|reason| reason.starts_with("east to be kept"))
    })
    .await;
    assert_eq!(phases(&plane), ["RollingBack"]);
    assert!(runs(&world, "east", "orders"));
    place("east");
    until("it is rolled back", || phases(&plane) == ["Aborted"]).await;
    assert!(runs(&world, "east", "orders"));
    is_clean(&world);
}

#[tokio::test]
async fn another_workload_of_the_policy_turns_no_move_back() {
    let settings = settings(PATIENT);
    let (world, plane) = started(
        &policy("orders", "orders", "east"),
        &[("cutover.yaml", &settings)],
    )
    .await;
    let _running = plane.start();
    let after = policy("orders", "orders", "west");
    plane.push(&[("policy.yaml", &after)]);
    until("it is watched", || phases(&plane) == ["Verify"]).await;
    let more = after.replace(
        "name: 'orders'}]",
        "name: 'orders'}, {apiVersion: v1, kind: ConfigMap, name: more}]",
    );
    assert_ne!(more, after);
    plane.push(&[("policy.yaml", &more)]);
    until("the push is read", || is_read(&plane)).await;
    assert_eq!(migrations(&plane)[0]["spec"]["abort"], Value::Null);
    assert_eq!(phases(&plane), ["Verify"]);
    // And without the workload it is one.
    plane.push(&[("policy.yaml", &after.replace("name: 'orders'", "name: bills"))]);
    until("it is called off", || phases(&plane) == ["Aborted"]).await;
    assert!(runs(&world, "east", "orders"));
    is_clean(&world);
}

/// The policy of `orders`, with another placement.
fn placed(placement: &str) -> String {
    let text = policy("orders", "orders", "east");
    text.replace(EAST, placement)
}

fn patch_cluster(plane: &Plane, name: &str, patch: Value) {
    let server = &plane.server;
    server.patch(&CLUSTERS, None, name, None, &Patch::Merge(patch), "kubectl");
}

/// The placement that is in force.
fn placement(plane: &Plane) -> Value {
    let policy = plane.get(&POLICIES, Some("shop"), "orders").unwrap();
    policy["spec"]["placement"].clone()
}

/// Nothing was set off, and the job has not stopped.
fn has_stayed(world: &World, plane: &Plane) {
    assert!(migrations(plane).is_empty(), "{:#?}", migrations(plane));
    assert!(runs(world, "east", "orders"));
    is_clean(world);
    assert_eq!(world.ledger().verdict().runs.len(), 1, "{}", world.ledger());
}

/// One Migration has brought the job to west, with its state.
async fn has_moved(world: &World, plane: &Plane) {
    until("it has ended", || phases(plane) == ["Completed"]).await;
    let spec = migrations(plane)[0]["spec"].clone();
    assert_eq!((&spec["from"], &spec["to"]), (&json!("east"), &json!("west")));
    assert!(runs(world, "west", "orders"));
    is_clean(world);
    assert_eq!(world.ledger().verdict().runs.len(), 2, "{}", world.ledger());
}

#[tokio::test]
async fn a_label_selector_that_matches_another_cluster_is_a_migration() {
    let settings = settings(AUTO);
    let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &settings)]).await;
    for (name, tier) in [("east", "prod"), ("west", "test")] {
        patch_cluster(&plane, name, json!({"metadata": {"labels": {"tier": tier}}}));
    }
    let selects = |tier: &str| {
        placed(&format!(
            "{{clusterAffinity: {{labelSelector: {{matchLabels: {{tier: {tier}}}}}}}}}"
        ))
    };
    let is_in_force = |tier: &str| {
        let selector = placement(&plane)["clusterAffinity"]["labelSelector"].clone();
        selector == json!({"matchLabels": {"tier": tier}})
    };
    let _running = plane.start();
    // Said otherwise, it is the same cluster.
    plane.push(&[("policy.yaml", &selects("prod"))]);
    until("the policy is in force", || is_in_force("prod")).await;
    has_stayed(&world, &plane);
    plane.push(&[("policy.yaml", &selects("test"))]);
    until("the policy is in force", || is_in_force("test")).await;
    has_moved(&world, &plane).await;
}

/// Karmada's scheduler goes on with the group that it used last, wherever in the list that stands now.
#[tokio::test]
async fn another_order_of_affinities_moves_nothing_and_another_cluster_in_the_one_in_use_does() {
    let settings = settings(AUTO);
    let terms = |terms: [(&str, &str); 2]| {
        let terms =
            terms.map(|(name, cluster)| format!("{{affinityName: {name}, clusterNames: [{cluster}]}}"));
        placed(&format!("{{clusterAffinities: [{}]}}", terms.join(", ")))
    };
    let before = terms([("first", "east"), ("second", "west")]);
    let (world, plane) = started(&before, &[("cutover.yaml", &settings)]).await;
    let first = |plane: &Plane| {
        let term = placement(plane)["clusterAffinities"][0].clone();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&term["affinityName"]), text(&term["clusterNames"][0]))
    };
    let is_first = |name: &str, cluster: &str| first(&plane) == (name.to_owned(), cluster.to_owned());
    let _running = plane.start();
    plane.push(&[("policy.yaml", &terms([("second", "west"), ("first", "east")]))]);
    until("the policy is in force", || is_first("second", "west")).await;
    until("the binding has it", || {
        let binding = plane
            .get(&BINDINGS, Some("shop"), "orders-flinkdeployment")
            .unwrap();
        binding["spec"]["placement"]["clusterAffinities"][0]["affinityName"] == "second"
    })
    .await;
    has_stayed(&world, &plane);
    plane.push(&[("policy.yaml", &terms([("first", "west"), ("second", "east")]))]);
    until("the policy is in force", || is_first("first", "west")).await;
    has_moved(&world, &plane).await;
}

/// One of two clusters, of which the scheduler takes east.
const EITHER: &str = "clusterAffinity: {clusterNames: [east, west]}, \
     spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]";

/// The taint is tolerated until Git says otherwise: then Karmada's taint manager would evict the job.
#[tokio::test]
async fn a_toleration_that_goes_is_a_migration() {
    let settings = settings(AUTO);
    let tolerating = placed(&format!(
        "{{{EITHER}, clusterTolerations: [{{key: maintenance, operator: Exists, effect: NoExecute}}]}}"
    ));
    let (world, plane) = started(&tolerating, &[("cutover.yaml", &settings)]).await;
    let taint = json!({
        "key": "maintenance", "effect": "NoExecute", "timeAdded": jiff::Timestamp::now().to_string(),
    });
    patch_cluster(&plane, "east", json!({"spec": {"taints": [taint]}}));
    plane.run().await;
    has_stayed(&world, &plane);
    let _running = plane.start();
    plane.push(&[("policy.yaml", &placed(&format!("{{{EITHER}}}")))]);
    until("the policy is in force", || {
        placement(&plane)["clusterTolerations"].is_null()
    })
    .await;
    has_moved(&world, &plane).await;
}

/// The job may stay in a tainted cluster for an hour; a push takes most of that time away, or all of it.
#[tokio::test]
async fn a_toleration_that_lasts_less_is_held_back_and_evicts_nothing() {
    let (manual, auto) = (settings("- {name: main}"), settings(AUTO));
    let tolerating = |seconds: u32| {
        placed(&format!(
            "{{{EITHER}, clusterTolerations: [{{key: maintenance, operator: Exists, effect: NoExecute, \
             tolerationSeconds: {seconds}}}]}}"
        ))
    };
    for less in [tolerating(60), placed(&format!("{{{EITHER}}}"))] {
        let mut options = WorldOptions::fast();
        options.features.no_execute_eviction = true;
        let (world, plane) = started_in(options, &tolerating(3600), &[("cutover.yaml", &manual)]).await;
        let taint = json!({"key": "maintenance", "effect": "NoExecute"});
        patch_cluster(&plane, "east", json!({"spec": {"taints": [taint]}}));
        plane.push(&[("policy.yaml", &less)]);
        let told = problems(&plane).await;
        let says = "would stop in east and start in west from nothing";
        assert!(told.contains(says), "{told}");
        let in_force = placement(&plane)["clusterTolerations"].clone();
        assert_eq!(in_force[0]["tolerationSeconds"], 3600);
        has_stayed(&world, &plane);
        is_not_evicted(&plane);
        plane.push(&[("cutover.yaml", &auto)]);
        let _running = plane.start();
        until("the policy is in force", || {
            placement(&plane)["clusterTolerations"] != in_force
        })
        .await;
        has_moved(&world, &plane).await;
        is_not_evicted(&plane);
    }
}

/// Karmada has taken the job out of no cluster by itself.
fn is_not_evicted(plane: &Plane) {
    let binding = plane.get(&BINDINGS, Some("shop"), "orders-flinkdeployment");
    let tasks = binding.unwrap()["spec"].get("gracefulEvictionTasks").cloned();
    assert_eq!(tasks, None);
}

/// Nothing says in which region or zone the job's cluster is, and Karmada's scheduler would leave it.
#[tokio::test]
async fn a_spread_that_its_cluster_does_not_meet_is_held_back_and_then_a_migration() {
    let (manual, auto) = (settings("- {name: main}"), settings(AUTO));
    for (field, said) in [
        ("region", json!({"region": "eu"})),
        ("zone", json!({"zones": ["eu-1"]})),
    ] {
        let before = placed(&format!("{{{EITHER}}}"));
        let (world, plane) = started(&before, &[("cutover.yaml", &manual)]).await;
        patch_cluster(&plane, "west", json!({"spec": said}));
        let more = format!("}}, {{spreadByField: {field}, minGroups: 1, maxGroups: 1}}]");
        let spread = placed(&format!("{{{}}}", EITHER.replace("}]", &more)));
        plane.push(&[("policy.yaml", &spread)]);
        let told = problems(&plane).await;
        let says = "would stop in east and start in west from nothing";
        assert!(told.contains(says), "{field}: {told}");
        assert_eq!(placement(&plane)["spreadConstraints"][1], Value::Null);
        has_stayed(&world, &plane);
        plane.push(&[("cutover.yaml", &auto)]);
        let _running = plane.start();
        until("the policy is in force", || {
            placement(&plane)["spreadConstraints"][1]["spreadByField"] == field
        })
        .await;
        has_moved(&world, &plane).await;
    }
}

/// The branch is where it was, as if nobody had asked for anything: no commit says so.
#[tokio::test]
async fn a_force_push_back_in_mid_flight_brings_it_back() {
    let settings = settings(PATIENT);
    let before = placed(EAST);
    let (world, plane) = started(&before, &[("cutover.yaml", &settings)]).await;
    let tip = plane.origin.tip("main").unwrap();
    let _running = plane.start();
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    until("the target is watched", || phases(&plane) == ["Verify"]).await;
    let repo = plane.origin.repo();
    let id = tip.as_str().parse().unwrap();
    repo.reference("refs/heads/main", id, true, "push --force")
        .unwrap();
    until("it is rolled back", || phases(&plane) == ["Aborted"]).await;
    until("it runs where it did", || runs(&world, "east", "orders")).await;
    until("the branch is read", || is_read(&plane)).await;
    assert_eq!(named(&plane, "orders"), json!(["east"]));
    assert_eq!(phases(&plane), ["Aborted"]);
    is_clean(&world);
}

/// Another history, in which the policy never named west: the job goes to north, by way of east.
#[tokio::test]
async fn a_force_push_that_names_a_third_cluster_ends_there() {
    let settings = settings(PATIENT);
    let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &settings)]).await;
    let tip = plane.origin.tip("main").unwrap();
    let _running = plane.start();
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    until("the target is watched", || phases(&plane) == ["Verify"]).await;
    let (policy, settings) = (
        policy("orders", "orders", "north"),
        crate::support::plane::settings(AUTO),
    );
    let files = [("policy.yaml", &*policy), ("cutover.yaml", &*settings)];
    plane.origin.commit_on("main", Some(&tip), &files);
    until("the policy is in force", || {
        named(&plane, "orders") == json!(["north"])
    })
    .await;
    until("it has ended", || phases(&plane) == ["Completed", "Aborted"]).await;
    assert!(runs(&world, "north", "orders"));
    is_clean(&world);
}

fn is_there(plane: &Plane, policy: &str) -> bool {
    plane.get(&POLICIES, Some("shop"), policy).is_some()
}

/// The policy that takes `orders` up when its own goes.
fn successor(clusters: &str) -> String {
    policy("orders-next", "orders", clusters)
}

#[tokio::test]
async fn a_policy_that_is_renamed_and_names_another_cluster_is_a_migration() {
    let settings = settings(AUTO_PRUNES);
    let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &settings)]).await;
    plane.push(&[("policy.yaml", ""), ("next.yaml", &successor("west"))]);
    let planned = plane.plan().await;
    let of = |kind: &str, name: &str| {
        let mut planned = planned.iter();
        planned
            .find(|change| change.key.kind == kind && (name.is_empty() || change.key.name == name))
            .unwrap_or_else(|| panic!("{kind} {name}"))
    };
    let held = &of("PropagationPolicy", "orders").action;
    assert!(
        matches!(held, Action::HeldBack { by } if by.contains("Migration")),
        "{held:?}"
    );
    assert_eq!(of("Migration", "").after.as_ref().unwrap()["spec"]["to"], "west");
    assert!(migrations(&plane).is_empty(), "a plan has written something");

    let _running = plane.start();
    until("the old policy is gone", || !is_there(&plane, "orders")).await;
    has_moved(&world, &plane).await;
    assert_eq!(named(&plane, "orders-next"), json!(["west"]));
}

/// Nothing but a deletion, and nothing but a selector: what was there beside takes the job up.
#[tokio::test]
async fn a_policy_that_goes_or_lets_go_is_a_migration_to_where_the_next_one_places_the_job() {
    let settings = settings(AUTO_PRUNES);
    let lets_go = policy("orders", "another", "east");
    for after in ["", &*lets_go] {
        let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &settings)]).await;
        plane.push(&[("next.yaml", &successor("west"))]);
        plane.run().await;
        has_stayed(&world, &plane);
        let _running = plane.start();
        plane.push(&[("policy.yaml", after)]);
        until("it is across", || phases(&plane) == ["Completed"]).await;
        has_moved(&world, &plane).await;
        assert_eq!(is_there(&plane, "orders"), !after.is_empty());
    }
}

#[tokio::test]
async fn a_policy_that_comes_back_in_mid_flight_keeps_its_job() {
    let settings = settings(PATIENT_PRUNES);
    let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &settings)]).await;
    let _running = plane.start();
    plane.push(&[("policy.yaml", ""), ("next.yaml", &successor("west"))]);
    until("the target is watched", || phases(&plane) == ["Verify"]).await;
    // The copy in west is the writer by now: the old policy stays until the move is committed.
    assert!(is_there(&plane, "orders"));
    plane.push(&[("policy.yaml", &placed(EAST)), ("next.yaml", "")]);
    until("it is rolled back", || phases(&plane) == ["Aborted"]).await;
    until("it runs where it did", || runs(&world, "east", "orders")).await;
    until("the other one is gone", || !is_there(&plane, "orders-next")).await;
    assert_eq!(named(&plane, "orders"), json!(["east"]));
    is_clean(&world);
}

/// Pushes what moves the job to west, and then a successor of its policy in north; `last` comes with that one.
async fn ends_in_north(first: &[(&str, &str)], last: &[(&str, &str)]) {
    let (patient, auto) = (settings(PATIENT_PRUNES), settings(AUTO_PRUNES));
    let north = successor("north");
    let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &patient)]).await;
    let _running = plane.start();
    plane.push(first);
    until("the target is watched", || phases(&plane) == ["Verify"]).await;
    plane.push(&[last, &[("next.yaml", &*north), ("cutover.yaml", &*auto)]].concat());
    until("the old policy is gone", || !is_there(&plane, "orders")).await;
    until("it has ended", || phases(&plane) == ["Completed", "Aborted"]).await;
    assert_eq!(named(&plane, "orders-next"), json!(["north"]));
    assert!(runs(&world, "north", "orders"));
    is_clean(&world);
}

#[tokio::test]
async fn a_policy_that_is_renamed_twice_ends_where_the_last_one_places_the_job() {
    let west = successor("west");
    ends_in_north(&[("policy.yaml", ""), ("next.yaml", &west)], &[]).await;
}

#[tokio::test]
async fn a_policy_that_is_edited_and_then_renamed_ends_where_the_last_push_places_the_job() {
    let west = policy("orders", "orders", "west");
    ends_in_north(&[("policy.yaml", &west)], &[("policy.yaml", "")]).await;
}

/// Nothing is wrong: the old policy only waits for the Migration.
#[tokio::test]
async fn a_deletion_that_waits_for_a_migration_is_held_back_and_no_problem() {
    let settings = settings(PATIENT_PRUNES);
    let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &settings)]).await;
    let running = plane.start();
    plane.push(&[("policy.yaml", ""), ("next.yaml", &successor("west"))]);
    until("the target is watched", || phases(&plane) == ["Verify"]).await;
    drop(running);
    // A run waits for what moves, and not for a person.
    let name = migrations(&plane)[0]["metadata"]["name"].clone();
    let paused = Patch::Merge(json!({"spec": {"paused": true}}));
    let name = name.as_str().unwrap();
    plane
        .server
        .patch(&MIGRATIONS, Some("shop"), name, None, &paused, "kubectl");
    let report = plane.sync("main").await;
    assert!(report.is_clean(), "{:?}", report.undone());
    let told: Vec<String> = report.all_problems().iter().map(ToString::to_string).collect();
    assert!(told.is_empty(), "{told:?}");
    let is_held =
        |(key, by): (&ObjectKey, &str)| key.name == "orders" && by.contains("Migration shop/orders-to-west");
    assert!(report.held_back().any(is_held));
    assert!(is_there(&plane, "orders"));
    is_clean(&world);
}

/// The same placement under another name is no other one.
#[tokio::test]
async fn a_policy_that_is_edited_and_then_renamed_alone_turns_no_move_back() {
    let settings = settings(PATIENT_PRUNES);
    let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &settings)]).await;
    let _running = plane.start();
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    until("the target is watched", || phases(&plane) == ["Verify"]).await;
    plane.push(&[("policy.yaml", ""), ("next.yaml", &successor("west"))]);
    until("the push is read", || is_read(&plane)).await;
    assert_eq!(migrations(&plane)[0]["spec"]["abort"], Value::Null);
    assert_eq!(phases(&plane), ["Verify"]);
    is_clean(&world);
}

/// Its Preflight would judge the old policy, which it would keep from being replaced.
#[tokio::test]
async fn a_policy_that_is_renamed_before_its_migration_begins_sets_another_one_off() {
    let closed = AUTO_PRUNES.replace(
        "mode: Auto",
        "mode: Auto, window: {notBefore: 2999-01-01T00:00:00Z}",
    );
    let (closed, open) = (settings(&closed), settings(AUTO_PRUNES));
    let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &closed)]).await;
    let _running = plane.start();
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    until("it waits for its window", || phases(&plane) == ["Pending"]).await;
    plane.push(&[
        ("policy.yaml", ""),
        ("next.yaml", &successor("west")),
        ("cutover.yaml", &open),
    ]);
    until("the old policy is gone", || !is_there(&plane, "orders")).await;
    until("it has ended", || {
        let mut phases = phases(&plane);
        phases.sort();
        phases == ["Aborted", "Completed"]
    })
    .await;
    assert_eq!(named(&plane, "orders-next"), json!(["west"]));
    assert!(runs(&world, "west", "orders"));
    is_clean(&world);
}

/// What was to take the job up is another client's, and gone before the job is across.
#[tokio::test]
async fn a_successor_that_is_deleted_elsewhere_takes_nothing_up() {
    let settings = settings(PATIENT_PRUNES);
    let beside = policy("beside", "another", "east");
    let more = [("cutover.yaml", &*settings), ("beside.yaml", &*beside)];
    let (world, plane) = started(&placed(EAST), &more).await;
    let foreign = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"namespace": "shop", "name": "foreign"},
        "spec": {
            "resourceSelectors": [
                {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
            ],
            "placement": {"clusterAffinity": {"clusterNames": ["west"]}},
        },
    });
    plane.server.create(&POLICIES, Some("shop"), foreign, "kubectl");
    let _running = plane.start();
    plane.push(&[("policy.yaml", "")]);
    until("the target is watched", || phases(&plane) == ["Verify"]).await;
    plane.server.delete(&POLICIES, Some("shop"), "foreign");
    until("it is rolled back", || phases(&plane) == ["Aborted"]).await;
    assert_eq!(
        why_back(&plane),
        "called off: the policy that was to claim the workload does not claim it"
    );
    until("it runs where it did", || runs(&world, "east", "orders")).await;
    is_clean(&world);
}

/// A policy that takes `orders` from its own.
fn taker(clusters: &str) -> String {
    successor(clusters).replace("spec:", "spec:\n  preemption: Always\n  priority: 10")
}

/// Not every Karmada lets one policy take a workload from another, and which one does can't be read.
#[tokio::test]
async fn a_policy_that_preempts_sets_nothing_off_until_it_is_said_that_karmada_lets_it() {
    let settings = settings(AUTO);
    let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &settings)]).await;
    plane.push(&[("next.yaml", &taker("west"))]);
    let problems = problems(&plane).await;
    assert!(problems.contains("PropagationPolicyPreemption"), "{problems}");
    assert!(!is_there(&plane, "orders-next"));
    has_stayed(&world, &plane);
}

/// Karmada leaves the job with the policy that has it: what that one says counts.
#[tokio::test]
async fn a_policy_that_only_might_take_the_job_over_lets_nothing_out() {
    let settings = settings("- {name: main}");
    let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &settings)]).await;
    plane.push(&[("next.yaml", &taker("east"))]);
    let told = problems(&plane).await;
    assert!(told.is_empty() && is_there(&plane, "orders-next"), "{told}");
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    let told = problems(&plane).await;
    assert!(told.contains("start in west from nothing"), "{told}");
    assert_eq!(named(&plane, "orders"), json!(["east"]));
    has_stayed(&world, &plane);
}

/// Its priority is all that its own policy changes, and Karmada does nothing about that where its feature gate is off.
#[tokio::test]
async fn a_priority_that_sinks_below_another_ones_sets_nothing_off() {
    let settings = settings(AUTO);
    let high = placed(EAST).replace("spec:", "spec:\n  priority: 20");
    let (world, plane) = started(&high, &[("cutover.yaml", &settings)]).await;
    plane.push(&[("next.yaml", &taker("west"))]);
    let told = problems(&plane).await;
    assert!(told.is_empty() && is_there(&plane, "orders-next"), "{told}");
    plane.push(&[("policy.yaml", &high.replace("priority: 20", "priority: 5"))]);
    let told = problems(&plane).await;
    assert!(told.contains("PropagationPolicyPreemption"), "{told}");
    has_stayed(&world, &plane);
}

/// Where nothing else selects the job, and where something does: the old policy stays until the job is across.
#[tokio::test]
async fn a_policy_that_preempts_in_place_of_one_that_goes_needs_no_feature_gate() {
    let settings = settings(AUTO_PRUNES);
    for all in ["", EVERYTHING] {
        let mut more = vec![("cutover.yaml", &*settings)];
        more.extend((!all.is_empty()).then_some(("all.yaml", all)));
        let (world, plane) = started(&placed(EAST), &more).await;
        plane.push(&[("policy.yaml", ""), ("next.yaml", &taker("west"))]);
        let planned = plane.plan().await;
        let is_own = |key: &ObjectKey| key.kind == "PropagationPolicy" && key.name == "orders";
        let own = planned.iter().find(|change| is_own(&change.key)).unwrap();
        assert!(
            matches!(&own.action, Action::HeldBack { by } if by.contains("orders-next")),
            "{all}: {:?}",
            own.action
        );
        let _running = plane.start();
        until("the old policy is gone", || !is_there(&plane, "orders")).await;
        assert!(
            is_there(&plane, "orders-next"),
            "{all}: the workload had no policy"
        );
        has_moved(&world, &plane).await;
        assert_eq!(named(&plane, "orders-next"), json!(["west"]));
    }
}

/// The policy of `orders`, once it has let go of it.
fn without_the_job() -> String {
    policy("orders", "another", "east")
}

fn has_let_go(plane: &Plane) -> bool {
    let own = plane.get(&POLICIES, Some("shop"), "orders").unwrap();
    own["spec"]["resourceSelectors"][0]["name"] == "another"
}

/// Where nothing else selects the job, and where something does: the old policy has it until it is across.
#[tokio::test]
async fn a_policy_that_lets_go_in_the_push_that_brings_one_that_preempts_is_a_migration() {
    let settings = settings(AUTO);
    for all in ["", EVERYTHING] {
        let mut more = vec![("cutover.yaml", &*settings)];
        more.extend((!all.is_empty()).then_some(("all.yaml", all)));
        let (world, plane) = started(&placed(EAST), &more).await;
        plane.push(&[("policy.yaml", &without_the_job()), ("next.yaml", &taker("west"))]);
        let planned = plane.plan().await;
        let is_own = |key: &ObjectKey| key.kind == "PropagationPolicy" && key.name == "orders";
        let own = planned.iter().find(|change| is_own(&change.key)).unwrap();
        assert!(
            matches!(&own.action, Action::HeldBack { by } if by.contains("orders-next")),
            "{all}: {:?}",
            own.action
        );
        assert!(
            planned.iter().any(|change| change.key.kind == "Migration"),
            "{all}"
        );
        let _running = plane.start();
        until("the old policy has let go", || has_let_go(&plane)).await;
        assert!(
            is_there(&plane, "orders-next"),
            "{all}: the workload had no policy"
        );
        has_moved(&world, &plane).await;
        assert_eq!(named(&plane, "orders-next"), json!(["west"]));
    }
}

/// The next one takes nothing from another: it is applied, and only then does letting go move the job. Whichever the plan judges first.
#[tokio::test]
async fn a_policy_that_lets_go_in_the_push_that_brings_the_next_one_is_a_migration() {
    let settings = settings(AUTO);
    for next in ["orders-next", "next"] {
        let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &settings)]).await;
        plane.push(&[
            ("policy.yaml", &without_the_job()),
            ("next.yaml", &policy(next, "orders", "west")),
        ]);
        let planned = plane.plan().await;
        let is_own = |key: &ObjectKey| key.kind == "PropagationPolicy" && key.name == "orders";
        let own = planned.iter().find(|change| is_own(&change.key)).unwrap();
        assert!(
            matches!(&own.action, Action::HeldBack { by } if by.contains("set off by this change")),
            "{next}: {:?}",
            own.action
        );
        let created = planned.iter().find(|change| change.key.kind == "Migration");
        assert_eq!(created.unwrap().after.as_ref().unwrap()["spec"]["to"], "west");
        let _running = plane.start();
        until("the old policy has let go", || has_let_go(&plane)).await;
        has_moved(&world, &plane).await;
    }
}

#[tokio::test]
async fn a_policy_lets_no_job_go_before_another_one_that_is_there_selects_it() {
    let settings = settings(AUTO);
    let beside = policy("beside", "another", "east");
    let more = [("cutover.yaml", &*settings), ("beside.yaml", &*beside)];
    let (world, plane) = started(&placed(EAST), &more).await;
    plane.refuse(&["PATCH /apis/policy.karmada.io/v1alpha1/namespaces/shop/propagationpolicies/beside"]);
    plane.push(&[
        ("policy.yaml", &without_the_job()),
        ("beside.yaml", &policy("beside", "orders", "east")),
    ]);
    plane.run().await;
    assert!(!has_let_go(&plane), "the workload has no policy");
    plane.refuse(&[]);
    plane.run().await;
    assert!(has_let_go(&plane));
    has_stayed(&world, &plane);
}

/// Each would wait for the next one.
#[tokio::test]
async fn policies_that_exchange_their_jobs_do_not_wait_for_each_other_for_ever() {
    let settings = settings(AUTO);
    let (bills, carts) = (job("bills"), job("carts"));
    for names in [&["orders", "bills"][..], &["orders", "bills", "carts"]] {
        let apply = |plane: &Plane, shift: usize| {
            for (index, name) in names.iter().enumerate() {
                let job = names[(index + shift) % names.len()];
                plane.push(&[(&*format!("{name}-policy.yaml"), &*policy(name, job, "east"))]);
            }
        };
        let more = [
            ("cutover.yaml", &*settings),
            ("bills.yaml", &*bills),
            ("carts.yaml", &*carts),
        ];
        let (world, plane) = started(&placed(EAST), &more).await;
        plane.push(&[("policy.yaml", "")]);
        apply(&plane, 0);
        plane.run().await;
        for name in names {
            until("it runs", || runs(&world, "east", name)).await;
        }
        apply(&plane, 1);
        plane.run().await;
        for (index, name) in names.iter().enumerate() {
            let live = plane.get(&POLICIES, Some("shop"), name).unwrap();
            let selected = &live["spec"]["resourceSelectors"][0]["name"];
            assert_eq!(*selected, names[(index + 1) % names.len()], "{name}");
            assert!(runs(&world, "east", name));
        }
        is_clean(&world);
    }
}

/// One of the ring is held by an intent, and may be for long: the first one does not leave its job without a policy meanwhile.
#[tokio::test]
async fn a_policy_that_an_intent_holds_is_waited_for_although_it_waits_in_turn() {
    let settings = settings(AUTO);
    let names = ["orders", "bills", "carts"];
    let (bills, carts) = (job("bills"), job("carts"));
    let policies = |shift: usize, label: &str| {
        let of = |index: usize| {
            let job = names[(index + shift) % names.len()];
            let text = policy(names[index], job, "east");
            text.replace(
                "namespace: shop",
                &format!("namespace: shop, labels: {{{label}}}"),
            )
        };
        [of(0), of(1), of(2)]
    };
    let [first, second, third] = policies(0, "team: a");
    let more = [
        ("cutover.yaml", &*settings),
        ("bills.yaml", &*bills),
        ("bills-policy.yaml", &*second),
        ("carts.yaml", &*carts),
        ("carts-policy.yaml", &*third),
    ];
    let (world, plane) = started(&first, &more).await;
    for name in names {
        until("it runs", || runs(&world, "east", name)).await;
    }
    let push = |label: &str, moving: &str| {
        let [first, second, third] = policies(1, label);
        plane.push(&[
            ("policy.yaml", &*first),
            ("bills-policy.yaml", &*second),
            ("carts-policy.yaml", &*third),
            ("move.yaml", &*migration("carts", moving)),
        ]);
    };
    let selected = || {
        names.map(|name| {
            let live = plane.get(&POLICIES, Some("shop"), name).unwrap();
            live["spec"]["resourceSelectors"][0]["name"]
                .as_str()
                .unwrap()
                .to_owned()
        })
    };
    push("team: a", "  paused: true\n");
    plane.run().await;
    assert_eq!(selected(), names, "a job has no policy");
    // It ends without having moved anything, and another commit asks for the same.
    push("team: a", "  abort: true\n");
    let _running = plane.start();
    until("it has ended", || phases(&plane) == ["Aborted"]).await;
    assert_eq!(selected(), names, "a job has no policy");
    push("team: b", "  abort: true\n");
    until("they have exchanged their jobs", || {
        selected() == ["bills", "carts", "orders"]
    })
    .await;
    assert!(names.iter().all(|name| runs(&world, "east", name)));
    is_clean(&world);
}

/// It was refused because the next one is to change as well, which says nothing of whether it will let go.
#[tokio::test]
async fn a_policy_that_was_refused_counts_as_letting_go_when_the_next_one_has_its_turn() {
    let settings = settings(AUTO);
    let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &settings)]).await;
    plane.push(&[("next.yaml", &successor("west"))]);
    plane.run().await;
    has_stayed(&world, &plane);
    plane.refuse(&["PATCH /apis/policy.karmada.io/v1alpha1/namespaces/shop/propagationpolicies/orders-next"]);
    let _running = plane.start();
    plane.push(&[
        ("policy.yaml", &without_the_job()),
        ("next.yaml", &taker("north")),
    ]);
    let is_told = || {
        let page = plane.origin.read("cutover-status", "STATUS.md");
        page.is_some_and(|page| page.contains("is to change as well"))
    };
    until("the old policy is refused", is_told).await;
    plane.refuse(&[]);
    until("the old policy has let go", || has_let_go(&plane)).await;
    until("it has ended", || phases(&plane) == ["Completed"]).await;
    assert_eq!(named(&plane, "orders-next"), json!(["north"]));
    assert!(runs(&world, "north", "orders"));
    is_clean(&world);
}

#[tokio::test]
async fn a_policy_that_takes_its_job_back_in_mid_flight_keeps_it() {
    let settings = settings(PATIENT);
    for all in ["", EVERYTHING] {
        let mut more = vec![("cutover.yaml", &*settings)];
        more.extend((!all.is_empty()).then_some(("all.yaml", all)));
        let (world, plane) = started(&placed(EAST), &more).await;
        let _running = plane.start();
        plane.push(&[("policy.yaml", &without_the_job()), ("next.yaml", &taker("west"))]);
        until("the target is watched", || phases(&plane) == ["Verify"]).await;
        assert!(!has_let_go(&plane), "{all}");
        plane.push(&[("policy.yaml", &placed(EAST))]);
        until("it is rolled back", || phases(&plane) == ["Aborted"]).await;
        assert_eq!(
            why_back(&plane),
            "called off: Git now asks for another placement",
            "{all}"
        );
        until("it runs where it did", || runs(&world, "east", "orders")).await;
        assert!(!has_let_go(&plane) && !is_there(&plane, "orders-next"), "{all}");
        is_clean(&world);
    }
}

/// The next policy stays unapplied, and with it the change that would leave the job without any.
#[tokio::test]
async fn a_policy_does_not_let_go_of_a_job_that_could_not_be_moved() {
    let settings = settings(AUTO);
    let more = [("cutover.yaml", &*settings), ("broken.yaml", BROKEN)];
    let (world, plane) = started(&placed(EAST), &more).await;
    let running = plane.start();
    plane.push(&[("policy.yaml", &without_the_job()), ("next.yaml", &taker("west"))]);
    until("it is rolled back", || phases(&plane) == ["RolledBack"]).await;
    until("it runs where it did", || runs(&world, "east", "orders")).await;
    drop(running);
    for _ in 0..2 {
        plane.run().await;
        assert_eq!(phases(&plane), ["RolledBack"]);
        assert!(!has_let_go(&plane) && !is_there(&plane, "orders-next"));
    }
    is_clean(&world);
}

/// The same change would move another job of the old policy: it does not go out, and the next one would take nothing over.
#[tokio::test]
async fn a_policy_that_lets_go_of_one_job_and_moves_another_one_sets_nothing_off() {
    let settings = settings(AUTO);
    let (own, bills) = (
        policy("orders", "", "east").replace(", name: ''", ""),
        job("bills"),
    );
    let more = [("cutover.yaml", &*settings), ("bills.yaml", &*bills)];
    let (world, plane) = started(&own, &more).await;
    until("both run", || runs(&world, "east", "bills")).await;
    plane.push(&[
        ("policy.yaml", &policy("orders", "bills", "west")),
        ("next.yaml", &taker("west")),
    ]);
    let told = problems(&plane).await;
    assert!(told.contains("PropagationPolicyPreemption"), "{told}");
    assert!(migrations(&plane).is_empty(), "{:#?}", migrations(&plane));
    assert_eq!(named(&plane, "orders"), json!(["east"]));
    assert!(runs(&world, "east", "orders") && runs(&world, "east", "bills"));
    is_clean(&world);
}

/// Moved for that, the job would stay under guard for good.
#[tokio::test]
async fn a_policy_whose_change_is_refused_does_not_count_as_letting_go() {
    let settings = settings(AUTO);
    let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &settings)]).await;
    plane.refuse(&["PATCH /apis/policy.karmada.io/v1alpha1/namespaces/shop/propagationpolicies/orders"]);
    let next = taker("west").replace("name: orders-next", "name: next");
    plane.push(&[("policy.yaml", &without_the_job()), ("next.yaml", &next)]);
    for _ in 0..2 {
        let told = problems(&plane).await;
        assert!(told.contains("no Migration is set off"), "{told}");
    }
    assert!(!has_let_go(&plane) && !is_there(&plane, "next"));
    has_stayed(&world, &plane);
}

/// A person may never approve it, and then Karmada leaves the job with the old policy.
#[tokio::test]
async fn a_policy_whose_deletion_has_to_be_approved_does_not_count_as_gone() {
    let settings = settings(
        "- {name: main, prune: true, pruneLimit: {objects: 0, percent: 0}, gate: {migrations: {mode: Auto}}}",
    );
    let (world, plane) = started(&placed(EAST), &[("cutover.yaml", &settings)]).await;
    plane.push(&[("policy.yaml", ""), ("next.yaml", &taker("west"))]);
    let told = problems(&plane).await;
    assert!(told.contains("PropagationPolicyPreemption"), "{told}");
    assert!(is_there(&plane, "orders"));
    has_stayed(&world, &plane);
}

/// It has not left Git, whichever of the two syncs reads the push first.
#[tokio::test]
async fn a_policy_that_moves_to_another_sync_in_mid_flight_turns_no_move_back() {
    let other = "- {name: other, path: other, gate: {migrations: {mode: Auto}}}";
    let settings = settings(&format!("{PATIENT_PRUNES}\n{other}"));
    let beside = policy("beside", "another", "east");
    let more = [("cutover.yaml", &*settings), ("other/beside.yaml", &*beside)];
    let (world, plane) = started(&placed(EAST), &more).await;
    let _running = plane.start();
    let moved = policy("orders", "orders", "west");
    plane.push(&[("policy.yaml", &moved)]);
    until("the target is watched", || phases(&plane) == ["Verify"]).await;
    plane.push(&[("policy.yaml", ""), ("other/policy.yaml", &moved)]);
    until("the push is read", || is_read(&plane)).await;
    assert_eq!(migrations(&plane)[0]["spec"]["abort"], Value::Null);
    assert_eq!(phases(&plane), ["Verify"]);
    // From now on that one has the last word.
    plane.push(&[("other/policy.yaml", &policy("orders", "orders", "north"))]);
    until("it is called off", || {
        phases(&plane).contains(&"Aborted".to_owned())
    })
    .await;
    is_clean(&world);
}

/// Only the sync that deletes the policy knows that it goes.
#[tokio::test]
async fn a_policy_that_goes_is_a_migration_to_where_the_policy_of_another_sync_places_the_job() {
    let other = "- {name: other, path: other, gate: {migrations: {mode: Auto}}}";
    let settings = settings(&format!("{AUTO_PRUNES}\n{other}"));
    let beside = policy("beside", "another", "east");
    let more = [("cutover.yaml", &*settings), ("other/beside.yaml", &*beside)];
    let (world, plane) = started(&placed(EAST), &more).await;
    plane.push(&[("other/next.yaml", &successor("west"))]);
    plane.run().await;
    has_stayed(&world, &plane);
    let _running = plane.start();
    plane.push(&[("policy.yaml", "")]);
    has_moved(&world, &plane).await;
    until("the old policy is gone", || !is_there(&plane, "orders")).await;
    assert_eq!(named(&plane, "orders-next"), json!(["west"]));
}

/// `orders` runs in east, and Karmada has the feature gate.
async fn preempting(verify: &str) -> (World, Plane) {
    let world = World::start(WorldOptions {
        features: Features {
            policy_preemption: true,
            ..Features::default()
        },
        ..WorldOptions::fast()
    });
    let gate = format!("{{migrations: {{mode: Auto, preemption: true, verify: {verify}}}}}");
    let settings = settings(&format!("- {{name: main, gate: {gate}}}"));
    let (own, job) = (placed(EAST), job("orders"));
    let files = [
        NAMESPACE,
        ("policy.yaml", &*own),
        ("job.yaml", &*job),
        ("cutover.yaml", &*settings),
    ];
    let plane = Plane::on(world.control_plane(), &files);
    plane.run().await;
    until("orders runs in east", || runs(&world, "east", "orders")).await;
    (world, plane)
}

#[tokio::test]
async fn a_policy_that_preempts_is_a_migration_where_karmada_lets_it() {
    let (world, plane) = preempting("{healthyFor: 1s}").await;
    let _running = plane.start();
    plane.push(&[("next.yaml", &taker("west"))]);
    until("it is across", || phases(&plane) == ["Completed"]).await;
    has_moved(&world, &plane).await;
    assert_eq!(named(&plane, "orders-next"), json!(["west"]));
    assert_eq!(named(&plane, "orders"), json!(["east"]));
}

#[tokio::test]
async fn a_policy_that_was_to_preempt_and_goes_or_lets_be_in_mid_flight_moves_nothing() {
    let meek = taker("west").replace("priority: 10", "priority: 0");
    for after in ["", &*meek] {
        let (world, plane) = preempting("{healthyFor: 2h, timeout: 3h}").await;
        let _running = plane.start();
        plane.push(&[("next.yaml", &taker("west"))]);
        until("the target is watched", || phases(&plane) == ["Verify"]).await;
        assert!(!is_there(&plane, "orders-next"));
        plane.push(&[("next.yaml", after)]);
        until("it is rolled back", || phases(&plane) == ["Aborted"]).await;
        until("it runs where it did", || runs(&world, "east", "orders")).await;
        until("Git is carried out", || {
            is_there(&plane, "orders-next") != after.is_empty()
        })
        .await;
        assert_eq!(named(&plane, "orders"), json!(["east"]));
        is_clean(&world);
    }
}
