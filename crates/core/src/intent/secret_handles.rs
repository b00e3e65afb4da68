//! Where the values of secret handles are: in the journal, for as long as it speaks of them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::api::{SecretHandles, is_reference};
use crate::profile::Profile;

/// Keeps the values that handles of a journal stand for, and no others. One that is not known yet is looked for in the copies: it
/// stands in the one in which the handle was seen, in the same pass.
pub(super) fn keep<'o, 'h>(
    known: &mut SecretHandles,
    handles: impl Iterator<Item = &'h String>,
    profile: &Profile,
    copies: impl IntoIterator<Item = &'o Value>,
) {
    let wanted: BTreeSet<String> = handles.filter(|handle| is_reference(handle)).cloned().collect();
    known.keep(&wanted);
    for copy in copies {
        if known.have(&wanted) {
            return;
        }
        known.take(profile.secrets(copy), &wanted);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::reference;
    use crate::profile::built_in;

    #[test]
    fn a_value_is_taken_from_the_copy_that_shows_it_and_forgotten_with_its_handle() {
        let mut spec = built_in().unwrap()[0].spec.clone();
        spec.capture[0].secret = true;
        let profile = Profile::compile("x", &spec).unwrap();
        let copy = json!({"status": {"jobStatus": {"upgradeSavepointPath": "s3://C4n4ry"}}});
        let handle = reference("s3://C4n4ry");
        let mut known = SecretHandles::default();
        keep(&mut known, [handle.clone()].iter(), &profile, [&copy]);
        assert_eq!(known.reveal(&handle), Some("s3://C4n4ry"));
        // The copy is gone, and the value stays.
        keep(&mut known, [handle.clone()].iter(), &profile, []);
        assert_eq!(known.reveal(&handle), Some("s3://C4n4ry"));
        keep(&mut known, [].iter(), &profile, [&copy]);
        assert!(known.is_empty());
    }
}
