//! `CronJob`s: a tick is run in one cluster, once, although no status says that a controller has seen the suspension.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cutover::api::Phase;
use cutover::profile::built_in;
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{ListOptions, Resource};
use cutover::sandbox::ledger::Verdict;
use cutover::sandbox::member::cron_job::RUNS_FOR;
use serde_json::{Value, json};

use crate::support::fleet::{Controller, Fleet, MIGRATIONS, POLICIES};
use crate::support::many::named_policy;
use crate::support::wait::wait_for;

const CRON_JOBS: Resource = Resource::new("batch", "cronjobs");
const PODS: Resource = Resource::new("", "pods");
const MOVE: &str = "tick-moves";

/// It is due every minute.
fn tick(runs_for: u32) -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "tick", "image": "tick:1"}]});
    let template = json!({"metadata": {"labels": {"workload": "tick"}}, "spec": pod});
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "shop", "annotations": {RUNS_FOR: runs_for.to_string()}},
        "spec": {
            "schedule": "* * * * *", "startingDeadlineSeconds": 60, "jobTemplate": {"spec": {"template": template}},
        },
    })
}

struct Stage {
    fleet: Fleet,
    _controller: Controller,
    /// The clusters in which each tick was ever seen to run: the pods of a copy that is deleted go with it.
    ran: RefCell<BTreeMap<String, BTreeSet<&'static str>>>,
}

impl Stage {
    /// `tick` has run in east.
    async fn set(runs_for: u32) -> Self {
        let fleet = Fleet::start(WorldOptions::default()).await;
        let one = json!({
            "clusterAffinity": {"clusterNames": ["east", "west"]},
            "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
        });
        fleet.apply(&POLICIES, named_policy("tick", "batch/v1", "CronJob", one));
        fleet.apply(&CRON_JOBS, tick(runs_for));
        let stage = Self {
            _controller: fleet.controller(Arc::new(NoFailpoints)),
            fleet,
            ran: RefCell::default(),
        };
        stage.ticks_on("east").await;
        stage
    }

    /// The pods of a cluster, each with whether it has ended.
    fn pods(&self, cluster: &str) -> BTreeMap<String, bool> {
        let api = &self.fleet.world.member(cluster).api;
        let pods = api.list(&PODS, Some("shop"), &ListOptions::default()).unwrap();
        let own = |pod: &&Arc<Value>| pod["metadata"]["labels"]["workload"] == "tick";
        let named = |pod: &Arc<Value>| {
            let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
            (name, pod["status"]["phase"] == "Succeeded")
        };
        pods.items.iter().filter(own).map(named).collect()
    }

    fn runs_in(&self, cluster: &str) -> bool {
        self.pods(cluster).values().any(|ended| !ended)
    }

    /// Waits for the next tick that runs in a cluster.
    async fn ticks_on(&self, cluster: &str) {
        let before = self.pods(cluster).len();
        let ticks = |_: &Fleet| self.pods(cluster).len() > before && self.runs_in(cluster);
        self.until(&format!("a tick runs in {cluster}"), ticks).await;
    }

    /// Notes the ticks that are seen to run, or to have run.
    fn note_ticks(&self) {
        for cluster in ["east", "west"] {
            for pod in self.pods(cluster).into_keys() {
                let (tick, _) = pod.rsplit_once('-').unwrap();
                let mut ran = self.ran.borrow_mut();
                ran.entry(tick.to_owned()).or_default().insert(cluster);
            }
        }
    }

    /// How many ticks a cluster was ever seen to run.
    fn ticks_in(&self, cluster: &str) -> usize {
        let ran = self.ran.borrow();
        ran.values().filter(|clusters| clusters.contains(cluster)).count()
    }

    /// Waits, and looks all the time.
    async fn until(&self, what: &str, holds: impl Fn(&Fleet) -> bool) {
        let looks = || {
            self.note_ticks();
            holds(&self.fleet)
        };
        let story = || format!("{:#}", self.fleet.status(MOVE));
        wait_for(what)
            .within(Duration::from_mins(20))
            .every(Duration::from_millis(50))
            .until_or(looks, story)
            .await;
    }

    fn migrate(&self, name: &str, to: &str, verify: &Value) {
        self.fleet.migrate_with(
            name,
            json!({
                "workload": {"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick"}, "to": to, "verify": verify,
            }),
        );
    }

    async fn ends_as(&self, name: &str, wanted: &str) {
        const ENDS: [&str; 5] = ["Completed", "RolledBack", "Failed", "Aborted", "RollbackFailed"];
        let phase = |fleet: &Fleet| {
            fleet.status(name)["phase"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        self.until("it ends", |fleet| ENDS.contains(&phase(fleet).as_str()))
            .await;
        assert_eq!(phase(&self.fleet), wanted, "{:#}", self.fleet.status(name));
    }

    async fn moves(&self, name: &str, to: &str) {
        self.migrate(name, to, &json!({"healthyFor": "2s", "timeout": "60s"}));
        self.ends_as(name, "Completed").await;
    }

    /// Each tick was run once, and never two Jobs in two clusters.
    fn is_clean(&self) {
        self.note_ticks();
        let ran = self.ran.borrow();
        assert!(ran.values().all(|clusters| clusters.len() == 1), "{ran:#?}");
        assert!(self.verdict().is_clean(), "{}", self.fleet.world.ledger());
    }

    fn verdict(&self) -> Verdict {
        let verdict = self.fleet.world.ledger().verdict();
        verdict.about(|workload| workload.kind == "CronJob")
    }
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_moves_there_and_back_and_no_tick_is_run_twice() {
    let stage = Stage::set(10).await;
    stage.moves(MOVE, "west").await;
    let status = stage.fleet.status(MOVE).to_string();
    assert!(
        status.contains("its operator does not say when it has seen the stop"),
        "{status}"
    );
    stage.ticks_on("west").await;
    stage.is_clean();
    stage.moves("tick-returns", "east").await;
    stage.ticks_on("east").await;
    stage.is_clean();
}

/// It makes up for no tick that the target has run.
#[tokio::test(start_paused = true)]
async fn one_that_is_called_off_goes_on_in_the_source_after_the_targets_last_tick() {
    let stage = Stage::set(10).await;
    stage.migrate(MOVE, "west", &json!({"healthyFor": "1h", "timeout": "2h"}));
    stage.ticks_on("west").await;
    stage
        .fleet
        .patch(&MIGRATIONS, MOVE, json!({"spec": {"abort": true}}));
    stage.ends_as(MOVE, "Aborted").await;
    stage.ticks_on("east").await;
    stage.is_clean();
}

/// The Job that has begun in the target goes on to its end before the source goes on.
#[tokio::test(start_paused = true)]
async fn one_that_is_called_off_ends_no_job_of_the_target() {
    let stage = Stage::set(10).await;
    stage.fleet.patch(
        &CRON_JOBS,
        "tick",
        json!({"metadata": {"annotations": {RUNS_FOR: "200"}}}),
    );
    stage.migrate(MOVE, "west", &json!({"healthyFor": "1h", "timeout": "2h"}));
    stage.ticks_on("west").await;
    let begun = stage.pods("west");
    stage
        .fleet
        .patch(&MIGRATIONS, MOVE, json!({"spec": {"abort": true}}));
    let ended = |pod: &String| stage.pods("west").get(pod) == Some(&true);
    stage
        .until("what has begun in west has ended there", |_| {
            begun.keys().all(ended)
        })
        .await;
    stage.ends_as(MOVE, "Aborted").await;
    stage.ticks_on("east").await;
    stage.is_clean();
}

/// A suspension ends no Job.
#[tokio::test(start_paused = true)]
async fn a_job_that_has_begun_is_waited_for() {
    let stage = Stage::set(200).await;
    stage.migrate(MOVE, "west", &json!({"healthyFor": "2s", "timeout": "60s"}));
    stage.fleet.phase(MOVE, Phase::Capture).await;
    stage
        .until("it has ended in east", |_| !stage.runs_in("east"))
        .await;
    assert_eq!(stage.pods("west").len(), 0, "{:#}", stage.fleet.status(MOVE));
    stage.ends_as(MOVE, "Completed").await;
    stage.is_clean();
}

impl Stage {
    /// The controller of east goes by what it read two minutes ago, and creates another Job after the suspension. Returns how the ledger sees that.
    async fn moves_from_a_late_controller(&self) -> Verdict {
        self.until("it has ended in east", |_| !self.runs_in("east"))
            .await;
        let late = Duration::from_secs(110);
        self.fleet.world.faults().lag("operators/east", late);
        self.note_ticks();
        let before = self.ticks_in("east");
        self.migrate(MOVE, "west", &json!({"healthyFor": "2s", "timeout": "60s"}));
        self.ends_as(MOVE, "Completed").await;
        let has_ended = || self.pods("west").values().any(|ended| *ended);
        let ticks = |_: &Fleet| has_ended() && self.ticks_in("east") > before;
        self.until("both have run a tick since", ticks).await;
        self.verdict()
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_late_runs_no_tick_beside_the_target() {
    let stage = Stage::set(10).await;
    let verdict = stage.moves_from_a_late_controller().await;
    assert!(verdict.is_clean(), "{verdict:#?}");
    stage.is_clean();
}

/// What `settleFor` is there for.
#[tokio::test(start_paused = true)]
async fn without_the_time_to_settle_it_would_run_one_beside_the_target() {
    const PROFILES: Resource = Resource::new("cutover.dev", "workloadprofiles");
    let built_in = built_in().unwrap().iter();
    let mut built_in = built_in.filter(|profile| profile.metadata.name.as_deref() == Some("cronjob"));
    let mut hasty = serde_json::to_value(built_in.next().unwrap()).unwrap();
    hasty["metadata"]["name"] = json!("hasty");
    assert!(
        hasty["spec"]
            .as_object_mut()
            .unwrap()
            .remove("settleFor")
            .is_some()
    );
    let stage = Stage::set(10).await;
    stage.fleet.create(&PROFILES, None, hasty);
    let verdict = stage.moves_from_a_late_controller().await;
    assert!(!verdict.is_clean(), "{verdict:#?}");
}
