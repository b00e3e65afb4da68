//! `cutover check`: each thing that can be missing is named, with what to do, and ends it with 1; with 3 where the API server or Git
//! can't be reached, or refuses the credentials. What roles it sees missing, rbac.rs tries.

use std::path::Path;
use std::process::Output;

use cutover::sandbox::api::Patch;
use cutover::sandbox::api::Resource;
use serde_json::{Value, json};

use crate::support::git::{Http, Origin};
use crate::support::replica::Stage;
use crate::support::served::{Served, as_text, stderr, stdout};
use crate::support::server::{On, on_both_servers};

const CRDS: Resource = Resource::new("apiextensions.k8s.io", "customresourcedefinitions");
const BINDINGS: Resource = Resource::new("work.karmada.io", "resourcebindings");

fn checked(served: &Served, more: &[&str]) -> (Option<i32>, Vec<Value>) {
    read(&served.cutover(&[&["check", "-o", "json"][..], more].concat()))
}

/// Checks Git where no API server answers.
fn checked_without_a_server(origin: &Origin, state: &Path) -> (Option<i32>, Vec<Value>) {
    read(&crate::cli::cutover(&[
        "check",
        "-o",
        "json",
        "--kubeconfig",
        "tests/cli/nobody.kubeconfig",
        "--repo",
        as_text(&origin.path()),
        "--state-dir",
        as_text(state),
    ]))
}

fn read(output: &Output) -> (Option<i32>, Vec<Value>) {
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(output)));
    let checks = document["checks"].as_array().unwrap().clone();
    let failed = checks.iter().filter(|check| check["outcome"] == "failed").count();
    assert_eq!(document["failed"], failed);
    (output.status.code(), checks)
}

fn of<'a>(checks: &'a [Value], name: &str) -> &'a Value {
    let mut named = checks.iter().filter(|check| check["name"] == name);
    named.next().unwrap_or_else(|| panic!("no {name} in {checks:#?}"))
}

#[track_caller]
fn assert_is(checks: &[Value], name: &str, outcome: &str, words: &str) {
    let check = of(checks, name);
    let message = check["message"].as_str().unwrap();
    assert!(
        check["outcome"] == outcome && message.contains(words),
        "{check:#}"
    );
    let needs_fix = ["warning", "failed"].contains(&outcome);
    assert!(!needs_fix || check["fix"].is_string(), "{check:#}");
}

on_both_servers! {
    what_is_there_is_found_and_what_is_missing_is_named,
    a_definition_of_another_version_is_named,
}

async fn what_is_there_is_found_and_what_is_missing_is_named(on: On) {
    let served = match on {
        // The CRDs are the program's own, so that it may install them again.
        On::Sandbox => Served::before_cutover(),
        On::Kube => Served::on(on),
    };
    let installed = served.cutover(&["init", "--cluster", "--no-fence"]);
    assert!(installed.status.success(), "{}", stderr(&installed));
    let (code, checks) = checked(&served, &[]);
    assert_eq!(code, Some(0), "{checks:#?}");
    assert_is(&checks, "API server", "ok", "Kubernetes v");
    assert_is(&checks, "Karmada", "ok", "all kinds are served");
    assert_is(&checks, "CRDs", "ok", "all 10 are there and of this version");
    assert_is(&checks, "admission fence", "warning", "not installed");
    assert_is(&checks, "members", "warning", "no cluster is joined");
    assert_is(&checks, "Git", "skipped", "no repository");
    if on == On::Kube {
        assert_is(&checks, "clock", "ok", "within 2 s");
        assert_is(&checks, "permissions", "ok", "system:admin may do all");
    } else {
        assert_is(&checks, "permissions", "skipped", "does not review access");
    }

    let installed = served.cutover(&["init", "--cluster"]);
    assert!(installed.status.success(), "{}", stderr(&installed));
    let (_, checks) = checked(&served, &[]);
    assert_is(&checks, "admission fence", "ok", "it refuses what it must");
    let installed = served.cutover(&["init", "--cluster", "--reconciler", "somebody-else"]);
    assert!(installed.status.success(), "{}", stderr(&installed));
    // A policy that has changed is in force within a second.
    let begun = std::time::Instant::now();
    loop {
        let (code, checks) = checked(&served, &[]);
        assert_eq!(code, Some(0));
        if of(&checks, "admission fence")["outcome"] == "warning" {
            assert_is(
                &checks,
                "admission fence",
                "warning",
                "not among those who may write pins",
            );
            break;
        }
        assert!(begun.elapsed() < std::time::Duration::from_mins(1), "{checks:#?}");
    }
    let text = stdout(&served.cutover(&["check"]));
    assert!(
        text.contains("ok       CRDs: all 10 are there") && text.contains("\n         hint: "),
        "{text}"
    );
    assert!(text.ends_with("nothing blocks it\n"), "{text}");
}

async fn a_definition_of_another_version_is_named(on: On) {
    let served = Served::on(on);
    let patch = Patch::Json(json!([{
        "op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": "as it was",
    }]));
    let name = "suspensions.cutover.dev";
    served.server.patch(&CRDS, None, name, None, &patch, "somebody");
    let (code, checks) = checked(&served, &[]);
    assert_eq!(code, Some(1));
    assert_is(
        &checks,
        "CRDs",
        "failed",
        "of another version: suspensions.cutover.dev",
    );
}

#[test]
fn without_crds_and_without_karmada_it_says_so() {
    let served = Served::before_cutover();
    let (code, checks) = checked(&served, &[]);
    assert_eq!(code, Some(1));
    assert_is(&checks, "CRDs", "failed", "migrations.cutover.dev");
    assert!(
        of(&checks, "CRDs")["fix"]
            .as_str()
            .unwrap()
            .contains("cutover init --cluster")
    );

    let bare = Served::bare();
    let (code, checks) = checked(&bare, &[]);
    assert_eq!(code, Some(1));
    assert_is(&checks, "Karmada", "failed", "serves none of Karmada's kinds");
    assert!(
        of(&checks, "Karmada")["fix"]
            .as_str()
            .unwrap()
            .contains("hosts it")
    );

    let status = bare.cutover(&["status"]);
    assert_eq!(status.status.code(), Some(1));
    let said = stderr(&status);
    assert!(
        said.contains("is not a Karmada control plane: it does not serve Karmada's API")
            && said.contains("hint: point --kubeconfig and --context at the Karmada API server")
            && !said.contains("CRDs"),
        "{said}"
    );
    let said = stderr(&served.cutover(&["status"]));
    assert!(
        said.contains("install the CRDs: cutover init --cluster"),
        "{said}"
    );
}

#[test]
fn an_api_server_that_does_not_answer_fails_and_git_is_checked_all_the_same() {
    let origin = Origin::with(&[("a.yaml", "# nothing\n")]);
    let state = tempfile::tempdir().unwrap();
    let (code, checks) = checked_without_a_server(&origin, state.path());
    assert_eq!(code, Some(3));
    let names: Vec<_> = checks
        .iter()
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["API server", "Git read", "Git push"]);
    assert_is(
        &checks[1..],
        "Git push",
        "ok",
        "a push to cutover-status would be let in",
    );
    assert_eq!(checks[0]["outcome"], "failed");
}

#[test]
fn git_is_checked_beside_a_reconciler_that_has_the_mirror() {
    let origin = Origin::with(&[("a.yaml", "# nothing\n")]);
    let state = tempfile::tempdir().unwrap();
    let lock = std::fs::File::create(state.path().join("lock")).unwrap();
    lock.lock().unwrap();
    let (_, checks) = checked_without_a_server(&origin, state.path());
    assert_is(&checks, "Git read", "ok", "main is at ");
}

#[test]
fn reading_and_pushing_are_told_apart_and_nothing_is_pushed() {
    let served = Served::on(On::Sandbox);
    let origin = Origin::with(&[("a.yaml", "# nothing\n")]);
    let tip = origin.tip("main");
    let token = served.dir.path().join("token");
    std::fs::write(&token, "hunter2-swordfish").unwrap();
    let mut number = 0;
    let mut look = |http: Http, more: &[&str]| {
        let server = http.start();
        number += 1;
        let state = served.dir.path().join(format!("state-{number}"));
        let url = server.http().to_string();
        let arguments = [
            &[
                "check",
                "-o",
                "json",
                "--repo",
                &url,
                "--git-user",
                "robot",
                "--git-token-file",
            ][..],
            &[as_text(&token), "--state-dir", as_text(&state)],
            more,
        ];
        let output = served.cutover(&arguments.concat());
        assert!(!(stdout(&output) + &stderr(&output)).contains("hunter2"));
        read(&output)
    };
    let http = || Http::of(origin.root()).login("robot:hunter2-swordfish");
    let (code, checks) = look(http(), &[]);
    assert_eq!(code, Some(0), "{checks:#?}");
    assert_is(&checks, "Git read", "ok", "main is at ");
    assert_is(&checks, "Git push", "ok", "would be let in");

    let (code, checks) = look(http().forbid_push(), &[]);
    assert_eq!(code, Some(3));
    assert_is(&checks, "Git read", "ok", "main is at ");
    assert_is(&checks, "Git push", "failed", "");

    let (code, checks) = look(Http::of(origin.root()).login("robot:another"), &[]);
    assert_eq!(code, Some(3));
    assert_is(&checks, "Git read", "failed", "");

    let (_, checks) = look(http(), &["--branch", "nothing-here"]);
    assert_is(&checks, "Git read", "failed", "nothing-here");
    assert_eq!(origin.tip("main"), tip);
    assert_eq!(origin.tip("cutover-status"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_asked_through_the_proxy() {
    let stage = Stage::with(&[("a.yaml", "# nothing\n")]).await;
    let kubeconfig = stage.kubeconfig("checker", stage.address());
    let kubeconfig = as_text(&kubeconfig).to_owned();
    let look = || crate::cli::cutover(&["check", "-o", "json", "--kubeconfig", &kubeconfig]);
    let (_, checks) = read(&look());
    let members: Vec<&Value> = checks
        .iter()
        .filter(|check| check["name"].as_str().unwrap().starts_with("member "))
        .collect();
    assert!(members.len() >= 2, "{checks:#?}");
    assert!(
        members.iter().all(|member| member["outcome"] == "ok"),
        "{members:#?}"
    );
}

#[test]
fn a_member_that_karmada_cannot_reach_and_a_kind_without_a_profile_are_named() {
    let served = Served::on(On::Sandbox);
    let options = cutover::sandbox::api::WriteOptions::default();
    let clusters = Resource::new("cluster.karmada.io", "clusters");
    let cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "west"},
        "spec": {"syncMode": "Push"},
        "status": {"conditions": [
            {"type": "Ready", "status": "False", "reason": "ClusterNotReachable", "message": "no route",
                "lastTransitionTime": "2026-03-01T10:00:00Z"},
        ]},
    });
    let server = served.server.sandbox();
    server.create(&clusters, None, cluster.clone(), &options).unwrap();
    let mut there = (*server.get(&clusters, None, "west").unwrap()).clone();
    there["status"] = cluster["status"].clone();
    let part = Some(cutover::sandbox::api::Subresource::Status);
    server
        .update(&clusters, None, "west", part, there, &options)
        .unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let namespaces = Resource::new("", "namespaces");
    server.create(&namespaces, None, namespace, &options).unwrap();
    for (kind, api_version) in [("Deployment", "apps/v1"), ("Database", "example.com/v1")] {
        let binding = json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": format!("it-{}", kind.to_lowercase()), "namespace": "shop"},
            "spec": {"replicas": 1, "resource": {
                "apiVersion": api_version, "kind": kind, "name": "it", "namespace": "shop", "uid": "1",
            }},
        });
        server.create(&BINDINGS, Some("shop"), binding, &options).unwrap();
    }
    let (code, checks) = checked(&served, &[]);
    assert_eq!(code, Some(1));
    assert_is(&checks, "member west", "failed", "ClusterNotReachable: no route");
    let profiles: Vec<&Value> = checks
        .iter()
        .filter(|check| check["name"] == "profiles")
        .collect();
    let says = |at: usize, words: &str| profiles[at]["message"].as_str().unwrap().contains(words);
    assert!(says(0, "can be moved: Deployment (1)"), "{profiles:#?}");
    assert!(
        says(1, "no profile for Database of example.com (1)"),
        "{profiles:#?}"
    );
}

#[test]
fn the_version_names_what_the_tests_and_the_suite_run_on() {
    let output = crate::cli::cutover(&["version", "-o", "json"]);
    let version: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(version["apiVersion"], "cutover.dev/v1alpha1");
    let kubernetes = include_str!("../../tools/go.mod");
    let pinned = kubernetes
        .lines()
        .find_map(|line| line.strip_prefix("require k8s.io/kubernetes v"))
        .unwrap();
    assert!(
        pinned.starts_with(&format!("{}.", cutover::cli::KUBERNETES)),
        "{pinned}"
    );
    let manifest = include_str!("../../Cargo.toml");
    let feature = format!("v{}", cutover::cli::KUBERNETES.replace('.', "_"));
    assert!(manifest.contains(&feature), "{feature}");
    let suite = include_str!("../../.github/workflows/e2e.yml");
    assert!(suite.contains(&format!("KARMADA: v{}.", cutover::cli::KARMADA)));
    assert_eq!(version["kubernetes"], cutover::cli::KUBERNETES);
    assert_eq!(version["karmada"], cutover::cli::KARMADA);
}
