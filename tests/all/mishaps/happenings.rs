//! The events, one after the other: what is done to the sandbox, and how a migration takes it.

use std::time::Duration;

use cutover::sandbox::api::{DeleteOptions, ListOptions, Patch, Resource, WriteOptions};
use cutover::sandbox::member::Simulators;
use serde_json::{Value, json};

use super::Ending::{Asks, Back, Dissolved, Elsewhere, HarmedAndAsks, HarmedAndBack, HarmedAndMoved, Moved};
use super::{Event, INTENT};
use crate::support::fleet::{BINDINGS, Fleet, JOBS, MIGRATIONS, PINS, POLICIES, job, policy};

const BINDING: &str = "orders-flinkdeployment";
const NAMESPACES: Resource = Resource::new("", "namespaces");
const WORKS: Resource = Resource::new("work.karmada.io", "works");
const CLUSTERS: Resource = Resource::new("cluster.karmada.io", "clusters");

const GONE: &str = "a person must look";
const FORKED: &str = "not from";
const POLICY: &str = "the policy to keep west";
const LOST: &str = "no state handle was taken";

pub const TEMPLATE_DELETED: Event = Event {
    what: "the template is deleted",
    strike: |fleet| delete(fleet, &JOBS, "orders"),
    then: None,
    endings: [Dissolved; 7],
};

pub const TEMPLATE_EDITED: Event = Event {
    what: "the template is edited by hand",
    strike: |fleet| fleet.apply(&JOBS, job("orders:1.1")),
    then: None,
    endings: [Moved, Moved, Back, Back, Back, Moved, Back],
};

pub const NAMESPACE_DELETED: Event = Event {
    what: "the namespace is deleted",
    strike: |fleet| {
        let server = fleet.world.control_plane();
        server
            .delete(&NAMESPACES, None, "shop", &DeleteOptions::default())
            .unwrap();
    },
    then: None,
    endings: [Dissolved; 7],
};

pub const INTENT_DELETED: Event = Event {
    what: "the intent is deleted",
    strike: |fleet| delete(fleet, &MIGRATIONS, INTENT),
    then: None,
    endings: [Back, Back, Back, Back, Back, Moved, Back],
};

pub const INTENT_AND_TEMPLATE_DELETED: Event = Event {
    what: "intent and template are deleted together",
    strike: |fleet| {
        delete(fleet, &MIGRATIONS, INTENT);
        delete(fleet, &JOBS, "orders");
    },
    then: None,
    endings: [Dissolved; 7],
};

pub const INTENT_POINTED_ELSEWHERE: Event = Event {
    what: "the intent is edited to be about another workload and target",
    strike: |fleet| {
        let other = json!({"spec": {"workload": {"name": "invoices"}, "to": "north"}});
        fleet.patch(&MIGRATIONS, INTENT, other);
    },
    then: Some((Duration::from_secs(1), |fleet| {
        let as_it_was = json!({"spec": {"workload": {"name": "orders"}, "to": "west"}});
        fleet.patch(&MIGRATIONS, INTENT, as_it_was);
    })),
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
};

pub const POLICY_DELETED: Event = Event {
    what: "the policy is deleted",
    strike: |fleet| delete(fleet, &POLICIES, "orders"),
    then: None,
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
};

pub const POLICY_WITHOUT_TARGET: Event = Event {
    what: "the policy is edited and holds the source alone",
    strike: |fleet| {
        let mut policy = policy();
        policy["spec"]["placement"]["clusterAffinity"]["clusterNames"] = json!(["east"]);
        fleet.apply(&POLICIES, policy);
    },
    then: None,
    endings: [
        Asks(POLICY),
        Asks(POLICY),
        Asks(POLICY),
        Asks(POLICY),
        Asks(POLICY),
        Asks(POLICY),
        Back,
    ],
};

pub const BINDING_DELETED: Event = Event {
    what: "the binding is deleted",
    strike: |fleet| delete(fleet, &BINDINGS, BINDING),
    then: None,
    endings: [Asks(GONE); 7],
};

pub const BINDING_MOVED: Event = Event {
    what: "the binding's clusters are set to a third one",
    strike: |fleet| {
        let clusters = json!({"spec": {"clusters": [{"name": "north"}]}});
        fleet.patch(&BINDINGS, BINDING, clusters);
    },
    then: None,
    endings: [
        Elsewhere("north"),
        Asks(LOST),
        Asks(LOST),
        Moved,
        Moved,
        Moved,
        Back,
    ],
};

pub const BINDING_EMPTIED: Event = Event {
    what: "the binding's clusters are taken away",
    strike: |fleet| fleet.patch(&BINDINGS, BINDING, json!({"spec": {"clusters": null}})),
    then: None,
    endings: [
        Elsewhere("east"),
        Asks(LOST),
        Asks(LOST),
        Moved,
        Moved,
        Moved,
        Back,
    ],
};

pub const SCHEDULING_RESUMED: Event = Event {
    what: "somebody resumes scheduling",
    strike: |fleet| fleet.patch(&BINDINGS, BINDING, json!({"spec": {"suspension": null}})),
    then: None,
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
};

pub const PIN_DELETED: Event = Event {
    what: "the pin is deleted, finalizer and protection too",
    strike: |fleet| {
        let Some(name) = pin(fleet) else { return };
        let bare = json!({"metadata": {"finalizers": null, "labels": null}});
        fleet.patch(&PINS, &name, bare);
        delete(fleet, &PINS, &name);
    },
    then: None,
    endings: [
        Moved,
        Moved,
        HarmedAndBack,
        HarmedAndBack,
        HarmedAndBack,
        HarmedAndMoved,
        HarmedAndAsks(FORKED),
    ],
};

pub const PIN_EDITED: Event = Event {
    what: "the pin is edited and holds nobody",
    strike: |fleet| {
        let Some(name) = pin(fleet) else { return };
        fleet.patch(&PINS, &name, json!({"spec": {"overrideRules": []}}));
    },
    then: None,
    endings: [
        Moved,
        Moved,
        HarmedAndBack,
        HarmedAndBack,
        HarmedAndBack,
        HarmedAndMoved,
        HarmedAndAsks(FORKED),
    ],
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
    then: None,
    endings: [
        Elsewhere("east"),
        Asks("no Work yet"),
        Asks(LOST),
        Moved,
        Back,
        Moved,
        Back,
    ],
};

pub const SOURCE_COPY_DELETED: Event = Event {
    what: "the source's copy is deleted in its cluster",
    strike: |fleet| delete_copy(fleet, "east"),
    then: None,
    endings: [
        Elsewhere("east"),
        Elsewhere("east"),
        HarmedAndAsks(LOST),
        Moved,
        Moved,
        Moved,
        Back,
    ],
};

pub const TARGET_COPY_DELETED: Event = Event {
    what: "the target's copy is deleted in its cluster",
    strike: |fleet| delete_copy(fleet, "west"),
    then: None,
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
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
    then: None,
    endings: [Moved, Moved, HarmedAndBack, HarmedAndBack, Moved, Moved, Back],
};

pub const SOURCE_AWAY_FOR_A_WHILE: Event = Event {
    what: "the source can't be reached for a minute",
    strike: |fleet| _ = fleet.world.faults().partition("east"),
    then: Some((Duration::from_mins(1), |fleet| {
        _ = fleet.world.faults().heal("east");
    })),
    endings: [Moved, Moved, Moved, Back, Moved, Moved, Back],
};

pub const TARGET_AWAY_FOR_A_WHILE: Event = Event {
    what: "the target can't be reached for half a minute",
    strike: |fleet| _ = fleet.world.faults().partition("west"),
    then: Some((Duration::from_secs(30), |fleet| {
        _ = fleet.world.faults().heal("west");
    })),
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
};

pub const SOURCE_AWAY_FOR_GOOD: Event = Event {
    what: "the source is lost for good",
    strike: |fleet| _ = fleet.world.faults().partition("east"),
    then: None,
    endings: [
        Back,
        Back,
        Asks("east"),
        Asks("east"),
        Asks("east"),
        Asks("east"),
        Asks("east"),
    ],
};

pub const TARGET_AWAY_FOR_GOOD: Event = Event {
    what: "the target is lost for good",
    strike: |fleet| _ = fleet.world.faults().partition("west"),
    then: None,
    endings: [Asks("west"); 7],
};

pub const SOURCE_TAINTED: Event = Event {
    what: "the source gets a NoExecute taint",
    strike: |fleet| {
        let taint = json!([{"key": "maintenance", "effect": "NoExecute"}]);
        let writer = WriteOptions::manager("somebody");
        let patch = Patch::Merge(json!({"spec": {"taints": taint}}));
        let server = fleet.world.control_plane();
        server
            .patch(&CLUSTERS, None, "east", None, &patch, &writer)
            .unwrap();
    },
    then: None,
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
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
};

pub const OPERATORS_FROZEN: Event = Event {
    what: "the operators of both clusters stand still for half a minute",
    strike: |fleet| everywhere(fleet, |member| member.simulators(|operators| operators.freeze())),
    then: Some((Duration::from_secs(30), |fleet| {
        everywhere(fleet, |member| member.simulators(|operators| operators.thaw()));
    })),
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
};

pub const CONTROLLER_MANAGER_REPLACED: Event = Event {
    what: "Karmada's controller-manager is replaced",
    strike: |fleet| _ = fleet.world.faults().restart("karmada-controller-manager"),
    then: None,
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
};

pub const SCHEDULER_REPLACED: Event = Event {
    what: "Karmada's scheduler is replaced",
    strike: |fleet| _ = fleet.world.faults().restart("karmada-scheduler"),
    then: None,
    endings: [Moved, Moved, Moved, Moved, Moved, Moved, Back],
};

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
