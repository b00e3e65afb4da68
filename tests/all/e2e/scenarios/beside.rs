//! Beside Argo CD and Flux: what they would write is written here in their names, and the objects that tell them to are held to
//! small definitions of their kinds. Neither of them runs.

use cutover::api::Phase;
use cutover::sandbox::ledger::Origin;
use serde_json::{Value, json};

use super::IMAGE;
use super::migration::{approve, captured, change, ends, migrate_up_to, moves};
use crate::beside::crds;
use crate::e2e::act::Act;
use crate::e2e::server::{APPLICATIONS, KUSTOMIZATIONS};

const FLUX: &str = "kustomize-controller";
const ARGO: &str = "argocd-controller";
const LATER: &str = "registry.k8s.io/pause:3.10";

pub async fn flux_changes_the_template_until_its_kustomization_is_suspended(act: Act) {
    act.place().define(crds::kustomization()).await;
    say(&act, false).await;
    let [here, there] = act.given(flux(&act, IMAGE), FLUX).await;
    let gate = migrate_up_to(&act, Phase::Handoff, &there).await;
    let (held, said) = held_back(&act.status().await);
    assert_eq!(held, "False", "{said}");
    assert!(
        said.starts_with(&format!("Flux (Kustomization {}/beside)", act.namespace())),
        "{said}"
    );
    // The source has stopped: the upgrade in it can't come to its end, nor is it proved stopped any more.
    act.apply_as(FLUX, flux(&act, LATER)).await;
    act.until("the change is told", async |act| {
        let status = act.status().await;
        let mut findings = status["findings"].as_array().into_iter().flatten();
        findings.any(|finding| {
            let message = finding["message"].as_str().unwrap_or_default();
            message.starts_with("kustomize-controller changed the template during")
        })
    })
    .await;
    change(&act, &gate, json!({"abort": true}));
    ends(&act, Phase::Aborted).await;
    act.is_settled_in(&here).await;
    assert_eq!(act.copy(&here).await.unwrap()["spec"]["image"], LATER);

    // Another spec is another attempt.
    say(&act, true).await;
    let otherwise = json!({"verify": {"healthyFor": "2s", "timeout": "60s"}});
    act.ask(&moves(&act, &there, otherwise));
    let status = ends_again(&act, 2).await;
    let (held, said) = held_back(&status);
    assert_eq!(held, "True", "{said}");
    assert!(said.ends_with("its Kustomization is suspended"), "{said}");
    act.is_settled_in(&there).await;
    assert_eq!(
        act.running().restored_from,
        Origin::Handle(captured(&status, &here))
    );
    act.pruned().await;
}

pub async fn argo_cd_is_told_to_skip_what_is_moved(act: Act) {
    act.place().define(crds::application()).await;
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"namespace": act.namespace(), "name": "beside"},
        "spec": {
            "project": "default", "destination": {"name": "karmada", "namespace": act.namespace()},
            "source": {"repoURL": "https://git.example.org/shop.git", "path": "jobs", "targetRevision": "HEAD"},
            "syncPolicy": {"automated": {"prune": true, "selfHeal": true}},
        },
    });
    let control = &act.place().control;
    control
        .create(APPLICATIONS, Some(act.namespace()), application)
        .await;
    let [_, there] = act.given(argo(&act), ARGO).await;
    let gate = migrate_up_to(&act, Phase::Hold, &there).await;
    let (held, said) = held_back(&act.status().await);
    assert_eq!(held, "False", "{said}");
    assert!(said.starts_with("Argo CD (Application "), "{said}");
    // It heals what it finds changed, as often as it looks: the same once more is no news.
    act.apply_as(ARGO, argo(&act)).await;
    approve(&act, &gate);
    let status = ends(&act, Phase::Completed).await;
    let findings = status["findings"].to_string();
    assert!(!findings.contains("TemplateChanged"), "{findings}");
    act.is_settled_in(&there).await;

    let skip = json!({"metadata": {"annotations": {"argocd.argoproj.io/skip-reconcile": "true"}}});
    let patched = control
        .patch(APPLICATIONS, Some(act.namespace()), "beside", skip)
        .await;
    patched.unwrap();
    let [one, other] = act.place().pair();
    let back = if there == one { other } else { one };
    act.ask(&moves(&act, back, json!({})));
    let status = ends_again(&act, 2).await;
    assert_eq!(held_back(&status).0, "True", "{status:#}");
    act.is_settled_in(back).await;
    act.pruned().await;
}

/// Writes the Kustomization that has the template, suspended or not.
async fn say(act: &Act, suspend: bool) {
    let kustomization = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"namespace": act.namespace(), "name": "beside"},
        "spec": {
            "interval": "10m", "prune": true, "path": "./jobs", "suspend": suspend,
            "sourceRef": {"kind": "GitRepository", "name": "jobs"},
        },
    });
    let control = &act.place().control;
    control
        .apply(
            KUSTOMIZATIONS,
            Some(act.namespace()),
            "platform-team",
            kustomization,
        )
        .await;
}

fn flux(act: &Act, image: &str) -> Value {
    let mut template = act.workload(image);
    template["metadata"]["labels"] = json!({
        "kustomize.toolkit.fluxcd.io/name": "beside", "kustomize.toolkit.fluxcd.io/namespace": act.namespace(),
    });
    template
}

fn argo(act: &Act) -> Value {
    let mut template = act.workload(IMAGE);
    let namespace = act.namespace();
    let tracked = format!(
        "{namespace}_beside:flink.apache.org/FlinkDeployment:{namespace}/{}",
        act.name
    );
    template["metadata"]["annotations"] = json!({"argocd.argoproj.io/tracking-id": tracked});
    template
}

/// Whether whoever applies the template was seen held back, and what is said of it.
fn held_back(status: &Value) -> (String, String) {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let condition = conditions.find(|condition| condition["type"] == "OthersHeldBack");
    let text = |field: &str| {
        let text = condition.and_then(|condition| condition[field].as_str());
        text.unwrap_or_default().to_owned()
    };
    (text("status"), text("message"))
}

/// Waits until an attempt has completed.
async fn ends_again(act: &Act, attempt: u32) -> Value {
    act.until(&format!("attempt {attempt} has begun"), async |act| {
        act.status().await["attempt"] == attempt
    })
    .await;
    ends(act, Phase::Completed).await
}
