//! What the tool writes is valid as published, and valid here: pins of every shape, and all that a migration does.

use std::sync::Arc;

use cutover::api::{PatchOp, Phase};
use cutover::intent::pin::{Authority, Named, Pin, PinWrite, Says, Token, Writer};
use cutover::karmada::{OverridePolicy, meta};
use cutover::name::ClusterName;
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::WorldOptions;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ours, published, schema};
use crate::support::fleet::Fleet;

const POLICIES: &str = "overridepolicies.policy.karmada.io";

fn cluster() -> impl Strategy<Value = ClusterName> {
    "[a-z]{1,3}".prop_map(|name| ClusterName::from(name.as_str()))
}

fn patches() -> impl Strategy<Value = Vec<PatchOp>> {
    let value = prop_oneof![
        Just(json!("suspended")),
        Just(json!(7)),
        Just(json!(false)),
        Just(json!(null)),
        Just(json!({"a": {"b": [1, null]}})),
    ];
    let patch = ("(/[a-z~]{1,4}){1,3}", value, 0..3).prop_map(|(path, value, op)| match op {
        0 => PatchOp::add(path, value),
        1 => PatchOp {
            op: "replace".to_owned(),
            ..PatchOp::add(path, value)
        },
        _ => PatchOp {
            op: "remove".to_owned(),
            value: None,
            ..PatchOp::add(path, value)
        },
    });
    proptest::collection::vec(patch, 0..4)
}

fn named() -> impl Strategy<Value = Named> {
    (patches(), patches()).prop_map(|(hold, suspend)| Named { hold, suspend })
}

fn leaderships() -> impl Strategy<Value = Writer> {
    prop_oneof![
        Just(Writer::Nobody),
        cluster().prop_map(Writer::Only),
        cluster().prop_map(|carrier| Writer::Shared { carrier }),
    ]
}

prop_compose! {
    fn pins()(
        may_run in leaderships(),
        hold in patches(), suspend in patches(), carry in patches(),
        suspended in proptest::collection::vec(cluster(), 0..3),
        named in proptest::collection::btree_map(cluster(), named(), 0..3),
        marker in "[a-z0-9.]{1,20}",
    ) -> Pin {
        Pin {
            namespace: Some("shop".into()), name: "zzzz-cutover-orders".into(), owner_uid: "uid".into(),
            owner: "Migration shop/a".into(),
            api_version: "flink.apache.org/v1beta1".into(), versions: Arc::default(), kind: "FlinkDeployment".into(),
            workload: "orders".into(), marker,
            differences: Vec::new(), created: Vec::new(),
            says: Says::Token(Token { may_run, hold, suspended, suspend, named, carry }),
        }
    }
}

/// Returns a pin as it is sent. What is around the rules is the same for all, and takes no proof where it says nothing.
fn sent(pin: &Pin) -> OverridePolicy {
    let silent = Pin {
        says: Says::Differences(Vec::new()),
        ..pin.clone()
    };
    let written = PinWrite::new(&silent, None, Authority::Nobody).unwrap();
    let mut policy = written.policy().clone();
    policy.spec = pin.spec();
    policy
}

#[test]
fn pins_are_valid_as_published_and_read_back_as_they_were_written() {
    let Some(published) = published("pins as published") else {
        return;
    };
    let schemas = [schema(&published[POLICIES]), schema(&ours()[POLICIES])];
    proptest!(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }, |(pin in pins())| {
        let policy = serde_json::to_value(sent(&pin)).unwrap();
        for schema in &schemas {
            prop_assert_eq!(schema.validate(&policy, None), vec![]);
            prop_assert_eq!(schema.unknown_fields(&policy), Vec::<String>::new());
            let mut stored = policy.clone();
            schema.fill_defaults(&mut stored);
            schema.drop_nulls(&mut stored);
            let read: OverridePolicy = serde_json::from_value(stored).unwrap();
            prop_assert!(pin.is_written_as(&read), "{}", policy);
        }
    });
}

/// The published definitions take the place of the sandbox's, in the control plane and in the members.
#[tokio::test(start_paused = true)]
async fn a_migration_goes_its_way_under_the_published_definitions() {
    let Some(published) = published("a migration under the published definitions") else {
        return;
    };
    let fleet = Fleet::start(WorldOptions::default()).await;
    let members = ["east", "west", "north"].map(|name| fleet.world.member(name).api.clone());
    for (name, definition) in &published {
        fleet.world.control_plane().install(definition).unwrap();
        if name.starts_with("flinkdeployments") {
            for member in &members {
                member.install(definition).unwrap();
            }
        }
    }
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate("orders-to-west", "west");
    assert_eq!(
        fleet.ended("orders-to-west").await,
        Phase::Completed,
        "{:#}",
        fleet.status("orders-to-west")
    );
    fleet.assert_clean_in("west");
    let status: &Value = &fleet.copy("west").unwrap()["status"];
    assert_eq!(status["lifecycleState"], "STABLE");
    assert!(fleet.binding()["metadata"]["annotations"][meta::APPLIED_PLACEMENT].is_string());
}
