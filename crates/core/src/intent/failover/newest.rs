//! The newest state of the writer's copy, noted while nothing fails: what a failover goes on from that can't stop the copy.

use std::collections::BTreeMap;

use serde_json::Value;

use super::look::uid;
use super::{Interrupt, NEWEST_DISPOSABLE, NEWEST_UNSEEN, Operation};
use crate::api::{Finding, LastKnown};
use crate::intent::NotKnown;
use crate::profile::{Newest, Profile};
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    /// Notes the newest handle of the running copy. Where it can't be seen whether there is a newer one, what was noted of this run
    /// before may be that, and stays.
    pub(super) fn note_last_known(&mut self) -> Result<(), Interrupt> {
        if !self.input.spec.capture.continuous {
            return Ok(());
        }
        let writer = self.writer()?;
        let Ok(Some(copy)) = self.input.snapshot.around.member(&writer)?.object.get() else {
            return Ok(());
        };
        if copy.pointer("/metadata/deletionTimestamp").is_some() {
            return Ok(());
        }
        let beside = self.input.snapshot.beside.get(&writer);
        let all = beside.into_iter().flatten();
        let seen: BTreeMap<usize, &[Value]> = all
            .filter_map(|(rule, objects)| Some((*rule, objects.get().ok()?.as_slice())))
            .collect();
        let profile = self.profile()?;
        let mut newest = profile.last_known(copy, &seen)?;
        if newest.unseen.is_empty() {
            self.untell(NEWEST_UNSEEN);
        } else {
            let mut unseen = newest.unseen.iter();
            let unread = unseen.find_map(|rule| beside?.get(rule)?.get().err());
            self.doubt_newest(&writer, unread)?;
            self.keep_noted(&mut newest, &profile, &writer, copy)?;
        }
        self.warn_of_disposal(&writer, &newest)?;
        let all_seen = newest.unseen.is_empty();
        let Newest { values, saved, .. } = newest;
        if values.is_empty() {
            return Ok(());
        }
        let known = self.status.last_known.as_mut();
        if let Some(known) = known.filter(|known| known.cluster == writer && known.values == values) {
            // What a copy was started with, or an earlier version noted, has no times.
            for (name, at) in saved.into_iter().filter(|_| all_seen) {
                known.saved.entry(name).or_insert(at);
            }
            return Ok(());
        }
        self.status.last_known = Some(LastKnown {
            cluster: writer,
            uid: uid(copy),
            values,
            at: self.input.now,
            saved,
            recorded: false,
        });
        Err(Interrupt::Requeue)
    }

    /// Keeps a noted handle of this run where it can't be seen whether there is a newer one, unless the copy shows one that was saved
    /// later. Both times are the cluster's: when a handle was noted says by another clock when it was seen.
    fn keep_noted(
        &self,
        newest: &mut Newest,
        profile: &Profile,
        writer: &ClusterName,
        copy: &Value,
    ) -> Result<(), Interrupt> {
        let noted = self.status.last_known.as_ref();
        let Some(noted) = noted.filter(|noted| noted.cluster == *writer && noted.uid == uid(copy)) else {
            return Ok(());
        };
        let secrets = &self.journal()?.secrets;
        for rule in &newest.unseen {
            let Some(name) = profile.known_name(*rule) else {
                continue;
            };
            let Some(handle) = noted.values.get(name) else {
                continue;
            };
            let Some(value) = secrets.plain(handle) else {
                continue;
            };
            let shown = newest.saved.get(name);
            let is_timeless = shown.is_none();
            let is_later = shown
                .zip(noted.saved.get(name))
                .map(|(shown, before)| before > shown);
            let stays = match profile.is_of_this_run(*rule, value, copy) {
                // Of one without a time, what shows one is believed.
                Some(is_of_run) => is_of_run && is_later.unwrap_or(is_timeless),
                // It is this copy's, and only the times say more.
                None => is_later == Some(true),
            };
            if !stays {
                continue;
            }
            newest.values.insert(name.to_owned(), handle.clone());
            if let Some(at) = noted.saved.get(name) {
                newest.saved.insert(name.to_owned(), *at);
            }
        }
        Ok(())
    }

    /// Says that the newest state goes with the object that shows it. Where not all was seen, what was noted before may stay, and what
    /// was said of it.
    fn warn_of_disposal(&mut self, writer: &ClusterName, newest: &Newest) -> Result<(), Interrupt> {
        let message = goes_with_its_object(writer);
        // What was said of the copy in another cluster is not about this one.
        let findings = &mut self.status.common.findings;
        findings.retain(|known| known.code != NEWEST_DISPOSABLE || known.message == message);
        if !newest.unseen.is_empty() {
            return Ok(());
        }
        if newest.disposed.is_empty() {
            self.untell(NEWEST_DISPOSABLE);
            return Ok(());
        }
        self.tell(Finding::new(
            NEWEST_DISPOSABLE,
            message,
            "keep that object in its cluster until the workload has a newer state of its own, and create such objects so that the state \
             outlives them: a FlinkStateSnapshot with disposeOnDelete: false",
        ))
    }

    /// Says why it can't be seen whether there is a newer state; nothing where it was not looked for in this pass.
    fn doubt_newest(&mut self, writer: &ClusterName, unread: Option<NotKnown>) -> Result<(), Interrupt> {
        let Some(NotKnown(why)) = unread else {
            return Ok(());
        };
        let finding = Finding::new(
            NEWEST_UNSEEN,
            format!("cutover cannot see whether {writer} has a newer state than the recorded one: {why}"),
            "allow cutover to list the objects that the profile's lastKnown names in that cluster; until then a failover that can't stop \
             the copy may go on from an older state",
        );
        let message = self.without_secrets(finding.message.clone());
        let findings = &self.status.common.findings;
        if !findings.iter().any(|known| known.message == message) {
            self.untell(NEWEST_UNSEEN);
        }
        self.tell(finding)
    }

    /// Git has the last known handle: what a rebuilt control plane would start from.
    pub(super) fn record_last_known(&mut self) -> Result<(), Interrupt> {
        let Some(known) = self.status.last_known.as_ref().filter(|known| !known.recorded) else {
            return Ok(());
        };
        let values = known.values.clone();
        let there = self.input.snapshot.kept.get()?.as_ref();
        let has_it = there
            .and_then(|kept| kept.last_known.as_ref())
            .is_some_and(|kept| kept.values == values);
        if !has_it {
            return Err(Interrupt::Act(vec![self.keep("notes its last known state")]));
        }
        if let Some(known) = self.status.last_known.as_mut() {
            known.recorded = true;
        }
        Err(Interrupt::Requeue)
    }
}

/// Returns what is reported of a state that is deleted with the object that shows it.
pub(super) fn goes_with_its_object(cluster: &ClusterName) -> String {
    format!("the newest state of the copy in {cluster} is deleted with the object that shows it")
}
