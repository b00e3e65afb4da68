//! The events, one after the other: what is done to the sandbox, and how a migration takes it.

use std::time::Duration;

use cutover::sandbox::api::{DeleteOptions, ListOptions, Patch, Resource, WriteOptions};
use cutover::sandbox::member::Simulators;
use serde_json::{Value, json};

use cutover::sandbox::WorldOptions;
use cutover::sandbox::karmada::Features;
use cutover::sandbox::member::Timings;

use super::Ending::{
    Asks, Back, BackAsItWas, Dissolved, Elsewhere, HarmedAndAsks, HarmedAndAsksOrBack, HarmedAndBack,
    HarmedAndMoved, HarmedAndRefused, Moved, MovedOrBack, Refused,
};
use super::{Ending, Event, INTENT};
use crate::support::fleet::{BINDINGS, Fleet, JOBS, MIGRATIONS, PINS, POLICIES, job, policy};

const BINDING: &str = "orders-flinkdeployment";
const NAMESPACES: Resource = Resource::new("", "namespaces");
const WORKS: Resource = Resource::new("work.karmada.io", "works");
const CLUSTERS: Resource = Resource::new("cluster.karmada.io", "clusters");

/// Karmada deletes the binding first, and what the belt keeps stays.
const KEPT: [Ending; 7] = [
    Dissolved,
    Asks(LEFT),
    Asks(LEFT),
    Asks(LEFT),
    Asks(LEFT),
    Asks(LEFT),
    Asks(LEFT),
];
const LEFT: &str = "a person must delete it in";
const GONE: &str = "the binding was deleted, no copy of the workload is left in east";
const FORKED: &str = "both copies have written";
const POLICY: &str = "west to be kept";
const ANEW: &str = "spec.assume: From in west";
const LOST: &str = "no state handle was taken";
const TAINTED: &str = "has the taint maintenance:NoExecute";
const REPLACED: &str = "another cluster has joined as west";
const RESTORED: &str = "restored from an older state";

const OPERATORS: [&str; 2] = ["operators/east", "operators/west"];

pub const TEMPLATE_DELETED: Event = Event {
    what: "the template is deleted",
    strike: |fleet| delete(fleet, &JOBS, "orders"),
    endings: KEPT,
    ..Event::NONE
};

pub const TEMPLATE_EDITED: Event = Event {
    what: "the template is edited by hand",
    strike: |fleet| fleet.apply(&JOBS, job("orders:1.1")),
    endings: [Moved, Moved, Back, Back, Back, Moved, Back],
    ..Event::NONE
};

pub const NAMESPACE_DELETED: Event = Event {
    what: "the namespace is deleted",
    strike: |fleet| {
        let server = fleet.world.control_plane();
        server
            .delete(&NAMESPACES, None, "shop", &DeleteOptions::default())
            .unwrap();
    },
    endings: KEPT,
    ..Event::NONE
};

pub const INTENT_DELETED: Event = Event {
    what: "the intent is deleted",
    strike: |fleet| delete(fleet, &MIGRATIONS, INTENT),
    endings: [Back, Back, Back, Back, Back, Moved, Back],
    ..Event::NONE
};

pub const INTENT_AND_TEMPLATE_DELETED: Event = Event {
    what: "intent and template are deleted together",
    strike: |fleet| {
        delete(fleet, &MIGRATIONS, INTENT);
        delete(fleet, &JOBS, "orders");
    },
    endings: KEPT,
    ..Event::NONE
};

pub const INTENT_POINTED_ELSEWHERE: Event = Event {
    what: "the intent is edited to be about another workload and target",
    strike: |fleet| {
        let other = json!({"spec": {"workload": {"name": "invoices"}, "to": "north"}});
        fleet.patch(&MIGRATIONS, INTENT, other);
    },
    then: Some((Duration::from_millis(200), |fleet| {
        let as_it_was = json!({"spec": {"workload": {"name": "orders"}, "to": "west"}});
        fleet.patch(&MIGRATIONS, INTENT, as_it_was);
    })),
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const POLICY_DELETED: Event = Event {
    what: "the policy is deleted",
    strike: |fleet| delete(fleet, &POLICIES, "orders"),
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const POLICY_WITHOUT_TARGET: Event = Event {
    what: "the policy is edited and holds the source alone",
    strike: |fleet| {
        let mut policy = policy();
        policy["spec"]["placement"]["clusterAffinity"]["clusterNames"] = json!(["east"]);
        fleet.apply(&POLICIES, policy);
    },
    endings: [
        Asks(POLICY),
        Asks(POLICY),
        Asks(POLICY),
        Asks(POLICY),
        Asks(POLICY),
        Asks(POLICY),
        Back,
    ],
    ..Event::NONE
};

pub const BINDING_DELETED: Event = Event {
    what: "the binding is deleted",
    strike: |fleet| delete(fleet, &BINDINGS, BINDING),
    endings: [HarmedAndAsks(GONE), Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const BINDING_MOVED: Event = Event {
    what: "the binding's clusters are set to a third one",
    strike: |fleet| {
        let clusters = json!({"spec": {"clusters": [{"name": "north"}]}});
        fleet.patch(&BINDINGS, BINDING, clusters);
    },
    endings: [Elsewhere("north"), Back, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const SOURCE_DROPPED: Event = Event {
    what: "scheduling is resumed by hand, and the scheduler drops the source",
    strike: |fleet| {
        let dropped = json!({"suspension": null, "clusters": [{"name": "west", "replicas": 1}]});
        fleet.patch(&BINDINGS, BINDING, json!({"spec": dropped}));
    },
    endings: [Elsewhere("west"), Back, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const BINDING_EMPTIED: Event = Event {
    what: "the binding's clusters are taken away",
    strike: |fleet| fleet.patch(&BINDINGS, BINDING, json!({"spec": {"clusters": null}})),
    endings: [Elsewhere("east"), Back, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const SCHEDULING_RESUMED: Event = Event {
    what: "another client resumes scheduling",
    strike: |fleet| fleet.patch(&BINDINGS, BINDING, json!({"spec": {"suspension": null}})),
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const PIN_DELETED: Event = Event {
    what: "the pin is deleted, finalizer and protection too",
    strike: |fleet| {
        let Some(name) = pin(fleet) else { return };
        let bare = json!({"metadata": {"finalizers": null, "labels": null}});
        fleet.patch(&PINS, &name, bare);
        delete(fleet, &PINS, &name);
    },
    endings: [
        Moved,
        Moved,
        HarmedAndBack,
        HarmedAndAsksOrBack(FORKED),
        HarmedAndAsksOrBack(FORKED),
        HarmedAndMoved,
        HarmedAndAsksOrBack(FORKED),
    ],
    ..Event::NONE
};

pub const PIN_EDITED: Event = Event {
    what: "the pin is edited and holds no cluster",
    strike: |fleet| {
        let Some(name) = pin(fleet) else { return };
        fleet.patch(&PINS, &name, json!({"spec": {"overrideRules": []}}));
    },
    endings: [
        Moved,
        Moved,
        HarmedAndBack,
        HarmedAndAsksOrBack(FORKED),
        HarmedAndAsksOrBack(FORKED),
        HarmedAndMoved,
        HarmedAndAsksOrBack(FORKED),
    ],
    ..Event::NONE
};

pub const WORKS_DELETED: Event = Event {
    what: "its Works are deleted",
    strike: |fleet| {
        let server = fleet.world.control_plane();
        for namespace in ["karmada-es-east", "karmada-es-west"] {
            let all = server
                .list(&WORKS, Some(namespace), &ListOptions::default())
                .unwrap();
            for work in all.items {
                let name = work["metadata"]["name"].as_str().unwrap();
                if name.starts_with("orders") {
                    server
                        .delete(&WORKS, Some(namespace), name, &DeleteOptions::default())
                        .unwrap();
                }
            }
        }
    },
    endings: [Elsewhere("east"), Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const SOURCE_COPY_DELETED: Event = Event {
    what: "the source's copy is deleted in its cluster",
    strike: |fleet| delete_copy(fleet, "east"),
    endings: [
        Elsewhere("east"),
        Elsewhere("east"),
        HarmedAndAsks(LOST),
        Moved,
        Moved,
        Moved,
        Back,
    ],
    ..Event::NONE
};

pub const TARGET_COPY_DELETED: Event = Event {
    what: "the target's copy is deleted in its cluster",
    strike: |fleet| delete_copy(fleet, "west"),
    endings: [Moved, Moved, Moved, Moved, Asks(ANEW), Asks(ANEW), Back],
    ..Event::NONE
};

pub const HELD_COPIES_SET_RUNNING: Event = Event {
    what: "held copies are set running in their clusters",
    strike: |fleet| {
        for cluster in ["east", "west"] {
            let writer = WriteOptions::manager("somebody");
            let running = Patch::Merge(json!({"spec": {"job": {"state": "running"}}}));
            let api = &fleet.world.member(cluster).api;
            let _ = api.patch(&JOBS, Some("shop"), "orders", None, &running, &writer);
        }
    },
    endings: [Moved, Moved, HarmedAndBack, HarmedAndBack, Moved, Moved, Back],
    ..Event::NONE
};

pub const SOURCE_AWAY_FOR_A_WHILE: Event = Event {
    what: "the source can't be reached for a minute",
    strike: |fleet| _ = fleet.world.faults().partition("east"),
    then: Some((Duration::from_mins(1), |fleet| {
        _ = fleet.world.faults().heal("east");
    })),
    endings: [Moved, Moved, Moved, Back, Moved, Moved, Back],
    ..Event::NONE
};

pub const TARGET_AWAY_FOR_A_WHILE: Event = Event {
    what: "the target can't be reached for half a minute",
    strike: |fleet| _ = fleet.world.faults().partition("west"),
    then: Some((Duration::from_secs(30), |fleet| {
        _ = fleet.world.faults().heal("west");
    })),
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const SOURCE_AWAY_FOR_GOOD: Event = Event {
    what: "the source is lost for good",
    strike: |fleet| _ = fleet.world.faults().partition("east"),
    endings: [
        Back,
        Back,
        Asks("east"),
        Asks("east"),
        Asks("east"),
        Asks("east"),
        Asks("east"),
    ],
    ..Event::NONE
};

pub const TARGET_AWAY_FOR_GOOD: Event = Event {
    what: "the target is lost for good",
    strike: |fleet| _ = fleet.world.faults().partition("west"),
    endings: [Asks("west"); 7],
    ..Event::NONE
};

pub const SOURCE_TAINTED: Event = Event {
    what: "the source gets a NoExecute taint, and Karmada evicts for it",
    world: with_taint_manager,
    strike: |fleet| taint(fleet, "east"),
    endings: [
        Elsewhere("north"),
        Moved,
        Moved,
        Moved,
        Moved,
        Moved,
        Asks(TAINTED),
    ],
    ..Event::NONE
};

pub const OPERATORS_CRASHED: Event = Event {
    what: "the operators of both clusters crash, and come back after half a minute",
    strike: |fleet| {
        everywhere(fleet, |member| {
            member.simulators(Simulators::crash);
        });
    },
    then: Some((Duration::from_secs(30), |fleet| {
        everywhere(fleet, |member| {
            member.simulators(Simulators::restart);
        });
    })),
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const OPERATORS_FROZEN: Event = Event {
    what: "the operators of both clusters stand still for half a minute",
    strike: |fleet| everywhere(fleet, |member| member.simulators(|operators| operators.freeze())),
    then: Some((Duration::from_secs(30), |fleet| {
        everywhere(fleet, |member| member.simulators(|operators| operators.thaw()));
    })),
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const CONTROLLER_MANAGER_REPLACED: Event = Event {
    what: "Karmada's controller-manager is replaced",
    strike: |fleet| _ = fleet.world.faults().restart("karmada-controller-manager"),
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const SCHEDULER_REPLACED: Event = Event {
    what: "Karmada's scheduler is replaced",
    strike: |fleet| _ = fleet.world.faults().restart("karmada-scheduler"),
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const OPERATORS_BEHIND: Event = Event {
    what: "the operators of both clusters see what was ten seconds ago, for half a minute",
    strike: |fleet| {
        for operators in OPERATORS {
            fleet.world.faults().lag(operators, Duration::from_secs(10));
        }
    },
    then: Some((Duration::from_secs(30), |fleet| {
        for operators in OPERATORS {
            fleet.world.faults().lag(operators, Duration::ZERO);
        }
    })),
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const OPERATORS_SLOW: Event = Event {
    what: "everything takes as long as in a plain installation of Flink",
    world: || WorldOptions {
        timings: Timings::installed(),
        ..WorldOptions::default()
    },
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const SOURCE_EVICTED_DIRECTLY: Event = Event {
    what: "application failover evicts the source's copy (Directly)",
    strike: |fleet| evict(fleet, "east", "Directly"),
    endings: [Elsewhere("north"), Back, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const SOURCE_EVICTED_GRACEFULLY: Event = Event {
    what: "application failover evicts the source's copy (Gracefully)",
    strike: |fleet| evict(fleet, "east", "Gracefully"),
    endings: [Elsewhere("north"), Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const SOURCE_EVICTED_NEVER: Event = Event {
    what: "application failover evicts the source's copy (Never)",
    strike: |fleet| evict(fleet, "east", "Never"),
    endings: [Elsewhere("north"), Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const TARGET_EVICTED_DIRECTLY: Event = Event {
    what: "the taint manager evicts the target's copy (Directly)",
    strike: |fleet| evict(fleet, "west", "Directly"),
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const TARGET_EVICTED_GRACEFULLY: Event = Event {
    what: "the taint manager evicts the target's copy (Gracefully)",
    strike: |fleet| evict(fleet, "west", "Gracefully"),
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const TARGET_EVICTED_NEVER: Event = Event {
    what: "application failover evicts the target's copy (Never)",
    strike: |fleet| evict(fleet, "west", "Never"),
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const TARGET_TAINTED: Event = Event {
    what: "the target gets a NoExecute taint, and Karmada evicts for it",
    world: with_taint_manager,
    strike: |fleet| taint(fleet, "west"),
    endings: [
        Back,
        Back,
        Asks(TAINTED),
        Asks(TAINTED),
        Asks(TAINTED),
        Asks(TAINTED),
        Back,
    ],
    ..Event::NONE
};

pub const SOURCE_REJOINED_EMPTY: Event = Event {
    what: "the source is lost, and an empty cluster joins under its name",
    strike: |fleet| fleet.world.rejoin("east", None),
    endings: [
        Elsewhere("east"),
        HarmedAndAsks(LOST),
        HarmedAndAsks(LOST),
        Moved,
        Moved,
        Moved,
        Back,
    ],
    ..Event::NONE
};

pub const SOURCE_REJOINED_FROM_A_BACKUP: Event = Event {
    what: "the source is lost, and a cluster made from its backup joins under its name",
    first: |fleet| fleet.save("east", "backup"),
    strike: |fleet| {
        let backup = fleet.snapshot("east", "backup");
        fleet.world.rejoin("east", Some(&backup));
    },
    endings: [
        Elsewhere("north"),
        HarmedAndAsks(LOST),
        HarmedAndAsks(LOST),
        Back,
        Back,
        Moved,
        Back,
    ],
    ..Event::NONE
};

pub const TARGET_REJOINED_EMPTY: Event = Event {
    what: "the target is lost, and an empty cluster joins under its name",
    strike: |fleet| fleet.world.rejoin("west", None),
    endings: [
        Moved,
        Moved,
        Moved,
        Asks(REPLACED),
        Asks(REPLACED),
        Asks(ANEW),
        Asks(REPLACED),
    ],
    ..Event::NONE
};

pub const API_SERVER_RESTORED_TO_HOLD: Event = Event {
    what: "the API server is restored from a snapshot taken at Hold",
    first: |fleet| fleet.save("karmada", "Hold"),
    strike: |fleet| fleet.restore("karmada", "Hold"),
    endings: [
        Moved,
        Moved,
        Moved,
        HarmedAndAsks(RESTORED),
        HarmedAndAsks(RESTORED),
        HarmedAndAsks(RESTORED),
        HarmedAndAsks(RESTORED),
    ],
    ..Event::NONE
};

pub const API_SERVER_RESTORED_TO_A_MOMENT_AGO: Event = Event {
    what: "the API server is restored from a snapshot of a second ago",
    strike: |fleet| fleet.save("karmada", "then"),
    then: Some((Duration::from_secs(1), |fleet| fleet.restore("karmada", "then"))),
    endings: [
        Asks(RESTORED),
        Asks(RESTORED),
        MovedOrBack,
        Back,
        Moved,
        Moved,
        Back,
    ],
    ..Event::NONE
};

pub const CONTROL_PLANE_REBUILT: Event = Event {
    what: "the control plane is lost and recreated from Git, the intent included",
    strike: |fleet| {
        fleet.restore("karmada", "blank");
        fleet.apply_git();
        fleet.migrate(INTENT, "west");
    },
    endings: [
        Moved,
        Moved,
        Refused("CutShort"),
        Refused("CutShort"),
        HarmedAndRefused("CutShort"),
        HarmedAndRefused("CutShort"),
        HarmedAndRefused("CutShort"),
    ],
    ..Event::NONE
};

pub const JOB_SILENT_FOR_A_WHILE: Event = Event {
    what: "no savepoint can be taken for a minute: the job of the source does not answer",
    strike: |fleet| job_answers(fleet, false),
    then: Some((Duration::from_mins(1), |fleet| job_answers(fleet, true))),
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const JOB_MANAGER_RESTARTED: Event = Event {
    what: "the JobManager of the copy that runs is restarted; without high availability it begins again from what was deployed",
    strike: |fleet| {
        let key = ("shop".to_owned(), "orders".to_owned());
        everywhere(fleet, |member| {
            member.simulators(|simulators| simulators.jobs().restart_job_manager(&key));
        });
    },
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const SAVEPOINT_FALLS_BACK: Event = Event {
    what: "the job of the source does not answer, and its operator falls back to the last checkpoint",
    before: |fleet| {
        let mut job = job("orders:1.0");
        let configuration = &mut job["spec"]["flinkConfiguration"];
        configuration["high-availability.type"] = json!("kubernetes");
        configuration["high-availability.storageDir"] = json!("s3://orders/ha");
        configuration["state.checkpoints.dir"] = json!("s3://orders/checkpoints");
        configuration["state.savepoints.dir"] = json!("s3://orders/savepoints");
        fleet.apply(&JOBS, job);
    },
    strike: |fleet| job_answers(fleet, false),
    endings: [BackAsItWas, BackAsItWas, Back, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const POLICY_PREEMPTED: Event = Event {
    what: "a policy of higher priority takes the workload",
    world: || WorldOptions {
        features: Features {
            policy_preemption: true,
            ..Features::default()
        },
        ..WorldOptions::default()
    },
    strike: |fleet| {
        let mut other = policy();
        other["metadata"]["name"] = json!("orders-first");
        other["spec"]["priority"] = json!(10);
        other["spec"]["preemption"] = json!("Always");
        fleet.create(&POLICIES, Some("shop"), other);
    },
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const LEADER_REPLACED: Event = Event {
    what: "another replica of cutover takes over",
    strike: Fleet::replace_leader,
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
    ..Event::NONE
};

pub const SOURCE_AWAY_WHEN_CALLED_OFF: Event = Event {
    what: "it is called off while the source can't be reached, for two minutes",
    strike: |fleet| {
        fleet.world.faults().partition("east");
        fleet.patch(&MIGRATIONS, INTENT, json!({"spec": {"abort": true}}));
    },
    then: Some((Duration::from_mins(2), |fleet| {
        _ = fleet.world.faults().heal("east");
    })),
    endings: [Back, Back, Back, Back, Back, Moved, Back],
    ..Event::NONE
};

fn with_taint_manager() -> WorldOptions {
    WorldOptions {
        features: Features {
            no_execute_eviction: true,
            ..Features::default()
        },
        ..WorldOptions::default()
    }
}

fn taint(fleet: &Fleet, cluster: &str) {
    let taint = json!([{"key": "maintenance", "effect": "NoExecute"}]);
    let patch = Patch::Merge(json!({"spec": {"taints": taint}}));
    let server = fleet.world.control_plane();
    server
        .patch(
            &CLUSTERS,
            None,
            cluster,
            None,
            &patch,
            &WriteOptions::manager("somebody"),
        )
        .unwrap();
}

/// Does what Karmada's controllers do when they evict: out of the list, and a task. A cluster that isn't listed isn't evicted.
fn evict(fleet: &Fleet, cluster: &str, mode: &str) {
    let mut binding = fleet.binding();
    let clusters = binding["spec"]["clusters"].as_array_mut().unwrap();
    let before = clusters.len();
    clusters.retain(|listed| listed["name"] != cluster);
    if clusters.len() == before {
        return;
    }
    let mut task = json!({
        "fromCluster": cluster, "purgeMode": mode, "reason": "ApplicationFailure",
        "producer": "resource-binding-application-failover-controller",
        "preservedLabelState": {"job": "a1"}, "clustersBeforeFailover": [cluster],
    });
    match mode {
        "Gracefully" => task["gracePeriodSeconds"] = json!(600),
        "Never" => task["suppressDeletion"] = json!(true),
        _ => {}
    }
    let spec = json!({"clusters": binding["spec"]["clusters"], "gracefulEvictionTasks": [task]});
    fleet.patch(&BINDINGS, BINDING, json!({"spec": spec}));
}

fn job_answers(fleet: &Fleet, answers: bool) {
    let key = ("shop".to_owned(), "orders".to_owned());
    let east = fleet.world.member("east");
    east.simulators(|simulators| simulators.jobs().set_reachable(&key, answers));
}

fn delete(fleet: &Fleet, resource: &Resource, name: &str) {
    let server = fleet.world.control_plane();
    server
        .delete(resource, Some("shop"), name, &DeleteOptions::default())
        .unwrap();
}

/// A copy that isn't there can't be deleted.
fn delete_copy(fleet: &Fleet, cluster: &str) {
    let api = &fleet.world.member(cluster).api;
    let _ = api.delete(&JOBS, Some("shop"), "orders", &DeleteOptions::default());
}

fn pin(fleet: &Fleet) -> Option<String> {
    let server = fleet.world.control_plane();
    let all = server.list(&PINS, Some("shop"), &ListOptions::default()).unwrap();
    let first: Option<&Value> = all.items.first().map(|pin| &**pin);
    Some(first?["metadata"]["name"].as_str()?.to_owned())
}

fn everywhere(fleet: &Fleet, what: impl Fn(&cutover::sandbox::world::Member)) {
    for cluster in ["east", "west"] {
        what(fleet.world.member(cluster));
    }
}
