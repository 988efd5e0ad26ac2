//! Addresses of DNS servers.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use super::InvalidValue;

/// Address and port of a name server. The default port is 53.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameServer(SocketAddr);

impl FromStr for NameServer {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let with_port = text.parse::<SocketAddr>().ok();
        let address = || text.parse::<IpAddr>().ok();
        with_port
            .or_else(|| address().map(|address| SocketAddr::new(address, 53)))
            .filter(|server| server.port() != 0 && !server.ip().is_unspecified())
            .map(Self)
            .ok_or_else(|| {
                let reason = "expected an IP address, as in 192.0.2.53 or 192.0.2.53:5353";
                InvalidValue::new("name server", text, reason)
            })
    }
}

impl fmt::Display for NameServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_optional() {
        let shown = |text: &str| text.parse::<NameServer>().map(|server| server.to_string());
        assert_eq!(shown("192.0.2.53").unwrap(), "192.0.2.53:53");
        assert_eq!(shown("192.0.2.53:5353").unwrap(), "192.0.2.53:5353");
        assert_eq!(shown("2001:db8::53").unwrap(), "[2001:db8::53]:53");
        for wrong in [
            "dns.example",
            "0.0.0.0",
            "192.0.2.53:0",
            "tls://192.0.2.53",
            "",
        ] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
    }
}
