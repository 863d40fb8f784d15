//! The addresses a client may connect to, for requests whose target somebody else has written.
//!
//! A name is looked up by the client itself, so that what was judged is what is connected to; every redirect is judged
//! anew. Private networks are fine: the services of a cluster live there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use crate::HttpError;
use crate::request::shown_url;

/// Keeps requests away from the machine they are made on, its link and the services of its cloud for its machines.
///
/// A proxy of the system connects on its own behalf: names are judged as they are known here, and the proxy has the
/// last word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// Names or addresses of hosts, without a port, that may be called although their addresses are special.
    pub allowed_hosts: BTreeSet<String>,
    /// Addresses of names that are not looked up, as a file of hosts has them.
    pub known_hosts: BTreeMap<String, Vec<IpAddr>>,
}

/// The reason a host is not connected to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("{host} leads to {address}, an address of this machine, its link or its cloud")]
    Forbidden { host: String, address: IpAddr },
    #[error("the host {host} cannot be found: {reason}")]
    Unknown { host: String, reason: String },
}

/// Services of clouds for their machines that no range of special addresses has.
const CLOUD_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];
const CLOUD_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

impl AddressPolicy {
    /// Tells that a URL may be asked for. Names that cannot be found are left to whoever connects.
    pub async fn check_url(&self, url: &Url) -> Result<(), HttpError> {
        let forbidden = |address| HttpError::ForbiddenAddress { address: shown_url(url), leads_to: address };
        let addresses = match url.host() {
            None => return Err(HttpError::Invalid(format!("{} names no host", shown_url(url)))),
            Some(Host::Ipv4(address)) => vec![IpAddr::V4(address)],
            Some(Host::Ipv6(address)) => vec![IpAddr::V6(address)],
            Some(Host::Domain(name)) => return self.check_host(name).await.map_err(forbidden),
        };
        let refused = addresses.into_iter().find(|address| !self.allows(&address.to_string(), *address));
        refused.map_or(Ok(()), |address| Err(forbidden(address)))
    }

    /// Tells that a host, a name or an address, may be connected to; the error is the address it may not lead to.
    pub async fn check_host(&self, host: &str) -> Result<(), IpAddr> {
        match self.resolve(host).await {
            Err(AddressError::Forbidden { address, .. }) => Err(address),
            Ok(_) | Err(AddressError::Unknown { .. }) => Ok(()),
        }
    }

    /// The addresses of a host, all of which may be connected to.
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, AddressError> {
        let bare = bare_host(host);
        let unknown = |reason: String| AddressError::Unknown { host: host.to_owned(), reason };
        let addresses = match (bare.parse::<IpAddr>(), self.known_hosts.get(&bare)) {
            (Ok(address), _) => vec![address],
            (Err(_), Some(known)) => known.clone(),
            // A port is asked for and of no interest.
            (Err(_), None) => match tokio::net::lookup_host((bare.as_str(), 0)).await {
                Ok(found) => found.map(|found| found.ip()).collect(),
                Err(error) => return Err(unknown(error.to_string())),
            },
        };
        match addresses.iter().find(|address| !self.allows(&bare, **address)) {
            Some(address) => Err(AddressError::Forbidden { host: host.to_owned(), address: *address }),
            None if addresses.is_empty() => Err(unknown("it has no address".to_owned())),
            None => Ok(addresses),
        }
    }

    fn allows(&self, host: &str, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let is_meant = |allowed: &String| {
            let allowed = bare_host(allowed);
            allowed == host || allowed.parse::<IpAddr>().is_ok_and(|one| one.to_canonical() == address)
        };
        !is_special(address) || self.allowed_hosts.iter().any(is_meant)
    }
}

impl Resolve for AddressPolicy {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.clone();
        Box::pin(async move {
            let addresses = AddressPolicy::resolve(&policy, name.as_str()).await?;
            // Whoever connects fills the port in.
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

/// A host without brackets, capitals and the dot that ends a whole name.
fn bare_host(host: &str) -> String {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.strip_suffix('.').unwrap_or(bare).to_ascii_lowercase()
}

/// Tells that an address belongs to this machine, its link or its cloud.
fn is_special(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_special_v4(address),
        IpAddr::V6(address) => {
            address.is_loopback()
                || address.is_unspecified()
                || address.is_multicast()
                || address.is_unicast_link_local()
                || CLOUD_V6.contains(&address)
                || embedded_v4(address).is_some_and(is_special_v4)
        }
    }
}

fn is_special_v4(address: Ipv4Addr) -> bool {
    address.is_loopback()
        || address.is_link_local()
        || address.is_unspecified()
        || address.is_multicast()
        || address.is_broadcast()
        || address.octets()[0] == 0
        || CLOUD_V4.contains(&address)
}

/// The IPv4 address a gateway would connect to: compatible (`::a.b.c.d`), NAT64 and 6to4 addresses hold one.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let joined = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match (a, b) {
        (0, 0) if [c, d, e, f] == [0; 4] => Some(joined(g, h)),
        (0x64, 0xff9b) => Some(joined(g, h)),
        (0x2002, _) => Some(joined(b, c)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientOptions, HttpClient, HttpRequest, Method, parse_url};

    #[test]
    fn addresses_of_the_machine_and_its_cloud_are_special() {
        for (address, expected) in [
            ("127.0.0.1", true),
            ("127.8.9.10", true),
            ("169.254.169.254", true),
            ("169.254.170.2", true),
            ("100.100.100.200", true),
            ("168.63.129.16", true),
            ("192.0.0.192", true),
            ("0.0.0.0", true),
            ("0.1.2.3", true),
            ("255.255.255.255", true),
            ("224.0.0.1", true),
            ("::", true),
            ("::1", true),
            ("fe80::1", true),
            ("ff02::1", true),
            ("fd00:ec2::254", true),
            ("fd20:ce::254", true),
            ("::ffff:169.254.169.254", true),
            ("::ffff:127.0.0.1", true),
            ("::169.254.169.254", true),
            ("64:ff9b::a9fe:a9fe", true),
            ("2002:a9fe:a9fe::1", true),
            ("10.0.0.7", false),
            ("172.16.0.1", false),
            ("192.168.1.1", false),
            ("93.184.216.34", false),
            ("::ffff:10.0.0.7", false),
            ("64:ff9b::a00:7", false),
            ("fd12::1", false),
            ("2606:2800:220:1::1", false),
        ] {
            assert_eq!(is_special(address.parse().unwrap()), expected, "{address}");
        }
    }

    fn policy() -> AddressPolicy {
        let known = [
            ("metadata.example", vec!["169.254.169.254"]),
            ("half.example", vec!["10.0.0.7", "169.254.169.254"]),
            ("six.example", vec!["fd00:ec2::254"]),
            ("mapped.example", vec!["::ffff:169.254.169.254"]),
            ("fine.example", vec!["10.0.0.7"]),
        ];
        let parsed = |texts: Vec<&str>| texts.into_iter().map(|text| text.parse().unwrap()).collect();
        AddressPolicy {
            allowed_hosts: BTreeSet::new(),
            known_hosts: known.into_iter().map(|(name, texts)| (name.to_owned(), parsed(texts))).collect(),
        }
    }

    #[tokio::test]
    async fn however_a_special_address_is_written_it_is_refused() {
        for (url, is_allowed) in [
            ("http://169.254.169.254/latest/meta-data", false),
            ("http://2852039166/", false),
            ("http://0xA9FEA9FE/", false),
            ("http://0251.0376.0251.0376/", false),
            ("http://169.254.43518/", false),
            ("http://127.1/", false),
            ("http://0/", false),
            ("http://[fd00:ec2::254]/", false),
            ("http://[::ffff:169.254.169.254]/", false),
            ("http://[::ffff:a9fe:a9fe]:80/", false),
            ("http://metadata.example/", false),
            ("http://METADATA.example./", false),
            ("http://half.example/", false),
            ("http://six.example/", false),
            ("http://mapped.example/", false),
            ("http://localhost:8080/", false),
            ("http://fine.example/", true),
            ("http://10.0.0.7/", true),
            ("https://93.184.216.34/", true),
        ] {
            let judged = policy().check_url(&parse_url(url).unwrap()).await;
            assert_eq!(judged.is_ok(), is_allowed, "{url}: {judged:?}");
        }
    }

    #[tokio::test]
    async fn a_host_is_allowed_by_name_or_by_address() {
        let allowing = |host: &str| AddressPolicy { allowed_hosts: [host.to_owned()].into(), ..policy() };
        for (allowed, url, is_allowed) in [
            ("metadata.example", "http://metadata.example/", true),
            ("Metadata.Example.", "http://metadata.example/", true),
            ("other.example", "http://metadata.example/", false),
            ("169.254.169.254", "http://metadata.example/", true),
            ("169.254.169.254", "http://mapped.example/", true),
            ("::1", "http://[::1]/", true),
            ("[::1]", "http://[0:0::1]/", true),
            ("127.0.0.1", "http://127.0.0.2/", false),
        ] {
            let judged = allowing(allowed).check_url(&parse_url(url).unwrap()).await;
            assert_eq!(judged.is_ok(), is_allowed, "{allowed} {url}: {judged:?}");
        }
    }

    /// Serves one answer to every connection, and counts them.
    async fn serve_answer(answer: String) -> (u16, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
        use std::sync::atomic::{AtomicUsize, Ordering};
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let count = std::sync::Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let mut seen = [0; 4096];
                let _ = stream.read(&mut seen).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        (port, count)
    }

    #[tokio::test]
    async fn a_redirect_to_a_special_address_is_not_followed() {
        let (secret_port, secrets) =
            serve_answer("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".into()).await;
        let allowed_hosts = BTreeSet::from(["entry.example".to_owned()]);
        let known = [("entry.example", "127.0.0.1"), ("inner.example", "127.0.0.1")];
        let known = known.map(|(name, address)| (name.to_owned(), vec![address.parse().unwrap()]));
        let policy = AddressPolicy { allowed_hosts, known_hosts: known.into() };
        for target in ["127.0.0.1", "inner.example", "0x7f000001", "[::ffff:127.0.0.1]", "localhost"] {
            let answer = format!(
                "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{target}:{secret_port}/\r\ncontent-length: 0\r\n\r\n"
            );
            let (port, entries) = serve_answer(answer).await;
            let options = ClientOptions { addresses: Some(policy.clone()), ..ClientOptions::default() };
            let client = HttpClient::new(&options).unwrap();
            let url = parse_url(&format!("http://entry.example:{port}/")).unwrap();
            let error = client.send_request(HttpRequest::new(Method::GET, url)).await.err();
            assert!(matches!(error, Some(HttpError::ForbiddenAddress { .. })), "{target}: {error:?}");
            assert_eq!(entries.load(std::sync::atomic::Ordering::SeqCst), 1, "{target}");
        }
        assert_eq!(secrets.load(std::sync::atomic::Ordering::SeqCst), 0);
    }

    /// A name may lead elsewhere the second time it is asked for: what connects asks the same policy.
    #[tokio::test]
    async fn the_connection_itself_is_judged() {
        let refused = Resolve::resolve(&policy(), "metadata.example".parse().unwrap()).await;
        let error = refused.err().unwrap();
        assert!(matches!(error.downcast_ref(), Some(AddressError::Forbidden { .. })), "{error}");
        let found = Resolve::resolve(&policy(), "fine.example".parse().unwrap()).await;
        assert_eq!(found.unwrap().next().unwrap().ip().to_string(), "10.0.0.7");
    }
}
