//! What keeps copies from running where the patches of a profile name their cluster. A pin says what it says of clusters that nobody
//! thought of, too: of those it knows no name, and of those that its intent is about it says the name on top.

use std::collections::BTreeMap;

use crate::api::PatchOp;
use crate::profile::{Action, ELSEWHERE, Error, Profile, Site, Variables};
use cutover_karmada::name::{ClusterName, ObjectKey};

/// What one cluster gets that is called by its name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Named {
    /// On top of the hold of all; empty where that names no cluster.
    pub hold: Vec<PatchOp>,
    /// Instead of what stops the others; empty where that names no cluster.
    pub suspend: Vec<PatchOp>,
}

/// The patches that hold copies, and stop them.
#[derive(Clone, Debug, PartialEq)]
pub struct Holds {
    pub hold: Vec<PatchOp>,
    pub suspend: Vec<PatchOp>,
    pub named: BTreeMap<ClusterName, Named>,
}

impl Holds {
    /// Fills in the patches of a profile: for all, and for these clusters by name. As long as a sequence lasts they are the same
    /// ones, whoever has the token.
    pub fn of<'c>(
        profile: &Profile,
        variables: &Variables<'_>,
        workload: &ObjectKey,
        clusters: impl IntoIterator<Item = &'c ClusterName>,
    ) -> Result<Self, Error> {
        let fill = |action: Action, cluster: &str| {
            let site = Some(Site::new(workload, cluster));
            profile.patches(action, &Variables { site, ..*variables })
        };
        let hold = fill(Action::Hold, ELSEWHERE)?;
        let suspend = fill(Action::Suspend, ELSEWHERE)?;
        let mut named = BTreeMap::new();
        for cluster in clusters {
            let mut here = Named {
                hold: on_top(&hold, &fill(Action::Hold, cluster.as_str())?),
                suspend: fill(Action::Suspend, cluster.as_str())?,
            };
            if here.suspend == suspend {
                here.suspend.clear();
            }
            if here != Named::default() {
                named.insert(cluster.clone(), here);
            }
        }
        Ok(Self { hold, suspend, named })
    }
}

/// Returns what makes the patches of one cluster of those of all, once these were applied. What they set is replaced: added again,
/// an item of a list would be there twice. What is set within it follows.
fn on_top(all: &[PatchOp], here: &[PatchOp]) -> Vec<PatchOp> {
    let mut differs: Vec<PatchOp> = Vec::new();
    for (everywhere, patch) in all.iter().zip(here) {
        if everywhere != patch {
            differs.push(PatchOp {
                op: "replace".to_owned(),
                ..patch.clone()
            });
        } else if differs.iter().any(|above| is_within(&patch.path, &above.path)) {
            differs.push(patch.clone());
        }
    }
    differs
}

/// Returns whether a path is another one, or leads through it.
fn is_within(path: &str, other: &str) -> bool {
    let rest = path.strip_prefix(other);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{MARKER_ANNOTATION, Pin, Says, Token, Writer, marker, writer_of};
    use super::*;
    use crate::profile::built_in;
    use cutover_karmada::{Cluster, ClusterOverridePolicy, ClusterSpec, overrides};

    /// A database that takes part in a replication by the name of its cluster.
    fn profile() -> Profile {
        let mut spec = built_in().unwrap()[0].spec.clone();
        spec.hold = vec![
            PatchOp::add("/spec/replica", json!({"self": "${cluster}", "primary": "none"})),
            PatchOp::add("/spec/id", "${namespace}/${name}"),
            PatchOp::add("/spec/args/0", "--at=${cluster}"),
            PatchOp::add("/spec/stopped", true),
        ];
        spec.suspend = vec![
            PatchOp::add("/spec/stopped", true),
            PatchOp::add("/spec/server", "${name}-${cluster}"),
        ];
        Profile::compile("database", &spec).unwrap()
    }

    fn orders() -> ObjectKey {
        ObjectKey {
            group: "db.example.org".to_owned(),
            kind: "Database".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "orders".to_owned(),
        }
    }

    fn template() -> Value {
        json!({
            "apiVersion": "db.example.org/v1", "kind": "Database",
            "metadata": {"namespace": "shop", "name": "orders", "annotations": {}},
            "spec": {"args": ["--verbose"]},
        })
    }

    fn pin(may_run: Writer) -> Pin {
        let clusters = ["east", "west"].map(ClusterName::from);
        let Holds { hold, suspend, named } =
            Holds::of(&profile(), &Variables::default(), &orders(), &clusters).unwrap();
        Pin {
            namespace: Some("shop".into()),
            name: "zzzz-cutover-orders".into(),
            owner_uid: "uid".into(),
            owner: "Migration shop/orders-to-west".into(),
            api_version: "db.example.org/v1".into(),
            versions: std::sync::Arc::default(),
            kind: "Database".into(),
            workload: "orders".into(),
            marker: marker("uid", 1, 2),
            differences: Vec::new(),
            created: Vec::new(),
            says: Says::Token(Token {
                may_run,
                hold,
                suspended: vec!["east".into()],
                suspend,
                named,
                carry: Vec::new(),
            }),
        }
    }

    fn copy(pin: &Pin, cluster: &str) -> Value {
        let none: [ClusterOverridePolicy; 0] = [];
        let cluster = Cluster::new(cluster, ClusterSpec::default());
        overrides::effective(&template(), &cluster, &none, &[pin.policy()]).unwrap()
    }

    #[test]
    fn each_copy_is_held_under_the_name_of_its_cluster_and_one_that_nobody_thought_of_under_none() {
        let pin = pin(Writer::Nobody);
        for (cluster, name) in [("east", "east"), ("west", "west"), ("north", ELSEWHERE)] {
            let copy = copy(&pin, cluster);
            let replica = json!({"self": name, "primary": "none"});
            assert_eq!(copy["spec"]["replica"], replica, "{cluster}");
            assert_eq!(copy["spec"]["id"], "shop/orders", "{cluster}");
            let args = json!([format!("--at={name}"), "--verbose"]);
            assert_eq!(copy["spec"]["args"], args, "{cluster}");
            assert!(profile().carries_hold(&copy, &cluster.into()), "{cluster}");
        }
        assert_eq!(copy(&pin, "east")["spec"]["server"], "orders-east");
        assert_eq!(copy(&pin, "west")["spec"]["server"], Value::Null);
    }

    #[test]
    fn a_copy_with_the_name_of_another_cluster_does_not_carry_the_hold() {
        let held_in_east = copy(&pin(Writer::Nobody), "east");
        assert!(!profile().carries_hold(&held_in_east, &"west".into()));
        let mut of_another = held_in_east.clone();
        of_another["metadata"]["name"] = json!("invoices");
        assert!(!profile().carries_hold(&of_another, &"east".into()));
        // Half of one and half of the other is what no pin says.
        let mut mixed = held_in_east;
        mixed["spec"]["args"][0] = json!(format!("--at={ELSEWHERE}"));
        assert!(!profile().carries_hold(&mixed, &"east".into()));
    }

    #[test]
    fn who_may_run_is_held_under_no_name() {
        let pin = pin(Writer::Only("west".into()));
        let west = copy(&pin, "west");
        assert_eq!(west["spec"], template()["spec"]);
        assert!(west["metadata"]["annotations"].get(MARKER_ANNOTATION).is_some());
        assert!(profile().carries_hold(&copy(&pin, "east"), &"east".into()));
        // The hold of all comes first: who reads a pin goes by that.
        let live = pin.policy();
        let target = writer_of(&live)[0].target_cluster.as_ref().unwrap();
        assert_eq!(
            target.exclude.as_deref(),
            Some([ClusterName::from("west")].as_slice())
        );
    }

    #[test]
    fn what_is_set_within_what_names_a_cluster_is_set_again() {
        let patches = |name: &str| {
            [
                PatchOp::add("/spec/replica", json!({"self": name})),
                PatchOp::add("/spec/replica/source", "none"),
                PatchOp::add("/spec/replicas", 0),
            ]
        };
        let replace = PatchOp {
            op: "replace".to_owned(),
            ..patches("east")[0].clone()
        };
        let on_top = on_top(&patches(ELSEWHERE), &patches("east"));
        assert_eq!(on_top, [replace, patches("east")[1].clone()]);
    }

    #[test]
    fn where_no_cluster_is_named_a_pin_says_what_it_always_said() {
        let flink = Profile::compile("flink", &built_in().unwrap()[0].spec).unwrap();
        let clusters = ["east", "west"].map(ClusterName::from);
        let holds = Holds::of(&flink, &Variables::default(), &orders(), &clusters).unwrap();
        assert_eq!(holds.hold, flink.spec().hold);
        assert_eq!(holds.suspend, flink.spec().suspend);
        assert!(holds.named.is_empty());
    }
}
