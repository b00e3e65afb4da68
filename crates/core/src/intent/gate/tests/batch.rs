//! What is sent together, and what waits for its turn.

use super::*;

fn pass(batch: &mut Batch, name: &PolicyName, spec: Option<PropagationSpec>) -> Result<Doubts, NotSent> {
    let write = Write::Policy(name.clone(), spec.map(Box::new));
    batch.pass(&name.key(), &write, None)
}

fn of_the_control_plane(name: &str) -> PolicyName {
    PolicyName {
        namespace: None,
        name: name.to_owned(),
    }
}

/// The policy `orders`, once it has let go of the workload.
fn without_it() -> PropagationSpec {
    let another = json!([{
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkDeployment",
        "namespace": "shop",
        "name": "another",
    }]);
    policy_with(one_of(&["east"]), json!({"resourceSelectors": another}))
}

fn east() -> Ground {
    ground(one_of(&["east"]), &["east"])
}

#[test]
fn a_workload_is_let_go_once_the_policy_that_takes_it_up_is_written_and_not_together_with_it() {
    let (own, next) = (policy_name("orders"), policy_name("next"));
    let mut read = east();
    read.policies
        .insert(of_the_control_plane("all"), policy_of_all(&["north"]));
    let mut batch = Batch::new(read.clone());
    let taker = || policy(one_of(&["east"]));
    assert_eq!(pass(&mut batch, &next, Some(taker())), Ok(Doubts::default()));
    assert_eq!(
        pass(&mut batch, &own, Some(without_it())),
        Err(NotSent::After(next.key()))
    );
    read.policies.insert(next, taker());
    assert_eq!(
        pass(&mut Batch::new(read), &own, Some(without_it())),
        Ok(Doubts::default())
    );
}

/// Without `orders`, the first of the others would have it, and then the second one, each in its cluster.
#[test]
fn the_policy_that_has_a_workload_goes_when_others_that_go_with_it_have_gone() {
    let own = policy_name("orders");
    for others in [&["north"][..], &["east"], &["east", "north"], &["north", "east"]] {
        let mut read = east();
        read.policies
            .insert(of_the_control_plane("all"), policy_of_all(&["east"]));
        let names: Vec<PolicyName> = others.iter().map(|cluster| policy_name(cluster)).collect();
        let mut priority = 10;
        for (name, cluster) in names.iter().zip(others) {
            let mut spec = policy_of_all(&[*cluster]);
            spec.priority = priority;
            priority -= 1;
            read.policies.insert(name.clone(), spec);
        }
        let mut batch = Batch::new(read);
        for name in &names {
            assert_eq!(pass(&mut batch, name, None), Ok(Doubts::default()), "{others:?}");
        }
        let last = names.last().unwrap().key();
        assert_eq!(
            pass(&mut batch, &own, None),
            Err(NotSent::After(last)),
            "{others:?}"
        );
    }
}

/// Both together leave the workload where it is, and the second one alone would move it.
#[test]
fn a_change_that_is_harmless_by_an_earlier_one_alone_waits_for_that() {
    let own = policy_name("orders");
    let mut read = east();
    let other = policy_name("other");
    let with = |clusters: &[&str], priority: i32| {
        let mut spec = taker(clusters, true);
        spec.priority = priority;
        spec
    };
    let mut low = policy(one_of(&["east"]));
    low.priority = 5;
    read.policies.insert(own.clone(), low.clone());
    read.policies.insert(other.clone(), with(&["north"], 1));
    let mut high = low;
    high.priority = 20;
    let mut batch = Batch::new(read.clone());
    assert_eq!(pass(&mut batch, &own, Some(high)), Ok(Doubts::default()));
    let after = Err(NotSent::After(own.key()));
    assert_eq!(pass(&mut batch, &other, Some(with(&["north"], 10))), after);
    let alone = pass(&mut Batch::new(read), &other, Some(with(&["north"], 10)));
    assert!(matches!(alone, Err(NotSent::Refused(_))), "{alone:?}");
}

#[test]
fn policies_of_different_workloads_and_other_placements_of_one_go_together() {
    let own = policy_name("orders");
    let mut batch = Batch::new(east());
    assert_eq!(
        pass(&mut batch, &policy_name("next"), Some(without_it())),
        Ok(Doubts::default())
    );
    assert_eq!(
        pass(
            &mut batch,
            &of_the_control_plane("all"),
            Some(policy_of_all(&["north"]))
        ),
        Ok(Doubts::default())
    );
    // It has the workload as before.
    let wider = policy(one_of(&["east", "west"]));
    assert_eq!(pass(&mut batch, &own, Some(wider)), Ok(Doubts::default()));
}

#[test]
fn a_kind_is_handed_to_another_profile_once_that_is_written() {
    let mut read = ground(all_of(&["east"]), &["east"]);
    let resource = &mut read.tenants[0].binding.spec.resource;
    (resource.api_version, resource.kind) = ("example.com/v1".to_owned(), "FooDb".to_owned());
    let none = own_profile("other", |own| own.spec.applies_to.kinds.clear());
    read.knowledge.live = vec![own_profile("foodb", |_| {}), none];
    let key = |name: &str| ObjectKey {
        group: GROUP.to_owned(),
        kind: "WorkloadProfile".to_owned(),
        namespace: None,
        name: name.to_owned(),
    };
    let mut batch = Batch::new(read);
    let takes = Write::Profile("other".to_owned(), Some(Box::new(own_profile("other", |_| {}))));
    assert_eq!(batch.pass(&key("other"), &takes, None), Ok(Doubts::default()));
    let gone = Write::Profile("foodb".to_owned(), None);
    assert_eq!(
        batch.pass(&key("foodb"), &gone, None),
        Err(NotSent::After(key("other")))
    );
}
