//! Profiles: expressions and paths that are compiled and run for whoever writes them.

use super::{Case, Entry};

const FAMILY: &str = "profiles";

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, expression) in expressions() {
        for place in ["requires", "healthyWhen"] {
            let expression = expression.clone();
            cases.push(profile(format!("{name} in {place}"), move || {
                if place == "requires" {
                    (expression.clone(), "true".to_owned(), "$.a".to_owned())
                } else {
                    ("true".to_owned(), expression.clone(), "$.a".to_owned())
                }
            }));
        }
    }
    for (name, path) in paths() {
        cases.push(profile(format!("the path of {name}"), move || {
            ("true".to_owned(), "true".to_owned(), path.clone())
        }));
    }
    cases
}

/// Two ways to say it, at most: what must be true of a template, and when a copy is healthy; and a JSONPath.
fn profile(name: String, make: impl Fn() -> (String, String, String) + Send + Sync + 'static) -> Case {
    Case::files(FAMILY, name, move || {
        let (requires, healthy, path) = make();
        let quoted = |text: &String| serde_json::to_string(text).unwrap();
        let (requires, healthy, path) = (quoted(&requires), quoted(&healthy), quoted(&path));
        let profile = format!(
            "apiVersion: cutover.dev/v1alpha1\nkind: WorkloadProfile\nmetadata: {{name: a}}\nspec:\n  appliesTo: {{group: apps, kinds: [StatefulSet]}}\n  \
             requires: [{{cel: {requires}, message: no}}]\n  stateful: true\n  suspend: []\n  hold: []\n  start: []\n  restart: []\n  \
             observedWhen: 'true'\n  suspendedWhen: 'true'\n  healthyWhen: {healthy}\n  inUse: {path}\n"
        );
        let workload = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a, namespace: default}\nspec: {replicas: 1}\n---\n\
            apiVersion: cutover.dev/v1alpha1\nkind: Migration\nmetadata: {name: a, namespace: default}\nspec:\n  \
            workload: {apiVersion: apps/v1, kind: StatefulSet, name: a}\n  profile: a\n  to: west\n";
        vec![
            ("apps/profile.yaml".to_owned(), Entry::File(profile.into_bytes())),
            ("apps/workload.yaml".to_owned(), Entry::File(workload.into())),
        ]
    })
}

fn expressions() -> Vec<(String, String)> {
    let list = format!("[{}]", "1,".repeat(60));
    let mut all = Vec::new();
    for depth in [2, 4, 8] {
        let open: String = (0..depth).map(|level| format!("{list}.all(x{level}, ")).collect();
        all.push((
            format!("{depth} loops in each other"),
            format!("{open}true{}", ")".repeat(depth)),
        ));
        let open: String = (0..depth).map(|level| format!("{list}.map(x{level}, ")).collect();
        all.push((
            format!("{depth} lists of lists"),
            format!("{open}1{} == []", ")".repeat(depth)),
        ));
    }
    for times in [100, 5_000, 200_000] {
        all.push((
            format!("{times} parentheses"),
            format!("{}true{}", "(".repeat(times), ")".repeat(times)),
        ));
        all.push((format!("{times} negations"), format!("{}true", "!".repeat(times))));
        all.push((
            format!("{times} terms"),
            format!("true{}", " && true".repeat(times)),
        ));
    }
    let more = [
        (
            "doubled texts",
            format!(
                "[{}].map(x, 'a'{}).size() > 0",
                "1,".repeat(500),
                " + 'aaaaaaaaaaaaaaaa'".repeat(100)
            ),
        ),
        (
            "a pattern that goes back",
            format!("'{}'.matches('(a*)*b')", "a".repeat(5_000)),
        ),
        (
            "a pattern that grows",
            "'a'.matches('(((a{1,1000}){1,1000}){1,1000}){1,1000}')".to_owned(),
        ),
        (
            "a list of 100,000",
            format!("[{}].all(x, x == 1)", "1,".repeat(100_000)),
        ),
        ("no end", "((((('".to_owned()),
        ("an unknown function", "object.nothing().all(x, true)".to_owned()),
        ("a text of 1 MB", format!("'{}' == ''", "x".repeat(1_000_000))),
        ("division by nothing", "1 / 0 == 1".to_owned()),
        ("numbers that overflow", "9223372036854775807 + 1 > 0".to_owned()),
    ];
    all.extend(more.map(|(name, text)| (name.to_owned(), text)));
    all
}

fn paths() -> Vec<(&'static str, String)> {
    vec![
        ("every descendant", "$..*..*..*..*..*".to_owned()),
        ("many descendants", format!("${}", "..a".repeat(5_000))),
        ("many brackets", format!("${}", "[0]".repeat(100_000))),
        (
            "filters in filters",
            format!("$[?{}@.a{}]", "@[?".repeat(200), "]".repeat(200)),
        ),
        ("a filter with a pattern", "$..[?search(@, '(a*)*b')]".to_owned()),
        ("open brackets", "$[".repeat(100_000)),
        ("a slice of nothing", "$[0:0:0]".to_owned()),
        (
            "a huge slice",
            "$[-9223372036854775808:9223372036854775807:1]".to_owned(),
        ),
        ("an open template", "${captured.".repeat(10_000)),
    ]
}
