//! Mirror files: servers that kubexm asks instead of the public addresses, what they are trusted for, and how
//! kubexm reaches them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::problem::Problems;
use super::reader::{Fields, Reader, accept};
use super::yaml::{self, Node, Value};
use kubexm_types::signature_policy::NamePrefix;
use kubexm_types::{ImageRef, ShownUrl, strip_path_prefix};

/// Maximum number of connections to one host.
const MOST_CONNECTIONS: i64 = 256;

/// A `Mirrors` document. kubexm compares the content of a mirror with the digests and signatures of the publisher,
/// unless the document says otherwise.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Mirrors {
    /// Prefix of a URL → URLs to ask instead, in order. The longest match wins.
    pub downloads: BTreeMap<String, Vec<String>>,
    /// Host of a registry, with or without a prefix of a repository → URLs
    /// `http(s)://host[:port][/repository prefix]`, in order. The longest match wins.
    pub registries: BTreeMap<String, Vec<String>>,
    pub checksums: Checksums,
    /// Prefixes of images and files that are accepted without the signature that their publisher makes.
    pub allow_unsigned: Vec<NamePrefix>,
    /// Prefixes of URLs of mirrors that download a file when it is first requested, and answer only then.
    pub on_demand: Vec<String>,
    /// PEM files of certificate authorities that are trusted in addition to those of the system.
    pub ca: Vec<PathBuf>,
    /// Number of simultaneous connections to one host; `None` for the default.
    pub connections: Option<usize>,
}

/// The server whose checksum files and tags determine the expected digests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Checksums {
    /// The publisher. If it cannot be reached, the download fails.
    #[default]
    Origin,
    /// The mirror, for mirrors with content that the publisher does not have.
    Mirror,
}

/// A repository of a mirror.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistryAddress {
    /// `http://` or `https://`, host and port.
    pub base: String,
    /// The repository in that registry.
    pub repository: String,
}

/// The URLs of mirrors may contain passwords.
impl fmt::Debug for Mirrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown_list = |urls: &[String]| -> Vec<ShownUrl> {
            urls.iter().map(|one| ShownUrl::of_text(one)).collect()
        };
        let shown = |map: &BTreeMap<String, Vec<String>>| -> BTreeMap<ShownUrl, Vec<ShownUrl>> {
            let all = map.iter();
            all.map(|(from, to)| (ShownUrl::of_text(from), shown_list(to)))
                .collect()
        };
        f.debug_struct("Mirrors")
            .field("downloads", &shown(&self.downloads))
            .field("registries", &shown(&self.registries))
            .field("checksums", &self.checksums)
            .field("allow_unsigned", &self.allow_unsigned)
            .field("on_demand", &shown_list(&self.on_demand))
            .field("ca", &self.ca)
            .field("connections", &self.connections)
            .finish()
    }
}

/// The address of a mirror may contain a password.
impl fmt::Debug for RegistryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryAddress")
            .field("base", &ShownUrl::of_text(&self.base))
            .field("repository", &self.repository)
            .finish()
    }
}

impl Mirrors {
    /// Adds the settings of `other` that these mirrors do not have.
    #[must_use]
    pub fn over(mut self, other: Self) -> Self {
        for (from, to) in other.downloads {
            self.downloads.entry(from).or_insert(to);
        }
        for (from, to) in other.registries {
            self.registries.entry(from).or_insert(to);
        }
        if self.checksums == Checksums::Origin {
            self.checksums = other.checksums;
        }
        self.allow_unsigned.extend(other.allow_unsigned);
        self.on_demand.extend(other.on_demand);
        self.ca.extend(other.ca);
        self.connections = self.connections.or(other.connections);
        self
    }

    /// Returns the prefix under which an image, or a file by its URL without `https://`, is accepted without
    /// the signature of its publisher.
    pub fn allows_unsigned(&self, name: &str) -> Option<&NamePrefix> {
        let covering = self.allow_unsigned.iter();
        let covering = covering.filter(|prefix| prefix.covers(name));
        covering.max_by_key(|prefix| prefix.length())
    }

    /// Whether a URL is of a mirror that downloads a file when it is first requested.
    pub fn is_on_demand(&self, address: &str) -> bool {
        self.on_demand
            .iter()
            .any(|prefix| strip_path_prefix(address, prefix.trim_end_matches('/')).is_some())
    }

    /// Returns the URLs to ask instead of a public URL, in order; `None` if it has no mirror.
    pub fn for_download(&self, address: &str) -> Option<Vec<String>> {
        let (prefix, rest, mirrors) = longest(&self.downloads, address)?;
        // Only one of a prefix and its mirror may end with '/'.
        let rest = rest.trim_start_matches('/');
        let slash = prefix.len() < address.len();
        let join = |mirror: &String| {
            if slash {
                format!("{}/{rest}", mirror.trim_end_matches('/'))
            } else {
                mirror.clone()
            }
        };
        Some(mirrors.iter().map(join).collect())
    }

    /// Returns the registries to ask for an image, in order; `None` if it has no mirror.
    pub fn for_image(&self, image: &ImageRef) -> Option<Vec<RegistryAddress>> {
        let name = format!("{}/{}", image.registry(), image.repository());
        let (_, rest, mirrors) = longest(&self.registries, &name)?;
        let rest = rest.trim_start_matches('/');
        let address = |mirror: &String| {
            let after = mirror.find("://").map_or(0, |at| at + 3);
            let path = mirror[after..]
                .find('/')
                .map_or(mirror.len(), |at| after + at);
            let parts = [mirror[path..].trim_matches('/'), rest];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            RegistryAddress {
                base: mirror[..path].to_owned(),
                repository: parts.join("/"),
            }
        };
        Some(mirrors.iter().map(address).collect())
    }
}

/// Returns the longest key that is a prefix of whole parts of `text`, the rest of `text`, and the value.
fn longest<'a, 't, T>(
    map: &'a BTreeMap<String, T>,
    text: &'t str,
) -> Option<(&'a str, &'t str, &'a T)> {
    let matching = map.iter().filter_map(|(prefix, value)| {
        let rest = strip_path_prefix(text, prefix)?;
        Some((prefix.as_str(), rest, value))
    });
    matching.max_by_key(|(prefix, ..)| prefix.len())
}

const START: &str = "kubexm config init mirrors > mirrors.yaml";

/// Reads and checks a mirror file.
///
/// # Errors
/// All problems of the file.
pub fn load_mirrors(path: &Path) -> Result<Mirrors, Problems> {
    let mut mirrors = parse_mirrors(&path.display().to_string(), &super::read_text(path, START)?)?;
    // Relative paths start at the directory of the file.
    let folder = path.parent().unwrap_or(Path::new("."));
    for ca in &mut mirrors.ca {
        *ca = folder.join(&*ca);
    }
    Ok(mirrors)
}

/// Reads and checks the text of a mirror file; `file` is its name in messages.
///
/// # Errors
/// All problems of the file.
pub fn parse_mirrors(file: &str, text: &str) -> Result<Mirrors, Problems> {
    let root = yaml::parse(file, text)?;
    super::kind::refuse_other(file, &root, super::DocumentKind::Mirrors)?;
    let reader = Reader::new("mirrors");
    let top = reader.fields(&root, "");
    super::check_kind(&top, "Mirrors");
    let connections = top.number("connectionsPerHost", 1, MOST_CONNECTIONS);
    let mirrors = Mirrors {
        downloads: addresses(&top, "downloads", true),
        registries: addresses(&top, "registries", false),
        checksums: match top.choice("checksums", accept(&["origin", "mirror"])) {
            Some("mirror") => Checksums::Mirror,
            _ => Checksums::Origin,
        },
        allow_unsigned: top.values::<NamePrefix>("allowUnsigned"),
        on_demand: urls(&top, "onDemand"),
        ca: top.values::<PathBuf>("ca"),
        connections: connections.and_then(|number| usize::try_from(number).ok()),
    };
    top.finish();
    reader.finish(file, Some(mirrors))
}

/// Reads a list of URLs.
fn urls(top: &Fields<'_>, name: &'static str) -> Vec<String> {
    let Some(node) = top.get(name) else {
        return Vec::new();
    };
    urls_of(top.reader(), node, &top.path(name))
}

/// Returns the URLs of a list.
fn urls_of(reader: &Reader, node: &Node, path: &str) -> Vec<String> {
    let mut urls = Vec::new();
    for (item, path) in reader.items(node, path) {
        match &item.value {
            Value::Text(text) if is_web(text) => urls.push(text.clone()),
            _ => refuse(reader, item, &path),
        }
    }
    urls
}

/// Reads a mapping of prefixes to one or more URLs.
fn addresses(
    top: &Fields<'_>,
    name: &'static str,
    from_is_web: bool,
) -> BTreeMap<String, Vec<String>> {
    let Some(section) = top.section(name) else {
        return BTreeMap::new();
    };
    let reader = section.reader();
    let mut map = BTreeMap::new();
    for (from, node) in section.entries() {
        let path = section.path(from);
        if from_is_web && !is_web(from) {
            refuse(reader, node, &path);
        }
        let to = urls_of(reader, node, &path);
        if to.is_empty() && matches!(&node.value, Value::List(_) | Value::Null) {
            refuse(reader, node, &path);
        }
        map.insert(from.to_owned(), to);
    }
    map
}

fn is_web(text: &str) -> bool {
    // The parser of URLs removes line breaks and tabs.
    let plain = !text.contains(|c: char| c.is_whitespace() || c.is_control());
    plain && (text.starts_with("https://") || text.starts_with("http://"))
}

fn refuse(reader: &Reader, node: &Node, path: &str) {
    let hint = "as in https://mirror.example/path";
    let message = "expected a URL with http:// or https://";
    reader.problem(node, path, message, Some(hint));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirrors(text: &str) -> Mirrors {
        let head = "apiVersion: kubexm.io/v1alpha1\nkind: Mirrors\n";
        parse_mirrors("m.yaml", &format!("{head}{text}")).unwrap()
    }

    #[test]
    fn the_longest_prefix_wins_and_ends_at_a_slash() {
        let mirrors = mirrors(
            "downloads:\n  https://dl.example: http://a\n  https://dl.example/x/: [http://b/y, https://dl.example/x]\nregistries:\n  r.example: https://m.example/r\n  r.example/coredns: http://n:5000/\n",
        );
        for (address, wanted) in [
            ("https://dl.example/f", Some(vec!["http://a/f"])),
            ("https://dl.example", Some(vec!["http://a"])),
            ("https://dl.example.org/f", None),
            (
                "https://dl.example/x/f?q=1",
                Some(vec!["http://b/y/f?q=1", "https://dl.example/x/f?q=1"]),
            ),
            ("https://dl.example/xy", Some(vec!["http://a/xy"])),
        ] {
            let wanted = wanted.map(|list| list.into_iter().map(str::to_owned).collect());
            assert_eq!(mirrors.for_download(address), wanted, "{address}");
        }
        for (image, base, repository) in [
            ("r.example/pause:1", "https://m.example", "r/pause"),
            ("r.example/coredns/coredns:1", "http://n:5000", "coredns"),
            (
                "r.example/corednsx/a:1",
                "https://m.example",
                "r/corednsx/a",
            ),
        ] {
            let found = mirrors.for_image(&image.parse().unwrap()).unwrap();
            let wanted = RegistryAddress {
                base: base.into(),
                repository: repository.into(),
            };
            assert_eq!(found, [wanted], "{image}");
        }
        assert_eq!(
            mirrors.for_image(&"r.example.org/a:1".parse().unwrap()),
            None
        );
    }

    #[test]
    fn mirrors_on_demand_are_known_by_their_prefix() {
        let mirrors = mirrors("onDemand: [https://files.example/, https://m.example/a]\n");
        for (address, expected) in [
            ("https://files.example/github.com/x", true),
            ("https://files.example.org/x", false),
            ("https://m.example/a/v2/x", true),
            ("https://m.example/ab", false),
            ("https://github.com/x", false),
        ] {
            assert_eq!(mirrors.is_on_demand(address), expected, "{address}");
        }
    }

    #[test]
    fn debug_output_has_no_password() {
        let mirrors = mirrors(
            "downloads: {\"https://eve:CANARY@dl.example\": \"https://bob:CANARY@mirror.example/dl\"}\n\
             registries: {r.example: \"https://bob:CANARY@mirror.example/r\"}\n",
        );
        let address = mirrors.for_image(&"r.example/pause:1".parse().unwrap());
        assert!(address.as_ref().unwrap()[0].base.contains("CANARY"));
        for shown in [format!("{mirrors:?}"), format!("{address:#?}")] {
            assert!(!shown.contains("CANARY"), "{shown}");
            assert!(shown.contains("mirror.example"), "{shown}");
        }
    }

    #[test]
    fn a_file_wins_over_a_named_set() {
        let file = mirrors("downloads:\n  https://a: http://file\nconnectionsPerHost: 3\n");
        let set = mirrors(
            "downloads:\n  https://a: http://set\n  https://b: http://set\nchecksums: origin\nallowUnsigned: [b.example]\nconnectionsPerHost: 9\n",
        );
        let both = file.over(set);
        assert_eq!(both.for_download("https://a/f").unwrap(), ["http://file/f"]);
        assert_eq!(both.for_download("https://b/f").unwrap(), ["http://set/f"]);
        assert_eq!(both.connections, Some(3));
        let allowed = both.allows_unsigned("b.example/x").map(ToString::to_string);
        assert_eq!(allowed.as_deref(), Some("b.example"));
        assert_eq!(both.allows_unsigned("b.example.org/x"), None);
    }

    #[test]
    fn invalid_values_are_refused() {
        for text in [
            "downloads: {dl.example: https://m}",
            "downloads: {https://dl.example: m.example}",
            "downloads: {https://dl.example: [https://m, ftp://n]}",
            "downloads: {https://dl.example: []}",
            "downloads: {https://dl.example: {a: b}}",
            "registries: {r.example: m.example}",
            "registries: {r.example: \"https://m.example/a\\nb\"}",
            "registries: {r.example: \"https://m example\"}",
            "downloads: {\"https://dl.example\\n\": https://m}",
            "checksums: other",
            "allowUnsigned: [https://dl.example]",
            "allowUnsigned: yes",
            "onDemand: [mirror.example]",
            "onDemand: {https://mirror.example: yes}",
            "connectionsPerHost: 0",
        ] {
            let text = format!("apiVersion: kubexm.io/v1alpha1\nkind: Mirrors\n{text}\n");
            assert!(parse_mirrors("m.yaml", &text).is_err(), "{text}");
        }
    }
}
