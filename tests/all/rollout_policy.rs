//! Rollout policies, with a whole reconciler on a repository and a sandbox. The judge is what each member has had, and when: no
//! change of a selected template gets anywhere but by a rollout.

mod claims;
mod turns;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover::cluster::{Cluster, Limits};
use cutover::reconcile::{self, Options};
use cutover::repo::Polling;
use cutover::sandbox::api::{DeleteOptions, ListOptions, Patch, Resource, WriteOptions};
use cutover::sandbox::{World, WorldOptions};
use futures::StreamExt;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::support::git::{Origin, options};
use crate::support::roles;
use crate::support::wait::wait_for;

const POLICIES: Resource = Resource::new("cutover.dev", "rolloutpolicies");
const ROLLOUTS: Resource = Resource::new("cutover.dev", "rollouts");
const CLAIMS: Resource = Resource::new("cutover.dev", "claims");
const PINS: Resource = Resource::new("policy.karmada.io", "overridepolicies");
const DEPLOYMENTS: Resource = Resource::new("apps", "deployments");
const ALL: [&str; 3] = ["east", "north", "west"];

const PLACES: &str = "apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: all, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  placement: {clusterAffinity: {clusterNames: [east, north, west]}}
";

fn workload(name: &str, image: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: shop, labels: {{tier: web}}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: main, image: '{image}'}}]}}
"
    )
}

/// A policy over what has the label `tier=web`.
fn policy(name: &str, more: &str) -> String {
    format!(
        "apiVersion: cutover.dev/v1alpha1
kind: RolloutPolicy
metadata: {{name: {name}, namespace: shop}}
spec:
  select: [{{apiVersion: apps/v1, kind: Deployment, labelSelector: tier=web}}]
  progress: {{timeout: 20s, healthyFor: 200ms}}
{more}"
    )
}

/// A repository, a control plane with its members, who reconciles, and who looks on.
struct Stage {
    world: World,
    origin: Origin,
    state: TempDir,
    running: Option<Running>,
    oracle: Oracle,
}

struct Running {
    task: JoinHandle<()>,
    _stop: DropGuard,
}

impl Stage {
    /// `web:1` runs everywhere, and so does `api:1`.
    async fn start(files: &[(&str, &str)]) -> Self {
        Self::start_with(files, &[]).await
    }

    /// With more workloads, whose images may come in any way.
    async fn start_with(files: &[(&str, &str)], open: &[String]) -> Self {
        let world = World::start(WorldOptions::fast());
        world.traffic().record();
        for crd in cutover::api::crds() {
            world
                .control_plane()
                .install(&serde_json::to_value(crd).unwrap())
                .unwrap();
        }
        let (web, api) = (workload("web", "web:1"), workload("api", "api:1"));
        let mut first = BTreeMap::from([("places.yaml", PLACES), ("web.yaml", &*web), ("api.yaml", &*api)]);
        first.extend(files.iter().copied());
        let first: Vec<_> = first.into_iter().collect();
        let mut stage = Self {
            oracle: Oracle::watch(&world),
            origin: Origin::with(&first),
            state: tempfile::tempdir().unwrap(),
            running: None,
            world,
        };
        for image in open {
            stage.oracle.opens(image);
        }
        stage.resume();
        stage.everywhere("web", "web:1").await;
        stage.everywhere("api", "api:1").await;
        stage
    }

    fn options(&self) -> Options {
        let cluster = Cluster::from_client(self.world.client(), Limits::default());
        Options {
            polling: Some(Polling {
                interval: Duration::from_millis(20),
                ..Polling::default()
            }),
            ..Options::new(options(self.origin.url(), self.state.path()), cluster)
        }
    }

    fn resume(&mut self) {
        let (options, cancel) = (self.options(), CancellationToken::new());
        let stop = cancel.clone();
        let run = async move { reconcile::run(options, stop).await.unwrap() };
        self.running = Some(Running {
            task: tokio::spawn(run),
            _stop: cancel.drop_guard(),
        });
    }

    /// As dead as after kill -9.
    async fn kill(&mut self) {
        let Running { task, _stop } = self.running.take().unwrap();
        task.abort();
        let _ = task.await;
    }

    fn push(&self, files: &[(&str, &str)]) {
        self.origin.commit("main", files);
    }

    fn list(&self, resource: &Resource) -> Vec<Arc<Value>> {
        let server = self.world.control_plane();
        server
            .list(resource, Some("shop"), &ListOptions::default())
            .unwrap()
            .items
    }

    /// The Rollouts of a workload, by name.
    fn rollouts(&self, workload: &str) -> BTreeMap<String, Value> {
        let all = self.list(&ROLLOUTS);
        let about = all
            .iter()
            .filter(|one| one["spec"]["workload"]["name"] == workload);
        about
            .map(|one| {
                (
                    one["metadata"]["name"].as_str().unwrap().to_owned(),
                    Value::clone(one),
                )
            })
            .collect()
    }

    fn rollout(&self, workload: &str) -> Value {
        self.rollouts(workload).into_values().next().unwrap_or_default()
    }

    fn policy(&self, name: &str) -> Value {
        let found = self.world.control_plane().get(&POLICIES, Some("shop"), name);
        found.map(|policy| Value::clone(&policy)).unwrap_or_default()
    }

    fn image(&self, cluster: &str, workload: &str) -> String {
        let copy = self
            .world
            .member(cluster)
            .api
            .get(&DEPLOYMENTS, Some("shop"), workload);
        copy.map(|copy| image_of(&copy)).unwrap_or_default()
    }

    fn template(&self, workload: &str) -> Value {
        let found = self
            .world
            .control_plane()
            .get(&DEPLOYMENTS, Some("shop"), workload);
        found.map(|found| Value::clone(&found)).unwrap_or_default()
    }

    async fn everywhere(&self, workload: &str, image: &str) {
        self.until(&format!("{image} is everywhere"), || {
            ALL.iter().all(|cluster| self.image(cluster, workload) == image)
        })
        .await;
    }

    async fn gets(&self, cluster: &str, workload: &str, image: &str) {
        self.until(&format!("{cluster} gets {image}"), || {
            self.image(cluster, workload) == image
        })
        .await;
    }

    async fn phase(&self, workload: &str, phase: &str) {
        self.until(&format!("the rollout of {workload} is {phase}"), || {
            self.rollout(workload)["status"]["phase"] == phase
        })
        .await;
    }

    /// Everything has come to rest, with this image of a workload everywhere, and nothing stands around it.
    async fn rests(&self, workload: &str, image: &str) {
        self.until(&format!("{workload} rests with {image}"), || {
            let rolls = self.rollouts(workload).into_values();
            rolls.into_iter().all(|one| one["status"]["journal"].is_null())
                && ALL.iter().all(|cluster| self.image(cluster, workload) == image)
                && self.list(&PINS).is_empty()
                && self.list_claims() == 0
        })
        .await;
        self.oracle.assert_tight();
    }

    fn list_claims(&self) -> usize {
        let server = self.world.control_plane();
        server
            .list(&CLAIMS, None, &ListOptions::default())
            .unwrap()
            .items
            .len()
    }

    async fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let looks = || {
            self.oracle.assert_tight();
            holds()
        };
        let story = || {
            let (policies, rollouts) = (self.list(&POLICIES), self.list(&ROLLOUTS));
            format!("{policies:#?}\n{rollouts:#?}\n{}", self.oracle.story())
        };
        wait_for(what).until_or(looks, story).await;
    }

    fn edit(&self, workload: &str, patch: Value) {
        let writer = WriteOptions::manager("kubectl-edit");
        let server = self.world.control_plane();
        server
            .patch(
                &DEPLOYMENTS,
                Some("shop"),
                workload,
                None,
                &Patch::Merge(patch),
                &writer,
            )
            .unwrap();
    }

    /// Empties a file, and returns when sync has read that.
    async fn leaves_git(&self, file: &str) {
        let mark = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mark, namespace: shop}\n";
        self.push(&[(file, "# nothing\n"), ("mark.yaml", mark)]);
        let maps = Resource::new("", "configmaps");
        self.until("the push has come through", || {
            self.list(&maps)
                .iter()
                .any(|map| map["metadata"]["name"] == "mark")
        })
        .await;
    }

    /// Returns the order in which clusters first got an image.
    /// What is seen by looking at the members is heard by the oracle a little later.
    async fn goes_in_order(&self, image: &str, clusters: [&str; 3]) {
        self.until(&format!("the oracle hears of {image}"), || {
            self.order_of(image).len() >= clusters.len()
        })
        .await;
        assert_eq!(self.order_of(image), clusters);
    }

    fn order_of(&self, image: &str) -> Vec<String> {
        let seen = self.oracle.seen.lock().unwrap();
        let had = seen.iter().filter(|(_, had)| had == image);
        had.map(|(cluster, _)| cluster.clone()).collect()
    }
}

/// What sync applies is the user's to allow; what a policy does is not.
impl Drop for Stage {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let is_a_policys = |asked: &roles::Asked| asked.group == "cutover.dev";
            let mut asked = roles::asked(self.world.traffic());
            asked.retain(is_a_policys);
            roles::keep(&asked);
            let lacking = roles::lacking(self.world.traffic());
            let ours = lacking
                .iter()
                .filter(|asked| is_a_policys(asked) && asked.resource.contains("rollout"));
            assert_eq!(ours.count(), 0, "deploy/rbac.yaml lacks {lacking:?}");
        }
    }
}

fn image_of(object: &Value) -> String {
    let image = object.pointer("/spec/template/spec/containers/0/image");
    image.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Hears of every version of every copy in every member, and asks each time whether a rollout has released it there.
struct Oracle {
    seen: Arc<Mutex<Vec<(String, String)>>>,
    leaks: Arc<Mutex<Vec<String>>>,
    /// The images that may go out in any way.
    open: Arc<Mutex<Vec<String>>>,
    watching: Vec<JoinHandle<()>>,
}

impl Oracle {
    fn watch(world: &World) -> Self {
        let (seen, leaks): (Arc<Mutex<Vec<_>>>, Arc<Mutex<Vec<_>>>) = Default::default();
        let open = Arc::new(Mutex::new(vec!["web:1".to_owned(), "api:1".to_owned()]));
        let watching = ALL.map(|cluster| {
            let (seen, leaks, open) = (Arc::clone(&seen), Arc::clone(&leaks), Arc::clone(&open));
            let control = world.control_plane().clone();
            let member = world.member(cluster).api.clone();
            tokio::spawn(async move {
                let mut had: BTreeMap<String, String> = BTreeMap::new();
                let mut watch = member
                    .watch(&DEPLOYMENTS, Some("shop"), None, &ListOptions::default())
                    .unwrap();
                while let Some(event) = watch.next().await {
                    let (name, image) = (
                        event.object["metadata"]["name"].to_string(),
                        image_of(&event.object),
                    );
                    if had.get(&name) == Some(&image) {
                        continue;
                    }
                    let rollouts = control.list(&ROLLOUTS, Some("shop"), &ListOptions::default());
                    let rollouts = rollouts.unwrap().items;
                    let released = rollouts
                        .iter()
                        .any(|one| may_have(&one["status"], cluster, &image));
                    if !released && !open.lock().unwrap().contains(&image) {
                        leaks.lock().unwrap().push(format!("{cluster} got {image}"));
                    }
                    seen.lock().unwrap().push((cluster.to_owned(), image.clone()));
                    had.insert(name, image);
                }
            })
        });
        Self {
            seen,
            leaks,
            open,
            watching: watching.into(),
        }
    }

    /// From now on this image may go out in any way.
    fn opens(&self, image: &str) {
        self.open.lock().unwrap().push(image.to_owned());
    }

    fn story(&self) -> String {
        format!(
            "leaks: {:#?}\nall: {:#?}",
            self.leaks.lock().unwrap(),
            self.seen.lock().unwrap()
        )
    }

    fn assert_tight(&self) {
        assert!(self.leaks.lock().unwrap().is_empty(), "{}", self.story());
        assert!(
            self.watching.iter().all(|task| !task.is_finished()),
            "nobody looks on any more"
        );
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        self.watching.iter().for_each(JoinHandle::abort);
    }
}

/// Returns whether a rollout lets a cluster have an image, or everybody has it for good.
fn may_have(status: &Value, cluster: &str, image: &str) -> bool {
    let is = |name: &Value| {
        let mut revisions = status["revisions"].as_array().into_iter().flatten();
        revisions.any(|revision| revision["name"] == *name && image_of(&revision["content"]) == image)
    };
    let journal = &status["journal"];
    if journal.is_null() {
        return is(&status["stable"]);
    }
    if !journal["released"][cluster].is_null() {
        return is(&journal["target"]);
    }
    match journal["left"].get(cluster) {
        Some(left) => is(left),
        None => is(&journal["stable"]),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_of_what_is_selected_goes_cluster_by_cluster_and_the_rest_goes_out_as_ever() {
    let stage = Stage::start(&[("policy.yaml", &policy("web", "  order: [west, east]\n"))]).await;
    let other = workload("tool", "tool:1").replace("tier: web", "tier: tools");
    stage.oracle.opens("tool:1");
    stage.oracle.opens("tool:2");
    stage.push(&[("tool.yaml", &other)]);
    stage.everywhere("tool", "tool:1").await;
    // What never ran is simply created.
    stage.oracle.opens("late:1");
    stage.push(&[("late.yaml", &workload("late", "late:1"))]);
    stage.everywhere("late", "late:1").await;
    assert!(stage.list(&ROLLOUTS).is_empty());
    assert_eq!(stage.policy("web")["status"]["phase"], "Standing");
    assert_eq!(stage.policy("web")["status"]["selected"], 3);

    stage.push(&[
        ("tool.yaml", &other.replace("tool:1", "tool:2")),
        ("web.yaml", &workload("web", "web:2")),
        ("late.yaml", &workload("late", "late:2")),
    ]);
    stage.rests("web", "web:2").await;
    stage.rests("late", "late:2").await;
    stage.everywhere("tool", "tool:2").await;
    stage.goes_in_order("web:2", ["west", "east", "north"]).await;
    stage.goes_in_order("late:2", ["west", "east", "north"]).await;
    // The next change is the same rollout's, which knows what can be gone back to.
    let first = stage.rollouts("web");
    stage.push(&[("web.yaml", &workload("web", "web:3"))]);
    stage.rests("web", "web:3").await;
    stage.goes_in_order("web:3", ["west", "east", "north"]).await;
    let then = stage.rollouts("web");
    assert!(then.keys().eq(first.keys()), "{:?}", then.keys());
    assert_eq!(
        stage.rollout("web")["status"]["revisions"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert!(stage.rollouts("api").is_empty() && stage.rollouts("tool").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_and_the_first_change_in_one_push_nothing_goes_out_unrolled() {
    let stage = Stage::start(&[]).await;
    stage.push(&[
        ("policy.yaml", &policy("web", "  order: [north]\n")),
        ("web.yaml", &workload("web", "web:2")),
    ]);
    stage.rests("web", "web:2").await;
    stage.goes_in_order("web:2", ["north", "east", "west"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_takes_a_workload_out_of_the_selection_is_the_last_that_is_rolled() {
    let stage = Stage::start(&[("policy.yaml", &policy("web", ""))]).await;
    let out = |image: &str| workload("web", image).replace("tier: web", "tier: none");
    stage.push(&[("web.yaml", &out("web:2"))]);
    stage.rests("web", "web:2").await;
    stage.goes_in_order("web:2", ["east", "north", "west"]).await;
    stage
        .until("its rollout is gone", || stage.rollouts("web").is_empty())
        .await;
    stage.oracle.opens("web:3");
    stage.push(&[("web.yaml", &out("web:3"))]);
    stage.everywhere("web", "web:3").await;
    assert!(stage.rollouts("web").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_fails_halts_until_a_better_one_comes_or_the_policy_says_what_to_do() {
    let slow = "  progress: {timeout: 1s, healthyFor: 100ms}\n";
    let say =
        |what: &str| policy("web", what).replace("  progress: {timeout: 20s, healthyFor: 200ms}\n", slow);
    let stage = Stage::start(&[("policy.yaml", &say(""))]).await;
    stage.push(&[("web.yaml", &workload("web", "web:broken"))]);
    stage.phase("web", "Halted").await;
    stage
        .until("the policy says so", || {
            let status = &stage.policy("web")["status"];
            status["halted"] == 1 && status["workloads"][0]["phase"] == "Halted"
        })
        .await;
    assert_eq!(
        (stage.image("north", "web"), stage.image("west", "web")),
        ("web:1".into(), "web:1".into())
    );
    // Others roll meanwhile.
    stage.push(&[("api.yaml", &workload("api", "api:2"))]);
    stage.everywhere("api", "api:2").await;
    // A better template begins with the first wave.
    stage.push(&[("web.yaml", &workload("web", "web:3"))]);
    stage.rests("web", "web:3").await;
    stage.goes_in_order("web:3", ["east", "north", "west"]).await;

    // What is said to one of them is said in the policy.
    stage.push(&[("web.yaml", &workload("web", "web:broken"))]);
    stage.phase("web", "Halted").await;
    let abort = "  controls: [{kind: Deployment, name: web, abort: true}]\n";
    stage.push(&[("policy.yaml", &say(abort))]);
    stage.phase("web", "Undone").await;
    stage.rests("web", "web:3").await;
    // It stays as it is until a commit changes it.
    stage.push(&[("policy.yaml", &say(""))]);
    stage.push(&[("web.yaml", &workload("web", "web:4"))]);
    stage.rests("web", "web:4").await;
    assert_eq!(stage.rollouts("web").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_is_edited_in_the_middle_says_how_it_goes_on() {
    let gate = |waves: &str| {
        policy(
            "web",
            &format!("  order: [west, north, east]\n  approval: {{beforeWaves: [{waves}]}}\n"),
        )
    };
    let stage = Stage::start(&[("policy.yaml", &gate("2"))]).await;
    stage.push(&[("web.yaml", &workload("web", "web:2"))]);
    stage
        .until("it waits for approval", || {
            stage.rollout("web")["status"]["waitingFor"]["code"] == "Approval"
        })
        .await;
    assert_eq!(stage.image("north", "web"), "web:1");
    let approved =
        gate("2, 3") + "  controls: [{kind: Deployment, name: web, approvals: [{wave: 2, attempt: 1}]}]\n";
    stage.push(&[("policy.yaml", &approved)]);
    stage.gets("north", "web", "web:2").await;
    stage.push(&[("policy.yaml", &policy("web", "  order: [west, north, east]\n"))]);
    stage.rests("web", "web:2").await;
    stage.goes_in_order("web:2", ["west", "north", "east"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_goes_lets_what_it_began_come_to_its_end_and_then_changes_go_out_as_ever() {
    let soak = policy("web", "").replace("200ms", "2s");
    let stage = Stage::start(&[("policy.yaml", &soak)]).await;
    stage.push(&[("web.yaml", &workload("web", "web:2"))]);
    stage.gets("east", "web", "web:2").await;
    stage.leaves_git("policy.yaml").await;
    let server = stage.world.control_plane();
    server
        .delete(&POLICIES, Some("shop"), "web", &DeleteOptions::default())
        .unwrap();
    stage
        .until("the policy ends", || {
            stage.policy("web")["status"]["phase"] == "Ending"
        })
        .await;
    assert_eq!(stage.image("west", "web"), "web:1");
    stage.rests("web", "web:2").await;
    stage
        .until("it is gone", || {
            stage.policy("web").is_null() && stage.list(&ROLLOUTS).is_empty()
        })
        .await;
    stage.goes_in_order("web:2", ["east", "north", "west"]).await;
    stage.oracle.opens("web:3");
    stage.push(&[("web.yaml", &workload("web", "web:3"))]);
    stage.everywhere("web", "web:3").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_policies_the_older_one_takes_changes_along_and_the_other_says_so() {
    let stage = Stage::start(&[("policy.yaml", &policy("zoo", "  order: [west]\n"))]).await;
    stage
        .until("it stands", || {
            stage.policy("zoo")["status"]["phase"] == "Standing"
        })
        .await;
    // The clock of the API server has seconds.
    let born = stage.policy("zoo")["metadata"]["creationTimestamp"].clone();
    stage
        .until("a second has passed", || {
            stage.world.clock().now().to_string() > later(&born)
        })
        .await;
    stage.push(&[("second.yaml", &policy("all", "  order: [north]\n"))]);
    stage
        .until("the younger one leaves them", || {
            let status = stage.policy("all")["status"].clone();
            status["leftOut"] == 2 && status["workloads"][0]["note"] == "left to RolloutPolicy zoo"
        })
        .await;
    stage.push(&[("web.yaml", &workload("web", "web:2"))]);
    stage.rests("web", "web:2").await;
    stage.goes_in_order("web:2", ["west", "east", "north"]).await;
    assert_eq!(stage.rollouts("web").len(), 1);
}

/// One second after that.
fn later(born: &Value) -> String {
    let born: jiff::Timestamp = born.as_str().unwrap().parse().unwrap();
    (born + jiff::SignedDuration::from_secs(1)).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_that_somebody_wrote_for_a_workload_comes_before_the_policy() {
    let own = "apiVersion: cutover.dev/v1alpha1
kind: Rollout
metadata: {name: mine, namespace: shop}
spec:
  workload: {apiVersion: apps/v1, kind: Deployment, name: web}
  order: [north]
  progress: {timeout: 20s, healthyFor: 200ms}
";
    let stage = Stage::start(&[("policy.yaml", &policy("web", "  order: [west]\n"))]).await;
    stage.push(&[("web.yaml", &workload("web", "web:2"))]);
    stage.rests("web", "web:2").await;
    stage.push(&[("mine.yaml", own)]);
    stage
        .until("it is the only one", || {
            stage.rollouts("web").keys().eq(["mine"])
                && stage.policy("web")["status"]["workloads"][0]["note"] == "left to Rollout mine"
        })
        .await;
    stage.push(&[("web.yaml", &workload("web", "web:3"))]);
    stage.rests("web", "web:3").await;
    stage.goes_in_order("web:3", ["north", "east", "west"]).await;
    // When it goes, the policy takes over again.
    stage.leaves_git("mine.yaml").await;
    let server = stage.world.control_plane();
    server
        .delete(&ROLLOUTS, Some("shop"), "mine", &DeleteOptions::default())
        .unwrap();
    stage
        .until("it is gone", || !stage.rollouts("web").contains_key("mine"))
        .await;
    stage.push(&[("web.yaml", &workload("web", "web:4"))]);
    stage.rests("web", "web:4").await;
    stage.goes_in_order("web:4", ["west", "east", "north"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_time_it_goes_on_and_nothing_leaks() {
    let mut stage = Stage::start(&[("policy.yaml", &policy("web", ""))]).await;
    for (round, pause) in (2..).zip([0, 3, 10, 30, 80, 200]) {
        let image = format!("web:{round}");
        stage.push(&[("web.yaml", &workload("web", &image))]);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        stage.kill().await;
        stage.resume();
        stage.rests("web", &image).await;
        assert_eq!(stage.order_of(&image), ["east", "north", "west"], "{round}");
    }
    assert_eq!(stage.rollouts("web").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_past_git_goes_out_at_once_and_is_told_with_who_made_it() {
    let stage = Stage::start(&[("policy.yaml", &policy("web", ""))]).await;
    stage
        .until("it stands", || {
            stage.policy("web")["status"]["phase"] == "Standing"
        })
        .await;
    stage.oracle.opens("web:edited");
    let image = |image: &str| {
        let containers = json!([{"name": "main", "image": image}]);
        json!({"spec": {"template": {"spec": {"containers": containers}}}})
    };
    stage.edit("web", image("web:edited"));
    stage.everywhere("web", "web:edited").await;
    let note = || {
        let status = &stage.policy("web")["status"];
        status["workloads"][0]["note"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    stage
        .until("the policy says whose it is", || {
            note().contains("(kubectl-edit)")
        })
        .await;
    // Git isn't followed past somebody else's field, as sync wouldn't.
    stage.push(&[("web.yaml", &workload("web", "web:2"))]);
    stage
        .until("it is told again", || note().contains("(kubectl-edit)"))
        .await;
    assert_eq!(image_of(&stage.template("web")), "web:edited");
    // Whoever says the same as Git is in nobody's way, and goes out at once, too.
    stage.oracle.opens("web:2");
    stage.edit("web", image("web:2"));
    stage.rests("web", "web:2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nothing_happens_to_costs_no_request() {
    let stage = Stage::start(&[("policy.yaml", &policy("web", ""))]).await;
    stage.push(&[("web.yaml", &workload("web", "web:2"))]);
    stage.rests("web", "web:2").await;
    let about = || {
        stage
            .world
            .traffic()
            .count(|asked| asked.resource == "rolloutpolicies" && asked.verb != "watch")
    };
    // What was under way may still be told of by the first of them.
    let mut asked = about();
    for number in 0..20 {
        let name = format!("other-{number}");
        let config =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: shop}}\n");
        stage.push(&[("other.yaml", &config)]);
        stage
            .until("the push has come through", || {
                let maps = stage.list(&Resource::new("", "configmaps"));
                maps.iter().any(|map| map["metadata"]["name"] == name.as_str())
            })
            .await;
        if std::mem::replace(&mut asked, about()) == asked {
            return;
        }
    }
    panic!("each push of something else has cost a request");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_ends_takes_the_change_all_the_way() {
    let mut stage = Stage::start(&[("policy.yaml", &policy("web", ""))]).await;
    stage.kill().await;
    for image in ["web:2", "web:3"] {
        stage.push(&[("web.yaml", &workload("web", image))]);
        let once = reconcile::once(stage.options(), CancellationToken::new());
        tokio::time::timeout(Duration::from_mins(1), once)
            .await
            .unwrap()
            .unwrap();
        assert!(
            ALL.iter().all(|cluster| stage.image(cluster, "web") == image),
            "{image}"
        );
        assert_eq!(stage.order_of(image), ["east", "north", "west"]);
    }
    stage.oracle.assert_tight();
}
