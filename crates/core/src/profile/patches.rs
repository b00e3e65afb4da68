//! What is wrong with the patches of a profile, before any is filled in: an operation that there isn't, a path that leads
//! nowhere, a variable that has no value when the patch is written.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Mistake;
use super::mistakes::why_unwatched;
use super::pods::{Selects, is_several, selectors};
use crate::api::{PatchOp, WorkloadProfileSpec};

/// What a JSON patch of an override policy can do.
const OPERATIONS: [&str; 3] = ["add", "replace", "remove"];

/// Which variables have a value when the patches of a list are written.
enum Known<'a> {
    /// A copy is held if it has exactly these values: only those of its place, which stay.
    Place,
    /// Nothing has been captured yet.
    Attempt,
    /// The handles that every stopped copy leaves.
    Handles(&'a BTreeSet<&'a str>),
}

/// The variables of place, known wherever something is filled in.
const PLACE: [&str; 3] = ["cluster", "namespace", "name"];

/// Returns what is wrong with the patches of a profile, by where it stands.
pub fn patch_mistakes(spec: &WorkloadProfileSpec) -> Vec<Mistake> {
    let rules = spec.capture.iter().filter(|rule| rule.required);
    let handles: BTreeSet<&str> = rules.map(|rule| rule.name.as_str()).collect();
    let lists = [
        ("suspend", &spec.suspend, Known::Attempt),
        ("hold", &spec.hold, Known::Place),
        ("start", &spec.start, Known::Handles(&handles)),
        ("restart", &spec.restart, Known::Handles(&handles)),
        ("restartFrom", &spec.restart_from, Known::Handles(&handles)),
    ];
    let mut mistakes: Vec<Mistake> = empty(spec).collect();
    for (name, patches, known) in lists {
        for (index, patch) in patches.iter().enumerate() {
            let at = format!("/spec/{name}/{index}");
            mistakes.extend(shape(&at, patch));
            mistakes.extend(unknown(&at, name, patch, &known));
        }
    }
    mistakes.extend(spec.hold.iter().enumerate().filter_map(appended));
    let parents = spec.optional_parents.iter().enumerate();
    mistakes.extend(parents.filter_map(|(index, path)| {
        Some(Mistake {
            pointer: format!("/spec/optionalParents/{index}"),
            message: why_not_created(spec, path)?,
        })
    }));
    mistakes.extend(selector(spec));
    mistakes
}

/// Without a patch, a copy that is held runs, and one that is stopped goes on; without a condition it is not known to be held.
fn empty(spec: &WorkloadProfileSpec) -> impl Iterator<Item = Mistake> {
    let mistake = |field, message: &str| Mistake {
        pointer: format!("/spec/{field}"),
        message: message.to_owned(),
    };
    let hold = spec.hold.is_empty() && spec.stateful;
    let suspend = spec.suspend.is_empty() && spec.stateful;
    let hold = hold.then(|| {
        mistake(
            "hold",
            "without a patch, a second copy runs as soon as it is created",
        )
    });
    let suspend = suspend.then(|| mistake("suspend", "without a patch, the workload does not stop"));
    // Without it every copy counts as one that ran, and that is not taken for held.
    let held = (spec.stateful && spec.born_held && spec.ran_when.is_none()).then(|| {
        mistake(
            "bornHeld",
            "without ranWhen a new copy is not known never to have run, and every move is rolled back: set it to false, or add \
             ranWhen",
        )
    });
    let unheld = (spec.recreate_for_handle && !spec.born_held).then(|| {
        mistake(
            "recreateForHandle",
            "the copy that is created again has to be held until it gets its handle: set bornHeld to true",
        )
    });
    let twofold = (spec.recreate_for_handle && !spec.restart_from.is_empty()).then(|| {
        mistake(
            "recreateForHandle",
            "a copy that is created again starts with start, and not with restartFrom: leave one of them out",
        )
    });
    let unwatched = why_unwatched(spec).map(|why| mistake("settleFor", why));
    hold.into_iter()
        .chain(suspend)
        .chain(held)
        .chain(unheld)
        .chain(twofold)
        .chain(unwatched)
}

/// Returns what is wrong with an operation, whatever it is for.
fn shape(at: &str, patch: &PatchOp) -> Option<Mistake> {
    let mistake = |field: &str, message: String| {
        let pointer = format!("{at}{field}");
        Some(Mistake { pointer, message })
    };
    if !OPERATIONS.contains(&patch.op.as_str()) {
        let known = OPERATIONS.join(", ");
        return mistake(
            "/op",
            format!("{:?} is no operation: known are {known}", patch.op),
        );
    }
    if !patch.path.starts_with('/') {
        let message = format!("{:?} is no JSON pointer: one begins with /", patch.path);
        return mistake("/path", message);
    }
    if patch.op != "remove" && patch.value.is_none() {
        return mistake("", format!("{} needs a value", patch.op));
    }
    None
}

/// What a hold says of a cluster by name replaces what it says of all: of what is appended nobody knows where it is.
fn appended((index, patch): (usize, &PatchOp)) -> Option<Mistake> {
    let names_cluster = patch.value.as_ref().is_some_and(|value| {
        let mut names = Vec::new();
        variables(value, &mut names);
        names.contains(&"cluster")
    });
    (names_cluster && patch.path.ends_with("/-")).then(|| Mistake {
        pointer: format!("/spec/hold/{index}/path"),
        message: "what is appended can't be given the name of its cluster: say at which index it is"
            .to_owned(),
    })
}

/// Returns why a pin does not create an optional parent where a template lacks it, if so.
pub(crate) fn why_not_created(spec: &WorkloadProfileSpec, path: &str) -> Option<String> {
    let has_child = |patch: &PatchOp| child_of(path, &patch.path).is_some();
    let has_item = |patch: &PatchOp| child_of(path, &patch.path).is_some_and(is_item);
    if !path.starts_with('/') {
        return Some(format!("{path:?} is no JSON pointer: one begins with /"));
    }
    if path.starts_with("/metadata/") {
        return Some("labels and annotations need no parent in the template".to_owned());
    }
    if !spec.patches().any(has_child) {
        return Some("no patch is below it".to_owned());
    }
    if is_item(path.rsplit('/').next().unwrap_or_default()) || spec.patches().any(has_item) {
        return Some("a pin creates objects in objects, and no lists or items of them".to_owned());
    }
    None
}

/// Returns what comes after a parent in a path.
fn child_of<'p>(parent: &str, path: &'p str) -> Option<&'p str> {
    path.strip_prefix(parent)?.strip_prefix('/')?.split('/').next()
}

/// Returns whether a step of a path may be an item of a list.
pub(crate) fn is_item(token: &str) -> bool {
    token == "-" || token.bytes().all(|b| b.is_ascii_digit())
}

/// Returns the variables of a patch that have no value when it is written.
fn unknown(at: &str, list: &str, patch: &PatchOp, known: &Known<'_>) -> Vec<Mistake> {
    let mut names = Vec::new();
    if let Some(value) = &patch.value {
        variables(value, &mut names);
    }
    let why = names
        .into_iter()
        .filter_map(|name| why_unknown(list, name, known));
    why.map(|message| Mistake {
        pointer: format!("{at}/value"),
        message,
    })
    .collect()
}

fn why_unknown(list: &str, name: &str, known: &Known<'_>) -> Option<String> {
    if PLACE.contains(&name) {
        return None;
    }
    if let Some(why) = of_a_move(name) {
        return Some(why);
    }
    let handle = name.strip_prefix("captured.");
    match (known, handle) {
        (Known::Place, _) => Some(format!(
            "${{{name}}}: {list} takes only ${{cluster}}, ${{namespace}} and ${{name}}, because a copy is compared with these values \
             to tell that it is held"
        )),
        (Known::Attempt | Known::Handles(_), None) if name == "attempt" => None,
        (Known::Attempt, Some(_)) => Some(format!(
            "${{{name}}} has no value: {list} is written before anything was captured"
        )),
        (Known::Handles(handles), Some(handle)) if handles.contains(handle) => None,
        (Known::Handles(_), Some(handle)) => Some(format!(
            "${{{name}}} may have no value: no rule of capture is named {handle} and required"
        )),
        (_, None) => Some(format!(
            "${{{name}}} is no variable of a patch: known are ${{cluster}}, ${{namespace}}, ${{name}}, ${{attempt}} and \
             ${{captured.NAME}}"
        )),
    }
}

/// Where a copy is held without a move, by the guard of a `FailoverPlan`, there is no source and no target.
fn of_a_move(name: &str) -> Option<String> {
    matches!(name, "source" | "target").then(|| {
        format!(
            "${{{name}}} is no variable, because a copy is also held without a move: ${{cluster}} is the cluster that the patch is \
             written for"
        )
    })
}

/// Returns what is wrong with the selectors of the workload's pods: only the object and its place are known there.
fn selector(spec: &WorkloadProfileSpec) -> Vec<Mistake> {
    let Some(pods) = &spec.no_pods else {
        return Vec::new();
    };
    if selectors(pods).next().is_none() {
        let message = "without a selector no pod is looked at: add labelSelector, labelSelectors or selectorAt, or leave noPods out";
        return vec![Mistake {
            pointer: "/spec/noPods".to_owned(),
            message: message.to_owned(),
        }];
    }
    let mut mistakes = Vec::new();
    for (pointer, selects) in selectors(pods) {
        let Selects::By(selector) = selects else {
            continue;
        };
        let mut wrong: Vec<String> = names_in(selector).filter_map(why_no_selector).collect();
        if is_several(selector) {
            wrong.push(format!(
                "{selector:?} is no label selector: write several as items of labelSelectors"
            ));
        }
        mistakes.extend(wrong.into_iter().map(|message| Mistake {
            pointer: pointer.clone(),
            message,
        }));
    }
    mistakes
}

fn why_no_selector(name: &str) -> Option<String> {
    if name.starts_with("object.") || PLACE.contains(&name) {
        return None;
    }
    let unknown = || {
        format!(
            "${{{name}}} is no variable of a selector: known are ${{cluster}}, ${{namespace}}, ${{name}} and ${{object.PATH}}"
        )
    };
    Some(of_a_move(name).unwrap_or_else(unknown))
}

/// Adds the names of all variables in a value.
fn variables<'v>(value: &'v Value, names: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => names.extend(names_in(text)),
        Value::Array(items) => items.iter().for_each(|item| variables(item, names)),
        Value::Object(fields) => fields.values().for_each(|value| variables(value, names)),
        _ => {}
    }
}

/// Returns the names in `${…}`; of one that has no end, all that follows.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    text.split("${")
        .skip(1)
        .map(|rest| rest.split('}').next().unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::TimeSpan;
    use crate::profile::{Profile, built_in};

    fn flink() -> WorkloadProfileSpec {
        built_in().unwrap()[0].spec.clone()
    }

    fn mistakes(change: impl Fn(&mut WorkloadProfileSpec)) -> Vec<String> {
        let mut spec = flink();
        change(&mut spec);
        let mistakes = patch_mistakes(&spec).into_iter();
        mistakes
            .map(|mistake| format!("{}: {}", mistake.pointer, mistake.message))
            .collect()
    }

    #[test]
    fn built_in_profiles_have_no_patch_that_is_wrong() {
        for profile in built_in().unwrap() {
            assert_eq!(patch_mistakes(&profile.spec), [], "{:?}", profile.metadata.name);
        }
    }

    #[test]
    fn a_copy_that_is_born_held_has_to_be_known_never_to_have_run() {
        let found = mistakes(|spec| spec.ran_when = None);
        assert!(
            found[0].starts_with("/spec/bornHeld: without ranWhen"),
            "{found:?}"
        );
        assert!(mistakes(|spec| (spec.ran_when, spec.born_held) = (None, false)).is_empty());
    }

    #[test]
    fn a_stop_that_only_time_tells_of_takes_some_time() {
        let settles_for = |seconds: u32| {
            move |spec: &mut WorkloadProfileSpec| spec.settle_for = Some(TimeSpan::seconds(seconds))
        };
        let found = mistakes(settles_for(0));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("/spec/settleFor: a copy that is watched for no time"),
            "{found:?}"
        );
        assert!(mistakes(settles_for(1)).is_empty());
        // An intent refuses it as well.
        let mut spec = flink();
        settles_for(0)(&mut spec);
        let refused = Profile::compile("own", &spec).unwrap_err().to_string();
        assert!(refused.starts_with("profile own: settleFor: a copy"), "{refused}");
        settles_for(1)(&mut spec);
        assert!(Profile::compile("own", &spec).is_ok());
    }

    #[test]
    fn a_copy_that_is_created_again_is_born_held_and_starts_as_a_first_one() {
        let found = mistakes(|spec| spec.recreate_for_handle = true);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("restartFrom"), "{found:?}");
        let found = mistakes(|spec| {
            (spec.recreate_for_handle, spec.born_held) = (true, false);
            spec.restart_from.clear();
        });
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("bornHeld"), "{found:?}");
    }

    #[test]
    fn an_operation_needs_a_known_name_a_pointer_and_a_value() {
        let found = mistakes(|spec| {
            spec.hold[0].op = "ad".to_owned();
            spec.suspend[0].path = "spec.job.state".to_owned();
            spec.start[0].value = None;
        });
        insta::assert_snapshot!(found.join("\n"), @r#"
        /spec/suspend/0/path: "spec.job.state" is no JSON pointer: one begins with /
        /spec/hold/0/op: "ad" is no operation: known are add, replace, remove
        /spec/start/0: add needs a value
        "#);
    }

    #[test]
    fn a_variable_needs_a_value_whenever_its_patch_is_written() {
        let found = mistakes(|spec| {
            spec.hold[0].value = Some(json!("${attempt}"));
            spec.suspend[0].value = Some(json!({"path": ["${captured.savepoint}"]}));
            spec.start[0].value = Some(json!("${captured.offset}"));
            spec.restart[0].value = Some(json!("${captured.position}"));
            spec.restart_from[0].value = Some(json!("${object.metadata.name}"));
            spec.no_pods.as_mut().unwrap().label_selector = Some("app=${app}".to_owned());
        });
        insta::assert_snapshot!(found.join("\n"), @r"
        /spec/suspend/0/value: ${captured.savepoint} has no value: suspend is written before anything was captured
        /spec/hold/0/value: ${attempt}: hold takes only ${cluster}, ${namespace} and ${name}, because a copy is compared with these values to tell that it is held
        /spec/start/0/value: ${captured.offset} may have no value: no rule of capture is named offset and required
        /spec/restart/0/value: ${captured.position} may have no value: no rule of capture is named position and required
        /spec/restartFrom/0/value: ${object.metadata.name} is no variable of a patch: known are ${cluster}, ${namespace}, ${name}, ${attempt} and ${captured.NAME}
        /spec/noPods/labelSelector: ${app} is no variable of a selector: known are ${cluster}, ${namespace}, ${name} and ${object.PATH}
        ");
        let found = mistakes(|spec| spec.capture[0].required = false);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_copy_may_be_started_again_with_a_handle_that_every_stop_leaves() {
        let restart = |spec: &mut WorkloadProfileSpec| {
            spec.restart[0].value = Some(json!("${captured.savepoint}"));
        };
        assert!(mistakes(restart).is_empty());
        let found = mistakes(|spec| {
            restart(spec);
            spec.capture[0].required = false;
        });
        assert!(
            found.iter().any(|mistake| mistake
                .starts_with("/spec/restart/0/value: ${captured.savepoint} may have no value")),
            "{found:?}"
        );
    }

    #[test]
    fn the_variables_of_place_are_known_everywhere() {
        let found = mistakes(|spec| {
            let placed = json!({"self": "${cluster}", "id": ["${namespace}/${name}"]});
            for patches in [
                &mut spec.hold,
                &mut spec.suspend,
                &mut spec.start,
                &mut spec.restart,
                &mut spec.restart_from,
            ] {
                patches.push(PatchOp::add("/spec/placed", placed.clone()));
            }
            spec.no_pods.as_mut().unwrap().label_selector =
                Some("at=${cluster}.${namespace}.${name}".to_owned());
        });
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn where_there_may_be_no_move_there_is_no_source_and_no_target() {
        let found = mistakes(|spec| {
            spec.hold[0].value = Some(json!("${source}"));
            spec.start[0].value = Some(json!("${target}"));
            spec.no_pods.as_mut().unwrap().label_selector = Some("at=${target}".to_owned());
        });
        insta::assert_snapshot!(found.join("\n"), @r"
        /spec/hold/0/value: ${source} is no variable, because a copy is also held without a move: ${cluster} is the cluster that the patch is written for
        /spec/start/0/value: ${target} is no variable, because a copy is also held without a move: ${cluster} is the cluster that the patch is written for
        /spec/noPods/labelSelector: ${target} is no variable, because a copy is also held without a move: ${cluster} is the cluster that the patch is written for
        ");
    }

    #[test]
    fn every_selector_of_pods_is_one_and_there_is_one() {
        let found = mistakes(|spec| {
            let pods = spec.no_pods.as_mut().unwrap();
            pods.label_selectors = vec![
                "app=${name}".to_owned(),
                "app=${attempt}".to_owned(),
                "a=b || c=d".to_owned(),
            ];
        });
        insta::assert_snapshot!(found.join("\n"), @r#"
        /spec/noPods/labelSelectors/1: ${attempt} is no variable of a selector: known are ${cluster}, ${namespace}, ${name} and ${object.PATH}
        /spec/noPods/labelSelectors/2: "a=b || c=d" is no label selector: write several as items of labelSelectors
        "#);
        let found = mistakes(|spec| spec.no_pods.as_mut().unwrap().label_selector = None);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("/spec/noPods: without a selector"),
            "{found:?}"
        );
    }

    #[test]
    fn what_a_hold_appends_names_no_cluster() {
        let append = |value: &str| mistakes(|spec| spec.hold.push(PatchOp::add("/spec/env/-", value)));
        let found = append("${cluster}");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("/spec/hold/1/path: what is appended"),
            "{found:?}"
        );
        assert!(append("${name}").is_empty());
    }

    #[test]
    fn an_optional_parent_is_an_object_that_something_is_patched_into() {
        let found = mistakes(|spec| {
            spec.hold.push(PatchOp::add("/spec/args/-", "--held"));
            spec.hold.push(PatchOp::add("/spec/items/0/name", "held"));
            let parents = [
                "spec.job",
                "/metadata/labels",
                "/spec/jobs",
                "/spec/args",
                "/spec/items/0",
                "/spec/job",
            ];
            spec.optional_parents = parents.map(str::to_owned).to_vec();
        });
        insta::assert_snapshot!(found.join("\n"), @r#"
        /spec/optionalParents/0: "spec.job" is no JSON pointer: one begins with /
        /spec/optionalParents/1: labels and annotations need no parent in the template
        /spec/optionalParents/2: no patch is below it
        /spec/optionalParents/3: a pin creates objects in objects, and no lists or items of them
        /spec/optionalParents/4: a pin creates objects in objects, and no lists or items of them
        "#);
    }

    #[test]
    fn a_workload_with_state_is_held_and_stopped_by_something() {
        let found = mistakes(|spec| {
            spec.hold.clear();
            spec.suspend.clear();
        });
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
