//! What a copy needs where it runs: objects that a template names, and those that a label selector finds beside it.

use serde_json::Value;

use super::path::Path;
use super::{Error, Mistake, labels, names_at};
use crate::api::{NeededObject, WorkloadProfileSpec};

/// A rule of `needs` that has been compiled.
#[derive(Debug)]
pub(super) enum Need {
    /// By the names that a template has there.
    Named(Path),
    /// By their labels.
    Selected,
}

impl Need {
    pub(super) fn compile(profile: &str, need: &NeededObject) -> Result<Self, Error> {
        if let Some(mistake) = mistake(need) {
            return Err(Error::Invalid {
                profile: profile.to_owned(),
                field: "needs",
                message: mistake.message,
            });
        }
        let path = need.json_path.as_deref().map(Path::parse).transpose()?;
        Ok(path.map_or(Self::Selected, Self::Named))
    }

    /// Returns the names that a template has at the path, or the one that counts where it has none; of a path that fails on this
    /// template, the path.
    pub(super) fn names<'a>(&self, need: &'a NeededObject, template: &'a Value) -> Vec<&'a str> {
        let Self::Named(path) = self else {
            return Vec::new();
        };
        let Ok(mut names) = names_at(template, path) else {
            return need.json_path.as_deref().into_iter().collect();
        };
        names.retain(|name| !name.is_empty());
        if names.is_empty() {
            names.extend(need.default_name.as_deref());
        }
        names
    }
}

/// What is wrong with one rule, and in which of its fields; empty: in the rule as a whole.
struct Wrong {
    field: &'static str,
    message: String,
}

fn mistake(need: &NeededObject) -> Option<Wrong> {
    let wrong = |field, message: &str| {
        let message = message.to_owned();
        Some(Wrong { field, message })
    };
    match (&need.json_path, &need.label_selector) {
        (None, None) => wrong(
            "",
            "it has neither jsonPath nor labelSelector: nothing says which objects are meant",
        ),
        (Some(_), Some(_)) => wrong("", "it has jsonPath and labelSelector: keep one of them"),
        (Some(_), None) if need.message.is_some() => wrong("/message", "only a labelSelector has a message"),
        (Some(_), None) => None,
        (None, Some(_)) if need.default_name.is_some() => {
            wrong("/defaultName", "only a jsonPath has a default name")
        }
        (None, Some(_)) if need.gvk().group.is_empty() => wrong(
            "/apiVersion",
            "a labelSelector finds objects of an API group: say which, for instance example.org/v1",
        ),
        (None, Some(selector)) => labels::check(selector).err().map(|message| Wrong {
            field: "/labelSelector",
            message,
        }),
    }
}

/// Returns what is wrong with the rules beside their paths, by where it stands.
pub(super) fn mistakes(spec: &WorkloadProfileSpec) -> impl Iterator<Item = Mistake> {
    let needs = spec.needs.iter().enumerate();
    needs.filter_map(|(index, need)| {
        let Wrong { field, message } = mistake(need)?;
        let pointer = format!("/spec/needs/{index}{field}");
        Some(Mistake { pointer, message })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::profile::{Profile, Site, built_in};

    fn spec(needs: Value) -> WorkloadProfileSpec {
        let mut spec = built_in().unwrap()[0].spec.clone();
        spec.needs = serde_json::from_value(needs).unwrap();
        spec
    }

    #[test]
    fn a_name_that_a_template_leaves_out_has_a_default_where_the_profile_says_one() {
        let spec = spec(json!([
            {"kind": "Secret", "jsonPath": "$.spec.secret", "defaultName": "default"},
            {"kind": "ConfigMap", "jsonPath": "$.spec.config"},
        ]));
        let profile = Profile::compile("mine", &spec).unwrap();
        let names = |template: &Value| -> Vec<String> {
            let needs = profile.needs(template).into_iter();
            needs
                .map(|(need, name)| format!("{} {name}", need.kind))
                .collect()
        };
        assert_eq!(names(&json!({"spec": {}})), ["Secret default"]);
        assert_eq!(names(&json!({"spec": {"secret": ""}})), ["Secret default"]);
        assert_eq!(
            names(&json!({"spec": {"secret": "a", "config": "b"}})),
            ["Secret a", "ConfigMap b"]
        );
    }

    #[test]
    fn a_label_selector_is_filled_in_for_the_cluster_that_is_looked_into() {
        let spec = spec(json!([{
            "apiVersion": "example.org/v1", "kind": "Part", "labelSelector": "of=${name},at=${cluster}",
        }]));
        let profile = Profile::compile("mine", &spec).unwrap();
        let template = json!({"metadata": {"name": "orders", "namespace": "shop"}});
        assert!(profile.needs(&template).is_empty());
        let selected = profile.selected(Site::of(&template, "west"));
        assert_eq!(selected[0].1, Ok("of=orders,at=west".to_owned()));
    }

    #[test]
    fn a_rule_that_does_not_say_which_objects_are_meant_is_a_mistake() {
        let part = |more: Value| {
            let mut part = json!({"apiVersion": "example.org/v1", "kind": "Part"});
            part.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            part
        };
        for (need, pointer) in [
            (part(json!({})), "/spec/needs/0"),
            (
                part(json!({"jsonPath": "$.a", "labelSelector": "a=b"})),
                "/spec/needs/0",
            ),
            (
                part(json!({"jsonPath": "$.a", "message": "it ends"})),
                "/spec/needs/0/message",
            ),
            (
                part(json!({"labelSelector": "a=b", "defaultName": "c"})),
                "/spec/needs/0/defaultName",
            ),
            (
                part(json!({"labelSelector": "a in ("})),
                "/spec/needs/0/labelSelector",
            ),
            (part(json!({"labelSelector": ""})), "/spec/needs/0/labelSelector"),
            (
                part(json!({"labelSelector": "a=${object.spec.a}"})),
                "/spec/needs/0/labelSelector",
            ),
            (
                json!({"kind": "Secret", "labelSelector": "a=b"}),
                "/spec/needs/0/apiVersion",
            ),
        ] {
            let spec = spec(json!([need.clone()]));
            let found: Vec<String> = mistakes(&spec).map(|mistake| mistake.pointer).collect();
            assert_eq!(found, [pointer], "{need}");
            assert!(Profile::compile("mine", &spec).is_err(), "{need}");
        }
        assert_eq!(
            mistakes(&spec(json!([part(json!({"labelSelector": "a=b"}))]))).count(),
            0
        );
    }
}
