//! Placements that Migrations have carried out and that Git has changed since. A committed Migration ends when a placement keeps the
//! workload where it runs by then: so what was agreed is applied first, and what Git says by now sets the next Migration off.
//!
//! Costs nothing while no Migration of this sync is committed; and nothing to speak of while nothing has changed since the API server was
//! asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use super::Sync;
use super::gate::{Reach, accepted, cannot_tell};
use super::pass::place_of;
use super::report::Problem;
use super::standing::less_often;
use crate::reconcile::intents::policies::typed;
use crate::reconcile::intents::served;
use cutover_cluster::{self as cluster, Applied, Mode};
use cutover_core::api::{self, PolicyName, SOURCE_ANNOTATION, SYNC_MANAGER};
use cutover_core::intent::driven::{self, Driven};
use cutover_core::intent::gate::Write;
use cutover_core::manifest::{Entry, Manifest};
use cutover_core::plan::{Decision, owned_matches};
use cutover_karmada::PropagationSpec;
use cutover_karmada::name::{ObjectKey, Revision};

const HINT: &str = "push that placement once more, then the newer one; or give a workload that cannot move a policy of its own";

/// What was found of placements that Git has changed.
#[derive(Debug, Default)]
pub(super) struct Agreed {
    /// The policies that have the agreed placement, and a Migration that ends with it.
    by: BTreeMap<ObjectKey, String>,
    /// Those that cannot have it, or need not.
    answers: BTreeMap<ObjectKey, Answer>,
    /// What pushes to other repositories and branches have set off.
    of_others: Vec<Problem>,
    /// It isn't certain yet what Git asks for, or what is there.
    in_doubt: bool,
}

impl Agreed {
    /// Returns the Migration whose end a policy waits for, with what that has carried out.
    pub(super) fn by(&self, policy: &ObjectKey) -> Option<&str> {
        self.by.get(policy).map(String::as_str)
    }

    /// Returns whether another look may find something that no change tells of.
    pub(super) const fn want_again(&self) -> bool {
        self.in_doubt
    }

    /// Returns when it is asked again what was answered.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.answers.values().map(|answer| answer.again).min()
    }

    /// Returns whether it is to be looked at now, whether or not anything has happened.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.in_doubt || self.next_look().is_some_and(|at| at <= now)
    }

    /// Returns which Migrations only a person can bring to an end.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let problems = self.answers.values();
        let problems = problems.filter_map(|answer| answer.problem.clone());
        problems.chain(self.of_others.iter().cloned()).collect()
    }
}

/// Why a policy doesn't get an agreed placement. The same is asked again after a while only: what it depends on beside is nothing that a
/// change tells of.
#[derive(Clone, Debug)]
struct Answer {
    /// Of which commit, policy and Migrations.
    of: String,
    /// The policy that comes first, and which version of it there was.
    after: Option<(ObjectKey, Option<String>)>,
    /// `None`: what Git says needs nothing of it, or another policy comes first.
    problem: Option<Problem>,
    /// How often the same was answered before.
    times: u32,
    again: Instant,
}

impl Answer {
    /// `before`: the one before it.
    fn new(of: String, problem: Option<Problem>, before: Option<&Self>, now: Instant) -> Self {
        Self {
            problem,
            ..Self::waiting(of, None, before, now)
        }
    }

    /// Another policy comes first, of which a change tells; what else decides that is looked at less and less often.
    fn after(
        of: String,
        first: ObjectKey,
        version: Option<String>,
        before: Option<&Self>,
        now: Instant,
    ) -> Self {
        Self::waiting(of, Some((first, version)), before, now)
    }

    fn waiting(
        of: String,
        after: Option<(ObjectKey, Option<String>)>,
        before: Option<&Self>,
        now: Instant,
    ) -> Self {
        let before = before.filter(|before| before.of == of && before.after == after);
        let times = before.map_or(0, |before| before.times.saturating_add(1));
        Self {
            of,
            after,
            problem: None,
            times,
            again: now + less_often(times),
        }
    }

    /// Returns whether the same would be answered now, as far as changes tell. `version`: which one there is of a policy.
    fn holds(&self, of: &str, version: impl Fn(&ObjectKey) -> Option<String>, now: Instant) -> bool {
        let after = self.after.as_ref();
        self.of == of && self.again > now && after.is_none_or(|(first, before)| version(first) == *before)
    }
}

/// What becomes of an agreed placement.
enum Turn {
    /// The policy has it, or may have it.
    Now,
    /// Something else comes before it, and a change tells of that.
    Later,
    /// This policy comes before it, as the gate has found on fresh reads.
    After(ObjectKey),
    /// What Git says needs nothing of it.
    Never,
}

/// Committed Migrations of one policy of which Git now asks for another placement.
struct Committed {
    policy: PolicyName,
    /// As Git has it.
    entry: Arc<Entry>,
    /// What they have carried out.
    placement: Value,
    /// One of them.
    by: String,
    workloads: Vec<ObjectKey>,
    /// Which versions of them.
    versions: Vec<String>,
}

impl Committed {
    /// Returns the policy as Git has it, but for the placement.
    fn agreed(&self) -> Option<Manifest> {
        let mut manifest = self.entry.manifest();
        let spec = manifest.value.get_mut("spec")?.as_object_mut()?;
        spec.insert("placement".to_owned(), self.placement.clone());
        Some(manifest)
    }

    fn problem(&self, why: &str) -> Problem {
        Problem {
            message: format!(
                "{} is committed and waits for the placement that it has carried out, which cannot be applied: {why}",
                self.by
            ),
            hint: Some(HINT.to_owned()),
            at: Some(self.entry.source()),
        }
    }
}

impl Sync {
    /// Lets policies say what committed Migrations wait for, where Git says something else by now and that would be held back.
    pub(super) async fn apply_agreed(&mut self, revision: &Revision) {
        let committed = self.committed();
        let before = std::mem::take(&mut self.agreed);
        self.agreed.of_others = self.of_others();
        if !committed.is_empty() {
            self.check_settings(revision).await;
            self.agreed.in_doubt = self.doubt_elsewhere(revision).is_some();
        }
        let (Agreed { by, mut answers, .. }, now) = (before, Instant::now());
        for (key, one) in committed {
            let version = self.observer.version(&key).unwrap_or_default();
            let of = format!("{} {version} {}", revision.as_str(), one.versions.join(" "));
            let answer = answers.remove(&key);
            let version = |key: &ObjectKey| self.observer.version(key);
            if let Some(answer) = answer.as_ref().filter(|answer| answer.holds(&of, version, now)) {
                self.agreed.answers.insert(key, answer.clone());
                continue;
            }
            let problem = match self.agree(&key, &one).await {
                Ok(Turn::Now) => {
                    self.agreed.by.insert(key, one.by);
                    continue;
                }
                Ok(Turn::Later) => continue,
                Ok(Turn::After(first)) => {
                    let version = self.observer.version(&first);
                    let answer = Answer::after(of, first, version, answer.as_ref(), now);
                    self.agreed.answers.insert(key, answer);
                    continue;
                }
                Ok(Turn::Never) => None,
                Err(why) => Some(one.problem(&why)),
            };
            let answer = Answer::new(of, problem, answer.as_ref(), now);
            self.agreed.answers.insert(key, answer);
        }
        // What Git says has its turn.
        let still = &self.agreed.by;
        let ended = by.into_keys().filter(|key| !still.contains_key(key));
        self.dirty.extend(ended);
    }

    /// Returns the policies that have the agreed placement before the one that Git has by now, as far as a plan can tell, and a Migration
    /// that ends with it.
    pub(super) async fn agreed_first(&self) -> BTreeMap<ObjectKey, String> {
        let mut first = BTreeMap::new();
        for (key, one) in self.committed() {
            let Some(agreed) = one.agreed() else { continue };
            let agreed = self.decider().dressed(&agreed).into_owned();
            if matches!(self.goes_first(&one, &agreed).await, Ok(Turn::Now)) {
                first.insert(key, one.by);
            }
        }
        first
    }

    /// Returns this sync's committed Migrations whose policy has another placement in Git, by that policy.
    fn committed(&self) -> BTreeMap<ObjectKey, Committed> {
        let mut all: BTreeMap<ObjectKey, Committed> = BTreeMap::new();
        let migrations = self.observer.list(api::GROUP, "Migration");
        let committed = migrations.iter().filter(|one| driven::is_committed(one));
        let driven = committed.filter_map(|one| Driven::of(one));
        let mut driven = driven.filter(Driven::awaits_placement).peekable();
        let (Some(own), true) = (self.source.selection.own(), driven.peek().is_some()) else {
            return all;
        };
        let id = self.sync_id(&own.name);
        for driven in driven.filter(|driven| driven.is_by(&id)) {
            let key = driven.policy.key();
            let entry = self.placed.objects.get(&key);
            let entry = entry.filter(|_| !self.placed.frozen.contains(&key));
            let (Some(entry), Some(placement), Some(workload)) = (entry, driven.agreed(), driven.workload())
            else {
                continue;
            };
            let (wanted, template) = (entry.value(), self.observer.get(&workload));
            let is_automatic = || driven::is_automatic(&own.gate.migrations, &wanted, template.as_deref());
            if driven.is_by_placement(&wanted) || !is_automatic() {
                continue;
            }
            let one = all.entry(key).or_insert_with(|| Committed {
                policy: driven.policy.clone(),
                entry: Arc::clone(entry),
                placement: placement.clone(),
                by: driven.name(),
                workloads: Vec::new(),
                versions: Vec::new(),
            });
            one.versions.push(driven.version().to_owned());
            // Of two placements neither keeps the workloads of the other: the gate refuses both.
            if one.placement == placement {
                one.workloads.push(workload);
            }
        }
        all
    }

    /// Returns what to say of committed Migrations whose policy has another placement in Git, and that a push to another repository or branch
    /// has set off: that may be where this one was before, which only a person knows.
    fn of_others(&self) -> Vec<Problem> {
        let Some(own) = self.source.selection.own() else {
            return Vec::new();
        };
        let (id, here) = (self.sync_id(&own.name), self.source.repo.source());
        let migrations = self.observer.list(api::GROUP, "Migration");
        let committed = migrations.iter().filter(|one| driven::is_committed(one));
        let driven = committed.filter_map(|one| Driven::of(one));
        let others = driven.filter(|driven| !driven.is_by(&id) && driven.source() != Some(here.as_str()));
        let problems = others.filter_map(|driven| {
            let entry = self.placed.objects.get(&driven.policy.key())?;
            let there = driven.source().unwrap_or("an unknown repository");
            (!driven.is_by_placement(&entry.value())).then(|| Problem {
                message: format!(
                    "{} is committed and waits for the placement that it has carried out, which this sync does not apply: a push to \
                     {there} has set it off",
                    driven.name()
                ),
                hint: Some(format!(
                    "{HINT}; or, if this repository was in {there} before, annotate the Migration with {SOURCE_ANNOTATION}={here}"
                )),
                at: Some(entry.source()),
            })
        });
        problems.collect()
    }

    /// Gives a policy the agreed placement, if it hasn't it and may have it. An error says why it can't.
    async fn agree(&mut self, key: &ObjectKey, committed: &Committed) -> Result<Turn, String> {
        let (Some(live), Some(agreed)) = (self.observer.get(key), committed.agreed()) else {
            return Ok(Turn::Later);
        };
        let agreed = self.decider().dressed(&agreed).into_owned();
        if owned_matches(&agreed.value, &live, SYNC_MANAGER) == Decision::InSync {
            return Ok(Turn::Now);
        }
        if self.agreed.in_doubt || !self.may_agree(&committed.entry) {
            return Ok(Turn::Later);
        }
        if self.fights.rests(key, Instant::now()).is_some() {
            return Err("another client changes the policy back whenever it is written".to_owned());
        }
        match self.goes_first(committed, &agreed).await? {
            Turn::Now => self.write_agreed(agreed, &live).await,
            turn => Ok(turn),
        }
    }

    /// Returns whether no intent holds a policy, and it has its turn: one that is not committed may still bring its workload back.
    fn may_agree(&mut self, policy: &Entry) -> bool {
        let is_pending = self.waves.pending.contains(&policy.key);
        !self.held.may_hold(&policy.key) && (!is_pending || self.turn(place_of(policy)).is_none())
    }

    /// Asks the gate, of the control plane as it is now and of both placements as the API server would take them.
    async fn goes_first(&self, committed: &Committed, agreed: &Manifest) -> Result<Turn, String> {
        let manifest = self.decider().dressed(&committed.entry.manifest()).into_owned();
        let agreed = self.tried(&committed.policy, agreed).await?;
        let wanted = self.tried(&committed.policy, &manifest).await?;
        let mut reach = Reach::default();
        reach.add(committed.policy.namespace.as_deref());
        let ground = self.ground(&reach).await.map_err(|why| cannot_tell(&why))?;
        let write = Write::Policy(committed.policy.clone(), Some(Box::new(agreed.clone())));
        // It has the selectors of Git, and may let go of a workload that another policy is to take up.
        if let Some(first) = self.comes_first(&ground, &write, None) {
            return Ok(Turn::After(first));
        }
        let goes_first = driven::goes_first(
            &ground,
            &committed.policy,
            (&agreed, &wanted),
            accepted(&manifest.value),
            &committed.workloads,
        )?;
        Ok(if goes_first { Turn::Now } else { Turn::Never })
    }

    async fn tried(&self, policy: &PolicyName, manifest: &Manifest) -> Result<PropagationSpec, String> {
        let options = self.options.of(&manifest.value);
        let tried = cluster::rehearse(&self.cluster, manifest, options).await;
        let tried = tried.map_err(|outcome| {
            let told = outcome.told(&manifest.gvk.kind).map(|(why, _)| why);
            told.unwrap_or_else(|| format!("the API server does not take {policy}"))
        })?;
        Ok(typed(policy, tried)?.spec)
    }

    /// Writes a policy that is still as it was read.
    async fn write_agreed(&mut self, mut agreed: Manifest, live: &Value) -> Result<Turn, String> {
        if let Some(metadata) = agreed.value.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["uid", "resourceVersion"] {
                metadata.insert(field.to_owned(), live["metadata"][field].clone());
            }
        }
        let served = served(&self.cluster, &agreed.gvk).await;
        let served = served.map_err(|error| error.to_string())?;
        let writer = self.cluster.writer(SYNC_MANAGER);
        let applied = writer.apply(&served, &agreed.value, Mode::Write).await;
        let key = agreed.key;
        match applied.map_err(|error| error.to_string())? {
            Applied::Done(written) => {
                self.observer.note(&key, &written);
                // What makes no difference is nothing to look at again.
                if written["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"] {
                    tracing::info!(policy = %key, "it gets the placement that Migrations have carried out, and then the one that Git has");
                    self.fights.corrected(&key, Instant::now());
                    self.dirty.insert(key);
                }
                Ok(Turn::Now)
            }
            Applied::Precondition(why) => {
                tracing::debug!(policy = %key, why, "a precondition failed");
                self.agreed.in_doubt = true;
                Ok(Turn::Later)
            }
            Applied::Conflicts(fields) => {
                let owned = fields
                    .iter()
                    .map(|own| format!("{} owns {}", own.manager, own.field));
                Err(owned.collect::<Vec<_>>().join("; "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_same_is_asked_less_and_less_often_until_something_has_changed() {
        let now = Instant::now();
        let (mut before, mut delays) = (None, Vec::new());
        for of in ["a", "a", "a", "a", "a", "a", "a", "a", "b"] {
            let answer = Answer::new(of.to_owned(), None, before.as_ref(), now);
            delays.push((answer.again - now).as_secs());
            before = Some(answer);
        }
        assert_eq!(delays, [5, 10, 20, 40, 80, 160, 300, 300, 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_another_policy_comes_before_is_asked_again_when_that_one_changes_or_soon() {
        let (now, version) = (Instant::now(), |text: &str| Some(text.to_owned()));
        let first = PolicyName {
            namespace: Some("shop".to_owned()),
            name: "next".to_owned(),
        };
        let after = |of: &str, text: &str, before: Option<&Answer>| {
            Answer::after(of.to_owned(), first.key(), version(text), before, now)
        };
        let answer = after("a", "1", None);
        assert!(answer.holds("a", |_| version("1"), now));
        assert!(
            !answer.holds("a", |_| version("2"), now),
            "the policy has changed"
        );
        assert!(!answer.holds("a", |_| None, now), "the policy is gone");
        assert!(
            !answer.holds("b", |_| version("1"), now),
            "a Migration has changed"
        );
        assert!(!answer.holds("a", |_| version("1"), answer.again));
        // The same once more: later. Something has changed: soon.
        let delay = |answer: &Answer| (answer.again - now).as_secs();
        let second = after("a", "1", Some(&answer));
        let third = after("a", "1", Some(&second));
        assert_eq!([&answer, &second, &third].map(delay), [5, 10, 20]);
        for other in [after("b", "1", Some(&third)), after("a", "2", Some(&third))] {
            assert_eq!(delay(&other), 5);
        }
        assert_eq!(delay(&Answer::new("a".to_owned(), None, Some(&third), now)), 5);
    }
}
