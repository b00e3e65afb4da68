//! The built-in profiles as a table of the reference.

use super::list::state;
use crate::api::WorkloadProfileSpec;
use crate::error::Error;
use crate::manifest::Set;
use crate::profile::catalog::{Catalog, Entry};
use crate::profile::outline::{Outline, patched, selector};

/// Returns a Markdown table of the built-in profiles: what holds, stops, proves, carries over.
pub fn built_in_profiles() -> Result<String, Error> {
    let catalog = Catalog::of(&Set::new());
    let mut table = "| profile | kinds | operator and version | held by | stopped by, besides | counts as stopped when | state | \
                     carried over | refused |\n\
                     |---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for entry in &catalog.entries {
        let outline = Outline::of(entry, &catalog).map_err(|error| Error::internal(error.to_string()))?;
        table += &row(entry, &outline);
    }
    Ok(table)
}

fn row(entry: &Entry, outline: &Outline) -> String {
    let spec = &entry.profile.spec;
    let further = spec.suspend.iter().filter(|patch| !spec.hold.contains(patch));
    let stopped = entry.noted("stopped").join("; ");
    let cells = [
        code([outline.name.clone()]),
        code(outline.kinds.iter().map(|kind| kind.kind.clone())),
        operators(entry).join(", "),
        code(spec.hold.iter().map(patched)),
        code(further.map(patched)),
        counts_as_stopped(spec, stopped),
        state(outline),
        code(outline.carries.iter().map(|carried| carried.field.clone())),
        outline.refuses.join("; "),
    ];
    format!("| {} |\n", cells.join(" | "))
}

/// Returns what proves a stop: what the status says, which pods are gone, and for how long that has to be seen.
fn counts_as_stopped(spec: &WorkloadProfileSpec, says: String) -> String {
    let pods = spec.no_pods.as_ref();
    let pods = pods.map(|pods| format!("no pod with {} is left", code([selector(pods)])));
    let settled = spec.settle_for.as_ref();
    let settled = settled.map(|settle_for| format!("for {settle_for}, without any change"));
    let all: Vec<String> = [Some(says), pods, settled].into_iter().flatten().collect();
    all.join("; ")
}

/// Returns the operators whose source was read, each with the version.
fn operators(entry: &Entry) -> Vec<&'static str> {
    let noted = entry.noted("operator").into_iter();
    noted
        .map(|operator| operator.split_once(" (").map_or(operator, |(name, _)| name))
        .collect()
}

fn code(parts: impl IntoIterator<Item = String>) -> String {
    let parts = parts
        .into_iter()
        .map(|part| format!("`{}`", part.replace('|', "\\|")));
    parts.collect::<Vec<_>>().join(", ")
}
