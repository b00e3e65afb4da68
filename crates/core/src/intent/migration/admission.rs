//! What is known of the admission fence, and what follows from it: a line in the status, and no need of a canary.

use super::Operation;
use crate::api::{AdmissionTest, Guard};
use crate::intent::admission;

/// Whether the API server itself refuses what would move the workload.
pub(super) const FENCE_CONDITION: &str = "AdmissionFence";

impl Operation<'_> {
    pub(super) fn note_admission(&mut self) {
        if let (Some(outcomes), Some(journal)) = (&self.input.snapshot.admission, &mut self.status.journal) {
            admission::note(&mut journal.fence.admission, outcomes, self.input.now);
        }
    }

    pub(super) fn note_admission_condition(&mut self) {
        let Some(test) = self.admission_test() else {
            return;
        };
        let (reason, message) = account(test);
        self.set_condition(FENCE_CONDITION, test.clone().stands(), reason, &message);
    }

    /// Returns what the evidence of a phase says of the fence; nothing where there is none.
    pub(super) fn admission_evidence(&self) -> Option<String> {
        let test = self.admission_test().filter(|test| !test.refused.is_empty())?;
        Some(account(test).1)
    }

    fn admission_test(&self) -> Option<&AdmissionTest> {
        self.status.journal.as_ref()?.fence.admission.as_ref()
    }
}

fn account(test: &AdmissionTest) -> (&'static str, String) {
    let names = |guards: &[Guard]| {
        let names: Vec<String> = guards.iter().map(Guard::to_string).collect();
        names.join(", ")
    };
    if test.stands() {
        return (
            "Stands",
            "admission policies refuse what would move the workload".to_owned(),
        );
    }
    let unknown = test
        .unknown
        .iter()
        .map(|unknown| format!("{} could not be tried: {}", unknown.guard, unknown.why));
    if test.refused.is_empty() && test.unknown.is_empty() {
        let message = "no admission policy refuses what would move the workload (cutover init --cluster installs them): \
                       pin, markers and fresh proofs carry the safety alone";
        return ("NotInstalled", message.to_owned());
    }
    let reason = if test.accepted.is_empty() {
        "NotKnown"
    } else {
        "Incomplete"
    };
    let refused =
        (!test.refused.is_empty()).then(|| format!("admission policies guard {}", names(&test.refused)));
    let accepted = (!test.accepted.is_empty())
        .then(|| format!("none guards {} (cutover init --cluster)", names(&test.accepted)));
    let parts: Vec<String> = refused.into_iter().chain(accepted).chain(unknown).collect();
    (reason, parts.join("; "))
}
