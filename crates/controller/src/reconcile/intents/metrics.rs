//! Where checks that ask for numbers get them.

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};

use cutover_cluster::{Prometheus, Queried};
use cutover_core::api::Check;
use cutover_core::intent::Seen;
use cutover_core::intent::check::Sampled;

/// Answers the queries of checks.
pub trait Metrics: Send + Sync {
    fn query<'a>(&'a self, query: &'a str) -> BoxFuture<'a, Queried>;
}

impl Metrics for Prometheus {
    fn query<'a>(&'a self, query: &'a str) -> BoxFuture<'a, Queried> {
        Self::query(self, query).boxed()
    }
}

/// No server is configured.
#[derive(Clone, Copy, Debug)]
pub struct NoMetrics;

impl Metrics for NoMetrics {
    fn query<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Queried> {
        let why = "no Prometheus server is configured: start cutover with --prometheus-url";
        futures::future::ready(Queried::Refused(why.to_owned())).boxed()
    }
}

/// Asks all queries of checks at once.
pub(super) async fn ask(
    metrics: &dyn Metrics,
    checks: &[Check],
    read: impl Fn() -> cutover_core::intent::seen::Read,
) -> BTreeMap<String, Seen<Sampled>> {
    let queries: BTreeSet<&String> = checks
        .iter()
        .filter_map(|check| check.prometheus.as_ref())
        .collect();
    let answers = queries.into_iter().map(async |query| {
        let answer = match metrics.query(query).await {
            Queried::Values(values) => Seen::known(Ok(values), read()),
            Queried::Refused(why) => Seen::known(Err(why), read()),
            Queried::Unknown(why) => Seen::unknown(why),
        };
        (query.clone(), answer)
    });
    join_all(answers).await.into_iter().collect()
}
