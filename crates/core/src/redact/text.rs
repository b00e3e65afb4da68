//! Credentials that are recognisable in any text: by their own shape, or by the name they are given there.
//!
//! A text goes through several finders, one after the other. Each takes time that grows with the length of the text and
//! no faster, whatever stands in it: it looks at no character more often than a fixed number of times.

use std::borrow::Cow;

use super::finder::{Find, is_reference};
use super::{MASK, assign, flow, outline, shapes};

/// Returns a text without what is recognisable as a credential.
///
/// ```
/// use cutover_core::redact::text;
///
/// assert_eq!(text("cannot reach https://ci:hunter2@git.example.com/x"), "cannot reach https://***@git.example.com/x");
/// assert_eq!(text("no permission to read the token"), "no permission to read the token");
/// ```
pub fn text(words: &str) -> Cow<'_, str> {
    let mut mask = |_: &str| MASK.to_owned();
    let mut clean = Cow::Borrowed(words);
    for find in shapes::ANYWHERE.iter().chain(&[assign::told as Find]) {
        if let Some(new) = replaced(&clean, *find, &mut mask) {
            clean = Cow::Owned(new);
        }
    }
    clean
}

/// Returns a string of an object with the credentials in it replaced; `None` if there are none.
pub(super) fn settings(words: &str, with: &mut dyn FnMut(&str) -> String) -> Option<String> {
    let finders = [outline::secrets as Find, flow::secrets]
        .into_iter()
        .chain(shapes::ANYWHERE.iter().copied())
        .chain([assign::assigned as Find])
        .chain(shapes::IN_SETTINGS.iter().copied());
    let mut clean = None;
    for find in finders {
        let new = replaced(clean.as_deref().unwrap_or(words), find, with);
        clean = new.or(clean);
    }
    clean
}

fn replaced(words: &str, find: Find, with: &mut dyn FnMut(&str) -> String) -> Option<String> {
    let mut clean = String::new();
    let mut done = 0;
    for place in find(words) {
        let secret = &words[place.clone()];
        if secret.is_empty() || secret.starts_with(MASK) || is_reference(secret) {
            continue;
        }
        clean.push_str(&words[done..place.start]);
        clean.push_str(&with(secret));
        done = place.end;
    }
    (done > 0).then(|| clean + &words[done..])
}
