//! Profiles against the CRDs that are served: what names a field that there isn't is not applied, and nothing begins by it.

use std::sync::Arc;

use cutover::api::Phase;
use cutover::plan::Action;
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::Resource;
use cutover::sandbox::faults::{Effect, Rule};
use serde_json::Value;

use crate::support::fleet::Fleet;
use crate::support::plane::{Plane, settings};
use crate::support::server::{On, on_both_servers};

on_both_servers![
    a_profile_that_does_not_fit_its_crd_is_not_applied,
    only_a_profile_that_changes_waits_for_a_crd_that_cannot_be_read,
    a_plan_goes_by_the_versions_that_a_crd_will_have,
];

const MOVE: &str = "orders-to-west";
const PROFILES: Resource = Resource::new("cutover.dev", "workloadprofiles");
const CRDS: Resource = Resource::new("apiextensions.k8s.io", "customresourcedefinitions");

const CRD: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: pumps.flow.example.org}
spec:
  group: flow.example.org
  scope: Namespaced
  names: {kind: Pump, plural: pumps, singular: pump, listKind: PumpList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {running: {type: boolean}}}
          status: {type: object, properties: {phase: {type: string}}}
";

const PROFILE: &str = "apiVersion: cutover.dev/v1alpha1
kind: WorkloadProfile
metadata: {name: pump}
spec:
  appliesTo: {group: flow.example.org, kinds: [Pump]}
  stateful: true
  suspend: [{op: add, path: /spec/running, value: false}]
  hold: [{op: add, path: /spec/running, value: false}]
  start: [{op: add, path: /spec/running, value: true}]
  restart: [{op: add, path: /spec/running, value: true}]
  observedWhen: has(object.status)
  suspendedWhen: object.status.phase == 'Down'
  healthyWhen: object.status.phase == 'Up'
";

fn plane(on: On, profile: &str) -> Plane {
    let settings = settings("- {name: main}");
    Plane::with(
        on,
        &[
            ("cutover.yaml", &settings),
            ("crd.yaml", CRD),
            ("profile.yaml", profile),
        ],
    )
}

async fn problems(plane: &Plane) -> String {
    let report = plane.sync("main").await;
    let problems = report.all_problems().into_iter();
    problems
        .map(|problem| problem.to_string())
        .collect::<Vec<_>>()
        .join("\n")
}

fn healthy_when(plane: &Plane) -> Option<Value> {
    let profile = plane.get(&PROFILES, None, "pump")?;
    Some(profile["spec"]["healthyWhen"].clone())
}

async fn a_profile_that_does_not_fit_its_crd_is_not_applied(on: On) {
    let wrong = PROFILE.replace("status.phase == 'Up'", "status.phaze == 'Up'");
    let plane = plane(on, &wrong);
    let says = "spec.healthyWhen names status.phaze, which is not a field of Pump.flow.example.org";
    // The CRD is only in Git as yet.
    let planned = plane.plan().await;
    let change = planned.iter().find(|change| change.key.kind == "WorkloadProfile");
    match change.map(|change| &change.action) {
        Some(Action::Blocked { reason }) => assert!(reason.contains(says), "{reason}"),
        other => panic!("{other:?}"),
    }
    for _ in 0..2 {
        let said = problems(&plane).await;
        assert!(
            said.contains(says) && said.contains("profile.yaml:13:3"),
            "{said}"
        );
        assert_eq!(healthy_when(&plane), None);
        let status = plane.origin.read("cutover-status", "STATUS.md").unwrap();
        assert!(status.contains("status.phaze"), "{status}");
    }
    plane.push(&[("profile.yaml", PROFILE)]);
    let summary = plane.run().await;
    assert!(summary.is_clean(), "{summary:?}");
    // What is live and fits stays as it is.
    plane.push(&[("profile.yaml", &wrong)]);
    assert!(problems(&plane).await.contains(says));
    assert_eq!(healthy_when(&plane), Some("object.status.phase == 'Up'".into()));
    // With another CRD it fits.
    plane.push(&[(
        "crd.yaml",
        &CRD.replace("{phase:", "{phaze: {type: string}, phase:"),
    )]);
    let summary = plane.run().await;
    assert!(summary.is_clean(), "{summary:?}");
    assert_eq!(healthy_when(&plane), Some("object.status.phaze == 'Up'".into()));
}

async fn only_a_profile_that_changes_waits_for_a_crd_that_cannot_be_read(on: On) {
    let plane = plane(on, PROFILE);
    assert!(plane.run().await.is_clean());
    plane.refuse(&["customresourcedefinitions/pumps"]);
    let summary = plane.run().await;
    assert!(summary.is_clean(), "{summary:?}");
    let changed = PROFILE.replace("'Up'", "'Running'");
    plane.push(&[("profile.yaml", &changed)]);
    let said = problems(&plane).await;
    assert!(
        said.contains("it waits: whether it fits the CRD is not known") && said.contains("forbidden"),
        "{said}"
    );
    assert_eq!(healthy_when(&plane), Some("object.status.phase == 'Up'".into()));
    plane.refuse(&[]);
    let summary = plane.run().await;
    assert!(summary.is_clean(), "{summary:?}");
    assert_eq!(
        healthy_when(&plane),
        Some("object.status.phase == 'Running'".into())
    );
}

async fn a_plan_goes_by_the_versions_that_a_crd_will_have(on: On) {
    let plane = plane(on, PROFILE);
    let older = "  versions:
  - name: v1beta1
    served: true
    storage: false
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {running: {type: boolean}}}
          status: {type: object, properties: {phase: {type: string}, phaze: {type: string}}}
";
    plane.push(&[("crd.yaml", &CRD.replace("  versions:\n", older))]);
    let summary = plane.run().await;
    assert!(summary.is_clean(), "{summary:?}");
    let planned = async |profile: &str, crd: &str| {
        plane.push(&[("profile.yaml", profile), ("crd.yaml", crd)]);
        let planned = plane.plan().await;
        let change = planned.iter().find(|change| change.key.kind == "WorkloadProfile");
        match change.map(|change| &change.action) {
            Some(Action::Blocked { reason }) => reason.clone(),
            other => format!("{other:?}"),
        }
    };
    let of_old = PROFILE.replace("status.phase == 'Up'", "status.phaze == 'Up'");
    let kept = planned(&of_old, &CRD.replace("  versions:\n", older)).await;
    assert!(
        kept.starts_with("Some(") && !kept.contains("status.phaze"),
        "{kept}"
    );
    let dropped = planned(&of_old, CRD).await;
    assert!(
        dropped.contains("spec.healthyWhen names status.phaze, which is not a field"),
        "{dropped}"
    );
}

/// How often the program has read a CRD.
fn crds_read(fleet: &Fleet) -> u64 {
    fleet.world.traffic().count(|asked| {
        asked.user == "cutover" && asked.verb == "get" && asked.resource == "customresourcedefinitions"
    })
}

#[tokio::test(start_paused = true)]
async fn a_move_does_not_begin_where_the_operator_is_too_old_for_the_built_in_profile() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let server = fleet.world.control_plane();
    let mut crd = (*server
        .get(&CRDS, None, "flinkdeployments.flink.apache.org")
        .unwrap())
    .clone();
    let job = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/jobStatus/properties";
    let fields = crd.pointer_mut(job).unwrap().as_object_mut().unwrap();
    assert!(fields.remove("upgradeSavepointPath").is_some());
    server.install(&crd).unwrap();
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate(MOVE, "west");
    assert_eq!(fleet.ended(MOVE).await, Phase::Failed);
    let findings = fleet.status(MOVE)["findings"].clone();
    let findings = findings.as_array().unwrap();
    for finding in findings {
        let (message, hint) = (finding["message"].as_str(), finding["hint"].as_str());
        assert_eq!(finding["code"], "ProfileUnfit");
        assert!(
            message.unwrap().contains("status.jobStatus.upgradeSavepointPath"),
            "{finding}"
        );
        assert!(
            hint.unwrap().contains("install a version of the operator"),
            "{finding}"
        );
    }
    assert!(!findings.is_empty());
    fleet.assert_clean_in("east");
}

#[tokio::test(start_paused = true)]
async fn one_read_of_the_crd_is_enough_for_a_move() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate(MOVE, "west");
    assert_eq!(fleet.ended(MOVE).await, Phase::Completed);
    assert_eq!(crds_read(&fleet), 1);
    fleet.assert_clean_in("west");
}

#[tokio::test(start_paused = true)]
async fn a_crd_that_cannot_be_read_keeps_no_move_from_beginning_and_is_told() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let rule = Rule::new(Effect::Refuse(403))
        .verb("get")
        .resource("customresourcedefinitions");
    fleet.world.faults().requests(rule);
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate(MOVE, "west");
    assert_eq!(fleet.ended(MOVE).await, Phase::Completed);
    let steps = fleet.status(MOVE)["steps"].to_string();
    assert!(
        steps.contains("whether its profile fits the CRD is not known: "),
        "{steps}"
    );
    fleet.assert_clean_in("west");
}
