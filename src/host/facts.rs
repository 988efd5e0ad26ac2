//! What a host is, gathered by one script.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ipnet::Ipv4Net;

use super::{Command, Host, HostError};
use kubexm_scripts::host as scripts;
use kubexm_types::Arch;

/// What a host is.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    values: BTreeMap<String, Vec<String>>,
    /// Seconds by which its clock is ahead of ours, as far as can be told.
    pub clock_ahead: f64,
}

impl Facts {
    /// Asks a host, and how much room it has at `paths`.
    pub async fn gather(host: &dyn Host, paths: &[String]) -> Result<Self, HostError> {
        let before = now();
        let command = Command::of(scripts::FACTS, paths.iter().cloned())
            .describe("gather facts")
            .timeout(Duration::from_secs(60));
        let output = host.run(command).await?;
        let after = now();
        if !output.success() {
            return Err(HostError::Command {
                host: host.name().clone(),
                command: "gather facts".to_owned(),
                reason: output.complaint(),
            });
        }
        let mut facts = Self::parse(&output.text());
        if let Some(clock) = facts.one("clock").and_then(|text| text.parse::<f64>().ok()) {
            // The script reads its clock at its end: all of the round trip is uncertainty.
            let nearest = clock.clamp(before, after);
            facts.clock_ahead = clock - nearest;
        }
        Ok(facts)
    }

    /// Reads what the script printed.
    pub fn parse(text: &str) -> Self {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
            values
                .entry(key.to_owned())
                .or_default()
                .push(value.trim_matches('"').to_owned());
        }
        Self {
            values,
            clock_ahead: 0.0,
        }
    }

    /// The first value of a key, where it is not empty.
    pub fn one(&self, key: &str) -> Option<&str> {
        self.values
            .get(key)?
            .first()
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// All values of a key.
    pub fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        self.values
            .get(key)
            .into_iter()
            .flatten()
            .map(String::as_str)
    }

    /// A number.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.one(key)?.parse().ok()
    }

    /// Free KiB at a path that was asked for, and the mount point of its file system.
    pub fn free(&self, path: &str) -> Option<(u64, &str)> {
        let (free, mount) = self.one(&format!("free_{path}"))?.split_once(' ')?;
        Some((free.parse().ok()?, mount))
    }

    /// Whether a key has the value `yes`.
    pub fn is(&self, key: &str) -> bool {
        self.one(key) == Some("yes")
    }

    /// Architecture.
    pub fn arch(&self) -> Option<Arch> {
        self.one("arch")?.parse().ok()
    }

    /// The names under which a bundle may have packages for it, distribution and release, the most
    /// exact first: `ID` with `VERSION_CODENAME`, with `VERSION_ID`, with the major version, and
    /// `rhel-like` with the major version for whatever says that it is built like RHEL.
    pub fn releases(&self) -> Vec<(String, String)> {
        let id = self.one("os_id").unwrap_or("");
        let version = self.one("os_version");
        let major = version.and_then(|version| version.split('.').next());
        let mut names: Vec<(String, String)> = Vec::new();
        for release in [self.one("os_codename"), version, major]
            .into_iter()
            .flatten()
        {
            names.push((id.to_owned(), release.to_owned()));
        }
        let mut like = self.one("os_like").unwrap_or("").split_whitespace();
        // Oracle's says only that it is like Fedora.
        let is_rhel = ["rhel", "ol"].contains(&id) || like.any(|other| other == "rhel");
        if let (true, Some(major)) = (is_rhel, major) {
            names.push(("rhel-like".to_owned(), major.to_owned()));
        }
        names.dedup();
        names
    }

    /// All addresses of all interfaces.
    pub fn addresses(&self) -> BTreeSet<IpAddr> {
        let addresses = self
            .all("address")
            .filter_map(|text| text.split('/').next()?.parse().ok());
        addresses.collect()
    }

    /// Networks that it reaches without a gateway.
    pub fn own_networks(&self) -> Vec<Ipv4Net> {
        let networks = self.all("onlink").filter_map(|text| {
            // The kernel prints addresses as numbers of this machine's byte order; both that kubexm
            // knows have the lowest byte first.
            let number = |hex: &str| u32::from_str_radix(hex, 16).ok().map(u32::swap_bytes);
            let (network, mask) = text.split_once(' ')?;
            Ipv4Net::with_netmask(number(network)?.into(), number(mask)?.into()).ok()
        });
        networks.collect()
    }

    /// TCP ports that something listens on.
    pub fn listening(&self) -> BTreeSet<u16> {
        self.all("listen")
            .filter_map(|hex| u16::from_str_radix(hex, 16).ok())
            .collect()
    }
}

fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_a_host_prints() {
        let facts = Facts::parse(
            "arch=x86_64\nos_id=debian\nos_codename=\"trixie\"\naddress=10.0.0.1/24\naddress=fe80::1/64\n\
             onlink=0002000A 00FFFFFF\nonlink=zz 0\nlisten=192B\nlisten=zz\nnonsense\nswap=yes\nmemory=2048\nfree_/opt=77 /\nfree_/x=zz /\n",
        );
        assert_eq!(facts.arch(), Some(Arch::Amd64));
        let name = |id: &str, release: &str| (id.to_owned(), release.to_owned());
        assert_eq!(facts.releases(), [name("debian", "trixie")]);
        assert_eq!(facts.addresses().len(), 2);
        assert_eq!(facts.own_networks(), ["10.0.2.0/24".parse().unwrap()]);
        assert_eq!(facts.listening().into_iter().collect::<Vec<_>>(), [6443]);
        assert_eq!(
            (facts.free("/opt"), facts.free("/x")),
            (Some((77, "/")), None)
        );
        assert!(facts.is("swap") && facts.number("memory") == Some(2048));
    }

    #[test]
    fn a_host_finds_its_packages_under_several_names() {
        let names = |text: &str| -> Vec<String> {
            let releases = Facts::parse(text).releases();
            releases
                .iter()
                .map(|(id, release)| format!("{id} {release}"))
                .collect()
        };
        let rocky = "os_id=rocky\nos_codename=\nos_version=9.4\nos_like=rhel centos fedora\n";
        assert_eq!(names(rocky), ["rocky 9.4", "rocky 9", "rhel-like 9"]);
        assert_eq!(
            names("os_id=rhel\nos_version=8.10\nos_like=fedora\n")
                .last()
                .unwrap(),
            "rhel-like 8"
        );
        let stream = "os_id=centos\nos_version=9\nos_like=rhel fedora\n";
        assert_eq!(names(stream), ["centos 9", "rhel-like 9"]);
        let ubuntu = "os_id=ubuntu\nos_codename=noble\nos_version=24.04\nos_like=debian\n";
        assert_eq!(names(ubuntu), ["ubuntu noble", "ubuntu 24.04", "ubuntu 24"]);
        assert_eq!(
            names("os_id=openEuler\nos_version=22.03\n"),
            ["openEuler 22.03", "openEuler 22"]
        );
        assert_eq!(names("os_id=kylin\nos_version=V10\n"), ["kylin V10"]);
        assert!(names("os_id=arch\n").is_empty());
    }

    #[tokio::test]
    async fn the_script_runs_on_a_real_system() {
        let name = "here".parse().unwrap();
        let facts = Facts::gather(
            &crate::local::LocalHost::new(name),
            &["/".to_owned(), "/nothing/here".to_owned()],
        )
        .await
        .unwrap();
        assert_eq!(
            facts.free("/nothing/here").map(|(_, mount)| mount),
            Some("/")
        );
        assert!(
            facts.arch().is_some() && facts.number("cpus") > Some(0),
            "{facts:?}"
        );
        assert!(facts.clock_ahead.abs() < 2.0, "{}", facts.clock_ahead);
    }
}
