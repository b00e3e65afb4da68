//! Where a workload goes of which a placement leaves several clusters open: to the one that an Evacuation would choose, among those
//! in which Karmada's scheduler leaves it for certain.

use std::collections::BTreeSet;

use super::super::gate::{Ground, Tenant};
use crate::api::{Choose, Targets};
use crate::intent::headroom::{Headroom, WorkloadToPlace};
use cutover_karmada::PropagationSpec;
use cutover_karmada::name::ClusterName;

/// What is chosen by: the room that is left, with what was chosen before.
#[derive(Debug)]
pub(super) struct Choice<'a> {
    ground: &'a Ground,
    room: Headroom<'a>,
}

impl<'a> Choice<'a> {
    pub(super) fn new(ground: &'a Ground) -> Self {
        let bindings = ground.tenants.iter().map(|tenant| &tenant.binding);
        Self {
            ground,
            room: Headroom::new(&ground.clusters, bindings),
        }
    }

    /// Returns the cluster that a workload goes to, of those that its placement would take, or why none is chosen.
    pub(super) fn of(
        &mut self,
        tenant: &Tenant,
        spec: &PropagationSpec,
        from: &ClusterName,
        open: &[ClusterName],
    ) -> Result<ClusterName, String> {
        let to = match open {
            [] => return Err("no cluster would take it".to_owned()),
            // Preflight says what stands in the way of the only one.
            [only] => only.clone(),
            several => self.best(tenant, spec, from, several)?,
        };
        let moved = WorkloadToPlace {
            binding: &tenant.binding,
            template: &tenant.template,
            from,
        };
        self.room.promise(moved, &to);
        Ok(to)
    }

    fn best(
        &self,
        tenant: &Tenant,
        spec: &PropagationSpec,
        from: &ClusterName,
        open: &[ClusterName],
    ) -> Result<ClusterName, String> {
        let (mut certain, mut doubt) = (Vec::new(), None);
        for name in open {
            match self.ground.keeps(tenant, spec, name) {
                Ok(()) => certain.push(name.clone()),
                Err(why) => drop(doubt.get_or_insert(why)),
            }
        }
        if certain.is_empty() {
            let names: Vec<&str> = open.iter().map(ClusterName::as_str).collect();
            let doubt = doubt.unwrap_or_default();
            return Err(format!(
                "several clusters would take it ({}), and it is not certain that it would stay in one of them ({doubt}): let the policy \
                 choose one",
                names.join(", ")
            ));
        }
        // The room is looked for as the placement in Git has it, not as the binding does now.
        let mut binding = tenant.binding.clone();
        binding.spec.placement = Some(spec.placement.clone());
        let candidate = WorkloadToPlace {
            binding: &binding,
            template: &tenant.template,
            from,
        };
        let targets = Targets {
            clusters: certain,
            choose: Choose::default(),
        };
        let chosen = self.room.choose(candidate, &targets, &BTreeSet::new());
        chosen.map_err(|finding| finding.message)
    }
}
