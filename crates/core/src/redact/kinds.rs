//! What may be shown of a Secret, and which mappings only refer to something.

use super::names::may_name_a_secret;

/// What is shown of a Secret. All else is hidden, so that a typing error (`stringdata`) shows nothing.
const OF_SECRET: &[&str] = &["apiVersion", "kind", "metadata", "type", "immutable"];

/// What is shown of its metadata: values that were indented too far are not.
const OF_METADATA: &[&str] = &[
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// What else has a mapping that names a Secret and is none: it has no metadata.
const OF_REFERENCE: &[&str] = &[
    "apiGroup",
    "blockOwnerDeletion",
    "controller",
    "fieldPath",
    "group",
    "key",
    "labelSelector",
    "name",
    "namespace",
    "optional",
    "resourceVersion",
    "targetPath",
    "uid",
    "valuesKey",
    "version",
];

/// Returns whether an object is a Secret, or as good as one, by its kind and version. Kinds of that name in other groups
/// are none.
pub(super) fn is_secret_like(kind: Option<&str>, version: Option<&str>) -> bool {
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("Secret"))
        && version.is_none_or(|version| !version.contains('/'))
}

/// Returns whether the items of an object are Secrets, be it said of them or not.
pub(super) fn is_secret_list(kind: Option<&str>) -> bool {
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("SecretList"))
}

/// Returns whether a field of a Secret, or of a reference to one, is shown.
pub(super) fn is_shown(field: &str, has_metadata: bool) -> bool {
    OF_SECRET.contains(&field) || (!has_metadata && OF_REFERENCE.contains(&field))
}

/// Returns whether a field of a Secret's metadata is shown.
pub(super) fn is_shown_metadata(field: &str) -> bool {
    OF_METADATA.contains(&field)
}

/// Annotations that hold a copy of a whole object, beside all that say `last-applied`.
const COPIES: &[&str] = &["kapp.k14s.io/original", "objectset.rio.cattle.io/applied"];

/// Returns whether a field holds a copy of a whole object, as `kubectl apply` leaves one in an annotation.
pub(super) fn is_copy(field: &str) -> bool {
    COPIES.contains(&field) || (field.contains('/') && field.contains("last-applied"))
}

/// Fields by which an entry of a list is named; the name is that of the value beside it.
const NAMING: &[&str] = &["name", "key", "path", "header", "variable", "parameter"];

/// What the value beside a name is called.
const VALUES: &[&str] = &["value", "val", "defaultValue", "stringValue"];

/// Fields beside which a `key` and its `value` are a condition: of a toleration, a selector.
const CONDITIONS: &[&str] = &["operator", "effect"];

/// Returns whether a field holds what its mapping gives a name to.
pub(super) fn is_value(field: &str) -> bool {
    VALUES.iter().any(|value| value.eq_ignore_ascii_case(field))
}

/// Returns whether the values in a mapping are secret, by what it says of their name.
pub(super) fn names_a_secret<'a>(fields: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> bool {
    let mut names = false;
    for (field, value) in fields {
        if CONDITIONS.contains(&field) {
            return false;
        }
        let naming = NAMING.iter().any(|naming| naming.eq_ignore_ascii_case(field));
        names |= naming && value.is_some_and(may_name_a_secret);
    }
    names
}

/// What stands beside a `key` that is the name of something.
const BESIDE_KEY: &[&str] = &[
    "effect",
    "kind",
    "operator",
    "path",
    "property",
    "remoteRef",
    "tolerationSeconds",
    "value",
    "valueExpression",
    "valueFrom",
    "values",
];

/// What a mapping is called in which a `key` is the name of something, or ends with.
const AROUND_KEY: &[&str] = &[
    "ConfigMap",
    "Expressions",
    "Labels",
    "Ref",
    "Reference",
    "Secret",
    "Selector",
    "configMap",
    "extract",
    "items",
    "labels",
    "matchFields",
    "secret",
    "taint",
    "taints",
    "tolerations",
];

/// Returns whether a field called `key`, and no more, is a key itself: mostly it is the name of one. `within`: what the
/// mapping is called that it stands in, or the list.
pub(super) fn is_bare_key<'a>(within: &str, in_list: bool, beside: impl Iterator<Item = &'a str>) -> bool {
    if AROUND_KEY.iter().any(|around| within.ends_with(around)) {
        return false;
    }
    let mut only_names = true;
    let mut has_name = false;
    for field in beside {
        if BESIDE_KEY.contains(&field) {
            return false;
        }
        has_name |= field == "name";
        only_names &= matches!(field, "key" | "name" | "namespace" | "optional");
    }
    // `username: {name: db, key: user}` refers to a Secret; `- {name: stripe, key: x}` has a key.
    in_list || !(has_name && only_names)
}
