//! Trees that no `git add` makes: written byte by byte.

use std::io::Write as _;

use git2::{ObjectType, Oid, Repository};

use super::Case;

const FAMILY: &str = "trees";
const CONFIG: &str =
    "apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs: [{name: apps, path: apps, prune: true}]\n";

/// Mode, name and id.
type Line<'a> = (&'a str, Vec<u8>, Oid);

/// Writes a tree with exactly these lines, in this order.
pub fn tree(repo: &Repository, lines: &[Line<'_>]) -> Oid {
    let mut bytes = Vec::new();
    for (mode, name, id) in lines {
        bytes.extend([mode.as_bytes(), b" ", name, b"\0", id.as_bytes()].concat());
    }
    repo.odb().unwrap().write(ObjectType::Tree, &bytes).unwrap()
}

/// Writes a commit as text: libgit2 would check what it names.
pub fn commit(repo: &Repository, tree: Oid, parents: &[Oid]) -> Oid {
    let parents: String = parents
        .iter()
        .map(|parent| format!("parent {parent}\n"))
        .collect();
    let who = "A <a@example.com> 1700000000 +0000";
    let text = format!("tree {tree}\n{parents}author {who}\ncommitter {who}\n\nchange\n");
    repo.odb()
        .unwrap()
        .write(ObjectType::Commit, text.as_bytes())
        .unwrap()
}

pub fn blob(repo: &Repository, bytes: &[u8]) -> Oid {
    repo.odb().unwrap().write(ObjectType::Blob, bytes).unwrap()
}

pub fn config_map(name: &str) -> Vec<u8> {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\n").into_bytes()
}

/// A commit whose synced folder is a tree.
pub fn with_apps(repo: &Repository, apps: Oid) -> Oid {
    let config = blob(repo, CONFIG.as_bytes());
    let top = tree(
        repo,
        &[
            ("40000", b"apps".to_vec(), apps),
            ("100644", b"cutover.yaml".to_vec(), config),
        ],
    );
    commit(repo, top, &[])
}

fn apps(name: impl Into<String>, make: impl Fn(&Repository) -> Oid + Send + Sync + 'static) -> Case {
    Case::commit(FAMILY, name, move |repo| with_apps(repo, make(repo)))
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    names(&mut cases);
    modes(&mut cases);
    sizes(&mut cases);
    orders(&mut cases);
    damages(&mut cases);
    cases
}

fn names(cases: &mut Vec<Case>) {
    let names: Vec<(&str, Vec<u8>)> = vec![
        ("no name", b"".to_vec()),
        (".", b".".to_vec()),
        ("..", b"..".to_vec()),
        (".git", b".git".to_vec()),
        ("a name with a slash", b"../../x.yaml".to_vec()),
        ("a name with a backslash", b"..\\x.yaml".to_vec()),
        ("a name that is not UTF-8", b"a\xff\xfe.yaml".to_vec()),
        ("a name with a line break", b"a\n::error::b.yaml".to_vec()),
        ("a name with an escape", b"a\x1b[2J.yaml".to_vec()),
        ("a name of 5,000 bytes", vec![b'n'; 5_000]),
        ("a name of 4 MB", vec![b'n'; 4_000_000]),
        ("a name with a mark of direction", "a\u{202e}lmay.b".into()),
    ];
    for (name, bytes) in names {
        for (kind, mode) in [("file", "100644"), ("folder", "40000")] {
            let bytes = bytes.clone();
            cases.push(apps(format!("{name}, {kind}"), move |repo| {
                let file = blob(repo, &config_map("a"));
                let id = if kind == "file" {
                    file
                } else {
                    tree(repo, &[("100644", b"a.yaml".to_vec(), file)])
                };
                tree(repo, &[(mode, bytes.clone(), id)])
            }));
        }
    }
}

fn modes(cases: &mut Vec<Case>) {
    for mode in [
        "0",
        "1",
        "777777",
        "37777777777",
        "777777777777777777777",
        "100777",
        "160000",
        "120000",
        "-1",
        "",
        "8",
    ] {
        cases.push(apps(format!("the mode {mode:?}"), move |repo| {
            let file = blob(repo, &config_map("a"));
            tree(repo, &[(mode, b"a.yaml".to_vec(), file)])
        }));
    }
    for target in ["/dev/zero", "../../../etc/passwd", "a.yaml", ".", ""] {
        cases.push(apps(format!("a link to {target:?}"), move |repo| {
            let file = blob(repo, target.as_bytes());
            tree(repo, &[("120000", b"a.yaml".to_vec(), file)])
        }));
    }
    cases.push(apps("a link with a target of 4 MB", |repo| {
        let file = blob(repo, &vec![b'/'; 4_000_000]);
        tree(repo, &[("120000", b"a.yaml".to_vec(), file)])
    }));
    cases.push(apps("a folder that is a file", |repo| {
        tree(repo, &[("40000", b"a".to_vec(), blob(repo, b"text"))])
    }));
    cases.push(apps("a file that is a folder", |repo| {
        let inside = tree(repo, &[]);
        tree(repo, &[("100644", b"a.yaml".to_vec(), inside)])
    }));
}

/// A tree that lies in itself: under so many names, so deep.
pub fn nested(repo: &Repository, names: usize, depth: usize) -> Oid {
    let mut inside = blob(repo, &config_map("a"));
    let mut mode = "100644";
    for _ in 0..depth {
        let lines: Vec<_> = (0..names)
            .map(|name| (mode, format!("{name:06}.yaml").into_bytes(), inside))
            .collect();
        inside = tree(repo, &lines);
        mode = "40000";
    }
    inside
}

fn sizes(cases: &mut Vec<Case>) {
    for (names, depth) in [
        (1, 60),
        (1, 100),
        (1, 12_000),
        (2, 60),
        (10, 9),
        (10, 40),
        (100, 4),
        (1_000, 2),
        (50_001, 1),
        (200_000, 1),
    ] {
        cases.push(apps(format!("{names} names, {depth} deep"), move |repo| {
            nested(repo, names, depth)
        }));
    }
    for (bytes, names) in [(3_900_000, 40), (3_900_000, 400), (100_000, 5_000), (20, 49_000)] {
        cases.push(apps(format!("{bytes} bytes under {names} names"), move |repo| {
            let mut text = config_map("a");
            text.extend(b"data: {a: ");
            text.resize(bytes.max(60), b'x');
            text.push(b'}');
            let file = blob(repo, &text);
            let lines: Vec<_> = (0..names)
                .map(|name| ("100644", format!("{name:06}.yaml").into_bytes(), file))
                .collect();
            tree(repo, &lines)
        }));
    }
    // The last is more than a command may take of memory.
    for megabytes in [5, 64, 600] {
        cases.push(apps(format!("a file of {megabytes} MiB of zeros"), move |repo| {
            let file = blob(repo, &vec![0; megabytes << 20]);
            tree(repo, &[("100644", b"a.yaml".to_vec(), file)])
        }));
    }
    cases.push(Case::commit(FAMILY, "cutover.yaml of 64 MiB of zeros", |repo| {
        let file = blob(repo, &vec![0; 64 << 20]);
        let top = tree(repo, &[("100644", b"cutover.yaml".to_vec(), file)]);
        commit(repo, top, &[])
    }));
}

fn orders(cases: &mut Vec<Case>) {
    let orders: [(&str, &[(&str, &str)]); 6] = [
        ("a name twice", &[("100644", "a.yaml"), ("100644", "a.yaml")]),
        (
            "a name as file and folder",
            &[("100644", "a.yaml"), ("40000", "a.yaml")],
        ),
        (
            "a name as folder and file",
            &[("40000", "a.yaml"), ("100644", "a.yaml")],
        ),
        (
            "names out of order",
            &[("100644", "z.yaml"), ("100644", "a.yaml"), ("40000", "m")],
        ),
        (
            "names that differ by case",
            &[("100644", "A.yaml"), ("100644", "a.yaml")],
        ),
        (
            "names that differ by composition",
            &[("100644", "e\u{301}.yaml"), ("100644", "\u{e9}.yaml")],
        ),
    ];
    for (name, lines) in orders {
        cases.push(apps(name, |repo| {
            let lines: Vec<_> = lines
                .iter()
                .enumerate()
                .map(|(place, (mode, name))| {
                    let file = blob(repo, &config_map(&format!("a{place}")));
                    let id = if *mode == "40000" {
                        tree(repo, &[("100644", b"b.yaml".to_vec(), file)])
                    } else {
                        file
                    };
                    (*mode, name.as_bytes().to_vec(), id)
                })
                .collect();
            tree(repo, &lines)
        }));
    }
    for (name, config) in [("cutover.yaml twice", "cutover.yaml"), ("apps twice", "apps")] {
        cases.push(Case::commit(FAMILY, name, move |repo| {
            let file = blob(repo, CONFIG.as_bytes());
            let folder = tree(
                repo,
                &[("100644", b"a.yaml".to_vec(), blob(repo, &config_map("a")))],
            );
            let mut lines = vec![
                ("40000", b"apps".to_vec(), folder),
                ("100644", b"cutover.yaml".to_vec(), file),
            ];
            let twice = lines
                .iter()
                .find(|line| line.1 == config.as_bytes())
                .unwrap()
                .clone();
            lines.push(twice);
            let top = tree(repo, &lines);
            commit(repo, top, &[])
        }));
    }
}

fn loose(repo: &Repository, id: Oid) -> std::path::PathBuf {
    let id = id.to_string();
    repo.path().join("objects").join(&id[..2]).join(&id[2..])
}

fn damages(cases: &mut Vec<Case>) {
    let missing = || Oid::from_str(&"3".repeat(40)).unwrap();
    cases.push(apps("a file is missing", move |repo| {
        tree(repo, &[("100644", b"a.yaml".to_vec(), missing())])
    }));
    cases.push(apps("a folder is missing", move |repo| {
        tree(repo, &[("40000", b"a".to_vec(), missing())])
    }));
    cases.push(apps("the synced folder is missing", move |_| missing()));
    cases.push(Case::commit(
        FAMILY,
        "the commit's tree is missing",
        move |repo| commit(repo, missing(), &[]),
    ));
    cases.push(Case::commit(FAMILY, "the commit's tree is a file", |repo| {
        commit(repo, blob(repo, b"text"), &[])
    }));
    cases.push(Case::commit(FAMILY, "the commit is missing", move |_| missing()));
    cases.push(Case::commit(FAMILY, "the commit is a file", |repo| {
        blob(repo, b"text")
    }));
    cases.push(Case::commit(FAMILY, "the commit is a tree", |repo| {
        tree(repo, &[])
    }));
    let ways: [(&str, fn(&mut Vec<u8>)); 4] = [
        ("empty", Vec::clear),
        ("cut off", |bytes| bytes.truncate(bytes.len() / 2)),
        ("changed", |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x55;
        }),
        ("garbage", |bytes| *bytes = vec![0x78; 4_000]),
    ];
    for (name, damage) in ways {
        for what in ["file", "folder", "commit"] {
            cases.push(Case::commit(
                FAMILY,
                format!("the object of a {what} is {name}"),
                move |repo| {
                    let file = blob(repo, &config_map("a"));
                    let folder = tree(repo, &[("100644", b"a.yaml".to_vec(), file)]);
                    let tip = with_apps(repo, folder);
                    let place = loose(
                        repo,
                        match what {
                            "file" => file,
                            "folder" => folder,
                            _ => tip,
                        },
                    );
                    let mut bytes = std::fs::read(&place).unwrap();
                    damage(&mut bytes);
                    std::fs::remove_file(&place).unwrap();
                    std::fs::File::create(&place).unwrap().write_all(&bytes).unwrap();
                    tip
                },
            ));
        }
    }
    for bytes in [
        "100644 a.yaml",
        "100644 a.yaml\0short",
        "\0\0\0\0",
        "100644\0",
        " ",
    ] {
        cases.push(apps(format!("a tree of {bytes:?}"), move |repo| {
            repo.odb()
                .unwrap()
                .write(ObjectType::Tree, bytes.as_bytes())
                .unwrap()
        }));
    }
}

/// Used by other families: a commit of ordinary files.
pub fn ordinary(repo: &Repository, parents: &[Oid]) -> Oid {
    let file = blob(repo, &config_map("a"));
    let folder = tree(repo, &[("100644", b"a.yaml".to_vec(), file)]);
    let config = blob(repo, CONFIG.as_bytes());
    let top = tree(
        repo,
        &[
            ("40000", b"apps".to_vec(), folder),
            ("100644", b"cutover.yaml".to_vec(), config),
        ],
    );
    commit(repo, top, parents)
}
