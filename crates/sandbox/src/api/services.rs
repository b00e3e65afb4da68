//! Services: the addresses and node ports that the server gives them, and what goes when their type changes.
//!
//! One range of IPv4 addresses, as `--service-cluster-ip-range 10.0.0.0/16` makes it, and the usual range of node ports.
//! As in a real server the lower end of both is left to those who name one; the rest is given in order, not by chance.

mod ports;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::builtin::services::{self as rules, NONE, Spec};
use super::metadata;
use super::rules::cause;
use super::schema::FieldError;
use super::status::{Reason, Status};
use ports::{Ports, Refusal};

const RANGE: &str = "10.0.0.0/16";
const FIRST: u32 = u32::from_be_bytes([10, 0, 0, 1]);
/// The first that is given to who asks for none.
const FIRST_GIVEN: u32 = u32::from_be_bytes([10, 0, 1, 1]);
const LAST: u32 = u32::from_be_bytes([10, 0, 255, 254]);
/// What a write that isn't done gets.
const OF_DRY_RUNS: &str = "10.0.0.0";

/// What the Services of a server have.
#[derive(Clone, Debug, Default)]
pub(super) struct Allocated {
    addresses: BTreeSet<u32>,
    ports: BTreeSet<i64>,
    /// What was given last: what is free again isn't given again at once.
    last_address: u32,
    last_port: i64,
}

impl Allocated {
    /// Takes note of a Service that was written, or that is gone.
    pub(super) fn wrote(&mut self, old: Option<&Value>, new: Option<&Value>) {
        if let Some(old) = old {
            for address in addresses(old) {
                self.addresses.remove(&address);
            }
            for port in Spec(old).node_ports() {
                self.ports.remove(&port);
            }
        }
        if let Some(new) = new {
            self.addresses.extend(addresses(new));
            self.ports.extend(Spec(new).node_ports());
        }
    }

    /// Gives a Service that is created or updated what its type needs, unless it has it.
    pub(super) fn allocate(
        &mut self,
        old: Option<&Value>,
        service: &mut Value,
        dry_run: bool,
    ) -> Result<(), Status> {
        if let Some(old) = old {
            keep_allocated(old, service);
        }
        pair_addresses(old, service);
        let name = metadata::name(service).to_owned();
        let refuse = |errors: Vec<FieldError>| {
            Status::invalid("", "Service", &name, errors.iter().map(cause).collect())
        };
        choose_families(old, service).map_err(refuse)?;
        self.address(old, service, dry_run).map_err(refuse)?;
        let mut ports = Ports {
            used: &self.ports,
            last: &mut self.last_port,
            own: Vec::new(),
            dry_run,
        };
        let given = match old {
            None => ports::create(&mut ports, service),
            Some(old) => ports::update(&mut ports, old, service),
        };
        given
            .and_then(|()| ports::health(&mut ports, old, service))
            .map_err(|refusal| match refusal {
                Refusal::Invalid(error) => refuse(vec![*error]),
                Refusal::Failed(why) => Status::new(500, Reason::Unknown, why),
            })?;
        if let Some(old) = old {
            drop_dependent(old, service);
        }
        Ok(())
    }

    /// Gives a Service its address.
    fn address(
        &mut self,
        old: Option<&Value>,
        service: &mut Value,
        dry_run: bool,
    ) -> Result<(), Vec<FieldError>> {
        let spec = Spec(service);
        if spec.is("ExternalName") || spec.texts("clusterIPs").first() == Some(&NONE) {
            return Ok(());
        }
        if old.is_some_and(|old| !Spec(old).is("ExternalName")) {
            return Ok(());
        }
        let wanted = spec.texts("clusterIPs").first().copied().unwrap_or_default();
        let given = if wanted.is_empty() {
            let why = "failed to allocate IP: range is full";
            let full = || vec![FieldError::invalid("spec.clusterIPs", json!([""]), why)];
            self.next_address(dry_run).ok_or_else(full)?
        } else {
            wanted.to_owned()
        };
        self.check_address(metadata::name(service), wanted, &given, dry_run)
            .map_err(|why| {
                let space = if wanted.is_empty() { "" } else { " " };
                let why = format!("failed to allocate IP{space}{wanted}: {why}");
                vec![FieldError::invalid("spec.clusterIPs", json!([wanted]), why)]
            })?;
        let spec = metadata::entry(service, "spec");
        spec.insert("clusterIP".to_owned(), json!(given));
        spec.insert("clusterIPs".to_owned(), json!([given]));
        Ok(())
    }

    fn next_address(&mut self, dry_run: bool) -> Option<String> {
        if dry_run {
            return Some(OF_DRY_RUNS.to_owned());
        }
        let next = (self.last_address + 1).max(FIRST_GIVEN);
        let mut addresses = (next..=LAST).chain(FIRST_GIVEN..next).chain(FIRST..FIRST_GIVEN);
        self.last_address = addresses.find(|address| !self.addresses.contains(address))?;
        Some(Ipv4Addr::from(self.last_address).to_string())
    }

    /// Sees to it that an address can be given to the Service of a name: an object of its own records that.
    fn check_address(&self, name: &str, wanted: &str, given: &str, dry_run: bool) -> Result<(), String> {
        if dry_run && wanted.is_empty() {
            return Ok(());
        }
        let address = given.parse().map(Ipv4Addr::to_bits);
        let address = address.ok().filter(|address| (FIRST..=LAST).contains(address));
        match address {
            None if dry_run => Err(format!(
                "the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {RANGE}"
            )),
            None => Err("the provided network does not match the current range".to_owned()),
            Some(address) if !dry_run && self.addresses.contains(&address) => {
                Err("provided IP is already allocated".to_owned())
            }
            Some(_) if !dry_run && name.is_empty() => Err(format!(
                "IPAddress.networking.k8s.io \"{given}\" is invalid: spec.parentRef.name: Required value"
            )),
            Some(_) => Ok(()),
        }
    }
}

fn addresses(service: &Value) -> impl Iterator<Item = u32> {
    let addresses = Spec(service).texts("clusterIPs").into_iter();
    addresses.filter_map(|address| address.parse().map(Ipv4Addr::to_bits).ok())
}

/// Fills in what was given before, and what a client that knows nothing of it left out.
fn keep_allocated(old: &Value, service: &mut Value) {
    let (before, now) = (Spec(old), Spec(service));
    let mut kept = Vec::new();
    if !before.is("ExternalName") && !now.is("ExternalName") {
        for field in ["clusterIP", "clusterIPs"] {
            if rules::is_empty(now.of(field)) && !rules::is_empty(before.of(field)) {
                kept.push((field, before.of(field).clone()));
            }
        }
    }
    if before.needs_health_port() && now.needs_health_port() && now.number("healthCheckNodePort") == 0 {
        kept.push(("healthCheckNodePort", before.of("healthCheckNodePort").clone()));
    }
    let ports = (before.needs_node_ports() && now.needs_node_ports()).then(|| kept_ports(before, now));
    let spec = metadata::entry(service, "spec");
    for (field, value) in kept {
        spec.insert(field.to_owned(), value);
    }
    if let Some(ports) = ports.filter(|ports| !ports.is_empty()) {
        spec.insert("ports".to_owned(), Value::Array(ports));
    }
}

/// Returns the ports of a Service, with the node ports that those of the same name had.
fn kept_ports(before: Spec<'_>, now: Spec<'_>) -> Vec<Value> {
    let number = |port: &Value| port["nodePort"].as_i64().unwrap_or_default();
    let said: BTreeSet<i64> = now.ports().iter().map(number).collect();
    let still =
        |wanted: i64| before.ports().iter().any(|port| number(port) == wanted) && said.contains(&wanted);
    let mut ports = now.ports().to_vec();
    for port in ports.iter_mut().filter(|port| number(port) == 0) {
        let of_name = before
            .ports()
            .iter()
            .rfind(|other| rules::text(other, "name") == rules::text(port, "name"));
        let had = of_name.map(number).unwrap_or_default();
        if had != 0 && !still(had) {
            port["nodePort"] = had.into();
        }
    }
    ports
}

/// Sees to it that who says `clusterIP` alone means `clusterIPs` too.
fn pair_addresses(old: Option<&Value>, service: &mut Value) {
    let now = Spec(service);
    let address = now.text("clusterIP").to_owned();
    let spec = match old.map(Spec) {
        None => {
            if address.is_empty() || !now.texts("clusterIPs").is_empty() {
                return;
            }
            metadata::entry(service, "spec")
        }
        Some(before) => {
            if before.text("clusterIP") == address || !rules::same_addresses_but_first(before, now) {
                return;
            }
            let spec = metadata::entry(service, "spec");
            if address.is_empty() {
                spec.shift_remove("clusterIPs");
                return;
            }
            spec
        }
    };
    spec.insert("clusterIPs".to_owned(), json!([address]));
}

/// Fills in `ipFamilies` and `ipFamilyPolicy`, or says why they can't be had.
fn choose_families(old: Option<&Value>, service: &mut Value) -> Result<(), Vec<FieldError>> {
    let before = old.map(Spec);
    if Spec(service).is("ExternalName") || before.is_some_and(|before| before.prefers_as(Spec(service))) {
        return Ok(());
    }
    let open = Spec(service).text("clusterIP") == NONE && rules::is_empty(Spec(service).of("selector"));
    if Spec(service).of("ipFamilyPolicy").is_null() {
        let had = before
            .map(|before| before.of("ipFamilyPolicy"))
            .filter(|had| !had.is_null());
        let default = json!(if open { "RequireDualStack" } else { "SingleStack" });
        let policy = had.cloned().unwrap_or(default);
        metadata::entry(service, "spec").insert("ipFamilyPolicy".to_owned(), policy);
    }
    let errors = rules::addresses(Spec(service));
    if !errors.is_empty() {
        return Err(errors);
    }
    let spec = Spec(service);
    let policy = spec.of("ipFamilyPolicy").clone();
    let single = policy == "SingleStack";
    let mut errors = Vec::new();
    let mut refuse = |why: &str| errors.push(FieldError::invalid("spec.ipFamilyPolicy", policy.clone(), why));
    let mut families: Vec<String> = spec.texts("ipFamilies").into_iter().map(str::to_owned).collect();
    let mut shortened = false;
    if let Some(before) = before {
        let had = before.texts("ipFamilies");
        if single && had == families && families.len() > 1 {
            families.truncate(1);
            shortened = true;
        } else if !single && !families.is_empty() && families.len() < had.len() {
            refuse("must be 'SingleStack' to release the secondary IP family");
        }
    }
    if single && spec.texts("clusterIPs").len() == 2 {
        refuse("must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified");
    }
    if single && families.len() == 2 {
        refuse("must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified");
    }
    add_families_of_addresses(spec, &mut families, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    if families.is_empty() {
        families.push("IPv4".to_owned());
    }
    if open {
        if families.len() < 2 && !single {
            let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
            families.push(other.to_owned());
        }
    } else {
        configured(&policy, spec, shortened.then_some(1))?;
    }
    metadata::entry(service, "spec").insert("ipFamilies".to_owned(), json!(families));
    Ok(())
}

fn add_families_of_addresses(spec: Spec<'_>, families: &mut Vec<String>, errors: &mut Vec<FieldError>) {
    for (index, address) in spec.texts("clusterIPs").iter().enumerate() {
        if *address == NONE {
            break;
        }
        if index < families.len() {
            continue;
        }
        if address.parse::<Ipv4Addr>().is_ok() {
            families.push("IPv4".to_owned());
        } else {
            let why = "IPv6 is not configured on this cluster";
            let value = spec.of("clusterIPs").clone();
            errors.push(FieldError::invalid(
                format!("spec.clusterIPs[{index}]"),
                value,
                why,
            ));
        }
    }
}

/// Refuses families that this server doesn't have.
fn configured(policy: &Value, spec: Spec<'_>, shown: Option<usize>) -> Result<(), Vec<FieldError>> {
    let mut errors = Vec::new();
    if policy == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid("spec.ipFamilyPolicy", policy.clone(), why));
    }
    let families = spec.texts("ipFamilies");
    let shown = shown.unwrap_or(families.len());
    for (index, family) in families.iter().take(shown).enumerate() {
        if *family != "IPv4" {
            let path = format!("spec.ipFamilies[{index}]");
            errors.push(FieldError::invalid(
                path,
                *family,
                "not configured on this cluster",
            ));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Drops what the new type has no use for, if the client left it as it was.
fn drop_dependent(old: &Value, service: &mut Value) {
    let (before, now) = (Spec(old), Spec(service));
    let same = |field: &str| before.of(field) == now.of(field);
    let mut gone = Vec::new();
    if !before.is("ExternalName") && now.is("ExternalName") {
        if same("clusterIP") && same("clusterIPs") {
            gone.extend(["clusterIP", "clusterIPs"]);
        }
        gone.extend(
            ["ipFamilies", "ipFamilyPolicy"]
                .into_iter()
                .filter(|field| same(field)),
        );
    }
    if before.needs_health_port() && !now.needs_health_port() && same("healthCheckNodePort") {
        gone.push("healthCheckNodePort");
    }
    if before.is("LoadBalancer") && !now.is("LoadBalancer") {
        let fields = ["allocateLoadBalancerNodePorts", "loadBalancerClass"];
        gone.extend(fields.into_iter().filter(|field| same(field)));
    }
    if before.is_reached_from_outside() && !now.is_reached_from_outside() && same("externalTrafficPolicy") {
        gone.push("externalTrafficPolicy");
    }
    let ports_go = before.has_node_ports() && !now.has_node_ports() && {
        let had: BTreeSet<i64> = before.node_ports().collect();
        now.ports()
            .iter()
            .map(|port| rules::number(port, "nodePort"))
            .all(|port| port == 0 || had.contains(&port))
    };
    let balanced = now.is("LoadBalancer");
    let spec = metadata::entry(service, "spec");
    for field in gone {
        spec.shift_remove(field);
    }
    if ports_go {
        for port in spec
            .get_mut("ports")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(port) = port.as_object_mut() {
                port.shift_remove("nodePort");
            }
        }
    }
    if !balanced {
        metadata::entry(service, "status").insert("loadBalancer".to_owned(), json!({}));
    }
}

/// Leaves out what is never shown of Services that are names of something outside.
pub(super) fn tidy(service: &mut Value) {
    if Spec(service).is("ExternalName") {
        metadata::entry(service, "spec").shift_remove("internalTrafficPolicy");
    }
}
