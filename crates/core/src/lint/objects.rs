//! Objects as such: defined once, and without plain secrets.

use serde_json::Value;

use super::{Code, Finding};
use crate::intent::beside::appliers;
use crate::manifest::Set;

pub(super) fn check(set: &Set, findings: &mut Vec<Finding>) {
    for duplicate in set.duplicates() {
        let finding = Finding::new(
            Code::DuplicateObject,
            duplicate.again.clone(),
            duplicate.to_string(),
        );
        findings.push(finding.hint("remove one of them"));
    }
    for object in set.definitions() {
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
                "{} has its values in plain text: whoever reads the repository has them",
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
