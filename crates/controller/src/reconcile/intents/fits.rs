//! Whether profiles fit the kinds that they are used for, as the control plane defines them. A definition is large, and many intents
//! ask about the same one: it is read once in a while, and only what was found is kept. What doesn't fit ends an intent: that is never
//! an answer from before the question.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::ask::map;
use crate::reconcile::definitions;
use cutover_cluster::{Cluster, Lookup};
use cutover_core::api::WorkloadProfileSpec;
use cutover_core::intent::Seen;
use cutover_core::lint;
use cutover_core::profile::Misfit;
use cutover_karmada::name::Gvk;

/// How long it is taken for so that everything fits.
const KNOWN: Duration = Duration::from_secs(30);
/// How long an answer is that could not be had.
const UNKNOWN: Duration = Duration::from_secs(5);

/// What intents that begin at the same time know of each other.
#[derive(Clone, Debug, Default)]
pub struct Fits(Arc<Mutex<Vec<Arc<Slot>>>>);

/// What is known of one kind and profile. Whoever asks holds the lock meanwhile, and holds up nobody who asks about another one.
#[derive(Debug)]
struct Slot {
    gvk: Gvk,
    profile: Arc<WorkloadProfileSpec>,
    last: tokio::sync::Mutex<Option<Kept>>,
}

#[derive(Debug)]
struct Kept {
    /// When it was asked for.
    at: Instant,
    misfits: Seen<Vec<Misfit>>,
}

impl Kept {
    fn is_fresh(&self) -> bool {
        let limit = match &self.misfits {
            Seen::Known { value, .. } if value.is_empty() => KNOWN,
            Seen::Known { .. } => Duration::ZERO,
            Seen::Unknown { .. } => UNKNOWN,
        };
        self.at.elapsed() < limit
    }
}

impl Slot {
    /// Returns whether a question is under way, or its answer still counts.
    fn is_of_use(this: &Arc<Self>) -> bool {
        let last = this.last.try_lock();
        Arc::strong_count(this) > 1 || last.is_ok_and(|last| last.as_ref().is_some_and(Kept::is_fresh))
    }
}

impl Fits {
    /// Returns what of a profile doesn't fit a kind.
    pub(in crate::reconcile) async fn misfits(
        &self,
        cluster: &Cluster,
        gvk: &Gvk,
        profile: &Arc<WorkloadProfileSpec>,
    ) -> Seen<Vec<Misfit>> {
        self.of(gvk, profile, look(cluster, gvk, profile)).await
    }

    /// One question at a time about one kind: a hundred moves that begin ask once, or twice where something doesn't fit.
    async fn of(
        &self,
        gvk: &Gvk,
        profile: &Arc<WorkloadProfileSpec>,
        look: impl Future<Output = Seen<Vec<Misfit>>>,
    ) -> Seen<Vec<Misfit>> {
        let asked = Instant::now();
        let slot = self.slot(gvk, profile);
        let mut last = slot.last.lock().await;
        let known = last.as_ref().filter(|kept| kept.at > asked || kept.is_fresh());
        if let Some(known) = known {
            return known.misfits.clone();
        }
        let at = Instant::now();
        let misfits = look.await;
        *last = Some(Kept {
            at,
            misfits: misfits.clone(),
        });
        misfits
    }

    fn slot(&self, gvk: &Gvk, profile: &Arc<WorkloadProfileSpec>) -> Arc<Slot> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(Slot::is_of_use);
        let known = slots
            .iter()
            .find(|slot| slot.gvk == *gvk && slot.profile == *profile);
        if let Some(known) = known {
            return Arc::clone(known);
        }
        let slot = Arc::new(Slot {
            gvk: gvk.clone(),
            profile: Arc::clone(profile),
            last: tokio::sync::Mutex::default(),
        });
        slots.push(Arc::clone(&slot));
        slot
    }
}

async fn look(cluster: &Cluster, gvk: &Gvk, profile: &WorkloadProfileSpec) -> Seen<Vec<Misfit>> {
    let definition = match cluster.lookup(gvk).await {
        Ok(Lookup::Served(served)) => definitions::of(cluster, &served).await,
        // That is reported by itself.
        Ok(Lookup::NotServed) => return Seen::known(Vec::new(), super::ask::instant(cluster)),
        Err(error) => return Seen::unknown(error.to_string()),
    };
    map(&definition, |definition| {
        let definition = definition.as_ref();
        definition.map_or_else(Vec::new, |definition| {
            lint::misfits_with(profile, gvk, definition)
        })
    })
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use cutover_core::intent::Read;
    use tokio::time::advance;

    use super::*;

    fn pump(version: &str) -> Gvk {
        Gvk::new(&format!("flow.example.org/{version}"), "Pump")
    }

    fn profile() -> Arc<WorkloadProfileSpec> {
        let all = cutover_core::profile::built_in().unwrap();
        Arc::new(all[0].spec.clone())
    }

    fn seen(misfits: &[&str]) -> Seen<Vec<Misfit>> {
        let misfit = |message: &&str| Misfit {
            pointer: "/spec/healthyWhen".to_owned(),
            message: (*message).to_owned(),
            hint: None,
        };
        let read = Read { sent: 1, answered: 2 };
        Seen::known(misfits.iter().map(misfit).collect(), read)
    }

    fn messages(seen: &Seen<Vec<Misfit>>) -> Vec<String> {
        let misfits = seen.get().unwrap().iter();
        misfits.map(|misfit| misfit.message.clone()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_fit_is_looked_at_for_each_question_and_what_fits_once_in_a_while() {
        let (fits, profile, kind) = (Fits::default(), profile(), pump("v1"));
        let ask = async |answer: &[&str]| messages(&fits.of(&kind, &profile, ready(seen(answer))).await);
        assert_eq!(ask(&["phaze"]).await, ["phaze"]);
        // The definition has been corrected.
        assert!(ask(&[]).await.is_empty());
        assert!(ask(&["phaze"]).await.is_empty());
        advance(KNOWN).await;
        assert_eq!(ask(&["phaze"]).await, ["phaze"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_does_not_answer_holds_up_no_other() {
        let (fits, profile) = (Fits::default(), profile());
        let (slow, quick) = (pump("v1"), pump("v2"));
        let waits = fits.of(&slow, &profile, pending());
        tokio::select! {
            _ = waits => panic!("it is never answered"),
            other = fits.of(&quick, &profile, ready(seen(&[]))) => assert!(messages(&other).is_empty()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_goes_when_it_serves_no_longer() {
        let (fits, profile) = (Fits::default(), profile());
        fits.of(&pump("v1"), &profile, ready(seen(&[]))).await;
        advance(KNOWN).await;
        fits.of(&pump("v2"), &profile, ready(seen(&[]))).await;
        assert_eq!(fits.0.lock().unwrap().len(), 1);
    }
}
