//! Names that say that what they name is a secret: of environment variables, flags, fields, settings.

/// What a word that means a secret ends with, wherever it stands; `PGPASSWORD` is one word.
const STEMS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "token",
    "credential",
    "credentials",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
];

/// Words that make a secret of the `key` after them. A `key` alone is the name of something, mostly.
const BEFORE_KEY: &[&str] = &[
    "access",
    "account",
    "api",
    "auth",
    "client",
    "crypt",
    "encryption",
    "host",
    "licence",
    "license",
    "master",
    "private",
    "secret",
    "session",
    "shared",
    "signing",
    "ssh",
    "storage",
    "tls",
    "webhook",
];

/// Words that name a secret when a name ends with them, and nothing else does: `compass` and `Keyboard` do not.
const LAST: &[&str] = &[
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "cookies",
    "cred",
    "creds",
    "dockercfg",
    "dockerconfigjson",
    "dsn",
    "jwt",
    "masterauth",
    "netrc",
    "pass",
    "pgpass",
    "requirepass",
    "sas",
    "webhook",
];

/// Directives of proxies that end with `pass` and name a server.
const PASSES_ON: &[&str] = &["fastcgi", "grpc", "memcached", "proxy", "scgi", "uwsgi"];

/// What an environment variable ends with that says where a secret is, or something about it.
const ABOUT: &[&str] = &[
    "age", "count", "dir", "enabled", "expiry", "file", "length", "mode", "name", "path", "size", "timeout",
    "ttl", "type",
];

/// Words that name a secret in an environment variable, where names are the only sign there is.
const LOOSE: &[&str] = &[
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "cred",
    "creds",
    "dsn",
    "jwt",
    "key",
    "keys",
    "pass",
    "pat",
    "salt",
    "sas",
    "webhook",
];

/// Returns whether something of this name is a secret in all likelihood: `db.password`, `s3.secret-key`, `authToken`.
/// What only *refers* to one isn't: `secretName`, `tokenPath`.
pub fn is_credential(name: &str) -> bool {
    let words = words(name);
    let Some((last, before)) = words.split_last() else {
        return false;
    };
    // In an environment, a name is the only sign there is.
    if is_variable(name) && !ABOUT.contains(&last.as_str()) && may_be_one(&words) {
        return true;
    }
    match last.as_str() {
        "key" | "keys" => before
            .last()
            .is_some_and(|word| BEFORE_KEY.contains(&word.as_str())),
        // What a kubeconfig calls a private key.
        "data" => matches!(before, [.., key] if key == "key"),
        "string" => matches!(before, [.., connection] if connection == "connection"),
        "pass" => !before
            .last()
            .is_some_and(|word| PASSES_ON.contains(&word.as_str())),
        word => LAST.contains(&word) || STEMS.iter().any(|stem| word.ends_with(stem)),
    }
}

/// Returns whether a name is written as those of environment variables are: `SLACK_WEBHOOK_URL`.
fn is_variable(name: &str) -> bool {
    name.contains(|c: char| c.is_ascii_uppercase())
        && name
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// Returns whether something of this name may be a secret: rather one too many. For environment variables, whose
/// names are chosen freely.
pub fn may_name_a_secret(name: &str) -> bool {
    may_be_one(&words(name))
}

fn may_be_one(words: &[String]) -> bool {
    words
        .iter()
        .any(|word| LOOSE.contains(&word.as_str()) || STEMS.iter().any(|stem| word.contains(stem)))
}

/// Returns the words of a name in lower case, without digits at their ends: of `s3.accessKey2`, `s`, `access`, `key`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut previous = ' ';
    for c in name.chars() {
        let begins = !c.is_alphanumeric() || (c.is_uppercase() && previous.is_lowercase());
        if begins {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        previous = c;
    }
    words
        .iter()
        .map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned())
        .filter(|word| !word.is_empty())
        .collect()
}
