//! A move that a template asks for itself: an annotation names the cluster that the workload is to go to, in Git or set by hand.
//!
//! Each word of it is answered once. The answer stands in an annotation of cutover's own on the template: it names the Migration
//! before that is created, and says afterwards that it was. So a request that is left standing is not carried out again.
//!
//! The Migration is created held, and let go while the answer names it. What is created late, by a process that has been replaced,
//! does nothing, and is deleted.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;

use super::effect::{add, remove, segment};
use super::record::digest;
use super::{child, driven, rivals};
use crate::api::{self, MigrationSpec, WAITS_ANNOTATION, WorkloadRef};
use crate::config::Migrations;
use cutover_karmada::name::{ClusterName, ObjectKey};

/// On a template: the cluster that the workload is to be moved to.
pub const TARGET_ANNOTATION: &str = "karmada.io/migration-target";
/// On a template: what became of that, as JSON.
pub const ANSWER_ANNOTATION: &str = "cutover.dev/migration-target-answer";
/// On a Migration: a template has asked for it.
const REQUESTED_ANNOTATION: &str = "cutover.dev/requested-by";

/// What can be done about a request that is refused.
const AGAIN: &str = "remove the annotation, or let it name another cluster; to ask again, remove it and add it in a later push";

/// What became of a request.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Answer {
    /// The word that is answered.
    target: String,
    /// The Migration that carries it out.
    migration: Option<String>,
    /// That was created.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    created: bool,
    /// Nothing carries it out, and why.
    refused: Option<String>,
}

/// What a decision is made on besides the template: everything as it is now.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Those of the template's namespace.
    pub migrations: &'a [Value],
    pub evacuations: &'a [Value],
    /// Those that are joined.
    pub clusters: &'a [ClusterName],
    pub settings: &'a Migrations,
    pub now: Timestamp,
}

/// What is to be done about a request next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The template is to be changed, exactly as it was read; and what that says.
    Answer(Vec<Value>, String),
    /// This Migration is to be created. It does nothing before it is let go.
    Create(Box<Value>),
    /// This Migration may begin: it is to be changed by a patch, exactly as it was read.
    LetGo(Box<Value>, Vec<Value>),
    /// This Migration was created late: it is to be deleted, exactly as it was read.
    Delete(Box<Value>),
}

/// Why a standing request is not carried out, and what can be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub why: String,
    pub hint: String,
}

/// What keeps a request from being carried out.
enum Obstacle {
    /// A Migration of the workload comes to its end first.
    Passes,
    /// Only one of them can have the workload.
    Excludes(String),
}

/// Returns whether something may have to be done about a template.
pub fn is_open(template: &Value) -> bool {
    let Some(answer) = answer_of(template) else {
        return target_of(template).is_some();
    };
    match (target_of(template), answer) {
        (None, _) => true,
        (Some(_), Err(_)) => false,
        (Some(target), Ok(answer)) => {
            answer.target != target || (!answer.created && answer.refused.is_none())
        }
    }
}

/// Returns why a standing request is not carried out.
pub fn problem(template: &Value) -> Option<Problem> {
    let target = target_of(template)?;
    match answer_of(template)? {
        Ok(answer) if answer.target == target => Some(Problem {
            why: answer.refused?,
            hint: AGAIN.to_owned(),
        }),
        Ok(_) => None,
        Err(error) => Some(Problem {
            why: format!(
                "its annotation {ANSWER_ANNOTATION} cannot be read ({error}), so {TARGET_ANNOTATION} is not carried out"
            ),
            hint: format!(
                "remove {ANSWER_ANNOTATION} from the template in the control plane: {TARGET_ANNOTATION} is then a new request"
            ),
        }),
    }
}

/// Returns what a request waits for that is not answered yet, if it waits.
pub fn awaits<'m>(template: &Value, migrations: impl IntoIterator<Item = &'m Value>) -> Option<String> {
    let target = target_of(template).filter(|_| is_open(template))?;
    let (first, what) = comes_first(template, target, migrations)?;
    let name = name_of(first);
    Some(format!(
        "{TARGET_ANNOTATION} is read when Migration {name}, which {what}, has ended"
    ))
}

/// Returns the template whose request a Migration was created for that has not been let go.
pub fn held_for(migration: &Value) -> Option<ObjectKey> {
    if !is_held(migration) {
        return None;
    }
    let workload = WorkloadRef::deserialize(&migration["spec"]["workload"]).ok()?;
    Some(workload.key(namespace_of(migration)))
}

/// Returns what is to be done about a template.
pub fn next(template: &Value, view: &View<'_>) -> Option<Step> {
    if is_deleted(template) {
        return None;
    }
    // First: once another answer stands, whoever still goes by the old one finds nothing to let go.
    if let Some(late) = late(template, view.migrations) {
        return Some(Step::Delete(Box::new(late.clone())));
    }
    if !is_open(template) {
        return None;
    }
    let Some(target) = target_of(template) else {
        return Some(forget());
    };
    let answer = answer_of(template).and_then(Result::ok);
    match answer.filter(|answer| answer.target == target) {
        Some(answer) => carry_out(template, view, answer),
        None => first_answer(template, target, view),
    }
}

/// Returns a held Migration that the answer does not name, or says to have begun.
fn late<'m>(template: &Value, migrations: &'m [Value]) -> Option<&'m Value> {
    let named = match answer_of(template) {
        // It may name any.
        Some(Err(_)) => return None,
        Some(Ok(answer)) if !answer.created && target_of(template) == Some(&*answer.target) => {
            answer.migration
        }
        Some(Ok(_)) | None => None,
    };
    let is_late = |one: &&Value| is_held(one) && !is_deleted(one) && named.as_deref() != Some(name_of(one));
    // A copy that a person, or a file, has applied is theirs.
    of_workload(template, migrations)?.find(|one| is_late(one) && !is_applied(one))
}

/// Returns whether an object was applied: cutover creates its own.
fn is_applied(object: &Value) -> bool {
    let entries = object
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    entries.is_some_and(|entries| entries.iter().any(|entry| entry["operation"] == "Apply"))
}

/// Carries out an answer that names a Migration.
fn carry_out(template: &Value, view: &View<'_>, answer: Answer) -> Option<Step> {
    let name = answer.migration.clone()?;
    let there = of_workload(template, view.migrations)?.find(|one| name_of(one) == name);
    if there.is_some_and(|one| !is_held(one)) {
        let done = Answer {
            created: true,
            ..answer
        };
        return Some(said(&done, format!("Migration {name} carries it out")));
    }
    // Another intent may have come since the answer was given.
    match (obstacle(template, &answer.target, view), there) {
        (Some(Obstacle::Passes), _) => None,
        (Some(Obstacle::Excludes(why)), _) => {
            let refused = Answer {
                migration: None,
                refused: Some(why.clone()),
                ..answer
            };
            Some(said(&refused, why))
        }
        (None, Some(held)) if is_deleted(held) => None,
        (None, Some(held)) => Some(Step::LetGo(Box::new(held.clone()), child::let_go(held))),
        (None, None) => {
            let migration = held(template, &answer.target, &name, view.settings)?;
            Some(Step::Create(Box::new(migration)))
        }
    }
}

/// Returns the Migrations of a workload.
fn of_workload<'m, I: IntoIterator<Item = &'m Value>>(
    template: &Value,
    migrations: I,
) -> Option<impl Iterator<Item = &'m Value> + use<'m, I>> {
    let (workload, namespace) = (workload_of(template)?, namespace_of(template).map(str::to_owned));
    let all = migrations.into_iter();
    Some(all.filter(move |one| driven::is_of(one, &workload, namespace.as_deref())))
}

/// Returns those of them that have not ended. One that waits for leave to begin may never do so.
fn under_way<'m, I: IntoIterator<Item = &'m Value>>(
    template: &Value,
    migrations: I,
) -> Option<impl Iterator<Item = &'m Value> + use<'m, I>> {
    let all = of_workload(template, migrations)?;
    Some(all.filter(|one| !driven::has_ended(one) && !waits_for_leave(one)))
}

/// Returns whether a Migration is on its way back, so that it does nothing that is asked for, and stands in the way until it ends.
fn turns_back(migration: &Value) -> bool {
    rivals::is_called_off(migration) || is_deleted(migration) || driven::is_rolling_back(migration)
}

/// Returns the Migration that has to end before a request is carried out, and what that one does. What becomes of the workload is seen
/// then; and a later value of an annotation does not contradict the earlier one.
fn comes_first<'m>(
    template: &Value,
    target: &str,
    migrations: impl IntoIterator<Item = &'m Value>,
) -> Option<(&'m Value, &'static str)> {
    under_way(template, migrations)?.find_map(|one| {
        if turns_back(one) {
            Some((one, "is being rolled back"))
        } else if annotation(one, REQUESTED_ANNOTATION).is_some() && to_of(one) != Some(target) {
            Some((one, "an earlier value of it has set off"))
        } else {
            None
        }
    })
}

fn obstacle(template: &Value, target: &str, view: &View<'_>) -> Option<Obstacle> {
    if comes_first(template, target, view.migrations).is_some() {
        return Some(Obstacle::Passes);
    }
    contradiction(template, target, view).map(Obstacle::Excludes)
}

/// Returns why a request can't be carried out beside an intent that has not ended, if so.
fn contradiction(template: &Value, target: &str, view: &View<'_>) -> Option<String> {
    let mut about = under_way(template, view.migrations)?;
    if let Some(other) = about.find(|one| to_of(one) != Some(target)) {
        let name = name_of(other);
        return Some(format!(
            "{TARGET_ANNOTATION} names {target}, and Migration {name}, which has not ended, moves the workload elsewhere"
        ));
    }
    let asked = asked_for(template, namespace_of(template))?;
    let mut standing = view.evacuations.iter().filter(|one| !rivals::has_ended(one));
    let other = standing.find(|one| rivals::exclude_each_other(&asked, one).is_some())?;
    let name = name_of(other);
    Some(format!(
        "{TARGET_ANNOTATION} names {target}, and Evacuation {name}, which has not ended, empties that cluster"
    ))
}

/// Returns the Migration that a template of a namespace asks for, as far as that decides which intents exclude it, with the labels of the
/// template.
pub fn asked_for(template: &Value, namespace: Option<&str>) -> Option<Value> {
    let labels = template.pointer("/metadata/labels");
    let labels = labels.filter(|labels| labels.is_object()).cloned();
    let labels = labels.unwrap_or_else(|| json!({}));
    Some(json!({
        "kind": "Migration",
        "metadata": {"namespace": namespace},
        "spec": {"workload": workload_of(template)?, "to": target_of(template)?},
        "template": {"metadata": {"labels": labels}},
    }))
}

/// Returns the Migration that a template asks for and that is not there yet, as a plan shows it. `before`: as it is now.
pub fn planned(template: &Value, before: Option<&Value>, settings: &Migrations) -> Option<Value> {
    let target = target_of(template)?;
    let answer = before.and_then(answer_of);
    if answer.is_some_and(|answer| answer.is_ok_and(|answer| answer.target == target)) {
        return None;
    }
    migration(template, target, &stem(template, target)?, settings)
}

fn first_answer(template: &Value, target: &str, view: &View<'_>) -> Option<Step> {
    let refuse = |why: String| {
        let refused = Answer {
            target: target.to_owned(),
            migration: None,
            created: false,
            refused: Some(why.clone()),
        };
        Some(said(&refused, why))
    };
    let mut clusters = view.clusters.iter();
    if !clusters.any(|cluster| cluster.as_str() == target) {
        return refuse(format!(
            "{TARGET_ANNOTATION} names {target}, which is not a cluster of this control plane"
        ));
    }
    let (workload, namespace) = (workload_of(template)?, namespace_of(template));
    if namespace.is_none() {
        return refuse(format!(
            "{TARGET_ANNOTATION} cannot move a workload without a namespace: write a Migration"
        ));
    }
    match obstacle(template, target, view) {
        Some(Obstacle::Passes) => return None,
        Some(Obstacle::Excludes(why)) => return refuse(why),
        None => {}
    }
    if let Some(first) = under_way(template, view.migrations)?.next() {
        let name = name_of(first);
        let answer = Answer {
            target: target.to_owned(),
            migration: Some(name.to_owned()),
            created: true,
            refused: None,
        };
        return Some(said(&answer, format!("Migration {name} does so already")));
    }
    let name = format!(
        "{}-{}",
        driven::timed(&stem(template, target)?, view.now),
        tag(&workload)
    );
    let answer = Answer {
        target: target.to_owned(),
        migration: Some(name.clone()),
        created: false,
        refused: None,
    };
    Some(said(&answer, format!("Migration {name} is to carry it out")))
}

/// The template asks for nothing any more: when it does again, that is news.
fn forget() -> Step {
    Step::Answer(
        vec![remove(&answer_pointer())],
        format!("{TARGET_ANNOTATION} is gone"),
    )
}

fn said(answer: &Answer, what: String) -> Step {
    let text = serde_json::to_string(answer).unwrap_or_default();
    Step::Answer(vec![add(&answer_pointer(), json!(text))], what)
}

/// Returns whether a template has asked for a Migration. `annotations`: the Migration's.
pub(super) fn is_noted_in(annotations: &BTreeMap<String, String>) -> bool {
    annotations.contains_key(REQUESTED_ANNOTATION)
}

/// Returns a Migration as it is created: it does nothing before it is let go.
fn held(template: &Value, target: &str, name: &str, settings: &Migrations) -> Option<Value> {
    let mut migration = migration(template, target, name, settings)?;
    migration["metadata"]["annotations"][WAITS_ANNOTATION] = json!("true");
    migration["spec"]["paused"] = json!(true);
    Some(migration)
}

/// Returns whether a Migration that a template has asked for has not been let go.
fn is_held(migration: &Value) -> bool {
    annotation(migration, REQUESTED_ANNOTATION).is_some() && waits_for_leave(migration)
}

/// Returns whether a Migration does nothing before it is let go. One that a person has let begin does, whatever its annotations say.
fn waits_for_leave(migration: &Value) -> bool {
    let is_paused = migration.pointer("/spec/paused") == Some(&json!(true));
    let has_begun = !migration["status"]["journal"].is_null();
    annotation(migration, WAITS_ANNOTATION).is_some() && is_paused && !has_begun
}

fn migration(template: &Value, target: &str, name: &str, settings: &Migrations) -> Option<Value> {
    let workload = workload_of(template)?;
    let to = ClusterName::from(target);
    let spec = MigrationSpec {
        verify: settings.verify.clone().unwrap_or_default(),
        on_failure: settings.on_failure,
        window: settings.window.clone(),
        ..MigrationSpec::of(workload.clone(), None, to)
    };
    let mut metadata = json!({
        "name": name,
        "namespace": namespace_of(template)?,
        "annotations": {REQUESTED_ANNOTATION: TARGET_ANNOTATION},
    });
    if let Some(uid) = template.pointer("/metadata/uid") {
        metadata["ownerReferences"] = json!([{
            "apiVersion": workload.api_version, "kind": workload.kind, "name": workload.name, "uid": uid,
            "blockOwnerDeletion": false,
        }]);
    }
    Some(json!({
        "apiVersion": api::API_VERSION, "kind": "Migration", "metadata": metadata, "spec": spec,
    }))
}

fn stem(template: &Value, target: &str) -> Option<String> {
    Some(driven::stem(&workload_of(template)?.name, target))
}

/// Tells workloads apart whose Migrations would have one name: of other kinds, or with long names.
fn tag(workload: &WorkloadRef) -> String {
    let digest = digest(&json!([workload.gvk().group, workload.kind, workload.name]));
    digest.chars().take(4).collect()
}

fn workload_of(template: &Value) -> Option<WorkloadRef> {
    let text = |pointer| {
        template
            .pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    Some(WorkloadRef {
        api_version: text("/apiVersion")?,
        kind: text("/kind")?,
        name: text("/metadata/name")?,
    })
}

fn namespace_of(object: &Value) -> Option<&str> {
    object.pointer("/metadata/namespace")?.as_str()
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn to_of(migration: &Value) -> Option<&str> {
    migration.pointer("/spec/to")?.as_str()
}

fn is_deleted(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

/// Returns the cluster that a template asks for.
pub fn target_of(template: &Value) -> Option<&str> {
    let target = annotation(template, TARGET_ANNOTATION)?.trim();
    (!target.is_empty()).then_some(target)
}

/// Returns whether a manifest carries an answer, which only a live object has.
pub fn is_answered_in(manifest: &Value) -> bool {
    annotation(manifest, ANSWER_ANNOTATION).is_some()
}

/// Returns where a template asks.
pub fn pointer() -> String {
    at(TARGET_ANNOTATION)
}

/// Returns where the answer stands.
pub fn answer_pointer() -> String {
    at(ANSWER_ANNOTATION)
}

fn at(annotation: &str) -> String {
    format!("/metadata/annotations/{}", segment(annotation))
}

fn answer_of(template: &Value) -> Option<Result<Answer, serde_json::Error>> {
    annotation(template, ANSWER_ANNOTATION).map(serde_json::from_str)
}

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(annotations: &Value) -> Value {
        json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
            "metadata": {"namespace": "shop", "name": "orders", "uid": "u1", "annotations": annotations},
        })
    }

    fn moves(name: &str, to: &str, phase: &str) -> Value {
        json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Migration",
            "metadata": {"namespace": "shop", "name": name},
            "spec": {"to": to, "workload": {
                "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders",
            }},
            "status": {"phase": phase},
        })
    }

    fn empties(cluster: &str, phase: &str) -> Value {
        json!({
            "kind": "Evacuation", "metadata": {"name": "maintenance"}, "spec": {"cluster": cluster},
            "status": {"phase": phase},
        })
    }

    fn step(template: &Value, migrations: &[Value]) -> Option<Step> {
        step_beside(template, migrations, &[])
    }

    fn step_beside(template: &Value, migrations: &[Value], evacuations: &[Value]) -> Option<Step> {
        let view = View {
            migrations,
            evacuations,
            clusters: &["east", "west"].map(ClusterName::from),
            settings: &Migrations::default(),
            now: "2026-01-02T03:04:05Z".parse().unwrap(),
        };
        next(template, &view)
    }

    /// Carries a step out on a template.
    fn answered(template: &Value, step: Option<Step>) -> Value {
        let Some(Step::Answer(patch, _)) = step else {
            panic!("{step:?}")
        };
        patched(template, &patch)
    }

    fn patched(object: &Value, patch: &[Value]) -> Value {
        let mut object = object.clone();
        let patch: json_patch::Patch = serde_json::from_value(json!(patch)).unwrap();
        json_patch::patch(&mut object, &patch).unwrap();
        object
    }

    fn created(step: Option<Step>) -> Value {
        let Some(Step::Create(migration)) = step else {
            panic!("{step:?}")
        };
        *migration
    }

    fn let_go(step: Option<Step>) -> Value {
        let Some(Step::LetGo(migration, patch)) = step else {
            panic!("{step:?}")
        };
        patched(&migration, &patch)
    }

    /// The same template with another word, or none.
    fn with(template: &Value, target: Option<&str>) -> Value {
        let mut template = template.clone();
        let annotations = template["metadata"]["annotations"].as_object_mut().unwrap();
        match target {
            Some(target) => drop(annotations.insert(TARGET_ANNOTATION.to_owned(), json!(target))),
            None => drop(annotations.remove(TARGET_ANNOTATION)),
        }
        template
    }

    #[test]
    fn a_request_is_answered_before_it_is_carried_out_and_carried_out_once() {
        let asked = template(&json!({TARGET_ANNOTATION: "west"}));
        let named = answered(&asked, step(&asked, &[]));
        let held = created(step(&named, &[]));
        assert_eq!(held["spec"]["to"], "west");
        let name = held["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with("orders-to-west-20260102-030405-"), "{name}");
        // It was killed before it could let it go, and comes back.
        assert_eq!(held["spec"]["paused"], true);
        let workload = workload_of(&asked).unwrap();
        assert_eq!(held_for(&held), Some(workload.key(Some("shop"))));
        let begun = let_go(step(&named, std::slice::from_ref(&held)));
        assert_eq!((begun["spec"].get("paused"), held_for(&begun)), (None, None));
        // It was killed before it could say so, and comes back.
        let done = answered(&named, step(&named, &[begun]));
        for there in [vec![moves(name, "west", "Completed")], vec![]] {
            assert_eq!(step(&done, &there), None);
        }
        assert_eq!(problem(&done), None);
    }

    #[test]
    fn a_request_that_goes_and_comes_back_is_another_one() {
        let asked = template(&json!({TARGET_ANNOTATION: "west"}));
        let named = answered(&asked, step(&asked, &[]));
        let gone = with(&named, None);
        let forgotten = answered(&gone, step(&gone, &[]));
        assert_eq!(forgotten["metadata"]["annotations"], json!({}));
        assert_eq!(step(&forgotten, &[]), None);
        // And another word is, too.
        let other = with(&named, Some("east"));
        assert!(matches!(step(&other, &[]), Some(Step::Answer(..))));
    }

    #[test]
    fn what_is_created_late_is_deleted_and_not_let_go() {
        let asked = template(&json!({TARGET_ANNOTATION: "west"}));
        let named = answered(&asked, step(&asked, &[]));
        let late = created(step(&named, &[]));
        let begun = let_go(step(&named, std::slice::from_ref(&late)));
        let (gone, other) = (with(&named, None), with(&named, Some("east")));
        let is_deleted = Some(Step::Delete(Box::new(late.clone())));
        for template in [
            // No answer to another word, or to none, stands while it may still be let go.
            gone.clone(),
            other.clone(),
            answered(&gone, step(&gone, &[])),
            answered(&other, step(&other, &[])),
            // The one that was created in time has ended, and was deleted.
            answered(&named, step(&named, &[begun])),
            answered(&named, step(&named, &[moves("by-file", "east", "Pending")])),
        ] {
            assert_eq!(
                step(&template, std::slice::from_ref(&late)),
                is_deleted,
                "{template}"
            );
        }
        // It may be the one that this answer names; and one that goes already is not deleted once more, nor created beside it.
        let mut unreadable = named.clone();
        unreadable["metadata"]["annotations"][ANSWER_ANNOTATION] = json!("done");
        let mut goes = late.clone();
        goes["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        assert_eq!(step(&unreadable, std::slice::from_ref(&late)), None);
        assert_eq!(step(&named, std::slice::from_ref(&goes)), None);
        assert!(matches!(step(&other, &[goes]), Some(Step::Answer(..))));
    }

    #[test]
    fn what_has_begun_or_was_applied_is_not_deleted_for_its_annotations() {
        let asked = template(&json!({TARGET_ANNOTATION: "west"}));
        let named = answered(&asked, step(&asked, &[]));
        let late = created(step(&named, &[]));
        let other = with(&named, Some("east"));
        let is_deleted = |late: &Value| {
            let step = step(&other, std::slice::from_ref(late));
            matches!(step, Some(Step::Delete(_)))
        };
        assert!(is_deleted(&late));
        let with = |change: &dyn Fn(&mut Value)| {
            let mut late = late.clone();
            change(&mut late);
            late
        };
        let unpaused = with(&|late| late["spec"]["paused"] = json!(false));
        let begun = with(&|late| late["status"] = json!({"phase": "Hold", "journal": {"source": "east"}}));
        let applied = with(&|late| {
            late["metadata"]["managedFields"] = json!([{"manager": "kubectl", "operation": "Apply"}]);
        });
        for kept in [&unpaused, &begun, &applied] {
            assert!(!is_deleted(kept), "{kept}");
        }
        let written = with(&|late| {
            late["metadata"]["managedFields"] = json!([{"manager": "cutover", "operation": "Update"}]);
        });
        assert!(is_deleted(&written));
        // It carries the word out.
        for there in [unpaused, begun] {
            let done = answered(&named, step(&named, &[there]));
            assert_eq!((is_open(&done), problem(&done)), (false, None));
        }
    }

    #[test]
    fn a_later_word_waits_for_the_move_that_an_earlier_one_has_set_off() {
        let asked = template(&json!({TARGET_ANNOTATION: "west"}));
        let named = answered(&asked, step(&asked, &[]));
        let held = created(step(&named, &[]));
        let mut begun = let_go(step(&named, &[held]));
        begun["status"] = json!({"phase": "Verify"});
        let done = answered(&named, step(&named, std::slice::from_ref(&begun)));
        // As another word; and after the first one was taken back.
        let gone = with(&done, None);
        let forgotten = answered(&gone, step(&gone, std::slice::from_ref(&begun)));
        for later in [with(&done, Some("east")), with(&forgotten, Some("east"))] {
            assert_eq!(step(&later, std::slice::from_ref(&begun)), None);
            let waits = awaits(&later, std::slice::from_ref(&begun)).unwrap();
            assert!(
                waits.contains("which an earlier value of it has set off"),
                "{waits}"
            );
            let mut ended = begun.clone();
            ended["status"]["phase"] = json!("Completed");
            let named = answered(&later, step(&later, std::slice::from_ref(&ended)));
            assert_eq!(problem(&named), None);
            assert_eq!(created(step(&named, &[ended]))["spec"]["to"], "east");
        }
    }

    #[test]
    fn what_an_evacuation_empties_is_refused() {
        let asked = template(&json!({TARGET_ANNOTATION: "west"}));
        let named = answered(&asked, step(&asked, &[]));
        for phase in ["Moving", "Watching"] {
            let there = [empties("west", phase)];
            // At once, or where it has come since the answer was given.
            for template in [&asked, &named] {
                let refused = answered(template, step_beside(template, &[], &there));
                let problem = problem(&refused).unwrap();
                assert!(problem.why.contains("Evacuation maintenance"), "{problem:?}");
                assert_eq!(step(&refused, &[]), None);
            }
        }
        for passes in [empties("east", "Moving"), empties("west", "Completed")] {
            let there = [passes];
            assert_eq!(answered(&asked, step_beside(&asked, &[], &there)), named);
            assert_eq!(created(step_beside(&named, &[], &there))["spec"]["to"], "west");
        }
    }

    #[test]
    fn an_evacuation_that_does_not_select_its_labels_refuses_nothing() {
        let mut asked = template(&json!({TARGET_ANNOTATION: "west"}));
        let mut evacuation = empties("west", "Moving");
        evacuation["spec"]["select"] = json!({"labelSelector": "tier=critical"});
        let there = [evacuation];
        for labels in [Value::Null, json!({"tier": "low"})] {
            asked["metadata"]["labels"] = labels;
            let answered = answered(&asked, step_beside(&asked, &[], &there));
            assert_eq!(problem(&answered), None);
        }
        asked["metadata"]["labels"] = json!({"tier": "critical"});
        let answered = answered(&asked, step_beside(&asked, &[], &there));
        assert!(problem(&answered).is_some(), "{answered}");
    }

    #[test]
    fn what_contradicts_or_is_unknown_is_refused_and_stays_so() {
        let asked = template(&json!({TARGET_ANNOTATION: "west"}));
        let refused = answered(&asked, step(&asked, &[moves("by-file", "east", "Verify")]));
        assert!(problem(&refused).unwrap().why.contains("by-file"), "{refused}");
        // The other one has ended: the word was answered.
        assert_eq!(step(&refused, &[moves("by-file", "east", "Completed")]), None);

        let unknown = template(&json!({TARGET_ANNOTATION: "wset"}));
        let refused = answered(&unknown, step(&unknown, &[]));
        assert!(problem(&refused).unwrap().why.contains("wset"), "{refused}");
        assert_eq!(step(&refused, &[]), None);

        let agreed = answered(&asked, step(&asked, &[moves("by-file", "west", "Hold")]));
        assert_eq!((problem(&agreed), step(&agreed, &[])), (None, None));
    }

    #[test]
    fn what_turns_back_or_may_never_begin_is_no_answer() {
        let asked = template(&json!({TARGET_ANNOTATION: "west"}));
        for to in ["west", "east"] {
            let mut called_off = moves("by-file", to, "Verify");
            called_off["spec"]["abort"] = json!(true);
            let mut deleted = moves("by-file", to, "Verify");
            deleted["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
            for turns_back in [called_off, deleted, moves("by-file", to, "RollingBack")] {
                let there = std::slice::from_ref(&turns_back);
                assert_eq!(step(&asked, there), None, "{turns_back}");
                assert!(awaits(&asked, there).unwrap().contains("by-file"));
            }
            let mut waits = moves("of-an-evacuation", to, "Pending");
            waits["metadata"]["annotations"] = json!({WAITS_ANNOTATION: "true"});
            waits["spec"]["paused"] = json!(true);
            let named = answered(&asked, step(&asked, std::slice::from_ref(&waits)));
            assert!(matches!(step(&named, &[waits]), Some(Step::Create(_))), "{named}");
        }
    }

    #[test]
    fn what_came_between_the_answer_and_its_migration_is_not_contradicted() {
        let asked = template(&json!({TARGET_ANNOTATION: "west"}));
        let named = answered(&asked, step(&asked, &[]));
        let refused = answered(&named, step(&named, &[moves("by-file", "east", "Pending")]));
        assert!(problem(&refused).unwrap().why.contains("by-file"), "{refused}");
        assert_eq!(step(&refused, &[]), None);
    }

    #[test]
    fn workloads_of_one_name_have_migrations_of_their_own() {
        let asked = template(&json!({TARGET_ANNOTATION: "west"}));
        let mut other = asked.clone();
        other["kind"] = json!("FlinkSessionJob");
        let name = |asked: &Value| {
            let named = answered(asked, step(asked, &[]));
            created(step(&named, &[]))["metadata"]["name"].clone()
        };
        assert_ne!(name(&asked), name(&other));
    }

    #[test]
    fn an_answer_that_cannot_be_read_starts_nothing() {
        let edited = template(&json!({TARGET_ANNOTATION: "west", ANSWER_ANNOTATION: "done"}));
        assert_eq!(step(&edited, &[]), None);
        let problem = problem(&edited).unwrap();
        assert!(problem.why.contains("cannot be read"), "{problem:?}");
        assert!(problem.hint.contains(ANSWER_ANNOTATION), "{problem:?}");
    }
}
