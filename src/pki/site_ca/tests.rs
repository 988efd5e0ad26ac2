use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, DnValue, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P384_SHA384,
};
use tempfile::TempDir;

use super::*;
use crate::kubernetes::{CaKey, ClusterPki};
use crate::rotation::{self, Kind};
use crate::store::CertificateStore;
use kubexm_config::Cluster;

/// Returns an intermediate CA of a site: its certificate and its key, with several kinds of text in its subject.
fn intermediate(is_ca: IsCa) -> [String; 2] {
    let root = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&root).unwrap().pem();
    let issuer = Issuer::from_ca_cert_pem(&certificate, root).unwrap();

    let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    let mut params = CertificateParams::default();
    let subject = &mut params.distinguished_name;
    subject.push(
        DnType::CountryName,
        DnValue::PrintableString("DE".try_into().unwrap()),
    );
    subject.push(DnType::OrganizationName, "Bänk");
    subject.push(
        DnType::CommonName,
        DnValue::Ia5String("Clusters".try_into().unwrap()),
    );
    params.is_ca = is_ca;
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    [
        params.signed_by(&key, &issuer).unwrap().pem(),
        key.serialize_pem(),
    ]
}

fn ca() -> [String; 2] {
    intermediate(IsCa::Ca(BasicConstraints::Constrained(0)))
}

/// A cluster file that names two files.
struct Site {
    folder: TempDir,
    cluster: Cluster,
}

impl Site {
    fn new([certificate, key]: &[String; 2]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut cluster =
            kubexm_config::parse_cluster("example", kubexm_config::schema::TEMPLATE).unwrap();
        cluster.kubernetes.site_ca = Some(SiteCa {
            cert_file: folder.path().join("site.crt"),
            key_file: folder.path().join("site.key"),
        });
        let site = Self { folder, cluster };
        site.write("site.crt", certificate);
        site.write("site.key", key);
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(self.path(name), mode).unwrap();
    }

    /// Returns the error of a file, without the directory.
    fn refused(&self) -> String {
        let refused = load(&self.cluster).err().unwrap().to_string();
        refused.replace(&self.folder.path().display().to_string(), "F")
    }
}

#[test]
fn intermediate_ca_of_the_site_signs_for_the_cluster() {
    let given = ca();
    let mut site = Site::new(&given);
    let store = CertificateStore::new(site.path("pki"));
    let pki = ClusterPki::load_or_create(&store, &site.cluster).unwrap();
    assert_eq!([&pki.ca, &pki.trusted], [&given[0]; 2]);
    assert!(matches!(&pki.ca_key, CaKey::Known(key) if *key == given[1]));
    let issuer = Certificate::first("ca", &given[0]).unwrap();
    for (name, node) in &pki.nodes {
        let found = Certificate::first("kubelet", &node.kubelet.certificate).unwrap();
        assert!(found.is_signed_by(&issuer), "{name}");
    }
    // The state directory has both now: the cluster keeps its CA.
    site.cluster.kubernetes.site_ca = None;
    let again = ClusterPki::load_or_create(&store, &site.cluster).unwrap();
    assert_eq!(again.ca, given[0]);
}

#[test]
fn preview_has_the_ca_of_the_site_and_writes_nothing() {
    let given = ca();
    let site = Site::new(&given);
    let store = CertificateStore::read_only(site.path("pki"));
    let pki = ClusterPki::load_or_create(&store, &site.cluster).unwrap();
    assert_eq!(pki.ca, given[0]);
    assert!(!site.path("pki").exists());
}

/// A cluster that exists gets another CA only by a rotation.
#[test]
fn rotation_takes_the_next_ca_of_the_site() {
    let (first, next) = (ca(), ca());
    let site = Site::new(&first);
    let store = CertificateStore::new(site.path("pki"));
    ClusterPki::load_or_create(&store, &site.cluster).unwrap();
    site.write("site.crt", &next[0]);
    site.write("site.key", &next[1]);
    let kept = ClusterPki::load_or_create(&store, &site.cluster).unwrap();
    assert_eq!(kept.ca, first[0]);

    for _ in 0..2 {
        rotation::begin_with(&store, "kubernetes", || load(&site.cluster)).unwrap();
        rotation::begin(&store, "kubernetes", Kind::Ca, "new").unwrap();
    }
    let both = ClusterPki::load_or_create(&store, &site.cluster).unwrap();
    assert_eq!(both.ca, first[0]);
    assert!(both.trusts_two() && both.trusted.contains(next[0].trim_end()));
    rotation::switch(&store, "kubernetes", Kind::Ca).unwrap();
    rotation::finish(&store, "kubernetes", Kind::Ca).unwrap();
    let after = ClusterPki::load_or_create(&store, &site.cluster).unwrap();
    assert_eq!(
        [after.ca.trim_end(), after.trusted.trim_end()],
        [next[0].trim_end(); 2]
    );
    assert!(matches!(&after.ca_key, CaKey::Known(key) if *key == next[1]));
}

#[test]
fn files_that_cannot_sign_are_refused() {
    let [certificate, key] = ca();
    let site = Site::new(&[certificate.clone(), key.clone()]);
    assert!(load(&site.cluster).unwrap().is_some());

    site.write("site.crt", &format!("{certificate}{certificate}"));
    let said = site.refused();
    assert!(
        said.starts_with("certificate or key F/site.crt: it has 2 certificates"),
        "{said}"
    );
    // Such a file of openssl pkcs12 would be published in every namespace.
    site.write("site.crt", &format!("{certificate}{key}"));
    assert!(
        site.refused()
            .starts_with("certificate or key F/site.crt: it has more than a certificate")
    );
    site.write("site.crt", &format!("Bag Attributes\n{certificate}"));
    assert!(site.refused().contains("openssl x509 -in FILE -out NEW"));
    site.write("site.crt", &intermediate(IsCa::ExplicitNoCa)[0]);
    assert!(site.refused().contains("it may not sign certificates"));
    site.write("site.crt", &ca()[0]);
    assert!(
        site.refused()
            .starts_with("certificate or key F/site.key: ")
    );

    site.write("site.crt", &certificate);
    site.write(
        "site.key",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    let said = site.refused();
    assert!(said.contains("openssl pkey -in KEY -out NEW"), "{said}");
    site.write("site.key", &key);
    let mode = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(site.path("site.key"), mode).unwrap();
    assert!(site.refused().contains("chmod 600 F/site.key"));
    let of_ed25519 = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = params.self_signed(&of_ed25519).unwrap().pem();
    site.write("site.crt", &root);
    site.write("site.key", &of_ed25519.serialize_pem());
    assert!(site.refused().contains("does not sign with Ed25519"));
    std::fs::remove_file(site.path("site.key")).unwrap();
    assert!(site.refused().starts_with("cannot read F/site.key: "));
}

/// A cluster that exists needs no key of its CA on this machine.
#[test]
fn key_is_read_for_a_new_cluster_only() {
    let given = ca();
    let site = Site::new(&given);
    let store = CertificateStore::new(site.path("pki"));
    ClusterPki::load_or_create(&store, &site.cluster).unwrap();
    std::fs::remove_file(site.path("site.key")).unwrap();
    let again = ClusterPki::load_or_create(&store, &site.cluster).unwrap();
    assert_eq!(again.ca, given[0]);
}
