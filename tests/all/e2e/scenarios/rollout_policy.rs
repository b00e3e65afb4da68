//! Rollout policies: a commit changes two workloads, and each change goes in waves, the second workload's after the first's.

use std::time::Duration;

use serde_json::{Value, json};

use super::IMAGE;
use super::rollout::image;
use crate::e2e::act::Act;
use crate::e2e::server::ROLLOUTS;
use crate::e2e::sightings::Sightings;

const NEXT: &str = "registry.k8s.io/pause:3.10";
const HEALTHY_FOR: Duration = Duration::from_secs(1);
const NAMES: [&str; 2] = ["rollout-policy-a", "rollout-policy-b"];
const LABEL: &str = "e2e-rolls";

#[expect(clippy::too_many_lines, reason = "one story, told in order")]
pub async fn changes_of_what_it_selects_go_in_waves_one_workload_at_a_time(act: Act) {
    let act = act.deployment();
    let workloads = NAMES.map(|name| act.beside(name));
    let mut order = act.members();
    for workload in &workloads {
        workload.runs_in(&order, &labelled(workload, IMAGE)).await;
    }
    let seen = workloads
        .each_ref()
        .map(|workload| Sightings::of(workload, image));
    // Not the order that it would have anyway.
    order.reverse();
    let (canary, rest) = order.split_first().unwrap();
    act.ask(&json!({
        "select": [{"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": format!("{LABEL}=yes")}],
        "waves": [{"clusters": [canary]}, {"clusters": rest}],
        "maxUnavailableClusters": rest.len(), "maxParallel": 1,
        "progress": {"timeout": "60s", "healthyFor": "1s"},
    }));
    act.until("it selects both", async |act| {
        let status = act.status().await;
        status["phase"] == "Standing" && status["selected"] == 2
    })
    .await;

    let changed = workloads
        .each_ref()
        .map(|workload| (workload, labelled(workload, NEXT)));
    let files: Vec<_> = changed
        .iter()
        .map(|(workload, to)| (workload.file("workload"), format!("{to:#}\n")))
        .collect();
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    act.stage.origin.commit("main", &files);
    for workload in &workloads {
        workload
            .until("it has the change everywhere", async |workload| {
                let status = act.status().await;
                assert_eq!(status["halted"], 0, "{status:#}");
                let mut images = vec![image(&workload.template().await)];
                for cluster in workload.members() {
                    images.push(image(&workload.copy(cluster).await.unwrap_or_default()));
                }
                images.iter().all(|image| image == NEXT)
                    && workload.where_it_runs().await == workload.members()
            })
            .await;
    }
    act.until("it rests", async |act| act.status().await["rolling"] == 0)
        .await;
    let mut spans = Vec::new();
    for seen in &seen {
        let came = seen.of_version(NEXT);
        assert_eq!(came.len(), order.len(), "{came:?}");
        assert_eq!(came[0].0, *canary, "the first wave comes first");
        let between = came[1].1.duration_since(came[0].1);
        // Whoever looks on hears of each a moment later.
        assert!(
            between > HEALTHY_FOR / 2,
            "only when the first wave was good for a while: {between:?}"
        );
        spans.push((came[0].1, came[came.len() - 1].1));
    }
    spans.sort();
    assert!(spans[0].1 < spans[1].0, "one workload after the other");

    act.withdraw().await;
    let mut left = act.place().control.list(ROLLOUTS, Some(act.namespace())).await;
    left.retain(|rollout| rollout["metadata"]["labels"]["cutover.dev/parent"].is_string());
    assert_eq!(left, [Value::Null; 0], "its rollouts went first");
    for workload in &workloads {
        workload.is_untouched().await;
    }
}

fn labelled(act: &Act, image: &str) -> Value {
    let mut workload = act.workload(image);
    workload["metadata"]["labels"] = json!({LABEL: "yes"});
    workload
}
