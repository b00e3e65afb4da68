use insta::assert_snapshot;
use jiff::Timestamp;
use serde_json::json;

use super::*;

const NOW: Timestamp = Timestamp::constant(1_772_359_265, 0);

fn migration(status: serde_json::Value) -> Migration {
    serde_json::from_value(json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Migration",
        "metadata": {"name": "orders-to-west", "namespace": "shop", "uid": "7b1c"},
        "spec": {
            "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
            "from": "east", "to": "west",
        },
        "status": status,
    }))
    .unwrap()
}

fn step(name: &str, from: &str, until: Option<&str>, evidence: &[&str]) -> serde_json::Value {
    let at = |second: &str| format!("2026-03-01T10:00:{second}Z");
    json!({"name": name, "startedAt": at(from), "finishedAt": until.map(at), "evidence": evidence})
}

fn completed() -> Migration {
    migration(json!({
        "phase": "Completed", "attempt": 1, "source": "east", "downtimeMs": 1250,
        "startedAt": "2026-03-01T10:00:00Z", "finishedAt": "2026-03-01T10:00:05Z",
        "steps": [
            step("Preflight", "00", Some("00.050"), &["orders runs in east, observed"]),
            step("Capture", "00.050", Some("01.5"), &["stopped: suspended | no pods", "savepoint s3://savepoints/sp_1"]),
            step("Handoff", "01.5", Some("05"), &[]),
        ],
    }))
}

fn overview(migrations: Vec<Migration>) -> Overview {
    let revision: Revision = "0123456789abcdef0123456789abcdef01234567".parse().unwrap();
    Overview {
        rollouts: Vec::new(),
        rollout_policies: Vec::new(),
        suspensions: Vec::new(),
        shifts: Vec::new(),
        many: Vec::new(),
        revision: Some(revision.clone()),
        branch: None,
        syncs: vec![SyncOverview {
            name: "fleet".to_owned(),
            revision: Some(revision),
            in_sync: 6,
            ..SyncOverview::default()
        }],
        migrations,
        failover_plans: Vec::new(),
        left_behind: Vec::new(),
        unhealthy: Vec::new(),
        has_unknown_intents: false,
        has_unknown_health: false,
        web: None,
    }
}

#[test]
fn what_is_left_behind_is_listed_with_what_can_be_done() {
    let object = |name: &str| ObjectKey {
        group: String::new(),
        kind: "ConfigMap".to_owned(),
        namespace: Some("shop".to_owned()),
        name: name.to_owned(),
    };
    let mut left = overview(Vec::new());
    left.left_behind.push(LeftOverview {
        why: "sync apps is not in cutover.yaml any more".to_owned(),
        hint: "give it back".to_owned(),
        objects: vec![object("a"), object("b")],
    });
    let page = page(&left);
    let (_, told) = page.split_once("## Left behind\n\n").unwrap();
    assert_eq!(
        told,
        "sync apps is not in cutover.yaml any more; 2 objects of it stay as they are:\n\n- ConfigMap shop/a\n\
         - ConfigMap shop/b\n\n*Hint:* give it back.\n\n"
    );
    assert_eq!(urgency(&overview(Vec::new()), &left), Urgency::Moves);
}

fn page(overview: &Overview) -> String {
    String::from_utf8(status_tree(overview).unwrap().remove(STATUS_FILE).unwrap()).unwrap()
}

#[test]
fn a_completed_migration_is_told_with_its_steps_and_a_chart() {
    assert_snapshot!(page(&overview(vec![completed()])), @r#"
    # Status

    **All is well.**

    Desired state: revision `0123456789abcdef0123456789abcdef01234567`.

    ## Syncs

    | Sync | Revision | In sync | Held back | Waiting | Problems |
    |---|---|--:|--:|--:|--:|
    | fleet | `01234567` | 6 | 0 | 0 | 0 |

    ## Migrations

    | Migration | Workload | Route | Phase | Since | Downtime |
    |---|---|---|---|---|--:|
    | [shop/orders-to-west](intents/shop/migration-orders-to-west.yaml) | FlinkDeployment orders | east → west | ✅ Completed | 2026-03-01 10:00:05 UTC | 1.2 s |

    ### ✅ shop/orders-to-west: Completed

    FlinkDeployment orders from east to west; took 5.0 s; downtime 1.2 s.

    ```mermaid
    gantt
        dateFormat x
        axisFormat %S.%L s
        section Steps
        Preflight :done, 1772359200000, 1772359200050
        Capture :done, 1772359200050, 1772359201500
        Handoff :done, 1772359201500, 1772359205000
    ```

    | Step | Began | Took | Evidence |
    |---|---|--:|---|
    | Preflight | 2026-03-01 10:00:00 UTC | 50 ms | orders runs in east, observed |
    | Capture | 2026-03-01 10:00:00 UTC | 1.4 s | stopped: suspended \| no pods<br>savepoint s3://savepoints/sp\_1 |
    | Handoff | 2026-03-01 10:00:01 UTC | 3.5 s |  |
    "#);
}

#[test]
fn a_waiting_migration_says_for_what_and_until_when() {
    let waiting = migration(json!({
        "phase": "Capture", "attempt": 2, "source": "east",
        "waitingFor": {
            "reason": "east: cannot be reached", "since": "2026-03-01T10:00:01Z",
            "until": "2026-03-01T10:15:00Z", "then": "rolls back"
        },
        "steps": [step("Capture", "01", None, &[])],
        "findings": [{"code": "SpecChangeIgnored", "message": "spec.to has changed", "hint": "abort first"}],
    }));
    assert_snapshot!(page(&overview(vec![waiting])), @"
    # Status

    **All is well; 1 of 1 migration running.**

    Desired state: revision `0123456789abcdef0123456789abcdef01234567`.

    ## Syncs

    | Sync | Revision | In sync | Held back | Waiting | Problems |
    |---|---|--:|--:|--:|--:|
    | fleet | `01234567` | 6 | 0 | 0 | 0 |

    ## Migrations

    | Migration | Workload | Route | Phase | Since | Downtime |
    |---|---|---|---|---|--:|
    | [shop/orders-to-west](intents/shop/migration-orders-to-west.yaml) | FlinkDeployment orders | east → west | 🔄 Capture | 2026-03-01 10:00:01 UTC |  |

    ### 🔄 shop/orders-to-west: Capture

    FlinkDeployment orders from east to west, attempt 2.

    > ⏳ Waits since 2026-03-01 10:00:01 UTC: east: cannot be reached. At 2026-03-01 10:15:00 UTC: rolls back

    - ⚠️ SpecChangeIgnored: spec.to has changed (abort first)

    ```mermaid
    gantt
        dateFormat x
        axisFormat %S.%L s
        section Steps
        Capture :active, 1772359201000, 1772359201001
    ```

    | Step | Began | Took | Evidence |
    |---|---|--:|---|
    | Capture | 2026-03-01 10:00:01 UTC |  |  |
    ");
}

#[test]
fn migrations_that_wait_alike_have_one_story_and_a_row_each() {
    let all = (0..7).map(|number| {
        let since = format!("2026-03-01T10:00:0{number}Z");
        let mut one = migration(json!({
            "phase": "Pending", "attempt": 1,
            "waitingFor": {"code": "Turn", "reason": "a turn: 4 of 4 migrations are under way", "since": since},
        }));
        one.metadata.name = Some(format!("m{number}"));
        one
    });
    let page = page(&overview(all.chain([completed()]).collect()));
    let (_, told) = page.split_once("## Migrations\n\n").unwrap();
    assert_eq!(told.matches("⏳ Pending |").count(), 7, "{told}");
    let (_, stories) = told.split_once("\n\n").unwrap();
    let (story, rest) = stories.split_once("### ✅").unwrap();
    assert_snapshot!(story, @"
    ### ⏳ 7 Migrations: Pending

    shop/m0, shop/m1, shop/m2, shop/m3, shop/m4, and 2 more.

    > ⏳ Waits since 2026-03-01 10:00:00 UTC (the first of them): a turn: 4 of 4 migrations are under way
    ");
    assert!(rest.contains("took 5.0 s"), "{rest}");
}

#[test]
fn what_waits_is_told_together_and_is_no_news() {
    let before = overview(Vec::new());
    let mut waiting = before.clone();
    let key = |name: &str| ObjectKey {
        group: "apps".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: Some("shop".to_owned()),
        name: name.to_owned(),
    };
    waiting.syncs[0].waiting.push(WaitOverview {
        objects: vec![key("web"), key("worker")],
        what: "Deployment shop/db: 1 of 3 replicas updated".to_owned(),
        since: "2026-03-01T10:00:00Z".parse().unwrap(),
        until: Some("2026-03-01T10:05:00Z".parse().unwrap()),
        overdue: false,
    });
    assert_eq!(urgency(&before, &waiting), Urgency::Moves);
    let text = page(&waiting);
    let told: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("fleet |") || line.contains('⏳'))
        .collect();
    assert_snapshot!(told.join("\n"), @"
    | fleet | `01234567` | 6 | 0 | 2 | 0 |
    - ⏳ Deployment shop/web and 1 more wait since 2026-03-01 10:00:00 UTC for Deployment shop/db: 1 of 3 replicas updated, until 2026-03-01 10:05:00 UTC.
    ");
    assert_snapshot!(shown(&View::of(&waiting)), @"
    2 objects waiting for a turn

    SYNC   REVISION  IN SYNC  HELD BACK  WAITING  PROBLEMS
    fleet  01234567  6        0          2        0
      Deployment shop/web and 1 more wait since 2026-03-01 10:00:00 UTC for Deployment shop/db: 1 of 3 replicas updated, until 2026-03-01 10:05:00 UTC

    no intents
    ");
}

#[test]
fn problems_of_the_desired_state_come_with_position_and_hint() {
    let mut overview = overview(Vec::new());
    overview.syncs[0].problems.push(Problem {
        message: "\"name\" is written twice | <b>".to_owned(),
        location: Some(Location {
            path: "apps/orders.yaml".to_owned(),
            line: 4,
            column: 3,
        }),
        hint: Some("remove one of them".to_owned()),
    });
    assert_snapshot!(page(&overview), @r#"
    # Status

    **1 problem in the desired state.**

    Desired state: revision `0123456789abcdef0123456789abcdef01234567`.

    ## Syncs

    | Sync | Revision | In sync | Held back | Waiting | Problems |
    |---|---|--:|--:|--:|--:|
    | fleet | `01234567` | 6 | 0 | 0 | 1 |

    - ❌ `apps/orders.yaml:4:3`: "name" is written twice \| &lt;b&gt;  
      *Hint:* remove one of them
    "#);
    assert_snapshot!(shown(&View::of(&overview)), @r#"
    1 problem in the desired state

    SYNC   REVISION  IN SYNC  HELD BACK  WAITING  PROBLEMS
    fleet  01234567  6        0          0        1
      "name" is written twice | <b>
      --> apps/orders.yaml:4:3
      hint: remove one of them

    no intents
    "#);
    assert_snapshot!(View::of(&overview).json().unwrap(), @r#"
    {
      "version": 1,
      "revision": "0123456789abcdef0123456789abcdef01234567",
      "syncs": [
        {
          "name": "fleet",
          "revision": "0123456789abcdef0123456789abcdef01234567",
          "inSync": 6,
          "problems": [
            {
              "message": "\"name\" is written twice | <b>",
              "path": "apps/orders.yaml",
              "line": 4,
              "column": 3,
              "hint": "remove one of them"
            }
          ]
        }
      ],
      "intents": []
    }
    "#);
}

#[test]
fn running_migrations_come_first_then_the_last_that_ended() {
    let mut running = migration(json!({"phase": "Hold"}));
    running.metadata.name = Some("z-running".to_owned());
    let mut older = completed();
    older.metadata.name = Some("a-older".to_owned());
    older.status.as_mut().unwrap().common.finished_at =
        Some("2026-02-01T10:00:00Z".parse::<Timestamp>().unwrap());
    let overview = overview(vec![older, completed(), running]);
    let names: Vec<&str> = by_urgency(&overview.migrations)
        .iter()
        .map(|migration| super::names(*migration).1)
        .collect();
    assert_eq!(names, ["z-running", "orders-to-west", "a-older"]);
}

#[test]
fn the_tree_holds_a_record_of_each_intent_that_can_be_read_again() {
    let files = status_tree(&overview(vec![completed()])).unwrap();
    let paths: Vec<&String> = files.keys().collect();
    assert_eq!(
        paths,
        [
            "STATUS.md",
            "intents/shop/migration-orders-to-west.yaml",
            "status.yaml"
        ]
    );
    let record: record::Record =
        serde_yaml::from_slice(&files["intents/shop/migration-orders-to-west.yaml"]).unwrap();
    assert!(record.ends(&completed().spec));
}

#[test]
fn a_commit_says_what_moved_since_the_last_one() {
    let before = overview(vec![migration(json!({"phase": "Verify", "attempt": 1}))]);
    let bytes = status_tree(&before).unwrap().remove(SNAPSHOT_FILE).unwrap();
    let text = commit_text(Some(&bytes), &overview(vec![completed()]));
    assert_eq!(text.subject, "shop/orders-to-west: Verify → Completed");
    assert_eq!(
        text.trailers,
        [
            (
                TrailerKey::Revision,
                "0123456789abcdef0123456789abcdef01234567".to_owned()
            ),
            (TrailerKey::Intent, "shop/orders-to-west".to_owned()),
            (TrailerKey::Phase, "Preflight".to_owned()),
            (TrailerKey::Phase, "Capture".to_owned()),
            (TrailerKey::Phase, "Handoff".to_owned()),
            (TrailerKey::Phase, "Completed".to_owned()),
        ]
    );

    let first = commit_text(None, &overview(Vec::new()));
    assert_eq!(first.subject, "sync: 6 objects at 01234567");
    let unreadable = commit_text(Some(b"{"), &overview(Vec::new()));
    assert_eq!(unreadable, first);
}

#[test]
fn a_commit_names_every_phase_that_has_passed_since_the_last_one() {
    let steps = |names: &[&str]| -> Vec<serde_json::Value> {
        let step = |(second, name): (usize, &&str)| json!({"name": name, "startedAt": format!("2026-03-01T10:00:0{second}Z"), "evidence": []});
        names.iter().enumerate().map(step).collect()
    };
    let at = |phase: &str, names: &[&str]| {
        overview(vec![migration(
            json!({"phase": phase, "attempt": 1, "steps": steps(names)}),
        )])
    };
    let phases = |before: &Overview, after: &Overview| -> Vec<String> {
        let bytes = status_tree(before).unwrap().remove(SNAPSHOT_FILE).unwrap();
        let trailers = commit_text(Some(&bytes), after).trailers;
        let of = |(key, value): (TrailerKey, String)| (key == TrailerKey::Phase).then_some(value);
        trailers.into_iter().filter_map(of).collect()
    };
    let hold = at("Hold", &["Pending", "Preflight", "Hold"]);
    let capture = at("Capture", &["Pending", "Preflight", "Hold", "Expand", "Capture"]);
    assert_eq!(phases(&hold, &capture), ["Expand", "Capture"]);
    assert_eq!(
        phases(&overview(Vec::new()), &hold),
        ["Pending", "Preflight", "Hold"]
    );
    assert_eq!(phases(&hold, &hold), [""; 0]);
}

#[test]
fn ends_failures_and_questions_are_told_at_once_and_the_rest_in_its_turn() {
    let before = overview(vec![migration(json!({"phase": "Verify", "attempt": 1}))]);
    let now = |status| urgency(&before, &overview(vec![migration(status)]));
    let waits = |code| {
        json!({"phase": "Verify", "attempt": 1,
            "waitingFor": {"code": code, "reason": "not yet", "since": "2026-03-01T10:00:01Z"}})
    };
    assert_eq!(now(waits("Evidence")), Urgency::Moves);
    assert_eq!(now(waits("Approval")), Urgency::Ended);
    assert_eq!(now(json!({"phase": "Cleanup", "attempt": 1})), Urgency::Moves);
    assert_eq!(now(json!({"phase": "RollingBack", "attempt": 1})), Urgency::Ended);
    assert_eq!(urgency(&before, &overview(vec![completed()])), Urgency::Ended);
    assert_eq!(
        urgency(&overview(vec![completed()]), &overview(vec![completed()])),
        Urgency::Moves
    );
    let mut broken = before.clone();
    broken.syncs[0].problems.push(Problem {
        message: "no".to_owned(),
        location: None,
        hint: None,
    });
    assert_eq!(urgency(&before, &broken), Urgency::Ended);
    assert_eq!(urgency(&broken, &before), Urgency::Ended);
}

#[test]
fn the_history_is_only_added_to() {
    let all = ended(&[completed(), migration(json!({"phase": "Verify", "attempt": 1}))]).unwrap();
    let [one] = all.as_slice() else { panic!("{all:?}") };
    assert_snapshot!(format!("{}: {}", one.path, one.line), @r#"
    history/2026-03.jsonl: {"version":1,"kind":"Migration","namespace":"shop","name":"orders-to-west","uid":"7b1c","attempt":1,"workload":"FlinkDeployment orders","from":"east","to":"west","phase":"Completed","startedAt":"2026-03-01T10:00:00Z","finishedAt":"2026-03-01T10:00:05Z","downtimeMs":1250}
    "#);
    let mut later = one.clone();
    later.id.1 += 1;
    later.line = later.line.replace("\"attempt\":1", "\"attempt\":2");
    let first = appended(None, &[one]).unwrap();
    assert_eq!(first, one.line.as_bytes());
    assert_eq!(appended(Some(&first), &[one]), None);
    let both = appended(Some(&first), &[one, &later]).unwrap();
    assert_eq!(both, [one.line.as_bytes(), later.line.as_bytes()].concat());
    // What somebody has broken stays, and breaks nothing.
    let broken = appended(Some(b"{ no line end"), &[one]).unwrap();
    assert_eq!(broken, [b"{ no line end\n", one.line.as_bytes()].concat());
}

#[test]
fn the_same_state_gives_the_same_bytes_in_any_order() {
    let mut other = completed();
    other.metadata.name = Some("another".to_owned());
    let one = overview(vec![completed(), other.clone()]);
    let two = overview(vec![other, completed()]);
    assert_eq!(status_tree(&one).unwrap(), status_tree(&two).unwrap());
}

#[test]
fn a_completed_migration_is_told_with_its_times() {
    let migration = completed();
    let lines: Vec<String> = migration_lines(&migration, NOW)
        .iter()
        .map(|line| anstream::adapter::strip_str(line).to_string())
        .collect();
    assert_snapshot!(lines.join("\n"), @"
    shop/orders-to-west  Migration  FlinkDeployment orders  east → west  Completed
      ✓ Preflight      50 ms  orders runs in east, observed
      ✓ Capture        1.4 s  stopped: suspended | no pods; savepoint s3://savepoints/sp_1
      ✓ Handoff        3.5 s
      downtime 1.2 s; took 5.0 s, until 2026-03-01 10:00:05 UTC
    ");
}

/// What a stranger reads of a migration in some state.
fn told(status: serde_json::Value) -> String {
    let view = View::of(&Overview {
        migrations: vec![migration(status)],
        ..Overview::default()
    });
    let one = view.only(|_, namespace, name| (namespace, name) == ("shop", "orders-to-west"));
    shown(&one)
}

/// What a person reads on a terminal of any width.
fn shown(view: &View) -> String {
    let layout = Layout {
        all: true,
        ..Layout::at(NOW)
    };
    anstream::adapter::strip_str(&view.dashboard().text(&layout)).to_string()
}

fn journal(more: serde_json::Value) -> serde_json::Value {
    let mut journal = json!({
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
        "binding": {"name": "orders-flinkdeployment", "uid": "b", "id": "i"},
        "fence": {"recorded": true},
    });
    for (field, value) in more.as_object().unwrap() {
        journal[field] = value.clone();
    }
    journal
}

/// Why one goes back, as its journal has it.
fn going_back(reason: &str) -> serde_json::Value {
    journal(json!({"rollBack": {
        "reason": reason, "fromPhase": "Verify", "since": "2026-03-01T10:00:02Z", "endsAs": "RolledBack",
        "restart": true, "stage": "Taken",
    }}))
}

#[test]
fn the_worst_is_said_first_and_all_is_well_only_when_nothing_else_is_to_be_said() {
    let down = migration(json!({
        "phase": "Handoff", "attempt": 1, "source": "east",
        "journal": journal(json!({"downSince": "2026-03-01T10:00:01Z"})),
    }));
    let waits = migration(json!({
        "phase": "Pending", "attempt": 1,
        "waitingFor": {"code": "Approval", "reason": "approval of Hold", "since": "2026-03-01T10:00:05Z"},
    }));
    let back = migration(json!({
        "phase": "RolledBack", "attempt": 1, "source": "east", "journal": going_back("west: not healthy"),
    }));
    let failed = migration(json!({"phase": "Failed", "attempt": 1}));
    let mut all = overview(vec![back.clone(), failed, waits.clone(), down]);
    all.syncs[0].problems.push(Problem {
        message: "no".to_owned(),
        location: None,
        hint: None,
    });
    let mut said = Vec::new();
    while !all.migrations.is_empty() {
        said.push(headline::headline(&all));
        all.migrations.pop();
    }
    said.push(headline::headline(&all));
    all.syncs[0].problems.clear();
    said.push(headline::headline(&all));
    all.migrations = vec![back, waits.clone(), waits];
    said.push(headline::headline(&all));
    assert_snapshot!(said.join("\n"), @"
    FlinkDeployment shop/orders has not been seen running since 2026-03-01 10:00:01 UTC; 1 intent waits for you; 1 intent failed; 1 intent rolled back; 1 problem in the desired state; 1 of 4 migrations running, 1 not begun
    Migration shop/orders-to-west waits for you: approval of Hold; 1 intent failed; 1 intent rolled back; 1 problem in the desired state; 1 of 3 migrations not begun
    Migration shop/orders-to-west failed; 1 intent rolled back; 1 problem in the desired state
    Migration shop/orders-to-west was rolled back: west: not healthy (in Verify); 1 problem in the desired state
    1 problem in the desired state
    All is well
    Migration shop/orders-to-west waits for you: approval of Hold, and 1 more like it; 1 intent rolled back; 2 of 3 migrations not begun
    ");
}

#[test]
fn beside_one_intent_or_sync_what_else_is_not_well_is_said_and_its_own_story_is_not() {
    let failed = migration(json!({"phase": "Failed", "attempt": 1}));
    let named = |name: &str, workload: &str, status: serde_json::Value| {
        let mut one = migration(status);
        one.metadata.name = Some(name.to_owned());
        one.spec.workload.name = workload.to_owned();
        one
    };
    let handoff = named("bills-to-west", "bills", json!({"phase": "Hold", "attempt": 1}));
    let mut all = overview(vec![failed, handoff]);
    all.syncs[0].problems.push(Problem {
        message: "no".to_owned(),
        location: None,
        hint: None,
    });
    all.unhealthy = vec![UnhealthyWorkload {
        workload: WorkloadKey::new("shop", "FlinkDeployment", "orders"),
        clusters: vec!["west".to_owned()],
    }];
    let anywhere = |_: Option<&str>| true;
    let besides = |subject: &str| {
        let besides = Headlines::of(&all).besides(subject, anywhere);
        besides.unwrap_or_default()
    };
    assert_snapshot!(
        ["Migration shop/orders-to-west", "Migration shop/bills-to-west", "Sync fleet"].map(besides).join("\n"), @"
    1 problem in the desired state
    Migration shop/orders-to-west failed; 1 workload unhealthy in a cluster; 1 problem in the desired state
    Migration shop/orders-to-west failed; 1 workload unhealthy in a cluster
    ");
    let well = overview(vec![completed()]);
    assert_eq!(
        Headlines::of(&well).besides("Migration shop/orders-to-west", anywhere),
        None
    );
}

#[test]
fn beside_something_only_what_is_in_the_namespaces_of_who_is_told_is_said() {
    let there = |namespace: &str, name: &str| {
        let mut one = migration(json!({"phase": "Failed", "attempt": 1}));
        one.metadata.namespace = Some(namespace.to_owned());
        one.metadata.name = Some(name.to_owned());
        one
    };
    let mut all = overview(vec![
        there("shop", "orders-to-west"),
        there("payments", "ledger-to-west"),
    ]);
    all.syncs[0].held_back.push(HeldObject {
        object: ObjectKey {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: Some("payments".to_owned()),
            name: "a".to_owned(),
        },
        by: "Migration payments/ledger-to-west".to_owned(),
    });
    all.unhealthy = vec![UnhealthyWorkload {
        workload: WorkloadKey::new("payments", "Deployment", "web"),
        clusters: vec!["west".to_owned()],
    }];
    let besides = |namespace: &'static str| {
        Headlines::of(&all).besides("Migration shop/bills-to-west", |one| one == Some(namespace))
    };
    assert_eq!(
        besides("shop").as_deref(),
        Some("Migration shop/orders-to-west failed")
    );
    assert_eq!(
        besides("payments").as_deref(),
        Some("Migration payments/ledger-to-west failed; 1 workload unhealthy in a cluster")
    );
    assert_eq!(besides("lab"), None);
    let of_no_namespace = Headlines::of(&all).besides("Migration shop/bills-to-west", |one| one.is_none());
    assert_eq!(of_no_namespace.as_deref(), Some("1 change held back"));
}

#[test]
fn all_is_well_only_where_it_is_known_how_workloads_are() {
    let unknown = Overview {
        has_unknown_health: true,
        ..overview(vec![completed()])
    };
    let text = "Which workloads are healthy is not known";
    assert_eq!(headline::headline(&unknown), text);
    let page = page(&unknown);
    assert!(page.contains(&format!("**{text}.**")), "{page}");
    // The status branch says so to who reads it without a control plane.
    let files = status_tree(&unknown).unwrap();
    let snapshot = files.get(SNAPSHOT_FILE).map(Vec::as_slice);
    let recorded = View::recorded(snapshot, Overview::default()).unwrap();
    let dashboard = recorded.dashboard();
    let said = anstream::adapter::strip_str(&dashboard.text(&Layout::at(NOW))).to_string();
    assert!(said.starts_with(&format!("{text}\n")), "{said}");
    assert!(!dashboard.is_well());
}

#[test]
fn what_is_still_to_be_deleted_is_said_after_what_waits_for_its_turn() {
    let mut all = overview(Vec::new());
    all.syncs[0].pruning = 2;
    all.syncs[0].held_back.push(HeldObject {
        object: ObjectKey {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "a".to_owned(),
        },
        by: "Migration shop/orders-to-west".to_owned(),
    });
    assert_eq!(
        headline::headline(&all),
        "1 change held back; 2 deletions pending"
    );
    let recorded = View::recorded(
        status_tree(&all).unwrap().get(SNAPSHOT_FILE).map(Vec::as_slice),
        Overview::default(),
    );
    assert!(shown(&recorded.unwrap()).starts_with("1 change held back; 2 deletions pending\n"));
}

#[test]
fn what_was_rolled_back_is_told_in_short_and_until_the_workload_has_moved() {
    let ended = |phase: &str, at: &str| {
        let mut status = json!({"phase": phase, "attempt": 1, "source": "east", "finishedAt": at});
        if phase == "RolledBack" {
            status["journal"] = going_back("west: not healthy; pod a: so it is; pod b: as well");
        }
        migration(status)
    };
    let back = ended("RolledBack", "2026-03-01T10:00:00Z");
    let said = |all: Vec<Migration>| headline::headline(&overview(all));
    assert_eq!(
        said(vec![back.clone(), ended("Completed", "2026-03-01T09:00:00Z")]),
        "Migration shop/orders-to-west was rolled back: west: not healthy"
    );
    assert_eq!(
        said(vec![back, ended("Completed", "2026-03-01T11:00:00Z")]),
        "All is well"
    );
}

#[test]
fn nothing_is_well_while_an_intent_of_any_kind_has_failed_or_was_rolled_back() {
    let meta = json!({"name": "web", "namespace": "shop"});
    let evidence = json!([step(
        "RollingBack",
        "01",
        Some("02"),
        &["the deadline has passed"]
    )]);
    let shift: ReplicaShift = serde_json::from_value(json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "ReplicaShift", "metadata": meta,
        "spec": {
            "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "from": {"cluster": "east"}, "to": "west", "replicas": "50%",
        },
        "status": {"phase": "RolledBack", "steps": evidence},
    }))
    .unwrap();
    let suspension: Suspension = serde_json::from_value(json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Suspension", "metadata": meta,
        "spec": {"target": {"policy": {"name": "web"}}, "reason": "audit"},
        "status": {"phase": "Failed", "findings": [{"code": "Gone", "message": "there is no such policy"}]},
    }))
    .unwrap();
    let drain = Many::read(&json!({
        "kind": "Evacuation", "metadata": {"name": "drain"}, "spec": {"cluster": "east"},
        "status": {"phase": "Moving", "progress": {"done": 0, "of": 2, "moving": 1, "failed": 1}},
    }));
    let mut all = Overview {
        shifts: vec![shift],
        ..overview(Vec::new())
    };
    let shifted = headline::headline(&all);
    all.suspensions = vec![suspension];
    let suspended = headline::headline(&all);
    let many = Overview {
        many: drain.into_iter().collect(),
        ..overview(Vec::new())
    };
    let moved = headline::headline(&many);
    assert_snapshot!([shifted, suspended, moved].join("\n"), @"
    ReplicaShift shop/web was rolled back: the deadline has passed
    Suspension shop/web failed: there is no such policy; 1 intent rolled back
    Evacuation drain could not move 1 workload
    ");
}

#[test]
fn the_page_has_the_last_warning_beside_what_an_intent_of_any_kind_waits_for() {
    let shift: ReplicaShift = serde_json::from_value(json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "ReplicaShift", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "from": {"cluster": "east"}, "to": "west", "replicas": "50%",
        },
        "status": {"phase": "Shifting", "waitingFor": {
            "reason": "west: 0 of 1 replicas are ready", "since": "2026-03-01T10:00:00Z",
            "lastWarning": "west: Pod web-1: Failed: no image",
        }},
    }))
    .unwrap();
    let page = page(&Overview {
        shifts: vec![shift],
        ..overview(Vec::new())
    });
    assert!(
        page.contains("west: 0 of 1 replicas are ready. Last warning: west: Pod web-1: Failed: no image\n"),
        "{page}"
    );
}

#[test]
fn nothing_is_well_while_a_workload_is_unhealthy_that_no_migration_moves() {
    let unhealthy = |kind: &str, name: &str| UnhealthyWorkload {
        workload: WorkloadKey::new("shop", kind, name),
        clusters: vec!["west".to_owned()],
    };
    let all = vec![
        unhealthy("Deployment", "web"),
        unhealthy("FlinkDeployment", "orders"),
    ];
    let handoff = migration(json!({"phase": "Handoff", "attempt": 1, "source": "east"}));
    let moving = page(&overview(vec![handoff]).with_unhealthy(all.clone()));
    assert!(
        moving.contains("**1 workload unhealthy in a cluster; 1 of 1 migration running.**")
            && moving.contains("## Unhealthy workloads\n\n- ❌ Deployment shop/web in west\n\n"),
        "{moving}"
    );
    let done = overview(vec![completed()]).with_unhealthy(all);
    assert_eq!(headline::headline(&done), "2 workloads unhealthy in a cluster");
    // The status branch says so to who reads it without a control plane.
    let files = status_tree(&done).unwrap();
    let recorded = View::recorded(files.get(SNAPSHOT_FILE).map(Vec::as_slice), Overview::default());
    let said = recorded.unwrap().dashboard().text(&Layout::at(NOW));
    let said = anstream::adapter::strip_str(&said).to_string();
    assert!(
        said.starts_with("2 workloads unhealthy in a cluster\n")
            && said.contains("not healthy: FlinkDeployment shop/orders in west\n"),
        "{said}"
    );
    assert_eq!(urgency(&overview(vec![completed()]), &done), Urgency::Moves);
}

#[test]
fn a_status_branch_that_is_behind_git_says_so_where_it_is_read() {
    let of = Overview {
        branch: Some("main".to_owned()),
        ..overview(vec![completed()])
    };
    let files = status_tree(&of).unwrap();
    let snapshot = files.get(SNAPSHOT_FILE).map(Vec::as_slice);
    let first = |head: Option<&str>| {
        let view = View::recorded(snapshot, Overview::default()).unwrap();
        assert_eq!(view.branch(), Some("main"));
        let head = head.map(|head| head.parse().unwrap());
        let said = view.with_head(head).dashboard().text(&Layout::at(NOW));
        let said = anstream::adapter::strip_str(&said).to_string();
        said.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(first(None), "All is well");
    assert_eq!(
        first(Some("0123456789abcdef0123456789abcdef01234567")),
        "All is well"
    );
    assert_eq!(
        first(Some("84c4a8a3abcdef0123456789abcdef0123456789")),
        "Behind Git: the status is of 01234567, main is at 84c4a8a3"
    );
}

#[test]
fn a_wait_says_for_what_since_when_until_when_what_then_and_what_to_do() {
    assert_snapshot!(told(json!({
        "phase": "Capture", "attempt": 2, "source": "east",
        "steps": [step("Capture", "01", None, &[])],
        "journal": journal(json!({"downSince": "2026-03-01T10:00:01Z"})),
        "waitingFor": {
            "code": "Approval", "reason": "approval of Handoff for attempt 2", "approval": "Handoff",
            "since": "2026-03-01T10:00:05Z", "until": "2026-03-01T10:15:01Z", "then": "roll back",
        },
    })), @"
    shop/orders-to-west  Migration  FlinkDeployment orders  east → west  attempt 2  Capture
      • Capture     1 min 4 s
      not seen running for 1 min 4 s: since 2026-03-01 10:00:01 UTC
      waits: approval of Handoff for attempt 2
        since 2026-03-01 10:00:05 UTC (1 min 0 s)
        ▱▱▱▱▱▱▱▱▱▱ 1 min 4 s of 15 min 0 s
      next: cutover approve shop/orders-to-west --phase Handoff
      else: in 13 min 56 s (2026-03-01 10:15:01 UTC): roll back
    ");
    assert_snapshot!(told(json!({
        "phase": "Verify", "attempt": 1, "source": "east",
        "waitingFor": {"code": "Pause", "reason": "paused by the spec", "since": "2026-03-01T10:00:05Z"},
    })), @"
    shop/orders-to-west  Migration  FlinkDeployment orders  east → west  Verify
      waits: paused by the spec
        since 2026-03-01 10:00:05 UTC (1 min 0 s)
      next: cutover resume shop/orders-to-west
    ");
}

#[test]
fn a_failed_check_says_what_to_mend() {
    assert_snapshot!(told(json!({
        "phase": "Failed", "attempt": 1, "source": "east",
        "startedAt": "2026-03-01T10:00:00Z", "finishedAt": "2026-03-01T10:00:01Z",
        "steps": [step("Preflight", "00", Some("01"), &["west is not Ready"])],
        "findings": [{"code": "TargetNotReady", "message": "west is not Ready", "hint": "choose another target"}],
    })), @"
    shop/orders-to-west  Migration  FlinkDeployment orders  east → west  Failed
      ✓ Preflight      1.0 s  west is not Ready
      took 1.0 s, until 2026-03-01 10:00:01 UTC
      TargetNotReady: west is not Ready
        hint: choose another target
      next: nothing was changed: fix the cause, then run cutover migrate again
    ");
}

#[test]
fn one_that_failed_and_has_lost_its_steps_does_not_say_that_nothing_was_changed() {
    let told = told(json!({"phase": "Failed", "attempt": 1, "source": "east"}));
    assert!(!told.contains("nothing was changed"), "{told}");
    assert!(told.contains("run cutover migrate again"), "{told}");
}

#[test]
fn a_roll_back_says_why_and_where_it_was_decided() {
    let back = json!({
        "reason": "SingleWriterLapse: the pin was edited or removed by another client", "fromPhase": "Verify",
        "since": "2026-03-01T10:00:10Z", "endsAs": "RolledBack", "restart": true, "stage": "Taken",
    });
    let mut status = json!({
        "phase": "RollingBack", "attempt": 1, "source": "east",
        "steps": [step("Verify", "05", Some("10"), &["SingleWriterLapse"]), step("RollingBack", "10", None, &[])],
        "journal": journal(json!({"rollBack": back, "downSince": "2026-03-01T10:00:01Z"})),
        "waitingFor": {
            "code": "Evidence", "reason": "west: cannot be reached", "offers": [{"fact": "Stopped", "cluster": "west"}],
            "since": "2026-03-01T10:00:12Z",
        },
    });
    assert_snapshot!(told(status.clone()), @"
    shop/orders-to-west  Migration  FlinkDeployment orders  east → west  RollingBack
      ✗ Verify         5.0 s  SingleWriterLapse
      • RollingBack   55.0 s
      rolled back: SingleWriterLapse: the pin was edited or removed by another client (in Verify)
      not seen running for 1 min 4 s: since 2026-03-01 10:00:01 UTC
      waits: west: cannot be reached
        since 2026-03-01 10:00:12 UTC (53.0 s)
      next: if you know or decide that this is true:
        cutover assume shop/orders-to-west stopped west
    ");
    status["phase"] = json!("RolledBack");
    status["waitingFor"] = json!(null);
    status["downtimeMs"] = json!(19_000);
    status["startedAt"] = json!("2026-03-01T10:00:00Z");
    status["finishedAt"] = json!("2026-03-01T10:00:21Z");
    status["steps"][1]["finishedAt"] = json!("2026-03-01T10:00:21Z");
    assert_snapshot!(told(status), @"
    shop/orders-to-west  Migration  FlinkDeployment orders  east → west  RolledBack
      ✗ Verify         5.0 s  SingleWriterLapse
      ✓ RollingBack   11.0 s
      rolled back: SingleWriterLapse: the pin was edited or removed by another client (in Verify)
      downtime 19.0 s; took 21.0 s, until 2026-03-01 10:00:21 UTC
      next: fix the cause, then run cutover migrate again
    ");
}

#[test]
fn the_status_branch_tells_the_same_as_what_was_observed() {
    let observed = overview(vec![completed()]);
    let files = status_tree(&observed).unwrap();
    let record = serde_yaml::from_slice(&files["intents/shop/migration-orders-to-west.yaml"]).unwrap();
    let recorded = View::recorded(
        Some(&files[SNAPSHOT_FILE]),
        Overview {
            migrations: vec![record],
            ..Overview::default()
        },
    )
    .unwrap();
    let live = View::of(&observed);
    assert_eq!(shown(&recorded), shown(&live));
    assert_eq!(recorded.json().unwrap(), live.json().unwrap());
    assert!(
        View::recorded(
            Some(b"version: 99\nsyncs: []\nintents: []\n"),
            Overview::default()
        )
        .is_err()
    );
}

#[test]
fn the_json_status_fits_its_schema_and_has_the_time_of_each_phase() {
    let view = View::of(&overview(vec![completed()]));
    let document: serde_json::Value = serde_json::from_str(&view.json().unwrap()).unwrap();
    let schema = schemars::schema_for!(Snapshot).to_value();
    let found = crate::schema::violations(&document, &schema);
    assert!(found.is_empty(), "{found:?}");
    let report = &document["intents"][0]["report"];
    assert_eq!(report["tookMs"], 5000);
    assert_eq!(report["downtimeMs"], 1250);
    assert_eq!(report["steps"][1]["tookMs"], 1450);
    assert_eq!(report["steps"][1]["evidence"][0], "stopped: suspended | no pods");
}

#[test]
fn an_evacuation_is_told_with_what_moves_and_what_stays() {
    let workload = |name: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name});
    let object = json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Evacuation", "metadata": {"name": "drain", "uid": "u"},
        "spec": {"cluster": "east"},
        "status": {
            "phase": "Moving", "attempt": 1, "clusters": ["east"],
            "progress": {"done": 1, "of": 2, "moving": 0, "failed": 1},
            "moves": [
                {"workload": workload("cart"), "from": "east", "to": "west", "means": "StartFirst", "state": "Moved"},
                {"workload": workload("web"), "from": "east", "to": "west", "means": "StartFirst", "state": "Failed", "note": "too late"},
            ],
            "stays": [{
                "workload": workload("stuck"), "cluster": "east", "runs": true,
                "why": {"code": "NoTarget", "message": "no cluster takes it", "hint": "make room"},
            }],
        },
    });
    let one = Many::read(&object).unwrap();
    let overview = Overview {
        many: vec![one],
        ..overview(Vec::new())
    };
    let files = status_tree(&overview).unwrap();
    assert!(
        files.contains_key("intents/_cluster/evacuation-drain.yaml"),
        "{files:?}"
    );
    let page = String::from_utf8(files[STATUS_FILE].clone()).unwrap();
    assert!(page.contains("1 of 2, 1 failed"), "{page}");
    assert!(
        page.contains("NoTarget: no cluster takes it (make room)"),
        "{page}"
    );
    let text = shown(&View::of(&overview));
    assert!(
        text.contains("drain  Evacuation  empties east, 1 of 2, 1 failed  Moving"),
        "{text}"
    );
    assert!(
        text.contains("✗ Deployment shop/web from east to west: too late"),
        "{text}"
    );
    let recorded = View::recorded(
        Some(&files[SNAPSHOT_FILE]),
        Overview {
            many: overview.many.clone(),
            ..Overview::default()
        },
    );
    assert_eq!(shown(&recorded.unwrap()), shown(&View::of(&overview)));
}

#[test]
fn commits_are_links_where_it_is_known_where_people_see_them() {
    let mut one = completed();
    let revision = "89abcdef0123456789abcdef0123456789abcdef";
    if let Some(status) = &mut one.status {
        status.common.revision = Some(revision.to_owned());
    }
    let mut shown = overview(vec![one]);
    assert!(!page(&shown).contains("/commit/"));
    shown.web = Web::new(Host::GitHub, "https://github.com/shop/fleet");
    let page = page(&shown);
    let desired = "0123456789abcdef0123456789abcdef01234567";
    let link =
        |revision: &str, text: &str| format!("[`{text}`](https://github.com/shop/fleet/commit/{revision})");
    assert!(
        page.contains(&format!("Desired state: revision {}.", link(desired, desired))),
        "{page}"
    );
    assert!(
        page.contains(&format!("| fleet | {} |", link(desired, "01234567"))),
        "{page}"
    );
    assert!(
        page.contains(&format!(", begun at {}", link(revision, "89abcdef"))),
        "{page}"
    );
}

#[test]
fn nobody_elses_text_has_a_style_in_what_status_prints() {
    let forged = "\u{1b}[1m\u{1b}[32mCompleted\u{1b}[0m\nsync/other \u{202e}";
    let mut observed = overview(vec![migration(json!({
        "phase": "RolledBack", "attempt": 1, "source": "east",
        "steps": [step("Preflight", "00", None, &[forged])],
        "waitingFor": {"reason": forged, "since": "2026-03-01T10:00:00Z"},
        "findings": [{"code": "X", "message": forged}],
    }))]);
    observed.syncs[0].problems = vec![Problem {
        message: forged.to_owned(),
        location: None,
        hint: Some(forged.to_owned()),
    }];
    let honest = overview(vec![migration(
        json!({"phase": "RolledBack", "attempt": 1, "source": "east"}),
    )]);
    let text = |overview: &Overview| {
        let layout = Layout {
            all: true,
            verbose: true,
            ..Layout::at(NOW)
        };
        View::of(overview).dashboard().text(&layout)
    };
    let styles = |overview: &Overview| text(overview).matches("\u{1b}[32m").count();
    assert_eq!(styles(&observed), styles(&honest));
    let text = text(&observed);
    assert!(text.contains("\\u{1b}[32mCompleted"), "{text}");
    assert!(
        !text.contains('\u{202e}') && !text.lines().any(|line| line.starts_with("sync/other")),
        "{text}"
    );
}
