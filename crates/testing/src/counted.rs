//! A client that writes down what is asked.

use std::sync::{Arc, Mutex};

use cutover_cluster::{Cluster, Limits};
use http::Request;
use kube::client::Body;

/// Method and path of every request but watches.
pub type Asked = Arc<Mutex<Vec<String>>>;

/// Returns a cluster that is reached by a client, and what is asked of it.
pub fn counted(client: kube::Client) -> (Cluster, Asked) {
    let asked = Asked::default();
    let log = Arc::clone(&asked);
    let counting = tower::service_fn(move |request: Request<Body>| {
        let uri = request.uri();
        if !uri.query().is_some_and(|query| query.contains("watch=true")) {
            let line = format!("{} {}", request.method(), uri.path());
            log.lock().unwrap().push(line);
        }
        let client = client.clone();
        async move { client.send(request).await }
    });
    let client = kube::Client::new(counting, "default");
    (Cluster::from_client(client, Limits::default()), asked)
}

/// Returns a cluster whose members may not be watched: each watch through the cluster proxy is refused.
pub fn without_member_watches(client: kube::Client) -> Cluster {
    let refusing = tower::service_fn(move |request: Request<Body>| {
        let uri = request.uri();
        let watches = uri.query().is_some_and(|query| query.contains("watch=true"));
        let refused = watches && uri.path().contains("/proxy/");
        let client = client.clone();
        async move {
            if refused {
                let status = serde_json::json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
                    "message": "watch is forbidden", "metadata": {},
                });
                let answer = http::Response::builder().status(403);
                return Ok(answer.body(Body::from(status.to_string().into_bytes())).unwrap());
            }
            client.send(request).await
        }
    });
    Cluster::from_client(kube::Client::new(refusing, "default"), Limits::default())
}
