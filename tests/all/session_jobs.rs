//! Jobs in Flink's session clusters: each member has a session cluster of its own, under the same name, and the pods are that one's.

use std::sync::Arc;
use std::time::Duration;

use cutover::api::{Phase, crds};
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::api::{ListOptions, Resource, WriteOptions};
use cutover::sandbox::ledger::Verdict;
use cutover::sandbox::member::{Simulators, flink};
use cutover::sandbox::{World, WorldOptions};
use serde_json::{Value, json};

use crate::support::fleet::{BINDINGS, CLAIMS, Controller, Fleet, JOBS, MIGRATIONS, PINS, POLICIES};
use crate::support::plane::{NAMESPACE, Plane};
use crate::support::wait::{until, wait_for};

const SESSION_JOBS: Resource = Resource::new("flink.apache.org", "flinksessionjobs");
const CLUSTERS: Resource = Resource::new("cluster.karmada.io", "clusters");
const PODS: Resource = Resource::new("", "pods");
const EVENTS: Resource = Resource::new("", "events");
const NAMESPACES: Resource = Resource::new("", "namespaces");
const API: &str = "flink.apache.org/v1beta1";
const MOVE: &str = "clicks-moves";

fn session(image: &str) -> Value {
    json!({
        "apiVersion": API, "kind": "FlinkDeployment", "metadata": {"name": "session", "namespace": "shop"},
        "spec": {"image": image, "flinkVersion": "v1_20", "serviceAccount": "default"},
    })
}

fn clicks() -> Value {
    json!({
        "apiVersion": API, "kind": "FlinkSessionJob", "metadata": {"name": "clicks", "namespace": "shop"},
        "spec": {
            "deploymentName": "session",
            "job": {"jarURI": "local:///clicks.jar", "parallelism": 1, "upgradeMode": "savepoint", "state": "running"},
        },
    })
}

fn policy() -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "clicks", "namespace": "shop"},
        "spec": {
            "resourceSelectors": [{"apiVersion": API, "kind": "FlinkSessionJob", "name": "clicks", "namespace": "shop"}],
            "placement": {
                "clusterAffinity": {"clusterNames": ["east", "west"]},
                "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
            },
        },
    })
}

/// All servers know the kind, and Flink's operator looks after it in every member.
fn know_session_jobs(world: &World) {
    let definition = flink::session_job_definition();
    let members = world.members().map(|member| &member.api);
    for server in members.chain([world.control_plane()]) {
        server.install(&definition).unwrap();
    }
    for member in world.members() {
        member.simulators(Simulators::operate_session_jobs);
    }
}

fn create_session(world: &World, cluster: &str, image: &str) {
    let member = &world.member(cluster).api;
    let writer = WriteOptions::manager("kubectl");
    member
        .create(&JOBS, Some("shop"), session(image), &writer)
        .unwrap();
}

fn object(world: &World, cluster: &str, resource: &Resource, name: &str) -> Value {
    let found = world.member(cluster).api.get(resource, Some("shop"), name);
    found.map(|object| (*object).clone()).unwrap_or_default()
}

fn session_is_ready(world: &World, cluster: &str) -> bool {
    object(world, cluster, &JOBS, "session")["status"]["jobManagerDeploymentStatus"] == "READY"
}

fn runs_in(world: &World, cluster: &str) -> bool {
    object(world, cluster, &SESSION_JOBS, "clicks")["status"]["jobStatus"]["state"] == "RUNNING"
}

/// Returns the binding of the session job, and its copies.
fn of_clicks(world: &World) -> String {
    let bindings = world
        .control_plane()
        .get(&BINDINGS, Some("shop"), "clicks-flinksessionjob");
    let copies = ["east", "west"].map(|cluster| object(world, cluster, &SESSION_JOBS, "clicks"));
    format!(
        "{:#} {copies:#?}",
        bindings.map(|binding| (*binding).clone()).unwrap_or_default()
    )
}

/// What the ledger says of the session job.
fn verdict(world: &World) -> Verdict {
    world
        .ledger()
        .verdict()
        .about(|workload| workload.kind == "FlinkSessionJob")
}

struct Stage {
    fleet: Fleet,
    _controller: Controller,
}

impl Stage {
    /// `clicks` runs in the session cluster of east; these have one too, with an image.
    async fn set(others: &[(&str, &str)]) -> Self {
        let fleet = Fleet::start(WorldOptions::default()).await;
        know_session_jobs(&fleet.world);
        for (cluster, image) in others.iter().copied().chain([("east", "flink:1.20")]) {
            let has_namespace = |fleet: &Fleet| {
                let member = &fleet.world.member(cluster).api;
                member.get(&NAMESPACES, None, "shop").is_ok()
            };
            fleet.until("the namespace is there", has_namespace).await;
            create_session(&fleet.world, cluster, image);
        }
        let is_up = |fleet: &Fleet| session_is_ready(&fleet.world, "east");
        fleet.until("the session cluster is up", is_up).await;
        // Karmada's scheduler tries it once, and takes clusters only that are known to have the kind.
        let have_the_kind = |fleet: &Fleet| {
            ["east", "west"].into_iter().all(|cluster| {
                let found = fleet.world.control_plane().get(&CLUSTERS, None, cluster);
                found.is_ok_and(|found| {
                    found["status"]["apiEnablements"]
                        .to_string()
                        .contains("FlinkSessionJob")
                })
            })
        };
        fleet
            .until("Karmada knows that the clusters have the kind", have_the_kind)
            .await;
        fleet.apply(&POLICIES, policy());
        fleet.apply(&SESSION_JOBS, clicks());
        wait_for("clicks runs in east")
            .within(Duration::from_mins(20))
            .every(Duration::from_millis(20))
            .until_or(|| runs_in(&fleet.world, "east"), || of_clicks(&fleet.world))
            .await;
        Self {
            _controller: fleet.controller(Arc::new(NoFailpoints)),
            fleet,
        }
    }

    /// Both clusters have the same session cluster.
    async fn set_everywhere() -> Self {
        let stage = Self::set(&[("west", "flink:1.20")]).await;
        let is_up = |fleet: &Fleet| session_is_ready(&fleet.world, "west");
        stage
            .fleet
            .until("the session cluster of west is up", is_up)
            .await;
        stage
    }

    fn migrate(&self, name: &str, to: &str, verify: &Value) {
        self.fleet.migrate_with(
            name,
            json!({
                "workload": {"apiVersion": API, "kind": "FlinkSessionJob", "name": "clicks"}, "to": to, "verify": verify,
            }),
        );
    }

    async fn moves(&self, name: &str, to: &str) {
        self.migrate(name, to, &json!({"healthyFor": "2s", "timeout": "60s"}));
        let end = self.fleet.ended(name).await;
        assert_eq!(end, Phase::Completed, "{:#}", self.fleet.status(name));
    }

    fn runs_in(&self, cluster: &str) -> bool {
        runs_in(&self.fleet.world, cluster)
    }

    /// One copy ran at a time, so often, each from the newest state.
    fn is_clean_after(&self, runs: usize) {
        let ledger = self.fleet.world.ledger();
        let verdict = verdict(&self.fleet.world);
        assert!(verdict.is_clean(), "{ledger}");
        assert_eq!(verdict.runs.len(), runs, "{ledger}");
    }

    /// The uids of the session cluster's pods.
    fn session_pods(&self, cluster: &str) -> Vec<Value> {
        let member = &self.fleet.world.member(cluster).api;
        let pods = member.list(&PODS, Some("shop"), &ListOptions::default()).unwrap();
        let own = |pod: &&Arc<Value>| pod["metadata"]["labels"]["app"] == "session";
        let pods = pods.items.iter().filter(own);
        pods.map(|pod| pod["metadata"]["uid"].clone()).collect()
    }

    fn simulators<T>(&self, cluster: &str, what: impl FnOnce(&mut Simulators) -> T) -> T {
        self.fleet.world.member(cluster).simulators(what)
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_job_moves_there_and_back_and_the_session_clusters_stay() {
    let stage = Stage::set_everywhere().await;
    let pods = ["east", "west"].map(|cluster| stage.session_pods(cluster));
    assert_eq!(pods.each_ref().map(Vec::len), [1, 1]);
    stage.moves(MOVE, "west").await;
    assert!(stage.runs_in("west"));
    stage.is_clean_after(2);
    stage.moves("clicks-returns", "east").await;
    assert!(stage.runs_in("east"));
    stage.is_clean_after(3);
    assert_eq!(["east", "west"].map(|cluster| stage.session_pods(cluster)), pods);
}

/// The operator never starts a stopped job from another savepoint than its own: the source's copy is created again.
#[tokio::test(start_paused = true)]
async fn a_session_job_that_is_called_off_goes_on_from_what_the_target_left() {
    let stage = Stage::set_everywhere().await;
    let uid = || object(&stage.fleet.world, "east", &SESSION_JOBS, "clicks")["metadata"]["uid"].clone();
    let before = uid();
    stage.migrate(MOVE, "west", &json!({"healthyFor": "60s", "timeout": "120s"}));
    stage.fleet.phase(MOVE, Phase::Verify).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    stage
        .fleet
        .patch(&MIGRATIONS, MOVE, json!({"spec": {"abort": true}}));
    let end = stage.fleet.ended(MOVE).await;
    assert_eq!(end, Phase::Aborted, "{:#}", stage.fleet.status(MOVE));
    assert!(stage.runs_in("east"));
    stage.is_clean_after(3);
    assert_ne!(uid(), before);
}

#[tokio::test(start_paused = true)]
async fn without_a_session_cluster_in_the_target_nothing_is_touched() {
    let stage = Stage::set(&[]).await;
    stage.migrate(MOVE, "west", &json!({"healthyFor": "2s"}));
    assert_eq!(stage.fleet.ended(MOVE).await, Phase::Failed);
    let status = stage.fleet.status(MOVE);
    assert_eq!(status["findings"][0]["code"], "MissingDependency", "{status:#}");
    assert!(stage.runs_in("east"));
    stage.is_clean_after(1);
}

/// What they do not know is refused, and nothing is done on a journal that is not written.
#[tokio::test(start_paused = true)]
async fn where_the_crds_do_not_know_its_profile_nothing_is_touched_and_people_hear_of_it() {
    let stage = Stage::set_everywhere().await;
    let server = stage.fleet.world.control_plane();
    let mut crds = crds().into_iter().map(|crd| serde_json::to_value(crd).unwrap());
    let mut crd = crds
        .find(|crd| crd["spec"]["names"]["kind"] == "Migration")
        .unwrap();
    let profile = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/journal/properties/profile/properties";
    let fields = crd.pointer_mut(profile).unwrap().as_object_mut().unwrap();
    assert!(fields.remove("recreateForHandle").is_some());
    server.install(&crd).unwrap();
    stage.migrate(MOVE, "west", &json!({"healthyFor": "2s", "timeout": "60s"}));
    let is_told = |fleet: &Fleet| {
        let server = fleet.world.control_plane();
        let events = server
            .list(&EVENTS, Some("shop"), &ListOptions::default())
            .unwrap();
        let mut refused = events
            .items
            .iter()
            .filter(|event| event["reason"] == "StatusRefused");
        refused.any(|event| {
            event["message"]
                .as_str()
                .unwrap()
                .contains("cutover init --cluster")
        })
    };
    stage.fleet.until("it is told", is_told).await;
    assert_eq!((stage.fleet.count(&PINS), stage.fleet.count(&CLAIMS)), (0, 0));
    assert!(stage.runs_in("east"));
    stage.is_clean_after(1);
}

/// Its operator does nothing then, and says nothing.
#[tokio::test(start_paused = true)]
async fn where_the_session_cluster_of_the_target_is_not_ready_the_job_goes_on_in_the_source() {
    let stage = Stage::set(&[("west", "flink:broken")]).await;
    stage.migrate(MOVE, "west", &json!({"healthyFor": "2s", "timeout": "60s"}));
    let end = stage.fleet.ended(MOVE).await;
    assert_eq!(end, Phase::RolledBack, "{:#}", stage.fleet.status(MOVE));
    assert!(stage.runs_in("east"));
    stage.is_clean_after(2);
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_does_not_look_is_waited_for() {
    let stage = Stage::set_everywhere().await;
    stage.simulators("east", |simulators| simulators.freeze());
    stage.migrate(MOVE, "west", &json!({"healthyFor": "2s", "timeout": "60s"}));
    stage.fleet.phase(MOVE, Phase::Capture).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(
        stage.fleet.status(MOVE)["phase"],
        "Capture",
        "{:#}",
        stage.fleet.status(MOVE)
    );
    let key = ("shop".to_owned(), "clicks".to_owned());
    assert!(stage.simulators("east", |simulators| {
        simulators.jobs().in_sessions().can_write(&key)
    }));
    stage.simulators("east", |simulators| simulators.thaw());
    let end = stage.fleet.ended(MOVE).await;
    assert_eq!(end, Phase::Completed, "{:#}", stage.fleet.status(MOVE));
    stage.is_clean_after(2);
}

/// The job is gone with the `JobManager`, and its operator can't stop it with a savepoint any more.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_lost_while_it_is_to_leave_its_state_starts_nowhere_else() {
    let stage = Stage::set_everywhere().await;
    stage.simulators("east", |simulators| simulators.freeze());
    stage.migrate(MOVE, "west", &json!({"healthyFor": "2s", "timeout": "60s"}));
    stage.fleet.phase(MOVE, Phase::Capture).await;
    let key = ("shop".to_owned(), "session".to_owned());
    stage.simulators("east", |simulators| {
        simulators.jobs().restart_job_manager(&key);
        simulators.thaw();
    });
    let is_lost = |fleet: &Fleet| {
        let copy = object(&fleet.world, "east", &SESSION_JOBS, "clicks");
        copy["status"]["error"] == "Job Not Found"
    };
    stage.fleet.until("the job is lost", is_lost).await;
    tokio::time::sleep(Duration::from_mins(40)).await;
    let status = stage.fleet.status(MOVE);
    assert_eq!(status["phase"], "RolledBack", "{status:#}");
    let reason = status["journal"]["rollBack"]["reason"].as_str().unwrap();
    assert!(reason.contains("east: not healthy"), "{reason}");
    // It starts nowhere without its state.
    stage.is_clean_after(1);
}

/// The mode that Git asks for: no file names the move.
#[tokio::test]
async fn a_policy_edit_moves_a_session_job_where_that_is_asked_for() {
    let world = World::start(WorldOptions::fast());
    know_session_jobs(&world);
    let [policy, clicks] = [policy(), clicks()].map(|object| serde_json::to_string(&object).unwrap());
    let files = [NAMESPACE, ("policy.yaml", &*policy), ("clicks.yaml", &*clicks)];
    let plane = Plane::on(world.control_plane(), &files);
    plane.run().await;
    for cluster in ["east", "west"] {
        let has_namespace = || {
            let member = &world.member(cluster).api;
            member.get(&NAMESPACES, None, "shop").is_ok()
        };
        until("the namespace is there", has_namespace).await;
        create_session(&world, cluster, "flink:1.20");
        until("the session cluster is up", || session_is_ready(&world, cluster)).await;
    }
    let running = || ["east", "west"].map(|cluster| runs_in(&world, cluster));
    until("clicks runs", || running().contains(&true)).await;
    let [from, to] = match running() {
        [true, _] => ["east", "west"],
        _ => ["west", "east"],
    };
    let _running = plane.start();
    let elsewhere = policy
        .replace(r#"["east","west"]"#, &format!(r#"["{to}"]"#))
        .replace(
            r#""namespace":"shop"},"spec""#,
            r#""namespace":"shop","annotations":{"cutover.dev/migrations":"auto"}},"spec""#,
        );
    assert!(elsewhere.contains("auto"), "{elsewhere}");
    plane.push(&[("policy.yaml", &elsewhere)]);
    until("it runs there", || runs_in(&world, to) && !runs_in(&world, from)).await;
    assert!(verdict(&world).is_clean(), "{}", world.ledger());
    assert_eq!(verdict(&world).runs.len(), 2, "{}", world.ledger());
}
