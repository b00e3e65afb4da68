//! The proof that a workload goes on without one of its copies: made only from fresh reads of the members, and only here.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Evicting;
use crate::api::Check;
use crate::intent::Read;
use crate::intent::check;
use crate::intent::effect::{Effect, Exactly, add, exactly, test};
use crate::intent::eviction::{TASKS, same};
use crate::intent::placement::divides;
use crate::intent::proof::{Facts, Healthy, NotProved};
use crate::intent::replicas::{Count, replicas_of};
use crate::profile::Profile;
use cutover_karmada::name::ClusterName;
use cutover_karmada::{ResourceBinding, Work, meta};

/// The right to let a copy go: in the clusters that the workload has without it, everything is ready that the template wants.
#[derive(Clone, Debug)]
pub struct Enough {
    without: ClusterName,
    evidence: String,
}

impl Enough {
    /// `seen`: the binding must have been read before the members were; what it lists then is what counts.
    pub fn prove(
        without: &ClusterName,
        seen: &Evicting,
        profile: &Profile,
        checks: &[Check],
    ) -> Result<Self, NotProved> {
        let others = Others::look(without, seen, profile, checks)?;
        if others.divided
            && let Some(wanted) = others.wanted.filter(|wanted| others.ready < *wanted)
        {
            return Err(NotProved::No(format!(
                "{} of {wanted} replicas are ready in the other clusters",
                others.ready
            )));
        }
        Ok(Self {
            without: without.clone(),
            evidence: others.parts.join(", "),
        })
    }

    /// The cluster whose copy may go.
    pub const fn without(&self) -> &ClusterName {
        &self.without
    }

    pub fn evidence(&self) -> &str {
        &self.evidence
    }
}

/// The copies in the other clusters, each of which is Karmada's, healthy, and has ready what it is asked for.
#[derive(Debug)]
pub struct Others {
    divided: bool,
    /// What the template wants: of each, or of all where replicas are divided. `None`: that isn't counted.
    wanted: Option<u32>,
    ready: u32,
    parts: Vec<String>,
}

impl Others {
    pub fn look(
        without: &ClusterName,
        seen: &Evicting,
        profile: &Profile,
        checks: &[Check],
    ) -> Result<Self, NotProved> {
        let (binding, read) = seen.binding.read()?;
        let Some(binding) = binding else {
            return Err(NotProved::No("its binding is gone".to_owned()));
        };
        let Some(template) = seen.template.get()? else {
            return Err(NotProved::No("its template is gone".to_owned()));
        };
        let wanted = counted(template);
        let mut all = Self {
            divided: is_divided(binding, wanted)?,
            wanted,
            ready: 0,
            parts: Vec::new(),
        };
        for target in binding.spec.clusters.iter().filter(|one| one.name != *without) {
            all.add(&target.name, seen, read, profile, checks)?;
        }
        if all.parts.is_empty() {
            return Err(NotProved::No("it runs in no other cluster".to_owned()));
        }
        Ok(all)
    }

    fn add(
        &mut self,
        cluster: &ClusterName,
        seen: &Evicting,
        binding: Read,
        profile: &Profile,
        checks: &[Check],
    ) -> Result<(), NotProved> {
        let (object, read) = copy(cluster, seen, profile)?;
        if read.sent < binding.answered {
            return Err(NotProved::Unknown(format!(
                "{cluster}: its copy was read before the binding was"
            )));
        }
        for check in checks {
            check::holds(cluster, check, object, (&seen.others, &seen.metrics)).map_err(NotProved::No)?;
        }
        let Some(wanted) = self.wanted else {
            self.parts.push(format!("healthy in {cluster}"));
            return Ok(());
        };
        let count = Count::of_copy(Some(object));
        let count = count.map_err(|why| NotProved::Unknown(format!("{cluster}: {why}")))?;
        if !count.is_full() {
            return Err(NotProved::No(format!(
                "{cluster}: {} of {} replicas are ready",
                count.ready, count.wanted
            )));
        }
        if !self.divided && count.wanted < wanted {
            return Err(NotProved::No(format!(
                "{cluster}: it is asked for {} of {wanted} replicas",
                count.wanted
            )));
        }
        self.ready = self.ready.saturating_add(count.ready);
        self.parts.push(format!("{} ready in {cluster}", count.ready));
        Ok(())
    }
}

/// Returns whether replicas are divided; Karmada has to be done with dividing what the template wants.
fn is_divided(binding: &ResourceBinding, wanted: Option<u32>) -> Result<bool, NotProved> {
    let spec = &binding.spec;
    let divided = spec
        .placement
        .as_ref()
        .is_some_and(|placement| divides(spec, placement));
    if wanted.is_some_and(|wanted| i64::from(wanted) != i64::from(spec.replicas)) {
        return Err(NotProved::No(
            "Karmada has yet to see how many replicas the template wants".to_owned(),
        ));
    }
    Ok(divided)
}

/// Returns a cluster's copy: it is Karmada's, its controller has seen its spec, and it is healthy.
fn copy<'a>(
    cluster: &ClusterName,
    seen: &'a Evicting,
    profile: &Profile,
) -> Result<(&'a Value, Read), NotProved> {
    let works = seen.works.get()?;
    let member = seen
        .members
        .get(cluster)
        .ok_or_else(|| NotProved::Unknown(format!("{cluster} was not looked at")))?;
    Healthy::without_pin(&Facts {
        cluster,
        member,
        works,
        marker: "",
        profile,
        nodes: None,
        offered: None,
    })?;
    let (object, read) = member.object.read()?;
    let object = object
        .as_ref()
        .ok_or_else(|| NotProved::No(format!("{cluster}: no such object")))?;
    is_karmadas(cluster, object, works)?;
    Ok((object, read))
}

/// Something of the same name that somebody else put there is no copy, however well it is.
fn is_karmadas(
    cluster: &ClusterName,
    object: &Value,
    works: &BTreeMap<ClusterName, Work>,
) -> Result<(), NotProved> {
    let Some(work) = works.get(cluster) else {
        return Err(NotProved::No(format!("{cluster}: no Work yet")));
    };
    let says = |key: &str| {
        let annotations = object.pointer("/metadata/annotations")?;
        annotations.get(key)?.as_str()
    };
    let (name, namespace) = (says(meta::WORK_NAME), says(meta::WORK_NAMESPACE));
    if name == work.metadata.name.as_deref() && namespace == work.metadata.namespace.as_deref() {
        return Ok(());
    }
    Err(NotProved::No(format!(
        "{cluster}: an object of its name is not Karmada's"
    )))
}

/// Returns how many replicas a template wants, where ready ones are counted in a way that is known.
fn counted(template: &Value) -> Option<u32> {
    let group = template["apiVersion"].as_str()?.split_once('/')?.0;
    let kind = template["kind"].as_str()?;
    let counts = group == "apps" && matches!(kind, "Deployment" | "StatefulSet");
    counts.then(|| replicas_of(template)).flatten()
}

/// Lets Karmada remove the copy. Nothing at all may have changed since the others were seen to be enough.
pub(super) fn confirm(binding: &ResourceBinding, task: usize, mark: &str, enough: &Enough) -> Effect {
    let path = format!("{TASKS}/{task}");
    let patch = vec![
        same(binding),
        test(&format!("{path}/fromCluster"), json!(enough.without())),
        test(&format!("{path}/message"), json!(mark)),
        add(&format!("{path}/suppressDeletion"), json!(false)),
    ];
    let binding = Exactly {
        resource_version: binding.metadata.resource_version.clone(),
        ..exactly(binding)
    };
    Effect::PatchBinding {
        why: "let the copy go",
        binding,
        patch,
        rehearse: false,
    }
}
