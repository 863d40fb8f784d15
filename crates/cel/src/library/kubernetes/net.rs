//! IP addresses and networks.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use super::{Functions, inside, opaque, opaque_type};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ip(IpAddr);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cidr {
    ip: IpAddr,
    length: u8,
}

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.length)
    }
}

opaque_type!(Ip, "net.IP");
opaque_type!(Cidr, "net.CIDR");

/// Reads an address; IPv4 written as IPv6 and zones are refused, as Kubernetes does.
fn parse_ip(text: &str) -> Result<IpAddr, EvalError> {
    let invalid =
        || EvalError::invalid(format!("IP Address {text:?} parse error during conversion from string"));
    let ip: IpAddr = text.parse().map_err(|_| invalid())?;
    match ip {
        IpAddr::V6(six) if six.to_ipv4_mapped().is_some() => {
            Err(EvalError::invalid(format!("IPv4-mapped IPv6 address {text:?} is not allowed")))
        }
        ip => Ok(ip),
    }
}

fn parse_cidr(text: &str) -> Result<Cidr, EvalError> {
    let invalid =
        || EvalError::invalid(format!("network address parse error during conversion from string: {text:?}"));
    let (ip, length) = text.split_once('/').ok_or_else(invalid)?;
    let ip = parse_ip(ip).map_err(|_| invalid())?;
    let plain = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
    let plain = plain && (length == "0" || !length.starts_with('0'));
    let length: u8 = length.parse().map_err(|_| invalid())?;
    if !plain || length > if ip.is_ipv4() { 32 } else { 128 } {
        return Err(invalid());
    }
    Ok(Cidr { ip, length })
}

/// The address as a number, with the network's bits alone.
fn bits(ip: IpAddr, length: u8) -> u128 {
    let (number, width) = match ip {
        IpAddr::V4(four) => (u128::from(four.to_bits()), 32),
        IpAddr::V6(six) => (six.to_bits(), 128),
    };
    let host = width - u32::from(length).min(width);
    number.checked_shr(host).unwrap_or(0).checked_shl(host).unwrap_or(0)
}

impl Cidr {
    fn masked(self) -> Self {
        let number = bits(self.ip, self.length);
        let ip = match self.ip {
            IpAddr::V4(_) => IpAddr::V4((number as u32).into()),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(number)),
        };
        Self { ip, length: self.length }
    }

    fn contains(self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.ip.is_ipv4() && bits(ip, self.length) == bits(self.ip, self.length)
    }
}

fn link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    }
}

fn link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(four) => four.octets()[..3] == [224, 0, 0],
        IpAddr::V6(six) => six.segments()[0] & 0xff0f == 0xff02,
    }
}

fn global(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(four) if four.is_broadcast());
    !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || link_local(ip) || broadcast)
}

pub(super) fn add(functions: &mut Functions) {
    let ip = || Type::opaque("net.IP");
    let cidr = || Type::opaque("net.CIDR");
    functions.function("ip", vec![Type::String], ip(), |_, args| match args {
        [Value::String(text)] => Ok(opaque(Ip(parse_ip(text)?))),
        _ => Err(EvalError::no_overload()),
    });
    functions.function("isIP", vec![Type::String], Type::Bool, |_, args| match args {
        [Value::String(text)] => Ok(Value::Bool(parse_ip(text).is_ok())),
        _ => Err(EvalError::no_overload()),
    });
    functions.function("ip.isCanonical", vec![Type::String], Type::Bool, |_, args| match args {
        [Value::String(text)] => Ok(Value::Bool(parse_ip(text)?.to_string() == **text)),
        _ => Err(EvalError::no_overload()),
    });
    functions.method("family", vec![ip()], Type::Int, |_, args| {
        let Ip(ip) = inside(&args[0])?;
        Ok(Value::Int(if ip.is_ipv4() { 4 } else { 6 }))
    });
    type Test = (&'static str, fn(IpAddr) -> bool);
    let tests: [Test; 5] = [
        ("isUnspecified", |ip| ip.is_unspecified()),
        ("isLoopback", |ip| ip.is_loopback()),
        ("isLinkLocalMulticast", link_local_multicast),
        ("isLinkLocalUnicast", link_local),
        ("isGlobalUnicast", global),
    ];
    for (name, test) in tests {
        functions.method(name, vec![ip()], Type::Bool, move |_, args| {
            let Ip(ip) = inside(&args[0])?;
            Ok(Value::Bool(test(*ip)))
        });
    }
    functions.function("string", vec![ip()], Type::String, |_, args| {
        Ok(Value::string(inside::<Ip>(&args[0])?.to_string()))
    });

    functions.function("cidr", vec![Type::String], cidr(), |_, args| match args {
        [Value::String(text)] => Ok(opaque(parse_cidr(text)?)),
        _ => Err(EvalError::no_overload()),
    });
    functions.function("isCIDR", vec![Type::String], Type::Bool, |_, args| match args {
        [Value::String(text)] => Ok(Value::Bool(parse_cidr(text).is_ok())),
        _ => Err(EvalError::no_overload()),
    });
    for other in [ip(), Type::String] {
        functions.method("containsIP", vec![cidr(), other], Type::Bool, |_, args| {
            let found = match &args[1] {
                Value::String(text) => parse_ip(text)?,
                other => inside::<Ip>(other)?.0,
            };
            Ok(Value::Bool(inside::<Cidr>(&args[0])?.contains(found)))
        });
    }
    for other in [cidr(), Type::String] {
        functions.method("containsCIDR", vec![cidr(), other], Type::Bool, |_, args| {
            let found = match &args[1] {
                Value::String(text) => parse_cidr(text)?,
                other => *inside::<Cidr>(other)?,
            };
            let network = inside::<Cidr>(&args[0])?;
            Ok(Value::Bool(network.contains(found.ip) && network.length <= found.length))
        });
    }
    functions.method("ip", vec![cidr()], ip(), |_, args| Ok(opaque(Ip(inside::<Cidr>(&args[0])?.ip))));
    functions
        .method("masked", vec![cidr()], cidr(), |_, args| Ok(opaque(inside::<Cidr>(&args[0])?.masked())));
    functions.method("prefixLength", vec![cidr()], Type::Int, |_, args| {
        Ok(Value::Int(inside::<Cidr>(&args[0])?.length.into()))
    });
    functions.function("string", vec![cidr()], Type::String, |_, args| {
        Ok(Value::string(inside::<Cidr>(&args[0])?.to_string()))
    });
}
