//! Members through Karmada's cluster proxy: whether they answer, and let this identity look at pods.

use futures::stream::{self, StreamExt};
use http::Request;
use serde_json::Value;

use super::Check;
use cutover_cluster::{self as cluster, Answer, Cluster, Lookup};
use cutover_core::error::Error;
use cutover_karmada::name::Gvk;

/// How many members are asked at once.
const AT_ONCE: usize = 8;

pub(super) async fn check(cluster: &Cluster) -> Vec<Check> {
    const NAME: &str = "members";
    let gvk = Gvk::new("cluster.karmada.io/v1alpha1", "Cluster");
    let served = match cluster.lookup(&gvk).await {
        Ok(Lookup::Served(served)) => served,
        Ok(Lookup::NotServed) => return Vec::new(),
        Err(error) => return vec![Check::of_error(NAME, &error.into())],
    };
    let members = match cluster.reader().list(&served, None, None).await.answer {
        Answer::Found(members) => members,
        Answer::NotFound => Vec::new(),
        Answer::Unknown { why } => return vec![Check::failed(NAME, why).fix("docs/how-to/operate.md#rbac")],
    };
    if members.is_empty() {
        return vec![
            Check::warning(NAME, "no cluster is joined").fix("join clusters: karmadactl join, or register"),
        ];
    }
    let looks: Vec<_> = members
        .into_iter()
        .map(|member| one(cluster.clone(), member))
        .collect();
    stream::iter(looks).buffered(AT_ONCE).collect().await
}

async fn one(cluster: Cluster, member: Value) -> Check {
    let name = member["metadata"]["name"].as_str().unwrap_or_default();
    let check = format!("member {name}");
    // It becomes a part of a path.
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    if name.is_empty() || !name.chars().all(is_name) {
        return Check::failed(check, "its name is not that of a cluster");
    }
    if let Some(why) = not_ready(&member) {
        return Check::failed(check, format!("Karmada says that it is not ready: {why}"))
            .fix(format!("kubectl describe cluster {name}"));
    }
    match look(&cluster, name).await {
        Ok(()) => Check::ok(check, "it answers through the cluster proxy"),
        Err(error) if error.code() == 403 => {
            Check::failed(check, Error::from(error).to_string()).fix(
                "allow this identity to get clusters/proxy in the Karmada API server, and in the member the user that Karmada passes on \
                 to list pods (docs/how-to/operate.md#rbac)",
            )
        }
        Err(error) => Check::failed(check, Error::from(error).to_string())
            .fix("Karmada's aggregated API server has to reach the member: karmadactl get pods --cluster tries the same"),
    }
}

fn not_ready(member: &Value) -> Option<String> {
    let conditions = member["status"]["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    let ready = ready.next()?;
    let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
    (ready["status"] != "True").then(|| format!("{}: {}", text("reason"), text("message")))
}

async fn look(cluster: &Cluster, name: &str) -> cluster::Result<()> {
    let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{name}/proxy/api/v1/pods?limit=1");
    let call = format!("cannot list pods of {name}");
    let request = Request::get(&path)
        .body(Vec::new())
        .map_err(|_invalid| cluster::Error::BadName(path.clone()))?;
    let answer = cluster.client().request::<Value>(request).await;
    answer
        .map(drop)
        .map_err(|error| cluster::Error::from_kube(call, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_member_is_not_ready_when_karmada_says_so() {
        let member = |status: &str| {
            json!({"status": {"conditions": [
                {"type": "Ready", "status": status, "reason": "ClusterNotReachable", "message": "no route"},
            ]}})
        };
        assert_eq!(
            not_ready(&member("False")).unwrap(),
            "ClusterNotReachable: no route"
        );
        assert!(not_ready(&member("Unknown")).is_some());
        assert_eq!(not_ready(&member("True")), None);
        // Karmada has not looked yet: the proxy decides.
        assert_eq!(not_ready(&json!({})), None);
    }
}
