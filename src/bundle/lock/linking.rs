//! What a dynamically linked program needs of its host.

use serde::{Deserialize, Serialize};

use kubexm_types::{GlibcVersion, Line};

/// The needs of a dynamically linked ELF program
/// (<https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/elf-generic.html>). A static
/// program has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Linking {
    /// The path of the dynamic linker, such as `/lib64/ld-linux-x86-64.so.2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<Line>,
    /// The names of the libraries, in the order of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<Line>,
    /// The newest version of glibc among the versions of the symbols that the program uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glibc: Option<GlibcVersion>,
}
