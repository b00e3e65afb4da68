//! The chapters of the intents other than migrations: a freeze, a guarded failover, a rollout, a shift, evacuations.

use std::cell::RefCell;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::chapters::{ANYWHERE, POLICY, push, replace};
use super::stage::{DEPLOYMENTS, NAMESPACE, Stage};
use super::tell::{GOOD, QUIET, apply, check, command, done, file, trouble};
use crate::cli::{example, global};
use cutover_core::api::StepRecord;
use cutover_core::error::{Error, Result};
use cutover_core::report::step_line;
use cutover_sandbox::api::Resource;
use cutover_sandbox::ledger::{Origin, Run};

const FILE: &str = "workloads/storefront.yaml";
const STOREFRONT: &str = "storefront";
const OLD: &str = "registry.example.com/shop/storefront:2.8.1";
const NEW: &str = "registry.example.com/shop/storefront:2.9.0";
const ABOUT_STOREFRONT: &str = "{apiVersion: apps/v1, kind: Deployment, name: storefront}";
const ABOUT_ORDERS: &str = "{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}";
const CLUSTERS: [&str; 3] = ["east", "west", "north"];

/// Changes are kept from one cluster, while the others get them.
pub async fn freeze(stage: &Stage) -> Result<()> {
    let intent = Intent::new("Suspension", "suspensions", Some(NAMESPACE), "freeze-storefront");
    let spec = format!(
        "  target: {{workload: {ABOUT_STOREFRONT}}}\n  clusters: [west]\n  reason: a bug is being investigated there\n"
    );
    intent.push(stage, "Keep changes of storefront from west", &spec)?;
    intent.is(stage, "Suspended").await?;
    let before = generation(stage, "west");
    change_image(stage, "Release storefront 2.9.0", OLD, NEW)?;
    images(stage, &["east", "north"], NEW).await?;
    check(
        image(stage, "west") == OLD && generation(stage, "west") == before,
        "the copy in west was not touched",
    )?;
    done("east and north have 2.9.0; the copy in west has the generation that it had")?;
    intent.take_away(stage, "Let changes reach west again").await?;
    images(stage, &CLUSTERS, NEW).await?;
    done("taken away: what was held back has gone out")?;
    change_image(stage, "Go back to storefront 2.8.1", NEW, OLD)?;
    images(stage, &CLUSTERS, OLD).await
}

/// A person has the job fail over under its guard: one writer, with its state.
pub async fn failover(stage: &Stage, before: &Run) -> Result<()> {
    let (home, to) = (before.writer.cluster.as_str(), other_than(before));
    let intent = Intent::new("FailoverPlan", "failoverplans", Some(NAMESPACE), "orders");
    let guard = format!("  workload: {ABOUT_ORDERS}\n");
    intent.push(stage, "Guard orders against failovers", &guard)?;
    intent.is(stage, "Guarding").await?;
    done(format!(
        "only {home} may run it: whatever else gets a copy holds it"
    ))?;
    let request = format!("  request: {{attempt: 1, to: {to}, reason: the disks of {home} are dying}}\n");
    intent.push(
        stage,
        &format!("Have orders fail over to {to}"),
        &format!("{guard}{request}"),
    )?;
    let guards = |status: &Value| status["phase"] == "Guarding" && status["writer"] == to;
    intent.until(stage, "to guard the new cluster", guards).await?;
    let run = stage.running().await?;
    check(
        run.writer.cluster.as_str() == to,
        &format!("the job runs in {to}"),
    )?;
    from_a_handle(&run)?;
    done(format!(
        "orders runs in {to}, from the savepoint that it was stopped with"
    ))?;
    intent.take_away(stage, "Guard orders no more").await
}

/// A change goes cluster by cluster; the second one doesn't come out good, and all go back.
pub async fn rollout(stage: &Stage, before: &Run) -> Result<()> {
    let home = before.writer.cluster.as_str();
    let mut others = CLUSTERS.into_iter().filter(|name| *name != home);
    let (first, second, third) = match (others.next(), others.next()) {
        (Some(one), Some(other)) => (home, one, other),
        _ => return Err(Error::internal("there are fewer than three clusters")),
    };
    let intent = Intent::new("Rollout", "rollouts", Some(NAMESPACE), STOREFRONT);
    let spec = format!(
        "  workload: {ABOUT_STOREFRONT}\n  order: [{first}, {second}, {third}]\n  \
         progress: {{healthyFor: 1s, timeout: 2s}}\n  onFailure: Undo\n"
    );
    intent.push(stage, "Let changes of storefront go cluster by cluster", &spec)?;
    intent.is(stage, "Completed").await?;
    images(stage, &CLUSTERS, OLD).await?;
    let untouched = stage.pods(third, STOREFRONT);
    change_image(stage, "Release storefront 2.9.0", OLD, NEW)?;
    let released = |status: &Value| {
        let mut clusters = status["clusters"].as_array().into_iter().flatten();
        clusters.any(|one| one["name"] == first && one["state"] != "Held")
    };
    intent
        .until(stage, "to release the first cluster", released)
        .await?;
    stage.world.faults().partition(second);
    trouble(format!("{second} can't be reached any more"))?;
    intent.is(stage, "Undoing").await?;
    stage.world.faults().heal(second);
    trouble(format!("{second} can be reached again"))?;
    intent.is(stage, "Undone").await?;
    images(stage, &CLUSTERS, OLD).await?;
    check(
        !untouched.is_empty() && stage.pods(third, STOREFRONT) == untouched,
        &format!("{third}, whose turn never came, has the pods that it had"),
    )?;
    done(format!(
        "every cluster has 2.8.1 again; {third} has the very pods that it had"
    ))?;
    replace(&stage.clone.dir.join(FILE), NEW, OLD)?;
    intent
        .take_away(
            stage,
            "Go back to storefront 2.8.1, and let changes go out at once",
        )
        .await
}

/// Nobody asks for a rollout: what a policy selects has one as soon as its template changes.
pub async fn policy(stage: &Stage) -> Result<()> {
    let [first, rest @ ..] = CLUSTERS;
    let intent = Intent::new("RolloutPolicy", "rolloutpolicies", Some(NAMESPACE), "deployments");
    let spec = format!(
        "  select: [{{apiVersion: apps/v1, kind: Deployment}}]\n  \
         waves: [{{clusters: [{first}], soak: 2s}}, {{clusters: [{}]}}]\n  \
         maxUnavailableClusters: 2\n  progress: {{healthyFor: 1s}}\n",
        rest.join(", ")
    );
    intent.push(stage, "Let every change of a Deployment go in waves", &spec)?;
    intent.is(stage, "Standing").await?;
    change_image(stage, "Release storefront 2.9.0", OLD, NEW)?;
    images(stage, &[first], NEW).await?;
    check(
        rest.iter().all(|name| image(stage, name) == OLD),
        "the others have what they had while the first one soaks",
    )?;
    let rolls = |status: &Value| status["workloads"][0]["by"].is_string();
    let status = intent.until(stage, "to say what rolls", rolls).await?;
    let by = status["workloads"][0]["by"].as_str().unwrap_or_default();
    done(format!(
        "{first} has 2.9.0 and soaks, {} wait: Rollout {by}",
        rest.join(" and ")
    ))?;
    images(stage, &CLUSTERS, NEW).await?;
    intent
        .until(stage, "to rest", |status| status["rolling"] == 0)
        .await?;
    done("all have 2.9.0")?;
    intent.take_away(stage, "Let changes go out at once").await?;
    change_image(stage, "Go back to storefront 2.8.1", NEW, OLD)?;
    images(stage, &CLUSTERS, OLD).await
}

/// Replicas go from one cluster to another, more there before fewer here.
pub async fn shift(stage: &Stage) -> Result<()> {
    let intent = Intent::new(
        "ReplicaShift",
        "replicashifts",
        Some(NAMESPACE),
        "storefront-to-west",
    );
    let spec = format!(
        "  workload: {ABOUT_STOREFRONT}\n  from: {{cluster: north}}\n  to: west\n  percentages: [50, 100]\n  floor: 100%\n"
    );
    intent.push(stage, "Shift storefront from north to west", &spec)?;
    let status = intent.is(stage, "Shifted").await?;
    let counts = ["north", "west"].map(|name| replicas(stage, name));
    check(
        counts == [Some(0), Some(4)],
        "north has no replicas, and west has four",
    )?;
    let (floor, lowest) = (status["floor"].as_u64(), status["lowest"].as_u64());
    check(
        floor == Some(6) && lowest >= floor,
        "there were never fewer than six ready",
    )?;
    done("west has 4 replicas and north none; never fewer than 6 were ready")?;
    intent.take_away(stage, "Bring the replicas back").await?;
    let back = || (replicas(stage, "north") == Some(2) && replicas(stage, "west") == Some(2)).then_some(());
    stage.until("the replicas to be back", back).await?;
    done("taken away: they went back in the same way")
}

/// A cluster is emptied of what has state.
pub async fn evacuation(stage: &Stage, before: &Run) -> Result<()> {
    let home = before.writer.cluster.as_str();
    let intent = Intent::new("Evacuation", "evacuations", None, "maintenance");
    let spec = format!(
        "  cluster: {home}\n  select: {{kinds: [FlinkDeployment]}}\n  verify: {{healthyFor: 1s, timeout: 15s}}\n"
    );
    intent.push(stage, &format!("Empty {home} for maintenance"), &spec)?;
    intent.is(stage, "Completed").await?;
    let run = has_left(stage, home).await?;
    done(format!(
        "orders runs in {} now, from its savepoint",
        run.writer.cluster
    ))?;
    intent.take_away(stage, "Maintenance is over").await
}

/// No file asks for an evacuation: a person taints the cluster, and Karmada would evict the job without its state.
pub async fn taint(stage: &Stage, before: &Run) -> Result<()> {
    let home = before.writer.cluster.as_str();
    let tolerating = format!(
        "{ANYWHERE}\n    clusterTolerations:\n    - {{key: maintenance, operator: Exists, effect: NoExecute, tolerationSeconds: 300}}"
    );
    let policy = stage.clone.dir.join(POLICY);
    replace(&policy, ANYWHERE, &tolerating)?;
    push(
        stage,
        "Leave orders five minutes before Karmada evicts it",
        &[format!("~ {POLICY}: clusterTolerations, tolerationSeconds: 300")],
    )?;
    stage.tolerates_a_taint().await?;
    command(&format!("karmadactl taint clusters {home} maintenance:NoExecute"))?;
    let taint = json!([{"key": "maintenance", "effect": "NoExecute", "timeAdded": Timestamp::now()}]);
    stage.taint(home, taint)?;
    let name = stage.evacuated(home).await?;
    done(format!("cutover creates the Evacuation {name}"))?;
    let intent = Intent::new("Evacuation", "evacuations", None, name);
    intent.is(stage, "Completed").await?;
    let run = has_left(stage, home).await?;
    check(!stage.is_evicted(), "Karmada has not evicted orders")?;
    done(format!(
        "orders runs in {} now, from its savepoint; Karmada has not evicted it",
        run.writer.cluster
    ))?;
    command(&format!(
        "karmadactl taint clusters {home} maintenance:NoExecute-"
    ))?;
    stage.taint(home, json!([]))?;
    intent.is_gone(stage).await?;
    done("the taint is gone, and so is the Evacuation with its cordon")?;
    replace(&policy, &tolerating, ANYWHERE)?;
    push(stage, "Let Karmada evict orders at once", &[])
}

/// The job runs in another cluster, from its state.
async fn has_left(stage: &Stage, home: &str) -> Result<Run> {
    let run = stage.running().await?;
    check(
        run.writer.cluster.as_str() != home,
        &format!("the job has left {home}"),
    )?;
    from_a_handle(&run)?;
    Ok(run)
}

/// What asks for something: a file, or a cluster; and the object that it becomes.
struct Intent {
    kind: &'static str,
    resource: Resource,
    /// `None`: of cluster scope.
    namespace: Option<&'static str>,
    name: String,
    /// The steps that have been told.
    told: RefCell<Vec<StepRecord>>,
}

impl Intent {
    fn new(
        kind: &'static str,
        plural: &'static str,
        namespace: Option<&'static str>,
        name: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            resource: Resource::new("cutover.dev", plural),
            namespace,
            name: name.into(),
            told: RefCell::new(Vec::new()),
        }
    }

    fn file(&self) -> String {
        format!("intents/{}.yaml", self.name)
    }

    /// Writes the file with a spec, and pushes it.
    fn push(&self, stage: &Stage, message: &str, spec: &str) -> Result<()> {
        let namespace = self
            .namespace
            .map_or_else(String::new, |name| format!("\n  namespace: {name}"));
        let text = format!(
            "apiVersion: cutover.dev/v1alpha1\nkind: {}\nmetadata:\n  name: {}{namespace}\nspec:\n{spec}",
            self.kind, self.name
        );
        example::write_file(&stage.clone.dir.join(self.file()), &text)?;
        file(&self.file(), &text)?;
        push(stage, message, &[])
    }

    /// Takes the file out of Git, and waits until nothing of the intent is left.
    async fn take_away(&self, stage: &Stage, message: &str) -> Result<()> {
        let path = stage.clone.dir.join(self.file());
        std::fs::remove_file(&path)
            .map_err(|error| Error::user(format!("cannot remove {}: {error}", path.display())))?;
        push(stage, message, &[format!("- {}", self.file())])?;
        self.is_gone(stage).await
    }

    async fn is_gone(&self, stage: &Stage) -> Result<()> {
        let gone = || self.object(stage).is_none().then_some(());
        stage.until(&format!("{} to be gone", self.name), gone).await
    }

    fn object(&self, stage: &Stage) -> Option<Value> {
        stage.object(&self.resource, self.namespace, &self.name)
    }

    /// Tells its steps as they end, until it is in a phase.
    async fn is(&self, stage: &Stage, phase: &str) -> Result<Value> {
        self.until(stage, &format!("to be {phase}"), |status| {
            status["phase"] == phase
        })
        .await
    }

    async fn until(&self, stage: &Stage, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        let what = format!("{} {what}", self.name);
        stage
            .until(&what, || {
                let object = self.object(stage)?;
                let status = object["status"].clone();
                let steps: Vec<StepRecord> =
                    serde_json::from_value(status["steps"].clone()).unwrap_or_default();
                let mut told = self.told.borrow_mut();
                for (index, step) in steps.iter().enumerate() {
                    if step.finished_at.is_some() && !told.contains(step) {
                        let next = steps.get(index + 1).map(|next| next.name.as_str());
                        // A reader that has gone away is found at the next line.
                        let _ = apply(step_line(step, next, global::is_verbose()));
                        told.push(step.clone());
                    }
                }
                is_so(&status).then_some(status)
            })
            .await
    }
}

/// The first cluster in which the job doesn't run.
fn other_than(run: &Run) -> &'static str {
    let home = run.writer.cluster.as_str();
    CLUSTERS
        .into_iter()
        .find(|name| *name != home)
        .unwrap_or(CLUSTERS[0])
}

fn from_a_handle(run: &Run) -> Result<()> {
    match &run.restored_from {
        Origin::Handle(handle) => apply(format!("    {QUIET}{handle}{QUIET:#}")),
        Origin::Empty | Origin::Volume(_) => check(false, "the job started from its state"),
    }
}

fn change_image(stage: &Stage, message: &str, from: &str, to: &str) -> Result<()> {
    replace(&stage.clone.dir.join(FILE), from, to)?;
    push(stage, message, &[format!("~ {FILE}: image {GOOD}{to}{GOOD:#}")])
}

/// Waits until the copies in these clusters have an image.
async fn images(stage: &Stage, clusters: &[&str], wanted: &str) -> Result<()> {
    let have = || {
        clusters
            .iter()
            .all(|name| image(stage, name) == wanted)
            .then_some(())
    };
    stage
        .until(&format!("{} to have {wanted}", clusters.join(", ")), have)
        .await
}

fn image(stage: &Stage, member: &str) -> String {
    let copy = stage.copy(member, &DEPLOYMENTS, STOREFRONT).unwrap_or_default();
    let image = copy.pointer("/spec/template/spec/containers/0/image");
    image.and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn generation(stage: &Stage, member: &str) -> Option<u64> {
    let copy = stage.copy(member, &DEPLOYMENTS, STOREFRONT)?;
    copy["metadata"]["generation"].as_u64()
}

fn replicas(stage: &Stage, member: &str) -> Option<u64> {
    let copy = stage.copy(member, &DEPLOYMENTS, STOREFRONT)?;
    copy["spec"]["replicas"].as_u64()
}
