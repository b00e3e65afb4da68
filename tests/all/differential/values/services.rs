//! Random Services: every type, with ports and addresses that are asked for, left to the server, or can't be had.

use serde_json::{Map, Value, json};

use super::{Dice, anything, map, once_in, one, some};

pub fn smallest_service() -> Map<String, Value> {
    map(json!({"spec": {"ports": [{"port": 80}]}}))
}

#[expect(clippy::too_many_lines, reason = "one line for each field")]
pub fn service(rng: &Dice) -> Map<String, Value> {
    let kind = one(
        rng,
        &[
            "ClusterIP",
            "ClusterIP",
            "NodePort",
            "NodePort",
            "LoadBalancer",
            "ExternalName",
        ],
    );
    let ports: Vec<Value> = (0..rng.usize(1..4)).map(|index| port(rng, index)).collect();
    let mut spec = some(
        rng,
        4,
        vec![
            (
                "selector",
                one(
                    rng,
                    &[json!({"app": "x"}), json!({"app": "x", "tier": "-t"}), json!({})],
                ),
            ),
            ("sessionAffinity", json!(one(rng, &["None", "ClientIP", "Odd"]))),
            ("externalTrafficPolicy", json!(one(rng, &["Cluster", "Local"]))),
            ("publishNotReadyAddresses", json!(rng.bool())),
        ],
    );
    spec.extend(some(
        rng,
        8,
        vec![
            (
                "sessionAffinityConfig",
                json!({"clientIP": {"timeoutSeconds": one(rng, &[5, 0, 100_000])}}),
            ),
            ("externalName", json!(one(rng, &["db.example.dev", "db.", "Db"]))),
            (
                "ipFamilyPolicy",
                json!(one(
                    rng,
                    &["SingleStack", "PreferDualStack", "RequireDualStack", "Odd"]
                )),
            ),
            (
                "ipFamilies",
                one(
                    rng,
                    &[
                        json!(["IPv4"]),
                        json!(["IPv6"]),
                        json!(["IPv4", "IPv6"]),
                        json!(["IPv4", "IPv4"]),
                    ],
                ),
            ),
            ("allocateLoadBalancerNodePorts", json!(rng.bool())),
            (
                "trafficDistribution",
                json!(one(rng, &["PreferClose", "PreferSameNode", "Odd"])),
            ),
        ],
    ));
    if kind != "ExternalName" {
        spec.extend(some(
            rng,
            8,
            vec![(
                "internalTrafficPolicy",
                json!(one(rng, &["Cluster", "Local", "Odd"])),
            )],
        ));
    }
    if once_in(rng, 5) {
        spec.extend(map(address(rng)));
    }
    if kind == "ExternalName" && !once_in(rng, 4) {
        spec.insert("externalName".to_owned(), json!("db.example.dev"));
    }
    if once_in(rng, 3) || kind != "ClusterIP" {
        let kind = if once_in(rng, 30) {
            json!("Odd")
        } else {
            json!(kind)
        };
        spec.insert("type".to_owned(), kind);
    }
    if !once_in(rng, 12) {
        spec.insert("ports".to_owned(), json!(ports));
    }
    map(json!({"spec": spec}))
}

fn address(rng: &Dice) -> Value {
    let address = one(
        rng,
        &[
            "None", "None", "${ip}", "${ip}", "", "10.9.0.1", "10.0.0.0", "::1", "text",
        ],
    );
    match rng.usize(..5) {
        0 => json!({"clusterIP": address, "clusterIPs": [address]}),
        1 => json!({"clusterIPs": [address]}),
        2 => json!({"clusterIP": address, "clusterIPs": [address, one(rng, &["::1", "${ip}", "None"])]}),
        _ => json!({"clusterIP": address}),
    }
}

fn port(rng: &Dice, index: usize) -> Value {
    let mut port = some(
        rng,
        5,
        vec![
            ("protocol", json!(one(rng, &["TCP", "UDP", "UDP", "Odd"]))),
            (
                "targetPort",
                one(
                    rng,
                    &[
                        json!(8080),
                        json!("http"),
                        json!(0),
                        json!("Not a port--"),
                        json!(70_000),
                    ],
                ),
            ),
            (
                "nodePort",
                one(rng, &[json!("${port}"), json!("${port}"), json!(0), json!(80)]),
            ),
            ("appProtocol", json!(one(rng, &["http", "a.b/c", "bad one"]))),
        ],
    );
    if !once_in(rng, 8) {
        let name = one(rng, &["a", "b", "c", "a", "b", "c", "Bad"]);
        let name = if once_in(rng, 3) {
            name
        } else {
            ["a", "b", "c"][index]
        };
        port.insert("name".to_owned(), json!(name));
    }
    if !once_in(rng, 30) {
        let number = if once_in(rng, 6) {
            one(rng, &[80, 81, 0])
        } else {
            [80, 81, 443][index]
        };
        port.insert("port".to_owned(), json!(number));
    }
    Value::Object(port)
}

pub fn service_status(rng: &Dice) -> Value {
    let ingress = one(
        rng,
        &[
            json!([{"ip": "1.2.3.4"}]),
            json!([{"ip": "1.2.3.4", "ipMode": "Proxy"}]),
            json!([{"hostname": "a.example.dev"}]),
            json!([{"ip": "text", "ipMode": "Odd"}, {"hostname": "1.2.3.4", "ipMode": "VIP"}]),
            json!([]),
        ],
    );
    let condition = json!({"type": "Ready", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": "2020-01-01T00:00:00Z"});
    let mut status = some(rng, 2, vec![("loadBalancer", json!({"ingress": ingress}))]);
    status.extend(some(rng, 6, vec![("conditions", json!([condition]))]));
    status.extend(some(rng, 30, vec![("loadBalancer", anything(rng))]));
    Value::Object(status)
}
