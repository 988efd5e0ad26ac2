//! Which authorities of kubeadm a backup has, and whether they are those of the cluster.

use std::io::{self, Read};

use super::manifest::{CLUSTER_FILE, Manifest, STATE, host_files};
use kubexm_session::authorities::{self, HostAuthorities, Known};
use kubexm_types::HostName;

/// The authorities in the files of hosts. A host that is not a control plane may not provide them, and one that has others than the
/// state directory records may not either.
#[derive(Default)]
pub struct Authorities {
    known: Known,
    /// The paths of the files of control planes; `None` if nothing states them: the backup is of an earlier version, and its cluster
    /// file has errors for this one.
    control_planes: Option<Vec<String>>,
    /// Paths in the backup, and what they have.
    hosts: Vec<(String, HostAuthorities)>,
}

impl Authorities {
    /// Reads a file of a backup, if it states something about authorities.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn add(
        &mut self,
        manifest: &Manifest,
        path: &str,
        content: &mut dyn Read,
    ) -> io::Result<()> {
        let mut text = Vec::new();
        let files_of = |names: &Vec<HostName>| names.iter().map(host_files).collect();
        if let Some(names) = &manifest.control_planes {
            self.control_planes = Some(files_of(names));
        }
        if path == CLUSTER_FILE && manifest.control_planes.is_none() {
            content.read_to_end(&mut text)?;
            let cluster = kubexm_config::parse_cluster(path, &String::from_utf8_lossy(&text));
            let cluster = cluster.ok();
            self.control_planes = cluster.map(|cluster| files_of(&cluster.roles.control_plane));
        } else if let Some(name) = path.strip_prefix(STATE) {
            content.read_to_end(&mut text)?;
            self.known.add(name, &text)?;
        } else if path.starts_with("hosts/") {
            let runs_etcd = manifest.etcd.deployment == "kubeadm";
            let found = authorities::of_host(content, runs_etcd)?;
            self.hosts.push((path.to_owned(), found));
        }
        Ok(())
    }

    /// Returns what may provide authorities. Without the names of control planes, all hosts may if the state directory records the
    /// authorities: those of a host must be the same.
    fn of_control_planes(&self) -> impl Iterator<Item = &(String, HostAuthorities)> {
        let may = |path: &String| match &self.control_planes {
            Some(names) => names.contains(path),
            None => self.known.is_recorded(),
        };
        self.hosts.iter().filter(move |(path, _)| may(path))
    }

    /// Returns why the authorities of control planes are not those of the cluster, in a line for each.
    pub fn problems(&self) -> Vec<String> {
        if self.control_planes.is_none() && !self.known.is_recorded() {
            let unknown = |(path, _): &(String, _)| {
                format!(
                    "{path}: nothing shows whether this host is a control plane, because this version cannot read {CLUSTER_FILE}"
                )
            };
            return self.hosts.iter().map(unknown).collect();
        }
        let problems = self.of_control_planes().filter_map(|(path, host)| {
            let problem = host.problem(&self.known)?;
            Some(format!("{path}: {problem}"))
        });
        problems.collect()
    }

    /// Returns the authorities of the control plane that has most of those of the cluster; `None` if none has them.
    pub fn best(&self) -> Option<&HostAuthorities> {
        let mut best: Option<&HostAuthorities> = None;
        for (_, host) in self.of_control_planes() {
            let is_own = host.problem(&self.known).is_none();
            if is_own && best.is_none_or(|best| host.is_better(best)) {
                best = Some(host);
            }
        }
        best
    }
}

#[cfg(test)]
pub(super) mod tests {
    use kubexm_config::example::{ROLES, text_of};
    use kubexm_engine::cluster::ClusterRecord;
    use kubexm_pki::{Ca, CertificateStore, SigningKey};
    use kubexm_types::{Authority, authority};

    use super::super::file::tests::example;
    use super::*;

    /// Returns the authorities of a new cluster, with their paths below `/etc/kubernetes/pki`.
    pub(in super::super) fn of_kubeadm() -> Vec<(&'static str, String)> {
        let dir = tempfile::tempdir().unwrap();
        let store = CertificateStore::new(dir.path());
        let [kubernetes, etcd, front_proxy] = ["ca", "etcd", "front-proxy"].map(|name| {
            let ca = Ca::load_or_create(&store, name).unwrap();
            ca.pair().unwrap()
        });
        let signer = SigningKey::load_or_create(&store, "sa").unwrap();
        vec![
            ("ca.crt", kubernetes.certificate),
            ("ca.key", kubernetes.key),
            ("etcd/ca.crt", etcd.certificate),
            ("etcd/ca.key", etcd.key),
            ("front-proxy-ca.crt", front_proxy.certificate),
            ("front-proxy-ca.key", front_proxy.key),
            ("sa.key", signer.private.clone()),
            ("sa.pub", signer.public.clone()),
        ]
    }

    fn archive(files: &[(&str, String)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, text) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o600);
            let path = format!("./etc/kubernetes/pki/{name}");
            builder
                .append_data(&mut header, path, text.as_bytes())
                .unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn record(files: &[(&str, String)]) -> Vec<u8> {
        let fingerprint = |at: usize| authority::fingerprints(&files[at].1)[0];
        let mut record = ClusterRecord::new("example".parse().unwrap()).unwrap();
        record.learn(Authority::Kubernetes, fingerprint(0));
        record.learn(Authority::FrontProxy, fingerprint(4));
        record.learn(Authority::ServiceAccounts, fingerprint(7));
        serde_json::to_vec(&record).unwrap()
    }

    /// Returns what a backup states about the authorities of `node1`, a control plane, and of `node2`, which is none.
    fn of(
        state: &[(&str, Vec<u8>)],
        node1: &[(&str, String)],
        node2: &[(&str, String)],
    ) -> Authorities {
        let cluster = text_of(ROLES, "", "");
        with(None, &cluster, state, node1, node2)
    }

    fn with(
        control_planes: Option<Vec<HostName>>,
        cluster: &str,
        state: &[(&str, Vec<u8>)],
        node1: &[(&str, String)],
        node2: &[(&str, String)],
    ) -> Authorities {
        let mut manifest = example(&[]);
        manifest.etcd.deployment = "systemd".to_owned();
        manifest.control_planes = control_planes;
        let mut found = Authorities::default();
        let state = state
            .iter()
            .map(|(name, content)| (format!("state/{name}"), content.clone()));
        let hosts = [("node1", node1), ("node2", node2)]
            .map(|(name, files)| (format!("hosts/{name}.tar"), archive(files)));
        let cluster = [("cluster.yaml".to_owned(), cluster.as_bytes().to_vec())];
        for (path, content) in cluster.into_iter().chain(state).chain(hosts) {
            found
                .add(&manifest, &path, &mut content.as_slice())
                .unwrap();
        }
        found
    }

    /// Such a host decided which CA a restored cluster got.
    #[test]
    fn host_that_is_no_control_plane_provides_no_authority() {
        let (own, other) = (of_kubeadm(), of_kubeadm());
        let without_etcd: Vec<_> = own
            .iter()
            .filter(|file| !file.0.starts_with("etcd/"))
            .cloned()
            .collect();
        let found = of(&[("cluster.json", record(&own))], &without_etcd, &other);
        assert_eq!(found.problems(), [""; 0]);
        let best = found.best().unwrap();
        assert_eq!(best.lacks(), [""; 0]);
        let names = tar::Archive::new(best.archive.as_slice())
            .entries()
            .unwrap()
            .count();
        assert_eq!(names, 6);
        // The control plane has nothing.
        assert_eq!(of(&[], &[], &other).best().unwrap().lacks().len(), 6);
    }

    #[test]
    fn authorities_that_the_state_does_not_record_are_not_used() {
        let (own, other) = (of_kubeadm(), of_kubeadm());
        let state = [("cluster.json", record(&own))];
        let problem = |files: &[(&str, String)]| {
            let found = of(&state, files, &[]);
            assert_eq!(found.best().is_none(), !found.problems().is_empty());
            found.problems().join("; ")
        };
        assert_eq!(problem(&own), "");
        assert_eq!(
            problem(&other),
            "hosts/node1.tar: ca.crt is not the Kubernetes CA of the cluster"
        );
        let with = |at: usize, text: String| {
            let mut files = own.clone();
            files[at].1 = text;
            problem(&files)
        };
        let key = with(1, other[1].1.clone());
        assert_eq!(key, "hosts/node1.tar: ca.key is not the key of ca.crt");
        let key = with(6, other[6].1.clone());
        assert_eq!(key, "hosts/node1.tar: sa.key is not the key of sa.pub");
        // The first one would be taken.
        let both = format!("{}{}", other[0].1, own[0].1);
        assert!(with(0, both).contains("ca.crt is not the Kubernetes CA"));
        assert!(with(0, "x".to_owned()).contains("ca.crt is not the Kubernetes CA"));
    }

    #[test]
    fn authority_of_a_rotation_is_one_of_the_cluster() {
        let (mut own, next) = (of_kubeadm(), of_kubeadm());
        let state = |name| {
            [
                ("cluster.json", record(&own)),
                (name, next[0].1.clone().into_bytes()),
            ]
        };
        let (begun, other) = (state("pki/rotation/kubernetes.crt"), state("pki/other.crt"));
        own[0].1.push_str(&next[0].1);
        assert_eq!(of(&begun, &own, &[]).problems(), [""; 0]);
        assert_eq!(of(&other, &own, &[]).problems().len(), 1);
    }

    /// All hosts counted as control planes, so that any of them chose the CA of a restored cluster.
    #[test]
    fn cluster_file_of_another_version_makes_no_host_a_control_plane() {
        let (own, other) = (of_kubeadm(), of_kubeadm());
        let of = |names, cluster| with(names, cluster, &[], &own[..1], &other);
        let recorded = Some(vec!["node1".parse().unwrap()]);
        let readable = text_of(ROLES, "", "");
        for cluster in ["future: true", readable.as_str()] {
            let found = of(recorded.clone(), cluster);
            assert_eq!(found.problems(), [""; 0]);
            assert_eq!(found.best().unwrap().lacks().len(), 5);
        }
        // The record decides for hosts of a backup of an earlier version.
        let state = [("cluster.json", record(&own))];
        let found = with(None, "future: true", &state, &own[..1], &other);
        assert_eq!(found.problems().len(), 1);
        assert_eq!(found.best().unwrap().lacks().len(), 5);
        let unknown = of(None, "future: true");
        assert!(unknown.best().is_none());
        let problems = unknown.problems().join("\n");
        assert!(
            problems.starts_with("hosts/node1.tar: nothing shows") && problems.contains("node2"),
            "{problems}"
        );
    }
}
