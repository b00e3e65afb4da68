//! A word from a Git host that somebody has pushed: whether it is authentic, and about the branch that is followed.
//!
//! It says no more than "look now": what was pushed is read from Git itself. So a message that is sent again costs a look and
//! does nothing else.

use http::HeaderMap;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sign::Signer;
use serde_json::Value;

use cutover_base::Secret;

/// What authentic messages are known by, and which are of interest.
#[derive(Clone, Debug)]
pub struct Hook {
    secret: Secret,
    branch: String,
}

/// What a message comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Somebody pushed to the branch, or may have.
    Push,
    /// Authentic, and about something else.
    Other,
    /// Nobody knows who sent it.
    Forged,
}

/// How a host proves that it knows the secret.
enum Proof<'a> {
    /// HMAC-SHA-256 of the body, in hexadecimal digits.
    Signature(&'a str),
    /// The secret itself.
    Token(&'a str),
}

/// Fewer characters can be guessed.
const SHORTEST: usize = 16;

impl Hook {
    /// Returns `None` when the secret is too short to be one.
    pub fn new(secret: Secret, branch: impl Into<String>) -> Option<Self> {
        (secret.reveal().trim().len() >= SHORTEST).then(|| Self {
            secret: Secret::new(secret.reveal().trim()),
            branch: branch.into(),
        })
    }

    /// Judges a message of GitHub, Gitea (and Forgejo), GitLab, Bitbucket, or of whoever signs as GitHub does.
    pub fn judge(&self, headers: &HeaderMap, body: &[u8]) -> Heard {
        let proven = match proof(headers) {
            Some(Proof::Signature(hex)) => self.signed(hex, body),
            Some(Proof::Token(token)) => equal(token.as_bytes(), self.secret.reveal().as_bytes()),
            None => false,
        };
        if !proven {
            return Heard::Forged;
        }
        if !is_push(headers) {
            return Heard::Other;
        }
        // Without a word of which branch, it may be this one.
        let Ok(message) = serde_json::from_slice::<Value>(body) else {
            return Heard::Push;
        };
        let branches = branches(&message);
        if branches.is_empty() || branches.contains(&self.branch.as_str()) {
            Heard::Push
        } else {
            Heard::Other
        }
    }

    fn signed(&self, hex: &str, body: &[u8]) -> bool {
        match (digest(self.secret.reveal(), body), unhex(hex)) {
            (Ok(digest), Some(given)) => equal(&digest, &given),
            _ => false,
        }
    }
}

fn digest(secret: &str, body: &[u8]) -> Result<Vec<u8>, openssl::error::ErrorStack> {
    let key = PKey::hmac(secret.as_bytes())?;
    let mut signer = Signer::new(MessageDigest::sha256(), &key)?;
    signer.update(body)?;
    signer.sign_to_vec()
}

/// Returns what shows that somebody who knows the secret has sent it: HMAC-SHA-256 in hexadecimal digits. `None` if the
/// cryptographic library refuses.
pub fn signature(secret: &str, body: &[u8]) -> Option<String> {
    let digest = digest(secret, body).ok()?;
    Some(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares in a time that tells nothing but the lengths.
fn equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && openssl::memcmp::eq(one, other)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// A host that signs is believed by nothing else: a token beside a signature proves nothing.
fn proof(headers: &HeaderMap) -> Option<Proof<'_>> {
    let hub = ["x-hub-signature-256", "x-hub-signature"];
    let hub = hub.iter().find_map(|name| text(headers, name));
    if let Some(signature) = hub {
        return Some(Proof::Signature(
            signature.strip_prefix("sha256=").unwrap_or_default(),
        ));
    }
    if let Some(signature) = text(headers, "x-gitea-signature") {
        return Some(Proof::Signature(signature));
    }
    text(headers, "x-gitlab-token").map(Proof::Token)
}

fn is_push(headers: &HeaderMap) -> bool {
    let events = ["x-github-event", "x-gitea-event", "x-gitlab-event", "x-event-key"];
    match events.iter().find_map(|name| text(headers, name)) {
        Some(event) => matches!(event, "push" | "Push Hook" | "repo:push" | "repo:refs_changed"),
        // Whoever signs without saying what it is about has a reason to.
        None => true,
    }
}

/// Returns the branches that a message names.
fn branches(message: &Value) -> Vec<&str> {
    let branch = |name: &'_ str| -> Option<usize> { name.strip_prefix("refs/heads/").map(str::len) };
    if let Some(name) = message["ref"].as_str() {
        // A tag is none, but is told of: an empty name is no branch's.
        return vec![branch(name).map_or("", |length| &name[name.len() - length..])];
    }
    let changes = message["push"]["changes"]
        .as_array()
        .or(message["changes"].as_array());
    let changed = changes.into_iter().flatten();
    changed
        .filter_map(|change| {
            let new = change["new"]["name"].as_str().or(change["old"]["name"].as_str());
            new.or(change["ref"]["displayId"].as_str())
        })
        .collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "It's a Secret to Everybody";
    const MAIN: &str = r#"{"ref": "refs/heads/main"}"#;

    fn hook() -> Hook {
        Hook::new(Secret::new(format!("{SECRET}\n")), "main").unwrap()
    }

    fn sign(body: &str) -> String {
        let key = PKey::hmac(SECRET.as_bytes()).unwrap();
        let mut signer = Signer::new(MessageDigest::sha256(), &key).unwrap();
        signer.update(body.as_bytes()).unwrap();
        let digest = signer.sign_to_vec().unwrap();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn judge(headers: &[(&'static str, &str)], body: &str) -> Heard {
        let headers = headers
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_str(value).unwrap(),
                )
            })
            .collect();
        hook().judge(&headers, body.as_bytes())
    }

    #[test]
    fn the_signature_is_the_one_of_githubs_documentation() {
        let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert_eq!(
            judge(&[("x-hub-signature-256", signature)], "Hello, World!"),
            Heard::Push
        );
        assert_eq!(
            judge(&[("x-hub-signature-256", signature)], "Hello, World?"),
            Heard::Forged
        );
    }

    #[test]
    fn every_host_is_understood() {
        let signed = |body: &str| format!("sha256={}", sign(body));
        let (hub, bare) = (signed(MAIN), sign(MAIN));
        assert_eq!(
            judge(&[("x-hub-signature-256", &hub), ("x-github-event", "push")], MAIN),
            Heard::Push
        );
        assert_eq!(
            judge(&[("x-gitea-signature", &bare), ("x-gitea-event", "push")], MAIN),
            Heard::Push
        );
        assert_eq!(
            judge(
                &[("x-gitlab-token", SECRET), ("x-gitlab-event", "Push Hook")],
                MAIN
            ),
            Heard::Push
        );
        let cloud = r#"{"push": {"changes": [{"new": {"type": "branch", "name": "main"}}]}}"#;
        let server = r#"{"changes": [{"ref": {"displayId": "main", "type": "BRANCH"}}]}"#;
        for (event, body) in [("repo:push", cloud), ("repo:refs_changed", server)] {
            let signature = signed(body);
            let headers = [("x-hub-signature", signature.as_str()), ("x-event-key", event)];
            assert_eq!(judge(&headers, body), Heard::Push, "{event}");
            let other = body.replace("main", "topic");
            let signature = signed(&other);
            let headers = [("x-hub-signature", signature.as_str()), ("x-event-key", event)];
            assert_eq!(judge(&headers, &other), Heard::Other, "{event}");
        }
        assert_eq!(
            judge(&[("x-hub-signature-256", &signed(""))], ""),
            Heard::Push,
            "anybody else"
        );
    }

    #[test]
    fn what_is_about_something_else_is_no_push() {
        for body in [
            r#"{"ref": "refs/heads/topic"}"#,
            r#"{"ref": "refs/tags/main"}"#,
            r#"{"ref": "main"}"#,
        ] {
            let signature = format!("sha256={}", sign(body));
            let headers = [
                ("x-hub-signature-256", signature.as_str()),
                ("x-github-event", "push"),
            ];
            assert_eq!(judge(&headers, body), Heard::Other, "{body}");
        }
        let signature = format!("sha256={}", sign(MAIN));
        let headers = [
            ("x-hub-signature-256", signature.as_str()),
            ("x-github-event", "ping"),
        ];
        assert_eq!(judge(&headers, MAIN), Heard::Other);
    }

    #[test]
    fn a_forgery_is_not_believed() {
        let wrong = format!("sha256={}", "0".repeat(64));
        for headers in [
            vec![],
            vec![("x-hub-signature-256", wrong.as_str())],
            vec![("x-hub-signature-256", "sha256=")],
            vec![("x-hub-signature-256", "sha1=757107ea")],
            vec![("x-hub-signature-256", "zz")],
            // A signature that is wrong isn't made good by a token.
            vec![
                ("x-hub-signature-256", wrong.as_str()),
                ("x-gitlab-token", SECRET),
            ],
            vec![("x-gitlab-token", "It's a Secret to Everybodz")],
            vec![("x-gitlab-token", "")],
            vec![("x-gitea-signature", "€")],
        ] {
            let headers: Vec<_> = headers
                .into_iter()
                .filter(|(_, value)| value.is_ascii())
                .collect();
            assert_eq!(judge(&headers, MAIN), Heard::Forged, "{headers:?}");
        }
        assert!(Hook::new(Secret::new("short"), "main").is_none());
        assert!(!format!("{:?}", hook()).contains("Everybody"));
    }

    const PROOFS: [&str; 4] = [
        "x-hub-signature-256",
        "x-hub-signature",
        "x-gitea-signature",
        "x-gitlab-token",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn who_does_not_know_the_secret_is_not_believed(
            body in prop::collection::vec(any::<u8>(), 0..64),
            proofs in prop::collection::vec(
                (prop::sample::select(PROOFS.to_vec()), "(sha256=|sha1=)?([0-9a-fA-F]{64}|[ -~]{0,70})"),
                0..4,
            ),
        ) {
            let headers: Vec<(&'static str, &str)> = proofs.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let text = String::from_utf8_lossy(&body);
            prop_assert_eq!(judge(&headers, &text), Heard::Forged);
        }

        /// One byte of the message or of its proof is enough.
        #[test]
        fn what_was_changed_on_its_way_is_not_believed(
            body in "[ -~]{1,80}",
            at in any::<prop::sample::Index>(),
            is_body in any::<bool>(),
        ) {
            let signature = sign(&body);
            let told = judge(&[(PROOFS[0], &format!("sha256={signature}"))], &body);
            prop_assert!(told != Heard::Forged, "{}", body);
            let change = |text: &str| {
                let mut bytes = text.as_bytes().to_vec();
                let at = at.index(bytes.len());
                bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
                String::from_utf8(bytes).unwrap()
            };
            let (body, signature) = if is_body {
                (change(&body), signature)
            } else {
                (body.clone(), change(&signature))
            };
            for name in &PROOFS[..2] {
                let told = judge(&[(*name, &format!("sha256={signature}"))], &body);
                prop_assert_eq!(told, Heard::Forged);
            }
        }

        /// Whatever a host says: a message that it signed is a look at most, and one about this branch always is.
        #[test]
        fn an_authentic_message_of_any_shape_is_judged(
            message in json(),
            names_branch in any::<bool>(),
        ) {
            let mut message = message;
            if let (true, Some(fields)) = (names_branch, message.as_object_mut()) {
                fields.insert("ref".to_owned(), "refs/heads/main".into());
            }
            let is_about_main = message["ref"] == "refs/heads/main";
            let body = message.to_string();
            let told = judge(&[(PROOFS[2], &sign(&body))], &body);
            prop_assert!(told != Heard::Forged, "{}", body);
            prop_assert!(!is_about_main || told == Heard::Push, "{}", body);
        }
    }

    /// Values with the names that hosts use, in places where they may not be.
    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "(refs/heads/)?(main|topic|[ -~]{0,6})".prop_map(Value::from),
        ];
        let name = prop::sample::select(vec![
            "ref",
            "push",
            "changes",
            "new",
            "old",
            "name",
            "displayId",
            "x",
        ]);
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(name.clone().prop_map(str::to_owned), inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }
}
