//! How the released clusters are: from fresh reads in the members, by the profile and the checks of the spec.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::{Interrupt, Operation, Wait, waves};
use crate::api::{Released, RolloutCluster, RolloutClusterState as State, Wave, watched};
use crate::intent::check;
use crate::intent::custody;
use crate::intent::proof::{Facts, Healthy, NotProved};
use crate::profile::Profile;
use cutover_karmada::meta;
use cutover_karmada::name::ClusterName;

/// What a look at the clusters came to.
pub(super) struct Judged {
    /// Released, and healthy for long enough.
    pub good: BTreeSet<ClusterName>,
    /// How many are released and not good yet.
    pub pending: usize,
    pub failed: Option<String>,
    /// What the first of those that aren't good is waited for.
    pub wait: Option<Interrupt>,
}

/// One released cluster, at one look.
enum Found {
    Healthy,
    Ill(String),
    /// What it is could not be seen.
    Unknown(String),
    /// It won't become healthy by itself.
    Failed(String),
}

impl Operation<'_> {
    pub(super) fn waves(&self) -> Result<Vec<Wave>, Interrupt> {
        let synced = custody::synced(self.binding()?);
        Ok(waves(
            &self.input.spec.strategy,
            &synced,
            self.snapshot().plane.clusters.get()?,
        ))
    }

    /// Looks at every released cluster, and takes note for how long it was seen healthy, or not.
    pub(super) fn judge(&mut self) -> Result<Judged, Interrupt> {
        let waves = self.waves()?;
        let limit = self.input.spec.strategy.progress.timeout.length();
        let (now, mut judged) = (self.input.now, Judged::nothing());
        let mut all = Vec::new();
        for (number, wave) in (1..).zip(&waves) {
            let soak = wave.soak.as_ref();
            let soak = soak.unwrap_or(&self.input.spec.strategy.progress.healthy_for);
            let soak = soak.length();
            for name in &wave.clusters {
                let mut cluster = RolloutCluster {
                    name: name.clone(),
                    wave: number,
                    revision: self.let_have(name)?,
                    state: State::Held,
                    why: None,
                };
                if self.journal()?.released.contains_key(name) {
                    let found = self.look_at(name)?;
                    self.take_note(name, &found)?;
                    let released = &self.journal()?.released[name];
                    let healthy = watched::elapsed(released.healthy.as_ref(), now);
                    let ill = watched::elapsed(released.ill.as_ref(), now);
                    (cluster.state, cluster.why) = judged.add(name, found, (ill, limit), (healthy, soak));
                    let wait = match (cluster.state, &cluster.why) {
                        (State::Soaking, _) => {
                            let reason = format!("{name} to stay healthy for {soak:#}");
                            let until = released.healthy.map(|_| now + (soak - healthy));
                            let wait = Wait::evidence(reason).until(until);
                            Some(if until.is_some() { wait.then("go on") } else { wait })
                        }
                        (State::Released, Some(why)) => {
                            let until = released.ill.map(|_| now + (limit - ill));
                            Some(Wait::evidence(why.clone()).until(until))
                        }
                        _ => None,
                    };
                    if let Some(wait) = wait {
                        judged.wait.get_or_insert(Interrupt::WaitFor(wait));
                    }
                }
                all.push(cluster);
            }
        }
        self.status.updated = Some(format!("{}/{}", judged.good.len(), all.len()));
        self.status.clusters = all;
        Ok(judged)
    }

    /// Returns the revision that a cluster is let have.
    fn let_have(&self, cluster: &ClusterName) -> Result<String, Interrupt> {
        let journal = self.journal()?;
        if journal.released.contains_key(cluster) {
            return Ok(journal.target.clone());
        }
        Ok(journal.left.get(cluster).unwrap_or(&journal.stable).clone())
    }

    fn take_note(&mut self, cluster: &ClusterName, found: &Found) -> Result<(), Interrupt> {
        let now = self.input.now;
        if let Some(released) = self.journal_mut()?.released.get_mut(cluster) {
            note(released, found, now);
        }
        Ok(())
    }

    /// What can't be seen is not healthy, and no failure before its time is over.
    fn look_at(&self, cluster: &ClusterName) -> Result<Found, Interrupt> {
        match self.healthy(cluster)? {
            Ok(()) => {}
            Err(NotProved::Unknown(why)) => return Ok(Found::Unknown(why)),
            Err(NotProved::No(why)) => {
                return Ok(if self.failed(cluster)? {
                    Found::Failed(format!("{why}, and its profile says that it has failed"))
                } else {
                    Found::Ill(why)
                });
            }
        }
        let object = self
            .snapshot()
            .member(cluster)
            .and_then(|member| member.object.get().cloned());
        let object = object.ok().flatten().unwrap_or_default();
        for asked in &self.input.spec.strategy.progress.checks {
            let other_managers = (&self.snapshot().others, &self.snapshot().metrics);
            if let Err(why) = check::holds(cluster, asked, &object, other_managers) {
                return Ok(Found::Ill(why));
            }
        }
        Ok(Found::Healthy)
    }

    /// The copy is made with the current pin from the current template, and is healthy.
    fn healthy(&self, cluster: &ClusterName) -> Result<Result<(), NotProved>, Interrupt> {
        let (profile, marker) = (self.profile()?, self.marker()?);
        let member = match self.snapshot().member(cluster) {
            Ok(member) => member,
            Err(unread) => return Ok(Err(unread.into())),
        };
        let facts = Facts {
            cluster,
            member,
            works: self.snapshot().plane.works.get()?,
            marker: &marker,
            profile: &profile,
            nodes: None,
            offered: None,
        };
        if let Err(why) = Healthy::prove(&facts, None) {
            return Ok(Err(why));
        }
        let object = member.object.get()?.as_ref();
        let made_from = object.and_then(|object| {
            object
                .pointer("/metadata/annotations")?
                .get(meta::TEMPLATE_GENERATION)?
                .as_str()
        });
        let current = self
            .template()?
            .pointer("/metadata/generation")
            .map(ToString::to_string);
        Ok(match made_from {
            Some(made_from) if Some(made_from) != current.as_deref() => Err(NotProved::No(format!(
                "{cluster}: the copy is of an older template"
            ))),
            _ => Ok(()),
        })
    }

    /// Returns whether a copy is seen to have failed, for what it is now.
    fn failed(&self, cluster: &ClusterName) -> Result<bool, Interrupt> {
        let Ok(Some(object)) = self
            .snapshot()
            .member(cluster)
            .and_then(|member| member.object.get())
        else {
            return Ok(false);
        };
        let annotations = object.pointer("/metadata/annotations");
        let marker = annotations.and_then(|all| all.get(crate::api::MARKER_ANNOTATION)?.as_str());
        if marker != Some(&*self.marker()?) {
            return Ok(false);
        }
        let profile = self.profile()?;
        Ok(profile.observed(object)? && profile.failed(object)?)
    }

    /// Returns the first cluster that isn't healthy with what it went back to.
    pub(super) fn ill_after_undo(&mut self) -> Result<Option<String>, Interrupt> {
        let stable = self.journal()?.stable.clone();
        let waves = self.waves()?;
        let (mut ill, mut all) = (None, Vec::new());
        for (number, wave) in (1..).zip(&waves) {
            for name in &wave.clusters {
                let why = self.healthy(name)?.err().map(|why| why.to_string());
                all.push(RolloutCluster {
                    name: name.clone(),
                    wave: number,
                    revision: stable.clone(),
                    state: if why.is_none() {
                        State::Good
                    } else {
                        State::Released
                    },
                    why: why.clone(),
                });
                ill = ill.or(why);
            }
        }
        self.status.clusters = all;
        self.status.updated = None;
        Ok(ill)
    }

    fn profile(&self) -> Result<Profile, Interrupt> {
        Ok(Profile::compile("journal", &self.journal()?.profile)?)
    }
}

/// Takes a look down. One that shows nothing counts against the cluster and not for it, but does not begin its soak again.
fn note(released: &mut Released, found: &Found, now: Timestamp) {
    match found {
        Found::Healthy => {
            watched::look(&mut released.healthy, now);
            released.ill = None;
        }
        Found::Unknown(_) => {
            if let Some(healthy) = &mut released.healthy {
                healthy.skip(now);
            }
            watched::look(&mut released.ill, now);
        }
        Found::Ill(_) | Found::Failed(_) => {
            released.healthy = None;
            watched::look(&mut released.ill, now);
        }
    }
}

impl Judged {
    const fn nothing() -> Self {
        Self {
            good: BTreeSet::new(),
            pending: 0,
            failed: None,
            wait: None,
        }
    }

    /// Adds what was found of one cluster: for how long it was seen `ill` and `healthy`, and how long that may or must be.
    fn add(
        &mut self,
        name: &ClusterName,
        found: Found,
        (ill, limit): (SignedDuration, SignedDuration),
        (healthy, soak): (SignedDuration, SignedDuration),
    ) -> (State, Option<String>) {
        match found {
            Found::Healthy if healthy >= soak => {
                self.good.insert(name.clone());
                (State::Good, None)
            }
            Found::Healthy => {
                self.pending += 1;
                (State::Soaking, None)
            }
            Found::Failed(why) => {
                self.pending += 1;
                self.failed.get_or_insert(why.clone());
                (State::Released, Some(why))
            }
            Found::Ill(why) | Found::Unknown(why) => {
                self.pending += 1;
                if ill >= limit {
                    self.failed.get_or_insert(format!("{why}, for {limit:#}"));
                }
                (State::Released, Some(why))
            }
        }
    }
}
