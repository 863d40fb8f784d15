//! Cluster addresses and node ports of services.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::status::Cause;

/// The service network, 10.96.0.0/16.
const NETWORK: [u8; 2] = [10, 96];
const PORTS: std::ops::RangeInclusive<u16> = 30000..=32767;

/// What is taken, and by whom (namespace/name).
#[derive(Default)]
pub(crate) struct Allocator(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    addresses: BTreeMap<Ipv4Addr, String>,
    ports: BTreeMap<u16, String>,
    next_address: u16,
    next_port: u16,
}

impl Allocator {
    fn lock(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets every holder.
    pub(crate) fn clear(&self) {
        *self.lock() = Taken::default();
    }

    /// Takes note of a service that is stored.
    pub(crate) fn adopt(&self, owner: &str, service: &Value) {
        let mut taken = self.lock();
        for address in addresses(service) {
            taken.addresses.insert(address, owner.to_owned());
        }
        for port in ports(service) {
            taken.ports.insert(port, owner.to_owned());
        }
    }

    /// Gives back what a service holds beyond `keep`.
    pub(crate) fn release(&self, owner: &str, keep: Option<&Value>) {
        let kept: BTreeSet<Ipv4Addr> = keep.map(|s| addresses(s).collect()).unwrap_or_default();
        let kept_ports: BTreeSet<u16> = keep.map(|s| ports(s).collect()).unwrap_or_default();
        let mut taken = self.lock();
        taken.addresses.retain(|a, o| o != owner || kept.contains(a));
        taken.ports.retain(|p, o| o != owner || kept_ports.contains(p));
    }

    /// Fills in the addresses and ports of a service. A dry run holds nothing.
    pub(crate) fn fill(
        &self,
        owner: &str,
        service: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<(), Vec<Cause>> {
        let spec = &mut service["spec"];
        let kind = spec["type"].as_str().unwrap_or("ClusterIP").to_owned();
        if kind == "ExternalName" {
            return Ok(());
        }
        let mut taken = self.lock();
        let unset = spec["clusterIP"].as_str().unwrap_or("").is_empty();
        let listed = spec["clusterIPs"].as_array().is_some_and(|a| !a.is_empty());
        if unset && listed && old.is_none() {
            let all = &spec["clusterIPs"];
            let mut causes = vec![Cause::invalid(
                "spec.clusterIPs",
                all,
                "must be empty when `clusterIP` is not specified",
            )];
            let four = |ip: &&Value| ip.as_str().is_some_and(|ip| ip.parse::<Ipv4Addr>().is_ok());
            if all.as_array().into_iter().flatten().filter(four).count() > 1 {
                let why = "may specify no more than one IP for each IP family";
                causes.push(Cause::invalid("spec.clusterIPs", all, why));
            }
            return Err(causes);
        }
        if unset && listed {
            spec["clusterIP"] = spec["clusterIPs"][0].clone();
        }
        let unset = spec["clusterIP"].as_str().unwrap_or("").is_empty();
        // Whoever writes its endpoints decides the families of a service without a selector or address.
        let free =
            spec["clusterIP"] == "None" && spec["selector"].as_object().is_none_or(serde_json::Map::is_empty);
        if free && old.is_none() && spec["ipFamilyPolicy"].is_null() && spec["ipFamilies"].is_null() {
            spec["ipFamilyPolicy"] = json!("RequireDualStack");
            spec["ipFamilies"] = json!(["IPv4", "IPv6"]);
        }
        if spec["ipFamilyPolicy"].is_null() {
            spec["ipFamilyPolicy"] = json!("SingleStack");
        }
        if !free && spec["ipFamilyPolicy"] == "RequireDualStack" {
            return Err(vec![Cause::invalid(
                "spec.ipFamilyPolicy",
                &spec["ipFamilyPolicy"],
                "this cluster is not configured for dual-stack services",
            )]);
        }
        let families = spec["ipFamilies"].as_array().cloned().unwrap_or_default();
        let other = families.iter().enumerate().find(|(_, family)| *family == "IPv6");
        if let Some((i, family)) = other.filter(|_| !free) {
            return Err(vec![Cause::invalid(
                format!("spec.ipFamilies[{i}]"),
                family,
                "not configured on this cluster",
            )]);
        }
        if families.is_empty() {
            spec["ipFamilies"] = json!(["IPv4"]);
        }
        if unset {
            let address = if dry_run {
                Ipv4Addr::new(NETWORK[0], NETWORK[1], 0, 0)
            } else {
                let address = taken.free_address();
                taken.addresses.insert(address, owner.to_owned());
                address
            };
            spec["clusterIP"] = address.to_string().into();
            spec["clusterIPs"] = json!([address.to_string()]);
        } else {
            if spec["clusterIPs"].as_array().is_none_or(Vec::is_empty) {
                spec["clusterIPs"] = json!([spec["clusterIP"]]);
            }
            let asked = spec["clusterIP"].as_str().unwrap_or("").to_owned();
            let before = old.and_then(|o| o["spec"]["clusterIP"].as_str());
            if asked != "None" && before != Some(asked.as_str()) {
                let listed = spec["clusterIPs"].clone();
                let fail = |why: String| {
                    vec![Cause::invalid(
                        "spec.clusterIPs",
                        &listed,
                        &format!("failed to allocate IP {asked}: {why}"),
                    )]
                };
                if asked.parse::<std::net::Ipv6Addr>().is_ok() {
                    let why = "IPv6 is not configured on this cluster";
                    return Err(vec![Cause::invalid("spec.clusterIPs[0]", &listed, why)]);
                }
                let Ok(address) = asked.parse::<Ipv4Addr>() else { return Ok(()) };
                let octets = address.octets();
                if octets[..2] != NETWORK || address.octets()[2..] == [0, 0] || octets[2..] == [255, 255] {
                    return Err(fail(format!(
                        "the provided IP ({asked}) is not in the valid range. The range of valid IPs is 10.96.0.0/16"
                    )));
                }
                if taken.addresses.get(&address).is_some_and(|o| o != owner) {
                    return Err(fail("provided IP is already allocated".into()));
                }
                if !dry_run {
                    taken.addresses.insert(address, owner.to_owned());
                }
            }
        }
        let wants_ports =
            kind == "NodePort" || (kind == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] != false);
        if wants_ports {
            let mut mine = BTreeSet::new();
            let mut said = BTreeSet::new();
            for (i, port) in spec["ports"].as_array_mut().into_iter().flatten().enumerate() {
                let number = port["nodePort"].as_i64().unwrap_or(0);
                let asked = u16::try_from(number).unwrap_or(0);
                if asked == 0 && number != 0 {
                    return Err(vec![Cause::invalid(
                        format!("spec.ports[{i}].nodePort"),
                        &number.into(),
                        "provided port is not in the valid range. The range of valid ports is 30000-32767",
                    )]);
                }
                if asked == 0 {
                    let free = taken.free_port(&mine);
                    mine.insert(free);
                    if !dry_run {
                        taken.ports.insert(free, owner.to_owned());
                    }
                    port["nodePort"] = free.into();
                    continue;
                }
                // Two protocols may share a number.
                if !said.insert((asked, port["protocol"].to_string())) {
                    let field = format!("spec.ports[{i}].nodePort");
                    let why = "provided port is already allocated";
                    return Err(vec![Cause::invalid(field, &asked.into(), why)]);
                }
                let before = old.is_some_and(|o| ports(o).any(|p| p == asked));
                if !before && !dry_run {
                    let field = format!("spec.ports[{i}].nodePort");
                    if !PORTS.contains(&asked) {
                        return Err(vec![Cause::invalid(
                            field,
                            &asked.into(),
                            "provided port is not in the valid range. The range of valid ports is 30000-32767",
                        )]);
                    }
                    if taken.ports.get(&asked).is_some_and(|o| o != owner) {
                        return Err(vec![Cause::invalid(
                            field,
                            &asked.into(),
                            "provided port is already allocated",
                        )]);
                    }
                    taken.ports.insert(asked, owner.to_owned());
                }
                mine.insert(asked);
            }
        }
        // Outside balancers ask each node for its health on a port of its own.
        if kind == "LoadBalancer"
            && spec["externalTrafficPolicy"] == "Local"
            && spec["healthCheckNodePort"].as_i64().unwrap_or(0) == 0
        {
            let port = match old.and_then(|o| o["spec"]["healthCheckNodePort"].as_u64()) {
                Some(port) => u16::try_from(port).unwrap_or(*PORTS.end()),
                None => taken.free_port(&BTreeSet::new()),
            };
            if !dry_run {
                taken.ports.insert(port, owner.to_owned());
            }
            spec["healthCheckNodePort"] = port.into();
        }
        Ok(())
    }
}

impl Taken {
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

    fn free_port(&mut self, also: &BTreeSet<u16>) -> u16 {
        for _ in PORTS {
            self.next_port = if self.next_port >= *PORTS.end() {
                *PORTS.start()
            } else {
                self.next_port.max(*PORTS.start()) + 1
            };
            if !self.ports.contains_key(&self.next_port) && !also.contains(&self.next_port) {
                return self.next_port;
            }
        }
        *PORTS.end()
    }
}

fn addresses(service: &Value) -> impl Iterator<Item = Ipv4Addr> {
    service["spec"]["clusterIPs"].as_array().into_iter().flatten().filter_map(|a| a.as_str()?.parse().ok())
}

fn ports(service: &Value) -> impl Iterator<Item = u16> {
    service["spec"]["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|p| &p["nodePort"])
        .chain([&service["spec"]["healthCheckNodePort"]])
        .filter_map(|p| p.as_u64().and_then(|n| u16::try_from(n).ok()))
        .filter(|p| *p != 0)
}
