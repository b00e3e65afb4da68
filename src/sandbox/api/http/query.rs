//! Query parameters and their errors.

use std::time::Duration;

use axum::extract::Query as Pairs;
use http::Uri;
use serde_json::Value;

use super::super::status::{Cause, Status};
use super::super::table::Include;
use super::super::{DeleteOptions, FieldValidation, ListOptions, Propagation, VersionMatch, WriteOptions};

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
            let message = format!(
                "Unsupported value: \"{}\": supported values: \"None\", \"Metadata\", \"Object\"",
                said.unwrap_or_default()
            );
            invalid(
                "TableOptions",
                Cause::new("FieldValueNotSupported", message, "includeObject"),
            )
        })
    }

    pub(super) fn list_options(&self) -> Result<ListOptions, Status> {
        let version_match = match self.get("resourceVersionMatch") {
            None => None,
            Some("Exact") => Some(VersionMatch::Exact),
            Some("NotOlderThan") => Some(VersionMatch::NotOlderThan),
            Some(other) => {
                let message =
                    format!("Unsupported value: \"{other}\": supported values: \"Exact\", \"NotOlderThan\"");
                let cause = Cause::new("FieldValueNotSupported", message, "resourceVersionMatch");
                return Err(invalid("ListOptions", cause));
            }
        };
        let revision = self.get("resourceVersion").map(parse_revision).transpose()?;
        if version_match.is_some() && revision.is_none() && !self.flag("watch") {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            return Err(invalid(
                "ListOptions",
                Cause::forbidden("resourceVersionMatch", why),
            ));
        }
        Ok(ListOptions {
            labels: self.get("labelSelector").unwrap_or_default().to_owned(),
            fields: self.get("fieldSelector").unwrap_or_default().to_owned(),
            limit: self
                .number("limit")?
                .and_then(|limit| usize::try_from(limit).ok())
                .unwrap_or_default(),
            continue_token: self.get("continue").map(str::to_owned),
            revision,
            version_match,
            bookmarks: self.flag("allowWatchBookmarks"),
            send_initial_events: self.flag("sendInitialEvents"),
            timeout: None,
        })
    }

    pub(super) fn watch_options(&self) -> Result<ListOptions, Status> {
        let mut options = self.list_options()?;
        if options.send_initial_events && options.version_match != Some(VersionMatch::NotOlderThan) {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            return Err(invalid(
                "ListOptions",
                Cause::forbidden("resourceVersionMatch", why),
            ));
        }
        if !options.send_initial_events && options.version_match.is_some() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            return Err(invalid(
                "ListOptions",
                Cause::forbidden("resourceVersionMatch", why),
            ));
        }
        let seconds = self
            .number("timeoutSeconds")?
            .and_then(|seconds| u64::try_from(seconds).ok());
        options.timeout = seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs);
        Ok(options)
    }

    pub(super) fn write_options(
        &self,
        kind: &str,
        manager: &str,
        user: &str,
    ) -> Result<WriteOptions, Status> {
        let field_validation = match self.get("fieldValidation") {
            Some("Strict") => FieldValidation::Strict,
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some(other) => {
                let message = format!(
                    "Unsupported value: \"{other}\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
                );
                return Err(invalid(
                    kind,
                    Cause::new("FieldValueNotSupported", message, "fieldValidation"),
                ));
            }
        };
        Ok(WriteOptions {
            manager: self.get("fieldManager").unwrap_or(manager).to_owned(),
            user: user.to_owned(),
            dry_run: self.dry_run(kind)?,
            force: self.flag("force"),
            field_validation,
        })
    }

    /// Returns what the parameters and the body of a DELETE say; the body wins.
    pub(super) fn delete_options(&self, body: &[u8], user: &str) -> Result<DeleteOptions, Status> {
        let body: Value = if body.is_empty() {
            Value::Null
        } else {
            serde_yaml::from_slice(body).map_err(|error| Status::bad_request(error.to_string()))?
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let policy =
            text(&body["propagationPolicy"]).or_else(|| self.get("propagationPolicy").map(str::to_owned));
        let propagation = match policy.as_deref() {
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let message = format!(
                    "Unsupported value: \"{other}\": supported values: \"Foreground\", \"Background\", \"Orphan\", \
                     \"nil\""
                );
                let cause = Cause::new("FieldValueNotSupported", message, "propagationPolicy");
                return Err(invalid("DeleteOptions", cause));
            }
            None if body["orphanDependents"] == true => Some(Propagation::Orphan),
            None => None,
        };
        Ok(DeleteOptions {
            user: user.to_owned(),
            dry_run: self.dry_run("DeleteOptions")?
                || body["dryRun"].as_array().is_some_and(|dry| !dry.is_empty()),
            propagation,
            uid: text(&body["preconditions"]["uid"]),
            resource_version: text(&body["preconditions"]["resourceVersion"]),
            grace_period_seconds: body["gracePeriodSeconds"]
                .as_i64()
                .or(self.number("gracePeriodSeconds")?),
        })
    }

    fn dry_run(&self, kind: &str) -> Result<bool, Status> {
        match self.get("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => {
                let message = format!("Unsupported value: [\"{other}\"]: supported values: \"All\"");
                Err(invalid(
                    kind,
                    Cause::new("FieldValueNotSupported", message, "dryRun"),
                ))
            }
        }
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

fn parse_revision(text: &str) -> Result<u64, Status> {
    text.parse().map_err(|_| {
        Status::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \
             \"{text}\": invalid syntax"
        ))
    })
}

fn invalid(kind: &str, cause: Cause) -> Status {
    Status::invalid("meta.k8s.io", kind, "", vec![cause])
}
