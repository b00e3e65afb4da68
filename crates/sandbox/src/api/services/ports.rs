//! The node ports of Services.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::builtin::services::{self as rules, Spec};
use super::super::metadata;
use super::super::schema::FieldError;

const FIRST_PORT: i64 = 30000;
const FIRST_PORT_GIVEN: i64 = 30086;
const LAST_PORT: i64 = 32767;

/// Why a port can't be had.
pub(super) enum Refusal {
    Invalid(Box<FieldError>),
    Failed(String),
}

/// The node ports that one write takes.
pub(super) struct Ports<'a> {
    pub(super) used: &'a BTreeSet<i64>,
    pub(super) last: &'a mut i64,
    pub(super) own: Vec<i64>,
    pub(super) dry_run: bool,
}

impl Ports<'_> {
    fn take(&mut self, port: i64) -> Result<(), String> {
        if !self.dry_run && !(FIRST_PORT..=LAST_PORT).contains(&port) {
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {FIRST_PORT}-{LAST_PORT}"
            ));
        }
        if self.used.contains(&port) || self.own.contains(&port) {
            return Err("provided port is already allocated".to_owned());
        }
        self.own.push(port);
        Ok(())
    }

    fn next(&mut self) -> Result<i64, Refusal> {
        let port = if self.dry_run {
            self.own.iter().max().map_or(LAST_PORT + 2, |last| last + 1)
        } else {
            let is_free = |port: &i64| !self.used.contains(port) && !self.own.contains(port);
            let next = (*self.last + 1).max(FIRST_PORT_GIVEN);
            let mut ports = (next..=LAST_PORT)
                .chain(FIRST_PORT_GIVEN..next)
                .chain(FIRST_PORT..FIRST_PORT_GIVEN);
            let full = || Refusal::Failed("failed to allocate a nodePort: range is full".to_owned());
            let port = ports.find(is_free).ok_or_else(full)?;
            *self.last = port;
            port
        };
        self.own.push(port);
        Ok(port)
    }

    fn take_for(&mut self, index: usize, port: i64) -> Result<(), Refusal> {
        let path = format!("spec.ports[{index}].nodePort");
        self.take(port)
            .map_err(|why| Refusal::Invalid(Box::new(FieldError::invalid(path, port, why))))
    }
}

fn ports_of(service: &mut Value) -> Vec<Value> {
    Spec(service).ports().to_vec()
}

fn set_ports(service: &mut Value, ports: Vec<Value>) {
    if !ports.is_empty() {
        metadata::entry(service, "spec").insert("ports".to_owned(), Value::Array(ports));
    }
}

/// Gives the ports of a new Service their node ports: those of one number share theirs.
pub(super) fn create(taken: &mut Ports<'_>, service: &mut Value) -> Result<(), Refusal> {
    if !Spec(service).has_node_ports() {
        return Ok(());
    }
    let needed = Spec(service).needs_node_ports();
    let mut ports = ports_of(service);
    let mut given: Vec<(i64, i64)> = Vec::new();
    for index in 0..ports.len() {
        let (port, node) = (
            rules::number(&ports[index], "port"),
            rules::number(&ports[index], "nodePort"),
        );
        if node == 0 && !needed {
            continue;
        }
        let shared = given.iter().find(|(of, _)| *of == port).map(|(_, node)| *node);
        let chosen = match shared {
            Some(shared) if node == 0 || node == shared => shared,
            Some(_) => {
                taken.take_for(index, node)?;
                node
            }
            None => {
                let said = ports.iter().find(|other| {
                    rules::number(other, "port") == port && rules::number(other, "nodePort") != 0
                });
                let chosen = match said.map(|port| rules::number(port, "nodePort")) {
                    Some(said) => {
                        taken.take_for(index, said)?;
                        said
                    }
                    None => taken.next()?,
                };
                given.push((port, chosen));
                chosen
            }
        };
        ports[index]["nodePort"] = chosen.into();
    }
    set_ports(service, ports);
    Ok(())
}

/// Gives the ports of a Service that is there the node ports that they lack.
pub(super) fn update(taken: &mut Ports<'_>, old: &Value, service: &mut Value) -> Result<(), Refusal> {
    if !Spec(service).has_node_ports() {
        return Ok(());
    }
    let needed = Spec(service).needs_node_ports();
    let had: Vec<i64> = Spec(old)
        .ports()
        .iter()
        .map(|port| rules::number(port, "nodePort"))
        .collect();
    let mut ports = ports_of(service);
    let mut seen: Vec<(String, i64)> = Vec::new();
    for (index, port) in ports.iter_mut().enumerate() {
        let mut node = rules::number(port, "nodePort");
        if node == 0 && !needed {
            continue;
        }
        if node == 0 {
            node = taken.next()?;
            port["nodePort"] = node.into();
        } else if !had.contains(&node) && !seen.iter().any(|(_, other)| *other == node) {
            taken.take_for(index, node)?;
        }
        let one = (rules::text(port, "protocol").to_owned(), node);
        if seen.contains(&one) {
            return Err(Refusal::Failed(format!(
                "duplicate nodePort: {{{} {}}}",
                one.0, one.1
            )));
        }
        seen.push(one);
    }
    set_ports(service, ports);
    Ok(())
}

/// Gives a Service the port on which nodes say whether they are healthy.
pub(super) fn health(taken: &mut Ports<'_>, old: Option<&Value>, service: &mut Value) -> Result<(), Refusal> {
    let had = old.is_some_and(|old| Spec(old).needs_health_port());
    if had || !Spec(service).needs_health_port() {
        return Ok(());
    }
    let port = match Spec(service).number("healthCheckNodePort") {
        0 => taken.next()?,
        said => {
            taken.take(said).map_err(|why| {
                let why = format!("failed to allocate requested HealthCheck NodePort {said}: {why}");
                Refusal::Failed(format!("Internal error occurred: {why}"))
            })?;
            said
        }
    };
    metadata::entry(service, "spec").insert("healthCheckNodePort".to_owned(), port.into());
    Ok(())
}
