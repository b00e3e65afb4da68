use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(text: &str) -> Parsed {
    parse(Source::new("a.yaml"), text.as_bytes(), &Limits::default())
}

fn value(text: &str) -> Value {
    parse_one("a.yaml", text.as_bytes(), &Limits::default())
        .unwrap()
        .map_or(Value::Null, |(value, _)| value)
}

/// One line an error, with its hint: what a person would see.
fn complaints(text: &str) -> String {
    let line = |error: &Error| {
        let hint = error
            .hint()
            .map(|hint| format!("\n  hint: {hint}"))
            .unwrap_or_default();
        format!("{}: {error}{hint}", error.location)
    };
    read(text).errors.iter().map(line).collect::<Vec<_>>().join("\n")
}

const POLICY: &str = "\
# a comment
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: orders
  namespace: shop
spec:
  resourceSelectors:
    - apiVersion: apps/v1
      kind: Deployment
  placement: {clusterAffinity: {clusterNames: [east]}}
";

#[test]
fn an_object_knows_where_it_was_written() {
    let parsed = read(POLICY);
    assert_eq!(parsed.errors, []);
    let policy = &parsed.objects[0];
    assert_eq!(policy.key.to_string(), "PropagationPolicy shop/orders");
    assert_eq!(policy.source.to_string(), "a.yaml:2:1");
    assert_eq!(policy.location("/metadata/name").to_string(), "a.yaml:5:9");
    assert_eq!(policy.key_location("/metadata/name").to_string(), "a.yaml:5:3");
    assert_eq!(
        policy.location("/spec/resourceSelectors/0/kind").to_string(),
        "a.yaml:10:13"
    );
    assert_eq!(
        policy.key_location("/spec/resourceSelectors/0").to_string(),
        "a.yaml:9:7"
    );
    let cluster = "/spec/placement/clusterAffinity/clusterNames/0";
    assert_eq!(policy.location(cluster).to_string(), "a.yaml:11:48");
}

#[test]
fn what_is_missing_is_placed_where_it_belongs() {
    let parsed = read(POLICY);
    let at = parsed.objects[0].location("/spec/placement/spreadConstraints/0");
    assert_eq!(at.to_string(), "a.yaml:11:14");
}

#[test]
fn a_broken_document_does_not_hide_the_others() {
    let text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\na: [1\n---\n\
                apiVersion: v1\nkind: Namespace\nmetadata: {name: b}\n--- # nothing\n# here\n---\n";
    let parsed = read(text);
    let names: Vec<_> = parsed
        .objects
        .iter()
        .map(|object| object.key.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(parsed.objects[1].source.to_string(), "a.yaml:7:1");
    assert_eq!(parsed.errors.len(), 1);
    assert_eq!(parsed.errors[0].location.line, 6);
}

#[test]
fn a_list_is_taken_apart() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Namespace\n  metadata: {name: a}\n\
                - apiVersion: v1\n  kind: Namespace\n";
    let parsed = read(text);
    assert_eq!(parsed.objects[0].source.to_string(), "a.yaml:4:3");
    insta::assert_snapshot!(complaints(text), @"a.yaml:7:3: metadata.name is missing");
}

#[test]
fn identities_are_checked() {
    insta::assert_snapshot!(complaints("a: 1"), @"
    a.yaml:1:1: not a Kubernetes object: it has neither apiVersion nor kind
      hint: exclude the file in cutover.yaml (`syncs[].exclude`) if it is not meant for the cluster
    ");
    insta::assert_snapshot!(complaints("apiVersion: v1\nkind: Pod\nmetadata:\n  name: 012"), @"a.yaml:4:9: metadata.name must be a string (in quotes, if it looks like something else)");
    insta::assert_snapshot!(complaints("apiVersion: v1\nmetadata: {name: a}"), @"a.yaml:1:1: kind is missing");
    insta::assert_snapshot!(complaints("apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}"), @"
    a.yaml:3:26: metadata.generateName gives a new object at every sync
      hint: give it a metadata.name
    ");
    insta::assert_snapshot!(complaints("apiVersion: v1\nkind: Pod\nmetadata: {name: My_Pod}"), @r#"a.yaml:3:18: "My_Pod" is not a valid name: at most 253 lower-case letters, digits, `-` and `.`, with a letter or digit at both ends of each part"#);
    let rbac = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: 'system:x'}";
    assert_eq!(complaints(rbac), "");
}

#[test]
fn what_people_get_wrong_is_explained() {
    insta::assert_snapshot!(complaints("a: 1\nb: 2\na: 3"), @r#"
    a.yaml:3:1: "a" is written twice, first at a.yaml:1:1
      hint: remove one of them
    "#);
    insta::assert_snapshot!(complaints("grid:\n  x: 1\n  y: 2"), @r#"
    a.yaml:3:3: the key `y` is not a string: YAML reads it as a boolean
      hint: put it in quotes: "y"
    "#);
    insta::assert_snapshot!(complaints("a: !!binary aGk="), @"
    a.yaml:1:4: the tag !!binary is not supported
      hint: write the text itself, or base64 in `data` of a Secret
    ");
    insta::assert_snapshot!(complaints("a: .inf"), @r#"
    a.yaml:1:4: .inf has no representation in JSON
      hint: put it in quotes: ".inf"
    "#);
    insta::assert_snapshot!(complaints("a: 1\n<<: {a: 2}"), @r#"
    a.yaml:2:1: `<<` would change "a", which is written before it
      hint: put `<<` first in its mapping: YAML and kubectl disagree about who wins otherwise
    "#);
    insta::assert_snapshot!(complaints("a: {{ .Values.a }}"), @r"
    a.yaml:1:5: a key must be a string, not a mapping or a sequence
      hint: if that is a template ({{ … }}), commit what it renders to, or exclude the file in cutover.yaml
    ");
    insta::assert_snapshot!(complaints("a: &x [*x]"), @"a.yaml:1:8: an alias inside its own anchor");
    let tab = complaints("a:\n\tb: 1");
    assert!(tab.contains("hint: indent with spaces"), "{tab}");
}

#[test]
fn bytes_that_are_not_utf8_are_placed() {
    let parsed = parse(Source::new("a.yaml"), b"a: 1\nb: \xff", &Limits::default());
    assert_eq!(parsed.errors[0].location.to_string(), "a.yaml:2:4");
    assert_eq!(parsed.errors[0].problem, Problem::Encoding);
}

#[test]
fn a_billion_laughs_are_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{}, ", level - 1).repeat(10);
        text.extend([&format!("a{level}: &a{level} ["), below.as_str(), "]\n"]);
    }
    assert_eq!(over(&text), Some(Limit::FileCopies));
}

/// Returns the limit that a text runs into, and checks that what was read until then is within the others.
fn over(text: &str) -> Option<Limit> {
    let parsed = read(text);
    let kept: usize = parsed.objects.iter().map(|object| bytes_of(&object.value)).sum();
    let budget = Limits::default();
    assert!(
        kept <= text.len() + budget.of(Limit::FileCopiedBytes),
        "{kept} bytes of {}",
        text.len()
    );
    parsed.errors.iter().find_map(|error| match &error.problem {
        Problem::Limit(over) => Some(over.limit),
        _ => None,
    })
}

/// Returns how many bytes all texts in a value have.
fn bytes_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes_of).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| key.len() + bytes_of(value))
            .sum(),
        _ => 0,
    }
}

const HEAD: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

#[test]
fn copies_of_long_texts_count_by_their_bytes() {
    let long = "x".repeat(40_000);
    let aliases = "*a, ".repeat(10_000);
    for text in [
        format!("{HEAD}a: &a {long}\nb: [{aliases}]\n"),
        format!(
            "{HEAD}a: &a {{k: {long}}}\nb: [{}]\n",
            "{<<: *a}, ".repeat(10_000)
        ),
        // As keys, in mappings of their own.
        format!("{HEAD}a: &a {long}\nb: [{}]\n", "{*a : 1}, ".repeat(10_000)),
        // Each document begins anew, the file doesn't.
        format!("{HEAD}a: &a {long}\nb: [{}]\n---\n", "*a, ".repeat(50)).repeat(10),
    ] {
        assert_eq!(over(&text), Some(Limit::FileCopiedBytes), "{}", &text[..80]);
    }
}

#[test]
fn anchors_in_anchors_count_as_copies() {
    let nested = |text: &str| (0..90).fold(text.to_owned(), |text, level| format!("&a{level} [{text}]"));
    let many = format!("{HEAD}a: {}\n", nested(&"x, ".repeat(10_000)));
    assert_eq!(over(&many), Some(Limit::FileCopies));
    let long = format!("{HEAD}a: {}\n", nested(&"x".repeat(200_000)));
    assert_eq!(over(&long), Some(Limit::FileCopiedBytes));
}

#[test]
fn aliases_nest_no_deeper_than_what_is_written_out() {
    let mut text = format!("{HEAD}a0: &a0 x\n");
    for level in 1..40 {
        text.push_str(&format!(
            "a{level}: &a{level} {}*a{}{}\n",
            "[".repeat(9),
            level - 1,
            "]".repeat(9)
        ));
    }
    assert_eq!(over(&text), Some(Limit::FileDepth));
}

#[test]
fn what_is_anchored_and_used_now_and_then_is_read() {
    let base = (0..200).fold(String::new(), |text, field| {
        text + &format!("  f{field}: some text\n")
    });
    let uses = (0..40).fold(String::new(), |text, use_| {
        text + &format!("u{use_}: {{<<: *base, own: 1}}\n")
    });
    let parsed = read(&format!("{HEAD}base: &base\n{base}{uses}"));
    assert_eq!(parsed.errors, []);
    assert_eq!(parsed.objects[0].value["u39"]["f199"], "some text");
}

#[test]
fn of_many_errors_the_first_are_told_and_the_others_counted() {
    let parsed = read(&"a: [\n---\n".repeat(9_999));
    assert_eq!(parsed.errors.len(), 21);
    let last = &parsed.errors[20];
    assert_eq!(
        format!("{}: {last}", last.location),
        "a.yaml:42:1: and 9979 more errors"
    );
}

#[test]
fn errors_quote_no_more_than_a_line() {
    let long = "K".repeat(100_000);
    for text in [
        format!("{long}: 1\n{long}: 2\n"),
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {long}}}\n"),
        format!("apiVersion: {long}\nkind: Pod\nmetadata: {{name: a}}\n"),
        format!("a: !!{long} x\n"),
        format!("a: !{long} x\n"),
        format!("{}: x\n", "1".repeat(1000)),
        format!("a: [*{long}]\n"),
    ] {
        let parsed = read(&text);
        assert_eq!(parsed.errors.len(), 1, "{}", &text[..20]);
        let told = parsed.errors[0].to_string() + &parsed.errors[0].hint().unwrap_or_default();
        assert!(told.len() < 600, "{} bytes", told.len());
    }
}

#[test]
fn depth_is_limited() {
    let flow = "[".repeat(150);
    let block = (0..150).fold(String::new(), |text, depth| text + &" ".repeat(depth) + "a:\n");
    for text in [flow, block] {
        assert_eq!(over(&text), Some(Limit::FileDepth));
    }
}

#[test]
fn anchors_and_merge_keys_are_resolved() {
    let text = "base: &b {a: 1, c: 1}\nx: *b\nz:\n  <<: *b\n  c: 2\nw: {<<: [{p: 1}, {p: 2, q: 3}]}";
    assert_eq!(
        value(text),
        json!({"base": {"a": 1, "c": 1}, "x": {"a": 1, "c": 1}, "z": {"a": 1, "c": 2}, "w": {"p": 1, "q": 3}})
    );
}

#[test]
fn text_of_every_style_is_read() {
    let text = "\u{feff}lit: |\r\n  a\r\n  b\r\nfold: >-\r\n  a\r\n  b\r\nsingle: 'it''s'\r\ndouble: \"a\\tb\\u00e9\"\r\nbang: ! 12\r\n";
    assert_eq!(
        value(text),
        json!({"lit": "a\nb\n", "fold": "a b", "single": "it's", "double": "a\tbé", "bang": "12"})
    );
}

#[test]
fn json_is_read_with_positions() {
    let text = "{\n\t\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\",\n\t\"metadata\": {\"name\": \"a\"},\n\t\"data\": {\"smile\": \"\\ud83d\\ude00\", \"path\": \"a\\/b\"}\n}";
    let parsed = read(text);
    assert_eq!(parsed.errors, []);
    assert_eq!(
        parsed.objects[0].value["data"],
        json!({"smile": "😀", "path": "a/b"})
    );
    assert_eq!(parsed.objects[0].location("/data/path").line, 4);
}

#[test]
fn a_directive_stays_with_its_document() {
    let text = "a: 1\n...\n%YAML 1.2\n---\nb: 2\n";
    assert!(
        read(text)
            .errors
            .iter()
            .all(|error| matches!(error.problem, Problem::NotAnObject(_)))
    );
    assert_eq!(read(text).errors.len(), 2);
}

#[test]
fn a_set_follows_its_files() {
    let object = |name: &str| format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n---\n");
    let file = |path: &str, names: &[&str]| {
        let text: String = names.iter().map(|name| object(name)).collect();
        parse(Source::new(path), text.as_bytes(), &Limits::default())
    };
    let mut set = Set::new();
    set.update("b.yaml", file("b.yaml", &["x", "w"]));
    let touched = set.update("a.yaml", file("a.yaml", &["x", "z"]));
    assert_eq!(touched.len(), 2);
    assert_eq!(set.len(), 2);
    let duplicates: Vec<_> = set
        .duplicates()
        .map(|again| format!("{}: {again}", again.again))
        .collect();
    assert_eq!(
        duplicates,
        ["b.yaml:1:1: Namespace x is defined twice, first at a.yaml:1:1"]
    );
    let x = ObjectKey {
        group: String::new(),
        kind: "Namespace".into(),
        namespace: None,
        name: "x".into(),
    };
    assert!(set.get(&x).is_none() && set.mentions(&x));

    set.update("a.yaml", file("a.yaml", &["z"]));
    assert_eq!(set.duplicates().count(), 0);
    assert_eq!(set.get(&x).unwrap().source.path, "b.yaml");
    set.remove("b.yaml");
    assert!(!set.mentions(&x));
    assert_eq!(
        set.iter()
            .map(|object| object.key.name.as_str())
            .collect::<Vec<_>>(),
        ["z"]
    );
}

fn only_text_in_yaml_1_2(text: &str) -> bool {
    let meaning = scalar::resolve(text);
    let word = text.starts_with(|c: char| c.is_ascii_alphabetic()) && !matches!(text, "true" | "null");
    let number = text.trim_start_matches(['+', '-']).starts_with('0') || text.contains('_');
    meaning != scalar::Plain::Text && (word || number && !text.starts_with("0x"))
}

fn json_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a-zA-Z0-9 :#'\"\\-_.,{}\\[\\]&*!|>%@`~=?/\n\t]{0,12}",
        "(true|null|~|1e3|\\.inf|0x1f|---|- a|a: b|é😀)",
    ]
    .prop_filter("YAML 1.2 reads it as text and quotes it not", |text| {
        !only_text_in_yaml_1_2(text)
    });
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1.0e6..1.0e6_f64)
            .prop_filter("whole floats are read as integers", |f| f.fract() != 0.0)
            .prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(text.clone(), inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_serde_writes_is_read_as_serde_reads_it(value in json_value()) {
        let text = serde_yaml::to_string(&value).unwrap();
        prop_assert_eq!(&serde_yaml::from_str::<Value>(&text).unwrap(), &value);
        let read = parse_one("a.yaml", text.as_bytes(), &Limits::default());
        prop_assert_eq!(read.unwrap().map_or(Value::Null, |(value, _)| value), value, "{}", text);
    }

    #[test]
    fn json_text_is_read_as_json(value in json_value()) {
        for text in [serde_json::to_string(&value).unwrap(), serde_json::to_string_pretty(&value).unwrap()] {
            let read = parse_one("a.json", text.as_bytes(), &Limits::default());
            prop_assert_eq!(read.unwrap().map_or(Value::Null, |(value, _)| value), value.clone(), "{}", text);
        }
    }

    #[test]
    fn any_text_ends_in_objects_or_errors(text in "([a-z:#&*!|>%@`~?<\\-\\[\\]{},'\" \n\t]|---\n){0,200}") {
        let _ = parse(Source::new("a.yaml"), text.as_bytes(), &Limits::default());
    }

    #[test]
    fn every_value_has_a_position_where_it_is_written(value in json_value()) {
        let text = serde_json::to_string_pretty(&value).unwrap();
        let Ok(Some((value, positions))) = parse_one("a.json", text.as_bytes(), &Limits::default()) else {
            return Ok(());
        };
        let lines: Vec<Vec<char>> = text.lines().map(|line| line.chars().collect()).collect();
        let mut todo = vec![(String::new(), &value)];
        while let Some((pointer, value)) = todo.pop() {
            let mark = positions.get(&pointer).unwrap().root();
            let there = lines[mark.line as usize - 1][mark.column as usize - 1];
            let expected = serde_json::to_string(value).unwrap().chars().next().unwrap();
            prop_assert_eq!(there, expected, "{} in {}", pointer, text);
            match value {
                Value::Array(items) => {
                    todo.extend(items.iter().enumerate().map(|(i, item)| (format!("{pointer}/{i}"), item)));
                }
                Value::Object(fields) => todo.extend(fields.iter().map(|(key, item)| {
                    (format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")), item)
                })),
                _ => {}
            }
        }
    }
}

#[test]
fn of_many_broken_files_each_has_an_error_and_no_more_than_the_budget_is_kept() {
    let mut set = Set::new().within(&Limits::default().with(Limit::RevisionFindings, 30));
    let broken = parse(
        Source::new("a.yaml"),
        "a: [\n---\n".repeat(100).as_bytes(),
        &Limits::default(),
    );
    for file in 0..50 {
        set.update(&format!("{file}.yaml"), broken.clone());
    }
    assert!(set.errors().count() < 150, "{}", set.errors().count());
    let told = set.errors().map(|error| match error.problem {
        Problem::More(more) => more,
        _ => 1,
    });
    assert_eq!(told.sum::<usize>(), 5_000);
    for file in 0..50 {
        set.remove(&format!("{file}.yaml"));
    }
    set.update("a.yaml", broken);
    assert_eq!(set.errors().count(), 21);
}
