//! The operator's behaviour, one sentence a test, without an API server.

use serde_json::{Value, json};

use super::jobs::Key;
use super::operator::{Failure, Operator, Record};
use super::resource::{Kind, Resource, Session};
use super::spec::{JobState, Spec, UpgradeMode};
use super::status::{JOB_NOT_FOUND, Job, JobManager, LAST_STATE_MARKER, Lifecycle, Reconciliation, Status};
use crate::ledger::{Ledger, Origin};
use crate::member::savepoints::{Savepoint, Savepoints};
use crate::member::{Clock, Context, Gate, Timings};
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// An operator with one resource, on paused time.
struct Bench {
    operator: Operator,
    kind: Kind,
    name: &'static str,
    /// Of a session job.
    session: Option<Session>,
    spec: Value,
    generation: i64,
    status: Status,
    /// Every status that was written, in order.
    written: Written,
}

#[derive(Default)]
struct Written(Vec<Status>);

impl Record for Written {
    async fn record(&mut self, status: &Status) -> Result<(), Failure> {
        if self.0.last() != Some(status) {
            self.0.push(status.clone());
        }
        Ok(())
    }
}

fn spec(state: &str) -> Value {
    json!({
        "image": "orders:1",
        "flinkVersion": "v1_20",
        "flinkConfiguration": {"state.savepoints.dir": "s3://savepoints/streaming/orders"},
        "job": {"jarURI": "local:///orders.jar", "parallelism": 2, "state": state, "upgradeMode": "savepoint"},
    })
}

impl Bench {
    fn new(spec: Value) -> Self {
        let context = Arc::new(Context {
            cluster: "east".into(),
            scope: crate::member::Scope::default(),
            seed: 7,
            clock: Clock::starting_at(Timestamp::from_second(1_800_000_000).unwrap()),
            ledger: Ledger::new(),
            savepoints: Savepoints::default(),
            timings: Timings::default(),
            lag: Arc::new(|_: &_, _: &str| Duration::ZERO),
        });
        let jobs = super::Jobs::new(Arc::clone(&context));
        Self {
            operator: Operator {
                context,
                jobs,
                gate: Gate::new(),
            },
            kind: Kind::Deployment,
            name: "orders",
            session: None,
            spec,
            generation: 1,
            status: Status::default(),
            written: Written::default(),
        }
    }

    async fn running(spec: Value) -> Self {
        let mut bench = Self::new(spec);
        bench.until(|status| status.job_is(Job::Running)).await;
        bench
    }

    /// A session cluster that is up.
    async fn session() -> Self {
        let mut bench = Self::new(json!({"image": "flink:1.20", "flinkVersion": "v1_20"}));
        bench.name = "session";
        bench.until(Status::manager_is_ready).await;
        bench
    }

    /// A job in that cluster.
    fn job_in(session: &Self, upgrade_mode: &str) -> Self {
        let spec = json!({
            "deploymentName": "session",
            "job": {"jarURI": "local:///orders.jar", "parallelism": 2, "state": "running", "upgradeMode": upgrade_mode},
        });
        Self {
            operator: session.operator.clone(),
            kind: Kind::SessionJob,
            session: Some(Session {
                spec: Spec::new(&session.spec),
                is_ready: true,
            }),
            ..Self::new(spec)
        }
    }

    fn key() -> Key {
        ("streaming".into(), "orders".into())
    }

    fn session_key() -> Key {
        ("streaming".into(), "session".into())
    }

    /// Returns whether the session job writes.
    fn session_job_runs(&self) -> bool {
        self.operator.jobs.in_sessions().can_write(&Self::key())
    }

    fn set(&mut self, pointer: &str, value: Value) {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        self.spec
            .pointer_mut(parent)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .insert(field.into(), value);
        self.generation += 1;
    }

    fn resource(&self) -> Resource {
        Resource {
            kind: self.kind,
            namespace: "streaming".into(),
            name: self.name.into(),
            uid: "uid-1".into(),
            generation: self.generation,
            spec: Spec::new(&self.spec),
            status: self.status.clone(),
            session: self.session.clone(),
        }
    }

    async fn pass(&mut self) -> Option<Duration> {
        let mut resource = self.resource();
        let next = self
            .operator
            .reconcile(&mut resource, &mut self.written)
            .await
            .unwrap();
        self.status = resource.status;
        next
    }

    /// Lets the operator work until its status is as wanted.
    async fn until(&mut self, wanted: impl Fn(&Status) -> bool) {
        for _ in 0..200 {
            let next = self.pass().await;
            if wanted(&self.status) {
                return;
            }
            tokio::time::sleep(next.expect("the operator goes on")).await;
        }
        panic!("never reached; now {:#?}", self.status);
    }

    async fn passes(&mut self, count: usize) {
        for _ in 0..count {
            let next = self.pass().await.unwrap_or(Duration::from_secs(1));
            tokio::time::sleep(next).await;
        }
    }

    fn store(&self, path: &str, records: u64) {
        self.operator.context.savepoints.put(
            path,
            Savepoint {
                job_id: "0".repeat(32),
                records,
                taken_at: self.operator.context.clock.now(),
            },
        );
    }

    fn path(&self) -> Option<&str> {
        self.status.job_status.upgrade_savepoint_path.as_deref()
    }

    fn last(&self) -> Spec {
        self.status.last_reconciled().unwrap().spec
    }

    /// Suspends the running job and returns the path of its savepoint.
    async fn suspend(&mut self) -> String {
        self.set("/job/state", json!("suspended"));
        self.until(|status| status.lifecycle_state == Some(Lifecycle::Suspended))
            .await;
        self.path().unwrap().to_owned()
    }

    async fn resume(&mut self) {
        self.set("/job/state", json!("running"));
        self.until(|status| status.job_is(Job::Running)).await;
    }

    fn restored_from(&self) -> Vec<Origin> {
        self.operator
            .context
            .ledger
            .verdict()
            .runs
            .into_iter()
            .map(|run| run.restored_from)
            .collect()
    }
}

fn handle(path: &str) -> Origin {
    Origin::Handle(path.to_owned())
}

/// `AbstractFlinkResourceReconciler.reconcile` (FLINK-32729).
#[tokio::test(start_paused = true)]
async fn created_suspended_it_waits_without_starting_and_has_observed_nothing() {
    let mut bench = Bench::new(spec("suspended"));
    bench.passes(5).await;
    assert_eq!(bench.status.observed_generation, None);
    assert_eq!(bench.status.lifecycle_state, Some(Lifecycle::Created));
    assert_eq!(bench.status.job_manager_deployment_status, JobManager::Missing);
    assert_eq!(bench.status.reconciliation_status.last_reconciled_spec, None);
    assert!(bench.operator.jobs.pods().is_empty());
    assert!(bench.restored_from().is_empty());
}

/// `AbstractFlinkResourceReconciler.updateStatusBeforeFirstDeployment`, `ApplicationReconciler.deploy`.
#[tokio::test(start_paused = true)]
async fn the_first_deployment_starts_from_the_initial_savepoint_and_echoes_it() {
    let mut bench = Bench::new(spec("suspended"));
    bench.store("s3://savepoints/a", 5_000);
    bench.passes(2).await;
    bench.set("/job/initialSavepointPath", json!("s3://savepoints/a"));
    bench.resume().await;
    assert_eq!(bench.path(), Some("s3://savepoints/a"));
    assert_eq!(bench.status.observed_generation, Some(bench.generation));
    assert_eq!(bench.restored_from(), [handle("s3://savepoints/a")]);
    assert!(bench.operator.jobs.records(&Bench::key()).unwrap() >= 5_000);
    let id = bench.status.job_status.job_id.clone().unwrap();
    assert_eq!((id.len(), id.bytes().all(|b| b.is_ascii_hexdigit())), (32, true));
    let before = bench
        .written
        .0
        .iter()
        .find(|status| !status.is_before_first_deployment())
        .unwrap();
    assert_eq!(before.reconciliation_status.state, Reconciliation::Upgrading);
    assert_eq!(
        before.last_reconciled().unwrap().spec.job_state(),
        JobState::Suspended
    );
    bench
        .until(|status| status.lifecycle_state == Some(Lifecycle::Stable))
        .await;
}

/// `JobSpec`: `@SpecDiff(IGNORE)`.
#[tokio::test(start_paused = true)]
async fn removing_the_initial_savepoint_or_changing_the_upgrade_mode_does_not_restart() {
    let mut bench = Bench::new(spec("running"));
    bench.store("s3://savepoints/a", 1);
    bench.set("/job/initialSavepointPath", json!("s3://savepoints/a"));
    bench.until(|status| status.job_is(Job::Running)).await;
    let id = bench.status.job_status.job_id.clone();
    bench.set("/job/initialSavepointPath", Value::Null);
    bench.set("/job/upgradeMode", json!("last-state"));
    bench.passes(5).await;
    assert_eq!(bench.status.job_status.job_id, id);
    assert_eq!(bench.status.observed_generation, Some(bench.generation));
    assert_eq!(bench.restored_from().len(), 1);
}

/// `AbstractFlinkService.cancelJob`, `AbstractJobReconciler.setUpgradeSavepointPath`.
#[tokio::test(start_paused = true)]
async fn suspending_stops_with_a_savepoint_and_the_job_writes_until_it_is_complete() {
    let mut bench = Bench::running(spec("running")).await;
    bench.set("/job/state", json!("suspended"));
    let jobs = bench.operator.jobs.clone();
    let key = Bench::key();
    let (_, wrote) = tokio::join!(bench.pass(), async move {
        tokio::time::sleep(Duration::from_millis(499)).await;
        jobs.can_write(&key)
    });
    assert!(wrote);
    assert!(!bench.operator.jobs.can_write(&Bench::key()));
    let path = bench.path().unwrap().to_owned();
    let id = bench.status.job_status.job_id.clone().unwrap();
    let rest = path
        .strip_prefix(&format!(
            "s3://savepoints/streaming/orders/savepoint-{}-",
            &id[..6]
        ))
        .unwrap();
    assert_eq!(rest.len(), 12);
    assert_eq!(bench.status.job_status.state, Some(Job::Finished));
    assert_eq!(bench.status.reconciliation_status.state, Reconciliation::Deployed);
    assert_eq!(bench.status.lifecycle_state, Some(Lifecycle::Suspended));
    assert_eq!(bench.last().upgrade_mode(), UpgradeMode::Savepoint);
    assert_eq!(bench.last().job_state(), JobState::Suspended);
    assert_eq!(bench.status.observed_generation, Some(bench.generation));
    assert!(bench.operator.context.savepoints.get(&path).unwrap().records > 0);
}

/// `ApplicationReconciler.cleanupTerminalJmAfterTtl`.
#[tokio::test(start_paused = true)]
async fn after_a_savepoint_the_job_manager_stays_until_its_time_to_live_is_over() {
    let mut short = Bench::running(spec("running")).await;
    short.suspend().await;
    assert_eq!(short.status.job_manager_deployment_status, JobManager::Ready);
    short
        .until(|status| status.job_manager_deployment_status == JobManager::Missing)
        .await;
    assert!(short.operator.jobs.pods().is_empty());

    let mut long = spec("running");
    long["flinkConfiguration"]["kubernetes.operator.jm-deployment.shutdown-ttl"] = json!("1 d");
    let mut long = Bench::running(long).await;
    long.suspend().await;
    long.passes(20).await;
    assert_eq!(long.status.job_manager_deployment_status, JobManager::Ready);
    assert_eq!(long.operator.jobs.pods().len(), 1);
}

/// `AbstractJobReconciler.restoreJob`.
#[tokio::test(start_paused = true)]
async fn resuming_restores_from_its_own_savepoint_whatever_the_spec_names() {
    let mut bench = Bench::running(spec("running")).await;
    let own = bench.suspend().await;
    let taken = bench.operator.context.savepoints.get(&own).unwrap().records;
    bench.store("s3://savepoints/other", 1);
    bench.set("/job/initialSavepointPath", json!("s3://savepoints/other"));
    bench.resume().await;
    assert_eq!(bench.restored_from(), [Origin::Empty, handle(&own)]);
    assert!(bench.operator.jobs.records(&Bench::key()).unwrap() >= taken);
    assert!(bench.operator.context.ledger.verdict().is_clean());
}

/// `AbstractJobReconciler.redeployWithSavepoint`.
#[tokio::test(start_paused = true)]
async fn a_new_redeploy_nonce_starts_from_the_initial_savepoint() {
    let mut bench = Bench::running(spec("running")).await;
    bench.suspend().await;
    bench.store("s3://savepoints/other", 9);
    bench.set("/job/initialSavepointPath", json!("s3://savepoints/other"));
    bench.set("/job/savepointRedeployNonce", json!(1));
    bench.resume().await;
    assert_eq!(
        bench.restored_from().last(),
        Some(&handle("s3://savepoints/other"))
    );
    assert_eq!(bench.path(), Some("s3://savepoints/other"));
}

/// `AbstractJobReconciler.reconcileSpecChange`: the upgrade mode is inherited unless stateless is asked for.
#[tokio::test(start_paused = true)]
async fn a_stateless_template_resumes_empty_and_the_ledger_says_so() {
    let mut bench = Bench::running(spec("running")).await;
    bench.suspend().await;
    bench.set("/job/upgradeMode", json!("stateless"));
    bench.resume().await;
    assert_eq!(bench.restored_from(), [Origin::Empty, Origin::Empty]);
    assert_eq!(bench.operator.context.ledger.verdict().lost_state.len(), 1);
}

/// `AbstractJobReconciler.getJobUpgrade`, then a restore in the next pass.
#[tokio::test(start_paused = true)]
async fn an_image_change_goes_through_a_savepoint() {
    let mut bench = Bench::running(spec("running")).await;
    bench.set("/image", json!("orders:2"));
    bench
        .until(|status| status.reconciliation_status.state == Reconciliation::Upgrading)
        .await;
    assert_eq!(bench.status.lifecycle_state, Some(Lifecycle::Upgrading));
    let path = bench.path().unwrap().to_owned();
    bench.until(|status| status.job_is(Job::Running)).await;
    assert_eq!(bench.restored_from(), [Origin::Empty, handle(&path)]);
    assert!(
        bench
            .operator
            .jobs
            .pods()
            .iter()
            .all(|pod| pod.image == "orders:2")
    );
    assert!(bench.operator.context.ledger.verdict().is_clean());
}

/// `AbstractJobReconciler.getJobUpgrade`: with HA metadata the fallback is last-state, which doesn't travel.
#[tokio::test(start_paused = true)]
async fn an_unhealthy_job_with_high_availability_falls_back_to_last_state() {
    let mut ha = spec("running");
    ha["flinkConfiguration"]["high-availability.type"] = json!("kubernetes");
    let mut bench = Bench::running(ha).await;
    tokio::time::sleep(Duration::from_secs(25)).await;
    bench.operator.jobs.set_reachable(&Bench::key(), false);
    bench.until(|status| status.job_is(Job::Reconciling)).await;
    bench.set("/job/state", json!("suspended"));
    bench
        .until(|status| status.lifecycle_state == Some(Lifecycle::Suspended))
        .await;
    assert_eq!(bench.last().upgrade_mode(), UpgradeMode::LastState);
    assert_eq!(bench.path(), None);
    assert!(!bench.operator.jobs.can_write(&Bench::key()));
    bench.resume().await;
    assert_eq!(bench.path(), Some(LAST_STATE_MARKER));
    let from = bench.restored_from();
    assert!(
        matches!(&from[1], Origin::Handle(path) if path.ends_with("/chk-2")),
        "{from:?}"
    );
    assert!(bench.operator.context.ledger.verdict().is_clean());
}

/// `kubernetes.operator.job.upgrade.last-state-fallback.enabled`.
#[tokio::test(start_paused = true)]
async fn without_the_fallback_an_unhealthy_job_is_waited_for() {
    let mut ha = spec("running");
    ha["flinkConfiguration"]["high-availability.type"] = json!("kubernetes");
    ha["flinkConfiguration"]["kubernetes.operator.job.upgrade.last-state-fallback.enabled"] = json!("false");
    let mut bench = Bench::running(ha).await;
    bench.operator.jobs.set_reachable(&Bench::key(), false);
    bench.until(|status| status.job_is(Job::Reconciling)).await;
    bench.set("/job/state", json!("suspended"));
    bench.passes(5).await;
    assert!(bench.operator.jobs.can_write(&Bench::key()));
    assert_ne!(bench.status.observed_generation, Some(bench.generation));
    bench.operator.jobs.set_reachable(&Bench::key(), true);
    bench
        .until(|status| status.lifecycle_state == Some(Lifecycle::Suspended))
        .await;
    assert_eq!(bench.last().upgrade_mode(), UpgradeMode::Savepoint);
}

/// `ReconciliationUtils.applyValidationErrorAndResetSpec`.
#[tokio::test(start_paused = true)]
async fn an_invalid_spec_is_told_and_the_old_one_runs_on() {
    let mut bench = Bench::running(spec("running")).await;
    let observed = bench.status.observed_generation;
    bench.set("/job/parallelism", json!(0));
    bench.passes(3).await;
    let error: Value = serde_json::from_str(bench.status.error.as_ref().unwrap()).unwrap();
    assert_eq!(error["message"], "Job parallelism must be larger than 0");
    assert_eq!(bench.status.observed_generation, observed);
    assert!(bench.operator.jobs.can_write(&Bench::key()));
    bench.set("/job/parallelism", json!(2));
    bench.until(|status| status.error.is_none()).await;
    assert_eq!(bench.restored_from().len(), 1);
}

/// `CommonStatus.getLifecycleState`.
#[tokio::test(start_paused = true)]
async fn an_invalid_new_object_fails_and_is_never_looked_at_again() {
    let mut bad = spec("running");
    bad["flinkVersion"] = json!("v1_2");
    let mut bench = Bench::new(bad);
    assert_eq!(bench.pass().await, None);
    assert_eq!(bench.status.lifecycle_state, Some(Lifecycle::Failed));
    assert!(bench.status.error.as_ref().unwrap().contains("not supported"));
}

/// `AbstractFlinkDeploymentObserver.checkContainerErrors`, `FlinkDeploymentController.reconcile`.
#[tokio::test(start_paused = true)]
async fn a_broken_image_never_becomes_ready() {
    let mut broken = spec("running");
    broken["image"] = json!("orders:broken");
    let mut bench = Bench::new(broken);
    bench
        .until(|status| status.job_manager_deployment_status == JobManager::Error)
        .await;
    assert!(
        bench
            .status
            .error
            .as_ref()
            .unwrap()
            .contains("Back-off pulling image")
    );
    bench.passes(20).await;
    assert_eq!(bench.status.job_manager_deployment_status, JobManager::Error);
    assert_eq!(bench.status.job_status.state, Some(Job::Reconciling));
    assert!(bench.restored_from().is_empty());
    assert!(!bench.operator.jobs.pods().is_empty());
}

/// `ApplicationReconciler.deleteJmThatNeverStarted`.
#[tokio::test(start_paused = true)]
async fn suspending_a_job_manager_that_never_started_deletes_it_and_keeps_the_handle() {
    let mut broken = spec("running");
    broken["image"] = json!("orders:broken");
    broken["job"]["initialSavepointPath"] = json!("s3://savepoints/a");
    let mut bench = Bench::new(broken);
    bench.store("s3://savepoints/a", 5);
    bench
        .until(|status| status.job_manager_deployment_status == JobManager::Error)
        .await;
    assert_eq!(bench.suspend().await, "s3://savepoints/a");
    assert!(bench.operator.jobs.pods().is_empty());
    bench.set("/image", json!("orders:1"));
    bench.resume().await;
    assert_eq!(bench.restored_from(), [handle("s3://savepoints/a")]);
}

/// `JobStatusObserver.recordJobErrorIfPresent`.
#[tokio::test(start_paused = true)]
async fn a_savepoint_that_does_not_exist_fails_the_job() {
    let mut lost = spec("running");
    lost["job"]["initialSavepointPath"] = json!("s3://savepoints/none");
    let mut bench = Bench::new(lost);
    bench.until(|status| status.job_is(Job::Failed)).await;
    assert_eq!(bench.status.lifecycle_state, Some(Lifecycle::Failed));
    assert!(
        bench
            .status
            .error
            .as_ref()
            .unwrap()
            .contains("s3://savepoints/none")
    );
    assert!(bench.restored_from().is_empty());
}

/// `AbstractFlinkResourceObserver.checkIfAlreadyUpgraded`: the operator died between deploying and recording it.
#[tokio::test(start_paused = true)]
async fn a_deployment_whose_record_was_lost_is_recognised_and_not_made_twice() {
    let mut bench = Bench::new(spec("running"));
    bench.pass().await;
    let lost = bench.written.0.iter().rev().find(|status| {
        status.reconciliation_status.state == Reconciliation::Upgrading && status.job_status.job_id.is_some()
    });
    bench.status = lost.unwrap().clone();
    bench.until(|status| status.job_is(Job::Running)).await;
    assert_eq!(bench.restored_from().len(), 1);
}

/// `ApplicationReconciler.cleanupInternal`.
#[tokio::test(start_paused = true)]
async fn deleting_cancels_the_job_which_writes_until_it_is_cancelled() {
    let bench = Bench::running(spec("running")).await;
    let mut resource = bench.resource();
    let (jobs, key) = (bench.operator.jobs.clone(), Bench::key());
    let (done, wrote) = tokio::join!(bench.operator.clean_up(&mut resource), async {
        tokio::time::sleep(Duration::from_millis(149)).await;
        jobs.can_write(&key)
    });
    done.unwrap();
    assert!(wrote);
    assert!(!bench.operator.jobs.can_write(&Bench::key()));
    assert!(bench.operator.jobs.pods().is_empty());
    let runs = bench.operator.context.ledger.verdict().runs;
    assert!(runs[0].until.is_some());
}

/// A job is no child of the operator's process.
#[tokio::test(start_paused = true)]
async fn a_frozen_operator_does_not_stop_the_job() {
    let mut bench = Bench::running(spec("running")).await;
    bench.operator.gate.set(false);
    bench.set("/job/state", json!("suspended"));
    let waited = tokio::time::timeout(Duration::from_mins(1), bench.pass()).await;
    assert!(waited.is_err());
    assert!(bench.operator.jobs.can_write(&Bench::key()));
    bench.operator.gate.set(true);
    bench.suspend().await;
    assert!(!bench.operator.jobs.can_write(&Bench::key()));
}

/// `AbstractFlinkResourceReconciler.shouldRollBack`, `prepareCrForRollback`.
#[tokio::test(start_paused = true)]
async fn with_rollback_enabled_a_spec_that_does_not_become_stable_is_undone() {
    let mut ha = spec("running");
    ha["flinkConfiguration"]["high-availability.type"] = json!("kubernetes");
    ha["flinkConfiguration"]["kubernetes.operator.deployment.rollback.enabled"] = json!("true");
    ha["flinkConfiguration"]["kubernetes.operator.deployment.readiness.timeout"] = json!("5 s");
    let mut bench = Bench::running(ha).await;
    bench.set("/image", json!("orders:broken"));
    bench
        .until(|status| status.lifecycle_state == Some(Lifecycle::RolledBack) && status.job_is(Job::Running))
        .await;
    assert!(
        bench
            .operator
            .jobs
            .pods()
            .iter()
            .all(|pod| pod.image == "orders:1")
    );
    let seen = bench
        .written
        .0
        .iter()
        .any(|status| status.lifecycle_state == Some(Lifecycle::RollingBack));
    assert!(seen);
    let verdict = bench.operator.context.ledger.verdict();
    assert!(verdict.is_clean(), "{verdict}\n{}", bench.operator.context.ledger);
}

/// `SpecUtils.writeSpecWithMeta`.
#[tokio::test(start_paused = true)]
async fn the_last_reconciled_spec_is_json_text_with_metadata() {
    let bench = Bench::running(spec("running")).await;
    let text = bench
        .status
        .reconciliation_status
        .last_reconciled_spec
        .as_ref()
        .unwrap();
    let value: Value = serde_json::from_str(text).unwrap();
    assert_eq!(
        value["resource_metadata"]["apiVersion"],
        "flink.apache.org/v1beta1"
    );
    assert_eq!(value["resource_metadata"]["firstDeployment"], true);
    assert_eq!(value["spec"]["job"]["state"], "running");
    assert_eq!(value["spec"]["job"]["upgradeMode"], "stateless");
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_history() {
    let mut histories = Vec::new();
    for _ in 0..2 {
        let mut bench = Bench::running(spec("running")).await;
        bench.suspend().await;
        bench.resume().await;
        histories.push(bench.operator.context.ledger.to_string());
    }
    assert_eq!(histories[0], histories[1]);
}

#[tokio::test(start_paused = true)]
async fn pods_that_go_while_they_are_being_shown_are_not_slept_through() {
    let bench = Bench::running(spec("running")).await;
    let jobs = bench.operator.jobs.clone();
    let deleting = tokio::spawn({
        let jobs = jobs.clone();
        async move { jobs.delete(&Bench::key(), false).await }
    });
    tokio::task::yield_now().await;
    let mut changes = jobs.subscribe();
    let (pods, until) = jobs.pods_until();
    assert!(!pods.is_empty());
    deleting.await.unwrap();
    let changed = jobs.changed(&mut changes, until);
    let changed = tokio::time::timeout(Duration::from_hours(1), changed).await;
    assert!(changed.is_ok());
    assert!(jobs.pods().is_empty());
}

/// `SessionJobReconciler.cancelJob`, `AbstractFlinkService.cancelSessionJob`.
#[tokio::test(start_paused = true)]
async fn a_session_job_stops_with_its_savepoint_and_its_session_stays() {
    let session = Bench::session().await;
    let mut job = Bench::job_in(&session, "savepoint");
    job.until(|status| status.job_is(Job::Running)).await;
    assert!(job.status.job_status.job_id.is_some());
    let path = job.suspend().await;
    assert_eq!(job.status.job_status.job_id, None);
    assert_eq!(job.status.job_status.state, Some(Job::Finished));
    assert!(!job.session_job_runs());
    assert_eq!(session.operator.jobs.pods().len(), 1);
    job.resume().await;
    assert_eq!(job.restored_from(), [Origin::Empty, handle(&path)]);
    assert!(job.operator.context.ledger.verdict().is_clean());
    let shown = job.status.shown(Kind::SessionJob);
    assert_eq!(shown["jobManagerDeploymentStatus"], Value::Null);
    assert_eq!(shown["taskManager"], Value::Null);
}

/// `AbstractJobReconciler.redeployWithSavepoint`, `AbstractFlinkService.cancelJobOrError`: there is no id to parse.
#[tokio::test(start_paused = true)]
async fn a_session_job_that_was_stopped_is_never_redeployed() {
    let session = Bench::session().await;
    let mut job = Bench::job_in(&session, "savepoint");
    job.until(|status| status.job_is(Job::Running)).await;
    let own = job.suspend().await;
    job.store("s3://savepoints/other", 9);
    job.set("/job/initialSavepointPath", json!("s3://savepoints/other"));
    job.set("/job/savepointRedeployNonce", json!(1));
    job.set("/job/state", json!("running"));
    job.passes(5).await;
    assert!(job.status.error.as_ref().unwrap().contains("Cannot parse JobID"));
    assert!(!job.session_job_runs());
    assert_eq!(job.path(), Some(own.as_str()));
}

/// `SessionJobReconciler.readyToReconcile`.
#[tokio::test(start_paused = true)]
async fn a_session_job_waits_silently_for_its_session() {
    let session = Bench::session().await;
    let mut job = Bench::job_in(&session, "savepoint");
    for session in [None, Some(Session::default())] {
        job.session = session;
        job.passes(3).await;
        assert_eq!(job.status.job_status.state, None);
        assert_eq!(job.status.error, None);
        assert_eq!(job.status.observed_generation, None);
    }
}

/// `JobStatusObserver.onTargetJobNotFound`.
#[tokio::test(start_paused = true)]
async fn a_session_that_restarts_without_high_availability_loses_its_jobs() {
    for (mode, comes_back) in [("savepoint", false), ("stateless", true)] {
        let mut session = Bench::session().await;
        let mut job = Bench::job_in(&session, mode);
        job.until(|status| status.job_is(Job::Running)).await;
        session.operator.jobs.restart_job_manager(&Bench::session_key());
        assert!(!job.session_job_runs());
        session.until(|status| !status.manager_is_ready()).await;
        session.until(Status::manager_is_ready).await;
        job.passes(5).await;
        assert_eq!(job.session_job_runs(), comes_back, "{mode}");
        if !comes_back {
            assert_eq!(job.status.error.as_deref(), Some(JOB_NOT_FOUND));
            assert_eq!(job.status.job_status.state, Some(Job::Reconciling));
            assert_eq!(job.status.reconciliation_status.state, Reconciliation::Deployed);
        }
    }
}

/// `SessionReconciler.reconcileSpecChange`.
#[tokio::test(start_paused = true)]
async fn a_change_of_a_session_cluster_ends_its_jobs() {
    let mut session = Bench::session().await;
    let mut job = Bench::job_in(&session, "savepoint");
    job.until(|status| status.job_is(Job::Running)).await;
    session.set("/image", json!("flink:1.20.1"));
    session.passes(1).await;
    assert!(!job.session_job_runs());
    session.until(Status::manager_is_ready).await;
    let images: Vec<String> = session
        .operator
        .jobs
        .pods()
        .into_iter()
        .map(|pod| pod.image)
        .collect();
    assert_eq!(images, ["flink:1.20.1"]);
}

/// `AbstractJobReconciler.getJobUpgrade`: the fall-back of a session job is to cancel it; it stays UPGRADING.
#[tokio::test(start_paused = true)]
async fn a_session_job_that_does_not_run_yet_is_cancelled() {
    let session = Bench::session().await;
    let mut job = Bench::job_in(&session, "savepoint");
    job.pass().await;
    job.pass().await;
    assert_eq!(job.status.job_status.state, Some(Job::Created));
    job.set("/job/state", json!("suspended"));
    job.until(|status| status.job_is(Job::Canceled)).await;
    job.passes(3).await;
    assert_eq!(job.last().job_state(), JobState::Suspended);
    assert_eq!(job.status.reconciliation_status.state, Reconciliation::Upgrading);
    assert_eq!(job.path(), None);
}

/// `SessionJobReconciler.cleanupInternal`.
#[tokio::test(start_paused = true)]
async fn deleting_a_session_job_waits_until_it_is_cancelled() {
    let session = Bench::session().await;
    let mut job = Bench::job_in(&session, "savepoint");
    job.until(|status| status.job_is(Job::Running)).await;
    let mut resource = job.resource();
    assert!(!job.operator.clean_up(&mut resource).await.unwrap());
    assert!(job.session_job_runs());
    tokio::time::sleep(job.operator.context.timings.cancel).await;
    assert!(job.operator.clean_up(&mut resource).await.unwrap());
    assert!(!job.session_job_runs());
}
