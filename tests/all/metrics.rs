//! Checks that ask Prometheus for numbers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use cutover::api::Phase;
use cutover::cluster::{Prometheus, PrometheusOptions, Queried};
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::WorldOptions;
use serde_json::{Value, json};

use crate::support::fleet::{Controller, Fleet};

async fn asking() -> (Fleet, Controller) {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let controller = fleet.controller(Arc::new(NoFailpoints));
    (fleet, controller)
}

fn migrate(fleet: &Fleet, more: Value) {
    let checks = json!([{"prometheus": "rate(errors_total[1m])", "cel": "value < 0.01"}]);
    let mut verify = json!({"healthyFor": "10s", "timeout": "60s", "checks": checks});
    verify
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    fleet.migrate_with("orders-away", json!({"to": "west", "verify": verify}));
}

fn waits_for(fleet: &Fleet) -> String {
    let status = fleet.status("orders-away");
    status["waitingFor"]["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_target_soaks_from_the_moment_on_when_the_numbers_are_good() {
    let (fleet, _controller) = asking().await;
    fleet.measure(Queried::Values(vec![0.0, 0.5]));
    migrate(&fleet, json!({}));
    fleet
        .until("a number is too high", |fleet| {
            waits_for(fleet) == "value < 0.01 to hold of rate(errors_total[1m]): it is 0.5"
        })
        .await;
    fleet.measure(Queried::Unknown("Prometheus: no answer within 10 s".to_owned()));
    fleet
        .until("nothing is known", |fleet| {
            waits_for(fleet).ends_with("no answer within 10 s")
        })
        .await;
    fleet.measure(Queried::Values(Vec::new()));
    fleet
        .until("there is no number", |fleet| {
            waits_for(fleet).ends_with("it has no value")
        })
        .await;
    assert!(fleet.status("orders-away")["journal"]["healthySince"].is_null());
    fleet.measure(Queried::Values(vec![0.0, 0.001]));
    assert_eq!(fleet.ended("orders-away").await, Phase::Completed);
    fleet.assert_clean_in("west");
}

#[tokio::test(start_paused = true)]
async fn numbers_that_stay_bad_bring_the_workload_back() {
    let (fleet, _controller) = asking().await;
    fleet.measure(Queried::Values(vec![f64::NAN]));
    migrate(&fleet, json!({}));
    assert_eq!(fleet.ended("orders-away").await, Phase::RolledBack);
    fleet.assert_clean_in("east");
}

#[tokio::test(start_paused = true)]
async fn what_can_never_be_answered_is_found_before_anything_is_touched() {
    let (fleet, _controller) = asking().await;
    migrate(&fleet, json!({}));
    assert_eq!(fleet.ended("orders-away").await, Phase::Failed);
    let findings = fleet.status("orders-away")["findings"].clone();
    assert_eq!(findings[0]["code"], "BadQuery");
    let message = findings[0]["message"].as_str().unwrap();
    assert!(message.contains("--prometheus-url"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_check_over_another_variable_is_refused() {
    let (fleet, _controller) = asking().await;
    fleet.measure(Queried::Values(vec![0.0]));
    let checks = json!([{"prometheus": "up", "cel": "object.status == 1"}]);
    migrate(&fleet, json!({"checks": checks}));
    assert_eq!(fleet.ended("orders-away").await, Phase::Failed);
    assert_eq!(fleet.status("orders-away")["findings"][0]["code"], "BadCheck");
}

const TOKEN: &str = "t0p-s3cret";

/// A server with Prometheus' envelope below a path, for who shows the token.
async fn server() -> SocketAddr {
    let answer = |headers: HeaderMap, body: String| async move {
        let authorized = headers
            .get("authorization")
            .is_some_and(|value| value == &format!("Bearer {TOKEN}"));
        let query = body.strip_prefix("query=").unwrap_or_default();
        match query {
            _ if !authorized => (StatusCode::UNAUTHORIZED, "no".to_owned()),
            "up%7Ba%3D%22b%20c%22%7D" => {
                let result =
                    json!([{"metric": {}, "value": [1.5, "1"]}, {"metric": {}, "value": [1.5, "0.25"]}]);
                let data = json!({"resultType": "vector", "result": result});
                (
                    StatusCode::OK,
                    json!({"status": "success", "data": data}).to_string(),
                )
            }
            "huge" => (StatusCode::OK, " ".repeat(2 << 20)),
            _ => {
                let error = json!({"status": "error", "errorType": "bad_data", "error": "parse error"});
                (StatusCode::BAD_REQUEST, error.to_string())
            }
        }
    };
    let router = Router::new().route("/metrics/api/v1/query", post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

#[tokio::test]
async fn a_server_behind_a_path_and_a_token_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let token_file = dir.path().join("token");
    std::fs::write(&token_file, format!("{TOKEN}\n")).unwrap();
    let address = server().await;
    let options = PrometheusOptions {
        url: format!("http://{address}/metrics").parse().unwrap(),
        token_file: Some(token_file),
        ca_file: None,
    };
    let prometheus = Prometheus::new(&options).unwrap();
    let values = prometheus.query("up{a=\"b c\"}").await;
    assert_eq!(values, Queried::Values(vec![1.0, 0.25]));
    assert_eq!(
        prometheus.query("up{").await,
        Queried::Refused("parse error".into())
    );
    assert!(matches!(prometheus.query("huge").await, Queried::Unknown(_)));

    let without = Prometheus::new(&PrometheusOptions {
        token_file: None,
        ..options
    })
    .unwrap();
    let Queried::Unknown(why) = without.query("up").await else {
        panic!("answered without a token");
    };
    assert!(why.contains("401"), "{why}");
    assert!(!format!("{prometheus:?}").contains(TOKEN));
}

#[tokio::test]
async fn what_cannot_be_asked_says_why_and_never_shows_a_password() {
    let options = |url: &str| PrometheusOptions {
        url: url.parse().unwrap(),
        token_file: None,
        ca_file: None,
    };
    let error = Prometheus::new(&options("http://me:pass@localhost/")).unwrap_err();
    assert!(!error.to_string().contains("pass@"), "{error}");
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let nobody = Prometheus::new(&options(&format!("http://{closed}"))).unwrap();
    let asked = tokio::time::timeout(Duration::from_secs(30), nobody.query("up")).await;
    assert!(matches!(asked, Ok(Queried::Unknown(_))), "{asked:?}");
}
