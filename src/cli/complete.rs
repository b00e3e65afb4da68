//! What the shell's tab key offers for names: clusters, intents and workloads of the repository that the working directory is in.
//!
//! Only files are read. Whatever goes wrong, nothing is offered and nothing is printed.
//!
//! clap_complete calls this engine unstable: the script that it prints for a shell belongs to this very program. So people let
//! the shell read it at its start, and store none; `completions` prints what can be stored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use serde_json::Value;

use super::workspace::Workspace;
use super::{help, named};
use cutover_core::api::{self, KINDS};
use cutover_core::error::{Error, Result};
use cutover_core::manifest::Manifest;

/// Set by the script in the shell when it asks for what may come next.
const VARIABLE: &str = "CUTOVER_COMPLETE";

/// How long a person who pressed the tab key waits for names.
const PATIENCE: Duration = Duration::from_secs(1);

/// Answers the shell and ends the process, if it is the shell that asks.
pub fn answer() {
    CompleteEnv::with_factory(|| with_names(help::command()))
        .var(VARIABLE)
        .complete();
}

/// Returns the script that has a shell ask this program.
pub fn script(shell: &str) -> Result<String> {
    let known = Shells::builtins();
    let completer = known.completer(shell).ok_or_else(|| {
        let names: Vec<_> = known.names().collect();
        Error::user(format!("{shell} cannot ask a program for completions")).hint(format!(
            "{} can; the others need --dynamic left out",
            names.join(", ")
        ))
    })?;
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, "cutover", "cutover", "cutover", &mut script)
        .map_err(|error| Error::internal(format!("the script cannot be written: {error}")))?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// Adds to each flag and argument that takes a name where names come from.
fn with_names(command: Command) -> Command {
    command.mut_args(with_name).mut_subcommands(with_names)
}

fn with_name(arg: Arg) -> Arg {
    let value = arg.get_value_names().and_then(|names| names.first());
    match (value.map(|name| &**name), arg.get_id().as_str()) {
        (Some("CLUSTER"), _) => arg.add(ArgValueCandidates::new(|| offer(clusters))),
        (Some("WORKLOAD" | "TARGET" | "KIND/NAME"), _) => {
            arg.add(ArgValueCandidates::new(|| offer(workloads)))
        }
        // Flags of that kind take names of other things.
        (Some("NAME"), "name") if arg.is_positional() => arg.add(ArgValueCandidates::new(|| offer(intents))),
        _ => arg,
    }
}

/// A name, and what has it.
type Names = BTreeMap<String, String>;

/// Returns the names that are found in the repository in time.
fn offer(names: fn(&Workspace) -> Names) -> Vec<CompletionCandidate> {
    let (sender, found) = mpsc::channel();
    // A process that has answered ends, whatever this one is at.
    std::thread::spawn(move || {
        let workspace = Workspace::around(Path::new("."));
        let _ = sender.send(workspace.map(|workspace| names(&workspace)));
    });
    let found = found.recv_timeout(PATIENCE).ok().and_then(Result::ok);
    let candidate = |(name, what): (String, String)| CompletionCandidate::new(name).help(Some(what.into()));
    found.unwrap_or_default().into_iter().map(candidate).collect()
}

/// Returns what commands take for a workload: its name, and `kind/name`.
fn workloads(workspace: &Workspace) -> Names {
    let kinds = named::workloads(workspace).unwrap_or_default();
    let mut names = Names::new();
    for manifest in workspace.set.definitions() {
        let key = &manifest.key;
        if kinds.contains(&(key.group.clone(), key.kind.clone())) {
            let what = format!("{} in {}", key.kind, workspace.namespace_of(manifest));
            names.insert(format!("{}/{}", key.kind.to_lowercase(), key.name), what.clone());
            names.insert(key.name.clone(), what);
        }
    }
    names
}

/// Returns the names of intents; with the kind, or else the namespace, where the name alone is not enough.
fn intents(workspace: &Workspace) -> Names {
    let mut all: BTreeMap<&str, Vec<(&Manifest, String)>> = BTreeMap::new();
    for kind in &KINDS {
        for (manifest, namespace) in workspace.of_kind(kind.name) {
            all.entry(&manifest.key.name)
                .or_default()
                .push((manifest.as_ref(), namespace));
        }
    }
    let mut names = Names::new();
    for (name, those) in all {
        let kinds: BTreeSet<&String> = those.iter().map(|(manifest, _)| &manifest.key.kind).collect();
        let (is_alone, has_kinds) = (those.len() == 1, kinds.len() > 1);
        for (manifest, namespace) in &those {
            let kind = &manifest.key.kind;
            let name = match (is_alone, has_kinds) {
                (true, _) => name.to_owned(),
                (false, true) => format!("{}/{name}", kind.to_ascii_lowercase()),
                (false, false) => format!("{namespace}/{name}"),
            };
            names.insert(name, kind.clone());
        }
    }
    names
}

/// Returns the clusters that policies and intents name.
fn clusters(workspace: &Workspace) -> Names {
    let mut names = BTreeSet::new();
    for manifest in workspace.set.definitions() {
        match manifest.key.group.as_str() {
            "policy.karmada.io" => named_under(&manifest.value["spec"], &["clusterNames"], &mut names),
            api::GROUP => {
                let fields = ["to", "from", "cluster", "clusters", "order", "clusterNames"];
                named_under(&manifest.value["spec"], &fields, &mut names);
            }
            _ => {}
        }
    }
    names
        .into_iter()
        .map(|name| (name, "cluster".to_owned()))
        .collect()
}

/// Collects the texts, and the lists of texts, that fields of these names have at any depth.
fn named_under(value: &Value, fields: &[&str], names: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| named_under(item, fields, names)),
        Value::Object(object) => {
            for (field, value) in object {
                if fields.contains(&field.as_str()) {
                    let items = value
                        .as_array()
                        .map_or(std::slice::from_ref(value), Vec::as_slice);
                    names.extend(items.iter().filter_map(Value::as_str).map(str::to_owned));
                }
                named_under(value, fields, names);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_that_takes_a_name_has_names_to_offer() {
        fn count(command: &Command) -> usize {
            let offered = |arg: &&Arg| arg.get::<ArgValueCandidates>().is_some();
            let below = command.get_subcommands().map(count).sum::<usize>();
            command.get_arguments().filter(offered).count() + below
        }
        let command = with_names(help::command());
        assert!(count(&command) > 30, "{}", count(&command));
        for (name, arg) in [
            ("migrate", "workload"),
            ("migrate", "to"),
            ("evacuate", "cluster"),
            ("approve", "name"),
            ("status", "name"),
            ("suspend", "target"),
        ] {
            let command = command.find_subcommand(name).unwrap();
            let arg = command.get_arguments().find(|one| one.get_id() == arg).unwrap();
            assert!(arg.get::<ArgValueCandidates>().is_some(), "{name} {arg}");
        }
    }

    #[test]
    fn clusters_stand_at_any_depth() {
        let mut names = BTreeSet::new();
        let spec = serde_json::json!({
            "placement": {"clusterAffinities": [{"clusterNames": ["east", "west"]}, {"clusterNames": ["north"]}]},
        });
        named_under(&spec, &["clusterNames"], &mut names);
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["east", "north", "west"]);
    }
}
