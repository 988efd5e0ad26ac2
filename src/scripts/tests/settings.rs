//! Settings of kubeadm's nodes: which files change, and what happens to a program that does not become healthy. The
//! programs are stand-ins.

use super::machine::Machine;
use crate::kubeadm::{CLUSTER_SETTINGS, ETCD_CA, KUBE_PROXY, SETTINGS};

/// A configuration of `kubeadm init`, as far as the stand-in reads it.
pub(super) const CONFIG: &str = "config=kind: ClusterConfiguration\nsetting: new\n";

const MANIFESTS: [&str; 3] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];

fn manifest(name: &str) -> String {
    format!("/etc/kubernetes/manifests/{name}.yaml")
}

/// Adds a node with settings `old`, and stand-ins: kubeadm generates files with the setting of its configuration, and a
/// program is healthy unless its file contains `broken`.
pub(super) fn with_programs(machine: &Machine) {
    for name in MANIFESTS {
        machine.write(&manifest(name), &format!("{name} old\n"));
    }
    machine.write(
        "/var/lib/kubelet/config.yaml",
        "config old /etc/kubernetes/pki/ca.crt\n",
    );
    machine.write(
        "/var/lib/kubelet/kubeadm-flags.env",
        "KUBELET_KUBEADM_ARGS=\"--a=1 --register-with-taints=gpu:NoSchedule\"\n",
    );
    machine.fake(
        "kubeadm",
        "for word in \"$@\"; do [ \"${last:-}\" != --config ] || file=$word; last=$word; done\n\
         setting=$(sed -n 's/^setting: //p' \"$file\") out=${KUBEADM_INIT_DRYRUN_DIR:-/root/cluster}\n\
         case $* in\n\
         *control-plane*) for name in kube-apiserver kube-controller-manager kube-scheduler; do\n\
           echo \"$name $setting\" >\"$out/$name.yaml\"; done ;;\n\
         *kubelet-start*) echo \"config $setting $(sed -n 's/^certificatesDir: //p' \"$file\")/ca.crt\" >\"$out/config.yaml\"\n\
           echo 'KUBELET_KUBEADM_ARGS=\"--a=1\"' >\"$out/kubeadm-flags.env\" ;;\n\
         *'etcd local'*) printf '    - --name=node1\\n    - --initial-cluster=a\\n    - --quota=%s\\n' \"$setting\" >\"$out/etcd.yaml\" ;;\n\
         *addon*) echo \"$setting\" >\"$out/proxy\" ;;\n\
         *upload-config*) echo \"$setting\" >\"$out/uploaded\" ;;\n\
         esac",
    );
    machine.fake(
        "kubectl",
        "manifests=/etc/kubernetes/manifests\n\
         case $* in\n\
         *'--raw /readyz') ! grep -q broken $manifests/kube-apiserver.yaml ;;\n\
         *'get pod '*) for word in \"$@\"; do case $word in kube-*-node1) name=${word%-node1} ;; esac; done\n\
           ready=True; ! grep -q broken \"$manifests/$name.yaml\" || ready=False\n\
           echo \"$(cksum <\"$manifests/$name.yaml\" | cut -d' ' -f1) $ready\" ;;\n\
         *'get lease '*) if grep -q broken /var/lib/kubelet/config.yaml; then echo 2020-01-01T00:00:00.000000Z\n\
           else date -u +%Y-%m-%dT%H:%M:%S.999999Z; fi ;;\n\
         *'get node '*) echo True ;;\n\
         esac",
    );
    machine.fake("crictl", "case $* in logs*) echo 'the cause' ;; esac");
    machine.fake("journalctl", "echo 'the cause'");
    machine.fake("systemctl", "");
    machine.fake("sleep", "");
}

/// Adds the objects of a cluster with the setting `old`, and stand-ins for them.
pub(super) fn with_cluster(machine: &Machine) {
    with_programs(machine);
    machine.write("/root/cluster/proxy", "old\n");
    machine.fake(
        "kubectl",
        "cd /root/cluster\n\
         for last in \"$@\"; do :; done\n\
         for map in kubeadm-config kubelet-config kube-proxy; do case \" $* \" in *\" $map \"*) break ;; esac; done\n\
         case $* in\n\
         *annotate*) printf %s \"${last#*=}\" >\"mark-$map\" ;;\n\
         *annotations*) cat \"mark-$map\" 2>/dev/null || : ;;\n\
         *'get daemonset'*) echo daemonset/kube-proxy ;;\n\
         *data.config*) cat proxy ;;\n\
         *'-o yaml') cat proxy ;;\n\
         *'rollout restart'*) cp proxy running ;;\n\
         *'rollout status'*) ! grep -q broken running ;;\n\
         *'replace --force'*) cp \"$last\" proxy ;;\n\
         esac",
    );
}

fn broken() -> String {
    CONFIG.replace("new", "broken")
}

/// An upgrade stops the kubelet between both.
#[test]
fn files_of_the_kubelet_are_written_before_another_run_restarts_it() {
    Machine::with_each_shell(|machine| {
        with_programs(machine);
        let arguments = ["scope=kubelet", "node=node1", CONFIG];
        assert_eq!(machine.run(SETTINGS.verb("written"), &arguments).status, 1);
        machine.calls();
        machine.done(SETTINGS.verb("write"), &arguments);
        machine.done(SETTINGS.verb("written"), &arguments);
        assert!(
            machine
                .read("/var/lib/kubelet/config.yaml")
                .starts_with("config new")
        );
        let restarts = |calls: &[String]| calls.iter().any(|call| call.contains("restart"));
        assert!(!restarts(&machine.calls()));
        assert_eq!(machine.run(SETTINGS.verb("check"), &arguments).status, 1);
        machine.done(SETTINGS.verb("apply"), &arguments);
        assert!(restarts(&machine.calls()));
        machine.done(SETTINGS.verb("check"), &arguments);
    });
}

/// During a rotation of the CA, the controller manager signs with a file of its own.
#[test]
fn signer_of_a_rotation_is_no_difference() {
    const SIGNER: &str = "/etc/kubernetes/pki/signing-ca.crt";
    Machine::with_each_shell(|machine| {
        with_programs(machine);
        let manifests = "/etc/kubernetes/manifests";
        for name in ["kube-apiserver", "kube-scheduler"] {
            machine.write(&format!("{manifests}/{name}.yaml"), "a\n");
        }
        machine.fake(
            "kubeadm",
            "for name in kube-apiserver kube-scheduler; do echo a >\"$KUBEADM_INIT_DRYRUN_DIR/$name.yaml\"; done\n\
             echo '    - --cluster-signing-cert-file=/etc/kubernetes/pki/ca.crt' \
             >\"$KUBEADM_INIT_DRYRUN_DIR/kube-controller-manager.yaml\"",
        );
        let manager = format!("    - --cluster-signing-cert-file={SIGNER}\n");
        machine.write(
            &format!("{manifests}/kube-controller-manager.yaml"),
            &manager,
        );
        let arguments = ["scope=control-plane", "node=node1", CONFIG];
        assert_eq!(machine.run(SETTINGS.verb("check"), &arguments).status, 1);
        machine.write(SIGNER, "one\n");
        machine.done(SETTINGS.verb("check"), &arguments);
    });
}

#[test]
fn changed_static_pods_are_replaced_and_their_former_files_are_kept() {
    Machine::with_each_shell(|machine| {
        with_programs(machine);
        let arguments = ["scope=control-plane", "node=node1", CONFIG];
        let ended = machine.run(SETTINGS.verb("check"), &arguments);
        assert_eq!(ended.status, 1);
        let start = "/etc/kubernetes/manifests/kube-apiserver.yaml differs\n@@ -1 +1 @@\n-kube-apiserver old\n\
                     +kube-apiserver new\n";
        assert!(ended.printed.starts_with(start), "{}", ended.printed);
        assert_eq!(
            machine.read(&manifest("kube-apiserver")),
            "kube-apiserver old\n"
        );
        machine.done(SETTINGS.verb("apply"), &arguments);
        for name in MANIFESTS {
            assert_eq!(machine.read(&manifest(name)), format!("{name} new\n"));
            let former = format!("/var/lib/kubexm/previous{}", manifest(name));
            assert_eq!(machine.read(&former), format!("{name} old\n"));
        }
        machine.done(SETTINGS.verb("check"), &arguments);
    });
}

#[test]
fn program_that_does_not_become_ready_gets_its_former_file_back() {
    Machine::with_each_shell(|machine| {
        with_programs(machine);
        let broken = broken();
        let arguments = ["scope=control-plane", "node=node1", &broken];
        let ended = machine.run(SETTINGS.verb("apply"), &arguments);
        assert_eq!(ended.status, 1);
        assert_eq!(
            ended.complained,
            "kube-apiserver does not become ready with its new settings, so it has its former ones again\n\
             kube-apiserver: the cause\n\
             hint: correct the settings of kube-apiserver in the cluster file, then run the same command again\n"
        );
        for name in MANIFESTS {
            assert_eq!(machine.read(&manifest(name)), format!("{name} old\n"));
        }
        assert!(!machine.has("/var/lib/kubexm/settings/control-plane/kube-apiserver.yaml"));
    });
}

/// A machine on which the API server needs some seconds, and whose newest container was created then and has restarted
/// often.
fn with_restarts(machine: &Machine, created: u64) {
    with_programs(machine);
    let kubectl = machine.read("/root/fake/kubectl").replace(
        "*'--raw /readyz') ",
        "*'--raw /readyz') [ -e /root/slept ] && ",
    );
    machine.write("/root/fake/kubectl", &kubectl);
    machine.fake("sleep", ": >/root/slept");
    machine.fake(
        "date",
        "[ \"$1\" = +%s ] && echo $(($(/bin/date +%s) + 30)) || exec /bin/date \"$@\"",
    );
    machine.fake(
        "crictl",
        &format!(
            "case $* in\n\
             *json) printf '%s\\n' '{{' '\"attempt\": 5' '\"createdAt\": \"{created}000000000\",' '}}' ;;\n\
             logs*) echo 'the cause' ;;\n\
             esac"
        ),
    );
}

#[test]
fn restarts_of_the_former_container_are_no_failure_of_the_new_one() {
    Machine::with_each_shell(|machine| {
        let arguments = ["scope=control-plane", "node=node1", CONFIG];
        with_restarts(machine, 1_500_000_000);
        machine.done(SETTINGS.verb("apply"), &arguments);
        machine.done(SETTINGS.verb("check"), &arguments);
    });
    Machine::with_each_shell(|machine| {
        with_restarts(machine, 4_102_444_800);
        let ended = machine.run(
            SETTINGS.verb("apply"),
            &["scope=control-plane", "node=node1", CONFIG],
        );
        assert!(
            ended
                .complained
                .starts_with("kube-apiserver does not become ready"),
            "{}",
            ended.complained
        );
    });
}

#[test]
fn changed_configuration_of_the_kubelet_is_applied() {
    Machine::with_each_shell(|machine| {
        with_programs(machine);
        let arguments = ["scope=kubelet", "node=node1", CONFIG];
        let config = "/var/lib/kubelet/config.yaml";
        let flags = machine.read("/var/lib/kubelet/kubeadm-flags.env");
        machine.done(SETTINGS.verb("apply"), &arguments);
        assert_eq!(
            machine.read(config),
            "config new /etc/kubernetes/pki/ca.crt\n"
        );
        // The flag with which the node registered is not a difference.
        assert_eq!(machine.read("/var/lib/kubelet/kubeadm-flags.env"), flags);
        let former = "config old /etc/kubernetes/pki/ca.crt\n";
        assert_eq!(
            machine.read(&format!("/var/lib/kubexm/previous{config}")),
            former
        );
        let restarted =
            |calls: Vec<String>| calls.iter().any(|call| call == "systemctl restart kubelet");
        assert!(restarted(machine.calls()));
        machine.done(SETTINGS.verb("check"), &arguments);
        machine.done(SETTINGS.verb("apply"), &arguments);
        assert!(!restarted(machine.calls()));
    });
}

#[test]
fn resolv_conf_that_the_unit_of_the_kubelet_replaces_is_no_difference() {
    const DROP_IN: &str = "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf";
    Machine::with_each_shell(|machine| {
        with_programs(machine);
        let arguments = ["scope=kubelet", "node=node1", CONFIG];
        machine.done(SETTINGS.verb("apply"), &arguments);
        let config = "/var/lib/kubelet/config.yaml";
        let joined = machine.read(config) + "resolvConf: /run/systemd/resolve/resolv.conf\n";
        machine.write(config, &joined);
        assert_eq!(machine.run(SETTINGS.verb("check"), &arguments).status, 1);
        machine.write(
            DROP_IN,
            "ExecStart=\nExecStart=kubelet --resolv-conf=/run/a $FLAGS\n",
        );
        machine.done(SETTINGS.verb("check"), &arguments);
        machine.done(SETTINGS.verb("apply"), &arguments);
        assert_eq!(machine.read(config), joined);
    });
}

#[test]
fn kubelet_that_does_not_start_gets_its_former_files_back() {
    Machine::with_each_shell(|machine| {
        with_programs(machine);
        let broken = broken();
        let ended = machine.run(
            SETTINGS.verb("apply"),
            &["scope=kubelet", "node=node1", &broken],
        );
        assert_eq!(ended.status, 1);
        assert!(
            ended.complained.contains("kubelet: the cause\n"),
            "{}",
            ended.complained
        );
        let config = machine.read("/var/lib/kubelet/config.yaml");
        assert_eq!(config, "config old /etc/kubernetes/pki/ca.crt\n");
        assert!(!machine.has("/var/lib/kubexm/settings/kubelet"));
    });
}

#[test]
fn other_flags_of_etcd_are_reported_and_not_changed() {
    Machine::with_each_shell(|machine| {
        with_programs(machine);
        let manifest =
            "    - etcd\n    - --initial-cluster=b\n    - --name=node1\n    - --quota=new\n";
        machine.write("/etc/kubernetes/manifests/etcd.yaml", manifest);
        machine.done(
            SETTINGS.verb("check"),
            &["scope=etcd", "node=node1", CONFIG],
        );
        let other = broken();
        let ended = machine.run(
            SETTINGS.verb("check"),
            &["scope=etcd", "node=node1", &other],
        );
        let expected = "etcd.extraArgs is not applied to the member of etcd on this host: it does not have \
                        --quota=broken, it has --quota=new\n\
                        hint: change the flags in /etc/kubernetes/manifests/etcd.yaml, on one host after another\n";
        assert_eq!((ended.status, ended.printed.as_str()), (78, expected));
    });
}

#[test]
fn configuration_that_kubeadm_refuses_is_an_error_and_not_a_difference() {
    Machine::with_each_shell(|machine| {
        with_programs(machine);
        machine.fake("kubeadm", "echo 'unknown field' >&2; exit 1");
        let ended = machine.run(
            SETTINGS.verb("check"),
            &["scope=kubelet", "node=node1", CONFIG],
        );
        assert_eq!(
            (ended.status, ended.complained.as_str()),
            (75, "unknown field\n")
        );
    });
}

#[test]
fn cluster_stores_changed_settings_and_restarts_kube_proxy() {
    Machine::with_each_shell(|machine| {
        with_cluster(machine);
        let arguments = ["digest=digest", "proxy_digest=proxy-digest", CONFIG];
        let ended = machine.run(CLUSTER_SETTINGS.verb("check"), &arguments);
        let expected = "the ConfigMap kubeadm-config has other settings\n";
        assert_eq!((ended.status, ended.printed.as_str()), (1, expected));
        machine.done(CLUSTER_SETTINGS.verb("apply"), &arguments);
        assert_eq!(machine.read("/root/cluster/uploaded"), "new\n");
        assert_eq!(machine.read("/root/cluster/running"), "new\n");
        machine.done(CLUSTER_SETTINGS.verb("check"), &arguments);
        // A new cluster has them from `kubeadm init`.
        std::fs::remove_dir_all(machine.at("/root/cluster")).unwrap();
        with_cluster(machine);
        machine.done(CLUSTER_SETTINGS.verb("mark"), &arguments);
        assert!(!machine.has("/root/cluster/uploaded"));
        machine.done(CLUSTER_SETTINGS.verb("check"), &arguments);
    });
}

#[test]
fn kube_proxy_that_does_not_become_ready_gets_its_former_settings_back() {
    Machine::with_each_shell(|machine| {
        with_cluster(machine);
        let broken = broken();
        let arguments = ["digest=digest", "proxy_digest=proxy-digest", &broken];
        let ended = machine.run(CLUSTER_SETTINGS.verb("apply"), &arguments);
        assert_eq!(ended.status, 1);
        assert!(
            ended.complained.contains("hint: correct kubeProxy"),
            "{}",
            ended.complained
        );
        assert_eq!(machine.read("/root/cluster/running"), "old\n");
        assert!(!machine.has("/root/cluster/uploaded"));
    });
}

#[test]
fn kube_proxy_that_the_cluster_file_does_not_want_is_reported() {
    Machine::with_each_shell(|machine| {
        let check = |printed: &str, wanted: &str| {
            machine.fake("kubectl", printed);
            machine.run(KUBE_PROXY.verb("check"), &[wanted])
        };
        let runs = "echo daemonset.apps/kube-proxy";
        assert_eq!(check(runs, "yes").status, 0);
        assert_eq!(check("", "no").status, 0);
        assert_eq!(check("exit 1", "no").status, 75);
        for (printed, wanted) in [(runs, "no"), ("", "yes")] {
            let ended = check(printed, wanted);
            assert_eq!(ended.status, 78, "{}", ended.complained);
            let field = "kubernetes.kubeadm.skipPhases.init is not applied: ";
            assert!(ended.printed.starts_with(field), "{}", ended.printed);
            assert!(ended.printed.contains("\nhint: "), "{}", ended.printed);
        }
    });
}

#[test]
fn api_server_with_a_former_ca_of_etcd_is_reported() {
    const STARTED: &str = "rm -f /root/kube-apiserver; cp /usr/bin/sleep /root/kube-apiserver; /root/kube-apiserver 5 >/dev/null 2>&1 & sleep 2";
    Machine::with_each_shell(|machine| {
        let check = |changed: &str| {
            machine.write("/root/ca.crt", "");
            let before = format!("{STARTED}; touch -d '{changed}' /root/ca.crt");
            machine.run_after(&before, ETCD_CA.verb("check"), &["/root/ca.crt"], "")
        };
        assert_eq!(check("2020-01-01").status, 0);
        let ended = check("now");
        assert_eq!(ended.status, 78, "{}", ended.complained);
        let field = "etcd.external.caFile is not applied: ";
        assert!(ended.printed.starts_with(field), "{}", ended.printed);
        assert!(ended.printed.contains("\nhint: "), "{}", ended.printed);
    });
}
