//! What `cutover plan` and `cutover review` say that intents would do, on a control plane where what they are about runs.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use cutover::sandbox::api::{ListOptions, Resource};
use cutover::sandbox::world::Kubeconfigs;
use cutover::sandbox::{World, WorldOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::review::ORDERS;
use crate::support::served::{as_text, stderr, stdout};

const BASE: &[(&str, &str)] = &[
    (
        "cutover.yaml",
        "apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs:\n- {name: main}\n",
    ),
    (
        "namespace.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
    ),
    ("web.yaml", WEB),
    ("api.yaml", API),
    ("orders.yaml", ORDERS),
    ("policies.yaml", POLICIES),
];

const WEB: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'web:1'}]}
";

const API: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop}
spec:
  replicas: 8
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec: {containers: [{name: api, image: 'api:1'}]}
";

const POLICIES: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement: {clusterAffinity: {clusterNames: [east, north, west]}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: api, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: api}]
  placement: {clusterAffinity: {clusterNames: [east]}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: orders, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}]
  propagateDeps: true
  failover:
    application: {decisionConditions: {tolerationSeconds: 60}, purgeMode: Never}
  placement:
    clusterAffinity: {clusterNames: [east, west]}
    spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]
";

const ROLLOUT: &str = "apiVersion: cutover.dev/v1alpha1
kind: Rollout
metadata: {name: web, namespace: shop}
spec:
  workload: {apiVersion: apps/v1, kind: Deployment, name: web}
  waves:
  - {clusters: [west], soak: 10m}
  - {clusters: [north, south]}
  approval: {beforeWaves: [2]}
  onFailure: Undo
";

const SHIFT: &str = "apiVersion: cutover.dev/v1alpha1
kind: ReplicaShift
metadata: {name: api-to-west, namespace: shop}
spec:
  workload: {apiVersion: apps/v1, kind: Deployment, name: api}
  from: {cluster: east}
  to: west
  percentages: [25, 50, 100]
  pause: {each: 30s, approval: [50]}
";

const EVACUATION: &str = "apiVersion: cutover.dev/v1alpha1
kind: Evacuation
metadata: {name: drain-east}
spec: {cluster: east, unmovable: Leave}
";

const REBALANCE: &str = "apiVersion: cutover.dev/v1alpha1
kind: Rebalance
metadata: {name: spread}
spec: {dryRun: true}
";

const PLAN: &str = "apiVersion: cutover.dev/v1alpha1
kind: FailoverPlan
metadata: {name: orders, namespace: shop}
spec:
  workload: {apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}
  sourceUnreachable: {proceedAfter: 10m, fencedBy: Approval}
  purge: {confirm: true}
";

const SUSPENSION: &str = "apiVersion: cutover.dev/v1alpha1
kind: Suspension
metadata: {name: freeze, namespace: shop}
spec:
  target: {policy: {name: web}}
  clusters: [north, west]
  reason: a release of the shop
";

/// Ids of commits, and of a plan.
const COMMITS: [(&str, &str); 3] = [
    (r"https?://127\.0\.0\.1:\d+/", "http://karmada/"),
    (r"`[0-9a-f]{8}\.\.[0-9a-f]{8}`", "`········..········`"),
    (r"hash `[0-9a-f]{16}`", "hash `················`"),
];

/// A control plane where the base runs, and a clone.
struct Stage {
    world: World,
    /// While it is kept, the servers are reached.
    _served: Kubeconfigs,
    dir: TempDir,
}

impl Stage {
    async fn begin() -> Self {
        let world = World::start(WorldOptions::default());
        for crd in cutover::api::crds() {
            world
                .control_plane()
                .install(&serde_json::to_value(crd).unwrap())
                .unwrap();
        }
        let dir = tempfile::tempdir().unwrap();
        let served = world
            .serve("127.0.0.1:0".parse().unwrap(), dir.path())
            .await
            .unwrap();
        let stage = Self {
            world,
            _served: served,
            dir,
        };
        std::fs::create_dir(stage.clone()).unwrap();
        stage.git(&["init", "-q"]);
        stage.commit(BASE);
        stage.syncs();
        stage.everything_runs().await;
        stage
    }

    fn clone(&self) -> PathBuf {
        self.dir.path().join("clone")
    }

    fn git(&self, arguments: &[&str]) {
        let settings = ["user.name=a", "user.email=a@b", "init.defaultBranch=main"];
        let output = Command::new("git")
            .current_dir(self.clone())
            .args(settings.iter().flat_map(|setting| ["-c", *setting]))
            .args(arguments)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }

    fn commit(&self, files: &[(&str, &str)]) {
        for (path, content) in files {
            std::fs::write(self.clone().join(path), content).unwrap();
        }
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "change"]);
    }

    fn cutover(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_cutover"))
            .current_dir(self.clone())
            .args(arguments)
            .env("KUBECONFIG", self.dir.path().join("karmada.kubeconfig"))
            .env("CUTOVER_STATE_DIR", self.dir.path().join("state"))
            .env("HOME", "/nonexistent")
            .output()
            .unwrap()
    }

    fn syncs(&self) {
        let output = self.cutover(&["run", "--once", "--repo", as_text(&self.clone())]);
        assert!(output.status.success(), "{}", stderr(&output));
    }

    async fn everything_runs(&self) {
        let in_member = |cluster: &str, resource: &Resource, name: &str| {
            let member = self.world.member(cluster);
            member.api.get(resource, Some("shop"), name).is_ok_and(|copy| {
                let status = &copy["status"];
                status["jobStatus"]["state"] == "RUNNING"
                    || status["availableReplicas"].as_u64() == copy["spec"]["replicas"].as_u64()
                        && status["availableReplicas"].is_u64()
            })
        };
        let deployments = Resource::new("apps", "deployments");
        let jobs = Resource::new("flink.apache.org", "flinkdeployments");
        let began = Instant::now();
        loop {
            let web = ["east", "north", "west"]
                .iter()
                .all(|cluster| in_member(cluster, &deployments, "web"));
            if web && in_member("east", &deployments, "api") && in_member("east", &jobs, "orders") {
                return;
            }
            assert!(began.elapsed() < Duration::from_mins(1), "the base doesn't run");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns what a plan of the last commit says of the only change there is, up to the fields.
    fn told(&self) -> String {
        let output = self.cutover(&["plan", "--revision", "HEAD~1..HEAD", "--diff", "fields"]);
        // 1: an intent would be refused.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
        let text = stdout(&output);
        let told = text
            .lines()
            .take_while(|line| !line.starts_with("  + ") && !line.is_empty());
        told.collect::<Vec<_>>().join("\n")
    }

    /// Nothing that an intent would write is there.
    fn assert_untouched(&self) {
        let server = self.world.control_plane();
        for (group, plural) in [
            ("cutover.dev", "claims"),
            ("cutover.dev", "migrations"),
            ("policy.karmada.io", "overridepolicies"),
            ("apps.karmada.io", "workloadrebalancers"),
        ] {
            let list = server.list(&Resource::new(group, plural), None, &ListOptions::default());
            let there = list.map(|list| list.items.len()).unwrap_or_default();
            assert_eq!(there, 0, "{plural}");
        }
        let east = server
            .get(&Resource::new("cluster.karmada.io", "clusters"), None, "east")
            .unwrap();
        assert!(
            east["spec"]["taints"].as_array().is_none_or(Vec::is_empty),
            "{east:#}"
        );
        let policies = Resource::new("policy.karmada.io", "propagationpolicies");
        let web = server.get(&policies, Some("shop"), "web").unwrap();
        assert!(web["spec"]["suspension"].is_null(), "{web:#}");
    }

    fn forecast(&self) -> Value {
        let output = self.cutover(&["plan", "--revision", "HEAD~1..HEAD", "-o", "json"]);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        document["changes"][0]["forecast"].clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::too_many_lines, reason = "what is said is the test")]
async fn a_plan_says_what_each_kind_of_intent_would_do() {
    let stage = Stage::begin().await;
    stage.commit(&[("intent.yaml", ROLLOUT)]);
    insta::assert_snapshot!(stage.told(), @"
    + Rollout shop/web  (intent.yaml:1:1)
      lets every change of Deployment web go cluster by cluster; one cluster may be other than good meanwhile; undoes it if one isn't good in time
      nothing to do now: the template is as it shall be; its next change goes this way
        hold: a pin keeps every cluster at what it has; then the template changes
        wave 1: west (healthy within 10m, for 10m)
        wave 2: waits for an approval; north (healthy within 10m, for 30s)
        wave 3: east (healthy within 10m, for 30s)
        end: every cluster has the change: the pin is taken off
        note: it doesn't run in south, though that is named
        note: if a cluster isn't good in time, all go back to what they had
    ");
    stage.commit(&[("intent.yaml", SHIFT)]);
    insta::assert_snapshot!(stage.told(), @"
    + ReplicaShift shop/api-to-west  (intent.yaml:1:1)
      moves the replicas of Deployment api from east to west; in steps of 25%, 50%, 100%; never fewer than 100% ready; brings them back if a step fails
      nothing is seen now that blocks it
        step 1: 2 of 8 have gone: west has 2, east has 6; rests 30s
        step 2: 4 of 8 have gone: west has 4, east has 4; goes on when 50% is approved; rests 30s
        step 3: 8 of 8 have gone: west has 8, east has 0
        note: at least 8 replicas are ready at every moment
    ");
    stage.commit(&[("intent.yaml", EVACUATION)]);
    insta::assert_snapshot!(stage.told(), @"
    + Evacuation drain-east  (intent.yaml:1:1)
      moves what runs in east elsewhere; the cluster takes nothing new meanwhile; 1 at a time; stops at the first failure
      nothing is seen now that blocks it
        cordon: east takes nothing new
        FlinkDeployment shop/orders: east → west, stopped with its state first
        note: Deployment shop/api stays in east: NoTarget: no cluster takes it: north: the placement does not hold north: the scheduler would move the workload back; west: the placement does not hold west: the scheduler would move the workload back (let its policy allow another cluster, free capacity there, or name other clusters in spec.to.clusters)
        note: Deployment shop/web stays in east: ComesBack: its policy wants it in east: it comes back as soon as the cordon is lifted (set keepCordoned: true, taint the cluster yourself, or take the cluster out of its policy)
    ");
    assert_eq!(
        stage.forecast()["moves"],
        json!([{"workload": "FlinkDeployment shop/orders", "from": "east", "to": "west"}])
    );
    let review = stdout(&stage.cutover(&["review", "--revision", "HEAD~1..HEAD"]));
    assert!(
        review.contains("-- \"FlinkDeployment shop/orders\" -->"),
        "{review}"
    );
    stage.commit(&[("intent.yaml", REBALANCE)]);
    insta::assert_snapshot!(stage.told(), @"
    + Rebalance spread  (intent.yaml:1:1)
      says what would move if workloads were redistributed; 1 at a time; stops at the first failure
      nothing to do now: dry run: 0 workloads of east, north, west to move; nothing was touched
        note: CapacityUnknown: the capacity and the use of east, north, west are not known: nothing is moved there or away for balance (Karmada reports them in status.resourceSummary of the cluster)
    ");
    stage.commit(&[("intent.yaml", PLAN)]);
    insta::assert_snapshot!(stage.told(), @"
    + FailoverPlan shop/orders  (intent.yaml:1:1)
      keeps FlinkDeployment orders to one writer, with its state, when it fails over; asks for an approval when its cluster can't be seen for 10m
      nothing is seen now that blocks it
        guard: a pin lets east alone run it: whatever else gets a copy holds it
        eviction: Karmada decides when (after 60 s of being ill, or by a taint) and where to; its failover is taken off the binding until the new copy runs, so that the held copy isn't evicted too
        old copy (application failover, Never): it is stopped with its state within 60s and kept, held, until its purge is approved
        unreachable: while the old copy is not visible the new one is held; after 10m cutover asks for an approval
        release: the new copy starts once the old one is proved harmless, from the newest state: captured, else preserved by Karmada, else seen last; a person is asked before it starts from nothing
    ");
    stage.commit(&[("intent.yaml", SUSPENSION)]);
    insta::assert_snapshot!(stage.told(), @"
    + Suspension shop/freeze  (intent.yaml:1:1)
      suspends dispatching of PropagationPolicy web to north, west; that is about Deployment shop/web; until a person ends it
      nothing is seen now that blocks it
        Deployment shop/web: no change reaches north, west
    ");
    stage.assert_untouched();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_intents_of_one_workload_are_said_to_take_turns() {
    let stage = Stage::begin().await;
    let rollout = ROLLOUT.replace("name: web", "name: api");
    stage.commit(&[("intent.yaml", SHIFT), ("other.yaml", &rollout)]);
    let range = ["--revision", "HEAD~1..HEAD"];
    let plan = stdout(&stage.cutover(&[&["plan"], &range[..]].concat()));
    for rival in ["Rollout shop/api", "ReplicaShift shop/api-to-west"] {
        assert!(plan.contains(&format!("takes turns with {rival}, ")), "{plan}");
    }
    let review = stdout(&stage.cutover(&[&["review", "--offline"], &range[..]].concat()));
    assert!(review.contains("takes turns with Rollout shop/api, "), "{review}");
    let migration = "apiVersion: cutover.dev/v1alpha1
kind: Migration
metadata: {name: api-moves, namespace: shop}
spec: {workload: {apiVersion: apps/v1, kind: Deployment, name: api}, to: west}
";
    stage.commit(&[
        ("intent.yaml", &SHIFT.replace("api-to-west", "shift")),
        ("other.yaml", migration),
    ]);
    for offline in [&["--offline"][..], &[]] {
        let review = stdout(&stage.cutover(&[&["review"], &range[..], offline].concat()));
        assert!(
            review.contains("want the same workload, and take turns"),
            "{review}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_in_the_way_and_what_cannot_be_seen_is_said() {
    let stage = Stage::begin().await;
    stage.commit(&[(
        "intent.yaml",
        &SHIFT
            .replace("name: api}", "name: orders}")
            .replace("apps/v1", "flink.apache.org/v1beta1")
            .replace("Deployment", "FlinkDeployment"),
    )]);
    assert_eq!(stage.forecast()["outcome"], "refused");
    insta::assert_snapshot!(stage.told(), @"
    + ReplicaShift shop/api-to-west  (intent.yaml:1:1)
      moves the replicas of FlinkDeployment orders from east to west; in steps of 25%, 50%, 100%; never fewer than 100% ready; brings them back if a step fails
      would be refused, with nothing touched:
        Stateful: a FlinkDeployment has state: a second copy would lose or fork it (move it whole, with its state: cutover migrate)
        NoReplicas: FlinkDeployment shop/orders has no spec.replicas (only what counts its replicas in spec.replicas and status.availableReplicas can be shifted)
        FailoverOn: the policy has failover: a side whose replicas are not ready yet could be evicted in the middle of a step (remove spec.failover from the policy for the duration of the shift)
    ");
    let review = stage.cutover(&["review", "--revision", "HEAD~1..HEAD"]);
    assert_eq!(review.status.code(), Some(1), "it would block");
    insta::with_settings!({filters => COMMITS.to_vec()}, {
        insta::assert_snapshot!(stdout(&review).split("### Changes").next().unwrap(), @"
        <!-- cutover review: plan -->
        ### Plan: 1 to create, 0 to change, 0 to delete.

        `········..········` · hash `················` · compared with `http://karmada/`

        **On merge**, cutover writes 1 change to this control plane; ReplicaShift shop/api-to-west would fail, with nothing touched.

        ### What would block it

        - ⛔ `ReplicaShift shop/api-to-west`: Stateful: a FlinkDeployment has state: a second copy would lose or fork it (move it whole, with its state: cutover migrate)
        - ⛔ `ReplicaShift shop/api-to-west`: NoReplicas: FlinkDeployment shop/orders has no spec.replicas (only what counts its replicas in spec.replicas and status.availableReplicas can be shifted)
        - ⛔ `ReplicaShift shop/api-to-west`: FailoverOn: the policy has failover: a side whose replicas are not ready yet could be evicted in the middle of a step (remove spec.failover from the policy for the duration of the shift)

        ### What intents would do

        #### ReplicaShift shop/api-to-west (`intent.yaml:1`)

        ⛔ It would be refused, with nothing touched; above is why.
        ");
    });

    stage.commit(&[("intent.yaml", SHIFT)]);
    assert_eq!(stage.forecast()["outcome"], "begins");
    stage.world.faults().partition("east");
    assert_eq!(stage.forecast()["outcome"], "unknown", "{:#}", stage.forecast());
    stage.world.faults().heal("east");

    let offline = stage.cutover(&["review", "--offline", "--revision", "HEAD~1..HEAD"]);
    insta::with_settings!({filters => COMMITS.to_vec()}, {
        insta::assert_snapshot!(stdout(&offline).split("### Changes").next().unwrap(), @"
        <!-- cutover review: plan -->
        ### Plan: 0 to create, 1 to change, 0 to delete.

        `········..········` · compared in Git alone

        ### What intents would do

        #### ReplicaShift shop/api-to-west (`intent.yaml:1`)

        ❔ What blocks it is not known: no control plane was asked.

        | step | what is done |
        |---|---|
        | steps | 25%, then 50%, then 100% of them, more in west before fewer in east |

        - at least 100% of the replicas at the start are ready at every moment
        ");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_template_that_changes_under_a_rollout_is_told_with_its_waves() {
    let stage = Stage::begin().await;
    stage.commit(&[("intent.yaml", ROLLOUT)]);
    stage.syncs();
    stage.commit(&[("web.yaml", &WEB.replace("web:1", "web:2"))]);
    let output = stage.cutover(&["plan", "--revision", "HEAD~1..HEAD", "--diff", "fields"]);
    insta::assert_snapshot!(stdout(&output), @"
    ! Deployment shop/web  (web.yaml:1:1)
      held back by Rollout shop/web
      nothing is seen now that blocks it
        hold: a pin keeps every cluster at what it has; then the template changes
        wave 1: west (healthy within 10m, for 10m)
        wave 2: waits for an approval; north (healthy within 10m, for 30s)
        wave 3: east (healthy within 10m, for 30s)
        end: every cluster has the change: the pin is taken off
        note: it doesn't run in south, though that is named
        note: if a cluster isn't good in time, all go back to what they had
      ~ spec.template.spec.containers[web].image: web:1 → web:2

    Plan: 0 to create, 0 to change, 0 to delete, 1 held back.
    ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_template_that_a_policy_selects_is_told_with_the_waves_of_the_rollout_to_come() {
    let policy = "apiVersion: cutover.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: all, namespace: shop}
spec:
  select: [{apiVersion: apps/v1, kind: Deployment}]
  order: [west]
";
    let stage = Stage::begin().await;
    stage.commit(&[
        ("intent.yaml", policy),
        ("web.yaml", &WEB.replace("web:1", "web:2")),
    ]);
    let told = stdout(&stage.cutover(&["plan", "--revision", "HEAD~1..HEAD", "--diff", "fields"]));
    for said in [
        "held back by RolloutPolicy shop/all\n  nothing is seen now that blocks it\n",
        "    wave 1: west (healthy within 10m, for 30s)\n    wave 2: east (healthy within 10m, for 30s)\n",
        "    note: changes of at most 5 workloads are under way at once; the others wait for their turn\n",
        "    note: it selects Deployment shop/api, Deployment shop/web\n",
        "1 to create, 0 to change, 0 to delete, 1 held back.",
    ] {
        assert!(told.contains(said), "{said:?} is not in\n{told}");
    }
}
