//! State handles that are secrets. What stands for one is in every status, record and message; its value is in the journal of the
//! intent that needs it, and nowhere else.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// How a reference begins.
const OPENS: &str = "<secret, sha256:";

/// How many bytes of a digest a reference has.
const BYTES: usize = 8;

/// Shorter values are not looked for in texts: no sentence could be told without them.
const SHORT: usize = 4;

/// Returns what stands for a secret handle: by it two can be told apart, and no more.
pub fn reference(handle: &str) -> String {
    let digest = Sha256::digest(handle.as_bytes());
    let digits = digest
        .iter()
        .take(BYTES)
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    format!("{OPENS}{digits}>")
}

/// Returns whether a handle only stands for one.
pub fn is_reference(handle: &str) -> bool {
    handle.starts_with(OPENS) && handle.ends_with('>')
}

/// The values of secret handles, by what stands for them. `Debug` doesn't show them, and there is no `Display`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SecretHandles(BTreeMap<String, String>);

impl SecretHandles {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, handle: &str) {
        self.0.insert(reference(handle), handle.to_owned());
    }

    /// Takes those over of which something is known by their references.
    pub fn take(&mut self, others: Self, wanted: &BTreeSet<String>) {
        let others = others.0.into_iter();
        self.0
            .extend(others.filter(|(reference, _)| wanted.contains(reference)));
    }

    /// Takes all of them over.
    pub fn extend(&mut self, others: &Self) {
        self.0.extend(others.0.clone());
    }

    fn reference_of(&self, value: &str) -> Option<&str> {
        let mut known = self.0.iter();
        let (reference, _) = known.find(|(_, known)| *known == value)?;
        Some(reference)
    }

    /// Forgets all others.
    pub fn keep(&mut self, wanted: &BTreeSet<String>) {
        self.0.retain(|reference, _| wanted.contains(reference));
    }

    /// Returns the value that a reference stands for. One that was edited stands for nothing.
    pub fn reveal(&self, wanted: &str) -> Option<&str> {
        let value = self.0.get(wanted).map(String::as_str);
        value.filter(|value| reference(value) == wanted)
    }

    /// Returns a handle as it is: of a secret one the value, if it is known.
    pub fn plain<'a>(&'a self, handle: &'a str) -> Option<&'a str> {
        if is_reference(handle) {
            self.reveal(handle)
        } else {
            Some(handle)
        }
    }

    /// Returns whether every handle is known: secret ones by their values, all others as they are.
    pub fn have<'h>(&self, handles: impl IntoIterator<Item = &'h String>) -> bool {
        let mut handles = handles.into_iter();
        handles.all(|handle| self.plain(handle).is_some())
    }

    /// Returns a text with references in place of the values, the longest first: one may be a part of another. A text in which they
    /// are hidden already stays as it is.
    pub fn hidden(&self, text: &str) -> String {
        let long = self.0.iter().filter(|(_, value)| value.len() >= SHORT);
        let mut long: Vec<(&String, &String)> = long.collect();
        long.sort_by_key(|(_, value)| Reverse(value.len()));
        long.into_iter()
            .fold(text.to_owned(), |text, (reference, value)| {
                let forms = quoted(value).into_iter();
                forms.fold(text, |text, form| replaced(&text, &form, reference))
            })
    }

    /// Puts references in place of the values in all texts of an object. What is nothing but a value is one of any length, and a number
    /// as well.
    pub fn hide(&self, value: &mut Value) {
        let whole = match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        if let Some(reference) = whole.and_then(|whole| self.reference_of(&whole)) {
            *value = Value::String(reference.to_owned());
            return;
        }
        match value {
            Value::String(text) => *text = self.hidden(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.hide(field)),
            _ => {}
        }
    }
}

/// Returns a text with a reference in place of a value. What is a part of another reference is none: it would be replaced again and
/// again.
fn replaced(text: &str, value: &str, reference: &str) -> String {
    let mut made = String::new();
    let mut rest = text;
    while let Some((before, found, after)) = first_reference(rest) {
        made.push_str(&before.replace(value, reference));
        made.push_str(found);
        rest = after;
    }
    made.push_str(&rest.replace(value, reference));
    made
}

/// Returns the first complete reference of a text, between what stands before it and after it.
fn first_reference(text: &str) -> Option<(&str, &str, &str)> {
    text.match_indices(OPENS).find_map(|(at, _)| {
        let (before, from) = text.split_at(at);
        let (found, after) = from.split_at_checked(OPENS.len() + 2 * BYTES + 1)?;
        let digits = found.strip_prefix(OPENS)?.strip_suffix('>')?;
        let is_complete = digits
            .bytes()
            .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        is_complete.then_some((before, found, after))
    })
}

/// Returns a value as it stands in texts: as it is, as Rust and JSON quote it, and as Go does.
fn quoted(value: &str) -> Vec<String> {
    let within = |quoted: &str| {
        let within = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        within.unwrap_or(value).to_owned()
    };
    let json = within(&Value::from(value).to_string());
    let go = [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026")];
    let go = go.iter().fold(json.clone(), |text, (plain, escaped)| {
        text.replace(*plain, escaped)
    });
    let mut forms = vec![value.to_owned(), within(&format!("{value:?}")), json, go];
    forms.dedup();
    forms
}

impl fmt::Debug for SecretHandles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TOKEN: &str = "C4n4ry/\"token\"";

    fn known() -> SecretHandles {
        let mut known = SecretHandles::default();
        known.add(TOKEN);
        known
    }

    #[test]
    fn a_reference_tells_which_handle_it_is_and_not_what_it_is() {
        let token = reference(TOKEN);
        assert!(is_reference(&token) && !token.contains("C4n4ry"), "{token}");
        assert_ne!(token, reference("another"));
        assert!(!is_reference(TOKEN));
        assert_eq!(known().reveal(&token), Some(TOKEN));
        assert_eq!(known().reveal(&reference("another")), None);
        assert!(!format!("{:?}", known()).contains("C4n4ry"));
    }

    #[test]
    fn an_edited_value_is_none() {
        let edited = json!({reference(TOKEN): "of my own"});
        let edited: SecretHandles = serde_json::from_value(edited).unwrap();
        assert_eq!(edited.reveal(&reference(TOKEN)), None);
        assert!(!edited.have(&[reference(TOKEN)]));
        assert!(known().have(&[reference(TOKEN), "s3://plain".to_owned()]));
    }

    #[test]
    fn values_are_hidden_in_texts_however_they_are_quoted() {
        let mut said = json!({"a": [format!("no {TOKEN}")], "b": format!("{TOKEN:?}"), "c": 1});
        known().hide(&mut said);
        let said = said.to_string();
        assert!(!said.contains("C4n4ry"), "{said}");
        assert_eq!(said.matches("<secret, sha256:").count(), 2, "{said}");
    }

    #[test]
    fn a_value_that_is_a_part_of_another_leaves_nothing_of_that_one() {
        let mut known = SecretHandles::default();
        let parts = ["C4n4", "C4n4ry", "C4n4ry-1", "C4n4ry-12"];
        for part in parts {
            known.add(part);
        }
        for part in parts {
            assert_eq!(
                known.hidden(&format!("no {part}!")),
                format!("no {}!", reference(part))
            );
        }
    }

    #[test]
    fn what_is_hidden_stays_as_it_is_when_it_is_hidden_again() {
        let token = reference(TOKEN);
        let digits: String = token.chars().skip(OPENS.len()).take(SHORT).collect();
        for part in ["secret", "sha256", digits.as_str()] {
            let mut known = known();
            known.add(part);
            let hidden = known.hidden(&format!("no {TOKEN}, and no {part}!"));
            assert_eq!(hidden, format!("no {token}, and no {}!", reference(part)));
            assert_eq!(known.hidden(&hidden), hidden);
        }
    }

    #[test]
    fn a_value_is_hidden_in_what_only_begins_like_a_reference() {
        let (token, another) = (reference(TOKEN), reference("another"));
        assert_eq!(
            known().hidden(&format!("{OPENS}{TOKEN}>, {another}, {OPENS}{TOKEN}")),
            format!("{OPENS}{token}>, {another}, {OPENS}{token}")
        );
    }

    #[test]
    fn a_value_that_go_has_quoted_is_hidden() {
        let mut known = SecretHandles::default();
        known.add("<C4n4ry>&\"x\"");
        let hidden = known.hidden("no \"\\u003cC4n4ry\\u003e\\u0026\\\"x\\\"\"");
        assert!(!hidden.contains("C4n4ry"), "{hidden}");
    }

    #[test]
    fn numbers_and_short_values_are_hidden_where_nothing_else_stands() {
        let mut known = SecretHandles::default();
        known.add("4711");
        known.add("abc");
        let mut said = json!({"a": 4711, "b": "abc", "c": 47, "d": ["4711"], "e": "abcd"});
        known.hide(&mut said);
        assert_eq!(
            said,
            json!({"a": reference("4711"), "b": reference("abc"), "c": 47, "d": [reference("4711")], "e": "abcd"})
        );
    }

    #[test]
    fn only_what_is_wanted_is_kept() {
        let mut kept = SecretHandles::default();
        let wanted = BTreeSet::from([reference(TOKEN)]);
        let mut others = known();
        others.add("another");
        kept.take(others, &wanted);
        assert_eq!(kept, known());
        kept.keep(&BTreeSet::new());
        assert!(kept.is_empty());
    }
}
