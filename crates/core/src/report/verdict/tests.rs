use serde_json::{Value, json};

use super::*;
use crate::report::{HeldObject, Location, Many, Problem, WaitOverview};
use cutover_karmada::name::ObjectKey;

const REVISION: &str = "0123456789abcdef0123456789abcdef01234567";

fn web(name: &str) -> ObjectKey {
    ObjectKey {
        group: "apps".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: Some("shop".to_owned()),
        name: name.to_owned(),
    }
}

fn problem(message: &str, location: Option<Location>) -> Problem {
    Problem {
        message: message.to_owned(),
        location,
        hint: None,
    }
}

fn wait(objects: &[&str], overdue: bool) -> WaitOverview {
    WaitOverview {
        objects: objects.iter().map(|name| web(name)).collect(),
        what: "Deployment shop/db: 0 of 1 replicas updated".to_owned(),
        since: Timestamp::UNIX_EPOCH,
        until: None,
        overdue,
    }
}

/// Returns outcome and note of a sync's revision.
fn of(sync: SyncOverview) -> (Outcome, String) {
    let sync = SyncOverview {
        name: "fleet".to_owned(),
        revision: Some(REVISION.parse().unwrap()),
        ..sync
    };
    let verdict = of_sync(&sync).unwrap();
    assert_eq!(verdict.subject, "sync/fleet");
    (verdict.outcome, verdict.note)
}

fn typed<T: serde::de::DeserializeOwned>(object: Value) -> Vec<T> {
    vec![serde_json::from_value(object).unwrap()]
}

/// Returns what is said of an intent of any kind, with a status and what comes to it.
fn told(kind: &str, spec: Value, status: Value) -> Vec<Verdict> {
    let mut overview = Overview::default();
    let mut metadata = json!({"name": "it", "namespace": "shop", "uid": "u"});
    if ["Evacuation", "Rebalance"].contains(&kind) {
        metadata.as_object_mut().unwrap().remove("namespace");
    }
    let object = json!({"apiVersion": "cutover.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec, "status": status});
    match kind {
        "Migration" => overview.migrations = typed(object),
        "Rollout" => overview.rollouts = typed(object),
        "Suspension" => overview.suspensions = typed(object),
        "ReplicaShift" => overview.shifts = typed(object),
        _ => overview.many = vec![Many::read(&object).unwrap()],
    }
    verdicts(&overview)
}

fn move_to_west() -> Value {
    json!({
        "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
        "from": "east", "to": "west",
    })
}

#[test]
fn a_problem_outweighs_a_wait_and_a_wait_what_is_held_back() {
    let held = HeldObject {
        object: web("web"),
        by: "Rollout shop/web".to_owned(),
    };
    let mut sync = SyncOverview {
        held_back: vec![held.clone(), held],
        ..SyncOverview::default()
    };
    let said = "Rollout shop/web takes Deployment shop/web along (and 1 more)";
    assert_eq!(of(sync.clone()), (Outcome::Pending, said.to_owned()));
    sync.waiting = vec![wait(&["a", "b", "c"], false)];
    let said = "waits for its turn: Deployment shop/a (and 2 more)";
    assert_eq!(of(sync.clone()), (Outcome::Pending, said.to_owned()));
    let location = Location {
        path: "web.yaml".to_owned(),
        line: 4,
        column: 3,
    };
    sync.problems = vec![problem("no such field", Some(location)), problem("no", None)];
    let said = "web.yaml:4:3: no such field (and 1 more)";
    assert_eq!(of(sync), (Outcome::Failure, said.to_owned()));
}

#[test]
fn a_wait_that_is_overdue_is_the_problem_that_comes_with_it() {
    let sync = SyncOverview {
        waiting: vec![wait(&["a"], true)],
        problems: vec![problem("Deployment shop/a waits for too long", None)],
        ..SyncOverview::default()
    };
    let said = "Deployment shop/a waits for too long";
    assert_eq!(of(sync), (Outcome::Failure, said.to_owned()));
}

#[test]
fn a_sync_that_has_applied_nothing_yet_says_nothing() {
    assert_eq!(of_sync(&SyncOverview::default()), None);
    assert_eq!(
        of(SyncOverview::default()),
        (Outcome::Success, "in sync".to_owned())
    );
}

#[test]
fn a_note_is_one_line_without_credentials() {
    let told = "refused:\n  https://bot:hunter2@git.example.com/x\n\tsays no";
    let sync = SyncOverview {
        problems: vec![problem(told, None)],
        ..SyncOverview::default()
    };
    let (_, note) = of(sync);
    assert!(!note.contains("hunter2") && !note.contains('\n'), "{note}");
    assert!(
        note.starts_with("refused: https://") && note.ends_with("says no"),
        "{note}"
    );
}

#[test]
fn what_goes_on_is_not_judged_and_nor_is_what_nobody_committed() {
    for phase in ["Pending", "Handoff", "RollingBack"] {
        let status = json!({"phase": phase, "attempt": 1, "revision": REVISION});
        assert_eq!(told("Migration", move_to_west(), status), [], "{phase}");
    }
    let status = json!({"phase": "Completed", "attempt": 1, "source": "east"});
    assert_eq!(told("Migration", move_to_west(), status), []);
}

#[test]
fn a_migration_is_judged_by_its_end_at_the_commit_that_asked_for_it() {
    let status = json!({
        "phase": "Completed", "attempt": 1, "source": "east", "downtimeMs": 1250, "revision": REVISION,
        "finishedAt": "2026-03-01T10:00:05Z",
    });
    let all = told("Migration", move_to_west(), status);
    let [verdict] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!(verdict.revision.to_string(), REVISION);
    assert_eq!(verdict.subject, "Migration/shop/it");
    assert_eq!(
        (verdict.outcome, verdict.note.as_str()),
        (Outcome::Success, "east → west, downtime 1.2 s")
    );
    assert_eq!(verdict.file, "intents/shop/migration-it.yaml");
    assert_eq!(verdict.ended_at, Some("2026-03-01T10:00:05Z".parse().unwrap()));
    let finding =
        json!({"code": "NoCluster", "message": "no cluster atlantis is joined", "hint": "fix spec.to"});
    let status = json!({"phase": "Failed", "attempt": 1, "revision": REVISION, "findings": [finding]});
    let all = told("Migration", move_to_west(), status);
    assert_eq!(all[0].outcome, Outcome::Failure);
    assert_eq!(all[0].note, "Failed: no cluster atlantis is joined");
}

#[test]
fn other_kinds_are_judged_by_their_ends_too() {
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let step = json!({"name": "Rolling", "startedAt": "2026-03-01T10:00:00Z", "evidence": ["west: not healthy in time"]});
    let rollout = |phase: &str| json!({"phase": phase, "attempt": 1, "revision": REVISION, "steps": [step]});
    for (phase, outcome, note) in [
        ("Completed", Outcome::Success, "Completed"),
        ("Halted", Outcome::Failure, "Halted: west: not healthy in time"),
        ("Undone", Outcome::Failure, "Undone: west: not healthy in time"),
    ] {
        let all = told("Rollout", json!({"workload": web}), rollout(phase));
        assert_eq!((all[0].outcome, all[0].note.as_str()), (outcome, note));
        assert_eq!(all[0].subject, "Rollout/shop/it");
    }
    let all = told("Evacuation", json!({"cluster": "east"}), rollout("Aborted"));
    assert_eq!(all[0].outcome, Outcome::Failure);
    assert_eq!(all[0].subject, "Evacuation/it");
    assert_eq!(all[0].file, "intents/_cluster/evacuation-it.yaml");
}

#[test]
fn however_many_there_are_so_many_are_said_and_the_last_stands_for_the_others() {
    let verdict = |number: usize| Verdict {
        revision: REVISION.parse().unwrap(),
        subject: format!("sync/{number}"),
        outcome: if number == 40 {
            Outcome::Failure
        } else {
            Outcome::Success
        },
        note: "in sync".to_owned(),
        file: "STATUS.md".to_owned(),
        ended_at: None,
    };
    let of = |count: usize| at_most((0..count).map(verdict).collect(), 32);
    assert_eq!(of(32), (0..32).map(verdict).collect::<Vec<_>>());
    let (some, many) = (of(33), of(500));
    assert_eq!((some.len(), many.len()), (32, 32));
    assert_eq!(some[..31], many[..31], "what is said by name stays");
    assert_eq!(
        (some[31].outcome, many[31].outcome),
        (Outcome::Success, Outcome::Failure)
    );
    assert_eq!(
        many[31].note,
        "469 more: 1 to look at, 0 under way, first of all sync/40"
    );
}

#[test]
fn the_headline_is_said_of_the_revision_at_hand_and_its_state_is_that_of_its_worst() {
    let sync = |problems| SyncOverview {
        name: "fleet".to_owned(),
        revision: Some(REVISION.parse().unwrap()),
        problems,
        ..SyncOverview::default()
    };
    let overview = |sync: SyncOverview, status: Value| Overview {
        revision: sync.revision.clone(),
        syncs: vec![sync],
        migrations: typed(json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Migration", "metadata": {"name": "it", "namespace": "shop"},
            "spec": move_to_west(), "status": status,
        })),
        ..Overview::default()
    };
    let said = |overview: &Overview| {
        let headline = verdicts(overview).into_iter().find(Verdict::is_headline)?;
        Some((headline.outcome, headline.note))
    };
    let wait =
        |code: &str| json!({"code": code, "reason": "approval of Hold", "since": "2026-03-01T10:00:00Z"});
    let moving = json!({"phase": "Hold", "attempt": 1});
    let well = Some((Outcome::Success, "All is well".to_owned()));
    assert_eq!(
        said(&overview(sync(Vec::new()), moving.clone())),
        well,
        "that it moves is no news"
    );
    let waits = json!({"phase": "Pending", "attempt": 1, "waitingFor": wait("Approval")});
    let (outcome, note) = said(&overview(sync(Vec::new()), waits.clone())).unwrap();
    assert_eq!(outcome, Outcome::Pending, "a gate is as a person wants it");
    assert_eq!(note, "Migration shop/it waits for you: approval of Hold");
    let (outcome, note) = said(&overview(sync(vec![problem("no", None)]), waits)).unwrap();
    assert_eq!(outcome, Outcome::Failure);
    assert_eq!(
        note,
        "Migration shop/it waits for you: approval of Hold; 1 problem in the desired state"
    );
    let (outcome, note) = said(&overview(
        SyncOverview {
            pruning: 2,
            ..sync(Vec::new())
        },
        moving,
    ))
    .unwrap();
    assert_eq!(
        (outcome, note.as_str()),
        (Outcome::Pending, "2 deletions pending")
    );
}

#[test]
fn that_all_is_well_is_said_once_every_sync_has_come_to_the_revision() {
    let sync = |name: &str, revision: Option<&str>| SyncOverview {
        name: name.to_owned(),
        revision: revision.map(|revision| revision.parse().unwrap()),
        ..SyncOverview::default()
    };
    let is_said = |other: SyncOverview| {
        let overview = Overview {
            revision: Some(REVISION.parse().unwrap()),
            syncs: vec![sync("one", Some(REVISION)), other],
            ..Overview::default()
        };
        verdicts(&overview).iter().any(Verdict::is_headline)
    };
    let before = REVISION.replace('0', "9");
    assert!(!is_said(sync("two", None)));
    assert!(!is_said(sync("two", Some(before.as_str()))));
    assert!(is_said(sync("two", Some(REVISION))));
    let trouble = SyncOverview {
        problems: vec![problem("no", None)],
        ..sync("two", Some(before.as_str()))
    };
    assert!(is_said(trouble), "what is wrong is said at once");
    let unknown = Overview {
        has_unknown_intents: true,
        revision: Some(REVISION.parse().unwrap()),
        syncs: vec![sync("one", Some(REVISION))],
        ..Overview::default()
    };
    let all = verdicts(&unknown);
    let headline = all.iter().find(|verdict| verdict.is_headline()).unwrap();
    assert_eq!(headline.outcome, Outcome::Pending);
    assert_eq!(headline.note, "How some intents stand is not known");
    let unknown = Overview {
        has_unknown_intents: false,
        has_unknown_health: true,
        ..unknown
    };
    let all = verdicts(&unknown);
    let headline = all.iter().find(|verdict| verdict.is_headline()).unwrap();
    assert_eq!(headline.outcome, Outcome::Pending);
    assert_eq!(headline.note, "Which workloads are healthy is not known");
}
