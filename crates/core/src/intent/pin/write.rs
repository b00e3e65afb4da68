//! A pin on its way to the API server.

use std::fmt;

use super::{Pin, Rule, Says, Writer, compiled, is_blank, marker_of, marks, overriders, owner_of, writer_of};
use crate::api::PIN_FINALIZER;
use crate::intent::proof::{Loose, Release, Sole, Stateless};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{ClusterAffinity, OverridePolicy, OverrideRule, meta};

/// The one cluster that a pin is about which says nothing yet: no cluster can have this name, so Karmada writes no Work for it.
const NOWHERE: &str = "nowhere.cutover.dev";

/// Why a pin may be written.
#[derive(Clone, Copy, Debug)]
pub enum Authority<'a> {
    /// It names nobody: always safe.
    Nobody,
    /// It names the cluster that runs the workload already, alone.
    Sole(&'a Sole),
    /// It names a cluster after every other one has been proved inert.
    Release(&'a Release),
    /// It names the cluster that nothing holds as it is, and holds the others: it lets nobody go.
    Loose(&'a Loose),
    /// It names nobody and holds nobody: the workload has no state.
    Stateless(&'a Stateless),
}

/// A pin on its way to the API server. Made only by [`PinWrite::new`], which asks for the authority.
#[derive(Clone, Debug)]
pub struct PinWrite {
    policy: OverridePolicy,
    says: String,
    creates: bool,
}

/// Why a pin may not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthorized {
    #[error("a pin with {0} needs a proof about every other cluster")]
    Unproved(String),
    #[error("manual intervention required: another intent owns the pin; end that intent or delete the pin")]
    Foreign,
}

impl Unauthorized {
    fn of(says: &Says) -> Self {
        match says {
            Says::Token(token) => Self::Unproved(token.may_run.to_string()),
            Says::Differences(_) => Self::Foreign,
        }
    }
}

impl PinWrite {
    /// `live`: the policy as it was read; its resource version is the precondition. `None`: it must not exist.
    ///
    /// A creation has no other precondition than that. So what is created says nothing: sent late, when its intent is gone, it
    /// changes nothing anywhere, and is taken away. What it has to say is written over it, and that is refused where it isn't
    /// there any more, or was changed.
    pub fn new(
        pin: &Pin,
        live: Option<&OverridePolicy>,
        authority: Authority<'_>,
    ) -> Result<Self, Unauthorized> {
        // The same pin under another marker changes no copy's right to run.
        let renewed = live.is_some_and(|live| {
            let marker = marker_of(live).unwrap_or_default().to_owned();
            Pin {
                marker,
                ..pin.clone()
            }
            .is_written_but_for_what_it_creates(live)
        });
        let allowed = renewed
            || match &pin.says {
                Says::Token(token) => match (authority, &token.may_run) {
                    (_, Writer::Nobody) | (Authority::Stateless(_), Writer::Shared { .. }) => true,
                    (Authority::Sole(sole), Writer::Only(writer)) => sole.cluster() == writer,
                    (Authority::Release(release), Writer::Only(writer)) => release.to() == writer,
                    (Authority::Loose(loose), Writer::Only(writer)) => loose.cluster() == writer,
                    (_, Writer::Only(_) | Writer::Shared { .. }) => false,
                },
                Says::Differences(_) => {
                    live.is_none_or(|live| is_blank(live) || owner_of(live) == Some(&pin.owner_uid))
                }
            };
        if !allowed {
            return Err(Unauthorized::of(&pin.says));
        }
        let Some(live) = live else {
            return Ok(Self::blank(pin));
        };
        let mut policy = pin.policy();
        policy
            .metadata
            .resource_version
            .clone_from(&live.metadata.resource_version);
        policy.metadata.uid.clone_from(&live.metadata.uid);
        Ok(Self {
            policy,
            says: pin.says.to_string(),
            creates: false,
        })
    }

    /// Another wording of what guests say, before a term of leadership that stays as it is.
    pub fn of_guests(live: &OverridePolicy, differences: &[Rule], marker: &str) -> Self {
        let mut policy = live.clone();
        let mut rules = compiled(differences.iter());
        let may_run = writer_of(live).iter();
        rules.extend(may_run.filter(|rule| !overriders::is_marking(rule)).cloned());
        rules.push(marks(marker));
        policy.spec.override_rules = rules;
        policy.metadata.managed_fields = None;
        Self {
            policy,
            says: "other differences".to_owned(),
            creates: false,
        }
    }

    fn blank(pin: &Pin) -> Self {
        let mut policy = pin.policy();
        policy.spec.override_rules = vec![OverrideRule {
            target_cluster: Some(ClusterAffinity::only([ClusterName::new(NOWHERE)])),
            ..OverrideRule::default()
        }];
        Self {
            policy,
            says: "says nothing yet".to_owned(),
            creates: true,
        }
    }

    /// Returns whether a pin still keeps itself from being deleted. Who else keeps it from that has to let it go.
    pub fn is_protected(live: &OverridePolicy) -> bool {
        let mut labels = live.metadata.labels.iter().flatten();
        let mut finalizers = live.metadata.finalizers.iter().flatten();
        finalizers.any(|finalizer| finalizer == PIN_FINALIZER)
            || labels.any(|(key, _)| key == meta::DELETION_PROTECTED)
    }

    /// Takes the protection off a pin that is to be deleted; what it says stays as it is.
    pub fn unprotected(live: &OverridePolicy) -> Self {
        let mut policy = live.clone();
        if let Some(labels) = &mut policy.metadata.labels {
            labels.remove(meta::DELETION_PROTECTED);
        }
        policy.metadata.finalizers = policy.metadata.finalizers.map(|all| {
            all.into_iter()
                .filter(|finalizer| finalizer != PIN_FINALIZER)
                .collect()
        });
        policy.metadata.managed_fields = None;
        Self {
            policy,
            says: String::new(),
            creates: false,
        }
    }

    pub fn policy(&self) -> &OverridePolicy {
        &self.policy
    }

    pub fn creates(&self) -> bool {
        self.creates
    }
}

impl fmt::Display for PinWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protected = self
            .policy
            .metadata
            .finalizers
            .iter()
            .flatten()
            .any(|finalizer| finalizer == PIN_FINALIZER);
        if !protected {
            return f.write_str("pin: take the protection off");
        }
        let Some(marker) = marker_of(&self.policy) else {
            return write!(f, "pin: {}", self.says);
        };
        let seq = marker.rsplit('.').next().unwrap_or_default();
        write!(f, "pin: sequence {seq}, {}", self.says)
    }
}
