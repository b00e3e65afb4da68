//! Label selectors of objects beside a copy, in which the variables of a [`Site`] may stand.

use super::Error;
use super::template::{Site, Variables};
use cutover_karmada::LabelSelector;

/// Returns the label selector that finds the objects in the cluster of a site.
pub(super) fn selector(source: &str, site: Site<'_>) -> Result<String, Error> {
    let variables = Variables {
        site: Some(site),
        ..Variables::default()
    };
    variables.fill_text(source)
}

/// Returns what is wrong with one.
pub(super) fn check(source: &str) -> Result<(), String> {
    let site = Site {
        cluster: "here",
        namespace: "here",
        name: "here",
    };
    let filled = selector(source, site).map_err(|error| match error {
        Error::Variable(name) => {
            format!("${{{name}}} is not known here: known are ${{cluster}}, ${{namespace}} and ${{name}}")
        }
        other => other.to_string(),
    })?;
    let parsed = filled
        .parse::<LabelSelector>()
        .map_err(|error| error.to_string())?;
    if parsed.to_string().is_empty() {
        return Err("an empty one selects the objects of every workload".to_owned());
    }
    Ok(())
}
