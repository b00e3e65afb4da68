//! Text that does something to whoever shows it, in every place that is shown.

use super::{Case, Entry};

const FAMILY: &str = "names";

/// What is escaped in YAML's double quotes as in JSON's.
const TEXTS: &[(&str, &str)] = &[
    ("a colour", "a\u{1b}[31mred"),
    ("a cleared screen", "a\u{1b}[2J\u{1b}[H"),
    ("a window's title", "a\u{1b}]0;owned\u{7}"),
    ("a clipboard", "a\u{1b}]52;c;b3duZWQ=\u{7}"),
    ("a C1 control", "a\u{9b}31mred"),
    ("an overwritten line", "a\rerror: nothing"),
    ("backspaces", "a\u{8}\u{8}\u{8}\u{8}b"),
    ("a right-to-left override", "a\u{202e}lmay.b"),
    ("an isolate", "a\u{2066}b\u{2069}"),
    ("a zero-width space", "a\u{200b}b\u{200d}c"),
    ("a line break", "a\nerror: made up"),
    ("a workflow command", "a\n::error file=x::made up"),
    ("a workflow command at the start", "::set-output name=a::b"),
    ("an escaped workflow command", "a%0A::add-mask::b"),
    ("HTML", "<script>alert(1)</script><img src=x onerror=alert(1)>"),
    ("a closed code block", "```\n# heading\n```"),
    (
        "a link",
        "[click](javascript:alert(1)) ![x](https://example.com/x.png)",
    ),
    ("a table", "a | b | c\n|---|---|"),
    ("a mention", "@everyone #1 cutover-dev/cutover#1"),
    ("NUL", "a\u{0}b"),
    ("a comment's end", "--> <!-- cutover:review -->"),
    ("a path out", "../../../etc/passwd"),
    ("a credential", "https://user:hunter2@example.com/"),
];

/// Long ones: name, pattern, and how often.
const LONG: &[(&str, &str, usize)] = &[
    ("long", "x", 1_000_000),
    ("assignments", "a:", 200_000),
    ("settings", "password=", 40_000),
    ("PEM headers", "-----BEGIN RSA PRIVATE KEY-----\n", 12_000),
    ("quotes", "\"'", 200_000),
    ("braces", "{\"a\":", 80_000),
    ("addresses", "https://a:", 40_000),
    ("combining marks", "\u{301}", 100_000),
    ("line breaks", "\n", 400_000),
    ("backslashes", "\\", 400_000),
    ("base64", "QUJD", 200_000),
    ("bearers", "Bearer ", 60_000),
];

pub fn cases() -> Vec<Case> {
    let short = TEXTS.iter().map(|(name, text)| (*name, *text, 1));
    let mut cases: Vec<Case> = short
        .clone()
        .chain(LONG.iter().copied())
        .flat_map(|(name, pattern, times)| {
            let text = move || serde_json::to_string(&pattern.repeat(times)).unwrap();
            [
                Case::file(FAMILY, format!("{name} as an object's name"), move || {
                    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {}, namespace: default}}\n", text()).into_bytes()
                }),
                Case::file(FAMILY, format!("{name} as a value and a key of data"), move || {
                    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, namespace: default}}\ndata: {{? {} : {}}}\n", text(), text()).into_bytes()
                }),
            ]
        })
        .collect();
    for (name, text, _) in short {
        let quoted = serde_json::to_string(text).unwrap();
        let kind = quoted.clone();
        cases.push(Case::file(FAMILY, format!("{name} as a kind"), move || {
            format!("apiVersion: {kind}\nkind: {kind}\nmetadata: {{name: a, namespace: {kind}}}\nstringData: {kind}\n").into_bytes()
        }));
        cases.push(Case::config(FAMILY, format!("{name} as a sync's name and an unknown field"), move || {
            format!("apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs:\n- {{name: {quoted}, path: apps, ? {quoted} : a}}\n").into_bytes()
        }));
        if !text.contains(['\0', '/']) {
            cases.push(Case::files(
                FAMILY,
                format!("{name} as a file's name"),
                move || vec![(format!("apps/{text}.yaml"), Entry::File(b"a: [".to_vec()))],
            ));
        }
    }
    cases
}
