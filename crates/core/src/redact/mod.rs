//! Keeps secrets out of everything that is shown: plans, reports, errors, log lines. The one place that says what a
//! secret is; docs/explanation/security.md#secrets is its description for users.
//!
//! - [`pair`] hides the secrets of an object before and after a change, for a diff; [`kept`] those of one object.
//! - [`Secrets`] knows the secrets of some objects, and takes them out of what a server says about these.
//! - [`text`] takes out of any text what is recognisable as a credential by its shape.
//!
//! All of this takes time that grows with the length of what it is given and no faster, whatever that is: names and
//! contents come from whoever may push.
//!
//! Nothing here decides what may be *written*: what is sent to the API server is what Git says.

mod assign;
mod base64;
mod finder;
mod flow;
mod kinds;
mod names;
mod object;
mod outline;
mod pair;
mod shapes;
mod stretch;
mod text;
mod values;

use serde_json::Value;

pub(crate) use base64::base64;
pub use names::{is_credential, may_name_a_secret};
pub(crate) use object::is_secret;
pub use pair::pair;
pub use stretch::stretched;
pub use text::text;
pub use values::Secrets;

/// Stands for a value that must not be shown.
pub const MASK: &str = "***";

/// Returns an object with its secrets replaced by [`MASK`], the same whoever asks and when.
pub fn kept(object: &Value) -> Value {
    let mut object = object.clone();
    object::hide(&mut object, &mut |_| MASK.to_owned());
    object
}

#[cfg(test)]
mod tests;
