//! Processor architectures, by the names that Go and OCI use.

use std::fmt;

use super::{InvalidValue, string_value};

/// An architecture that Kubernetes publishes and kubexm carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    /// `x86_64` in the kernel's words.
    Amd64,
    /// `aarch64` in the kernel's words.
    Arm64,
}

impl Arch {
    /// Reads Go's name (`amd64`) or the kernel's (`x86_64`, what `uname -m` prints).
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        match text {
            "amd64" | "x86_64" => Ok(Self::Amd64),
            "arm64" | "aarch64" => Ok(Self::Arm64),
            other => Err(InvalidValue::new(
                "architecture",
                other,
                "kubexm knows amd64 and arm64",
            )),
        }
    }

    /// The architecture that this program was built for, if kubexm carries it.
    pub fn of_this_machine() -> Result<Self, InvalidValue> {
        Self::parse(std::env::consts::ARCH)
    }

    /// Go's and OCI's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// The kernel's name, what `uname -m` prints.
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
