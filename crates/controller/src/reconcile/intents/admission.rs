//! Installs the admission fence, and tries by dry-runs whether it refuses what it must.

use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use tokio::time::Instant;

use super::served;
use cutover_cluster::{self as cluster, Cluster, Installed, Lookup, Mode, Written};
use cutover_core::api::{Guard, INTENT_MANAGER};
use cutover_core::error::Error;
use cutover_core::intent::admission::{self, Attempt, Outcome, Probe, refused};
use cutover_karmada::name::Gvk;

/// How long a change of a Claim may take to be in force, with room to spare: what was let pass is tried once more.
const IN_FORCE: Duration = Duration::from_millis(50);

/// How long a new policy may take to be in force: a second, as a rule.
const BY_THEN: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What came of installing the fence.
#[derive(Clone, Debug)]
pub struct Fence {
    pub objects: Vec<Installed>,
    /// Whether a pin that nobody may write was seen refused; if not, what was seen instead.
    pub in_force: Outcome,
}

/// Applies the policies of the fence, which let nobody but these reconcilers write claims and pins, and tries them.
///
/// `None`: the API server knows no such policies. The CRDs must be there.
pub fn install_fence<'a>(
    cluster: &'a Cluster,
    reconcilers: &'a [String],
) -> BoxFuture<'a, Result<Option<Fence>, Error>> {
    Box::pin(async move {
        let policies = Gvk::new("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy");
        if cluster.lookup(&policies).await? == Lookup::NotServed {
            return Ok(None);
        }
        let manifests =
            admission::manifests(reconcilers).map_err(|error| Error::internal(error.to_string()))?;
        let mut objects = Vec::new();
        for manifest in &manifests {
            objects.push(cluster::install(cluster, manifest).await?);
        }
        let probe = admission::claims_probe("default");
        let begun = Instant::now();
        loop {
            let in_force = once(cluster, &probe).await;
            if in_force != Outcome::Accepted || begun.elapsed() >= BY_THEN {
                return Ok(Some(Fence { objects, in_force }));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    })
}

/// What dry-runs show of a fence, whether a claim is there or not.
#[derive(Clone, Debug)]
pub struct FenceTrial {
    /// A pin that nobody may write.
    pub self_test: Outcome,
    /// A pin that those who reconcile may write.
    pub pins: Outcome,
}

/// Tries the fence by dry-runs. `None`: the API server knows no such policies.
pub fn try_fence(cluster: &Cluster) -> BoxFuture<'_, Result<Option<FenceTrial>, Error>> {
    Box::pin(async move {
        let policies = Gvk::new("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy");
        if cluster.lookup(&policies).await? == Lookup::NotServed {
            return Ok(None);
        }
        let probe = admission::claims_probe("default");
        let mut pin = probe.clone();
        if let Attempt::Create(object) = &mut pin.attempt {
            object["metadata"]["name"] = PIN.into();
        }
        Ok(Some(FenceTrial {
            self_test: once(cluster, &probe).await,
            pins: once(cluster, &pin).await,
        }))
    })
}

/// Named as pins are, and never written.
const PIN: &str = "zzzz-cutover-check";

/// Returns what came of each probe.
pub(super) async fn try_out(cluster: &Cluster, probes: Vec<Probe>) -> Vec<(Guard, Outcome)> {
    let tried = probes.into_iter().map(|probe| async move {
        let mut outcome = once(cluster, &probe).await;
        if outcome == Outcome::Accepted {
            tokio::time::sleep(IN_FORCE).await;
            outcome = once(cluster, &probe).await;
        }
        (probe.guard, outcome)
    });
    join_all(tried).await
}

/// Sends a probe, and judges the answer.
async fn once(cluster: &Cluster, probe: &Probe) -> Outcome {
    let served = match served(cluster, &probe.gvk).await {
        Ok(served) => served,
        Err(error) => return Outcome::Unknown(error.to_string()),
    };
    let writer = cluster.writer(INTENT_MANAGER);
    let sent = match &probe.attempt {
        Attempt::Create(object) => writer.create(&served, object, Mode::Rehearse).await,
        Attempt::Patch(object, patch) => {
            let object = super::execute::exactly(object);
            writer.patch(&served, &object, patch, Mode::Rehearse).await
        }
    };
    match sent {
        Ok(Written::Done(_)) => Outcome::Accepted,
        Ok(Written::Exists(_)) => Outcome::Unknown("an object of that name is there".to_owned()),
        Ok(Written::Precondition(why)) => Outcome::Unknown(why),
        Err(error) => match error.status() {
            Some(_) => refused(probe.guard, &error.to_string()),
            None => Outcome::Unknown(Error::from(error).to_string()),
        },
    }
}
