//! Services: what their types need is given, kept and taken back.

use serde_json::{Value, json};

use super::super::step::{MERGE, Step};
use super::same;

const SERVICES: &str = "/api/v1/namespaces/${ns}/services";

fn service(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

fn create(name: &str, spec: &Value) -> Step {
    Step::post(SERVICES, service(name, spec))
}

fn change(spec: &Value) -> Step {
    Step::patch(format!("{SERVICES}/a"), MERGE, json!({"spec": spec}))
}

#[tokio::test]
async fn a_change_of_type_gives_and_takes_what_the_type_needs() {
    let steps = [
        create("a", &json!({"ports": [{"port": 80}], "selector": {"app": "x"}})),
        change(&json!({"type": "NodePort"})),
        change(&json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"})),
        change(&json!({"type": "ClusterIP"})),
        change(&json!({"type": "ExternalName", "externalName": "db.example.dev"})),
        change(&json!({"type": "ClusterIP", "externalName": null})),
        Step::get(format!("{SERVICES}/a")),
    ];
    same("types of a Service", &steps).await;
}

#[tokio::test]
async fn addresses_and_ports_are_had_once_and_stay() {
    let asking =
        json!({"clusterIP": "${ip}", "type": "NodePort", "ports": [{"port": 80, "nodePort": "${port}"}]});
    let steps = [
        create("a", &asking),
        create("b", &asking),
        create(
            "b",
            &json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": "${port}"}]}),
        ),
        create("b", &asking).with("dryRun", "All"),
        change(&json!({"clusterIP": null})),
        change(&json!({"clusterIP": "10.0.200.1", "clusterIPs": ["10.0.200.1"]})),
        change(&json!({"clusterIP": "None"})),
        Step::delete(format!("{SERVICES}/a")),
        create("b", &asking),
    ];
    same("addresses and ports of Services", &steps).await;
}

#[tokio::test]
async fn headless_services_have_families_and_no_address() {
    let headless =
        |selector: Value| json!({"clusterIP": "None", "selector": selector, "ports": [{"port": 80}]});
    let steps = [
        create("a", &headless(json!({"app": "x"}))),
        create("b", &headless(json!({}))),
        create(
            "c",
            &json!({"clusterIP": "None", "type": "NodePort", "ports": [{"port": 80}]}),
        ),
    ];
    same("headless Services", &steps).await;
}

#[tokio::test]
async fn an_update_of_a_service_that_is_not_there_creates_it() {
    let path = format!("{SERVICES}/a");
    let steps = [
        Step::put(path.as_str(), service("a", &json!({"ports": [{"port": 80}]}))),
        Step::delete(path),
        Step::put(
            format!("{SERVICES}/b/status"),
            service("b", &json!({"ports": [{"port": 80}]})),
        ),
    ];
    same("an update that creates", &steps).await;
}
