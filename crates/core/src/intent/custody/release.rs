//! What lets a pin name the cluster that may run a workload, where there are copies elsewhere.

use std::collections::BTreeSet;

use super::{Custody, Due};
use crate::intent::pin::{self, Authority, Pin, Says, Token, Writer};
use crate::intent::proof::{Inert, Loose, NotProved, Release, Sole, Stateless};
use crate::intent::seen::{NotKnown, Read};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{OverridePolicy, OverrideRule};

/// What was proved for a pin to be written.
#[derive(Debug)]
pub enum Granted {
    Nobody,
    Sole(Sole),
    Release(Release),
    Stateless(Stateless),
    Loose(Loose),
}

impl Granted {
    pub const fn authority(&self) -> Authority<'_> {
        match self {
            Self::Nobody => Authority::Nobody,
            Self::Sole(sole) => Authority::Sole(sole),
            Self::Release(release) => Authority::Release(release),
            Self::Stateless(stateless) => Authority::Stateless(stateless),
            Self::Loose(loose) => Authority::Loose(loose),
        }
    }
}

/// How a pin comes to name its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// It may run only now: the pin in force has to hold everybody, and is what the proofs are about.
    Now,
    /// The pin in force lets it run already, whatever else that says, or none is in force.
    Already,
}

impl Custody<'_> {
    /// Lets a pin name a cluster: all others with a copy are proved harmless, under the marker of the pin that is there.
    ///
    /// `read`: when the pin was read; every proof has to be of later reads. `prove`: proves one cluster harmless under a marker.
    pub fn release<E>(
        &self,
        pin: &Pin,
        read: Read,
        gives: Gives,
        involved: &BTreeSet<ClusterName>,
        mut prove: impl FnMut(&ClusterName, &str) -> Result<Result<Inert, NotProved>, E>,
    ) -> Result<Granted, E>
    where
        E: From<Due> + From<NotKnown> + From<NotProved>,
    {
        let Some(writer) = pin.writer() else {
            return Ok(Granted::Nobody);
        };
        let live = self.pin.clone()?;
        let under = match (live.and_then(pin::marker_of), gives) {
            (Some(under), _) => under,
            // Nothing holds anybody: to name who may run already, and hold the rest, lets nobody go.
            (None, Gives::Already) => &pin.marker,
            (None, Gives::Now) => {
                let why = "no pin that holds every cluster is in force yet".to_owned();
                return Err(Due::Wait(why).into());
            }
        };
        if says_the_same(pin, live) {
            return Ok(Granted::Nobody);
        }
        if gives == Gives::Now && !live.is_some_and(|live| holds_everybody(live, pin)) {
            return Err(Due::Wait("the pin in force does not hold every cluster".to_owned()).into());
        }
        let mut proofs = Vec::new();
        for cluster in involved.iter().filter(|cluster| *cluster != writer) {
            proofs.push(prove(cluster, under)??);
        }
        Ok(Granted::Release(Release::new(
            writer,
            Some(read),
            involved,
            &proofs,
        )?))
    }
}

/// Returns whether the pin that is there is the one that is wanted, but that nobody may run, and nothing is carried.
pub fn holds_everybody(live: &OverridePolicy, pin: &Pin) -> bool {
    let (Says::Token(token), Some(under)) = (&pin.says, pin::marker_of(live)) else {
        return false;
    };
    let nobody = Pin {
        says: Says::Token(Token {
            may_run: Writer::Nobody,
            carry: Vec::new(),
            ..token.clone()
        }),
        marker: under.to_owned(),
        ..pin.clone()
    };
    nobody.is_written_but_for_what_it_creates(live)
}

/// Returns whether a pin of an intent lets that cluster run already, whatever else it says: what guests say everywhere but there
/// lets nobody run.
pub fn names(live: &OverridePolicy, uid: &str, writer: &ClusterName) -> bool {
    let is_own = pin::owner_of(live).is_some_and(|owner| owner == uid);
    let hold = pin::writer_of(live).first();
    is_own && hold.is_some_and(|rule| excludes(rule, writer))
}

/// Returns whether a rule is about every cluster but one.
fn excludes(rule: &OverrideRule, cluster: &ClusterName) -> bool {
    let target = rule.target_cluster.as_ref();
    let names = target.and_then(|target| target.exclude.as_ref());
    names.is_some_and(|names| names.as_slice() == std::slice::from_ref(cluster))
}

/// Returns whether a pin says what it shall but for its sequence.
pub fn says_the_same(pin: &Pin, live: Option<&OverridePolicy>) -> bool {
    let marker = live.and_then(pin::marker_of);
    live.zip(marker).is_some_and(|(live, marker)| {
        let renewed = Pin {
            marker: marker.to_owned(),
            ..pin.clone()
        };
        renewed.is_written_but_for_what_it_creates(live)
    })
}
