//! What only the sandbox can show: when policies and parameters come into force, by its clock.

use std::time::Duration;

use cutover::sandbox::api::{AdmissionLag, ApiServer, Options, Resource, Status, WriteOptions};
use serde_json::{Value, json};
use tokio::time::advance;

const POLICIES: Resource = Resource::new("admissionregistration.k8s.io", "validatingadmissionpolicies");
const BINDINGS: Resource = Resource::new(
    "admissionregistration.k8s.io",
    "validatingadmissionpolicybindings",
);
const MAPS: Resource = Resource::new("", "configmaps");
const CLAIMS: Resource = Resource::new("cutover.dev", "claims");

fn policy() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "fence"},
        "spec": {
            "paramKind": {"apiVersion": "cutover.dev/v1alpha1", "kind": "Claim"},
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["configmaps"]}]},
            "validations": [{"expression": "object.data.marker == params.spec.marker", "message": "stale"}],
        },
    })
}

fn binding() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "fence"},
        "spec": {"policyName": "fence", "validationActions": ["Deny"],
            "paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}},
    })
}

fn claim(marker: &str) -> Value {
    json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Claim", "metadata": {"name": "orders"},
        "spec": {"workload": "x", "bindingId": "b", "attempt": 1, "seq": 1, "marker": marker, "clusters": ["east"],
            "owner": {"kind": "Migration", "namespace": "n", "name": "m", "uid": "u"}},
    })
}

fn server(lag: AdmissionLag) -> ApiServer {
    let server = ApiServer::new(Options {
        admission_lag: lag,
        ..Options::new("test", 1)
    });
    for definition in cutover::api::crds() {
        server
            .install(&serde_json::to_value(definition).unwrap())
            .unwrap();
    }
    server
}

fn install(server: &ApiServer) {
    let options = WriteOptions::default();
    server.create(&POLICIES, None, policy(), &options).unwrap();
    server.create(&BINDINGS, None, binding(), &options).unwrap();
}

fn write(server: &ApiServer, marker: &str) -> Result<(), Status> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"marker": marker}});
    let options = WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    };
    server.create(&MAPS, Some("default"), map, &options).map(drop)
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_in_force_a_second_later_and_a_parameter_some_milliseconds() {
    let server = server(AdmissionLag::default());
    server
        .create(&CLAIMS, None, claim("1"), &WriteOptions::default())
        .unwrap();
    advance(Duration::from_millis(300)).await;
    install(&server);
    // The server looks at policies once a second.
    let options = WriteOptions::default();
    let gone = cutover::sandbox::api::DeleteOptions::default();
    write(&server, "0").unwrap();
    advance(Duration::from_millis(699)).await;
    write(&server, "0").unwrap();
    advance(Duration::from_millis(1)).await;
    assert_eq!(write(&server, "0").unwrap_err().code, 422);
    server.delete(&BINDINGS, None, "fence", &gone).unwrap();
    write(&server, "0").unwrap_err();
    advance(Duration::from_secs(1)).await;
    write(&server, "0").unwrap();
    server.create(&BINDINGS, None, binding(), &options).unwrap();
    write(&server, "0").unwrap();
    advance(Duration::from_secs(1)).await;

    write(&server, "1").unwrap();
    let changed = cutover::sandbox::api::Patch::Merge(json!({"spec": {"marker": "2"}}));
    server
        .patch(&CLAIMS, None, "orders", None, &changed, &options)
        .unwrap();
    write(&server, "1").unwrap();
    advance(Duration::from_millis(2)).await;
    write(&server, "1").unwrap_err();
    write(&server, "2").unwrap();
    server.delete(&CLAIMS, None, "orders", &gone).unwrap();
    write(&server, "1").unwrap_err();
    advance(Duration::from_millis(2)).await;
    write(&server, "1").unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_a_lag_everything_is_in_force_at_once() {
    let server = server(AdmissionLag::NONE);
    install(&server);
    write(&server, "0").unwrap();
    server
        .create(&CLAIMS, None, claim("1"), &WriteOptions::default())
        .unwrap();
    write(&server, "0").unwrap_err();
    write(&server, "1").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_policy_whose_parameters_are_unknown_refuses_until_they_are_defined() {
    let server = ApiServer::new(Options::new("test", 1));
    install(&server);
    advance(Duration::from_secs(1)).await;
    let refusal = write(&server, "1").unwrap_err();
    assert_eq!(
        refusal.message,
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'fence' denied request: failed to configure \
         policy: failed to find resource referenced by paramKind: 'cutover.dev/v1alpha1, Kind=Claim'"
    );
    for definition in cutover::api::crds() {
        server
            .install(&serde_json::to_value(definition).unwrap())
            .unwrap();
    }
    write(&server, "1").unwrap_err();
    advance(Duration::from_secs(1)).await;
    write(&server, "1").unwrap();
}
