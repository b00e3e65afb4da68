//! What intents would do, other than the migrations, which have a story of their own.

use super::links::Places;
use super::page::{code, inline};
use crate::plan::{Change, Forecast, Outcome};
use cutover_karmada::name::ObjectKey;

/// Returns what is told of one intent, or of the template that a rollout takes along.
pub(super) fn section(change: &Change, forecast: &Forecast, places: Places<'_>) -> String {
    let at = places.bracketed(change.source.as_ref());
    let mut text = format!(
        "\n#### {}{at}\n\n{}\n",
        inline(&change.key.to_string()),
        headline(forecast)
    );
    if !forecast.steps.is_empty() {
        text.push_str("\n| step | what is done |\n|---|---|\n");
        for step in &forecast.steps {
            text.push_str(&format!("| {} | {} |\n", inline(&step.name), inline(&step.what)));
        }
    }
    if !forecast.remarks.is_empty() {
        text.push('\n');
        for remark in &forecast.remarks {
            text.push_str(&format!("- {}\n", inline(remark)));
        }
    }
    text
}

/// Returns why an intent would be refused, a line each.
pub(super) fn blockers(intent: &ObjectKey, forecast: &Forecast) -> Vec<String> {
    let because = forecast.because.iter();
    because
        .map(|why| format!("- ⛔ {}: {}\n", code(&intent.to_string()), inline(why)))
        .collect()
}

fn headline(forecast: &Forecast) -> String {
    let because = inline(&forecast.because.join("; "));
    let said = |what: &str| match because.as_str() {
        "" => format!("{what}."),
        because => format!("{what}: {because}."),
    };
    match forecast.outcome {
        Outcome::Begins => said("✅ Nothing is seen now that blocks it"),
        Outcome::Nothing => said("✅ Nothing to do currently"),
        Outcome::Waits => said("⏳ It would wait"),
        Outcome::Refused => "⛔ It would be refused, with nothing touched; above is why.".to_owned(),
        Outcome::UnderWay => said("🔄 It is under way"),
        Outcome::Unknown => said("❔ What blocks it is not known"),
    }
}
