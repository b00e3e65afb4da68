//! Which pods are a workload's: the selectors of a profile's `noPods`, and the text in which a journal keeps them.

use cutover_karmada::LabelSelector;
use cutover_karmada::name::ClusterName;
use serde_json::Value;

use super::Error;
use super::template::{CLUSTER, Site, Variables};
use crate::api::Pods;

/// What stands between the selectors of a text. No label selector contains it: who takes the text for one selector is refused by
/// the API server, which is no answer and never a no.
const OR: &str = " || ";

/// One selector of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selects<'a> {
    /// By the `LabelSelector` at this pointer of the object.
    At(&'a str),
    /// By this label selector.
    By(&'a str),
}

/// Returns the selectors of a profile, by where they stand.
pub(super) fn selectors(pods: &Pods) -> impl Iterator<Item = (String, Selects<'_>)> {
    let at = pods.selector_at.iter().map(|at| {
        let pointer = "/spec/noPods/selectorAt".to_owned();
        (pointer, Selects::At(at.as_str()))
    });
    let by = pods.label_selector.iter().map(|by| {
        let pointer = "/spec/noPods/labelSelector".to_owned();
        (pointer, Selects::By(by.as_str()))
    });
    let further = pods.label_selectors.iter().enumerate().map(|(index, by)| {
        let pointer = format!("/spec/noPods/labelSelectors/{index}");
        (pointer, Selects::By(by.as_str()))
    });
    at.chain(by).chain(further)
}

impl<'a> Selects<'a> {
    /// Returns it as it is written.
    pub(super) const fn source(self) -> &'a str {
        match self {
            Self::At(source) | Self::By(source) => source,
        }
    }

    /// Returns the label selector for an object, with `${cluster}` as it is.
    pub(super) fn fill(self, object: &Value) -> Result<String, Error> {
        match self {
            Self::At(pointer) => at(pointer, object),
            Self::By(source) => {
                let variables = Variables {
                    object: Some(object),
                    site: Some(Site::unplaced(object)),
                    ..Variables::default()
                };
                let selector = variables.fill_text(source)?;
                // What is filled in must not become another selector.
                if is_several(&selector) {
                    return Err(Error::Evaluation {
                        field: "noPods",
                        message: format!("{selector} is no label selector"),
                    });
                }
                Ok(selector)
            }
        }
    }
}

/// Returns whether a text is what stands for several selectors, and not one of them.
pub(super) fn is_several(selector: &str) -> bool {
    selector.contains(OR.trim())
}

fn at(pointer: &str, object: &Value) -> Result<String, Error> {
    let found = object.pointer(pointer).cloned().unwrap_or_default();
    let selector: LabelSelector = serde_json::from_value(found).unwrap_or_default();
    let selector = selector.to_string();
    // An empty one would mean the pods of everybody.
    if selector.is_empty() {
        Err(Error::NoSelector(pointer.to_owned()))
    } else {
        Ok(selector)
    }
}

/// Returns what selects the pods of an object, as a journal keeps it; `None`: nothing does.
pub(super) fn pods_of(pods: &Pods, object: &Value) -> Result<Option<String>, Error> {
    let filled = selectors(pods).map(|(_, selects)| selects.fill(object));
    let filled: Vec<String> = filled.collect::<Result<_, _>>()?;
    Ok((!filled.is_empty()).then(|| filled.join(OR)))
}

/// Returns the label selectors of what a journal keeps, at least one, as they are in one cluster: each pod that one of them matches is
/// the workload's. `None`: those of the control plane, which is no cluster.
pub fn selectors_in(kept: &str, cluster: Option<&ClusterName>) -> Vec<String> {
    let placed = |selector: &str| match cluster {
        Some(cluster) => selector.replace(CLUSTER, cluster.as_str()),
        None => selector.to_owned(),
    };
    kept.split(OR).map(placed).collect()
}

/// Returns whether what a journal keeps has to be told the cluster that the pods are in.
pub fn needs_cluster(kept: &str) -> bool {
    kept.contains(CLUSTER)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pods(written: Value) -> Pods {
        serde_json::from_value(written).unwrap()
    }

    fn object() -> Value {
        json!({
            "metadata": {"name": "orders", "namespace": "shop", "annotations": {"team": "a || b"}},
            "spec": {"selector": {"matchLabels": {"app": "orders"}}},
        })
    }

    #[test]
    fn one_selector_is_kept_as_it_always_was() {
        let one = pods(json!({"labelSelector": "app=${object.metadata.name}"}));
        assert_eq!(pods_of(&one, &object()), Ok(Some("app=orders".to_owned())));
        assert_eq!(
            selectors_in("app=orders,tier=a", Some(&"west".into())),
            ["app=orders,tier=a"]
        );
        let written = serde_json::to_value(&one).unwrap();
        assert_eq!(written, json!({"labelSelector": "app=${object.metadata.name}"}));
    }

    #[test]
    fn several_selectors_are_kept_in_one_text_that_is_none_itself() {
        let several = pods(json!({
            "selectorAt": "/spec/selector",
            "labelSelector": "job=${name}",
            "labelSelectors": ["at=${cluster},app=${name}", "owner=${namespace}.${name}"],
        }));
        let kept = pods_of(&several, &object()).unwrap().unwrap();
        assert_eq!(
            selectors_in(&kept, Some(&"west".into())),
            [
                "app=orders",
                "job=orders",
                "at=west,app=orders",
                "owner=shop.orders"
            ]
        );
        assert!(needs_cluster(&kept) && is_several(&kept));
    }

    #[test]
    fn one_that_can_not_be_filled_in_leaves_none() {
        let fails = |further: &str| {
            let several = pods(json!({"labelSelector": "app=orders", "labelSelectors": [further]}));
            pods_of(&several, &object()).unwrap_err()
        };
        assert_eq!(
            fails("app=${object.spec.none}"),
            Error::Variable("object.spec.none".to_owned())
        );
        assert!(matches!(
            fails("team=${object.metadata.annotations.team}"),
            Error::Evaluation { .. }
        ));
        let nowhere = pods(json!({"selectorAt": "/spec/none", "labelSelectors": ["app=orders"]}));
        assert!(matches!(pods_of(&nowhere, &object()), Err(Error::NoSelector(_))));
    }
}
