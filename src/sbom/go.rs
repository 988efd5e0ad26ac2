//! Parses the build information in Go programs: the version of Go and the modules. The source of Go's
//! `debug/buildinfo` describes the format.

use super::elf::number;
use super::text::clean;

/// The marker at the start of build information.
pub const MARK: &[u8] = b"\xff Go buildinf:";
/// Alignment of build information, in bytes.
pub const ALIGN: usize = 16;
/// Size of the header in bytes.
pub const HEADER: usize = 32;
/// Size of the marks around the text of modules, in bytes.
const SENTINEL: usize = 16;
/// Maximum number of modules.
const MOST_MODULES: usize = 20_000;
/// The flag of build information whose strings follow the header.
const INLINE: u8 = 2;

/// The build information of a Go program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildInfo {
    /// The version of Go, as in `go1.26.8`.
    pub go: String,
    /// The import path of the main package.
    pub path: String,
    /// The module of the main package.
    pub main: Option<Module>,
    /// The other modules; a replacement takes the place of the replaced module.
    pub modules: Vec<Module>,
}

/// A Go module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Module {
    /// The module path, as in `golang.org/x/net`.
    pub path: String,
    /// The version, as in `v0.30.0`; `(devel)` if the linker does not know it.
    pub version: String,
}

impl Module {
    /// Returns the version, unless it is unknown.
    pub fn known_version(&self) -> Option<&str> {
        Some(self.version.as_str()).filter(|version| version.starts_with('v'))
    }
}

impl BuildInfo {
    /// Returns the version of Go and its standard library as a semantic version: `go1.21rc2` is
    /// `1.21.0-rc.2`. Returns `None` for a development version.
    pub fn standard_library(&self) -> Option<String> {
        let version = self.go.strip_prefix("go")?.split([' ', '-', '+']).next()?;
        let digits = |c: char| c.is_ascii_digit() || c == '.';
        let (numbers, rest) =
            version.split_at(version.find(|c| !digits(c)).unwrap_or(version.len()));
        let mut parts: Vec<&str> = numbers.split('.').collect();
        if !parts.iter().all(|part| part.parse::<u32>().is_ok()) || parts.len() > 3 {
            return None;
        }
        parts.resize(3, "0");
        let release = parts.join(".");
        if rest.is_empty() {
            return Some(release);
        }
        let kind = rest.trim_end_matches(|c: char| c.is_ascii_digit());
        let count = &rest[kind.len()..];
        matches!(kind, "rc" | "beta").then(|| format!("{release}-{kind}.{count}"))
    }
}

/// Returns the minimum size of build information that starts with these bytes.
pub fn length(bytes: &[u8]) -> Option<usize> {
    if bytes.get(15)? & INLINE == 0 {
        return Some(HEADER);
    }
    let mut at = HEADER;
    for _ in 0..2 {
        // A varint has at most ten bytes.
        let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) else {
            return Some(at + 1);
        };
        let Some((size, width)) = varint(rest) else {
            return (rest.len() < 10).then_some(bytes.len() + 1);
        };
        at = at.checked_add(width)?.checked_add(size)?;
    }
    Some(at)
}

/// Parses build information of Go 1.18 and later. Its strings follow the header.
pub fn inline(bytes: &[u8]) -> Option<BuildInfo> {
    let header = bytes.get(..HEADER)?;
    if header[15] & INLINE == 0 {
        return None;
    }
    let (go, rest) = string(bytes.get(HEADER..)?)?;
    let (modules, _) = string(rest)?;
    build_info(go, modules)
}

/// Parses build information of Go before 1.18. Returns the pointers to the string headers of version and
/// modules, the size of a pointer in bytes, and whether numbers are big-endian.
pub fn pointers(bytes: &[u8]) -> Option<([u64; 2], usize, bool)> {
    let (width, flags) = (usize::from(*bytes.get(14)?), *bytes.get(15)?);
    if flags & INLINE != 0 || !matches!(width, 4 | 8) {
        return None;
    }
    let big = flags & 1 != 0;
    let at = |offset| number(bytes, offset, width, big);
    Some(([at(16)?, at(16 + width)?], width, big))
}

/// Parses the two strings of build information. Returns `None` if the version is empty or not UTF-8.
pub fn build_info(go: &[u8], modules: &[u8]) -> Option<BuildInfo> {
    let go = std::str::from_utf8(go).ok().filter(|go| !go.is_empty())?;
    let mut info = BuildInfo {
        go: clean(go),
        ..BuildInfo::default()
    };
    let framed = modules.len() > 2 * SENTINEL && modules[modules.len() - SENTINEL - 1] == b'\n';
    let text = if framed {
        &modules[SENTINEL..modules.len() - SENTINEL]
    } else {
        &[]
    };
    let text = String::from_utf8_lossy(text);
    for line in text.lines() {
        let mut fields = line.split('\t');
        let kind = fields.next().unwrap_or_default();
        let mut next = || clean(fields.next().unwrap_or_default());
        match kind {
            "path" => info.path = next(),
            "mod" | "dep" => {
                let module = Module {
                    path: next(),
                    version: next(),
                };
                match kind {
                    "mod" => info.main = Some(module),
                    _ if info.modules.len() < MOST_MODULES => info.modules.push(module),
                    _ => {}
                }
            }
            "=>" => {
                let last = info.modules.last_mut().or(info.main.as_mut());
                if let Some(module) = last {
                    let replaced = std::mem::replace(&mut module.path, next());
                    module.version = next();
                    if module.path.starts_with(['.', '/']) {
                        // A local directory does not have a version. Databases know its content by the
                        // path of the replaced module.
                        module.path = replaced;
                    }
                }
            }
            _ => {}
        }
    }
    Some(info)
}

fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, width) = varint(bytes)?;
    bytes.get(width..)?.split_at_checked(size)
}

/// Parses a varint. Returns its value and its size in bytes.
fn varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((usize::try_from(value).ok()?, at + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_go_become_semantic_ones() {
        for (go, version) in [
            ("go1.26.8", Some("1.26.8")),
            ("go1.20", Some("1.20.0")),
            ("go1.21rc2", Some("1.21.0-rc.2")),
            ("go1.24.1 X:boringcrypto", Some("1.24.1")),
            ("go1.25.3-custom", Some("1.25.3")),
            ("devel go1.27-abcdef", None),
            ("go", None),
        ] {
            let info = BuildInfo {
                go: go.to_owned(),
                ..BuildInfo::default()
            };
            assert_eq!(info.standard_library().as_deref(), version, "{go}");
        }
    }

    #[test]
    fn a_replaced_module_is_the_one_that_was_built_in() {
        let frame = "-".repeat(SENTINEL);
        let text = format!(
            "{frame}path\tx.io/cmd\nmod\tx.io/cmd\t(devel)\t\ndep\ta.io/a\tv1.0.0\th1:x=\n\
             =>\tfork.io/a\tv1.0.1\th1:y=\ndep\tb.io/b\tv2.0.0\n=>\t./local\t(devel)\t\n\
             build\tGOOS=linux\n{frame}"
        );
        let info = build_info(b"go1.26.8", text.as_bytes()).unwrap();
        let modules: Vec<_> = info
            .modules
            .iter()
            .map(|m| (&*m.path, &*m.version))
            .collect();
        assert_eq!(modules, [("fork.io/a", "v1.0.1"), ("b.io/b", "(devel)")]);
        assert_eq!(info.modules[1].known_version(), None);
        assert_eq!(info.main.unwrap().known_version(), None);
    }

    #[test]
    fn lengths_that_lead_nowhere_end_the_search() {
        let mut bytes = MARK.to_vec();
        bytes.extend([8, INLINE]);
        bytes.resize(HEADER, 0);
        assert_eq!(length(&bytes), Some(HEADER + 1));
        bytes.extend([0xff; 12]);
        assert_eq!(length(&bytes), None);
        assert_eq!(inline(&bytes), None);
    }
}
