use proptest::prelude::*;
use serde_json::json;

use super::words::{Use, Words};
use super::*;

fn values() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0_u64..300).prop_map(Value::from),
        "[a-c]{0,5}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        // Around the border between texts whose length is in the tag, and others.
        (230_usize..260).prop_map(|length| "é".repeat(length).into()),
    ];
    scalar.prop_recursive(6, 64, 8, |inside| {
        prop_oneof![
            prop::collection::vec(inside.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec(("[a-d]{0,3}|\\PC{0,80}", inside), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// The text tells the order of fields, which the comparison of trees does not.
fn text(value: &Value) -> String {
    value.to_string()
}

proptest! {
    #[test]
    fn what_is_packed_comes_out_as_it_was(value in values()) {
        let packed = Packed::of(&value);
        prop_assert_eq!(text(&packed.value()), text(&value));
        prop_assert_eq!(packed.view().bytes().len(), packed.size());
    }

    #[test]
    fn reading_text_packs_what_packing_its_tree_does(value in values()) {
        let read: Packed = serde_json::from_str(&text(&value)).unwrap();
        let tree: Value = serde_json::from_str(&text(&value)).unwrap();
        prop_assert_eq!(text(&read.value()), text(&tree));
    }

    #[test]
    fn a_field_is_found_as_in_a_tree(value in values(), name in "[a-d]{0,3}") {
        let packed = Packed::of(&value);
        prop_assert_eq!(packed.view().get(&name).map(View::value), value.get(&name).cloned());
    }

    #[test]
    fn views_are_the_same_as_trees_are(one in values(), other in values()) {
        let (packed, packed_other) = (Packed::of(&one), Packed::of(&other));
        prop_assert_eq!(packed.view().is_same(packed_other.view()), one == other);
        prop_assert!(packed.view().is_same(Packed::of(&one).view()));
    }

    #[test]
    fn keeping_all_changes_nothing(value in values()) {
        let packed = Packed::of(&value);
        prop_assert_eq!(text(&packed.sifted(|_, _| Part::Sift).value()), text(&value));
    }
}

#[test]
fn numbers_at_the_limits_come_out_as_they_were() {
    for number in [
        json!(u64::MAX),
        json!(i64::MIN),
        json!(i64::MAX),
        json!(-1),
        json!(1.5e300),
        json!(-0.0),
        json!(1.0),
    ] {
        assert_eq!(text(&Packed::of(&number).value()), text(&number));
    }
}

#[test]
fn what_is_not_chosen_is_dropped_wherever_it_stands() {
    let object = json!({
        "kind": "Job",
        "status": {"a": [1, {"b": 2}]},
        "metadata": {"name": "x", "managedFields": [{"manager": "a"}, {"manager": "b", "subresource": "status"}]},
    });
    let packed = Packed::of(&object).sifted(|path, part| match path {
        ["status"] => Part::Drop,
        ["metadata"] | ["metadata", "managedFields"] => Part::Sift,
        ["metadata", "managedFields", "*"] if part.get("subresource").is_some() => Part::Drop,
        _ => Part::Keep,
    });
    let left = json!({"kind": "Job", "metadata": {"name": "x", "managedFields": [{"manager": "a"}]}});
    assert_eq!(text(&packed.value()), text(&left));
}

#[test]
fn objects_of_one_kind_take_little_once_their_words_are_known() {
    let object = |number: usize| {
        let name = format!("orders-{number}");
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "shop", "labels": {"app.kubernetes.io/part-of": "fleet"}, "managedFields": [{
                "manager": "cutover", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:data": {"f:a-setting": {}, "f:another-setting": {}}},
            }]},
            "data": {"a-setting": "1", "another-setting": "2"},
        })
    };
    // A table of its own: other tests fill the common one with words that no object has.
    let words: &'static Words = Box::leak(Box::new(Words::new()));
    let size = |number| {
        let mut packer = Packer::new(words);
        packer.value(&object(number));
        packer.done().size()
    };
    // Every one of them: the words become known on the way.
    let sizes: Vec<usize> = (0..50).map(size).collect();
    let last = sizes[49];
    let text = object(49).to_string().len();
    assert!(last * 4 < text, "{last} bytes for {text}");
}

#[test]
fn what_comes_up_often_becomes_a_word_whatever_comes_up_beside_it() {
    let words = Words::new();
    let often: Vec<String> = (0..200).map(|number| format!("often-{number}")).collect();
    for round in 0..20 {
        for text in &often {
            words.number(text, Use::Text);
            words.number(&format!("{text}-{round}"), Use::Text);
        }
    }
    let known = often
        .iter()
        .filter(|text| words.number(text, Use::Text).is_some())
        .count();
    // A row holds four of them; that five are in one is rare, and they are lost if they are.
    assert!(known > 190, "{known} of 200 are words");
    assert!((0..20).all(|round| words.number(&format!("often-0-{round}"), Use::Text).is_none()));
}

#[test]
fn documents_with_other_bytes_can_be_equal() {
    let value = json!({"a name that nobody else has": 1});
    let (spelled, again) = (Packed::of(&value), Packed::of(&value));
    assert_ne!(spelled.0, again.0);
    assert_eq!(spelled, again);
    assert_ne!(spelled, Packed::of(&json!({"a name that nobody else has": 2})));
}

#[test]
fn content_does_not_show_in_debug_output() {
    assert_eq!(format!("{:?}", Packed::of(&json!("hunter2"))), "Packed(8 bytes)");
}
