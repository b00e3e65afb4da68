//! Where secrets are in an object.
//!
//! - All of a `Secret` but what says which one it is, wherever it is embedded.
//! - The annotations in which tools keep a copy of the whole object.
//! - The values of secret state handles, each under what stands for it.
//! - What has a name that says so: `{name: DB_PASSWORD, value: …}` of any pod template, `s3.secret-key: …` of any mapping,
//!   `--token …` among arguments, a patch of a `path` that ends so.
//! - Inside any string: what [`super::text`] recognises, and settings in it (`password: …`, `password=…`).

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash, RandomState};

use serde_json::{Map, Value};

use super::MASK;
use super::base64::base64;
use super::kinds::{
    is_bare_key, is_copy, is_secret_like, is_secret_list, is_shown, is_shown_metadata, is_value,
    names_a_secret,
};
use super::names::is_credential;
use super::shapes::is_login;
use super::text::settings;
use crate::api::is_reference as stands_for_a_secret;
use crate::redact::finder::is_reference;

/// Where in an object a secret is, under a key of this walk's own: places of two walks with one key are comparable.
///
/// Items of lists are told apart by their names where each has one, by their index otherwise; arguments by what they are
/// called. Several secrets in one string have one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place(u64);

/// What is done with a secret: what stands for it is returned.
type With<'a> = dyn FnMut(Place, &str) -> String + 'a;

/// Replaces every secret in a value by what `with` makes of it.
pub(super) fn hide(value: &mut Value, with: &mut dyn FnMut(&str) -> String) {
    hide_placed(value, &RandomState::new(), &mut |_, secret| with(secret));
}

/// Replaces every secret in a value by what `with` makes of it and its place.
pub(super) fn hide_placed(value: &mut Value, key: &RandomState, with: &mut With<'_>) {
    let at = At {
        key,
        place: Place(0),
        within: "",
        in_list: false,
        is: Is::Any,
    };
    hide_value(value, at, with);
}

/// Returns whether an object is a `Secret` to the API server.
pub(crate) fn is_secret(object: &Value) -> bool {
    let text = |field: &str| object.get(field).and_then(Value::as_str);
    object.is_object()
        && text("kind") == Some("Secret")
        && text("apiVersion").is_none_or(|version| version == "v1")
}

/// Where the walk is.
#[derive(Clone, Copy)]
struct At<'a> {
    key: &'a RandomState,
    place: Place,
    /// The field that the value stands in, or the list that it stands in.
    within: &'a str,
    in_list: bool,
    is: Is,
}

/// What the value is known to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    Any,
    /// An item of a list of Secrets, or that list.
    Secret,
    /// The metadata of a Secret.
    Metadata,
}

impl<'a> At<'a> {
    fn then<'b>(self, step: impl Hash, within: &'b str, is: Is) -> At<'b>
    where
        'a: 'b,
    {
        At {
            key: self.key,
            place: Place(self.key.hash_one((self.place, step))),
            within,
            in_list: false,
            is,
        }
    }

    fn field<'b>(self, name: &'b str, is: Is) -> At<'b>
    where
        'a: 'b,
    {
        self.then(name, name, is)
    }

    fn item(self, step: impl Hash) -> Self {
        Self {
            in_list: true,
            ..self.then(step, self.within, self.is)
        }
    }
}

fn hide_value(value: &mut Value, at: At<'_>, with: &mut With<'_>) {
    match value {
        Value::Object(fields) => hide_fields(fields, at, with),
        Value::Array(items) => hide_items(items, at, with),
        Value::String(text) => {
            if let Some(hidden) = hidden(text, &mut |secret| with(at.place, secret)) {
                *text = hidden;
            }
        }
        _ => {}
    }
}

fn hide_fields(fields: &mut Map<String, Value>, at: At<'_>, with: &mut With<'_>) {
    let text = |field: &str| fields.get(field).and_then(Value::as_str);
    let is_secret = at.is == Is::Secret || is_secret_like(text("kind"), text("apiVersion"));
    let is_list = is_secret_list(text("kind"));
    let has_metadata = fields.contains_key("metadata");
    let named = names_a_secret(fields.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let key = is_bare_key(at.within, at.in_list, fields.keys().map(String::as_str));
    // What an operator is told to copy from elsewhere is called by its name there.
    let refers = fields.contains_key("remoteRef");
    if is_secret {
        encode_plain(fields);
    }
    for (name, value) in fields.iter_mut() {
        let field = |is| at.field(name, is);
        match name.as_str() {
            "metadata" if is_secret && value.is_object() => hide_value(value, field(Is::Metadata), with),
            // What is no word where one belongs isn't what it is called.
            name if is_secret
                && (!is_shown(name, has_metadata)
                    || (name != "labelSelector" && (value.is_object() || value.is_array()))) =>
            {
                hide_all(value, field(Is::Any), true, with);
            }
            name if at.is == Is::Metadata && !is_shown_metadata(name) => {
                hide_all(value, field(Is::Any), true, with);
            }
            "items" if is_list && value.is_array() => hide_value(value, field(Is::Secret), with),
            name if is_copy(name) => hide_all(value, field(Is::Any), true, with),
            name if named && is_value(name) => hide_all(value, field(Is::Any), false, with),
            // `kind: Secret`, and `name: shop-token`, are no secrets.
            "kind" | "name" => hide_value(value, field(Is::Any), with),
            "key" if key && is_plain(value) => hide_all(value, field(Is::Any), false, with),
            "secretKey" if refers => hide_value(value, field(Is::Any), with),
            name if is_plain(value) && (is_credential(name) || stands_for_a_secret(name)) => {
                hide_all(value, field(Is::Any), false, with);
            }
            _ => hide_value(value, field(Is::Any), with),
        }
    }
}

/// Returns whether a value is a scalar, or several; what has fields tells by their names what they are.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(is_plain),
        value => !value.is_object(),
    }
}

/// Hides every scalar in a value. Nothing stays, and what refers to something else, unless `all` is to be hidden.
fn hide_all(value: &mut Value, at: At<'_>, all: bool, with: &mut With<'_>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                hide_all(value, at.field(name, Is::Any), all, with);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter_mut().enumerate() {
                hide_all(value, at.item(index), all, with);
            }
        }
        Value::String(text) if text.is_empty() || (!all && is_reference(text)) => {}
        Value::String(text) => *text = with(at.place, text),
        Value::Number(number) => *value = Value::String(with(at.place, &number.to_string())),
        Value::Bool(_) | Value::Null => {}
    }
}

/// Flags of programs that log in: `curl -u user:password`.
const LOGIN_FLAGS: &[&str] = &["-u", "-U", "--user", "--proxy-user"];

/// An item after `--token` is one.
fn hide_items(items: &mut [Value], at: At<'_>, with: &mut With<'_>) {
    let names = names(items);
    // How often an item was there that looks like this one with its secrets hidden.
    let mut seen: HashMap<u64, usize> = HashMap::new();
    let mut nth = |look: u64| {
        let times = seen.entry(look).or_default();
        *times += 1;
        *times
    };
    let mut flag: Option<String> = None;
    for (index, item) in items.iter_mut().enumerate() {
        let text = item.as_str().map(str::to_owned);
        let before = flag.take();
        let is_flag = |text: &&String| text.starts_with('-') && !text.contains(['=', ' ', '\n']);
        flag = text.as_ref().filter(is_flag).cloned();
        let asks = |flag: &Option<String>| flag.as_deref().is_some_and(is_credential);
        let secret = asks(&before) && !asks(&flag) && !item.is_object();
        let login = before.as_deref().is_some_and(|flag| LOGIN_FLAGS.contains(&flag));
        match (&text, &names) {
            _ if secret => {
                let look = at.key.hash_one(&before);
                hide_all(item, at.item((look, nth(look))), false, with);
            }
            (Some(text), _) => {
                if let Some((user, password)) = text.split_once(':')
                    && login
                    && is_login(user, password)
                {
                    let look = at.key.hash_one((&before, user));
                    let place = at.item((look, nth(look))).place;
                    *item = Value::String(format!("{user}:{}", with(place, password)));
                } else if let Some(masked) = hidden(text, &mut |_| MASK.to_owned()) {
                    let look = at.key.hash_one(masked);
                    hide_value(item, at.item((look, nth(look))), with);
                }
            }
            (None, Some(names)) => hide_value(item, at.item(names.get(index)), with),
            (None, None) => hide_value(item, at.item(index), with),
        }
    }
}

/// Returns the names of the items of a list, if each has one of its own.
fn names(items: &[Value]) -> Option<Vec<String>> {
    ["name", "key"].into_iter().find_map(|field| {
        let name = |item: &Value| item.get(field)?.as_str().map(str::to_owned);
        let names: Vec<String> = items.iter().map(name).collect::<Option<_>>()?;
        let different: BTreeSet<&String> = names.iter().collect();
        (different.len() == names.len()).then_some(names)
    })
}

/// Returns a string with the secrets in it replaced; `None` if there are none.
fn hidden(text: &str, with: &mut dyn FnMut(&str) -> String) -> Option<String> {
    if text.trim_start().starts_with(['{', '['])
        && let Ok(inner) = serde_json::from_str::<Value>(text)
        && (inner.is_object() || inner.is_array())
    {
        let mut masked = inner.clone();
        hide(&mut masked, with);
        return (masked != inner).then(|| masked.to_string());
    }
    settings(text, with)
}

/// Moves `stringData` to `data`, as the API server does, so that two forms of a Secret are comparable.
fn encode_plain(secret: &mut Map<String, Value>) {
    let Some(Value::Object(plain)) = secret.get("stringData") else {
        return;
    };
    let plain = plain.clone();
    let data = secret.entry("data").or_insert(Value::Null);
    if data.is_null() {
        *data = Value::Object(Map::new());
    }
    // Data of another form is refused by the API server; both are hidden as they are.
    if let Value::Object(data) = data {
        data.extend(plain.into_iter().map(|(key, value)| match value {
            Value::String(text) => (key, Value::String(base64(text.as_bytes()))),
            other => (key, other),
        }));
        secret.shift_remove("stringData");
    }
}
