//! From where a host can be reached, and to which hosts a redirect may lead.
//!
//! A server that anybody may run must not choose addresses that only this machine reaches: services of its network and
//! of its own, and the metadata service of a cloud, which gives credentials. So a redirect leads at most as near as the
//! server is that sends it, and never to a link-local address. The addresses that the user names are his choice.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use embedctl_common::threads::locked;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// From where an address can be reached, from everywhere to almost nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// From everywhere.
    Public,
    /// From a private network.
    Network,
    /// From this machine.
    Machine,
    /// From the same cable: metadata services are there. Groups and reserved addresses count as such.
    Link,
}

impl Reach {
    /// The reach of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        match address.octets() {
            [0 | 127, ..] => Self::Machine,
            [169, 254, ..] | [224..=255, ..] => Self::Link,
            [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Self::Network,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        let v4 = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            Self::of_v4(Ipv4Addr::new(a, b, c, d))
        };
        match address.segments() {
            [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Self::Machine,
            // IPv4 addresses in other forms: mapped, compatible, behind NAT64, 6to4.
            [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => v4(high, low),
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => v4(high, low),
            // The metadata service of AWS.
            [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] => Self::Link,
            [0xfe80..=0xfebf | 0xff00..=0xffff, ..] => Self::Link,
            [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => Self::Network,
            _ => Self::Public,
        }
    }

    /// The reach of a host as an address names it; `None` for a name that has to be resolved.
    #[must_use]
    pub fn of_host(host: &str) -> Option<Self> {
        let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
        let host = host.trim_end_matches('.');
        if host == "localhost" || host.ends_with(".localhost") {
            return Some(Self::Machine);
        }
        if host == "metadata.google.internal" {
            return Some(Self::Link);
        }
        let without_zone = host.split('%').next().unwrap_or_default();
        match without_zone.parse::<Ipv6Addr>() {
            Ok(address) => Some(Self::of_v6(address)),
            Err(_) => numbers(host).map(Self::of_v4),
        }
    }

    /// Whether a server of this reach may redirect to one of that reach.
    #[must_use]
    pub fn may_lead_to(self, other: Self) -> bool {
        other != Self::Link && other <= self
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "a public address",
            Self::Network => "an address of a private network",
            Self::Machine => "an address of this machine",
            Self::Link => "a link-local address",
        })
    }
}

/// An IPv4 address in any form that systems read: one to four numbers, decimal, octal (`0…`) or hexadecimal (`0x…`), the
/// last of which fills the remaining bytes.
fn numbers(host: &str) -> Option<Ipv4Addr> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u64::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    };
    let parts = host.split('.').map(number).collect::<Option<Vec<u64>>>()?;
    let (last, bytes) = parts.split_last()?;
    let rest = 8 * (4_u32.checked_sub(u32::try_from(bytes.len()).ok()?)?);
    if rest == 0 || *last >> rest != 0 || bytes.iter().any(|byte| *byte > 255) {
        return None;
    }
    let high = bytes.iter().fold(0, |high, byte| (high << 8) | byte);
    Some(u32::try_from((high << rest) | last).ok()?.into())
}

/// The hosts that were resolved, with the farthest reach of their addresses.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResolvedReaches(Arc<Mutex<Vec<(String, Reach)>>>);

impl ResolvedReaches {
    /// The reach of a host: as it is written, as it was resolved, or else public, as if behind a proxy.
    pub(crate) fn reach_of(&self, host: &str) -> Reach {
        let known = || {
            let reached = locked(&self.0);
            let known = reached.iter().find(|(name, _)| name == host);
            known.map(|(_, reach)| *reach)
        };
        Reach::of_host(host).or_else(known).unwrap_or(Reach::Public)
    }

    fn add(&self, host: &str, addresses: &[SocketAddr]) {
        let Some(reach) = addresses.iter().map(|it| Reach::of(it.ip())).min() else {
            return;
        };
        let mut reached = locked(&self.0);
        match reached.iter_mut().find(|(name, _)| name == host) {
            Some((_, known)) => *known = reach.min(*known),
            None => reached.push((host.to_owned(), reach)),
        }
    }
}

/// Resolves names as the system does, to addresses that a redirect may lead to.
#[derive(Debug)]
pub(crate) struct ReachResolver {
    pub(crate) reached: ResolvedReaches,
    /// The reach of the farthest server that has redirected; `None` before any redirect.
    pub(crate) from: Option<Reach>,
    /// The proxy, which the user names.
    pub(crate) proxy: Option<Uri>,
}

impl Resolver for ReachResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = DefaultResolver::default().resolve(uri, config, timeout)?;
        let host = uri.host().unwrap_or_default();
        if (self.proxy.as_ref()).is_some_and(|proxy| proxy.authority() == uri.authority()) {
            return Ok(found);
        }
        let mut kept = self.empty();
        for address in &found {
            if (self.from).is_none_or(|from| from.may_lead_to(Reach::of(address.ip()))) {
                kept.push(*address);
            }
        }
        match (kept.is_empty(), found.first()) {
            (true, Some(first)) => Err(ureq::Error::Other(Box::new(RefusedAddress(first.ip())))),
            _ => {
                self.reached.add(host, &kept);
                Ok(kept)
            }
        }
    }
}

/// A redirect leads to an address that is nearer than the server that sent it.
#[derive(Debug)]
pub(crate) struct RefusedAddress(IpAddr);

impl fmt::Display for RefusedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, reach) = (self.0, Reach::of(self.0));
        write!(
            f,
            "its address {address} is {reach}; redirects to it are not followed"
        )
    }
}

impl std::error::Error for RefusedAddress {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_an_address_is_known() {
        use Reach::{Link, Machine, Network, Public};
        for (reach, hosts) in [
            (
                Link,
                &[
                    "169.254.0.0",
                    "169.254.169.254",
                    "169.254.255.255",
                    "169.254.169.254.",
                    "2852039166",
                    "0xA9FEA9FE",
                    "0251.0376.0251.0376",
                    "169.254.43518",
                    "169.16689662",
                    "[fe80::1]",
                    "[fe80::1%25eth0]",
                    "[febf:ffff::1]",
                    "[::ffff:169.254.169.254]",
                    "[::169.254.169.254]",
                    "[64:ff9b::a9fe:a9fe]",
                    "[2002:a9fe:a9fe::1]",
                    "[fd00:ec2::254]",
                    "metadata.google.internal",
                    "Metadata.Google.Internal.",
                    "224.0.0.1",
                    "255.255.255.255",
                    "[ff02::1]",
                ][..],
            ),
            (
                Machine,
                &[
                    "127.0.0.1",
                    "127.255.0.3",
                    "127.1",
                    "0x7f.1",
                    "0",
                    "0.0.0.0",
                    "2130706433",
                    "localhost",
                    "LOCALHOST.",
                    "a.localhost",
                    "[::1]",
                    "[::]",
                    "[::ffff:127.0.0.1]",
                    "[::ffff:7f00:1]",
                ],
            ),
            (
                Network,
                &[
                    "10.0.0.1",
                    "10.255.255.255",
                    "172.16.0.1",
                    "172.31.255.255",
                    "192.168.0.1",
                    "100.64.0.1",
                    "100.127.255.255",
                    "[fc00::1]",
                    "[fd12::1]",
                    "[fec0::1]",
                    "[::ffff:10.0.0.1]",
                    "0xa.1",
                ],
            ),
            (
                Public,
                &[
                    "1.1.1.1",
                    "9.255.255.255",
                    "11.0.0.0",
                    "172.15.0.1",
                    "172.32.0.1",
                    "192.167.0.1",
                    "169.253.255.255",
                    "169.255.0.0",
                    "100.63.0.1",
                    "100.128.0.1",
                    "198.18.0.1",
                    "223.255.255.255",
                    "[2606:4700::1]",
                    "[fbff::1]",
                    "[::ffff:8.8.8.8]",
                    "[64:ff9b::808:808]",
                ],
            ),
        ] {
            for host in hosts {
                assert_eq!(Reach::of_host(host), Some(reach), "{host}");
            }
        }
        for name in [
            "huggingface.co",
            "1.1.1.1.example",
            "0x",
            "1..2",
            "256.1.1.1",
            "1.2.3.4.5",
            "4294967296",
            "face",
            "",
        ] {
            assert_eq!(Reach::of_host(name), None, "{name}");
        }
    }

    #[test]
    fn a_redirect_leads_no_nearer_than_its_server_is() {
        use Reach::{Link, Machine, Network, Public};
        let all = [Public, Network, Machine, Link];
        for from in all {
            for to in all {
                let expected = match (from, to) {
                    (_, Link) => false,
                    (Public, to) => to == Public,
                    (Network, to) => to != Machine,
                    (Machine | Link, _) => true,
                };
                assert_eq!(from.may_lead_to(to), expected, "{from:?} {to:?}");
            }
        }
    }

    #[test]
    fn a_host_is_as_far_as_its_farthest_address() {
        let reached = ResolvedReaches::default();
        let address = |ip: &str| SocketAddr::new(ip.parse().unwrap(), 80);
        assert_eq!(reached.reach_of("name"), Reach::Public);
        reached.add("name", &[address("127.0.0.1"), address("::1")]);
        assert_eq!(reached.reach_of("name"), Reach::Machine);
        reached.add("name", &[address("127.0.0.1"), address("10.0.0.1")]);
        reached.add("name", &[address("127.0.0.1")]);
        assert_eq!(reached.reach_of("name"), Reach::Network);
        assert_eq!(reached.reach_of("127.0.0.1"), Reach::Machine);
    }
}
