//! The spec of a Service: reading it, and what is filled in.

use serde_json::{Map, Value, json};

/// The address of a Service without one.
pub const NONE: &str = "None";

/// A Service, read by the fields of its spec.
#[derive(Clone, Copy)]
pub struct Spec<'a>(pub &'a Value);

impl<'a> Spec<'a> {
    pub fn of(self, field: &str) -> &'a Value {
        &self.0["spec"][field]
    }

    pub fn text(self, field: &str) -> &'a str {
        self.of(field).as_str().unwrap_or_default()
    }

    pub fn number(self, field: &str) -> i64 {
        self.of(field).as_i64().unwrap_or_default()
    }

    pub fn texts(self, field: &str) -> Vec<&'a str> {
        let listed = self.of(field).as_array().into_iter().flatten();
        listed.filter_map(Value::as_str).collect()
    }

    pub fn ports(self) -> &'a [Value] {
        self.of("ports").as_array().map(Vec::as_slice).unwrap_or_default()
    }

    pub fn is(self, kind: &str) -> bool {
        self.text("type") == kind
    }

    /// Returns the node ports that it has, that for its health among them.
    pub fn node_ports(self) -> impl Iterator<Item = i64> + 'a {
        let health = self.number("healthCheckNodePort");
        let ports = self.ports().iter().map(|port| number(port, "nodePort"));
        ports.chain([health]).filter(|port| *port != 0)
    }

    /// Returns whether its ports may have node ports.
    pub fn has_node_ports(self) -> bool {
        self.is("NodePort") || self.is("LoadBalancer")
    }

    /// Returns whether every port of it gets a node port.
    pub fn needs_node_ports(self) -> bool {
        self.is("NodePort") || (self.is("LoadBalancer") && *self.of("allocateLoadBalancerNodePorts") != false)
    }

    pub fn needs_health_port(self) -> bool {
        self.is("LoadBalancer") && self.text("externalTrafficPolicy") == "Local"
    }

    pub fn is_reached_from_outside(self) -> bool {
        self.has_node_ports() || (self.is("ClusterIP") && !is_empty(self.of("externalIPs")))
    }

    pub(super) fn is_headless(self) -> bool {
        self.texts("clusterIPs") == [NONE]
    }

    /// Returns whether both want two families where there are, and have the same addresses.
    pub fn prefers_as(self, other: Self) -> bool {
        let prefers = |spec: Self| spec.text("ipFamilyPolicy") == "PreferDualStack";
        let fields = ["type", "clusterIP", "clusterIPs", "ipFamilies"];
        prefers(other)
            && (prefers(self) || self.of("ipFamilyPolicy").is_null())
            && !other.is("ExternalName")
            && fields.iter().all(|field| self.of(field) == other.of(field))
    }
}

/// Returns whether a client changed `clusterIP` alone.
pub fn same_addresses_but_first(before: Spec<'_>, now: Spec<'_>) -> bool {
    before.of("clusterIPs") == now.of("clusterIPs")
}

pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

pub fn number(value: &Value, field: &str) -> i64 {
    value[field].as_i64().unwrap_or_default()
}

/// Returns whether Go would leave a value out.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Fills in what depends on the type of a Service.
pub fn defaults(spec: &mut Map<String, Value>) {
    let is = |spec: &Map<String, Value>, field: &str, wanted: &str| {
        spec.get(field).is_some_and(|value| value == wanted)
    };
    if is(spec, "sessionAffinity", "None") {
        spec.shift_remove("sessionAffinityConfig");
    }
    if is(spec, "sessionAffinity", "ClientIP") {
        let config = spec.get("sessionAffinityConfig");
        let timeout = config.and_then(|config| config.pointer("/clientIP/timeoutSeconds"));
        if timeout.is_none_or(Value::is_null) {
            let config = json!({"clientIP": {"timeoutSeconds": 10800}});
            spec.insert("sessionAffinityConfig".to_owned(), config);
        }
    }
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        if port
            .get("targetPort")
            .is_none_or(|target| *target == 0 || target == "")
        {
            let number = port.get("port").cloned().unwrap_or(json!(0));
            port.insert("targetPort".to_owned(), number);
        }
    }
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default();
    let (inside, balanced) = (
        ["ClusterIP", "NodePort", "LoadBalancer"].contains(&kind),
        kind == "LoadBalancer",
    );
    let external = spec
        .get("externalIPs")
        .is_some_and(|external| !is_empty(external));
    let outside = balanced || kind == "NodePort" || (kind == "ClusterIP" && external);
    let wanted = [
        ("externalTrafficPolicy", json!("Cluster"), outside),
        ("internalTrafficPolicy", json!("Cluster"), inside),
        ("allocateLoadBalancerNodePorts", json!(true), balanced),
    ];
    for (field, value, _) in wanted.into_iter().filter(|(.., wanted)| *wanted) {
        if spec.get(field).is_none_or(is_empty) {
            spec.insert(field.to_owned(), value);
        }
    }
}
