//! Evacuations: what runs in a cluster leaves it, so many at a time, each by a Migration, or by being taken out of it.

use serde_json::{Value, json};

use super::shift::Floor;
use super::{DEAD_ENDS, IMAGE};
use crate::e2e::act::Act;
use crate::e2e::server::{CLUSTERS, EVACUATIONS, MIGRATIONS};

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

/// Nobody asks for an Evacuation: the cluster is tainted, its job tolerates that for a while, and nothing else runs that would leave.
pub async fn a_tainted_cluster_is_evacuated_before_karmada_evicts(act: Act) {
    let mut policy = act.policy();
    policy["spec"]["placement"]["clusterTolerations"] =
        json!([{"key": "e2e", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 600}]);
    act.commit(&[("policy", &policy), ("workload", &act.workload(IMAGE))]);
    let [here, _] = act.runs_somewhere().await;
    let taints = taints(&act, &here).await;
    let tainted = json!([{"key": "e2e", "effect": "NoExecute", "timeAdded": jiff::Timestamp::now()}]);
    taint(&act, &here, &tainted).await;
    let ours = |one: &Value| one["spec"]["cluster"] == *here;
    act.until("it is evacuated", async |act| {
        let all = act.place().control.list(EVACUATIONS, None).await;
        let (name, mut moves) = (act.name, all.iter().filter(|one| ours(one)));
        moves.any(|one| {
            let mut moves = one["status"]["moves"].as_array().into_iter().flatten();
            moves.any(|one| one["workload"]["name"] == name && one["state"] == "Moved")
        })
    })
    .await;
    let there = act.where_it_runs().await;
    assert!(there.len() == 1 && there != [here.as_str()], "{there:?}");
    let binding = act.binding().await;
    assert_eq!(binding["spec"].get("gracefulEvictionTasks"), None, "{binding:#}");
    taint(&act, &here, &taints).await;
    act.until("nothing is left of it", async |act| {
        let control = &act.place().control;
        let cluster = control.get(CLUSTERS, None, &here).await.unwrap();
        let is_marked = cluster.to_string().contains("cutover.dev");
        !is_marked && !control.list(EVACUATIONS, None).await.iter().any(ours)
    })
    .await;
    act.is_settled_in(&there[0]).await;
}

async fn taints(act: &Act, cluster: &str) -> Value {
    let cluster = act.place().control.get(CLUSTERS, None, cluster).await;
    let taints = cluster.unwrap()["spec"].get("taints").cloned();
    taints.unwrap_or_else(|| json!([]))
}

async fn taint(act: &Act, cluster: &str, taints: &Value) {
    let patch = json!({"spec": {"taints": taints}});
    let control = &act.place().control;
    control.patch(CLUSTERS, None, cluster, patch).await.unwrap();
}

const SHARED: [&str; 2] = ["evicted", "evicted-twice"];
const SHARED_LABEL: &str = "e2e-evicted";
const REPLICAS: usize = 4;

/// One is divided among two clusters, one is in both of them with all its replicas: both leave one, after they were put back
/// once.
pub async fn what_runs_in_two_clusters_leaves_one(act: Act) {
    let pair = act.place().pair().map(str::to_owned);
    let [here, there] = pair.each_ref().map(String::as_str);
    let [divided, doubled] = SHARED.map(|name| act.beside(name).deployment());
    both_have_their_part(&divided, &doubled, [here, there]).await;
    let floor = Floor::watch(&divided, here, there, REPLICAS);
    let spec = |healthy_for: &str, more: Value| {
        let mut spec = json!({
            "cluster": here, "keepCordoned": true, "maxParallel": 2,
            "verify": {"healthyFor": healthy_for, "timeout": "60s"},
            "select": {"kinds": ["Deployment.apps"], "labelSelector": format!("{SHARED_LABEL}=yes")},
        });
        let spec_fields = spec.as_object_mut().unwrap();
        spec_fields.extend(more.as_object().unwrap().clone());
        spec
    };
    let before = clusters(&divided).await;
    act.ask(&spec("10m", json!({})));
    act.until("both are ready without it", async |act| {
        let status = act.status().await;
        let moves = status["moves"].as_array().cloned().unwrap_or_default();
        moves.len() == 2 && moves.iter().all(|one| one["eviction"]["healthy"].is_object())
    })
    .await;
    assert_eq!(ready(&divided, here).await, Some(2), "its copy is kept");
    act.ask(&spec("10m", json!({"abort": true})));
    act.comes_to("Aborted", &["Completed", "Failed"]).await;
    assert_eq!(clusters(&divided).await, before, "it is as it was");

    act.ask(&spec("1s", json!({})));
    let status = act.comes_to("Completed", &["Failed"]).await;
    assert_eq!(status["progress"]["done"], 2, "{status:#}");
    divided.is_settled_in(there).await;
    doubled.is_settled_in(there).await;
    assert_eq!(ready(&divided, there).await, Some(REPLICAS));
    floor.held();
    // The scheduler gives nothing back under the cordon.
    doubled.commit(&[("workload", &labelled(&doubled, 3))]);
    doubled
        .until("it is scaled", async |act| ready(act, there).await == Some(3))
        .await;
    assert_eq!(doubled.copy(here).await, None);
    act.withdraw().await;
    doubled
        .until("its policy has it back", async |act| {
            ready(act, here).await == Some(3)
        })
        .await;
    assert_eq!(divided.copy(here).await, None);
}

async fn both_have_their_part(divided: &Act, doubled: &Act, [here, there]: [&str; 2]) {
    let place = |act: &Act, scheduling: &Value| {
        act.placed(&json!({
            "clusterAffinity": {"clusterNames": [here, there]}, "replicaScheduling": scheduling,
        }))
    };
    let weights = json!({
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": [{"targetCluster": {"clusterNames": [here, there]}, "weight": 1}]},
    });
    let both = json!({"replicaSchedulingType": "Duplicated"});
    divided.commit(&[
        ("policy", &place(divided, &weights)),
        ("workload", &labelled(divided, REPLICAS)),
    ]);
    doubled.commit(&[
        ("policy", &place(doubled, &both)),
        ("workload", &labelled(doubled, 2)),
    ]);
    for shared in [divided, doubled] {
        shared
            .until("both clusters have their part", async |act| {
                ready(act, here).await == Some(2) && ready(act, there).await == Some(2)
            })
            .await;
    }
}

fn labelled(act: &Act, replicas: usize) -> Value {
    let mut workload = act.workload(IMAGE);
    workload["metadata"]["labels"] = json!({SHARED_LABEL: "yes"});
    workload["spec"]["replicas"] = json!(replicas);
    workload
}

async fn clusters(act: &Act) -> Value {
    act.binding().await["spec"]["clusters"].clone()
}

/// How many are available in a cluster, if that is as many as are wanted there.
async fn ready(act: &Act, cluster: &str) -> Option<usize> {
    let copy = act.copy(cluster).await?;
    let number = |pointer: &str| copy.pointer(pointer).and_then(Value::as_u64);
    let available = number("/status/availableReplicas");
    let ready = available.filter(|_| available == number("/spec/replicas"))?;
    usize::try_from(ready).ok()
}
