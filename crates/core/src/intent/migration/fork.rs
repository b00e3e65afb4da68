//! Two copies that both wrote: after a lapse each may have state that the other hasn't.

use std::collections::BTreeMap;

use super::{Interrupt, Operation};
use crate::api::{Capture, Fact, Offer, quoted};
use crate::intent::proof::Stopped;
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    /// Returns whether the source has to be told which state it restarts from: the captured one isn't its own.
    ///
    /// A source that ran again after it had handed its state over has written on. Where the target never ran, what it left is
    /// the newest state; where both did, no machine can tell which of them is to be kept.
    pub(super) fn newest_is_captured(&mut self, source: &ClusterName) -> Result<bool, Interrupt> {
        let Some(captured) = self.journal()?.captured.clone() else {
            return Ok(false);
        };
        // What it writes now no handle has.
        let goes_on = captured.from != *source && self.is_seen_running(source);
        if goes_on && self.assumed(Fact::From, source).is_some() {
            return Ok(false);
        }
        let profile = self.profile()?;
        // What its operator shows no more is its own all the same.
        let may_show_none =
            captured.from == *source && profile.restarts_by_handle() && self.source_is_intact()?;
        let object = self.snapshot().member(source)?.object.get()?;
        let own = object
            .as_ref()
            .map_or(Ok(BTreeMap::new()), |object| profile.handles(object))?;
        let journal = self.journal()?;
        let is_known = [&journal.source_handle, &journal.handle_before, &captured.values].contains(&&own);
        let wrote_on = !own.is_empty() && !is_known && captured.from != *source;
        let wrote_alone = !own.is_empty() && !is_known && captured.from == *source;
        if !wrote_on && !wrote_alone {
            return Ok(own != captured.values && !(own.is_empty() && may_show_none));
        }
        let stopped = match self.prove(source, Stopped::prove)? {
            Ok(stopped) => stopped,
            // A person gives up what it may have left since: it is started with the handle that is known.
            Err(_) if profile.restarts_by_handle() && self.assumed(Fact::From, &captured.from).is_some() => {
                return Ok(true);
            }
            Err(why) => return Err(why.into()),
        };
        let newer = stopped.capture(&profile, &captured.values, self.input.now)?;
        if wrote_alone || self.assumed(Fact::From, source).is_some() {
            self.journal_mut()?.capture_source(newer);
            return Err(Interrupt::Requeue);
        }
        if self.assumed(Fact::From, &captured.from).is_some() {
            return Ok(true);
        }
        let others = [(&newer, &captured), (&captured, &newer)];
        let choices = others.map(|(kept, other)| {
            let gives_up = format!("what {} wrote by itself", other.from);
            self.offer_at(Fact::From, &kept.from, gives_up)
        });
        Err(Interrupt::Wait(question(&newer, &captured, &choices)))
    }
}

fn question(one: &Capture, other: &Capture, [first, second]: &[Offer; 2]) -> String {
    let left = |capture: &Capture| {
        let values: Vec<String> = capture
            .values
            .iter()
            .map(|(name, value)| format!("{name} {}", quoted(value)))
            .collect();
        format!("{} left {}", capture.from, values.join(", "))
    };
    format!(
        "both copies have written, and a person must choose whose state is kept: {}; {} ({first}; or {second})",
        left(one),
        left(other)
    )
}
