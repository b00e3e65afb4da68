//! Rollouts on the sandbox. The judge is what each member has had, and when: no cluster ever gets a version before its release.

mod replaced;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{DeleteOptions, ListOptions, Patch, Resource, WriteOptions};
use cutover::sandbox::karmada::kinds::CLUSTERS;
use futures::StreamExt;
use serde_json::{Value, json};

use crate::support::fleet::{CLAIMS, Controller, Fleet, PINS, POLICIES};
use crate::support::killed::at_any_line_of;

pub const ROLLOUTS: Resource = Resource::new("cutover.dev", "rollouts");
const DEPLOYMENTS: Resource = Resource::new("apps", "deployments");
const ALL: [&str; 3] = ["east", "north", "west"];

/// A Deployment that runs in some clusters, and who looks on.
struct Stage {
    fleet: Fleet,
    controller: Option<Controller>,
    oracle: Oracle,
}

impl Stage {
    async fn start(clusters: &[&str]) -> Self {
        Self::start_with(clusters, json!({})).await
    }

    async fn start_with(clusters: &[&str], spec: Value) -> Self {
        Self::start_from(clusters, spec, web("web:1")).await
    }

    async fn start_from(clusters: &[&str], spec: Value, template: Value) -> Self {
        let fleet = Fleet::start(WorldOptions::default()).await;
        fleet.apply(&POLICIES, policy(clusters, "Duplicated"));
        fleet.apply(&DEPLOYMENTS, template.clone());
        fleet.want(template);
        let stage = Self {
            controller: Some(fleet.controller(Arc::new(NoFailpoints))),
            oracle: Oracle::watch(&fleet, &DEPLOYMENTS, "web"),
            fleet,
        };
        stage.everywhere(clusters, "web:1").await;
        stage.roll_by(spec);
        stage.is("Completed").await;
        stage
    }

    /// Writes the intent.
    fn roll_by(&self, more: Value) {
        let mut spec = json!({
            "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "progress": {"timeout": "60s", "healthyFor": "2s"},
        });
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let rollout = json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Rollout",
            "metadata": {"name": "web", "namespace": "shop"}, "spec": spec,
        });
        self.fleet.apply(&ROLLOUTS, rollout);
    }

    fn push(&self, image: &str) {
        self.fleet.want(web(image));
    }

    fn status(&self) -> Value {
        status(&self.fleet)
    }

    async fn is(&self, phase: &str) {
        self.fleet
            .until(&format!("the rollout is {phase}"), |_| {
                self.status()["phase"] == phase
            })
            .await;
    }

    /// The rollout has come to rest with this image everywhere it runs, and nothing of it is left.
    async fn rests(&self, phase: &str, clusters: &[&str], image: &str) {
        let rests = || {
            let status = self.status();
            status["phase"] == phase
                && status["journal"].is_null()
                && status["waitingFor"].is_null()
                && clusters.iter().all(|cluster| self.image(cluster) == image)
        };
        self.fleet
            .until(&format!("{phase} with {image}"), |_| {
                let rests = rests();
                assert!(rests || !self.oracle.has_leaked(), "{}", self.oracle.story());
                rests
            })
            .await;
        assert_eq!(self.template_image(), image);
        assert_eq!(self.fleet.count(&PINS), 0, "a pin is left");
        assert_eq!(self.fleet.count(&CLAIMS), 0, "a claim is left");
        self.oracle.assert_tight();
    }

    async fn everywhere(&self, clusters: &[&str], image: &str) {
        self.fleet
            .until(&format!("{image} is in {clusters:?}"), |_| {
                clusters.iter().all(|cluster| self.is_ready(cluster, image))
            })
            .await;
    }

    async fn gets(&self, cluster: &str, image: &str) {
        self.fleet
            .until(&format!("{cluster} gets {image}"), |_| {
                self.image(cluster) == image
            })
            .await;
    }

    fn copy(&self, cluster: &str) -> Value {
        let copy = self
            .fleet
            .world
            .member(cluster)
            .api
            .get(&DEPLOYMENTS, Some("shop"), "web");
        copy.map(|copy| (*copy).clone()).unwrap_or_default()
    }

    fn image(&self, cluster: &str) -> String {
        image_of(&self.copy(cluster))
    }

    fn is_ready(&self, cluster: &str, image: &str) -> bool {
        let copy = self.copy(cluster);
        image_of(&copy) == image && copy["status"]["availableReplicas"] == copy["spec"]["replicas"]
    }

    fn template_image(&self) -> String {
        let template = self
            .fleet
            .world
            .control_plane()
            .get(&DEPLOYMENTS, Some("shop"), "web");
        image_of(&template.unwrap())
    }

    /// Returns the order in which clusters first got an image.
    fn order_of(&self, image: &str) -> Vec<String> {
        let seen = self.oracle.seen.lock().unwrap();
        seen.iter()
            .filter(|(_, had)| had == image)
            .map(|(cluster, _)| cluster.clone())
            .collect()
    }
}

fn status(fleet: &Fleet) -> Value {
    status_of(fleet, "web")
}

pub fn status_of(fleet: &Fleet, name: &str) -> Value {
    let rollout = fleet.world.control_plane().get(&ROLLOUTS, Some("shop"), name);
    rollout
        .map(|rollout| rollout["status"].clone())
        .unwrap_or_default()
}

fn image_of(object: &Value) -> String {
    let image = object.pointer("/spec/template/spec/containers/0/image");
    let image = image.or_else(|| object.pointer("/spec/image"));
    image.and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn policy(clusters: &[&str], scheduling: &str) -> Value {
    let mut replicas = json!({"replicaSchedulingType": scheduling});
    if scheduling == "Divided" {
        replicas["replicaDivisionPreference"] = json!("Weighted");
    }
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}],
            "placement": {"clusterAffinity": {"clusterNames": clusters}, "replicaScheduling": replicas},
        },
    })
}

fn web(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
        },
    })
}

/// Hears of every version of the copy in every member, and asks the journal each time whether that cluster may have it.
pub struct Oracle {
    seen: Arc<Mutex<Vec<(String, String)>>>,
    leaks: Arc<Mutex<Vec<String>>>,
    watching: Vec<tokio::task::JoinHandle<()>>,
}

impl Oracle {
    /// The rollout has the name of its workload.
    pub fn watch(fleet: &Fleet, resource: &Resource, name: &'static str) -> Self {
        let (seen, leaks): (Arc<Mutex<Vec<_>>>, Arc<Mutex<Vec<_>>>) = Default::default();
        let watching = ALL.map(|cluster| {
            let (seen, leaks) = (Arc::clone(&seen), Arc::clone(&leaks));
            let control = fleet.world.control_plane().clone();
            let member = fleet.world.member(cluster).api.clone();
            let resource = resource.clone();
            tokio::spawn(async move {
                let mut had = None;
                let mut watch = member
                    .watch(&resource, Some("shop"), None, &ListOptions::default())
                    .unwrap();
                while let Some(event) = watch.next().await {
                    let object = &event.object;
                    let image = image_of(object);
                    if object["metadata"]["name"] != name || had.as_ref() == Some(&image) {
                        continue;
                    }
                    let rollout = control.get(&ROLLOUTS, Some("shop"), name);
                    let status = rollout
                        .map(|rollout| rollout["status"].clone())
                        .unwrap_or_default();
                    if !allowed(&status, cluster).is_none_or(|allowed| allowed.contains(&image)) {
                        let journal = &status["journal"];
                        leaks.lock().unwrap().push(format!(
                            "{cluster} got {image} in phase {}: released {}, left {}",
                            status["phase"], journal["released"], journal["left"]
                        ));
                    }
                    seen.lock().unwrap().push((cluster.to_owned(), image.clone()));
                    had = Some(image);
                }
            })
        });
        Self {
            seen,
            leaks,
            watching: watching.into(),
        }
    }

    fn has_leaked(&self) -> bool {
        !self.leaks.lock().unwrap().is_empty()
    }

    fn story(&self) -> String {
        format!(
            "leaks: {:#?}\nall: {:#?}",
            self.leaks.lock().unwrap(),
            self.seen.lock().unwrap()
        )
    }

    /// Returns which cluster had which image, one after the other.
    pub fn all(&self) -> Vec<(String, String)> {
        self.seen.lock().unwrap().clone()
    }

    pub fn assert_tight(&self) {
        assert!(!self.has_leaked(), "{}", self.story());
        assert!(
            self.watching.iter().all(|task| !task.is_finished()),
            "nobody looks on any more"
        );
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        self.watching.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// Returns the images that a cluster may change to; `None` as long as no rollout is in force.
fn allowed(status: &Value, cluster: &str) -> Option<Vec<String>> {
    let of = |name: &Value| {
        let mut revisions = status["revisions"].as_array().into_iter().flatten();
        let revision = revisions.find(|revision| revision["name"] == *name)?;
        Some(image_of(&revision["content"]))
    };
    let journal = &status["journal"];
    if journal.is_null() {
        return Some(vec![of(&status["stable"])?]);
    }
    let mut allowed = Vec::new();
    if !journal["released"][cluster].is_null() {
        allowed.extend(of(&journal["target"]));
    } else if let Some(left) = journal["left"].get(cluster) {
        allowed.extend(of(left));
    } else {
        allowed.extend(of(&journal["stable"]));
    }
    Some(allowed)
}

#[tokio::test(start_paused = true)]
async fn a_change_goes_cluster_by_cluster_in_the_order_that_is_given() {
    let stage = Stage::start_with(&ALL, json!({"order": ["west", "east"]})).await;
    stage.push("web:2");
    stage.rests("Completed", &ALL, "web:2").await;
    assert_eq!(stage.order_of("web:2"), ["west", "east", "north"]);
    let status = stage.status();
    assert_eq!(status["revisions"].as_array().unwrap().len(), 2, "{status:#}");
    assert!(status["revisions"][0]["completedAt"].is_string());
}

#[tokio::test(start_paused = true)]
async fn without_an_order_clusters_go_by_their_annotation_and_then_by_name() {
    let stage = Stage::start(&ALL).await;
    let annotation = json!({"metadata": {"annotations": {"cutover.dev/rollout-wave": "1"}}});
    let writer = WriteOptions::manager("somebody");
    let server = stage.fleet.world.control_plane();
    server
        .patch(&CLUSTERS, None, "north", None, &Patch::Merge(annotation), &writer)
        .unwrap();
    stage.push("web:2");
    stage.rests("Completed", &ALL, "web:2").await;
    assert_eq!(stage.order_of("web:2"), ["north", "east", "west"]);
}

#[tokio::test(start_paused = true)]
async fn a_wave_goes_together_as_far_as_clusters_may_be_unavailable() {
    let waves = json!({
        "waves": [{"clusters": ["east"], "soak": "5m"}, {"clusters": ["north", "west"]}], "maxUnavailableClusters": 2,
    });
    let stage = Stage::start_with(&ALL, waves).await;
    let begun = tokio::time::Instant::now();
    stage.push("web:2");
    stage.gets("east", "web:2").await;
    stage.gets("west", "web:2").await;
    assert!(
        begun.elapsed() >= Duration::from_mins(5),
        "the first wave soaks: {:?}",
        begun.elapsed()
    );
    stage.rests("Completed", &ALL, "web:2").await;
}

#[tokio::test(start_paused = true)]
async fn a_wave_that_fails_halts_the_rest_until_a_better_template_comes() {
    let stage = Stage::start(&ALL).await;
    stage.push("web:broken");
    stage.is("Halted").await;
    assert_eq!(stage.image("east"), "web:broken");
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(
        (stage.image("north"), stage.image("west")),
        ("web:1".into(), "web:1".into())
    );
    assert_eq!(
        stage.status()["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["type"] == "Halted" && one["status"] == "True")
            .count(),
        1
    );
    stage.push("web:3");
    stage.rests("Completed", &ALL, "web:3").await;
    assert_eq!(stage.order_of("web:3"), ["east", "north", "west"]);
}

#[tokio::test(start_paused = true)]
async fn a_wave_that_fails_is_undone_where_that_is_asked_for_and_git_is_not_followed_until_it_changes() {
    let stage = Stage::start_with(&ALL, json!({"onFailure": "Undo"})).await;
    stage.push("web:broken");
    stage.rests("Undone", &ALL, "web:1").await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    stage.rests("Undone", &ALL, "web:1").await;
    assert_eq!(stage.order_of("web:broken"), ["east"]);
    stage.push("web:2");
    stage.rests("Completed", &ALL, "web:2").await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_goes_back_in_the_middle_takes_everything_back_at_once() {
    let stage = Stage::start(&ALL).await;
    stage.push("web:broken");
    stage.is("Halted").await;
    stage.push("web:1");
    stage.rests("Completed", &ALL, "web:1").await;
    assert!(stage.status()["heldBack"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_halted_rollout_tries_again_when_it_is_told_to() {
    let stage = Stage::start(&ALL).await;
    stage.fleet.world.faults().partition("east");
    stage.push("web:2");
    stage.is("Halted").await;
    stage.fleet.world.faults().heal("east");
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(stage.status()["phase"], "Halted");
    stage.roll_by(json!({"retry": 1}));
    stage.rests("Completed", &ALL, "web:2").await;
}

#[tokio::test(start_paused = true)]
async fn a_newer_template_begins_with_the_first_wave_again() {
    let stage = Stage::start_with(&ALL, json!({"progress": {"timeout": "60s", "healthyFor": "30s"}})).await;
    stage.push("web:2");
    stage.gets("north", "web:2").await;
    stage.push("web:3");
    stage.rests("Completed", &ALL, "web:3").await;
    assert_eq!(stage.order_of("web:3"), ["east", "north", "west"]);
    assert_eq!(stage.order_of("web:2"), ["east", "north"]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_joins_in_the_middle_gets_what_was_before_and_then_has_its_turn() {
    let stage = Stage::start_with(
        &["east", "west"],
        json!({"progress": {"timeout": "60s", "healthyFor": "30s"}}),
    )
    .await;
    stage.push("web:2");
    stage.gets("east", "web:2").await;
    stage.fleet.apply(&POLICIES, policy(&ALL, "Duplicated"));
    stage.gets("north", "web:1").await;
    stage.rests("Completed", &ALL, "web:2").await;
    assert_eq!(stage.order_of("web:1").len(), 3);
    assert_eq!(stage.order_of("web:2"), ["east", "north", "west"]);
}

#[tokio::test(start_paused = true)]
async fn replicas_that_are_divided_stay_divided_while_a_version_is_held() {
    let stage = Stage::start_with(
        &["east", "west"],
        json!({"progress": {"timeout": "60s", "healthyFor": "30s"}}),
    )
    .await;
    stage.fleet.apply(&POLICIES, policy(&["east", "west"], "Divided"));
    let replicas = |cluster: &str| {
        stage.copy(cluster)["spec"]["replicas"]
            .as_i64()
            .unwrap_or_default()
    };
    let divided = |total: i64| replicas("east") + replicas("west") == total;
    stage.fleet.until("replicas are divided", |_| divided(3)).await;
    let mut more = web("web:2");
    more["spec"]["replicas"] = json!(6);
    stage.fleet.want(more);
    stage.gets("east", "web:2").await;
    stage.fleet.until("scaled while it is held", |_| divided(6)).await;
    assert_eq!(stage.image("west"), "web:1");
    stage.rests("Completed", &["east", "west"], "web:2").await;
    assert!(divided(6));
}

#[tokio::test(start_paused = true)]
async fn any_revision_can_be_gone_back_to_also_in_clusters_that_came_since() {
    let stage = Stage::start(&["east", "west"]).await;
    let first = stage.status()["stable"].as_str().unwrap().to_owned();
    for image in ["web:2", "web:3"] {
        stage.push(image);
        stage.rests("Completed", &["east", "west"], image).await;
    }
    stage.fleet.apply(&POLICIES, policy(&ALL, "Duplicated"));
    stage.everywhere(&ALL, "web:3").await;
    stage.roll_by(json!({"undoTo": first}));
    stage.rests("Completed", &ALL, "web:1").await;
    // What Git has is not followed as long as that stands.
    stage.push("web:4");
    tokio::time::sleep(Duration::from_mins(5)).await;
    stage.rests("Completed", &ALL, "web:1").await;
    stage.roll_by(json!({}));
    stage.rests("Completed", &ALL, "web:4").await;
}

#[tokio::test(start_paused = true)]
async fn paused_it_releases_nobody_and_aborted_it_goes_back() {
    let stage = Stage::start_with(&ALL, json!({"progress": {"timeout": "60s", "healthyFor": "30s"}})).await;
    stage.push("web:2");
    stage.gets("east", "web:2").await;
    stage.roll_by(json!({"paused": true}));
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(
        (stage.image("north"), stage.image("west")),
        ("web:1".into(), "web:1".into())
    );
    assert_eq!(
        stage.status()["waitingFor"]["code"],
        "Pause",
        "{:#}",
        stage.status()
    );
    stage.roll_by(json!({"abort": true}));
    stage.rests("Undone", &ALL, "web:1").await;
    stage.roll_by(json!({}));
    tokio::time::sleep(Duration::from_mins(1)).await;
    stage.rests("Undone", &ALL, "web:1").await;
}

#[tokio::test(start_paused = true)]
async fn a_gated_wave_waits_for_its_approval_in_this_attempt() {
    let gate = json!({"beforeWaves": [2]});
    let stage = Stage::start_with(&ALL, json!({"approval": gate})).await;
    stage.push("web:2");
    stage
        .fleet
        .until("it waits for approval", |_| {
            stage.status()["waitingFor"]["code"] == "Approval"
        })
        .await;
    let attempt = stage.status()["attempt"].as_i64().unwrap();
    stage.roll_by(json!({"approval": gate, "approvals": [{"wave": 2, "attempt": attempt + 1}]}));
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(stage.image("north"), "web:1");
    stage.roll_by(json!({"approval": gate, "approvals": [{"wave": 2, "attempt": attempt}]}));
    stage.rests("Completed", &ALL, "web:2").await;
}

#[tokio::test(start_paused = true)]
async fn a_pin_that_somebody_edits_or_takes_away_is_put_back_and_nothing_goes_on_without_it() {
    let stage = Stage::start_with(&ALL, json!({"progress": {"timeout": "60s", "healthyFor": "30s"}})).await;
    stage.push("web:2");
    stage.gets("east", "web:2").await;
    let pins = stage
        .fleet
        .world
        .control_plane()
        .list(&PINS, Some("shop"), &ListOptions::default())
        .unwrap();
    let name = pins.items[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let annotated = json!({"metadata": {"labels": {"resourcetemplate.karmada.io/deletion-protected": null}}});
    stage.fleet.patch(&PINS, &name, annotated);
    stage.rests("Completed", &ALL, "web:2").await;
}

#[tokio::test(start_paused = true)]
async fn members_go_on_and_one_that_was_away_meets_the_held_version_whatever_was_edited_there() {
    let stage = Stage::start_with(&ALL, json!({"progress": {"timeout": "10m", "healthyFor": "30s"}})).await;
    stage.fleet.world.faults().partition("north");
    stage.push("web:2");
    stage.gets("east", "web:2").await;
    let edited = json!({"spec": {"replicas": 5}});
    let writer = WriteOptions::manager("somebody");
    let member = &stage.fleet.world.member("north").api;
    member
        .patch(
            &DEPLOYMENTS,
            Some("shop"),
            "web",
            None,
            &Patch::Merge(edited),
            &writer,
        )
        .unwrap();
    tokio::time::sleep(Duration::from_mins(2)).await;
    // The copy runs on as it was edited; nothing more is released meanwhile.
    assert_eq!(
        (stage.image("north"), stage.image("west")),
        ("web:1".into(), "web:1".into())
    );
    assert!(stage.is_ready("north", "web:1"));
    stage.fleet.world.faults().heal("north");
    stage.rests("Completed", &ALL, "web:2").await;
    assert_eq!(stage.copy("north")["spec"]["replicas"], 3);
    assert_eq!(stage.order_of("web:2"), ["east", "north", "west"]);
}

#[tokio::test(start_paused = true)]
async fn while_nobody_reconciles_every_cluster_stays_as_it_is() {
    let mut stage =
        Stage::start_with(&ALL, json!({"progress": {"timeout": "60s", "healthyFor": "30s"}})).await;
    stage.push("web:2");
    stage.gets("east", "web:2").await;
    stage.controller.take().unwrap().kill().await;
    stage.push("web:3");
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(
        (stage.image("north"), stage.image("west")),
        ("web:1".into(), "web:1".into())
    );
    stage.controller = Some(stage.fleet.controller(Arc::new(NoFailpoints)));
    stage.rests("Completed", &ALL, "web:3").await;
}

#[tokio::test(start_paused = true)]
async fn time_in_which_nobody_looked_is_no_soak() {
    let mut stage =
        Stage::start_with(&ALL, json!({"progress": {"timeout": "60s", "healthyFor": "5m"}})).await;
    stage.push("web:2");
    stage
        .fleet
        .until("east soaks", |_| {
            stage.status()["clusters"][0]["state"] == "Soaking"
        })
        .await;
    stage.controller.take().unwrap().kill().await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    let back = tokio::time::Instant::now();
    stage.controller = Some(stage.fleet.controller(Arc::new(NoFailpoints)));
    stage.gets("north", "web:2").await;
    assert!(
        back.elapsed() >= Duration::from_secs(290),
        "east was watched for {:?} only",
        back.elapsed()
    );
    stage.rests("Completed", &ALL, "web:2").await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_recreates_its_pods_rolls_as_well() {
    let recreated = |image: &str| {
        let mut template = web(image);
        template["spec"]["strategy"] = json!({"type": "Recreate"});
        template
    };
    let stage = Stage::start_from(&ALL, json!({}), recreated("web:1")).await;
    stage.fleet.want(recreated("web:2"));
    stage.rests("Completed", &ALL, "web:2").await;
    assert_eq!(stage.order_of("web:2"), ["east", "north", "west"]);
    stage.fleet.want(recreated("web:broken"));
    stage.is("Halted").await;
    stage.fleet.want(recreated("web:2"));
    stage.rests("Completed", &ALL, "web:2").await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_is_deleted_in_the_middle_comes_to_its_end_first() {
    let stage = Stage::start_with(&ALL, json!({"progress": {"timeout": "60s", "healthyFor": "30s"}})).await;
    stage.push("web:2");
    stage.gets("east", "web:2").await;
    let server = stage.fleet.world.control_plane();
    server
        .delete(&ROLLOUTS, Some("shop"), "web", &DeleteOptions::default())
        .unwrap();
    stage
        .fleet
        .until("the intent is gone", |fleet| {
            fleet
                .world
                .control_plane()
                .get(&ROLLOUTS, Some("shop"), "web")
                .is_err()
        })
        .await;
    assert_eq!(stage.order_of("web:2"), ["east", "north", "west"]);
    assert_eq!((stage.fleet.count(&PINS), stage.fleet.count(&CLAIMS)), (0, 0));
    stage.oracle.assert_tight();
}

#[tokio::test(start_paused = true)]
async fn a_second_policy_on_the_same_field_keeps_what_it_says_in_its_cluster() {
    let stage = Stage::start_with(&ALL, json!({"progress": {"timeout": "60s", "healthyFor": "30s"}})).await;
    let env = |cluster: &str| {
        stage.copy(cluster)["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"].clone()
    };
    let site = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "site", "namespace": "shop"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "overrideRules": [{
                "targetCluster": {"clusterNames": ["west"]},
                "overriders": {"plaintext": [{
                    "path": "/spec/template/spec/containers/0/env", "operator": "add",
                    "value": [{"name": "SITE", "value": "west"}],
                }]},
            }],
        },
    });
    stage.fleet.apply(&PINS, site);
    stage
        .fleet
        .until("west has its own", |_| env("west") == "west")
        .await;
    stage.push("web:2");
    stage.gets("east", "web:2").await;
    assert_eq!(
        (stage.image("west"), env("west")),
        ("web:1".into(), json!("west"))
    );
    stage.gets("west", "web:2").await;
    assert_eq!(env("west"), "west");
    assert_eq!(env("east"), Value::Null);
}

#[test]
fn killed_at_any_line_a_rollout_still_completes() {
    kill_everywhere(false);
}

#[test]
fn killed_at_any_line_a_failing_rollout_is_still_undone() {
    kill_everywhere(true);
}

fn kill_everywhere(fails: bool) {
    let begin = async || {
        let mut stage = Stage::start(&ALL).await;
        stage.controller.take().unwrap().kill().await;
        // Nothing of the dead one is under way any more.
        tokio::time::sleep(Duration::from_secs(2)).await;
        stage
    };
    let play = async |stage: &Stage| {
        stage.begin(fails);
        stage.ends(fails).await;
    };
    at_any_line_of("Rollout")
        .more_than(30)
        .without_end()
        .each_time(begin, play, |stage| stage.oracle.assert_tight());
}

impl AsRef<Fleet> for Stage {
    fn as_ref(&self) -> &Fleet {
        &self.fleet
    }
}

impl Stage {
    fn begin(&self, fails: bool) {
        let (on_failure, timeout) = if fails { ("Undo", "5s") } else { ("Halt", "60s") };
        self.roll_by(json!({
            "onFailure": on_failure, "progress": {"timeout": timeout, "healthyFor": "1s"},
        }));
        self.push(if fails { "web:broken" } else { "web:2" });
    }

    async fn ends(&self, fails: bool) {
        let (phase, image) = if fails {
            ("Undone", "web:1")
        } else {
            ("Completed", "web:2")
        };
        self.rests(phase, &ALL, image).await;
    }
}
