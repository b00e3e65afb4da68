//! Random objects: what their kinds take, most of the time.

mod services;

use std::cell::RefCell;
use std::ops::RangeBounds;

use fastrand::Rng;
use serde_json::{Map, Value, json};

pub use services::{service, service_status, smallest_service};

/// A generator that can be asked from several places of an expression.
pub struct Dice(RefCell<Rng>);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(RefCell::new(Rng::with_seed(seed)))
    }

    pub fn usize(&self, range: impl RangeBounds<usize>) -> usize {
        self.0.borrow_mut().usize(range)
    }

    pub fn i32(&self, range: impl RangeBounds<i32>) -> i32 {
        self.0.borrow_mut().i32(range)
    }

    pub fn bool(&self) -> bool {
        self.0.borrow_mut().bool()
    }
}

/// Returns one of some values.
pub fn one<T: Clone>(rng: &Dice, of: &[T]) -> T {
    of[rng.usize(..of.len())].clone()
}

/// Returns whether something happens that does once in `n` times.
pub fn once_in(rng: &Dice, n: usize) -> bool {
    rng.usize(..n) == 0
}

/// Returns a random part of the fields that are offered, each once in `n` times.
fn some(rng: &Dice, n: usize, offered: Vec<(&str, Value)>) -> Map<String, Value> {
    offered
        .into_iter()
        .filter(|_| once_in(rng, n))
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn texts(rng: &Dice, of: &[&str], most: usize) -> Value {
    (0..rng.usize(..=most)).map(|_| json!(one(rng, of))).collect()
}

/// Returns a value of any type.
pub fn anything(rng: &Dice) -> Value {
    match rng.usize(..12) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(rng.i32(-3..20)),
        3 => json!(1.5),
        4 => json!(""),
        5 => json!([]),
        6 => json!({}),
        7 => json!(["a", 1]),
        8 => json!({"a": "b"}),
        9 => json!("2020-01-01T00:00:00Z"),
        10 => json!(1_i64 << 40),
        _ => json!("text"),
    }
}

pub fn metadata(rng: &Dice, name: &str) -> Map<String, Value> {
    let mut metadata = Map::new();
    if !name.is_empty() {
        metadata.insert("name".to_owned(), json!(name));
    }
    if once_in(rng, 2) {
        let labels = vec![
            ("app", json!(one(rng, &["x", "z"]))),
            ("tier", json!("t")),
            ("odd", json!(one(rng, &["", "A.b_c", "-x", "1"]))),
        ];
        metadata.insert("labels".to_owned(), Value::Object(some(rng, 2, labels)));
    }
    if once_in(rng, 3) {
        let annotations = vec![
            ("note", json!(one(rng, &["", "some", "more text"]))),
            ("a.b/c", json!("d")),
            ("bad key", json!("v")),
        ];
        metadata.insert("annotations".to_owned(), Value::Object(some(rng, 3, annotations)));
    }
    if once_in(rng, 6) {
        metadata.insert(
            "finalizers".to_owned(),
            one(
                rng,
                &[
                    json!([]),
                    json!(["a.b/c"]),
                    json!(["a.b/c", "d.e/f"]),
                    json!(["orphan"]),
                    json!(["plain", "d.e/f"]),
                ],
            ),
        );
    }
    if once_in(rng, 14) {
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "b8d3a0d2-0000-4000-8000-000000000001"});
        let controller = json!({"apiVersion": "v1", "kind": "Pod", "name": "o2", "uid": "b8d3a0d2-0000-4000-8000-000000000002", "controller": true, "blockOwnerDeletion": true});
        let broken = json!({"apiVersion": "v1", "kind": "", "name": "", "uid": ""});
        let other =
            json!({"apiVersion": "x/y/z", "kind": "Event", "name": "e", "uid": "3", "controller": true});
        let owners = [
            json!([owner]),
            json!([owner, controller]),
            json!([broken]),
            json!([controller, other]),
        ];
        metadata.insert("ownerReferences".to_owned(), one(rng, &owners));
    }
    metadata
}

/// Breaks an object somewhere: a value of another type, a field that is not known, one that is missing.
pub fn corrupt(rng: &Dice, value: &mut Value, closed: &[&str]) {
    let mut places = Vec::new();
    collect(value, "", &mut places);
    places.retain(|place| {
        !closed.iter().any(|closed| place.starts_with(closed))
            && !place.starts_with("/metadata")
            && place != "/spec/size"
            && !place.starts_with("/spec/object")
    });
    let Some(place) = places.get(rng.usize(..places.len().max(1))) else {
        return;
    };
    let Some(target) = value.pointer_mut(place) else {
        return;
    };
    match (rng.usize(..5), target) {
        (0 | 1, Value::Object(fields)) => {
            fields.insert(one(rng, &["extra", "Name", "spec"]).to_owned(), anything(rng));
        }
        (2 | 3, Value::Object(fields)) if !fields.is_empty() => {
            let name = fields.keys().nth(rng.usize(..fields.len())).cloned();
            fields.shift_remove(&name.unwrap_or_default());
        }
        (0 | 1, Value::Array(items)) => items.push(items.first().cloned().unwrap_or(json!(1))),
        (_, target) => *target = anything(rng),
    }
}

fn collect(value: &Value, path: &str, places: &mut Vec<String>) {
    if !path.is_empty() && path != "/metadata" {
        places.push(path.to_owned());
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if path.is_empty() && matches!(name.as_str(), "apiVersion" | "kind") {
                    continue;
                }
                collect(
                    value,
                    &format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")),
                    places,
                );
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, &format!("{path}/{index}"), places);
            }
        }
        _ => {}
    }
}

/// Returns the JSON pointers into a value, but for its type.
pub fn pointers(value: &Value) -> Vec<String> {
    let mut places = Vec::new();
    collect(value, "", &mut places);
    if places.is_empty() {
        places.push("/metadata".to_owned());
    }
    places
}

pub fn config_map(rng: &Dice) -> Map<String, Value> {
    let data = vec![
        ("one", json!(one(rng, &["", "1", "a\nb\n"]))),
        ("two", json!("2")),
        ("three.txt", json!("3")),
        ("bad/key", json!("")),
    ];
    let data = Value::Object(some(
        rng,
        2,
        data.into_iter()
            .take(if once_in(rng, 8) { 4 } else { 3 })
            .collect(),
    ));
    let binary = Value::Object(some(
        rng,
        2,
        vec![("bin", json!(one(rng, &["AAEC", ""]))), ("one", json!("AAEC"))],
    ));
    let mut body = some(
        rng,
        5,
        vec![("binaryData", binary), ("immutable", json!(rng.bool()))],
    );
    if !once_in(rng, 6) {
        body.insert("data".to_owned(), data);
    }
    body
}

pub fn secret(rng: &Dice) -> Map<String, Value> {
    let data = Value::Object(some(
        rng,
        2,
        vec![
            ("one", json!(one(rng, &["AAEC", "", "eA=="]))),
            ("two", json!("eQ==")),
        ],
    ));
    let texts = Value::Object(some(rng, 2, vec![("one", json!("plain")), ("three", json!(""))]));
    let types = [
        "Opaque",
        "example.dev/own",
        "kubernetes.io/tls",
        "kubernetes.io/basic-auth",
        "kubernetes.io/dockerconfigjson",
    ];
    let kind = one(rng, &types);
    let mut body = some(rng, 2, vec![("data", data), ("stringData", texts)]);
    body.extend(some(
        rng,
        5,
        vec![("type", json!(kind)), ("immutable", json!(rng.bool()))],
    ));
    body
}

pub fn namespace(rng: &Dice) -> Map<String, Value> {
    some(
        rng,
        8,
        vec![("spec", json!({"finalizers": ["kubernetes", "a.b/c"]}))],
    )
}

pub fn namespace_status(rng: &Dice) -> Value {
    json!({"phase": one(rng, &["Active"])})
}

pub fn smallest_deployment() -> Map<String, Value> {
    map(json!({"spec": {
        "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }}))
}

pub fn deployment(rng: &Dice) -> Map<String, Value> {
    let app = one(rng, &["x", "x", "x", "x", "z"]);
    let spec = vec![
        ("replicas", json!(one(rng, &[0, 1, 2, 3, -1]))),
        ("paused", json!(rng.bool())),
        ("minReadySeconds", json!(one(rng, &[0, 5]))),
        ("revisionHistoryLimit", json!(3)),
        (
            "strategy",
            one(
                rng,
                &[
                    json!({"type": "Recreate"}),
                    json!({"rollingUpdate": {"maxSurge": 1}}),
                    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 0}}),
                ],
            ),
        ),
    ];
    let mut spec = some(rng, 3, spec);
    let containers: Vec<Value> = (0..=rng.usize(..2)).map(|index| container(rng, index)).collect();
    let mut pod = some(
        rng,
        5,
        vec![
            ("serviceAccountName", json!("sa")),
            ("nodeSelector", json!({"disk": "ssd"})),
            ("terminationGracePeriodSeconds", json!(one(rng, &[0, 5]))),
            (
                "tolerations",
                json!([{"key": "k", "operator": "Exists", "effect": one(rng, &["NoSchedule", "NoExecute"])}]),
            ),
            (
                "volumes",
                json!([{"name": "v", "configMap": {"name": "cm"}}, {"name": "e", "emptyDir": {}}]),
            ),
            ("initContainers", json!([{"name": "init", "image": "i:2"}])),
            ("restartPolicy", json!(one(rng, &["Always", "Always", "Always"]))),
            ("securityContext", json!({"runAsUser": 5})),
            ("imagePullSecrets", json!([{"name": "p"}])),
            ("hostNetwork", json!(false)),
            (
                "affinity",
                json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}}]}}),
            ),
        ],
    );
    pod.insert("containers".to_owned(), json!(containers));
    {
        spec.insert("selector".to_owned(), json!({"matchLabels": {"app": app}}));
    }
    {
        spec.insert(
            "template".to_owned(),
            json!({"metadata": {"labels": {"app": "x"}}, "spec": pod}),
        );
    }
    map(json!({"spec": spec}))
}

fn container(rng: &Dice, index: usize) -> Value {
    let quantity = || {
        let plain = ["250m", "500m", "1"].map(Value::from);
        let odd = [
            json!("0.5"),
            json!("1000m"),
            json!(1),
            json!(0.25),
            json!("1e-1"),
            json!("0.0001"),
        ];
        if once_in(rng, 4) {
            one(rng, &odd)
        } else {
            one(rng, &plain)
        }
    };
    let mut container = some(
        rng,
        4,
        vec![
            (
                "image",
                json!(one(rng, &["i", "i:1", "i:latest", "r.io/i@sha256:abc"])),
            ),
            ("args", json!(["--a", "b"])),
            ("command", json!(["run"])),
            (
                "env",
                json!([{"name": "A", "value": one(rng, &["1", ""])}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
            ),
            (
                "ports",
                json!([{"containerPort": 8080 + index}, {"containerPort": 81 + index, "protocol": "UDP"}]),
            ),
            (
                "resources",
                one(
                    rng,
                    &[
                        json!({"requests": {"cpu": quantity()}, "limits": {"cpu": one(rng, &["1", "2"])}}),
                        json!({"limits": {"memory": one(rng, &["1Gi", "1024Mi", "1073741824", "1.5G", "100M", "2048Ki"])}}),
                        json!({"requests": {"cpu": quantity(), "memory": one(rng, &["64Mi", "0.5Gi", "128974848"])}}),
                    ],
                ),
            ),
            (
                "livenessProbe",
                json!({"httpGet": {"path": "/", "port": one(rng, &[json!(80), json!("http")])}}),
            ),
            (
                "readinessProbe",
                json!({"tcpSocket": {"port": 80}, "periodSeconds": 3}),
            ),
            ("imagePullPolicy", json!(one(rng, &["Always", "IfNotPresent"]))),
            ("securityContext", json!({"privileged": false})),
        ],
    );
    container.entry("image").or_insert_with(|| json!("i:1"));
    container.insert("name".to_owned(), json!(["c", "d", "e"][index]));
    Value::Object(container)
}

pub fn deployment_status(rng: &Dice) -> Value {
    let condition = json!({"type": one(rng, &["Available", "Progressing"]), "status": "True", "reason": "r", "message": "m", "lastTransitionTime": "2020-01-01T00:00:00Z", "lastUpdateTime": "2020-01-01T00:00:00Z"});
    Value::Object(some(
        rng,
        2,
        vec![
            ("replicas", json!(one(rng, &[1, 2]))),
            ("observedGeneration", json!(one(rng, &[1, 2]))),
            ("conditions", json!([condition])),
        ],
    ))
}

pub fn smallest_gadget() -> Map<String, Value> {
    map(json!({"spec": {"size": 1}}))
}

#[expect(clippy::too_many_lines, reason = "one line for each feature of a schema")]
pub fn gadget(rng: &Dice) -> Map<String, Value> {
    let ports: Vec<Value> = (0..rng.usize(..3)).map(|_| port(rng)).collect();
    let spec = vec![
        ("least", json!(one(rng, &[0, 0, 1, 2, 5]))),
        ("mode", json!(one(rng, &["fast", "safe", "fast", "safe", "odd"]))),
        (
            "note",
            json!(one(
                rng,
                &[
                    "some note",
                    "more",
                    "safe",
                    "fast",
                    "x",
                    "far too long a note",
                    "Not"
                ]
            )),
        ),
        ("maybe", one(rng, &[json!("surely"), Value::Null])),
        ("either", one(rng, &[json!(1), json!("50%"), json!(1.5)])),
        (
            "ratio",
            one(
                rng,
                &[
                    json!(0.5),
                    json!(1),
                    json!(1.25),
                    json!(4),
                    json!(3.0),
                    json!(-0.5),
                ],
            ),
        ),
        ("active", json!(rng.bool())),
        (
            "at",
            json!(one(
                rng,
                &["2020-01-01T00:00:00Z", "2020-01-01T00:00:00.5+01:00", "yesterday"]
            )),
        ),
        ("fixed", json!(one(rng, &["one", "one", "two"]))),
        ("tags", texts(rng, &["a", "b", "c", "d"], 3)),
        ("words", texts(rng, &["a", "b", ""], 2)),
        ("ports", json!(ports)),
        (
            "labels",
            one(rng, &[json!({"a": "b"}), json!({"a": "c", "d": "e"}), json!({})]),
        ),
        (
            "limits",
            one(
                rng,
                &[
                    json!({"cpu": 1}),
                    json!({"cpu": "1", "memory": "1Gi"}),
                    json!({"a": 1, "b": 1, "c": 1, "d": 1}),
                ],
            ),
        ),
        (
            "whole",
            one(rng, &[json!({"a": "1"}), json!({"a": "1", "b": "2"}), json!({})]),
        ),
        (
            "open",
            one(
                rng,
                &[
                    json!({"known": 1}),
                    json!({"known": "x"}),
                    json!({"any": {"thing": [1, {"a": null}]}}),
                    json!({}),
                ],
            ),
        ),
        ("object", embedded(rng)),
        (
            "nested",
            one(
                rng,
                &[
                    json!({}),
                    json!({"depth": 2}),
                    json!({"depth": null}),
                    json!({"choice": {"one": "1"}}),
                    json!({"choice": {"two": 2}}),
                    json!({"choice": {"one": "1", "two": 2}}),
                    json!({"choice": {}}),
                ],
            ),
        ),
    ];
    let mut spec = some(rng, 4, spec);
    if !once_in(rng, 15) {
        spec.insert("size".to_owned(), json!(one(rng, &[1, 2, 3, 5, 10, 11, -1])));
    }
    map(json!({"spec": spec}))
}

fn port(rng: &Dice) -> Value {
    let mut port = some(
        rng,
        3,
        vec![
            ("protocol", json!(one(rng, &["TCP", "UDP", "SCTP"]))),
            ("name", json!(one(rng, &["http", "dns", "much-too-long"]))),
        ],
    );
    port.insert("port".to_owned(), json!(one(rng, &[80, 443, 0])));
    Value::Object(port)
}

fn embedded(rng: &Dice) -> Value {
    one(
        rng,
        &[
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inner", "labels": {"a": "b"}}, "data": {"x": 1}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Bad_Name"}}),
            json!({"kind": "ConfigMap"}),
            json!({"apiVersion": "a/b/c", "kind": "X"}),
        ],
    )
}

pub fn gadget_status(rng: &Dice) -> Value {
    let condition =
        |rng: &Dice| json!({"type": one(rng, &["A", "B"]), "status": one(rng, &["True", "False"])});
    let conditions: Vec<Value> = (0..rng.usize(..3)).map(|_| condition(rng)).collect();
    Value::Object(some(
        rng,
        2,
        vec![
            ("ready", one(rng, &[json!(true), json!(false), json!("surely")])),
            ("size", json!(one(rng, &[0, 1, 2]))),
            ("selector", json!("app=x")),
            ("conditions", json!(conditions)),
        ],
    ))
}

pub fn plain(rng: &Dice) -> Map<String, Value> {
    some(
        rng,
        2,
        vec![
            (
                "spec",
                one(
                    rng,
                    &[json!({"a": 1}), json!({"a": "1"}), json!({"b": "x"}), json!({})],
                ),
            ),
            (
                "data",
                one(
                    rng,
                    &[json!({"a": "1"}), json!({"a": 1}), json!({"a": null, "b": "2"})],
                ),
            ),
            (
                "status",
                one(rng, &[json!({"ready": true}), json!("ready"), Value::Null]),
            ),
            ("extra", anything(rng)),
        ],
    )
}

pub fn smallest_override_policy() -> Map<String, Value> {
    map(
        json!({"spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], "overrideRules": [{"overriders": {}}]}}),
    )
}

pub fn override_policy(rng: &Dice) -> Map<String, Value> {
    let plaintext = json!([{"path": "/spec/replicas", "operator": one(rng, &["add", "remove", "replace", "odd"]), "value": anything(rng)}]);
    let overriders = Value::Object(some(
        rng,
        2,
        vec![
            ("plaintext", plaintext),
            (
                "labelsOverrider",
                json!([{"operator": "add", "value": {"a": "b"}}]),
            ),
            (
                "imageOverrider",
                json!([{"component": "Tag", "operator": "replace", "value": "v2"}]),
            ),
            (
                "argsOverrider",
                json!([{"containerName": "c", "operator": "add", "value": ["--x"]}]),
            ),
        ],
    ));
    let rule = json!({"targetCluster": {"clusterNames": texts(rng, &["east", "west"], 2)}, "overriders": overriders});
    map(json!({"spec": {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": one(rng, &["a", "b"])}],
        "overrideRules": one(rng, &[json!([rule]), json!([]), json!([rule, rule])]),
    }}))
}

pub fn smallest_propagation_policy() -> Map<String, Value> {
    map(json!({"spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}]}}))
}

pub fn propagation_policy(rng: &Dice) -> Map<String, Value> {
    let affinity = json!({"clusterNames": texts(rng, &["east", "west"], 2), "labelSelector": {"matchLabels": {"a": "b"}}});
    let placement = Value::Object(some(
        rng,
        2,
        vec![
            ("clusterAffinity", affinity),
            (
                "replicaScheduling",
                one(
                    rng,
                    &[
                        json!({}),
                        json!({"replicaSchedulingType": "Divided"}),
                        json!({"replicaSchedulingType": "Odd"}),
                    ],
                ),
            ),
            ("clusterTolerations", json!([{"key": "k", "operator": "Exists"}])),
            (
                "spreadConstraints",
                json!([{"spreadByField": "cluster", "maxGroups": one(rng, &[1, 2, -1])}]),
            ),
        ],
    ));
    let mut spec = some(
        rng,
        3,
        vec![
            ("placement", placement),
            ("propagateDeps", json!(rng.bool())),
            ("preemption", json!(one(rng, &["Always", "Never", "Odd"]))),
            ("priority", json!(one(rng, &[0, 3]))),
            ("conflictResolution", json!("Abort")),
            (
                "failover",
                json!({"application": {"decisionConditions": {"tolerationSeconds": 3}, "purgeMode": "Graciously"}}),
            ),
            ("suspension", json!({"dispatching": true})),
        ],
    );
    spec.insert(
        "resourceSelectors".to_owned(),
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": one(rng, &["a", "b"])}]),
    );
    map(json!({"spec": spec}))
}

pub fn smallest_migration() -> Map<String, Value> {
    map(
        json!({"spec": {"workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "orders"}, "to": "west"}}),
    )
}

pub fn migration(rng: &Dice) -> Map<String, Value> {
    let mut spec = some(
        rng,
        4,
        vec![
            ("from", json!("east")),
            ("paused", json!(rng.bool())),
            ("abort", json!(true)),
            (
                "verify",
                one(
                    rng,
                    &[
                        json!({"healthyFor": "2s", "timeout": "60s"}),
                        json!({"healthyFor": "soon"}),
                        json!({"healthyFor": 5}),
                        json!({}),
                    ],
                ),
            ),
        ],
    );
    spec.insert(
        "workload".to_owned(),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": one(rng, &["orders", "other", ""])}),
    );
    spec.insert(
        "to".to_owned(),
        one(
            rng,
            &[json!("west"), json!("north"), json!(""), json!("Not A Name")],
        ),
    );
    map(json!({"spec": spec}))
}

pub fn migration_status(rng: &Dice) -> Value {
    Value::Object(some(
        rng,
        2,
        vec![
            ("phase", json!(one(rng, &["Pending", "Hold", "Odd"]))),
            ("observedGeneration", json!(1)),
        ],
    ))
}

pub fn smallest_claim() -> Map<String, Value> {
    map(json!({"spec": {
        "attempt": 1, "bindingId": "b", "clusters": [], "marker": "m", "seq": 1, "workload": "w",
        "owner": {"kind": "Migration", "name": "m", "namespace": "ns", "uid": "u"},
    }}))
}

pub fn claim(rng: &Dice) -> Map<String, Value> {
    let mut claim = smallest_claim();
    let writer = one(rng, &[json!("east"), Value::Null, json!(1)]);
    let spec = vec![
        ("attempt", json!(one(rng, &[1, 2, -1]))),
        ("clusters", texts(rng, &["east", "west"], 2)),
        ("writer", writer),
        (
            "seq",
            one(rng, &[json!(2), json!(1.0), json!(1.5), json!(1_u64 << 60)]),
        ),
    ];
    if let Some(Value::Object(fields)) = claim.get_mut("spec") {
        fields.extend(some(rng, 2, spec));
    }
    claim
}
