//! The secrets of some objects, to take them out of what somebody else says about these objects.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::base64::decoded;
use super::{MASK, object, text};

/// Shorter secrets are only taken out where they stand alone: no sentence can be told without `a`.
const SHORT: usize = 4;
/// From this length on, a line of a secret is taken out by itself.
const LINE: usize = 8;

/// As much of a text is searched, and half of it shown: the rest says nothing more that helps. What begins in the half
/// that is shown ends in what is searched, or is searched for piece by piece.
const SEARCHED: usize = 16 * 1024;
const SHOWN: usize = SEARCHED / 2;
/// A longer secret is taken out in pieces of this length, so that none is half within what is searched.
const PIECE: usize = 1024;

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
                match decoded(secret).map(String::from_utf8) {
                    Some(Ok(plain)) => secrets.add(&plain),
                    Some(Err(bytes)) if is_secret => {
                        secrets.add(&String::from_utf8_lossy(bytes.as_bytes()));
                    }
                    _ => {}
                }
                String::new()
            });
        }
        secrets
    }

    /// Returns a text without them, and without what [`text`] recognises. Of a long text, the beginning and the length.
    pub fn scrub(&self, words: &str) -> String {
        let searched = &words[..floor(words, SEARCHED)];
        let there = grams(searched);
        let possible = |secret: &&String| secret.as_bytes().windows(GRAM).all(|gram| there.contains(gram));
        let mut secret_bytes = vec![false; searched.len()];
        for secret in self.0.iter().filter(possible) {
            for (at, _) in searched.match_indices(secret.as_str()) {
                let end = at + secret.len();
                if secret.chars().count() >= SHORT || stands_alone(searched, at, end) {
                    secret_bytes[at..end].fill(true);
                }
            }
        }
        if words.len() <= SHOWN {
            return text(&masked(searched, &secret_bytes)).into_owned();
        }
        // A word that is cut could be the beginning of a credential that nobody would recognise.
        let shown = floor(searched, SHOWN);
        let clean = masked(&searched[..shown], &secret_bytes);
        let whole = &clean[..clean.rfind(char::is_whitespace).unwrap_or_default()];
        format!("{}… ({} bytes in all)", text(whole), words.len())
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
            let quoted = format!("{form:?}");
            for form in [form, &quoted[1..quoted.len() - 1]] {
                self.0.extend(pieces(form).map(str::to_owned));
            }
        }
    }
}

/// Returns a text as it is, or in pieces.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let length = if text.len() <= SHOWN { text.len() } else { PIECE };
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, after) = rest.split_at(floor(rest, length));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Returns the place of the first character's end at or before so many bytes.
fn floor(text: &str, bytes: usize) -> usize {
    if text.len() <= bytes {
        return text.len();
    }
    (0..=bytes)
        .rev()
        .find(|place| text.is_char_boundary(*place))
        .unwrap_or_default()
}

/// So many bytes that follow each other are looked up at once: of a hundred thousand secrets few are possible then.
const GRAM: usize = 4;

fn grams(text: &str) -> HashSet<&[u8]> {
    text.as_bytes().windows(GRAM).collect()
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

/// Returns whether what is between two places is a word of its own.
fn stands_alone(words: &str, start: usize, end: usize) -> bool {
    !words[..start].ends_with(char::is_alphanumeric) && !words[end..].starts_with(char::is_alphanumeric)
}

/// Returns a text with [`MASK`] for each run of bytes that are secret.
fn masked(words: &str, secret: &[bool]) -> String {
    let mut clean = String::with_capacity(words.len());
    let mut at = 0;
    for run in secret[..words.len()].chunk_by(|one, next| one == next) {
        let end = at + run.len();
        clean.push_str(if run[0] { MASK } else { &words[at..end] });
        at = end;
    }
    clean
}
