//! The secret ones among the handles of a move: their values are in its journal for as long as the move may need them.

use super::{Operation, Phase};
use crate::intent::secret_handles;

impl Operation<'_> {
    /// Keeps the values of the handles that a copy may still be given. They go with the success of the move, unless the one that
    /// lent the workload has to know them.
    pub(super) fn keep_secrets(&mut self) {
        let snapshot = self.snapshot();
        let is_done = self.status.phase == Phase::Completed;
        let Some(journal) = &mut self.status.journal else {
            return;
        };
        let stay = !is_done || journal.lender.is_some();
        let captured = journal.captured.iter();
        let handles = captured
            .flat_map(|captured| captured.values.values())
            .chain(journal.handle_before.values())
            .filter(|_| stay);
        let members = snapshot.members.values();
        let copies = members.filter_map(|member| member.object.get().ok()?.as_ref());
        secret_handles::settle(
            &mut journal.secrets,
            &journal.profile,
            &mut self.status.common,
            handles,
            copies,
        );
        if let Some(back) = &mut journal.roll_back {
            back.reason = journal.secrets.hidden(&back.reason);
        }
    }
}
