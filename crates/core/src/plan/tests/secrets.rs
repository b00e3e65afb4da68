use super::*;
use crate::report::review::Review;
use crate::report::{annotation_commands, plan_annotations};

#[test]
fn secrets_show_that_they_change_and_not_to_what() {
    let before = live(
        secret(json!({"a": "b2xk", "b": "c2FtZQ==", "c": "Z29uZQ=="})),
        &[(US, json!({"f:data": {"f:a": {}, "f:b": {}, "f:c": {}}}))],
    );
    let after = secret(json!({"a": "bmV3", "b": "c2FtZQ==", "d": "YWRkZWQ="}));
    let wanted = manifest("s.yaml", &after);
    let plan = ChangeSet::new(None, vec![Change::apply(&wanted, Some(&before), None, US)]);
    insta::assert_snapshot!(text(&plan, &TextOptions::default()), @"
    ~ Secret shop/key  (s.yaml:1:1)
      ~ data.a: *** (old) → *** (new)
      - data.c: *** (old)
      + data.d: *** (new)

    Plan: 0 to create, 1 to change, 0 to delete.
    ");
    let options = TextOptions {
        style: DiffStyle::Unified,
        ..TextOptions::default()
    };
    insta::assert_snapshot!(text(&plan, &options), @"
    ~ Secret shop/key  (s.yaml:1:1)
      @ metadata
          name: key
          namespace: shop
        data:
      -   a: *** (old)
      +   a: *** (new)
          b: ***
      -   c: *** (old)
      +   d: *** (new)

    Plan: 0 to create, 1 to change, 0 to delete.
    ");
}

proptest! {
    #[test]
    fn no_value_of_a_secret_is_ever_shown(
        before in prop::collection::btree_map("[a-d]", "[a-z]{0,2}hunter2[a-z]{0,2}", 0..4),
        after in prop::collection::btree_map("[a-d]", "[a-z]{0,2}hunter2[a-z]{0,2}", 0..4),
        plain in any::<bool>(),
        shape in 0..4,
    ) {
        let encode = |data: &std::collections::BTreeMap<String, String>| -> Value {
            data.iter().map(|(key, value)| (key.clone(), Value::from(crate::redact::base64(value.as_bytes())))).collect()
        };
        let values: Vec<String> = before.values().chain(after.values()).cloned().collect();
        let mut there = secret(encode(&before));
        there["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": json!(before).to_string()});
        let mut wanted = secret(encode(&after));
        if plain {
            wanted.as_object_mut().unwrap().shift_remove("data");
            wanted["stringData"] = json!(after);
        }
        let wrap = |inner: Value| match shape {
            0 => inner,
            1 => flink(json!({"manifests": [inner]})),
            2 => flink(json!({"deep": {"er": inner}})),
            _ => flink(json!({"list": {"apiVersion": "v1", "kind": "List", "items": [{"kind": "ConfigMap"}, inner]}})),
        };
        let (there, wanted) = (wrap(there), wrap(wanted));
        let wanted_manifest = manifest("s.yaml", &wanted);
        let plan = ChangeSet::new(None, vec![
            Change::apply(&wanted_manifest, None, None, US),
            Change::apply(&wanted_manifest, Some(&there), None, US),
            Change::apply(&wanted_manifest, Some(&there), Some(&wanted), US),
            Change::delete(wanted_manifest.key.clone(), wanted_manifest.gvk.clone(), &there),
            Change::apply(&wanted_manifest, Some(&there), None, US).held_back("somebody"),
        ]);
        let shown = [
            text(&plan, &TextOptions::default()),
            text(&plan, &TextOptions { style: DiffStyle::Unified, ..TextOptions::default() }),
            text(&plan, &TextOptions { style: DiffStyle::Fields, ..TextOptions::default() }),
            Review { plan: Some(plan.view(None)), ..Review::default() }.markdown(65_536),
            annotation_commands(&plan_annotations(&plan.view(None)), usize::MAX),
            text(&plan, &TextOptions { palette: Palette::coloured(), ..TextOptions::default() }),
            serde_json::to_string(&plan.view(None).document()).unwrap(),
            format!("{plan:?} {wanted_manifest:?}"),
        ];
        for text in shown {
            prop_assert!(!text.contains("hunter2"), "{}", text);
            for value in &values {
                prop_assert!(!text.contains(&crate::redact::base64(value.as_bytes())), "{}", text);
            }
        }
    }
}

/// What a plan shows to whoever may read it, in every form.
fn shown(plan: &ChangeSet) -> Vec<String> {
    let styles = [DiffStyle::default(), DiffStyle::Unified, DiffStyle::Fields];
    let texts = styles.map(|style| {
        let options = TextOptions {
            style,
            ..TextOptions::default()
        };
        text(plan, &options)
    });
    let view = plan.view(None);
    let review = Review {
        plan: Some(plan.view(None)),
        ..Review::default()
    };
    let more = [
        review.markdown(65_536),
        annotation_commands(&plan_annotations(&view), usize::MAX),
        serde_json::to_string(&view.document()).unwrap(),
        format!("{plan:?}"),
    ];
    texts.into_iter().chain(more).collect()
}

/// A field of a container, and what stands in it for a guess.
type Place = (&'static str, fn(usize, &str) -> Vec<Value>);

/// A pull request that writes many guesses beside a live value sees the same whether the right one is among them or not.
#[test]
fn a_plan_does_not_tell_the_right_guess_at_a_secret_from_wrong_ones() {
    const RIGHT: &str = "guess-of-a-secret";
    let wrong = |number: usize| format!("guess-{number:02}-secret");
    let job = |containers: Value| flink(json!({"podTemplate": {"spec": {"containers": containers}}}));
    let container = |field: &str, items: Value| {
        let mut container = json!({"name": "main"});
        container[field] = items;
        job(json!([container]))
    };
    let places: [Place; 5] = [
        ("args", |_, guess| vec![json!("--token"), json!(guess)]),
        ("args", |_, guess| vec![json!(format!("--token={guess}"))]),
        ("args", |number, guess| {
            vec![json!(format!("--token-{number}={guess}"))]
        }),
        ("env", |number, guess| {
            vec![json!({"name": format!("PASSWORD_{number}"), "value": guess})]
        }),
        ("env", |_, guess| {
            vec![json!({"name": "PASSWORD", "value": guess})]
        }),
    ];
    for (field, item) in places {
        // The live one stands where no guess does: of one in its very place a plan has to say whether it changes.
        let mut there = container(field, item(99, RIGHT).into());
        there["metadata"]["uid"] = json!("5c1f");
        let with = |right: Option<usize>| {
            let guess = |number| {
                if right == Some(number) {
                    RIGHT.to_owned()
                } else {
                    wrong(number)
                }
            };
            let items: Vec<Value> = (0..24).flat_map(|number| item(number, &guess(number))).collect();
            let wanted = container(field, items.into());
            let manifest = manifest("s.yaml", &wanted);
            ChangeSet::new(
                None,
                vec![
                    Change::apply(&manifest, Some(&there), None, US),
                    Change::apply(&manifest, Some(&there), Some(&wanted), US),
                ],
            )
        };
        let none = shown(&with(None));
        assert!(
            none.iter().any(|text| text.contains("***")),
            "nothing is masked: {none:?}"
        );
        for right in 1..24 {
            assert_eq!(shown(&with(Some(right))), none, "{field}: guess {right}");
        }
    }
}
