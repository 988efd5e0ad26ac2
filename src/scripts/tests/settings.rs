//! Settings of kubeadm's nodes and clusters. The programs are stand-ins.

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

/// Adds a node with settings `old`, and stand-ins: kubeadm generates files with the setting of its configuration.
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
        "crictl",
        "case $* in logs*) echo 'the cause' ;; *-q) echo c1 ;; esac",
    );
    machine.fake("journalctl", "echo 'the cause'");
    machine.fake("kubectl", "echo '{}'");
    machine.fake("systemctl", "echo active");
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
         case $* in\n\
         *'-o yaml') cat proxy ;;\n\
         *'replace --force'*) cp \"$last\" proxy ;;\n\
         esac",
    );
}

/// Returns the parameters of a change of the API server's manifest.
pub(super) fn of_pod() -> [String; 3] {
    let path = manifest("kube-apiserver");
    [
        "former=/var/lib/kubexm/settings/control-plane/kube-apiserver.yaml".to_owned(),
        format!("path={path}"),
        "content=new\n".to_owned(),
    ]
}

/// Parameters of a change of the kubelet's files, and its files.
pub(super) const OF_KUBELET: [&str; 2] = [
    "former=/var/lib/kubexm/settings/kubelet",
    "path=/var/lib/kubelet",
];
pub(super) const KUBELET_FILES: [&str; 3] = [
    "/var/lib/kubelet/config.yaml",
    "/var/lib/kubelet/kubeadm-flags.env",
    "/var/lib/kubelet/missing",
];

#[test]
fn files_of_kubeadm_and_of_the_node_are_printed() {
    Machine::with_each_shell(|machine| {
        with_programs(machine);
        let [former, path, _] = of_pod();
        machine.write("/etc/signer", "one\n");
        let look = |phase| {
            let words = [CONFIG, phase, "path=/etc/kubernetes/manifests", &former];
            let more = ["--", "/etc/signer", "/missing"];
            machine.run(SETTINGS.verb("look"), &[&words[..], &more].concat())
        };
        let found = look("phase=control-plane all");
        let files = |name: &str| {
            format!(
                "{name}.yaml {}\n{name} new\n{} {}\n{name} old\n",
                name.len() + 5,
                manifest(name),
                name.len() + 5
            )
        };
        let files: String = MANIFESTS.map(files).concat() + "/etc/signer 4\none\n";
        assert_eq!((found.status, &*found.printed), (0, &*files));
        machine.done(SETTINGS.verb("put"), &[&former, &path, "content=x"]);
        let found = look("phase=control-plane all").printed;
        assert!(found.starts_with("former\nkube-apiserver.yaml "), "{found}");
        machine.fake("kubeadm", "echo 'unknown field' >&2; exit 1");
        let refused = look("phase=kubelet-start");
        assert_eq!(
            (refused.status, &*refused.complained),
            (75, "unknown field\n")
        );
    });
}

#[test]
fn former_file_of_a_change_comes_back_or_is_the_previous_one() {
    Machine::with_each_shell(|machine| {
        with_programs(machine);
        let [former, path, _] = of_pod();
        let live = || machine.read(&manifest("kube-apiserver"));
        let run = |verb| machine.done(SETTINGS.verb(verb), &[&former, &path]);
        // A second change before the first one is confirmed keeps the first file.
        for content in ["content=second\n", "content=new\n"] {
            machine.done(SETTINGS.verb("put"), &[&former, &path, content]);
        }
        assert_eq!(live(), "new\n");
        run("restore");
        run("drop");
        assert_eq!(live(), "kube-apiserver old\n");
        machine.done(SETTINGS.verb("put"), &[&former, &path, "content=new\n"]);
        for _ in 0..2 {
            run("keep");
            let previous = format!("/var/lib/kubexm/previous{}", manifest("kube-apiserver"));
            assert_eq!(machine.read(&previous), "kube-apiserver old\n");
            assert_eq!(live(), "new\n");
        }
    });
}

#[test]
fn former_files_of_the_kubelet_are_kept_at_once() {
    Machine::with_each_shell(|machine| {
        with_programs(machine);
        let [former, path] = OF_KUBELET;
        let config = KUBELET_FILES[0];
        let old = machine.read(config);
        let save = [&[former, "--"][..], &KUBELET_FILES].concat();
        let change = |content| {
            machine.done(SETTINGS.verb("save"), &save);
            let file = format!("path={config}");
            machine.done(SETTINGS.verb("put"), &[former, &file, content]);
        };
        change("content=second\n");
        change("content=new\n");
        assert_eq!(machine.read(config), "new\n");
        machine.done(SETTINGS.verb("restore"), &[former, path]);
        assert_eq!(machine.read(config), old);
        change("content=new\n");
        machine.done(SETTINGS.verb("keep"), &[former, path]);
        assert_eq!(
            machine.read(&format!("/var/lib/kubexm/previous{config}")),
            old
        );
        assert_eq!(machine.read(config), "new\n");
        assert!(!machine.has("/var/lib/kubexm/settings/kubelet"));
    });
}

#[test]
fn programs_of_a_node_are_asked_without_a_change() {
    Machine::with_each_shell(|machine| {
        with_programs(machine);
        let path = format!("path={}", manifest("kube-scheduler"));
        let of_pod = ["name=kube-scheduler", "node=node1", &path];
        let ask = |verb, words: &[&str]| machine.done(SETTINGS.verb(verb), words);
        assert_eq!(ask("life", &["node=node1"]), "active\n{}\n{}\n");
        assert_eq!(ask("readyz", &[]), "");
        assert_eq!(ask("pod", &of_pod), "{}\n");
        assert_eq!(ask("logs", &of_pod), "kube-scheduler: the cause\n");
        assert_eq!(ask("logs", &["name=kubelet"]), "kubelet: the cause\n");
        let latest = ask("latest", &of_pod);
        let times: Vec<u64> = latest.lines().map(|line| line.parse().unwrap()).collect();
        assert!(times.len() == 2 && times[0] >= times[1], "{latest}");
        let calls = machine.calls();
        let pod = "-n kube-system get pod kube-scheduler-node1 -o json";
        assert!(calls.iter().any(|call| call.ends_with(pod)), "{calls:?}");
        machine.fake("systemctl", "exit 1");
        assert_eq!(ask("restart", &[]).len(), "2026-01-01T00:00:00\n".len());
        assert!(
            machine
                .calls()
                .contains(&"systemctl restart kubelet".to_owned())
        );
        // Scripts fail where an API server does not answer. The list of containers is optional.
        machine.fake("kubectl", "exit 1");
        machine.fake("crictl", "exit 1");
        for verb in ["life", "readyz", "pod"] {
            assert_ne!(
                machine.run(SETTINGS.verb(verb), &of_pod).status,
                0,
                "{verb}"
            );
        }
        assert_eq!(ask("latest", &of_pod).lines().count(), 2);
    });
}

#[test]
fn former_config_map_of_kube_proxy_stays_until_a_change_is_complete() {
    Machine::with_each_shell(|machine| {
        with_cluster(machine);
        let run = |verb| machine.done(CLUSTER_SETTINGS.verb(verb), &[CONFIG]);
        let object = || machine.read("/root/cluster/proxy");
        assert_eq!(run("began"), "");
        run("keep");
        assert_eq!(run("began"), "began\n");
        run("proxy");
        assert_eq!(object(), "new\n");
        // An interrupted change has kept the former one.
        run("keep");
        run("back");
        assert_eq!(object(), "old\n");
        run("done");
        assert_eq!(run("began"), "");
        assert_eq!(
            machine.read("/var/lib/kubexm/previous/kube-proxy/map.yaml"),
            "old\n"
        );
        run("keep");
        run("drop");
        assert_eq!(run("began"), "");
        run("store");
        assert_eq!(machine.read("/root/cluster/uploaded"), "new\n");
        assert!(!machine.calls().iter().any(|call| call.contains("jsonpath")));
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
