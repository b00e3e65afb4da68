//! Controls an intent that no file asks for, in the control plane: a Migration that a change of a policy, a template or another intent
//! set off, or the Evacuation of a cluster.

use std::process::ExitCode;

use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::approval::{self, Given};
use super::kinds::{self, What};
use crate::cli::connection::{AskArgs, PATIENCE};
use crate::cli::intent_name::{self, IntentName};
use crate::cli::target::Controlled;
use crate::cli::workspace::ChangeArgs;
use crate::cli::{output, status};
use cutover_cluster::{Cluster, Exactly, Lookup, Mode, Written};
use cutover_core::api::{self, Evacuation, Intent, Migration};
use cutover_core::error::{Error, Result};
use cutover_core::intent::control::{self, Control, Decision, Observed};
use cutover_core::intent::origin::{self, Origin};
use cutover_core::manifest::Change;
use cutover_karmada::name::Gvk;

/// In whose name such intents are changed.
const MANAGER: &str = "cutover-control";

/// The kinds that are set off without a file.
const KINDS: [&str; 2] = [Migration::KIND, Evacuation::KIND];

/// An intent that no file asks for, as it was read.
struct Live {
    kind: &'static str,
    object: Value,
    meta: ObjectMeta,
    origin: Origin,
}

/// Asks something of such an intent. `None`: none is known by that name. `fits`: whether the rest of the command line can be about a
/// kind, which tells apart intents that have one name.
pub(super) async fn control(
    meant: IntentName<'_>,
    control: &Control,
    fits: impl Fn(&str) -> bool,
    change: &ChangeArgs,
    ask: &AskArgs,
) -> Result<Option<ExitCode>> {
    let Some(args) = ask.cluster() else {
        return Ok(None);
    };
    let found = async {
        let cluster = args.connect().await?;
        let found = find(&cluster, meant).await?;
        Ok::<_, Error>((cluster, found))
    };
    let found = tokio::time::timeout(PATIENCE, found)
        .await
        .unwrap_or_else(|_| Err(Error::user(format!("no answer within {} s", PATIENCE.as_secs()))));
    let (cluster, mut found) = match found {
        Ok(found) => found,
        Err(error) => {
            output::note(format!(
                "note: whether the control plane has it, without a file, is not known: {error}"
            ));
            return Ok(None);
        }
    };
    if found.iter().any(|(kind, _)| fits(kind)) {
        found.retain(|(kind, _)| fits(kind));
    }
    let last = found.pop();
    match (last, found.as_slice()) {
        (None, _) => Ok(None),
        (Some((kind, object)), []) => {
            let live = Live::of(kind, object)?;
            if !fits(kind) {
                return Err(kinds::no_approval(&live.controlled()));
            }
            live.control(&cluster, control, change).await.map(Some)
        }
        (Some(last), others) => {
            let all = others.iter().chain([&last]);
            let names: Vec<_> = all.map(|&(kind, ref object)| names(kind, object)).collect();
            Err(intent_name::ambiguous(meant.name, &names))
        }
    }
}

/// Returns what is there by that name.
async fn find(cluster: &Cluster, meant: IntentName<'_>) -> Result<Vec<(&'static str, Value)>> {
    let mut found = Vec::new();
    for kind in KINDS {
        let Lookup::Served(served) = cluster.lookup(&Gvk::new(api::API_VERSION, kind)).await? else {
            continue;
        };
        let all = status::list(cluster, &served).await?.into_iter();
        let is_meant = |object: &Value| {
            let (_, namespace, name) = names(kind, object);
            meant.means(kind, Some(namespace).filter(|there| !there.is_empty()), name)
        };
        found.extend(all.filter(is_meant).map(|object| (kind, object)));
    }
    Ok(found)
}

impl Live {
    /// Takes an intent of which it is certain that no file asks for it.
    fn of(kind: &'static str, object: Value) -> Result<Self> {
        let name = full_name(kind, &object);
        let meta: ObjectMeta = serde_json::from_value(object["metadata"].clone())
            .map_err(|error| Error::user(format!("{name} cannot be read: {error}")))?;
        let origin = Origin::of(kind, &meta).ok_or_else(|| {
            Error::user(format!(
                "{name} is in the control plane, and no file of this repository asks for it"
            ))
            .hint("run the command in a clone of the repository whose file does: -C DIR")
        })?;
        Ok(Self {
            kind,
            object,
            meta,
            origin,
        })
    }

    async fn control(&self, cluster: &Cluster, control: &Control, change: &ChangeArgs) -> Result<ExitCode> {
        let (name, origin) = (full_name(self.kind, &self.object), &self.origin);
        if let Some(option) = change.of_a_file() {
            return Err(
                Error::user(format!("{name} has no file: {origin} asks for it")).hint(format!(
                    "leave {option} out: it is changed in the control plane, without a commit"
                )),
            );
        }
        if origin::waits_for_leave(&self.meta) && *control != Control::Abort {
            return Err(Error::user(format!("{name} waits for {origin} to let it begin"))
                .hint("until then, it accepts only abort"));
        }
        let (decision, warning) = self.decide(control)?;
        match decision {
            Decision::Nothing(why) => output::note(format!("nothing to do: {why}")),
            Decision::Change {
                change: edit,
                subject,
                ..
            } => {
                let patch = self.patch(&edit)?;
                if change.is_dry_run() {
                    let text = serde_json::to_string_pretty(&patch).unwrap_or_default();
                    output::json(text + "\n")?;
                    return Ok(ExitCode::SUCCESS);
                }
                self.write(cluster, &patch).await?;
                output::note(format!(
                    "changed in {}, without a commit, because {origin} asks for it, and no file: {subject}",
                    cluster.server()
                ));
                if let Some(warning) = warning {
                    output::note(format!("warning: {warning}"));
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Decides as for one that a file asks for, by what it says now.
    fn decide(&self, control: &Control) -> Result<(Decision, Option<&'static str>)> {
        if self.kind == Migration::KIND {
            return self.decide_migration(control);
        }
        let decision = match control {
            Control::Approve { phase, attempt, by } => {
                let given = Given {
                    what: phase.map(What::Phase),
                    attempt: *attempt,
                    by: by.clone(),
                };
                approval::decide_live(given, self.controlled())?
            }
            _ => kinds::decide(&self.controlled(), control)?,
        };
        Ok((decision, None))
    }

    fn decide_migration(&self, control: &Control) -> Result<(Decision, Option<&'static str>)> {
        let Controlled { name, full_name, .. } = self.controlled();
        let migration: Migration = serde_json::from_value(self.object.clone())
            .map_err(|error| Error::user(format!("{full_name} cannot be read: {error}")))?;
        let observed = Observed::Known(&migration);
        let decision = control::decide(control, &name, &migration.spec, observed)?;
        Ok((decision, control::warning(control, &migration.spec, observed)))
    }

    fn controlled(&self) -> Controlled<'_> {
        Controlled::live(self.kind, place(&self.object), &self.object)
    }

    /// Returns the patch that changes its spec.
    fn patch(&self, edit: &Change) -> Result<Value> {
        let changed = edit.outcomes(&self.object).into_iter().next();
        let spec = changed.and_then(|mut changed| changed.get_mut("spec").map(Value::take));
        let spec =
            spec.ok_or_else(|| Error::internal(format!("{} has no spec to change", place(&self.object))))?;
        Ok(json!([{"op": "replace", "path": "/spec", "value": spec}]))
    }

    /// Writes it if nothing of it has changed since it was read.
    async fn write(&self, cluster: &Cluster, patch: &Value) -> Result<()> {
        let gvk = Gvk::new(api::API_VERSION, self.kind);
        let Lookup::Served(served) = cluster.lookup(&gvk).await? else {
            return Err(Error::user(format!("{} does not serve {gvk}", cluster.server())));
        };
        let operations = patch.as_array().cloned().unwrap_or_default();
        let (writer, read) = (cluster.writer(MANAGER), Exactly::of(&self.object));
        match writer.patch(&served, &read, &operations, Mode::Write).await? {
            Written::Done(_) => Ok(()),
            Written::Precondition(_) | Written::Exists(_) => Err(Error::user(format!(
                "nothing was written: {} has changed since it was read",
                full_name(self.kind, &self.object)
            ))
            .hint("run the command again")),
        }
    }
}

/// Returns kind, namespace and name; no namespace of one of cluster scope.
fn names<'o>(kind: &'static str, object: &'o Value) -> (&'static str, &'o str, &'o str) {
    let text = |pointer| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    (kind, text("/metadata/namespace"), text("/metadata/name"))
}

/// Returns namespace and name.
fn place(object: &Value) -> String {
    match names("", object) {
        (_, "", name) => name.to_owned(),
        (_, namespace, name) => format!("{namespace}/{name}"),
    }
}

fn full_name(kind: &str, object: &Value) -> String {
    format!("{kind} {}", place(object))
}
