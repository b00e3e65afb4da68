//! Evacuations: what runs in a cluster leaves it, so many at a time, each by a Migration.

use serde_json::{Value, json};

use super::{DEAD_ENDS, IMAGE};
use crate::e2e::act::Act;
use crate::e2e::server::{CLUSTERS, MIGRATIONS};

const JOBS: [&str; 3] = ["evacuation-a", "evacuation-b", "evacuation-c"];
const LABEL: &str = "e2e-evacuation";

pub async fn three_jobs_leave_a_cluster(act: Act) {
    let [here, _] = act.place().pair().map(str::to_owned);
    let jobs = JOBS.map(|name| act.beside(name));
    for job in &jobs {
        let mut workload = job.workload(IMAGE);
        workload["metadata"]["labels"] = json!({LABEL: "yes"});
        job.runs_in(&[&here], &workload).await;
        // From now on they may go elsewhere; the scheduler leaves them where they are.
        job.commit(&[("policy", &job.policy())]);
    }
    for job in &jobs {
        let anywhere = job.policy()["spec"]["placement"]["clusterAffinity"].clone();
        job.until("its binding has its new placement", async |job| {
            let placement = job.binding().await["spec"]["placement"].clone();
            placement["clusterAffinity"] == anywhere
        })
        .await;
    }
    act.ask(&json!({
        "cluster": here, "maxParallel": 2, "verify": {"healthyFor": "1s", "timeout": "60s"},
        "select": {"kinds": ["FlinkDeployment.flink.apache.org"], "labelSelector": format!("{LABEL}=yes")},
    }));
    let mut most = 0;
    act.until("all have left", async |act| {
        most = most.max(under_way(act).await);
        let status = act.status().await;
        let phase = status["phase"].as_str().unwrap_or_default();
        assert!(!DEAD_ENDS.contains(&phase), "{status:#}");
        phase == "Completed"
    })
    .await;
    assert!(most <= 2, "{most} at a time");
    let status = act.status().await;
    assert_eq!(
        status["progress"],
        json!({"done": 3, "of": 3, "moving": 0, "failed": 0})
    );
    for job in &jobs {
        let to = target(&status, job.name);
        assert_ne!(to, here);
        job.is_settled_in(&to).await;
        assert_eq!(job.verdict().runs.len(), 2, "it stopped here, and started there");
    }
    let cluster = act.place().control.get(CLUSTERS, None, &here).await.unwrap();
    let taints = cluster["spec"]["taints"].to_string();
    assert!(!taints.contains("evacuating"), "the cordon is lifted: {taints}");
}

/// How many Migrations have begun and not ended.
async fn under_way(act: &Act) -> usize {
    let all = act.place().control.list(MIGRATIONS, Some(act.namespace())).await;
    let phases = ["Hold", "Expand", "Capture", "Handoff", "Verify", "Cleanup"];
    all.iter()
        .filter(|one| one["metadata"]["labels"]["cutover.dev/parent"].is_string())
        .filter(|one| phases.iter().any(|phase| one["status"]["phase"] == *phase))
        .count()
}

fn target(status: &Value, name: &str) -> String {
    let mut moves = status["moves"].as_array().unwrap().iter();
    let one = moves.find(|one| one["workload"]["name"] == name).unwrap();
    one["to"].as_str().unwrap().to_owned()
}
