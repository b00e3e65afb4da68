//! The races of a migration. Each is shown with one guard left out, and the ledger sees two writers or lost state; then with
//! it, and the ledger sees neither.
//!
//! The steps are done by hand, by an operator who is careful but for that one thing. What is awaited is a condition; the
//! time between is the world's, whose clock is paused.

use std::cell::Cell;
use std::time::Duration;

use cutover::api::Phase;
use cutover::reconcile::intents::Nobody;
use cutover::sandbox::api::{DeleteOptions, ListOptions, Resource, WriteOptions};
use cutover::sandbox::ledger::Verdict;
use cutover::sandbox::member::Timings;
use cutover::sandbox::{World, WorldOptions};
use serde_json::{Value, json};

use crate::support::fleet::{BINDINGS, Fleet, JOBS, PINS, job};

const BINDING: &str = "orders-flinkdeployment";
const PIN: &str = "zzzz-orders";
const MARKER: &str = "example.org/marker";
const POLICIES: Resource = Resource::new("policy.karmada.io", "propagationpolicies");
const CONFIG_MAPS: Resource = Resource::new("", "configmaps");
const NAMESPACES: Resource = Resource::new("", "namespaces");
const WORKS: Resource = Resource::new("work.karmada.io", "works");

/// Whether the guard that a race is about is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guard {
    On,
    Off,
}

use Guard::{Off, On};

#[tokio::test(start_paused = true)]
async fn a_policy_that_names_another_cluster_moves_the_job_without_its_state() {
    lost_state(&policy_changed(Off, Timings::default()).await);
    clean(&policy_changed(On, Timings::default()).await);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_takes_its_time_to_go_runs_beside_the_one_that_a_policy_moved() {
    let slow = Timings {
        cancel: Duration::from_secs(3),
        teardown: Duration::from_secs(3),
        ..Timings::default()
    };
    two_writers(&policy_changed(Off, slow.clone()).await);
    clean(&policy_changed(On, slow).await);
}

async fn policy_changed(fence: Guard, timings: Timings) -> Fleet {
    let fleet = Fleet::start(WorldOptions {
        timings,
        ..WorldOptions::default()
    })
    .await;
    let hand = Hand::on(&fleet);
    if fence == On {
        hand.suspend_scheduling();
        hand.canary().await;
    }
    fleet.patch(
        &POLICIES,
        "orders",
        json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["west"]}}}}),
    );
    match fence {
        Off => {
            fleet
                .until("it runs in west", |fleet| fleet.runs_in("west"))
                .await;
        }
        On => {
            a_while().await;
            assert_eq!(fleet.listed(), ["east"]);
        }
    }
    fleet
}

#[tokio::test(start_paused = true)]
async fn what_the_scheduler_had_queued_drops_the_source_after_the_suspension() {
    lost_state(&queued_before_the_suspension(Off).await);
    clean(&queued_before_the_suspension(On).await);
}

/// The job runs in west and goes to east: of two clusters that are listed the scheduler keeps the first by name.
async fn queued_before_the_suspension(barrier: Guard) -> Fleet {
    let fleet = Fleet::start(WorldOptions::default()).await;
    {
        let _controller = fleet.controller(std::sync::Arc::new(Nobody));
        fleet.migrate("there", "west");
        assert_eq!(fleet.ended("there").await, Phase::Completed);
    }
    let hand = Hand::on(&fleet);
    backlog(&fleet.world, 100);
    fleet.patch(
        &POLICIES,
        "orders",
        json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["east", "west"]}}}}),
    );
    let names =
        |fleet: &Fleet| fleet.binding()["spec"]["placement"]["clusterAffinity"]["clusterNames"].clone();
    fleet
        .until("the binding has it", |fleet| {
            names(fleet) == json!(["east", "west"])
        })
        .await;
    hand.suspend_scheduling();
    if barrier == On {
        hand.canary().await;
        assert_eq!(fleet.listed(), ["west"]);
    }
    hand.hold_and_expand("west", "east").await;
    if barrier == On {
        hand.hand_over("west", "east").await;
        return fleet;
    }
    fleet
        .until("the source is dropped", |fleet| {
            fleet.listed() == ["east"] && fleet.copy("west").is_none()
        })
        .await;
    hand.release("east", None).await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_second_cluster_listed_without_a_pin_runs_beside_the_first() {
    two_writers(&expanded(Off).await);
    clean(&expanded(On).await);
}

async fn expanded(pin: Guard) -> Fleet {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let hand = Hand::fenced(&fleet).await;
    match pin {
        On => hand.hold_and_expand("east", "west").await,
        Off => {
            hand.list(&["east", "west"]);
            fleet
                .until("it runs in west", |fleet| fleet.runs_in("west"))
                .await;
        }
    }
    a_while().await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_target_listed_before_the_pin_is_seen_in_force_is_born_running() {
    two_writers(&listed_with_the_pin(Off).await);
    clean(&listed_with_the_pin(On).await);
}

/// Pin and expansion are written at the same moment; the controller's cache of override policies is behind.
async fn listed_with_the_pin(marker: Guard) -> Fleet {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let hand = Hand::fenced(&fleet).await;
    fleet.world.faults().lag("override-cache", Duration::from_secs(3));
    let pin = hand.pin(Some("east"), &[]);
    if marker == On {
        hand.marked("east", &pin).await;
    }
    hand.list(&["east", "west"]);
    hand.marked("west", &pin).await;
    a_while().await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn swapping_the_writer_in_one_change_lets_both_write() {
    two_writers(&swapped(Off).await);
    clean(&swapped(On).await);
}

async fn swapped(via_nobody: Guard) -> Fleet {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let hand = Hand::fenced(&fleet).await;
    hand.hold_and_expand("east", "west").await;
    match via_nobody {
        On => hand.hand_over("east", "west").await,
        Off => hand.release("west", None).await,
    }
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_pin_that_can_be_deleted_lets_both_write_when_it_is() {
    two_writers(&pin_deleted(Off).await);
    clean(&pin_deleted(On).await);
}

async fn pin_deleted(protection: Guard) -> Fleet {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let hand = Hand::fenced(&fleet).await;
    hand.hold_and_expand("east", "west").await;
    if protection == On {
        fleet.patch(
            &PINS,
            PIN,
            json!({"metadata": {"labels": {"resourcetemplate.karmada.io/deletion-protected": "Always"}}}),
        );
    }
    let deleted = fleet
        .world
        .control_plane()
        .delete(&PINS, Some("shop"), PIN, &DeleteOptions::default());
    assert_eq!(deleted.is_err(), protection == On, "{deleted:?}");
    a_while().await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_work_that_is_gone_does_not_say_that_the_job_is_gone() {
    two_writers(&source_taken_out(Off).await);
    let verdict = verdict(&source_taken_out(On).await);
    assert_eq!(verdict.overlaps, [], "{verdict}");
}

/// The source is taken out while its operator is down: the finalizer keeps the object, Terminating, and the job writes on.
/// That its state is lost is another matter.
async fn source_taken_out(look_at_the_member: Guard) -> Fleet {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let hand = Hand::fenced(&fleet).await;
    hand.hold_and_expand("east", "west").await;
    fleet
        .world
        .member("east")
        .simulators(|simulators| simulators.freeze());
    hand.list(&["west"]);
    fleet
        .until("the source's Work is gone", |fleet| work(fleet, "east").is_none())
        .await;
    assert!(!fleet.copy("east").unwrap()["metadata"]["deletionTimestamp"].is_null());
    if look_at_the_member == On {
        a_while().await;
        fleet
            .world
            .member("east")
            .simulators(|simulators| simulators.thaw());
        fleet
            .until("the source is gone", |fleet| {
                fleet.copy("east").is_none() && !can_write(fleet, "east")
            })
            .await;
    }
    hand.release("west", None).await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_the_operator_has_not_acted_on_stops_nobody() {
    two_writers(&held_but_not_observed(Off).await);
    clean(&held_but_not_observed(On).await);
}

async fn held_but_not_observed(proof: Guard) -> Fleet {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let hand = Hand::fenced(&fleet).await;
    hand.hold_and_expand("east", "west").await;
    fleet
        .world
        .member("east")
        .simulators(|simulators| simulators.freeze());
    let nobody = hand.pin(None, &[]);
    for cluster in ["east", "west"] {
        hand.marked(cluster, &nobody).await;
        hand.arrived(cluster, &nobody).await;
    }
    if proof == Off {
        hand.release("west", None).await;
        return fleet;
    }
    a_while().await;
    assert!(
        !stopped(&fleet, "east"),
        "{:#}",
        fleet.copy("east").unwrap_or_default()
    );
    fleet
        .world
        .member("east")
        .simulators(|simulators| simulators.thaw());
    hand.hand_over("east", "west").await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_handle_from_an_earlier_upgrade_loses_what_came_after_it() {
    lost_state(&upgraded_before(Off).await);
    clean(&upgraded_before(On).await);
}

async fn upgraded_before(compare: Guard) -> Fleet {
    let fleet = Fleet::start(WorldOptions::default()).await;
    fleet.apply(&JOBS, job("orders:1.1"));
    let restarted = |fleet: &Fleet| fleet.runs_in("east") && handle(fleet, "east").is_some();
    fleet.until("the upgrade is done", restarted).await;
    a_while().await;
    let hand = Hand::fenced(&fleet).await;
    hand.hold_and_expand("east", "west").await;
    let before = handle(&fleet, "east");
    let nobody = hand.pin(None, &[]);
    hand.marked("east", &nobody).await;
    let stale = handle(&fleet, "east");
    assert_eq!(stale, before);
    fleet
        .until("the source has stopped", |fleet| stopped(fleet, "east"))
        .await;
    let given = match compare {
        Off => stale,
        On => handle(&fleet, "east").filter(|handle| Some(handle) != before.as_ref()),
    };
    assert!(given.is_some());
    hand.release("west", given.as_deref()).await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn failover_left_on_takes_the_source_away_in_mid_flight() {
    lost_state(&unhealthy_in_mid_flight(Off).await);
    clean(&unhealthy_in_mid_flight(On).await);
}

/// For longer than the policy tolerates the job's REST API doesn't answer; scheduling is suspended all the while.
async fn unhealthy_in_mid_flight(failover_off: Guard) -> Fleet {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let hand = Hand::on(&fleet);
    hand.suspend_scheduling();
    hand.canary().await;
    if failover_off == On {
        hand.failover_off();
    }
    let pin = hand.pin(Some("east"), &[]);
    hand.marked("east", &pin).await;
    reachable(&fleet, false);
    tokio::time::sleep(Duration::from_mins(2)).await;
    reachable(&fleet, true);
    if failover_off == On {
        fleet
            .until("it is well again", |fleet| fleet.runs_in("east"))
            .await;
        hand.list(&["east", "west"]);
        hand.marked("west", &pin).await;
        hand.hand_over("east", "west").await;
        return fleet;
    }
    assert_eq!(fleet.listed(), Vec::<String>::new(), "{:#}", fleet.binding());
    assert!(fleet.copy("east").is_none());
    // Nothing is left to be moved: the migration is called off.
    fleet.patch(&BINDINGS, BINDING, json!({"spec": {"suspension": null}}));
    fleet
        .world
        .control_plane()
        .delete(&PINS, Some("shop"), PIN, &DeleteOptions::default())
        .unwrap();
    fleet
        .until("it runs somewhere", |fleet| {
            ["east", "west", "north"].iter().any(|name| fleet.runs_in(name))
        })
        .await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_dispatch_suspension_is_wiped_by_a_change_of_the_template() {
    two_writers(&template_touched(Off).await);
    clean(&template_touched(On).await);
}

async fn template_touched(pin: Guard) -> Fleet {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let hand = Hand::fenced(&fleet).await;
    let lock = json!({"spec": {"suspension": {"scheduling": true, "dispatchingOnClusters": {"clusterNames": ["west"]}}}});
    fleet.patch(&BINDINGS, BINDING, lock);
    match pin {
        Off => hand.list(&["east", "west"]),
        On => {
            let pin = hand.pin(Some("east"), &[]);
            hand.marked("east", &pin).await;
            hand.list(&["east", "west"]);
        }
    }
    a_while().await;
    assert!(
        fleet.copy("west").is_none(),
        "the lock holds as long as nobody touches the template"
    );
    fleet.patch(
        &JOBS,
        "orders",
        json!({"metadata": {"labels": {"touched": "yes"}}}),
    );
    fleet
        .until("the lock is gone", |fleet| fleet.copy("west").is_some())
        .await;
    a_while().await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_cannot_be_applied_keeps_the_hold_from_arriving() {
    two_writers(&hold_that_fails(Off).await);
    clean(&hold_that_fails(On).await);
}

/// The hold of the source has a `replace` on a path that isn't there: its Work stays as it was, and nothing says so.
async fn hold_that_fails(await_marker: Guard) -> Fleet {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let hand = Hand::fenced(&fleet).await;
    hand.hold_and_expand("east", "west").await;
    let broken = json!({
        "targetCluster": {"clusterNames": ["east"]},
        "overriders": {"plaintext": [{"operator": "replace", "path": "/spec/restartNonce", "value": 1}]},
    });
    let nobody = hand.pin(None, std::slice::from_ref(&broken));
    hand.marked("west", &nobody).await;
    a_while().await;
    assert_ne!(marker_on_work(&fleet, "east").as_deref(), Some(nobody.as_str()));
    assert_eq!(fully_applied(&fleet), "True");
    match await_marker {
        Off => hand.release_with("west", None, vec![broken]).await,
        On => hand.hand_over("east", "west").await,
    }
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_preserved_object_keeps_writing_when_its_cluster_is_taken_out() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    fleet.patch(
        &POLICIES,
        "orders",
        json!({"spec": {"preserveResourcesOnDeletion": true}}),
    );
    let preserved = |fleet: &Fleet| fleet.binding()["spec"]["preserveResourcesOnDeletion"] == true;
    fleet.until("the binding says so", preserved).await;

    let _controller = fleet.controller(std::sync::Arc::new(Nobody));
    fleet.migrate("guarded", "west");
    assert_eq!(fleet.ended("guarded").await, Phase::Failed);
    clean(&fleet);

    fleet.patch(
        &POLICIES,
        "orders",
        json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["west"]}}}}),
    );
    fleet
        .until("it runs in west", |fleet| fleet.runs_in("west"))
        .await;
    a_while().await;
    two_writers(&fleet);
}

#[tokio::test(start_paused = true)]
async fn a_placement_that_spreads_puts_both_back_when_the_pin_goes() {
    two_writers(&spread_in_the_end(Off).await);
    clean(&spread_in_the_end(On).await);
}

async fn spread_in_the_end(stays: Guard) -> Fleet {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let hand = Hand::fenced(&fleet).await;
    let affinity = match stays {
        On => json!({"clusterNames": ["west"]}),
        Off => json!({"clusterNames": ["east", "west"]}),
    };
    let placement = json!({"clusterAffinity": affinity, "spreadConstraints": null});
    fleet.patch(&POLICIES, "orders", json!({"spec": {"placement": placement}}));
    hand.hold_and_expand("east", "west").await;
    hand.hand_over("east", "west").await;
    hand.list(&["west"]);
    fleet
        .until("the source is gone", |fleet| fleet.copy("east").is_none())
        .await;
    fleet.patch(&BINDINGS, BINDING, json!({"spec": {"suspension": null}}));
    fleet
        .world
        .control_plane()
        .delete(&PINS, Some("shop"), PIN, &DeleteOptions::default())
        .unwrap();
    a_while().await;
    assert!(fleet.runs_in("west"));
    fleet
}

/// The steps of a migration, each done by hand.
struct Hand<'a> {
    fleet: &'a Fleet,
    sequence: Cell<u32>,
}

impl<'a> Hand<'a> {
    fn on(fleet: &'a Fleet) -> Self {
        Self {
            fleet,
            sequence: Cell::new(0),
        }
    }

    /// Scheduling suspended, the scheduler past it, failover off.
    async fn fenced(fleet: &'a Fleet) -> Self {
        let hand = Self::on(fleet);
        hand.suspend_scheduling();
        hand.canary().await;
        hand.failover_off();
        hand
    }

    fn suspend_scheduling(&self) {
        self.fleet.patch(
            &BINDINGS,
            BINDING,
            json!({"spec": {"suspension": {"scheduling": true}}}),
        );
    }

    fn failover_off(&self) {
        self.fleet
            .patch(&BINDINGS, BINDING, json!({"spec": {"failover": null}}));
    }

    /// Waits until the scheduler has seen a binding that is newer than all that was queued.
    async fn canary(&self) {
        let server = self.fleet.world.control_plane();
        let writer = WriteOptions::manager("somebody");
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "canaries", "labels": {"namespace.karmada.io/skip-auto-propagation": "true"}},
        });
        server.create(&NAMESPACES, None, namespace, &writer).unwrap();
        let policy = json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "canary", "namespace": "canaries"},
            "spec": {
                "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "canary"}],
                "placement": {"clusterAffinity": {"clusterNames": ["north"]}},
                "suspension": {"dispatching": true},
            },
        });
        server
            .create(&POLICIES, Some("canaries"), policy, &writer)
            .unwrap();
        server
            .create(
                &CONFIG_MAPS,
                Some("canaries"),
                config_map("canaries", "canary"),
                &writer,
            )
            .unwrap();
        let seen = |fleet: &Fleet| {
            let binding = fleet
                .world
                .control_plane()
                .get(&BINDINGS, Some("canaries"), "canary-configmap");
            binding.is_ok_and(|binding| !binding["status"]["schedulerObservedGeneration"].is_null())
        };
        self.fleet.until("the scheduler has seen the canary", seen).await;
    }

    /// Writes the pin: everybody but the writer is held. Returns its marker.
    fn pin(&self, writer: Option<&str>, more: &[Value]) -> String {
        self.sequence.set(self.sequence.get() + 1);
        let marker = format!("by-hand.{}", self.sequence.get());
        let mut held = json!({
            "overriders": {"plaintext": [{"operator": "add", "path": "/spec/job/state", "value": "suspended"}]},
        });
        if let Some(writer) = writer {
            held["targetCluster"] = json!({"exclude": [writer]});
        }
        let mut rules = vec![held];
        rules.extend_from_slice(more);
        rules.push(
            json!({"overriders": {"annotationsOverrider": [{"operator": "add", "value": {MARKER: marker}}]}}),
        );
        self.fleet.apply(&PINS, json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
            "metadata": {"name": PIN, "namespace": "shop"},
            "spec": {
                "resourceSelectors": [
                    {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders", "namespace": "shop"},
                ],
                "overrideRules": rules,
            },
        }));
        marker
    }

    /// Waits until the Work of a cluster shows that a version of the pin is in force.
    async fn marked(&self, cluster: &str, marker: &str) {
        let what = format!("the Work of {cluster} carries {marker}");
        self.fleet
            .until(&what, |fleet| {
                marker_on_work(fleet, cluster).as_deref() == Some(marker)
            })
            .await;
    }

    /// Waits until the object in a member carries a marker.
    async fn arrived(&self, cluster: &str, marker: &str) {
        let on_copy = |fleet: &Fleet| {
            fleet
                .copy(cluster)
                .is_some_and(|copy| copy["metadata"]["annotations"][MARKER] == marker)
        };
        self.fleet
            .until(&format!("{marker} is in {cluster}"), on_copy)
            .await;
    }

    fn list(&self, clusters: &[&str]) {
        let replicas = &self.fleet.binding()["spec"]["replicas"];
        let clusters: Vec<Value> = clusters
            .iter()
            .map(|name| json!({"name": name, "replicas": replicas}))
            .collect();
        self.fleet
            .patch(&BINDINGS, BINDING, json!({"spec": {"clusters": clusters}}));
    }

    /// The source keeps the job, and the target is born held.
    async fn hold_and_expand(&self, source: &str, target: &str) {
        let pin = self.pin(Some(source), &[]);
        self.marked(source, &pin).await;
        self.list(&[source, target]);
        self.marked(target, &pin).await;
        self.arrived(target, &pin).await;
    }

    /// Source, nobody, target: with a proof at each step.
    async fn hand_over(&self, source: &str, target: &str) {
        let nobody = self.pin(None, &[]);
        self.marked(source, &nobody).await;
        self.arrived(source, &nobody).await;
        self.marked(target, &nobody).await;
        self.fleet
            .until("the source has stopped", |fleet| stopped(fleet, source))
            .await;
        let captured = handle(self.fleet, source);
        assert!(captured.is_some());
        self.release(target, captured.as_deref()).await;
    }

    /// The pin names the target, whatever the others do; waits until it runs there.
    async fn release(&self, target: &str, handle: Option<&str>) {
        self.release_with(target, handle, Vec::new()).await;
    }

    async fn release_with(&self, target: &str, handle: Option<&str>, mut more: Vec<Value>) {
        let mut patches = vec![json!({"operator": "add", "path": "/spec/job/state", "value": "running"})];
        if let Some(handle) = handle {
            patches
                .push(json!({"operator": "add", "path": "/spec/job/initialSavepointPath", "value": handle}));
        }
        more.push(json!({"targetCluster": {"clusterNames": [target]}, "overriders": {"plaintext": patches}}));
        let pin = self.pin(Some(target), &more);
        self.marked(target, &pin).await;
        self.fleet
            .until(&format!("it runs in {target}"), |fleet| fleet.runs_in(target))
            .await;
    }
}

fn verdict(fleet: &Fleet) -> Verdict {
    fleet.world.ledger().verdict()
}

fn two_writers(fleet: &Fleet) {
    assert!(
        !verdict(fleet).overlaps.is_empty(),
        "nobody wrote beside another:\n{}",
        fleet.world.ledger()
    );
}

fn lost_state(fleet: &Fleet) {
    let verdict = verdict(fleet);
    assert!(
        !verdict.lost_state.is_empty(),
        "no state was lost:\n{}",
        fleet.world.ledger()
    );
}

fn clean(fleet: &Fleet) {
    fleet.assert_one_writer();
}

/// Long enough for whatever goes wrong by itself.
async fn a_while() {
    tokio::time::sleep(Duration::from_secs(20)).await;
}

fn work(fleet: &Fleet, cluster: &str) -> Option<Value> {
    let namespace = format!("karmada-es-{cluster}");
    let works = fleet
        .world
        .control_plane()
        .list(&WORKS, Some(&namespace), &ListOptions::default())
        .unwrap();
    let is_ours = |work: &Value| work["spec"]["workload"]["manifests"][0]["kind"] == "FlinkDeployment";
    works.items.iter().map(|work| (**work).clone()).find(is_ours)
}

fn marker_on_work(fleet: &Fleet, cluster: &str) -> Option<String> {
    let work = work(fleet, cluster)?;
    let marker = &work["spec"]["workload"]["manifests"][0]["metadata"]["annotations"][MARKER];
    marker.as_str().map(str::to_owned)
}

/// Returns whether the operator of a member has acted on the hold: the job has ended, and its pods are gone.
fn stopped(fleet: &Fleet, cluster: &str) -> bool {
    fleet.copy(cluster).is_some_and(|copy| {
        let status = &copy["status"];
        copy["spec"]["job"]["state"] == "suspended"
            && status["observedGeneration"] == copy["metadata"]["generation"]
            && status["reconciliationStatus"]["state"] == "DEPLOYED"
            && status["jobManagerDeploymentStatus"] == "MISSING"
    })
}

fn handle(fleet: &Fleet, cluster: &str) -> Option<String> {
    fleet.copy(cluster)?["status"]["jobStatus"]["upgradeSavepointPath"]
        .as_str()
        .map(str::to_owned)
}

fn can_write(fleet: &Fleet, cluster: &str) -> bool {
    let key = ("shop".to_owned(), "orders".to_owned());
    fleet
        .world
        .member(cluster)
        .simulators(|simulators| simulators.jobs().can_write(&key))
}

fn reachable(fleet: &Fleet, reachable: bool) {
    let key = ("shop".to_owned(), "orders".to_owned());
    fleet
        .world
        .member("east")
        .simulators(|simulators| simulators.jobs().set_reachable(&key, reachable));
}

fn fully_applied(fleet: &Fleet) -> String {
    let binding = fleet.binding();
    let conditions = binding["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let condition = conditions
        .iter()
        .find(|condition| condition["type"] == "FullyApplied");
    condition
        .map(|condition| condition["status"].as_str().unwrap().to_owned())
        .unwrap_or_default()
}

/// Gives the scheduler something to do.
fn backlog(world: &World, bindings: usize) {
    let writer = WriteOptions::manager("somebody");
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "backlog", "namespace": "shop"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
            "placement": {"clusterAffinity": {"clusterNames": ["north"]}},
        },
    });
    world
        .control_plane()
        .create(&POLICIES, Some("shop"), policy, &writer)
        .unwrap();
    for number in 0..bindings {
        let config = config_map("shop", &format!("backlog-{number}"));
        world
            .control_plane()
            .create(&CONFIG_MAPS, Some("shop"), config, &writer)
            .unwrap();
    }
}

fn config_map(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}})
}
