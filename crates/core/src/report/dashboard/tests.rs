use insta::assert_snapshot;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::report::{Copies, Reconciler, SyncOverview, View};

const NOW: Timestamp = Timestamp::constant(1_772_359_265, 0);

fn migration(name: &str, status: Value) -> Value {
    json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Migration",
        "metadata": {"name": name, "namespace": "shop", "uid": "7b1c"},
        "spec": {
            "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
            "from": "east", "to": "west",
        },
        "status": status,
    })
}

fn step(name: &str, from: u32, until: Option<u32>, evidence: &[&str]) -> Value {
    let at = |second: u32| format!("2026-03-01T10:00:{second:02}Z");
    json!({"name": name, "startedAt": at(from), "finishedAt": until.map(at), "evidence": evidence})
}

/// One that has its workload in west, and waits for it to stay well.
fn verifying() -> Value {
    let marker = "7b1cf2e5-b3e8-4e87-85ea-cf72e5b831d3.1.1";
    let uid = "1a98a82b-8496-4a10-987c-976e298202c5";
    let hold = format!("Work of east carries {marker}");
    let hold = [
        "scheduling suspended, scheduler past canary-f2e5f38fb3e8-1-0",
        &hold,
    ];
    let expand = format!("west: uid {uid} holds under {marker}, never ran");
    let savepoint = "savepoint s3://shop-state/orders/savepoint-3ddaed, which the copy in east keeps";
    let steps = json!([
        step("Preflight", 0, Some(1), &["runs in east alone, healthy"]),
        step("Hold", 1, Some(2), &hold),
        step("Expand", 2, Some(3), &[&expand]),
        step("Capture", 3, Some(5), &["east: suspended", savepoint]),
        step("Handoff", 5, Some(6), &["west: healthy"]),
        step("Verify", 6, None, &[]),
    ]);
    migration(
        "orders-to-west",
        json!({
            "phase": "Verify", "attempt": 1, "source": "east", "steps": steps,
            "waitingFor": {
                "reason": "west to stay healthy for 2 min without a break, as spec.verify says",
                "since": "2026-03-01T10:00:06Z", "until": "2026-03-01T10:02:06Z", "then": "go on",
            },
        }),
    )
}

fn ended(name: &str, phase: &str, more: &Value) -> Value {
    let mut status = json!({
        "phase": phase, "attempt": 1, "source": "east",
        "startedAt": "2026-03-01T09:50:00Z", "finishedAt": "2026-03-01T09:51:05Z",
    });
    for (field, value) in more.as_object().unwrap() {
        status[field] = value.clone();
    }
    migration(name, status)
}

fn binding(kind: &str, name: &str, reports: &Value) -> Value {
    let reports = reports.as_array().unwrap();
    let clusters: Vec<Value> = reports
        .iter()
        .map(|report| json!({"name": report["clusterName"]}))
        .collect();
    json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "resource": {"apiVersion": "v1", "kind": kind, "namespace": "shop", "name": name},
            "clusters": clusters,
        },
        "status": {"aggregatedStatus": reports},
    })
}

fn copies() -> Copies {
    let healthy = |cluster: &str| json!({"clusterName": cluster, "applied": true, "health": "Healthy"});
    let running = json!({
        "clusterName": "west", "applied": true, "health": "Healthy",
        "status": {"jobStatus": {"startTime": "1772359205000"}},
    });
    let unavailable = json!({
        "type": "Available", "status": "False", "reason": "ImagePullBackOff", "message": "image web:2 is not there",
    });
    let broken = json!({
        "clusterName": "west", "applied": true, "health": "Unhealthy", "status": {"conditions": [unavailable]},
    });
    let mut bindings = vec![
        binding("FlinkDeployment", "orders", &json!([running])),
        binding("Deployment", "web", &json!([healthy("east"), broken])),
    ];
    let others = 0..20;
    bindings
        .extend(others.map(|number| binding("Deployment", &format!("a{number}"), &json!([healthy("east")]))));
    Copies::of(&bindings, &[] as &[Value])
}

fn view(migrations: Vec<Value>) -> View {
    let mut migrations = Some(migrations);
    let mut objects = |kind| match kind {
        "Migration" => migrations.take().unwrap_or_default(),
        _ => Vec::new(),
    };
    let unreadable = |kind: &str, _: &Value, error| panic!("{kind}: {error}");
    View::of(&Overview::of_intents(&mut objects, unreadable))
}

fn all() -> View {
    let journal = json!({
        "spec": {
            "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
            "to": "west",
        },
        "profile": {
            "appliesTo": {"group": "flink.apache.org", "kinds": ["FlinkDeployment"]}, "stateful": true,
            "suspend": [], "hold": [], "start": [], "restart": [],
            "observedWhen": "true", "suspendedWhen": "true", "healthyWhen": "true",
        },
        "source": "east", "target": "west", "templateUid": "t", "seq": 3, "pinned": true, "clusters": ["east", "west"],
        "binding": {"name": "orders-flinkdeployment", "uid": "b", "id": "b1"}, "fence": {"recorded": true},
        "rollBack": {
            "reason": "west: the copy was not healthy for 2 min", "fromPhase": "Verify",
            "since": "2026-03-01T10:00:02Z", "endsAs": "RolledBack", "restart": true, "stage": "Taken",
        },
    });
    let back = json!({"downtimeMs": 19_000, "journal": journal});
    view(vec![
        verifying(),
        ended("carts-to-west", "Completed", &json!({"downtimeMs": 1250})),
        ended("carts-to-east", "RolledBack", &back),
    ])
    .with_copies(copies())
}

fn printed(view: &View, layout: &Layout) -> String {
    anstream::adapter::strip_str(&view.dashboard().text(layout)).to_string()
}

fn at(width: usize) -> Layout {
    Layout {
        width: Some(width),
        ..Layout::at(NOW)
    }
}

#[test]
fn eighty_columns_say_what_is_wrong_what_runs_where_what_goes_on_and_what_is_next() {
    assert_snapshot!(printed(&all(), &at(80)), @"
    Migration shop/carts-to-east was rolled back: west: the copy was not healthy for
    2 min (in Verify); 1 workload unhealthy in a cluster; 1 of 3 migrations running

    WORKLOAD                     CLUSTER  SINCE      STATE
    Deployment shop/web          east     -          healthy
                                 west     -          not healthy: ImagePullBackOff:
                                                     image web:2 is not there
    FlinkDeployment shop/orders  west     1 min 0 s  healthy
    and 20 more workloads, healthy in every cluster (--all)

    shop/orders-to-west  Migration  FlinkDeployment orders  east → west  Verify
      ✓ Preflight      1.0 s  nothing blocks the move
      ✓ Hold           1.0 s  east alone may run; the scheduler is held off
      ✓ Expand         1.0 s  west has a stopped copy
      ✓ Capture        2.0 s  east has stopped; its state is captured
      ✓ Handoff        1.0 s  west runs, and is healthy
      • Verify        59.0 s
      waits: west to stay healthy for 2 min without a break, as spec.verify says
        since 2026-03-01 10:00:06 UTC (59.0 s)
        ▰▰▰▰▱▱▱▱▱▱ 59.0 s of 2 min 0 s
      next: in 1 min 1 s (2026-03-01 10:02:06 UTC): go on

    ✗ shop/carts-to-east  Migration  FlinkDeployment orders  east → west  RolledBack
        10 min 0 s ago, downtime 19.0 s: west: the copy was not healthy for 2 min
        (in Verify)
      next: fix the cause, then run cutover migrate again
    ✓ shop/carts-to-west  Migration  FlinkDeployment orders  east → west  Completed
        10 min 0 s ago, downtime 1.2 s

    syncs: cutover status --recorded (they are not in the control plane)
    ");
}

#[test]
fn forty_columns_say_the_same() {
    assert_snapshot!(printed(&all(), &at(40)), @"
    Migration shop/carts-to-east was rolled
    back: west: the copy was not healthy for
    2 min (in Verify); 1 workload unhealthy
    in a cluster; 1 of 3 migrations running

    WORKLOAD
      CLUSTER  SINCE      STATE
    Deployment shop/web
      east     -          healthy
      west     -          not healthy:
        ImagePullBackOff: image web:2 is not
        there
    FlinkDeployment shop/orders
      west     1 min 0 s  healthy
    and 20 more workloads, healthy in every
      cluster (--all)

    shop/orders-to-west  Migration
      FlinkDeployment orders  east → west
      Verify
      ✓ Preflight      1.0 s  nothing blocks
          the move
      ✓ Hold           1.0 s  east alone may
          run; the scheduler is held off
      ✓ Expand         1.0 s  west has a
          stopped copy
      ✓ Capture        2.0 s  east has
          stopped; its state is captured
      ✓ Handoff        1.0 s  west runs, and
          is healthy
      • Verify        59.0 s
      waits: west to stay healthy for 2 min
        without a break, as spec.verify says
        since 2026-03-01 10:00:06 UTC (59.0
          s)
        ▰▰▰▰▱▱▱▱▱▱ 59.0 s of 2 min 0 s
      next: in 1 min 1 s (2026-03-01
        10:02:06 UTC): go on

    ✗ shop/carts-to-east  Migration
        FlinkDeployment orders  east → west
        RolledBack 10 min 0 s ago, downtime
        19.0 s: west: the copy was not
        healthy for 2 min (in Verify)
      next: fix the cause, then run cutover
        migrate again
    ✓ shop/carts-to-west  Migration
        FlinkDeployment orders  east → west
        Completed 10 min 0 s ago, downtime
        1.2 s

    syncs: cutover status --recorded (they
    are not in the control plane)
    ");
}

#[test]
fn no_line_is_wider_than_the_terminal_but_what_is_copied() {
    for width in [40, 60, 80, 200] {
        for line in printed(&all(), &at(width)).lines() {
            let is_copied = line.contains("next: cutover ");
            assert!(is_copied || line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn names_of_machines_are_for_those_who_ask() {
    let plain = printed(&all(), &at(80));
    for machine in ["uid", "canary-", "7b1cf2e5", "1a98a82b"] {
        assert!(!plain.contains(machine), "{machine}: {plain}");
    }
    let verbose = Layout {
        verbose: true,
        ..at(200)
    };
    let verbose = printed(&all(), &verbose);
    let says = |text: &str| verbose.contains(text);
    assert!(
        says("canary-f2e5f38fb3e8-1-0") && says("uid 1a98a82b"),
        "{verbose}"
    );
}

#[test]
fn what_has_ended_takes_a_line_and_on_request_all_of_them() {
    let many = (0..30).map(|number| ended(&format!("m{number}"), "Completed", &json!({})));
    let view = view(many.collect());
    let text = printed(&view, &at(120));
    assert!(text.contains("and 20 more that have ended (--all)"), "{text}");
    let all = Layout { all: true, ..at(120) };
    assert_eq!(printed(&view, &all).matches("took 1 min 5 s").count(), 30);
}

/// One that has not begun and waits for the reason.
fn waiting(name: &str, reason: &str, since: &str, more: &Value) -> Value {
    let mut wait = json!({"code": "Turn", "reason": reason, "since": since});
    for (field, value) in more.as_object().unwrap() {
        wait[field] = value.clone();
    }
    migration(
        name,
        json!({"phase": "Pending", "attempt": 1, "waitingFor": wait}),
    )
}

#[test]
fn what_waits_alike_is_told_once() {
    let reason = "the time window to open at 22:00 UTC, as spec.window says";
    let mut all: Vec<Value> = (0..36)
        .map(|number| {
            let since = format!("2026-03-01T10:00:{:02}Z", 36 - number);
            waiting(&format!("m{number:02}"), reason, &since, &json!({}))
        })
        .collect();
    all.push(waiting(
        "other",
        "a turn: 4 of 4 migrations are under way",
        "2026-03-01T10:00:00Z",
        &json!({}),
    ));
    let view = view(all);
    assert_snapshot!(printed(&view, &at(80)), @"
    All intents are well; 37 of 37 migrations not begun

    36 Migrations  Pending
      shop/m00, shop/m01, shop/m02, shop/m03, shop/m04, and 31 more (--all)
      waits: the time window to open at 22:00 UTC, as spec.window says
        since 2026-03-01 10:00:01 UTC (1 min 4 s), the first of them
      next: nothing to do: it continues as soon as this happens

    shop/other  Migration  FlinkDeployment orders  east → west  Pending
      waits: a turn: 4 of 4 migrations are under way
        since 2026-03-01 10:00:00 UTC (1 min 5 s)
      next: nothing to do: it continues as soon as this happens
    ");
    let whole = Layout { all: true, ..at(80) };
    let wide = Layout { wide: true, ..at(80) };
    for layout in [whole, wide] {
        assert_eq!(
            printed(&view, &layout)
                .matches(reason.split_once(',').unwrap().0)
                .count(),
            36
        );
    }
    let named = printed(&view.only(|_, _, name| name.starts_with("m0")), &at(80));
    assert!(named.starts_with("10 Migrations  Pending"), "{named}");
}

#[test]
fn what_is_asked_of_a_person_is_asked_once_for_all_that_wait_alike() {
    let approval = json!({
        "code": "Approval", "approval": "Handoff", "until": "2026-03-01T11:00:00Z", "then": "roll back",
    });
    let reason = "approval to begin Handoff";
    let all = ["a", "b", "c"].map(|name| waiting(name, reason, "2026-03-01T10:00:00Z", &approval));
    assert_snapshot!(printed(&view(all.to_vec()), &at(80)), @"
    Migration shop/a waits for you: approval to begin Handoff, and 2 more like it; 3
    of 3 migrations not begun

    3 Migrations  Pending
      shop/a, shop/b, shop/c
      waits: approval to begin Handoff
        since 2026-03-01 10:00:00 UTC (1 min 5 s)
      next: cutover approve NAMESPACE/NAME --phase Handoff
      else: in 58 min 55 s (2026-03-01 11:00:00 UTC): roll back
    ");
}

#[test]
fn what_differs_is_not_told_as_if_it_were_one() {
    let said = |changed: &dyn Fn(usize, &mut Value)| {
        let all = (0..3).map(|number| {
            let until = json!({"until": format!("2026-03-01T11:00:{number:02}Z"), "then": "roll back"});
            let mut one = waiting(
                &format!("m{number}"),
                "west to answer",
                "2026-03-01T10:00:00Z",
                &until,
            );
            changed(number, &mut one);
            one
        });
        printed(&view(all.collect()), &at(200))
    };
    let folded = said(&|_, _| {});
    assert!(folded.contains("3 Migrations  Pending"), "{folded}");
    assert!(folded.contains("roll back, the first of them"), "{folded}");
    // Fewer than three stay as they are.
    for (path, value) in [
        ("/status/phase", json!("Preflight")),
        ("/status/waitingFor/reason", json!("east to answer")),
        ("/status/waitingFor/then", json!("go on")),
        ("/status/waitingFor/code", json!("Claim")),
    ] {
        let text = said(&|number, one| {
            if number == 0 {
                *one.pointer_mut(path).unwrap() = value.clone();
            }
        });
        assert!(text.matches("waits:").count() == 3, "{path}: {text}");
    }
    let found = said(&|number, one| {
        one["status"]["findings"] = json!([{"code": "CT101", "message": format!("finding {number}")}]);
    });
    assert!(
        (0..3).all(|number| found.contains(&format!("finding {number}"))),
        "{found}"
    );
    let down = said(&|number, one| {
        one["status"]["phase"] = json!("Handoff");
        one["status"]["journal"] = json!({
            "spec": one["spec"],
            "profile": {
                "appliesTo": {"group": "flink.apache.org", "kinds": ["FlinkDeployment"]}, "stateful": true,
                "suspend": [], "hold": [], "start": [], "restart": [],
                "observedWhen": "true", "suspendedWhen": "true", "healthyWhen": "true",
            },
            "source": "east", "target": "west", "templateUid": "t", "seq": 3, "pinned": true,
            "clusters": ["east", "west"], "fence": {"recorded": true},
            "binding": {"name": "orders-flinkdeployment", "uid": "b", "id": "i"},
            "downSince": format!("2026-03-01T10:00:0{number}Z"),
        });
    });
    assert!(
        down.contains("not seen running for 1 min 5 s: since 2026-03-01 10:00:00 UTC, the first"),
        "{down}"
    );
}

#[test]
fn nothing_is_well_that_is_not_known_to_be() {
    let first = |view: &View| {
        let text = printed(view, &at(200));
        text.lines().next().unwrap_or_default().to_owned()
    };
    let healthy = view(vec![ended("m", "Completed", &json!({}))]);
    assert_eq!(first(&healthy), "All intents are well", "syncs are not looked at");
    let unhealthy = healthy.clone().with_copies(copies());
    assert_eq!(first(&unhealthy), "1 workload unhealthy in a cluster");
    let lease = json!({"spec": {
        "holderIdentity": "pod_1", "leaseDurationSeconds": 15, "renewTime": "2026-03-01T10:00:00.000000Z",
    }});
    let idle = healthy.clone().with_reconciler(Reconciler::of(&lease, NOW));
    assert_eq!(
        first(&idle),
        "No reconciler at work since 2026-03-01 10:00:00 UTC"
    );
    assert_eq!(
        first(&idle.with_copies(copies())),
        "1 workload unhealthy in a cluster; no reconciler at work since 2026-03-01 10:00:00 UTC"
    );
    let unknown = printed(&healthy.with_copies(Copies::unknown("forbidden")), &at(80));
    assert!(
        unknown.contains("what runs where is not known: forbidden"),
        "{unknown}"
    );
    let synced = Overview {
        syncs: vec![SyncOverview::default()],
        ..Overview::default()
    };
    assert_eq!(first(&View::of(&synced)), "All is well");
    let is_well = |view: &View| view.dashboard().is_well();
    assert!(is_well(&View::of(&synced)) && is_well(&view(vec![ended("m", "Completed", &json!({}))])));
    let asks = json!({"code": "Approval", "approval": "Handoff"});
    let asks = waiting("m", "approval to begin Handoff", "2026-03-01T10:00:00Z", &asks);
    for unwell in [
        unhealthy,
        view(vec![ended("m", "Failed", &json!({}))]),
        view(vec![asks.clone()]),
        view(vec![asks]).only(|_, _, _| true),
    ] {
        assert!(!is_well(&unwell), "{}", printed(&unwell, &at(200)));
    }
}

#[test]
fn a_control_plane_without_intents_has_a_headline_above_its_workloads() {
    let healthy = json!({"clusterName": "west", "applied": true, "health": "Healthy"});
    let copies = Copies::of(
        &[binding("Deployment", "web", &json!([healthy]))],
        &[] as &[Value],
    );
    let text = printed(&view(Vec::new()).with_copies(copies), &at(80));
    assert!(text.starts_with("Nothing is under way\n\nWORKLOAD"), "{text}");
    assert!(text.contains("\n\nno intents\n"), "{text}");
}

#[test]
fn how_the_syncs_stand_is_read_from_the_lease() {
    let fleet = json!({
        "name": "fleet", "revision": "84c4a8a3abcdef0123456789abcdef0123456789", "since": "2026-03-01T10:00:00Z",
        "inSync": 6, "heldBack": 1, "waiting": 0, "problems": 0,
    });
    let with = |syncs: &Value| {
        let lease = json!({
            "metadata": {"annotations": {"cutover.dev/syncs": json!({"syncs": [syncs]}).to_string()}},
            "spec": {
                "holderIdentity": "pod_1", "leaseDurationSeconds": 15, "renewTime": "2026-03-01T10:01:00.000000Z",
            },
        });
        let view = view(vec![ended("m", "Completed", &json!({}))]);
        printed(&view.with_reconciler(Reconciler::of(&lease, NOW)), &at(100))
    };
    let held = with(&fleet);
    let row = held.lines().find(|line| line.starts_with("fleet"));
    let cells: Vec<_> = row.unwrap_or_default().split_whitespace().collect();
    assert_eq!(
        cells,
        ["fleet", "84c4a8a3", "1", "min", "5", "s", "6", "1", "0", "0"],
        "{held}"
    );
    assert!(
        held.starts_with("1 change held back\n") && held.contains("\ndetails: cutover status --recorded\n"),
        "{held}"
    );
    let mut calm = fleet;
    calm["heldBack"] = json!(0);
    let calm = with(&calm);
    assert!(
        calm.starts_with("All is well\n") && !calm.contains("--recorded"),
        "{calm}"
    );
}

#[test]
fn a_line_an_intent_has_more_columns() {
    let wide = Layout { wide: true, ..at(80) };
    let text = printed(&all(), &wide);
    let mut lines = text.lines();
    let row = lines
        .find(|line| line.starts_with("shop/orders-to-west"))
        .unwrap_or_default();
    assert!(
        row.contains("  Migration  ") && row.contains("west to stay healthy"),
        "{text}"
    );
}

#[test]
fn the_words_for_programs_have_what_runs_where() {
    let document: Value = serde_json::from_str(&all().json().unwrap()).unwrap();
    let schema = schemars::schema_for!(crate::report::Snapshot).to_value();
    let found = crate::schema::violations(&document, &schema);
    assert!(found.is_empty(), "{found:?}");
    let web = &document["workloads"][0];
    assert_eq!(
        (&web["kind"], &web["name"]),
        (&json!("Deployment"), &json!("web"))
    );
    assert_eq!(web["clusters"][1]["state"], "Unhealthy");
    let yaml: Value = serde_yaml::from_str(&all().yaml().unwrap()).unwrap();
    assert_eq!(yaml, document);
}
