//! The words of people: what they say for what can't be seen, and what they decide. A word is good for one cluster, attempt and
//! phase; who gave it, and what is given up by it, stands in the journal once it was used.

use std::collections::{BTreeMap, BTreeSet};

use super::{Interrupt, Operation};
use crate::api::{Assumption, Fact, MigrationSpec, MigrationStatus, Offer, UsedWord};
use crate::intent::member::Pod;
use cutover_karmada::name::ClusterName;

const SOMEBODY: &str = "a person";

impl Operation<'_> {
    /// A word that a person can give as things are, to be said in the sentence that asks for it.
    pub(super) fn offer(&self, fact: Fact, cluster: &ClusterName) -> Offer {
        self.offered_word(Offer::new(fact, cluster))
    }

    /// The same, with what is given up by it.
    pub(super) fn offer_at(&self, fact: Fact, cluster: &ClusterName, gives_up: impl Into<String>) -> Offer {
        self.offered_word(Offer::new(fact, cluster).giving_up(gives_up))
    }

    fn offered_word(&self, offer: Offer) -> Offer {
        let mut offers = self.scratch.offers.borrow_mut();
        if !offers.iter().any(|known| known.is_same(&offer)) {
            offers.push(offer.clone());
        }
        offer
    }

    /// Returns who has given a word about a cluster that holds now: in this attempt and phase, and not used up. That nothing
    /// runs in a cluster holds in later phases, too, until something is seen there or it is let run.
    pub(super) fn assumed(&self, fact: Fact, cluster: &ClusterName) -> Option<String> {
        if let Some(said) = self.said(fact, cluster) {
            self.scratch.used.borrow_mut().push((fact, cluster.clone()));
            return Some(said.by.clone().unwrap_or_else(|| SOMEBODY.to_owned()));
        }
        let lasting = self.words(Fact::Stopped, cluster).find(|word| !word.spent);
        lasting
            .filter(|_| fact == Fact::Stopped)
            .map(|word| word.by.clone())
    }

    /// Returns whether the status has offered a word in the look before.
    pub(super) fn offers_before(&self, fact: Fact, cluster: &ClusterName) -> bool {
        let before = self.input.status.common.waiting_for.iter();
        let mut offers = before.flat_map(|wait| wait.offers.iter());
        offers.any(|offer| (offer.fact, &offer.cluster) == (fact, cluster))
    }

    /// Returns whether a word was used in this attempt, in whatever phase.
    pub(super) fn was_said(&self, fact: Fact, cluster: &ClusterName) -> bool {
        self.words(fact, cluster).next().is_some()
    }

    /// Returns when a word was used first in this attempt.
    pub(super) fn said_at(&self, fact: Fact, cluster: &ClusterName) -> Option<jiff::Timestamp> {
        self.words(fact, cluster).map(|word| word.at).min()
    }

    fn words(&self, fact: Fact, cluster: &ClusterName) -> impl Iterator<Item = &UsedWord> {
        let journal = self.status.journal.iter();
        let words = journal.flat_map(|journal| journal.words.iter());
        words.filter(move |word| word.fact == fact && word.cluster == *cluster)
    }

    /// Returns a word of the spec for this attempt and phase that is not used up.
    fn said(&self, fact: Fact, cluster: &ClusterName) -> Option<&Assumption> {
        let phase = self.status.phase;
        let said = self.input.spec.assume.iter().filter(|word| {
            let is_meant = word.fact == fact && word.cluster == *cluster;
            is_meant && word.attempt == self.status.common.attempt && word.phase == phase
        });
        let spent = self.words(fact, cluster);
        let spent = spent.filter(|word| word.spent && word.phase == phase).count();
        said.skip(spent).last()
    }

    /// Uses a word up: it counts again only when a person gives it again.
    pub(super) fn spend(&mut self, fact: Fact, cluster: &ClusterName) -> Result<(), Interrupt> {
        self.journal_word(fact, cluster);
        let words = &mut self.journal_mut()?.words;
        for word in words
            .iter_mut()
            .filter(|word| (word.fact, &word.cluster) == (fact, cluster))
        {
            word.spent = true;
        }
        Ok(())
    }

    /// A person lets the workload go on from a handle that is not the newest: which one stands with the word.
    pub(super) fn note_handle(
        &mut self,
        fact: Fact,
        cluster: &ClusterName,
        handle: &BTreeMap<String, String>,
    ) -> Result<(), Interrupt> {
        self.journal_word(fact, cluster);
        let phase = self.status.phase;
        let words = &mut self.journal_mut()?.words;
        let mut words = words.iter_mut().rev();
        let word = words.find(|word| (word.fact, &word.cluster, word.phase) == (fact, cluster, phase));
        if let Some(word) = word {
            word.handle.clone_from(handle);
        }
        Ok(())
    }

    /// Returns a word as it is journaled, unless it is already.
    fn used_word(&self, fact: Fact, cluster: &ClusterName) -> Option<UsedWord> {
        let said = self.said(fact, cluster)?;
        let is_same = |word: &UsedWord| word.phase == said.phase && !word.spent;
        if self.words(fact, cluster).any(is_same) {
            return None;
        }
        let before = self.input.status.common.waiting_for.iter();
        let before = before.flat_map(|wait| wait.offers.iter());
        let offers = self.scratch.offers.borrow();
        let offered = before
            .chain(offers.iter())
            .find(|offer| (offer.fact, &offer.cluster) == (fact, cluster));
        Some(UsedWord {
            fact,
            cluster: cluster.clone(),
            phase: said.phase,
            by: said.by.clone().unwrap_or_else(|| SOMEBODY.to_owned()),
            at: self.input.now,
            gives_up: offered.map(|offer| offer.gives_up.clone()).unwrap_or_default(),
            handle: BTreeMap::new(),
            spent: false,
        })
    }

    /// What this pass has built on stands in the journal with what it does.
    pub(super) fn note_words(&mut self) {
        let after = (self.status.phase, self.status.common.attempt);
        // They were said for the phase in which the pass began.
        (self.status.phase, self.status.common.attempt) =
            (self.input.status.phase, self.input.status.common.attempt);
        for (fact, cluster) in self.scratch.used.take() {
            self.journal_word(fact, &cluster);
        }
        (self.status.phase, self.status.common.attempt) = after;
    }

    fn journal_word(&mut self, fact: Fact, cluster: &ClusterName) {
        let word = self.used_word(fact, cluster);
        if let Some(journal) = &mut self.status.journal {
            journal.words.extend(word);
        }
    }

    /// Where something runs nobody's word says that nothing does: neither one that was used, nor one that comes late.
    pub(super) fn note_seen_running(&mut self) {
        let Some(journal) = &self.status.journal else {
            return;
        };
        let used = journal.words.iter();
        let used = used.filter(|word| word.fact == Fact::Stopped && !word.spent);
        let given = self.input.spec.assume.iter();
        let given = given.filter(|word| word.fact == Fact::Stopped);
        let vouched: BTreeSet<ClusterName> = used
            .map(|word| word.cluster.clone())
            .chain(given.map(|word| word.cluster.clone()))
            .collect();
        for cluster in vouched {
            // What is seen in another cluster under that name is not what the word is about.
            let is_the_same = matches!(self.is_replaced(&cluster), Ok(false));
            if is_the_same && self.is_seen_running(&cluster) && self.refute(Fact::Stopped, &cluster).is_err()
            {
                return;
            }
        }
    }

    /// Spends all that was said of a cluster: what is seen now says otherwise.
    pub(super) fn refute(&mut self, fact: Fact, cluster: &ClusterName) -> Result<(), Interrupt> {
        while self.said(fact, cluster).is_some() || self.words(fact, cluster).any(|word| !word.spent) {
            self.spend(fact, cluster)?;
        }
        Ok(())
    }

    /// Returns whether pods of the workload are seen in a cluster, but for those of a node that is lost: of them nobody knows.
    pub(super) fn is_seen_running(&self, cluster: &ClusterName) -> bool {
        let Ok(member) = self.snapshot().member(cluster) else {
            return false;
        };
        let (pods, nodes) = (member.pods.get(), member.nodes.get().ok());
        let is_lost = |pod: &Pod| {
            let ready = nodes.zip(pod.node.as_ref());
            ready.is_some_and(|(ready, node)| ready.get(node) == Some(&false))
        };
        pods.is_ok_and(|pods| pods.iter().any(|pod| !is_lost(pod)))
    }
}

/// Returns whether the nodes of the pods in a cluster have to be read as well: where a person says that nothing runs, or where the
/// source is to run again, a pod counts unless its node is lost.
pub fn asks_for_nodes(spec: &MigrationSpec, status: &MigrationStatus, cluster: &ClusterName) -> bool {
    let is_meant = |fact: Fact, of: &ClusterName| fact == Fact::Stopped && of == cluster;
    let journal = status.journal.as_ref();
    let used = journal.is_some_and(|journal| {
        let mut words = journal.words.iter();
        words.any(|word| is_meant(word.fact, &word.cluster))
    });
    let comes_back = journal.is_some_and(|journal| journal.roll_back.is_some() && journal.source == *cluster);
    used || comes_back || spec.assume.iter().any(|word| is_meant(word.fact, &word.cluster))
}
