//! Clusters that a new intent names: a control plane that is at hand says whether they are joined.

use serde_json::Value;

use super::control::{LookArgs, PATIENCE};
use cutover_cluster::{Answer, Limits, Lookup};
use cutover_core::error::{Error, Result};
use cutover_core::lint::nearest::did_you_mean;
use cutover_karmada::name::Gvk;

/// Fails if a cluster is known not to be joined. Where no control plane can be asked, Preflight will say so.
pub async fn all_are<'a>(look: &LookArgs, mut named: impl Iterator<Item = &'a str>) -> Result<()> {
    let Some((server, joined)) = joined(look).await else {
        return Ok(());
    };
    match named.find(|name| !joined.iter().any(|cluster| cluster == name)) {
        None => Ok(()),
        Some(unknown) => {
            Err(Error::user(format!("no cluster {unknown} is joined to {server}"))
                .hint(hint(unknown, &joined)))
        }
    }
}

/// Returns the control plane's address and the clusters that are joined to it; `None`: there is none that answers at once.
async fn joined(look: &LookArgs) -> Option<(String, Vec<String>)> {
    let args = look.cluster()?;
    let live = async {
        let cluster = args.connect().await.ok()?;
        let once = Limits {
            attempts: 1,
            ..cluster.limits().clone()
        };
        let cluster = cluster.with_limits(once);
        let gvk = Gvk::new("cluster.karmada.io/v1alpha1", "Cluster");
        let Lookup::Served(served) = cluster.lookup(&gvk).await.ok()? else {
            return None;
        };
        let Answer::Found(all) = cluster.reader().list(&served, None, None).await.answer else {
            return None;
        };
        let name = |one: &Value| one["metadata"]["name"].as_str().map(str::to_owned);
        Some((cluster.server().to_owned(), all.iter().filter_map(name).collect()))
    };
    tokio::time::timeout(PATIENCE, live).await.ok().flatten()
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
