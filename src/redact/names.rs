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
    match last.as_str() {
        "key" | "keys" => before
            .last()
            .is_some_and(|word| BEFORE_KEY.contains(&word.as_str())),
        // What a kubeconfig calls a private key.
        "data" => matches!(before, [.., key] if key == "key"),
        "string" => matches!(before, [.., connection] if connection == "connection"),
        word => STEMS.iter().any(|stem| word.ends_with(stem)),
    }
}

/// Returns whether something of this name may be a secret: rather one too many. For environment variables, whose
/// names are chosen freely.
pub fn may_name_a_secret(name: &str) -> bool {
    words(name)
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
