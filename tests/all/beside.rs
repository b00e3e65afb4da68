//! Beside Argo CD and Flux, which apply the templates in the place of sync. Here they are field managers that write, and the
//! objects that tell them to, held to trimmed definitions of their kinds.

mod canaries;
pub mod crds;

use std::sync::Arc;

use cutover::api::Phase;
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{DeleteOptions, Patch, Resource, WriteOptions};
use serde_json::{Value, json};

use crate::support::fleet::{Controller, Fleet, JOBS, POLICIES, job};
use crds::{APPLICATIONS, HELM_RELEASES, KUSTOMIZATIONS};

const MOVE: &str = "orders-to-west";
const DEPLOYMENTS: Resource = Resource::new("apps", "deployments");
const KUSTOMIZE: &str = "kustomize-controller";

/// A fleet whose template comes from Flux: labels of its Kustomization and its field manager are on it.
struct Stage {
    fleet: Fleet,
    controller: Option<Controller>,
}

impl Stage {
    async fn start() -> Self {
        let stage = Self::unmanaged().await;
        stage.flux(job("orders:1.0"));
        stage
    }

    async fn unmanaged() -> Self {
        let fleet = Fleet::start(WorldOptions::default()).await;
        crds::install(&fleet);
        let controller = Some(fleet.controller(Arc::new(NoFailpoints)));
        Self { fleet, controller }
    }

    /// Applies a template as Flux does.
    fn flux(&self, template: Value) {
        write(&self.fleet, &JOBS, KUSTOMIZE, labelled(template));
    }

    fn template(&self) -> Value {
        let server = self.fleet.world.control_plane();
        (*server.get(&JOBS, Some("shop"), "orders").unwrap()).clone()
    }

    fn annotate(&self, key: &str, value: &str) {
        self.fleet.patch(
            &JOBS,
            "orders",
            json!({"metadata": {"annotations": {key: value}}}),
        );
    }

    fn kustomization(&self, suspend: bool) {
        own(
            &self.fleet,
            &KUSTOMIZATIONS,
            json!({
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
                "metadata": {"namespace": "flux-system", "name": "apps"},
                "spec": {
                    "interval": "10m", "prune": true, "path": "./apps", "suspend": suspend,
                    "sourceRef": {"kind": "GitRepository", "name": "apps"},
                },
            }),
        );
    }

    /// What Preflight has found out of those beside.
    async fn said(&self) -> (String, String, String) {
        self.fleet
            .until("it has begun", |fleet| !held(&fleet.status(MOVE)).is_null())
            .await;
        let condition = held(&self.fleet.status(MOVE));
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        (text("status"), text("reason"), text("message"))
    }
}

fn held(status: &Value) -> Value {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let mut conditions = conditions.into_iter();
    conditions
        .find(|condition| condition["type"] == "OthersHeldBack")
        .unwrap_or_default()
}

fn labelled(mut template: Value) -> Value {
    template["metadata"]["labels"] = json!({
        "kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
    });
    template
}

/// Applies an object in the name of another tool.
fn write(fleet: &Fleet, resource: &Resource, manager: &str, object: Value) {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
    let writer = WriteOptions {
        force: true,
        ..WriteOptions::manager(manager)
    };
    let server = fleet.world.control_plane();
    server
        .patch(
            resource,
            namespace.as_deref(),
            &name,
            None,
            &Patch::Apply(object),
            &writer,
        )
        .unwrap();
}

/// Writes what tells a tool to apply something.
fn own(fleet: &Fleet, resource: &Resource, object: Value) {
    write(fleet, resource, "platform-team", object);
}

fn application(policy: Value, annotations: Value) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"namespace": "argocd", "name": "shop", "annotations": annotations},
        "spec": {
            "project": "default", "destination": {"name": "karmada", "namespace": "shop"},
            "source": {"repoURL": "https://git.example.org/shop.git", "path": "web", "targetRevision": "HEAD"},
            "syncPolicy": policy,
        },
    })
}

fn skipped() -> Value {
    json!({"argocd.argoproj.io/skip-reconcile": "true"})
}

fn self_healing() -> Value {
    json!({"automated": {"prune": true, "selfHeal": true}})
}

/// What came of a move: how it ended, or why a person has to look.
async fn outcome(stage: &Stage) -> String {
    let asks = |fleet: &Fleet| {
        let reason = fleet.status(MOVE)["waitingFor"]["reason"].clone();
        reason
            .as_str()
            .is_some_and(|reason| reason.contains("a person must") || reason.contains("manual intervention"))
    };
    let phase = |fleet: &Fleet| {
        fleet.status(MOVE)["phase"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let ended =
        |fleet: &Fleet| ["Completed", "RolledBack", "Failed", "Aborted"].contains(&phase(fleet).as_str());
    stage
        .fleet
        .until("it ends, or asks", |fleet| ended(fleet) || asks(fleet))
        .await;
    phase(&stage.fleet)
}

/// Before the source is stopped it is an upgrade like any other. Afterwards the stopped source has an upgrade before it that its
/// operator can't finish: it can't be proved stopped any more, and the move goes back.
#[tokio::test(start_paused = true)]
async fn a_template_that_another_tool_changes_in_any_phase_has_one_writer_and_it_is_told() {
    for (phase, ends, cluster) in [
        (Phase::Hold, "Completed", "west"),
        (Phase::Expand, "Completed", "west"),
        (Phase::Capture, "RolledBack", "east"),
        (Phase::Handoff, "RolledBack", "east"),
        (Phase::Verify, "RolledBack", "east"),
    ] {
        let stage = Stage::start().await;
        stage.fleet.migrate(MOVE, "west");
        stage.fleet.phase(MOVE, phase).await;
        stage.flux(job("orders:2.0"));
        assert_eq!(outcome(&stage).await, ends, "changed in {phase}");
        stage.fleet.assert_clean_in(cluster);
        let status = stage.fleet.status(MOVE);
        let findings = status["findings"].as_array().cloned().unwrap_or_default();
        let told = findings
            .iter()
            .find(|finding| finding["code"] == "TemplateChanged");
        let message = told.map(|finding| finding["message"].as_str().unwrap().to_owned());
        let begins = format!("kustomize-controller changed the template during {phase}");
        assert!(
            message.is_some_and(|message| message.starts_with(&begins)),
            "{status:#}"
        );
        assert_eq!(held(&status)["reason"], "Changed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_past_the_commit_point_is_an_ordinary_upgrade_in_the_target() {
    let stage = Stage::start().await;
    stage.fleet.migrate(MOVE, "west");
    stage.fleet.phase(MOVE, Phase::Cleanup).await;
    stage.flux(job("orders:2.0"));
    assert_eq!(stage.fleet.ended(MOVE).await, Phase::Completed);
    stage.fleet.assert_clean_in("west");
    let findings = stage.fleet.status(MOVE)["findings"].to_string();
    assert!(!findings.contains("TemplateChanged"), "{findings}");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_puts_the_same_template_back_over_and_over_is_no_news() {
    let stage = Stage::start().await;
    stage.fleet.migrate(MOVE, "west");
    for phase in [Phase::Hold, Phase::Capture, Phase::Handoff, Phase::Verify] {
        stage.fleet.phase(MOVE, phase).await;
        stage.flux(job("orders:1.0"));
    }
    assert_eq!(stage.fleet.ended(MOVE).await, Phase::Completed);
    stage.fleet.assert_clean_in("west");
    assert!(stage.fleet.status(MOVE)["findings"].is_null());
}

/// An upgrade that is stopped in the middle may never come to its end: then the copy stays held, and a person is asked.
#[tokio::test(start_paused = true)]
async fn a_template_that_is_changed_while_the_target_is_stopped_again_is_left_to_a_person() {
    let stage = Stage::start().await;
    stage.fleet.migrate(MOVE, "west");
    stage.fleet.phase(MOVE, Phase::Verify).await;
    stage
        .fleet
        .migrate_with(MOVE, json!({"to": "west", "abort": true}));
    stage.fleet.phase(MOVE, Phase::RollingBack).await;
    stage.flux(job("orders:2.0"));
    assert_eq!(outcome(&stage).await, "RollingBack");
    assert!(!stage.fleet.runs_in("west") && !stage.fleet.runs_in("east"));
    assert_eq!(stage.fleet.status(MOVE)["findings"][0]["code"], "TemplateChanged");
    stage.fleet.assert_one_writer();
}

#[tokio::test(start_paused = true)]
async fn a_template_that_another_tool_prunes_in_mid_flight_leaves_nothing_behind() {
    for phase in [Phase::Hold, Phase::Capture, Phase::Verify] {
        let stage = Stage::start().await;
        stage.fleet.migrate(MOVE, "west");
        stage.fleet.phase(MOVE, phase).await;
        let server = stage.fleet.world.control_plane();
        server
            .delete(&JOBS, Some("shop"), "orders", &DeleteOptions::default())
            .unwrap();
        // Karmada deletes the binding first: what the move keeps runs on, and is a person's to delete.
        for cluster in ["east", "west"] {
            let asks = format!("a person must delete it in {cluster}");
            let is_told = |fleet: &Fleet| {
                let waiting = &fleet.status(MOVE)["waitingFor"]["reason"];
                fleet.copy(cluster).is_none() || waiting.as_str().is_some_and(|why| why.contains(&asks))
            };
            stage.fleet.until("it says where", is_told).await;
            let member = &stage.fleet.world.member(cluster).api;
            _ = member.delete(&JOBS, Some("shop"), "orders", &DeleteOptions::default());
        }
        assert_eq!(stage.fleet.ended(MOVE).await, Phase::Failed, "pruned in {phase}");
        assert_eq!(stage.fleet.status(MOVE)["findings"][0]["code"], "WorkloadDeleted");
        stage.fleet.assert_one_writer();
        for cluster in ["east", "west", "north"] {
            assert!(stage.fleet.copy(cluster).is_none(), "a copy is left in {cluster}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn that_nothing_holds_the_other_tool_back_is_said_before_anything_is_touched() {
    let stage = Stage::start().await;
    stage.kustomization(false);
    stage.fleet.migrate(MOVE, "west");
    let (status, reason, message) = stage.said().await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "NotHeld"));
    assert!(
        message.starts_with(
            "Flux (Kustomization flux-system/apps) applies the template, and nothing keeps it from changing it: its \
             Kustomization is not suspended (annotate the template with kustomize.toolkit.fluxcd.io/reconcile: disabled"
        ),
        "{message}"
    );
    assert_eq!(stage.fleet.ended(MOVE).await, Phase::Completed);
    stage.fleet.assert_clean_in("west");
}

#[tokio::test(start_paused = true)]
async fn what_holds_flux_back_is_seen_on_the_template_and_on_its_kustomization() {
    let stage = Stage::start().await;
    stage.kustomization(true);
    stage.fleet.migrate(MOVE, "west");
    let (status, reason, message) = stage.said().await;
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Held"), "{message}");
    assert!(message.ends_with("its Kustomization is suspended"), "{message}");

    // The Kustomization may be in another API server: then the template itself has to show it.
    for (key, value) in [("reconcile", "disabled"), ("ssa", "Ignore")] {
        let stage = Stage::start().await;
        stage.annotate(&format!("kustomize.toolkit.fluxcd.io/{key}"), value);
        stage.fleet.migrate(MOVE, "west");
        let (status, _, message) = stage.said().await;
        assert_eq!(status, "True", "{message}");
        assert_eq!(stage.fleet.ended(MOVE).await, Phase::Completed);
        stage.fleet.assert_clean_in("west");
        assert!(stage.fleet.status(MOVE)["findings"].is_null());
    }
}

#[tokio::test(start_paused = true)]
async fn what_holds_it_back_where_nobody_here_can_see_is_not_taken_for_held() {
    let stage = Stage::start().await;
    stage.fleet.migrate(MOVE, "west");
    let (status, reason, message) = stage.said().await;
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("False", "NotKnown"),
        "{message}"
    );
    assert!(
        message.contains("this API server has no such Kustomization"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_helm_release_is_held_by_its_suspension_alone() {
    for (suspend, wanted) in [(true, "True"), (false, "False")] {
        let stage = Stage::unmanaged().await;
        let mut template = job("orders:1.0");
        template["metadata"]["labels"] = json!({
            "helm.toolkit.fluxcd.io/name": "orders", "helm.toolkit.fluxcd.io/namespace": "shop",
        });
        template["metadata"]["annotations"] = json!({"helm.toolkit.fluxcd.io/driftDetection": "disabled"});
        write(&stage.fleet, &JOBS, "helm-controller", template);
        own(
            &stage.fleet,
            &HELM_RELEASES,
            json!({
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
                "metadata": {"namespace": "shop", "name": "orders"},
                "spec": {"interval": "10m", "suspend": suspend, "chartRef": {"kind": "OCIRepository", "name": "orders"}},
            }),
        );
        stage.fleet.migrate(MOVE, "west");
        let (status, _, message) = stage.said().await;
        assert_eq!(status, wanted, "{message}");
        assert!(message.starts_with("Flux (HelmRelease shop/orders)"), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_marks_of_another_tool_nothing_is_said_of_any() {
    let stage = Stage::unmanaged().await;
    stage.fleet.migrate(MOVE, "west");
    assert_eq!(stage.fleet.ended(MOVE).await, Phase::Completed);
    assert!(held(&stage.fleet.status(MOVE)).is_null());
    let traffic = stage.fleet.world.traffic();
    for kind in ["applications", "kustomizations", "helmreleases"] {
        assert_eq!(
            traffic.count(|asked| asked.resource == kind),
            0,
            "{kind} were asked for"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn patches_of_an_intent_are_refused_for_a_template_that_another_tool_applies() {
    let stage = Stage::start().await;
    // Not even while it is held: it would undo them afterwards.
    stage.kustomization(true);
    let patch = json!([{"op": "add", "path": "/spec/image", "value": "orders:2.0"}]);
    stage
        .fleet
        .migrate_with(MOVE, json!({"to": "west", "changes": {"patches": patch}}));
    assert_eq!(stage.fleet.ended(MOVE).await, Phase::Failed);
    let status = stage.fleet.status(MOVE);
    assert_eq!(status["findings"][0]["code"], "AppliedByAnother", "{status:#}");
    stage.fleet.assert_clean_in("east");
}

#[tokio::test(start_paused = true)]
async fn a_change_in_git_goes_along_only_when_nobody_would_put_the_old_template_back() {
    let stage = Stage::unmanaged().await;
    // Its labels are Flux's, its spec is what sync applied.
    write(
        &stage.fleet,
        &JOBS,
        KUSTOMIZE,
        labelled(json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
            "metadata": {"name": "orders", "namespace": "shop"},
        })),
    );
    stage.fleet.want(job("orders:2.0"));
    stage.fleet.migrate(MOVE, "west");
    stage
        .fleet
        .until("it waits", |fleet| {
            let reason = fleet.status(MOVE)["waitingFor"]["reason"].clone();
            reason
                .as_str()
                .is_some_and(|reason| reason.starts_with("the template change in Git would be undone"))
        })
        .await;
    assert_eq!(stage.fleet.status(MOVE)["phase"], "Preflight");
    stage.annotate("kustomize.toolkit.fluxcd.io/reconcile", "disabled");
    assert_eq!(stage.fleet.ended(MOVE).await, Phase::Completed);
    stage.fleet.assert_clean_in("west");
    assert_eq!(stage.template()["spec"]["image"], "orders:2.0");
}

#[tokio::test(start_paused = true)]
async fn a_change_in_git_of_fields_that_another_tool_owns_is_not_taken_along() {
    let stage = Stage::start().await;
    stage.fleet.want(job("orders:2.0"));
    stage.fleet.migrate(MOVE, "west");
    stage
        .fleet
        .until("it waits", |fleet| {
            let reason = fleet.status(MOVE)["waitingFor"]["reason"].clone();
            reason
                .as_str()
                .is_some_and(|reason| reason.contains("(kustomize-controller)"))
        })
        .await;
    assert_eq!(stage.fleet.status(MOVE)["phase"], "Preflight");
    stage.fleet.assert_clean_in("east");
}

/// A Deployment `web` that sync has applied once and Argo CD tracks since.
async fn web_of_argo(placement: Value) -> Stage {
    let stage = Stage::unmanaged().await;
    stage.fleet.apply(
        &POLICIES,
        json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}],
                "placement": placement,
            },
        }),
    );
    let mut plain = web("web:1");
    let tracked = plain["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("annotations")
        .unwrap();
    stage.fleet.apply(&DEPLOYMENTS, plain);
    let marks = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "annotations": tracked},
    });
    write(&stage.fleet, &DEPLOYMENTS, "argocd-controller", marks);
    stage
}

fn web(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "shop",
            "annotations": {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:shop/web"},
        },
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
        },
    })
}

fn image_in(fleet: &Fleet, cluster: &str) -> String {
    let copy = fleet
        .world
        .member(cluster)
        .api
        .get(&DEPLOYMENTS, Some("shop"), "web");
    let copy = copy.map(|copy| (*copy).clone()).unwrap_or_default();
    let image = copy.pointer("/spec/template/spec/containers/0/image").cloned();
    let ready = copy["status"]["availableReplicas"] == copy["spec"]["replicas"];
    image
        .filter(|_| ready)
        .unwrap_or_default()
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

const ROLLOUTS: Resource = Resource::new("cutover.dev", "rollouts");

fn roll_web(fleet: &Fleet, progress: Value) {
    fleet.apply(
        &ROLLOUTS,
        json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Rollout",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "order": ["east", "west"], "progress": progress,
            },
        }),
    );
}

fn rollout(fleet: &Fleet) -> Value {
    let rollout = fleet.world.control_plane().get(&ROLLOUTS, Some("shop"), "web");
    rollout
        .map(|rollout| rollout["status"].clone())
        .unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_rollout_begins_only_when_nobody_else_brings_a_version_everywhere_at_once() {
    let stage = web_of_argo(json!({"clusterAffinity": {"clusterNames": ["east", "west"]}})).await;
    let fleet = &stage.fleet;
    own(fleet, &APPLICATIONS, application(self_healing(), json!({})));
    fleet
        .until("web runs in both", |fleet| {
            ["east", "west"]
                .iter()
                .all(|cluster| image_in(fleet, cluster) == "web:1")
        })
        .await;
    roll_web(fleet, json!({"timeout": "60s", "healthyFor": "2s"}));
    // Git doesn't have the template yet: who has it is said.
    fleet
        .until("it says who applies it", |fleet| {
            rollout(fleet)["findings"][0]["code"] == "AppliedByAnother"
        })
        .await;
    let mut second = web("web:2");
    second["metadata"].as_object_mut().unwrap().remove("annotations");
    fleet.want(second);
    fleet
        .until("it waits", |fleet| {
            let reason = rollout(fleet)["waitingFor"]["reason"].clone();
            reason
                .as_str()
                .is_some_and(|reason| reason.contains("its Application is synced automatically"))
        })
        .await;
    assert_eq!(image_in(fleet, "east"), "web:1");
    own(fleet, &APPLICATIONS, application(self_healing(), skipped()));
    fleet
        .until("web:2 is in both", |fleet| {
            ["east", "west"]
                .iter()
                .all(|cluster| image_in(fleet, cluster) == "web:2")
        })
        .await;
    fleet
        .until("it rests", |fleet| {
            let status = rollout(fleet);
            status["phase"] == "Completed" && status["findings"].is_null()
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_suspension_stands_when_flux_applies_the_policy_without_it() {
    const SUSPENSIONS: Resource = Resource::new("cutover.dev", "suspensions");
    let stage = Stage::unmanaged().await;
    let fleet = &stage.fleet;
    let policy = || {
        let mut policy = labelled(crate::support::fleet::policy());
        policy["metadata"]["annotations"] = json!({"team": "shop"});
        policy
    };
    write(fleet, &POLICIES, KUSTOMIZE, policy());
    fleet.apply(
        &SUSPENSIONS,
        json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Suspension",
            "metadata": {"name": "wait", "namespace": "shop"},
            "spec": {
                "target": {"policy": {"kind": "PropagationPolicy", "name": "orders"}}, "clusters": ["east"],
                "reason": "maintenance",
            },
        }),
    );
    let suspended = |fleet: &Fleet| {
        let policy = fleet
            .world
            .control_plane()
            .get(&POLICIES, Some("shop"), "orders")
            .unwrap();
        policy["spec"]["suspension"]["dispatchingOnClusters"]["clusterNames"] == json!(["east"])
    };
    fleet.until("it is suspended", suspended).await;
    for label in ["one", "two"] {
        let mut again = policy();
        again["metadata"]["annotations"]["team"] = json!(label);
        write(fleet, &POLICIES, KUSTOMIZE, again);
        assert!(
            suspended(fleet),
            "Flux has no say in a field that its source doesn't have"
        );
    }
    stage.flux(job("orders:2.0"));
    fleet
        .until("the suspension stands", |fleet| {
            let status = fleet
                .world
                .control_plane()
                .get(&SUSPENSIONS, Some("shop"), "wait")
                .unwrap();
            status["status"]["phase"] == "Suspended"
        })
        .await;
    assert_eq!(fleet.copy("east").unwrap()["spec"]["image"], "orders:1.0");
}

#[tokio::test(start_paused = true)]
async fn who_comes_back_after_a_crash_knows_the_template_as_it_was() {
    let mut stage = Stage::start().await;
    stage.fleet.migrate(MOVE, "west");
    stage.fleet.phase(MOVE, Phase::Capture).await;
    stage.controller.take().unwrap().kill().await;
    stage.flux(job("orders:2.0"));
    stage.controller = Some(stage.fleet.controller(Arc::new(NoFailpoints)));
    // Whether the source had stopped by then decides how it ends.
    match outcome(&stage).await.as_str() {
        "RolledBack" => stage.fleet.assert_clean_in("east"),
        "Completed" => stage.fleet.assert_clean_in("west"),
        other => panic!("{other}"),
    }
    let findings = stage.fleet.status(MOVE)["findings"].clone();
    assert_eq!(findings[0]["code"], "TemplateChanged", "{findings:#}");
}
