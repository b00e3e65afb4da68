//! An object before and after a change, with the secrets of both hidden.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use serde_json::Value;

use super::MASK;
use super::object::{Place, hide_placed};

/// What stands for the secrets of a place that differ on the two sides.
const BEFORE: &str = "*** (old)";
const AFTER: &str = "*** (new)";

/// Returns both sides of a change with their secrets replaced: by [`MASK`] where both have the same in the same place, by
/// `*** (old)` and `*** (new)` where they have not.
///
/// What stands for a secret says nothing of it but that, so secrets of two places can't be compared, nor those of two
/// objects, nor one with many guesses: a place has one value on each side. All secrets in one string count as one.
pub fn pair(before: &Value, after: &Value) -> (Value, Value) {
    let key = RandomState::new();
    let (old, new) = (digests(before, &key), digests(after, &key));
    let masked = |object: &Value, of: &str| {
        let mut object = object.clone();
        hide_placed(&mut object, &key, &mut |place, _| {
            let same = old.get(&place) == new.get(&place);
            if same { MASK } else { of }.to_owned()
        });
        object
    };
    (masked(before, BEFORE), masked(after, AFTER))
}

/// Returns what tells the secrets of each place from others, under a key that nobody knows.
fn digests(object: &Value, key: &RandomState) -> HashMap<Place, u64> {
    let mut digests = HashMap::new();
    hide_placed(&mut object.clone(), key, &mut |place, secret| {
        let digest = digests.entry(place).or_default();
        *digest = key.hash_one((*digest, secret));
        MASK.to_owned()
    });
    digests
}
