//! Sends effects, each under its precondition. One that fails is an answer: observe again.

use std::time::Duration;

use kube::Resource;
use serde_json::{Value, json};

use super::canaries::Asked;
use super::{Parts, ask, served};
use cutover_cluster::{Answer, Applied, Exactly, Mode, Served, Writer, Written};
use cutover_core::api::{self, INTENT_FINALIZER, INTENT_MANAGER, Migration, SYNC_MANAGER};
use cutover_core::error::{Error, Kind};
use cutover_core::intent::effect::{self, Effect};
use cutover_karmada::meta;
use cutover_karmada::name::Gvk;

const POLICIES: &str = "policy.karmada.io/v1alpha1";

/// What became of an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Done,
    /// Done, and the object is like this now; for a deletion, as it was last.
    Wrote(Box<Value>),
    /// Nothing was written: it is asked for again when there is news, or after this time.
    Later(Duration),
    /// Nothing was written: what was observed isn't so any more.
    Stale(String),
}

pub(super) async fn send(parts: &Parts, intent: &Migration, effect: &Effect) -> Result<Sent, Error> {
    let send = Send {
        parts,
        writer: parts.cluster.writer(INTENT_MANAGER),
    };
    match effect {
        Effect::AddFinalizer => send.finalizer(intent, true).await,
        Effect::RemoveFinalizer => send.finalizer(intent, false).await,
        Effect::ApplyTemplate { template, manifest } => {
            let gvk = intent.spec_in_force().workload.gvk();
            apply_template(parts, &gvk, template, manifest).await
        }
        Effect::PatchTemplate { template, patch } => {
            patch_template(parts, &intent.spec_in_force().workload.gvk(), template, patch).await
        }
        Effect::PushRecord(record) => {
            parts.records.push(intent, record).await?;
            Ok(Sent::Done)
        }
        alone => send_alone(parts, alone).await,
    }
}

/// Sends an effect of an intent that moves nothing: its finalizer, or one that is nobody's in particular.
pub(super) async fn send_plain<I: Resource<DynamicType = ()>>(
    parts: &Parts,
    intent: &I,
    effect: &Effect,
) -> Result<Sent, Error> {
    let send = Send {
        parts,
        writer: parts.cluster.writer(INTENT_MANAGER),
    };
    match effect {
        Effect::AddFinalizer => send.finalizer(intent, true).await,
        Effect::RemoveFinalizer => send.finalizer(intent, false).await,
        alone => send_alone(parts, alone).await,
    }
}

/// Sends an effect that is nobody's in particular.
#[expect(clippy::too_many_lines, reason = "one arm for each effect")]
pub(super) async fn send_alone(parts: &Parts, effect: &Effect) -> Result<Sent, Error> {
    let send = Send {
        parts,
        writer: parts.cluster.writer(INTENT_MANAGER),
    };
    match effect {
        Effect::CreateClaim { name, spec } => {
            let claim = json!({
                "apiVersion": api::API_VERSION, "kind": "Claim", "metadata": {"name": name}, "spec": spec,
            });
            // Somebody else's is seen in the next pass, which waits for it.
            send.create("cutover.dev/v1alpha1", "Claim", claim).await
        }
        Effect::ReplaceClaim { claim, spec } => {
            let object = json!({
                "apiVersion": api::API_VERSION, "kind": "Claim", "spec": spec,
                "metadata": {"name": claim.name, "uid": claim.uid, "resourceVersion": claim.resource_version},
            });
            send.replace("cutover.dev/v1alpha1", "Claim", object).await
        }
        Effect::DeleteClaim { claim } => send.delete("cutover.dev/v1alpha1", "Claim", claim).await,
        Effect::WritePin(pin) => {
            let kind = meta::scoped_kind("OverridePolicy", pin.policy().metadata.namespace.is_none());
            let mut policy = to_value(pin.policy())?;
            policy["kind"] = kind.as_str().into();
            if pin.creates() {
                send.create(POLICIES, &kind, policy).await
            } else {
                send.replace(POLICIES, &kind, policy).await
            }
        }
        Effect::DeletePin { pin } => {
            let kind = meta::scoped_kind("OverridePolicy", pin.namespace.is_none());
            send.delete(POLICIES, &kind, pin).await
        }
        Effect::PatchBinding {
            binding,
            patch,
            rehearse,
            ..
        } => send.patch_binding(binding, patch, *rehearse).await,
        Effect::PatchBindingStatus { binding, patch, .. } => send.patch_binding_status(binding, patch).await,
        Effect::PatchPolicy { policy, patch, .. } => send.patch_policy(policy, patch).await,
        Effect::PatchCluster { cluster, patch, .. } => {
            send.patch("cluster.karmada.io/v1alpha1", "Cluster", cluster, patch)
                .await
        }
        Effect::CreateIntent { manifest } => send.create_intent(manifest).await,
        Effect::PatchIntent {
            kind, intent, patch, ..
        } => send.patch(api::API_VERSION, kind, intent, patch).await,
        Effect::CreateCanary {
            name,
            scheduler,
            cluster,
        } => match parts.canaries.ask(name, scheduler) {
            Asked::Make => {
                let made = send.canary(name, scheduler, cluster).await;
                if made.is_err() {
                    parts.canaries.give_up(name);
                }
                made
            }
            Asked::Rides => Ok(Sent::Done),
            Asked::Later(after) => Ok(Sent::Later(after)),
        },
        // Of one that another intent has made nothing is this one's to remove.
        Effect::DeleteCanary { name } if !parts.canaries.forget(name) => Ok(Sent::Done),
        Effect::DeleteCanary { name } => send.delete_canary(name).await,
        Effect::DeleteIntent { kind, intent } => send.delete(api::API_VERSION, kind, intent).await,
        Effect::AddFinalizer
        | Effect::RemoveFinalizer
        | Effect::ApplyTemplate { .. }
        | Effect::PatchTemplate { .. }
        | Effect::PushRecord(_)
        | Effect::Keep(_) => Err(Error::internal(format!("{effect}: whose?"))),
    }
}

/// Changes a template of some kind.
pub(super) async fn patch_template(
    parts: &Parts,
    kind: &Gvk,
    template: &effect::Exactly,
    patch: &[Value],
) -> Result<Sent, Error> {
    let served = served(&parts.cluster, kind).await?;
    let writer = parts.cluster.writer(INTENT_MANAGER);
    Ok(sent(
        writer
            .patch(&served, &exactly(template), patch, Mode::Write)
            .await?,
    ))
}

struct Send<'a> {
    parts: &'a Parts,
    writer: Writer,
}

impl Send<'_> {
    async fn create(&self, api_version: &str, kind: &str, object: Value) -> Result<Sent, Error> {
        let served = served(&self.parts.cluster, &Gvk::new(api_version, kind)).await?;
        Ok(sent(self.writer.create(&served, &object, Mode::Write).await?))
    }

    async fn replace(&self, api_version: &str, kind: &str, object: Value) -> Result<Sent, Error> {
        let served = served(&self.parts.cluster, &Gvk::new(api_version, kind)).await?;
        Ok(sent(self.writer.replace(&served, &object, Mode::Write).await?))
    }

    async fn delete(&self, api_version: &str, kind: &str, object: &effect::Exactly) -> Result<Sent, Error> {
        let served = served(&self.parts.cluster, &Gvk::new(api_version, kind)).await?;
        Ok(sent(
            self.writer.delete(&served, &exactly(object), Mode::Write).await?,
        ))
    }

    async fn patch_binding(
        &self,
        binding: &effect::Exactly,
        patch: &[Value],
        rehearse: bool,
    ) -> Result<Sent, Error> {
        let served = self.bindings(binding).await?;
        let object = exactly(binding);
        if rehearse {
            let rehearsed = self.writer.patch(&served, &object, patch, Mode::Rehearse).await?;
            if let Written::Precondition(why) = rehearsed {
                return Ok(Sent::Stale(why));
            }
        }
        Ok(sent(
            self.writer.patch(&served, &object, patch, Mode::Write).await?,
        ))
    }

    async fn patch_binding_status(&self, binding: &effect::Exactly, patch: &[Value]) -> Result<Sent, Error> {
        let served = self.bindings(binding).await?;
        Ok(sent(
            self.writer
                .patch_status(&served, &exactly(binding), patch)
                .await?,
        ))
    }

    /// Creates what is this intent's own. One that is there already is told apart by whose it is.
    async fn create_intent(&self, manifest: &Value) -> Result<Sent, Error> {
        let text = |field: &str| manifest[field].as_str().unwrap_or_default();
        let gvk = Gvk::new(text("apiVersion"), text("kind"));
        let served = served(&self.parts.cluster, &gvk).await?;
        match self.writer.create(&served, manifest, Mode::Write).await? {
            Written::Exists(there) => {
                let parent = |object: &Value| object["metadata"]["labels"][api::PARENT_LABEL].clone();
                if parent(&there) == parent(manifest) {
                    return Ok(Sent::Done);
                }
                let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
                Err(Error::new(
                    Kind::Conflict,
                    format!("there is a {} {name} that another client has made", gvk.kind),
                ))
            }
            other => Ok(sent(other)),
        }
    }

    async fn patch(
        &self,
        api_version: &str,
        kind: &str,
        object: &effect::Exactly,
        patch: &[Value],
    ) -> Result<Sent, Error> {
        let served = served(&self.parts.cluster, &Gvk::new(api_version, kind)).await?;
        Ok(sent(
            self.writer
                .patch(&served, &exactly(object), patch, Mode::Write)
                .await?,
        ))
    }

    async fn patch_policy(&self, policy: &effect::Exactly, patch: &[Value]) -> Result<Sent, Error> {
        let kind = meta::scoped_kind("PropagationPolicy", policy.namespace.is_none());
        let served = served(&self.parts.cluster, &Gvk::new(POLICIES, &kind)).await?;
        Ok(sent(
            self.writer
                .patch(&served, &exactly(policy), patch, Mode::Write)
                .await?,
        ))
    }

    async fn bindings(&self, binding: &effect::Exactly) -> Result<Served, Error> {
        let kind = meta::scoped_kind("ResourceBinding", binding.namespace.is_none());
        served(&self.parts.cluster, &Gvk::new("work.karmada.io/v1alpha2", &kind)).await
    }

    async fn finalizer<I: Resource<DynamicType = ()>>(
        &self,
        intent: &I,
        wanted: bool,
    ) -> Result<Sent, Error> {
        let served = served(&self.parts.cluster, &Gvk::new(api::API_VERSION, &I::kind(&()))).await?;
        let meta = intent.meta();
        let mut finalizers = meta.finalizers.clone().unwrap_or_default();
        finalizers.retain(|name| name != INTENT_FINALIZER);
        if wanted {
            finalizers.push(INTENT_FINALIZER.to_owned());
        }
        let object = Exactly {
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
        };
        let patch = [json!({"op": "add", "path": "/metadata/finalizers", "value": finalizers})];
        Ok(sent(
            self.writer.patch(&served, &object, &patch, Mode::Write).await?,
        ))
    }

    /// A ConfigMap and a policy that is never dispatched, in a namespace that stays in the control plane.
    async fn canary(&self, name: &str, scheduler: &str, cluster: &str) -> Result<Sent, Error> {
        self.own_namespace().await?;
        let mut spec = json!({
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": name}],
            // A cluster that takes nothing new would leave it unscheduled, and the scheduler would say nothing of it.
            "placement": {
                "clusterAffinity": {"clusterNames": [cluster]}, "clusterTolerations": [{"operator": "Exists"}],
            },
            "suspension": {"dispatching": true},
        });
        if !scheduler.is_empty() {
            spec["schedulerName"] = scheduler.into();
        }
        let metadata = json!({"name": name, "namespace": api::OWN_NAMESPACE});
        let policy = json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": metadata.clone(), "spec": spec,
        });
        self.create("policy.karmada.io/v1alpha1", "PropagationPolicy", policy)
            .await?;
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        self.create("v1", "ConfigMap", config).await
    }

    /// Who may not create namespaces can still use one that is there.
    async fn own_namespace(&self) -> Result<(), Error> {
        let served = served(&self.parts.cluster, &Gvk::new("v1", "Namespace")).await?;
        let reader = self.parts.cluster.reader();
        if let Answer::NotFound = reader.get(&served, None, api::OWN_NAMESPACE).await.answer {
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": api::OWN_NAMESPACE, "labels": {meta::SKIP_AUTO_PROPAGATION: "true"}},
            });
            self.create("v1", "Namespace", namespace).await?;
        }
        Ok(())
    }

    async fn delete_canary(&self, name: &str) -> Result<Sent, Error> {
        let object = effect::Exactly {
            namespace: Some(api::OWN_NAMESPACE.to_owned()),
            name: name.to_owned(),
            uid: String::new(),
            resource_version: None,
        };
        // The template first: without it the policy has nothing to bind again.
        self.delete("v1", "ConfigMap", &object).await?;
        self.delete("policy.karmada.io/v1alpha1", "PropagationPolicy", &object)
            .await?;
        Ok(Sent::Done)
    }
}

/// Applied in the name of sync, so that what sync applies later finds its own fields.
pub(super) async fn apply_template(
    parts: &Parts,
    gvk: &Gvk,
    template: &effect::Exactly,
    manifest: &Value,
) -> Result<Sent, Error> {
    let served = served(&parts.cluster, gvk).await?;
    let mut manifest = manifest.clone();
    manifest["metadata"]["uid"] = template.uid.as_str().into();
    manifest["metadata"]["resourceVersion"] = template.resource_version.as_deref().into();
    let writer = parts.cluster.writer(SYNC_MANAGER);
    match writer.apply(&served, &manifest, Mode::Write).await? {
        Applied::Done(_) => Ok(Sent::Done),
        Applied::Precondition(why) => Ok(Sent::Stale(why)),
        refused @ Applied::Conflicts(_) => Err(Error::new(Kind::Conflict, ask::reason(&refused))),
    }
}

/// An object that is there already is somebody's: what it is, the next pass sees.
fn sent(written: Written) -> Sent {
    match written {
        Written::Done(object) => Sent::Wrote(Box::new(object)),
        Written::Exists(_) => Sent::Done,
        Written::Precondition(why) => Sent::Stale(why),
    }
}

pub(super) fn exactly(object: &effect::Exactly) -> Exactly {
    Exactly {
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        uid: Some(object.uid.clone()).filter(|uid| !uid.is_empty()),
        resource_version: object.resource_version.clone(),
    }
}

fn to_value(object: &impl serde::Serialize) -> Result<Value, Error> {
    serde_json::to_value(object)
        .map_err(|error| Error::internal(format!("an object cannot be written down: {error}")))
}
