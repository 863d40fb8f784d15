//! Validation of IP addresses and address ranges.

use std::net::{IpAddr, Ipv6Addr};

use serde_json::{Value, json};

use super::CauseList;
use crate::status::StatusCause;

pub(crate) const BAD_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const BAD_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Parses an address leniently, as older versions did: numbers may have leading zeros.
pub(crate) fn parse_lenient_ip(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse() {
        return Some(ip);
    }
    let bare: Vec<&str> = text.split('.').collect();
    let digits = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if bare.len() != 4 || !bare.iter().all(digits) {
        return None;
    }
    let short = bare.iter().map(|part| match part.trim_start_matches('0') {
        "" => "0",
        number => number,
    });
    short.collect::<Vec<_>>().join(".").parse().ok()
}

fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

/// Returns the problem of an address.
pub(crate) fn ip_problem(text: &str) -> Option<&'static str> {
    match (text.parse::<IpAddr>(), parse_lenient_ip(text)) {
        (Ok(ip), _) if is_mapped(ip) => Some("must not be an IPv4-mapped IPv6 address"),
        (Ok(_), _) => None,
        (Err(_), Some(_)) => Some("must not have leading 0s"),
        (Err(_), None) => Some(BAD_IP),
    }
}

/// Returns the problem of an address that must be written in the one best way.
pub(crate) fn canonical_ip_problem(text: &str) -> Option<String> {
    if let Some(why) = ip_problem(text) {
        return Some(why.to_owned());
    }
    let best = text.parse::<IpAddr>().ok()?.to_string();
    (best != text).then(|| format!("must be in canonical form ({best:?})"))
}

/// The address and the length of a range, leniently read.
pub(crate) fn parse_range(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, bits) = text.split_once('/')?;
    let ip = parse_lenient_ip(ip)?;
    let longest = if ip.is_ipv4() { 32 } else { 128 };
    let digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    let bits = bits.parse::<u8>().ok().filter(|b| digits && *b <= longest)?;
    Some((ip, bits))
}

/// An address as a number, its first bit at the top whatever the family.
pub(crate) fn address_bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)) << 96,
        IpAddr::V6(ip) => u128::from(ip),
    }
}

/// Returns the problem of a range of addresses.
pub(crate) fn cidr_problem(text: &str) -> Option<&'static str> {
    let Some((ip, bits)) = parse_range(text) else { return Some(BAD_CIDR) };
    let (written, length) = text.split_once('/').unwrap_or((text, ""));
    if written.parse::<IpAddr>().is_err() || (length.len() > 1 && length.starts_with('0')) {
        return Some("must not have leading 0s in IP or prefix length");
    }
    if is_mapped(ip) {
        return Some("must not have an IPv4-mapped IPv6 address");
    }
    let beyond = address_bits(ip).checked_shl(u32::from(bits)).unwrap_or(0);
    (beyond != 0).then_some("must not have bits set beyond the prefix length")
}

/// Reports the problem of an address at `field`.
pub(crate) fn check_ip(value: &Value, field: &str, out: &mut CauseList) -> bool {
    let text = value.as_str().unwrap_or("");
    let problem = ip_problem(text);
    if let Some(why) = problem {
        out.push(StatusCause::invalid(field, &json!(text), why));
    }
    problem.is_none()
}

/// Reports the problem of a range at `field`.
pub(crate) fn check_cidr(text: &str, field: &str, out: &mut CauseList) {
    if let Some(why) = cidr_problem(text) {
        out.push(StatusCause::invalid(field, &json!(text), why));
    }
}

/// Validates an address that clients can reach.
pub(crate) fn check_reachable(value: &Value, field: &str, out: &mut CauseList) {
    let text = value.as_str().unwrap_or("");
    let Some(ip) = parse_lenient_ip(text) else {
        out.push(StatusCause::invalid(field, &json!(text), "must be a valid IP address"));
        return;
    };
    let (local, shared) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (starts_with_bits(ip, 0xfe80, 0xffc0), starts_with_bits(ip, 0xff02, 0xff0f)),
    };
    let unspecified = format!("may not be unspecified ({text})");
    for (holds, why) in [
        (ip.is_unspecified(), unspecified.as_str()),
        (ip.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (shared, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ] {
        if holds {
            out.push(StatusCause::invalid(field, &json!(text), why));
        }
    }
}

fn starts_with_bits(ip: Ipv6Addr, start: u16, mask: u16) -> bool {
    ip.segments()[0] & mask == start
}
