//! Addresses of hosts: IP addresses and DNS names.

use std::net::{IpAddr, Ipv6Addr};

use super::{HostName, InvalidValue, text_value};

/// An IP address or a name by which the controller connects to a host. An IPv6 address may have a zone
/// (RFC 4007), as in `fe80::1%eth0`. The case of a name is not significant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostAddress(String);

/// A name in a server certificate: an IP address, or a DNS name in lower case whose first label may be `*`
/// (RFC 6125).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CertificateName(String);

fn is_zone(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    !text.is_empty() && text.bytes().all(inner)
}

/// Returns whether a text is a name. One that ends with a number after a full stop, as 192.0.2.300, is a wrong IP address: no
/// top-level domain is a number (RFC 3696, section 2).
fn is_name(text: &str) -> bool {
    let last = text.rsplit_once('.').map(|(_, last)| last);
    let is_number = |last: &str| last.bytes().all(|byte| byte.is_ascii_digit());
    HostName::parse(text).is_ok() && !last.is_some_and(is_number)
}

impl HostAddress {
    /// Parses an IP address or a name of letters, digits, `-`, `_` and `.`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let zoned = || {
            let (address, zone) = text.split_once('%')?;
            (address.parse::<Ipv6Addr>().is_ok() && is_zone(zone)).then_some(())
        };
        // Resolvers also accept '_', and a final dot.
        let name = text.strip_suffix('.').unwrap_or(text);
        let plain = name.to_ascii_lowercase().replace('_', "-");
        if text.parse::<IpAddr>().is_ok() || zoned().is_some() || is_name(&plain) {
            return Ok(Self(text.to_owned()));
        }
        let reason = "expected an IP address or a name, as in 192.0.2.11 or node1.example";
        Err(InvalidValue::new("address", text, reason))
    }
}

impl CertificateName {
    /// Parses an IP address or a DNS name.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let name = text.strip_prefix("*.").unwrap_or(text);
        if text.parse::<IpAddr>().is_ok() || is_name(name) {
            return Ok(Self(text.to_owned()));
        }
        let reason = "expected an IP address or a DNS name in lower case, as in api.example";
        Err(InvalidValue::new("certificate name", text, reason))
    }
}

text_value!(HostAddress);
text_value!(CertificateName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_ip_addresses_or_names() {
        for good in [
            "192.0.2.11",
            "2001:db8::1",
            "fe80::1%eth0.5",
            "node1",
            "Node_1.Example.",
            "1",
        ] {
            assert!(HostAddress::parse(good).is_ok(), "{good}");
        }
        for wrong in [
            "",
            "node 1",
            "node1\n192.0.2.1 evil",
            "-oProxyCommand=x",
            "a..b",
            "a:22",
            "fe80::1%",
            "fe80::1%a b",
            "root@node1",
            "10.231.2.300",
            "192.0.2",
        ] {
            assert!(HostAddress::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn certificate_names_are_ip_addresses_or_dns_names() {
        for good in ["192.0.2.11", "2001:db8::1", "api.example", "*.example"] {
            assert!(CertificateName::parse(good).is_ok(), "{good}");
        }
        for wrong in [
            "",
            "a\"b",
            "a b",
            "a\nb",
            "API.example",
            "*",
            "a.*.b",
            "https://a",
            "192.0.2.300",
        ] {
            assert!(CertificateName::parse(wrong).is_err(), "{wrong}");
        }
    }
}
