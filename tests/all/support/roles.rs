//! The roles that come along, held to what the controllers of all tests ask for.

use std::collections::BTreeSet;

use cutover::sandbox::traffic::Traffic;
use serde_json::Value;

/// Of members, of the kinds that somebody moves (docs/rbac.md says who is to allow that), and what `init` asks for in the name of
/// a person.
const OTHERS: [&str; 11] = [
    "flinkdeployments",
    "deployments",
    "streams",
    "canaries",
    "pods",
    "nodes",
    "",
    "namespaces/finalize",
    "selfsubjectreviews",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

/// Dropped, it fails if something was asked for that the roles don't allow.
pub struct Suffice(pub Traffic);

impl Drop for Suffice {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let lacking = lacking(&self.0);
            assert!(lacking.is_empty(), "deploy/rbac.yaml lacks {lacking:?}");
        }
    }
}

/// Returns what was asked for in the name of the service account that no role of it allows.
pub fn lacking(traffic: &Traffic) -> BTreeSet<String> {
    let allowed = allowed();
    let lacking = std::cell::RefCell::new(BTreeSet::new());
    traffic.count(|asked| {
        let ours = asked.user == "cutover" && !OTHERS.contains(&asked.resource.as_str());
        // Its own namespace, where nobody has made it.
        let once_only = asked.verb == "create" && asked.resource == "namespaces";
        if ours && !once_only && !allowed.contains(&(asked.resource.clone(), asked.verb.to_owned())) {
            let missing = format!("{} {}", asked.verb, asked.resource);
            lacking.borrow_mut().insert(missing);
        }
        false
    });
    lacking.into_inner()
}

/// Returns the pairs of resource and verb that the roles of the service account allow; of a subresource, the resource.
fn allowed() -> BTreeSet<(String, String)> {
    let text = include_str!("../../../deploy/rbac.yaml");
    let roles = text
        .split("\n---\n")
        .map(|document| serde_yaml::from_str::<Value>(document).unwrap());
    let mut allowed = BTreeSet::new();
    for role in roles.filter(|role| role["metadata"]["name"] != "cutover-install") {
        for rule in role["rules"].as_array().into_iter().flatten() {
            for resource in rule["resources"].as_array().unwrap() {
                for verb in rule["verbs"].as_array().unwrap() {
                    let resource = resource.as_str().unwrap().split('/').next().unwrap();
                    allowed.insert((resource.to_owned(), verb.as_str().unwrap().to_owned()));
                }
            }
        }
    }
    allowed
}
