//! Why a migration could fail, seen before anything is touched: each reason with a code and a hint.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api::{Finding, MigrationSpec, PatchOp, Strategy, WorkloadProfileSpec};
use crate::intent::binding::preserved;
use crate::intent::check::Sampled;
use crate::intent::pin;
use crate::intent::seen::{NotKnown, Seen};
use crate::intent::snapshot::{OwnPolicy, Successor};
use crate::profile::{self, Profile};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{Cluster, meta};

/// A policy that has it and has not come to the binding yet, or comes with the move.
pub(super) fn policy_finding(policy: &OwnPolicy) -> Option<Finding> {
    let to_be = policy.change.as_ref().map(|change| &change.applied);
    let mut specs = [Some(&policy.live.spec), to_be].into_iter().flatten();
    specs
        .any(|spec| spec.preserve_resources_on_deletion == Some(true))
        .then(preserved)
}

/// The same of the policy that takes it up.
pub(super) fn successor_finding(successor: &Successor) -> Option<Finding> {
    let preserves = successor.spec.preserve_resources_on_deletion == Some(true);
    preserves.then(preserved)
}

pub(super) fn target_findings(spec: &crate::api::MigrationSpec, cluster: Option<&Cluster>) -> Vec<Finding> {
    let to = &spec.to;
    let Some(cluster) = cluster else {
        return vec![Finding::new(
            "NoCluster",
            format!("no cluster {to} is joined"),
            "fix spec.to",
        )];
    };
    let mut findings = Vec::new();
    if !cluster.is_ready() {
        findings.push(Finding::new(
            "TargetNotReady",
            format!("{to} is not Ready"),
            "wait until Karmada says that it is, or choose another target",
        ));
    }
    if !cluster.serves(&spec.workload.api_version, &spec.workload.kind) {
        findings.push(Finding::new(
            "NoApiInTarget",
            format!("{to} does not serve {}", spec.workload.gvk()),
            "install the CRD and its operator there",
        ));
    }
    findings
}

/// One member that has joined under two names has one copy, which two Works would be written over. Karmada notes of each the uid
/// of its namespace `kube-system`.
pub(super) fn twin_finding(
    source: &ClusterName,
    target: &ClusterName,
    clusters: &BTreeMap<ClusterName, Cluster>,
) -> Option<Finding> {
    let id = |name| clusters.get(name).map(|cluster| cluster.spec.id.as_str());
    let (here, there) = id(source).zip(id(target))?;
    (!here.is_empty() && here == there && source != target).then(|| {
        Finding::new(
            "OneMember",
            format!("{source} and {target} are one cluster that has joined under two names (spec.id {here})"),
            "choose another target, or let one of the two leave Karmada, with what it alone has been given",
        )
    })
}

/// Returns what keeps a template from being moved as a spec asks, by a profile.
pub(super) fn profile_findings(
    template: &Value,
    spec: &MigrationSpec,
    profile: &WorkloadProfileSpec,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(template_findings(template));
    findings.extend(hold_finding(profile));
    findings.extend(patch_findings(template, spec, profile));
    findings.extend(asked_findings(template, spec, profile));
    findings
}

/// Two copies of a workload with state would write: that is refused before anything is touched.
pub(crate) fn two_writers(spec: &MigrationSpec, profile: &WorkloadProfileSpec) -> Option<Finding> {
    (spec.strategy == Strategy::StartFirst && profile.stateful).then(|| {
        Finding::new(
            "StatefulNeedsStopFirst",
            "strategy StartFirst lets two copies run, and this kind of workload has state",
            "leave spec.strategy out",
        )
    })
}

/// What the spec asks for and can't be had.
fn asked_findings(template: &Value, spec: &MigrationSpec, profile: &WorkloadProfileSpec) -> Vec<Finding> {
    let mut findings: Vec<Finding> = two_writers(spec, profile).into_iter().collect();
    for check in &spec.verify.checks {
        if let Err(error) = profile::valid_check(check) {
            findings.push(Finding::new(
                "BadCheck",
                error.to_string(),
                "fix spec.verify.checks",
            ));
        }
    }
    for patch in spec
        .changes
        .patches
        .iter()
        .filter(|patch| inserts(template, patch))
    {
        findings.push(Finding::new(
            "InsertsIntoList",
            format!(
                "spec.changes.patches: {} would insert another item each time",
                patch.path
            ),
            "give the whole list, or a field of an item",
        ));
    }
    for patch in spec.changes.patches.iter().filter(|patch| patch.op != "add") {
        findings.push(Finding::new(
            "OnlyAdd",
            format!(
                "spec.changes.patches: {} {}: only add can be carried by a pin",
                patch.op, patch.path
            ),
            "use add: it replaces what is there",
        ));
    }
    findings
}

/// A query that is refused would never be answered. One that isn't answered now is asked again.
pub(super) fn query_findings(
    spec: &MigrationSpec,
    metrics: &BTreeMap<String, Seen<Sampled>>,
) -> Result<Vec<Finding>, NotKnown> {
    let mut findings = Vec::new();
    for query in spec
        .verify
        .checks
        .iter()
        .filter_map(|check| check.prometheus.as_ref())
    {
        let answer = metrics.get(query);
        let answer = answer.ok_or_else(|| NotKnown(format!("{query} was not asked")))?;
        if let Err(why) = answer.get()? {
            findings.push(Finding::new(
                "BadQuery",
                format!("spec.verify.checks: {query}: {why}"),
                "try the expression in Prometheus itself",
            ));
        }
    }
    Ok(findings)
}

/// An `add` into a list isn't the same when it is done twice; what a pin carries is done again on the changed template.
fn inserts(template: &Value, patch: &PatchOp) -> bool {
    let parent = patch.path.rsplit_once('/').map(|(parent, _)| parent);
    parent
        .and_then(|parent| template.pointer(parent))
        .is_some_and(Value::is_array)
}

pub(super) fn requirement_findings(
    template: &Value,
    profile: &Profile,
) -> Result<Vec<Finding>, profile::Error> {
    let unmet = profile.unmet(template)?;
    let findings = unmet.into_iter().map(|requirement| Finding {
        code: "NotMovable".to_owned(),
        message: requirement.message.clone(),
        hint: requirement.hint.clone(),
    });
    Ok(findings.collect())
}

/// Says what is to be known of the source before it stops: what it has done so far that the target does again, and how its stop is known.
pub(crate) fn source_notes(
    profile: &Profile,
    copy: &Value,
    source: &ClusterName,
    target: &ClusterName,
) -> Vec<String> {
    let mut notes = match profile.repeated(copy) {
        Ok(repeated) => repeated
            .into_iter()
            .map(|(what, count)| {
                format!(
                    "{what} that {target} does again, because only the copy in {source} has counted them: {count}"
                )
            })
            .collect(),
        Err(why) => vec![format!("what {target} does again is not known: {why}")],
    };
    notes.extend(profile.spec().settle_for.as_ref().map(|settle_for| {
        format!(
            "its operator does not say when it has seen the stop: it is taken to have once the copy in {source} was watched for \
             {settle_for} without any change and without pods"
        )
    }));
    notes
}

/// Returns the patches of the profile and the intent that can't be applied to the template.
fn patch_findings(template: &Value, spec: &MigrationSpec, profile: &WorkloadProfileSpec) -> Vec<Finding> {
    pin::unfit(template, profile, &spec.changes.patches)
}

/// Returns what is wrong with a profile that lets every copy run: the target's would, as soon as it is created.
fn hold_finding(profile: &WorkloadProfileSpec) -> Option<Finding> {
    (profile.stateful && profile.hold.is_empty()).then(|| {
        Finding::new(
            "NoHold",
            "the profile has no patch that holds a copy: two copies of a workload with state would run",
            "give the profile a patch in spec.hold",
        )
    })
}

fn template_findings(template: &Value) -> Vec<Finding> {
    let retains = template
        .pointer("/metadata/labels")
        .and_then(|labels| labels.get(meta::RETAIN_REPLICAS))
        .is_some_and(|value| value == "true");
    if retains {
        return vec![Finding::new(
            "RetainReplicas",
            "the template has retain-replicas: its members keep their own replicas whatever a pin says",
            "remove the label (and the HPA that sets it) for the duration of the move",
        )];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_with_state_that_holds_no_copy_is_refused() {
        let mut profile = crate::profile::built_in().unwrap()[0].spec.clone();
        assert!(hold_finding(&profile).is_none());
        profile.hold.clear();
        assert_eq!(hold_finding(&profile).unwrap().code, "NoHold");
        profile.stateful = false;
        assert!(hold_finding(&profile).is_none());
    }

    #[test]
    fn how_a_stop_is_known_that_no_status_tells_is_reported() {
        let all = crate::profile::built_in().unwrap();
        let named = |name: &str| all.iter().find(|one| one.metadata.name.as_deref() == Some(name));
        let notes = |name: &str| {
            let profile = Profile::compile(name, &named(name).unwrap().spec).unwrap();
            source_notes(&profile, &serde_json::json!({}), &"east".into(), &"west".into())
        };
        let [note] = &notes("cronjob")[..] else {
            panic!("{:?}", notes("cronjob"));
        };
        assert!(
            note.contains("the copy in east was watched for 90s without any change"),
            "{note}"
        );
        assert!(notes("job").is_empty());
    }

    #[test]
    fn what_is_done_again_is_reported_with_its_count() {
        let all = crate::profile::built_in().unwrap();
        let notes = |name: &str, status: Value| {
            let profile = all
                .iter()
                .find(|profile| profile.metadata.name.as_deref() == Some(name));
            let profile = Profile::compile(name, &profile.unwrap().spec).unwrap();
            let copy = serde_json::json!({"status": status});
            source_notes(&profile, &copy, &"east".into(), &"west".into())
        };
        let note = |what: &str, count: u64| {
            format!("{what} that west does again, because only the copy in east has counted them: {count}")
        };
        let indexed = serde_json::json!({"succeeded": 60, "completedIndexes": "0-59"});
        assert_eq!(notes("job", indexed), [note("completions", 60)]);
        assert!(notes("job", serde_json::json!({"active": 3})).is_empty());
        let jobs = serde_json::json!({"replicatedJobsStatus": [
            {"name": "driver", "succeeded": 1}, {"name": "workers", "succeeded": 2},
        ]});
        assert_eq!(notes("jobset", jobs), [note("Jobs", 3)]);
        assert!(notes("spark", serde_json::json!({"succeeded": 60})).is_empty());
    }
}
