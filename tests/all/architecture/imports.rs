//! Which file of a crate imports which, by the text alone: what `use` and paths in code name, followed through re-exports to the file
//! that defines it. What is only there in tests is left out, and so are names of other crates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The path of a module from the root of its crate.
type Module = Vec<String>;

/// How many re-exports a name is followed through.
const LONGEST: usize = 20;

const ITEMS: &[&str] = &[
    "fn", "struct", "enum", "trait", "type", "const", "static", "union",
];

/// The files of a crate.
#[derive(Debug)]
pub struct Imports {
    files: BTreeMap<Module, File>,
}

/// One file, and what it says of others.
#[derive(Debug, Default)]
struct File {
    /// Relative to `src`.
    name: String,
    /// Its sub-modules that are files.
    children: BTreeSet<String>,
    /// The names that it defines itself.
    items: BTreeSet<String>,
    /// What it uses, and the name under which it does; `None`: every name of a module.
    uses: Vec<(Vec<String>, Option<String>)>,
    /// The paths in its code.
    paths: Vec<Vec<String>>,
}

/// One file needs what another one defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import<'a> {
    pub from: &'a str,
    pub to: &'a str,
    /// What it needs is in a sub-module of its own.
    pub is_inside: bool,
}

impl Imports {
    pub fn of(src: &Path) -> Self {
        let tops = ["lib.rs", "main.rs"];
        let top = tops.into_iter().find(|top| src.join(top).exists()).unwrap();
        let mut files = BTreeMap::new();
        read(src, Path::new(top), Path::new(""), Module::new(), &mut files);
        Self { files }
    }

    pub fn all(&self) -> BTreeSet<Import<'_>> {
        let mut all = BTreeSet::new();
        for (from, file) in &self.files {
            let used = file.uses.iter().map(|(path, _)| path);
            for path in used.chain(&file.paths) {
                if let Some(home) = self.home(from, path, LONGEST).filter(|home| home != from) {
                    all.insert(Import {
                        from: &file.name,
                        to: &self.files[&home].name,
                        is_inside: home.starts_with(from),
                    });
                }
            }
        }
        all
    }

    /// Returns the circles of more than two files: from each one of them there is a way to every other one. That a file names its own
    /// sub-modules counts for nothing.
    pub fn circles(&self) -> BTreeSet<BTreeSet<&str>> {
        let mut arrows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for import in self.all().into_iter().filter(|import| !import.is_inside) {
            arrows.entry(import.from).or_default().insert(import.to);
        }
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            arrows.keys().map(|&from| (from, reach(&arrows, from))).collect();
        let mut circles = BTreeSet::new();
        for (from, there) in &reached {
            let circle = there.iter().copied();
            let circle = circle.filter(|to| reached.get(to).is_some_and(|back| back.contains(from)));
            let circle: BTreeSet<&str> = circle.collect();
            if circle.len() > 2 {
                circles.insert(circle);
            }
        }
        circles
    }

    /// Returns the module that defines what a path names; `None`: it is of another crate.
    fn home(&self, from: &Module, path: &[String], left: usize) -> Option<Module> {
        let left = left.checked_sub(1)?;
        let (at, rest) = self.walk(from, path)?;
        let Some(name) = rest.first() else {
            return Some(at);
        };
        let file = &self.files[&at];
        if file.items.contains(name) {
            return Some(at);
        }
        for (used, _) in file.uses.iter().filter(|(_, alias)| alias.as_ref() == Some(name)) {
            match self.module(&at, used) {
                Some(module) if rest.len() > 1 && module == at => {}
                Some(module) if rest.len() > 1 => {
                    let home = self.home(&module, &within(&rest[1..]), left);
                    return home.or(Some(module));
                }
                _ if used == path && at == *from => {}
                _ => return self.home(&at, used, left),
            }
        }
        for (used, _) in file.uses.iter().filter(|(_, alias)| alias.is_none()) {
            if let Some(module) = self.module(&at, used).filter(|module| *module != at) {
                let home = self.home(&module, &within(rest), left);
                if let Some(home) = home.filter(|home| self.files[home].items.contains(name)) {
                    return Some(home);
                }
            }
        }
        // Made by a macro, perhaps.
        matches!(path[0].as_str(), "crate" | "self" | "super").then_some(at)
    }

    /// Returns the module that a path names, if it names one that is a file.
    fn module(&self, at: &Module, path: &[String]) -> Option<Module> {
        let (module, rest) = self.walk(at, path)?;
        rest.is_empty().then_some(module)
    }

    /// Follows a path through the modules that are files: returns the last of them, and what is left of the path.
    fn walk<'p>(&self, from: &Module, path: &'p [String]) -> Option<(Module, &'p [String])> {
        let (mut at, mut rest) = (from.clone(), path);
        match path.first().map(String::as_str) {
            Some("crate") => (at, rest) = (Module::new(), &path[1..]),
            Some("self") => rest = &path[1..],
            _ => {}
        }
        while rest.first().is_some_and(|name| name == "super") {
            at.pop()?;
            rest = &rest[1..];
        }
        while let Some(child) = rest
            .first()
            .filter(|name| self.files[&at].children.contains(*name))
        {
            at.push(child.clone());
            rest = &rest[1..];
        }
        Some((at, rest))
    }
}

/// Returns a path as the module says it to which it is relative.
fn within(path: &[String]) -> Vec<String> {
    std::iter::once("self".to_owned())
        .chain(path.iter().cloned())
        .collect()
}

/// Returns the files to which arrows lead from one.
fn reach<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        for &to in arrows.get(at).into_iter().flatten() {
            if reached.insert(to) {
                next.push(to);
            }
        }
    }
    reached
}

/// Reads a file and the files of its sub-modules, which are in `folder`.
fn read(src: &Path, name: &Path, folder: &Path, module: Module, files: &mut BTreeMap<Module, File>) {
    let text = std::fs::read_to_string(src.join(name)).unwrap();
    let mut file = File::parse(&text);
    name.to_str().unwrap().clone_into(&mut file.name);
    for child in std::mem::take(&mut file.children) {
        let inside = folder.join(&child);
        let mut places = [folder.join(format!("{child}.rs")), inside.join("mod.rs")].into_iter();
        if let Some(place) = places.find(|place| src.join(place).exists()) {
            let path = module.iter().chain([&child]).cloned().collect();
            read(src, &place, &inside, path, files);
            file.children.insert(child);
        }
    }
    files.insert(module, file);
}

impl File {
    fn parse(text: &str) -> Self {
        let tokens = code(text);
        let mut file = Self::default();
        let (mut at, mut depth) = (0, 0);
        while at < tokens.len() {
            at = file.take(&tokens, at, &mut depth);
        }
        file
    }

    /// Takes what begins at a place, `depth` braces deep; returns where the next thing begins.
    fn take(&mut self, tokens: &[&str], at: usize, depth: &mut usize) -> usize {
        let next = tokens.get(at + 1).copied().unwrap_or_default();
        match tokens[at] {
            "use" => {
                let length = tokens[at..].iter().position(|token| *token == ";");
                let end = length.map_or(tokens.len(), |length| at + length);
                tree(&tokens[at + 1..end], 0, &[], &mut self.uses);
                return end + 1;
            }
            "{" => *depth += 1,
            "}" => *depth = depth.saturating_sub(1),
            "mod" if tokens.get(at + 2) == Some(&";") => {
                self.children.insert(next.to_owned());
            }
            "macro_rules" if *depth == 0 => {
                self.items
                    .extend(tokens.get(at + 2).map(|name| (*name).to_owned()));
            }
            item if *depth == 0 && ITEMS.contains(&item) && is_name(next) => {
                self.items.insert(next.to_owned());
            }
            _ => self.paths.extend(path(tokens, at)),
        }
        at + 1
    }
}

/// Reads one tree of a `use`; returns the place after it.
fn tree(
    tokens: &[&str],
    mut at: usize,
    before: &[String],
    found: &mut Vec<(Vec<String>, Option<String>)>,
) -> usize {
    let mut path = before.to_vec();
    while let Some(token) = tokens.get(at) {
        match *token {
            "::" => at += 1,
            "*" => {
                found.push((path, None));
                return at + 1;
            }
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| *token != "}") {
                    let after = tree(tokens, at, &path, found);
                    // A comma, or what is not understood.
                    at = after.max(at + 1);
                }
                return at + 1;
            }
            name if is_name(name) => {
                path.push(name.to_owned());
                at += 1;
                if tokens.get(at) == Some(&"::") {
                    continue;
                }
                let renamed = tokens.get(at + 1).filter(|_| tokens.get(at) == Some(&"as"));
                if path.last().is_some_and(|name| name == "self") {
                    path.pop();
                }
                let alias = renamed
                    .map(|name| (*name).to_owned())
                    .or_else(|| path.last().cloned());
                if let Some(alias) = alias {
                    found.push((path, Some(alias)));
                }
                return if renamed.is_some() { at + 2 } else { at };
            }
            _ => return at,
        }
    }
    at
}

/// Returns the path that begins at a place with the name of a module.
fn path(tokens: &[&str], mut at: usize) -> Option<Vec<String>> {
    let is_begin = at == 0 || tokens[at - 1] != "::";
    let is_small = tokens[at].starts_with(|c: char| c.is_lowercase() || c == '_');
    let mut path = vec![tokens[at].to_owned()];
    while tokens.get(at + 1) == Some(&"::") && tokens.get(at + 2).is_some_and(|name| is_name(name)) {
        path.push(tokens[at + 2].to_owned());
        at += 2;
    }
    (is_begin && is_small && path.len() > 1).then_some(path)
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Returns the words and signs of a file, without comments, literals and tests.
pub fn code(text: &str) -> Vec<&str> {
    let tokens = tokens(text);
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let rest = &tokens[at..];
        if rest.starts_with(&["#", "[", "cfg", "(", "test"])
            || rest.starts_with(&["#", "[", "cfg", "(", "all", "(", "test"])
        {
            at = item_end(&tokens, at);
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    kept
}

/// Returns the place after an item that begins with its attributes.
fn item_end(tokens: &[&str], mut at: usize) -> usize {
    while tokens.get(at) == Some(&"#") {
        at = closed(tokens, at + 1, "[", "]");
    }
    while tokens.get(at).is_some_and(|token| !matches!(*token, "{" | ";")) {
        at += 1;
    }
    match tokens.get(at) {
        Some(&"{") => closed(tokens, at, "{", "}"),
        _ => at + 1,
    }
}

/// Returns the place after the bracket that closes the one at a place.
fn closed(tokens: &[&str], from: usize, opens: &str, closes: &str) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        if *token == opens {
            depth += 1;
        } else if *token == closes {
            depth -= 1;
            if depth == 0 {
                return at + 1;
            }
        }
    }
    tokens.len()
}

fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = skipped(rest);
        let length = match skipped {
            0 if is_name(rest) => {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
                end.unwrap_or(rest.len())
            }
            0 if rest.starts_with("::") => 2,
            0 => first.len_utf8(),
            skipped => skipped,
        };
        if skipped == 0 && !first.is_whitespace() {
            tokens.push(&rest[..length]);
        }
        rest = &rest[length..];
    }
    tokens
}

/// Returns how long the comment or the literal is that a text begins with; 0: it begins with none.
fn skipped(text: &str) -> usize {
    let whole = text.len();
    let past = |end: Option<usize>, more: usize| end.map_or(whole, |end| end + more);
    if text.starts_with("//") {
        return past(text.find('\n'), 0);
    }
    if text.starts_with("/*") {
        return past(text.find("*/"), 2);
    }
    let literal = text.strip_prefix('b').unwrap_or(text);
    let prefix = whole - literal.len();
    if let Some(raw) = literal.strip_prefix('r') {
        let content = raw.trim_start_matches('#');
        if let Some(content) = content.strip_prefix('"') {
            let hashes = raw.len() - content.len() - 1;
            let end = format!("\"{}", "#".repeat(hashes));
            return past(content.find(&end), whole - content.len() + end.len());
        }
    }
    if let Some(content) = literal.strip_prefix('"') {
        let mut escaped = false;
        let end = content.find(|c: char| {
            let is_end = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            is_end
        });
        return past(end, prefix + 2);
    }
    character(text)
}

/// Returns how long the character is that a text begins with; 0: it begins with none, perhaps with a lifetime.
fn character(text: &str) -> usize {
    let Some(content) = text.strip_prefix('\'') else {
        return 0;
    };
    let mut letters = content.chars();
    match letters.next() {
        // What is escaped may be a quote itself.
        Some('\\') => text[3..].find('\'').map_or(0, |end| end + 4),
        Some(letter) if letters.next() == Some('\'') => letter.len_utf8() + 2,
        _ => 0,
    }
}
