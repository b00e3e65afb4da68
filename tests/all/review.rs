//! `cutover review` as a workflow runs it: a pull request that moves a job, changes a shared policy and breaks things.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use cutover::sandbox::api::Resource;
use cutover::sandbox::world::Kubeconfigs;
use cutover::sandbox::{World, WorldOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::github::{BOT, FORK, GitHub, REPOSITORY};
use crate::support::served::{as_text, stderr, stdout};
use crate::support::wait::until;

const BASE: &[(&str, &str)] = &[
    (
        "cutover.yaml",
        "apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs:\n- {name: main, prune: true}\n",
    ),
    (
        "apps/namespace.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
    ),
    (
        "apps/policy.yaml",
        "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: streaming, namespace: shop}
spec:
  resourceSelectors:
  - {apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment}
  placement:
    clusterAffinity: {clusterNames: [east, west]}
    spreadConstraints: [{spreadByField: cluster, maxGroups: 1}]
",
    ),
    ("apps/orders.yaml", ORDERS),
    ("apps/payments.yaml", PAYMENTS),
    (
        "apps/db.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: db, namespace: shop}\nstringData: {password: swordfish}\n",
    ),
    ("intents/.keep", ""),
];

pub const ORDERS: &str = "apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
metadata: {name: orders, namespace: shop}
spec:
  image: orders:1
  flinkVersion: v1_20
  flinkConfiguration: {state.savepoints.dir: s3://shop/savepoints, state.checkpoints.dir: s3://shop/checkpoints, high-availability.type: kubernetes, high-availability.storageDir: s3://shop/ha}
  job: {jarURI: local:///opt/orders.jar, parallelism: 2, upgradeMode: savepoint, state: running}
";

const PAYMENTS: &str = "apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
metadata: {name: payments, namespace: shop}
spec:
  image: payments:1
  flinkVersion: v1_20
  flinkConfiguration: {state.savepoints.dir: s3://shop/savepoints, state.checkpoints.dir: s3://shop/checkpoints, high-availability.type: kubernetes, high-availability.storageDir: s3://shop/ha}
  job: {jarURI: local:///opt/payments.jar, parallelism: 2, upgradeMode: savepoint, state: running}
";

fn migration(to: &str) -> String {
    format!(
        "apiVersion: cutover.dev/v1alpha1
kind: Migration
metadata: {{name: orders-to-{to}, namespace: shop}}
spec:
  workload: {{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}}
  to: {to}
"
    )
}

/// A control plane where the base of the pull request is in force, a clone, and what a runner has.
struct Stage {
    world: World,
    /// While it is kept, the servers are reached.
    _served: Kubeconfigs,
    dir: TempDir,
    base: String,
    github: GitHub,
}

fn git(at: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command
        .current_dir(at)
        .args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output).trim().to_owned()
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
        let address = "127.0.0.1:0".parse().unwrap();
        let served = world.serve(address, dir.path()).await.unwrap();
        let stage = Self {
            world,
            _served: served,
            base: String::new(),
            github: GitHub::start().await,
            dir,
        };
        let clone = stage.clone();
        std::fs::create_dir(&clone).unwrap();
        git(&clone, &["init", "-q"]);
        stage.commit("the base", BASE);
        let output = stage.cutover(&["run", "--once", "--repo", as_text(&clone)], &[]);
        assert!(output.status.success(), "{}", stderr(&output));
        stage.runs_in_east().await;
        Self {
            base: git(&clone, &["rev-parse", "HEAD"]),
            ..stage
        }
    }

    fn clone(&self) -> PathBuf {
        self.dir.path().join("clone")
    }

    fn commit(&self, message: &str, files: &[(&str, &str)]) {
        for (path, content) in files {
            let path = self.clone().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        git(&self.clone(), &["add", "-A"]);
        git(&self.clone(), &["commit", "-q", "-m", message]);
    }

    async fn runs_in_east(&self) {
        let bindings = Resource::new("work.karmada.io", "resourcebindings");
        let began = Instant::now();
        loop {
            let all = ["orders", "payments"].iter().all(|name| {
                let binding = self.world.control_plane().get(
                    &bindings,
                    Some("shop"),
                    &format!("{name}-flinkdeployment"),
                );
                binding.is_ok_and(|binding| {
                    binding["status"]["aggregatedStatus"][0]["status"]["jobStatus"]["state"] == "RUNNING"
                        && binding["spec"]["clusters"][0]["name"] == "east"
                })
            });
            if all {
                return;
            }
            assert!(began.elapsed() < Duration::from_mins(1), "the jobs don't run");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    fn output(&self, name: &str) -> String {
        let outputs = self.read("output");
        let line = outputs
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix(&format!("{name}=")));
        line.unwrap_or_else(|| panic!("no output {name} in {outputs}"))
            .to_owned()
    }

    fn cutover(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cutover"));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("KUBECONFIG", self.file("karmada.kubeconfig"))
            .env("CUTOVER_STATE_DIR", self.file("state"))
            .env("HOME", "/nonexistent")
            .envs(environment.iter().copied());
        command.output().unwrap()
    }

    /// Returns what a runner sets for the steps of a workflow on a pull request.
    fn runner(&self, event: &str, head: &str) -> Vec<(String, String)> {
        for name in ["output", "summary", "path"] {
            std::fs::write(self.file(name), "").unwrap();
        }
        let payload = json!({"pull_request": {"number": 7, "head": {"sha": "0", "repo": {"full_name": head}},
            "base": {"sha": self.base, "repo": {"full_name": REPOSITORY}}}});
        std::fs::write(self.file("event.json"), payload.to_string()).unwrap();
        let file = |name: &str| as_text(&self.file(name)).to_owned();
        [
            ("GITHUB_ACTIONS", "true".to_owned()),
            ("GITHUB_EVENT_NAME", event.to_owned()),
            ("GITHUB_EVENT_PATH", file("event.json")),
            ("GITHUB_REPOSITORY", REPOSITORY.to_owned()),
            ("GITHUB_SERVER_URL", "https://github.example.com".to_owned()),
            ("GITHUB_RUN_ID", "42".to_owned()),
            ("GITHUB_API_URL", self.github.url()),
            ("GITHUB_OUTPUT", file("output")),
            ("GITHUB_STEP_SUMMARY", file("summary")),
            ("GITHUB_PATH", file("path")),
            ("RUNNER_TEMP", file("temp")),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    /// Runs the program as a step of a workflow on a pull request.
    fn step(&self, event: &str, head: &str, token: &str, more: &[&str]) -> Output {
        let clone = self.clone();
        let arguments = [&["review", as_text(&clone), "-o", "github"], more].concat();
        let mut environment = self.runner(event, head);
        environment.push(("GITHUB_TOKEN".to_owned(), token.to_owned()));
        let environment: Vec<(&str, &str)> = environment
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        self.cutover(&arguments, &environment)
    }

    /// Runs the steps of `action.yml` one after the other, as a runner does; returns what they print and whether all succeed.
    #[expect(clippy::too_many_lines, reason = "one story, told in order")]
    fn action(&self, head: &str, inputs: &[(&str, &str)]) -> (String, bool) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let action: Value = serde_yaml::from_slice(&std::fs::read(root.join("action.yml")).unwrap()).unwrap();
        let given = |name: &str| {
            let given = inputs.iter().find(|(input, _)| *input == name);
            let default = action["inputs"][name]["default"].as_str();
            given.map_or_else(|| default.unwrap().to_owned(), |(_, value)| (*value).to_owned())
        };
        std::fs::create_dir_all(self.file("temp")).unwrap();
        let runner = self.runner("pull_request", head);
        let mut said = String::new();
        for step in action["runs"]["steps"].as_array().unwrap() {
            let Some(script) = step["run"].as_str() else {
                assert!(
                    step["uses"]
                        .as_str()
                        .unwrap()
                        .starts_with("actions/upload-artifact@")
                );
                continue;
            };
            assert!(
                !script.contains("${{"),
                "an input is a variable, never a part of a script"
            );
            let path = format!("{}:{}", self.read("path").trim(), std::env::var("PATH").unwrap());
            let mut command = Command::new("bash");
            command
                .args(["-e", "-o", "pipefail", "-c", script])
                .current_dir(self.clone())
                .env_clear()
                .envs(runner.clone())
                .env("PATH", path)
                .env("HOME", "/nonexistent")
                .env("GITHUB_ACTION_PATH", root);
            for (name, value) in step["env"].as_object().unwrap() {
                let expression = value
                    .as_str()
                    .unwrap()
                    .trim_start_matches("${{")
                    .trim_end_matches("}}")
                    .trim();
                let value = match expression.split_once('.').unwrap() {
                    ("inputs", name) => given(name),
                    ("github", _) => String::new(),
                    _ => panic!("{expression}"),
                };
                command.env(name, value);
            }
            let output = command.output().unwrap();
            said += &format!("{}{}", stdout(&output), stderr(&output));
            if !output.status.success() {
                return (said, false);
            }
        }
        for (_, output) in action["outputs"].as_object().unwrap() {
            let value = output["value"].as_str().unwrap();
            self.output(
                value
                    .trim_start_matches("${{ steps.review.outputs.")
                    .trim_end_matches(" }}"),
            );
        }
        (said, true)
    }
}

macro_rules! shown {
    ($text:expr, @$snapshot:literal) => {
        insta::with_settings!({filters => vec![
            (r"(?i)(hash:? `?)[0-9a-f]{16,64}", "${1}················"),
            (r"`[0-9a-f]{8}\.\.[0-9a-f]{8}`", "`········..········`"),
            (r"http://127\.0\.0\.1:\d+/", "http://karmada/"),
            (r"/blob/[0-9a-f]{40}/", "/blob/········/"),
        ]}, { insta::assert_snapshot!($text, @$snapshot) });
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::too_many_lines, reason = "what a reviewer reads is the test")]
async fn a_reviewer_is_told_in_one_comment_what_a_pull_request_does() {
    let stage = Stage::begin().await;
    stage.commit(
        "Move orders, and change its image",
        &[
            ("intents/orders.yaml", &migration("west")),
            ("apps/orders.yaml", &ORDERS.replace("orders:1", "orders:2")),
        ],
    );
    let output = stage.step("pull_request", REPOSITORY, BOT, &[]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let comments = stage.github.comments();
    let [(login, body)] = comments.as_slice() else {
        panic!("{comments:?}")
    };
    assert_eq!(login, "github-actions[bot]");
    shown!(body, @r#"
    <!-- cutover review: plan -->
    ### Plan: 1 to create, 0 to change, 0 to delete, 1 held back.

    `········..········` · hash `················` · compared with `http://karmada/`

    **On merge**, cutover writes 1 change to this control plane; 1 change is held back until its intent applies it; Migration shop/orders-to-west can begin at once.

    ### Who moves where

    ```mermaid
    flowchart LR
        c0["east"]
        c1["west"]
        c0 -- "FlinkDeployment shop/orders" --> c1
    ```

    #### Migration shop/orders-to-west ([`intents/orders.yaml:1`](https://github.example.com/shop/fleet/blob/········/intents/orders.yaml#L1))

    Moves `FlinkDeployment shop/orders` from `east` to `west`; if it fails, it is rolled back.

    ✅ Nothing is seen now that blocks it.

    | step | what is done | what to expect |
    |---|---|---|
    | Preflight | everything that could block it is checked | nothing is written |
    | Hold | the scheduler and failover are kept off; a pin says who may run | it runs on in `east` |
    | Expand | a copy is brought to `west`, held | it runs on in `east` alone |
    | Capture | it is stopped with its state; its stop is proved | **no copy runs from here on** |
    | Handoff | `west` may run, from exactly that state, which is recorded in Git, with what this changes of its template | it starts in `west`; healthy within 10m |
    | Verify | `west` is watched | healthy for 60s without a break |
    | Cleanup | past the commit point: `east` is left, the pin goes, the scheduler is let back | it runs in `west` alone |

    `PropagationPolicy shop/streaming` also places `FlinkDeployment payments`: the migration holds one binding, so they stay, and are scheduled as before.

    ### Changes

    | | object | where | |
    |---|---|---|---|
    | ⏸️ held back | `FlinkDeployment shop/orders` | [`apps/orders.yaml:1`](https://github.example.com/shop/fleet/blob/········/apps/orders.yaml#L1) | image `orders:1` → `orders:2`<br>by Migration shop/orders-to-west |
    | ➕ create | `Migration shop/orders-to-west` | [`intents/orders.yaml:1`](https://github.example.com/shop/fleet/blob/········/intents/orders.yaml#L1) | moves FlinkDeployment orders from east to west; stops it with its state first; takes a change of its template along; rolls back if it fails |

    <details><summary>1 remark</summary>

    - ⚠️ CUT0301 [`apps/db.yaml:1:1`](https://github.example.com/shop/fleet/blob/········/apps/db.yaml#L1): Secret shop/db has its values in plain text: every reader of the repository has them (encrypt it, or let an operator fetch it (SOPS, Sealed Secrets, External Secrets))

    </details>

    <details><summary>! FlinkDeployment shop/orders</summary>

    ```diff
    ! spec.image: orders:1 → orders:2
    ```

    </details>

    <details><summary>+ Migration shop/orders-to-west</summary>

    ```diff
    + apiVersion: cutover.dev/v1alpha1
    + kind: Migration
    + metadata:
    +   name: orders-to-west
    +   namespace: shop
    +   labels:
    +     applyset.kubernetes.io/part-of: applyset-cX2JmXM2svlobMyEj2U5iQaQT-hZqTgo985PHr9m18A-v1
    + spec:
    +   changes:
    +     template: true
    +   onFailure: RollBack
    +   strategy: StopFirst
    +   to: west
    +   verify:
    +     healthyFor: 60s
    +     timeout: 10m
    +   workload:
    +     apiVersion: flink.apache.org/v1beta1
    +     kind: FlinkDeployment
    +     name: orders
    ```

    </details>
    "#);
    assert_eq!(stage.read("summary"), *body);
    shown!(stdout(&output), @r#"
    ::warning title=CUT0301,file=apps/db.yaml,line=1,col=1::Secret shop/db has its values in plain text: every reader of the repository has them%0Ahint: encrypt it, or let an operator fetch it (SOPS, Sealed Secrets, External Secrets)
    ::warning title=held back%3A FlinkDeployment shop/orders,file=apps/orders.yaml,line=1,col=1::Migration shop/orders-to-west%0Aspec.image
    ::notice title=created%3A Migration shop/orders-to-west,file=intents/orders.yaml,line=1,col=1::moves FlinkDeployment orders from east to west; stops it with its state first; takes a change of its template along; rolls back if it fails
    ::notice title=cutover plan::Plan: 1 to create, 0 to change, 0 to delete, 1 held back. Hash: ················
    "#);
    assert_eq!(
        ["changes", "held-back", "migrations", "blockers", "errors", "live"].map(|name| stage.output(name)),
        ["1", "1", "1", "0", "0", "true"]
    );
    assert_eq!(stage.output("hash").len(), 64);
    assert!(stage.output("comment").ends_with("#issuecomment-1"));

    // Another push: a policy that other jobs share takes them out of their cluster, and the target is none.
    let policy = BASE[2].1.replace("[east, west]", "[west]");
    stage.commit(
        "And more",
        &[
            ("apps/policy.yaml", &policy),
            ("intents/orders.yaml", &migration("south")),
        ],
    );
    let output = stage.step("pull_request", REPOSITORY, BOT, &[]);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    let comments = stage.github.comments();
    assert_eq!(comments.len(), 1);
    let body = &comments[0].1;
    for told in [
        "### What would block it",
        "⛔ `Migration shop/orders-to-south`: **NoCluster**: no cluster south is joined",
        "; Migration shop/orders-to-south would fail, with nothing touched.",
        "`PropagationPolicy shop/streaming` ([`apps/policy.yaml:1`](",
        ") places 1 workload; the change comes when Migration shop/orders-to-south has ended:",
        "- `FlinkDeployment shop/payments`: ⚠️ **Karmada takes it out of east and recreates it in west",
    ] {
        assert!(body.contains(told), "{told} is not in\n{body}");
    }
    assert!(!body.contains("| step |"), "what would fail has no steps: {body}");
    assert!(stdout(&output).contains(
        "::error title=would fail%3A Migration shop/orders-to-south,file=intents/orders.yaml,line=1"
    ));
    assert!(stage.output("blockers").parse::<u32>().unwrap() >= 1);
    assert_eq!(
        stage
            .step("pull_request", REPOSITORY, BOT, &["--fail-on", "error"])
            .status
            .code(),
        Some(0)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::too_many_lines, reason = "what a reviewer reads is the test")]
async fn a_fork_is_checked_without_secrets_and_events_that_have_them_are_refused() {
    let stage = Stage::begin().await;
    stage.commit(
        "From a fork",
        &[
            ("intents/orders.yaml", &migration("west").replace("  to:", "  too: x\n  to:")),
            ("apps/orders.yaml", &ORDERS.replace("orders:1", "orders:2")),
            (
                "apps/db.yaml",
                "apiVersion: v1\nkind: Secret\nmetadata: {name: db, namespace: shop}\nstringData: {password: marlin}\n",
            ),
        ],
    );
    let report = stage.file("report.md");
    let output = stage.step(
        "pull_request",
        "mallory/fleet",
        FORK,
        &["--offline", "--report", as_text(&report)],
    );
    assert_eq!(
        output.status.code(),
        Some(1),
        "an error is in a file: {}",
        stderr(&output)
    );
    assert_eq!(stage.github.comments(), []);
    assert!(
        stdout(&output).contains("the report is in the summary of this run"),
        "{}",
        stdout(&output)
    );
    shown!(stage.read("summary"), @r#"
    <!-- cutover review: plan -->
    ### Plan: 1 to create, 2 to change, 0 to delete.

    `········..········` · compared in Git alone

    > From a fork: without secrets, the files are checked and compared in Git alone.

    ### What would block it

    - ❌ CUT0006 [`intents/orders.yaml:6:3`](https://github.example.com/shop/fleet/blob/········/intents/orders.yaml#L6): spec.too is not a field of Migration (did you mean to?)

    ### Who moves where

    ```mermaid
    flowchart LR
        c1["west"]
        c0["where it runs"]
        c0 -- "FlinkDeployment shop/orders" --> c1
    ```

    #### Migration shop/orders-to-west ([`intents/orders.yaml:1`](https://github.example.com/shop/fleet/blob/········/intents/orders.yaml#L1))

    Moves `FlinkDeployment shop/orders` from where it runs to `west`; if it fails, it is rolled back.

    ❔ What blocks it is not known: no control plane was asked.

    | step | what is done | what to expect |
    |---|---|---|
    | Preflight | everything that could block it is checked | nothing is written |
    | Hold | the scheduler and failover are kept off; a pin says who may run | it runs on in the source |
    | Expand | a copy is brought to `west`, held | it runs on in the source alone |
    | Capture | it is stopped with its state; its stop is proved | **no copy runs from here on** |
    | Handoff | `west` may run, from exactly that state, which is recorded in Git | it starts in `west`; healthy within 10m |
    | Verify | `west` is watched | healthy for 60s without a break |
    | Cleanup | past the commit point: the source is left, the pin goes, the scheduler is let back | it runs in `west` alone |

    ### Changes

    | | object | where | |
    |---|---|---|---|
    | ✏️ change | `Secret shop/db` | [`apps/db.yaml:1`](https://github.example.com/shop/fleet/blob/········/apps/db.yaml#L1) |  |
    | ✏️ change | `FlinkDeployment shop/orders` | [`apps/orders.yaml:1`](https://github.example.com/shop/fleet/blob/········/apps/orders.yaml#L1) | image `orders:1` → `orders:2` |
    | ➕ create | `Migration shop/orders-to-west` | [`intents/orders.yaml:1`](https://github.example.com/shop/fleet/blob/········/intents/orders.yaml#L1) | moves FlinkDeployment orders from where it runs to west; stops it with its state first; takes a change of its template along; rolls back if it fails |

    <details><summary>1 remark</summary>

    - ⚠️ CUT0301 [`apps/db.yaml:1:1`](https://github.example.com/shop/fleet/blob/········/apps/db.yaml#L1): Secret shop/db has its values in plain text: every reader of the repository has them (encrypt it, or let an operator fetch it (SOPS, Sealed Secrets, External Secrets))

    </details>

    <details><summary>~ Secret shop/db</summary>

    ```diff
    ! data.password: *** (old) → *** (new)
    ```

    </details>

    <details><summary>~ FlinkDeployment shop/orders</summary>

    ```diff
    ! spec.image: orders:1 → orders:2
    ```

    </details>

    <details><summary>+ Migration shop/orders-to-west</summary>

    ```diff
    + apiVersion: cutover.dev/v1alpha1
    + kind: Migration
    + metadata:
    +   name: orders-to-west
    +   namespace: shop
    + spec:
    +   to: west
    +   too: x
    +   workload:
    +     apiVersion: flink.apache.org/v1beta1
    +     kind: FlinkDeployment
    +     name: orders
    ```

    </details>
    "#);
    assert_eq!(stage.read("report.md"), stage.read("summary"));
    assert_eq!(
        ["live", "hash", "comment", "changes"].map(|name| stage.output(name)),
        ["false", "", "", "3"]
    );
    let said = format!("{}{}{}", stdout(&output), stderr(&output), stage.read("summary"));
    assert!(!said.contains("swordfish") && !said.contains("marlin"), "{said}");

    for event in ["pull_request_target", "workflow_run", "issue_comment"] {
        let refused = stage.step(event, "mallory/fleet", BOT, &[]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(stderr(&refused).contains(event), "{}", stderr(&refused));
        assert_eq!(stage.read("summary"), "");
    }
}

/// The one edited line by which Karmada would start a job from nothing elsewhere, as everybody meets it who runs the program.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_would_lose_a_jobs_state_fails_every_command_that_looks_at_it() {
    let stage = Stage::begin().await;
    let (_, policy) = BASE.iter().find(|(path, _)| *path == "apps/policy.yaml").unwrap();
    let named = |clusters: &str| policy.replace("[east, west]", clusters);
    let clone = stage.clone();
    let clone = as_text(&clone);
    let run = ["run", "--once", "--repo", clone];
    stage.commit(
        "One more cluster",
        &[("apps/policy.yaml", &named("[east, west, north]"))],
    );
    assert!(stage.cutover(&run, &[]).status.success());

    stage.commit("Out of east", &[("apps/policy.yaml", &named("[west, north]"))]);
    let says = "orders would stop in east and start in north or west from nothing";
    let way_out = "cutover migrate FlinkDeployment/orders --namespace shop --to north";
    // Files don't tell where it runs.
    for (arguments, code) in [
        (&["validate", clone][..], 0),
        (&["plan", clone], 1),
        (&["review", clone], 1),
        (&run, 1),
    ] {
        let output = stage.cutover(arguments, &[]);
        let said = format!("{}{}", stdout(&output), stderr(&output));
        assert!(
            said.contains(says) && said.contains(way_out),
            "{arguments:?}: {said}"
        );
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    }
    stage.runs_in_east().await;
    let status = git(&stage.clone(), &["show", "cutover-status:STATUS.md"]);
    assert!(
        status.contains(says) && !status.contains("All is well"),
        "{status}"
    );
}

/// A line of the history on the status branch.
const EARLIER: &str = concat!(
    r#"{"version":1,"kind":"Migration","namespace":"shop","name":"a","uid":"a","attempt":1,"#,
    r#""workload":"FlinkDeployment orders","from":"west","to":"east","phase":"Completed","#,
    r#""finishedAt":"2026-01-02T06:00:00Z","downtimeMs":41000}"#,
    "\n"
);

/// No file asks for a move, and what the edit sets off is told as if one did: the steps, and how long a move has taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_edit_is_told_with_the_moves_that_it_sets_off() {
    let stage = Stage::begin().await;
    let clone = stage.clone();
    git(&clone, &["checkout", "-q", "cutover-status"]);
    stage.commit("An earlier move", &[("history/2026-01.jsonl", EARLIER)]);
    git(&clone, &["checkout", "-q", "main"]);
    let auto = BASE[0]
        .1
        .replace("prune: true", "prune: true, gate: {migrations: {mode: Auto}}");
    let policy = BASE[2].1.replace("[east, west]", "[west]");
    stage.commit("Let policies move what they place", &[("cutover.yaml", &auto)]);
    stage.commit("To west", &[("apps/policy.yaml", &policy)]);

    let output = stage.step("pull_request", REPOSITORY, BOT, &[]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let body = &stage.github.comments()[0].1;
    for told in [
        "Migration shop/orders-to-west",
        "| ⏸️ held back | `PropagationPolicy shop/streaming` |",
        "set off by this change",
        "#### Migration shop/payments-to-west",
        "Moves `FlinkDeployment shop/orders` from `east` to `west`; if it fails, it is rolled back.",
        "Its last completed move took 41.0 s of downtime.",
        "No completed move of it is on record; the last one of another FlinkDeployment took 41.0 s of downtime.",
        "| Capture | it is stopped with its state; its stop is proved | **no copy runs from here on** |",
    ] {
        assert!(body.contains(told), "{told} is not in\n{body}");
    }
    assert_eq!(body.matches("| Capture |").count(), 2, "{body}");

    let plan = stdout(&stage.cutover(&["plan", as_text(&clone)], &[]));
    for told in [
        "+ Migration shop/orders-to-west",
        "+ Migration shop/payments-to-west",
        "Capture: it is stopped with its state; its stop is proved; no copy runs from here on",
        "note: Its last completed move took 41.0 s of downtime.",
    ] {
        assert!(plan.contains(told), "{told} is not in\n{plan}");
    }
    stage.runs_in_east().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_target_lacks_is_told_before_a_move_is_merged() {
    let stage = Stage::begin().await;
    let clone = stage.clone();
    let clone = as_text(&clone);
    let needs = ORDERS.replace(
        "  image: orders:1\n",
        "  image: orders:1\n  serviceAccount: flink\n",
    );
    stage.commit("An account of its own", &[("apps/orders.yaml", &needs)]);
    let output = stage.cutover(&["run", "--once", "--repo", clone], &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let jobs = Resource::new("flink.apache.org", "flinkdeployments");
    until("the copy in east has the account, and runs", || {
        let copy = stage.world.member("east").api.get(&jobs, Some("shop"), "orders");
        copy.is_ok_and(|copy| {
            copy["spec"]["serviceAccount"] == "flink" && copy["status"]["jobStatus"]["state"] == "RUNNING"
        })
    })
    .await;
    stage.commit("Move orders", &[("intents/orders.yaml", &migration("west"))]);
    let lacks = "west has no ServiceAccount flink, which the workload needs, and Karmada does not bring it";
    let plan = stage.cutover(&["plan", clone], &[]);
    assert!(
        stdout(&plan).contains(&format!("MissingDependency: {lacks}")),
        "{}{}",
        stdout(&plan),
        stderr(&plan)
    );
    let review = stage.cutover(&["review", clone], &[]);
    let said = stdout(&review);
    assert!(
        said.contains(&format!("**MissingDependency**: {lacks}")),
        "{said}"
    );
    assert!(!said.contains("| step |"), "what would fail has no steps: {said}");
    assert_eq!(review.status.code(), Some(1), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_control_plane_the_report_says_so_and_tells_the_rest() {
    let stage = Stage::begin().await;
    stage.commit(
        "A change",
        &[("apps/orders.yaml", &ORDERS.replace("orders:1", "orders:2"))],
    );
    let kubeconfig = stage.read("karmada.kubeconfig");
    let broken = elsewhere(&kubeconfig);
    std::fs::write(stage.file("karmada.kubeconfig"), broken).unwrap();
    let output = stage.step("pull_request", REPOSITORY, BOT, &[]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let body = &stage.github.comments()[0].1;
    assert!(
        body.contains("> ⚠️ Not compared with the control plane: cannot find out what")
            && body.contains("cannot reach http\\://127.0.0.1:"),
        "{body}"
    );
    assert!(body.contains("! spec.image: orders:1 → orders:2"), "{body}");
    assert_eq!(stage.output("live"), "false");

    // Printed, for other places than GitHub.
    let clone = stage.clone();
    let range = format!("{}...HEAD", stage.base);
    let printed = stage.cutover(
        &["review", as_text(&clone), "--offline", "--revision", &range],
        &[],
    );
    assert!(printed.status.success());
    assert!(
        stdout(&printed).contains("compared in Git alone"),
        "{}",
        stdout(&printed)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::too_many_lines, reason = "one story")]
async fn a_misspelt_cluster_and_what_is_not_committed_are_named() {
    let stage = Stage::begin().await;
    let clone = stage.clone();
    let clone = as_text(&clone);
    let migrate = ["migrate", "orders", "--to", "wset", "--dry-run", "-C", clone];
    let output = stage.cutover(&migrate, &[]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("no cluster wset is joined to http://127.0.0.1:")
            && said.contains("hint: did you mean west?"),
        "{said}"
    );
    let offline = [&migrate[..], &["--offline"]].concat();
    assert!(stage.cutover(&offline, &[]).status.success());
    for words in [
        &["evacuate", "wset"][..],
        &["evacuate", "east", "--to", "north,wset"],
        &["rebalance", "--to", "wset"],
        &["shift", "orders", "--from", "wset", "--to", "north"],
        &["shift", "orders", "--from", "east", "--to", "wset"],
        &[
            "suspend",
            "orders",
            "--reason",
            "a test",
            "--cluster",
            "north,wset",
        ],
        &["rollout", "orders", "--order", "wset"],
        &["rollout", "orders", "--wave", "north", "--wave", "east,wset=1m"],
        &[
            "rollout",
            "policy",
            "all",
            "--select",
            "FlinkDeployment",
            "--order",
            "wset",
        ],
        &[
            "failover",
            "orders",
            "--to",
            "wset",
            "--reason",
            "a test",
            "--attempt",
            "1",
        ],
    ] {
        let ask = [words, &["--dry-run", "-C", clone]].concat();
        let output = stage.cutover(&ask, &[]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(
            said.contains("no cluster wset is joined to http://127.0.0.1:")
                && said.contains("hint: did you mean west?"),
            "{words:?}: {said}"
        );
        let offline = [&ask[..], &["--offline"]].concat();
        let said = stderr(&stage.cutover(&offline, &[]));
        assert!(!said.contains("is joined to"), "{words:?}: {said}");
    }

    stage.commit("To nowhere", &[("intents/orders.yaml", &migration("wset"))]);
    std::fs::write(
        stage.clone().join("apps/orders.yaml"),
        ORDERS.replace("orders:1", "orders:2"),
    )
    .unwrap();
    let output = stage.cutover(&["plan", clone], &[]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}{}", stdout(&output));
    assert!(
        said.contains("note: not committed, and not in the plan: apps/orders.yaml"),
        "{said}"
    );
    let planned = stdout(&output);
    assert!(
        planned.contains("would be refused, with nothing touched:") && !planned.contains("orders:2"),
        "{planned}"
    );
}

/// A job whose end is accepted, and the policy that places it, go in one pull request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reviewer_is_told_where_a_deleted_workload_ends() {
    let stage = Stage::begin().await;
    let accept = [(
        "apps/orders.yaml",
        ORDERS.replace(
            "namespace: shop}",
            "namespace: shop, annotations: {cutover.dev/accept-state-loss: deletion}}",
        ),
    )];
    let accept = accept.each_ref().map(|(path, text)| (*path, text.as_str()));
    stage.commit("Accept that it ends", &accept);
    let clone = stage.clone();
    let clone = as_text(&clone);
    assert!(
        stage
            .cutover(&["run", "--once", "--repo", clone], &[])
            .status
            .success()
    );
    for path in ["apps/orders.yaml", "apps/payments.yaml"] {
        std::fs::remove_file(stage.clone().join(path)).unwrap();
    }
    stage.commit("Both go", &[]);
    let output = stage.cutover(&["review", clone, "--revision", "HEAD~1..HEAD"], &[]);
    let report = stdout(&output);
    for told in [
        "- ⚠️ `FlinkDeployment shop/orders` ends in east (2 replicas), with its state\n",
        "⛔ `FlinkDeployment shop/payments`: FlinkDeployment shop/payments would end in east, with its state",
        "**On merge**, cutover writes 1 change to this control plane; it prunes 1 object; 1 blocked change is left out",
    ] {
        assert!(report.contains(told), "{told} is not in\n{report}");
    }
    let plan = stdout(&stage.cutover(&["plan", clone], &[]));
    assert!(
        plan.contains("- FlinkDeployment shop/orders\n  ends in east (2 replicas), with its state\n"),
        "{plan}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_steps_of_the_action_run_as_a_runner_runs_them() {
    let stage = Stage::begin().await;
    stage.commit(
        "A change",
        &[("apps/orders.yaml", &ORDERS.replace("orders:1", "orders:2"))],
    );
    let kubeconfig = stage.read("karmada.kubeconfig");
    let inputs = [
        ("binary", env!("CARGO_BIN_EXE_cutover")),
        ("kubeconfig", &kubeconfig),
        ("token", BOT),
        ("key", "east-1"),
    ];
    let (said, succeeded) = stage.action(REPOSITORY, &inputs);
    assert!(succeeded, "{said}");
    assert_eq!(
        (stage.output("changes"), stage.output("live")),
        ("1".to_owned(), "true".to_owned())
    );
    let report = std::fs::read_to_string(stage.output("report")).unwrap();
    assert!(report.starts_with("<!-- cutover review: east-1 -->"), "{report}");
    assert_eq!(stage.github.comments()[0].1, report);
    assert!(
        !stage.file("temp/cutover-kubeconfig").exists(),
        "credentials stay nowhere"
    );
    assert!(!said.contains("swordfish"), "{said}");

    // A fork's: no secrets, and what it chooses is never a part of a script.
    let evil = "$(touch pwned)\"; touch pwned; #...HEAD";
    let fork = [
        ("binary", env!("CARGO_BIN_EXE_cutover")),
        ("token", FORK),
        ("revision", evil),
    ];
    let (said, succeeded) = stage.action("mallory/fleet", &fork);
    assert!(!succeeded && said.contains("there is no commit"), "{said}");
    assert!(!stage.clone().join("pwned").exists());
    let fork = [
        ("binary", env!("CARGO_BIN_EXE_cutover")),
        ("token", FORK),
        ("key", "east-1"),
    ];
    let (said, succeeded) = stage.action("mallory/fleet", &fork);
    assert!(succeeded, "{said}");
    assert_eq!(stage.output("live"), "false");
    assert_eq!(stage.github.comments().len(), 1);

    let (said, succeeded) = stage.action(REPOSITORY, &[("version", "main; rm -rf /"), ("token", BOT)]);
    assert!(!succeeded && said.contains("which is no release"), "{said}");
}

#[test]
fn the_hook_of_the_examples_lets_no_broken_file_be_pushed() {
    let dir = tempfile::tempdir().unwrap();
    let (clone, remote, bin) = (
        dir.path().join("clone"),
        dir.path().join("remote"),
        dir.path().join("bin"),
    );
    for path in [&clone, &remote, &bin] {
        std::fs::create_dir(path).unwrap();
    }
    git(&remote, &["init", "-q", "--bare"]);
    git(&clone, &["init", "-q"]);
    git(&clone, &["remote", "add", "origin", as_text(&remote)]);
    let hook = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples/pre-push");
    std::fs::copy(hook, clone.join(".git/hooks/pre-push")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_cutover"), bin.join("cutover")).unwrap();
    let push = || {
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("git");
        command
            .current_dir(&clone)
            .args(["push", "-q", "origin", "HEAD:main"])
            .env("PATH", path)
            .env("HOME", dir.path())
            .env("CUTOVER_STATE_DIR", dir.path().join("state"));
        command.output().unwrap()
    };
    let write = |text: &str| {
        std::fs::write(clone.join("a.yaml"), text).unwrap();
        git(&clone, &["add", "-A"]);
        git(&clone, &["commit", "-q", "-m", "c"]);
    };
    write("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\ndata: {a: b}\n");
    let output = push();
    assert!(output.status.success(), "{}", stderr(&output));
    write("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\ndata: {a: c}\n");
    let output = push();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("! data.a: b → c"), "{}", stderr(&output));
    let good = git(&remote, &["rev-parse", "main"]);
    write("apiVersion: v1\nkind: ConfigMap\n");
    let output = push();
    assert!(!output.status.success());
    assert!(stderr(&output).contains("CUT0003"), "{}", stderr(&output));
    assert_eq!(git(&remote, &["rev-parse", "main"]), good);
}

/// Points a kubeconfig to a port where nobody listens.
fn elsewhere(kubeconfig: &str) -> String {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let at = kubeconfig.find("127.0.0.1:").unwrap();
    let end = kubeconfig[at..]
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':'))
        .unwrap();
    format!("{}{free}{}", &kubeconfig[..at], &kubeconfig[at + end..])
}
