//! References from one object to another: intents to workloads and profiles, policies to what they select.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Context;
use crate::api::GROUP;
use crate::finding::{Code, Finding};
use crate::manifest::{Manifest, Set};
use cutover_base::nearest::did_you_mean;
use cutover_karmada::name::{Gvk, ObjectKey};

pub(super) fn check(set: &Set, context: &Context, findings: &mut Vec<Finding>) {
    let profiles: BTreeSet<&str> = set
        .definitions()
        .filter(|object| object.key.group == GROUP && object.key.kind == "WorkloadProfile")
        .map(|object| object.key.name.as_str())
        .chain(context.profiles.iter().map(String::as_str))
        .collect();
    let mut kinds: Kinds<'_> = BTreeMap::new();
    for object in set.definitions() {
        kinds.entry(&object.gvk).or_default().push(object);
    }
    for object in set.definitions() {
        match (object.key.group.as_str(), object.key.kind.as_str()) {
            (GROUP, _) => {
                workload(object, set, findings);
                profile(object, &profiles, findings);
            }
            ("policy.karmada.io", _) => selectors(object, &kinds, findings),
            _ => {}
        }
    }
}

/// The objects of each kind, so that a policy is only held against those it may select.
type Kinds<'a> = BTreeMap<&'a Gvk, Vec<&'a Manifest>>;

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str()
}

fn workload(intent: &Manifest, set: &Set, findings: &mut Vec<Finding>) {
    let places = ["/spec/workload", "/spec/target/workload"];
    let named = places
        .iter()
        .find_map(|place| Some((place, intent.value.pointer(place)?)));
    let Some((place, reference)) = named else {
        return;
    };
    let (Some(api_version), Some(kind), Some(name)) = (
        text(reference, "apiVersion"),
        text(reference, "kind"),
        text(reference, "name"),
    ) else {
        return;
    };
    let wanted = ObjectKey {
        group: Gvk::new(api_version, kind).group,
        kind: kind.to_owned(),
        namespace: text(reference, "namespace")
            .map(str::to_owned)
            .or_else(|| intent.key.namespace.clone()),
        name: name.to_owned(),
    };
    if set.mentions(&wanted) {
        return;
    }
    let same_kind = |object: &&std::sync::Arc<Manifest>| {
        object.key.group == wanted.group && object.key.kind == wanted.kind
    };
    let elsewhere = set
        .definitions()
        .filter(same_kind)
        .find(|object| object.key.name == wanted.name);
    let hint = match elsewhere {
        Some(object) => Some(format!("{} is defined at {}", object.key, object.source)),
        None => did_you_mean(
            name,
            set.definitions()
                .filter(same_kind)
                .map(|object| object.key.name.as_str()),
        ),
    };
    let message = format!("no file defines {wanted}, which {} is about", intent.key);
    let finding = Finding::new(
        Code::UnknownWorkload,
        intent.location(&format!("{place}/name")),
        message,
    );
    findings.push(finding.maybe_hint(hint));
}

fn profile(intent: &Manifest, profiles: &BTreeSet<&str>, findings: &mut Vec<Finding>) {
    let Some(name) = intent.value.pointer("/spec/profile").and_then(Value::as_str) else {
        return;
    };
    if !profiles.contains(name) {
        let message = format!("there is no profile {name}");
        let finding = Finding::new(Code::UnknownProfile, intent.location("/spec/profile"), message);
        findings.push(finding.maybe_hint(did_you_mean(name, profiles.iter().copied())));
    }
}

fn selectors(policy: &Manifest, kinds: &Kinds<'_>, findings: &mut Vec<Finding>) {
    let selectors = policy
        .value
        .pointer("/spec/resourceSelectors")
        .and_then(Value::as_array);
    for (index, selector) in selectors.into_iter().flatten().enumerate() {
        let (api_version, kind) = (text(selector, "apiVersion"), text(selector, "kind"));
        let gvk = Gvk::new(api_version.unwrap_or_default(), kind.unwrap_or_default());
        let objects = kinds.get(&gvk).map(Vec::as_slice).unwrap_or_default();
        if objects.iter().any(|object| selects(selector, policy, object)) {
            continue;
        }
        let name = text(selector, "name").filter(|name| !name.is_empty());
        let hint =
            name.and_then(|name| did_you_mean(name, objects.iter().map(|object| object.key.name.as_str())));
        let what = [kind, name].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let message = format!(
            "{} selects {what}, but no file defines such an object",
            policy.key
        );
        let at = policy.location(&format!("/spec/resourceSelectors/{index}"));
        findings.push(Finding::new(Code::SelectsNothing, at, message).maybe_hint(hint));
    }
}

/// Whether a policy's selector takes an object of its kind, as Karmada matches: a name wins over labels.
pub(super) fn selects(selector: &Value, policy: &Manifest, object: &Manifest) -> bool {
    let field = |name: &str| text(selector, name).filter(|text| !text.is_empty());
    let namespace = field("namespace").or(policy.key.namespace.as_deref());
    namespace.is_none_or(|namespace| {
        object
            .key
            .namespace
            .as_deref()
            .is_none_or(|there| there == namespace)
    }) && match (field("name"), selector.get("labelSelector")) {
        (Some(name), _) => name == object.key.name,
        (None, Some(labels)) => labels_match(labels, object.value.pointer("/metadata/labels")),
        (None, None) => true,
    }
}

fn labels_match(selector: &Value, labels: Option<&Value>) -> bool {
    let label = |key: &str| labels.and_then(|labels| labels.get(key)?.as_str());
    let equal = selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let expressions = selector
        .get("matchExpressions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    equal.into_iter().all(|(key, value)| label(key) == value.as_str())
        && expressions.into_iter().all(|expression| {
            let there = text(expression, "key").and_then(label);
            let among = expression
                .get("values")
                .and_then(Value::as_array)
                .is_some_and(|values| there.is_some_and(|there| values.iter().any(|value| value == there)));
            match text(expression, "operator") {
                Some("In") => among,
                Some("NotIn") => !among,
                Some("Exists") => there.is_some(),
                Some("DoesNotExist") => there.is_none(),
                _ => true,
            }
        })
}
