//! A member leaves, and another cluster joins under its name.

use serde_json::json;

use super::{World, must};
use crate::api::{ApiServer, DeleteOptions, ListOptions, Patch, Resource, Snapshot, WriteOptions};
use crate::karmada;
use cutover_karmada::meta;

impl World {
    /// Lets a member leave, with all that runs there, and another cluster join under its name: an empty one, or one that was
    /// made from a backup.
    ///
    /// # Panics
    /// When there is none of that name.
    pub fn rejoin(&self, name: &str, backup: Option<&Snapshot>) {
        let member = &self.members[name];
        member.simulators(|simulators| simulators.jobs().vanish());
        member.api.restore(backup.unwrap_or(&member.fresh));
        member.api.become_another();
        collect_pods(&member.api);
        let works = ListOptions::default();
        let namespace = meta::execution_namespace(name);
        let listed = self
            .control
            .list(&karmada::kinds::WORKS, Some(&namespace), &works);
        for work in listed.into_iter().flat_map(|list| list.items) {
            let work = work["metadata"]["name"].as_str().unwrap_or_default();
            self.remove(&karmada::kinds::WORKS, Some(&namespace), work);
        }
        self.remove(&karmada::kinds::CLUSTERS, None, name);
        self.register(member);
    }

    /// Deletes an object whatever holds it.
    fn remove(&self, resource: &Resource, namespace: Option<&str>, name: &str) {
        let writer = WriteOptions::manager("karmadactl");
        let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        must(
            self.control
                .patch(resource, namespace, name, None, &bare, &writer),
        );
        must(
            self.control
                .delete(resource, namespace, name, &DeleteOptions::default()),
        );
    }
}

/// Removes the pods that a backup knows, as the pod collector of a real cluster does where their machines are no more.
fn collect_pods(api: &ApiServer) {
    let pods = Resource::new("", "pods");
    let known = api.list(&pods, None, &ListOptions::default());
    for pod in known.into_iter().flat_map(|list| list.items) {
        let text = |field: &str| pod["metadata"][field].as_str();
        let now = DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        };
        let name = text("name").unwrap_or_default();
        must(api.delete(&pods, text("namespace"), name, &now));
    }
}
