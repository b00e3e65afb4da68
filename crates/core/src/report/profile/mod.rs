//! Workload profiles for people and programs: what there is, what one does, and what one makes of an object.

mod explain;
mod list;
mod reference;
mod trial;

pub use explain::explain_profile;
pub use list::{profiles_document, profiles_text};
pub use reference::built_in_profiles;
pub use trial::{Problem as TrialProblem, Trial, TrialAs};
