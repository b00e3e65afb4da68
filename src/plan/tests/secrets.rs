use super::*;

#[test]
fn secrets_show_that_they_change_and_not_to_what() {
    let before = live(
        secret(json!({"a": "b2xk", "b": "c2FtZQ==", "c": "Z29uZQ=="})),
        &[(US, json!({"f:data": {"f:a": {}, "f:b": {}, "f:c": {}}}))],
    );
    let after = secret(json!({"a": "bmV3", "b": "c2FtZQ==", "d": "YWRkZWQ="}));
    let plan = ChangeSet::new(
        None,
        vec![Change::apply(
            &manifest("s.yaml", &after),
            Some(&before),
            None,
            US,
        )],
    );
    insta::assert_snapshot!(plan.text(&TextOptions::default()), @"
    ~ Secret shop/key  (s.yaml:1:1)
      @ metadata
          name: key
          namespace: shop
        data:
      -   a: '*** (before)'
      +   a: '*** (after)'
          b: '***'
      -   c: '***'
      +   d: '***'

    Plan: 0 to create, 1 to change, 0 to delete.
    ");
    insta::assert_snapshot!(serde_json::to_string(&plan.document().changes[0].diff).unwrap(), @r#"[{"op":"replace","path":"/data/a","value":"*** (after)"},{"op":"add","path":"/data/d","value":"***"},{"op":"remove","path":"/data/c"}]"#);
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
            data.iter().map(|(key, value)| (key.clone(), Value::from(mask::base64(value.as_bytes())))).collect()
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
            plan.text(&TextOptions::default()),
            plan.text(&TextOptions { palette: Palette::coloured(), ..TextOptions::default() }),
            serde_json::to_string(&plan.document()).unwrap(),
            format!("{plan:?} {wanted_manifest:?}"),
        ];
        for text in shown {
            prop_assert!(!text.contains("hunter2"), "{}", text);
            for value in &values {
                prop_assert!(!text.contains(&mask::base64(value.as_bytes())), "{}", text);
            }
        }
    }

    #[test]
    fn base64_is_what_others_decode(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
        let text = mask::base64(&bytes);
        let value = |b: u8| b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".iter().position(|c| *c == b);
        let bits: String = text.bytes().filter_map(value).map(|six| format!("{six:06b}")).collect();
        let decoded: Vec<u8> = bits.as_bytes().chunks_exact(8).map(|byte| u8::from_str_radix(std::str::from_utf8(byte).unwrap(), 2).unwrap()).collect();
        prop_assert_eq!(decoded, bytes);
        prop_assert_eq!(text.len() % 4, 0);
    }
}
