//! Intents that exclude each other: `cutover migrate` checks for them before it writes another one. `cutover evacuate` is never
//! refused for that: people use it when time is short, and the findings of `validate` in the new file name the intents that it
//! excludes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::look::{Known, Look};
use super::workspace::Workspace;
use cutover_core::api::{self, Migration, Phase};
use cutover_core::error::{Error, Result};
use cutover_core::intent::rivals;
use cutover_core::manifest::Manifest;
use cutover_karmada::name::ObjectKey;

/// The phase of an intent and whether it has ended; `None`: that is not known.
type Stands = Option<(String, bool)>;

/// Fails while an intent of the repository is known not to have ended that excludes a new one. Where that isn't known, what
/// `validate` finds in the new file says so. Returns those that are known to have ended. `own`: kind, namespace and spec of the new
/// one, as in its file; `named`: what it is called.
pub async fn by_none(
    look: Look<'_>,
    workspace: &Workspace,
    named: &str,
    own: &Value,
) -> Result<BTreeSet<ObjectKey>> {
    let mut ended = BTreeSet::new();
    for (manifest, namespace) in workspace.of_kind("Migration") {
        let there = json!({
            "kind": "Migration", "metadata": {"namespace": namespace}, "spec": manifest.value["spec"],
        });
        if let Some(want) = rivals::exclude_each_other(own, &there) {
            let name = &manifest.key.name;
            let stands = migration(look, workspace, &namespace, name).await;
            let other = format!("Migration {namespace}/{name}");
            if judge(named, &other, &want, manifest, stands)? {
                ended.insert(manifest.key.clone());
            }
        }
    }
    for manifest in workspace.set.of_kind(api::GROUP, "Evacuation") {
        if let Some(want) = rivals::exclude_each_other(own, &manifest.value) {
            let name = &manifest.key.name;
            let known = look.known::<Value>(workspace, "Evacuation", None, name).await;
            let stands = known.object().map(|object| {
                let phase = object.pointer("/status/phase").and_then(Value::as_str);
                (phase.unwrap_or("Pending").to_owned(), rivals::has_ended(&object))
            });
            let other = format!("Evacuation {name}");
            if judge(named, &other, &want, manifest, stands)? {
                ended.insert(manifest.key.clone());
            }
        }
    }
    Ok(ended)
}

async fn migration(look: Look<'_>, workspace: &Workspace, namespace: &str, name: &str) -> Stands {
    let known = look
        .known::<Migration>(workspace, "Migration", Some(namespace), name)
        .await;
    let phase = match known {
        Known::As(known) => known.status.map_or(Phase::default(), |status| status.phase),
        Known::Absent(_) => Phase::default(),
        Known::Not(_) => return None,
    };
    Some((phase.to_string(), phase.is_terminal()))
}

/// Returns whether the other one is known to have ended; fails if it is known not to have.
fn judge(named: &str, other: &str, want: &str, manifest: &Manifest, stands: Stands) -> Result<bool> {
    match stands {
        None => Ok(false),
        Some((_, true)) => Ok(true),
        Some((phase, false)) => Err(Error::user(format!(
            "{named} and {other} exclude each other: together they ask for {want}; {other} has not ended: {phase}"
        ))
        .at(manifest.source.clone())
        .hint(format!(
            "abort {other} first; a second Migration can begin where the first one ends, with --from; --offline skips this check"
        ))),
    }
}
