//! What finders of secrets have in common.

use std::ops::Range;

/// Finds the places of secrets in a text, in their order and apart from each other.
pub(super) type Find = fn(&str) -> Vec<Range<usize>>;

/// `$(VARIABLE)`, `${variable}`, `{{ template }}`: what will stand there is not known here.
pub(super) fn is_reference(text: &str) -> bool {
    [("$(", ")"), ("${", "}"), ("{{", "}}")]
        .iter()
        .any(|(begin, end)| text.starts_with(begin) && text.ends_with(end))
}

/// `|` and `>`, after which a block follows in YAML.
pub(super) fn is_block(value: &str) -> bool {
    value.len() <= 3 && value.starts_with(['|', '>'])
}
