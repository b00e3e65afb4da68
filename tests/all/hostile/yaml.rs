//! Files that a YAML parser could choke on: as objects, and some as `cutover.yaml`.

use std::fmt::Write as _;

use super::config::HEAD as CONFIG;
use super::{Case, Entry};

const FAMILY: &str = "yaml";
const HEAD: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\ndata:\n";

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    aliases(&mut cases);
    nesting(&mut cases);
    scalars(&mut cases);
    documents(&mut cases);
    keys(&mut cases);
    items(&mut cases);
    findings(&mut cases);
    tags(&mut cases);
    encodings(&mut cases);
    numbers(&mut cases);
    cases
}

fn object(name: String, body: impl Fn() -> String + Send + Sync + 'static) -> Case {
    Case::file(FAMILY, name, move || format!("{HEAD}{}", body()).into_bytes())
}

type Bomb = fn(usize) -> String;

/// What grows out of so many bytes.
const BOMBS: &[(&str, Bomb)] = &[
    ("a long text many times", |bytes| {
        let (half, times) = (bytes / 2, bytes / 8);
        format!(
            "  a: &a \"{}\"\n  b: [{}]\n",
            "x".repeat(half),
            "*a, ".repeat(times)
        )
    }),
    ("aliases of aliases", |bytes| {
        let levels = 9;
        let wide = (bytes / levels / 5).max(2);
        let mut text = "  l0: &l0 [x, x]\n".to_owned();
        for level in 1..levels {
            let _ = writeln!(
                text,
                "  l{level}: &l{level} [{}]",
                format!("*l{}, ", level - 1).repeat(wide)
            );
        }
        text
    }),
    ("anchors in anchors", |bytes| {
        let depth = (bytes / 8).min(90);
        let mut text = "  a: ".to_owned();
        for level in 0..depth {
            let _ = write!(text, "&a{level} [");
        }
        text.push_str(&"x, ".repeat(bytes / 6));
        text.push_str(&"]".repeat(depth));
        let _ = writeln!(
            text,
            "\n  b: [{}]",
            (0..depth).map(|level| format!("*a{level}, ")).collect::<String>()
        );
        text
    }),
    ("merge keys", |bytes| {
        let fields: String = (0..bytes / 20).map(|field| format!("f{field}: v, ")).collect();
        let merges: String = (0..bytes / 20)
            .map(|merge| format!("  m{merge}: {{<<: *a}}\n"))
            .collect();
        format!("  a: &a {{{fields}}}\n{merges}")
    }),
    ("keys that are aliases", |bytes| {
        let key = "k".repeat(bytes / 2);
        let uses: String = (0..bytes / 12).map(|_| "  - {*a : 1}\n").collect();
        format!("  a: &a \"{key}\"\n  b:\n{uses}")
    }),
];

fn aliases(cases: &mut Vec<Case>) {
    for (name, bomb) in BOMBS {
        for bytes in [2_000, 20_000, 80_000, 400_000, 3_000_000] {
            cases.push(object(format!("{name}, {bytes} bytes"), move || bomb(bytes)));
        }
        for bytes in [20_000, 400_000] {
            let name = format!("{name}, {bytes} bytes in cutover.yaml");
            let make = move || format!("{CONFIG}notes:\n{}", bomb(bytes)).into_bytes();
            cases.push(Case::config(FAMILY, name, make).refused());
        }
    }
}

fn nesting(cases: &mut Vec<Case>) {
    for depth in [90, 101, 5_000, 400_000] {
        let styles: [(&str, fn(usize) -> String); 4] = [
            ("sequences", |depth| {
                format!("  a: {}{}\n", "[".repeat(depth), "]".repeat(depth))
            }),
            ("mappings", |depth| {
                format!("  a: {}{}\n", "{a: ".repeat(depth), "}".repeat(depth))
            }),
            ("dashes", |depth| format!("  a:\n  {}x\n", "- ".repeat(depth))),
            ("open sequences", |depth| format!("  a: {}\n", "[".repeat(depth))),
        ];
        for (name, style) in styles {
            let case = object(format!("{name}, {depth} deep"), move || style(depth));
            cases.push(if depth > 100 { case.refused() } else { case });
        }
    }
    for depth in [90, 400, 1_500] {
        cases.push(object(format!("indented, {depth} deep"), move || {
            (1..depth)
                .map(|level| format!("{}a:\n", " ".repeat(level)))
                .collect()
        }));
    }
}

fn scalars(cases: &mut Vec<Case>) {
    let styles: [(&str, fn(usize) -> String); 6] = [
        ("plain", |length| format!("  a: {}\n", "x".repeat(length))),
        ("quoted", |length| {
            format!("  a: \"{}\"\n", "\\u00e9".repeat(length / 6))
        }),
        ("literal", |length| {
            format!("  a: |\n{}", "    line\n".repeat(length / 9))
        }),
        ("folded", |length| {
            format!("  a: >\n{}", "    line\n".repeat(length / 9))
        }),
        ("as a key", |length| format!("  {}: a\n", "x".repeat(length))),
        ("as a comment", |length| {
            format!("  a: b # {}\n", "x".repeat(length))
        }),
    ];
    for (name, style) in styles {
        for length in [70_000, 1_000_000, 4_000_000, 6_000_000] {
            cases.push(object(format!("a scalar {name}, {length} long"), move || {
                style(length)
            }));
        }
    }
}

fn documents(cases: &mut Vec<Case>) {
    let kinds: [(&str, fn(usize) -> String); 3] = [
        ("empty", |_| "---\n".to_owned()),
        ("not objects", |_| "--- a\n".to_owned()),
        ("config maps", |number| {
            format!(
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a{number}, namespace: default}}\n"
            )
        }),
    ];
    for (name, kind) in kinds {
        for count in [100, 9_999, 10_001, 50_000] {
            if kind(0).len() > 10 && count == 9_999 {
                // On the way to an API server that is one request each.
                continue;
            }
            cases.push(Case::file(
                FAMILY,
                format!("{count} documents, {name}"),
                move || (0..count).map(kind).collect::<String>().into_bytes(),
            ));
        }
    }
}

fn keys(cases: &mut Vec<Case>) {
    for count in [10_000, 100_000, 260_000] {
        cases.push(object(format!("{count} keys"), move || {
            (0..count).map(|key| format!("  k{key}: v\n")).collect()
        }));
        cases.push(object(format!("{count} times one key"), move || "  k: v\n".repeat(count)).refused());
        cases.push(
            Case::file(FAMILY, format!("{count} unknown fields"), move || {
                let fields: String = (0..count).map(|key| format!("  f{key}: v\n")).collect();
                format!("apiVersion: cutover.dev/v1alpha1\nkind: Migration\nmetadata: {{name: a}}\nspec:\n{fields}").into_bytes()
            })
            .refused(),
        );
    }
}

/// Items that are told apart by their names: of each, what is recorded and what is there have to be found.
fn items(cases: &mut Vec<Case>) {
    for count in [1_000, 20_000] {
        cases.push(Case::file(FAMILY, format!("{count} items with names"), move || {
            let items: String = (0..count)
                .map(|item| format!("        - {{name: v{item}, value: x}}\n"))
                .collect();
            format!(
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a, namespace: default}}\nspec:\n  \
                 selector: {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b}}}}\n    spec:\n      \
                 containers:\n      - name: a\n        image: a\n        env:\n{items}"
            )
            .into_bytes()
        }));
    }
}

fn findings(cases: &mut Vec<Case>) {
    for errors in [20, 9_999] {
        for count in [1, 50, 200] {
            let name = format!("{errors} errors in each of {count} files");
            let make = move || {
                let text = "--- a\n".repeat(errors);
                (0..count)
                    .map(|file| {
                        (
                            format!("apps/f{file}.yaml"),
                            Entry::File(text.clone().into_bytes()),
                        )
                    })
                    .collect()
            };
            cases.push(Case::files(FAMILY, name, make).refused());
        }
    }
}

fn tags(cases: &mut Vec<Case>) {
    for tag in [
        "!!binary aGVsbG8=",
        "!!python/object/apply:os.system [id]",
        "!!set {a, b}",
        "!!timestamp 2001-01-01",
        "!!int text",
        "!<tag:yaml.org,2002:str> 1",
        "! ! a",
        "!include /etc/passwd",
    ] {
        cases.push(object(format!("the tag {tag}"), move || format!("  a: {tag}\n")));
    }
    cases.push(object("a long tag".to_owned(), || {
        format!("  a: !{} b\n", "t".repeat(1_000_000))
    }));
    cases.push(object("many tags".to_owned(), || "  - !t a\n".repeat(100_000)));
    cases.push(Case::file(FAMILY, "many directives", || {
        format!("{}---\na: b\n", "%TAG !e! tag:e,2000:\n".repeat(50_000)).into_bytes()
    }));
}

fn encodings(cases: &mut Vec<Case>) {
    let plain = || format!("{HEAD}  a: b\n");
    let wide = |big: bool| {
        let units = format!("\u{feff}{HEAD}  a: b\n");
        let bytes = units.encode_utf16().map(move |unit| {
            if big {
                unit.to_be_bytes()
            } else {
                unit.to_le_bytes()
            }
        });
        bytes.flatten().collect::<Vec<u8>>()
    };
    let contents: Vec<(&str, Vec<u8>)> = vec![
        ("a byte order mark", format!("\u{feff}{}", plain()).into_bytes()),
        (
            "two byte order marks",
            format!("\u{feff}\u{feff}{}", plain()).into_bytes(),
        ),
        ("UTF-16, little end first", wide(false)),
        ("UTF-16, big end first", wide(true)),
        ("half a UTF-16", wide(false)[..41].to_vec()),
        ("Latin-1", [plain().as_bytes(), b"  c: \xe9\xe8\n"].concat()),
        (
            "overlong UTF-8",
            [plain().as_bytes(), b"  c: \xc0\xaf\n"].concat(),
        ),
        (
            "a surrogate",
            [plain().as_bytes(), b"  c: \xed\xa0\x80\n"].concat(),
        ),
        (
            "an escaped surrogate",
            format!("{}  c: \"\\ud800\"\n", plain()).into_bytes(),
        ),
        ("NUL", [plain().as_bytes(), b"  c: a\0b\n"].concat()),
        ("nothing but NUL", vec![0; 3_000_000]),
        ("nothing but 0xff", vec![0xff; 3_000_000]),
        ("line ends of old Macs", plain().replace('\n', "\r").into_bytes()),
        (
            "a Unicode line end",
            plain().replace("  a", "\u{2028}  a").into_bytes(),
        ),
        ("tabs", plain().replace("  a", "\ta").into_bytes()),
        ("nothing but spaces", vec![b' '; 4_000_000]),
        ("nothing but line ends", vec![b'\n'; 4_000_000]),
        ("nothing but dashes", b"- ".repeat(2_000_000)),
        ("nothing but question marks", b"? ".repeat(1_000_000)),
        ("nothing but colons", b": ".repeat(1_000_000)),
        ("nothing but quotes", vec![b'"'; 4_000_000]),
        ("nothing but anchors", b"&a ".repeat(1_000_000)),
        ("nothing but commas", vec![b','; 4_000_000]),
    ];
    for (name, bytes) in contents {
        cases.push(Case::file(FAMILY, name, move || bytes.clone()));
    }
}

fn numbers(cases: &mut Vec<Case>) {
    let long = "9".repeat(100_000);
    let numbers = [
        "1e999999999",
        "-1e999999999",
        "1e-999999999",
        "-0",
        ".nan",
        "-.inf",
        "0x",
        "0o9",
        "1_000",
        "190:20:30",
        "18446744073709551616",
        "-9223372036854775809",
        "0.1e",
        "1.",
        "+1",
        &long,
    ];
    for number in numbers {
        let text = format!("{HEAD}  a: b\nspec: {{replicas: {number}, {number}: a}}\n");
        let name: String = number.chars().take(24).collect();
        cases.push(Case::file(FAMILY, format!("the number {name}"), move || {
            text.clone().into_bytes()
        }));
    }
}
