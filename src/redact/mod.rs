//! Keeps secrets out of everything that is shown: plans, reports, errors, log lines. The one place that says what a
//! secret is; docs/secrets.md is its description for users.
//!
//! - [`Mask`] replaces the secrets of an object by fingerprints, for a diff.
//! - [`Secrets`] knows the secrets of some objects, and takes them out of what a server says about these.
//! - [`text`] takes out of any text what is recognisable as a credential by its shape.
//!
//! Nothing here decides what may be *written*: what is sent to the API server is what Git says.

mod hmac;
mod names;
mod object;
mod text;
mod values;

use serde_json::Value;

pub use hmac::{Hmac, stretched};
pub use names::{is_credential, may_name_a_secret};
pub(crate) use object::{base64, is_secret};
pub use text::text;
pub use values::Secrets;

/// Stands for a value that must not be shown.
pub const MASK: &str = "***";

/// Replaces secrets by fingerprints: `*** (hmac 3f9a1c2e)`. Equal values have equal fingerprints and others differ, so
/// that a diff shows *that* a value changes.
///
/// With a key that nobody knows and that is drawn anew for each output, a fingerprint says nothing else.
#[derive(Clone)]
pub struct Mask(Hmac);

impl Mask {
    /// The key has to be random, and is not to be kept.
    pub const fn new(key: [u8; 32]) -> Self {
        Self(Hmac::new(key))
    }

    /// Returns an object with its secrets replaced.
    pub fn object(&self, object: &Value) -> Value {
        let mut object = object.clone();
        object::hide(&mut object, &mut |secret| self.value(secret));
        object
    }

    /// Returns what stands for a secret.
    pub fn value(&self, secret: &str) -> String {
        let digest = self.0.digest(secret.as_bytes());
        let prefix: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("{MASK} (hmac {prefix})")
    }
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mask")
    }
}

/// Returns an object with its secrets replaced by [`MASK`], the same whoever asks and when: for what is kept.
pub fn kept(object: &Value) -> Value {
    let mut object = object.clone();
    object::hide(&mut object, &mut |_| MASK.to_owned());
    object
}

#[cfg(test)]
mod tests;
