//! What a credential looks like by itself, or beside a word that is never beside anything else.
//!
//! Each shape is searched for on its own. An expression never looks further than a fixed number of words beyond the end of
//! what it finds: so the next search, which begins there, reads little anew. One expression of several shapes would
//! read on to the end of a text in the hope of an earlier shape, after each that it finds.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::names::is_credential;
use crate::redact::finder::Find;

/// Shapes that are looked for in every text; the value of a header before what may be a part of it.
pub(super) const ANYWHERE: &[Find] = &[
    private_key,
    header,
    user_of_url,
    scheme,
    json_web_token,
    base64_of_pem,
    with_prefix,
    password_of_address,
    signature,
    login,
];

/// Shapes that sentences have by chance.
pub(super) const IN_SETTINGS: &[Find] = &[
    flag,
    element,
    directive,
    password_line,
    password_of_machine,
    sentinel,
];

/// Without the expression, which a test compiles, nothing could be told from a secret.
fn places(
    words: &str,
    expression: &'static LazyLock<Option<Regex>>,
    pick: impl Fn(&Captures<'_>) -> Option<Range<usize>>,
) -> Vec<Range<usize>> {
    match &**expression {
        Some(expression) => expression
            .captures_iter(words)
            .filter_map(|found| pick(&found))
            .collect(),
        None => std::iter::once(0..words.len()).collect(),
    }
}

macro_rules! expression {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($text).ok());
    };
}

fn last(found: &Captures<'_>) -> Option<Range<usize>> {
    found.get(found.len() - 1).map(|group| group.range())
}

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// A private key as PEM, lines joined or not; one that breaks off too.
fn private_key(words: &str) -> Vec<Range<usize>> {
    let is_body = |c: char| c.is_ascii_alphanumeric() || c.is_whitespace() || "+/=\\:,.-".contains(c);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = words[from..].find(BEGIN).map(|at| from + at) {
        from = start + BEGIN.len();
        let Some(body) = label(&words[from..]).map(|length| from + length) else {
            continue;
        };
        let rest = &words[body..];
        // What is between the dashes of one line and those of the next is read once.
        let inner = rest.find(DASHES).unwrap_or(rest.len());
        let inner = rest[..inner].find(|c| !is_body(c)).unwrap_or(inner);
        let closing = rest[inner..].strip_prefix(END).and_then(label);
        from = body + inner + closing.map_or(0, |length| END.len() + length);
        found.push(start..from);
    }
    found
}

/// Returns the length of a private key's label with the dashes after it.
fn label(text: &str) -> Option<usize> {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == ' ';
    let length = text.find(|c| !is_part(c))?;
    let label = text[..length].strip_suffix(" BLOCK").unwrap_or(&text[..length]);
    (label.ends_with("PRIVATE KEY") && text[length..].starts_with(DASHES)).then_some(length + DASHES.len())
}

expression!(
    HEADER,
    r#"(?i:authorization|x-api-key|x-auth-token|private-token|cookie)\\*["']?\s*[:=]\s*\\*["']?([^\r\n"'\\]+)"#
);

/// The value of a header.
fn header(words: &str) -> Vec<Range<usize>> {
    places(words, &HEADER, last)
}

/// User and password of a URL.
fn user_of_url(words: &str) -> Vec<Range<usize>> {
    const SIGN: &str = "://";
    let is_end = |c: char| c.is_whitespace() || "\"'<>\\".contains(c);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = words[from..].find(SIGN).map(|at| from + at + SIGN.len()) {
        let rest = &words[start..];
        // A URL within a URL is one of its own.
        let rest = &rest[..rest.find(SIGN).unwrap_or(rest.len())];
        let url = &rest[..rest.find(is_end).unwrap_or(rest.len())];
        let is_ssh = words[from..start].ends_with("ssh://");
        if let Some(end) = user_end(url)
            // A user name is all there is: `ssh://git@…`.
            && (url[..end].contains(':') || !is_ssh)
        {
            found.push(start..start + end);
        }
        from = start + url.len();
    }
    found
}

/// Returns where user and password end that a URL begins with, behind its scheme. A `/` in a password has to be escaped,
/// and is not always: then it looks as if the host ended there.
fn user_end(url: &str) -> Option<usize> {
    let host = &url[..url.find('/').unwrap_or(url.len())];
    let bare = host.rfind('@');
    let port = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let port = port.rsplit_once(']').map_or(port, |(_, port)| port);
    let numbered = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let path = match port.split_once(':') {
        // A path can have an `@`, and so can a query.
        Some((_, port)) if numbered(port) => query_cut(url),
        // No port: the beginning of a password.
        Some(_) => url,
        None if bare.is_some_and(|end| host[..end].contains(':')) => query_cut(url),
        None => return bare,
    };
    let raw = path.rfind('@').filter(|at| {
        let (before, after) = (&path[..*at], &path[at + 1..]);
        // `/@scope/package`, and the digest of an image.
        !before.ends_with('/') && !after.starts_with("sha")
    });
    raw.max(bare)
}

fn query_cut(url: &str) -> &str {
    &url[..url.find(['?', '#']).unwrap_or(url.len())]
}

expression!(SCHEME, r"(?-u:\b)(?i:bearer|basic)\s+([A-Za-z0-9._~+/=-]{6,})");

/// A header's value without its header.
fn scheme(words: &str) -> Vec<Range<usize>> {
    places(words, &SCHEME, |found| {
        let secret = found.get(1)?;
        // "basic authentication" is none.
        let meant = secret
            .as_str()
            .contains(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase());
        meant.then(|| secret.range())
    })
}

expression!(
    JSON_WEB_TOKEN,
    r"(?-u:\b)(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?)"
);

fn json_web_token(words: &str) -> Vec<Range<usize>> {
    places(words, &JSON_WEB_TOKEN, last)
}

expression!(BASE64_OF_PEM, r"(LS0tLS1CRUdJTi[A-Za-z0-9+/=]+)");

fn base64_of_pem(words: &str) -> Vec<Range<usize>> {
    places(words, &BASE64_OF_PEM, |found| {
        // Certificates and public keys are public.
        let public = ["LS0tLS1CRUdJTiBDRVJU", "LS0tLS1CRUdJTiBQVUJM"];
        let secret = found.get(1)?;
        let meant = !public.iter().any(|public| secret.as_str().starts_with(public));
        meant.then(|| secret.range())
    })
}

expression!(
    WITH_PREFIX,
    r"(?-u:\b)((?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|npm_|dckr_pat_|hv[sb]\.|sk-|SG\.|AIza|AKIA|ASIA)[A-Za-z0-9_.-]{12,})"
);

/// Tokens that say whose they are.
fn with_prefix(words: &str) -> Vec<Range<usize>> {
    places(words, &WITH_PREFIX, |found| {
        let secret = found.get(1)?;
        let meant = secret.as_str().contains(|c: char| c.is_ascii_digit());
        meant.then(|| secret.range())
    })
}

expression!(PASSWORD_OF_ADDRESS, r#"[A-Za-z0-9._%+-]+:([^\s/@"'<>\\,;]+)@"#);

/// User and password of an address without a scheme.
fn password_of_address(words: &str) -> Vec<Range<usize>> {
    places(words, &PASSWORD_OF_ADDRESS, |found| {
        // `orders:1.2@sha256:…` is an image.
        let meant = !words[found.get(0)?.end()..].starts_with("sha");
        meant.then(|| last(found)).flatten()
    })
}

expression!(
    SIGNATURE,
    r#"(?:(?:^|[?&;\s"'])(?i:sig|signature|x-amz-signature|x-goog-signature)|[?&](?i:key|code))=([^&\s"'<>;]+)"#
);

/// What opens a URL by itself.
fn signature(words: &str) -> Vec<Range<usize>> {
    places(words, &SIGNATURE, last)
}

expression!(
    LOGIN,
    r#"(?:^|[\s"'\[,])(?:-u|-U|--user|--proxy-user)(?:[ \t]+|=|["'],\s*["'])["']?([^\s"':]+):([^\s"']+)"#
);

/// `curl -u user:password`.
fn login(words: &str) -> Vec<Range<usize>> {
    places(words, &LOGIN, |found| {
        let (user, password) = (found.get(1)?, found.get(2)?);
        is_login(user.as_str(), password.as_str()).then(|| password.range())
    })
}

/// `1000:1000` are a user and a group.
pub(super) fn is_login(user: &str, password: &str) -> bool {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !is_number(user) || !is_number(password)
}

expression!(
    FLAG,
    r#"(?:^|\s)--?([A-Za-z][A-Za-z0-9_.-]*)[ \t]+["']?([^\s"'-][^\s"']*)"#
);

/// `--name value`.
fn flag(words: &str) -> Vec<Range<usize>> {
    places(words, &FLAG, |found| {
        is_credential(found.get(1)?.as_str()).then_some(found.get(2)?.range())
    })
}

expression!(
    ELEMENT,
    r"<name>([^<]+)</name>\s*<value>([^<]+)</|<([A-Za-z][A-Za-z0-9_.-]*)>([^<]+)</"
);

/// `<name>value</`, and `<name>name</name> <value>value</value>`.
fn element(words: &str) -> Vec<Range<usize>> {
    places(words, &ELEMENT, |found| {
        let (name, value) = match found.get(1) {
            Some(name) => (name, found.get(2)?),
            None => (found.get(3)?, found.get(4)?),
        };
        is_credential(name.as_str().trim()).then_some(value.range())
    })
}

expression!(
    DIRECTIVE,
    r#"(?m)^[ \t]*([A-Za-z][A-Za-z0-9_.-]*)[ \t]+["']?([^\s"';]+)["']?[ \t]*;?[ \t]*\r?$"#
);

/// A line of a name and a value: `requirepass x` of Redis, `password x` of a `.netrc`.
fn directive(words: &str) -> Vec<Range<usize>> {
    places(words, &DIRECTIVE, |found| {
        is_credential(found.get(1)?.as_str()).then_some(found.get(2)?.range())
    })
}

expression!(
    PASSWORD_LINE,
    r"(?m)^([^:\s#]+):(\d{2,5}|\*):([^:\s]+):([^:\s]+):(\S+)"
);

/// A line of a `.pgpass`: host, port, database, user, password.
fn password_line(words: &str) -> Vec<Range<usize>> {
    places(words, &PASSWORD_LINE, |found| {
        // Addresses of a network have as many colons.
        let is_group = |text: &str| text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_address = (1..5).all(|group| found.get(group).is_some_and(|part| is_group(part.as_str())));
        (!is_address).then(|| last(found)).flatten()
    })
}

expression!(
    PASSWORD_OF_MACHINE,
    r"(?-u:\b)(?:machine\s+\S+\s+(?:\S+\s+\S+\s+){0,2}?|login\s+\S+\s+)password\s+(\S+)"
);

/// An entry of a `.netrc`.
fn password_of_machine(words: &str) -> Vec<Range<usize>> {
    places(words, &PASSWORD_OF_MACHINE, last)
}

expression!(SENTINEL, r"(?-u:\b)auth-pass[ \t]+\S+[ \t]+(\S+)");

/// `sentinel auth-pass NAME PASSWORD`.
fn sentinel(words: &str) -> Vec<Range<usize>> {
    places(words, &SENTINEL, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_expression_compiles() {
        for expression in [
            &HEADER,
            &SCHEME,
            &JSON_WEB_TOKEN,
            &BASE64_OF_PEM,
            &WITH_PREFIX,
            &PASSWORD_OF_ADDRESS,
            &SIGNATURE,
            &LOGIN,
            &FLAG,
            &ELEMENT,
            &DIRECTIVE,
            &PASSWORD_LINE,
            &PASSWORD_OF_MACHINE,
            &SENTINEL,
        ] {
            assert!(expression.is_some());
        }
    }
}
