//! Package managers, each of a family of operating systems. `packages` of the crate `engine` installs with them.

use crate::named_kinds;

named_kinds! {
    /// The package manager of a family of operating systems.
    PackageManager {
        /// dpkg and apt, of Debian and its derivatives.
        Apt = "apt",
        /// rpm and dnf, of Red Hat and its derivatives.
        Dnf = "dnf",
    }
}

/// What kubexm knows of a package manager.
#[derive(Debug, Clone, Copy)]
pub struct PackageManagerProperties {
    /// The program that hosts of the family have.
    pub program: &'static str,
    /// Whether its packages have the format of dpkg, and not of rpm.
    pub is_dpkg: bool,
    /// The distributions that have it, as in `spec.packages` of a bundle manifest; `None` for all that no other package manager
    /// of the same format names.
    pub distributions: Option<&'static [&'static str]>,
    /// Packages of the package manager itself, without which it does not work. A prefix ends with `*`. No receipt removes them.
    pub essential: &'static [&'static str],
    /// Its directories, which a reset never deletes.
    pub directories: &'static [&'static str],
}

const APT: PackageManagerProperties = PackageManagerProperties {
    program: "apt-get",
    is_dpkg: true,
    distributions: None,
    essential: &["apt", "dpkg"],
    directories: &["/etc/apt", "/etc/dpkg", "/var/lib/apt", "/var/lib/dpkg"],
};

const DNF: PackageManagerProperties = PackageManagerProperties {
    program: "dnf",
    is_dpkg: false,
    distributions: None,
    essential: &["dnf*", "rpm*"],
    directories: &["/etc/yum.repos.d", "/var/lib/dnf", "/var/lib/rpm"],
};

impl PackageManager {
    /// Returns what kubexm knows of the package manager.
    pub const fn properties(self) -> &'static PackageManagerProperties {
        match self {
            Self::Apt => &APT,
            Self::Dnf => &DNF,
        }
    }

    /// Returns what kubexm knows of all package managers.
    pub fn all_properties() -> impl Iterator<Item = &'static PackageManagerProperties> {
        Self::ALL.iter().map(|manager| manager.properties())
    }

    /// Returns the program that hosts of the family have.
    pub fn program(self) -> &'static str {
        self.properties().program
    }

    /// Returns the package manager of a distribution whose packages have the format of dpkg, or else of rpm. The format alone
    /// does not determine it: SUSE has rpm without dnf.
    pub fn of(distribution: &str, is_dpkg: bool) -> Self {
        let named = |manager: &Self| {
            let names = manager.properties().distributions;
            names.map(|names| names.contains(&distribution))
        };
        let of_format = Self::ALL.iter().copied();
        let mut of_format = of_format.filter(|manager| manager.properties().is_dpkg == is_dpkg);
        let by_name = of_format
            .clone()
            .find(|manager| named(manager) == Some(true));
        let by_format = || of_format.find(|manager| named(manager).is_none());
        by_name.or_else(by_format).unwrap_or(Self::Dnf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A distribution whose name no package manager has gets that of its format.
    #[test]
    fn each_format_has_one_package_manager_without_names() {
        for is_dpkg in [true, false] {
            let all = PackageManager::all_properties().filter(|own| own.is_dpkg == is_dpkg);
            let others = all.filter(|own| own.distributions.is_none());
            assert_eq!(others.count(), 1);
        }
        assert_eq!(PackageManager::of("debian", true), PackageManager::Apt);
        assert_eq!(PackageManager::of("rhel-like", false), PackageManager::Dnf);
    }
}
