//! Intents that contradict themselves or each other, or are too many.

use std::fmt::Write as _;

use super::Case;

const FAMILY: &str = "intents";
const KINDS: [&str; 9] = [
    "Migration",
    "Evacuation",
    "Rebalance",
    "ReplicaShift",
    "Rollout",
    "RolloutPolicy",
    "Suspension",
    "FailoverPlan",
    "WorkloadProfile",
];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in KINDS {
        let head = move |name: &str| {
            format!(
                "---\napiVersion: cutover.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}, namespace: default}}\n"
            )
        };
        cases.push(Case::file(FAMILY, format!("{kind} without a spec"), move || {
            head("a").into_bytes()
        }));
        for (name, spec) in [
            ("of nothing", "{}"),
            ("that is a list", "[[], {}]"),
            (
                "with fields of other types",
                "{workload: 5, to: [], from: {}, cluster: 1, select: x, waves: -1, replicas: 1e99, floor: -9223372036854775808}",
            ),
        ] {
            cases.push(Case::file(
                FAMILY,
                format!("{kind} with a spec {name}"),
                move || format!("{}spec: {spec}\n", head("a")).into_bytes(),
            ));
        }
        cases.push(Case::file(FAMILY, format!("2,000 times {kind} of one workload"), move || {
            let mut text = String::new();
            for number in 0..2_000 {
                let _ = writeln!(text, "{}spec: {{workload: {{apiVersion: apps/v1, kind: Deployment, name: a}}, to: west, from: west, cluster: west, reason: a}}", head(&format!("a{number}")));
            }
            text.into_bytes()
        }));
        cases.push(Case::file(FAMILY, format!("{kind} with a status"), move || {
            format!("{}spec: {{workload: {{apiVersion: apps/v1, kind: Deployment, name: a}}, to: west}}\nstatus: {{phase: Completed, journal: {{}}}}\n", head("a")).into_bytes()
        }));
    }
    for (name, fields) in [
        ("to where it is", "to: west, from: west"),
        (
            "for centuries",
            "to: west, verify: {healthyFor: 9999999999999999h, timeout: 1s}",
        ),
        ("in no time", "to: west, verify: {healthyFor: 0s, timeout: 0s}"),
        (
            "approved and aborted",
            "to: west, abort: true, paused: true, approved: true",
        ),
        ("to nowhere", "to: ''"),
        ("to a path", "to: ../../x"),
    ] {
        cases.push(Case::file(FAMILY, format!("a move {name}"), move || {
            format!("apiVersion: cutover.dev/v1alpha1\nkind: Migration\nmetadata: {{name: a, namespace: default}}\nspec: {{workload: {{apiVersion: apps/v1, kind: Deployment, name: a}}, {fields}}}\n").into_bytes()
        }));
    }
    cases
}
