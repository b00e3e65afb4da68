//! Receivers of notices, as they are told over HTTP.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::response::Response;
use cutover::config::Receivers;
use cutover::forge::{Backoff, RetryPolicy, signature};
use cutover::notify::{Besides, Notifier, Sending};
use cutover::report::{EventRecord, Notice};
use serde_json::Value;
use tokio::sync::Notify;

const SECRET: &str = "0123456789abcdef-swordfish";

/// A receiver that writes down what it is told, and answers as it is told to.
#[derive(Clone, Default)]
struct Stage(Arc<State>);

#[derive(Default)]
struct State {
    told: Mutex<Vec<Message>>,
    answers: Mutex<VecDeque<(u16, Option<&'static str>)>>,
    changed: Notify,
}

#[derive(Clone, Debug)]
struct Message {
    path: String,
    content_type: String,
    authorization: Option<String>,
    signature: Option<String>,
    bytes: Vec<u8>,
}

impl Message {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap()
    }
}

impl Stage {
    /// Returns a stage, and where it is.
    async fn start() -> (Self, String) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stage = Self::default();
        let hearing = stage.clone();
        let app = axum::Router::new().fallback(move |request: Request| {
            let stage = hearing.clone();
            async move { stage.hear(request).await }
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        (stage, url)
    }

    fn answer(&self, status: u16, after: Option<&'static str>) {
        self.0.answers.lock().unwrap().push_back((status, after));
    }

    async fn hear(&self, request: Request) -> Response {
        let (head, body) = request.into_parts();
        let text = |name: &str| {
            head.headers
                .get(name)
                .map(|value| value.to_str().unwrap().to_owned())
        };
        let message = Message {
            path: head.uri.path_and_query().unwrap().to_string(),
            content_type: text("content-type").unwrap_or_default(),
            authorization: text("authorization"),
            signature: text("x-cutover-signature-256"),
            bytes: to_bytes(body, 1 << 20).await.unwrap().to_vec(),
        };
        self.0.told.lock().unwrap().push(message);
        self.0.changed.notify_one();
        let (status, after) = self.0.answers.lock().unwrap().pop_front().unwrap_or((200, None));
        let mut response = Response::builder().status(status);
        if let Some(after) = after {
            response = response.header("retry-after", after);
        }
        response.body("ok".into()).unwrap()
    }

    async fn told(&self, count: usize) -> Vec<Message> {
        let all = async {
            loop {
                let told = self.0.told.lock().unwrap().clone();
                if told.len() >= count {
                    return told;
                }
                self.0.changed.notified().await;
            }
        };
        let patience = Duration::from_secs(30);
        tokio::time::timeout(patience, all).await.expect("it is not told")
    }
}

fn receivers(lines: &str) -> Receivers {
    let text = format!("apiVersion: cutover.dev/v1alpha1\nkind: Notifications\nreceivers:\n{lines}");
    Receivers::parse("notify.yaml", text.as_bytes()).unwrap()
}

fn start(lines: &str) -> (Notifier, Sending) {
    let policy = RetryPolicy {
        attempts: 4,
        backoff: Backoff::new(Duration::from_millis(1), Duration::from_millis(20)),
        timeout: Duration::from_secs(10),
    };
    Notifier::start(receivers(lines), "https://karmada:5443", policy).unwrap()
}

fn notice(reason: &str, warning: bool) -> Notice {
    Notice {
        kind: "Migration".to_owned(),
        namespace: Some("shop".to_owned()),
        name: "orders-to-west".to_owned(),
        uid: Some("7b1c".to_owned()),
        told: EventRecord::new(warning, reason, "east: stopped"),
        at: "2026-03-01T10:00:00Z".parse().unwrap(),
        besides: None,
    }
}

fn reasons(told: &[Message]) -> Vec<String> {
    let reason = |message: &Message| message.json()["reason"].as_str().unwrap().to_owned();
    told.iter().map(reason).collect()
}

#[tokio::test]
async fn a_receiver_is_told_in_order_at_its_path_signed_and_with_its_token() {
    let (stage, url) = Stage::start().await;
    let (notifier, sending) = start(&format!(
        "- {{name: ours, format: Webhook, url: '{url}/in/here?a=b', secret: {SECRET}, token: t0ken}}\n"
    ));
    for reason in ["Hold", "Expand", "Completed"] {
        notifier.tell(&notice(reason, false));
    }
    drop(notifier);
    sending.end(Duration::from_secs(30)).await;
    let told = stage.told(3).await;
    assert_eq!(reasons(&told), ["Hold", "Expand", "Completed"]);
    for message in &told {
        assert_eq!(message.path, "/in/here?a=b");
        assert_eq!(message.content_type, "application/json");
        assert_eq!(message.authorization.as_deref(), Some("Bearer t0ken"));
        let signature = signature(SECRET, &message.bytes).unwrap();
        assert_eq!(message.signature, Some(format!("sha256={signature}")));
    }
}

#[tokio::test]
async fn what_may_come_right_is_sent_again_and_what_is_refused_is_not() {
    let (stage, url) = Stage::start().await;
    let (notifier, sending) = start(&format!("- {{name: ours, format: Webhook, url: '{url}'}}\n"));
    for (status, after) in [(503, None), (429, Some("0")), (500, None)] {
        stage.answer(status, after);
    }
    notifier.tell(&notice("Again", false));
    let told = stage.told(4).await;
    let ids: Vec<_> = told.iter().map(|message| message.json()["id"].clone()).collect();
    assert!(
        ids.iter().all(|id| *id == ids[0]),
        "the same notice, the same id: {ids:?}"
    );
    stage.answer(400, None);
    notifier.tell(&notice("Refused", false));
    notifier.tell(&notice("Last", false));
    drop(notifier);
    sending.end(Duration::from_secs(30)).await;
    let told = stage.told(6).await;
    assert_eq!(reasons(&told)[4..], ["Refused", "Last"]);
}

#[tokio::test]
async fn each_is_told_what_its_filter_lets_through_in_its_own_words_whatever_the_others_do() {
    let (stage, url) = Stage::start().await;
    let (deaf, nowhere) = Stage::start().await;
    for _ in 0..100 {
        deaf.answer(503, None);
    }
    let (notifier, sending) = start(&format!(
        "- {{name: deaf, format: Webhook, url: '{nowhere}'}}\n\
         - {{name: chat, format: Slack, url: '{url}/slack', filter: {{warningsOnly: true}}}}\n\
         - {{name: alerts, format: Alertmanager, url: '{url}/api/v2/alerts', filter: {{reasons: [RollingBack]}}}}\n\
         - {{name: bus, format: CloudEvents, url: '{url}/bus', filter: {{namespaces: [other]}}}}\n"
    ));
    notifier.tell(&notice("Completed", false));
    notifier.tell(&notice("RollingBack", true));
    drop(notifier);
    let mut told = stage.told(2).await;
    sending.end(Duration::from_secs(30)).await;
    told.sort_by(|one, other| one.path.cmp(&other.path));
    let paths: Vec<_> = stage
        .told(2)
        .await
        .iter()
        .map(|message| message.path.clone())
        .collect();
    assert_eq!(paths.len(), 2, "{paths:?}");
    assert_eq!(told[0].path, "/api/v2/alerts");
    assert_eq!(told[0].json()[0]["labels"]["alertname"], "CutoverRollingBack");
    assert_eq!(told[1].path, "/slack");
    assert_eq!(
        told[1].json()["text"],
        ":warning: *Migration shop/orders-to-west*: RollingBack\neast: stopped"
    );
}

#[tokio::test]
async fn what_else_is_wrong_is_added_when_a_notice_is_sent() {
    let (stage, url) = Stage::start().await;
    let (notifier, sending) = start(&format!("- {{name: ours, format: Webhook, url: '{url}'}}\n"));
    let notifier = notifier.with(Besides::new(|subject, _| {
        (subject == "Migration shop/orders-to-west").then(|| "1 rollout halted".to_owned())
    }));
    notifier.tell(&notice("Completed", false));
    let other = Notice {
        name: "other".to_owned(),
        ..notice("Completed", false)
    };
    notifier.tell(&other);
    drop(notifier);
    sending.end(Duration::from_secs(30)).await;
    let told = stage.told(2).await;
    assert_eq!(told[0].json()["besides"], "1 rollout halted");
    assert!(told[1].json().get("besides").is_none(), "all else is well");
}

/// Guards who hears of what: the filter of a receiver may be all that keeps the names of other teams from it.
#[tokio::test]
async fn what_else_is_wrong_is_asked_for_by_the_filter_of_who_is_told() {
    let (stage, url) = Stage::start().await;
    let lines = format!(
        "- {{name: all, format: Webhook, url: '{url}/all'}}\n- {{name: shop, format: Webhook, url: '{url}/shop', filter: \
         {{namespaces: ['shop*']}}}}\n"
    );
    let (notifier, sending) = start(&lines);
    let notifier = notifier.with(Besides::new(|_, filter| {
        let reached = ["shop", "payments"].into_iter();
        let reached = reached.filter(|&namespace| filter.reaches(Some(namespace)));
        let none = filter.reaches(None).then_some("none");
        Some(reached.chain(none).collect::<Vec<_>>().join(" "))
    }));
    notifier.tell(&notice("Completed", false));
    drop(notifier);
    sending.end(Duration::from_secs(30)).await;
    let told = stage.told(2).await;
    let besides = |path: &str| {
        let of = told.iter().find(|message| message.path == path);
        of.unwrap().json()["besides"].as_str().unwrap().to_owned()
    };
    assert_eq!(besides("/all"), "shop payments none");
    assert_eq!(besides("/shop"), "shop");
}

pub mod with_a_reconciler {
    use cutover::api;
    use cutover::cluster::{Cluster, Limits};
    use cutover::reconcile::{self, Options};
    use cutover::sandbox::{World, WorldOptions};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::support::git::{Origin, options};

    pub const SHOP: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    pub const MOVE: &str = "apiVersion: cutover.dev/v1alpha1
kind: Migration
metadata: {name: nothing-to-mars, namespace: shop}
spec:
  workload: {apiVersion: apps/v1, kind: Deployment, name: nothing}
  to: mars
";

    pub fn world() -> World {
        let world = World::start(WorldOptions::fast());
        for crd in api::crds() {
            let crd = serde_json::to_value(crd).unwrap();
            world.control_plane().install(&crd).unwrap();
        }
        world
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn syncs_and_intents_tell_of_what_is_wrong_and_when_it_is_right_again() {
        let (stage, url) = Stage::start().await;
        let world = world();
        let origin = Origin::with(&[("shop.yaml", SHOP), ("move.yaml", MOVE), ("bad.yaml", "a: [")]);
        let (notifier, sending) = start(&format!("- {{name: ours, format: Webhook, url: '{url}'}}\n"));
        let dir = tempfile::tempdir().unwrap();
        let cluster = Cluster::from_client(world.client(), Limits::default());
        let options = Options {
            notifier: Some(notifier),
            ..Options::new(options(origin.url(), dir.path()), cluster)
        };
        let cancel = CancellationToken::new();
        let running = tokio::spawn(reconcile::run(options, cancel.clone()));
        let of = |kind: &'static str, reason: &'static str| {
            let stage = stage.clone();
            async move {
                for count in 1.. {
                    let told = stage.told(count).await;
                    let found = told[count - 1].json();
                    if found["object"]["kind"] == kind && found["reason"] == reason {
                        return found;
                    }
                }
                Value::Null
            }
        };
        let problem = of("Sync", "SyncProblem").await;
        assert!(
            problem["message"].as_str().unwrap().contains("bad.yaml:"),
            "{problem}"
        );
        let failed = of("Migration", "Failed").await;
        assert_eq!(failed["object"]["name"], "nothing-to-mars");
        assert_eq!(failed["severity"], "warning");
        origin.commit("main", &[("bad.yaml", "")]);
        of("Sync", "InSync").await;
        let of_sync = |number: usize| {
            let stage = stage.clone();
            async move {
                for count in 1.. {
                    let told = stage.told(count).await;
                    let syncs = told.iter().map(Message::json);
                    let mut syncs = syncs.filter(|told| told["object"]["kind"] == "Sync");
                    let found = syncs.nth(number);
                    if let Some(found) = found {
                        return found;
                    }
                }
                Value::Null
            }
        };
        // What else is wrong may be as it was a moment ago.
        for number in 2.. {
            origin.commit("main", &[("bad.yaml", if number % 2 == 0 { "a: [" } else { "" })]);
            let told = of_sync(number).await;
            if told["besides"] == "Migration shop/nothing-to-mars failed" {
                break;
            }
        }
        cancel.cancel();
        running.await.unwrap().unwrap();
        sending.end(Duration::from_secs(30)).await;
    }
}
