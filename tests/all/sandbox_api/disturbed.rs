//! What stands between a client and the verbs: faults and aggregated APIs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use cutover::sandbox::api::{Aggregated, Fault, Faults, RequestInfo, Status};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use kube::api::{PostParams, WatchParams};

/// Does what it is told to the next request.
#[derive(Default)]
struct Next {
    before: Mutex<Option<Fault>>,
    after: Mutex<Option<Fault>>,
    seen: Mutex<Vec<RequestInfo>>,
}

impl Faults for Next {
    fn before<'a>(&'a self, request: &'a RequestInfo) -> BoxFuture<'a, Option<Fault>> {
        self.seen.lock().unwrap().push(request.clone());
        let fault = self.before.lock().unwrap().take();
        async move { fault }.boxed()
    }

    fn after<'a>(&'a self, _: &'a RequestInfo) -> BoxFuture<'a, Option<Fault>> {
        let fault = self.after.lock().unwrap().take();
        async move { fault }.boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn requests_meet_the_faults_that_are_planned_for_them() {
    let server = server();
    let next = Arc::new(Next::default());
    server.disturb(Arc::clone(&next) as Arc<dyn Faults>);
    let api = config_maps(&server);
    let before = |fault| *next.before.lock().unwrap() = Some(fault);

    before(Fault::Status(Status::new(
        503,
        cutover::sandbox::api::status::Reason::ServiceUnavailable,
        "later",
    )));
    assert_eq!(refusal(api.get("a").await).0, 503);

    let begun = tokio::time::Instant::now();
    before(Fault::Delay(Duration::from_secs(5)));
    assert_eq!(refusal(api.get("a").await).0, 404);
    assert_eq!(begun.elapsed().as_secs(), 5);

    before(Fault::DropConnection);
    let lost = api
        .create(&PostParams::default(), &config_map("a", json!({})))
        .await
        .unwrap_err();
    assert!(matches!(lost, kube::Error::Service(_)), "{lost}");
    assert_eq!(refusal(api.get("a").await).0, 404, "nothing was written");

    *next.after.lock().unwrap() = Some(Fault::DropConnection);
    api.create(&PostParams::default(), &config_map("a", json!({})))
        .await
        .unwrap_err();
    api.get("a")
        .await
        .expect("it was written, only the answer was lost");

    let seen = next.seen.lock().unwrap().last().cloned().unwrap();
    assert_eq!(
        (seen.verb, seen.resource.as_str(), seen.name.as_deref()),
        ("get", "configmaps", Some("a"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_can_be_cut() {
    let server = server();
    let next = Arc::new(Next::default());
    *next.before.lock().unwrap() = Some(Fault::CutWatch(Duration::from_secs(3)));
    server.disturb(next);
    let mut watch = config_maps(&server)
        .watch(&WatchParams::default(), "0")
        .await
        .unwrap()
        .boxed();
    assert!(watch.try_next().await.is_err() || watch.try_next().await.unwrap().is_none());
}

/// Answers with the path and the user.
struct Echo;

impl Aggregated for Echo {
    fn handle(
        &self,
        request: Request<Bytes>,
        user: String,
    ) -> BoxFuture<'static, Response<axum::body::Body>> {
        let answer = format!("{} {user}", request.uri());
        async move { Response::new(axum::body::Body::from(answer)) }.boxed()
    }
}

#[tokio::test]
async fn a_mounted_api_answers_what_the_server_does_not_serve_itself() {
    let server = server();
    server.mount("example.dev", "v1", Arc::new(Echo));
    create(&server, WIDGETS, widget_json("a", json!({"size": 1}))).await;
    assert_eq!(get(&server, &format!("{WIDGETS}/a")).await["kind"], "Widget");
    let path = format!("{WIDGETS}/a/proxy/api/v1/pods?limit=5");
    let answer = send_text(&server, Method::GET, &path, "", String::new()).await;
    assert_eq!(answer, (200, format!("{path} tester")));
}
