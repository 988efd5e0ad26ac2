//! Scripts for the address of the endpoint, addresses of services, and proxies.

use super::machine::Machine;
use crate::load_balancer;

#[test]
fn address_is_removed_from_each_interface() {
    Machine::with_each_shell(|machine| {
        let listing = "3: eth0    inet 192.0.2.9/32 scope global eth0\\n4: eth1    inet 192.0.2.9/24 scope global eth1";
        machine.fake(
            "ip",
            &format!("case $* in *' show to 192.0.2.9') printf '{listing}\\n' ;; esac"),
        );
        machine.fake("systemctl", "exit 5");
        machine.done(load_balancer::ADDRESS_REMOVE, &["192.0.2.9"]);
        let expected = [
            "systemctl stop kubexm-endpoint.timer",
            "ip -o addr show to 192.0.2.9",
            "ip addr del 192.0.2.9/32 dev eth0",
            "ip addr del 192.0.2.9/24 dev eth1",
        ];
        assert_eq!(machine.calls(), expected);
        assert_eq!(
            machine.done(load_balancer::INTERFACE, &["192.0.2.9"]),
            "eth0\n"
        );
    });
}

/// Starts a process of kube-vip, which ends after a minute.
const KUBE_VIP: &str = "rm -f /root/kube-vip\ncp \"$(command -v bash)\" /root/kube-vip\nmkfifo /root/$$\n\
     address=192.0.2.9 /root/kube-vip -c 'read -r -t 60 <>\"$0\" || :' /root/$$ </dev/null >/dev/null 2>&1 &\n\
     process=$!\nuntil [ \"$(cat /proc/$process/comm)\" = kube-vip ]; do sleep 0.1; done\n\
     echo \"$process\" >/root/process\n";

/// Returns the state of that process: one letter, as in proc(5).
fn state_of_kube_vip(machine: &Machine) -> String {
    let process = machine.read("/root/process");
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.trim())).unwrap();
    let mut lines = status.lines();
    let state = lines.find_map(|line| line.strip_prefix("State:")).unwrap();
    state.trim()[..1].to_owned()
}

/// The address is in the file `here` as long as kube-vip of this host runs.
#[test]
fn address_of_the_endpoint_leaves_with_kube_vip() {
    use load_balancer::ADDRESS_LEAVE;
    const HERE: [&str; 2] = ["192.0.2.9", "https://192.0.2.9:6443"];
    let stops = |machine: &Machine| {
        let calls = machine.calls().into_iter();
        calls.filter(|call| call.starts_with("crictl stop")).count()
    };
    Machine::with_each_shell(|machine| {
        machine.write("/root/fake/here", "");
        machine.fake(
            "ip",
            "[ ! -e /usr/local/bin/here ] || echo '2: eth0 inet 192.0.2.9/32'",
        );
        machine.fake("kubectl", "[ -e /usr/local/bin/elsewhere ]");
        machine.fake("sleep", "echo >/usr/local/bin/elsewhere");
        machine.fake("systemctl", "");
        machine.fake("systemd-run", "");
        machine.fake(
            "crictl",
            "case $1 in ps) echo c1 ;; stop) rm /usr/local/bin/here ;; esac",
        );
        let check = || machine.run(ADDRESS_LEAVE.verb("check"), &HERE[..1]);
        let found = check();
        let expected = "kube-vip on this host has 192.0.2.9\n";
        assert_eq!((found.status, found.printed.as_str()), (1, expected));
        machine.calls();
        let apply = ADDRESS_LEAVE.verb("apply");
        let applied = machine.run_after(KUBE_VIP, apply, &HERE, "");
        assert_eq!((applied.status, applied.printed.as_str()), (0, ""));
        let calls = machine.calls();
        let has = |text: &str| calls.iter().any(|call| call.starts_with(text));
        assert!(has("crictl stop --timeout 10 c1"), "{calls:?}");
        // Another control plane has taken it.
        assert!(has("sleep"), "{calls:?}");
        let asked = |call: &String| call.contains("--server https://192.0.2.9:6443");
        assert!(calls.iter().any(asked), "{calls:?}");
        // kube-vip of this host cannot take it, until this one ends or five minutes are over.
        assert_eq!(state_of_kube_vip(machine), "T");
        let timer =
            "systemd-run --quiet --collect --unit=kubexm-endpoint --on-active=300 /bin/kill -CONT";
        assert!(has(timer), "{calls:?}");
        assert_eq!(check().status, 0);
        let returned = || machine.run(ADDRESS_LEAVE.verb("returned"), &HERE[..1]);
        assert_eq!(returned().status, 1);
        // Something else lets it go on, and it takes the address.
        machine.done(ADDRESS_LEAVE.verb("return"), &HERE[..1]);
        assert_eq!(returned().status, 0);
        assert_ne!(state_of_kube_vip(machine), "T");
        assert_eq!(
            check().printed,
            "kube-vip on this host can take 192.0.2.9\n"
        );
        machine.write("/root/fake/here", "");
        machine.write("/root/fake/again", "");
        machine.fake(
            "crictl",
            "case $1 in ps) echo c1 ;;\n\
             stop) rm /usr/local/bin/again 2>/dev/null || rm /usr/local/bin/here ;; esac",
        );
        machine.calls();
        machine.done(apply, &HERE);
        assert_eq!(stops(machine), 2);
        assert_eq!(state_of_kube_vip(machine), "T");
        // No other control plane takes it.
        machine.write("/root/fake/here", "");
        machine.fake("crictl", "");
        let printed = machine.done(apply, &HERE);
        assert_eq!(printed, "no other control plane takes 192.0.2.9\n");
        assert_ne!(state_of_kube_vip(machine), "T");
        let end = "kill -KILL \"$(cat /root/process)\"";
        machine.run_after(end, ADDRESS_LEAVE.verb("returned"), &HERE[..1], "");
    });
}

#[test]
fn addresses_of_services_are_those_that_kube_vip_logged() {
    Machine::with_each_shell(|machine| {
        let manifest = "/etc/kubernetes/manifests/kube-vip-services.yaml";
        let check = load_balancer::KUBE_VIP_SERVICES.verb("check");
        machine.done(check, &[manifest]);
        machine.write(manifest, "pod");
        assert_eq!(
            machine.run(check, &[manifest]).printed,
            "kube-vip assigns addresses to services\n"
        );
        machine.write(
            "/var/log/pods/kube-system_kube-vip-services-node1_1/kube-vip/0.log",
            "INFO kube-vip.io version=v0.9.1\nINFO using node name name=192.0.2.31\n\
             INFO (svcs) adding VIP ip=192.0.2.30 interface=eth0\nINFO (svcs) adding VIP ip=fd00::30\n\
             INFO (svcs) adding VIP ip=192.0.2.9\nINFO (svcs) adding VIP ip=192.0.2.40\n",
        );
        let listing = [
            "eth0    inet 192.0.2.11/24 brd 192.0.2.255 scope global eth0",
            // The endpoint, addresses of services, and addresses that others have configured.
            "eth0    inet 192.0.2.9/32 scope global eth0",
            "eth0    inet 192.0.2.30/32 scope global eth0",
            "eth0    inet 192.0.2.3/32 scope global eth0",
            "eth0    inet 192.0.2.31/32 scope global eth0",
            "eth0    inet 192.0.2.40/24 scope global eth0",
            "eth0    inet6 fd00::30/128 scope global",
        ];
        let listing = listing.map(|line| format!("2: {line}\\n")).concat();
        machine.fake("ip", &format!("[ \"$1\" != -o ] || printf '{listing}'"));
        // The kubelet removes the logs of a pod that ends.
        machine.fake(
            "crictl",
            "case $1 in pods) echo p1 ;; ps) echo c1 ;; stop) rm -r /var/log/pods/* ;; esac",
        );
        let stop = load_balancer::KUBE_VIP_SERVICES.verb("stop");
        let arguments = [manifest, "192.0.2.9", "192.0.2.11"];
        machine.done(stop, &arguments);
        assert_eq!(
            machine.calls(),
            [
                "ip -o addr",
                "crictl pods -q --name kube-vip-services",
                "crictl ps -q --pod p1",
                "crictl stop --timeout 20 c1",
                "ip addr del 192.0.2.30/32 dev eth0",
                "ip addr del fd00::30/128 dev eth0",
            ]
        );
        assert!(!machine.has(manifest));
        machine.done(check, &[manifest]);
        // A reset repeats it, and finds nothing.
        machine.done(stop, &arguments);
        assert!(!machine.calls().iter().any(|call| call.contains("del")));
    });
}

#[test]
fn proxy_without_an_answer_is_unhealthy() {
    Machine::with_each_shell(|machine| {
        assert_ne!(machine.run(load_balancer::CHECK_PROXY, &["7444"]).status, 0);
    });
}
