//! `spec.security`.

use super::*;
use crate::cluster::{Encryption, EncryptionProvider, SecurityProfile};

fn with(security: &str) -> Result<Cluster, Problems> {
    let text = GOOD.replace("kubernetes:", &format!("{security}\n  kubernetes:"));
    parse_cluster("cluster.yaml", &text)
}

#[test]
fn profile_cis_encrypts_secrets_and_the_default_does_not() {
    let encryption = |security: &str| with(security).unwrap().security.encryption;
    let secretbox = |key| {
        Some(Encryption {
            provider: EncryptionProvider::Secretbox,
            key,
        })
    };
    assert_eq!(
        parse_cluster("c", GOOD).unwrap().security.profile,
        SecurityProfile::Default
    );
    assert_eq!(encryption("security: {}"), None);
    assert_eq!(encryption("security: {profile: cis}"), secretbox(1));
    assert_eq!(encryption("security: {encryption: {key: 0}}"), secretbox(0));
    assert_eq!(
        encryption("security: {encryption: {provider: secretbox, key: 3}}"),
        secretbox(3)
    );
    let none = "security: {profile: cis, encryption: {provider: none}}";
    assert_eq!(encryption(none), None);
}

#[test]
fn every_fault_is_named_with_its_place_and_a_hint() {
    let mut all = String::new();
    for security in [
        "security: {profile: strict}",
        "security: {encryption: {provider: aesgcm}}",
        "security: {encryption: {provider: none, key: 1}}",
        "security: {encryption: {key: -1}}",
        "security: {profile: cis}\n  system: {sysctl: {kernel.panic: 0}}",
    ] {
        all += &format!("{}\n", with(security).unwrap_err());
    }
    let all = all.replace(env!("CARGO_PKG_VERSION"), "[version]");
    insta::assert_snapshot!(all, @"
    cluster.yaml:13:23: spec.security.profile: unknown value 'strict'
      hint: kubexm [version] accepts: default, cis
    cluster.yaml:13:37: spec.security.encryption.provider: unknown value 'aesgcm'
      hint: kubexm [version] accepts: none, secretbox, aescbc
    cluster.yaml:13:48: spec.security.encryption.key: is not accepted with provider: none
      hint: remove it, or set another provider
    cluster.yaml:13:32: spec.security.encryption.key: expected a whole number from 0 to 100
      hint: `kubexm config schema cluster` describes every field
    cluster.yaml:14:20: spec.system.sysctl: the kubelet of security.profile cis needs kernel.panic = 10
      hint: remove the setting, or the profile
    ");
    with("security: {profile: cis}\n  system: {sysctl: {kernel/panic: 10, fs.file-max: 9}}")
        .unwrap();
}
