//! Cluster addresses and node ports of services.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::validate::{indexed_items, validate_cluster_ips};
use crate::status::{NamedResource, Status, StatusCause};
use slipway_go::GoError;

/// The service network, 10.96.0.0/16.
const NETWORK: [u8; 2] = [10, 96];
const PORTS: std::ops::RangeInclusive<u16> = 30000..=32767;

/// The addresses and ports that are taken, and their owners (namespace/name).
#[derive(Default)]
pub(crate) struct AddressAllocator(Mutex<TakenAddresses>);

#[derive(Default)]
struct TakenAddresses {
    addresses: BTreeMap<Ipv4Addr, String>,
    ports: BTreeMap<u16, String>,
    next_address: u16,
    next_port: u16,
}

impl AddressAllocator {
    fn lock(&self) -> std::sync::MutexGuard<'_, TakenAddresses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets every holder.
    pub(crate) fn forget_all(&self) {
        *self.lock() = TakenAddresses::default();
    }

    /// Takes note of a service that is stored.
    pub(crate) fn adopt_service(&self, owner: &str, service: &Value) {
        let mut taken = self.lock();
        for address in cluster_addresses(service) {
            taken.addresses.insert(address, owner.to_owned());
        }
        for port in node_ports(service) {
            taken.ports.insert(port, owner.to_owned());
        }
    }

    /// Gives back what a service holds beyond `keep`.
    pub(crate) fn release_service(&self, owner: &str, keep: Option<&Value>) {
        let kept: BTreeSet<Ipv4Addr> = keep.map(|s| cluster_addresses(s).collect()).unwrap_or_default();
        let kept_ports: BTreeSet<u16> = keep.map(|s| node_ports(s).collect()).unwrap_or_default();
        let mut taken = self.lock();
        taken.addresses.retain(|a, o| o != owner || kept.contains(a));
        taken.ports.retain(|p, o| o != owner || kept_ports.contains(p));
    }

    /// Fills in the addresses and ports of a service. A dry run holds nothing.
    pub(crate) fn allocate_service(
        &self,
        owner: &str,
        service: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<(), AllocationRefusal> {
        let spec = &mut service["spec"];
        let before = old.map(|old| &old["spec"]);
        if spec["type"] == "ExternalName" {
            return Ok(());
        }
        if item_count(&spec["clusterIPs"]) == 0 && !spec["clusterIP"].as_str().unwrap_or("").is_empty() {
            spec["clusterIPs"] = json!([spec["clusterIP"]]);
        }
        settle_families(spec, before)?;
        let mut taken = self.lock();
        // A service that had an address keeps it.
        if before.is_none_or(|before| before["type"] == "ExternalName") && spec["clusterIP"] != "None" {
            taken.allocate_address(owner, spec, dry_run)?;
        }
        let mut ports = PortAllocation { taken: &mut taken, owner, dry_run, mine: Vec::new() };
        let filled = ports.fill_ports(spec, before);
        if filled.is_err() && !dry_run {
            let mine = ports.mine;
            taken.ports.retain(|port, _| !mine.contains(&i64::from(*port)));
        }
        filled
    }
}

/// The reason a service gets no address or port.
#[derive(Debug)]
pub(crate) enum AllocationRefusal {
    Invalid(Vec<StatusCause>),
    /// A failure the real server has no better words for.
    Failed(String),
}

impl From<Vec<StatusCause>> for AllocationRefusal {
    fn from(causes: Vec<StatusCause>) -> AllocationRefusal {
        AllocationRefusal::Invalid(causes)
    }
}

impl AllocationRefusal {
    pub(crate) fn into_status(self, kind: NamedResource<'_>, name: &str) -> Box<Status> {
        match self {
            AllocationRefusal::Invalid(causes) => Status::invalid(kind, name, causes),
            AllocationRefusal::Failed(message) => Status::plain_500(message),
        }
    }
}

fn item_count(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

/// Settles the families of a service's addresses. There are only addresses of version 4 here.
fn settle_families(spec: &mut Value, before: Option<&Value>) -> Result<(), Vec<StatusCause>> {
    const DUAL: &str = "PreferDualStack";
    let same = |key: &str, spec: &Value| before.is_some_and(|before| before[key] == spec[key]);
    if spec["ipFamilyPolicy"] == DUAL
        && before.is_some_and(|before| before["ipFamilyPolicy"] == DUAL)
        && ["type", "clusterIPs", "ipFamilies"].iter().all(|key| same(key, spec))
    {
        return Ok(());
    }
    // The writer of the endpoints decides the families of a service without a selector or address.
    let free =
        spec["clusterIP"] == "None" && spec["selector"].as_object().is_none_or(serde_json::Map::is_empty);
    if spec["ipFamilyPolicy"].is_null() {
        spec["ipFamilyPolicy"] = match before.map(|before| &before["ipFamilyPolicy"]) {
            Some(policy) if !policy.is_null() => policy.clone(),
            _ if free => json!("RequireDualStack"),
            _ => json!("SingleStack"),
        };
    }
    let mut found = Vec::new();
    validate_cluster_ips(spec, before, &mut found);
    if !found.is_empty() {
        return Err(found);
    }
    let single = spec["ipFamilyPolicy"] == "SingleStack";
    for (key, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let policy = "spec.ipFamilyPolicy";
        if single && same(key, spec) && item_count(&spec[key]) > 1 {
            spec[key] = json!([spec[key][0]]);
        } else if before.is_some_and(|before| (1..item_count(&before[key])).contains(&item_count(&spec[key])))
            && !single
        {
            let why = format!("must be 'SingleStack' to release the secondary {what}");
            found.push(StatusCause::invalid(policy, &spec["ipFamilyPolicy"], &why));
        }
        if single && item_count(&spec[key]) == 2 {
            let several = if key == "clusterIPs" { "cluster IPs" } else { "IP families" };
            let why = format!(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple {several} are specified"
            );
            found.push(StatusCause::invalid(policy, &spec["ipFamilyPolicy"], &why));
        }
    }
    let ips = spec["clusterIPs"].as_array().cloned().unwrap_or_default();
    let mut families = spec["ipFamilies"].as_array().cloned().unwrap_or_default();
    for (i, ip) in ips.iter().enumerate().filter(|(_, ip)| *ip != "None") {
        if i < families.len() {
            continue;
        }
        if ip.as_str().is_some_and(|ip| ip.contains(':')) {
            let why = "IPv6 is not configured on this cluster";
            found.push(StatusCause::invalid(format!("spec.clusterIPs[{i}]"), &spec["clusterIPs"], why));
        } else {
            families.push(json!("IPv4"));
        }
    }
    if !found.is_empty() {
        return Err(found);
    }
    if free {
        if families.is_empty() {
            families.push(json!("IPv4"));
        }
        if families.len() < 2 && !single {
            families.push(json!(if families[0] == "IPv4" { "IPv6" } else { "IPv4" }));
        }
        spec["ipFamilies"] = families.into();
        return Ok(());
    }
    if spec["ipFamilyPolicy"] == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        found.push(StatusCause::invalid("spec.ipFamilyPolicy", &spec["ipFamilyPolicy"], why));
    }
    for (i, family) in families.iter().enumerate().filter(|(_, family)| *family != "IPv4") {
        found.push(StatusCause::invalid(
            format!("spec.ipFamilies[{i}]"),
            family,
            "not configured on this cluster",
        ));
    }
    if !found.is_empty() {
        return Err(found);
    }
    if families.is_empty() {
        families.push(json!("IPv4"));
    }
    spec["ipFamilies"] = families.into();
    Ok(())
}

const ALLOCATED: &str = "provided port is already allocated";

/// The ports one service is being given.
struct PortAllocation<'t> {
    taken: &'t mut TakenAddresses,
    owner: &'t str,
    dry_run: bool,
    mine: Vec<i64>,
}

impl PortAllocation<'_> {
    fn take_port(&mut self, port: i64) -> Result<(), GoError> {
        let number = u16::try_from(port).ok();
        let holder = number.and_then(|number| self.taken.ports.get(&number));
        let held = holder.is_some_and(|holder| self.dry_run || holder != self.owner);
        match number.filter(|number| PORTS.contains(number)) {
            _ if held || self.mine.contains(&port) => return Err(ALLOCATED.into()),
            _ if self.dry_run => {}
            None => {
                return Err(
                    "provided port is not in the valid range. The range of valid ports is 30000-32767".into(),
                );
            }
            Some(number) => {
                self.taken.ports.insert(number, self.owner.to_owned());
            }
        }
        self.mine.push(port);
        Ok(())
    }

    /// Any port that is free. A dry run makes one up.
    fn any_port(&mut self) -> i64 {
        let port = if self.dry_run {
            self.mine.iter().copied().max().map_or(32768, |port| port.max(0)) + 1
        } else {
            let free = self.taken.free_port();
            self.taken.ports.insert(free, self.owner.to_owned());
            i64::from(free)
        };
        self.mine.push(port);
        port
    }

    fn fill_ports(&mut self, spec: &mut Value, before: Option<&Value>) -> Result<(), AllocationRefusal> {
        if matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer")) {
            match before {
                None => self.fill_new_service(spec)?,
                Some(before) => self.fill_changed_service(spec, before)?,
            }
        }
        // External load balancers check the health of each node on a port of its own.
        let watched =
            |spec: &Value| spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local";
        if watched(spec) && !before.is_some_and(watched) {
            match spec["healthCheckNodePort"].as_i64().unwrap_or(0) {
                0 => spec["healthCheckNodePort"] = self.any_port().into(),
                port => self.take_port(port).map_err(|why| {
                    AllocationRefusal::Failed(format!(
                        "Internal error occurred: failed to allocate requested HealthCheck NodePort {port}: {why}"
                    ))
                })?,
            }
        }
        Ok(())
    }

    /// The ports of a new service. Ports of one number share that of the nodes.
    fn fill_new_service(&mut self, spec: &mut Value) -> Result<(), AllocationRefusal> {
        let wanted = wants_ports(spec);
        let asked: Vec<(i64, i64)> =
            indexed_items(&spec["ports"]).map(|(_, port)| port_numbers(port)).collect();
        let mut given: BTreeMap<i64, i64> = BTreeMap::new();
        for (i, port) in spec["ports"].as_array_mut().into_iter().flatten().enumerate() {
            let (number, mut on_node) = port_numbers(port);
            if on_node == 0 && !wanted {
                continue;
            }
            let refuse = |shown: i64, why: GoError| {
                vec![StatusCause::invalid(format!("spec.ports[{i}].nodePort"), &shown.into(), &why)]
            };
            match given.get(&number).copied() {
                None => {
                    let known = asked.iter().find(|(other, on_node)| *other == number && *on_node != 0);
                    on_node = match known {
                        Some((_, on_node)) => {
                            self.take_port(*on_node).map_err(|why| refuse(*on_node, why))?;
                            *on_node
                        }
                        None => self.any_port(),
                    };
                    given.insert(number, on_node);
                    port["nodePort"] = on_node.into();
                }
                Some(shared) if on_node == 0 => port["nodePort"] = shared.into(),
                Some(shared) if on_node != shared => {
                    self.take_port(on_node).map_err(|why| refuse(on_node, why))?;
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The ports of a service that has some already.
    fn fill_changed_service(&mut self, spec: &mut Value, before: &Value) -> Result<(), AllocationRefusal> {
        let wanted = wants_ports(spec);
        let had: Vec<i64> = indexed_items(&before["ports"]).map(|(_, port)| port_numbers(port).1).collect();
        let mut seen = Vec::new();
        for (i, port) in spec["ports"].as_array_mut().into_iter().flatten().enumerate() {
            let mut on_node = port_numbers(port).1;
            if on_node == 0 {
                if !wanted {
                    continue;
                }
                on_node = self.any_port();
                port["nodePort"] = on_node.into();
            } else if !had.contains(&on_node) && !self.mine.contains(&on_node) {
                self.take_port(on_node).map_err(|why| {
                    vec![StatusCause::invalid(format!("spec.ports[{i}].nodePort"), &on_node.into(), &why)]
                })?;
            }
            let one = format!("{{{} {on_node}}}", port["protocol"].as_str().unwrap_or(""));
            if seen.contains(&one) {
                return Err(AllocationRefusal::Failed(format!("duplicate nodePort: {one}")));
            }
            seen.push(one);
        }
        Ok(())
    }
}

/// Returns true if nodes open a port for each port of a service.
fn wants_ports(spec: &Value) -> bool {
    spec["type"] == "NodePort" || spec["allocateLoadBalancerNodePorts"] != false
}

/// The number of a port, and that on the nodes.
fn port_numbers(port: &Value) -> (i64, i64) {
    (port["port"].as_i64().unwrap_or(0), port["nodePort"].as_i64().unwrap_or(0))
}

impl TakenAddresses {
    /// The address a service asks for, or any.
    fn allocate_address(
        &mut self,
        owner: &str,
        spec: &mut Value,
        dry_run: bool,
    ) -> Result<(), Vec<StatusCause>> {
        let asked = spec["clusterIP"].as_str().unwrap_or("").to_owned();
        let address = if asked.is_empty() {
            let address =
                if dry_run { Ipv4Addr::new(NETWORK[0], NETWORK[1], 0, 0) } else { self.free_address() };
            spec["clusterIP"] = address.to_string().into();
            spec["clusterIPs"] = json!([address.to_string()]);
            address
        } else {
            let fail = |why: &str| {
                let why = format!("failed to allocate IP {asked}: {why}");
                vec![StatusCause::invalid("spec.clusterIPs", &spec["clusterIPs"], &why)]
            };
            let Ok(address) = asked.parse::<Ipv4Addr>() else { return Ok(()) };
            let octets = address.octets();
            if octets[..2] != NETWORK || octets[2..] == [0, 0] || octets[2..] == [255, 255] {
                return Err(fail(&format!(
                    "the provided IP ({asked}) is not in the valid range. The range of valid IPs is 10.96.0.0/16"
                )));
            }
            if self.addresses.get(&address).is_some_and(|holder| holder != owner) {
                return Err(fail("provided IP is already allocated"));
            }
            address
        };
        if !dry_run {
            self.addresses.insert(address, owner.to_owned());
        }
        Ok(())
    }

    fn free_address(&mut self) -> Ipv4Addr {
        // The first 16 addresses are left for those who choose theirs.
        for _ in 0..u16::MAX {
            self.next_address =
                if self.next_address >= u16::MAX - 1 { 16 } else { self.next_address.max(16) + 1 };
            let [high, low] = self.next_address.to_be_bytes();
            let address = Ipv4Addr::new(NETWORK[0], NETWORK[1], high, low);
            if !self.addresses.contains_key(&address) {
                return address;
            }
        }
        Ipv4Addr::new(NETWORK[0], NETWORK[1], 255, 255)
    }

    fn free_port(&mut self) -> u16 {
        for _ in PORTS {
            self.next_port = if self.next_port >= *PORTS.end() {
                *PORTS.start()
            } else {
                self.next_port.max(*PORTS.start()) + 1
            };
            if !self.ports.contains_key(&self.next_port) {
                return self.next_port;
            }
        }
        *PORTS.end()
    }
}

fn cluster_addresses(service: &Value) -> impl Iterator<Item = Ipv4Addr> {
    service["spec"]["clusterIPs"].as_array().into_iter().flatten().filter_map(|a| a.as_str()?.parse().ok())
}

fn node_ports(service: &Value) -> impl Iterator<Item = u16> {
    service["spec"]["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|p| &p["nodePort"])
        .chain([&service["spec"]["healthCheckNodePort"]])
        .filter_map(|p| p.as_u64().and_then(|n| u16::try_from(n).ok()))
        .filter(|p| *p != 0)
}
