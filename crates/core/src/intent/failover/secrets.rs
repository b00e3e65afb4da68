//! The secret ones among the handles of a plan: their values are in its journal for as long as a copy may be given them.

use std::collections::BTreeMap;

use super::Operation;
use crate::intent::secret_handles;

impl Operation<'_> {
    /// Keeps the values of the handles that the plan knows.
    pub(super) fn keep_secrets(&mut self) {
        let around = self.around();
        let known = self.status.last_known.as_ref().map(|known| &known.values);
        let Some(journal) = &mut self.status.journal else {
            return;
        };
        let state = journal.flight.as_ref().and_then(|flight| flight.state.as_ref());
        let all = [known, journal.carried.as_ref(), state.map(|state| &state.values)];
        let handles = all.into_iter().flatten().flat_map(BTreeMap::values);
        let members = around.members.values();
        let copies = members.filter_map(|member| member.object.get().ok()?.as_ref());
        let beside = self.input.snapshot.beside.values().flat_map(BTreeMap::values);
        let beside = beside.filter_map(|objects| objects.get().ok()).flatten();
        secret_handles::settle(
            &mut journal.secrets,
            &journal.profile,
            &mut self.status.common,
            handles,
            copies.chain(beside),
        );
    }

    /// Returns whether a copy can be given these handles. In a control plane that was rebuilt from Git those that are secrets can't
    /// be: Git doesn't have their values.
    pub(super) fn can_give(&self, handles: &BTreeMap<String, String>) -> bool {
        let journal = self.status.journal.as_ref();
        journal.is_some_and(|journal| journal.secrets.have(handles.values()))
    }
}
