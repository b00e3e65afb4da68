//! Which overriders of Karmada the patches of a pin become.
//!
//! A plaintext overrider needs the parent of its path, and what it removes. Labels and annotations have overriders of their own, which
//! make the mapping where a template has none, and remove what isn't there without an error (Karmada 1.18,
//! pkg/util/overridemanager/labelannotationoverrider.go). They overwrite nothing that a template gets later. What other patches need is
//! created by the pin, as long as the template lacks it: see [`super::parents`].

use serde_json::{Value, json};

use crate::api::{MARKER_ANNOTATION, PatchOp};
use cutover_karmada::{MapOverrider, Operator, OverrideRule, Overriders, PlaintextOverrider};

const LABELS: &str = "/metadata/labels";
const ANNOTATIONS: &str = "/metadata/annotations";

/// Returns the overriders that do what these patches do, one after the other.
pub(super) fn overriders(patches: &[PatchOp]) -> Overriders {
    by_kind(patches.iter().map(plaintext).collect())
}

fn plaintext(patch: &PatchOp) -> PlaintextOverrider {
    PlaintextOverrider {
        path: patch.path.clone(),
        operator: match patch.op.as_str() {
            "remove" => Operator::Remove,
            "replace" => Operator::Replace,
            _ => Operator::Add,
        },
        value: patch.value.clone().unwrap_or_else(|| json!(null)),
        ..PlaintextOverrider::default()
    }
}

/// Returns rules as this version writes them: an earlier one wrote every patch as plain text, which comes to the same.
pub(super) fn as_written_now(rules: &[OverrideRule]) -> Vec<OverrideRule> {
    let now = |rule: &OverrideRule| {
        let mut rule = rule.clone();
        let said = &mut rule.overriders;
        if said.labels_overrider.is_empty() && said.annotations_overrider.is_empty() {
            let sorted = by_kind(std::mem::take(&mut said.plaintext));
            said.plaintext = sorted.plaintext;
            said.labels_overrider = sorted.labels_overrider;
            said.annotations_overrider = sorted.annotations_overrider;
        }
        rule
    };
    rules.iter().map(now).collect()
}

/// Returns whether a rule is that by which every Work carries the marker of its pin. No other becomes one.
pub(super) fn is_marking(rule: &OverrideRule) -> bool {
    let mut all = rule.overriders.annotations_overrider.iter();
    all.any(|overrider| overrider.value.contains_key(MARKER_ANNOTATION))
}

/// Labels come before annotations, and both before plain text: what is about one mapping goes to its overrider all together, or not at
/// all, so that it stays in order.
fn by_kind(plaintext: Vec<PlaintextOverrider>) -> Overriders {
    let labels = entries(&plaintext, LABELS);
    let annotations = entries(&plaintext, ANNOTATIONS);
    let is_left = |patch: &PlaintextOverrider| {
        let sorted = [(&labels, LABELS), (&annotations, ANNOTATIONS)];
        sorted
            .iter()
            .all(|(entries, map)| entries.is_none() || !touches(&patch.path, map))
    };
    Overriders {
        plaintext: plaintext.into_iter().filter(is_left).collect(),
        labels_overrider: labels.unwrap_or_default(),
        annotations_overrider: annotations.unwrap_or_default(),
        ..Overriders::default()
    }
}

/// Returns what is said of a mapping as overriders of its own; `None`: not all of it can be.
fn entries(patches: &[PlaintextOverrider], map: &str) -> Option<Vec<MapOverrider>> {
    let about = patches.iter().filter(|patch| touches(&patch.path, map));
    about.map(|patch| entry(patch, map)).collect()
}

/// One key is set or removed. Karmada replaces only what is there, so a `replace`, which fails where nothing is, stays what it is.
fn entry(patch: &PlaintextOverrider, map: &str) -> Option<MapOverrider> {
    let token = patch.path.strip_prefix(map)?.strip_prefix('/')?;
    let key = token.replace("~1", "/");
    // Karmada escapes no tilde. A profile must not write what tells one pin from another.
    if token.is_empty() || token.contains('/') || key.contains('~') || key == MARKER_ANNOTATION {
        return None;
    }
    let text = match (patch.operator, &patch.value) {
        (Operator::Remove, _) => String::new(),
        (Operator::Add, Value::String(text)) => text.clone(),
        // The number of an attempt is one, and these values are texts.
        (Operator::Add, Value::Number(number)) => number.to_string(),
        _ => return None,
    };
    Some(MapOverrider {
        operator: patch.operator,
        value: [(key, text)].into(),
        ..MapOverrider::default()
    })
}

/// Returns the first of some patches because of which all that are about its mapping stay plain text.
pub(super) fn keeps_plain(patches: &[PatchOp]) -> Option<usize> {
    patches.iter().position(|patch| {
        let plain = plaintext(patch);
        let maps = [LABELS, ANNOTATIONS];
        maps.iter()
            .any(|map| touches(&patch.path, map) && entry(&plain, map).is_none())
    })
}

/// Returns whether a patch changes a mapping, something in it, or what it stands in.
fn touches(path: &str, map: &str) -> bool {
    let leads = |from: &str, to: &str| {
        to.strip_prefix(from)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    leads(map, path) || leads(path, map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cutover_karmada::overrides::apply_overriders;

    const PAUSED: &str = "/metadata/annotations/autoscaling.keda.sh~1paused";

    fn patch(op: &str, path: &str, value: Value) -> PatchOp {
        PatchOp {
            op: op.to_owned(),
            path: path.to_owned(),
            value: (op != "remove").then_some(value),
        }
    }

    fn applied(template: &Value, patches: &[PatchOp]) -> Result<Value, String> {
        let mut made = template.clone();
        let outcome = apply_overriders(&mut made, &overriders(patches));
        outcome.map(|()| made).map_err(|cause| cause.to_string())
    }

    #[test]
    fn an_annotation_is_set_where_a_template_has_none_and_others_stay() {
        let hold = [
            PatchOp::add(PAUSED, "true"),
            PatchOp::add("/metadata/labels/held", "yes"),
        ];
        let bare = json!({"metadata": {"name": "web"}});
        let made = applied(&bare, &hold).unwrap();
        assert_eq!(
            made["metadata"],
            json!({
                "name": "web", "labels": {"held": "yes"}, "annotations": {"autoscaling.keda.sh/paused": "true"},
            })
        );
        // One that the template gets later is not overwritten, as it would be by a parent that the pin made.
        let later = json!({"metadata": {"annotations": {"team": "a"}, "labels": {"app": "web"}}});
        let made = applied(&later, &hold).unwrap();
        assert_eq!(made["metadata"]["annotations"]["team"], "a");
        assert_eq!(made["metadata"]["labels"], json!({"app": "web", "held": "yes"}));
    }

    #[test]
    fn an_annotation_is_removed_and_one_that_is_not_there_is_no_error() {
        let start = [patch("remove", PAUSED, Value::Null)];
        for metadata in [json!({}), json!({"annotations": {"team": "a"}})] {
            let template = json!({"metadata": metadata});
            assert_eq!(applied(&template, &start).unwrap(), template);
        }
        let paused = json!({"metadata": {"annotations": {"autoscaling.keda.sh/paused": "true"}}});
        let made = applied(&paused, &start).unwrap();
        assert_eq!(made["metadata"]["annotations"], json!({}));
    }

    #[test]
    fn what_annotations_can_not_be_alone_stays_plain_text_and_in_order() {
        let text =
            |op: &str, path: &str, value: Value| vec![PatchOp::add(PAUSED, "true"), patch(op, path, value)];
        for patches in [
            text("replace", PAUSED, json!("false")),
            text("add", "/metadata/annotations", json!({"a": "b"})),
            text("add", "/metadata", json!({})),
            text("add", "/metadata/annotations/a/b", json!("c")),
            text("add", "/metadata/annotations/a~0b", json!("c")),
            text("add", "/metadata/annotations/flag", json!(true)),
            text("add", "/metadata/annotations/cutover.dev~1pin", json!("mine")),
        ] {
            let said = overriders(&patches);
            assert_eq!(said.plaintext.len(), 2, "{patches:?}");
            assert!(
                said.annotations_overrider.is_empty()
                    && !is_marking(&OverrideRule {
                        overriders: said,
                        ..OverrideRule::default()
                    })
            );
        }
        let template = json!({"metadata": {"annotations": {}}});
        let replaced = applied(&template, &text("replace", PAUSED, json!("false"))).unwrap();
        assert_eq!(
            replaced["metadata"]["annotations"]["autoscaling.keda.sh/paused"],
            "false"
        );
        // The other mapping goes on its own way.
        let mixed = overriders(&[
            patch("replace", PAUSED, json!("false")),
            PatchOp::add("/metadata/labels/held", "yes"),
            PatchOp::add("/spec/replicas", 0),
        ]);
        assert_eq!((mixed.plaintext.len(), mixed.labels_overrider.len()), (2, 1));
    }

    #[test]
    fn the_number_of_an_attempt_is_written_as_the_text_that_an_annotation_is() {
        let made = applied(
            &json!({"metadata": {}}),
            &[PatchOp::add("/metadata/annotations/attempt", 3)],
        );
        assert_eq!(made.unwrap()["metadata"]["annotations"]["attempt"], "3");
    }

    #[test]
    fn what_an_earlier_version_wrote_says_the_same() {
        let patches = [PatchOp::add(PAUSED, "true"), PatchOp::add("/spec/replicas", 0)];
        let rule = |overriders| OverrideRule {
            overriders,
            ..OverrideRule::default()
        };
        let before = rule(Overriders {
            plaintext: patches.iter().map(plaintext).collect(),
            ..Overriders::default()
        });
        let now = rule(overriders(&patches));
        assert_ne!(before, now);
        assert_eq!(as_written_now(&[before, now.clone()]), [now.clone(), now]);
    }
}
