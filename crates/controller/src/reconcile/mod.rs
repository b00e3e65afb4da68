//! The loops: sync, intents, publish. They meet only in the Karmada API server and in `report`.

mod definitions;
mod endings;
mod forecasts;
pub mod intents;
pub mod lease;
mod notices;
mod offline;
mod other_problems;
mod overview;
mod plan;
mod policy_change;
mod preflight;
mod preview;
mod publish;
mod records;
mod refusals;
mod run;
mod running;
mod settings;
mod summaries;
pub mod sync;
mod templates;
mod unhealthy;
mod verdicts;

pub use offline::plan_offline;
pub use overview::Reports;
pub use plan::{Plan, Target, plan};
pub use preview::{Previews, outlooks_offline, previews};
pub use publish::Publisher;
pub use records::GitRecords;
pub use run::{Elsewhere, Options, Summary, once, run};
pub(crate) use settings::check as check_settings;
pub use verdicts::Statuses;
