//! The policy that has taken a workload up, read afresh: as it is applied, and as Git wants it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::ask::{get, map, rehearse};
use super::reader::MigrationReader;
use cutover_cluster::Cluster;
use cutover_core::api::{self, HeldPolicy, Phase, PolicyName};
use cutover_core::intent::hold_back::selects;
use cutover_core::intent::snapshot::{OwnPolicy, PolicyChange, Successor};
use cutover_core::intent::{Seen, driven, migration};
use cutover_core::plan::{Decision, owned_matches};
use cutover_karmada::name::{GroupKind, Gvk, ObjectKey};
use cutover_karmada::{ClusterPropagationPolicy, PropagationPolicy, PropagationSpec, meta};

const POLICIES: &str = "policy.karmada.io/v1alpha1";

/// Reads a policy of either kind.
pub(super) async fn policy(cluster: &Cluster, name: &PolicyName) -> Seen<Option<PropagationPolicy>> {
    let gvk = gvk(name);
    match &name.namespace {
        Some(namespace) => get(cluster, gvk, Some(namespace), &name.name).await,
        None => {
            let policy: Seen<Option<ClusterPropagationPolicy>> = get(cluster, gvk, None, &name.name).await;
            map(&policy, |policy| policy.clone().map(PropagationPolicy::from))
        }
    }
}

/// Returns the policy that has taken a template up, by what Karmada notes on it.
pub(in crate::reconcile) fn claimed_by(template: &Value) -> Option<PolicyName> {
    let annotations = template.pointer("/metadata/annotations")?;
    let noted = |key: &str| annotations.get(key)?.as_str().map(str::to_owned);
    if let (Some(namespace), Some(name)) = (noted(meta::POLICY_NAMESPACE), noted(meta::POLICY_NAME)) {
        return Some(PolicyName {
            namespace: Some(namespace),
            name,
        });
    }
    let name = noted(meta::CLUSTER_POLICY_NAME)?;
    Some(PolicyName {
        namespace: None,
        name,
    })
}

/// Reads a policy of either kind as the one of a namespace: both have the same fields.
pub(in crate::reconcile) fn typed(name: &PolicyName, policy: Value) -> Result<PropagationPolicy, String> {
    let typed = match name.namespace {
        Some(_) => serde_json::from_value(policy),
        None => serde_json::from_value::<ClusterPropagationPolicy>(policy).map(PropagationPolicy::from),
    };
    typed.map_err(|error| format!("{name} cannot be read: {error}"))
}

impl MigrationReader<'_> {
    /// Returns the workload's own policy, and what else would take the workload up.
    pub(super) async fn policies(
        &self,
        template: &Seen<Option<Value>>,
    ) -> (Seen<Option<OwnPolicy>>, Seen<Vec<HeldPolicy>>) {
        if !migration::wants_policies(self.status) {
            let unread = "not read in this phase";
            return (Seen::unknown(unread), Seen::unknown(unread));
        }
        let own = self.own_policy(template).await;
        let arriving = match (template.get(), own.get()) {
            (Ok(Some(template)), Ok(own)) => {
                let name = own.as_ref().map(|own| &own.name);
                let arriving = self.arriving(template, name).await;
                arriving.map_or_else(Seen::unknown, |arriving| Seen::known(arriving, self.instant()))
            }
            (Ok(None), _) => Seen::known(Vec::new(), self.instant()),
            (Err(why), _) | (_, Err(why)) => Seen::unknown(why.0),
        };
        (own, arriving)
    }

    /// Returns the policies in Git, not applied as they stand there, that Karmada would give the workload to: any, when its own
    /// is not in Git and may be on its way out; else one that takes it from another. O(policies of the namespace in Git).
    async fn arriving(&self, template: &Value, own: Option<&PolicyName>) -> Result<Vec<HeldPolicy>, String> {
        let templates = &self.parts.templates;
        let wanted = |key: &ObjectKey| templates.template(key).map_err(|error| error.to_string());
        let own_stays = match own {
            Some(own) => wanted(&own.key())?.is_some(),
            None => false,
        };
        let in_git = wanted(&self.workload)?.map(|wanted| wanted.manifest);
        let forms: Vec<&Value> = [Some(template), in_git.as_ref()].into_iter().flatten().collect();
        let namespace = self.workload.namespace.clone();
        let mut arriving = Vec::new();
        for namespace in BTreeSet::from([None, namespace]) {
            let kind = meta::scoped_kind("PropagationPolicy", namespace.is_none());
            let kind = GroupKind::new("policy.karmada.io", &kind);
            let all = templates.of_kind(&kind, namespace.as_deref().unwrap_or_default());
            for entry in all.map_err(|error| error.to_string())? {
                let policy = entry.value();
                let takes = !own_stays || policy.pointer("/spec/preemption") == Some(&Value::from("Always"));
                if !takes || !forms.iter().any(|form| selects(&policy, form)) {
                    continue;
                }
                let name = PolicyName {
                    namespace: namespace.clone(),
                    name: entry.key.name.clone(),
                };
                if own == Some(&name) {
                    continue;
                }
                let Some(wanted) = wanted(&entry.key)? else {
                    continue;
                };
                let live: Seen<Option<Value>> = self.get(gvk(&name), namespace.as_deref(), &name.name).await;
                let is_applied = live.get().map_err(|why| why.0)?.as_ref().is_some_and(|live| {
                    owned_matches(&wanted.manifest, live, api::SYNC_MANAGER) == Decision::InSync
                });
                if !is_applied {
                    arriving.push(HeldPolicy {
                        policy: name,
                        hash: wanted.hash,
                    });
                }
            }
        }
        Ok(arriving)
    }

    /// What sync would make of the policy is asked for by a dry-run, and only where Git has another one.
    async fn own_policy(&self, template: &Seen<Option<Value>>) -> Seen<Option<OwnPolicy>> {
        let named = map(template, |template| template.as_ref().and_then(claimed_by));
        let name = match named.get() {
            Ok(Some(name)) => name.clone(),
            Ok(None) => return Seen::known(None, self.instant()),
            Err(why) => return Seen::unknown(why.0),
        };
        let read: Seen<Option<Value>> = self.get(gvk(&name), name.namespace.as_deref(), &name.name).await;
        let (live, at) = match read.read() {
            Ok((Some(live), at)) => (live.clone(), at),
            Ok((None, at)) => return Seen::known(None, at),
            Err(why) => return Seen::unknown(why.0),
        };
        let found = async {
            let change = self.policy_change(&name, &live).await?;
            let live = typed(&name, live)?;
            Ok::<_, String>(OwnPolicy { name, live, change })
        };
        match found.await {
            Ok(policy) => Seen::known(Some(policy), at),
            Err(why) => Seen::unknown(why),
        }
    }

    /// Returns the policy that takes the workload up with the change that has set this one off, as it will be by then.
    pub(super) async fn successor(&self, template: &Seen<Option<Value>>) -> Seen<Option<Successor>> {
        if self.status.phase != Phase::Preflight {
            return Seen::unknown("not read in this phase");
        }
        let Some(name) = driven::successor_in(&self.intent.metadata) else {
            return Seen::known(None, self.instant());
        };
        match template.get() {
            // It has taken it up.
            Ok(Some(template)) if claimed_by(template).as_ref() == Some(&name) => {
                return Seen::known(None, self.instant());
            }
            Ok(_) => {}
            Err(why) => return Seen::unknown(why.0),
        }
        let at = self.instant();
        let found = async {
            let read: Seen<Option<Value>> = self.get(gvk(&name), name.namespace.as_deref(), &name.name).await;
            let spec = match read.get().map_err(|why| why.0)? {
                Some(live) => match self.policy_change(&name, live).await? {
                    Some(change) => change.applied,
                    None => typed(&name, live.clone())?.spec,
                },
                None => self.created(&name).await?,
            };
            Ok::<_, String>(Successor { name, spec })
        };
        match found.await {
            Ok(successor) => Seen::known(Some(successor), at),
            Err(why) => Seen::unknown(why),
        }
    }

    /// Returns a policy that is not applied yet, as it will be.
    async fn created(&self, name: &PolicyName) -> Result<PropagationSpec, String> {
        let wanted = self.parts.templates.template(&name.key());
        let Some(wanted) = wanted.map_err(|error| error.to_string())? else {
            return Err(format!(
                "{name}, which is to claim the workload, is neither live nor in Git"
            ));
        };
        let applied = self.rehearsed(name, &wanted.manifest).await?;
        Ok(typed(name, applied)?.spec)
    }

    async fn policy_change(&self, name: &PolicyName, live: &Value) -> Result<Option<PolicyChange>, String> {
        let wanted = self.parts.templates.template(&name.key());
        let Some(wanted) = wanted.map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        if owned_matches(&wanted.manifest, live, api::SYNC_MANAGER) == Decision::InSync {
            return Ok(None);
        }
        let applied = self.rehearsed(name, &wanted.manifest).await?;
        if applied.get("spec") == live.get("spec") {
            return Ok(None);
        }
        Ok(Some(PolicyChange {
            hash: wanted.hash,
            applied: typed(name, applied)?.spec,
        }))
    }

    /// Returns what applying a policy as it is in Git would make of it.
    async fn rehearsed(&self, name: &PolicyName, manifest: &Value) -> Result<Value, String> {
        let rehearsed = rehearse(&self.parts.cluster, &gvk(name), manifest).await;
        rehearsed.map_err(|why| format!("{name} cannot be applied as it is in Git: {why}"))
    }
}

fn gvk(name: &PolicyName) -> Gvk {
    Gvk::new(POLICIES, name.kind().name())
}
