//! Names and texts that somebody made up to forge with, through every form of a check, a plan and a review.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::review::{COMMENT_LIMIT, Review};
use super::{
    MOST_ANNOTATIONS, annotation_commands, findings_github, findings_json, findings_text, plan_annotations,
};
use crate::finding::Finding;
use crate::lint::{self, Context};
use crate::manifest::{Limits, Set, Source, parse};
use crate::plan::{Change, ChangeSet, Palette, TextOptions};
use cutover_base::escape::{self, HOSTILE, is_hidden};
use cutover_karmada::name::{Gvk, Location, ObjectKey};

/// Writes it as YAML's own escapes: what a file may hold.
fn quoted(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        let _ = write!(text, "\\U{:08x}", u32::from(c));
    }
    format!("\"{text}\"")
}

fn findings(name: &str) -> Vec<Finding> {
    let path = format!("apps/{name}.yaml");
    let name = quoted(name);
    let content = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n---\n\
         apiVersion: cutover.dev/v1alpha1\nkind: Migration\nmetadata: {{name: a, namespace: shop}}\n\
         spec: {{to: {name}, {name}: 1, workload: {{apiVersion: v1, kind: {name}, name: {name}}}}}\n---\n\
         {name}: 1\n{name}: 2\n"
    );
    let mut set = Set::new();
    let parsed = parse(Source::new(&path), content.as_bytes(), &Limits::default());
    set.update(&path, parsed);
    let found = lint::check(&set, &Context::built_in().unwrap());
    assert!(found.len() >= 3, "{found:?}");
    found
}

/// What a person or a runner gets of our own text, without our styles.
fn plain(text: &str) -> String {
    anstream::adapter::strip_str(&escape::terminal(text)).to_string()
}

fn assert_plain(what: &str, text: &str) {
    let hidden = text.chars().find(|c| is_hidden(*c) && !matches!(c, '\n' | '\t'));
    assert_eq!(hidden, None, "{what}: {text:?}");
}

#[test]
fn a_check_of_hostile_names_forges_nothing() {
    for (what, name) in HOSTILE {
        let findings = findings(name);
        let text = plain(&findings_text(&findings));
        assert_plain(what, &text);
        for line in text.lines() {
            let ours = ["error[", "warning[", "note[", "  --> ", "hint: "];
            assert!(
                ours.iter().any(|begin| line.starts_with(begin)),
                "{what}: {line:?}"
            );
        }
        let commands = findings_github(&findings);
        assert_plain(what, &commands);
        let lines: Vec<&str> = commands.lines().collect();
        assert_eq!(
            lines.len(),
            findings.len().min(MOST_ANNOTATIONS),
            "{what}: {commands:?}"
        );
        for line in lines {
            let ours = ["::error title=CUT", "::warning title=CUT", "::notice title=CUT"];
            assert!(
                ours.iter().any(|begin| line.starts_with(begin)),
                "{what}: {line:?}"
            );
        }
        let json = findings_json(&findings).unwrap();
        assert_plain(what, &escape::json(&json));
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(read(&escape::json(&json)), read(&json), "{what}");
    }
}

/// Returns a plan in which a name stands wherever others choose one.
fn plan(name: &str) -> ChangeSet {
    let at = Location {
        path: format!("apps/{name}.yaml"),
        line: 1,
        column: 1,
    };
    let key = |kind: &str| ObjectKey {
        group: String::new(),
        kind: kind.to_owned(),
        namespace: Some(name.to_owned()),
        name: name.to_owned(),
    };
    let object = |text: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"},
            "data": {name: text, "script": format!("one\n{text}\nthree")}})
    };
    let wanted = |text: &str| {
        let content = object(text).to_string();
        let parsed = parse(Source::new(&at.path), content.as_bytes(), &Limits::default());
        parsed.objects.into_iter().next().unwrap()
    };
    let gvk = Gvk::new("v1", "ConfigMap");
    ChangeSet::new(
        None,
        vec![
            Change::apply(&wanted(name), Some(&object("before")), None, "cutover"),
            Change::apply(&wanted(name), None, None, "cutover").unchecked(name),
            Change::apply(&wanted(name), None, None, "cutover").blocked(name),
            Change::apply(&wanted(name), None, None, "cutover").held_back(name),
            Change::delete(key(name), gvk.clone(), &object(name)),
            Change::left_behind(key("ConfigMap"), gvk, name),
        ],
    )
}

#[test]
fn a_plan_of_hostile_names_forges_nothing() {
    for (what, name) in HOSTILE {
        let plan = plan(name);
        let view = plan.view(None);
        for palette in [Palette::plain(), Palette::coloured()] {
            let options = TextOptions {
                palette,
                ..TextOptions::default()
            };
            let text = plain(&view.text(&options));
            assert_plain(what, &text);
            for line in text.lines().filter(|line| !line.is_empty()) {
                let ours =
                    line.starts_with(['+', '~', '-', '!', 'x', '*', ' ']) || line.starts_with("Plan: ");
                assert!(ours && !line.trim_start().starts_with("::"), "{what}: {line:?}");
            }
        }
        let annotations = plan_annotations(&view);
        let commands = annotation_commands(&annotations, MOST_ANNOTATIONS);
        assert_plain(what, &commands);
        assert_eq!(
            commands.lines().count(),
            annotations.len(),
            "{what}: {commands:?}"
        );
    }
}

#[test]
fn a_review_of_hostile_names_forges_nothing() {
    let markup: &[(&str, &str)] = &[
        ("fence", "a\n```\n# forged\n"),
        ("cell", "a | b || c"),
        ("link", "[click](https://evil.example) https://evil.example"),
        ("HTML", "</summary></details><img src=x>"),
        ("mention", "@org/everybody"),
        ("marker", "<!-- cutover review: plan -->"),
        ("span", "a` <b> `c"),
    ];
    for (what, name) in HOSTILE.iter().chain(markup) {
        let plan = plan(name);
        let findings = findings(name);
        let notes = [name.to_string()];
        let review = Review {
            plan: Some(plan.view(None)),
            findings: &findings,
            notes: &notes,
            ..Review::default()
        };
        let page = review.markdown(COMMENT_LIMIT);
        assert_plain(what, &page);
        let prose = outside_code(&page);
        for forged in [
            "\n# ",
            "\n::",
            "](http",
            "https://",
            "<img",
            "<b>",
            "@org",
            "</details></",
            "<!-- cutover review: plan",
        ] {
            assert!(!prose.contains(forged), "{what}: {forged:?} in {prose}");
        }
        let opened = prose.matches("<details>").count();
        assert_eq!(opened, prose.matches("</details>").count(), "{what}: {prose}");
        for row in prose.lines().filter(|line| line.starts_with('|')) {
            assert_eq!(row.matches('|').count(), 5, "{what}: {row}");
        }
    }
}

/// Returns a page without its fenced blocks and spans of code, of which Markdown makes nothing.
fn outside_code(page: &str) -> String {
    let mut prose = String::new();
    let mut fence: Option<&str> = None;
    for line in page.lines() {
        let ticks = &line[..line.len() - line.trim_start_matches('`').len()];
        match fence {
            Some(open) if line == open => fence = None,
            Some(_) => {}
            None if ticks.len() >= 3 => fence = Some(ticks),
            None => {
                prose.push_str(&outside_spans(line));
                prose.push('\n');
            }
        }
    }
    prose
}

fn outside_spans(line: &str) -> String {
    let mut prose = String::new();
    let (mut within, mut escaped) = (false, false);
    for c in line.chars() {
        match c {
            _ if escaped => {
                // Markdown makes nothing of it.
                prose.push('.');
                escaped = false;
            }
            '`' => within = !within,
            '\\' if !within => escaped = true,
            c if !within => prose.push(c),
            _ => {}
        }
    }
    prose
}
