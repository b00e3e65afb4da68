//! What the gate says of kinds that cannot be moved with their state.

use super::*;
use crate::profile::IMMOVABLE;

fn state(given: &[WorkloadProfile], group: &str, kind: &str, unknown: UnknownKinds) -> State {
    let gvk = Gvk::new(&format!("{group}/v1"), kind);
    state_of(given, &gvk, unknown).unwrap()
}

/// orders is of this kind, as far as a loss names it; where it goes is judged as of any other one.
fn ground_of(group: &str, kind: &str) -> Ground {
    let mut ground = ground(one_of(&["east"]), &["east"]);
    let tenant = &mut ground.tenants[0];
    tenant.workload.group = group.to_owned();
    tenant.workload.kind = kind.to_owned();
    tenant.state = state(&[], group, kind, UnknownKinds::Pass);
    ground
}

fn profile_of(group: &str, kind: &str, is_stateful: bool) -> WorkloadProfile {
    own_profile("own", |own| {
        own.spec.applies_to.group = group.to_owned();
        own.spec.applies_to.kinds = vec![kind.to_owned()];
        own.spec.stateful = is_stateful;
    })
}

fn to_west() -> (PropagationSpec, Write) {
    let west = policy(one_of(&["west"]));
    let write = Write::Policy(policy_name("orders"), Some(Box::new(west.clone())));
    (west, write)
}

#[test]
fn each_of_them_has_the_state_that_is_known_unless_a_profile_says_otherwise() {
    for known in IMMOVABLE {
        for kind in known.kinds {
            let of = |unknown| state(&[], known.group, kind, unknown);
            let expected = match known.state {
                Some(StateAt::Copy) => State::Kept,
                Some(StateAt::Elsewhere) => State::Elsewhere,
                None => State::Unsaid,
            };
            assert_eq!(of(UnknownKinds::Pass), expected, "{kind}");
            let is_kubernetes = known.group == "batch" || known.group.ends_with(".k8s.io");
            let blocked = if is_kubernetes { expected } else { State::Kept };
            assert_eq!(of(UnknownKinds::Block), blocked, "{kind}");
            let stateless = [profile_of(known.group, kind, false)];
            let said = state(&stateless, known.group, kind, UnknownKinds::Pass);
            assert_eq!(said, State::None, "{kind}");
        }
    }
    assert_eq!(
        state(&[], "k8s.mariadb.com", "MariaDB", UnknownKinds::Pass),
        State::Kept
    );
    assert_eq!(
        state(&[], "argoproj.io", "CronWorkflow", UnknownKinds::Pass),
        State::Elsewhere
    );
}

#[test]
fn a_policy_that_would_move_one_is_held_back_with_the_reason_and_what_can_be_done() {
    let why = "MariaDB cannot be moved with its state: a site is primary if its name says so, and Karmada gives both copies one name";
    let mut ground = ground_of("k8s.mariadb.com", "MariaDB");
    let (_, write) = to_west();
    let refusal = ground.judge(&write, None).unwrap_err();
    let lost = "MariaDB shop/orders would stop in east and start in west from nothing";
    assert_eq!(refusal.to_string(), format!("{lost}; {why}"));
    let hint = refusal.hint(None);
    assert!(
        hint.starts_with("it would take a field of its operator"),
        "{hint}"
    );
    assert!(hint.contains("restore a backup of it there"), "{hint}");
    let accepts =
        format!("to accept the loss of its state, annotate the object in Git with {ACCEPT_ANNOTATION}: ");
    assert!(
        hint.contains(&accepts) && !hint.contains("cutover migrate"),
        "{hint}"
    );
    assert!(ground.judge(&write, Some(&refusal.digest)).is_ok());
    // With a profile of one's own a Migration carries it.
    ground.knowledge.live = vec![profile_of("k8s.mariadb.com", "MariaDB", true)];
    let refusal = ground.judge(&write, None).unwrap_err();
    assert_eq!(refusal.to_string(), lost);
    assert!(
        refusal.hint(None).contains("cutover migrate MariaDB/orders"),
        "{}",
        refusal.hint(None)
    );
}

#[test]
fn a_tick_is_not_run_in_two_clusters() {
    let ground = ground_of("argoproj.io", "CronWorkflow");
    let (_, write) = to_west();
    let refusal = ground.judge(&write, None).unwrap_err().to_string();
    let says = "CronWorkflow shop/orders would start in west while its copy in east may still run; CronWorkflow cannot be moved with its state: ";
    assert!(refusal.starts_with(says), "{refusal}");
    // It takes nothing along.
    let gone = Write::Template(ground.tenants[0].workload.clone());
    assert_eq!(ground.judge(&gone, None), Ok(Doubts::default()));
}

#[test]
fn what_a_migration_carries_is_moved_before_the_loss_of_the_rest_is_accepted() {
    let (mut both, _) = two_of_one_policy();
    let bills = &mut both.tenants[1];
    bills.workload.group = "argoproj.io".to_owned();
    bills.workload.kind = "CronWorkflow".to_owned();
    bills.state = state(&[], "argoproj.io", "CronWorkflow", UnknownKinds::Pass);
    let west = Box::new(policy_of_all(&["west"]));
    let write = Write::Policy(policy_name("orders"), Some(west));
    let hint = both.judge(&write, None).unwrap_err().hint(None);
    let says = "move FlinkDeployment shop/orders first (a Migration carries its state: cutover migrate FlinkDeployment/orders --namespace \
                shop --to west), then push again; CronWorkflow shop/bills: it would take ";
    assert!(hint.starts_with(says), "{hint}");
    both.tenants.remove(1);
    let hint = both.judge(&write, None).unwrap_err().hint(None);
    assert!(hint.starts_with("a Migration carries its state: "), "{hint}");
}

/// The finding about a `KafkaConnect` whose connectors the target lacks asks for that.
#[test]
fn one_more_cluster_for_kafka_connectors_passes() {
    let ground = ground_of("kafka.strimzi.io", "KafkaConnector");
    let both = policy(all_of(&["east", "west"]));
    let write = Write::Policy(policy_name("orders"), Some(Box::new(both)));
    let told = ground.judge(&write, None).unwrap().told().unwrap();
    assert!(told.contains("whether that loses state is not known"), "{told}");
    let mirror = ground_of("kafka.strimzi.io", "KafkaMirrorMaker2");
    assert!(mirror.judge(&write, None).is_err());
}

#[test]
fn a_kafka_connect_is_moved_by_the_policy_that_has_its_connectors_too() {
    let (mut both, _) = two_of_one_policy();
    for (tenant, kind) in both.tenants.iter_mut().zip(["KafkaConnect", "KafkaConnector"]) {
        tenant.workload.group = "kafka.strimzi.io".to_owned();
        tenant.workload.kind = kind.to_owned();
        tenant.state = state(&[], "kafka.strimzi.io", kind, UnknownKinds::Pass);
    }
    let west = policy_of_all(&["west"]);
    let orders = policy_name("orders");
    let write = Write::Policy(orders.clone(), Some(Box::new(west.clone())));
    let refusal = both.judge(&write, None).unwrap_err();
    let (change, to_be) = ((&orders, Some(&west)), |_: &Tenant| None);
    let called = driven::called_for(&both, &refusal, change, &Migrations::default(), to_be, |_, _| {
        false
    });
    let called: Vec<String> = called
        .unwrap()
        .into_iter()
        .map(|called| called.workload.name)
        .collect();
    assert_eq!(called, ["orders"]);
}

#[test]
fn what_would_run_beside_itself_is_told_what_helps_every_kind() {
    let ground = ground_of("k8s.mariadb.com", "MariaDB");
    let both = Write::Policy(
        policy_name("orders"),
        Some(Box::new(policy(all_of(&["east", "west"])))),
    );
    let refusal = ground.judge(&both, None).unwrap_err();
    assert!(!refusal.to_string().contains("cannot be moved"), "{refusal}");
    assert!(
        refusal
            .hint(None)
            .starts_with("let the policy choose one cluster"),
        "{}",
        refusal.hint(None)
    );
}

#[test]
fn no_migration_is_called_for_of_what_cannot_be_moved() {
    let mut ground = ground_of("k8s.mariadb.com", "MariaDB");
    let (orders, (west, write)) = (policy_name("orders"), to_west());
    let called = |ground: &Ground| {
        let refusal = ground.judge(&write, None).unwrap_err();
        let (change, to_be) = ((&orders, Some(&west)), |_: &Tenant| None);
        driven::called_for(ground, &refusal, change, &Migrations::default(), to_be, |_, _| {
            false
        })
    };
    let why = called(&ground).unwrap_err();
    assert_eq!(why, "MariaDB shop/orders: no profile says how it is moved");
    ground.knowledge.live = vec![profile_of("k8s.mariadb.com", "MariaDB", true)];
    assert_eq!(called(&ground).unwrap()[0].to.as_str(), "west");
}

/// Nor for the others of the same change: that would go half the way.
#[test]
fn no_migration_is_called_for_of_what_its_profile_does_not_move_as_it_is() {
    let mut ground = ground(one_of(&["east"]), &["east"]);
    ground.tenants[0].template["spec"] = json!({});
    let (orders, (west, write)) = (policy_name("orders"), to_west());
    let refusal = ground.judge(&write, None).unwrap_err();
    let (change, to_be) = ((&orders, Some(&west)), |_: &Tenant| None);
    let called = driven::called_for(
        &ground,
        &refusal,
        change,
        &Migrations::default(),
        to_be,
        |_, _| false,
    );
    let why = called.unwrap_err();
    let says = "FlinkDeployment shop/orders: it cannot be moved as it is: it is a session cluster (it has no spec.job)";
    assert!(why.starts_with(says), "{why}");
}
