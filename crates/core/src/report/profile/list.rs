//! The list of profiles: a row each, and below it what isn't used and what is refused.

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use crate::error::Error;
use crate::profile::IMMOVABLE;
use crate::profile::catalog::Catalog;
use crate::profile::outline::Outline;
use cutover_base::escape::line;

const HEAD: Style = Style::new().bold();
const WARNING: Style = AnsiColor::Yellow.on_default();

const COLUMNS: [&str; 7] = [
    "NAME",
    "FROM",
    "USED",
    "KINDS",
    "HELD AND STOPPED BY",
    "STATE",
    "CARRIED OVER",
];

/// Returns `{"profiles": […]}`.
pub fn profiles_document(catalog: &Catalog) -> Result<Value, Error> {
    Ok(json!({ "profiles": outlines(catalog)? }))
}

/// Returns the list for a terminal.
pub fn profiles_text(catalog: &Catalog) -> Result<String, Error> {
    let outlines = outlines(catalog)?;
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    rows.extend(outlines.iter().map(row));
    let mut text = table(&rows);
    let notes: Vec<String> = outlines.iter().flat_map(notes).collect();
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        text += &format!("{WARNING}{}{WARNING:#}\n", line(&note));
    }
    text += "\nwhat a profile refuses, and why: cutover profile explain NAME\n\ncannot be moved with their state \
             (cutover profile explain KIND says what it would take):\n";
    for known in IMMOVABLE {
        text += &format!("  {}.{}: {}\n", known.kinds.join(", "), known.group, known.why);
    }
    Ok(text)
}

fn outlines(catalog: &Catalog) -> Result<Vec<Outline>, Error> {
    let outlines = catalog.entries.iter().map(|entry| Outline::of(entry, catalog));
    let outlines: Result<_, crate::profile::Error> = outlines.collect();
    outlines.map_err(|error| Error::internal(error.to_string()))
}

fn row(outline: &Outline) -> [String; 7] {
    let kinds: Vec<&str> = outline.kinds.iter().map(|kind| kind.kind.as_str()).collect();
    let kinds = match kinds.as_slice() {
        [first, _, _, ..] => format!("{first} and {} more", kinds.len() - 1),
        few => few.join(", "),
    };
    [
        outline.name.clone(),
        outline.origin.clone(),
        used(outline).to_owned(),
        kinds,
        held_and_stopped(outline),
        state(outline),
        carried(outline),
    ]
}

fn used(outline: &Outline) -> &'static str {
    let used = outline.kinds.iter().filter(|kind| kind.used).count();
    match used {
        0 => "no",
        all if all == outline.kinds.len() => "yes",
        _ => "partly",
    }
}

/// The first field of the hold, how many more it has, and how many a stop sets beyond it.
fn held_and_stopped(outline: &Outline) -> String {
    let held = match outline.held_by.as_slice() {
        [first, _, ..] => format!("{first} and {} more", outline.held_by.len() - 1),
        few => few.join(", "),
    };
    let further = outline
        .stopped_by
        .iter()
        .filter(|patch| !outline.held_by.contains(patch));
    match further.count() {
        0 => held,
        1 => format!("{held}; to stop 1 more"),
        more => format!("{held}; to stop {more} more"),
    }
}

/// Returns where the state of a workload is.
pub(super) fn state(outline: &Outline) -> String {
    let names: Vec<&str> = outline.captures.iter().map(|rule| rule.name.as_str()).collect();
    match (outline.stateful, names.as_slice()) {
        (false, _) => "none".to_owned(),
        (true, []) if outline.state_elsewhere => "elsewhere".to_owned(),
        (true, []) => "not captured".to_owned(),
        (true, names) => names.join(", "),
    }
}

fn carried(outline: &Outline) -> String {
    let carried = outline
        .carries
        .iter()
        .map(|carried| format!("{} → {}", carried.name, carried.field));
    let carried: Vec<String> = carried.collect();
    if carried.is_empty() {
        "nothing".to_owned()
    } else {
        carried.join(", ")
    }
}

fn notes(outline: &Outline) -> Vec<String> {
    let name = &outline.name;
    let unused = outline.kinds.iter().filter_map(|kind| {
        let because = kind.because.as_ref()?;
        Some(format!("{name} is not used for {}: {because}", kind.kind))
    });
    unused.collect()
}

/// Returns rows in columns, the first as a head.
fn table(rows: &[[String; 7]]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        let joined = cells.collect::<Vec<_>>().join("  ");
        let shown = line(joined.trim_end());
        if number == 0 {
            text += &format!("{HEAD}{shown}{HEAD:#}\n");
        } else {
            text += &format!("{shown}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Set;

    #[test]
    fn the_list_says_what_is_held_and_carried_and_what_cannot_be_moved() {
        let text = profiles_text(&Catalog::of(&Set::new())).unwrap();
        let text = anstream::adapter::strip_str(&text).to_string();
        for line in [
            "PyTorchJob.kubeflow.org and 4 more",
            "savepoint → spec.job.initialSavepointPath\n",
            "spec.job.state: suspended; to stop 2 more",
            "\nwhat a profile refuses, and why: cutover profile explain NAME\n",
            "  SparkApplication, SparkCluster.spark.apache.org: Apache's Spark operator has no suspension",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let head = text.lines().next().unwrap();
        let rows = text.lines().take_while(|line| !line.is_empty()).count();
        assert_eq!(rows, 1 + crate::profile::built_in().unwrap().len(), "{text}");
        let states = text.lines().nth(1).unwrap();
        assert_eq!(head.find("STATE"), states.find("savepoint  "), "{text}");
    }
}
