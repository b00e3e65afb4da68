//! A member cluster that is tainted, deleted or cordoned: where the sync says so, it gets one Evacuation, which begins at once or when a
//! person approves it; and when the cause goes away, so does that.

use std::collections::BTreeSet;
use std::time::Duration;

use cutover::sandbox::api::{DeleteOptions, Patch, Resource};
use cutover::sandbox::{World, WorldOptions};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::immovable::{cron_workflow, install_cron_workflows};
use crate::placement::{job, policy, runs};
use crate::support::commands::Commands;
use crate::support::fleet::opened;
use crate::support::plane::{NAMESPACE, Plane, Running, settings};
use crate::support::roles;
use crate::support::wait::until;

const CLUSTERS: Resource = Resource::new("cluster.karmada.io", "clusters");
const EVACUATIONS: Resource = Resource::new("cutover.dev", "evacuations");
const MIGRATIONS: Resource = Resource::new("cutover.dev", "migrations");
const PLANS: Resource = Resource::new("cutover.dev", "failoverplans");
const CLAIMS: Resource = Resource::new("cutover.dev", "claims");
const BINDINGS: Resource = Resource::new("work.karmada.io", "resourcebindings");

const ASK: &str = "{mode: Ask, verify: {healthyFor: 1s}}";
const AUTO: &str = "{mode: Auto, verify: {healthyFor: 1s}}";
/// The target is watched for longer than any test takes, and one moves after the other.
const PATIENT: &str = "{mode: Auto, maxParallel: 1, verify: {healthyFor: 2h, timeout: 3h}}";

/// Of a policy: one cluster at a time.
const ONE: &str = "spreadConstraints: [{spreadByField: cluster, maxGroups: 1, minGroups: 1}]";
const JOB_KIND: &str = "flink.apache.org/v1beta1, kind: FlinkDeployment";
const WEB_KIND: &str = "apps/v1, kind: Deployment";
const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  replicas: 1\n  \
                   selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: \
                   [{name: web, image: 'web:1'}]}\n";

/// Returns a policy that tolerates taints.
fn tolerant(policy: &str, tolerations: &str) -> String {
    let placement = format!("placement: {{clusterTolerations: [{tolerations}], ");
    policy.replace("placement: {", &placement)
}

fn config(evacuations: &str) -> String {
    settings(&format!("- {{name: main, gate: {{evacuations: {evacuations}}}}}"))
}

/// Some jobs in one of two clusters, whose policies tolerate taints for so long; Karmada evicts what doesn't tolerate one.
struct Stage {
    world: World,
    plane: Plane,
    jobs: Vec<&'static str>,
    /// Where they run, and where they could.
    from: &'static str,
}

impl Stage {
    async fn with(evacuations: &str, jobs: &[&'static str], tolerations: &str) -> Self {
        let jobs: Vec<_> = jobs.iter().map(|name| (*name, tolerations)).collect();
        Self::of(evacuations, &jobs).await
    }

    /// `jobs`: each with what its policy tolerates.
    async fn of(evacuations: &str, jobs: &[(&'static str, &str)]) -> Self {
        let mut options = WorldOptions::fast();
        options.features.no_execute_eviction = true;
        // Cutover's clock: both count from when a cluster was tainted.
        options.start = Timestamp::now();
        let world = World::start(options);
        world.traffic().record();
        let mut files = vec![
            (NAMESPACE.0.to_owned(), NAMESPACE.1.to_owned()),
            ("cutover.yaml".to_owned(), config(evacuations)),
        ];
        for (name, tolerations) in jobs {
            let policy = tolerant(&policy(name, name, "east, west"), tolerations);
            let policy = policy.replace("placement: {", &format!("placement: {{{ONE}, "));
            files.push((format!("policies/{name}.yaml"), policy));
            files.push((format!("jobs/{name}.yaml"), job(name)));
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
        let plane = Plane::on(world.control_plane(), &files);
        plane.run().await;
        let jobs: Vec<&'static str> = jobs.iter().map(|(name, _)| *name).collect();
        let runs_in = |cluster: &str| jobs.iter().all(|name| runs(&world, cluster, name));
        until("all jobs run in one cluster", || {
            runs_in("east") || runs_in("west")
        })
        .await;
        let from = if runs_in("east") { "east" } else { "west" };
        Self {
            world,
            plane,
            jobs,
            from,
        }
    }

    async fn new(evacuations: &str) -> Self {
        Self::with(evacuations, &["orders"], TOLERATION).await
    }

    fn to(&self) -> &'static str {
        if self.from == "east" { "west" } else { "east" }
    }

    fn taint(&self) {
        self.set_taints(json!([{"key": "maintenance", "effect": "NoExecute", "timeAdded": self.now()}]));
    }

    fn now(&self) -> Timestamp {
        self.world.clock().now()
    }

    /// A Deployment in both clusters, which none of the settings means, tolerates the taint for as long as the jobs do: when Karmada takes
    /// it out, their time is over, too.
    async fn add_witness(&self) {
        let placed = tolerant(&policy("web", "web", "east, west"), TOLERATION).replace(JOB_KIND, WEB_KIND);
        self.plane.push(&[("web.yaml", WEB), ("policy.yaml", &placed)]);
        self.plane.run().await;
        until("it is in both clusters", || {
            self.lists("web-deployment").len() == 2
        })
        .await;
    }

    /// The time for which the taint is tolerated runs out a moment from now. Returns when Karmada has taken the witness out for that.
    async fn time_runs_out(&self) {
        let mut taints = self.cluster()["spec"]["taints"].clone();
        let mut all = taints.as_array_mut().unwrap().iter_mut();
        let taint = all.find(|taint| taint["key"] == "maintenance").unwrap();
        taint["timeAdded"] = json!(self.now() - Duration::from_secs(3599));
        self.set_taints(taints);
        until("Karmada evicts", || self.lists("web-deployment") == [self.to()]).await;
    }

    /// The clusters that a binding lists.
    fn lists(&self, binding: &str) -> Vec<String> {
        let binding = self
            .plane
            .get(&BINDINGS, Some("shop"), binding)
            .unwrap_or_default();
        let clusters = binding["spec"]["clusters"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let name = |cluster: &Value| cluster["name"].as_str().unwrap().to_owned();
        clusters.iter().map(name).collect()
    }

    /// Waits until a Migration is in a phase.
    async fn one_is_in(&self, phase: &str) {
        let is_there = || {
            self.migrations()
                .iter()
                .any(|one| one["status"]["phase"] == phase)
        };
        until(&format!("one is in {phase}"), is_there).await;
    }

    /// No person taints the cluster any more; what else has, still does.
    fn untaint(&self) {
        let taints = self.cluster()["spec"]["taints"].as_array().unwrap().clone();
        let is_own = |taint: &Value| {
            taint["key"]
                .as_str()
                .unwrap()
                .starts_with("evacuating.cutover.dev/")
        };
        self.set_taints(taints.into_iter().filter(is_own).collect());
    }

    /// A person approves what was planned, as the status says; it is carried out.
    async fn is_approved(&self) {
        let name = self.evacuations()[0]["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned();
        let commands = Commands::of(&self.world, &self.plane).await;
        let printed = commands.printed(&name).await;
        assert_eq!(printed, [format!("approve {name}")]);
        commands.done(&printed[0]).await;
        until("it has ended", || self.phases() == ["Completed"]).await;
    }

    fn set_taints(&self, taints: Value) {
        let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
        let server = &self.plane.server;
        server.patch(&CLUSTERS, None, self.from, None, &patch, "kubectl");
    }

    /// The keys of the taints of the cluster.
    fn taints(&self) -> Vec<String> {
        let cluster = self.cluster();
        let taints = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let key = |taint: &Value| taint["key"].as_str().unwrap().to_owned();
        taints.iter().map(key).collect()
    }

    fn cluster(&self) -> Value {
        self.plane.get(&CLUSTERS, None, self.from).unwrap()
    }

    fn answer(&self) -> Option<Value> {
        let cluster = self.cluster();
        let text = cluster["metadata"]["annotations"]["cutover.dev/evacuation-answer"].as_str()?;
        Some(serde_json::from_str(text).unwrap())
    }

    fn evacuations(&self) -> Vec<Value> {
        self.plane.server.list(&EVACUATIONS, None)
    }

    fn migrations(&self) -> Vec<Value> {
        self.plane.server.list(&MIGRATIONS, Some("shop"))
    }

    fn phases(&self) -> Vec<String> {
        let phase = |one: &Value| one["status"]["phase"].as_str().unwrap_or_default().to_owned();
        self.evacuations().iter().map(phase).collect()
    }

    fn waits_for_approval(&self) -> bool {
        let all = self.evacuations();
        all.iter()
            .any(|one| one["status"]["waitingFor"]["code"] == "Approval")
    }

    fn all_run_in(&self, cluster: &str) -> bool {
        self.jobs.iter().all(|name| runs(&self.world, cluster, name))
    }

    fn all_stayed(&self) {
        assert!(self.all_run_in(self.from), "{}", self.world.ledger());
        let runs = self.world.ledger().verdict().runs.len();
        assert_eq!(runs, self.jobs.len(), "{}", self.world.ledger());
        self.is_clean();
    }

    /// Nothing is lost, and nothing ran twice.
    fn loses_nothing(&self) {
        assert!(
            self.world.ledger().verdict().is_clean(),
            "{}",
            self.world.ledger()
        );
    }

    /// How many copies of jobs have run, without those of the witness.
    fn runs_of_jobs(&self) -> usize {
        let runs = self.world.ledger().verdict().runs;
        let of_jobs = runs.iter().filter(|run| run.workload.kind == "FlinkDeployment");
        of_jobs.count()
    }

    /// The same, and Karmada has evicted no job.
    fn is_clean(&self) {
        self.loses_nothing();
        for name in &self.jobs {
            let binding = self
                .plane
                .get(&BINDINGS, Some("shop"), &format!("{name}-flinkdeployment"));
            let binding = binding.unwrap();
            assert_eq!(binding["spec"].get("gracefulEvictionTasks"), None, "{binding:#}");
        }
    }

    /// A plan guards `orders`. Returns the reconciler that carries it out.
    async fn is_guarded(&self) -> Running {
        let plan = "apiVersion: cutover.dev/v1alpha1\nkind: FailoverPlan\nmetadata: {name: orders, namespace: shop}\nspec:\n  \
                    workload: {apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}\n";
        self.plane.push(&[("plan.yaml", plan)]);
        let running = self.plane.start();
        until("it is guarded", || self.guarded_in(self.from)).await;
        running
    }

    fn guarded_in(&self, cluster: &str) -> bool {
        let plan = self.plane.get(&PLANS, Some("shop"), "orders").unwrap_or_default();
        plan["status"]["phase"] == "Guarding" && plan["status"]["writer"] == cluster
    }

    /// The plan has brought it to the other cluster, with its state.
    async fn fails_over(&self) {
        until("it is guarded elsewhere", || self.guarded_in(self.to())).await;
        assert!(self.all_run_in(self.to()), "{}", self.world.ledger());
        self.loses_nothing();
    }

    /// No Evacuation has moved anything, or says so.
    fn nothing_moved(&self) {
        for one in self.evacuations() {
            let moves = one["status"]["moves"].as_array();
            assert!(moves.is_none_or(Vec::is_empty), "{one:#}");
        }
        assert!(self.migrations().is_empty());
    }

    /// Nothing of cutover's is left on the cluster.
    async fn is_forgotten(&self) {
        until("nothing is left of it", || {
            self.evacuations().is_empty() && self.answer().is_none() && self.taints().is_empty()
        })
        .await;
    }

    /// Asks for the deletion of the cluster, as `karmadactl unjoin` does; returns why that is refused.
    fn unjoined(&self) -> Result<(), String> {
        let server = self.world.control_plane();
        let gone = server.delete(&CLUSTERS, None, self.from, &DeleteOptions::default());
        gone.map(|_| ()).map_err(|refusal| refusal.message)
    }

    fn is_protected(&self) -> bool {
        self.protects(self.from)
    }

    fn protects(&self, cluster: &str) -> bool {
        let label = "resourcetemplate.karmada.io/deletion-protected";
        let cluster = self.plane.get(&CLUSTERS, None, cluster).unwrap();
        cluster["metadata"]["labels"][label] == "Always"
    }

    /// What the roles that come along have to allow for this: sync's other writes are the user's to allow.
    fn note_rights(&self) {
        let mut asked = roles::asked(self.world.traffic());
        asked.retain(|asked| ["evacuations", "clusters"].contains(&&*asked.resource));
        roles::keep(&asked);
    }

    async fn problems(&self) -> String {
        let report = self.plane.sync("main").await;
        let all: Vec<String> = report.all_problems().iter().map(ToString::to_string).collect();
        all.join("\n")
    }
}

/// Of all that runs in a cluster the jobs are meant.
const JOBS_ALONE: &str =
    "{mode: Auto, select: {kinds: [FlinkDeployment]}, verify: {healthyFor: 2h, timeout: 3h}}";
const FOR_EVER: &str = "{key: maintenance, operator: Exists, effect: NoExecute}";
const TOLERATION: &str = "{key: maintenance, operator: Exists, effect: NoExecute, tolerationSeconds: 3600}";

#[tokio::test]
async fn asked_first_nothing_moves_before_it_is_approved_and_then_with_its_state() {
    let stage = Stage::new(ASK).await;
    let _running = stage.plane.start();
    stage.taint();
    until("it asks", || stage.waits_for_approval()).await;
    let one = stage.evacuations()[0].clone();
    let planned = &one["status"]["moves"];
    assert_eq!(planned[0]["workload"]["name"], "orders", "{one:#}");
    assert_eq!(planned[0]["to"], stage.to(), "{one:#}");
    let name = one["metadata"]["name"].as_str().unwrap();
    assert!(stage.migrations().is_empty());
    assert_eq!(stage.taints(), ["maintenance"]);
    stage.all_stayed();

    stage.is_approved().await;
    assert!(stage.all_run_in(stage.to()), "{}", stage.world.ledger());
    assert_eq!(stage.world.ledger().verdict().runs.len(), 2);
    stage.is_clean();
    // Nothing comes back for as long as the taint is there.
    let own = format!("evacuating.cutover.dev/{name}");
    assert_eq!(stage.taints(), ["maintenance", &own]);
    stage.untaint();
    stage.is_forgotten().await;
    stage.is_clean();
}

#[tokio::test]
async fn where_nobody_is_asked_it_moves_at_once_and_once() {
    let stage = Stage::with(AUTO, &["orders", "payments"], TOLERATION).await;
    let running = stage.plane.start();
    stage.taint();
    until("it has ended", || stage.phases() == ["Completed"]).await;
    assert!(stage.all_run_in(stage.to()), "{}", stage.world.ledger());
    assert_eq!(stage.world.ledger().verdict().runs.len(), 4);
    assert_eq!(stage.migrations().len(), 2);
    until("it is answered", || {
        stage.answer().is_some_and(|answer| answer["created"] == true)
    })
    .await;
    // Another process finds that all is done; a person who has deleted it is not contradicted.
    drop(running);
    stage.plane.run().await;
    assert_eq!(stage.phases(), ["Completed"]);
    let name = stage.answer().unwrap()["evacuation"].as_str().unwrap().to_owned();
    stage.plane.server.delete(&EVACUATIONS, None, &name);
    let running = stage.plane.start();
    until("it is gone", || stage.evacuations().is_empty()).await;
    drop(running);
    stage.plane.run().await;
    stage.plane.run().await;
    assert!(stage.evacuations().is_empty(), "{:?}", stage.phases());
    stage.is_clean();
}

#[tokio::test]
async fn a_taint_that_goes_before_the_approval_takes_it_along() {
    let stage = Stage::new(ASK).await;
    let _running = stage.plane.start();
    stage.taint();
    until("it asks", || stage.waits_for_approval()).await;
    let first = stage.evacuations()[0]["metadata"]["uid"].clone();
    stage.set_taints(json!([]));
    stage.is_forgotten().await;
    stage.all_stayed();
    // Tainted again, it is asked again.
    stage.taint();
    until("it asks again", || stage.waits_for_approval()).await;
    assert_ne!(stage.evacuations()[0]["metadata"]["uid"], first);
    stage.all_stayed();
    stage.note_rights();
}

#[tokio::test]
async fn a_taint_that_goes_while_one_of_two_moves_brings_it_back() {
    let stage = Stage::with(PATIENT, &["orders", "payments"], TOLERATION).await;
    let _running = stage.plane.start();
    stage.taint();
    stage.one_is_in("Verify").await;
    let own = stage.taints().pop().unwrap();
    assert!(own.starts_with("evacuating.cutover.dev/"), "{own}");
    stage.untaint();
    stage.is_forgotten().await;
    until("both run where they did", || stage.all_run_in(stage.from)).await;
    until("nothing is claimed", || {
        stage.plane.server.list(&CLAIMS, None).is_empty()
    })
    .await;
    stage.is_clean();
}

/// Killed at each write, with and without an answer: the next process goes on with the one that is named.
#[tokio::test]
async fn a_process_that_dies_at_any_write_leaves_one_evacuation() {
    let mut seen = BTreeSet::new();
    for (write, answered) in (0..5).flat_map(|write| [(write, false), (write, true)]) {
        let stage = Stage::new(ASK).await;
        stage.taint();
        assert!(stage.plane.run_until(write, answered).await, "{write}");
        seen.insert((stage.answer().is_some(), stage.evacuations().len()));
        let named = stage.answer().map(|answer| answer["evacuation"].clone());
        stage.plane.run().await;
        stage.plane.run().await;
        let all = stage.evacuations();
        assert_eq!(all.len(), 1, "{write} {answered}");
        let name = &all[0]["metadata"]["name"];
        assert_eq!(stage.answer().unwrap()["created"], true, "{write} {answered}");
        assert!(named.is_none_or(|named| named == *name), "{write} {answered}");
        assert!(stage.waits_for_approval(), "{write} {answered}: {:#}", all[0]);
        stage.all_stayed();
    }
    let expected = BTreeSet::from([(false, 0), (true, 0), (true, 1)]);
    assert_eq!(seen, expected, "it died between all lines");
}

#[tokio::test]
async fn the_evacuation_of_a_person_is_enough() {
    let stage = Stage::new(AUTO).await;
    let asked = format!(
        "apiVersion: cutover.dev/v1alpha1\nkind: Evacuation\nmetadata: {{name: by-hand}}\n\
         spec: {{cluster: {}, approval: {{before: [Moving]}}}}\n",
        stage.from
    );
    stage.plane.push(&[("intents/by-hand.yaml", &asked)]);
    stage.plane.run().await;
    assert!(stage.waits_for_approval());
    stage.taint();
    stage.plane.run().await;
    stage.plane.run().await;
    assert_eq!(stage.phases(), ["Preflight"]);
    assert_eq!(stage.answer().unwrap()["evacuation"], "by-hand");
    // It is not cutover's to call off.
    stage.set_taints(json!([]));
    stage.plane.run().await;
    assert_eq!(
        (stage.phases(), stage.answer()),
        (vec!["Preflight".to_owned()], None)
    );
    stage.all_stayed();
}

#[tokio::test]
async fn where_nothing_has_state_or_nobody_asks_for_it_there_is_none() {
    let placed = policy("web", "web", "east").replace(JOB_KIND, WEB_KIND);
    let lists = |stage: &Stage| {
        stage
            .world
            .traffic()
            .count(|asked| asked.verb == "list" && asked.resource.contains("clusters"))
    };
    let mut asked = Vec::new();
    for evacuations in [AUTO, "{mode: Manual}"] {
        let stage = Stage::with(evacuations, &[], TOLERATION).await;
        stage.plane.push(&[("web.yaml", WEB), ("policy.yaml", &placed)]);
        stage.plane.run().await;
        let before = lists(&stage);
        stage.set_taints(json!([{"key": "maintenance", "effect": "NoExecute"}]));
        stage.plane.run().await;
        asked.push(lists(&stage) - before);
        assert!(stage.evacuations().is_empty(), "{evacuations}");
        assert_eq!(stage.answer(), None, "{evacuations}");
    }
    let stage = Stage::new("{mode: Manual}").await;
    stage.plane.writes();
    stage.set_taints(json!([{"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}]));
    let before = lists(&stage);
    stage.plane.run().await;
    asked.push(lists(&stage) - before);
    assert_eq!(
        (asked[0] > asked[1], asked[1] == asked[2]),
        (true, true),
        "{asked:?}"
    );
    assert!(stage.evacuations().is_empty());
    stage.all_stayed();
}

/// It cannot be moved, and what it works on is where every cluster reaches it: there is nothing to be saved.
#[tokio::test]
async fn a_cron_workflow_alone_sets_nothing_off_and_keeps_no_cluster() {
    let placed =
        policy("tick", "tick", "east, west").replace(JOB_KIND, "argoproj.io/v1alpha1, kind: CronWorkflow");
    let placed = tolerant(&placed, TOLERATION);
    let tick = cron_workflow().to_string();
    let stage = Stage::with(AUTO, &[], TOLERATION).await;
    install_cron_workflows(&stage.world);
    until("Karmada knows that the clusters have the kind", || {
        ["east", "west"].into_iter().all(|name| {
            let cluster = stage.plane.get(&CLUSTERS, None, name).unwrap_or_default();
            let served = cluster["status"]["apiEnablements"].to_string();
            served.contains("CronWorkflow")
        })
    })
    .await;
    stage
        .plane
        .push(&[("tick.yaml", &tick), ("policy.yaml", &placed)]);
    let running = stage.plane.start();
    until("it runs there", || {
        stage.lists("tick-cronworkflow").contains(&stage.from.to_owned())
    })
    .await;
    until("it is protected", || stage.is_protected()).await;
    stage.taint();
    until("it is not protected any more", || !stage.is_protected()).await;
    assert!(stage.evacuations().is_empty(), "{:?}", stage.phases());
    assert_eq!(stage.answer(), None);
    drop(running);
    let told = stage.problems().await;
    assert!(!told.contains("CronWorkflow"), "{told}");
}

/// It is not moved in the time that a taint leaves, and what it works on is where every cluster reaches it: there is nothing to be saved.
#[tokio::test]
async fn a_cron_job_alone_sets_nothing_off_and_keeps_no_cluster() {
    let placed = policy("tick", "tick", "east, west").replace(JOB_KIND, "batch/v1, kind: CronJob");
    let placed = tolerant(&placed, TOLERATION);
    let tick = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: tick, namespace: shop}\nspec:\n  schedule: 0 3 * * *\n  \
                jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: tick, image: 'tick:1'}]}}}}\n";
    let stage = Stage::with(AUTO, &[], TOLERATION).await;
    stage.plane.push(&[("tick.yaml", tick), ("policy.yaml", &placed)]);
    let running = stage.plane.start();
    until("it runs there", || {
        stage.lists("tick-cronjob").contains(&stage.from.to_owned())
    })
    .await;
    until("it is protected", || stage.is_protected()).await;
    stage.taint();
    until("it is not protected any more", || !stage.is_protected()).await;
    assert!(stage.evacuations().is_empty(), "{:?}", stage.phases());
    assert_eq!(stage.answer(), None);
    drop(running);
    let told = stage.problems().await;
    assert!(!told.contains("CronJob"), "{told}");
}

#[tokio::test]
async fn a_cordon_counts_where_it_is_listed() {
    let cordon = || json!([{"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}]);
    let stage = Stage::new("{mode: Ask, causes: [Cordon], verify: {healthyFor: 1s}}").await;
    stage.set_taints(cordon());
    let _running = stage.plane.start();
    until("it asks", || stage.waits_for_approval()).await;
    stage.set_taints(json!([]));
    stage.is_forgotten().await;
    stage.all_stayed();
    // Cordoned again, it is asked again, and moves when that is approved.
    stage.set_taints(cordon());
    until("it asks again", || stage.waits_for_approval()).await;
    stage.all_stayed();
    stage.is_approved().await;
    assert!(stage.all_run_in(stage.to()), "{}", stage.world.ledger());
    assert_eq!(stage.world.ledger().verdict().runs.len(), 2);
    stage.is_clean();
    stage.untaint();
    stage.is_forgotten().await;
    stage.is_clean();
}

/// Two jobs would stay for ever, the third one is evicted in an hour.
#[tokio::test]
async fn what_karmada_evicts_first_moves_first() {
    let jobs = [("batch", FOR_EVER), ("clicks", FOR_EVER), ("orders", TOLERATION)];
    let stage = Stage::of(PATIENT, &jobs).await;
    let _running = stage.plane.start();
    stage.taint();
    stage.one_is_in("Verify").await;
    let moved: Vec<Value> = stage
        .migrations()
        .iter()
        .map(|one| one["spec"]["workload"]["name"].clone())
        .collect();
    assert_eq!(moved, ["orders"]);
    let moves = stage.evacuations()[0]["status"]["moves"].clone();
    let names: Vec<&Value> = moves
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["workload"]["name"])
        .collect();
    assert_eq!(names, ["orders", "batch", "clicks"]);
    stage.is_clean();
}

/// The target is watched for longer than the taint is tolerated.
#[tokio::test]
async fn a_toleration_that_runs_out_while_the_target_is_watched_does_no_harm() {
    let stage = Stage::with(JOBS_ALONE, &["orders"], TOLERATION).await;
    stage.add_witness().await;
    let _running = stage.plane.start();
    stage.taint();
    stage.one_is_in("Verify").await;
    stage.time_runs_out().await;
    assert_eq!(stage.migrations()[0]["status"]["phase"], "Verify");
    assert!(stage.all_run_in(stage.to()), "{}", stage.world.ledger());
    stage.is_clean();
    // It goes back to where nothing evicts any more.
    stage.untaint();
    stage.is_forgotten().await;
    until("it runs where it did", || stage.all_run_in(stage.from)).await;
    stage.is_clean();
}

/// The source has yet to stop with its state when its time is over.
#[tokio::test]
async fn a_toleration_that_runs_out_before_the_source_has_stopped_does_no_harm() {
    let evacuations = JOBS_ALONE.replace("healthyFor: 2h", "healthyFor: 1s");
    let stage = Stage::with(&evacuations, &["orders"], TOLERATION).await;
    stage.add_witness().await;
    let _running = stage.plane.start();
    let source = stage.world.member(stage.from);
    // Jobs run on, and nothing stops them.
    source.simulators(|operators| operators.freeze());
    stage.taint();
    stage.one_is_in("Capture").await;
    stage.time_runs_out().await;
    assert_eq!(stage.migrations()[0]["status"]["phase"], "Capture");
    assert_eq!(stage.runs_of_jobs(), 1, "{}", stage.world.ledger());
    stage.is_clean();
    source.simulators(|operators| operators.thaw());
    until("it has ended", || stage.phases() == ["Completed"]).await;
    assert!(stage.all_run_in(stage.to()), "{}", stage.world.ledger());
    assert_eq!(stage.runs_of_jobs(), 2, "{}", stage.world.ledger());
    stage.is_clean();
}

/// It stays under guard there until the taint goes. The others have no time for that.
#[tokio::test]
async fn one_that_comes_back_keeps_none_of_the_others_waiting() {
    let stage = Stage::with(PATIENT, &["orders", "payments"], TOLERATION).await;
    let _running = stage.plane.start();
    stage.taint();
    let verifies = |one: &Value| one["status"]["phase"] == "Verify";
    until("the first one is watched", || {
        stage.migrations().iter().any(verifies)
    })
    .await;
    let first = stage.migrations()[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let abort = Patch::Merge(json!({"spec": {"abort": true}}));
    let server = &stage.plane.server;
    server.patch(&MIGRATIONS, Some("shop"), &first, None, &abort, "kubectl");
    until("the second one is watched", || {
        let all = stage.migrations();
        all.iter()
            .filter(|one| verifies(one))
            .any(|one| one["metadata"]["name"] != *first)
    })
    .await;
    let one = stage.evacuations()[0].clone();
    let moves = one["status"]["moves"].as_array().unwrap();
    let failed = moves.iter().find(|one| one["by"] == *first).unwrap();
    let note = failed["note"].as_str().unwrap();
    let all = stage.migrations();
    let back = all.iter().find(|one| one["metadata"]["name"] == *first).unwrap();
    let journal = opened(&back["status"])["journal"].clone();
    let why = journal["rollBack"]["reason"].as_str().unwrap();
    assert!(!why.is_empty(), "{journal:#}");
    let told = format!("{why}: it is back in {}", stage.from);
    assert!(note.starts_with(&told), "{one:#}");
    assert_eq!(failed["state"], "Failed", "{one:#}");
    until("the first one says that it waits for its placement", || {
        let all = stage.migrations();
        let back = all.iter().find(|one| one["metadata"]["name"] == *first).unwrap();
        let mut conditions = back["status"]["conditions"].as_array().unwrap().iter();
        conditions.any(|condition| condition["type"] == "AwaitsPlacement" && condition["status"] == "True")
    })
    .await;
    stage.is_clean();
}

/// Karmada deletes all copies in a cluster together with its Cluster: there would be no time to move them.
#[tokio::test]
async fn the_deletion_of_a_cluster_is_refused_until_it_has_been_emptied() {
    let stage = Stage::new(AUTO).await;
    let _running = stage.plane.start();
    until("it is protected", || stage.is_protected()).await;
    let refused = stage.unjoined().unwrap_err();
    assert!(refused.contains("This resource is protected"), "{refused}");
    stage.all_stayed();
    stage.taint();
    until("it has ended", || stage.phases() == ["Completed"]).await;
    until("it is not protected any more", || !stage.is_protected()).await;
    assert!(stage.all_run_in(stage.to()), "{}", stage.world.ledger());
    stage.is_clean();
    assert_eq!(stage.unjoined(), Ok(()));
    stage.note_rights();
}

/// What cannot be done for one cluster keeps no other one, and nothing else, waiting.
#[tokio::test]
async fn an_evacuation_that_cannot_be_created_keeps_no_cluster_unprotected() {
    let stage = Stage::new("{mode: Manual}").await;
    stage.taint();
    stage
        .plane
        .refuse(&["POST /apis/cutover.dev/v1alpha1/evacuations"]);
    stage.plane.push(&[("cutover.yaml", &config(AUTO))]);
    let _running = stage.plane.start();
    until("all clusters are protected", || {
        ["east", "north", "west"].iter().all(|name| stage.protects(name))
    })
    .await;
    assert!(stage.evacuations().is_empty());
    stage.all_stayed();
}

#[tokio::test]
async fn what_waits_for_a_person_is_told_with_its_time() {
    let stage = Stage::new(ASK).await;
    stage.taint();
    stage.plane.run().await;
    stage.plane.run().await;
    assert!(stage.waits_for_approval());
    let told = stage.problems().await;
    assert!(
        told.contains("shop/orders is not being moved") && told.contains("approval of Moving"),
        "{told}"
    );
    stage.all_stayed();
}

/// Its policy tolerates nothing, and Karmada is faster: the guard holds what it creates elsewhere.
#[tokio::test]
async fn without_time_a_failover_plan_keeps_the_state() {
    let stage = Stage::with(AUTO, &["orders"], "").await;
    stage.is_guarded().await.stop().await;
    stage.taint();
    until("Karmada has evicted it", || {
        !stage
            .lists("orders-flinkdeployment")
            .contains(&stage.from.to_owned())
    })
    .await;
    let running = stage.plane.start();
    stage.fails_over().await;
    // Whoever looks while the plan lists the old copy again finds it in the cluster; what that sets off has nothing to move.
    until("no Evacuation goes on", || {
        stage.phases().iter().all(|phase| phase == "Completed")
    })
    .await;
    running.stop().await;
    // The state is safe, and nothing says otherwise, or that something was moved.
    let told = stage.problems().await;
    for untrue in ["may lose its state", "is not being moved", "is not evacuated"] {
        assert!(!told.contains(untrue), "{told}");
    }
    let is_carried_out = stage.answer().is_some_and(|answer| answer["created"] == true);
    assert_eq!(stage.evacuations().len(), usize::from(is_carried_out));
    stage.nothing_moved();
}

/// Its time is over before a person has approved the move.
#[tokio::test]
async fn what_waited_for_too_long_is_failed_over_and_the_evacuation_has_nothing_left_to_move() {
    let stage = Stage::with(ASK, &["orders"], TOLERATION).await;
    stage.add_witness().await;
    let _running = stage.is_guarded().await;
    stage.taint();
    until("it asks", || stage.waits_for_approval()).await;
    stage.time_runs_out().await;
    stage.fails_over().await;
    until("it asks for what is left", || {
        let all = stage.evacuations();
        let asks = all[0]["status"]["waitingFor"]["reason"].as_str();
        asks.is_some_and(|asks| asks.contains(": 0 workloads of "))
    })
    .await;
    assert_eq!(stage.answer().unwrap()["created"], true);
    stage.is_approved().await;
    stage.nothing_moved();
    assert!(stage.all_run_in(stage.to()), "{}", stage.world.ledger());
    stage.untaint();
    stage.is_forgotten().await;
    stage.loses_nothing();
}
