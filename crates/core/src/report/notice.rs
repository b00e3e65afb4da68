//! What somebody is told by HTTP, in the words of who listens.

use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::EventRecord;
use crate::config::{Filter, Format};

/// Something that happened, and to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// `Migration`, …; `Sync` for what a sync says.
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
    /// None for what is no object.
    pub uid: Option<String>,
    pub told: EventRecord,
    pub at: Timestamp,
    /// What isn't well beside what it is about, as a line.
    pub besides: Option<String>,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    pub content_type: &'static str,
    pub bytes: Vec<u8>,
}

impl Notice {
    /// Returns what is the same for the same notice, however often it is sent.
    pub fn id(&self) -> String {
        let text = json!([self.object(), self.told.reason, self.told.note, self.at]).to_string();
        let digest = Sha256::digest(text);
        digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns it as a receiver wants it. `source` says which control plane it is about.
    pub fn body(&self, format: Format, source: &str) -> Body {
        let (content_type, value) = match format {
            Format::Webhook => ("application/json", self.plain(source)),
            Format::Slack => ("application/json", json!({"text": self.slack()})),
            Format::Alertmanager => ("application/json", json!([self.alert(source)])),
            Format::CloudEvents => ("application/cloudevents+json", self.cloud_event(source)),
        };
        Body {
            content_type,
            bytes: value.to_string().into_bytes(),
        }
    }

    /// Returns whether a receiver with this filter gets it.
    pub fn passes(&self, filter: &Filter) -> bool {
        let among =
            |wanted: &[String], found: &str| wanted.is_empty() || wanted.iter().any(|one| one == found);
        (self.told.warning || !filter.warnings_only)
            && among(&filter.kinds, &self.kind)
            && among(&filter.reasons, &self.told.reason)
            && filter.reaches(self.namespace.as_deref())
    }

    fn object(&self) -> Value {
        json!({"kind": self.kind, "namespace": self.namespace, "name": self.name, "uid": self.uid})
    }

    /// Returns for instance `Migration shop/orders-to-west`.
    pub fn subject(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }

    fn severity(&self) -> &'static str {
        if self.told.warning { "warning" } else { "info" }
    }

    fn plain(&self, source: &str) -> Value {
        let mut plain = json!({
            "id": self.id(), "time": self.at, "source": source, "severity": self.severity(),
            "reason": self.told.reason, "message": self.told.note, "object": self.object(),
        });
        if let Some(besides) = &self.besides {
            plain["besides"] = json!(besides);
        }
        plain
    }

    fn slack(&self) -> String {
        let sign = if self.told.warning {
            ":warning:"
        } else {
            ":information_source:"
        };
        let [subject, reason, note] =
            [&self.subject(), &self.told.reason, &self.told.note].map(|text| escaped(text));
        let besides = self.besides.as_ref();
        let besides = besides.map_or_else(String::new, |besides| format!("\nBesides: {}", escaped(besides)));
        format!("{sign} *{subject}*: {reason}\n{note}{besides}")
    }

    fn alert(&self, source: &str) -> Value {
        let mut alert = json!({
            "labels": {
                "alertname": format!("Cutover{}", self.told.reason), "severity": self.severity(), "source": source,
                "kind": self.kind, "namespace": self.namespace.as_deref().unwrap_or_default(), "name": self.name,
            },
            "annotations": {"summary": format!("{}: {}", self.subject(), self.told.reason), "description": self.told.note},
            "startsAt": self.at,
        });
        if let Some(besides) = &self.besides {
            alert["annotations"]["besides"] = json!(besides);
        }
        alert
    }

    fn cloud_event(&self, source: &str) -> Value {
        json!({
            "specversion": "1.0", "id": self.id(), "source": source, "time": self.at,
            "type": format!("dev.cutover.{}.{}", self.kind.to_lowercase(), self.told.reason),
            "subject": self.subject(), "datacontenttype": "application/json", "data": self.plain(source),
        })
    }

    #[cfg(test)]
    pub(crate) fn sample() -> Self {
        Self {
            kind: "Migration".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "orders-to-west".to_owned(),
            uid: Some("7b1c".to_owned()),
            told: EventRecord::new(true, "RollingBack", "west: <job> failed & stays held"),
            at: "2026-03-01T10:00:00Z".parse().unwrap_or_default(),
            besides: None,
        }
    }
}

/// Slack takes these three for its own signs.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(format: Format) -> Value {
        serde_json::from_slice(&Notice::sample().body(format, "https://karmada:5443").bytes).unwrap()
    }

    #[test]
    fn everybody_is_told_in_words_of_their_own() {
        let plain = sent(Format::Webhook);
        let fields: Vec<_> = plain.as_object().unwrap().keys().cloned().collect();
        assert_eq!(
            fields,
            ["id", "time", "source", "severity", "reason", "message", "object"]
        );
        assert_eq!(plain["time"], "2026-03-01T10:00:00Z");
        assert_eq!(plain["object"]["name"], "orders-to-west");
        assert_eq!(
            sent(Format::Slack)["text"],
            ":warning: *Migration shop/orders-to-west*: RollingBack\nwest: &lt;job&gt; failed &amp; stays held"
        );
        let alert = &sent(Format::Alertmanager)[0];
        assert_eq!(alert["labels"]["alertname"], "CutoverRollingBack");
        assert_eq!(alert["labels"]["severity"], "warning");
        assert!(
            alert["labels"]
                .as_object()
                .unwrap()
                .values()
                .all(Value::is_string)
        );
        let event = sent(Format::CloudEvents);
        assert_eq!(event["type"], "dev.cutover.migration.RollingBack");
        assert_eq!(event["data"], sent(Format::Webhook));
    }

    #[test]
    fn what_else_is_wrong_is_a_line_of_its_own_and_no_other_notice() {
        let notice = Notice {
            besides: Some("Migration shop/b failed; 1 problem in <the> desired state".to_owned()),
            ..Notice::sample()
        };
        let sent = |format| -> Value { serde_json::from_slice(&notice.body(format, "plane").bytes).unwrap() };
        let text = sent(Format::Slack)["text"].as_str().unwrap().to_owned();
        assert!(
            text.ends_with("held\nBesides: Migration shop/b failed; 1 problem in &lt;the&gt; desired state"),
            "{text}"
        );
        let said = notice.besides.as_deref();
        assert_eq!(sent(Format::Webhook)["besides"].as_str(), said);
        assert_eq!(sent(Format::CloudEvents)["data"]["besides"].as_str(), said);
        assert_eq!(
            sent(Format::Alertmanager)[0]["annotations"]["besides"].as_str(),
            said
        );
        assert_eq!(notice.id(), Notice::sample().id());
    }

    #[test]
    fn a_notice_is_known_by_its_id() {
        let one = Notice::sample();
        let later = Notice {
            at: one.at + jiff::SignedDuration::from_secs(1),
            ..one.clone()
        };
        assert_eq!(one.id(), Notice::sample().id());
        assert_ne!(one.id(), later.id());
    }

    #[test]
    fn a_filter_lets_through_what_fits_all_of_it() {
        let notice = Notice::sample();
        let filter = |text: &str| serde_yaml::from_str::<Filter>(text).unwrap();
        for (text, expected) in [
            ("{}", true),
            ("{warningsOnly: true}", true),
            ("{kinds: [Migration, Rollout]}", true),
            ("{kinds: [Rollout]}", false),
            ("{namespaces: ['sh*']}", true),
            ("{namespaces: [other]}", false),
            ("{reasons: [RollingBack], namespaces: [shop]}", true),
            ("{reasons: [Completed], namespaces: [shop]}", false),
        ] {
            assert_eq!(notice.passes(&filter(text)), expected, "{text}");
        }
        let calm = Notice {
            told: EventRecord {
                warning: false,
                ..notice.told.clone()
            },
            ..notice
        };
        assert!(!calm.passes(&filter("{warningsOnly: true}")));
    }
}
