//! Whether a tool is kept from changing one object: by a mark on the object, or by what tells it to apply it.
//!
//! Facts: kustomize-controller (`apply` and `deleteObjects` skip what carries these marks in the API server, in labels or
//! annotations, in any case of letters; `ssa: IfNotPresent` counts only in its source, so it shows nothing here),
//! helm-controller (`spec.suspend`; `driftDetection: disabled` on an object keeps no upgrade from it), argo-cd
//! (`canProcessApp` reads the annotation as Go reads booleans; `autoSync`; `normalizeTargetResources`).

use std::fmt;

use serde_json::Value;

use super::{Tool, meta, text};
use crate::intent::seen::Seen;
use cutover_karmada::name::Gvk;

const MARKS: [(&str, &str); 2] = [
    ("kustomize.toolkit.fluxcd.io/reconcile", "disabled"),
    ("kustomize.toolkit.fluxcd.io/ssa", "Ignore"),
];
const SKIP_RECONCILE: &str = "argocd.argoproj.io/skip-reconcile";
/// How Go writes yes.
const TRUE: [&str; 6] = ["1", "t", "T", "TRUE", "true", "True"];

/// Whether an object stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// What keeps the tool from it.
    Held(String),
    /// Nothing does.
    Free(String),
    /// Why that can't be told.
    Unknown(String),
}

impl Hold {
    /// Returns how much there is to say of it: the worst has the last word.
    pub(super) const fn rank(&self) -> u8 {
        match self {
            Self::Held(_) => 0,
            Self::Unknown(_) => 1,
            Self::Free(_) => 2,
        }
    }

    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::Held(_) => "Held",
            Self::Unknown(_) => "NotKnown",
            Self::Free(_) => "NotHeld",
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(how) => write!(f, "and is kept from changing it: {how}"),
            Self::Free(why) => write!(f, "and nothing keeps it from changing it: {why}"),
            Self::Unknown(why) => write!(f, "and nothing shows that it is kept from changing it: {why}"),
        }
    }
}

pub(super) fn judge(tool: Tool, template: &Value, owner: &Seen<Option<Value>>) -> Hold {
    if tool == Tool::FluxKustomize
        && let Some((key, value)) = MARKS.iter().find(|mark| carries(template, mark))
    {
        return Hold::Held(format!("it carries {key}: {value}"));
    }
    let gvk = tool.owner_kind();
    let owner = match owner {
        Seen::Known {
            value: Some(owner), ..
        } => owner,
        Seen::Known { value: None, .. } => {
            return Hold::Unknown(format!("this API server has no such {}", gvk.kind));
        }
        Seen::Unknown { why } => return Hold::Unknown(why.clone()),
    };
    if owner.pointer("/metadata/deletionTimestamp").is_some() {
        return Hold::Free(format!("its {} is being deleted", gvk.kind));
    }
    match tool {
        Tool::ArgoCd => application(owner, template),
        Tool::FluxKustomize | Tool::FluxHelm
            if owner.pointer("/spec/suspend") == Some(&Value::Bool(true)) =>
        {
            Hold::Held(format!("its {} is suspended", gvk.kind))
        }
        Tool::FluxKustomize | Tool::FluxHelm => Hold::Free(format!("its {} is not suspended", gvk.kind)),
    }
}

fn carries(object: &Value, (key, value): &(&str, &str)) -> bool {
    let has = |field| meta(object, field, key).is_some_and(|found| found.eq_ignore_ascii_case(value));
    has("labels") || has("annotations")
}

fn application(application: &Value, template: &Value) -> Hold {
    let is_running = text(application, "/status/operationState/phase") == "Running";
    if application.get("operation").is_some() || is_running {
        return Hold::Free("its Application is being synced".to_owned());
    }
    if meta(application, "annotations", SKIP_RECONCILE).is_some_and(|value| TRUE.contains(&value)) {
        return Hold::Held(format!("its Application carries {SKIP_RECONCILE}"));
    }
    let automated = application
        .pointer("/spec/syncPolicy/automated")
        .filter(|set| !set.is_null());
    if automated.is_none_or(|automated| automated.get("enabled") == Some(&Value::Bool(false))) {
        return Hold::Held("its Application is synced only when a person asks for it".to_owned());
    }
    if respects(application) && ignores(application, template) {
        return Hold::Held("its Application ignores differences of its /spec, also when it syncs".to_owned());
    }
    Hold::Free("its Application is synced automatically".to_owned())
}

fn respects(application: &Value) -> bool {
    let options = application.pointer("/spec/syncPolicy/syncOptions");
    let mut options = options.and_then(Value::as_array).into_iter().flatten();
    options.any(|option| option == "RespectIgnoreDifferences=true")
}

/// Group and kind may be patterns; such a one is not counted.
fn ignores(application: &Value, template: &Value) -> bool {
    let gvk = Gvk::new(text(template, "/apiVersion"), text(template, "/kind"));
    let is_about = |rule: &&Value| {
        let is_any_or = |field: &str, of: &str| {
            let said = rule[field].as_str().unwrap_or_default();
            said.is_empty() || said == of
        };
        rule["group"].as_str().unwrap_or_default() == gvk.group
            && rule["kind"].as_str() == Some(&gvk.kind)
            && is_any_or("name", text(template, "/metadata/name"))
            && is_any_or("namespace", text(template, "/metadata/namespace"))
    };
    let rules = application.pointer("/spec/ignoreDifferences");
    let rules = rules.and_then(Value::as_array).into_iter().flatten();
    let mut pointers = rules
        .filter(is_about)
        .filter_map(|rule| rule["jsonPointers"].as_array())
        .flatten();
    pointers.any(|pointer| pointer == "/spec")
}
