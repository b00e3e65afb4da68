//! The state that a new copy starts from: the newest that is known, with where it comes from.

use std::collections::BTreeMap;

use super::newest::goes_with_its_object;
use super::{Interrupt, NEWEST_DISPOSABLE, NEWEST_UNSEEN, Operation, question};
use crate::api::{FailoverGate, Finding, MovedState, StateSource};
use crate::intent::proof::Suspended;
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    /// What the old copy left when it stopped is the newest; then what Karmada preserved when it evicted it; then what was
    /// seen of it last.
    pub(super) fn state(&self, from: &ClusterName, to: &ClusterName) -> Result<MovedState, Interrupt> {
        let at = self.input.now;
        let of = |source, values, evidence| MovedState {
            source,
            values,
            evidence,
            at,
        };
        if let Some(state) = self.captured(from, &self.marker()?)? {
            return Ok(state);
        }
        if let Some(values) = self.preserved()? {
            let labels = &self.flight()?.preserved;
            let text: Vec<String> = labels
                .iter()
                .map(|(label, value)| format!("{label}={value}"))
                .collect();
            let evidence = format!(
                "Karmada preserved {} when it evicted the copy in {from}",
                text.join(", ")
            );
            return Ok(of(StateSource::Preserved, values, evidence));
        }
        let known = self.status.last_known.as_ref();
        if let Some(known) = known.filter(|known| self.can_give(&known.values)) {
            let mut evidence = format!("seen of the copy in {} at {}", known.cluster, known.at);
            let findings = &self.status.common.findings;
            let is_told = |code| findings.iter().any(|finding| finding.code == code);
            if is_told(NEWEST_UNSEEN) {
                evidence.push_str("; cutover could not see whether a newer one exists");
            }
            let goes = goes_with_its_object(&known.cluster);
            let is_disposable =
                |finding: &Finding| finding.code == NEWEST_DISPOSABLE && finding.message == goes;
            if findings.iter().any(is_disposable) {
                evidence.push_str("; who deletes the object there that shows it deletes this state");
            }
            return Ok(of(StateSource::LastKnown, known.values.clone(), evidence));
        }
        if !self.needs_state()? {
            let evidence = "the profile asks for no handle".to_owned();
            return Ok(of(StateSource::Nothing, BTreeMap::new(), evidence));
        }
        match self.approved(FailoverGate::FromNothing, to) {
            Some(by) => Ok(of(
                StateSource::Nothing,
                BTreeMap::new(),
                format!("{by} lets it start from nothing"),
            )),
            None => Err(question(
                FailoverGate::FromNothing,
                to.clone(),
                format!(
                    "no state of the copy in {from} is known: may it start from nothing in {to}?{}",
                    self.lacks(to)
                ),
            )),
        }
    }

    /// Returns the handle that the operator vouches for of a copy that stopped with its state, if it left one.
    pub(super) fn captured(&self, from: &ClusterName, marker: &str) -> Result<Option<MovedState>, Interrupt> {
        if self.is_replaced(from, self.journal()?.identities.get(from))? {
            return Ok(None);
        }
        let Ok(suspended) = self.prove(from, marker, Suspended::prove)? else {
            return Ok(None);
        };
        let before = &self.flight()?.handle_before;
        let captured = suspended.capture(&self.profile()?, before, self.input.now);
        let captured = captured.ok().filter(|captured| !captured.values.is_empty());
        Ok(captured.map(|captured| MovedState {
            source: StateSource::Captured,
            values: captured.values,
            evidence: captured.evidence,
            at: captured.at,
        }))
    }

    /// Returns the handles that the preserved labels come to, if all that are needed are there.
    fn preserved(&self) -> Result<Option<BTreeMap<String, String>>, Interrupt> {
        let labels = &self.flight()?.preserved;
        let mut values = BTreeMap::new();
        for rule in &self.input.spec.preserved {
            let Some(value) = labels.get(&rule.label).filter(|value| !value.is_empty()) else {
                continue;
            };
            values.insert(rule.handle.clone(), rule.value.replace("${value}", value));
        }
        let mut required = self
            .journal()?
            .profile
            .capture
            .iter()
            .filter(|rule| rule.required);
        let is_whole = required.all(|rule| values.contains_key(&rule.name));
        Ok(Some(values).filter(|values| is_whole && !values.is_empty()))
    }
}
