//! Intents that can't both have what they ask for: `cutover migrate` looks before it writes one more. What empties a cluster is
//! not refused by anything: it is asked for when time is short, and what `validate` finds in it says what else wants to go there.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::control::{Known, LookArgs};
use super::workspace::Workspace;
use cutover_core::api::{self, Phase};
use cutover_core::error::{Error, Result};
use cutover_core::intent::rivals;
use cutover_core::manifest::Manifest;
use cutover_karmada::name::ObjectKey;

/// What the status of an intent says; `None`: nobody could be asked.
type Stands = Option<(String, bool)>;

/// Fails while an intent of the repository is known not to have ended that excludes a new one. Where that isn't known, what
/// `validate` finds in the new file says so. Returns those that are known to have ended. `own`: kind, namespace and spec of the new
/// one, as in its file; `named`: what it is called.
pub async fn by_none(
    look: &LookArgs,
    workspace: &Workspace,
    named: &str,
    own: &Value,
) -> Result<BTreeSet<ObjectKey>> {
    let mut ended = BTreeSet::new();
    for (manifest, namespace) in workspace.migrations() {
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
            let object = look.object(workspace, manifest, None).await;
            let stands = object.map(|object| {
                let phase = object.pointer("/status/phase").and_then(Value::as_str);
                (phase.unwrap_or("Pending").to_owned(), rivals::has_ended(&object))
            });
            let other = format!("Evacuation {}", manifest.key.name);
            if judge(named, &other, &want, manifest, stands)? {
                ended.insert(manifest.key.clone());
            }
        }
    }
    Ok(ended)
}

async fn migration(look: &LookArgs, workspace: &Workspace, namespace: &str, name: &str) -> Stands {
    let phase = match look.known(workspace, namespace, name).await {
        Known::As(known) => known.status.map_or(Phase::default(), |status| status.phase),
        Known::Fresh => Phase::default(),
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
            "{named} and {other} would want {want}: only one of them can have it, and the other one has not ended: {phase}"
        ))
        .at(manifest.source.clone())
        .hint(
            "abort the other one first; of two migrations, the second can begin where the first ends, with --from; --offline does \
             not ask how the other one stands",
        )),
    }
}
