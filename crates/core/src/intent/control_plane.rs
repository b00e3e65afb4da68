//! What an intent reads in the control plane of the workload that it pins: which parts, as data, and what was seen of them.
//!
//! Every kind reads in the same order, because proofs count on it. The Works are read after the binding: a cluster that it had just
//! lost still has one. The members are read after the control plane: what is seen there is not older than the pin.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bitflags::bitflags;
use serde_json::Value;

use super::pin;
use super::seen::Seen;
use crate::api::{self, Claim, LeaseSeen, WorkloadProfile};
use cutover_karmada::name::{ClusterName, ObjectKey};
use cutover_karmada::{Cluster, ClusterOverridePolicy, OverridePolicy, ResourceBinding, Work, meta};

bitflags! {
    /// Parts of the control plane that a pass reads. What isn't among them is unknown to it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Needs: u16 {
        const TEMPLATE = 1;
        const BINDING = 1 << 1;
        /// By the binding's id: see [`ControlPlane::works`].
        const WORKS = 1 << 2;
        const CLAIM = 1 << 3;
        /// The pin is one of them.
        const OVERRIDES = 1 << 4;
        const CLUSTERS = 1 << 5;
        const CANARY = 1 << 6;
        const LEASES = 1 << 7;
        const PROFILES = 1 << 8;
    }
}

/// What was seen of a workload in the control plane.
#[derive(Clone, Debug)]
pub struct ControlPlane {
    pub template: Seen<Option<Value>>,
    /// That of a workload of cluster scope is read from a `ClusterResourceBinding`, and its pin from a `ClusterOverridePolicy`.
    pub binding: Seen<Option<ResourceBinding>>,
    /// The Works of the binding, by the cluster they are for; Terminating ones included.
    pub works: Seen<BTreeMap<ClusterName, Work>>,
    pub claim: Seen<Option<Claim>>,
    /// Read before anything of a member is read: see [`super::proof::Release`].
    pub pin: Seen<Option<OverridePolicy>>,
    pub overrides: Seen<Overrides>,
    pub clusters: Seen<Arc<BTreeMap<ClusterName, Cluster>>>,
    /// The binding of the canary that the journal names; none where it names none.
    pub canary: Seen<Option<ResourceBinding>>,
    /// By name of the controller.
    pub leases: Seen<BTreeMap<String, LeaseSeen>>,
    pub profiles: Seen<Vec<WorkloadProfile>>,
}

/// Every override policy that may apply to the workload, the pin included.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    pub cluster_wide: Arc<Vec<ClusterOverridePolicy>>,
    pub namespaced: Arc<Vec<OverridePolicy>>,
    /// Every `apiVersion` under which the control plane serves the workload's kind: a selector means exactly one.
    pub versions: Arc<Vec<String>>,
}

/// Where what a journal names is found; what it doesn't name has the name that Karmada gives it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Named<'a> {
    pub binding: Option<&'a api::BindingId>,
    /// The canary that is waited for.
    pub canary: Option<&'a str>,
}

impl Named<'_> {
    /// Returns the name of the workload's binding.
    pub fn binding(&self, workload: &ObjectKey) -> String {
        self.binding.map_or_else(
            || meta::binding_name(&workload.name, &workload.kind),
            |binding| binding.name.clone(),
        )
    }
}

impl ControlPlane {
    /// Nothing was read.
    pub fn unread(why: &str) -> Self {
        Self {
            template: Seen::unread(why),
            binding: Seen::unread(why),
            works: Seen::unread(why),
            claim: Seen::unread(why),
            pin: Seen::unread(why),
            overrides: Seen::unread(why),
            clusters: Seen::unread(why),
            canary: Seen::unread(why),
            leases: Seen::unread(why),
            profiles: Seen::unread(why),
        }
    }

    /// Forgets what isn't among these parts: nothing may be decided on it.
    pub fn keep(&mut self, needs: Needs) {
        fn forget<T>(seen: &mut Seen<T>, is_needed: bool) {
            if !is_needed {
                *seen = Seen::unknown("not read: it is not needed in this phase");
            }
        }
        forget(&mut self.template, needs.contains(Needs::TEMPLATE));
        forget(&mut self.binding, needs.contains(Needs::BINDING));
        forget(&mut self.works, needs.contains(Needs::WORKS));
        forget(&mut self.claim, needs.contains(Needs::CLAIM));
        forget(&mut self.pin, needs.contains(Needs::OVERRIDES));
        forget(&mut self.overrides, needs.contains(Needs::OVERRIDES));
        forget(&mut self.clusters, needs.contains(Needs::CLUSTERS));
        forget(&mut self.canary, needs.contains(Needs::CANARY));
        forget(&mut self.leases, needs.contains(Needs::LEASES));
        forget(&mut self.profiles, needs.contains(Needs::PROFILES));
    }

    /// Returns why parts that were needed could not be read.
    pub fn gaps(&self, needs: Needs) -> Vec<String> {
        fn gap<T>(seen: &Seen<T>) -> Option<String> {
            seen.get().err().map(|unknown| unknown.0)
        }
        let gaps = [
            (Needs::TEMPLATE, gap(&self.template)),
            (Needs::BINDING, gap(&self.binding)),
            (Needs::WORKS, gap(&self.works)),
            (Needs::CLAIM, gap(&self.claim)),
            (Needs::OVERRIDES, gap(&self.overrides)),
            (Needs::CLUSTERS, gap(&self.clusters)),
            (Needs::CANARY, gap(&self.canary)),
            (Needs::LEASES, gap(&self.leases)),
            (Needs::PROFILES, gap(&self.profiles)),
        ];
        let needed = gaps.into_iter().filter(|(part, _)| needs.contains(*part));
        needed.filter_map(|(_, gap)| gap).collect()
    }

    /// Returns the binding's id, as the journal or the binding itself has it: it stays when names are hashed.
    pub fn binding_id(
        binding: &Seen<Option<ResourceBinding>>,
        workload: &ObjectKey,
        named: Named<'_>,
    ) -> Option<String> {
        if let Some(journaled) = named.binding {
            return Some(journaled.id.clone());
        }
        let binding = binding.get().ok()?.as_ref()?;
        let label = meta::binding_id_label(workload.namespace.is_none());
        binding.metadata.labels.as_ref()?.get(label).cloned()
    }

    /// Returns the pin of a workload among all override policies.
    pub fn pin_among(overrides: &Overrides, workload: &ObjectKey) -> Option<OverridePolicy> {
        let name = pin::name(workload);
        let is_pin = |name_of: Option<&String>| name_of == Some(&name);
        if workload.namespace.is_some() {
            let mut all = overrides.namespaced.iter();
            return all.find(|policy| is_pin(policy.metadata.name.as_ref())).cloned();
        }
        let mut all = overrides.cluster_wide.iter();
        let policy = all.find(|policy| is_pin(policy.metadata.name.as_ref()))?;
        Some(policy.clone().into())
    }

    /// Returns the objects whose changes call for another look, for whoever needs these parts and looks at these members.
    pub fn wakes<'a>(
        &self,
        needs: Needs,
        workload: &ObjectKey,
        named: Named<'_>,
        members: impl Iterator<Item = &'a ClusterName>,
    ) -> BTreeSet<ObjectKey> {
        let namespace = workload.namespace.as_deref();
        let scoped = |kind: &str| meta::scoped_kind(kind, namespace.is_none());
        let parts = [
            (Needs::TEMPLATE, workload.clone()),
            (
                Needs::CLAIM,
                key(api::GROUP, "Claim", None, &api::claim_name(workload)),
            ),
            (
                Needs::OVERRIDES,
                key(
                    "policy.karmada.io",
                    &scoped("OverridePolicy"),
                    namespace,
                    &pin::name(workload),
                ),
            ),
            (
                Needs::BINDING,
                key(
                    "work.karmada.io",
                    &scoped("ResourceBinding"),
                    namespace,
                    &named.binding(workload),
                ),
            ),
        ];
        let needed = parts.into_iter().filter(|(part, _)| needs.contains(*part));
        let mut keys: BTreeSet<ObjectKey> = needed.map(|(_, key)| key).collect();
        let members: Vec<&ClusterName> = members.collect();
        if needs.contains(Needs::CLUSTERS) {
            // One that could not be reached may be back.
            keys.extend(
                members
                    .iter()
                    .map(|member| key("cluster.karmada.io", "Cluster", None, member.as_str())),
            );
        }
        if needs.contains(Needs::WORKS) {
            keys.extend(self.works_in(&members));
        }
        keys
    }

    /// Karmada names the Works of a binding alike: one that is yet to come is known by those that are there.
    fn works_in(&self, members: &[&ClusterName]) -> BTreeSet<ObjectKey> {
        let mut keys = BTreeSet::new();
        for work in self.works.get().into_iter().flat_map(BTreeMap::values) {
            let name = work.metadata.name.as_deref().unwrap_or_default();
            let own = work.metadata.namespace.clone();
            let others = members
                .iter()
                .map(|member| meta::execution_namespace(member.as_str()));
            let namespaces = others.chain(own);
            keys.extend(namespaces.map(|namespace| key("work.karmada.io", "Work", Some(&namespace), name)));
        }
        keys
    }
}

fn key(group: &str, kind: &str, namespace: Option<&str>, name: &str) -> ObjectKey {
    ObjectKey {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::Read;

    const WORKLOAD: (&str, &str) = ("shop", "orders");

    fn workload() -> ObjectKey {
        key(
            "flink.apache.org",
            "FlinkDeployment",
            Some(WORKLOAD.0),
            WORKLOAD.1,
        )
    }

    fn seen<T>(value: T) -> Seen<T> {
        let read = Read { sent: 1, answered: 2 };
        Seen::known(value, read)
    }

    fn kinds(keys: &BTreeSet<ObjectKey>) -> Vec<&str> {
        keys.iter().map(|key| key.kind.as_str()).collect()
    }

    #[test]
    fn what_wakes_a_worker_is_what_it_needs_and_nothing_else() {
        let mut plane = ControlPlane::unread("in this test");
        let work =
            serde_json::json!({"metadata": {"namespace": "karmada-es-east", "name": "orders-1"}, "spec": {}});
        plane.works = seen([("east".into(), serde_json::from_value(work).unwrap())].into());
        let members: [ClusterName; 2] = ["east".into(), "west".into()];
        let wakes = |needs| plane.wakes(needs, &workload(), Named::default(), members.iter());

        assert!(wakes(Needs::empty()).is_empty());
        assert_eq!(kinds(&wakes(Needs::CLAIM)), ["Claim"]);
        assert_eq!(
            kinds(&wakes(Needs::TEMPLATE | Needs::BINDING)),
            ["FlinkDeployment", "ResourceBinding"]
        );
        assert_eq!(kinds(&wakes(Needs::CLUSTERS)), ["Cluster", "Cluster"]);
        // The one in west is yet to come.
        let works = wakes(Needs::WORKS);
        let places: Vec<_> = works.iter().map(|key| key.namespace.as_deref()).collect();
        assert_eq!(places, [Some("karmada-es-east"), Some("karmada-es-west")]);
    }

    #[test]
    fn a_gap_is_told_only_where_it_was_needed() {
        let mut plane = ControlPlane::unread("in this test");
        plane.claim = seen(None);
        plane.clusters = Seen::unknown("forbidden");
        assert!(plane.gaps(Needs::CLAIM).is_empty());
        assert_eq!(plane.gaps(Needs::CLAIM | Needs::CLUSTERS), ["forbidden"]);
    }

    #[test]
    fn what_is_not_needed_is_forgotten() {
        let mut plane = ControlPlane::unread("in this test");
        (plane.claim, plane.pin, plane.overrides) = (seen(None), seen(None), seen(Overrides::default()));
        plane.keep(Needs::CLAIM);
        assert!(plane.claim.get().is_ok());
        // The pin is one of the override policies.
        assert!(plane.pin.get().is_err() && plane.overrides.get().is_err());
    }
}
