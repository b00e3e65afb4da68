//! What API servers are known to write in their own way: fields that they fill in, quantities, empty things that they drop.
//!
//! Only of kinds whose storage is known: the built-in ones, and Karmada's policies. Custom resources are stored as they
//! are sent, but for the defaults of their schema, of which nothing is known here.

use serde_json::{Value, json};

use super::normalise::normalise;
use cutover_karmada::name::Gvk;

/// How the objects of a kind are stored.
#[derive(Clone, Debug)]
pub(super) struct Dialect<'a> {
    family: Family,
    namespace: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// Stored as Go structs: what is empty by its type isn't there.
    BuiltIn,
    Policy,
    Custom,
}

const BUILT_IN: &[&str] = &[
    "",
    "apps",
    "batch",
    "autoscaling",
    "policy",
    "networking.k8s.io",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "admissionregistration.k8s.io",
];

/// Mappings from names to quantities, and single quantities.
const QUANTITIES: &[&str] = &[
    "limits",
    "requests",
    "hard",
    "capacity",
    "overhead",
    "default",
    "defaultRequest",
    "max",
    "min",
    "maxLimitRequestRatio",
];
const QUANTITY: &[&str] = &["sizeLimit", "averageValue", "divisor"];

/// Mappings that are the same as none when they are empty. Others mean something: `emptyDir: {}`.
const MAPPINGS: &[&str] = &[
    "labels",
    "annotations",
    "matchLabels",
    "nodeSelector",
    "data",
    "binaryData",
    "stringData",
    "limits",
    "requests",
    "hard",
];

impl<'a> Dialect<'a> {
    pub(super) fn of(object: &'a Value) -> Self {
        let text = |pointer| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let group = text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
        let family = match group {
            "policy.karmada.io" => Family::Policy,
            group if BUILT_IN.contains(&group) => Family::BuiltIn,
            _ => Family::Custom,
        };
        Self {
            family,
            namespace: text("/metadata/namespace"),
        }
    }

    /// Returns whether the server fills in a field with this value where it is left out. `parent` is the nearest field
    /// around it; items of lists have no name.
    fn fills_in(&self, parent: &str, field: &str, value: &Value) -> bool {
        let known = match (self.family, parent, field) {
            (Family::BuiltIn, "fieldRef" | "volumeClaimTemplates", "apiVersion") => json!("v1"),
            (Family::BuiltIn, "subjects" | "roleRef", "apiGroup") => json!("rbac.authorization.k8s.io"),
            (Family::BuiltIn, "serviceAccountToken", "expirationSeconds") => json!(3600),
            (Family::BuiltIn, "ports", "protocol") => json!("TCP"),
            (Family::BuiltIn, "rules", "scope") => json!("*"),
            (Family::BuiltIn, "resourceFieldRef", "divisor") => json!("0"),
            (Family::BuiltIn, "volumeClaimTemplates", "kind") => json!("PersistentVolumeClaim"),
            (Family::BuiltIn, "volumeClaimTemplates", "status") => json!({"phase": "Pending"}),
            (Family::BuiltIn, "spec", "volumeMode") => json!("Filesystem"),
            (Family::BuiltIn, "metadata", "creationTimestamp") => Value::Null,
            (Family::Policy, "resourceSelectors", "namespace") => json!(self.namespace),
            (Family::Policy, "spreadConstraints", "minGroups") => json!(1),
            (Family::Policy, "spreadConstraints", "spreadByField") => json!("cluster"),
            _ => return false,
        };
        *value == known
    }

    /// Returns whether something is stored as nothing.
    pub(super) fn drops(&self, field: &str, value: &Value) -> bool {
        self.family == Family::BuiltIn
            && match value {
                Value::Null => true,
                Value::Array(items) => items.is_empty(),
                Value::Object(fields) => fields.is_empty() && MAPPINGS.contains(&field),
                _ => false,
            }
    }

    /// Returns whether `live` is how the server stores `desired`, the value of a field that is owned as a whole.
    /// `parent` is the field around it.
    pub(super) fn stores(&self, desired: &Value, live: &Value, parent: &str, field: &str) -> bool {
        match (desired, live) {
            (Value::Object(desired), Value::Object(live)) => {
                desired.iter().all(|(name, value)| match live.get(name) {
                    Some(live) => self.stores(value, live, field, name),
                    None => self.drops(name, value),
                }) && live
                    .iter()
                    .all(|(name, value)| desired.contains_key(name) || self.fills_in(field, name, value))
            }
            (Value::Array(desired), Value::Array(live)) => {
                desired.len() == live.len()
                    && desired
                        .iter()
                        .zip(live)
                        .all(|(desired, live)| self.stores(desired, live, parent, field))
            }
            _ => super::ownership::same(desired, live) || self.is_same_quantity(desired, live, parent, field),
        }
    }

    fn is_same_quantity(&self, desired: &Value, live: &Value, parent: &str, field: &str) -> bool {
        self.family == Family::BuiltIn
            && (QUANTITIES.contains(&parent) || QUANTITY.contains(&field))
            && quantity(desired).is_some_and(|desired| quantity(live) == Some(desired))
    }
}

/// Reads a Kubernetes quantity, in billionths: `1500m`, `1.5`, `2Gi`, `1e3`. `None` for anything that isn't one exactly.
pub(super) fn quantity(value: &Value) -> Option<i128> {
    const BILLION: i128 = 1_000_000_000;
    let written = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return None,
    };
    let at = written
        .find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '+' | '-'))
        .unwrap_or(written.len());
    let (number, suffix) = written.split_at(at);
    let (numerator, denominator) = scale(suffix)?;
    let (sign, digits) = match number.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, number.strip_prefix('+').unwrap_or(number)),
    };
    if digits.contains(['+', '-']) {
        return None;
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all: i128 = format!("{whole}{fraction}").parse().ok()?;
    let below = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let scaled = all.checked_mul(numerator)?.checked_mul(BILLION)?;
    let divisor = below.checked_mul(denominator)?;
    (scaled % divisor == 0).then(|| sign * scaled / divisor)
}

/// Returns what a suffix stands for, as a fraction.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    const DECIMAL: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let power = |base: i128, place: usize| base.checked_pow(u32::try_from(place).ok()? + 1);
    if let Some(place) = DECIMAL.iter().position(|name| *name == suffix) {
        return Some((power(1000, place)?, 1));
    }
    if let Some(place) = BINARY.iter().position(|name| *name == suffix) {
        return Some((power(1024, place)?, 1));
    }
    match suffix {
        "" => Some((1, 1)),
        "m" => Some((1, 1_000)),
        "u" => Some((1, 1_000_000)),
        "n" => Some((1, 1_000_000_000)),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
            Some(if exponent < 0 { (1, power) } else { (power, 1) })
        }
    }
}

/// What Karmada fills in when a policy is created, by its schema and by a webhook: places in `spec`.
const POLICY: &[(&str, &str)] = &[
    ("/conflictResolution", "Abort"),
    ("/preemption", "Never"),
    ("/schedulerName", "default-scheduler"),
    (
        "/placement/replicaScheduling/replicaDivisionPreference",
        "Weighted",
    ),
];
/// Lists of `spec` to whose items Karmada adds fields.
const POLICY_LISTS: &[&str] = &["/resourceSelectors", "/placement/spreadConstraints"];

/// Returns the answer of a dry-run that would create an object, without what the server fills in: what a reader of the
/// diff didn't write and can't change.
pub fn without_defaults(gvk: &Gvk, created: &Value, desired: &Value) -> Value {
    let mut created = normalise(created);
    if gvk.group != "policy.karmada.io" {
        return created;
    }
    let dialect = Dialect::of(desired);
    let nothing = Value::Null;
    let asked = desired.get("spec").unwrap_or(&nothing);
    let Some(spec) = created.get_mut("spec") else {
        return created;
    };
    for (pointer, default) in POLICY {
        if asked.pointer(pointer).is_none() {
            remove(spec, pointer, &json!(default));
        }
    }
    if asked.get("priority").is_none() {
        remove(spec, "/priority", &json!(0));
    }
    for pointer in POLICY_LISTS {
        let (_, name) = pointer.rsplit_once('/').unwrap_or_default();
        let Some(Value::Array(items)) = spec.pointer_mut(pointer) else {
            continue;
        };
        for (index, item) in items.iter_mut().enumerate() {
            let asked = asked.pointer(pointer).and_then(|items| items.get(index));
            let is_asked = |field: &str| asked.is_some_and(|asked| asked.get(field).is_some());
            if let Some(fields) = item.as_object_mut() {
                fields.retain(|field, value| is_asked(field) || !dialect.fills_in(name, field, value));
            }
        }
    }
    created
}

fn remove(object: &mut Value, pointer: &str, value: &Value) {
    if object.pointer(pointer) == Some(value)
        && let Some((parent, field)) = pointer.rsplit_once('/')
        && let Some(Value::Object(fields)) = object.pointer_mut(parent)
    {
        fields.shift_remove(field);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_exactly() {
        let same = |one: Value, other: Value| quantity(&one).is_some() && quantity(&one) == quantity(&other);
        for (one, other) in [
            (json!("1000m"), json!("1")),
            (json!(0.5), json!("500m")),
            (json!("1Gi"), json!("1024Mi")),
            (json!("1e3"), json!("1k")),
            (json!("1E"), json!("1000P")),
            (json!("0.1"), json!("100m")),
            (json!("1.5Gi"), json!("1536Mi")),
            (json!("+1"), json!(1)),
            (json!("-1m"), json!("-0.001")),
        ] {
            assert!(same(one.clone(), other.clone()), "{one} {other}");
        }
        for (one, other) in [
            (json!("1000m"), json!("1001m")),
            (json!("1G"), json!("1Gi")),
            (json!("9007199254740993"), json!("9007199254740992")),
        ] {
            assert!(!same(one.clone(), other.clone()), "{one} {other}");
        }
        for text in ["", "m", "1x", "one", "1.2.3", "1 Gi", "0.1n", "--1"] {
            assert_eq!(quantity(&json!(text)), None, "{text:?}");
        }
    }

    #[test]
    fn what_karmada_fills_in_is_no_news_when_a_policy_is_created() {
        let desired = json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "orders", "namespace": "shop"},
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
                "placement": {"spreadConstraints": [{"maxGroups": 1}]},
                "priority": 0,
            },
        });
        let mut created = desired.clone();
        created["metadata"]["uid"] = json!("u");
        created["metadata"]["labels"] = json!({"propagationpolicy.karmada.io/permanent-id": "p"});
        created["metadata"]["finalizers"] = json!(["karmada.io/propagation-policy-controller"]);
        created["spec"]["conflictResolution"] = json!("Abort");
        created["spec"]["preemption"] = json!("Never");
        created["spec"]["schedulerName"] = json!("default-scheduler");
        created["spec"]["resourceSelectors"][0]["namespace"] = json!("shop");
        created["spec"]["placement"]["spreadConstraints"][0] =
            json!({"maxGroups": 1, "minGroups": 1, "spreadByField": "cluster"});
        let gvk = Gvk::new("policy.karmada.io/v1alpha1", "PropagationPolicy");
        assert_eq!(without_defaults(&gvk, &created, &desired), desired);
        created["spec"]["preemption"] = json!("Always");
        assert_ne!(without_defaults(&gvk, &created, &desired), desired);
    }
}
