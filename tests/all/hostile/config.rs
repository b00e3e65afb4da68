//! `cutover.yaml`: whoever pushes writes it, and every command reads it first.

use super::{Case, Entry};

const FAMILY: &str = "config";
/// What every `cutover.yaml` begins with.
pub const HEAD: &str = "apiVersion: cutover.dev/v1alpha1\nkind: Config\n";

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    entries(&mut cases);
    chains(&mut cases);
    syncs(&mut cases);
    contents(&mut cases);
    cases
}

fn config(name: impl Into<String>, body: impl Fn() -> String + Send + Sync + 'static) -> Case {
    Case::config(FAMILY, name, move || format!("{HEAD}{}", body()).into_bytes())
}

fn entries(cases: &mut Vec<Case>) {
    for target in [
        "/dev/zero",
        "/dev/stdin",
        "/dev/tty",
        "/etc/passwd",
        "/proc/self/environ",
        "apps/zz-secret.yaml",
        "cutover.yaml",
        "nowhere",
        "..",
        ".git/config",
    ] {
        let make = move || vec![("cutover.yaml".to_owned(), Entry::Link(target.to_owned()))];
        cases.push(Case::files(FAMILY, format!("a link to {target}"), make).refused());
    }
    cases.push(
        Case::files(FAMILY, "a folder", || {
            vec![("cutover.yaml/cutover.yaml".to_owned(), Entry::File(HEAD.into()))]
        })
        .refused(),
    );
    for target in ["/dev/zero", "/", "..", ".", "/proc/self/root", "apps/a.yaml"] {
        let make = move || vec![("apps/a.yaml".to_owned(), Entry::Link(target.to_owned()))];
        cases.push(Case::files(FAMILY, format!("a synced file is a link to {target}"), make).refused());
        let make = move || {
            vec![
                (
                    "cutover.yaml".to_owned(),
                    Entry::File(format!("{HEAD}syncs: [{{name: a, path: link}}]\n").into_bytes()),
                ),
                ("link".to_owned(), Entry::Link(target.to_owned())),
            ]
        };
        cases.push(Case::files(
            FAMILY,
            format!("a synced folder is a link to {target}"),
            make,
        ));
    }
    for path in ["cutover.yaml", "apps/a.yaml"] {
        let make = move || vec![(path.to_owned(), Entry::Hole(3 << 29))];
        cases.push(Case::files(FAMILY, format!("{path} of 1.5 GiB"), make).refused());
    }
}

fn chains(cases: &mut Vec<Case>) {
    for count in [100, 500, 501, 3_000, 50_000] {
        let shapes: [(&str, fn(usize, usize) -> String); 4] = [
            ("apart", |_, _| String::new()),
            ("in a chain", |sync, _| {
                if sync == 0 {
                    String::new()
                } else {
                    format!("s{}", sync - 1)
                }
            }),
            ("in a ring", |sync, count| format!("s{}", (sync + 1) % count)),
            ("each on its 50 before", |sync, _| {
                (sync.saturating_sub(50)..sync)
                    .map(|before| format!("s{before}, "))
                    .collect()
            }),
        ];
        for (name, shape) in shapes {
            let body = move || {
                let syncs = (0..count).map(|sync| {
                    format!(
                        "- {{name: s{sync}, path: apps/{sync}, dependsOn: [{}]}}\n",
                        shape(sync, count)
                    )
                });
                format!("syncs:\n{}", syncs.collect::<String>())
            };
            let case = config(format!("{count} syncs {name}"), body);
            cases.push(if count > 500 || name == "in a ring" {
                case.refused()
            } else {
                case
            });
        }
    }
}

fn syncs(cases: &mut Vec<Case>) {
    cases.push(config("syncs in each other", || {
        let syncs = (0..200).map(|depth| format!("- {{name: s{depth}, path: apps{}}}\n", "/d".repeat(depth)));
        format!("syncs:\n{}", syncs.collect::<String>())
    }));
    cases.push(config("500 syncs of one folder", || {
        let syncs = (0..500).map(|sync| format!("- {{name: s{sync}, path: apps}}\n"));
        format!("syncs:\n{}", syncs.collect::<String>())
    }));
    cases.push(
        config("500 syncs of one name", || {
            format!("syncs:\n{}", "- {name: a, path: apps}\n".repeat(500))
        })
        .refused(),
    );
    for path in [
        "..",
        "/",
        "/etc",
        "apps/../..",
        "apps//b",
        "~",
        ".git",
        "\\\\host",
        "C:\\",
        "*",
    ] {
        let text = serde_json::to_string(path).unwrap();
        cases.push(config(format!("a sync of {path}"), move || {
            format!("syncs: [{{name: a, path: {text}}}]\n")
        }));
    }
    for (name, pattern) in [
        ("stars", "**/".repeat(2_000)),
        ("stars in names", "*a".repeat(2_000)),
        ("question marks", "?".repeat(100_000)),
        ("brackets", "[".repeat(100_000)),
        ("braces", "{a,".repeat(20_000)),
    ] {
        let text = serde_json::to_string(&pattern).unwrap();
        let make = move || {
            vec![
                (
                    "cutover.yaml".to_owned(),
                    Entry::File(
                        format!("{HEAD}syncs: [{{name: a, path: apps, exclude: [{text}]}}]\n").into_bytes(),
                    ),
                ),
                (
                    format!("apps/{}x.yaml", "a/".repeat(60)),
                    Entry::File(b"a: [".to_vec()),
                ),
                (
                    format!("apps/{}b.yaml", "a".repeat(240)),
                    Entry::File(b"a: [".to_vec()),
                ),
            ]
        };
        cases.push(Case::files(FAMILY, format!("a pattern of {name}"), make));
    }
    cases.push(config("20,000 patterns", || {
        format!(
            "syncs: [{{name: a, path: apps, exclude: [{}]}}]\n",
            "'**/a*b*c*d',".repeat(20_000)
        )
    }));
    cases.push(config("differences ignored by 20,000 pointers", || {
        format!(
            "syncs: [{{name: a, path: apps, drift: {{ignore: [{{pointers: [{}]}}]}}}}]\n",
            "/a/b/c,".repeat(20_000)
        )
    }));
}

fn contents(cases: &mut Vec<Case>) {
    for (name, body) in [
        ("a list", "- a\n"),
        ("an interval of no time", "interval: 0s\n"),
        ("an interval of centuries", "interval: 99999999999999999999h\n"),
        ("a negative interval", "interval: -1s\n"),
        (
            "a status branch that is the synced one",
            "status: {branch: main, keepDays: 1}\n",
        ),
        (
            "a status branch with an option's name",
            "status: {branch: --upload-pack=id}\n",
        ),
        ("a status branch that is a path", "status: {branch: ../../x}\n"),
        ("no days of status", "status: {keepDays: 0}\n"),
        (
            "too many days of status",
            "status: {keepDays: 99999999999999999999}\n",
        ),
        ("a number as a sync", "syncs: 5\n"),
        ("a sync of nothing", "syncs: [~, {}, []]\n"),
        ("a limit", "limits: {file-bytes: 1Gi}\n"),
        ("a second document", "---\napiVersion: v1\n"),
    ] {
        cases.push(config(name, || body.to_owned()));
    }
    for count in [100, 100_000] {
        cases.push(
            config(format!("{count} unknown fields"), move || {
                (0..count).map(|field| format!("f{field}: 1\n")).collect()
            })
            .refused(),
        );
    }
}
