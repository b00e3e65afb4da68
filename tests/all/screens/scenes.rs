//! Four scenes, as the control plane would have them.

use cutover::report::{Copies, Overview, Reconciler, View};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::now;

fn journal(more: &Value) -> Value {
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
        "binding": {"name": "orders-flinkdeployment", "uid": "b", "id": "b1"}, "fence": {"recorded": true},
    });
    for (field, value) in more.as_object().unwrap() {
        journal[field] = value.clone();
    }
    journal
}

/// A journal that says why, from Verify, it goes back.
fn going_back(reason: &str, since: &str) -> Value {
    journal(&json!({"rollBack": {
        "reason": reason, "fromPhase": "Verify", "since": format!("2026-03-01T{since}Z"), "endsAs": "RolledBack",
        "restart": true, "stage": "Returned",
    }}))
}

/// The state has been captured, east has stopped, and west starts from it.
pub fn during_a_move() -> View {
    let journal = journal(&json!({"downSince": "2026-03-01T10:00:58Z"}));
    let steps = json!([
        step(
            "Preflight",
            "10:00:40",
            Some("10:00:41"),
            &["runs in east alone, healthy"]
        ),
        step("Hold", "10:00:41", Some("10:00:42"), &["scheduling suspended"]),
        step(
            "Expand",
            "10:00:42",
            Some("10:00:44"),
            &["west: holds, never ran"]
        ),
        step(
            "Capture",
            "10:00:44",
            Some("10:01:01"),
            &[
                "east: suspended",
                "savepoint s3://shop-state/orders/savepoint-3ddaed"
            ]
        ),
        step("Handoff", "10:01:01", None, &[]),
    ]);
    let moving = migration(
        "orders-to-west",
        &json!({
            "phase": "Handoff", "attempt": 1, "source": "east", "steps": steps, "journal": journal,
            "waitingFor": {
                "reason": "west: the job is not running yet",
                "since": "2026-03-01T10:01:01Z", "until": "2026-03-01T10:11:01Z", "then": "roll back",
            },
        }),
    );
    let ended = migration(
        "carts-to-west",
        &json!({
            "phase": "Completed", "attempt": 1, "source": "east", "downtimeMs": 1250,
            "startedAt": "2026-03-01T09:50:00Z", "finishedAt": "2026-03-01T09:51:05Z",
        }),
    );
    let bindings = [
        binding(
            "FlinkDeployment",
            "orders",
            &[("east", "Unhealthy"), ("west", "Unhealthy")],
        ),
        running_since(
            "2026-03-01T09:51:00Z",
            binding("FlinkDeployment", "carts", &[("west", "Healthy")]),
        ),
        binding("Deployment", "web", &[("east", "Healthy"), ("west", "Healthy")]),
    ];
    let owner = json!({"kind": "Migration", "namespace": "shop", "name": "orders-to-west", "uid": "u"});
    let copies = Copies::of(&bindings, &[claim("orders", Some("west"), &owner)]);
    view(&[moving, ended])
        .with_copies(copies)
        .with_reconciler(reconciler(0))
}

/// The copy in west did not stay healthy, and the job runs in east again. Git still asks for west.
pub fn after_a_roll_back() -> View {
    let reason = "west: the copy was not healthy for 2 min: 3 restarts, the last one for OutOfMemoryError";
    let steps = json!([
        step("Handoff", "09:50:20", Some("09:50:40"), &["west: healthy"]),
        step("Verify", "09:50:40", Some("09:51:40"), &[reason]),
        step("RollingBack", "09:51:40", Some("09:52:05"), &["east: healthy"]),
    ]);
    let rolled_back = migration(
        "orders-to-west",
        &json!({
            "phase": "RolledBack", "attempt": 1, "source": "east", "steps": steps, "downtimeMs": 43_500,
            "journal": going_back(reason, "09:51:40"),
            "startedAt": "2026-03-01T09:50:00Z", "finishedAt": "2026-03-01T09:52:05Z",
        }),
    );
    let bindings = [
        running_since(
            "2026-03-01T09:51:58Z",
            binding("FlinkDeployment", "orders", &[("east", "Healthy")]),
        ),
        binding("Deployment", "web", &[("east", "Healthy"), ("west", "Healthy")]),
    ];
    view(&[rolled_back])
        .with_copies(Copies::of(&bindings, &[] as &[Value]))
        .with_reconciler(reconciler(1))
}

/// East is lost with a job that is guarded and one that was about to stop there; both ask a person.
#[expect(clippy::too_many_lines, reason = "one scene")]
pub fn outage() -> View {
    let plan = json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "FailoverPlan",
        "metadata": {"name": "orders", "namespace": "shop", "uid": "9c2d"},
        "spec": {
            "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
        },
        "status": {
            "phase": "Fencing", "attempt": 1,
            "asks": [{"gate": "Fenced", "cluster": "east", "attempt": 1}],
            "lastKnown": {
                "cluster": "east", "uid": "c1", "at": "2026-03-01T09:54:30Z", "recorded": true,
                "values": {"savepoint": "s3://shop-state/orders/savepoint-5e0b2f"},
            },
            "waitingFor": {
                "code": "Approval",
                "reason": "a person to say that the copy in east, which can't be looked into, does not write any more",
                "since": "2026-03-01T09:56:20Z",
            },
        },
    });
    let steps = json!([
        step(
            "Preflight",
            "09:54:50",
            Some("09:54:51"),
            &["runs in east alone, healthy"]
        ),
        step("Hold", "09:54:51", Some("09:54:52"), &["scheduling suspended"]),
        step(
            "Expand",
            "09:54:52",
            Some("09:54:54"),
            &["west: holds, never ran"]
        ),
        step("Capture", "09:54:54", None, &[]),
    ]);
    let moving = migration(
        "carts-to-west",
        &json!({
            "phase": "Capture", "attempt": 1, "source": "east", "steps": steps,
            "waitingFor": {
                "code": "Evidence", "reason": "east: cannot be reached", "since": "2026-03-01T09:55:10Z",
                "offers": [{"fact": "Stopped", "cluster": "east"}],
            },
        }),
    );
    let bindings = [
        binding(
            "FlinkDeployment",
            "orders",
            &[("east", "Healthy"), ("west", "Unhealthy")],
        ),
        binding("FlinkDeployment", "carts", &[("east", "Healthy")]),
        binding("Deployment", "web", &[("east", "Healthy"), ("west", "Healthy")]),
    ];
    let owner = json!({"kind": "FailoverPlan", "namespace": "shop", "name": "orders", "uid": "9c2d"});
    let cluster = |name: &str, ready: &str| {
        json!({
            "metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]},
        })
    };
    let copies = Copies::of(&bindings, &[claim("orders", None, &owner)])
        .in_clusters(&[cluster("east", "Unknown"), cluster("west", "True")]);
    view(&[plan, moving])
        .with_copies(copies)
        .with_reconciler(reconciler(0))
}

/// A window is waited for, turns are taken, one asks, one soaks, one is kept back, some have ended.
pub fn forty_intents() -> View {
    let mut all = waiting_intents();
    all.extend(ended_intents());
    let soaking = json!({
        "phase": "Verify", "attempt": 1, "source": "east",
        "steps": [step("Handoff", "10:00:30", Some("10:00:36"), &["west: healthy"]), step("Verify", "10:00:36", None, &[])],
        "waitingFor": {
            "reason": "west to stay healthy for 2 min without a break, as spec.verify says",
            "since": "2026-03-01T10:00:36Z", "until": "2026-03-01T10:02:36Z", "then": "go on",
        },
    });
    all.push(migration("orders-to-west", &soaking));
    all.push(json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Suspension",
        "metadata": {"name": "freeze", "namespace": "shop", "uid": "5f"},
        "spec": {"target": {"policy": {"name": "web"}}, "reason": "audit until Monday"},
        "status": {
            "phase": "Suspended", "attempt": 1, "since": "2026-03-01T09:00:00Z", "workloads": ["Deployment shop/web"],
        },
    }));
    assert_eq!(all.len(), 40);
    let mut bindings: Vec<Value> = (0..24)
        .map(|number| {
            let name = format!("job-{number:02}");
            binding("FlinkDeployment", &name, &[("east", "Healthy")])
        })
        .collect();
    bindings.extend([
        running_since(
            "2026-03-01T10:00:34Z",
            binding("FlinkDeployment", "orders", &[("west", "Healthy")]),
        ),
        binding("Deployment", "web", &[("east", "Healthy"), ("west", "Unhealthy")]),
    ]);
    view(&all)
        .with_copies(Copies::of(&bindings, &[] as &[Value]))
        .with_reconciler(reconciler(0))
}

/// 24 that wait for a turn, 6 for a time window, and one for a person.
fn waiting_intents() -> Vec<Value> {
    let waiting = |name: &str, phase: &str, wait: Value| {
        migration(
            name,
            &json!({"phase": phase, "attempt": 1, "source": "east", "waitingFor": wait}),
        )
    };
    let turns = (0..24).map(|number| {
        let wait = json!({
            "code": "Turn", "reason": "a turn: 2 of 2 migrations are under way",
            "since": format!("2026-03-01T10:00:{number:02}Z"),
        });
        waiting(&format!("batch-{number:02}"), "Pending", wait)
    });
    let windows = (0..6).map(|number| {
        let wait = json!({
            "code": "Turn", "reason": "the time window to open at 22:00 UTC, as spec.window says",
            "since": "2026-03-01T08:00:00Z", "until": "2026-03-01T22:00:00Z", "then": "begin",
        });
        waiting(&format!("night-{number}"), "Pending", wait)
    });
    let approval = json!({
        "code": "Approval", "approval": "Capture", "reason": "approval to begin Capture",
        "since": "2026-03-01T09:58:00Z", "until": "2026-03-01T10:58:00Z", "then": "roll back",
    });
    let asks = std::iter::once(waiting("payments-to-west", "Expand", approval));
    turns.chain(windows).chain(asks).collect()
}

/// 5 that have gone well, one that was rolled back, and one that failed.
fn ended_intents() -> Vec<Value> {
    let ended = |name: &str, phase: &str, minute: u32, more: Value| {
        let mut status = json!({
            "phase": phase, "attempt": 1, "source": "east",
            "startedAt": "2026-03-01T09:30:00Z", "finishedAt": format!("2026-03-01T09:{minute}:05Z"),
        });
        for (field, value) in more.as_object().unwrap() {
            status[field] = value.clone();
        }
        migration(name, &status)
    };
    let room = ["west has no room for it"];
    let failed = step("Preflight", "09:43:00", Some("09:43:05"), &room);
    let unhealthy = "west: the copy was not healthy for 2 min";
    let rolled_back = step("Verify", "09:40:00", Some("09:41:00"), &[unhealthy]);
    let mut all: Vec<Value> = ["search", "carts", "users", "mail", "images"]
        .into_iter()
        .zip(31..)
        .map(|(name, minute)| {
            let name = format!("{name}-to-west");
            ended(&name, "Completed", minute, json!({"downtimeMs": 1250}))
        })
        .collect();
    all.push(ended(
        "stock-to-west",
        "RolledBack",
        41,
        json!({"downtimeMs": 21_000, "steps": [rolled_back], "journal": going_back(unhealthy, "09:41:00")}),
    ));
    all.push(ended("reports-to-west", "Failed", 43, json!({"steps": [failed]})));
    all
}

pub fn migration(name: &str, status: &Value) -> Value {
    let workload = name.split_once("-to-").map_or(name, |(workload, _)| workload);
    json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Migration",
        "metadata": {"name": name, "namespace": "shop", "uid": "7b1c"},
        "spec": {
            "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": workload},
            "from": "east", "to": "west",
        },
        "status": status,
    })
}

fn step(name: &str, from: &str, until: Option<&str>, evidence: &[&str]) -> Value {
    let at = |time: &str| format!("2026-03-01T{time}Z");
    json!({"name": name, "startedAt": at(from), "finishedAt": until.map(at), "evidence": evidence})
}

/// A binding with what Karmada reports of the copies. Those of jobs say since when they run.
fn binding(kind: &str, name: &str, copies: &[(&str, &str)]) -> Value {
    let report = |(cluster, health): &(&str, &str)| {
        let status = match (kind, *health) {
            ("FlinkDeployment", "Healthy") => json!({"jobStatus": {"startTime": "1772358300000"}}),
            (_, "Healthy") => json!({}),
            ("Deployment", _) => json!({"conditions": [{
                "type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable",
                "message": "Deployment does not have minimum availability.",
            }]}),
            _ => json!({"jobStatus": {"state": "RECONCILING"}}),
        };
        json!({"clusterName": cluster, "applied": true, "health": health, "status": status})
    };
    let clusters = copies.iter().map(|(cluster, _)| json!({"name": cluster}));
    json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {
            "name": format!("{name}-{}", kind.to_lowercase()), "namespace": "shop",
            "labels": {"resourcebinding.karmada.io/permanent-id": name},
        },
        "spec": {
            "resource": {"apiVersion": "v1", "kind": kind, "namespace": "shop", "name": name},
            "clusters": clusters.collect::<Vec<_>>(),
        },
        "status": {"aggregatedStatus": copies.iter().map(report).collect::<Vec<_>>()},
    })
}

/// The same binding, whose jobs say that they run since then.
fn running_since(time: &str, mut binding: Value) -> Value {
    let time: Timestamp = time.parse().unwrap();
    for report in binding["status"]["aggregatedStatus"].as_array_mut().unwrap() {
        report["status"]["jobStatus"]["startTime"] = json!(time.as_millisecond().to_string());
    }
    binding
}

/// A claim that lets one cluster run a job, or none.
fn claim(workload: &str, writer: Option<&str>, owner: &Value) -> Value {
    json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Claim", "metadata": {"name": "c"},
        "spec": {
            "workload": format!("FlinkDeployment.flink.apache.org shop/{workload}"), "bindingId": workload,
            "attempt": 1, "seq": 1, "marker": "m", "owner": owner, "writer": writer, "clusters": ["east", "west"],
        },
    })
}

/// One that is at work, and whose only sync holds so many changes back.
fn reconciler(held_back: usize) -> Reconciler {
    let syncs = json!({"syncs": [{
        "name": "shop", "revision": "84c4a8a3abcdef0123456789abcdef0123456789", "since": "2026-03-01T09:49:00Z",
        "inSync": 128, "heldBack": held_back, "waiting": 0, "problems": 0,
    }]});
    let lease = json!({
        "metadata": {"annotations": {"cutover.dev/syncs": syncs.to_string()}},
        "spec": {
            "holderIdentity": "cutover-0_1", "leaseDurationSeconds": 15, "renewTime": "2026-03-01T10:01:00.000000Z",
        },
    });
    Reconciler::of(&lease, now())
}

fn view(intents: &[Value]) -> View {
    let of_kind = |kind: &str| -> Vec<Value> {
        let of_it = intents.iter().filter(|intent| intent["kind"] == kind);
        of_it.cloned().collect()
    };
    let unreadable = |kind: &str, object: &Value, error| panic!("{kind}: {error}: {object:#}");
    View::of(&Overview::of_intents(of_kind, unreadable))
}
