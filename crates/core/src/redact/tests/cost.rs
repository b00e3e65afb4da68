//! Redaction takes time that grows with the length of a text and no faster, and finds what a slow search finds.

use std::ops::Range;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use regex::Regex;
use serde_json::json;

use super::super::{Secrets, assign, kept, names::is_credential, pair, text};

const LENGTH: usize = 1 << 20;

/// Longer than any takes on a slow machine without optimisation, and a fraction of what a quadratic one takes.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn no_text_of_a_megabyte_takes_long() {
    let parts = [
        "-----BEGIN PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN ",
        "a:",
        "password:",
        "password: ",
        "password=\"",
        "password='",
        "password=\\\"",
        "password=\"\\",
        "://",
        "://a:",
        "://a@",
        "://a:b/",
        "x:eyJaaaaaaaa.aaaa|",
        "eyJ",
        "basic ",
        "authorization:",
        "cookie ",
        "<name>token</name> ",
        "<a>",
        "{",
        "{}",
        "{kind: Secret, ",
        "{name: token, ",
        "- ",
        "kind: Secret\n",
        "- kind: Secret\n",
        "key: a\n",
        "name: token\nvalue: a\n",
        "password: |\n",
        "password:\n a\n",
        "machine a ",
        "login a ",
        "-u a",
        "--token ",
        "token a\n",
        "a:11:",
        "a:11:a:a:a ",
        "?sig=",
        "LS0tLS1CRUdJTi",
        "ghp_",
        "aB",
        " ",
        "\n",
        "\\",
        "é:",
        "***",
        "\"",
        "auth-pass a ",
    ];
    let mut texts: Vec<String> = parts
        .iter()
        .map(|part| part.repeat(LENGTH / part.len()))
        .collect();
    texts.push(
        (0..1400)
            .map(|depth| format!("{}a:\n", " ".repeat(depth)))
            .collect(),
    );
    texts.push(
        (0..1400)
            .map(|depth| format!("password={}\"", "\\".repeat(depth + 1)))
            .collect(),
    );
    for words in texts {
        let begin = Instant::now();
        let _ = text(&words);
        let object = json!({"metadata": {"name": words.as_str()}, "data": {words.as_str(): words.as_str()}});
        let _ = kept(&object);
        let took = begin.elapsed();
        assert!(took < LIMIT, "{took:?} for {:?}…", &words[..words.len().min(30)]);
    }
}

#[test]
fn no_object_of_many_secrets_takes_long() {
    let data: serde_json::Map<String, serde_json::Value> = (0..50_000)
        .map(|number| (format!("k{number}"), json!(format!("aaaaaaaa{number}"))))
        .collect();
    let object =
        json!({"kind": "Secret", "data": data, "list": vec![json!({"name": "token", "value": "a"}); 20_000]});
    let begin = Instant::now();
    let _ = pair(&object, &object);
    let _ = Secrets::of([&object]).scrub(&"a".repeat(LENGTH));
    assert!(begin.elapsed() < LIMIT, "{:?}", begin.elapsed());
}

#[test]
fn of_a_long_message_the_beginning_is_shown_without_halves_of_secrets() {
    let secret = "s3cret".repeat(5000);
    let object = json!({"kind": "Secret", "data": {"a": secret}});
    let words = format!("refused: {secret}");
    let shown = Secrets::of([&object]).scrub(&words);
    assert!(
        shown.ends_with(&format!("… ({} bytes in all)", words.len())),
        "{shown}"
    );
    assert!(!shown.contains("s3cret"), "{shown}");
    let words = format!("{} {secret}", "é".repeat(4090));
    assert!(!Secrets::of([&object]).scrub(&words).contains("s3cret"));
}

/// The obvious search, which reads the rest of the text anew at each sign.
fn slowly(words: &str) -> Vec<Range<usize>> {
    let name = Regex::new(r#"([A-Za-z0-9_.-]*)["']?\s*$"#).unwrap();
    let value =
        Regex::new(r#"^\s*(?:"([^"]*)"|"([^"\n\r]*)|'([^']*)'|'([^'\n\r]*)|([^\s&;,"'}\])]+))"#).unwrap();
    let mut found = Vec::new();
    let mut from = 0;
    for (sign, _) in words.match_indices([':', '=']) {
        if sign < from {
            continue;
        }
        let before = &words[from..sign];
        from = sign + 1;
        let rest = &words[sign + 1..];
        let Some(value) = value.captures(rest) else {
            continue;
        };
        let name = name.captures(before).unwrap();
        let group = (1..6).find_map(|group| value.get(group)).unwrap();
        let bare = value.get(5).map(|bare| bare.as_str());
        let below = bare.is_some_and(|bare| rest[..group.start()].contains('\n') && bare.ends_with(':'));
        let punctuation = bare.is_some() && rest.starts_with(char::is_whitespace);
        if is_credential(&name[1]) && !below && !punctuation {
            found.push(sign + 1 + group.start()..sign + 1 + group.end());
            from = sign + 1 + group.end();
        }
    }
    found
}

proptest! {
    #[test]
    fn settings_are_found_as_by_a_slow_search(
        words in prop::collection::vec(
            prop::sample::select(vec!["token", "a", "b-token", "DB_PASS", ":", "=", " ", "\n", "\"", "'", ",", "}", "é", "x1"]),
            0..24,
        )
    ) {
        let words = words.concat();
        prop_assert_eq!(assign::told(&words), slowly(&words), "{:?}", words);
    }

    #[test]
    fn a_setting_is_hidden_whatever_is_around_it(before in "[ -~\n]{0,40}", after in "[ -~\n]{0,40}") {
        let words = format!("{before}\npassword: hunter2\n{after}");
        let shown = kept(&json!({"a": words})).to_string();
        prop_assert!(!shown.contains("hunter2"), "{}", shown);
    }
}
