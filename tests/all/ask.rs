//! What people ask for by `cutover migrate`, `approve`, `pause`, `resume` and `abort`: one commit to one file of a real clone,
//! and nothing when that could hold anything else.

use std::path::PathBuf;
use std::process::{Command, Output};

use cutover::cluster::{ConnectOptions, Lookup, Mode, Written, connect};
use cutover::name::Gvk;
use git2::Repository;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::text;
use crate::support::git::{Origin, commit_all};
use crate::support::served::{Served, as_text};

const TEMPLATE: &str = "\
apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
metadata: {name: orders, namespace: shop}
spec: {job: {state: running}}
";

const INTENT: &str = "\
# Asked for by the orders team.
apiVersion: cutover.dev/v1alpha1
kind: Migration
metadata: {name: orders-to-west, namespace: shop}
spec:
  workload: {apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}
  to: west # it has room
  approval: {before: [Handoff, Cleanup]}
";

const OURS: &str = "\
apiVersion: cutover.dev/v1alpha1
kind: WorkloadProfile
metadata: {name: ours}
spec:
  appliesTo: {group: flink.apache.org, kinds: [FlinkDeployment]}
  stateful: true
  suspend: [{op: add, path: /spec/job/state, value: suspended}]
  hold: [{op: add, path: /spec/job/state, value: suspended}]
  start: [{op: add, path: /spec/job/state, value: running}]
  restart: [{op: add, path: /spec/job/state, value: running}]
  observedWhen: has(object.status)
  suspendedWhen: object.status.jobStatus.state == 'FINISHED'
  healthyWhen: object.status.jobStatus.state == 'RUNNING'
";

pub const CONFIG: &str =
    "apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs: [{name: shop, path: fleet}]\n";
const PATH: &str = "fleet/asks/west.yaml";

/// A clone in somebody's hands.
pub struct Clone {
    pub origin: Origin,
    dir: TempDir,
}

impl Clone {
    pub fn of(files: &[(&str, &str)]) -> Self {
        let origin = Origin::with(files);
        let dir = tempfile::tempdir().unwrap();
        let repo = Repository::clone(origin.path().to_str().unwrap(), dir.path().join("clone")).unwrap();
        let mut config = repo.config().unwrap();
        config.set_str("user.name", "Ada").unwrap();
        config.set_str("user.email", "ada@example.com").unwrap();
        Self { origin, dir }
    }

    fn with_intent() -> Self {
        Self::of(&[
            ("cutover.yaml", CONFIG),
            ("fleet/orders.yaml", TEMPLATE),
            (PATH, INTENT),
        ])
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("clone")
    }

    fn repo(&self) -> Repository {
        Repository::open(self.path()).unwrap()
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path().join(path)).unwrap()
    }

    fn write(&self, path: &str, content: &str) {
        std::fs::write(self.path().join(path), content).unwrap();
    }

    /// Commits everything that is in the work tree.
    fn commit_all(&self, message: &str) {
        let by = git2::Signature::now("Ada", "ada@example.com").unwrap();
        commit_all(&self.repo(), &by, message);
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cutover"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env_remove("KUBECONFIG")
            .env("HOME", "/nonexistent")
            .env("CUTOVER_STATE_DIR", self.dir.path().join("state"))
            .env("GIT_CONFIG_NOSYSTEM", "1");
        command
    }

    pub fn cutover(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub fn done(&self, arguments: &[&str]) -> Output {
        let output = self.cutover(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        output
    }

    /// Returns what is said of a command that must do nothing.
    fn refused(&self, arguments: &[&str]) -> String {
        let (head, file) = (self.head(), self.read(PATH));
        let output = self.cutover(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert_eq!((self.head(), self.read(PATH)), (head, file), "{arguments:?}");
        text(&output.stderr)
    }

    pub fn head(&self) -> String {
        self.repo().head().unwrap().target().unwrap().to_string()
    }

    /// Returns the message of the last commit and the paths that it changed.
    pub fn last_commit(&self) -> (String, Vec<String>) {
        let repo = self.repo();
        let commit = repo.head().unwrap().peel_to_commit().unwrap();
        let before = commit.parent(0).unwrap().tree().unwrap();
        let diff = repo
            .diff_tree_to_tree(Some(&before), Some(&commit.tree().unwrap()), None)
            .unwrap();
        let paths = diff
            .deltas()
            .map(|delta| delta.new_file().path().unwrap().display().to_string())
            .collect();
        (commit.message().unwrap().to_owned(), paths)
    }

    pub fn is_clean(&self) -> bool {
        self.repo().statuses(None).unwrap().is_empty()
    }
}

/// Puts a Migration with a status into a control plane.
fn put(served: &Served, status: Value) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = ConnectOptions {
            kubeconfig: Some(served.kubeconfig()),
            ..ConnectOptions::default()
        };
        let cluster = connect(&options).await.unwrap();
        let kind = async |api_version, kind| match cluster.lookup(&Gvk::new(api_version, kind)).await.unwrap()
        {
            Lookup::Served(served) => served,
            Lookup::NotServed => panic!("{kind} is not served"),
        };
        let writer = cluster.writer("test");
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        writer
            .create(&kind("v1", "Namespace").await, &namespace, Mode::Write)
            .await
            .unwrap();
        let kind = kind("cutover.dev/v1alpha1", "Migration").await;
        let intent: Value = serde_yaml::from_str(INTENT).unwrap();
        let Written::Done(object) = writer.create(&kind, &intent, Mode::Write).await.unwrap() else {
            panic!("it is there already");
        };
        writer.replace_status(&kind, &object, &status).await.unwrap();
    });
}

fn waiting(attempt: u32) -> Value {
    json!({
        "phase": "Capture", "attempt": attempt, "observedGeneration": 1,
        "waitingFor": {
            "code": "Approval", "approval": "Handoff", "reason": "approval of Handoff",
            "since": "2026-03-01T10:00:00Z",
        },
    })
}

/// The record of an intent, as the status branch has it.
fn record(status: &Value) -> String {
    let mut record: Value = serde_yaml::from_str(INTENT).unwrap();
    record["status"] = status.clone();
    serde_yaml::to_string(&record).unwrap()
}

const RECORD: &str = "intents/shop/migration-orders-to-west.yaml";

#[test]
fn a_migration_is_written_where_others_are_and_pushed_alone() {
    let clone = Clone::with_intent();
    clone.write("fleet/notes.txt", "mine, and not yours");
    let asked = [
        "migrate",
        "orders",
        "--to",
        "north",
        "--from",
        "west",
        "--healthy-for",
        "90s",
        "--offline",
    ];
    let more = [
        "--require-approval",
        "handoff,Cleanup",
        "--push",
        "-m",
        "east is full (INC-7)",
    ];
    let output = clone.done(&[&asked[..], &more].concat());
    assert_eq!(text(&output.stdout), "fleet/asks/orders-to-north.yaml\n");
    insta::assert_snapshot!(clone.origin.read("main", "fleet/asks/orders-to-north.yaml").unwrap(), @"
    apiVersion: cutover.dev/v1alpha1
    kind: Migration
    metadata:
      name: orders-to-north
      namespace: shop
    spec:
      workload:
        apiVersion: flink.apache.org/v1beta1
        kind: FlinkDeployment
        name: orders
      from: west
      to: north
      verify:
        healthyFor: 90s
      approval:
        before:
        - Handoff
        - Cleanup
    ");
    let (message, paths) = clone.last_commit();
    assert_eq!(paths, ["fleet/asks/orders-to-north.yaml"]);
    insta::assert_snapshot!(message, @"
    Move orders from west to north

    east is full (INC-7)

    Asks for Migration shop/orders-to-north of FlinkDeployment shop/orders, in fleet/asks/orders-to-north.yaml.

    Cutover-Intent: shop/orders-to-north
    ");
    let tip = clone.origin.tip("main").unwrap();
    assert_eq!(tip.as_str(), clone.head());
    assert_eq!(clone.read("fleet/notes.txt"), "mine, and not yours");
    assert!(text(&clone.done(&["validate"]).stderr).contains("no findings"));
}

#[test]
fn a_migration_is_told_when_it_may_begin_what_changes_and_what_must_hold() {
    let clone = Clone::with_intent();
    let asked = [
        "migrate",
        "orders",
        "--to",
        "north",
        "--offline",
        "--name",
        "away",
    ];
    let window = [
        "--daily",
        "Sat,Sun@22:00-05:30",
        "--not-after",
        "2030-01-31T06:00:00Z",
    ];
    let checks = ["--check", "object.status.jobStatus.state == 'RUNNING'"];
    let changes = [
        "--set",
        "/spec/job/parallelism=4",
        "--set",
        "/spec/image=orders:2",
    ];
    clone.done(&[&asked[..], &window, &checks, &changes].concat());
    insta::assert_snapshot!(clone.read("fleet/asks/away.yaml"), @r"
    apiVersion: cutover.dev/v1alpha1
    kind: Migration
    metadata:
      name: away
      namespace: shop
    spec:
      workload:
        apiVersion: flink.apache.org/v1beta1
        kind: FlinkDeployment
        name: orders
      to: north
      changes:
        patches:
        - op: add
          path: /spec/job/parallelism
          value: 4
        - op: add
          path: /spec/image
          value: orders:2
      verify:
        checks:
        - cel: object.status.jobStatus.state == 'RUNNING'
      window:
        notAfter: 2030-01-31T06:00:00Z
        daily:
          from: 22:00
          to: 05:30
          days:
          - Sat
          - Sun
    ");
    for (flag, value, why) in [
        (
            "--check",
            "pod.ready",
            "unknown variable pod: only object is known",
        ),
        ("--check", "object.", "not"),
        ("--daily", "Sunday@22:00-05:30", "days are Mon, Tue"),
        ("--daily", "22-5", "hours are HH:MM"),
        ("--set", "spec.image=x", "a JSON pointer begins with /"),
    ] {
        let said = clone.refused(&[&asked[..], &[flag, value]].concat());
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn only_a_workload_without_state_is_started_first() {
    let web = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n";
    let clone = Clone::of(&[
        ("cutover.yaml", CONFIG),
        ("fleet/orders.yaml", TEMPLATE),
        ("fleet/web.yaml", web),
    ]);
    let why = "strategy StartFirst lets two copies run, and this kind of workload has state";
    let start_first = ["migrate", "orders", "--to", "west", "--offline", "--start-first"];
    // The platform may have a profile of its own in the control plane: a reconciler refuses it, if not.
    let warned = clone.cutover(&start_first);
    let said = text(&warned.stderr);
    assert_eq!(warned.status.code(), Some(0), "{said}");
    assert!(
        said.contains("warning: Migration shop/orders-to-west is refused, unless the control plane has")
            && said.contains(why),
        "{said}"
    );
    let clone = Clone::of(&[
        ("cutover.yaml", CONFIG),
        ("fleet/orders.yaml", TEMPLATE),
        ("fleet/web.yaml", web),
        ("fleet/profile.yaml", OURS),
    ]);
    let refused = clone.cutover(&start_first);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains(why), "{said}");
    clone.done(&["migrate", "web", "--to", "west", "--offline", "--start-first"]);
    let written = clone.read("fleet/intents/web-to-west.yaml");
    assert!(written.contains("strategy: StartFirst"), "{written}");
}

#[test]
fn the_first_migration_of_a_repository_goes_beside_its_workload() {
    let clone = Clone::of(&[("cutover.yaml", CONFIG), ("fleet/orders.yaml", TEMPLATE)]);
    clone.done(&["migrate", "flinkdeployment/orders", "--to", "west"]);
    assert!(
        clone
            .read("fleet/intents/orders-to-west.yaml")
            .contains("to: west")
    );
    assert!(clone.is_clean());
    let said = text(&clone.cutover(&["migrate", "storefront", "--to", "west"]).stderr);
    assert!(said.contains("the repository has no storefront"), "{said}");
    assert!(said.contains("--api-version"), "{said}");
    let again = text(&clone.cutover(&["migrate", "orders", "--to", "west"]).stderr);
    assert!(
        again.contains("asks for that already, and has not begun"),
        "{again}"
    );
}

#[test]
fn the_same_is_asked_for_again_only_after_the_first_has_ended() {
    let clone = Clone::with_intent();
    clone.origin.commit(
        "cutover-status",
        &[(RECORD, &record(&json!({"phase": "Verify", "attempt": 1})))],
    );
    let said = clone.refused(&["migrate", "orders", "--to", "west"]);
    assert!(said.contains("and is not done: Verify"), "{said}");
    let ended = record(&json!({"phase": "Completed", "attempt": 1}));
    clone.origin.commit("cutover-status", &[(RECORD, &ended)]);
    clone.done(&["migrate", "orders", "--to", "west"]);
    assert!(
        clone
            .read("fleet/asks/orders-to-west-2.yaml")
            .contains("name: orders-to-west-2")
    );
}

#[test]
fn nothing_is_moved_to_a_cluster_that_is_being_emptied() {
    let clone = Clone::with_intent();
    clone.origin.commit(
        "cutover-status",
        &[(RECORD, &record(&json!({"phase": "Verify", "attempt": 1})))],
    );
    // It may be an emergency: told, not refused.
    let said = text(&clone.done(&["evacuate", "west", "--dry-run"]).stderr);
    assert!(
        said.contains("FlinkDeployment orders in west, and west without workloads"),
        "{said}"
    );
    let ended = record(&json!({"phase": "Completed", "attempt": 1}));
    clone.origin.commit("cutover-status", &[(RECORD, &ended)]);
    clone.done(&["evacuate", "west"]);
    let evacuation = json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Evacuation", "metadata": {"name": "evacuate-west"},
        "spec": {"cluster": "west"}, "status": {"phase": "Moving"},
    });
    let (path, text) = (
        "intents/_cluster/evacuation-evacuate-west.yaml",
        evacuation.to_string(),
    );
    clone.origin.commit("cutover-status", &[(path, &text)]);
    let said = clone.refused(&["migrate", "orders", "--to", "west", "--name", "back"]);
    assert!(
        said.contains("and Evacuation evacuate-west exclude each other")
            && said.contains("has not ended: Moving"),
        "{said}"
    );
}

#[test]
fn what_another_one_has_not_ended_with_is_not_asked_for_in_another_cluster() {
    let clone = Clone::with_intent();
    clone.origin.commit(
        "cutover-status",
        &[(RECORD, &record(&json!({"phase": "Verify", "attempt": 1})))],
    );
    let north = ["migrate", "orders", "--to", "north"];
    let said = clone.refused(&north);
    assert!(
        said.contains("FlinkDeployment orders in north and in west")
            && said.contains("has not ended: Verify"),
        "{said}"
    );
    // One that begins where the other one ends comes after it.
    clone.done(&[&north[..], &["--from", "west", "--dry-run"]].concat());
    // Where nobody says how the other one stands, that is what is told.
    let output = clone.done(&[&north[..], &["--offline", "--dry-run"]].concat());
    let said = text(&output.stderr);
    assert!(
        said.contains("unless one has ended, only one of them can have it"),
        "{said}"
    );
    let ended = record(&json!({"phase": "Completed", "attempt": 1}));
    clone.origin.commit("cutover-status", &[(RECORD, &ended)]);
    let said = text(&clone.done(&north).stderr);
    assert!(!said.contains("unless one has ended"), "{said}");
    // The file of the one that has ended was there before.
    assert!(text(&clone.done(&["validate"]).stderr).contains("1 warning"));
}

const POLICY: &str = "\
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: orders, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}]
  placement: {clusterAffinity: {clusterNames: [east]}}
";

#[test]
fn validate_says_what_a_change_takes_from_a_workload_with_state() {
    let clone = Clone::of(&[
        ("cutover.yaml", CONFIG),
        ("fleet/orders.yaml", TEMPLATE),
        ("fleet/policy.yaml", POLICY),
    ]);
    clone.done(&["validate"]);
    clone.write("fleet/policy.yaml", &POLICY.replace("[east]", "[west]"));
    let says = "error[CUT0114]: PropagationPolicy shop/orders: FlinkDeployment shop/orders would stop in east and start in west from \
                nothing";
    let refused = |arguments: &[&str]| {
        let output = clone.cutover(arguments);
        let said = text(&output.stdout);
        assert!(!output.status.success() && said.contains(says), "{said}");
        assert!(
            said.contains("fleet/policy.yaml:6:") && said.contains("cutover migrate FlinkDeployment/orders"),
            "{said}"
        );
    };
    // As it is in the work tree, and as it is committed.
    refused(&["validate"]);
    let before = clone.head();
    clone.commit_all("Move orders");
    refused(&["validate"]);
    refused(&["validate", "--base", &before]);
    assert!(clone.cutover(&["validate", "--base", "HEAD"]).status.success());
    let report = clone.cutover(&["review", "--offline", "--revision", "HEAD^..HEAD"]);
    let said = text(&report.stdout);
    assert!(
        !report.status.success() && said.contains("would stop in east"),
        "{said}"
    );
    // With its Migration in the same push it goes with its state.
    clone.write("fleet/west.yaml", INTENT);
    let output = clone.cutover(&["validate", "--base", &before]);
    assert!(output.status.success(), "{}", text(&output.stdout));
}

#[test]
fn what_is_not_valid_is_not_written() {
    let clone = Clone::with_intent();
    let said = clone.refused(&[
        "migrate",
        "orders",
        "--to",
        "north",
        "--profile",
        "flnk",
        "--offline",
    ]);
    assert!(
        said.contains("nothing was written") && said.contains("flnk"),
        "{said}"
    );
    let said = clone.refused(&[
        "migrate",
        "orders",
        "--to",
        "north",
        "--file",
        "west.txt",
        "--offline",
    ]);
    assert!(said.contains("belongs to no sync"), "{said}");
    assert!(clone.is_clean());
}

#[test]
fn an_approval_is_for_the_attempt_and_phase_that_the_control_plane_says() {
    let served = Served::before_cutover();
    assert!(served.cutover(&["init", "--cluster"]).status.success());
    put(&served, waiting(3));
    let clone = Clone::with_intent();
    clone.done(&[
        "approve",
        "orders-to-west",
        "--kubeconfig",
        as_text(&served.kubeconfig()),
    ]);
    let approval = "  approvals:\n  - phase: Handoff\n    attempt: 3\n    by: Ada\n";
    assert_eq!(clone.read(PATH), format!("{INTENT}{approval}"));
    let (message, paths) = clone.last_commit();
    assert_eq!(paths, [PATH]);
    insta::assert_snapshot!(message, @"
    Approve Handoff of shop/orders-to-west

    Attempt 3 to move FlinkDeployment orders to west may begin Handoff.

    Cutover-Intent: shop/orders-to-west
    ");
    let said = clone.refused(&[
        "approve",
        "orders-to-west",
        "--phase",
        "Verify",
        "--kubeconfig",
        as_text(&served.kubeconfig()),
    ]);
    assert!(
        said.contains("does not wait for an approval of Verify, but of Handoff and Cleanup"),
        "{said}"
    );
}

#[test]
fn without_a_control_plane_the_status_branch_says_which_attempt_is_meant() {
    let clone = Clone::with_intent();
    clone
        .origin
        .commit("cutover-status", &[(RECORD, &record(&waiting(2)))]);
    clone.done(&["approve", "orders-to-west", "--by", "the team"]);
    assert!(
        clone
            .read(PATH)
            .ends_with("  - phase: Handoff\n    attempt: 2\n    by: the team\n")
    );
    let output = clone.done(&["approve", "orders-to-west", "--phase", "handoff"]);
    let said = text(&output.stderr);
    assert!(said.contains("approved already for attempt 2"), "{said}");
}

#[test]
fn without_either_the_attempt_has_to_be_said() {
    let clone = Clone::with_intent();
    std::fs::remove_dir_all(clone.origin.path()).unwrap();
    let said = clone.refused(&["approve", "orders-to-west"]);
    assert!(
        said.contains("how shop/orders-to-west stands is not known"),
        "{said}"
    );
    assert!(said.contains("hint: name it with --attempt"), "{said}");
    clone.done(&[
        "approve",
        "orders-to-west",
        "--attempt",
        "1",
        "--phase",
        "Handoff",
        "--offline",
    ]);
    assert!(clone.read(PATH).contains("attempt: 1"));
}

#[test]
fn a_pause_and_its_end_leave_the_file_as_it_was() {
    let clone = Clone::with_intent();
    clone.done(&["pause", "shop/orders-to-west"]);
    assert_eq!(clone.read(PATH), format!("{INTENT}  paused: true\n"));
    assert_eq!(
        clone.last_commit().0.lines().next(),
        Some("Pause shop/orders-to-west")
    );
    let said = text(&clone.done(&["pause", "shop/orders-to-west"]).stderr);
    assert!(
        said.contains("nothing to do: shop/orders-to-west is paused already"),
        "{said}"
    );
    clone.done(&["resume", "orders-to-west", "-n", "shop"]);
    assert_eq!(clone.read(PATH), INTENT);
    assert!(clone.is_clean());
}

#[test]
fn an_abort_that_would_not_be_obeyed_is_refused() {
    let clone = Clone::with_intent();
    let committed = json!({
        "spec": {"workload": {"apiVersion": "a/v1", "kind": "A", "name": "a"}, "to": "west"},
        "profile": {
            "appliesTo": {"group": "a", "kinds": ["A"]}, "stateful": false, "suspend": [], "hold": [], "start": [],
            "restart": [], "observedWhen": "true", "suspendedWhen": "true", "healthyWhen": "true",
        },
        "source": "east", "target": "west", "templateUid": "t", "seq": 3, "pinned": true, "clusters": ["west"],
        "binding": {"name": "b", "uid": "b", "id": "i"}, "fence": {}, "committed": true,
    });
    let status = json!({"phase": "Cleanup", "attempt": 1, "journal": committed});
    clone
        .origin
        .commit("cutover-status", &[(RECORD, &record(&status))]);
    let said = clone.refused(&["abort", "orders-to-west"]);
    assert!(said.contains("past its commit point"), "{said}");
    clone
        .origin
        .commit("cutover-status", &[(RECORD, &record(&waiting(1)))]);
    let output = clone.done(&["abort", "orders-to-west", "--dry-run"]);
    insta::assert_snapshot!(text(&output.stdout), @"
    --- a/fleet/asks/west.yaml
    +++ b/fleet/asks/west.yaml
    @@ -6,3 +6,4 @@
       workload: {apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}
       to: west # it has room
       approval: {before: [Handoff, Cleanup]}
    +  abort: true
    ");
    assert_eq!(clone.read(PATH), INTENT);
    clone.done(&["abort", "orders-to-west", "--no-commit"]);
    assert_eq!(clone.read(PATH), format!("{INTENT}  abort: true\n"));
    assert!(!clone.is_clean());
}

#[test]
fn nothing_of_somebody_elses_gets_into_the_commit() {
    let clone = Clone::with_intent();
    let pause = ["pause", "orders-to-west", "--offline"];

    clone.write("fleet/other.yaml", "a: 1\n");
    let repo = clone.repo();
    let mut index = repo.index().unwrap();
    index.add_path(std::path::Path::new("fleet/other.yaml")).unwrap();
    index.write().unwrap();
    let said = clone.refused(&pause);
    assert!(said.contains("fleet/other.yaml is staged"), "{said}");
    index
        .remove_path(std::path::Path::new("fleet/other.yaml"))
        .unwrap();
    index.write().unwrap();
    std::fs::remove_file(clone.path().join("fleet/other.yaml")).unwrap();

    clone.write(PATH, &format!("{INTENT}# not done yet\n"));
    let said = clone.refused(&pause);
    assert!(
        said.contains("west.yaml has changes that are not committed"),
        "{said}"
    );
    clone.write(PATH, INTENT);

    let head = clone.head();
    clone.repo().set_head_detached(head.parse().unwrap()).unwrap();
    let said = clone.refused(&pause);
    assert!(said.contains("HEAD is on no branch"), "{said}");
    clone.repo().set_head("refs/heads/main").unwrap();

    let mut config = clone.repo().config().unwrap();
    config.set_bool("commit.gpgSign", true).unwrap();
    let said = clone.refused(&pause);
    assert!(
        said.contains("can't sign commits") && said.contains("--no-commit"),
        "{said}"
    );
    config.set_bool("commit.gpgSign", false).unwrap();
    config.remove("user.name").unwrap();
    let said = clone.refused(&pause);
    assert!(said.contains("Git doesn't know who you are"), "{said}");
}

#[test]
fn a_push_that_came_too_late_keeps_the_commit_and_says_what_to_do() {
    let clone = Clone::with_intent();
    let theirs = clone.origin.commit("main", &[("fleet/theirs.txt", "first")]);
    let output = clone.cutover(&["pause", "orders-to-west", "--offline", "--push"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("hint: the commit is made; git pull --rebase, then git push"),
        "{said}"
    );
    assert_eq!(clone.origin.tip("main").unwrap(), theirs);
    assert_eq!(clone.last_commit().1, [PATH]);
}

#[test]
fn what_is_not_in_a_clone_is_only_written() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("orders.yaml"), TEMPLATE).unwrap();
    let run = |more: &[&str]| {
        let asked = [
            "migrate",
            "orders",
            "--to",
            "west",
            "--offline",
            "-C",
            dir.path().to_str().unwrap(),
        ];
        crate::cli::cutover(&[&asked[..], more].concat())
    };
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("not in a working copy of a Git repository"));
    assert!(run(&["--no-commit"]).status.success());
    assert!(dir.path().join("intents/orders-to-west.yaml").exists());
}

#[test]
fn the_status_branch_alone_says_how_everything_stands() {
    let clone = Clone::with_intent();
    let output = clone.cutover(&["status", "--recorded"]);
    assert!(
        text(&output.stderr).contains("has no branch cutover-status"),
        "{}",
        text(&output.stderr)
    );
    clone
        .origin
        .commit("cutover-status", &[(RECORD, &record(&waiting(2)))]);
    let said = text(&clone.done(&["status", "--recorded", "orders-to-west"]).stdout);
    assert!(
        said.starts_with(
            "shop/orders-to-west  Migration  FlinkDeployment orders  ? → west  attempt 2  Capture\n"
        ),
        "{said}"
    );
    assert!(
        said.ends_with("  next: cutover approve shop/orders-to-west --phase Handoff\n"),
        "{said}"
    );
    let url = clone.origin.path();
    let elsewhere = [
        "status",
        "--recorded",
        "-o",
        "json",
        "--repo",
        url.to_str().unwrap(),
    ];
    let document: Value = serde_json::from_slice(&clone.done(&elsewhere).stdout).unwrap();
    assert_eq!(document["intents"][0]["waitingFor"]["approval"], "Handoff");
    let output = clone.cutover(&["status", "--recorded", "nothing"]);
    assert!(text(&output.stderr).contains("there is no intent nothing"));
}

pub const WEB: &str = "\
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec: {}
";

#[test]
fn a_suspension_is_written_committed_and_ended_by_a_commit() {
    let clone = Clone::of(&[("cutover.yaml", CONFIG), ("fleet/web.yaml", WEB)]);
    clone.done(&[
        "suspend",
        "Deployment/web",
        "--cluster",
        "green,blue",
        "--reason",
        "a loop",
        "--for",
        "2h",
        "--push",
    ]);
    let path = "fleet/intents/suspend-web.yaml";
    let read = |clone: &Clone| -> Value { serde_yaml::from_str(&clone.read(path)).unwrap() };
    let asked = read(&clone);
    assert_eq!(
        asked["spec"]["target"],
        json!({"workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}})
    );
    assert_eq!(asked["spec"]["clusters"], json!(["green", "blue"]));
    assert_eq!(asked["spec"]["scope"], "Dispatching");
    let time = |asked: &Value| {
        asked["spec"]["until"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    };
    let (until, now) = (time(&asked), jiff::Timestamp::now());
    assert!(until > now + std::time::Duration::from_secs(7100), "{until}");

    clone.done(&["resume", "suspend-web", "--offline", "--push"]);
    assert!(time(&read(&clone)) <= jiff::Timestamp::now() + std::time::Duration::from_secs(1));
    let again = clone.done(&["resume", "shop/suspend-web", "--offline"]);
    assert!(
        text(&again.stderr).contains("nothing to do"),
        "{}",
        text(&again.stderr)
    );

    clone.done(&[
        "suspend",
        "PropagationPolicy/web",
        "--scope",
        "both",
        "--reason",
        "again",
    ]);
    let second: Value = serde_yaml::from_str(&clone.read("fleet/intents/suspend-web-2.yaml")).unwrap();
    assert_eq!(
        second["spec"]["target"],
        json!({"policy": {"kind": "PropagationPolicy", "name": "web"}})
    );
}

#[test]
fn a_suspension_of_what_is_not_in_the_repository_writes_nothing() {
    let clone = Clone::of(&[("cutover.yaml", CONFIG), ("fleet/web.yaml", WEB)]);
    let output = clone.cutover(&["suspend", "Deployment/wbe", "--reason", "r"]);
    assert!(!output.status.success());
    assert!(
        text(&output.stderr).contains("has no Deployment/wbe"),
        "{}",
        text(&output.stderr)
    );
    assert!(!clone.path().join("fleet/intents").exists());
}

#[test]
fn a_commit_is_by_whom_the_environment_names_before_the_configuration() {
    let clone = Clone::of(&[("cutover.yaml", CONFIG), ("fleet/web.yaml", WEB)]);
    let asked = ["evacuate", "east", "--offline"];
    let status = clone
        .command(&asked)
        .envs([
            ("GIT_AUTHOR_NAME", "Grace"),
            ("GIT_AUTHOR_EMAIL", "grace@example.com"),
            ("GIT_COMMITTER_NAME", "Robot"),
        ])
        .status();
    assert!(status.unwrap().success());
    let by = || {
        let repo = clone.repo();
        let commit = repo.head().unwrap().peel_to_commit().unwrap();
        format!("{} {}", commit.author(), commit.committer())
    };
    assert_eq!(by(), "Grace <grace@example.com> Robot <ada@example.com>");
    let approved = clone
        .command(&["suspend", "web", "--reason", "r", "--offline"])
        .env("GIT_COMMITTER_EMAIL", "robot@example.com")
        .status();
    assert!(approved.unwrap().success());
    assert_eq!(by(), "Ada <ada@example.com> Ada <robot@example.com>");
}
