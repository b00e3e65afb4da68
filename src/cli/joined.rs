//! Clusters that a new intent names: a control plane that is at hand says whether they are joined.

use super::connection::{AskArgs, ClusterArgs, PATIENCE};
use super::output;
use cutover_base::nearest::did_you_mean;
use cutover_cluster::{Answer, Limits, Lookup};
use cutover_core::error::{Error, Result};
use cutover_karmada::name::{ClusterName, Gvk};

/// Fails if a cluster is known not to be joined. Where no control plane can be asked, Preflight will say so.
pub async fn all_are(ask: &AskArgs, named: impl IntoIterator<Item = &ClusterName>) -> Result<()> {
    let named: Vec<&str> = named.into_iter().map(ClusterName::as_str).collect();
    let Some(args) = ask.cluster().filter(|_| !named.is_empty()) else {
        return Ok(());
    };
    let asked = tokio::time::timeout(PATIENCE, joined(args)).await;
    let asked = asked.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())));
    let (server, joined) = match asked {
        Ok(joined) => joined,
        // Who named one wants to know; others may well have none.
        Err(why) if args.is_named() => {
            output::note(format!(
                "note: whether its clusters are joined is not known: {why}"
            ));
            return Ok(());
        }
        Err(_) => return Ok(()),
    };
    match named
        .into_iter()
        .find(|name| !joined.iter().any(|cluster| cluster == name))
    {
        None => Ok(()),
        Some(unknown) => {
            Err(Error::user(format!("no cluster {unknown} is joined to {server}"))
                .hint(hint(unknown, &joined)))
        }
    }
}

/// Returns the control plane's address and the clusters that are joined to it, or why it can't be asked.
async fn joined(args: &ClusterArgs) -> Result<(String, Vec<String>), String> {
    let text = |error: Error| error.to_string();
    let cluster = args.connect().await.map_err(text)?;
    let once = Limits {
        attempts: 1,
        ..cluster.limits().clone()
    };
    let cluster = cluster.with_limits(once);
    let gvk = Gvk::new("cluster.karmada.io/v1alpha1", "Cluster");
    let served = match cluster.lookup(&gvk).await.map_err(|error| error.to_string())? {
        Lookup::Served(served) => served,
        Lookup::NotServed => {
            return Err(cutover_cluster::Error::NotKarmada(cluster.server().to_owned()).to_string());
        }
    };
    match cluster.reader().list(&served, None, None).await.answer {
        Answer::Found(all) => {
            let names = all
                .iter()
                .filter_map(|one| one["metadata"]["name"].as_str().map(str::to_owned));
            Ok((cluster.server().to_owned(), names.collect()))
        }
        Answer::NotFound => Err(format!("{} has no list of clusters", cluster.server())),
        Answer::Unknown { why } => Err(why),
    }
}

fn hint(unknown: &str, joined: &[String]) -> String {
    const ALL_THE_SAME: &str = "--offline writes the intent without asking";
    let meant = did_you_mean(unknown, joined.iter().map(String::as_str));
    match (meant, joined) {
        (Some(meant), _) => meant,
        (None, []) => format!("no cluster is joined; {ALL_THE_SAME}"),
        (None, joined) => format!("joined are {}; {ALL_THE_SAME}", joined.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_cluster_is_told_from_one_that_is_not_there() {
        let joined = ["east", "north", "west"].map(str::to_owned);
        assert_eq!(hint("wset", &joined), "did you mean west?");
        assert_eq!(
            hint("atlantis", &joined),
            "joined are east, north, west; --offline writes the intent without asking"
        );
        assert_eq!(
            hint("west", &[]),
            "no cluster is joined; --offline writes the intent without asking"
        );
    }
}
