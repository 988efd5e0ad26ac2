//! Processor architectures, by the names that Go and OCI use.

use std::fmt;

use super::{InvalidValue, string_value};

/// An architecture that kubexm supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    /// `x86_64` in `uname -m`.
    Amd64,
    /// `aarch64` in `uname -m`.
    Arm64,
}

impl Arch {
    /// Parses the name of Go and OCI (`amd64`) or of the kernel (`x86_64`, as `uname -m` prints it).
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        match text {
            "amd64" | "x86_64" => Ok(Self::Amd64),
            "arm64" | "aarch64" => Ok(Self::Arm64),
            other => Err(InvalidValue::new(
                "architecture",
                other,
                "expected amd64 or arm64",
            )),
        }
    }

    /// Returns the architecture that this program was built for.
    ///
    /// # Errors
    /// kubexm does not support the architecture.
    pub fn of_this_machine() -> Result<Self, InvalidValue> {
        Self::parse(std::env::consts::ARCH)
    }

    /// Returns the name that Go and OCI use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Returns the name that `uname -m` prints.
    pub fn machine(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

string_value!(Arch);
