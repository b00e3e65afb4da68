//! The namespace controller: every namespace goes to every member by itself, as a Work that it owns.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::kinds::WORKS;
use super::manifest::stamp;
use super::{Manager, objects};
use crate::api::Status;
use crate::faults::Pace;
use crate::queue::{Controller, Queue};
use cutover_karmada::meta::{EXECUTION_FINALIZER, SKIP_AUTO_PROPAGATION, TEMPLATE_UID, execution_namespace};

const NAME: &str = "namespace-sync-controller";

pub(super) fn start(manager: &Manager) {
    let queue: Arc<Queue<String>> = Queue::new();
    let namespaces = Arc::clone(&queue);
    manager.namespaces.subscribe(move |change| {
        if change.new.is_some() {
            namespaces.add(change.key.name.clone());
        }
    });
    let (clusters, cache) = (Arc::clone(&queue), manager.namespaces.clone());
    manager.clusters.subscribe(move |change| {
        if change.old.is_none() {
            for namespace in cache.list() {
                clusters.add(objects::name(&namespace).to_owned());
            }
        }
    });
    manager.context.run(
        NAME,
        &queue,
        Namespaces {
            manager: manager.clone(),
        },
    );
}

fn is_reserved(name: &str) -> bool {
    name == "default" || name.starts_with("karmada-") || name.starts_with("kube-")
}

struct Namespaces {
    manager: Manager,
}

impl Controller for Namespaces {
    type Key = String;

    async fn reconcile(&self, name: &String, pace: &Pace) -> Result<Option<Duration>, Status> {
        if is_reserved(name) {
            return Ok(None);
        }
        let Some(namespace) = self.manager.namespaces.get(None, name) else {
            return Ok(None);
        };
        let skip = objects::label(&namespace, SKIP_AUTO_PROPAGATION).unwrap_or_default();
        // One that is being deleted takes its Works with it: it owns them.
        if objects::is_terminating(&namespace) || skip.eq_ignore_ascii_case("true") {
            return Ok(None);
        }
        let mut failure = None;
        for cluster in self.manager.clusters.list() {
            pace.spend(self.manager.context.latencies.compute).await;
            if let Err(status) = self.write(&namespace, objects::name(&cluster)) {
                failure = Some(status);
            }
        }
        failure.map_or(Ok(None), Err)
    }
}

impl Namespaces {
    fn write(&self, namespace: &Value, member: &str) -> Result<(), Status> {
        let context = &self.manager.context;
        let home = execution_namespace(member);
        let name = objects::work_name("Namespace", objects::name(namespace), None);
        let known = self.manager.works.get(Some(&home), &name);
        let mut work = known.as_deref().cloned().unwrap_or_else(|| {
            json!({
                "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
                "metadata": {
                    "name": name, "namespace": home, "finalizers": [EXECUTION_FINALIZER],
                    "ownerReferences": [{
                        "apiVersion": "v1", "kind": "Namespace", "name": objects::name(namespace),
                        "uid": objects::uid(namespace), "controller": true, "blockOwnerDeletion": true,
                    }],
                },
            })
        });
        if objects::is_terminating(&work) {
            return Err(Status::internal(format!("work {home}/{name} is being deleted")));
        }
        let mut manifest = namespace.clone();
        objects::set_annotation(&mut manifest, TEMPLATE_UID, objects::uid(namespace));
        objects::fields(&mut manifest).shift_remove("spec");
        stamp(&mut manifest, &work);
        work["spec"] = json!({"workload": {"manifests": [manifest]}});
        match known {
            None => context
                .control
                .create(&WORKS, Some(&home), work, &context.writer())
                .map(drop),
            Some(known) if *known == work => Ok(()),
            Some(_) => context.put(&WORKS, work).map(drop),
        }
    }
}
