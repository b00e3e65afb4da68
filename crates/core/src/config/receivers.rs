//! Who is told what happens, beside the status branch: the file of `cutover run --notify-file`.
//!
//! It is no part of the repository: whoever may push there must not be able to have a reconciler send its secrets anywhere.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{Error, fault, glob};
use crate::api::API_VERSION;
use crate::finding::{Code, Finding};
use crate::manifest::{self, Limits};
use crate::schema::violations;
use cutover_karmada::name::Location;

const KIND: &str = "Notifications";

/// Receivers of notices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "notifications")]
pub struct Receivers {
    #[schemars(extend("const" = API_VERSION))]
    pub api_version: String,
    #[schemars(extend("const" = KIND))]
    pub kind: String,
    #[schemars(length(min = 1, max = 50))]
    pub receivers: Vec<Receiver>,
}

/// Somebody who is told by HTTP.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Receiver {
    /// What logs call it: they never name the URL.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    pub format: Format,
    /// `https://`, or `http://` within a cluster. It may hold a secret, as Slack's do.
    pub url: Masked,
    /// Signs what is sent (HMAC-SHA-256), in the header `X-Cutover-Signature-256`.
    pub secret: Option<Masked>,
    /// Sent as `Authorization: Bearer`.
    pub token: Option<Masked>,
    /// Of what it is told; everything without.
    #[serde(default)]
    pub filter: Filter,
}

/// How a receiver wants to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Format {
    /// A JSON object of one's own: docs/how-to/integrate.md#notifications.
    Webhook,
    /// `{"text": …}`: Slack's incoming webhooks, and those of Mattermost and Rocket.Chat.
    Slack,
    /// `POST /api/v2/alerts` of Prometheus' Alertmanager.
    Alertmanager,
    /// `CloudEvents` 1.0, structured, as JSON.
    CloudEvents,
}

/// What a receiver is told of: what fits every field that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Filter {
    /// Only what somebody should look at.
    pub warnings_only: bool,
    /// Kinds, such as `Migration`; `Sync` for what a sync says.
    pub kinds: Vec<String>,
    /// Namespaces; `*` stands for any text.
    pub namespaces: Vec<String>,
    /// Reasons, such as `Completed`, `RollingBack`, `ApprovalNeeded`.
    pub reasons: Vec<String>,
}

impl Filter {
    /// Returns whether the receiver gets what is in a namespace; `None`: what is in none.
    pub fn reaches(&self, namespace: Option<&str>) -> bool {
        let namespace = namespace.unwrap_or_default();
        self.namespaces.is_empty() || self.namespaces.iter().any(|one| glob::name(one, namespace))
    }
}

/// A text that is shown to nobody.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Masked(String);

impl Masked {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn reveal(&self) -> &str {
        self.0.trim()
    }
}

impl fmt::Debug for Masked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Masked {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

impl Receivers {
    /// Reads the file; `path` is what errors call it. No error quotes a value.
    pub fn parse(path: &str, bytes: &[u8]) -> Result<Self, Error> {
        let schema = schemars::schema_for!(Self).to_value();
        let Some((value, positions)) = manifest::parse_one(path, bytes, &Limits::default())? else {
            let location = Location {
                path: path.to_owned(),
                line: 1,
                column: 1,
            };
            let nothing = Finding::new(
                Code::WrongValue,
                location,
                "the file names no receiver".to_owned(),
            );
            return Err(Error::Invalid(vec![nothing]));
        };
        let faults: Vec<_> = violations(&value, &schema)
            .iter()
            .map(|violation| violation.finding(path, path, &positions))
            .collect();
        if !faults.is_empty() {
            return Err(Error::Invalid(faults));
        }
        let mut faults = Vec::new();
        let mut report = |at: String, why: String| faults.push(fault(path, &positions, &at, why));
        let receivers: Self = match serde_json::from_value(value) {
            Ok(receivers) => receivers,
            Err(_) => {
                report(
                    String::new(),
                    "not what a list of receivers looks like".to_owned(),
                );
                return Err(Error::Invalid(faults));
            }
        };
        for (index, receiver) in receivers.receivers.iter().enumerate() {
            let mut before = receivers.receivers[..index].iter();
            if before.any(|other| other.name == receiver.name) {
                report(
                    format!("/receivers/{index}/name"),
                    format!("two receivers are called {:?}", receiver.name),
                );
            }
            if let Err(why) = usable(receiver) {
                report(format!("/receivers/{index}/url"), why.to_owned());
            }
        }
        if faults.is_empty() {
            Ok(receivers)
        } else {
            Err(Error::Invalid(faults))
        }
    }
}

fn usable(receiver: &Receiver) -> Result<(), &'static str> {
    let url: http::Uri = receiver.url.reveal().parse().map_err(|_| "it is no URL")?;
    let authority = url.authority().ok_or("it has no host")?;
    if authority.as_str().contains('@') {
        return Err("user and password don't belong into it: use token");
    }
    match url.scheme_str() {
        Some("https" | "http") => Ok(()),
        _ => Err("it begins with neither https:// nor http://"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: cutover.dev/v1alpha1\nkind: Notifications\nreceivers:\n";

    fn parse(receivers: &str) -> Result<Receivers, Error> {
        Receivers::parse("notify.yaml", format!("{HEAD}{receivers}").as_bytes())
    }

    #[test]
    fn what_is_wrong_has_a_place_and_quotes_no_secret() {
        for (receivers, place, why) in [
            (
                "- {name: a, format: Slak, url: 'https://hooks.example.com/T/swordfish'}\n",
                "4:21",
                "Slak",
            ),
            ("- {name: a, format: Slack, url: swordfish}\n", "4:33", "https"),
            (
                "- {name: a, format: Slack, url: 'https://u:swordfish@h/x'}\n",
                "4:33",
                "token",
            ),
            (
                "- {name: a, format: Slack, url: 'ftp://h/swordfish'}\n",
                "4:33",
                "https",
            ),
            (
                "- {name: a, format: Slack, url: 'https://h'}\n- {name: a, format: Webhook, url: 'https://h'}\n",
                "5:10",
                "two receivers",
            ),
            (
                "- {name: a, format: Slack, url: 'https://h', sekret: swordfish}\n",
                "4:46",
                "sekret",
            ),
        ] {
            let findings = parse(receivers).unwrap_err().findings();
            let found = &findings[0];
            let location = found.location.as_ref().unwrap().to_string();
            assert_eq!(location, format!("notify.yaml:{place}"), "{found:?}");
            assert!(found.message.contains(why), "{found:?}");
            assert!(!format!("{findings:?}").contains("swordfish"), "{findings:?}");
        }
        assert!(Receivers::parse("notify.yaml", b"").is_err());
    }

    #[test]
    fn secrets_are_not_shown() {
        let one = parse(
            "- {name: a, format: Webhook, url: 'https://h/swordfish', secret: swordfish, token: swordfish}\n",
        );
        let one = one.unwrap();
        assert!(!format!("{one:?}{}", serde_json::to_string(&one).unwrap()).contains("swordfish"));
    }
}
