//! Objects against the schemas of their kinds.

use super::kubernetes;
use crate::finding::Finding;
use crate::manifest::Manifest;
use crate::schema::{Schemas, Violation, report, violations};

/// Compares an object with the schema of its kind, if there is one.
pub(super) fn check(object: &Manifest, schemas: &Schemas, findings: &mut Vec<Finding>) {
    match schemas.get(&object.gvk) {
        Some(schema) => {
            // Identity is checked where objects are read, metadata below; and `status` is the API server's.
            let is_left = |violation: &Violation| {
                let top = violation.pointer.split('/').nth(1).unwrap_or_default();
                matches!(top, "apiVersion" | "kind" | "metadata" | "status")
            };
            let finding = |violation: &Violation| {
                let (kind, path) = (&object.gvk.kind, &object.source.path);
                (!is_left(violation)).then(|| violation.finding(kind, path, &object.positions))
            };
            report(object, &violations(&object.value, schema), finding, findings);
            if schemas.know_kubernetes() {
                kubernetes::check_metadata(object, findings);
            }
        }
        None if schemas.know_kubernetes() => kubernetes::check(object, findings),
        None => {}
    }
}
