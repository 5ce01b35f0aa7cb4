//! Addresses that are never spoken to: link-local ones, where clouds keep their metadata services, and those that
//! name no single machine. Checked twice: as written in the configuration, and as a name resolves when connecting.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Host names of metadata services that may resolve to anything.
const METADATA_HOSTS: [&str; 3] = ["metadata.google.internal", "metadata", "instance-data"];
/// Metadata services outside the link-local ranges: AWS over IPv6, Alibaba, Oracle.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
const METADATA_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192)];

/// Refuses a host as it stands in a URL.
pub(crate) fn check_host(host: &str) -> Result<(), String> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return check_ip(ip);
    }
    let name = bare.trim_end_matches('.').to_ascii_lowercase();
    if METADATA_HOSTS.contains(&name.as_str()) {
        return Err(format!("{host} is a metadata service and is never asked"));
    }
    Ok(())
}

/// Refuses an address.
pub(crate) fn check_ip(ip: IpAddr) -> Result<(), String> {
    let forbidden = match ip {
        IpAddr::V4(v4) => is_forbidden_v4(v4),
        IpAddr::V6(v6) => is_forbidden_v6(v6),
    };
    if forbidden {
        Err(format!("{ip} is a link-local, metadata or group address and is never asked"))
    } else {
        Ok(())
    }
}

fn is_forbidden_v4(ip: Ipv4Addr) -> bool {
    // 0.0.0.0/8 reaches this very machine on Linux.
    ip.is_link_local()
        || ip.octets()[0] == 0
        || ip.is_multicast()
        || ip.is_broadcast()
        || METADATA_V4.contains(&ip)
}

fn is_forbidden_v6(ip: Ipv6Addr) -> bool {
    if ip == Ipv6Addr::LOCALHOST {
        return false;
    }
    ip.is_unicast_link_local()
        || ip.is_unspecified()
        || ip.is_multicast()
        || ip == METADATA_V6
        || embedded_v4(ip).is_some_and(is_forbidden_v4)
}

/// The IPv4 address inside a mapped, compatible, NAT64 or 6to4 address.
fn embedded_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = ip.segments();
    let from = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match s {
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] => Some(from(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(from(high, low)),
        [0x2002, high, low, ..] => Some(from(high, low)),
        _ => None,
    }
}

/// The system's resolver, without the forbidden addresses: what a name means is decided by whoever runs the DNS.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CheckedResolver;

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            // The port is put in by the caller.
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let allowed = only_allowed(name.as_str(), found)?;
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// An address that a name resolved to and that is never spoken to.
#[derive(Debug, thiserror::Error)]
#[error("{host} resolves to {why}")]
pub(crate) struct Forbidden {
    host: String,
    why: String,
}

fn only_allowed(host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Forbidden> {
    // One bad address spoils the name: a resolver that mixes them is being played with.
    for address in &found {
        check_ip(address.ip()).map_err(|why| Forbidden { host: host.to_owned(), why })?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Case 94: a harmless name that resolves to the metadata service is refused when connecting.
    #[test]
    fn a_name_that_resolves_to_a_metadata_address_is_refused_as_a_whole() {
        let good: SocketAddr = "10.0.0.1:0".parse().unwrap();
        let bad: SocketAddr = "169.254.169.254:0".parse().unwrap();
        assert_eq!(only_allowed("prometheus", vec![good]).unwrap(), vec![good]);
        let why = only_allowed("prometheus", vec![good, bad]).unwrap_err().to_string();
        assert!(why.contains("prometheus resolves to 169.254.169.254"), "{why}");
    }

    #[test]
    fn private_and_loopback_addresses_are_allowed() {
        for ip in ["10.1.2.3", "192.168.0.1", "127.0.0.1", "::1", "fd12::1", "2001:db8::1", "::ffff:10.0.0.1"]
        {
            assert!(check_ip(ip.parse().unwrap()).is_ok(), "{ip}");
        }
    }
}
