//! Prune: what goes when Git has it no more, and what never does. Every run is a new reconciler.

use cutover::intent::gate::{ACCEPT_ANNOTATION, ACCEPT_DELETION};
use cutover::plan::{Action, Change, Stop};
use cutover::sandbox::api::{ListOptions, Patch, Resource, Subresource};
use cutover::sandbox::{World, WorldOptions};
use serde_json::{Value, json};

use crate::support::fleet::{CLAIMS, JOBS, MIGRATIONS, PINS, job, policy};
use crate::support::plane::{CONFIG_MAPS, NAMESPACE, NAMESPACES, Plane, config, config_with, settings};
use crate::support::server::{On, on_both_servers};
use crate::support::wait::until;

const SECRETS: Resource = Resource::new("", "secrets");
const DEPLOYMENTS: Resource = Resource::new("apps", "deployments");
const POLICIES: Resource = Resource::new("policy.karmada.io", "propagationpolicies");
const ONE: &str = "- {name: apps, path: apps, prune: true}";
const PARENT: &str = "cutover-apps";

on_both_servers![
    what_a_removed_sync_leaves_behind_is_told_and_its_set_goes_with_the_last_of_it,
    while_a_reconciler_runs_what_is_left_behind_is_followed,
    while_a_wave_waits_nothing_goes_but_intents,
    a_plan_tries_deletions_and_says_which_would_be_refused,
    what_git_has_no_more_is_deleted_and_the_rest_is_left_alone,
    a_kind_that_git_has_nothing_of_any_more_is_still_looked_for_and_then_forgotten,
    an_object_that_moves_to_another_file_or_another_sync_stays_what_it_is,
    a_sync_that_is_renamed_takes_its_objects_along,
    while_a_file_of_the_sync_cannot_be_read_nothing_goes,
    while_another_sync_may_want_it_nothing_goes,
    too_many_at_once_wait_until_exactly_they_are_approved,
    a_folder_that_is_empty_now_is_believed_only_when_somebody_says_so,
    what_is_to_be_kept_is_kept_and_told,
    who_is_not_in_the_set_is_nobody_to_delete,
    a_kind_whose_list_is_not_complete_keeps_everything,
    a_namespace_with_something_else_in_it_stays,
    a_definition_with_objects_of_somebody_elses_stays,
    without_the_right_to_record_nothing_is_applied_that_nobody_would_find_again,
    without_the_right_to_delete_that_is_said_and_the_others_go,
    the_set_of_another_repository_is_left_to_it,
    a_plan_shows_what_would_go_and_what_only_moves_and_writes_nothing,
    a_sync_that_prunes_no_more_lets_its_objects_go_their_way,
    killed_at_any_write_a_prune_comes_to_the_same_end,
    a_migration_that_goes_on_keeps_the_template_that_git_has_no_more,
];

/// A plane on which so many config maps, `c0` and so on, have been applied.
async fn applied(on: On, count: usize, syncs: &str) -> Plane {
    let settings = settings(syncs);
    let mut files = vec![
        ("cutover.yaml".to_owned(), settings),
        (NAMESPACE.0.into(), NAMESPACE.1.into()),
    ];
    files.extend((0..count).map(|number| (path(number), config(&format!("c{number}")))));
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let plane = Plane::with(on, &files);
    let summary = plane.run().await;
    assert!(summary.is_clean(), "{summary:?}");
    plane.writes();
    plane
}

fn path(number: usize) -> String {
    format!("apps/c{number}.yaml")
}

fn remove(plane: &Plane, numbers: std::ops::Range<usize>) {
    let paths: Vec<String> = numbers.map(path).collect();
    let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "")).collect();
    plane.push(&files);
}

fn left(plane: &Plane, count: usize) -> usize {
    (0..count)
        .filter(|number| plane.config(&format!("c{number}")).is_some())
        .count()
}

fn parent(plane: &Plane) -> Value {
    plane.get(&CONFIG_MAPS, Some("cutover-system"), PARENT).unwrap()
}

fn names<'a>(keys: impl IntoIterator<Item = &'a cutover::name::ObjectKey>) -> Vec<String> {
    keys.into_iter().map(ToString::to_string).collect()
}

async fn what_git_has_no_more_is_deleted_and_the_rest_is_left_alone(on: On) {
    let plane = applied(on, 3, ONE).await;
    assert_eq!(
        parent(&plane)["metadata"]["annotations"]["applyset.kubernetes.io/contains-group-kinds"],
        "ConfigMap,Namespace"
    );
    let id = parent(&plane)["metadata"]["labels"]["applyset.kubernetes.io/id"].clone();
    assert_eq!(
        plane.config("c1").unwrap()["metadata"]["labels"]["applyset.kubernetes.io/part-of"],
        id
    );
    remove(&plane, 0..1);
    let pruned = plane.pruned("apps").await;
    assert_eq!(names(&pruned.deleted), ["ConfigMap shop/c0"]);
    assert_eq!(left(&plane, 3), 2);
    assert_eq!(plane.writes(), ["DELETE /api/v1/namespaces/shop/configmaps/c0"]);
    plane.run().await;
    assert_eq!(plane.writes(), [""; 0]);
}

async fn a_kind_that_git_has_nothing_of_any_more_is_still_looked_for_and_then_forgotten(on: On) {
    let plane = applied(on, 1, ONE).await;
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {namespace: shop, name: s}\n";
    plane.push(&[("apps/deep/s.yaml", secret)]);
    plane.run().await;
    assert!(plane.get(&SECRETS, Some("shop"), "s").is_some());
    let kinds =
        || parent(&plane)["metadata"]["annotations"]["applyset.kubernetes.io/contains-group-kinds"].clone();
    assert_eq!(kinds(), "ConfigMap,Namespace,Secret");
    plane.push(&[("apps/deep/s.yaml", "")]);
    plane.run().await;
    assert!(plane.get(&SECRETS, Some("shop"), "s").is_none());
    assert_eq!(kinds(), "ConfigMap,Namespace");
}

async fn an_object_that_moves_to_another_file_or_another_sync_stays_what_it_is(on: On) {
    let plane = applied(on, 2, "- {name: apps, path: apps, prune: true}\n- {name: more, path: more, prune: true}\n- {name: plain, path: plain}").await;
    let (first, second) = (plane.uid("c0"), plane.uid("c1"));
    plane.push(&[("apps/c0.yaml", ""), ("apps/deep/zero.yaml", &config("c0"))]);
    assert_eq!(names(&plane.pruned("apps").await.deleted), [""; 0]);
    assert_eq!(plane.uid("c0"), first);
    let files = [
        ("apps/deep/zero.yaml", ""),
        ("apps/c1.yaml", ""),
        ("more/c0.yaml", &*config("c0")),
        ("plain/c1.yaml", &*config("c1")),
    ];
    plane.push(&files);
    let summary = plane.run().await;
    assert!(summary.is_clean(), "{summary:?}");
    assert_eq!((plane.uid("c0"), plane.uid("c1")), (first, second));
    assert!(!plane.writes().iter().any(|line| line.starts_with("DELETE")));
    let set = |name: &str| {
        plane.config(name).unwrap()["metadata"]["labels"]["applyset.kubernetes.io/part-of"].clone()
    };
    assert_eq!(
        set("c0"),
        plane
            .get(&CONFIG_MAPS, Some("cutover-system"), "cutover-more")
            .unwrap()["metadata"]["labels"]["applyset.kubernetes.io/id"]
    );
    assert_eq!(set("c1"), Value::Null);
}

async fn a_sync_that_is_renamed_takes_its_objects_along(on: On) {
    let plane = applied(on, 3, ONE).await;
    let uids = [plane.uid("c0"), plane.uid("c1")];
    plane.push(&[(
        "cutover.yaml",
        &settings("- {name: renamed, path: apps, prune: true}"),
    )]);
    assert!(plane.run().await.is_clean());
    assert_eq!([plane.uid("c0"), plane.uid("c1")], uids);
    assert!(
        plane.get(&CONFIG_MAPS, Some("cutover-system"), PARENT).is_none(),
        "nothing is left of the old set"
    );
    remove(&plane, 0..1);
    assert_eq!(
        names(&plane.pruned("renamed").await.deleted),
        ["ConfigMap shop/c0"]
    );
}

async fn while_a_file_of_the_sync_cannot_be_read_nothing_goes(on: On) {
    for broken in [
        "kind: [",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: shop, name: c1}\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: nowhere}\n",
    ] {
        let plane = applied(on, 3, ONE).await;
        plane.push(&[("apps/c0.yaml", ""), ("apps/z.yaml", broken)]);
        let pruned = plane.pruned("apps").await;
        assert_eq!(names(&pruned.waiting), ["ConfigMap shop/c0"], "{broken}");
        assert!(
            matches!(&pruned.stop, Some(Stop::Doubt(why)) if why.contains("apps/z.yaml")),
            "{pruned:?}"
        );
        assert_eq!(left(&plane, 3), 3);
        plane.push(&[("apps/z.yaml", "")]);
        assert_eq!(names(&plane.pruned("apps").await.deleted), ["ConfigMap shop/c0"]);
    }
}

async fn while_another_sync_may_want_it_nothing_goes(on: On) {
    let plane = applied(
        on,
        2,
        "- {name: apps, path: apps, prune: true}\n- {name: more, path: more}",
    )
    .await;
    plane.push(&[("apps/c0.yaml", ""), ("more/z.yaml", "kind: [")]);
    let pruned = plane.pruned("apps").await;
    assert!(
        matches!(&pruned.stop, Some(Stop::Doubt(why)) if why.contains("sync more may want it")),
        "{pruned:?}"
    );
    assert_eq!(left(&plane, 2), 2);
}

async fn too_many_at_once_wait_until_exactly_they_are_approved(on: On) {
    let limited = |more: &str| {
        settings(&format!(
            "- {{name: apps, path: apps, prune: true, pruneLimit: {{objects: 2, percent: 10{more}}}}}"
        ))
    };
    let plane = applied(on, 6, ONE).await;
    plane.push(&[("cutover.yaml", &limited(""))]);
    remove(&plane, 0..3);
    let pruned = plane.pruned("apps").await;
    let Some(Stop::TooMany {
        deletions: 3,
        all: 7,
        hash,
    }) = &pruned.stop
    else {
        panic!("{pruned:?}");
    };
    assert_eq!(left(&plane, 6), 6);
    let status = plane.origin.read("cutover-status", "STATUS.md").unwrap();
    assert!(
        status.contains("3 of 7 objects would be deleted at once") && status.contains(hash),
        "{status}"
    );
    let planned = plane.plan().await;
    let blocked = planned
        .iter()
        .filter(|change| matches!(&change.action, Action::Blocked { reason } if reason.contains("3 of 7")));
    assert_eq!(blocked.count(), 3, "{planned:?}");
    // Another hash, and the right one for other objects, approve nothing.
    plane.push(&[("cutover.yaml", &limited(", approve: 0123456789ab"))]);
    let pruned = plane.pruned("apps").await;
    assert_eq!((pruned.waiting.len(), pruned.pending()), (3, 3));
    plane.push(&[
        ("cutover.yaml", &limited(&format!(", approve: {hash}"))),
        ("apps/c3.yaml", ""),
    ]);
    assert_eq!(plane.pruned("apps").await.waiting.len(), 4);
    plane.push(&[("apps/c3.yaml", &config("c3"))]);
    let pruned = plane.pruned("apps").await;
    assert_eq!((pruned.deleted.len(), left(&plane, 6)), (3, 3), "{pruned:?}");
    assert_eq!(parent(&plane)["data"], Value::Null, "what was approved is done");
}

async fn a_folder_that_is_empty_now_is_believed_only_when_somebody_says_so(on: On) {
    let plane = applied(on, 1, ONE).await;
    plane.push(&[(NAMESPACE.0, ""), ("apps/c0.yaml", "")]);
    let pruned = plane.pruned("apps").await;
    let Some(Stop::Everything { deletions: 2, hash }) = &pruned.stop else {
        panic!("{pruned:?}");
    };
    assert_eq!(left(&plane, 1), 1);
    plane.push(&[(
        "cutover.yaml",
        &settings(&format!(
            "- {{name: apps, path: apps, prune: true, pruneLimit: {{approve: {hash}}}}}"
        )),
    )]);
    let pruned = plane.pruned("apps").await;
    assert_eq!(names(&pruned.deleted), ["ConfigMap shop/c0", "Namespace shop"]);
    assert!(
        plane
            .get(&NAMESPACES, None, "shop")
            .is_none_or(|namespace| namespace["metadata"]["deletionTimestamp"].is_string())
    );
    let order = plane.writes();
    let deletions: Vec<_> = order.iter().filter(|line| line.starts_with("DELETE")).collect();
    assert_eq!(
        deletions,
        [
            "DELETE /api/v1/namespaces/shop/configmaps/c0",
            "DELETE /api/v1/namespaces/shop"
        ]
    );
}

async fn what_is_to_be_kept_is_kept_and_told(on: On) {
    let plane = applied(on, 1, ONE).await;
    plane.push(&[
        ("apps/k.yaml", &config_with("k", "{cutover.dev/keep: 'true'}")),
        ("apps/p.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: shop, name: p, labels: {resourcetemplate.karmada.io/deletion-protected: Always}}\n"),
    ]);
    plane.run().await;
    plane.push(&[("apps/k.yaml", ""), ("apps/p.yaml", "")]);
    let pruned = plane.pruned("apps").await;
    assert_eq!(
        names(pruned.kept.keys()),
        ["ConfigMap shop/k", "ConfigMap shop/p"]
    );
    assert!(pruned.is_clean());
    assert!(plane.config("k").is_some() && plane.config("p").is_some());
    let status = plane.origin.read("cutover-status", "STATUS.md").unwrap();
    assert!(
        status.contains(
            "ConfigMap shop/k is not in Git any more and stays: annotation cutover.dev/keep: true."
        ),
        "{status}"
    );
    assert!(plane.plan().await.iter().all(|change| !change.is_deletion()));
    // Without the annotation it goes like everything else.
    plane.edit(
        "k",
        json!({"metadata": {"annotations": {"cutover.dev/keep": null}}}),
    );
    assert_eq!(names(&plane.pruned("apps").await.deleted), ["ConfigMap shop/k"]);
}

async fn who_is_not_in_the_set_is_nobody_to_delete(on: On) {
    let plane = applied(on, 3, ONE).await;
    let no_label = json!({"metadata": {"labels": {"applyset.kubernetes.io/part-of": null}}});
    plane.edit("c0", no_label.clone());
    plane.edit("c1", no_label);
    plane.edit(
        "c2",
        json!({"metadata": {"labels": {"applyset.kubernetes.io/part-of": "applyset-another-v1"}}}),
    );
    plane.push(&[("apps/c0.yaml", ""), ("apps/c2.yaml", "")]);
    assert_eq!(names(&plane.pruned("apps").await.deleted), [""; 0]);
    assert_eq!(left(&plane, 3), 3);
    let label = plane.config("c1").unwrap()["metadata"]["labels"]["applyset.kubernetes.io/part-of"].clone();
    assert_eq!(
        label,
        parent(&plane)["metadata"]["labels"]["applyset.kubernetes.io/id"],
        "what Git has is a member again"
    );
}

async fn a_kind_whose_list_is_not_complete_keeps_everything(on: On) {
    let plane = applied(on, 2, ONE).await;
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {namespace: shop, name: s}\n";
    plane.push(&[("apps/s.yaml", secret)]);
    plane.run().await;
    plane.push(&[("apps/s.yaml", ""), ("apps/c0.yaml", "")]);
    plane.refuse(&["GET /api/v1/secrets"]);
    let pruned = plane.pruned("apps").await;
    assert!(
        matches!(&pruned.stop, Some(Stop::Doubt(why)) if why.contains("Secret is not known")),
        "{pruned:?}"
    );
    assert_eq!(left(&plane, 2), 2);
    plane.refuse(&[]);
    assert_eq!(
        names(&plane.pruned("apps").await.deleted),
        ["ConfigMap shop/c0", "Secret shop/s"]
    );
}

async fn a_namespace_with_something_else_in_it_stays(on: On) {
    let plane = applied(on, 1, ONE).await;
    let other = "apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n";
    plane.push(&[("apps/other.yaml", other)]);
    plane.run().await;
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": "other"}});
    plane
        .server
        .create(&CONFIG_MAPS, Some("other"), theirs, "somebody");
    plane.push(&[("apps/other.yaml", "")]);
    let pruned = plane.pruned("apps").await;
    assert_eq!(
        pruned.blocked.values().collect::<Vec<_>>(),
        ["ConfigMap other/theirs is in it, which is not pruned"]
    );
    plane.server.delete(&CONFIG_MAPS, Some("other"), "theirs");
    assert_eq!(names(&plane.pruned("apps").await.deleted), ["Namespace other"]);
}

async fn a_definition_with_objects_of_somebody_elses_stays(on: On) {
    let crd = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.dev}
spec:
  group: example.dev
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
";
    let plane = applied(on, 1, ONE).await;
    plane.push(&[("apps/crd.yaml", crd)]);
    plane.run().await;
    let widgets = Resource::new("example.dev", "widgets");
    let theirs = json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "shop"}});
    plane.server.create(&widgets, Some("shop"), theirs, "somebody");
    plane.push(&[("apps/crd.yaml", "")]);
    let pruned = plane.pruned("apps").await;
    assert_eq!(
        pruned.blocked.values().collect::<Vec<_>>(),
        ["Widget shop/w is there, which is not pruned"]
    );
    plane.server.delete(&widgets, Some("shop"), "w");
    assert_eq!(
        names(&plane.pruned("apps").await.deleted),
        ["CustomResourceDefinition widgets.example.dev"]
    );
}

async fn without_the_right_to_record_nothing_is_applied_that_nobody_would_find_again(on: On) {
    let plane = Plane::with(on, &[("cutover.yaml", &settings(ONE)), NAMESPACE]);
    plane.refuse(&["POST /api/v1/namespaces/cutover-system/configmaps"]);
    let report = plane.sync("apps").await;
    let told = format!("{:?}", report.objects);
    assert!(
        told.contains("cannot be recorded") && told.contains("it is forbidden"),
        "{told}"
    );
    assert!(plane.get(&NAMESPACES, None, "shop").is_none());
    plane.refuse(&[]);
    assert!(plane.run().await.is_clean());
}

async fn without_the_right_to_delete_that_is_said_and_the_others_go(on: On) {
    let plane = applied(on, 3, ONE).await;
    remove(&plane, 0..2);
    plane.refuse(&["DELETE /api/v1/namespaces/shop/configmaps/c0"]);
    let report = plane.sync("apps").await;
    let pruned = report.pruned.as_ref().unwrap();
    assert_eq!(names(&pruned.deleted), ["ConfigMap shop/c1"]);
    let why = pruned.blocked.values().next().unwrap();
    assert!(
        why.contains("cannot be deleted") && why.contains("it is forbidden"),
        "{why}"
    );
    assert!(!report.is_clean());
}

async fn the_set_of_another_repository_is_left_to_it(on: On) {
    let plane = applied(on, 1, ONE).await;
    let patch = Patch::Merge(
        json!({"metadata": {"annotations": {"cutover.dev/source": "git.example.com/other@main"}}}),
    );
    plane.server.patch(
        &CONFIG_MAPS,
        Some("cutover-system"),
        PARENT,
        None,
        &patch,
        "somebody",
    );
    plane.push(&[("apps/c0.yaml", ""), ("apps/n.yaml", &config("n"))]);
    let report = plane.sync("apps").await;
    assert!(
        format!("{:?}", report.objects).contains("belongs to git.example.com/other@main"),
        "{report:?}"
    );
    assert!(plane.config("n").is_none() && plane.config("c0").is_some());
}

async fn a_plan_shows_what_would_go_and_what_only_moves_and_writes_nothing(on: On) {
    let plane = applied(
        on,
        3,
        "- {name: apps, path: apps, prune: true}\n- {name: more, path: more, prune: true}",
    )
    .await;
    plane.push(&[
        ("apps/c0.yaml", ""),
        ("apps/c1.yaml", ""),
        ("more/c1.yaml", &config("c1")),
    ]);
    let planned = plane.plan().await;
    let gone: Vec<_> = planned
        .iter()
        .filter(|change| change.is_deletion())
        .map(|change| (change.key.to_string(), change.action.clone()))
        .collect();
    assert_eq!(gone, [("ConfigMap shop/c0".to_owned(), Action::Delete)]);
    assert_eq!(plane.writes(), [""; 0]);
}

async fn a_sync_that_prunes_no_more_lets_its_objects_go_their_way(on: On) {
    let plane = applied(on, 2, ONE).await;
    plane.push(&[
        ("cutover.yaml", &settings("- {name: apps, path: apps}")),
        ("apps/c0.yaml", ""),
    ]);
    assert!(plane.run().await.is_clean());
    assert_eq!(left(&plane, 2), 2);
    let label = |name: &str| {
        plane.config(name).unwrap()["metadata"]["labels"]["applyset.kubernetes.io/part-of"].clone()
    };
    assert_eq!(label("c1"), Value::Null);
    assert!(label("c0").is_string(), "its set remembers it");
    plane.push(&[("cutover.yaml", &settings(ONE))]);
    assert_eq!(names(&plane.pruned("apps").await.deleted), ["ConfigMap shop/c0"]);
}

fn left_behind(planned: &[Change]) -> Vec<(String, &str)> {
    let left = planned.iter().filter_map(|change| match &change.action {
        Action::LeftBehind { reason } => Some((change.key.to_string(), reason.as_str())),
        _ => None,
    });
    left.collect()
}

async fn what_a_removed_sync_leaves_behind_is_told_and_its_set_goes_with_the_last_of_it(on: On) {
    let plane = applied(
        on,
        2,
        "- {name: apps, path: apps, prune: true}\n- {name: more, path: more}",
    )
    .await;
    plane.push(&[("cutover.yaml", &settings("- {name: more, path: more}"))]);
    let summary = plane.run().await;
    assert!(summary.is_clean(), "{summary:?}");
    let [left] = summary.left_behind.as_slice() else {
        panic!("{summary:?}");
    };
    assert_eq!(
        names(&left.objects),
        ["ConfigMap shop/c0", "ConfigMap shop/c1", "Namespace shop"]
    );
    assert_eq!(left.why, "sync apps is not in cutover.yaml any more");
    assert!(
        left.hint
            .contains("kubectl delete configmap,namespace --all-namespaces --selector applyset"),
        "{left:?}"
    );
    let status = plane.origin.read("cutover-status", "STATUS.md").unwrap();
    assert!(
        status.contains("sync apps is not in cutover.yaml any more; 3 objects of it stay as they are"),
        "{status}"
    );
    let planned = plane.plan().await;
    let why = "sync apps is not in cutover.yaml any more, so it stays until it is deleted";
    assert_eq!(
        left_behind(&planned),
        ["Namespace shop", "ConfigMap shop/c0", "ConfigMap shop/c1"].map(|key| (key.to_owned(), why))
    );
    assert_eq!(plane.writes(), [""; 0], "they are told, and left alone");
    // One is adopted by another sync, one is deleted by hand, one is taken out of the set.
    plane.push(&[("more/c0.yaml", &config("c0"))]);
    plane.server.delete(&CONFIG_MAPS, Some("shop"), "c1");
    let summary = plane.run().await;
    assert_eq!(names(&summary.left_behind[0].objects), ["Namespace shop"]);
    assert_eq!(parent(&plane)["metadata"]["name"], PARENT);
    let no_label = Patch::Merge(json!({"metadata": {"labels": {"applyset.kubernetes.io/part-of": null}}}));
    plane
        .server
        .patch(&NAMESPACES, None, "shop", None, &no_label, "kubectl-label");
    plane.writes();
    assert_eq!(plane.run().await.left_behind, []);
    assert_eq!(
        plane.writes(),
        ["DELETE /api/v1/namespaces/cutover-system/configmaps/cutover-apps"]
    );
    assert!(plane.get(&NAMESPACES, None, "shop").is_some());
}

async fn while_a_reconciler_runs_what_is_left_behind_is_followed(on: On) {
    let plane = applied(on, 1, ONE).await;
    let running = plane.start();
    plane.push(&[
        ("cutover.yaml", &settings("- {name: more, path: more}")),
        ("more/shop.yaml", NAMESPACE.1),
    ]);
    let status = || {
        plane
            .origin
            .read("cutover-status", "STATUS.md")
            .unwrap_or_default()
    };
    until("it is told", || status().contains("- ConfigMap shop/c0\n")).await;
    let has_parent = || plane.get(&CONFIG_MAPS, Some("cutover-system"), PARENT).is_some();
    assert!(has_parent());
    plane.push(&[("more/c0.yaml", &config("c0"))]);
    until("its set is gone", || !has_parent()).await;
    until("nothing is left", || !status().contains("Left behind")).await;
    assert!(plane.config("c0").is_some());
    drop(running);
}

async fn while_a_wave_waits_nothing_goes_but_intents(on: On) {
    let deployment = |name: &str, wave: &str| {
        format!(
            "apiVersion: apps/v1
kind: Deployment
metadata: {{namespace: shop, name: {name}, annotations: {{cutover.dev/wave: '{wave}'}}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {name}}}}}
  template: {{metadata: {{labels: {{app: {name}}}}}, spec: {{containers: [{{name: c, image: 'c:1'}}]}}}}
"
        )
    };
    let plane = applied(on, 1, "- {name: apps, path: apps, prune: true, wait: 1s}").await;
    plane.push(&[
        ("apps/c0.yaml", ""),
        ("apps/db.yaml", &deployment("db", "0")),
        ("apps/web.yaml", &deployment("web", "1")),
    ]);
    let report = plane.sync("apps").await;
    let pruned = report.pruned.as_ref().unwrap();
    assert_eq!(names(&pruned.waiting), ["ConfigMap shop/c0"]);
    let staying: Vec<_> = pruned.staying().map(|(_, why)| why).collect();
    assert_eq!(staying, ["it goes when nothing of this sync waits any more"]);
    assert!(!report.is_clean() && plane.config("c0").is_some());
    let status = json!({"status": {
        "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
        "availableReplicas": 1,
    }});
    let patch = Patch::Merge(status);
    plane.server.patch(
        &DEPLOYMENTS,
        Some("shop"),
        "db",
        Some(Subresource::Status),
        &patch,
        "controller",
    );
    assert_eq!(names(&plane.pruned("apps").await.deleted), ["ConfigMap shop/c0"]);
    assert!(plane.get(&DEPLOYMENTS, Some("shop"), "web").is_some());
}

async fn a_plan_tries_deletions_and_says_which_would_be_refused(on: On) {
    let plane = applied(on, 3, ONE).await;
    remove(&plane, 0..2);
    plane.refuse(&["DELETE /api/v1/namespaces/shop/configmaps/c0"]);
    let planned = plane.plan().await;
    let deletions: Vec<_> = planned.iter().filter(|change| change.is_deletion()).collect();
    let [first, second] = deletions.as_slice() else {
        panic!("{planned:?}");
    };
    assert_eq!((first.key.name.as_str(), &first.action), ("c1", &Action::Delete));
    assert!(
        matches!(&second.action, Action::Blocked { reason } if reason.contains("it is forbidden")),
        "{second:?}"
    );
    assert_eq!((left(&plane, 3), plane.writes()), (3, Vec::new()));
}

/// Everything that pruning writes, stopped before and after each write: the next run always ends the same.
async fn killed_at_any_write_a_prune_comes_to_the_same_end(on: On) {
    let limited = |more: &str| {
        settings(&format!(
            "- {{name: apps, path: apps, prune: true, pruneLimit: {{objects: 1, percent: 1{more}}}}}"
        ))
    };
    let prepared = || async {
        let plane = applied(on, 4, ONE).await;
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {namespace: shop, name: s}\n";
        plane.push(&[("cutover.yaml", &limited("")), ("apps/s.yaml", secret)]);
        plane.run().await;
        let service = "apiVersion: v1\nkind: Service\nmetadata: {namespace: shop, name: web}\nspec: {ports: [{port: 80}]}\n";
        plane.push(&[("apps/s.yaml", ""), ("apps/web.yaml", service)]);
        remove(&plane, 0..3);
        let Some(Stop::TooMany { hash, .. }) = plane.pruned("apps").await.stop else {
            panic!("it has to be approved");
        };
        plane.push(&[("cutover.yaml", &limited(&format!(", approve: {hash}")))]);
        plane.push(&[("apps/web.yaml", &service.replace("port: 80", "port: 81"))]);
        plane.writes();
        plane
    };
    for answered in [false, true] {
        for write in 0.. {
            let plane = prepared().await;
            let came_so_far = plane.run_until(write, answered).await;
            let done = plane.writes();
            let summary = plane.run().await;
            assert!(summary.is_clean(), "after {done:?}: {summary:?}");
            assert_eq!(left(&plane, 4), 1, "after {done:?}");
            assert!(plane.get(&SECRETS, Some("shop"), "s").is_none(), "after {done:?}");
            let kinds =
                parent(&plane)["metadata"]["annotations"]["applyset.kubernetes.io/contains-group-kinds"]
                    .clone();
            assert_eq!(kinds, "ConfigMap,Namespace,Service", "after {done:?}");
            assert_eq!(parent(&plane)["data"], Value::Null, "after {done:?}");
            plane.writes();
            plane.run().await;
            assert_eq!(plane.writes(), [""; 0], "after {done:?}");
            if !came_so_far {
                assert!(write >= 6, "a run writes more than that: {done:?}");
                break;
            }
        }
    }
}

/// Of policies only versions are watched where Git has none.
#[tokio::test]
async fn the_last_policy_that_git_has_no_more_goes_for_a_new_reconciler_too() {
    let world = World::start(WorldOptions::default());
    let (settings, policy) = (settings(ONE), serde_json::to_string(&policy()).unwrap());
    let kept = config("kept");
    let files = [
        ("cutover.yaml", settings.as_str()),
        NAMESPACE,
        ("apps/kept.yaml", &kept),
        ("apps/policy.yaml", &policy),
    ];
    let plane = Plane::on(world.control_plane(), &files);
    plane.run().await;
    assert!(plane.get(&POLICIES, Some("shop"), "orders").is_some());
    plane.push(&[("apps/policy.yaml", "")]);
    let summary = plane.run().await;
    assert!(summary.is_clean(), "{summary:?}");
    // Karmada has a finalizer on it.
    until("it is gone", || {
        plane.get(&POLICIES, Some("shop"), "orders").is_none()
    })
    .await;
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
async fn an_intent_that_leaves_git_is_aborted_before_it_and_its_workload_go() {
    let world = World::start(WorldOptions::default());
    let text = |object: Value| serde_json::to_string(&object).unwrap();
    let mut job = job("orders:1.0");
    job["metadata"]["annotations"][ACCEPT_ANNOTATION] = ACCEPT_DELETION.into();
    let files = [
        ("cutover.yaml", settings(ONE)),
        (NAMESPACE.0, NAMESPACE.1.to_owned()),
        ("apps/policy.yaml", text(policy())),
        ("apps/job.yaml", text(job)),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let plane = Plane::on(world.control_plane(), &files);
    let running = plane.start();
    let state = |cluster: &str| {
        let copy = world.member(cluster).api.get(&JOBS, Some("shop"), "orders").ok();
        copy.map(|copy| copy["status"]["jobStatus"]["state"].clone())
    };
    until("the job runs", || {
        state("east").is_some_and(|state| state == "RUNNING")
    })
    .await;
    let migration = json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Migration",
        "metadata": {"namespace": "shop", "name": "move"},
        "spec": {"to": "west", "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"}},
    });
    plane.push(&[("apps/move.yaml", &text(migration))]);
    let live = || plane.get(&MIGRATIONS, Some("shop"), "move");
    until("it holds the job", || {
        live().is_some_and(|live| {
            ["Hold", "Expand", "Capture"]
                .iter()
                .any(|phase| live["status"]["phase"] == *phase)
        })
    })
    .await;
    let removed = [
        ("apps/move.yaml", ""),
        ("apps/job.yaml", ""),
        ("apps/policy.yaml", ""),
    ];
    plane.push(&removed);
    let template = || plane.get(&JOBS, Some("shop"), "orders");
    let policy = || plane.get(&POLICIES, Some("shop"), "orders");
    until("the intent is gone", || {
        let gone = live().is_none();
        assert!(
            gone || template().is_some() && policy().is_some(),
            "what it holds went before it"
        );
        gone
    })
    .await;
    until("the template is gone", || template().is_none()).await;
    until("the policy is gone", || policy().is_none()).await;
    for what in [PINS, CLAIMS] {
        let left = world
            .control_plane()
            .list(&what, None, &ListOptions::default())
            .unwrap();
        assert!(left.items.is_empty(), "{:?}", left.items);
    }
    let verdict = world.ledger().verdict();
    assert!(verdict.is_clean(), "{verdict}");
    drop(running);
}

async fn a_migration_that_goes_on_keeps_the_template_that_git_has_no_more(on: On) {
    let plane = applied(on, 1, ONE).await;
    let web = "apiVersion: apps/v1
kind: Deployment
metadata: {namespace: shop, name: web}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web:1}]}}
";
    let move_it = "apiVersion: cutover.dev/v1alpha1
kind: Migration
metadata: {namespace: shop, name: move}
spec: {to: west, paused: true, workload: {apiVersion: apps/v1, kind: Deployment, name: web}}
";
    plane.push(&[("apps/web.yaml", web)]);
    plane.run().await;
    plane.push(&[("apps/web.yaml", ""), ("apps/move.yaml", move_it)]);
    let report = plane.sync("apps").await;
    let held: Vec<_> = report
        .held_back()
        .map(|(key, by)| format!("{key} by {by}"))
        .collect();
    assert_eq!(held, ["Deployment shop/web by Migration shop/move"]);
    assert!(plane.get(&DEPLOYMENTS, Some("shop"), "web").is_some());
    let planned = plane.plan().await;
    assert!(
        planned.iter().any(
            |change| matches!(&change.action, Action::HeldBack { by } if by == "Migration shop/move")
                && change.is_deletion()
        ),
        "{planned:?}"
    );
}
