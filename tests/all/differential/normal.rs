//! Names what two servers can't have in common (uids, times, revisions, generated names) alike.

mod chosen;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::run::Answer;
use chosen::Chosen;

const TIMES: &[&str] = &[
    "creationTimestamp",
    "deletionTimestamp",
    "time",
    "lastTransitionTime",
    "lastUpdateTime",
];

/// Returns the answers of one server to a sequence in a namespace, with what is its own named by its order.
pub fn answers(mut answers: Vec<Answer>, namespace: &str) -> Vec<Answer> {
    let mut names = Names {
        namespace,
        uids: BTreeMap::new(),
        chosen: Chosen::default(),
        revisions: BTreeSet::new(),
    };
    for answer in &answers {
        names.learn(&answer.body);
    }
    for answer in &mut answers {
        names.rename(&mut answer.body);
        causes(&mut answer.body);
        for warning in &mut answer.warnings {
            *warning = names.text(warning);
        }
    }
    answers
}

struct Names<'a> {
    namespace: &'a str,
    uids: BTreeMap<String, usize>,
    chosen: Chosen,
    /// The revisions of writes.
    revisions: BTreeSet<u64>,
}

impl Names<'_> {
    fn learn(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                let uid = fields.get("uid").and_then(Value::as_str);
                if let Some(uid) = uid.filter(|uid| uid.len() == 36) {
                    let next = self.uids.len() + 1;
                    self.uids.entry(uid.to_owned()).or_insert(next);
                    let revision = fields.get("resourceVersion").and_then(Value::as_str);
                    self.revisions
                        .extend(revision.and_then(|revision| revision.parse::<u64>().ok()));
                }
                if fields.contains_key("spec") {
                    self.chosen.learn(value);
                }
                fields.values().for_each(|value| self.learn(value));
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            _ => {}
        }
    }

    fn rename(&self, value: &mut Value) {
        if value.get("spec").is_some() {
            self.chosen.rename(value);
        }
        match value {
            Value::Object(fields) => {
                for (name, value) in fields.iter_mut() {
                    match name.as_str() {
                        "resourceVersion" if value.is_string() => self.rename_revision(value),
                        "continue" if value.as_str().is_some_and(|token| !token.is_empty()) => {
                            *value = json!("${continue}");
                        }
                        "managedFields" => {
                            self.rename(value);
                            sort_managers(value);
                        }
                        "cells" => {
                            self.rename(value);
                            ages(value);
                        }
                        name if TIMES.contains(&name) && value.is_string() => *value = json!("${time}"),
                        _ => self.rename(value),
                    }
                }
                let renamed = std::mem::take(fields);
                fields.extend(renamed.into_iter().map(|(name, value)| (self.text(&name), value)));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.rename(item)),
            Value::String(text) => *text = self.text(text),
            _ => {}
        }
    }

    /// A revision is named by the number of writes up to it that this sequence has seen: others write, too.
    fn rename_revision(&self, value: &mut Value) {
        let revision = value.as_str().and_then(|revision| revision.parse().ok());
        if let Some(revision) = revision {
            *value = json!(format!("${{revision {}}}", self.rank(revision)));
        }
    }

    fn rank(&self, revision: u64) -> usize {
        self.revisions.range(..=revision).count()
    }

    fn text(&self, text: &str) -> String {
        static REVISIONS: LazyLock<Regex> = LazyLock::new(|| {
            let before = r"resource version: |in (?:the )?precondition \(|in record \(|current: |\$\{revision\} \(|in precondition: |in object meta: ";
            Regex::new(&format!(r"({before})\d+")).unwrap()
        });
        static GENERATED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b(gen-)[a-z0-9]{5}\b").unwrap());
        let mut text = text.replace(self.namespace, "${ns}");
        for (uid, number) in &self.uids {
            if text.contains(uid.as_str()) {
                text = text.replace(uid.as_str(), &format!("${{uid {number}}}"));
            }
        }
        if text.contains("ersion") {
            // Twice: the second number stands behind the first.
            for _ in 0..2 {
                text = REVISIONS.replace_all(&text, "${1}$${revision}").into_owned();
            }
        }
        chosen::rename_text(&GENERATED.replace_all(&text, "${1}*****"))
    }
}

/// A real server walks through properties in the random order of a Go map, and tells some mistakes several times; the
/// message repeats the causes.
fn causes(status: &mut Value) {
    let Some(Value::Array(causes)) = status.pointer_mut("/details/causes") else {
        return;
    };
    causes.sort_by_key(|cause| ["field", "reason", "message"].map(|part| cause[part].to_string()));
    causes.dedup();
    if let Some((before, _)) = status["message"]
        .as_str()
        .and_then(|message| message.split_once(" is invalid: "))
    {
        status["message"] = json!(format!("{before} is invalid: ${{causes}}"));
    }
}

/// Servers sort managers by time, which has whole seconds: two writes may or may not fall into the same one.
fn sort_managers(managers: &mut Value) {
    if let Value::Array(managers) = managers {
        managers.sort_by_key(|entry| {
            ["manager", "operation", "subresource", "apiVersion"].map(|field| entry[field].to_string())
        });
    }
}

/// Ages in the cells of tables.
fn ages(cells: &mut Value) {
    static AGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\d+[smh]$").unwrap());
    for cell in cells.as_array_mut().into_iter().flatten() {
        if cell.as_str().is_some_and(|text| AGE.is_match(text)) {
            *cell = json!("${age}");
        }
    }
}
