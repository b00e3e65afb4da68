//! What a kube-apiserver refuses and warns of in Services.
//!
//! Not checked, as nobody here sets them: external addresses, address ranges and annotations of load balancers.

mod spec;

use std::net::IpAddr;

use serde_json::{Value, json};

use super::super::object_meta;
use super::super::schema::FieldError;
pub(super) use spec::defaults;
pub use spec::{NONE, Spec, is_empty, number, same_addresses_but_first, text};

type Errors = Vec<FieldError>;

/// Returns what is wrong with a Service after it got its addresses; `old` is what it replaces.
pub(super) fn validate(service: &Value, old: Option<&Value>) -> Errors {
    let spec = Spec(service);
    let mut errors = Vec::new();
    if let Some(old) = old {
        kept(Spec(old), spec, &mut errors);
    }
    kind(spec, &mut errors);
    ports(spec, &mut errors);
    for why in object_meta::label_mistakes(spec.of("selector")) {
        errors.push(FieldError::invalid("spec.selector", why.0, why.1));
    }
    affinity(spec, &mut errors);
    errors.extend(addresses(spec));
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    supported(spec, "type", &kinds, &mut errors);
    clashes(spec, &mut errors);
    balancer(spec, &mut errors);
    traffic(spec, &mut errors);
    status(service, &mut errors);
    errors
}

fn supported(spec: Spec<'_>, field: &str, known: &[&str], errors: &mut Errors) {
    let said = spec.text(field);
    if !known.contains(&said) {
        errors.push(FieldError::not_supported(format!("spec.{field}"), said, known));
    }
}

/// What can't change.
fn kept(before: Spec<'_>, now: Spec<'_>, errors: &mut Errors) {
    if before.is("ExternalName") || now.is("ExternalName") {
        return;
    }
    let (had, has) = (before.texts("clusterIPs"), now.texts("clusterIPs"));
    let shown = now.of("clusterIPs").clone();
    if !(before.is_headless() && now.is_headless()) {
        if had.len() == has.len() {
            for (index, _) in had
                .iter()
                .zip(&has)
                .enumerate()
                .filter(|(_, (had, has))| had != has)
            {
                let path = format!("spec.clusterIPs[{index}]");
                errors.push(FieldError::invalid(
                    path,
                    shown.clone(),
                    "may not change once set",
                ));
            }
        } else if has.is_empty() {
            let why = "primary clusterIP can not be unset";
            errors.push(FieldError::invalid("spec.clusterIPs[0]", shown.clone(), why));
        } else if had.first().is_some_and(|first| *first != has[0]) {
            let why = "may not change once set";
            errors.push(FieldError::invalid("spec.clusterIPs[0]", shown.clone(), why));
        }
    }
    let (had, has) = (before.texts("ipFamilies"), now.texts("ipFamilies"));
    if !before.is_headless() && !now.is_headless() {
        let moved = had.iter().zip(&has).filter(|(had, has)| had != has).count();
        let moved = if had.len() == has.len() {
            moved
        } else {
            moved.min(1)
        };
        let shown = if had.len() == has.len() {
            now.of("ipFamilies")
        } else {
            &shown
        };
        for _ in 0..moved {
            let why = "may not change once set";
            errors.push(FieldError::invalid("spec.ipFamilies[0]", shown.clone(), why));
        }
    }
    if before.needs_health_port()
        && now.needs_health_port()
        && before.number("healthCheckNodePort") != now.number("healthCheckNodePort")
    {
        errors.push(FieldError::forbidden(
            "spec.healthCheckNodePort",
            "field is immutable",
        ));
    }
}

fn kind(spec: Spec<'_>, errors: &mut Errors) {
    if spec.ports().is_empty() && !spec.is_headless() && !spec.is("ExternalName") {
        errors.push(FieldError::required("spec.ports", ""));
    }
    if spec.has_node_ports() && spec.is_headless() {
        let why = format!("may not be set to 'None' for {} services", spec.text("type"));
        errors.push(FieldError::invalid("spec.clusterIPs[0]", NONE, why));
    }
    if !spec.is("ExternalName") {
        return;
    }
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if !is_empty(spec.of(field)) {
            let why = "may not be set for ExternalName services";
            errors.push(FieldError::forbidden(format!("spec.{field}"), why));
        }
    }
    let name = spec.text("externalName");
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        errors.push(FieldError::required("spec.externalName", ""));
    } else if let Some(why) = object_meta::subdomain_mistake(name) {
        errors.push(FieldError::invalid("spec.externalName", name, why));
    }
}

fn ports(spec: Spec<'_>, errors: &mut Errors) {
    const NUMBER: &str = "must be between 1 and 65535, inclusive";
    let ports = spec.ports();
    for (index, port) in ports.iter().enumerate() {
        let path = |field: &str| format!("spec.ports[{index}].{field}");
        let name = text(port, "name");
        if name.is_empty() {
            if ports.len() > 1 {
                errors.push(FieldError::required(path("name"), ""));
            }
        } else {
            if let Some(why) = object_meta::label_name_mistake(name) {
                errors.push(FieldError::invalid(path("name"), name, why));
            }
            if ports[..index].iter().any(|other| text(other, "name") == name) {
                errors.push(FieldError::duplicate(path("name"), name));
            }
        }
        let fits = |number: i64| (1..=65535).contains(&number);
        if !fits(number(port, "port")) {
            errors.push(FieldError::invalid(path("port"), number(port, "port"), NUMBER));
        }
        let protocols = ["SCTP", "TCP", "UDP"];
        if !protocols.contains(&text(port, "protocol")) {
            let said = text(port, "protocol");
            errors.push(FieldError::not_supported(path("protocol"), said, &protocols));
        }
        match &port["targetPort"] {
            Value::String(name) => {
                for why in port_name(name) {
                    errors.push(FieldError::invalid(path("targetPort"), name.as_str(), why));
                }
            }
            target => {
                let target = target.as_i64().unwrap_or_default();
                if !fits(target) {
                    errors.push(FieldError::invalid(path("targetPort"), target, NUMBER));
                }
            }
        }
        for why in object_meta::qualified_name(text(port, "appProtocol")) {
            if !port["appProtocol"].is_null() {
                errors.push(FieldError::invalid(
                    path("appProtocol"),
                    port["appProtocol"].clone(),
                    why,
                ));
            }
        }
    }
}

/// Returns what is wrong with the name of a port.
fn port_name(name: &str) -> Vec<&'static str> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let checks = [
        (name.len() > 15, "must be no more than 15 characters"),
        (
            name.is_empty() || !name.bytes().all(plain),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (
            !name.bytes().any(|byte| byte.is_ascii_lowercase()),
            "must contain at least one letter (a-z)",
        ),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (
            name.starts_with('-') || name.ends_with('-'),
            "must not begin or end with a hyphen",
        ),
    ];
    let wrong = checks.into_iter().filter(|(wrong, _)| *wrong);
    wrong.map(|(_, why)| why).collect()
}

fn affinity(spec: Spec<'_>, errors: &mut Errors) {
    const LONGEST: i64 = 86_400;
    supported(spec, "sessionAffinity", &["ClientIP", "None"], errors);
    if spec.text("sessionAffinity") != "ClientIP" {
        return;
    }
    let timeout = &spec.of("sessionAffinityConfig")["clientIP"]["timeoutSeconds"];
    let seconds = timeout.as_i64().unwrap_or_default();
    if !(1..=LONGEST).contains(&seconds) {
        errors.push(FieldError::invalid(
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
            timeout.clone(),
            format!("must be greater than 0 and less than {LONGEST}"),
        ));
    }
}

/// Returns what is wrong with addresses and their families.
pub fn addresses(spec: Spec<'_>) -> Errors {
    let mut errors = Vec::new();
    if spec.is("ExternalName") {
        return errors;
    }
    errors.extend(first_address(spec));
    let families = spec.texts("ipFamilies");
    named_families(spec, &families, &mut errors);
    let addresses = spec.texts("clusterIPs");
    let shown = || spec.of("clusterIPs").clone();
    let mut invalid = false;
    for (index, address) in addresses.iter().enumerate() {
        if index == 0 && *address == NONE {
            if addresses.len() > 1 {
                invalid = true;
                let why = "'None' must be the first and only value";
                errors.push(FieldError::invalid("spec.clusterIPs", shown(), why));
            }
        } else if address.parse::<IpAddr>().is_err() {
            invalid = true;
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.push(FieldError::invalid(
                format!("spec.clusterIPs[{index}]"),
                *address,
                why,
            ));
        }
    }
    if addresses.len() > 2 {
        let why = "may only hold up to 2 values";
        errors.push(FieldError::invalid("spec.clusterIPs", shown(), why));
    }
    if invalid {
        return errors;
    }
    let is_six = |address: &str| address.contains(':');
    let sixes = addresses.iter().filter(|address| is_six(address)).count();
    if addresses.len() > 1 && (sixes == 0 || sixes == addresses.len()) {
        let why = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid("spec.clusterIPs", shown(), why));
    }
    if !spec.is_headless() {
        for (index, (address, family)) in addresses.iter().zip(&families).enumerate() {
            let other = if is_six(address) { "IPv4" } else { "IPv6" };
            if *family == other {
                let path = format!("spec.clusterIPs[{index}]");
                let why = format!("expected an {other} value as indicated by `ipFamilies[{index}]`");
                errors.push(FieldError::invalid(path, *address, why));
            }
        }
    }
    errors
}

/// Returns how `clusterIP` and the first of `clusterIPs` differ.
fn first_address(spec: Spec<'_>) -> Option<FieldError> {
    let (address, addresses) = (spec.text("clusterIP"), spec.texts("clusterIPs"));
    let shown = || spec.of("clusterIPs").clone();
    match addresses.first() {
        None if address.is_empty() => None,
        None => Some(FieldError::required("spec.clusterIPs", "")),
        Some(_) if address.is_empty() => Some("must be empty when `clusterIP` is not specified")
            .map(|why| FieldError::invalid("spec.clusterIPs", shown(), why)),
        Some(first) if *first != address => {
            let why = "first value must match `clusterIP`";
            Some(FieldError::invalid("spec.clusterIPs", shown(), why))
        }
        Some(_) => None,
    }
}

fn named_families(spec: Spec<'_>, families: &[&str], errors: &mut Errors) {
    for (index, family) in families.iter().enumerate() {
        let path = format!("spec.ipFamilies[{index}]");
        if !["IPv4", "IPv6"].contains(family) {
            errors.push(FieldError::not_supported(
                path.as_str(),
                *family,
                &["IPv4", "IPv6"],
            ));
        }
        if families[..index].contains(family) {
            errors.push(FieldError::duplicate(path, *family));
        }
    }
    if !spec.of("ipFamilyPolicy").is_null() {
        let known = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        supported(spec, "ipFamilyPolicy", &known, errors);
    }
}

/// Ports that are in each other's way.
fn clashes(spec: Spec<'_>, errors: &mut Errors) {
    let ports = spec.ports();
    let path = |index: usize| format!("spec.ports[{index}]");
    if spec.is("ClusterIP") {
        for (index, _) in ports
            .iter()
            .enumerate()
            .filter(|(_, port)| number(port, "nodePort") != 0)
        {
            let why = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(path(index) + ".nodePort", why));
        }
    }
    let same = |index: usize, field: &str| {
        ports[..index].iter().any(|other| {
            text(other, "protocol") == text(&ports[index], "protocol")
                && number(other, field) == number(&ports[index], field)
        })
    };
    for (index, port) in ports.iter().enumerate() {
        if number(port, "nodePort") != 0 && same(index, "nodePort") {
            let node = number(port, "nodePort");
            errors.push(FieldError::duplicate(path(index) + ".nodePort", node));
        }
    }
    for (index, port) in ports.iter().enumerate() {
        if same(index, "port") {
            // The parts of a Go struct that tell a port.
            let told = json!({
                "Name": "", "Protocol": port["protocol"], "AppProtocol": null, "Port": number(port, "port"),
                "TargetPort": 0, "NodePort": 0,
            });
            errors.push(FieldError::duplicate(path(index), told));
        }
    }
}

fn balancer(spec: Spec<'_>, errors: &mut Errors) {
    if spec.is("LoadBalancer") {
        return;
    }
    for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if !spec.of(field).is_null() {
            let why = "may only be used when `type` is 'LoadBalancer'";
            errors.push(FieldError::forbidden(format!("spec.{field}"), why));
        }
    }
}

fn traffic(spec: Spec<'_>, errors: &mut Errors) {
    let policy = spec.text("externalTrafficPolicy");
    if spec.is_reached_from_outside() {
        supported(spec, "externalTrafficPolicy", &["Cluster", "Local"], errors);
    } else if !policy.is_empty() {
        let why = "may only be set for externally-accessible services";
        errors.push(FieldError::invalid("spec.externalTrafficPolicy", policy, why));
    }
    let health = spec.number("healthCheckNodePort");
    if !spec.needs_health_port() && health != 0 {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(FieldError::invalid("spec.healthCheckNodePort", health, why));
    }
    if !spec.of("internalTrafficPolicy").is_null() {
        supported(spec, "internalTrafficPolicy", &["Cluster", "Local"], errors);
    } else if ["NodePort", "LoadBalancer", "ClusterIP"].contains(&spec.text("type")) {
        errors.push(FieldError::required("spec.internalTrafficPolicy", ""));
    }
    if !spec.of("trafficDistribution").is_null() {
        let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        supported(spec, "trafficDistribution", &known, errors);
    }
}

fn status(service: &Value, errors: &mut Errors) {
    let ingress = service
        .pointer("/status/loadBalancer/ingress")
        .and_then(Value::as_array);
    let Some(ingress) = ingress.filter(|ingress| !ingress.is_empty()) else {
        return;
    };
    if !Spec(service).is("LoadBalancer") {
        let why = "may only be used when `spec.type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden("status.loadBalancer.ingress", why));
        return;
    }
    for (index, at) in ingress.iter().enumerate() {
        let path = |field: &str| format!("status.loadBalancer.ingress[{index}].{field}");
        let address = text(at, "ip");
        if !address.is_empty() && address.parse::<IpAddr>().is_err() {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.push(FieldError::invalid(path("ip"), address, why));
        }
        match at["ipMode"].as_str() {
            None if !address.is_empty() => {
                errors.push(FieldError::required(
                    path("ipMode"),
                    "must be specified when `ip` is set",
                ));
            }
            Some(_) if address.is_empty() => {
                let why = "may not be specified when `ip` is not set";
                errors.push(FieldError::forbidden(path("ipMode"), why));
            }
            Some(mode) if !["Proxy", "VIP"].contains(&mode) => {
                errors.push(FieldError::not_supported(path("ipMode"), mode, &["Proxy", "VIP"]));
            }
            _ => {}
        }
        let host = text(at, "hostname");
        if let Some(why) = object_meta::subdomain_mistake(host).filter(|_| !host.is_empty()) {
            errors.push(FieldError::invalid(path("hostname"), host, why));
        }
        if host.parse::<IpAddr>().is_ok() {
            let why = "must be a DNS name, not an IP address";
            errors.push(FieldError::invalid(path("hostname"), host, why));
        }
    }
}

/// Returns what a server warns of in a Service that it accepts.
pub fn warnings(service: &Value) -> Vec<String> {
    let spec = Spec(service);
    let mut warnings = Vec::new();
    if spec.is("ClusterIP") && spec.text("clusterIP") == NONE && spec.text("sessionAffinity") != "None" {
        warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
    }
    if !spec.is("ExternalName") && !spec.text("externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.text("trafficDistribution") == "PreferClose" {
        let why = "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(why.to_owned());
    }
    warnings
}
