//! Names of clusters that are probably misspelt. Which clusters there are only a control plane knows; that one object alone names
//! a cluster, and others one that differs by a slip of a key, the files say themselves.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::api::GROUP;
use crate::finding::{Code, Finding};
use crate::intent::requested;
use crate::manifest::{Manifest, Set};
use cutover_base::nearest::distance;

const POLICIES: &str = "policy.karmada.io";

/// Beyond so many names, comparing each with each isn't worth its time.
const MOST_NAMES: usize = 500;

/// Where a cluster is named.
struct Mention<'a> {
    object: &'a Manifest,
    /// A JSON pointer.
    at: String,
}

impl Mention<'_> {
    fn is_in_policy(&self) -> bool {
        self.object.key.group == POLICIES
    }
}

type Mentions<'a> = BTreeMap<&'a str, Vec<Mention<'a>>>;

/// Adds a finding for each misspelt name that has none yet.
pub(super) fn check(set: &Set, findings: &mut Vec<Finding>) {
    let mentions = mentions(set);
    if mentions.len() > MOST_NAMES {
        return;
    }
    let defined: BTreeSet<&str> = set
        .of_kind("cluster.karmada.io", "Cluster")
        .map(|cluster| cluster.key.name.as_str())
        .collect();
    for (name, at) in &mentions {
        let [only] = at.as_slice() else { continue };
        let place = only.object.location(&only.at);
        let is_told = || {
            findings
                .iter()
                .any(|finding| finding.location.as_ref() == Some(&place))
        };
        if defined.contains(name) || is_told() {
            continue;
        }
        if let Some(meant) = meant(name, only, &mentions, &defined) {
            let message = format!("no object but {} names a cluster {name}", only.object.key);
            let hint = format!("did you mean {meant}?");
            findings.push(Finding::new(Code::UnknownCluster, place, message).hint(hint));
        }
    }
}

/// Returns the name that others use for what one object calls by nearly that name.
fn meant<'a>(
    name: &str,
    only: &Mention<'_>,
    mentions: &Mentions<'a>,
    defined: &BTreeSet<&'a str>,
) -> Option<&'a str> {
    let is_used = |others: &[Mention<'_>]| {
        let by_policy = others.iter().any(Mention::is_in_policy);
        others.len() > 1 || by_policy && !only.is_in_policy()
    };
    let used = mentions.iter().filter(|(_, others)| is_used(others));
    let mut all = defined.iter().copied().chain(used.map(|(other, _)| *other));
    all.find(|other| is_slip(name, other))
}

/// Returns the first place in each object that names a cluster.
fn mentions(set: &Set) -> Mentions<'_> {
    let mut all = Mentions::new();
    for object in set.definitions() {
        let fields = match object.key.group.as_str() {
            GROUP if object.key.kind != "WorkloadProfile" => INTENTS,
            POLICIES => POLICY,
            _ => &[],
        };
        let mut names = BTreeMap::new();
        if let Some(target) = requested::target_of(&object.value) {
            names.insert(target, requested::pointer());
        }
        if let Some(spec) = object.value.get("spec").filter(|_| !fields.is_empty()) {
            collect(spec, "/spec", fields, &mut names);
        }
        for (name, at) in names {
            all.entry(name).or_default().push(Mention { object, at });
        }
    }
    all
}

/// The fields of intents and of policies that name clusters: one, or a list.
const INTENTS: &[&str] = &["cluster", "clusters", "from", "order", "suspend", "to"];
const POLICY: &[&str] = &["clusterNames", "exclude"];

fn collect<'a>(value: &'a Value, at: &str, fields: &[&str], names: &mut BTreeMap<&'a str, String>) {
    match value {
        Value::Object(inner) => {
            for (field, value) in inner {
                let at = format!("{at}/{field}");
                if fields.contains(&field.as_str()) {
                    named(value, &at, names);
                }
                collect(value, &at, fields, names);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, &format!("{at}/{index}"), fields, names);
            }
        }
        _ => {}
    }
}

fn named<'a>(value: &'a Value, at: &str, names: &mut BTreeMap<&'a str, String>) {
    match value {
        Value::String(name) => {
            names.entry(name).or_insert_with(|| at.to_owned());
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate().filter(|(_, item)| item.is_string()) {
                named(item, &format!("{at}/{index}"), names);
            }
        }
        _ => {}
    }
}

/// Tells whether two names differ by one slip of a key in a word of some length. `east-1` and `east-2`, `prod-a` and `prod-b` are
/// names of their own.
fn is_slip(one: &str, other: &str) -> bool {
    if one.len().abs_diff(other.len()) > 1 {
        return false;
    }
    let (one, other) = (one.split(['-', '.']), other.split(['-', '.']));
    let mut different = one.clone().zip(other.clone()).filter(|(one, other)| one != other);
    let (Some((a, b)), None) = (different.next(), different.next()) else {
        return false;
    };
    let digits = |word: &str| word.chars().filter(char::is_ascii_digit).collect::<String>();
    let is_long = a.len().min(b.len()) > 3;
    is_long && one.count() == other.count() && digits(a) == digits(b) && distance(a, b) == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Limits, Source, parse};

    fn policy(name: &str, clusters: &str) -> String {
        format!(
            "---\napiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: {name}, namespace: shop}}\n\
             spec: {{placement: {{clusterAffinity: {{clusterNames: [{clusters}]}}}}}}\n"
        )
    }

    fn migration(to: &str) -> String {
        format!(
            "---\napiVersion: cutover.dev/v1alpha1\nkind: Migration\nmetadata: {{name: m, namespace: shop}}\nspec:\n  to: {to}\n"
        )
    }

    fn check_text(text: &str) -> String {
        let mut set = Set::new();
        set.update(
            "a.yaml",
            parse(Source::new("a.yaml"), text.as_bytes(), &Limits::default()),
        );
        let mut findings = Vec::new();
        check(&set, &mut findings);
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        lines.join("\n")
    }

    #[test]
    fn an_intent_with_a_slip_in_the_name_of_a_policys_cluster_is_found() {
        insta::assert_snapshot!(check_text(&(migration("wset") + &policy("p", "west, east"))), @"
        warning[CUT0117]: no object but Migration shop/m names a cluster wset
          --> a.yaml:6:7
        hint: did you mean west?
        ");
    }

    #[test]
    fn a_template_that_asks_for_a_slip_is_found() {
        let asks = "---\napiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: db\n  namespace: shop\n  annotations: \
                    {karmada.io/migration-target: wset}\n";
        insta::assert_snapshot!(check_text(&(asks.to_owned() + &policy("p", "west, east"))), @"
        warning[CUT0117]: no object but StatefulSet shop/db names a cluster wset
          --> a.yaml:7:46
        hint: did you mean west?
        ");
    }

    #[test]
    fn a_policy_with_a_slip_is_found_where_others_agree() {
        let two = policy("a", "west") + &policy("b", "wesst");
        assert_eq!(check_text(&two), "", "either may be right");
        insta::assert_snapshot!(check_text(&(two + &policy("c", "west"))), @"
        warning[CUT0117]: no object but PropagationPolicy shop/b names a cluster wesst
          --> a.yaml:10:53
        hint: did you mean west?
        ");
    }

    #[test]
    fn a_cluster_that_is_defined_or_named_by_several_is_no_slip() {
        let cluster = "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: wset}\n";
        let policies = policy("a", "west") + &policy("b", "west");
        assert_eq!(check_text(&(migration("wset") + &policies + cluster)), "");
        assert_eq!(
            check_text(&(migration("wset") + &policies + &policy("c", "wset"))),
            ""
        );
    }

    #[test]
    fn names_that_differ_on_purpose_are_no_slips() {
        for (one, other) in [
            ("east", "west"),
            ("member1", "member2"),
            ("member1", "member11"),
            ("prod-a", "prod-b"),
            ("eu-west-1", "us-west-1"),
            ("prod", "prod-eu"),
        ] {
            assert!(!is_slip(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("wset", "west"),
            ("eu-wst-1", "eu-west-1"),
            ("blue", "bluee"),
            ("stagging", "staging"),
        ] {
            assert_eq!(is_slip(one, other), !one.starts_with("eu-"), "{one} {other}");
        }
        assert!(is_slip("eu-wesst-1", "eu-west-1"));
    }
}
