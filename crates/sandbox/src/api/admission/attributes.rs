//! What admission policies are asked about: one write, as a kube-apiserver describes it.

use serde_json::{Map, Value, json};

use super::super::registry::{Kind, Version, api_version};
use super::super::{
    DeleteOptions, Object, Propagation, Resource, Subresource, WriteOptions, owners, registry, scale,
};
use super::Operation;

/// One write under review, after defaulting and validation.
pub(in super::super) struct Attributes<'a> {
    pub operation: Operation,
    pub kind: &'a Kind,
    pub version: &'a Version,
    pub subresource: Option<Subresource>,
    /// Empty for cluster-scoped objects; for a namespace its own name.
    pub namespace: &'a str,
    /// Empty where the request doesn't name an object: collections, generated names.
    pub name: &'a str,
    pub object: Option<&'a Object>,
    pub old: Option<&'a Object>,
    /// The options of the request as it has them.
    pub options: Value,
    pub dry_run: bool,
    pub user: &'a str,
}

impl Attributes<'_> {
    pub(super) fn subresource(&self) -> &'static str {
        self.subresource.map_or("", Subresource::as_str)
    }

    pub(super) const fn resource(&self) -> &Resource {
        &self.kind.resource
    }

    /// Returns the name to refuse the request by.
    pub(super) fn shown_name(&self) -> &str {
        let of_object = |field: &str| {
            self.object
                .and_then(|object| object["metadata"][field].as_str())
                .filter(|name| !name.is_empty())
        };
        if !self.name.is_empty() {
            return self.name;
        }
        of_object("name")
            .or_else(|| of_object("generateName"))
            .unwrap_or("Unknown")
    }

    /// Returns an object as the policy sees it: in the version that it matched, or its scale.
    pub(super) fn seen(&self, object: Option<&Object>, version: &str) -> Value {
        let Some(object) = object else {
            return Value::Null;
        };
        match &self.version.scale {
            Some(paths) if self.subresource == Some(Subresource::Scale) => scale::of(object, paths),
            _ => {
                let mut seen = (*registry::convert(self.kind, object, version)).clone();
                owners::unpack(&mut seen);
                seen
            }
        }
    }

    /// Returns `request`; `matched` is the version of the resource that a rule matched, `kind` that of the objects.
    pub(super) fn request(&self, matched: &str, kind: &str) -> Value {
        let scale = self.subresource == Some(Subresource::Scale);
        let kind_in = |version: &str| {
            if scale {
                json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
            } else {
                json!({"group": self.kind.group(), "version": version, "kind": self.kind.kind})
            }
        };
        let resource_in = |version: &str| json!({"group": self.kind.group(), "version": version, "resource": self.kind.resource.plural});
        let mut request = Map::new();
        request.insert("uid".to_owned(), json!(""));
        request.insert("kind".to_owned(), kind_in(kind));
        request.insert("resource".to_owned(), resource_in(matched));
        request.insert("requestKind".to_owned(), kind_in(&self.version.name));
        request.insert("requestResource".to_owned(), resource_in(&self.version.name));
        for (field, text) in [
            ("subResource", self.subresource()),
            ("requestSubResource", self.subresource()),
            ("name", self.name),
            ("namespace", self.namespace),
        ] {
            if !text.is_empty() {
                request.insert(field.to_owned(), json!(text));
            }
        }
        request.insert("operation".to_owned(), json!(self.operation.as_str()));
        request.insert("userInfo".to_owned(), user_info(self.user));
        request.insert("dryRun".to_owned(), json!(self.dry_run));
        request.insert("options".to_owned(), self.options.clone());
        Value::Object(request)
    }
}

/// Returns who writes, with the groups that the authentication of a real server gives such a name.
pub(in super::super) fn user_info(user: &str) -> Value {
    let mut groups = Vec::new();
    if user == "system:admin" {
        groups.push("system:masters".to_owned());
    }
    if let Some((namespace, _)) = user
        .strip_prefix("system:serviceaccount:")
        .and_then(|account| account.split_once(':'))
    {
        groups.push("system:serviceaccounts".to_owned());
        groups.push(format!("system:serviceaccounts:{namespace}"));
    }
    groups.push("system:authenticated".to_owned());
    json!({"username": user, "groups": groups})
}

/// Returns `request.options` of a create or an update. The sandbox keeps neither whether the client itself named the
/// field manager nor its field validation.
pub(in super::super) fn write_options(kind: &str, options: &WriteOptions) -> Value {
    let mut fields = of_kind(kind);
    if options.dry_run {
        fields.insert("dryRun".to_owned(), json!(["All"]));
    }
    fields.insert("fieldManager".to_owned(), json!(options.manager));
    Value::Object(fields)
}

/// Returns `request.options` of a deletion.
pub(in super::super) fn delete_options(options: &DeleteOptions) -> Value {
    let mut fields = of_kind("DeleteOptions");
    if let Some(seconds) = options.grace_period_seconds {
        fields.insert("gracePeriodSeconds".to_owned(), json!(seconds));
    }
    let mut preconditions = Map::new();
    for (field, wanted) in [
        ("uid", &options.uid),
        ("resourceVersion", &options.resource_version),
    ] {
        if let Some(wanted) = wanted {
            preconditions.insert(field.to_owned(), json!(wanted));
        }
    }
    if !preconditions.is_empty() {
        fields.insert("preconditions".to_owned(), Value::Object(preconditions));
    }
    if let Some(propagation) = options.propagation {
        let policy = match propagation {
            Propagation::Foreground => "Foreground",
            Propagation::Background => "Background",
            Propagation::Orphan => "Orphan",
        };
        fields.insert("propagationPolicy".to_owned(), json!(policy));
    }
    if options.dry_run {
        fields.insert("dryRun".to_owned(), json!(["All"]));
    }
    Value::Object(fields)
}

fn of_kind(kind: &str) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("kind".to_owned(), json!(kind));
    fields.insert("apiVersion".to_owned(), json!(api_version("meta.k8s.io", "v1")));
    fields
}
