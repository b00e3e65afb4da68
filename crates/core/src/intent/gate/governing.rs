//! Which policy places a workload, as Karmada's detector chooses it: the one that has it, unless another one takes it over.
//!
//! Whether one takes it over depends on a feature gate that can't be read. So there is one answer for each way in which Karmada may
//! be running: a change has to be harmless by all of them.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde_json::Value;

use crate::api::PolicyName;
use cutover_karmada::{PropagationSpec, ResourceSelector, Specificity};

/// A policy, and what it says.
type Placing<'a> = (&'a PolicyName, &'a PropagationSpec);

/// Policies by the names of what they select: of a thousand that name one workload each, a workload is compared with its own.
#[derive(Debug, Default)]
pub(super) struct PoliciesByName<'a> {
    /// Every selector of these has a name: some of them more than one.
    named: HashMap<&'a str, Vec<Placing<'a>>>,
    others: Vec<Placing<'a>>,
}

impl<'a> PoliciesByName<'a> {
    pub(super) fn of(policies: impl IntoIterator<Item = Placing<'a>>) -> Self {
        let mut all = Self::default();
        for placing in policies {
            let selectors = &placing.1.resource_selectors;
            if selectors.iter().any(|selector| selector.name.is_empty()) {
                all.others.push(placing);
                continue;
            }
            for selector in selectors {
                let named = all.named.entry(&selector.name).or_default();
                if named.last().is_none_or(|(last, _)| *last != placing.0) {
                    named.push(placing);
                }
            }
        }
        all
    }

    /// Returns those that may select an object of a name, and can place what is in a namespace: each once.
    pub(super) fn may_select<'s>(
        &'s self,
        name: &str,
        namespace: Option<&'s str>,
    ) -> impl Iterator<Item = Placing<'a>> + 's {
        let named = self.named.get(name).into_iter().flatten();
        let all = named.chain(&self.others).copied();
        all.filter(move |(policy, _)| is_in_reach(policy, namespace))
    }
}

/// A policy that selects a workload.
#[derive(Clone, Copy, Debug)]
struct Candidate<'a> {
    name: &'a PolicyName,
    spec: &'a PropagationSpec,
    how: Specificity,
    /// It says which object it means, with the namespace: only so does the detector find what a policy may take over.
    is_named: bool,
}

impl<'a> Candidate<'a> {
    fn of((name, spec): Placing<'a>, namespace: Option<&str>, template: &Value) -> Option<Self> {
        let how = selects(name, spec, namespace, template)?;
        // In a policy of a namespace Karmada fills it in.
        let is_full = |selector: &ResourceSelector| {
            namespace.is_none() || name.namespace.is_some() || !selector.namespace.is_empty()
        };
        let names = |selector: &ResourceSelector| {
            is_full(selector) && selector.specificity(template) == Some(Specificity::Name)
        };
        let is_named = spec.resource_selectors.iter().any(names);
        Some(Self {
            name,
            spec,
            how,
            is_named,
        })
    }

    const fn placing(&self) -> Placing<'a> {
        (self.name, self.spec)
    }

    /// Returns whether it takes the workload from the one that has it.
    fn preempts(&self, own: &Self, preemption: Preemption) -> bool {
        let is_let = match preemption {
            Preemption::Any => true,
            Preemption::ByName => self.is_named,
            Preemption::Off => false,
        };
        is_let
            && self.spec.preemption == "Always"
            && match (self.name.namespace.is_some(), own.name.namespace.is_some()) {
                (true, false) => true,
                (false, true) => false,
                _ => self.spec.priority > own.spec.priority,
            }
    }
}

/// Which policies Karmada lets take a workload from the one that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// Those with `preemption: Always`, as the field reads.
    Any,
    /// Of these the ones that select it by its name and namespace: the detector looks for nothing else.
    ByName,
    /// None: the feature gate `PropagationPolicyPreemption` is off, as it is by default.
    Off,
}

impl Preemption {
    pub const ALL: [Self; 3] = [Self::Any, Self::ByName, Self::Off];
}

/// The policies that select a workload.
#[derive(Debug)]
pub struct Selecting<'a> {
    all: Vec<Candidate<'a>>,
    /// The one that has it, if that selects it still.
    own: Option<Candidate<'a>>,
}

impl<'a> Selecting<'a> {
    /// Returns those that select a workload, of all `policies`. `own`: the one that Karmada has noted on it.
    pub fn new(
        own: Option<&PolicyName>,
        namespace: Option<&str>,
        template: &Value,
        policies: impl IntoIterator<Item = Placing<'a>>,
    ) -> Self {
        let all: Vec<Candidate<'a>> = policies
            .into_iter()
            .filter_map(|placing| Candidate::of(placing, namespace, template))
            .collect();
        let own = all.iter().find(|one| Some(one.name) == own).copied();
        Self { all, own }
    }

    /// Returns the others once the one that has the workload has gone.
    #[must_use]
    pub fn without_own(mut self) -> Self {
        if let Some(own) = self.own.take() {
            self.all.retain(|one| one.name != own.name);
        }
        self
    }

    /// Returns the policy that places the workload: its own, unless another one takes it over; any that selects it, when it has none.
    pub fn governing(&self, preemption: Preemption) -> Option<Placing<'a>> {
        let own = self.own.as_ref();
        let takes = |one: &&Candidate<'a>| own.is_none_or(|own| one.preempts(own, preemption));
        let rank = |one: &&Candidate<'a>| {
            (
                one.name.namespace.is_some(),
                one.spec.priority,
                one.how,
                Reverse(one.name),
            )
        };
        let best = self.all.iter().filter(takes).max_by_key(rank);
        best.or(own).map(Candidate::placing)
    }

    /// Returns the policies that may place the workload, for all that isn't known of Karmada.
    pub(super) fn possible(&self) -> Vec<Placing<'a>> {
        let mut all: Vec<Placing<'a>> = Vec::new();
        for preemption in Preemption::ALL {
            if let Some(placing) = self.governing(preemption)
                && !all.iter().any(|(name, _)| *name == placing.0)
            {
                all.push(placing);
            }
        }
        all
    }

    /// Returns the policy that places the workload, or why it isn't certain which one does. `preempts`: it is said of Karmada that
    /// its feature gate is on.
    ///
    /// Where it is off, a workload that was moved for a policy that would take it over stays under guard for good.
    pub fn certain(&self, preempts: bool) -> Result<Option<Placing<'a>>, String> {
        let by = self.governing(Preemption::Any);
        let (Some((name, _)), Some(Candidate { name: own, .. })) = (by, self.own) else {
            return Ok(by);
        };
        let does = |preemption| self.governing(preemption).is_some_and(|(other, _)| other == name);
        // With or without the feature gate: whoever says that it is on would be refused all the same.
        if !does(Preemption::ByName) {
            return Err(format!(
                "{name} would take it from {own}, which Karmada does only where it is selected by its name and namespace"
            ));
        }
        if !preempts && !does(Preemption::Off) {
            return Err(format!(
                "{name} would take it from {own}, which not every Karmada does: if yours has the feature gate \
                 PropagationPolicyPreemption, set gate.migrations.preemption, else delete {own} in the same push, or let it no longer select \
                 the workload, or take the preemption out of {name}"
            ));
        }
        Ok(by)
    }
}

/// Returns how closely a policy selects a workload, if it does.
pub(super) fn selects(
    name: &PolicyName,
    spec: &PropagationSpec,
    namespace: Option<&str>,
    template: &Value,
) -> Option<Specificity> {
    let how =
        is_in_reach(name, namespace).then(|| ResourceSelector::closest(&spec.resource_selectors, template));
    how.flatten()
}

/// Returns whether a policy places anything in a namespace.
fn is_in_reach(name: &PolicyName, namespace: Option<&str>) -> bool {
    name.namespace.is_none() || name.namespace.as_deref() == namespace
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn those_that_may_select_a_workload_are_found_by_its_name() {
        let policy = |namespace: Option<&str>, name: &str, selectors: Value| {
            let name = PolicyName {
                namespace: namespace.map(str::to_owned),
                name: name.to_owned(),
            };
            let spec = json!({"resourceSelectors": selectors, "placement": {}});
            (name, serde_json::from_value::<PropagationSpec>(spec).unwrap())
        };
        let of = |name: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name});
        let all = [
            policy(Some("shop"), "a", json!([of("web"), of("api"), of("web")])),
            policy(
                Some("shop"),
                "b",
                json!([of("api"), {"apiVersion": "apps/v1", "kind": "Deployment"}]),
            ),
            policy(Some("bank"), "c", json!([of("web")])),
            policy(None, "d", json!([of("web")])),
            policy(None, "e", json!([of("api")])),
        ];
        let policies = PoliciesByName::of(all.iter().map(|(name, spec)| (name, spec)));
        let found = |name: &str, namespace| {
            let found = policies.may_select(name, namespace);
            found.map(|(name, _)| name.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(found("web", Some("shop")), ["a", "d", "b"]);
        assert_eq!(found("api", Some("shop")), ["a", "e", "b"]);
        assert_eq!(found("db", Some("shop")), ["b"]);
        assert_eq!(found("web", None), ["d"]);
    }
}
