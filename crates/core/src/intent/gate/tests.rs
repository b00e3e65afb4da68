//! What the gate says of a policy's change, of every shape of placement, and of what goes.

mod batch;
mod immovable;

use serde_json::json;

use super::*;
use crate::config::{Migrations, MigrationsMode};
use crate::intent::driven::{self, Called};

fn cluster(name: &str, more: Value) -> (ClusterName, Cluster) {
    let mut object = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name, "labels": {"name": name}},
        "spec": {"syncMode": "Push", "region": "eu"},
        "status": {
            "apiEnablements": [{
                "groupVersion": "flink.apache.org/v1beta1",
                "resources": [{"kind": "FlinkDeployment", "name": "flinkdeployments"}],
            }],
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "ClusterReady", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    });
    json_patch::merge(&mut object, &more);
    (ClusterName::new(name), serde_json::from_value(object).unwrap())
}

fn workload() -> ObjectKey {
    ObjectKey {
        group: "flink.apache.org".to_owned(),
        kind: "FlinkDeployment".to_owned(),
        namespace: Some("shop".to_owned()),
        name: "orders".to_owned(),
    }
}

fn policy_name(name: &str) -> PolicyName {
    PolicyName {
        namespace: Some("shop".to_owned()),
        name: name.to_owned(),
    }
}

fn policy(placement: Value) -> PropagationSpec {
    policy_with(placement, json!({}))
}

fn policy_with(placement: Value, more: Value) -> PropagationSpec {
    let mut spec = json!({
        "resourceSelectors": [{
            "apiVersion": "flink.apache.org/v1beta1",
            "kind": "FlinkDeployment",
            "namespace": "shop",
            "name": "orders",
        }],
        "placement": placement,
    });
    json_patch::merge(&mut spec, &more);
    serde_json::from_value(spec).unwrap()
}

fn one_of(names: &[&str]) -> Value {
    json!({
        "clusterAffinity": {"clusterNames": names},
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
    })
}

fn all_of(names: &[&str]) -> Value {
    json!({"clusterAffinity": {"clusterNames": names}})
}

/// Three clusters; orders runs in some of them, by the policy `orders`.
fn ground(placement: Value, runs_in: &[&str]) -> Ground {
    let spec = policy(placement.clone());
    let binding = json!({
        "metadata": {"name": "orders", "namespace": "shop"},
        "spec": {
            "resource": {
                "apiVersion": "flink.apache.org/v1beta1",
                "kind": "FlinkDeployment",
                "namespace": "shop",
                "name": "orders",
            },
            "schedulerName": "default-scheduler",
            "placement": placement,
            "clusters": runs_in.iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
        },
    });
    let clusters = ["east", "north", "west"].map(|name| cluster(name, json!({})));
    Ground {
        tenants: vec![Tenant {
            workload: workload(),
            template: json!({
                "apiVersion": "flink.apache.org/v1beta1",
                "kind": "FlinkDeployment",
                "metadata": {"name": "orders", "namespace": "shop", "labels": {"team": "shop"}},
                "spec": {"job": {}},
            }),
            binding: serde_json::from_value(binding).unwrap(),
            owner: Some(policy_name("orders")),
            state: State::Kept,
            in_hand: None,
        }],
        clusters: clusters.into_iter().collect(),
        policies: BTreeMap::from([(policy_name("orders"), spec)]),
        knowledge: Knowledge::default(),
    }
}

fn change(ground: &mut Ground, placement: Value) -> Result<Doubts, String> {
    let write = Write::Policy(policy_name("orders"), Some(Box::new(policy(placement))));
    ground.pass(&write, None).map_err(|refusal| refusal.to_string())
}

const ORDERS: &str = "FlinkDeployment shop/orders";

#[test]
fn a_policy_is_judged_by_what_the_scheduler_would_make_of_it() {
    let stops = |to: &str| format!("{ORDERS} would stop in east and start in {to} from nothing");
    let other_managers =
        |to: &str| format!("{ORDERS} would start in {to} from nothing, beside east where it runs");
    let unclear = |why: &str| format!("it is not known whether {ORDERS} would stay in east: {why}");
    let divided = |more: Value| {
        let mut placement = one_of(&["east", "west"]);
        json_patch::merge(&mut placement, &json!({"replicaScheduling": more}));
        placement
    };
    for (to, expected) in [
        (one_of(&["east", "west"]), None),
        (one_of(&["east"]), None),
        (one_of(&["west"]), Some(stops("west"))),
        (one_of(&["west", "north"]), Some(stops("north or west"))),
        (
            one_of(&["nowhere"]),
            Some(format!("{ORDERS} would stop in east and run nowhere else")),
        ),
        (all_of(&["east"]), None),
        (all_of(&["east", "west"]), Some(other_managers("west"))),
        (json!({}), Some(other_managers("north and west"))),
        (
            json!({"clusterAffinity": {"exclude": ["east"]}}),
            Some(stops("north or west")),
        ),
        (
            json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"name": "west"}}}}),
            Some(stops("west")),
        ),
        (
            json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"name": "east"}}}}),
            None,
        ),
        (
            json!({"clusterAffinities": [
                {"affinityName": "first", "clusterNames": ["west"]},
                {"affinityName": "second", "clusterNames": ["east"]},
            ]}),
            Some(stops("west")),
        ),
        (
            json!({"clusterAffinities": [
                {"affinityName": "first", "clusterNames": ["east"]},
                {"affinityName": "second", "clusterNames": ["west"]},
            ]}),
            None,
        ),
        (
            json!({
                "clusterAffinity": {"clusterNames": ["east", "west"]},
                "spreadConstraints": [{"spreadByField": "region", "minGroups": 1, "maxGroups": 1}],
            }),
            Some(unclear("its policy spreads it, and not by cluster")),
        ),
        // Without replicas of its own it isn't divided.
        (divided(json!({"replicaSchedulingType": "Divided"})), None),
    ] {
        let mut ground = ground(one_of(&["east", "west", "north"]), &["east"]);
        assert_eq!(change(&mut ground, to.clone()).err(), expected, "{to}");
    }
}

#[test]
fn what_two_clusters_run_keeps_both() {
    let mut two = ground(all_of(&["east", "west"]), &["east", "west"]);
    assert_eq!(
        change(&mut two, all_of(&["east"])).unwrap_err(),
        format!("{ORDERS} would stop in west and run nowhere else")
    );
    assert_eq!(
        change(&mut two, one_of(&["east", "west", "north"])).unwrap_err(),
        format!(
            "it is not known whether {ORDERS} would stay in east and west: it runs in more clusters than its policy would allow"
        )
    );
    assert_eq!(
        change(&mut two, all_of(&["east", "west", "nowhere"])),
        Ok(Doubts::default())
    );
}

/// One of east and west, with some tolerations.
fn tolerating(tolerations: &Value) -> Value {
    let mut placement = one_of(&["east", "west"]);
    json_patch::merge(&mut placement, &json!({"clusterTolerations": tolerations}));
    placement
}

/// A toleration of taints with a key, for some seconds.
fn tolerates(key: &str, seconds: Option<i64>) -> Value {
    let mut toleration = json!({"key": key, "operator": "Exists"});
    if let Some(seconds) = seconds {
        toleration["tolerationSeconds"] = json!(seconds);
    }
    toleration
}

#[test]
fn a_toleration_that_lasts_less_lets_karmada_evict_sooner() {
    let down = |seconds: i64| tolerates("down", Some(seconds));
    let (always, other) = (tolerates("down", None), tolerates("other", Some(60)));
    let stops = format!("{ORDERS} would stop in east and start in west from nothing");
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
    for (before, after, is_less) in [
        (json!([always]), json!([]), true),
        (json!([always]), json!([down(3600)]), true),
        (json!([down(3600)]), json!([]), true),
        (json!([down(3600)]), json!([down(60)]), true),
        (json!([down(3600)]), json!([down(3599)]), true),
        // The first one that matches counts.
        (json!([down(3600)]), json!([down(60), always]), true),
        (json!([down(60), always]), json!([down(60)]), false),
        (json!([down(3600)]), json!([down(3600), always]), false),
        (json!([down(3600)]), json!([down(7200)]), false),
        (json!([down(3600)]), json!([always]), false),
        (json!([down(0)]), json!([]), false),
        (json!([down(-1)]), json!([down(0)]), false),
        (json!([]), json!([down(60)]), false),
        // Of the two taints that are there, each counts.
        (json!([down(60), other]), json!([down(60)]), true),
        (json!([down(60), other]), json!([other, down(60)]), false),
    ] {
        let with = |effect: &str, before: &Value| {
            let mut ground = ground(tolerating(before), &["east"]);
            let taints = json!({"spec": {"taints": [taint("down", effect), taint("other", effect)]}});
            ground.clusters.extend([cluster("east", taints)]);
            ground
        };
        let held = change(&mut with("NoExecute", &before), tolerating(&after)).err();
        assert_eq!(held, is_less.then(|| stops.clone()), "{before} becomes {after}");
        // What does not evict, and what is not there.
        let passed = Ok(Doubts::default());
        let mut open = ground(tolerating(&before), &["east"]);
        assert_eq!(change(&mut open, tolerating(&after)), passed, "{after}");
        assert_eq!(
            change(&mut with("NoSchedule", &before), tolerating(&after)),
            passed,
            "{after}"
        );
    }
}

#[test]
fn a_placement_of_which_no_earlier_one_is_known_may_have_tolerated_more() {
    let mut ground = ground(tolerating(&json!([])), &["east"]);
    let taint = json!({"spec": {"taints": [{"key": "down", "effect": "NoExecute"}]}});
    ground.clusters.extend([cluster("east", taint)]);
    ground.tenants[0].binding.spec.placement = None;
    let limited = json!([tolerates("down", Some(3600))]);
    assert!(change(&mut ground, tolerating(&limited)).is_err());
    let always = json!([tolerates("down", None)]);
    assert_eq!(change(&mut ground, tolerating(&always)), Ok(Doubts::default()));
}

/// The taint of east is tolerated for an hour, since four minutes past three.
#[test]
fn a_taint_that_evicts_sooner_than_those_that_are_there_is_held_back() {
    let tolerations = json!([
        tolerates("hour", Some(3600)),
        tolerates("day", Some(86_400)),
        tolerates("minute", Some(60)),
        tolerates("always", None),
    ]);
    let taint = |key: &str, added: &str| {
        let mut taint = json!({"key": key, "effect": "NoExecute"});
        if !added.is_empty() {
            taint["timeAdded"] = json!(format!("2026-01-02T{added}:00Z"));
        }
        taint
    };
    let (hour, stops) = (
        taint("hour", "03:04"),
        format!("{ORDERS} would stop in east and start in west from nothing"),
    );
    let mut start = ground(tolerating(&tolerations), &["east"]);
    let tainted = |taints: Value| cluster("east", json!({"spec": {"taints": taints}}));
    start.clusters.extend([tainted(json!([hour]))]);
    for (taints, is_sooner) in [
        (json!([hour]), false),
        (json!([]), false),
        (json!([taint("hour", "")]), false),
        (json!([taint("hour", "03:05")]), false),
        (json!([taint("hour", "03:03")]), true),
        (json!([taint("day", "")]), false),
        (json!([taint("day", "03:03")]), false),
        (json!([taint("minute", "04:02")]), true),
        (json!([taint("minute", "04:03")]), false),
        (json!([hour, taint("day", "")]), false),
        (json!([hour, taint("always", "03:03")]), false),
        (json!([hour, taint("minute", "")]), true),
        (json!([hour, taint("unknown", "")]), true),
    ] {
        let (name, changed) = tainted(taints.clone());
        let write = Write::Cluster(name, Some(Box::new(changed)));
        let held = start.judge(&write, None).err().map(|refusal| refusal.to_string());
        assert_eq!(held, is_sooner.then(|| stops.clone()), "{taints}");
    }
    // It is evicted at once already.
    start
        .clusters
        .extend([tainted(json!([taint("unknown", "03:04")]))]);
    let (name, changed) = tainted(json!([taint("another", "03:03")]));
    let write = Write::Cluster(name, Some(Box::new(changed)));
    assert_eq!(start.judge(&write, None), Ok(Doubts::default()));
}

#[test]
fn another_scheduler_may_place_it_elsewhere_whatever_the_placement_says() {
    let by = |scheduler: &str, clusters: &[&str]| {
        policy_with(one_of(clusters), json!({"schedulerName": scheduler}))
    };
    let write = |spec: PropagationSpec| Write::Policy(policy_name("orders"), Some(Box::new(spec)));
    let unclear =
        format!("it is not known whether {ORDERS} would stay in east: another scheduler would place it");
    for (live, bound, then, is_held) in [
        ("default-scheduler", "default-scheduler", "volcano", true),
        ("default-scheduler", "", "volcano", true),
        ("volcano", "volcano", "default-scheduler", true),
        ("volcano", "volcano", "", true),
        ("default-scheduler", "default-scheduler", "", false),
        ("default-scheduler", "", "default-scheduler", false),
        ("volcano", "volcano", "volcano", false),
        // It is on its way to the binding, or has come there by another policy.
        ("volcano", "default-scheduler", "volcano", false),
        ("default-scheduler", "volcano", "volcano", false),
    ] {
        let mut ground = ground(one_of(&["east"]), &["east"]);
        ground.policies.insert(policy_name("orders"), by(live, &["east"]));
        ground.tenants[0].binding.spec.scheduler_name = bound.to_owned();
        let held = ground.judge(&write(by(then, &["east"])), None).err();
        let held = held.map(|refusal| refusal.to_string());
        assert_eq!(
            held,
            is_held.then(|| unclear.clone()),
            "{live}, {bound} becomes {then}"
        );
    }
    // One is accepted, and no other one.
    let mut start = ground(one_of(&["east"]), &["east"]);
    let digest = start
        .judge(&write(by("volcano", &["east"])), None)
        .unwrap_err()
        .digest;
    assert!(
        start
            .judge(&write(by("another", &["east"])), Some(&digest))
            .is_err()
    );
    assert!(
        start
            .judge(&write(by("volcano", &["west"])), Some(&digest))
            .is_err()
    );
    let accepted = start.pass(&write(by("volcano", &["east"])), Some(&digest));
    assert_eq!(accepted, Ok(Doubts::default()));
}

#[test]
fn what_is_in_hand_may_be_placed_where_its_intent_lets_it_run_and_nowhere_else() {
    let mut held = ground(one_of(&["east"]), &["east"]);
    held.tenants[0].in_hand = Some(vec![ClusterName::new("west")]);
    assert_eq!(
        change(&mut held.clone(), one_of(&["north"])).unwrap_err(),
        format!("{ORDERS} would stop in west and start in north from nothing")
    );
    let down = json!({"spec": {"taints": [{"key": "down", "effect": "NoExecute"}]}});
    let (name, tainted) = cluster("west", down);
    let taint = Write::Cluster(name, Some(Box::new(tainted)));
    let mut committed = ground(one_of(&["west"]), &["east"]);
    committed.tenants[0].in_hand = Some(vec![ClusterName::new("west")]);
    assert!(committed.pass(&taint, None).is_err());
    // The policy, which it waits for, would take it to east in any case.
    let refusal = held.judge(&taint, None).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        format!("{ORDERS} would stop in west and start in east from nothing")
    );
    assert_eq!(change(&mut held, one_of(&["west"])), Ok(Doubts::default()));
    // Its intent names the group of affinities that it waits for.
    let group = |name: &str, cluster: &str| json!({"affinityName": name, "clusterNames": [cluster]});
    let groups = json!({"clusterAffinities": [group("primary", "east"), group("backup", "west")]});
    assert_eq!(change(&mut held.clone(), groups), Ok(Doubts::default()));
    // Nobody may run it: nothing is known of where it stays.
    held.tenants[0].in_hand = Some(Vec::new());
    assert!(change(&mut held, one_of(&["north"])).is_err());
    held.tenants[0].state = State::Elsewhere;
    assert!(change(&mut held, one_of(&["east", "north"])).is_err());
}

/// What was agreed is in force, and the binding still has what Git says again.
#[test]
fn what_the_binding_has_lets_nothing_out_that_its_intent_does_not_wait_for() {
    let mut held = ground(one_of(&["east"]), &["east"]);
    held.policies
        .insert(policy_name("orders"), policy(one_of(&["west"])));
    held.tenants[0].in_hand = Some(vec![ClusterName::new("west")]);
    assert_eq!(
        change(&mut held.clone(), one_of(&["east"])).unwrap_err(),
        format!("{ORDERS} would stop in west and start in east from nothing")
    );
    held.tenants[0].in_hand = None;
    assert_eq!(change(&mut held, one_of(&["east"])), Ok(Doubts::default()));
}

/// A policy of every job of the namespace.
fn policy_of_all(clusters: &[&str]) -> PropagationSpec {
    let every =
        json!([{"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "namespace": "shop"}]);
    policy_with(one_of(clusters), json!({"resourceSelectors": every}))
}

/// `orders` has been moved to west, and its Migration waits for the policy, which still says east.
fn moved_to_west() -> Ground {
    let mut ground = ground(one_of(&["east"]), &["west"]);
    ground.tenants[0].in_hand = Some(vec![ClusterName::new("west")]);
    ground
        .policies
        .insert(policy_name("orders"), policy_of_all(&["east"]));
    ground
}

/// Returns whether the placement in some clusters goes before the one in others.
fn goes_first(ground: &Ground, agreed: &[&str], wanted: &[&str]) -> Result<bool, String> {
    let specs = (&policy_of_all(agreed), &policy_of_all(wanted));
    driven::goes_first(ground, &policy_name("orders"), specs, None, &[workload()])
}

#[test]
fn what_was_agreed_goes_before_what_would_be_held_back() {
    let moved = moved_to_west();
    // A third cluster, and the first one again.
    for wanted in ["north", "east"] {
        assert_eq!(goes_first(&moved, &["west"], &[wanted]), Ok(true), "{wanted}");
    }
    // What keeps it goes out by itself.
    assert_eq!(goes_first(&moved, &["west"], &["north", "west"]), Ok(false));
    // It is not where the placement says.
    let refused = goes_first(&moved, &["north"], &["east"]).unwrap_err();
    assert_eq!(
        refused,
        format!("{ORDERS} would stop in west and start in north from nothing")
    );
    // It has ended since.
    let mut ended = moved;
    ended.tenants[0].in_hand = None;
    assert_eq!(goes_first(&ended, &["west"], &["north"]), Ok(false));
}

/// Another job of the policy, which was not moved or has come back.
#[test]
fn what_was_agreed_goes_nowhere_where_it_would_cost_another_workload_its_state() {
    let mut moved = moved_to_west();
    let mut bills = ground(one_of(&["east"]), &["east"]).tenants.remove(0);
    bills.workload.name = "bills".to_owned();
    bills.template["metadata"]["name"] = json!("bills");
    moved.tenants.push(bills);
    let stops = "FlinkDeployment shop/bills would stop in east and start in west from nothing";
    assert_eq!(goes_first(&moved, &["west"], &["north"]).unwrap_err(), stops);
    // Nor where it might.
    moved.tenants[1].state = State::Unsaid;
    let doubt = goes_first(&moved, &["west"], &["north"]).unwrap_err();
    assert!(doubt.starts_with(stops), "{doubt}");
    // On its way as well, its Migration lets it run in east.
    moved.tenants[1].state = State::Kept;
    moved.tenants[1].in_hand = Some(vec![ClusterName::new("east")]);
    assert_eq!(goes_first(&moved, &["west"], &["north"]).unwrap_err(), stops);
    moved.tenants[1].in_hand = Some(vec![ClusterName::new("west")]);
    assert_eq!(goes_first(&moved, &["west"], &["north"]), Ok(true));
}

/// It would reach the workload with the next change of the template, which waits for the Migration.
#[test]
fn what_was_agreed_goes_nowhere_by_a_lazy_policy() {
    let mut moved = moved_to_west();
    let lazy = |clusters: &[&str]| {
        let mut spec = policy_of_all(clusters);
        spec.activation_preference = Some("Lazy".to_owned());
        spec
    };
    let specs = (&lazy(&["west"]), &lazy(&["north"]));
    let goes_first =
        |ground: &Ground| driven::goes_first(ground, &policy_name("orders"), specs, None, &[workload()]);
    let why = goes_first(&moved).unwrap_err();
    assert!(why.contains("take activationPreference off it"), "{why}");
    // The binding has it already.
    moved.tenants[0].binding.spec.placement = Some(policy_of_all(&["west"]).placement);
    assert_eq!(goes_first(&moved), Ok(true));
}

#[test]
fn nothing_is_said_of_what_is_placed_so_already() {
    // The scheduler has yet to look: it isn't this write that moves it.
    let mut placed = ground(one_of(&["west"]), &["east"]);
    assert_eq!(change(&mut placed, one_of(&["west"])), Ok(Doubts::default()));
}

#[test]
fn a_policy_of_another_name_counts_when_it_takes_over() {
    let always = json!({"preemption": "Always", "priority": 1});
    let other = |more: &Value| {
        let spec = policy_with(one_of(&["west"]), more.clone());
        Write::Policy(policy_name("other"), Some(Box::new(spec)))
    };
    let start = || ground(one_of(&["east"]), &["east"]);
    assert_eq!(start().pass(&other(&json!({})), None), Ok(Doubts::default()));
    assert_eq!(
        start().pass(&other(&json!({"preemption": "Always"})), None),
        Ok(Doubts::default())
    );
    assert!(start().pass(&other(&always), None).is_err());
    // A rename: the new one beside the old one is nothing yet, the old one's deletion is.
    let mut renamed = start();
    assert_eq!(renamed.pass(&other(&json!({})), None), Ok(Doubts::default()));
    let gone = Write::Policy(policy_name("orders"), None);
    assert_eq!(
        renamed.pass(&gone, None).unwrap_err().to_string(),
        format!("{ORDERS} would stop in east and start in west from nothing")
    );
    // Nobody takes over: Karmada leaves the binding as it is.
    assert_eq!(start().pass(&gone, None), Ok(Doubts::default()));
    // Under the same placement it is but a rename.
    let same = policy(one_of(&["east"]));
    let mut renamed = start();
    let write = Write::Policy(policy_name("other"), Some(Box::new(same)));
    assert_eq!(renamed.pass(&write, None), Ok(Doubts::default()));
    assert_eq!(renamed.pass(&gone, None), Ok(Doubts::default()));
    // One for the whole control plane is outranked by one of the namespace.
    let wide = PolicyName {
        namespace: None,
        name: "wide".to_owned(),
    };
    let spec = Box::new(policy_with(one_of(&["west"]), always));
    assert_eq!(
        start().pass(&Write::Policy(wide, Some(spec)), None),
        Ok(Doubts::default())
    );
}

/// A policy that would take the workload from its own, which it selects by its name or not.
fn taker(clusters: &[&str], is_by_name: bool) -> PropagationSpec {
    let mut always = json!({"preemption": "Always", "priority": 10});
    if !is_by_name {
        always["resourceSelectors"] = json!([{
            "apiVersion": "flink.apache.org/v1beta1",
            "kind": "FlinkDeployment",
        }]);
    }
    policy_with(one_of(clusters), always)
}

/// Karmada's feature gate is off, or the selector has no name: then the workload stays with the policy that has it.
#[test]
fn what_its_own_policy_says_counts_though_another_one_might_take_it_over() {
    let stops = format!("{ORDERS} would stop in east and start in west from nothing");
    let (orders, other) = (policy_name("orders"), policy_name("other"));
    for is_by_name in [true, false] {
        let mut one = ground(one_of(&["east"]), &["east"]);
        let write = Write::Policy(other.clone(), Some(Box::new(taker(&["east"], is_by_name))));
        assert_eq!(one.pass(&write, None), Ok(Doubts::default()));
        assert_eq!(change(&mut one, one_of(&["west"])), Err(stops.clone()));
        // The one that is there names another cluster, and has not taken it.
        let mut beside = ground(one_of(&["east"]), &["east"]);
        beside
            .policies
            .insert(other.clone(), taker(&["west"], is_by_name));
        let gone = beside
            .judge(&Write::Policy(orders.clone(), None), None)
            .unwrap_err();
        assert_eq!(gone.to_string(), stops);
        assert_eq!(change(&mut beside, one_of(&["east"])), Ok(Doubts::default()));
        // Whichever of the two places it, it is lost; each in its own way.
        let both = change(&mut one, one_of(&["north"])).unwrap_err();
        assert_eq!(both, stops.replace("west", "north"));
    }
}

#[test]
fn its_own_policy_chooses_by_labels_though_another_one_might_take_it_over() {
    // Of the template.
    let mut one = ground(one_of(&["east"]), &["east"]);
    let team = json!({"resourceSelectors": [{
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkDeployment",
        "labelSelector": {"matchLabels": {"team": "shop"}},
    }]});
    one.policies
        .insert(policy_name("orders"), policy_with(one_of(&["east"]), team));
    one.policies.insert(policy_name("other"), taker(&["west"], true));
    let labels = BTreeMap::from([("team".to_owned(), "other".to_owned())]);
    assert!(one.judge(&Write::Labels(workload(), labels), None).is_err());
    // Of the cluster.
    let by_label = json!({
        "clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "prod"}}},
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
    });
    let tier = |name: &str, tier: &str| cluster(name, json!({"metadata": {"labels": {"tier": tier}}}));
    let mut one = ground(by_label, &["east"]);
    one.clusters = [tier("east", "prod"), tier("west", "prod")].into();
    one.policies.insert(policy_name("other"), taker(&["west"], true));
    let (name, changed) = tier("east", "test");
    let refusal = one
        .judge(&Write::Cluster(name, Some(Box::new(changed))), None)
        .unwrap_err();
    assert_eq!(
        refusal.to_string(),
        format!("{ORDERS} would stop in east and start in west from nothing")
    );
}

/// Its priority was what kept it from being taken over.
#[test]
fn an_own_policy_that_would_be_taken_over_sets_nothing_off_unless_karmada_certainly_does_that() {
    let (orders, other) = (policy_name("orders"), policy_name("other"));
    let with_priority = |priority: i32| policy_with(one_of(&["east"]), json!({"priority": priority}));
    let lowered = with_priority(5);
    let write = Write::Policy(orders.clone(), Some(Box::new(lowered.clone())));
    for (is_by_name, preemption, expected) in [
        (true, false, Err("PropagationPolicyPreemption")),
        (false, false, Err("selected by its name")),
        (false, true, Err("selected by its name")),
        (true, true, Ok(Some(other.clone()))),
    ] {
        let mut one = ground(one_of(&["east"]), &["east"]);
        one.policies.insert(orders.clone(), with_priority(20));
        one.policies.insert(other.clone(), taker(&["west"], is_by_name));
        let settings = Migrations {
            preemption,
            ..Migrations::default()
        };
        let refusal = one.judge(&write, None).unwrap_err();
        let change = (&orders, Some(&lowered));
        let to_be = |_: &Tenant| Some(other.clone());
        let called = driven::called_for(&one, &refusal, change, &settings, to_be, |_, _| false);
        match (called, expected) {
            (Ok(called), Ok(successor)) => assert_eq!(called[0].successor, successor),
            (Err(why), Err(says)) => assert!(why.contains(says), "{why}"),
            (called, expected) => panic!("{called:?}, not {expected:?}"),
        }
    }
}

/// The detector looks for what a policy may take by the name and the namespace of its selector, and fills in none of all.
#[test]
fn a_policy_of_the_control_plane_takes_only_what_it_names_with_its_namespace() {
    let wide = |name: &str| PolicyName {
        namespace: None,
        name: name.to_owned(),
    };
    let (own, other) = (wide("own"), wide("other"));
    for (selector, is_certain) in [
        (json!({"namespace": "shop", "name": "orders"}), true),
        (json!({"name": "orders"}), false),
    ] {
        let mut one = ground(one_of(&["east"]), &["east"]);
        one.policies = BTreeMap::from([(own.clone(), policy(one_of(&["east"])))]);
        one.tenants[0].owner = Some(own.clone());
        let mut selects = json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment"});
        json_patch::merge(&mut selects, &selector);
        let always = json!({"preemption": "Always", "priority": 10, "resourceSelectors": [selects]});
        let takes = policy_with(one_of(&["west"]), always);
        let write = Write::Policy(other.clone(), Some(Box::new(takes.clone())));
        let refusal = one.judge(&write, None).unwrap_err();
        let settings = Migrations {
            preemption: true,
            ..Migrations::default()
        };
        let to_be = |_: &Tenant| Some(other.clone());
        let change = (&other, Some(&takes));
        let called = driven::called_for(&one, &refusal, change, &settings, to_be, |_, _| false);
        assert_eq!(called.is_ok(), is_certain, "{selector}: {called:?}");
    }
}

/// A policy for all of the control plane takes what no other one does.
#[test]
fn where_its_own_goes_in_the_same_push_no_feature_gate_is_needed() {
    let (orders, other) = (policy_name("orders"), policy_name("other"));
    let wide = PolicyName {
        namespace: None,
        name: "wide".to_owned(),
    };
    let mut one = ground(one_of(&["east"]), &["east"]);
    one.policies.insert(wide, policy(one_of(&["north"])));
    let comes = taker(&["west"], true);
    let write = Write::Policy(other.clone(), Some(Box::new(comes.clone())));
    let refusal = one.judge(&write, None).unwrap_err();
    let called = |goes: bool| {
        let (change, to_be) = ((&other, Some(&comes)), |_: &Tenant| Some(other.clone()));
        let goes = |_: &Tenant, policy: &PolicyName| goes && *policy == orders;
        driven::called_for(&one, &refusal, change, &Migrations::default(), to_be, goes)
    };
    assert!(called(false).unwrap_err().contains("PropagationPolicyPreemption"));
    let called = called(true).unwrap().remove(0);
    assert_eq!(
        (called.to.as_str(), called.successor),
        ("west", Some(other.clone()))
    );
}

/// A policy that selects some workloads by their names, and not `orders`.
fn without_orders(names: &[&str]) -> PropagationSpec {
    policy_with(one_of(&["east"]), json!({"resourceSelectors": by_name(names)}))
}

fn by_name(names: &[&str]) -> Value {
    let named = |name: &&str| {
        json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "namespace": "shop", "name": name,
        })
    };
    names.iter().map(named).collect()
}

/// It lets go of one of two workloads that another one is to take.
#[test]
fn a_policy_goes_for_the_workloads_alone_that_it_lets_go() {
    let (orders, other) = (policy_name("orders"), policy_name("other"));
    let mut two = ground(one_of(&["east"]), &["east"]);
    let both = json!({"resourceSelectors": by_name(&["orders", "bills"])});
    two.policies
        .insert(orders.clone(), policy_with(one_of(&["east"]), both.clone()));
    let mut bills = two.tenants[0].clone();
    bills.workload.name = "bills".to_owned();
    bills.template["metadata"]["name"] = json!("bills");
    bills.binding.spec.resource.name = "bills".to_owned();
    two.tenants.push(bills);
    let mut comes = taker(&["west"], true);
    comes.resource_selectors = policy_with(one_of(&["west"]), both).resource_selectors;
    let write = Write::Policy(other.clone(), Some(Box::new(comes.clone())));
    let refusal = two.judge(&write, None).unwrap_err();
    assert_eq!(refusal.losses.len(), 2, "{refusal}");
    let called = |let_go: &[&str]| {
        let (change, to_be) = ((&other, Some(&comes)), |_: &Tenant| Some(other.clone()));
        let goes =
            |tenant: &Tenant, own: &PolicyName| *own == orders && let_go.contains(&&*tenant.workload.name);
        driven::called_for(&two, &refusal, change, &Migrations::default(), to_be, goes)
    };
    for one in ["orders", "bills"] {
        let why = called(&[one]).unwrap_err();
        assert!(why.contains("PropagationPolicyPreemption"), "{why}");
    }
    assert_eq!(called(&["orders", "bills"]).unwrap().len(), 2);
}

/// A committed Migration has it in hand, and the one that takes it up is applied: then the change costs nothing.
#[test]
fn a_policy_may_let_go_of_what_was_moved_for_the_next_one() {
    let mut moved = ground(one_of(&["east"]), &["east"]);
    moved
        .policies
        .insert(policy_name("other"), taker(&["west"], true));
    let lets_go = Write::Policy(policy_name("orders"), Some(Box::new(without_orders(&["bills"]))));
    assert!(moved.judge(&lets_go, None).is_err());
    moved.tenants[0].in_hand = Some(vec![ClusterName::new("west")]);
    assert_eq!(moved.judge(&lets_go, None), Ok(Doubts::default()));
}

/// One workload is its own, and one has no policy: both end with the one that changes.
#[test]
fn a_policy_moves_its_own_workloads_and_those_that_come_to_it() {
    let orders = policy_name("orders");
    let by_kind = |clusters: &[&str]| {
        let selectors = json!({"resourceSelectors": [{
            "apiVersion": "flink.apache.org/v1beta1",
            "kind": "FlinkDeployment",
        }]});
        policy_with(one_of(clusters), selectors)
    };
    let mut two = ground(one_of(&["east"]), &["east"]);
    two.policies.insert(orders.clone(), by_kind(&["east"]));
    let mut bills = two.tenants[0].clone();
    bills.owner = None;
    bills.workload.name = "bills".to_owned();
    bills.template["metadata"]["name"] = json!("bills");
    bills.binding.spec.resource.name = "bills".to_owned();
    two.tenants.push(bills);
    let moves = by_kind(&["west"]);
    let write = Write::Policy(orders.clone(), Some(Box::new(moves.clone())));
    let refusal = two.judge(&write, None).unwrap_err();
    let change = (&orders, Some(&moves));
    let to_be = |_: &Tenant| Some(orders.clone());
    let called = driven::called_for(&two, &refusal, change, &Migrations::default(), to_be, |_, _| {
        false
    });
    let successors: Vec<_> = called
        .unwrap()
        .into_iter()
        .map(|called| called.successor)
        .collect();
    assert_eq!(successors, [None, Some(orders)]);
}

/// The moves that a change of the policy `orders` calls for.
fn called(ground: &Ground, placement: Value) -> Result<Vec<Called>, String> {
    let (name, spec) = (policy_name("orders"), policy(placement));
    let write = Write::Policy(name.clone(), Some(Box::new(spec.clone())));
    let refusal = ground.judge(&write, None).unwrap_err();
    driven::called_for(
        ground,
        &refusal,
        (&name, Some(&spec)),
        &Migrations::default(),
        |_| None,
        |_, _| false,
    )
}

#[test]
fn of_several_clusters_one_is_chosen_that_has_room_and_is_kept_for_certain() {
    let mut ground = ground(one_of(&["east"]), &["east"]);
    let busy = |name: &str, allocated: u32| {
        let summary = json!({"allocatable": {"cpu": "10"}, "allocated": {"cpu": allocated.to_string()}});
        cluster(name, json!({"status": {"resourceSummary": summary}}))
    };
    ground.clusters.extend([busy("north", 9), busy("west", 1)]);
    let to = |ground: &Ground, placement: Value| {
        let called = called(ground, placement)?;
        let names = called.into_iter().map(|called| called.to.to_string());
        Ok::<_, String>(names.collect::<Vec<_>>())
    };
    let either = one_of(&["west", "north"]);
    assert_eq!(to(&ground, either.clone()), Ok(vec!["west".to_owned()]));
    let first = called(&ground, either.clone()).unwrap().remove(0);
    assert_eq!(first.open, ["north", "west"].map(ClusterName::from));
    let away = json!({"status": {"conditions": []}});
    ground.clusters.extend([cluster("west", away)]);
    assert_eq!(to(&ground, either.clone()), Ok(vec!["north".to_owned()]));

    // Where it isn't certain that it stays where it was moved to, the policy has to name one.
    let with = |more: Value| {
        let mut placement = either.clone();
        json_patch::merge(&mut placement, &more);
        placement
    };
    let by_region = json!({"spreadByField": "region", "minGroups": 1, "maxGroups": 1});
    let by_cluster = either["spreadConstraints"][0].clone();
    let weighted = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"});
    for placement in [
        all_of(&["west", "north"]),
        with(json!({"spreadConstraints": [by_region.clone()]})),
        with(json!({"spreadConstraints": [by_cluster, by_region]})),
        with(json!({"replicaScheduling": weighted})),
        with(json!({"somethingNew": {"of": "another version"}})),
    ] {
        let why = called(&ground, placement.clone()).unwrap_err();
        assert!(
            why.contains("several clusters would take it"),
            "{placement}: {why}"
        );
    }
    // None of them would do now.
    let away = json!({"status": {"conditions": []}});
    ground.clusters.extend([cluster("north", away)]);
    let why = called(&ground, either).unwrap_err();
    assert!(why.contains("north: it is not Ready"), "{why}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one case after the other")]
fn where_a_policy_goes_or_lets_go_the_move_is_to_where_its_successor_places_the_workload() {
    let mut start = ground(one_of(&["east"]), &["east"]);
    let (orders, other) = (policy_name("orders"), policy_name("other"));
    start.policies.insert(other.clone(), policy(one_of(&["west"])));
    let asks =
        |ground: &Ground, name: &PolicyName, spec: Option<&PropagationSpec>, to_be: Option<&PolicyName>| {
            let write = Write::Policy(name.clone(), spec.cloned().map(Box::new));
            let refusal = ground.judge(&write, None).unwrap_err();
            let settings = Migrations::default();
            driven::called_for(
                ground,
                &refusal,
                (name, spec),
                &settings,
                |_| to_be.cloned(),
                |_, _| false,
            )
        };
    let elsewhere = json!({"resourceSelectors": [{
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkDeployment",
        "name": "another",
    }]});
    let lets_go = policy_with(one_of(&["east"]), elsewhere);
    for spec in [None, Some(&lets_go)] {
        let called = asks(&start, &orders, spec, Some(&other)).unwrap().remove(0);
        assert_eq!((called.from.as_str(), called.to.as_str()), ("east", "west"));
        assert_eq!(called.successor, Some(other.clone()));
        // Git is about to have another one take it up; or that isn't known.
        let third = policy_name("third");
        for to_be in [Some(&third), None] {
            assert!(asks(&start, &orders, spec, to_be).is_err(), "{to_be:?}");
        }
    }
    // Its own stays, and is changed.
    let moves = policy(one_of(&["west"]));
    let called = asks(&start, &orders, Some(&moves), None).unwrap().remove(0);
    assert_eq!(called.successor, None);
    // It may not be taken up for long.
    let mut lazy = start.clone();
    let spec = policy_with(one_of(&["west"]), json!({"activationPreference": "Lazy"}));
    lazy.policies.insert(other.clone(), spec);
    assert!(
        asks(&lazy, &orders, None, Some(&other))
            .unwrap_err()
            .contains("lazy")
    );
    // Not every Karmada lets one take it from the other.
    let always = json!({"preemption": "Always", "priority": 1});
    let preempts = policy_with(one_of(&["west"]), always);
    let why = asks(&start, &other, Some(&preempts), Some(&other)).unwrap_err();
    assert!(why.contains("PropagationPolicyPreemption"), "{why}");
    let settings = Migrations {
        preemption: true,
        ..Migrations::default()
    };
    let by_kind = json!({"resourceSelectors": [{
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkDeployment",
    }]});
    let mut by_kind = policy_with(one_of(&["west"]), by_kind);
    (by_kind.priority, by_kind.preemption) = (preempts.priority, preempts.preemption.clone());
    for (spec, is_certain) in [(&preempts, true), (&by_kind, false)] {
        let write = Write::Policy(other.clone(), Some(Box::new(spec.clone())));
        let refusal = start.judge(&write, None).unwrap_err();
        let change = (&other, Some(spec));
        let to_be = |_: &Tenant| Some(other.clone());
        let called = driven::called_for(&start, &refusal, change, &settings, to_be, |_, _| false);
        assert_eq!(called.is_ok(), is_certain, "{called:?}");
    }
    // It has none any more.
    let mut orphaned = ground(one_of(&["east"]), &["east"]);
    orphaned.tenants[0].owner = None;
    orphaned.policies.clear();
    let called = asks(&orphaned, &other, Some(&moves), Some(&other))
        .unwrap()
        .remove(0);
    assert_eq!(called.successor, Some(other));
}

#[test]
fn a_selector_that_lets_go_gives_the_workload_to_the_next() {
    let mut ground = ground(one_of(&["east"]), &["east"]);
    let team = json!({"resourceSelectors": [{
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkDeployment",
        "labelSelector": {"matchLabels": {"team": "shop"}},
    }]});
    let rest = policy_with(one_of(&["west"]), team);
    ground.policies.insert(policy_name("rest"), rest);
    let elsewhere = json!({"resourceSelectors": [{
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkDeployment",
        "name": "another",
    }]});
    let lets_go = policy_with(one_of(&["east"]), elsewhere);
    let write = Write::Policy(policy_name("orders"), Some(Box::new(lets_go)));
    assert!(ground.pass(&write, None).is_err());
    // By labels it is selected, too.
    ground.policies.remove(&policy_name("orders"));
    let labels = BTreeMap::from([("team".to_owned(), "other".to_owned())]);
    assert_eq!(
        ground.pass(&Write::Labels(workload(), labels), None),
        Ok(Doubts::default())
    );
    let back = BTreeMap::from([("team".to_owned(), "shop".to_owned())]);
    assert!(ground.pass(&Write::Labels(workload(), back), None).is_err());
}

#[test]
fn what_is_deleted_ends_and_is_accepted_for_one_change_only() {
    for write in [
        Write::Template(workload()),
        Write::Namespace("shop".to_owned()),
        Write::Definition(GroupKind::new("flink.apache.org", "FlinkDeployment")),
    ] {
        let mut ground = ground(one_of(&["east"]), &["east"]);
        let refusal = ground.pass(&write, None).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            format!("{ORDERS} would end in east, with its state")
        );
        assert!(
            refusal.hint(None).contains(ACCEPT_DELETION),
            "{}",
            refusal.hint(None)
        );
        assert!(ground.pass(&write, Some("something")).is_err());
        assert_eq!(ground.pass(&write, Some(ACCEPT_DELETION)), Ok(Doubts::default()));
    }
    let moves = |to: &str| Write::Policy(policy_name("orders"), Some(Box::new(policy(one_of(&[to])))));
    let mut start = ground(one_of(&["east"]), &["east"]);
    let digest = start.pass(&moves("west"), None).unwrap_err().digest;
    // Another target, and another cluster that it runs in, are other losses.
    assert!(start.pass(&moves("north"), Some(&digest)).is_err());
    assert!(start.pass(&moves("west"), Some(ACCEPT_DELETION)).is_err());
    let mut elsewhere = ground(one_of(&["north"]), &["north"]);
    assert!(elsewhere.pass(&moves("west"), Some(&digest)).is_err());
    assert_eq!(
        start.pass(&moves("west"), Some(&format!("x, {digest}"))),
        Ok(Doubts::default())
    );
}

#[test]
fn the_hint_says_how_to_take_the_state_along() {
    let mut ground = ground(one_of(&["east"]), &["east"]);
    let write = Write::Policy(policy_name("orders"), Some(Box::new(policy(one_of(&["west"])))));
    let refusal = ground.pass(&write, None).unwrap_err();
    let hint = refusal.hint(None);
    assert!(
        hint.starts_with(
            "a Migration carries its state: cutover migrate FlinkDeployment/orders --namespace shop --to west; "
        ),
        "{hint}"
    );
    assert!(hint.contains(&refusal.digest), "{hint}");
    // A push may ask for that by itself.
    let hint = refusal.hint(Some(driven::SETTING));
    let says = format!("--to west; {}; to accept", driven::SETTING);
    assert!(hint.contains(&says), "{hint}");
    assert!(
        driven::SETTING.ends_with(&format!("{}: auto", driven::MODE_ANNOTATION)),
        "{}",
        driven::SETTING
    );
    // What no Migration carries out, none is set off for.
    for placement in [all_of(&["east", "west"]), one_of(&["nowhere"])] {
        let write = Write::Policy(policy_name("orders"), Some(Box::new(policy(placement))));
        let hint = ground
            .judge(&write, None)
            .unwrap_err()
            .hint(Some(driven::SETTING));
        assert!(!hint.contains(driven::SETTING), "{hint}");
    }
}

/// The jobs `orders` and `bills` in east, by one policy, and what its change to west is refused with.
fn two_of_one_policy() -> (Ground, Refusal) {
    let mut two = ground(one_of(&["east"]), &["east"]);
    two.policies
        .insert(policy_name("orders"), policy_of_all(&["east"]));
    let mut bills = two.tenants[0].clone();
    bills.workload.name = "bills".to_owned();
    bills.template["metadata"]["name"] = json!("bills");
    two.tenants.push(bills);
    let write = Write::Policy(policy_name("orders"), Some(Box::new(policy_of_all(&["west"]))));
    let refusal = two.judge(&write, None).unwrap_err();
    (two, refusal)
}

/// Whether migrations are set off; or whose annotation is against it, and `None` where the settings are. An empty word is none.
fn set_off(mode: MigrationsMode, on_policy: &str, on_jobs: &[&str]) -> Result<(), Option<String>> {
    let (mut two, mut refusal) = two_of_one_policy();
    two.tenants.truncate(on_jobs.len());
    refusal.losses.truncate(on_jobs.len());
    let annotated = |mut object: Value, word: &str| {
        if !word.is_empty() {
            object["metadata"]["annotations"] = json!({"cutover.dev/migrations": word});
        }
        object
    };
    for (tenant, word) in two.tenants.iter_mut().zip(on_jobs) {
        tenant.template = annotated(tenant.template.take(), word);
    }
    let settings = Migrations {
        mode,
        ..Migrations::default()
    };
    driven::check_automatic(&settings, &annotated(json!({}), on_policy), &two, &refusal)
}

#[test]
fn migrations_are_set_off_for_all_workloads_of_a_policy_or_for_none() {
    use MigrationsMode::{Auto, Manual};
    let against = |whose: &str, more: &str| {
        let why = format!("the annotation cutover.dev/migrations of {whose} does not say auto{more}");
        Err(Some(why))
    };
    let policy = || against("the policy", "");
    let job = |name: &str| {
        let whose = format!("FlinkDeployment shop/{name}");
        against(&whose, ", and the workloads of a policy move together")
    };
    for (mode, on_policy, on_jobs, expected) in [
        (Manual, "", ["", ""], Err(None)),
        (Auto, "", ["", ""], Ok(())),
        // The word of the policy counts before that of the sync, and that of a workload before both.
        (Manual, "auto", ["", ""], Ok(())),
        (Auto, "manual", ["", ""], policy()),
        (Manual, "", ["auto", "auto"], Ok(())),
        (Manual, "manual", ["auto", "auto"], Ok(())),
        (Auto, "", ["", "manual"], job("bills")),
        (Auto, "auto", ["manual", "auto"], job("orders")),
        // One of them says nothing.
        (Manual, "", ["auto", ""], Err(None)),
        (Auto, "manual", ["auto", ""], policy()),
        (Manual, "", ["", "manual"], job("bills")),
        (Auto, "manual", ["", "manual"], job("bills")),
        // A word that is not known.
        (Auto, "always", ["", ""], policy()),
        (Auto, "", ["always", ""], job("orders")),
    ] {
        let context = format!("{mode:?} {on_policy:?} {on_jobs:?}");
        assert_eq!(set_off(mode, on_policy, &on_jobs), expected, "{context}");
    }
    // Alone, it keeps no other one.
    let alone = against("FlinkDeployment shop/orders", "");
    assert_eq!(set_off(Auto, "auto", &["manual"]), alone);
}

/// By what a policy spreads, its clusters have to say of themselves.
#[test]
fn a_spread_that_its_cluster_does_not_meet_moves_a_workload_to_one_that_does() {
    for (field, property, value) in [
        ("region", "region", json!("eu")),
        ("zone", "zones", json!(["eu-1"])),
        ("provider", "provider", json!("acme")),
    ] {
        let with = cluster("west", json!({"spec": {property: value.clone()}}));
        let mut one = ground(one_of(&["east", "west"]), &["east"]);
        one.clusters
            .extend([cluster("east", json!({"spec": {"region": null}})), with]);
        let mut spread = one_of(&["east", "west"]);
        let constraint = json!({"spreadByField": field, "minGroups": 1, "maxGroups": 1});
        spread["spreadConstraints"]
            .as_array_mut()
            .unwrap()
            .push(constraint);
        assert_eq!(
            change(&mut one, spread.clone()).unwrap_err(),
            format!("{ORDERS} would stop in east and start in west from nothing"),
            "{field}"
        );
        let called = called(&one, spread.clone()).unwrap().remove(0);
        assert_eq!((called.from.as_str(), called.to.as_str()), ("east", "west"));
        // Both do, and how the scheduler weighs them is not known.
        one.clusters
            .extend([cluster("east", json!({"spec": {property: value}}))]);
        let why = change(&mut one, spread.clone()).unwrap_err();
        assert!(
            why.ends_with("its policy spreads it by more than clusters"),
            "{why}"
        );
        // Only its own does.
        let lacks = json!({"spec": {"region": null, "zones": null, "provider": null}});
        one.clusters.extend([cluster("west", lacks)]);
        assert_eq!(change(&mut one, spread), Ok(Doubts::default()), "{field}");
    }
}

#[test]
fn a_cluster_that_a_policy_would_not_choose_any_more_or_that_evicts_is_a_policys_change() {
    let by_label = json!({
        "clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "prod"}}},
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
    });
    let tier = |name: &str, tier: &str| cluster(name, json!({"metadata": {"labels": {"tier": tier}}}));
    let start = || {
        let mut ground = ground(by_label.clone(), &["east"]);
        ground.clusters = [tier("east", "prod"), tier("west", "prod")].into();
        ground
    };
    let write = |(name, cluster): (ClusterName, Cluster)| Write::Cluster(name, Some(Box::new(cluster)));
    let refusal = start().pass(&write(tier("east", "test")), None).unwrap_err();
    assert!(
        refusal
            .to_string()
            .contains("would stop in east and start in west from nothing"),
        "{refusal}"
    );
    assert_eq!(
        start().pass(&write(tier("east", "test")), Some(&refusal.digest)),
        Ok(Doubts::default())
    );
    // Whether its deletion is refused changes by itself: what was accepted stays so.
    let labels = json!({"tier": "test", (cutover_karmada::meta::DELETION_PROTECTED): "Always"});
    let protected = cluster("east", json!({"metadata": {"labels": labels}}));
    assert_eq!(
        start().pass(&write(protected), Some(&refusal.digest)),
        Ok(Doubts::default())
    );
    // What it doesn't run in, and what leaves it chosen, is free.
    assert_eq!(
        start().pass(&write(tier("west", "test")), None),
        Ok(Doubts::default())
    );
    let more = json!({"metadata": {"labels": {"tier": "prod", "owner": "a"}}});
    assert_eq!(
        start().pass(&write(cluster("east", more)), None),
        Ok(Doubts::default())
    );
    let taint = json!({
        "metadata": {"labels": {"tier": "prod"}},
        "spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]},
    });
    let refusal = start()
        .pass(&write(cluster("east", taint.clone())), None)
        .unwrap_err();
    assert!(refusal.to_string().contains("would stop in east"), "{refusal}");
    let mut tainted = start();
    tainted.clusters.extend([cluster("east", taint.clone())]);
    assert_eq!(
        tainted.pass(&write(cluster("east", taint)), None),
        Ok(Doubts::default()),
        "it evicts already"
    );
    let gone = Write::Cluster(ClusterName::new("east"), None);
    assert!(start().pass(&gone, None).is_err());
}

/// Karmada notes on a taint when it came, with a dry run as well: what accepts it has to be the same a minute later.
#[test]
fn the_loss_by_a_taint_is_accepted_whenever_it_is_applied() {
    let mut start = ground(one_of(&["east", "west"]), &["east"]);
    let taint = |key: &str, minute: u32| {
        let added = format!("2026-01-02T03:{minute:02}:00Z");
        let taint = json!({"key": key, "effect": "NoExecute", "timeAdded": added});
        let (name, cluster) = cluster("east", json!({"spec": {"taints": [taint]}}));
        Write::Cluster(name, Some(Box::new(cluster)))
    };
    let digest = start.judge(&taint("broken", 4), None).unwrap_err().digest;
    assert!(start.judge(&taint("other", 5), Some(&digest)).is_err());
    assert_eq!(
        start.pass(&taint("broken", 5), Some(&digest)),
        Ok(Doubts::default())
    );
}

#[test]
fn what_no_profile_speaks_of_is_told_and_holds_nothing_back() {
    let mut ground = ground(all_of(&["east"]), &["east"]);
    ground.tenants[0].state = State::Unsaid;
    let write = Write::Policy(policy_name("orders"), Some(Box::new(policy(all_of(&["west"])))));
    let told = ground.pass(&write, None).unwrap().told().unwrap();
    let says = format!(
        "{ORDERS} would stop in east and start in west from nothing; whether that loses state is not known"
    );
    assert!(told.starts_with(&says), "{told}");
    // What keeps it where it is says nothing.
    let stays = Write::Policy(policy_name("orders"), Some(Box::new(policy(all_of(&["west"])))));
    assert_eq!(ground.pass(&stays, None).unwrap().told(), None);
}

#[test]
fn what_is_only_judged_is_not_taken_in() {
    let ground = ground(all_of(&["east"]), &["east"]);
    let gone = Write::Template(workload());
    for _ in 0..2 {
        assert!(ground.judge(&gone, None).is_err());
        assert_eq!(ground.judge(&gone, Some(ACCEPT_DELETION)), Ok(Doubts::default()));
    }
}

#[test]
fn a_run_whose_state_is_elsewhere_is_not_run_twice_and_may_end() {
    let elsewhere = |runs_in: &[&str]| {
        let mut ground = ground(all_of(runs_in), runs_in);
        ground.tenants[0].state = State::Elsewhere;
        ground
    };
    let mut one = elsewhere(&["east"]);
    let write = Write::Policy(policy_name("orders"), Some(Box::new(policy(all_of(&["west"])))));
    let refusal = one.pass(&write, None).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        format!("{ORDERS} would start in west while its copy in east may still run")
    );
    assert!(
        refusal
            .hint(None)
            .contains("to accept that two copies of it may run, annotate")
    );
    assert_eq!(
        change(&mut one, all_of(&["east", "west"])).unwrap_err(),
        format!("{ORDERS} would start in west, beside east where it runs")
    );
    assert_eq!(change(&mut one, all_of(&["nowhere"])), Ok(Doubts::default()));
    assert_eq!(
        one.judge(&Write::Template(workload()), None),
        Ok(Doubts::default())
    );
    // Copies in several clusters are no single writer.
    let mut several = elsewhere(&["east", "north"]);
    assert_eq!(
        change(&mut several, all_of(&["east", "west"])),
        Ok(Doubts::default())
    );
}

/// A profile of one's own for the kind of the workload.
fn own_profile(name: &str, change: impl Fn(&mut WorkloadProfile)) -> WorkloadProfile {
    let built_in = profile::built_in().unwrap();
    let mut own = built_in[0].clone();
    own.metadata.name = Some(name.to_owned());
    own.spec.applies_to.group = "example.com".to_owned();
    own.spec.applies_to.kinds = vec!["FooDb".to_owned()];
    change(&mut own);
    own
}

#[test]
fn a_profile_that_comes_with_the_change_counts_already() {
    let kind = Gvk::new("example.com/v1", "FooDb");
    let stateful = own_profile("foodb", |_| {});
    let stateless = own_profile("foodb", |own| own.spec.stateful = false);
    let state = |live: &[&WorkloadProfile], wanted: &[&WorkloadProfile]| {
        let owned = |all: &[&WorkloadProfile]| all.iter().map(|one| (*one).clone()).collect();
        let knowledge = Knowledge {
            live: owned(live),
            wanted: owned(wanted),
            ..Knowledge::default()
        };
        knowledge.state_of(&kind).unwrap()
    };
    assert_eq!(state(&[], &[]), State::Unsaid);
    assert_eq!(state(&[], &[&stateful]), State::Kept);
    assert_eq!(state(&[&stateless], &[&stateful]), State::Kept);
    assert_eq!(state(&[&stateful], &[&stateless]), State::Kept);
    assert_eq!(state(&[&stateless], &[]), State::None);
    // Of two, the one that comes first by name does not hide what the other one says.
    let second = own_profile("second", |_| {});
    assert_eq!(state(&[&stateless, &second], &[]), State::Kept);
    assert_eq!(state(&[], &[&second, &stateless]), State::Kept);
    let unreadable = Knowledge {
        unreadable: vec![stateful.spec.applies_to.clone()],
        ..Knowledge::default()
    };
    assert_eq!(unreadable.state_of(&kind).unwrap(), State::Kept);
}

#[test]
fn a_profile_does_not_go_while_it_is_all_that_says_of_state() {
    let mut ground = ground(all_of(&["east"]), &["east"]);
    let resource = &mut ground.tenants[0].binding.spec.resource;
    (resource.api_version, resource.kind) = ("example.com/v1".to_owned(), "FooDb".to_owned());
    let own = own_profile("foodb", |_| {});
    ground.knowledge.live = vec![own.clone()];
    let gone = Write::Profile("foodb".to_owned(), None);
    let refusal = ground.judge(&gone, None).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        format!("{ORDERS} runs in east, and no profile would say any more that it has state")
    );
    assert!(
        refusal
            .hint(None)
            .contains("cutover.dev/accept-state-loss=deletion")
    );
    assert_eq!(ground.judge(&gone, Some(ACCEPT_DELETION)), Ok(Doubts::default()));
    let becomes = |change: &dyn Fn(&mut WorkloadProfile)| {
        let write = Write::Profile("foodb".to_owned(), Some(Box::new(own_profile("foodb", change))));
        ground.judge(&write, None)
    };
    assert!(becomes(&|own| own.spec.stateful = false).is_err());
    assert!(becomes(&|own| own.spec.applies_to.kinds.clear()).is_err());
    assert!(becomes(&|own| own.spec.born_held = false).is_ok());
    ground.knowledge.live.push(own_profile("other", |_| {}));
    assert_eq!(ground.judge(&gone, None), Ok(Doubts::default()));
    // One of the two may go, and not both.
    let mut both = ground.clone();
    assert_eq!(both.pass(&gone, None), Ok(Doubts::default()));
    let other = Write::Profile("other".to_owned(), None);
    assert!(both.pass(&other, None).is_err());
    // One of another kind says nothing of it.
    let other = Write::Profile("third".to_owned(), None);
    assert_eq!(ground.judge(&other, None), Ok(Doubts::default()));
}

#[test]
fn what_was_agreed_goes_first_unless_the_loss_by_the_newer_placement_is_accepted() {
    let mut ground = ground(all_of(&["east"]), &["west"]);
    ground.tenants[0].in_hand = Some(vec![ClusterName::new("west")]);
    let (agreed, wanted) = (policy(all_of(&["west"])), policy(all_of(&["north"])));
    let (name, moved) = (policy_name("orders"), [workload()]);
    let goes_first =
        |accepted: Option<&str>| driven::goes_first(&ground, &name, (&agreed, &wanted), accepted, &moved);
    assert_eq!(goes_first(None), Ok(true));
    let write = Write::Policy(name.clone(), Some(Box::new(wanted.clone())));
    let refusal = ground.judge(&write, None).unwrap_err();
    assert_eq!(goes_first(Some(&refusal.digest)), Ok(false));
    assert_eq!(goes_first(Some("another")), Ok(true));
}
