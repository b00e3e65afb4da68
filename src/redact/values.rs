//! The secrets of some objects, to take them out of what somebody else says about these objects.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{MASK, object, text};

/// Shorter secrets are only taken out where they stand alone: no sentence can be told without `a`.
const SHORT: usize = 4;
/// From this length on, a line of a secret is taken out by itself.
const LINE: usize = 8;

/// The secrets of some objects, in the forms in which they may be quoted.
#[derive(Clone, Default)]
pub struct Secrets(BTreeSet<String>);

impl Secrets {
    pub fn of<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut secrets = Self::default();
        for object in objects {
            let is_secret = object::is_secret(object);
            object::hide(&mut object.clone(), &mut |secret| {
                secrets.add(secret);
                if is_secret && let Some(plain) = object::decoded(secret) {
                    secrets.add(&String::from_utf8_lossy(&plain));
                }
                String::new()
            });
        }
        secrets
    }

    /// Returns a text without them, and without what [`text`] recognises.
    pub fn scrub(&self, words: &str) -> String {
        let mut clean = words.to_owned();
        let mut longest_first: Vec<&String> = self.0.iter().collect();
        longest_first.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        for secret in longest_first {
            if clean.contains(secret.as_str()) {
                clean = without(&clean, secret);
            }
        }
        text(&clean).into_owned()
    }

    fn add(&mut self, secret: &str) {
        let lines = secret
            .lines()
            .map(str::trim)
            .filter(|line| line.len() >= LINE && line.len() < secret.len());
        let parts = parts(secret).filter(|part| part.len() >= SHORT);
        for form in lines.chain(parts).chain([secret, secret.trim()]) {
            // Nobody can tell without what is on or off, or a digit, in a sentence about it.
            if form.is_empty() || matches!(form, "true" | "false") || form.len() == 1 {
                continue;
            }
            self.0.insert(form.to_owned());
            let quoted = format!("{form:?}");
            self.0.insert(quoted[1..quoted.len() - 1].to_owned());
        }
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

/// Returns what is secret of user and password, and of a scheme and its token, where these are hidden as one.
fn parts(secret: &str) -> impl Iterator<Item = &str> {
    let password = secret.split_once(':').map(|(_, password)| password);
    let token = secret.split_once(' ').and_then(|(scheme, token)| {
        let known = ["bearer", "basic", "token"];
        known
            .contains(&scheme.to_ascii_lowercase().as_str())
            .then_some(token)
    });
    password.into_iter().chain(token)
}

fn without(words: &str, secret: &str) -> String {
    if secret.chars().count() >= SHORT {
        return words.replace(secret, MASK);
    }
    let mut clean = String::with_capacity(words.len());
    let mut rest = words;
    while let Some(at) = rest.find(secret) {
        let (before, after) = (&rest[..at], &rest[at + secret.len()..]);
        let alone = !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric);
        clean.push_str(before);
        clean.push_str(if alone { MASK } else { secret });
        rest = after;
    }
    clean.push_str(rest);
    clean
}
