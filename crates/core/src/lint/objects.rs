//! Objects as such: defined once, of kinds that there are, and without plain secrets.

use serde_json::Value;

use crate::api;
use crate::finding::{Code, Finding};
use crate::intent::other_managers::appliers;
use crate::manifest::{Manifest, Set};
use cutover_base::nearest::did_you_mean;

pub(super) fn check(set: &Set, findings: &mut Vec<Finding>) {
    for duplicate in set.duplicates() {
        let finding = Finding::new(
            Code::DuplicateObject,
            duplicate.again.clone(),
            duplicate.to_string(),
        );
        findings.push(finding.hint("remove one of them"));
    }
    let crds = api::crds();
    let kinds: Vec<&str> = crds.iter().map(|crd| crd.spec.names.kind.as_str()).collect();
    for object in set.definitions() {
        findings.extend(unserved(object, &kinds));
        if let Some(applier) = appliers(&object.value).first() {
            let message = format!(
                "{} carries the marks of {applier}: two tools would apply it, each undoing the other",
                object.key
            );
            let finding = Finding::new(Code::AppliedTwice, object.location("/metadata"), message);
            findings.push(finding.hint(
                "let one of them apply it: take the file out here, or there, and the marks with it (docs/explanation/argocd-flux.md)",
            ));
        }
        let has = |field: &str| {
            object
                .value
                .get(field)
                .and_then(Value::as_object)
                .is_some_and(|data| !data.is_empty())
        };
        // SOPS leaves the keys as they are and encrypts the values.
        let encrypted = object.value.get("sops").is_some();
        if !encrypted
            && object.key.group.is_empty()
            && object.key.kind == "Secret"
            && (has("data") || has("stringData"))
        {
            let message = format!(
                "{} has its values in plain text: every reader of the repository has them",
                object.key
            );
            let finding = Finding::new(Code::PlainSecret, object.source.clone(), message);
            findings
                .push(finding.hint(
                    "encrypt it, or let an operator fetch it (SOPS, Sealed Secrets, External Secrets)",
                ));
        }
    }
}

/// Returns what is wrong with an object of cutover's own group that no API server would take. `kinds`: those of the group.
fn unserved(object: &Manifest, kinds: &[&str]) -> Option<Finding> {
    let gvk = &object.gvk;
    if gvk.group != api::GROUP {
        return None;
    }
    if !kinds.contains(&gvk.kind.as_str()) {
        let message = format!("there is no kind {} in {}", gvk.kind, api::GROUP);
        let hint = did_you_mean(&gvk.kind, kinds.iter().copied());
        let all = || format!("its kinds are {}", kinds.join(", "));
        let finding = Finding::new(Code::NoSuchKind, object.location("/kind"), message);
        return Some(finding.hint(hint.unwrap_or_else(all)));
    }
    (gvk.version != api::VERSION).then(|| {
        let message = format!("{} has no version {}", gvk.kind, gvk.api_version());
        let finding = Finding::new(Code::NoSuchKind, object.location("/apiVersion"), message);
        finding.hint(format!("write apiVersion: {}", api::API_VERSION))
    })
}
