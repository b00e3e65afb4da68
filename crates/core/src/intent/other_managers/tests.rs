use serde_json::json;

use super::*;
use crate::intent::seen::Read;

const KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io";

fn template(labels: Value, annotations: Value, managers: &[&str]) -> Value {
    let managed = managers
        .iter()
        .map(|name| json!({"manager": name, "operation": "Apply", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {}}}));
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "namespace": "shop", "name": "web", "labels": labels, "annotations": annotations,
            "managedFields": managed.collect::<Vec<_>>(),
        },
        "spec": {"replicas": 2},
    })
}

fn found(object: &Value) -> Vec<String> {
    appliers(object).iter().map(Applier::to_string).collect()
}

fn seen(owner: Option<Value>) -> Seen<Option<Value>> {
    Seen::known(owner, Read { sent: 1, answered: 2 })
}

fn other_managers(tool: Tool, owner: Seen<Option<Value>>) -> OtherManager {
    OtherManager {
        applier: Applier { tool, owner: None },
        owner,
    }
}

fn hold(tool: Tool, template: &Value, owner: Option<Value>) -> Hold {
    other_managers(tool, seen(owner)).hold(template)
}

#[test]
fn a_template_that_only_this_tool_and_karmada_write_is_applied_by_nobody_else() {
    let labels = json!({"app.kubernetes.io/instance": "web", "app": "web"});
    let managers = ["cutover", "karmada-controller-manager", "kubectl-edit"];
    assert!(found(&template(labels, json!({}), &managers)).is_empty());
    assert!(found(&json!({})).is_empty());
}

#[test]
fn argo_cd_is_known_by_its_tracking_id_wherever_the_application_is() {
    let tracked = |id: &str| {
        found(&template(
            json!({}),
            json!({"argocd.argoproj.io/tracking-id": id}),
            &[],
        ))
    };
    assert_eq!(
        tracked("shop:apps/Deployment:shop/web"),
        ["Argo CD (Application argocd/shop)"]
    );
    assert_eq!(
        tracked("teams_shop:apps/Deployment:shop/web"),
        ["Argo CD (Application teams/shop)"]
    );
}

#[test]
fn a_tracking_id_that_is_about_another_object_says_nothing() {
    let copied = |id: &str| {
        found(&template(
            json!({}),
            json!({"argocd.argoproj.io/tracking-id": id}),
            &[],
        ))
    };
    for id in [
        "shop:apps/Deployment:elsewhere/web",
        "shop:apps/Deployment:shop/other",
        "shop:apps/StatefulSet:shop/web",
        "shop",
        ":apps/Deployment:shop/web",
    ] {
        assert!(copied(id).is_empty(), "{id}");
    }
}

#[test]
fn the_common_label_counts_only_where_argo_cd_has_written() {
    let labels = || json!({"app.kubernetes.io/instance": "shop"});
    for manager in ["argocd-controller", "argocd-application-controller"] {
        let labelled = template(labels(), json!({}), &[manager]);
        assert_eq!(found(&labelled), ["Argo CD (Application argocd/shop)"]);
        assert_eq!(found(&template(json!({}), json!({}), &[manager])), ["Argo CD"]);
    }
}

#[test]
fn flux_is_known_by_its_labels_and_by_its_controllers() {
    let labels =
        |group: &str| json!({format!("{group}/name"): "apps", format!("{group}/namespace"): "flux-system"});
    assert_eq!(
        found(&template(labels(KUSTOMIZE), json!({}), &["kustomize-controller"])),
        ["Flux (Kustomization flux-system/apps)"]
    );
    assert_eq!(
        found(&template(labels("helm.toolkit.fluxcd.io"), json!({}), &[])),
        ["Flux (HelmRelease flux-system/apps)"]
    );
    assert_eq!(
        found(&template(json!({}), json!({}), &["helm-controller"])),
        ["Flux"]
    );
}

#[test]
fn who_only_writes_its_status_applies_nothing() {
    let mut object = template(json!({}), json!({}), &["kustomize-controller"]);
    object["metadata"]["managedFields"][0]["subresource"] = json!("status");
    assert!(found(&object).is_empty());
    assert_eq!(last_writer(&object), None);
}

#[test]
fn the_last_writer_is_the_newest() {
    let mut object = template(json!({}), json!({}), &["kustomize-controller", "cutover"]);
    assert_eq!(last_writer(&object), Some("cutover"));
    object["metadata"]["managedFields"][0]["time"] = json!("2026-01-01T00:00:01Z");
    assert_eq!(last_writer(&object), Some("kustomize-controller"));
}

#[test]
fn marks_of_flux_hold_an_object_in_labels_or_annotations_and_in_any_letters() {
    for (key, value) in [
        ("reconcile", "disabled"),
        ("reconcile", "Disabled"),
        ("ssa", "Ignore"),
        ("ssa", "ignore"),
    ] {
        let mark = json!({format!("{KUSTOMIZE}/{key}"): value});
        for object in [
            template(json!({}), mark.clone(), &[]),
            template(mark, json!({}), &[]),
        ] {
            let held = hold(Tool::FluxKustomize, &object, Some(json!({"spec": {}})));
            assert!(matches!(held, Hold::Held(_)), "{key}: {value}: {held:?}");
            // Helm's controller knows none of them.
            let helm = hold(Tool::FluxHelm, &object, Some(json!({"spec": {}})));
            assert!(matches!(helm, Hold::Free(_)), "{helm:?}");
        }
    }
}

#[test]
fn what_counts_only_in_the_source_of_flux_shows_nothing_on_the_object() {
    for (key, value) in [
        (format!("{KUSTOMIZE}/ssa"), "IfNotPresent"),
        (format!("{KUSTOMIZE}/reconcile"), "enabled"),
        (format!("{KUSTOMIZE}/prune"), "disabled"),
        ("helm.toolkit.fluxcd.io/driftDetection".to_owned(), "disabled"),
    ] {
        let object = template(json!({}), json!({key: value}), &[]);
        for tool in [Tool::FluxKustomize, Tool::FluxHelm] {
            let free = hold(tool, &object, Some(json!({"spec": {}})));
            assert!(matches!(free, Hold::Free(_)), "{value}: {free:?}");
        }
    }
}

#[test]
fn what_is_suspended_changes_nothing() {
    let object = template(json!({}), json!({}), &[]);
    for tool in [Tool::FluxKustomize, Tool::FluxHelm] {
        let suspended = |suspend: Value| hold(tool, &object, Some(json!({"spec": {"suspend": suspend}})));
        assert!(matches!(suspended(json!(true)), Hold::Held(_)));
        assert!(matches!(suspended(json!(false)), Hold::Free(_)));
        assert!(matches!(suspended(Value::Null), Hold::Free(_)));
    }
}

#[test]
fn what_cannot_be_seen_here_is_neither_held_nor_free() {
    let object = template(json!({}), json!({}), &[]);
    for tool in [Tool::ArgoCd, Tool::FluxKustomize, Tool::FluxHelm] {
        assert!(matches!(hold(tool, &object, None), Hold::Unknown(_)));
        let unread = other_managers(tool, Seen::unknown("a timeout")).hold(&object);
        assert_eq!(unread, Hold::Unknown("a timeout".to_owned()));
    }
}

fn argo(application: Value) -> Hold {
    hold(
        Tool::ArgoCd,
        &template(json!({}), json!({}), &[]),
        Some(application),
    )
}

fn automated(more: Value) -> Value {
    let mut application = json!({"metadata": {}, "spec": {"syncPolicy": {"automated": {"selfHeal": true}}}});
    for (key, value) in more.as_object().unwrap() {
        application[key] = value.clone();
    }
    application
}

#[test]
fn an_application_that_is_skipped_changes_nothing_unless_it_is_in_the_middle_of_it() {
    let skipped = |value: &str| json!({"annotations": {"argocd.argoproj.io/skip-reconcile": value}});
    for yes in ["true", "True", "1", "t"] {
        assert!(matches!(
            argo(automated(json!({"metadata": skipped(yes)}))),
            Hold::Held(_)
        ));
    }
    for no in ["false", "yes", "tRUE", ""] {
        assert!(matches!(
            argo(automated(json!({"metadata": skipped(no)}))),
            Hold::Free(_)
        ));
    }
    let running = json!({"operationState": {"phase": "Running"}});
    for more in [
        json!({"metadata": skipped("true"), "operation": {"sync": {}}}),
        json!({"metadata": skipped("true"), "status": running}),
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    ] {
        assert!(matches!(argo(automated(more)), Hold::Free(_)));
    }
}

#[test]
fn an_application_without_automated_sync_waits_for_a_person() {
    let policy = |policy: Value| argo(json!({"spec": {"syncPolicy": policy}}));
    assert!(matches!(argo(json!({"spec": {}})), Hold::Held(_)));
    assert!(matches!(policy(json!({"automated": null})), Hold::Held(_)));
    assert!(matches!(
        policy(json!({"automated": {"enabled": false, "selfHeal": true}})),
        Hold::Held(_)
    ));
    // Without selfHeal a new commit is still applied.
    assert!(matches!(policy(json!({"automated": {}})), Hold::Free(_)));
}

#[test]
fn differences_that_are_ignored_hold_only_where_a_sync_respects_it_and_all_of_spec_is_meant() {
    let with = |ignored: Value, options: Value| {
        argo(json!({"spec": {
            "syncPolicy": {"automated": {}, "syncOptions": options}, "ignoreDifferences": [ignored],
        }}))
    };
    let respects = || json!(["CreateNamespace=true", "RespectIgnoreDifferences=true"]);
    let all = || json!({"group": "apps", "kind": "Deployment", "jsonPointers": ["/spec"]});
    assert!(matches!(with(all(), respects()), Hold::Held(_)));
    assert!(matches!(with(all(), json!([])), Hold::Free(_)));
    for change in [
        json!({"jsonPointers": ["/spec/replicas"]}),
        json!({"jsonPointers": null, "jqPathExpressions": [".spec"]}),
        json!({"kind": "StatefulSet"}),
        json!({"group": ""}),
        json!({"group": "*"}),
        json!({"name": "other"}),
        json!({"namespace": "other"}),
    ] {
        let mut ignored = all();
        ignored
            .as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        let free = with(ignored, respects());
        assert!(matches!(free, Hold::Free(_)), "{change}: {free:?}");
    }
    let mut named = all();
    named["name"] = json!("web");
    named["namespace"] = json!("shop");
    assert!(matches!(with(named, respects()), Hold::Held(_)));
}

#[test]
fn of_several_the_one_that_is_held_least_has_the_last_word() {
    let object = template(
        json!({}),
        json!({format!("{KUSTOMIZE}/reconcile"): "disabled"}),
        &[],
    );
    let held = other_managers(Tool::FluxKustomize, seen(None));
    let free = other_managers(Tool::ArgoCd, seen(Some(automated(json!({})))));
    let unknown = other_managers(Tool::FluxHelm, seen(None));
    let reason =
        |besides: &[OtherManager]| account(&object, besides).map(|account| (account.reason, account.held));
    assert_eq!(reason(&[]), None);
    assert_eq!(reason(std::slice::from_ref(&held)), Some(("Held", true)));
    assert_eq!(
        reason(&[held.clone(), unknown.clone()]),
        Some(("NotKnown", false))
    );
    assert_eq!(reason(&[free, held, unknown]), Some(("NotHeld", false)));
}

#[test]
fn what_is_said_names_who_applies_it_and_what_keeps_it_or_not() {
    let object = template(json!({}), json!({}), &[]);
    let mut suspended = other_managers(
        Tool::FluxKustomize,
        seen(Some(json!({"spec": {"suspend": true}}))),
    );
    suspended.applier.owner = Some(owner(Tool::FluxKustomize, "flux-system", "apps"));
    let said = account(&object, &[suspended]).unwrap();
    assert_eq!(
        said.message,
        "Flux (Kustomization flux-system/apps) applies the template, and is kept from changing it: its Kustomization is suspended"
    );
    assert_eq!(said.hint, None);
    let said = account(&object, &[other_managers(Tool::FluxKustomize, seen(None))]).unwrap();
    assert_eq!(
        said.message,
        "Flux applies the template, and nothing shows that it is kept from changing it: this API server has no such \
         Kustomization"
    );
    assert!(said.hint.is_some());
}
