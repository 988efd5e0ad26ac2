//! Values of one IP address family, or of both.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

/// A value that belongs to one address family.
pub trait OfFamily: Copy {
    /// Returns the family of the value.
    fn family(&self) -> IpFamily;
}

/// An IP address family, with the names of a Service's `ipFamilies`
/// (<https://kubernetes.io/docs/concepts/services-networking/dual-stack/>).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum IpFamily {
    V4,
    V6,
}

impl IpFamily {
    /// Returns the length of an address in bits.
    pub fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// Returns the other family.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }
}

impl fmt::Display for IpFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

impl OfFamily for IpAddr {
    fn family(&self) -> IpFamily {
        match self {
            Self::V4(_) => IpFamily::V4,
            Self::V6(_) => IpFamily::V6,
        }
    }
}

impl OfFamily for IpNet {
    fn family(&self) -> IpFamily {
        self.addr().family()
    }
}

/// One value, or one of each address family. The family of the first value is the primary one of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpFamilies<T> {
    primary: T,
    secondary: Option<T>,
}

impl<T: OfFamily> IpFamilies<T> {
    /// Returns `None` for an empty list, for two values of the same family, and for more than two values.
    pub fn from_list(values: &[T]) -> Option<Self> {
        match *values {
            [primary] => Some(Self {
                primary,
                secondary: None,
            }),
            [primary, secondary] if primary.family() != secondary.family() => Some(Self {
                primary,
                secondary: Some(secondary),
            }),
            _ => None,
        }
    }

    /// Returns the value of the primary family.
    pub fn primary(&self) -> T {
        self.primary
    }

    /// Returns the value of the other family.
    pub fn secondary(&self) -> Option<T> {
        self.secondary
    }

    /// Returns true if there is a value of each family.
    pub fn is_dual(&self) -> bool {
        self.secondary.is_some()
    }

    /// Returns true if there is a value of this family.
    pub fn has(&self, family: IpFamily) -> bool {
        self.iter().any(|value| value.family() == family)
    }

    /// Returns the values, the primary one first.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<T> {
        std::iter::once(self.primary).chain(self.secondary)
    }
}

impl<T: OfFamily> From<T> for IpFamilies<T> {
    fn from(primary: T) -> Self {
        Self {
            primary,
            secondary: None,
        }
    }
}

/// Separates two values by a comma, as kubeadm and the programs of Kubernetes read them.
impl<T: OfFamily + fmt::Display> fmt::Display for IpFamilies<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.primary.fmt(f)?;
        match &self.secondary {
            Some(secondary) => write!(f, ",{secondary}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Option<IpFamilies<IpAddr>> {
        let parsed: Vec<IpAddr> = texts.iter().map(|text| text.parse().unwrap()).collect();
        IpFamilies::from_list(&parsed)
    }

    #[test]
    fn values_are_of_one_family_each() {
        let both = addresses(&["192.0.2.1", "2001:db8::1"]).unwrap();
        assert_eq!(both.to_string(), "192.0.2.1,2001:db8::1");
        assert!(both.is_dual() && both.has(IpFamily::V6));
        let one = addresses(&["2001:db8::1"]).unwrap();
        assert_eq!(one.to_string(), "2001:db8::1");
        assert!(!one.is_dual() && !one.has(IpFamily::V4));
        for wrong in [
            &[][..],
            &["192.0.2.1", "192.0.2.2"],
            &["192.0.2.1", "2001:db8::1", "192.0.2.2"],
        ] {
            assert_eq!(addresses(wrong), None, "{wrong:?}");
        }
    }
}
