use std::sync::Arc;

use super::*;
use kubexm_engine::plan::Plan;
use kubexm_engine::plan::diff::diff;
use kubexm_host::Host;
use kubexm_host::local::LocalHost;
use kubexm_pki::kubernetes::CaKey;
use kubexm_types::Message;

/// The controller manager refuses a file with two certificates, which it would have in a rotation.
#[test]
fn controller_manager_signs_with_one_certificate_while_two_are_trusted() {
    let cluster = crate::renewal::tests::cluster("type: systemd", "etcd: {type: systemd}");
    let pki = ClusterPki::placeholder(&cluster).unwrap();
    let host = cluster.nodes()[0];
    let own = &pki.control_planes[&host.name];
    let signer = |pki: &ClusterPki| {
        let program = controller_manager(&cluster, pki, own, host).unwrap();
        let signer = program.flags["cluster-signing-cert-file"].clone();
        let paths = program.files.paths();
        (signer, paths.iter().any(|path| path.as_str() == SIGNER))
    };
    assert_eq!(signer(&pki), (CA.to_owned(), false));
    let mut rotated = (*pki).clone();
    rotated.trusted.push_str("<another certificate>\n");
    assert_eq!(signer(&rotated), (SIGNER.to_owned(), true));
}

#[test]
fn program_restarts_after_a_change_of_a_file_that_its_flag_names() {
    let policy = "/etc/kubernetes/site/policy.yaml";
    let kubernetes = format!(
        "type: systemd, scheduler: {{extraArgs: {{requestheader-client-ca-file: {policy}}}}}"
    );
    let sections = format!(
        "etcd: {{type: systemd}}\nsystem: {{files: [{{path: {policy}, content: a}}, {{path: /etc/other, content: b}}]}}"
    );
    let cluster = crate::renewal::tests::cluster(&kubernetes, &sections);
    let pki = ClusterPki::placeholder(&cluster).unwrap();
    let host = cluster.nodes()[0];
    let own = &pki.control_planes[&host.name];
    let reads = |program: Program| -> Vec<String> {
        let files = program.reads(&cluster).into_iter();
        files.map(|path| path.to_string()).collect()
    };
    let scheduler = reads(scheduler(&cluster, &pki, own, host).unwrap());
    assert!(scheduler.contains(&policy.to_owned()), "{scheduler:?}");
    assert!(
        !scheduler.contains(&"/etc/other".to_owned()),
        "{scheduler:?}"
    );
    let other = reads(controller_manager(&cluster, &pki, own, host).unwrap());
    assert!(!other.contains(&policy.to_owned()), "{other:?}");
}

/// A proxy that systemd gives to all units would get requests to members of etcd and to API servers.
#[test]
fn only_the_runtime_gets_proxies_of_the_site() {
    let cluster = crate::example::cluster(
        "type: systemd",
        "etcd: {type: systemd}\nnetwork: {plugin: none}",
    );
    crate::example::with_inputs(&cluster, &[], "", |inputs| {
        let plan = crate::plan(inputs).unwrap().plan;
        let files = crate::rendered(&plan).into_values().flatten();
        let mut units = BTreeMap::new();
        for file in files.filter(|file| file.path.as_str().ends_with(".service")) {
            let name = file.path.as_str().rsplit('/').next().unwrap_or_default();
            let has_none = file
                .content
                .contains("\nUnsetEnvironment=HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy\n\n[Install]\n");
            units.insert(name.to_owned(), has_none);
        }
        assert_eq!(units.remove("containerd.service"), Some(false));
        assert!(
            units.len() > 6 && units.values().all(|has_none| *has_none),
            "{units:?}"
        );
    });
}

/// kubeadm also leaves out the modes. The API server refuses both.
#[test]
fn authorization_file_of_the_user_replaces_the_modes() {
    let flags = |kubernetes: &str| {
        let cluster = crate::renewal::tests::cluster(kubernetes, "etcd: {type: systemd}");
        api_server_flags(&cluster, cluster.nodes()[0])
    };
    let default = flags("type: systemd");
    assert_eq!(default["authorization-mode"], "Node,RBAC");
    let own = flags("type: systemd, apiServer: {extraArgs: {authorization-config: /etc/a.yaml}}");
    assert_eq!(own["authorization-config"], "/etc/a.yaml");
    assert!(!own.contains_key("authorization-mode"), "{own:?}");
}

/// Returns the part of an install that writes the key of the CA.
fn with_key(key: CaKey) -> Plan {
    let cluster = crate::renewal::tests::cluster("type: systemd", "etcd: {type: systemd}");
    let mut pki = (*ClusterPki::placeholder(&cluster).unwrap()).clone();
    pki.ca_key = key;
    let host = cluster.nodes()[0];
    let own = &pki.control_planes[&host.name];
    let program = controller_manager(&cluster, &pki, own, host).unwrap();
    let mut files = program.files.into_steps().into_iter();
    let file = files.find(|file| file.path.as_str() == CA_KEY).unwrap();
    Plan {
        tasks: vec![Task::new("kubernetes", "node", &"node1".parse().unwrap()).step(file)],
    }
}

#[tokio::test]
async fn key_that_is_not_known_is_not_a_difference() {
    let folder = tempfile::tempdir().unwrap();
    let host = LocalHost::within("node1".parse().unwrap(), folder.path()).unwrap();
    let host: Arc<dyn Host> = Arc::new(host);
    let hosts = BTreeMap::from([(host.name().clone(), host)]);
    let known = with_key(CaKey::Known("key".to_owned()));
    let found = diff(&known, &hosts).await.unwrap();
    assert!(found.has_changes(), "{found}");
    let cause = Message::new("cannot read the key: it is encrypted").hint("pass the identity");
    let unknown = with_key(CaKey::Unknown(cause));
    let found = diff(&unknown, &hosts).await.unwrap();
    assert!(!found.has_changes(), "{found}");
    insta::assert_snapshot!(found, @"
    node1: 1 steps differ, 0 found the desired state, 0 actions run in every install
      kubernetes/node@node1: Write /etc/kubernetes/pki/ca.key: not compared: cannot read the key: it is encrypted
        hint: pass the identity
    ");
}
