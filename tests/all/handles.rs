//! State handles that an operator asks for whenever it lets a copy run, also one that ran before: a vault that was closed is opened
//! with the key that its closing has left, and the operator forgets that key as soon as the vault is open.

use std::sync::Arc;

use cutover::api::Phase;
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::api::{ListOptions, Patch, Resource, Subresource, WriteOptions};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::cluster_kind::{ClusterKind, MEMBERS, PINS, POLICIES, one_of_all};
use crate::support::fleet::{CLAIMS, Fleet, MIGRATIONS};
use crate::support::killed::at_any_line_of;

const VAULTS: Resource = Resource::new("example.org", "vaults");
const PROFILES: Resource = Resource::new("cutover.dev", "workloadprofiles");
const EVENTS: Resource = Resource::new("", "events");
const MOVE: &str = "gold-to-west";

static VAULT: ClusterKind = ClusterKind {
    kind: "Vault",
    resource: VAULTS,
    name: "gold",
    fields: &[("image", "string"), ("open", "boolean"), ("key", "string")],
};

/// How many looks of the operator a closing takes.
const CLOSING: u64 = 100;

/// A fleet in which the vault `gold` is open in `east`.
struct Stage {
    fleet: Fleet,
    _operators: JoinSet<()>,
}

impl AsRef<Fleet> for Stage {
    fn as_ref(&self) -> &Fleet {
        &self.fleet
    }
}

impl Stage {
    async fn start() -> Self {
        Self::by(profile()).await
    }

    async fn by(profile: Value) -> Self {
        let (fleet, operators) = VAULT.start(looked_at).await;
        fleet.create(&PROFILES, None, profile);
        fleet.create(&POLICIES, None, VAULT.policy(one_of_all()));
        fleet.apply(&VAULTS, vault());
        let stage = Self {
            _operators: operators,
            fleet,
        };
        stage
            .until("it is open in east", |stage| stage.is_open_in("east"))
            .await;
        stage
    }

    fn copy(&self, cluster: &str) -> Value {
        VAULT.copy(&self.fleet, cluster)
    }

    fn phase_in(&self, cluster: &str) -> Value {
        self.copy(cluster)["status"]["phase"].clone()
    }

    fn is_open_in(&self, cluster: &str) -> bool {
        self.phase_in(cluster) == "Open"
    }

    /// Waits, and looks all the time whether it is open, or still closing, in two clusters.
    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let looks = |_: &Fleet| {
            let open = |name: &&str| {
                ["Open", "Closing"]
                    .iter()
                    .any(|phase| self.phase_in(name) == *phase)
            };
            let open: Vec<_> = MEMBERS.into_iter().filter(open).collect();
            assert!(open.len() <= 1, "it is open in {open:?}");
            holds(self)
        };
        self.fleet.until(what, looks).await;
    }

    fn migrate(&self, more: Value) {
        VAULT.migrate(&self.fleet, MOVE, more);
    }

    /// Moves it to where it can't be opened.
    fn migrate_in_vain(&self) {
        self.migrate(
            json!({"changes": {"patches": [{"op": "add", "path": "/spec/image", "value": "broken"}]}}),
        );
    }

    async fn ends_as(&self, wanted: Phase) {
        let phase = |stage: &Self| -> Option<Phase> {
            let phase = stage.fleet.status(MOVE)["phase"].clone();
            serde_json::from_value(phase)
                .ok()
                .filter(|phase: &Phase| phase.is_terminal())
        };
        self.until("it ends", |stage| phase(stage).is_some()).await;
        assert_eq!(phase(self), Some(wanted), "{:#}", self.fleet.status(MOVE));
    }

    fn abort(&self) {
        self.fleet
            .patch(&MIGRATIONS, MOVE, json!({"spec": {"abort": true}}));
    }

    /// Whether a word about a cluster would be taken.
    fn offers(&self, fact: &str, cluster: &str) -> bool {
        let offers = self.fleet.status(MOVE)["waitingFor"]["offers"].clone();
        let mut offers = offers.as_array().into_iter().flatten();
        offers.any(|offer| offer["fact"] == fact && offer["cluster"] == cluster)
    }

    /// Gives that word on the way back.
    fn say(&self, fact: &str, cluster: &str) {
        let word =
            json!({"fact": fact, "cluster": cluster, "phase": "RollingBack", "attempt": 1, "by": "ann"});
        self.fleet
            .patch(&MIGRATIONS, MOVE, json!({"spec": {"assume": [word]}}));
    }

    fn waits_for(&self) -> String {
        let reason = self.fleet.status(MOVE)["waitingFor"]["reason"].clone();
        reason.as_str().unwrap_or_default().to_owned()
    }

    /// Everything that says something of the move, but for where the value of a secret key has to be.
    fn said(&self) -> String {
        let mut status = self.fleet.status(MOVE);
        if let Some(journal) = status["journal"].as_object_mut() {
            journal.shift_remove("secrets");
        }
        let server = self.fleet.world.control_plane();
        let events = server.list(&EVENTS, None, &ListOptions::default()).unwrap();
        let events = events.items.iter().map(ToString::to_string);
        let record = self.fleet.recorded(MOVE);
        let record = record.map(|record| serde_json::to_string(&record).unwrap());
        [status.to_string()]
            .into_iter()
            .chain(record)
            .chain(events)
            .collect()
    }

    /// It is open there and nowhere else, with this key, and nothing is left of the move.
    fn assert_open_by(&self, cluster: &str, key: &str) {
        let copy = self.copy(cluster);
        assert_eq!(copy["status"]["phase"], "Open", "{copy:#}");
        assert_eq!(copy["status"]["used"], key, "{copy:#}");
        for other in MEMBERS {
            assert!(other == cluster || self.copy(other).is_null(), "{other}");
        }
        assert_eq!(self.fleet.count(&PINS) + self.fleet.count(&CLAIMS), 0);
    }
}

/// What stands in every key.
const SECRET: &str = "qZ7xW3";

/// The key of the closing of that number.
fn key(number: u64) -> String {
    format!("key-{number}-{SECRET}")
}

fn number_of(key: &Value) -> u64 {
    let key = key.as_str().unwrap_or_default();
    key.split('-')
        .nth(1)
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

/// Returns the status that a copy has after one look of its operator.
fn looked_at(spec: &Value, was: &Value) -> Value {
    let opens = spec["open"] != false;
    let mut now = was.as_object().cloned().unwrap_or_default();
    let given = &spec["key"];
    let phase = match (opens, was["phase"].as_str()) {
        (true, Some("Open")) => "Open",
        (true, None | Some("Closed" | "Refused")) => {
            // Without a key only a new one can be opened, and what was closed only by the newest key.
            let is_first = was["phase"].is_null() && given.is_null();
            let fits = given.is_string() && number_of(given) >= number_of(&was["key"]);
            if spec["image"] != "broken" && (is_first || fits) {
                now.extend([
                    ("used".to_owned(), given.clone()),
                    ("key".to_owned(), Value::Null),
                    ("ran".to_owned(), json!(true)),
                ]);
                "Open"
            } else {
                "Refused"
            }
        }
        // There is no way back in the middle of it.
        (true, Some(_)) => "Refused",
        (false, Some("Open" | "Closing")) => {
            let looks = was["looks"].as_u64().unwrap_or_default() + 1;
            now.insert("looks".to_owned(), json!(looks));
            if looks < CLOSING {
                "Closing"
            } else {
                let next = key(number_of(&was["used"]) + 1);
                now.extend([("key".to_owned(), json!(next)), ("looks".to_owned(), json!(0))]);
                "Closed"
            }
        }
        (false, _) => "Closed",
    };
    now.insert("phase".to_owned(), json!(phase));
    Value::Object(now)
}

fn profile() -> Value {
    let seen = "has(object.status) && has(object.status.observedGeneration) && \
                object.status.observedGeneration == object.metadata.generation";
    let opened = json!([
        {"op": "add", "path": "/spec/open", "value": true},
        {"op": "add", "path": "/spec/key", "value": "${captured.key}"},
    ]);
    let closed = json!([{"op": "add", "path": "/spec/open", "value": false}]);
    json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "WorkloadProfile", "metadata": {"name": "vault"},
        "spec": {
            "appliesTo": {"group": "example.org", "kinds": ["Vault"]},
            "stateful": true, "bornHeld": true, "suspend": closed, "hold": closed,
            "start": opened, "restart": opened, "restartFrom": opened,
            "ignoredOnRemoval": ["/spec/key", "/spec/open"],
            "observedWhen": seen,
            "suspendedWhen": "has(object.status) && object.status.phase == 'Closed'",
            "healthyWhen": "has(object.status) && object.status.phase == 'Open'",
            "failedWhen": "has(object.status) && object.status.phase == 'Refused'",
            "ranWhen": "has(object.status) && has(object.status.ran) && object.status.ran",
            "capture": [{"name": "key", "jsonPath": "$.status.key", "required": true}],
            "inUse": "$.status.used",
        },
    })
}

fn vault() -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "Vault", "metadata": {"name": "gold"},
        "spec": {"image": "vault:1"},
    })
}

#[tokio::test(start_paused = true)]
async fn it_moves_by_the_key_of_its_closing() {
    let stage = Stage::start().await;
    let _controller = stage.fleet.controller(Arc::new(NoFailpoints));
    stage.migrate(json!({}));
    stage.ends_as(Phase::Completed).await;
    stage.assert_open_by("west", &key(1));
}

#[tokio::test(start_paused = true)]
async fn a_source_gets_its_own_key_back_when_the_target_does_not_come_up() {
    let stage = Stage::start().await;
    let _controller = stage.fleet.controller(Arc::new(NoFailpoints));
    stage.migrate_in_vain();
    stage.ends_as(Phase::RolledBack).await;
    stage.assert_open_by("east", &key(1));
}

#[tokio::test(start_paused = true)]
async fn a_source_gets_the_key_of_a_target_that_was_open_when_the_move_is_aborted_later() {
    let stage = Stage::start().await;
    let _controller = stage.fleet.controller(Arc::new(NoFailpoints));
    stage.migrate(json!({"verify": {"healthyFor": "5m", "timeout": "60s"}}));
    stage
        .until("it is open in west", |stage| stage.is_open_in("west"))
        .await;
    stage.abort();
    stage.ends_as(Phase::Aborted).await;
    stage.assert_open_by("east", &key(2));
}

#[tokio::test(start_paused = true)]
async fn a_move_that_is_aborted_while_the_source_closes_waits_for_its_key() {
    let stage = Stage::start().await;
    stage.fleet.lead(Arc::new(NoFailpoints));
    stage.migrate(json!({}));
    stage
        .until("it is being closed", |stage| stage.phase_in("east") == "Closing")
        .await;
    stage.abort();
    let says_so = |stage: &Stage| {
        stage
            .waits_for()
            .contains("east can be started again only with the state handle that its stop leaves")
    };
    stage.until("it says what it waits for", says_so).await;
    assert_eq!(stage.copy("east")["spec"]["open"], false);
    stage.fleet.replace_leader();
    stage.ends_as(Phase::Aborted).await;
    stage.assert_open_by("east", &key(1));
    let captured = stage.fleet.status(MOVE)["journal"]["captured"]["from"].clone();
    assert_eq!(captured, "east");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_leaves_no_key_starts_without_one_on_the_word_that_is_offered() {
    let stage = Stage::start().await;
    let _controller = stage.fleet.controller(Arc::new(NoFailpoints));
    stage.migrate(json!({}));
    stage
        .until("it is being closed", |stage| stage.phase_in("east") == "Closing")
        .await;
    stage.abort();
    // Its operator never comes to an end.
    let offered = |stage: &Stage| {
        forget_the_looks(stage);
        stage.offers("FromNothing", "east")
    };
    stage.until("a word is offered", offered).await;
    stage.say("FromNothing", "east");
    stage
        .until("it is told to open", |stage| {
            stage.copy("east")["spec"]["open"] != false
        })
        .await;
    assert!(stage.copy("east")["spec"]["key"].is_null());
}

/// The key of the source is in the journal before the hand-over, to which something is added. Nobody leads.
async fn with_its_key(more: impl FnOnce(&Stage) -> Value) -> Stage {
    let stage = Stage::start().await;
    let controller = stage.fleet.controller(Arc::new(NoFailpoints));
    stage.migrate(json!({"approval": {"before": ["Handoff"]}}));
    let has_key = |stage: &Stage| {
        let captured = stage.fleet.status(MOVE)["journal"]["captured"].clone();
        captured["values"]["key"].is_string() && stage.waits_for().contains("approv")
    };
    stage.until("its key is captured", has_key).await;
    controller.kill().await;
    let patch = Patch::Merge(json!({"status": more(&stage)}));
    let writer = WriteOptions::manager("somebody");
    let server = stage.fleet.world.control_plane();
    let status = Some(Subresource::Status);
    server
        .patch(&MIGRATIONS, Some("shop"), MOVE, status, &patch, &writer)
        .unwrap();
    stage
}

/// It is aborted, and the journal says that the source was let run since.
async fn let_run_since() -> Stage {
    let stage = with_its_key(|_| json!({"journal": {"offered": {"east": {"generation": 0}}}})).await;
    stage.abort();
    stage
}

/// Its operator shows the key of the closing before: what was written since is not in it.
#[tokio::test(start_paused = true)]
async fn a_source_that_was_let_run_since_starts_by_its_old_key_on_the_word_that_is_offered_alone() {
    let stage = let_run_since().await;
    let _controller = stage.fleet.controller(Arc::new(NoFailpoints));
    stage
        .until("a word is offered", |stage| stage.offers("From", "east"))
        .await;
    let offers = stage.fleet.status(MOVE)["waitingFor"]["offers"].to_string();
    assert!(offers.contains("what it wrote since"), "{offers}");
    assert_eq!(stage.copy("east")["spec"]["open"], false);
    stage.say("From", "east");
    stage.ends_as(Phase::Aborted).await;
    stage.assert_open_by("east", &key(1));
}

/// Two may have run at once: whether its operator shows the key of its last closing can't be told.
#[tokio::test(start_paused = true)]
async fn after_a_lapse_a_source_starts_by_its_old_key_on_the_word_that_is_offered_alone() {
    let lapse = |stage: &Stage| {
        json!({"phase": "RollingBack", "journal": {"rollBack": {
            "reason": "SingleWriterLapse: the pin was edited", "fromPhase": "Capture",
            "since": stage.fleet.status(MOVE)["startedAt"], "endsAs": "RolledBack", "restart": true,
            "handedOver": false, "stage": "Begun",
        }}})
    };
    let stage = with_its_key(lapse).await;
    let _controller = stage.fleet.controller(Arc::new(NoFailpoints));
    stage
        .until("a word is offered", |stage| stage.offers("From", "east"))
        .await;
    assert_eq!(stage.copy("east")["spec"]["open"], false);
    stage.say("From", "east");
    stage.ends_as(Phase::RolledBack).await;
    stage.assert_open_by("east", &key(1));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_was_let_run_since_and_never_stops_starts_by_its_old_key_on_the_word_that_is_offered() {
    let stage = let_run_since().await;
    let mut copy = stage.copy("east");
    copy["status"]["phase"] = json!("Closing");
    copy["status"]["looks"] = json!(1);
    let api = &stage.fleet.world.member("east").api;
    let options = WriteOptions::manager("operator");
    api.update(&VAULTS, None, "gold", Some(Subresource::Status), copy, &options)
        .unwrap();
    let _controller = stage.fleet.controller(Arc::new(NoFailpoints));
    let offered = |stage: &Stage| {
        forget_the_looks(stage);
        stage.offers("From", "east")
    };
    stage.until("a word is offered", offered).await;
    stage.say("From", "east");
    let is_told = |stage: &Stage| {
        forget_the_looks(stage);
        stage.copy("east")["spec"]["open"] != false
    };
    stage.until("it is told to open", is_told).await;
    assert_eq!(stage.copy("east")["spec"]["key"], key(1));
}

/// As if the closing had only begun.
fn forget_the_looks(stage: &Stage) {
    let mut copy = stage.copy("east");
    if copy["status"]["looks"].as_u64().unwrap_or_default() > CLOSING / 2 {
        copy["status"]["looks"] = json!(1);
        let api = &stage.fleet.world.member("east").api;
        let options = WriteOptions::manager("operator");
        let _ = api.update(&VAULTS, None, "gold", Some(Subresource::Status), copy, &options);
    }
}

/// Git, Events and all of the status but one field have a digest of it.
async fn no_key_is_said(ends: Phase, cluster: &str, begin: impl Fn(&Stage)) {
    let mut secret = profile();
    secret["spec"]["capture"][0]["secret"] = json!(true);
    let stage = Stage::by(secret).await;
    let _controller = stage.fleet.controller(Arc::new(NoFailpoints));
    begin(&stage);
    let is_journaled = |stage: &Stage| {
        let said = stage.said();
        assert!(!said.contains(SECRET), "{said}");
        stage.fleet.status(MOVE)["journal"]["secrets"]
            .to_string()
            .contains(SECRET)
    };
    stage.until("the journal has the key", is_journaled).await;
    let is_over = |stage: &Stage| {
        let said = stage.said();
        assert!(!said.contains(SECRET), "{said}");
        stage.fleet.status(MOVE)["finishedAt"].is_string()
    };
    stage.until("it is over", is_over).await;
    stage.ends_as(ends).await;
    stage.assert_open_by(cluster, &key(1));
    let record = serde_json::to_string(&stage.fleet.recorded(MOVE)).unwrap();
    assert!(record.contains("<secret, sha256:"), "{record}");
    let kept = &stage.fleet.status(MOVE)["journal"]["secrets"];
    assert_eq!(kept.is_null(), ends == Phase::Completed, "{kept}");
}

#[tokio::test(start_paused = true)]
async fn the_value_of_a_secret_key_is_told_to_nobody_but_the_copy_that_is_opened() {
    no_key_is_said(Phase::Completed, "west", |stage| stage.migrate(json!({}))).await;
}

#[tokio::test(start_paused = true)]
async fn nor_is_it_told_on_the_way_back() {
    no_key_is_said(Phase::RolledBack, "east", Stage::migrate_in_vain).await;
}

#[test]
fn killed_at_any_line_a_move_still_rolls_back_by_the_key_of_the_source() {
    let play = async |stage: &Stage| {
        stage.migrate_in_vain();
        stage.ends_as(Phase::RolledBack).await;
    };
    at_any_line_of("Migration")
        .more_than(30)
        .each_time(Stage::start, play, |stage: &Stage| {
            stage.assert_open_by("east", &key(1));
        });
}
