//! What `cutover status` shows in four scenes, for narrow and wide terminals, plain and in colour: the files of `screens`, to be looked
//! at (`cat` shows the colours). `CUTOVER_ACCEPT=1` writes them.

mod scenes;

use std::path::Path;

use cutover::report::{Layout, View};
use cutover::sandbox::api::{Resource, WriteOptions};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::is_fresh;
use crate::support::served::{Served, stdout};
use crate::support::terminal::Terminal;
use scenes::{after_a_roll_back, during_a_move, forty_intents, migration, outage};

const FOLDER: &str = "tests/all/screens";
const NOW: &str = "2026-03-01T10:01:05Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

#[test]
fn status_during_a_move() {
    is_shown("during-a-move", &during_a_move());
}

#[test]
fn status_after_a_roll_back() {
    is_shown("after-a-roll-back", &after_a_roll_back());
}

#[test]
fn status_in_an_outage() {
    is_shown("outage", &outage());
}

#[test]
fn status_of_forty_intents() {
    is_shown("forty-intents", &forty_intents());
}

/// Compares what is shown with the files of a scene.
fn is_shown(scene: &str, view: &View) {
    let dashboard = view.dashboard();
    let shown = |columns: usize| {
        dashboard.text(&Layout {
            width: Some(columns),
            ..Layout::at(now())
        })
    };
    let plain = |columns: usize| anstream::adapter::strip_str(&shown(columns)).to_string();
    let mut stale = Vec::new();
    for columns in [80, 140] {
        let text = plain(columns);
        for line in text.lines() {
            // A command is to be copied as it is.
            let is_command = line
                .trim_start()
                .trim_start_matches("next: ")
                .starts_with("cutover ");
            assert!(
                is_command || line.chars().count() <= columns,
                "{scene}: more than {columns} columns: {line}"
            );
        }
        stale.extend(is_stale(&format!("{scene}.{columns}.txt"), &text));
    }
    let coloured = shown(80);
    assert!(coloured.contains("\u{1b}["), "{scene} has no colours: {coloured}");
    stale.extend(is_stale(&format!("{scene}.80.ansi"), &coloured));
    assert!(
        stale.is_empty(),
        "{stale:?} of {FOLDER} are missing or are not what is shown; look at what differs after: \
         CUTOVER_ACCEPT=1 cargo test --test all screens::\n{}",
        plain(80)
    );
}

/// Returns the name of a file that is not there, or not what it should be.
fn is_stale(name: &str, fresh: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER).join(name);
    (!is_fresh(&path, fresh)).then(|| name.to_owned())
}

#[test]
fn colours_are_for_terminals_and_for_those_who_ask_for_them() {
    let served = Served::start("nobody-asks");
    let create = |resource: &Resource, namespace, object: Value| {
        let somebody = WriteOptions::manager("somebody");
        let server = served.server.sandbox();
        server.create(resource, namespace, object, &somebody).unwrap();
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    create(&Resource::new("", "namespaces"), None, namespace);
    let mut asked = migration("orders-to-west", &Value::Null);
    asked["metadata"] = json!({"name": "orders-to-west", "namespace": "shop"});
    asked.as_object_mut().unwrap().remove("status");
    create(&Resource::new("cutover.dev", "migrations"), Some("shop"), asked);

    for (words, environment, has_colours) in [
        (&["status"][..], ("NO_COLOR", ""), true),
        (&["status"], ("NO_COLOR", "1"), false),
        (&["status"], ("CLICOLOR", "0"), false),
        (&["status", "--color", "never"], ("NO_COLOR", ""), false),
    ] {
        let terminal = Terminal::of(80);
        let child = served.on_terminal(words, terminal.output(), &terminal, &[environment]);
        assert!(child.wait_with_output().unwrap().status.success());
        let (written, screen) = terminal.close();
        assert!(screen.contains("shop/orders-to-west"), "{written:?}");
        assert_eq!(
            written.contains("\u{1b}["),
            has_colours,
            "{words:?} {environment:?}: {written:?}"
        );
        let plain = anstream::adapter::strip_str(&written).to_string();
        assert!(plain.lines().all(|line| line.chars().count() <= 80), "{plain}");
    }
    for (words, environment, has_colours) in [
        (&["status"][..], ("NO_COLOR", ""), false),
        (&["status"], ("CLICOLOR_FORCE", "1"), true),
        (&["status", "--color", "always"], ("NO_COLOR", "1"), true),
    ] {
        let output = served.cutover_with(words, &[environment]);
        assert_eq!(
            stdout(&output).contains("\u{1b}["),
            has_colours,
            "{words:?} {environment:?}: {output:?}"
        );
    }
}
