//! Files of version 0.1.0: intents, profiles, `cutover.yaml` and the status branch are read as they were then.

use std::path::{Path, PathBuf};

use cutover::api::{
    Evacuation, Fact, FailoverPlan, Migration, Rebalance, ReplicaShift, Rollout, RolloutPolicy, Suspension,
    WorkloadProfile,
};
use cutover::config::Config;
use cutover::generated::json_schemas;
use cutover::intent::record::Record;
use cutover::profile::Profile;
use cutover::report::{Overview, View};
use cutover::schema::violations;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cli::{cutover, text};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/v0.1.0")
        .join(name)
}

/// Returns the files of a folder, with their contents.
fn files(name: &str) -> Vec<(PathBuf, String)> {
    let mut files: Vec<_> = std::fs::read_dir(folder(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()))
        .collect();
    files.sort();
    files
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn the_example_repository_of_that_version_validates_clean() {
    let dir = tempfile::tempdir().unwrap();
    copy(&folder("example"), dir.path());
    let output = cutover(&["validate", dir.path().to_str().unwrap()]);
    assert_eq!(text(&output.stdout), "");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

fn read<K: DeserializeOwned>(document: &Value) -> K {
    serde_json::from_value(document.clone()).unwrap_or_else(|error| panic!("{error}: {document}"))
}

/// Reads an intent or a profile as the type of its kind.
fn read_as_its_kind(document: &Value) {
    match document["kind"].as_str().unwrap() {
        "Evacuation" => drop(read::<Evacuation>(document)),
        "FailoverPlan" => drop(read::<FailoverPlan>(document)),
        "Migration" => {
            let facts: Vec<Fact> = read::<Migration>(document)
                .spec
                .assume
                .iter()
                .map(|assumption| assumption.fact)
                .collect();
            assert_eq!(facts, [Fact::From, Fact::FromNothing]);
        }
        "Rebalance" => drop(read::<Rebalance>(document)),
        "ReplicaShift" => drop(read::<ReplicaShift>(document)),
        "Rollout" => drop(read::<Rollout>(document)),
        "RolloutPolicy" => drop(read::<RolloutPolicy>(document)),
        "Suspension" => drop(read::<Suspension>(document)),
        "WorkloadProfile" => {
            Profile::compile("old", &read::<WorkloadProfile>(document).spec).unwrap();
        }
        kind => panic!("no such kind: {kind}"),
    }
}

#[test]
fn every_intent_and_profile_is_read_and_has_no_field_that_is_unknown_now() {
    let schemas = json_schemas().unwrap();
    let files = files("intents");
    assert_eq!(files.len(), 9);
    for (path, content) in files {
        let document: Value = serde_yaml::from_str(&content).unwrap();
        let kind = document["kind"].as_str().unwrap().to_lowercase();
        let found = violations(&document["spec"], &schemas[&kind]["properties"]["spec"]);
        assert!(found.is_empty(), "{}: {found:#?}", path.display());
        read_as_its_kind(&document);
    }
}

#[test]
fn every_cutover_yaml_is_read() {
    for (path, content) in files("config") {
        let config = Config::parse(content.as_bytes());
        let config = config.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(config.syncs[0].name, "shop");
        assert_eq!(config.syncs[0].exclude, ["intents/examples/**"]);
        assert_eq!(config.status.branch.as_deref(), Some("cutover-status"));
    }
}

#[test]
fn the_status_branch_is_read() {
    let branch = folder("status-branch");
    let snapshot = std::fs::read(branch.join("status.yaml")).unwrap();
    let record = branch.join("intents/shop/migration-orders-to-west.yaml");
    let record = std::fs::read_to_string(record).unwrap();
    let document: Value = serde_yaml::from_str(&record).unwrap();
    let mut documents = vec![document];
    let intents = Overview::of_intents(
        |kind| match kind {
            "Migration" => std::mem::take(&mut documents),
            _ => Vec::new(),
        },
        |kind, _, error| panic!("{kind}: {error}"),
    );
    let view = View::recorded(Some(&snapshot), intents).unwrap();
    let shown: Value = serde_json::from_str(&view.json().unwrap()).unwrap();
    let sync = &shown["syncs"][0];
    assert_eq!(
        (&sync["name"], &sync["inSync"]),
        (&json!("fleet"), &json!(6)),
        "{shown:#}"
    );
    assert_eq!(sync["problems"][0]["path"], "apps/orders.yaml");
    let intent = &shown["intents"][0];
    assert_eq!(
        (&intent["phase"], &intent["downtimeMs"]),
        (&json!("Completed"), &json!(1250)),
        "{shown:#}"
    );
}

#[test]
fn a_record_still_ends_its_migration() {
    let path = folder("status-branch").join("intents/shop/migration-orders-to-west.yaml");
    let record: Record = serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(record.ends(&record.spec));
}
