//! Git has the end of what is asked for on record: the file was applied again, or the control plane was rebuilt. Nothing is
//! moved by it, and no end is claimed that isn't still to be seen.

use std::collections::BTreeMap;

use super::{Interrupt, Next, Operation, Phase};
use crate::api::{Finding, Journal};
use crate::intent::proof::{Facts, Healthy, NotProved};
use crate::intent::record::Record;

/// The finding that says when the end was recorded.
pub(super) const RECORDED: &str = "Recorded";

impl Operation<'_> {
    /// Ends as the record says if this control plane has recorded it and the workload still runs where it was left; else as
    /// one of which only the record speaks.
    pub(super) fn ended_before(&mut self, record: &Record) -> Result<Next, Interrupt> {
        let still = self.is_still_so(record)?;
        let noted = std::mem::take(&mut self.status.held_policies);
        self.status = record.status.clone();
        let ended = &mut self.status;
        // Nothing is moved, so nothing that would have Karmada move it may be applied.
        let held: Vec<_> = noted
            .into_iter()
            .filter(|one| !ended.held_policies.contains(one))
            .collect();
        ended.held_policies.extend(held);
        let at = ended
            .common
            .finished_at
            .map_or_else(String::new, |at| format!(" {at}"));
        let phase = ended.phase;
        let again = "rename the file and the intent in it to ask again";
        let finding = match still {
            Ok(seen) => Finding::new(RECORDED, format!("{phase} (recorded{at}); {seen}"), again),
            Err(why) => {
                ended.phase = Phase::EndedBefore;
                let message =
                    format!("Git records it as {phase}{at}, and nothing was moved this time: {why}");
                Finding::new("EndedBefore", message, again)
            }
        };
        ended.common.waiting_for = None;
        ended.common.findings.retain(|known| known.code != finding.code);
        ended.common.findings.push(finding);
        Ok(Next::Requeue)
    }

    /// Returns what was seen of the workload where the record leaves it, or why that doesn't hold.
    fn is_still_so(&self, record: &Record) -> Result<Result<String, String>, Interrupt> {
        let Some(journal) = &record.status.journal else {
            return Ok(match record.status.phase {
                Phase::Completed => Err("the record does not say which binding it was about".to_owned()),
                _ => Ok("nothing was touched then".to_owned()),
            });
        };
        let binding = self.snapshot().plane.binding.get()?.as_ref();
        let Some(binding) =
            binding.filter(|binding| binding.metadata.uid.as_deref() == Some(&journal.binding.uid))
        else {
            return Ok(Err(
                "the workload has another binding now, as in a control plane that was rebuilt".to_owned(),
            ));
        };
        let tenant = record.tenant(journal);
        let listed: Vec<&str> = binding
            .spec
            .clusters
            .iter()
            .map(|cluster| cluster.name.as_str())
            .collect();
        if listed != [tenant.as_str()] {
            let listed = if listed.is_empty() {
                "no cluster".to_owned()
            } else {
                listed.join(" and ")
            };
            return Ok(Err(format!(
                "it left the workload in {tenant}, and Karmada lists {listed} now"
            )));
        }
        Ok(self.runs_there(journal, record).map_err(|why| why.to_string()))
    }

    fn runs_there(&self, journal: &Journal, record: &Record) -> Result<String, NotProved> {
        if journal.is_trimmed() {
            let why = "the record does not have the profile that says what is healthy";
            return Err(NotProved::Unknown(why.to_owned()));
        }
        let cluster = record.tenant(journal);
        let profile = crate::profile::Profile::compile("journal", &journal.profile)?;
        let healthy = Healthy::as_it_is(&Facts {
            cluster,
            member: self.snapshot().member(cluster)?,
            works: &BTreeMap::new(),
            marker: "",
            profile: &profile,
            nodes: None,
            offered: None,
        })?;
        Ok(healthy.evidence().to_owned())
    }
}
