//! A cold plan: everything new, so that each object needs a dry-run; and everything in sync, so that none does.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cutover::cluster::{Cluster, Limits};
use cutover::reconcile::{self, Target};
use cutover::repo::Options;
use tokio_util::sync::CancellationToken;

use crate::apply::{Mode, send};
use crate::fleet::Fleet;
use crate::real::RealServer;

/// What plans of the same objects took.
pub struct Times {
    /// A loop of dry-runs with the same client, as many at once.
    pub raw: Duration,
    /// A plan that has to try every object.
    pub new: Duration,
    /// A plan of what is in sync.
    pub in_sync: Duration,
    /// What kubectl takes for the same, of the given number of objects.
    pub kubectl: Option<(usize, Duration)>,
}

/// More would take `kubectl diff`, which starts a program for each object, too long.
const KUBECTL: usize = 500;

pub async fn cold(server: &RealServer, size: usize, round: usize) -> Times {
    let fleet = Fleet::within(&format!("plan-{size}-{round}"), size);
    let client = server.client().await;
    // Nothing can be tried in a namespace that isn't there.
    let namespace = Fleet::within(&format!("plan-{size}-{round}"), 1);
    send(&client, &namespace, Mode::Write).await;
    let begun = Instant::now();
    send(&client, &fleet, Mode::DryRun).await;
    let raw = begun.elapsed();
    let new = plan(server, &fleet, size - 1).await;
    send(&client, &fleet, Mode::Write).await;
    let in_sync = plan(server, &fleet, 0).await;
    Times {
        raw,
        new,
        in_sync,
        kubectl: kubectl(server, &fleet),
    }
}

/// Plans from nothing: a new mirror, new caches.
async fn plan(server: &RealServer, fleet: &Fleet, changes: usize) -> Duration {
    let state = tempfile::tempdir().unwrap();
    let options = Options::new(fleet.url(), "main", state.path());
    let cluster = Cluster::from_client(server.client().await, Limits::default());
    let begun = Instant::now();
    let plan = reconcile::plan(&options, &cluster, Target::Newest, &CancellationToken::new())
        .await
        .unwrap();
    let taken = begun.elapsed();
    let summary = plan.changes.summary();
    assert_eq!(summary.create + summary.change, changes, "{summary:?}");
    taken
}

fn kubectl(server: &RealServer, fleet: &Fleet) -> Option<(usize, Duration)> {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for content in fleet.contents().take(KUBECTL) {
        std::fs::write(folder.path().join(format!("{count:06}.yaml")), content).unwrap();
        count += 1;
    }
    let begun = Instant::now();
    let ended = Command::new("kubectl")
        .arg("--kubeconfig")
        .arg(server.kubeconfig())
        .args(["diff", "--server-side", "--field-manager=cutover", "-f"])
        .arg(folder.path())
        .stdout(Stdio::null())
        .status()
        .ok()?;
    assert!(ended.success());
    Some((count, begun.elapsed()))
}
