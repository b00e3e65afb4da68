//! The documentation: every link leads somewhere, every page that the code names exists, and no page, help, description of a
//! field, message of the fence or of the program uses a phrase that has a plainer one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cutover::generated;
use serde_json::Value;

/// Decisions are a record of their time: their links are checked, their words stay.
const RECORDS: &str = "docs/decisions/";

/// Phrases that make a reader stop, and what to write instead. They are looked for in prose, not in code.
const PHRASES: &[(&str, &str)] = &[
    ("a hundred at once", "100 concurrent"),
    ("a person must look", "manual intervention required: <what>"),
    ("anew", "again, or a verb such as recreate, restart, redistribute"),
    ("are said", "are reported"),
    ("are told", "are reported, or: get"),
    ("as things are", "currently"),
    ("can't be had", "is not available"),
    ("comes to nothing", "fails, or: has no effect"),
    ("fare", "a noun: status, result"),
    ("fares", "a noun: status, result"),
    ("foretell", "predict, preview"),
    ("foretold", "predicted"),
    ("has its way", "takes effect"),
    ("has not the", "does not have the, does not carry the"),
    ("how-manieth", "which"),
    ("in mid-flight", "during the operation"),
    ("in vain", "without effect"),
    ("is foretold", "is predicted"),
    ("is said", "is reported"),
    ("is told", "is reported, or: gets"),
    ("it is looked", "cutover checks"),
    ("kept back", "held"),
    ("mend", "fix"),
    ("mended", "fixed"),
    ("mends", "fixes"),
    ("news wake", "a change wakes"),
    ("nobody", "name what is missing: no cluster, no reconciler"),
    ("somebody", "name the actor: a user, another tool"),
    ("stand in the way", "block"),
    ("stands in its way", "blocks it"),
    ("stands in the way", "blocks"),
    ("was over at", "ended at"),
    ("was told", "was reported, or: got"),
    ("were told", "were reported, or: got"),
];

/// Phrases that are looked for in the messages of the program alone.
const MESSAGES: &[(&str, &str)] = &[
    ("at present", "currently"),
    ("can say so", "confirm it"),
    ("can't be looked into", "cannot be observed"),
    ("cannot be told", "is not known"),
    ("could not be looked into", "could not be observed"),
    ("could not be told", "was not known"),
    ("everybody", "name the actors: every cluster, every client"),
    ("for the time of the", "for the duration of the"),
    ("in hand", "has claimed"),
    ("is taken for", "is treated as"),
    ("looked for", "looked up"),
    ("makes no sense", "cannot be understood"),
    ("not obeyed", "has no effect"),
    ("of before", "previous, old"),
    ("see to it", "make sure"),
    ("take it up", "claim it"),
    ("take the workload up", "claim the workload"),
    ("taken to be", "counts as"),
    ("takes it up", "claims it"),
    ("takes the workload up", "claims the workload"),
    ("who knows", "if you know that"),
];

/// Names that were replaced by the terms of the field, and don't come back: of functions, types, traits and modules.
const REPLACED_NAMES: &[&str] = &[
    "Aim",
    "Board",
    "Brake",
    "Came",
    "Crew",
    "Dress",
    "Failing",
    "Glance",
    "Manner",
    "MovingMany",
    "Nobody",
    "Point",
    "Policing",
    "Quiet",
    "Room",
    "Shelf",
    "Spared",
    "Tenure",
    "Thing",
    "To",
    "Together",
    "Traveller",
    "Witness",
    "ailing",
    "anew",
    "come",
    "dress",
    "foretell",
    "glance",
    "hands",
    "happenings",
    "has_its_way",
    "hears",
    "hire",
    "homeless",
    "interest",
    "manner",
    "meet_anew",
    "mishaps",
    "outlook",
    "recheck",
    "surely_in_sync",
];

/// Names that are to be replaced, each with how often it may still be defined. The numbers only become smaller.
const NAMES_LEFT: &[(&str, usize)] = &[
    ("Again", 1),
    ("Asked", 5),
    ("Look", 6),
    ("Many", 1),
    ("Moving", 1),
    ("Said", 2),
    ("Says", 2),
    ("Stop", 3),
    ("Told", 4),
    ("Turns", 1),
    ("Verdict", 3),
    ("World", 1),
    ("account", 4),
    ("asked", 11),
    ("beside", 8),
    ("besides", 2),
    ("many", 2),
    ("news", 10),
    ("nothing", 6),
    ("refused", 13),
    ("rehearse", 2),
    ("say", 8),
    ("settle", 9),
    ("spared", 2),
    ("story", 3),
    ("tell", 32),
    ("tidy", 9),
    ("told", 20),
    ("turns_back", 2),
    ("unfit", 2),
    ("untell", 1),
    ("went_back", 1),
];

/// The folders of code whose strings people read.
const PROGRAM: &[&str] = &[
    "crates/cluster/src",
    "crates/controller/src",
    "crates/core/src",
    "crates/forge/src",
    "crates/git/src",
    "crates/http/src",
    "src",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the files below the root that have one of the extensions, relative to it.
fn files(extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap_or_default();
            let path = folder.join(&name);
            if entry.file_type().unwrap().is_dir() {
                let is_hidden = name.starts_with('.') && name != ".github";
                if !is_hidden && name != "target" {
                    folders.push(path);
                }
            } else if extensions.iter().any(|extension| name.ends_with(extension)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn pages() -> Vec<(PathBuf, String)> {
    files(&[".md"])
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(root().join(&path)).unwrap();
            (path, text)
        })
        .collect()
}

/// Returns the lines of a page without its blocks and spans of code, so that each keeps its number.
fn prose(text: &str) -> Vec<String> {
    let (mut is_fenced, mut before) = (false, String::new());
    let mut lines = Vec::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        let is_indented = line.starts_with("    ") && (before.is_empty() || before.starts_with("    "));
        lines.push(if is_fence || is_fenced || is_indented {
            String::new()
        } else {
            line.split('`').step_by(2).collect::<Vec<_>>().join("`")
        });
        line.clone_into(&mut before);
    }
    lines
}

/// Returns where the links of a page lead, each with the number of its line.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (index, line) in prose(text).iter().enumerate() {
        for rest in line.split("](").skip(1) {
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            links.push((index + 1, target.to_owned()));
        }
    }
    links
}

/// Returns the anchor that Git hosts give a heading, where it is the first of its words.
pub fn slug(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let slug: String = heading.to_lowercase().chars().filter(kept).collect();
    slug.replace(' ', "-")
}

/// Returns the anchors that Git hosts give the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut is_fenced = false;
    for line in text.lines() {
        is_fenced ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if is_fenced || heading == line || !heading.starts_with(' ') {
            continue;
        }
        let slug = slug(heading.trim());
        let mut number = 0;
        let mut anchor = slug.clone();
        while !anchors.insert(anchor) {
            number += 1;
            anchor = format!("{slug}-{number}");
        }
    }
    anchors
}

/// Returns what is wrong with a target that is written relative to a folder.
fn fault(folder: &Path, page: &Path, target: &str) -> Option<String> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = if path.is_empty() {
        root().join(page)
    } else {
        root().join(folder).join(path)
    };
    if !file.exists() {
        return Some(format!("{target}: there is no such file"));
    }
    if anchor.is_empty() {
        return None;
    }
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    (!anchors(&text).contains(anchor)).then(|| format!("{target}: the page has no such heading"))
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut faults = Vec::new();
    for (page, text) in pages() {
        let folder = page.parent().unwrap();
        for (line, target) in links(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            if let Some(fault) = fault(folder, &page, &target) {
                faults.push(format!("{}:{line}: {fault}", page.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Hints, comments and help name pages as `docs/…`.
#[test]
fn every_page_that_the_code_names_exists() {
    let mut faults = Vec::new();
    for path in files(&[".rs", ".toml", ".yaml", ".yml", ".sh", ".trycmd", "justfile"]) {
        let text = std::fs::read_to_string(root().join(&path)).unwrap_or_default();
        for (index, line) in text.lines().enumerate() {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | '#');
            for (at, start) in line.match_indices("docs/") {
                let (before, rest) = line.split_at(at);
                let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                let target = rest[..end].trim_end_matches('.');
                let is_elsewhere = before.ends_with(|c: char| c.is_alphanumeric());
                if is_elsewhere || target == start || !target.contains(".md") {
                    continue;
                }
                if let Some(fault) = fault(Path::new(""), &path, target) {
                    faults.push(format!("{}:{}: {fault}", path.display(), index + 1));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_page_uses_a_phrase_that_has_a_plainer_one() {
    let mut found = Vec::new();
    for (page, text) in pages() {
        let is_documentation = page == Path::new("README.md") || page.starts_with("docs");
        if !is_documentation || page.starts_with(RECORDS) {
            continue;
        }
        for (line, fault) in phrases(&prose(&text)) {
            found.push(format!("{}:{line}: {fault}", page.display()));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Returns the phrases in lines of prose that have a plainer one, each with the number of its line.
fn phrases(lines: &[String]) -> Vec<(usize, String)> {
    phrases_of(PHRASES, lines)
}

/// Returns the phrases of a list in lines of prose, each with the number of its line.
fn phrases_of(list: &[(&str, &str)], lines: &[String]) -> Vec<(usize, String)> {
    let lines: Vec<String> = lines.iter().map(|line| line.to_lowercase()).collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        // A phrase may go over the end of its line.
        let next = lines.get(index + 1).map_or("", |next| next.trim_start());
        let joined = format!("{line} {next}");
        for (phrase, better) in list {
            let is_whole = |at: usize| {
                let (before, after) = (&joined[..at], &joined[at + phrase.len()..]);
                at < line.len()
                    && !before.ends_with(|c: char| c.is_alphanumeric() || c == '-')
                    && !after.starts_with(|c: char| c.is_alphanumeric() || c == '-')
            };
            if joined.match_indices(phrase).any(|(at, _)| is_whole(at)) {
                found.push((index + 1, format!("\"{phrase}\"; write: {better}")));
            }
        }
    }
    found
}

#[test]
fn no_help_uses_a_phrase_that_has_a_plainer_one() {
    fn look(command: &mut clap::Command, path: &str, found: &mut Vec<String>) {
        let path = format!("{path} {}", command.get_name());
        // Short help leaves out what long help has, and says in fewer words what it has.
        for help in [command.render_help(), command.render_long_help()] {
            for (_, fault) in phrases(&prose(&help.to_string())) {
                found.push(format!("{path}: {fault}"));
            }
        }
        for below in command.get_subcommands_mut() {
            look(below, &path, found);
        }
    }
    let mut found = Vec::new();
    look(&mut cutover::cli::command(), "", &mut found);
    found.dedup();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Collects the descriptions in a schema, at any depth.
fn descriptions<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                match inner.as_str() {
                    Some(text) if name == "description" => found.push(text),
                    _ => descriptions(inner, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| descriptions(item, found)),
        _ => {}
    }
}

/// `kubectl explain` and editors show them.
#[test]
fn no_description_of_a_field_uses_a_phrase_that_has_a_plainer_one() {
    let mut found = Vec::new();
    for (path, content) in generated::files().unwrap() {
        let schema: Value = serde_yaml::from_str(&content).unwrap();
        let mut texts = Vec::new();
        descriptions(&schema, &mut texts);
        for text in texts {
            for (_, fault) in phrases(&prose(text)) {
                found.push(format!("{path}: {fault}: {text:?}"));
            }
        }
    }
    found.dedup();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The API server shows its messages to whoever is refused.
#[test]
fn the_fence_uses_no_phrase_that_has_a_plainer_one() {
    let fence = include_str!("../../deploy/admission/fence.yaml");
    let lines: Vec<String> = fence.lines().map(str::to_owned).collect();
    let found = phrases(&lines);
    assert!(found.is_empty(), "{found:#?}");
}

/// Returns how long the token is that code begins with, and what is between the quotes if it is a string. Comments are tokens, too.
fn token(code: &str) -> (usize, Option<&str>) {
    let find = |from: usize, what: &str| {
        let at = code.get(from..).and_then(|rest| rest.find(what));
        at.map_or(code.len(), |at| from + at)
    };
    let string =
        |start: usize, end: usize, quote: usize| ((end + quote).min(code.len()), Some(&code[start..end]));
    if code.starts_with("//") {
        return (find(0, "\n"), None);
    }
    if let Some(rest) = code.strip_prefix('"') {
        let mut is_escaped = false;
        let end = rest.find(|c: char| {
            let ends = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        return string(1, end.map_or(code.len(), |end| end + 1), 1);
    }
    if code.starts_with("'\\") {
        return ((find(3, "'") + 1).min(code.len()), None);
    }
    if let Some(rest) = code.strip_prefix('\'') {
        // What has no second quote is a lifetime.
        let length = rest.chars().next().map_or(0, char::len_utf8);
        let is_char = rest[length..].starts_with('\'');
        return (if is_char { length + 2 } else { 1 }, None);
    }
    let word = code
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(code.len());
    let hashes = code[word..].bytes().take_while(|byte| *byte == b'#').count();
    if matches!(&code[..word], "r" | "br" | "cr") && code[word + hashes..].starts_with('"') {
        let (start, end) = (word + hashes + 1, format!("\"{}", "#".repeat(hashes)));
        return string(start, find(start, &end), end.len());
    }
    let first = code.chars().next().map_or(1, char::len_utf8);
    (word.max(first), None)
}

/// Returns the strings of several words in Rust code, without those of its unit tests, each with the number of its line.
fn strings(code: &str) -> Vec<(usize, String)> {
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    while at < code.len() {
        let (length, text) = token(&code[at..]);
        if let Some(text) = text.filter(|text| text.contains(' ')) {
            let parts = text.split("\\\n").enumerate();
            let text = parts.map(|(index, part)| if index == 0 { part } else { part.trim_start() });
            found.push((line, text.collect()));
        }
        line += code[at..at + length].matches('\n').count();
        at += length;
    }
    found
}

/// Returns the files of Rust code below folders, without those of unit tests.
fn sources(folders: &[&str]) -> Vec<(PathBuf, String)> {
    let is_source = |path: &PathBuf| {
        let is_test = path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs");
        folders.iter().any(|folder| path.starts_with(folder)) && !is_test
    };
    let sources = files(&[".rs"]).into_iter().filter(is_source);
    sources
        .map(|path| {
            let text = std::fs::read_to_string(root().join(&path)).unwrap();
            (path, text)
        })
        .collect()
}

#[test]
fn no_message_uses_a_phrase_that_has_a_plainer_one() {
    let mut found = Vec::new();
    for (path, code) in sources(PROGRAM) {
        for (line, text) in strings(&code) {
            let lines = prose(&text);
            for (_, fault) in phrases(&lines).into_iter().chain(phrases_of(MESSAGES, &lines)) {
                found.push(format!("{}:{line}: {fault}: {text:?}", path.display()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Returns the functions, types, traits and modules that Rust code defines.
fn defined(code: &str) -> impl Iterator<Item = &str> {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let pairs = words.windows(2).map(|pair| (pair[0], pair[1]));
        let named = pairs.filter(|(what, _)| ["enum", "fn", "mod", "struct", "trait"].contains(what));
        named.map(|(_, name)| name).collect::<Vec<_>>()
    })
}

#[test]
fn names_that_were_replaced_do_not_come_back() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, code) in sources(&["crates", "src"]) {
        for name in defined(&code) {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    let replaced = REPLACED_NAMES.iter().map(|name| (*name, 0));
    let mut found = Vec::new();
    for (name, most) in replaced.chain(NAMES_LEFT.iter().copied()) {
        let count = counts.get(name).copied().unwrap_or_default();
        if count > most {
            found.push(format!("{name}: defined {count} times, {most} are known"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn strings_are_told_from_comments_characters_and_lifetimes() {
    let code = concat!(
        "// \"not this\"\n",
        "fn f<'a>(c: char) -> &'a str {\n",
        "    if c == '\"' || c == '\\'' || c == '\\\\' { r#\"a \"b\" c\"# } else { \"d \\\"e \\\n        f\" }\n",
        "}\n",
        "const ONE: &str = \"word\";\n",
        "#[cfg(test)]\nmod tests { const NO: &str = \"of a test\"; }\n",
    );
    let found = [(3, "a \"b\" c".to_owned()), (3, "d \\\"e f".to_owned())];
    assert_eq!(strings(code), found);
}

#[test]
fn code_is_no_prose_and_headings_have_anchors() {
    let page = "# One `cutover.yaml`\n\nsee [x](y.md#z) `[not](this)`\n\n    nobody\n\n```\n[nor](that)\n```\n## A, b\n## A, b\n";
    assert_eq!(links(page), [(3, "y.md#z".to_owned())]);
    assert!(!prose(page).concat().contains("nobody"));
    let anchors: Vec<String> = anchors(page).into_iter().collect();
    assert_eq!(anchors, ["a-b", "a-b-1", "one-cutoveryaml"]);
}
