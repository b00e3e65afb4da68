//! Query parameters and their errors.

use std::time::Duration;

use axum::extract::Query as Pairs;
use http::Uri;
use serde_json::Value;

use super::super::selector::{FieldSelector, Selector};
use super::super::status::{Cause, Reason, Status};
use super::super::table::Include;
use super::super::{DeleteOptions, FieldValidation, ListOptions, Propagation, VersionMatch, WriteOptions};

/// How an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Create,
    Update,
    Patch,
    Apply,
}

impl Verb {
    /// Returns the kind of the parameters.
    const fn options(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

/// The parameters of a request.
#[derive(Debug, Default)]
pub(super) struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    pub(super) fn parse(uri: &Uri) -> Result<Self, Status> {
        let Pairs(pairs) = Pairs::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        Ok(Self { pairs })
    }

    /// Returns a parameter that is there and not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.pairs.iter().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some("1" | "true" | "True" | "TRUE" | "t" | "T"))
    }

    /// Returns how much of the objects a table carries.
    pub(super) fn include_object(&self) -> Result<Include, Status> {
        let said = self.get("includeObject");
        Include::parse(said).ok_or_else(|| {
            Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {:?}: must be 'Metadata', \
                 'Object', 'None', or empty",
                said.unwrap_or_default()
            ))
        })
    }

    pub(super) fn list_options(&self) -> Result<ListOptions, Status> {
        let options = self.selected()?;
        let mut causes = Vec::new();
        if let Some(said) = self.get(MATCH) {
            if self.get("resourceVersion").is_none() {
                let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                causes.push(Cause::forbidden(MATCH, why));
            }
            if options.continue_token.is_some() {
                let why = "resourceVersionMatch is forbidden when continue is provided";
                causes.push(Cause::forbidden(MATCH, why));
            }
            if options.version_match.is_none() {
                causes.push(unsupported(MATCH, said, &["Exact", "NotOlderThan", ""]));
            }
        }
        if self.get("sendInitialEvents").is_some() {
            let why = "sendInitialEvents is forbidden for list";
            causes.push(Cause::forbidden("sendInitialEvents", why));
        }
        refuse(causes)?;
        let revision = self.get("resourceVersion").map(|text| {
            let why = invalid_revision(text);
            text.parse()
                .map_err(|_| Status::bad_request(format!("invalid resource version: {why}")))
        });
        Ok(ListOptions {
            revision: revision.transpose()?,
            ..options
        })
    }

    pub(super) fn watch_options(&self) -> Result<ListOptions, Status> {
        let options = self.selected()?;
        let mut causes = Vec::new();
        if options.send_initial_events && options.version_match != Some(VersionMatch::NotOlderThan) {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            causes.push(Cause::forbidden(MATCH, why));
        }
        if let Some(said) = self.get(MATCH) {
            if !options.send_initial_events {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                causes.push(Cause::forbidden(MATCH, why));
            }
            if options.version_match != Some(VersionMatch::NotOlderThan) {
                causes.push(unsupported(MATCH, said, &["NotOlderThan"]));
            }
        }
        refuse(causes)?;
        // A watch answers this in other words than a list, and without a reason.
        let revision = self.get("resourceVersion").map(|text| {
            text.parse()
                .map_err(|_| Status::new(500, Reason::Unknown, invalid_revision(text)))
        });
        let seconds = self
            .number("timeoutSeconds")?
            .and_then(|seconds| u64::try_from(seconds).ok());
        Ok(ListOptions {
            revision: revision.transpose()?,
            timeout: seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs),
            ..options
        })
    }

    /// Returns what is listed or watched, as far as each parameter can be read by itself.
    fn selected(&self) -> Result<ListOptions, Status> {
        let labels = self.get("labelSelector").unwrap_or_default();
        let fields = self.get("fieldSelector").unwrap_or_default();
        Selector::parse(labels).map_err(|error| Status::bad_request(error.to_string()))?;
        FieldSelector::parse(fields).map_err(|error| Status::bad_request(error.to_string()))?;
        Ok(ListOptions {
            labels: labels.to_owned(),
            fields: fields.to_owned(),
            limit: self
                .number("limit")?
                .and_then(|limit| usize::try_from(limit).ok())
                .unwrap_or_default(),
            continue_token: self.get("continue").map(str::to_owned),
            revision: None,
            version_match: match self.get(MATCH) {
                Some("Exact") => Some(VersionMatch::Exact),
                Some("NotOlderThan") => Some(VersionMatch::NotOlderThan),
                _ => None,
            },
            bookmarks: self.flag("allowWatchBookmarks"),
            send_initial_events: self.flag("sendInitialEvents"),
            timeout: None,
        })
    }

    pub(super) fn write_options(
        &self,
        verb: Verb,
        manager: &str,
        user: &str,
    ) -> Result<WriteOptions, Status> {
        let mut causes = Vec::new();
        match verb {
            Verb::Apply if self.get("fieldManager").is_none() => {
                causes.push(Cause::required("fieldManager", "is required for apply patch"));
            }
            Verb::Patch if self.get("force").is_some() => {
                causes.push(Cause::forbidden(
                    "force",
                    "may not be specified for non-apply patch",
                ));
            }
            _ => {}
        }
        causes.extend(self.check_dry_run());
        let field_validation = match self.get("fieldValidation") {
            Some("Strict") => FieldValidation::Strict,
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some(other) => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                causes.push(unsupported("fieldValidation", other, &supported));
                FieldValidation::Warn
            }
        };
        if !causes.is_empty() {
            return Err(Status::invalid("meta.k8s.io", verb.options(), "", causes));
        }
        Ok(WriteOptions {
            manager: self.get("fieldManager").unwrap_or(manager).to_owned(),
            user: user.to_owned(),
            dry_run: self.get("dryRun").is_some(),
            force: self.flag("force"),
            field_validation,
            duplicates: Vec::new(),
        })
    }

    /// Returns what the body of a DELETE says, or the parameters when it has none.
    pub(super) fn delete_options(&self, body: &[u8], user: &str) -> Result<DeleteOptions, Status> {
        if body.is_empty() {
            return Self::delete_options_of(&self.delete_parameters()?, user);
        }
        let told: Value = serde_yaml::from_slice(body).map_err(|error| {
            Status::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
        })?;
        if !told.is_object() {
            let why = "it is not an object";
            return Err(Status::bad_request(format!(
                "couldn't get version/kind; json parse error: {why}"
            )));
        }
        if let Some(kind) = told["kind"].as_str().filter(|kind| *kind != "DeleteOptions") {
            let version = told["apiVersion"].as_str().unwrap_or_default();
            return Err(Status::bad_request(format!(
                "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
            )));
        }
        Self::delete_options_of(&told, user)
    }

    fn delete_parameters(&self) -> Result<Value, Status> {
        let mut told = serde_json::Map::new();
        if let Some(policy) = self.get("propagationPolicy") {
            told.insert("propagationPolicy".to_owned(), policy.into());
        }
        if let Some(seconds) = self.number("gracePeriodSeconds")? {
            told.insert("gracePeriodSeconds".to_owned(), seconds.into());
        }
        if let Some(dry) = self.get("dryRun") {
            told.insert("dryRun".to_owned(), vec![dry].into());
        }
        if self.flag("orphanDependents") {
            told.insert("orphanDependents".to_owned(), true.into());
        }
        Ok(Value::Object(told))
    }

    fn delete_options_of(told: &Value, user: &str) -> Result<DeleteOptions, Status> {
        const POLICY: &str = "propagationPolicy";
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut causes = Vec::new();
        let policy = told[POLICY].as_str();
        if let (Some(policy), true) = (policy, !told["orphanDependents"].is_null()) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(Cause::invalid_value(POLICY, &policy.into(), why));
        }
        let propagation = match policy {
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                causes.push(unsupported(
                    POLICY,
                    other,
                    &["Foreground", "Background", "Orphan", "nil"],
                ));
                None
            }
            None if told["orphanDependents"] == true => Some(Propagation::Orphan),
            None => None,
        };
        let dry = told["dryRun"].as_array().map(Vec::as_slice).unwrap_or_default();
        if dry.iter().any(|dry| dry != "All") {
            let message = format!(
                "Unsupported value: {}: supported values: \"All\"",
                Value::Array(dry.to_vec())
            );
            causes.push(Cause::new("FieldValueNotSupported", message, "dryRun"));
        }
        if !causes.is_empty() {
            return Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", causes));
        }
        Ok(DeleteOptions {
            user: user.to_owned(),
            dry_run: !dry.is_empty(),
            propagation,
            uid: text(&told["preconditions"]["uid"]),
            resource_version: text(&told["preconditions"]["resourceVersion"]),
            grace_period_seconds: told["gracePeriodSeconds"].as_i64(),
        })
    }

    fn check_dry_run(&self) -> Option<Cause> {
        let said = self.get("dryRun").filter(|said| *said != "All")?;
        let message = format!("Unsupported value: [\"{said}\"]: supported values: \"All\"");
        Some(Cause::new("FieldValueNotSupported", message, "dryRun"))
    }

    fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let invalid =
            |_| Status::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax"));
        text.parse().map(Some).map_err(invalid)
    }
}

const MATCH: &str = "resourceVersionMatch";

fn invalid_revision(text: &str) -> String {
    format!(
        "resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
    )
}

fn unsupported(field: &str, said: &str, supported: &[&str]) -> Cause {
    let supported: Vec<String> = supported.iter().map(|value| format!("\"{value}\"")).collect();
    let message = format!(
        "Unsupported value: \"{said}\": supported values: {}",
        supported.join(", ")
    );
    Cause::new("FieldValueNotSupported", message, field)
}

fn refuse(causes: Vec<Cause>) -> Result<(), Status> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid("meta.k8s.io", "ListOptions", "", causes))
}
