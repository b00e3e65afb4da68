//! Tools beside this one that apply a template, Argo CD and Flux: found by what they leave on it, and whether they are kept from
//! changing it. Nothing is asked of them; what they are told to apply is read where this API server has it.

mod hold;

use std::fmt;

use serde_json::Value;

pub use hold::Hold;

use super::seen::Seen;
use cutover_karmada::name::{Gvk, ObjectKey};

/// A tool that applies objects from Git, as far as one of its controllers does it its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    ArgoCd,
    FluxKustomize,
    FluxHelm,
}

/// The names under which Argo CD has written: by server-side or client-side apply, and as it did before that could be set.
const ARGO_MANAGERS: [&str; 2] = ["argocd-controller", "argocd-application-controller"];
/// By the application, of what it tracks: `APP:GROUP/KIND:NAMESPACE/NAME`.
const ARGO_TRACKING: &str = "argocd.argoproj.io/tracking-id";
/// The same by a label, which others set as well.
const ARGO_LABEL: &str = "app.kubernetes.io/instance";
/// Where applications are whose namespace isn't said.
const ARGO_NAMESPACE: &str = "argocd";

impl Tool {
    /// Returns the kind of what tells the tool to apply something.
    pub fn owner_kind(self) -> Gvk {
        match self {
            Self::ArgoCd => Gvk::new("argoproj.io/v1alpha1", "Application"),
            Self::FluxKustomize => Gvk::new("kustomize.toolkit.fluxcd.io/v1", "Kustomization"),
            Self::FluxHelm => Gvk::new("helm.toolkit.fluxcd.io/v2", "HelmRelease"),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::ArgoCd => "Argo CD",
            Self::FluxKustomize | Self::FluxHelm => "Flux",
        }
    }
}

/// A tool that applies an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Applier {
    pub tool: Tool,
    /// What tells it to; not every mark names that.
    pub owner: Option<ObjectKey>,
}

impl fmt::Display for Applier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.tool.name())?;
        match &self.owner {
            Some(owner) => write!(f, " ({} {})", owner.kind, owner.place()),
            None => Ok(()),
        }
    }
}

/// Returns the tools that apply an object, by their marks on it.
pub fn appliers(object: &Value) -> Vec<Applier> {
    let argo = argo(object);
    let kustomize = flux(object, Tool::FluxKustomize, "kustomize-controller");
    let helm = flux(object, Tool::FluxHelm, "helm-controller");
    [argo, kustomize, helm].into_iter().flatten().collect()
}

/// Returns the field manager that wrote an object last, its status and metadata aside. Times have seconds: of several in one, the
/// last named.
pub fn last_writer(object: &Value) -> Option<&str> {
    let has_content = |entry: &&Value| {
        let fields = entry["fieldsV1"].as_object();
        fields.is_some_and(|fields| fields.keys().any(|field| field != "f:metadata"))
    };
    let newest = managers(object)
        .filter(has_content)
        .max_by_key(|entry| entry["time"].as_str().unwrap_or_default());
    newest?["manager"].as_str()
}

fn managers(object: &Value) -> impl Iterator<Item = &Value> {
    let entries = object
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    let is_no_status = |entry: &&Value| entry["subresource"].as_str().is_none_or(str::is_empty);
    entries.into_iter().flatten().filter(is_no_status)
}

fn is_managed_by(object: &Value, names: &[&str]) -> bool {
    managers(object).any(|entry| {
        entry["manager"]
            .as_str()
            .is_some_and(|name| names.contains(&name))
    })
}

fn argo(object: &Value) -> Option<Applier> {
    let wrote = is_managed_by(object, &ARGO_MANAGERS);
    let tracked = meta(object, "annotations", ARGO_TRACKING).and_then(|id| application(id, object));
    // The label is a common one: it says something only of what Argo CD has written.
    let labelled = meta(object, "labels", ARGO_LABEL).filter(|_| wrote);
    let application = tracked.or(labelled);
    (wrote || application.is_some()).then(|| Applier {
        tool: Tool::ArgoCd,
        owner: application.map(|name| {
            // Applications outside of its own namespace are called NAMESPACE_NAME.
            let (namespace, name) = name.split_once('_').unwrap_or((ARGO_NAMESPACE, name));
            owner(Tool::ArgoCd, namespace, name)
        }),
    })
}

/// An id that is about another object came along with a copy, and means nothing to Argo CD.
fn application<'a>(id: &'a str, object: &Value) -> Option<&'a str> {
    let mut parts = id.splitn(3, ':');
    let (application, kind, place) = (parts.next()?, parts.next()?, parts.next()?);
    let gvk = Gvk::new(text(object, "/apiVersion"), text(object, "/kind"));
    let (namespace, name) = place.split_once('/')?;
    let here = object.pointer("/metadata/namespace").and_then(Value::as_str);
    let is_it = kind.split_once('/') == Some((gvk.group.as_str(), gvk.kind.as_str()))
        && name == text(object, "/metadata/name")
        && here.is_none_or(|here| here == namespace);
    (is_it && !application.is_empty()).then_some(application)
}

fn flux(object: &Value, tool: Tool, manager: &str) -> Option<Applier> {
    let group = tool.owner_kind().group;
    let label = |field: &str| meta(object, "labels", &format!("{group}/{field}"));
    let named = label("namespace").zip(label("name"));
    (named.is_some() || is_managed_by(object, &[manager])).then(|| Applier {
        tool,
        owner: named.map(|(namespace, name)| owner(tool, namespace, name)),
    })
}

fn owner(tool: Tool, namespace: &str, name: &str) -> ObjectKey {
    let gvk = tool.owner_kind();
    ObjectKey {
        group: gvk.group,
        kind: gvk.kind,
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    }
}

fn meta<'a>(object: &'a Value, field: &str, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get(field)?.get(key)?.as_str()
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// What is known of one who applies a template: what tells it to, as it was read.
#[derive(Clone, Debug)]
pub struct OtherManager {
    pub applier: Applier,
    /// Unknown also where the template doesn't name it.
    pub owner: Seen<Option<Value>>,
}

impl OtherManager {
    /// Returns whether the template stays as it is for all that this one does.
    pub fn hold(&self, template: &Value) -> Hold {
        hold::judge(self.applier.tool, template, &self.owner)
    }

    /// Returns how it is kept from changing the template.
    const fn how(&self) -> &'static str {
        match self.applier.tool {
            Tool::ArgoCd => {
                "annotate its Application with argocd.argoproj.io/skip-reconcile: \"true\" for that time (docs/explanation/argocd-flux.md)"
            }
            Tool::FluxKustomize => {
                "annotate the template with kustomize.toolkit.fluxcd.io/reconcile: disabled for that time, or suspend its \
                 Kustomization (docs/explanation/argocd-flux.md)"
            }
            Tool::FluxHelm => "suspend its HelmRelease for that time (docs/explanation/argocd-flux.md)",
        }
    }
}

/// What there is to say of all that apply a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Nobody changes the template, as far as these go.
    pub held: bool,
    /// One word.
    pub reason: &'static str,
    pub message: String,
    /// What a person can do about it.
    pub hint: Option<&'static str>,
}

/// Returns what there is to say of those beside; nothing where there are none.
pub fn account(template: &Value, besides: &[OtherManager]) -> Option<Account> {
    let holds: Vec<(&OtherManager, Hold)> = besides
        .iter()
        .map(|other_managers| (other_managers, other_managers.hold(template)))
        .collect();
    let worst = holds.iter().max_by_key(|(_, hold)| hold.rank())?;
    let said: Vec<String> = holds
        .iter()
        .map(|(other_managers, hold)| format!("{} applies the template, {hold}", other_managers.applier))
        .collect();
    let held = matches!(worst.1, Hold::Held(_));
    Some(Account {
        held,
        reason: worst.1.reason(),
        message: said.join("; "),
        hint: (!held).then(|| worst.0.how()),
    })
}

#[cfg(test)]
mod tests;
