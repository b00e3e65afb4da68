//! How people name an intent: `NAME`, `NAMESPACE/NAME`, or as kubectl takes it, `KIND/NAME`, such as `mig/orders-to-west`.

use std::collections::BTreeSet;

use cutover_base::nearest::nearest;
use cutover_core::api::{self, KINDS};
use cutover_core::error::Error;

/// An intent as a person names it.
#[derive(Clone, Copy, Debug)]
pub struct IntentName<'a> {
    pub name: &'a str,
    /// What stands before the slash. It may be a namespace whatever kind is called like it.
    before: Option<&'a str>,
    kind: Option<&'static api::Kind>,
    namespace: Option<&'a str>,
}

impl<'a> IntentName<'a> {
    /// Reads a name; `namespace`: the one that is named beside it.
    pub fn new(text: &'a str, namespace: Option<&'a str>) -> Self {
        let (before, name) = match text.split_once('/') {
            Some((before, name)) => (Some(before), name),
            None => (None, text),
        };
        Self {
            name,
            before,
            kind: before.and_then(kind),
            namespace,
        }
    }

    /// Returns whether an intent is meant; `namespace`: the one that it is in, none of one of cluster scope.
    pub fn means(&self, kind: &str, namespace: Option<&str>, name: &str) -> bool {
        let is_there = self.namespace.is_none_or(|wanted| namespace == Some(wanted));
        let is_before = |before: &str| namespace == Some(before) || self.is_kind(kind);
        is_there && self.before.is_none_or(is_before) && name == self.name
    }

    /// Returns the kind that is named before the slash, if one is.
    pub const fn kind(&self) -> Option<&'static api::Kind> {
        self.kind
    }

    fn is_kind(&self, kind: &str) -> bool {
        self.kind.is_some_and(|named| named.name == kind)
    }
}

/// Returns a hint at the intent that was probably meant, as a person can name it: nothing by that name is there. `all`: kind,
/// namespace and name of those that are; no namespace of one of cluster scope.
pub fn did_you_mean<'a>(
    named: &str,
    all: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>,
) -> Option<String> {
    let all: Vec<_> = all.into_iter().collect();
    let name = IntentName::new(named, None).name;
    let same = all.iter().find(|(.., one)| *one == name);
    let meant = same.or_else(|| {
        let nearest = nearest(name, all.iter().map(|(.., one)| *one))?;
        all.iter().find(|(.., one)| *one == nearest)
    });
    meant.map(|(kind, namespace, name)| match *namespace {
        "" => format!("did you mean {kind} {name}?"),
        namespace => format!("did you mean {kind} {namespace}/{name}?"),
    })
}

/// Returns the error about a name that several objects have. `all`: kind, namespace and name of each; no namespace of one of cluster
/// scope.
pub fn ambiguous(named: &str, all: &[(&str, &str, &str)]) -> Error {
    let full = |(kind, namespace, name): &(&str, &str, &str)| match *namespace {
        "" => format!("{kind}/{name}"),
        namespace => format!("{kind}/{name} in {namespace}"),
    };
    let names: Vec<String> = all.iter().map(full).collect();
    let kinds: BTreeSet<&str> = all.iter().map(|(kind, ..)| *kind).collect();
    let such_as = all.first().map_or_else(String::new, |(kind, _, name)| {
        format!(", such as {}/{name}", kind.to_ascii_lowercase())
    });
    let hint = match kinds.len() {
        1 => "name its namespace with --namespace".to_owned(),
        several if several == all.len() => format!("name one as KIND/NAME{such_as}"),
        _ => format!("name one as KIND/NAME{such_as}, and its namespace with --namespace"),
    };
    Error::user(format!("{named} could be any of {}", names.join(", "))).hint(hint)
}

/// Returns the kind of intents that is called so: by its name in any case, in the plural, or by a short name of its CRD.
pub fn kind(text: &str) -> Option<&'static api::Kind> {
    let text = text.to_ascii_lowercase();
    // Only the group of all intents can be meant, and its one version.
    let text = text.strip_suffix(".cutover.dev").unwrap_or(&text);
    let text = text.strip_suffix(".v1alpha1").unwrap_or(text);
    KINDS.iter().find(|kind| kind.is_called(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_goes_by_all_names_of_its_crd() {
        for crd in api::crds() {
            let names = &crd.spec.names;
            let Some(found) = kind(&names.kind) else {
                assert!(api::kind(&names.kind).is_none(), "{}", names.kind);
                continue;
            };
            assert_eq!(found.name, names.kind);
            let short = names.short_names.iter().flatten();
            assert!(names.short_names.iter().flatten().count() > 0, "{}", names.kind);
            for called in short.chain([&names.plural]).chain(&names.singular) {
                assert_eq!(kind(called).map(|kind| kind.name), Some(found.name), "{called}");
                assert_eq!(
                    kind(&format!("{called}.cutover.dev")).map(|kind| kind.name),
                    Some(found.name)
                );
            }
        }
        assert!(kind("deploy").is_none());
        assert_eq!(
            kind("Rollouts.v1alpha1.cutover.dev").map(|kind| kind.name),
            Some("Rollout")
        );
    }

    #[test]
    fn a_name_that_several_have_is_told_with_what_tells_them_apart() {
        let said = |all: &[(&str, &str, &str)]| {
            let error = ambiguous("web", all);
            format!("{error}\n{}", error.hint_text().unwrap())
        };
        let (rollout, suspension) = (("Rollout", "shop", "web"), ("Suspension", "shop", "web"));
        assert_eq!(
            said(&[rollout, suspension]),
            "web could be any of Rollout/web in shop, Suspension/web in shop\nname one as KIND/NAME, such as rollout/web"
        );
        assert_eq!(
            said(&[rollout, ("Rollout", "depot", "web")]),
            "web could be any of Rollout/web in shop, Rollout/web in depot\nname its namespace with --namespace"
        );
        assert_eq!(
            said(&[("Rollout", "depot", "web"), rollout, ("Evacuation", "", "web")]),
            "web could be any of Rollout/web in depot, Rollout/web in shop, Evacuation/web\nname one as KIND/NAME, such as rollout/web, \
             and its namespace with --namespace"
        );
    }

    #[test]
    fn a_misspelt_name_is_told_by_the_nearest_one() {
        let all = [
            ("Migration", "shop", "orders-to-west"),
            ("Evacuation", "", "evacuate-east"),
        ];
        let meant = |named: &str| did_you_mean(named, all);
        assert_eq!(
            meant("orders-to-wset").as_deref(),
            Some("did you mean Migration shop/orders-to-west?")
        );
        assert_eq!(
            meant("depot/orders-to-west").as_deref(),
            Some("did you mean Migration shop/orders-to-west?")
        );
        assert_eq!(
            meant("evac/evacuate-eats").as_deref(),
            Some("did you mean Evacuation evacuate-east?")
        );
        assert_eq!(meant("nothing"), None);
    }

    #[test]
    fn what_stands_before_the_slash_is_a_kind_or_a_namespace() {
        let named = IntentName::new("mig/orders", None);
        assert!(named.means("Migration", Some("shop"), "orders"));
        assert!(named.means("Rollout", Some("mig"), "orders"));
        assert!(!named.means("Rollout", Some("shop"), "orders"));
        assert!(!named.means("Migration", Some("shop"), "web"));
        let there = IntentName::new("mig/orders", Some("shop"));
        assert!(there.means("Migration", Some("shop"), "orders"));
        assert!(!there.means("Migration", Some("depot"), "orders"));
        assert!(!IntentName::new("shop/orders", Some("depot")).means("Migration", Some("shop"), "orders"));
        let whole = IntentName::new("evac/maintenance", None);
        assert!(whole.means("Evacuation", None, "maintenance"));
        assert!(!IntentName::new("shop/maintenance", None).means("Evacuation", None, "maintenance"));
        assert!(!IntentName::new("maintenance", Some("shop")).means("Evacuation", None, "maintenance"));
    }
}
