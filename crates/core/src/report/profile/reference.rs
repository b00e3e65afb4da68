//! The built-in profiles as a table of the reference.

use super::list::state;
use crate::error::Error;
use crate::manifest::Set;
use crate::profile::catalog::{Catalog, Entry};
use crate::profile::outline::{Outline, patched, selector};

/// What `observedWhen` and `suspendedWhen` ask for.
const SAYS_SO: &str = "its operator has seen the hold and says that nothing of it runs";

/// Returns a Markdown table of the built-in profiles: what holds, stops, proves, carries over.
pub fn built_in_profiles() -> Result<String, Error> {
    let catalog = Catalog::of(&Set::new());
    let mut table = "| profile | kinds | held by | stopped by, besides | counts as stopped when | state | carried over | refused |\n\
                     |---|---|---|---|---|---|---|---|\n"
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
    let pods = spec.no_pods.as_ref();
    let cells = [
        code([outline.name.clone()]),
        code(outline.kinds.iter().map(|kind| kind.kind.clone())),
        code(spec.hold.iter().map(patched)),
        code(further.map(patched)),
        match pods {
            Some(pods) => format!("{SAYS_SO}, and no pod with {} is left", code([selector(pods)])),
            None => SAYS_SO.to_owned(),
        },
        state(outline),
        code(outline.carries.iter().map(|carried| carried.field.clone())),
        outline.refuses.join("; "),
    ];
    format!("| {} |\n", cells.join(" | "))
}

fn code(parts: impl IntoIterator<Item = String>) -> String {
    let parts = parts
        .into_iter()
        .map(|part| format!("`{}`", part.replace('|', "\\|")));
    parts.collect::<Vec<_>>().join(", ")
}
