//! What is rendered, as the programs themselves judge it. They come from `tests/lab/proxies`, which
//! unpacks Debian's packages, or from the machine; a program that is in neither place is passed over.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::haproxy::Haproxy;
use super::nginx::Nginx;
use super::proxy::{Proxy, Settings};
use super::{address, configured, keepalived, local, packages};
use kubexm_bundle::lock::PackageFormat;
use kubexm_config::cluster::{AddressHolder, Cluster, LoadBalancer, PasswordSource};
use kubexm_config::example::cluster_of;
use kubexm_render::load_balancer as template;
use kubexm_types::Secret;

fn cluster(kind: &str) -> Cluster {
    let roles = "control-plane: [node1, node2], worker: [node3]";
    match kind.split(',').next() {
        Some("haproxy" | "nginx") => {
            cluster_of(roles, "", &format!("highAvailability: {{type: {kind}}}"))
        }
        _ => balanced(&format!("{roles}, loadbalancer: [node3]"), kind),
    }
}

/// Returns a cluster with load balancers of this type.
fn balanced(roles: &str, kind: &str) -> Cluster {
    let endpoint = "controlPlaneEndpoint: 192.0.2.10:8443";
    cluster_of(
        roles,
        "",
        &format!("highAvailability: {{type: {kind}}}\n{endpoint}"),
    )
}

/// Returns a command for a program that tests/lab/proxies unpacked, with its libraries, or for the
/// installed one.
fn program(name: &str) -> Command {
    let cache = std::env::var_os("KUBEXM_LAB_CACHE").map_or_else(
        || Path::new(&std::env::var_os("HOME").unwrap()).join(".cache/kubexm-lab"),
        PathBuf::from,
    );
    let unpacked = cache.join("tools/proxies");
    let own = unpacked.join("usr/sbin").join(name);
    if own.exists() {
        let folder = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
        let libraries = [unpacked.join("usr").join(&folder), unpacked.join(&folder)];
        let mut command = Command::new(own);
        command.env("LD_LIBRARY_PATH", std::env::join_paths(libraries).unwrap());
        return command;
    }
    let system = Path::new("/usr/sbin").join(name);
    assert!(system.exists(), "{name} is missing: run tests/lab/proxies");
    Command::new(system)
}

/// Returns what a program prints about a configuration, or nothing if it accepts it.
fn complaints(mut command: Command) -> String {
    let output = command.output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    if output.status.success() {
        String::new()
    } else {
        format!("{}: {}", output.status, said.concat())
    }
}

fn settings(folder: &Path, bind: String, health: bool) -> Settings {
    Settings {
        bind,
        run: folder.display().to_string(),
        health,
    }
}

/// Returns what the program prints about the configuration that is rendered for it, after a change.
fn check_config(proxy: &dyn Proxy, kind: &str, health: bool, change: (&str, &str)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(kind);
    let settings = settings(folder.path(), "127.0.0.1:27443".to_owned(), health);
    let text = proxy.config(&cluster, &settings).unwrap();
    assert!(text.contains(change.0), "{text}");
    let mut text = text.replace(change.0, change.1);
    let mut command = program(proxy.name());
    let file = folder.path().join("configuration");
    match proxy.name() {
        "haproxy" => command.arg("-c").arg("-f").arg(&file),
        _ => {
            // Unpacked, its modules are where it was unpacked.
            let root = Path::new(command.get_program());
            let root = root.ancestors().nth(3).unwrap().to_owned();
            let share = root.join("usr/share/nginx").display().to_string();
            text = text.replace("/usr/share/nginx", &share);
            command.arg("-p").arg(share).arg("-t").arg("-c").arg(&file)
        }
    };
    std::fs::write(&file, text).unwrap();
    complaints(command)
}

#[test]
#[ignore = "needs the programs that tests/lab/proxies unpacks"]
fn haproxy_and_nginx_accept_their_configurations() {
    let unchanged = ("Written by kubexm", "Written by kubexm");
    let (haproxy, nginx): (&dyn Proxy, &dyn Proxy) = (&Haproxy, &Nginx);
    for (proxy, kind, health) in [
        (haproxy, "keepalived-haproxy", true),
        (haproxy, "haproxy", false),
        (nginx, "keepalived-nginx", true),
        (nginx, "nginx", false),
        (
            haproxy,
            "haproxy, haproxy: {log: true, extraConfig: \"frontend more\\n  bind 127.0.0.1:1\"}",
            false,
        ),
        (nginx, "nginx, nginx: {extraConfig: \"# The end.\"}", false),
    ] {
        assert_eq!(check_config(proxy, kind, health, unchanged), "", "{kind}");
    }
    for (proxy, kind, change) in [
        (haproxy, "haproxy", ("redispatch", "redispatched")),
        (nginx, "nginx", ("proxy_timeout", "proxy_patience")),
    ] {
        let complaints = check_config(proxy, kind, false, change);
        assert!(complaints.contains(change.1), "{kind}: {complaints}");
    }
}

/// During the first `kubeadm init`, one API server runs, and is not ready yet. A connection that stays open must not send all
/// others to the hosts without an API server.
#[test]
#[ignore = "needs the programs that tests/lab/proxies unpacks"]
fn haproxy_without_a_ready_server_uses_only_open_ports() {
    let folder = tempfile::tempdir().unwrap();
    let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
    let address_of = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
    let (server, closed, endpoint) = (listen(), listen(), address_of(&listen()));
    let text = Haproxy.config(
        &cluster("haproxy"),
        &settings(folder.path(), endpoint.clone(), false),
    );
    let text = text.unwrap();
    let text = text.replace("192.0.2.11:6443", &address_of(&server));
    let text = text.replace("192.0.2.12:6443", &address_of(&closed));
    drop(closed);
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut connection in server.incoming().flatten() {
            let _ = connection.write_all(b"answer");
            open.push(connection);
        }
    });
    let file = folder.path().join("haproxy.cfg");
    std::fs::write(&file, text).unwrap();
    let mut haproxy = program("haproxy").arg("-f").arg(&file).spawn().unwrap();
    let connect = || {
        let mut connection = TcpStream::connect(&endpoint).ok()?;
        let limit = Some(Duration::from_secs(10));
        connection.set_read_timeout(limit).unwrap();
        let mut answer = [0; 6];
        connection.read_exact(&mut answer).ok()?;
        Some(connection)
    };
    let mut open = Vec::new();
    for _ in 0..200 {
        match connect() {
            Some(connection) => open.push(connection),
            None => open.clear(),
        }
        if open.len() == 5 {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    haproxy.kill().unwrap();
    haproxy.wait().unwrap();
    assert_eq!(open.len(), 5);
}

#[test]
#[ignore = "needs the programs that tests/lab/proxies unpacks, and a network interface"]
fn keepalived_accepts_its_configuration() {
    let folder = tempfile::tempdir().unwrap();
    // keepalived checks that the interface exists, and refuses the loopback interface.
    let names = std::fs::read_dir("/sys/class/net").unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let interface = names.find(|name| name != "lo" && name != "bonding_masters");
    let interface = interface.expect("no network interface besides the loopback interface");
    let with = |password: Option<&str>, priority| template::Keepalived {
        host: "node1".to_owned(),
        interface: interface.clone(),
        virtual_router_id: 10,
        source: "192.0.2.11".to_owned(),
        peers: vec!["192.0.2.12".to_owned(), "192.0.2.13".to_owned()],
        address: "192.0.2.10/32".to_owned(),
        // It must exist, and only root may have write permission.
        check: "/usr/bin/true 7444".to_owned(),
        priority,
        decrease: 70,
        password: password.map(str::to_owned),
        notify: password.map(|_| "/usr/bin/true".to_owned()),
        extra: "# The end.".to_owned(),
    };
    let text = kubexm_render::text("keepalived", &with(None, 100)).unwrap();
    let more = kubexm_render::text("keepalived", &with(Some("sesame12"), 150)).unwrap();
    for (text, wanted) in [
        (text.clone(), ""),
        (more.clone(), ""),
        (
            more.replace("auth_type PASS", "auth_type TELL"),
            "authentication type",
        ),
        (text.replace("advert_int", "advert_often"), "advert_often"),
        (
            text.replace("script_user nobody", "script_user no-such-user"),
            "script",
        ),
    ] {
        let mut command = program("keepalived");
        let file = folder.path().join("keepalived.conf");
        std::fs::write(&file, text).unwrap();
        let complaints = complaints_of_keepalived(command.arg("-t").arg("-f").arg(&file));
        assert_eq!(complaints.is_empty(), wanted.is_empty(), "{complaints}");
        assert!(complaints.contains(wanted), "{complaints}");
    }
}

fn complaints_of_keepalived(command: &mut Command) -> String {
    let output = command.output().unwrap();
    if output.status.success() {
        String::new()
    } else {
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

#[test]
fn router_id_is_configured_or_from_the_address() {
    let router_id = |given: Option<u8>, address: &str| {
        let balancer = LoadBalancer::Holder {
            kind: AddressHolder::KeepalivedNginx,
            run: kubexm_config::cluster::ProxyRun::Systemd,
            virtual_router_id: given.and_then(std::num::NonZeroU8::new),
        };
        keepalived::router_id(&balancer, address.parse().unwrap())
    };
    assert_eq!(router_id(None, "192.0.2.10"), 10);
    assert_eq!(router_id(None, "192.0.3.0"), 1);
    assert_eq!(router_id(None, "2001:db8::1:ff"), 255);
    assert_eq!(router_id(Some(51), "192.0.2.10"), 51);
    assert_eq!(address::prefix_length("2001:db8::1".parse().unwrap()), 128);
}

#[test]
fn only_load_balancer_hosts_get_packages() {
    let cluster = cluster("keepalived-nginx");
    let balancer = configured(&cluster).unwrap();
    let host = |name: &str| name.parse().unwrap();
    assert!(balancer.runs_on(&cluster, &host("node3")));
    assert!(!balancer.runs_on(&cluster, &host("node1")));
    for format in [PackageFormat::Deb, PackageFormat::Rpm] {
        let wanted = balancer.packages(format);
        assert!(wanted.contains(&"keepalived"), "{wanted:?}");
        assert!(wanted.iter().all(|name| packages::is_load_balancer(name)));
    }
    assert!(!packages::is_load_balancer("socat"));
}

#[test]
fn local_proxies_listen_on_the_endpoint() {
    let cluster = cluster("haproxy");
    assert!(matches!(
        cluster.high_availability.kind,
        LoadBalancer::Local { .. }
    ));
    assert_eq!(
        local::listen_address(&cluster).to_string(),
        "127.0.0.1:7443"
    );
}

/// keepalived cuts off a longer password without an error, and a line break would begin another line of its
/// configuration.
#[test]
fn passwords_that_keepalived_cannot_have_are_refused() {
    let mut cluster = cluster("keepalived-haproxy");
    for (password, accepted) in [
        ("sesame12", true),
        ("sesame123", false),
        ("a\n}", false),
        ("", false),
    ] {
        let secret = Secret(password.to_owned());
        cluster.high_availability.keepalived.password = Some(PasswordSource::Text(secret));
        let tasks = crate::example::with_inputs(&cluster, &[], "", |inputs| {
            configured(&cluster).unwrap().tasks(inputs).map(drop)
        });
        assert_eq!(tasks.is_ok(), accepted, "{password:?}: {tasks:?}");
        if let Err(error) = tasks {
            assert!(
                matches!(error, crate::DeployError::KeepalivedPassword),
                "{error}"
            );
        }
    }
}

/// Clients would not reach the endpoint if both restarted at the same time.
#[test]
fn load_balancers_of_a_cluster_that_exists_change_one_after_another() {
    let roles = "control-plane: [node1, node2], loadbalancer: [node3, node2], worker: [node3]";
    let cluster = balanced(roles, "keepalived-haproxy");
    let after = |is_node: bool| -> Vec<String> {
        crate::example::with_inputs(&cluster, &[], "", |inputs| {
            let mut inputs = inputs.clone();
            for facts in inputs.hosts.values_mut() {
                facts.is_node = is_node;
            }
            let tasks = configured(&cluster).unwrap().tasks(&inputs).unwrap();
            let mut tasks = tasks.into_iter();
            let second = tasks.find(|task| task.id().0 == "load-balancer/serve@node2");
            let after = second.unwrap().after.into_iter();
            after.map(|id| id.0).collect()
        })
    };
    assert_eq!(
        after(true),
        ["os/prepare@node2", "load-balancer/serve@node3"]
    );
    assert_eq!(after(false), ["os/prepare@node2"]);
}
