//! Somebody's override policy that is applied after the pin: looked for before the first effect, and each time a pin is
//! relied on.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{Interrupt, Operation, Phase, go_back};
use crate::api::{Finding, Strategy, WorkloadProfileSpec};
use crate::intent::fight::{Fight, HINT, How, fights, overwritten};
use crate::intent::pin::{self, Pin, Says, Token, Writer};
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    /// Returns what would undo the pins of a migration: when nobody may run the workload, and when the target may.
    pub(super) fn fight_findings(
        &self,
        template: &Value,
        source: &ClusterName,
        profile: &WorkloadProfileSpec,
    ) -> Result<Vec<Finding>, Interrupt> {
        let spec = self.input.spec;
        let target = &spec.to;
        let shared = spec.strategy == Strategy::StartFirst;
        let workload = self.workload();
        let token = Token {
            may_run: if shared {
                Writer::Shared {
                    carrier: target.clone(),
                }
            } else {
                Writer::Nobody
            },
            hold: profile.hold.clone(),
            suspended: if shared {
                Vec::new()
            } else {
                vec![source.clone(), target.clone()]
            },
            suspend: profile.suspend.clone(),
            named: BTreeMap::new(),
            carry: spec.changes.patches.clone(),
        };
        let at_rest = Pin {
            namespace: workload.namespace.clone(),
            name: pin::name(workload),
            owner_uid: self.input.uid.to_owned(),
            owner: String::new(),
            api_version: spec.workload.api_version.clone(),
            versions: Arc::clone(&self.snapshot().plane.overrides.get()?.versions),
            kind: workload.kind.clone(),
            workload: workload.name.clone(),
            marker: pin::marker(self.input.uid, self.status.common.attempt, 1),
            differences: Vec::new(),
            created: pin::lacking(template, profile),
            says: Says::Token(token.clone()),
        };
        // Variables are still to be filled in: whether they arrive doesn't depend on it.
        let handed_over = Pin {
            says: Says::Token(Token {
                may_run: Writer::Only(target.clone()),
                carry: [profile.start.clone(), spec.changes.patches.clone()].concat(),
                ..token
            }),
            ..at_rest.clone()
        };
        let mut found = self.fights(&at_rest, template)?;
        if !shared {
            found.extend(self.fights(&handed_over, template)?);
        }
        let mut findings: Vec<Finding> = Vec::new();
        for fight in found {
            let finding = match &fight.how {
                How::Undoes(_) => Finding::new("OverrideFight", fight.to_string(), HINT),
                How::Blocks(_) if fight.cluster != *source && fight.cluster != *target => continue,
                How::Blocks(_) => Finding::new("OverrideFails", fight.to_string(), "fix that policy"),
            };
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
        Ok(findings)
    }

    /// Returns what the pins of a migration would take from the policy of another.
    pub(super) fn overwritten_finding(
        &self,
        template: &Value,
        profile: &WorkloadProfileSpec,
    ) -> Result<Option<Finding>, Interrupt> {
        let (clusters, all) = (
            self.snapshot().plane.clusters.get()?,
            self.snapshot().plane.overrides.get()?,
        );
        let name = pin::name(self.workload());
        let place = (self.workload().namespace.as_deref(), name.as_str());
        Ok(overwritten(template, profile, clusters, all, place))
    }

    /// Nothing is built on a pin that somebody undoes. What has a copy by now may have been let go by that: then only the way
    /// back is open, on which nothing counts but what is seen in the members.
    pub(super) fn check_effective(&self, pin: &Pin) -> Result<(), Interrupt> {
        if self.status.phase == Phase::RollingBack || self.committed() {
            return Ok(());
        }
        let Some(template) = self.snapshot().plane.template.get()? else {
            return Ok(());
        };
        let involved = self.involved()?;
        let found = self.fights(pin, template)?;
        let is_here = |fight: &&Fight| involved.contains(&fight.cluster);
        // A cluster that is blocked shows it by the marker that doesn't come.
        let undoes = |fight: &&Fight| matches!(fight.how, How::Undoes(_));
        let Some(fight) = found
            .iter()
            .filter(undoes)
            .find(is_here)
            .or_else(|| found.iter().find(undoes))
        else {
            return Ok(());
        };
        // Until the target is listed there is nobody beside the source.
        if self.status.phase != Phase::Hold && self.journal()?.pin.pinned && is_here(&fight) {
            return Err(go_back(format!("SingleWriterLapse: {fight}")));
        }
        Err(Interrupt::Wait(format!(
            "conflicting changes to be removed: {fight} ({HINT})"
        )))
    }

    /// Returns what undoes or blocks the current pin in a cluster, if that is known.
    pub(super) fn fight_in(&self, cluster: &ClusterName) -> Option<Fight> {
        let found = self.all_fights();
        found.into_iter().find(|fight| fight.cluster == *cluster)
    }

    /// Returns whose policy undoes the current pin, if that is known.
    pub(super) fn undone(&self) -> Option<Fight> {
        let found = self.all_fights();
        found
            .into_iter()
            .find(|fight| matches!(fight.how, How::Undoes(_)))
    }

    fn all_fights(&self) -> Vec<Fight> {
        let (Ok(pin), Ok(Some(template))) = (self.compile(), self.snapshot().plane.template.get()) else {
            return Vec::new();
        };
        self.fights(&pin, template).unwrap_or_default()
    }

    fn fights(&self, pin: &Pin, template: &Value) -> Result<Vec<Fight>, Interrupt> {
        let clusters = self.snapshot().plane.clusters.get()?;
        Ok(fights(
            pin,
            template,
            clusters,
            self.snapshot().plane.overrides.get()?,
        ))
    }
}
