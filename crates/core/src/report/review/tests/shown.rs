//! What a reader sees: equal changes as one, links, what happens on merge, what to expect.

use super::*;
use cutover_karmada::name::Revision;

fn deployment(name: &str, image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

fn bump(name: &str, from: &str, to: &str) -> Change {
    let wanted = manifest(&deployment(name, to));
    Change::apply(&wanted, Some(&deployment(name, from)), None, "")
}

#[test]
fn equal_changes_are_one_row_and_different_values_are_counted() {
    let mut changes: Vec<Change> = (0..1950)
        .map(|number| bump(&format!("web-{number:04}"), "web:1", "web:2"))
        .collect();
    changes.extend((0..4).map(|number| {
        bump(
            &format!("x-{number}"),
            &format!("x-{number}:1"),
            &format!("x-{number}:2"),
        )
    }));
    changes.push(bump("other", "other:1", "other:1").unchecked("nothing"));
    let extra = json!({"metadata": {"labels": {"a": "b"}}});
    let mut other = deployment("other", "other:2");
    other["metadata"]["labels"] = extra["metadata"]["labels"].clone();
    changes.push(Change::apply(
        &manifest(&other),
        Some(&deployment("other", "other:1")),
        None,
        "",
    ));
    let plan = ChangeSet::new(None, changes);
    let review = Review {
        key: "plan",
        plan: Some(plan.view(None)),
        ..Review::default()
    };
    let short = review.markdown(COMMENT_LIMIT);
    let table: Vec<&str> = short.lines().filter(|line| line.starts_with("| ✏️")).collect();
    insta::assert_snapshot!(table.join("\n"), @r#"
    | ✏️ change | `Deployment shop/other` | `a.yaml:1` | not tried on the server: nothing |
    | ✏️ change | `Deployment shop/other` | `a.yaml:1` | image `other:1` → `other:2` |
    | ✏️ change | 1950 × `Deployment`: `shop/web-0000`, `shop/web-0001`, `shop/web-0002` and 1947 more | | `spec.template.spec.containers[main].image: web:1 → web:2` |
    | ✏️ change | 4 × `Deployment`: `shop/x-0`, `shop/x-1`, `shop/x-2` and 1 more | | `spec.template.spec.containers[main].image`: 4 different values |
    "#);
    let folded: Vec<&str> = short
        .lines()
        .filter(|line| line.starts_with("<details>"))
        .collect();
    insta::assert_snapshot!(folded.join("\n"), @r#"
    <details><summary>~ Deployment shop/other</summary>
    <details><summary>~ 1950 × Deployment</summary>
    <details><summary>~ 4 × Deployment</summary>
    "#);
    assert!(short.contains("- … and 1900 more"), "{short}");
    assert!(
        short.contains("the whole report") || short.contains("shows it all"),
        "a cut report says so"
    );
    let whole = review.markdown(usize::MAX);
    assert!(
        whole.contains("- `shop/web-1949` (`a.yaml:1`)"),
        "all names are in the whole report"
    );
}

#[test]
fn what_is_blocked_for_one_reason_is_one_line_and_counts_as_many() {
    let blocked = |number: usize| {
        Change::apply(&manifest(&config_map(&format!("c{number}"), "")), None, None, "")
            .blocked("no such namespace")
    };
    let plan = ChangeSet::new(None, (0..40).map(blocked).collect());
    let review = Review {
        key: "plan",
        plan: Some(plan.view(None)),
        ..Review::default()
    };
    assert_eq!(review.counts().blockers, 40);
    let report = review.markdown(COMMENT_LIMIT);
    let told: Vec<&str> = report.lines().filter(|line| line.starts_with("- ⛔")).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    - ⛔ 40 objects, `ConfigMap shop/c0`, `ConfigMap shop/c1`, `ConfigMap shop/c10` and 37 more: no such namespace
    "#);
}

#[test]
fn a_place_is_a_link_where_the_files_are_shown() {
    let revision: Revision = "4a8f0c1d2e3b4a5968778695a4b3c2d1e0f9a8b7".parse().unwrap();
    let links = Links {
        web: crate::report::Web::new(crate::report::Host::GitHub, "https://github.com/team/fleet").unwrap(),
        revision,
    };
    let findings = [Finding::new(
        Code::UnknownField,
        at(12),
        "spec.clusterAfinity is not a field",
    )];
    let plan = ChangeSet::new(None, vec![bump("web", "web:1", "web:2")]);
    let review = Review {
        key: "plan",
        findings: &findings,
        plan: Some(plan.view(None)),
        links: Some(&links),
        ..Review::default()
    };
    let report = review.markdown(COMMENT_LIMIT);
    let blob = "https://github.com/team/fleet/blob/4a8f0c1d2e3b4a5968778695a4b3c2d1e0f9a8b7";
    for link in [
        format!("[`policies/streaming.yaml:12:1`]({blob}/policies/streaming.yaml#L12)"),
        format!("| [`a.yaml:1`]({blob}/a.yaml#L1) |"),
    ] {
        assert!(report.contains(&link), "{link} is not in\n{report}");
    }
}

#[test]
fn a_reader_is_told_what_happens_on_merge_and_with_which_control_plane() {
    let base = "4a8f0c1d2e3b4a5968778695a4b3c2d1e0f9a8b7".parse().unwrap();
    let changes = vec![
        bump("web", "web:1", "web:2"),
        bump("cart", "web:1", "web:2").blocked("no such namespace"),
        bump("orders", "web:1", "web:2").held_back("Migration shop/orders-to-west"),
    ];
    let mut plan = ChangeSet::new(None, changes);
    plan.base = Some(base);
    let moves = [of(json!({}), Verdict::Clear)];
    let review = Review {
        key: "plan",
        plan: Some(plan.view(None)),
        moves: &moves,
        server: Some("https://karmada.example.com:5443"),
        ..Review::default()
    };
    let report = review.markdown(COMMENT_LIMIT);
    let head: Vec<&str> = report
        .lines()
        .take_while(|line| !line.starts_with("### W"))
        .collect();
    insta::assert_snapshot!(head.join("\n"), @r#"
    <!-- cutover review: plan -->
    ### Plan: 0 to create, 1 to change, 0 to delete, 1 held back, 1 blocked.

    compared with `https://karmada.example.com:5443`

    **On merge**, cutover writes 1 change to this control plane; 1 change is held back until its intent applies it; 1 blocked change is left out, and the rest is carried out all the same; Migration shop/orders-to-west can begin at once.
    "#);
    // In Git alone, nobody knows.
    let offline = Review {
        server: None,
        ..review
    };
    assert!(!offline.markdown(COMMENT_LIMIT).contains("On merge"));
}

#[test]
fn earlier_moves_say_what_downtime_to_expect_of_one_that_stops_first() {
    let mut history = crate::report::History::default();
    history.add(
        br#"{"kind":"Migration","namespace":"shop","workload":"FlinkDeployment orders","phase":"Completed","finishedAt":"2030-01-01T06:00:00Z","downtimeMs":41000}"#,
    );
    let told = |more: Value, verdict: Verdict| {
        let mut one = of(more, verdict);
        one.earlier = history.of(&one.workload);
        (moves::section(&one, Places::default()), one.forecast().remarks)
    };
    let says = "Its last completed move took 41.0 s of downtime.";
    let (section, remarks) = told(json!({}), Verdict::Clear);
    assert!(
        section.contains(says) && remarks == [says],
        "{section} {remarks:?}"
    );
    for (more, verdict) in [
        (json!({"strategy": "StartFirst"}), Verdict::Clear),
        (json!({}), Verdict::Blocked(Vec::new())),
        (json!({}), Verdict::There),
    ] {
        let (section, remarks) = told(more, verdict);
        assert!(
            !section.contains(says) && remarks.is_empty(),
            "{section} {remarks:?}"
        );
    }
}

#[test]
fn what_would_fail_has_no_steps_and_no_arrow() {
    let finding = api::Finding::new("NoCluster", "no cluster wset is joined", "fix spec.to");
    let one = of(json!({}), Verdict::Blocked(vec![finding]));
    let section = moves::section(&one, Places::default());
    assert!(
        !section.contains("| step |") && section.contains("would fail in Preflight"),
        "{section}"
    );
    assert!(one.forecast().steps.is_empty());
    assert_eq!(chart::chart(&[one], &[], &[]), None);
}
