//! The addresses a pipeline may have the controller call: never those of the machine it runs on or of its cloud.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use slipway_http::{
    ClientOptions, HttpClient, NetworkLimits, NetworkOptions, PinnedHost, RedirectScope, parse_url, shown_url,
};

use super::outcome::{Dependency, StepError};

/// Hosts that may be called although their addresses are special.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboundPolicy {
    /// Names or addresses of hosts, without a port.
    pub allowed_hosts: BTreeSet<String>,
    /// Hosts that are registries without encryption, with a port where there is one.
    pub plain_registries: BTreeSet<String>,
}

/// The address of the metadata service of a cloud over IPv6.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

impl OutboundPolicy {
    /// Tells that an address belongs to this machine, its link or its cloud. Private networks are fine: the services of a
    /// cluster live there.
    fn is_special(address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => is_special_v4(address),
            IpAddr::V6(address) => match address.to_ipv4_mapped() {
                Some(mapped) => is_special_v4(mapped),
                None => {
                    address.is_loopback()
                        || address.is_unspecified()
                        || address.is_multicast()
                        || address.is_unicast_link_local()
                        || address == METADATA_V6
                }
            },
        }
    }

    fn allows(&self, host: &str, address: IpAddr) -> bool {
        !Self::is_special(address)
            || self.allowed_hosts.contains(host)
            || self.allowed_hosts.contains(&address.to_string())
    }
}

fn is_special_v4(address: Ipv4Addr) -> bool {
    // 100.100.100.200 is the metadata service of one cloud; the others are link-local.
    address.is_loopback()
        || address.is_link_local()
        || address.is_unspecified()
        || address.is_multicast()
        || address.is_broadcast()
        || address.octets()[0] == 0
        || address == Ipv4Addr::new(100, 100, 100, 200)
}

/// Looks an address up and makes a client that reaches nothing else.
pub(super) async fn open_client(
    policy: &OutboundPolicy,
    address: &str,
    ca: Option<Vec<u8>>,
    limit: Duration,
    stop: &tokio_util::sync::CancellationToken,
) -> Result<HttpClient, StepError> {
    let url = parse_url(address).map_err(|error| StepError::failed("InvalidURL", error.to_string()))?;
    let shown = shown_url(&url);
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err(StepError::failed("InvalidURL", format!("{shown} names no host")));
    };
    if !url.username().is_empty() || url.password().is_some() {
        let message = format!("{shown} holds credentials: put them into the Secret of the step");
        return Err(StepError::failed("InvalidURL", message));
    }
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let addresses: Vec<SocketAddr> = match bare.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        Err(_) => tokio::net::lookup_host((bare, port))
            .await
            .map_err(|error| {
                let message = format!("{shown}: the host cannot be found: {error}");
                StepError::trouble(Dependency::Webhook, "HostUnknown", message)
            })?
            .collect(),
    };
    if let Some(refused) = addresses.iter().find(|one| !policy.allows(bare, one.ip())) {
        let message = format!("{shown} leads to {}, which pipelines may not call", refused.ip());
        return Err(StepError::failed("ForbiddenAddress", message));
    }
    let pinned = match bare.parse::<IpAddr>() {
        Ok(_) => Vec::new(),
        Err(_) => vec![PinnedHost { host: bare.to_owned(), addresses }],
    };
    let limits = NetworkLimits { connect: Duration::from_secs(10), idle: limit, total: limit };
    let options = ClientOptions {
        ca,
        user_agent: concat!("slipway/", env!("CARGO_PKG_VERSION")).to_owned(),
        redirects: RedirectScope::Nowhere,
        pinned,
        network: NetworkOptions { limits, stop: stop.clone() },
        ..ClientOptions::default()
    };
    HttpClient::new(&options).map_err(|error| StepError::failed("InvalidURL", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_machine_and_its_cloud_are_special() {
        for (address, is_special) in [
            ("127.0.0.1", true),
            ("169.254.169.254", true),
            ("100.100.100.200", true),
            ("0.0.0.0", true),
            ("::1", true),
            ("fe80::1", true),
            ("fd00:ec2::254", true),
            ("::ffff:169.254.169.254", true),
            ("10.0.0.7", false),
            ("192.168.1.1", false),
            ("93.184.216.34", false),
            ("fd12::1", false),
        ] {
            assert_eq!(OutboundPolicy::is_special(address.parse().unwrap()), is_special, "{address}");
        }
    }

    #[test]
    fn a_host_can_be_allowed_by_name_or_address() {
        let policy = OutboundPolicy {
            allowed_hosts: ["hooks.local".to_owned(), "127.0.0.1".to_owned()].into(),
            ..OutboundPolicy::default()
        };
        let address: IpAddr = "127.0.0.2".parse().unwrap();
        assert!(policy.allows("hooks.local", address));
        assert!(!policy.allows("other.local", address));
        assert!(policy.allows("other.local", "127.0.0.1".parse().unwrap()));
    }
}
