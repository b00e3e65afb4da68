use proptest::prelude::*;
use serde_json::json;

use super::*;

const HEAD: &str = "\
# Moves orders.
apiVersion: cutover.dev/v1alpha1
kind: Migration
metadata: {name: a, namespace: shop}
";

fn edited(text: &str, change: &Change) -> Result<String, String> {
    let parsed = parse(Source::new("a.yaml"), text.as_bytes(), &Limits::default());
    assert!(parsed.errors.is_empty(), "{:?}", parsed.errors);
    let object = parsed
        .objects
        .iter()
        .find(|object| object.key.kind == "Migration")
        .unwrap();
    edit(text, object, change).map_err(|error| error.to_string())
}

fn pause() -> Change {
    Change::Set("/spec/paused", json!(true))
}

fn resume() -> Change {
    Change::Unset("/spec/paused", json!(false))
}

fn approve() -> Change {
    let approval = json!({"phase": "Handoff", "attempt": 1, "by": "Ada: first"});
    Change::Append("/spec/approvals", approval)
}

#[test]
fn a_field_is_added_after_the_last_one_and_comments_stay() {
    let text = format!(
        "{HEAD}spec:\n    to: west # not east\n    verify:\n        healthyFor: 60s # long enough\n    # the end\n"
    );
    insta::assert_snapshot!(edited(&text, &pause()).unwrap(), @"
    # Moves orders.
    apiVersion: cutover.dev/v1alpha1
    kind: Migration
    metadata: {name: a, namespace: shop}
    spec:
        to: west # not east
        verify:
            healthyFor: 60s # long enough
        paused: true
        # the end
    ");
}

#[test]
fn a_file_without_a_last_newline_keeps_having_none() {
    let text = format!("{HEAD}spec:\n  to: west");
    assert_eq!(
        edited(&text, &pause()).unwrap(),
        format!("{text}\n  paused: true")
    );
}

#[test]
fn line_ends_are_those_of_the_file() {
    let text = format!("{HEAD}spec:\n  to: west\n").replace('\n', "\r\n");
    assert_eq!(
        edited(&text, &pause()).unwrap(),
        format!("{text}  paused: true\r\n")
    );
    assert_eq!(
        edited(&edited(&text, &pause()).unwrap(), &resume()).unwrap(),
        text
    );
}

#[test]
fn a_value_is_replaced_where_it_stands() {
    let text = format!("{HEAD}spec:\n  paused: false # until Monday\n  to: west\n");
    let paused = edited(&text, &pause()).unwrap();
    assert_eq!(paused, text.replace("paused: false", "paused: true"));
    let empty = format!("{HEAD}spec:\n  paused:\n  to: west\n");
    assert_eq!(
        edited(&empty, &pause()).unwrap(),
        empty.replace("paused:", "paused: true")
    );
}

#[test]
fn a_field_goes_with_its_line_unless_a_comment_belongs_to_it() {
    let plain = format!("{HEAD}spec:\n  to: west\n  paused: true\n");
    assert_eq!(
        edited(&plain, &resume()).unwrap(),
        format!("{HEAD}spec:\n  to: west\n")
    );
    for commented in [
        "  paused: true # INC-12\n  to: west\n",
        "  # INC-12\n  paused: true\n  to: west\n",
    ] {
        let text = format!("{HEAD}spec:\n{commented}");
        assert_eq!(
            edited(&text, &resume()).unwrap(),
            text.replace("paused: true", "paused: false")
        );
    }
    let flow = format!("{HEAD}spec: {{to: west, paused: true}}\n");
    assert_eq!(edited(&flow, &resume()).unwrap(), flow.replace("true", "false"));
}

#[test]
fn a_list_is_begun_and_continued() {
    let text = format!("{HEAD}spec:\n  to: west\n");
    let once = edited(&text, &approve()).unwrap();
    insta::assert_snapshot!(edited(&once, &approve()).unwrap().strip_prefix(HEAD).unwrap(), @"
    spec:
      to: west
      approvals:
      - phase: Handoff
        attempt: 1
        by: 'Ada: first'
      - phase: Handoff
        attempt: 1
        by: 'Ada: first'
    ");
}

#[test]
fn a_list_is_continued_in_the_style_that_it_has() {
    let indented =
        format!("{HEAD}spec:\n  approvals:\n    - {{phase: Cleanup, attempt: 1}} # me\n  to: west\n");
    insta::assert_snapshot!(edited(&indented, &approve()).unwrap().strip_prefix(HEAD).unwrap(), @"
    spec:
      approvals:
        - {phase: Cleanup, attempt: 1} # me
        - phase: Handoff
          attempt: 1
          by: 'Ada: first'
      to: west
    ");
    let flow = format!("{HEAD}spec: {{approvals: [{{phase: Cleanup, attempt: 1}}], to: west}}\n");
    insta::assert_snapshot!(edited(&flow, &approve()).unwrap().strip_prefix(HEAD).unwrap(), @r#"spec: {approvals: [{phase: Cleanup, attempt: 1}, {phase: Handoff, attempt: 1, by: "Ada: first"}], to: west}"#);
    for empty in ["approvals: []", "approvals:"] {
        let text = format!("{HEAD}spec:\n  {empty}\n  to: west\n");
        insta::allow_duplicates! {
            insta::assert_snapshot!(edited(&text, &approve()).unwrap().strip_prefix(HEAD).unwrap(), @r#"
            spec:
              approvals: [{phase: Handoff, attempt: 1, by: "Ada: first"}]
              to: west
            "#);
        }
    }
}

#[test]
fn json_stays_json() {
    let text = "{\n  \"apiVersion\": \"cutover.dev/v1alpha1\", \"kind\": \"Migration\", \"metadata\": {\"name\": \"a\"},\n  \"spec\": {\n    \"to\": \"west\"\n  }\n}\n";
    let paused = edited(&edited(text, &pause()).unwrap(), &approve()).unwrap();
    insta::assert_snapshot!(paused, @r#"
    {
      "apiVersion": "cutover.dev/v1alpha1", "kind": "Migration", "metadata": {"name": "a"},
      "spec": {
        "to": "west",
        "paused": true,
        "approvals": [{"phase": "Handoff", "attempt": 1, "by": "Ada: first"}]
      }
    }
    "#);
    assert!(serde_json::from_str::<Value>(&paused).is_ok());
}

#[test]
fn only_the_object_that_was_meant_changes() {
    let other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\nspec:\n  to: nowhere\n";
    let text = format!("\u{feff}{other}---\n{HEAD}spec:\n  to: wést\n---\n{other}");
    let paused = edited(&text, &pause()).unwrap();
    assert_eq!(paused, text.replace("to: wést\n", "to: wést\n  paused: true\n"));
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n- {}- apiVersion: cutover.dev/v1alpha1\n  kind: Migration\n  metadata: {{name: a}}\n  spec:\n    to: west\n",
        other.replace('\n', "\n  ").trim_end_matches(' ')
    );
    assert_eq!(
        edited(&list, &pause()).unwrap(),
        format!("{list}    paused: true\n")
    );
}

#[test]
fn what_others_share_is_left_alone() {
    let text = format!("{HEAD}x: &spec\n  to: west\nspec: *spec\n");
    insta::assert_snapshot!(edited(&text, &pause()).unwrap_err(), @"a.yaml:5:4 is written in a way that can't be edited without risk: the field around it is no mapping");
    let kept = format!("{HEAD}spec:\n  to: |+\n    west\n\n\nx: 1\n");
    insta::assert_snapshot!(edited(&kept, &pause()).unwrap_err(), @"a.yaml:6:3 is written in a way that can't be edited without risk: the changed text would not say what it should");
}

/// A line of a spec, in some style.
fn entries() -> impl Strategy<Value = Vec<String>> {
    let entry = prop_oneof![
        Just("to: west"),
        Just("to: 'west' # there"),
        Just("workload: {kind: Deployment, name: orders}"),
        Just("workload:\n  kind: Deployment\n  # its name\n  name: orders # é"),
        Just("note: |\n  one\n    two\n"),
        Just("note: >-\n  one\n\n  two"),
        Just("note: one\n  two"),
        Just("\"verify\": {}\n\n"),
        Just("approvals:\n- {phase: Hold, attempt: 1}"),
        Just("approvals:\n  -   phase: Hold\n      attempt: 1\n  # that's it"),
        Just("approvals: [{phase: Hold,\n  attempt: 1}]"),
        Just("approvals: []"),
        Just("paused: false"),
        Just("# nothing"),
    ];
    prop::collection::vec(entry.prop_map(str::to_owned), 1..6)
}

fn document(entries: &[String], indent: usize) -> Option<String> {
    let mut names = std::collections::BTreeSet::new();
    let mut text = format!("{HEAD}spec:\n");
    for entry in entries {
        let name = entry
            .split(':')
            .next()
            .unwrap_or_default()
            .trim_matches('"')
            .to_owned();
        if !entry.starts_with('#') && !names.insert(name) {
            return None;
        }
        for line in entry.lines() {
            let indent = if line.is_empty() { 0 } else { indent };
            text += &format!("{}{line}\n", " ".repeat(indent));
        }
    }
    (!names.is_empty()).then(|| text + "tail: 1\n")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_style_can_be_edited_and_every_other_byte_stays(entries in entries(), indent in 1_usize..5) {
        let Some(text) = document(&entries, indent) else { return Ok(()) };
        let approved = edited(&text, &approve()).unwrap();
        let mut rest = approved.as_str();
        for word in text.split_whitespace().filter(|word| *word != "[]") {
            let word = word.trim_end_matches([']', '}']);
            let at = rest.find(word);
            prop_assert!(at.is_some(), "{word:?} is lost\n{text}\n{approved}");
            rest = &rest[at.unwrap_or_default() + word.len()..];
        }
        let paused = edited(&approved, &pause()).unwrap();
        let resumed = edited(&paused, &resume()).unwrap();
        if !text.contains("paused") {
            prop_assert_eq!(resumed, approved);
        }
    }
}

#[test]
fn a_field_of_one_of_several_items_is_changed_in_place() {
    let text = format!(
        "{HEAD}spec:\n  controls:\n  - kind: Deployment\n    name: web # the front\n    retry: 1\n  - {{kind: Deployment, name: api}}\n  \
         to: west\n"
    );
    let within =
        |index, change: Change| Change::Within("/spec/controls", index, Box::new(change.from("/spec")));
    let retry = within(0, Change::Set("/spec/retry", json!(2)));
    let paused = within(1, pause());
    let both = edited(&edited(&text, &retry).unwrap(), &paused).unwrap();
    insta::assert_snapshot!(edited(&both, &within(0, approve())).unwrap(), @"
    # Moves orders.
    apiVersion: cutover.dev/v1alpha1
    kind: Migration
    metadata: {name: a, namespace: shop}
    spec:
      controls:
      - kind: Deployment
        name: web # the front
        retry: 2
        approvals:
        - phase: Handoff
          attempt: 1
          by: 'Ada: first'
      - {kind: Deployment, name: api, paused: true}
      to: west
    ");
    assert_eq!(
        edited(&both, &within(1, resume()))
            .unwrap()
            .matches("paused: false")
            .count(),
        1
    );
    assert!(edited(&text, &within(2, pause())).is_err());
    assert_eq!(paused.by_hand(), "spec.controls[1].paused: true");
}
