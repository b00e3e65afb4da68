use insta::assert_snapshot;
use jiff::Timestamp;
use serde_json::json;

use super::*;

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
        revision: Some(revision.clone()),
        syncs: vec![SyncOverview {
            name: "fleet".to_owned(),
            revision: Some(revision),
            in_sync: 6,
            ..SyncOverview::default()
        }],
        migrations,
    }
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

    FlinkDeployment orders from east to west; downtime 1.2 s.

    ```mermaid
    gantt
        dateFormat x
        axisFormat %S.%L
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
        axisFormat %S.%L
        section Steps
        Capture :active, 1772359201000, 1772359201001
    ```

    | Step | Began | Took | Evidence |
    |---|---|--:|---|
    | Capture | 2026-03-01 10:00:01 UTC |  |  |
    ");
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
    assert!(!is_news(&before, &waiting));
    let text = page(&waiting);
    let told: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("fleet |") || line.contains('⏳'))
        .collect();
    assert_snapshot!(told.join("\n"), @"
    | fleet | `01234567` | 6 | 0 | 2 | 0 |
    - ⏳ Deployment shop/web and 1 more wait since 2026-03-01 10:00:00 UTC for Deployment shop/db: 1 of 3 replicas updated, until 2026-03-01 10:05:00 UTC.
    ");
    assert_snapshot!(anstream::adapter::strip_str(&status_text(&waiting)).to_string(), @"
    fleet  01234567  in sync: 6, held back: 0, waiting: 2, problems: 0
      Deployment shop/web and 1 more wait since 2026-03-01 10:00:00 UTC for Deployment shop/db: 1 of 3 replicas updated
    no migrations
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
    assert_snapshot!(anstream::adapter::strip_str(&status_text(&overview)).to_string(), @r#"
    fleet  01234567  in sync: 6, held back: 0, waiting: 0, problems: 1
      "name" is written twice | <b>
      --> apps/orders.yaml:4:3
      hint: remove one of them
    no migrations
    "#);
    assert_snapshot!(status_json(&overview).unwrap(), @r#"
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
    older.status.as_mut().unwrap().finished_at = Some("2026-02-01T10:00:00Z".parse::<Timestamp>().unwrap());
    let overview = overview(vec![older, completed(), running]);
    let names: Vec<&str> = by_urgency(&overview)
        .iter()
        .map(|migration| super::names(migration).1)
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
            (TrailerKey::Phase, "Completed".to_owned()),
        ]
    );

    let first = commit_text(None, &overview(Vec::new()));
    assert_eq!(first.subject, "sync: 6 objects at 01234567");
    let unreadable = commit_text(Some(b"{"), &overview(Vec::new()));
    assert_eq!(unreadable, first);
}

#[test]
fn phases_and_problems_are_news_and_waits_are_not() {
    let before = overview(vec![migration(json!({"phase": "Verify", "attempt": 1}))]);
    let waits = migration(json!({
        "phase": "Verify", "attempt": 1,
        "waitingFor": {"reason": "not healthy yet", "since": "2026-03-01T10:00:01Z"},
    }));
    assert!(!is_news(&before, &overview(vec![waits])));
    assert!(is_news(&before, &overview(vec![completed()])));
    assert!(is_news(&before, &overview(Vec::new())));
    let mut broken = before.clone();
    broken.syncs[0].problems.push(Problem {
        message: "no".to_owned(),
        location: None,
        hint: None,
    });
    assert!(is_news(&before, &broken));
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
fn a_step_is_one_line() {
    let migration = completed();
    let lines: Vec<String> = migration_lines(&migration)
        .iter()
        .map(|line| anstream::adapter::strip_str(line).to_string())
        .collect();
    assert_snapshot!(lines.join("\n"), @"
    shop/orders-to-west  FlinkDeployment orders  east → west  Completed  downtime 1.2 s
      ✓ Preflight      50 ms  orders runs in east, observed
      ✓ Capture        1.4 s  stopped: suspended | no pods; savepoint s3://savepoints/sp_1
      ✓ Handoff        3.5 s
    ");
}
