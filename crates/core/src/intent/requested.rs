//! A move that a template asks for itself: an annotation names the cluster that the workload is to go to, in Git or set by hand.
//!
//! Each word of it is answered once. The answer stands in an annotation of cutover's own on the template: it names the Migration
//! before that is created, and says afterwards that it was. So a request that is left standing is not carried out again.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;

use super::effect::{add, segment};
use super::record::digest;
use super::{driven, rivals};
use crate::api::{self, MigrationSpec, WAITS_ANNOTATION, WorkloadRef};
use crate::config::Migrations;
use cutover_karmada::name::ClusterName;

/// On a template: the cluster that the workload is to be moved to.
pub const TARGET_ANNOTATION: &str = "karmada.io/migration-target";
/// On a template: what became of that, as JSON.
pub const ANSWER_ANNOTATION: &str = "cutover.dev/migration-target-answer";
/// On a Migration: a template has asked for it.
const REQUESTED_ANNOTATION: &str = "cutover.dev/requested-by";

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

/// What is to be done about a request next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The template is to be changed, exactly as it was read; and what that says.
    Answer(Vec<Value>, String),
    Create(Box<Value>),
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
pub fn problem(template: &Value) -> Option<String> {
    let target = target_of(template)?;
    match answer_of(template)? {
        Ok(answer) if answer.target == target => answer.refused,
        Ok(_) => None,
        Err(why) => Some(format!(
            "its annotation {ANSWER_ANNOTATION} cannot be read ({why}), so {TARGET_ANNOTATION} is not carried out"
        )),
    }
}

/// Returns what a request waits for that is not answered yet, if it waits.
pub fn awaits<'m>(template: &Value, migrations: impl IntoIterator<Item = &'m Value>) -> Option<String> {
    target_of(template).filter(|_| is_open(template))?;
    let first = under_way(template, migrations)?.find(|one| turns_back(one))?;
    let name = first["metadata"]["name"].as_str().unwrap_or_default();
    Some(format!(
        "{TARGET_ANNOTATION} is read when Migration {name}, which is being rolled back, has ended"
    ))
}

/// Returns what is to be done about a template. `migrations`: those that are there, as they are now; `clusters`: those that
/// are joined.
pub fn next(
    template: &Value,
    migrations: &[Value],
    clusters: &[ClusterName],
    settings: &Migrations,
    now: Timestamp,
) -> Option<Step> {
    if !is_open(template) || template.pointer("/metadata/deletionTimestamp").is_some() {
        return None;
    }
    let Some(target) = target_of(template) else {
        return Some(forget());
    };
    let answer = answer_of(template).and_then(Result::ok);
    let Some(answer) = answer.filter(|answer| answer.target == target) else {
        return first_answer(template, target, migrations, clusters, now);
    };
    let name = answer.migration.clone()?;
    let workload = workload_of(template)?;
    let is_its = |one: &&Value| driven::is_of(one, &workload, namespace_of(template));
    let mut own = migrations.iter().filter(is_its);
    if own.any(|one| one["metadata"]["name"] == name.as_str()) {
        let done = Answer {
            created: true,
            ..answer
        };
        return Some(said(&done, format!("Migration {name} carries it out")));
    }
    // Another one may have come since the answer was given.
    if let Some(other) = contradiction(template, target, migrations) {
        let refused = Answer {
            migration: None,
            refused: Some(other.clone()),
            ..answer
        };
        return Some(said(&refused, other));
    }
    Some(Step::Create(Box::new(migration(
        template, target, &name, settings,
    )?)))
}

/// Returns the Migrations of a workload that have not ended. One that waits for its parent to let it begin may never do so.
fn under_way<'m, I: IntoIterator<Item = &'m Value>>(
    template: &Value,
    migrations: I,
) -> Option<impl Iterator<Item = &'m Value> + use<'m, I>> {
    let (workload, namespace) = (workload_of(template)?, namespace_of(template).map(str::to_owned));
    Some(migrations.into_iter().filter(move |one| {
        !driven::has_ended(one)
            && annotation(one, WAITS_ANNOTATION).is_none()
            && driven::is_of(one, &workload, namespace.as_deref())
    }))
}

/// Returns whether a Migration is on its way back, so that it does nothing that is asked for, and stands in the way until it ends.
fn turns_back(migration: &Value) -> bool {
    rivals::is_called_off(migration)
        || migration.pointer("/metadata/deletionTimestamp").is_some()
        || driven::is_rolling_back(migration)
}

/// Returns why a request can't be carried out beside a Migration of the workload that has not ended, if so.
fn contradiction(template: &Value, target: &str, migrations: &[Value]) -> Option<String> {
    let mut about = under_way(template, migrations)?.filter(|one| !turns_back(one));
    let other = about.find(|one| one.pointer("/spec/to").and_then(Value::as_str) != Some(target))?;
    let name = other["metadata"]["name"].as_str().unwrap_or_default();
    Some(format!(
        "{TARGET_ANNOTATION} names {target}, and Migration {name}, which has not ended, moves the workload elsewhere"
    ))
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

fn first_answer(
    template: &Value,
    target: &str,
    migrations: &[Value],
    clusters: &[ClusterName],
    now: Timestamp,
) -> Option<Step> {
    let refuse = |why: String| {
        let refused = Answer {
            target: target.to_owned(),
            migration: None,
            created: false,
            refused: Some(why.clone()),
        };
        Some(said(&refused, why))
    };
    if !clusters.iter().any(|cluster| cluster.as_str() == target) {
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
    // What becomes of the workload is seen when that has ended.
    if under_way(template, migrations)?.any(turns_back) {
        return None;
    }
    if let Some(why) = contradiction(template, target, migrations) {
        return refuse(why);
    }
    if let Some(first) = under_way(template, migrations)?.next() {
        let name = first["metadata"]["name"].as_str().unwrap_or_default();
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
        driven::timed(&stem(template, target)?, now),
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
    let at = format!("/metadata/annotations/{}", segment(ANSWER_ANNOTATION));
    Step::Answer(
        vec![json!({"op": "remove", "path": at})],
        format!("{TARGET_ANNOTATION} is gone"),
    )
}

fn said(answer: &Answer, what: String) -> Step {
    let at = format!("/metadata/annotations/{}", segment(ANSWER_ANNOTATION));
    let text = serde_json::to_string(answer).unwrap_or_default();
    Step::Answer(vec![add(&at, json!(text))], what)
}

/// Returns whether a template has asked for a Migration. `annotations`: the Migration's.
pub(super) fn is_noted_in(annotations: &BTreeMap<String, String>) -> bool {
    annotations.contains_key(REQUESTED_ANNOTATION)
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

fn namespace_of(template: &Value) -> Option<&str> {
    template.pointer("/metadata/namespace")?.as_str()
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
    format!("/metadata/annotations/{}", segment(TARGET_ANNOTATION))
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

    fn step(template: &Value, migrations: &[Value]) -> Option<Step> {
        let clusters = ["east", "west"].map(ClusterName::from);
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        next(template, migrations, &clusters, &Migrations::default(), now)
    }

    /// Carries a step out on a template.
    fn answered(template: &Value, step: Option<Step>) -> Value {
        let Some(Step::Answer(patch, _)) = step else {
            panic!("{step:?}")
        };
        let mut template = template.clone();
        let patch: json_patch::Patch = serde_json::from_value(json!(patch)).unwrap();
        json_patch::patch(&mut template, &patch).unwrap();
        template
    }

    #[test]
    fn a_request_is_answered_before_it_is_carried_out_and_carried_out_once() {
        let asked = template(&json!({TARGET_ANNOTATION: "west"}));
        let named = answered(&asked, step(&asked, &[]));
        let Some(Step::Create(migration)) = step(&named, &[]) else {
            panic!("{named}")
        };
        assert_eq!(migration["spec"]["to"], "west");
        let name = migration["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with("orders-to-west-20260102-030405-"), "{name}");
        // It was killed before it could say so, and comes back.
        let done = answered(&named, step(&named, &[moves(name, "west", "Hold")]));
        for there in [vec![moves(name, "west", "Completed")], vec![]] {
            assert_eq!(step(&done, &there), None);
        }
        assert_eq!(problem(&done), None);
    }

    #[test]
    fn a_request_that_goes_and_comes_back_is_another_one() {
        let asked = template(&json!({TARGET_ANNOTATION: "west"}));
        let named = answered(&asked, step(&asked, &[]));
        let mut gone = named.clone();
        gone["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .remove(TARGET_ANNOTATION);
        let forgotten = answered(&gone, step(&gone, &[]));
        assert_eq!(forgotten["metadata"]["annotations"], json!({}));
        assert_eq!(step(&forgotten, &[]), None);
        // And another word is, too.
        let mut other = named.clone();
        other["metadata"]["annotations"][TARGET_ANNOTATION] = json!("east");
        assert!(matches!(step(&other, &[]), Some(Step::Answer(..))));
    }

    #[test]
    fn what_contradicts_or_is_unknown_is_refused_and_stays_so() {
        let asked = template(&json!({TARGET_ANNOTATION: "west"}));
        let refused = answered(&asked, step(&asked, &[moves("by-file", "east", "Verify")]));
        assert!(problem(&refused).unwrap().contains("by-file"), "{refused}");
        // The other one has ended: the word was answered.
        assert_eq!(step(&refused, &[moves("by-file", "east", "Completed")]), None);

        let unknown = template(&json!({TARGET_ANNOTATION: "wset"}));
        let refused = answered(&unknown, step(&unknown, &[]));
        assert!(problem(&refused).unwrap().contains("wset"), "{refused}");
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
            let named = answered(&asked, step(&asked, std::slice::from_ref(&waits)));
            assert!(matches!(step(&named, &[waits]), Some(Step::Create(_))), "{named}");
        }
    }

    #[test]
    fn what_came_between_the_answer_and_its_migration_is_not_contradicted() {
        let asked = template(&json!({TARGET_ANNOTATION: "west"}));
        let named = answered(&asked, step(&asked, &[]));
        let refused = answered(&named, step(&named, &[moves("by-file", "east", "Pending")]));
        assert!(problem(&refused).unwrap().contains("by-file"), "{refused}");
        assert_eq!(step(&refused, &[]), None);
    }

    #[test]
    fn workloads_of_one_name_have_migrations_of_their_own() {
        let asked = template(&json!({TARGET_ANNOTATION: "west"}));
        let mut other = asked.clone();
        other["kind"] = json!("FlinkSessionJob");
        let name = |asked: &Value| {
            let named = answered(asked, step(asked, &[]));
            let Some(Step::Create(migration)) = step(&named, &[]) else {
                panic!("{named}")
            };
            migration["metadata"]["name"].clone()
        };
        assert_ne!(name(&asked), name(&other));
    }

    #[test]
    fn an_answer_that_cannot_be_read_starts_nothing() {
        let edited = template(&json!({TARGET_ANNOTATION: "west", ANSWER_ANNOTATION: "done"}));
        assert_eq!(step(&edited, &[]), None);
        assert!(problem(&edited).unwrap().contains("cannot be read"));
    }
}
