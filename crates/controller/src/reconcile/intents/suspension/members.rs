//! What members have of suspended workloads, and their templates: read now and then, for people.

use futures::future::join_all;
use serde_json::Value;

use super::super::ask::get;
use super::super::served;
use super::Reader;
use cutover_cluster::Answer;
use cutover_core::intent::suspension::{self, Copy, Snapshot, binding_id, covered, workload};
use cutover_core::intent::{ControlPlane, Seen, pin};
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};
use cutover_karmada::{ResourceBinding, Work};

/// How many copies are read in one look.
const COPIES: usize = 200;

impl Reader<'_> {
    /// Reads every copy that is kept back, as far as there are not too many.
    pub(super) async fn copies(&self, snapshot: &Snapshot) -> Option<Vec<Copy>> {
        let spec = self.intent.spec_in_force();
        let (bindings, works) = (snapshot.bindings.get().ok()?, snapshot.works.get().ok()?);
        let mut wanted = Vec::new();
        for binding in bindings {
            let id = binding_id(binding).unwrap_or_default();
            for cluster in covered(spec, binding) {
                let manifest = match &snapshot.pin_context {
                    Some(pin_context) => unpinned(pin_context, binding, &cluster),
                    None => {
                        let work = works.get(&(id.to_owned(), cluster.clone()));
                        work.and_then(Work::manifest).cloned()
                    }
                };
                if let Some(manifest) = manifest {
                    wanted.push((&binding.spec.resource, cluster, manifest));
                }
            }
        }
        let read = wanted.into_iter().enumerate().map(async |(place, wanted)| {
            let (resource, cluster, manifest) = wanted;
            let about = workload(resource);
            let gvk = Gvk::new(&resource.api_version, &resource.kind);
            let object = match served(&self.parts.cluster, &gvk).await {
                // Of what isn't looked at nobody says that it has everything.
                _ if place >= COPIES => Seen::unknown(format!("no more than {COPIES} copies are looked at")),
                Ok(served) => {
                    let reader = self.parts.cluster.member(&cluster);
                    let read = reader.get(&served, about.namespace.as_deref(), &about.name).await;
                    match read.answer {
                        Answer::Found(object) => Seen::known(Some(object), self.instant()),
                        Answer::NotFound => Seen::known(None, self.instant()),
                        Answer::Unknown { why } => Seen::unknown(why),
                    }
                }
                Err(error) => Seen::unknown(error.to_string()),
            };
            Copy {
                workload: about,
                cluster,
                manifest,
                object,
            }
        });
        Some(join_all(read).await)
    }

    pub(super) async fn templates(&self, snapshot: &Snapshot) -> Vec<(ObjectKey, Value)> {
        let bindings = snapshot.bindings.get().map_or(&[][..], Vec::as_slice);
        let read = bindings.iter().take(COPIES).map(async |binding| {
            let resource = &binding.spec.resource;
            let about = workload(resource);
            let gvk = Gvk::new(&resource.api_version, &resource.kind);
            let template: Seen<Option<Value>> =
                get(&self.parts.cluster, gvk, about.namespace.as_deref(), &about.name).await;
            Some((about, template.get().ok()?.clone()?))
        });
        join_all(read).await.into_iter().flatten().collect()
    }
}

/// Returns what a cluster would have without the pin that is in force.
fn unpinned(pin_context: &ControlPlane, binding: &ResourceBinding, cluster: &ClusterName) -> Option<Value> {
    let template = pin_context.template.get().ok()?.as_ref()?;
    let known = pin_context.clusters.get().ok()?.get(cluster)?;
    let mut targets = binding.spec.clusters.iter();
    let target = targets.find(|target| target.name == *cluster)?;
    let name = pin::name(&workload(&binding.spec.resource));
    let place = (binding.metadata.namespace.as_deref(), name.as_str());
    suspension::without_pin(template, target, known, pin_context.overrides.get().ok()?, place)
}
