//! Who looks at what a Migration is about, in one pass. What is read is in a file for each of its places.

use super::Parts;
use cutover_core::api::{Migration, MigrationSpec, MigrationStatus};
use cutover_karmada::name::{Gvk, ObjectKey};

/// One pass's look, for one intent.
pub(super) struct MigrationReader<'a> {
    pub parts: &'a Parts,
    pub intent: &'a Migration,
    pub spec: &'a MigrationSpec,
    pub status: &'a MigrationStatus,
    pub workload: ObjectKey,
    pub gvk: Gvk,
}
