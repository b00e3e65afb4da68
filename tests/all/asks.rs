//! What people ask for by `cutover rollout`, `rebalance`, `shift`, `evacuate` and `failover`, and what they say to such intents: one
//! commit to one file of a real clone.

use serde_json::{Value, json};

use crate::ask::{CONFIG, Clone, WEB};
use crate::cli::text;

const ORDERS: &str = "\
apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
metadata: {name: orders, namespace: shop}
spec: {job: {state: running}}
";

fn clone() -> Clone {
    Clone::of(&[
        ("cutover.yaml", CONFIG),
        ("fleet/web.yaml", WEB),
        ("fleet/orders.yaml", ORDERS),
    ])
}

fn asked(clone: &Clone, path: &str) -> Value {
    serde_yaml::from_str(&clone.read(path)).unwrap()
}

/// Returns what is said of a command that must write nothing.
fn refused(clone: &Clone, arguments: &[&str]) -> String {
    let head = clone.head();
    let output = clone.cutover(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    assert_eq!(clone.head(), head, "{arguments:?}");
    assert!(clone.is_clean(), "{arguments:?}");
    text(&output.stderr)
}

fn subject(clone: &Clone) -> String {
    let (message, paths) = clone.last_commit();
    assert_eq!(paths.len(), 1, "{paths:?}");
    assert!(clone.is_clean());
    message.lines().next().unwrap().to_owned()
}

const ROLLOUT: &str = "fleet/intents/web-rollout.yaml";

#[test]
fn a_rollout_is_written_with_its_waves_and_a_workload_has_one() {
    let clone = clone();
    clone.done(&[
        "rollout",
        "Deployment/web",
        "--wave",
        "canary=30m",
        "--wave",
        "eu-1,eu-2",
        "--max-unavailable",
        "2",
        "--healthy-for",
        "1m",
        "--approve-before",
        "2",
        "--undo-on-failure",
        "--push",
    ]);
    assert_eq!(subject(&clone), "Let changes of web go cluster by cluster");
    let intent = asked(&clone, ROLLOUT);
    assert_eq!(intent["metadata"], json!({"name": "web", "namespace": "shop"}));
    assert_eq!(
        intent["spec"],
        json!({
            "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "waves": [{"clusters": ["canary"], "soak": "30m"}, {"clusters": ["eu-1", "eu-2"]}],
            "progress": {"healthyFor": "1m"}, "maxUnavailableClusters": 2, "onFailure": "Undo",
            "approval": {"beforeWaves": [2]},
        })
    );
    let said = refused(&clone, &["rollout", "Deployment/web", "--order", "east"]);
    assert!(
        said.contains("Rollout shop/web rolls out Deployment web already"),
        "{said}"
    );
    let said = refused(&clone, &["rollout", "Deployment/wbe"]);
    assert!(said.contains("the repository has no Deployment/wbe"), "{said}");
    assert!(said.contains("did you mean Deployment/web?"), "{said}");
    let said = refused(&clone, &["rollout", "FlinkDeployment/orders", "--wave", "a,,b"]);
    assert!(said.contains("name clusters"), "{said}");
    let said = refused(
        &clone,
        &[
            "rollout",
            "FlinkDeployment/orders",
            "--order",
            "east,east",
            "--dry-run",
            "--name",
            "Not_valid",
        ],
    );
    assert!(said.contains("error"), "{said}");
}

/// A rollout as the status branch tells of it: its third attempt, with three revisions.
fn record() -> String {
    let revision = |name: &str, git: &str, completed: Option<&str>| {
        let mut revision = json!({"name": name, "git": git, "content": {}, "manifest": {}});
        if let Some(at) = completed {
            revision["completedAt"] = json!(at);
        }
        revision
    };
    serde_yaml::to_string(&json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Rollout", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        "status": {"phase": "Completed", "attempt": 3, "stable": "cccc1111", "target": "cccc1111", "revisions": [
            revision("cccc1111", "1234567890", Some("2026-03-03T10:00:00Z")),
            revision("bbbb1111", "2345678901", None),
            revision("aaaa1111", "3456789012", Some("2026-03-01T10:00:00Z")),
        ]},
    }))
    .unwrap()
}

#[test]
fn a_rollout_is_taken_back_and_follows_git_again() {
    let clone = clone();
    clone.done(&["rollout", "Deployment/web", "--order", "canary", "--push"]);
    let before = clone.read(ROLLOUT);
    let said = refused(&clone, &["rollout", "undo", "web"]);
    assert!(said.contains("the revisions of shop/web are not known"), "{said}");
    clone
        .origin
        .commit("cutover-status", &[("intents/shop/rollout-web.yaml", &record())]);
    clone.done(&["rollout", "undo", "shop/web"]);
    assert_eq!(subject(&clone), "Take shop/web back to revision aaaa1111");
    assert_eq!(asked(&clone, ROLLOUT)["spec"]["undoTo"], "aaaa1111");
    clone.done(&["rollout", "undo", "web", "--to", "2345"]);
    assert_eq!(asked(&clone, ROLLOUT)["spec"]["undoTo"], "bbbb1111");
    let again = clone.done(&["rollout", "undo", "web", "--to", "bbbb"]);
    assert!(text(&again.stderr).contains("nothing to do"));
    let said = refused(&clone, &["rollout", "undo", "web", "--to", "dddd"]);
    assert!(said.contains("there is cccc1111 (12345678), bbbb1111"), "{said}");
    clone.done(&["rollout", "follow", "web"]);
    assert_eq!(clone.read(ROLLOUT), before);
    let again = clone.done(&["rollout", "follow", "web"]);
    assert!(text(&again.stderr).contains("follows Git"));
    clone.done(&["rollout", "retry", "web"]);
    clone.done(&["rollout", "retry", "web"]);
    assert_eq!(asked(&clone, ROLLOUT)["spec"]["retry"], 2);
}

#[test]
fn a_wave_is_approved_for_the_attempt_that_runs() {
    let clone = clone();
    clone.done(&[
        "rollout",
        "Deployment/web",
        "--order",
        "canary",
        "--approve-before",
        "2",
        "--push",
    ]);
    clone
        .origin
        .commit("cutover-status", &[("intents/shop/rollout-web.yaml", &record())]);
    clone.done(&["approve", "web", "--wave", "2"]);
    assert_eq!(
        asked(&clone, ROLLOUT)["spec"]["approvals"],
        json!([{"wave": 2, "attempt": 3, "by": "Ada"}])
    );
    let said = refused(&clone, &["approve", "web", "--wave", "3"]);
    assert!(said.contains("doesn't wait for an approval of wave 3"), "{said}");
    let said = refused(&clone, &["approve", "web"]);
    assert!(said.contains("--wave"), "{said}");
    clone.done(&["pause", "web"]);
    clone.done(&["abort", "shop/web"]);
    let spec = &asked(&clone, ROLLOUT)["spec"];
    assert_eq!((&spec["paused"], &spec["abort"]), (&json!(true), &json!(true)));
    clone.done(&["resume", "web"]);
    assert!(asked(&clone, ROLLOUT)["spec"]["paused"].is_null());
}

#[test]
fn a_percentage_is_approved_for_the_attempt_that_runs() {
    let clone = clone();
    clone.done(&[
        "shift",
        "Deployment/web",
        "--from",
        "east",
        "--to",
        "west",
        "--percentages",
        "50,100",
        "--approve-at",
        "50",
        "--push",
    ]);
    let path = "fleet/intents/web-to-west.yaml";
    let shift = asked(&clone, path);
    assert_eq!(
        shift["spec"],
        json!({
            "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "from": {"cluster": "east"}, "to": "west", "percentages": [50, 100], "pause": {"approval": [50]},
        })
    );
    let said = refused(
        &clone,
        &["approve", "web-to-west", "--percent", "50", "--offline"],
    );
    assert!(said.contains("name it with --attempt"), "{said}");
    let mut record = shift;
    record["status"] = json!({"phase": "Shifting", "attempt": 2});
    let record = serde_yaml::to_string(&record).unwrap();
    clone.origin.commit(
        "cutover-status",
        &[("intents/shop/replicashift-web-to-west.yaml", &record)],
    );
    clone.done(&["approve", "web-to-west", "--percent", "50", "--by", "ann"]);
    assert_eq!(
        asked(&clone, path)["spec"]["approvals"],
        json!([{"percent": 50, "attempt": 2, "by": "ann"}])
    );
    let said = refused(&clone, &["approve", "web-to-west", "--percent", "60"]);
    assert!(said.contains("doesn't wait for an approval of 60%"), "{said}");
}

#[test]
fn a_rebalance_and_an_evacuation_are_written_for_the_whole_fleet() {
    let clone = clone();
    clone.done(&[
        "rebalance",
        "--when",
        "cluster-joined,capacity-lacking",
        "--kind",
        "Deployment",
        "--max-parallel",
        "2",
        "--tolerance",
        "10",
        "--push",
    ]);
    assert_eq!(subject(&clone), "Rebalance workloads");
    let intent = asked(&clone, "fleet/intents/rebalance.yaml");
    assert_eq!(intent["metadata"], json!({"name": "rebalance"}));
    assert_eq!(
        intent["spec"],
        json!({
            "when": ["ClusterJoined", "CapacityLacking"], "tolerance": 10, "select": {"kinds": ["Deployment"]},
            "maxParallel": 2, "maxFailures": 0,
        })
    );
    // The older name of --report-only.
    clone.done(&["rebalance", "--say-only", "-l", "tier=critical"]);
    let second = asked(&clone, "fleet/intents/rebalance-2.yaml");
    assert_eq!(second["spec"]["dryRun"], true);
    assert_eq!(
        second["spec"]["select"],
        json!({"labelSelector": "tier=critical"})
    );
    let said = refused(&clone, &["rebalance", "-l", "tier in (a"]);
    assert!(said.contains("error"), "{said}");

    clone.done(&[
        "evacuate",
        "east",
        "--to",
        "west",
        "--first",
        "tier=critical",
        "--require-approval",
        "--keep-cordoned",
    ]);
    assert_eq!(
        asked(&clone, "fleet/intents/evacuate-east.yaml")["spec"],
        json!({
            "cluster": "east", "to": {"clusters": ["west"]}, "order": [{"labelSelector": "tier=critical"}],
            "maxParallel": 1, "maxFailures": 0, "approval": {"before": ["Moving"]}, "keepCordoned": true,
        })
    );
    clone.done(&["approve", "evacuate-east", "--attempt", "1", "--offline"]);
    clone.done(&["pause", "rebalance"]);
    assert_eq!(
        asked(&clone, "fleet/intents/rebalance.yaml")["spec"]["paused"],
        true
    );
}

#[test]
fn a_failover_is_asked_for_and_its_plan_is_paused_and_ended() {
    let clone = clone();
    clone.done(&[
        "failover",
        "FlinkDeployment/orders",
        "--to",
        "west",
        "--reason",
        "the disks are dying",
        "--attempt",
        "1",
        "--offline",
    ]);
    let path = "fleet/intents/orders-failover.yaml";
    let request = asked(&clone, path)["spec"]["request"].clone();
    assert_eq!(
        (&request["to"], &request["attempt"], &request["reason"]),
        (&json!("west"), &json!(1), &json!("the disks are dying"))
    );
    clone.done(&["pause", "shop/orders-failover"]);
    assert_eq!(asked(&clone, path)["spec"]["paused"], true);
    clone.done(&["abort", "shop/orders-failover"]);
    assert_eq!(asked(&clone, path)["spec"]["abort"], true);
    assert_eq!(subject(&clone), "Abort shop/orders-failover");
}

const API: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop, labels: {tier: web}}
spec: {}
";

#[test]
fn a_rollout_policy_is_written_and_says_what_it_selects() {
    let clone = clone();
    std::fs::write(clone.path().join("fleet/api.yaml"), API).unwrap();
    let asks = |more: &[&str]| {
        let mut arguments = vec!["rollout", "policy", "web-tier", "--no-commit"];
        arguments.extend(more);
        clone.cutover(&arguments)
    };
    let output = asks(&[
        "--select",
        "deployment",
        "-l",
        "tier=web",
        "--wave",
        "canary=30m",
        "--max-parallel",
        "2",
    ]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("selects Deployment api\n"), "{said}");
    let policy = asked(&clone, "fleet/intents/web-tier.yaml");
    assert_eq!(
        policy["metadata"],
        json!({"name": "web-tier", "namespace": "shop"})
    );
    assert_eq!(
        policy["spec"],
        json!({
            "select": [{"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": "tier=web"}],
            "waves": [{"clusters": ["canary"], "soak": "30m"}], "maxParallel": 2,
        })
    );
    for (arguments, says) in [
        (
            &["--select", "Deployment"][..],
            "there is a RolloutPolicy shop/web-tier already",
        ),
        (
            &["--select", "Deployment", "-l", "tier=db"],
            "nothing in the repository is selected by Deployment",
        ),
        (&["--select", "StatefulSet"], "the repository has no StatefulSet"),
        (&["--select", "Deployment", "-l", "tier in"], "invalid value"),
        (&[], "--select"),
    ] {
        let output = asks(arguments);
        let said = text(&output.stderr);
        assert!(
            !output.status.success() && said.contains(says),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn an_approval_that_nobody_asked_for_is_an_error() {
    let clone = clone();
    let plan = "\
apiVersion: cutover.dev/v1alpha1
kind: FailoverPlan
metadata: {name: orders, namespace: shop}
spec:
  workload: {apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}
";
    std::fs::write(clone.path().join("fleet/plan.yaml"), plan).unwrap();
    let stands = |status: Value| {
        let mut record: Value = serde_yaml::from_str(plan).unwrap();
        record["status"] = status;
        let record = serde_yaml::to_string(&record).unwrap();
        clone.origin.commit(
            "cutover-status",
            &[("intents/shop/failoverplan-orders.yaml", &record)],
        );
    };
    let refused = |more: &[&str]| {
        let mut arguments = vec!["approve", "orders", "--no-commit"];
        arguments.extend(more);
        let output = clone.cutover(&arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert_eq!(clone.read("fleet/plan.yaml"), plan);
        text(&output.stderr)
    };
    stands(json!({"phase": "Guarding", "attempt": 1}));
    let said = refused(&[]);
    assert!(said.contains("shop/orders asks for no approval\n"), "{said}");
    assert!(said.contains("it is Guarding"), "{said}");
    stands(
        json!({"phase": "Fencing", "attempt": 1, "asks": [{"gate": "Fenced", "cluster": "east", "attempt": 1}]}),
    );
    let said = refused(&["--gate", "purge"]);
    assert!(
        said.contains("shop/orders asks for no approval of Purge\n"),
        "{said}"
    );
    assert!(said.contains("it asks for Fenced of east"), "{said}");
}

#[test]
fn a_persons_word_is_written_for_the_phase_that_asks_for_it() {
    let clone = clone();
    let migration = "\
apiVersion: cutover.dev/v1alpha1
kind: Migration
metadata: {name: orders-to-west, namespace: shop}
spec:
  workload: {apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}
  to: west
";
    let path = clone.path().join("fleet/move.yaml");
    std::fs::write(&path, migration).unwrap();
    let assume = |more: &[&str]| {
        let mut arguments = vec![
            "assume",
            "orders-to-west",
            "newest",
            "east",
            "--by",
            "ann",
            "--no-commit",
        ];
        arguments.extend(more);
        clone.cutover(&arguments)
    };
    let output = assume(&["--offline"]);
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(
        said.contains("the phase of shop/orders-to-west is not known"),
        "{said}"
    );
    let mut record: Value = serde_yaml::from_str(migration).unwrap();
    let mut told = |offers: Value| {
        record["status"] = json!({"phase": "RollingBack", "attempt": 3, "steps": [], "waitingFor": {
            "code": "Evidence", "reason": "east", "since": "2026-01-01T00:00:00Z", "offers": offers,
        }});
        let record = serde_yaml::to_string(&record).unwrap();
        let file = "intents/shop/migration-orders-to-west.yaml";
        clone.origin.commit("cutover-status", &[(file, &record)]);
    };
    told(json!([{"fact": "Stopped", "cluster": "west", "givesUp": ""}]));
    let output = assume(&[]);
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(
        said.contains("does not currently ask for the assumption from east"),
        "{said}"
    );
    assert!(said.contains("it accepts: stopped west"), "{said}");
    told(json!([{"fact": "From", "cluster": "east", "givesUp": ""}]));
    let output = assume(&[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        asked(&clone, "fleet/move.yaml")["spec"]["assume"],
        json!([{"fact": "From", "cluster": "east", "attempt": 3, "phase": "RollingBack", "by": "ann"}])
    );
    let again = assume(&[]);
    assert!(again.status.success());
    assert!(text(&again.stderr).contains("is confirmed already"));
}

/// Every spelling that kubectl takes means the same, and a CRD in the repository says how its kind is called.
#[test]
fn a_workload_is_named_as_kubectl_names_it() {
    const QUEUES: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: queues.example.dev}
spec:
  group: example.dev
  scope: Namespaced
  names: {kind: Queue, plural: queues, singular: queue, shortNames: [qq]}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
";
    const QUEUE: &str = "apiVersion: example.dev/v1\nkind: Queue\nmetadata: {name: mail, namespace: shop}\n";
    let clone = Clone::of(&[
        ("cutover.yaml", CONFIG),
        ("fleet/web.yaml", WEB),
        ("fleet/orders.yaml", ORDERS),
        ("fleet/crd.yaml", QUEUES),
        ("fleet/queue.yaml", QUEUE),
    ]);
    for (named, kind) in [
        ("Deployment/web", "Deployment"),
        ("deploy/web", "Deployment"),
        ("deployments/web", "Deployment"),
        ("deployment.apps/web", "Deployment"),
        ("Deployments.v1.apps/web", "Deployment"),
        ("web", "Deployment"),
        ("orders", "FlinkDeployment"),
        ("flinkdep/orders", "FlinkDeployment"),
        ("qq/mail", "Queue"),
    ] {
        let output = clone.cutover(&["suspend", named, "--reason", "a freeze", "--dry-run"]);
        assert!(output.status.success(), "{named}: {}", text(&output.stderr));
        let said = text(&output.stdout);
        assert!(said.contains(&format!("kind: {kind}\n")), "{named}: {said}");
    }
    for named in [
        "sts/web",
        "deployment.example.dev/web",
        "deployments.v2.apps/web",
        "mail",
    ] {
        let said = refused(&clone, &["suspend", named, "--reason", "a freeze"]);
        assert!(
            said.contains(&format!("the repository has no {named}")),
            "{named}: {said}"
        );
    }
}

/// A Rollout and a Suspension with one name, and Suspensions with one name in two namespaces.
fn namesakes() -> Clone {
    let suspension = |name: &str, namespace: &str| {
        format!(
            "apiVersion: cutover.dev/v1alpha1\nkind: Suspension\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  \
             target: {{workload: {{apiVersion: apps/v1, kind: Deployment, name: web}}}}\n  reason: a loop\n"
        )
    };
    let rollout = "\
apiVersion: cutover.dev/v1alpha1
kind: Rollout
metadata: {name: web, namespace: shop}
spec:
  workload: {apiVersion: apps/v1, kind: Deployment, name: web}
  waves: [{clusters: [east]}, {clusters: [west]}]
  approval: {beforeWaves: [2]}
";
    Clone::of(&[
        ("cutover.yaml", CONFIG),
        ("fleet/web.yaml", WEB),
        ("fleet/rollout.yaml", rollout),
        ("fleet/suspension.yaml", &suspension("web", "shop")),
        ("fleet/shop.yaml", &suspension("freeze", "shop")),
        ("fleet/depot.yaml", &suspension("freeze", "depot")),
    ])
}

#[test]
fn a_name_that_several_intents_have_controls_none_of_them() {
    let clone = namesakes();
    for command in [
        &["abort", "web"][..],
        &["pause", "shop/web"],
        &["resume", "web"],
        &["approve", "web"],
        &["assume", "web", "stopped", "east"],
    ] {
        let said = refused(&clone, command);
        assert!(
            said.contains("web could be any of Rollout/web in shop, Suspension/web in shop\n")
                && said.contains("hint: name one as KIND/NAME, such as rollout/web\n"),
            "{command:?}: {said}"
        );
    }
    let said = refused(&clone, &["abort", "freeze"]);
    assert!(
        said.contains("Suspension/freeze in shop") && said.contains("Suspension/freeze in depot"),
        "{said}"
    );
    assert!(
        said.contains("hint: name its namespace with --namespace\n"),
        "{said}"
    );
    clone.done(&["abort", "freeze", "--namespace", "depot"]);
    assert_eq!(asked(&clone, "fleet/depot.yaml")["spec"]["abort"], true);
    assert!(asked(&clone, "fleet/shop.yaml")["spec"]["abort"].is_null());
}

#[test]
fn the_kind_or_a_flag_of_one_kind_says_which_of_several_intents_is_meant() {
    let clone = namesakes();
    let spec = |path: &str| asked(&clone, path)["spec"].clone();
    clone.done(&["approve", "web", "--wave", "2", "--attempt", "1", "--offline"]);
    assert_eq!(
        spec("fleet/rollout.yaml")["approvals"],
        json!([{"wave": 2, "attempt": 1, "by": "Ada"}])
    );
    clone.done(&["rollout", "retry", "web"]);
    assert_eq!(spec("fleet/rollout.yaml")["retry"], 1);
    clone.done(&["abort", "rollout/web"]);
    assert_eq!(spec("fleet/rollout.yaml")["abort"], true);
    assert!(spec("fleet/suspension.yaml")["abort"].is_null());
    clone.done(&["resume", "susp/web"]);
    assert!(spec("fleet/suspension.yaml")["until"].is_string());
}

#[test]
fn an_approval_of_another_kind_is_refused() {
    let clone = namesakes();
    let said = refused(
        &clone,
        &["approve", "rollout/web", "--gate", "fenced", "--offline"],
    );
    assert!(
        said.contains("Rollout shop/web takes no such approval")
            && said.contains("name a wave of spec.approval.beforeWaves with --wave"),
        "{said}"
    );
}

#[test]
fn a_kind_is_written_as_manifests_have_it() {
    let clone = clone();
    let kinds = |arguments: &[&str], path: &str| {
        clone.done(&[arguments, &["--offline"]].concat());
        asked(&clone, path)["spec"]["select"]["kinds"].clone()
    };
    assert_eq!(
        kinds(
            &[
                "evacuate",
                "east",
                "--kind",
                "deploy,flinkdep,deployments.apps,ro"
            ],
            "fleet/intents/evacuate-east.yaml"
        ),
        json!(["Deployment", "FlinkDeployment", "Deployment.apps", "Rollout"])
    );
    assert_eq!(
        kinds(
            &["rebalance", "--kind", "Unheard"],
            "fleet/intents/rebalance.yaml"
        ),
        json!(["Unheard"])
    );
    let migrate = |workload: &'static str, api_version: &'static str| {
        let place = ["--namespace", "depot", "--to", "west", "--offline"];
        [
            &["migrate", workload, "--api-version", api_version][..],
            &place[..],
        ]
        .concat()
    };
    clone.done(&migrate("deploy/api", "apps/v1"));
    assert_eq!(
        asked(&clone, "fleet/intents/api-to-west.yaml")["spec"]["workload"],
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "api"})
    );
    let said = refused(&clone, &migrate("queue/mail", "example.dev/v1"));
    assert!(
        said.contains("queue is not known as a kind of example.dev/v1"),
        "{said}"
    );
}
