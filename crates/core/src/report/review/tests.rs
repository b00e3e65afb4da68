mod fates;
mod shown;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::api::{self, Migration};
use crate::finding::Code;
use crate::manifest::{Limits, Source, parse};
use crate::plan::{Change, ChangeSet, ForecastMove};
use cutover_karmada::name::{ClusterName, Location, ObjectKey};
use cutover_karmada::{Cluster, PropagationPolicy, ResourceBinding};

fn manifest(value: &Value) -> std::sync::Arc<crate::manifest::Manifest> {
    let parsed = parse(
        Source::new("a.yaml"),
        value.to_string().as_bytes(),
        &Limits::default(),
    );
    parsed.objects.into_iter().next().unwrap().into()
}

fn config_map(name: &str, text: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, "data": {"text": text}})
}

fn at(line: u32) -> Location {
    Location {
        path: "policies/streaming.yaml".to_owned(),
        line,
        column: 1,
    }
}

fn migration(more: Value) -> Migration {
    let mut spec = json!({
        "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
        "to": "west",
    });
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    serde_json::from_value(json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Migration",
        "metadata": {"name": "orders-to-west", "namespace": "shop"}, "spec": spec,
    }))
    .unwrap()
}

fn of(more: Value, verdict: Verdict) -> Move {
    let mut one = Move::new(&migration(more), Some(at(3)));
    one.preview.source = Some(ClusterName::new("east"));
    one.preview.verdict = verdict;
    one
}

fn cluster(name: &str) -> Cluster {
    serde_json::from_value(
        json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name}, "spec": {"syncMode": "Push"}}),
    )
    .unwrap()
}

fn binding(name: &str, clusters: &[&str]) -> ResourceBinding {
    let clusters: Vec<Value> = clusters.iter().map(|name| json!({"name": name})).collect();
    serde_json::from_value(
        json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": format!("{name}-deployment"), "namespace": "shop"},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name},
                 "clusters": clusters}}),
    )
    .unwrap()
}

fn policy(placement: Value, suspension: Value) -> cutover_karmada::PropagationSpec {
    let policy: PropagationPolicy = serde_json::from_value(json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "streaming", "namespace": "shop"},
        "spec": {"resourceSelectors": [], "placement": placement, "suspension": suspension},
    }))
    .unwrap();
    policy.spec
}

fn names(clusters: &[&str]) -> Value {
    json!({"clusterAffinity": {"clusterNames": clusters}})
}

fn change(
    before: Option<cutover_karmada::PropagationSpec>,
    after: Option<cutover_karmada::PropagationSpec>,
) -> PolicyChange {
    PolicyChange {
        policy: ObjectKey {
            group: "policy.karmada.io".to_owned(),
            kind: "PropagationPolicy".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "streaming".to_owned(),
        },
        at: Some(at(9)),
        held_back: None,
        before,
        after,
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "what a reviewer reads is the test")]
fn a_reviewer_reads_what_blocks_who_moves_and_what_a_policy_does_by_itself() {
    let (east, both) = (
        policy(names(&["east"]), Value::Null),
        policy(names(&["west", "north"]), Value::Null),
    );
    let bindings = [
        binding("web", &["east"]),
        binding("cart", &["west"]),
        binding("gone", &[]),
    ];
    let clusters = ["east", "north", "west"].map(cluster);
    let reach = Reach::of(
        &change(Some(east), Some(both)),
        &bindings.iter().collect::<Vec<_>>(),
        &clusters,
        &[],
    );
    let finding = api::Finding::new(
        "TargetNotReady",
        "west is not Ready",
        "wait until Karmada says that it is",
    );
    let mut in_place = of(json!({}), Verdict::Clear);
    in_place.template = Template::InPlace;
    assert!(
        moves::section(&in_place, Places::default())
            .contains("it is changed where it runs, before the migration begins")
    );
    let mut blocked = of(
        json!({"approval": {"before": ["Handoff"]}}),
        Verdict::Blocked(vec![finding]),
    );
    blocked.neighbours = Neighbours {
        policy: Some("PropagationPolicy shop/streaming".to_owned()),
        workloads: vec!["FlinkDeployment payments".to_owned()],
    };
    let findings = [
        Finding::new(Code::UnknownField, at(2), "spec.clusterAfinity is not a field")
            .hint("did you mean clusterAffinity?"),
        Finding::new(Code::PlainSecret, at(5), "a secret | in @plain text"),
    ];
    let before = config_map("notes", "a");
    let plan = ChangeSet::new(
        None,
        vec![
            Change::apply(&manifest(&config_map("notes", "b")), Some(&before), None, ""),
            Change::apply(&manifest(&config_map("other", "b")), None, None, "").blocked("no such namespace"),
        ],
    );
    let review = Review {
        key: "plan",
        plan: Some(plan.view(None)),
        findings: &findings,
        moves: &[blocked],
        reaches: &[reach],
        server: Some("https://karmada.example.com:5443"),
        notes: &["The members could not be asked.".to_owned()],
        ..Review::default()
    };
    insta::assert_snapshot!(review.markdown(COMMENT_LIMIT).replace("&#8203;", "·"), @r#"
    <!-- cutover review: plan -->
    ### Plan: 0 to create, 1 to change, 0 to delete, 1 blocked.

    compared with `https://karmada.example.com:5443`

    > The members could not be asked.

    ### What would block it

    - ❌ CUT0006 `policies/streaming.yaml:2:1`: spec.clusterAfinity is not a field (did you mean clusterAffinity?)
    - ⛔ `ConfigMap shop/other` (`a.yaml:1`): no such namespace
    - ⛔ `Migration shop/orders-to-west`: **TargetNotReady**: west is not Ready (wait until Karmada says that it is)

    ### Who moves where

    ```mermaid
    flowchart LR
        c0["east"]
        c1["north or west"]
        c0 -. "Deployment shop/web (by Karmada, without a protocol)" .-> c1
    ```

    #### Migration shop/orders-to-west (`policies/streaming.yaml:3`)

    Moves `FlinkDeployment shop/orders` from `east` to `west`; if it fails, it is rolled back.

    ⛔ It would fail in Preflight, with nothing touched; above is why.

    ### What Karmada does by itself when policies change

    `PropagationPolicy shop/streaming` (`policies/streaming.yaml:9`) places 3 workloads:

    - `Deployment shop/web`: ⚠️ **Karmada takes it out of east and recreates it in north or west, without its state and unwatched**; a Migration moves it safely
    - `Deployment shop/gone`: may be rescheduled; runs in no cluster
    - `Deployment shop/cart`: may be rescheduled; runs in west

    ### Changes

    | | object | where | |
    |---|---|---|---|
    | ⛔ blocked | `ConfigMap shop/other` | `a.yaml:1` | no such namespace |
    | ✏️ change | `ConfigMap shop/notes` | `a.yaml:1` |  |

    <details><summary>1 remark</summary>

    - ⚠️ CUT0301 `policies/streaming.yaml:5:1`: a secret \| in @·plain text

    </details>

    <details><summary>x ConfigMap shop/other</summary>

    ```diff
    + apiVersion: v1
    + kind: ConfigMap
    + metadata:
    +   name: other
    +   namespace: shop
    + data:
    +   text: b
    ```

    </details>

    <details><summary>~ ConfigMap shop/notes</summary>

    ```diff
    ! data.text: a → b
    ```

    </details>
    "#);
    assert_eq!(
        review.counts(),
        Counts {
            errors: 1,
            warnings: 1,
            blockers: 3
        }
    );
}

#[test]
fn a_stateless_move_that_starts_first_has_other_steps() {
    let one = of(json!({"strategy": "StartFirst"}), Verdict::Clear);
    let text = moves::section(&one, Places::default());
    assert!(
        text.contains("| Expand | a copy is brought to `west` | both run |"),
        "{text}"
    );
    assert!(!text.contains("Capture"), "{text}");
    assert!(text.contains("Nothing is seen now that blocks it"), "{text}");
}

#[test]
fn what_a_policy_change_does_is_told_for_each_workload() {
    let clusters = ["east", "north", "west"].map(cluster);
    let fate = |before, after| {
        let reach = Reach::of(
            &change(before, after),
            &[&binding("web", &["east"])],
            &clusters,
            &[],
        );
        reach.effects[0].fate.clone()
    };
    let plain = |clusters: &[&str]| Some(policy(names(clusters), Value::Null));
    let suspended = Some(policy(names(&["east"]), json!({"dispatching": true})));
    let east = vec![ClusterName::new("east")];
    assert_eq!(fate(plain(&["east"]), plain(&["east"])), Fate::Stays);
    assert_eq!(
        fate(plain(&["east"]), plain(&["east", "west"])),
        Fate::MayMove { from: east.clone() }
    );
    assert_eq!(
        fate(plain(&["east"]), plain(&["west"])),
        Fate::Leaves {
            from: east.clone(),
            stays: Vec::new(),
            to: vec![ClusterName::new("west")]
        }
    );
    assert_eq!(
        fate(plain(&["east"]), plain(&["south"])),
        Fate::Leaves {
            from: east,
            stays: Vec::new(),
            to: Vec::new()
        }
    );
    assert_eq!(fate(plain(&["east"]), suspended.clone()), Fate::Suspended);
    assert_eq!(fate(suspended.clone(), suspended), Fate::Stays);
    assert_eq!(fate(plain(&["east"]), None), Fate::Orphaned);
}

#[test]
fn workloads_that_an_intent_moves_together_are_one_arrow() {
    let one = |workload: &str, to: Option<&str>| ForecastMove {
        workload: format!("FlinkDeployment shop/{workload}"),
        from: "east".to_owned(),
        to: to.map(str::to_owned),
    };
    let names = ["a", "b", "c", "d", "e"];
    let mut moves: Vec<_> = names.iter().map(|name| one(name, Some("west"))).collect();
    moves.push(one("f", Some("north")));
    moves.push(one("g", None));
    let forecast = Forecast {
        outcome: Outcome::Begins,
        moves,
        ..Forecast::default()
    };
    insta::assert_snapshot!(chart::chart(&[], &[&forecast], &[]).unwrap(), @r#"
    ```mermaid
    flowchart LR
        c0["east"]
        c2["north"]
        c3["west"]
        c1["wherever there is room"]
        c0 -. "FlinkDeployment shop/g (by Karmada's scheduler)" .-> c1
        c0 -- "FlinkDeployment shop/f" --> c2
        c0 -- "FlinkDeployment shop/a, FlinkDeployment shop/b, FlinkDeployment shop/c and 2 more" --> c3
    ```
    "#);
    // What would be refused moves nobody.
    let key = manifest(&config_map("drain", "")).key.clone();
    let mut plan = ChangeSet::new(
        None,
        vec![Change::apply(&manifest(&config_map("drain", "")), None, None, "")],
    );
    let refused = Forecast {
        outcome: Outcome::Refused,
        ..forecast
    };
    plan.dry_run([(key, refused)].into());
    assert!(plan.changes[0].forecast.as_ref().unwrap().moves.is_empty());
}

#[test]
fn a_chart_says_how_many_arrows_have_no_room() {
    let one = |number: usize| ForecastMove {
        workload: "FlinkDeployment shop/a".to_owned(),
        from: format!("c{number}"),
        to: Some("west".to_owned()),
    };
    let forecast = Forecast {
        moves: (0..32).map(one).collect(),
        ..Forecast::default()
    };
    let chart = chart::chart(&[], &[&forecast], &[]).unwrap();
    assert!(chart.ends_with("\n… and 2 more arrows.\n"), "{chart}");
}

/// Whether every fence and every collapsed section that begins in a text ends in it.
fn is_whole(text: &str) -> bool {
    let mut fence: Option<&str> = None;
    let mut open = 0_i32;
    for line in text.lines() {
        let ticks = &line[..line.len() - line.trim_start_matches('`').len()];
        match fence {
            Some(begun) if line == begun => fence = None,
            Some(_) => {}
            None if ticks.len() >= 3 => fence = Some(ticks),
            None => {
                open += i32::try_from(line.matches("<details>").count()).unwrap();
                open -= i32::try_from(line.matches("</details>").count()).unwrap();
            }
        }
    }
    fence.is_none() && open == 0
}

proptest! {
    #[test]
    fn a_report_is_never_too_long_and_never_cut_within_a_part(
        texts in proptest::collection::vec("(?s).{0,400}|[`~<>|\n]{0,80}|(€🦀\n){0,60}|(</details>\n){0,4}", 0..40),
        limit in 700_usize..9000,
        blockers in 0_usize..40,
    ) {
        let changes = texts.iter().enumerate().map(|(number, text)| {
            let wanted = manifest(&config_map(&format!("c{number}"), text));
            let change = Change::apply(&wanted, Some(&config_map(&format!("c{number}"), "before")), None, "");
            if number % 5 == 0 { change.blocked(text) } else { change }
        });
        let plan = ChangeSet::new(None, changes.collect());
        let findings: Vec<Finding> = texts.iter().take(blockers)
            .map(|text| Finding::new(Code::UnknownField, at(1), text.clone()).hint(text.clone()))
            .collect();
        let moves: Vec<Move> = texts.iter().take(3)
            .map(|text| of(json!({}), Verdict::Waits(text.clone())))
            .collect();
        let review = Review {
            key: "plan",
            plan: Some(plan.view(None)),
            findings: &findings,
            moves: &moves,
            whole: Some("the artifact `cutover-report`"),
            ..Review::default()
        };
        let short = review.markdown(limit);
        prop_assert!(short.chars().count() <= limit, "{} > {limit}", short.chars().count());
        prop_assert!(is_whole(&short), "{short}");
        prop_assert!(short.starts_with(&marker("plan")));
        let whole = review.markdown(usize::MAX);
        prop_assert!(is_whole(&whole), "{whole}");
        let cut = short.contains("the whole report is the artifact");
        prop_assert_eq!(cut, short != whole, "a cut report says so");
    }
}
