//! What a workload asks for, and what a cluster has: amounts of resources, as Karmada reports them.
//!
//! An amount that isn't known is left out, never taken for zero.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Cluster, ResourceBindingSpec};

/// Amounts by name (`cpu`, `memory`, `pods` …), in thousandths.
pub type Amounts = BTreeMap<String, i128>;

/// What a cluster has for pods, and what of it is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    pub allocatable: Amounts,
    /// Asked for by pods that run or wait.
    pub taken: Amounts,
}

impl Capacity {
    /// Returns what Karmada has summed up of a cluster (`status.resourceSummary`); `None` where it hasn't.
    pub fn of(cluster: &Cluster) -> Option<Self> {
        let summary = cluster.status.as_ref()?.rest.get("resourceSummary")?;
        let allocatable = amounts(summary.get("allocatable")?);
        let mut taken = amounts(summary.get("allocated").unwrap_or(&Value::Null));
        add(
            &mut taken,
            &amounts(summary.get("allocating").unwrap_or(&Value::Null)),
        );
        (!allocatable.is_empty()).then_some(Self { allocatable, taken })
    }

    /// Returns the names of what would be missing, if this much more were asked for.
    pub fn lacks(&self, more: &Amounts) -> Vec<String> {
        let lacks = |(name, need): &(&String, &i128)| {
            let has = self.allocatable.get(*name).copied().unwrap_or_default();
            let taken = self.taken.get(*name).copied().unwrap_or_default();
            **need > 0 && taken + **need > has
        };
        let lacking = more.iter().filter(lacks);
        lacking.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the largest share that is asked for of any resource, in thousandths, if this much more were.
    pub fn load(&self, more: &Amounts) -> i128 {
        let share = |(name, has): (&String, &i128)| {
            let taken = self.taken.get(name).copied().unwrap_or_default();
            let more = more.get(name).copied().unwrap_or_default();
            (*has > 0).then(|| (taken + more) * 1000 / has)
        };
        let counted = |name: &str| matches!(name, "cpu" | "memory" | "pods");
        let counted = self.allocatable.iter().filter(|(name, _)| counted(name));
        counted.filter_map(share).max().unwrap_or_default()
    }

    /// Returns how many replicas that ask for this each still fit; `None`: nothing limits them.
    pub fn replicas(&self, each: &Amounts) -> Option<i128> {
        let fits = |(name, need): (&String, &i128)| {
            let has = self.allocatable.get(name).copied().unwrap_or_default();
            let taken = self.taken.get(name).copied().unwrap_or_default();
            (*need > 0).then(|| (has - taken).max(0) / need)
        };
        each.iter().filter_map(fits).min()
    }

    /// Counts something as taken that will be.
    pub fn take(&mut self, more: &Amounts) {
        add(&mut self.taken, more);
    }

    /// Counts something as free that will be.
    pub fn free(&mut self, less: &Amounts) {
        for (name, amount) in less {
            let taken = self.taken.entry(name.clone()).or_default();
            *taken = (*taken - amount).max(0);
        }
    }
}

/// What a workload asks for: of each replica, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Need {
    pub each: Amounts,
    pub replicas: i128,
}

impl Need {
    /// Returns what Karmada has found that the replicas of a workload ask for, else what its pod template says; `None`: neither
    /// says anything.
    pub fn of(binding: &ResourceBindingSpec, template: &Value) -> Option<Self> {
        let replicas = i128::from(binding.replicas.max(1));
        let found = binding
            .rest
            .get("replicaRequirements")
            .and_then(|required| required.get("resourceRequest"))
            .map(amounts)
            .filter(|found| !found.is_empty());
        let mut each = found.or_else(|| of_pods(template.pointer("/spec/template/spec")?))?;
        each.entry("pods".to_owned()).or_insert(1000);
        Some(Self { each, replicas })
    }

    /// Returns what all replicas ask for together.
    pub fn total(&self) -> Amounts {
        let total = |(name, amount): (&String, &i128)| (name.clone(), amount * self.replicas);
        self.each.iter().map(total).collect()
    }
}

/// What the containers of a pod request; what is only limited counts as requested.
fn of_pods(pod: &Value) -> Option<Amounts> {
    let containers = pod.get("containers")?.as_array()?;
    let mut all = Amounts::new();
    for container in containers {
        let resources = container.get("resources").unwrap_or(&Value::Null);
        let mut asked = amounts(resources.get("limits").unwrap_or(&Value::Null));
        asked.extend(amounts(resources.get("requests").unwrap_or(&Value::Null)));
        add(&mut all, &asked);
    }
    (!all.is_empty()).then_some(all)
}

fn amounts(value: &Value) -> Amounts {
    let amount = |(name, value): (&String, &Value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        Some((name.clone(), thousandths(&text)?))
    };
    value
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(amount)
        .collect()
}

fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *to.entry(name.clone()).or_default() += amount;
    }
}

/// Reads an amount as the API server writes it (`250m`, `1.5`, `2Gi`, `1e3`) in thousandths, rounded up.
fn thousandths(text: &str) -> Option<i128> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = match number.find(['e', 'E']) {
        Some(at) => (&number[..at], &text[at..]),
        None => (number, &text[number.len()..]),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let negative = whole.starts_with('-');
    let digits: String = whole
        .trim_start_matches(['+', '-'])
        .chars()
        .chain(fraction.chars())
        .collect();
    if digits.is_empty() || digits.len() > 24 {
        return None;
    }
    let digits: i128 = digits.parse().ok()?;
    let (factor, exponent): (i128, i32) = match unit {
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "" => (1, 0),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => (1, unit.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    let places = i32::try_from(fraction.len()).ok()?;
    let power = exponent.checked_add(3)?.checked_sub(places)?;
    let scale = 10_i128.checked_pow(power.unsigned_abs())?;
    let amount = digits.checked_mul(factor)?;
    let amount = if power >= 0 {
        amount.checked_mul(scale)?
    } else {
        amount.checked_add(scale - 1)? / scale
    };
    Some(if negative { -amount } else { amount })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_read_as_the_api_server_writes_them() {
        for (text, expected) in [
            ("1", Some(1000)),
            ("250m", Some(250)),
            ("1.5", Some(1500)),
            ("0.0001", Some(1)),
            ("2Ki", Some(2_048_000)),
            ("1.5Gi", Some(1_610_612_736_000)),
            ("1e3", Some(1_000_000)),
            ("2E", Some(2_000_000_000_000_000_000_000)),
            ("12E-1", Some(1200)),
            ("100n", Some(1)),
            ("-1", Some(-1000)),
            ("", None),
            ("x", None),
            ("1Zi", None),
        ] {
            assert_eq!(thousandths(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_lacking_is_named_and_what_is_not_asked_for_never_is() {
        let capacity = Capacity {
            allocatable: amounts(&json!({"cpu": "4", "memory": "8Gi"})),
            taken: amounts(&json!({"cpu": "3", "memory": "1Gi"})),
        };
        assert_eq!(capacity.lacks(&amounts(&json!({"cpu": "2"}))), ["cpu"]);
        assert_eq!(
            capacity.lacks(&amounts(&json!({"cpu": "1", "memory": "7Gi"}))),
            [""; 0]
        );
        assert_eq!(
            capacity.lacks(&amounts(&json!({"nvidia.com/gpu": 1}))),
            ["nvidia.com/gpu"]
        );
        assert_eq!(capacity.load(&Amounts::new()), 750);
        assert_eq!(capacity.load(&amounts(&json!({"cpu": "1"}))), 1000);
        assert_eq!(capacity.replicas(&amounts(&json!({"cpu": "500m"}))), Some(2));
    }

    #[test]
    fn a_workload_asks_for_what_karmada_found_else_for_what_its_pods_say() {
        let template = json!({"spec": {"template": {"spec": {"containers": [
            {"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "1Gi"}}},
            {"resources": {"requests": {"cpu": "100m"}}},
        ]}}}});
        let mut binding = ResourceBindingSpec {
            replicas: 3,
            ..ResourceBindingSpec::default()
        };
        let need = Need::of(&binding, &template).unwrap();
        assert_eq!(need.each["cpu"], 200);
        assert_eq!(need.total()["cpu"], 600);
        assert_eq!(need.total()["pods"], 3000);
        assert_eq!(need.each["memory"], 1_073_741_824_000);
        let found = json!({"resourceRequest": {"cpu": "2"}});
        binding.rest.insert("replicaRequirements".to_owned(), found);
        assert_eq!(Need::of(&binding, &template).unwrap().total()["cpu"], 6000);
        binding.rest.clear();
        assert_eq!(Need::of(&binding, &json!({"spec": {}})), None);
    }
}
