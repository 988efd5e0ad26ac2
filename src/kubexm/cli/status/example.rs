//! A state of a cluster, for tests and for the reference.

use kubexm_diagnose::status::{
    About, ApplicationState, CertificateState, DiskState, EndpointState, EtcdState, HostState,
    InodeState, MemberState, NewestBundle, NodeStanding, NodeState, Problem, ProblemKind,
    RegistryState, ReleaseState, StatusReport,
};
use kubexm_safekeeping::timer::{Job, RunResult, TimerRun, TimerState};
use kubexm_types::{Digest, HostName, UtcTime, Version};

fn host(name: &str) -> HostName {
    HostName::parse(name).unwrap()
}

fn version() -> Version {
    Version::new(1, 36, 3)
}

fn node(standing: NodeStanding) -> NodeState {
    NodeState {
        standing,
        is_cordoned: standing != NodeStanding::Ready,
        pressure: Vec::new(),
        kubelet: Some(version()),
        runtime: Some("containerd://2.3.7".to_owned()),
        kernel: Some("6.12.48".to_owned()),
        os: Some("Debian GNU/Linux 13 (trixie)".to_owned()),
    }
}

fn healthy() -> HostState {
    HostState {
        host: host("node1"),
        roles: vec!["control-plane", "registry"],
        unknown: None,
        kubelet: Some(version()),
        api_server: Some(version()),
        node: Some(node(NodeStanding::Ready)),
        unhealthy: Vec::new(),
        disks: vec![DiskState {
            mount: "/".to_owned(),
            directories: vec!["/var/lib/kubelet".to_owned(), "/var/lib/etcd".to_owned()],
            free: 62 << 30,
            size: 100 << 30,
            inodes: Some(InodeState {
                free: 6_029_312,
                total: 6_553_600,
            }),
        }],
        certificate: Some(CertificateState {
            path: "/etc/kubernetes/pki/apiserver.crt".to_owned(),
            expires: "2027-01-31T12:00:00Z".to_owned(),
            days_left: 364,
        }),
        clock_ahead: Some(0),
    }
}

/// Returns the two timers of a machine.
pub fn timers() -> Vec<TimerState> {
    let time = |text| UtcTime::parse(text).unwrap();
    let timer = |job, schedule: &str, interval, message: &str| TimerState {
        job,
        schedule: schedule.to_owned(),
        interval,
        installed: time("2026-01-30T12:00:00Z"),
        next: Some("Sun 2026-02-08 00:00:00 UTC".to_owned()),
        last_run: Some(TimerRun {
            began: time("2026-01-31T12:00:00Z"),
            ended: Some(time("2026-01-31T12:00:09Z")),
            result: RunResult::Done,
            message: message.to_owned(),
            hint: None,
        }),
        last_success: Some(time("2026-01-31T12:00:09Z")),
        backup: None,
    };
    let renewed = "renewed the certificates of node1: 10 were about to expire, 3 changes";
    let backup = "/srv/backups/example-20260131T120000Z.tar.zst.age";
    vec![
        timer(Job::Certificates, "weekly", 604_800, renewed),
        TimerState {
            backup: Some(backup.into()),
            ..timer(Job::Backup, "daily", 86_400, backup)
        },
    ]
}

/// Returns an application that is deployed, one with a pod that fails, one that is not installed, and an earlier one.
fn applications() -> Vec<ApplicationState> {
    let release = |revision, version: Option<&str>, status: &str| ReleaseState {
        revision,
        version: version.map(str::to_owned),
        status: status.to_owned(),
        is_changed_by_helm: false,
    };
    let state = |name: &str, chart: Option<&str>, release| ApplicationState {
        name: name.to_owned(),
        namespace: "default".to_owned(),
        is_in_cluster_file: true,
        chart: chart.map(str::to_owned),
        release,
        unready_pods: Vec::new(),
    };
    let deployed = release(3, Some("1.2.0"), "deployed");
    let failed = release(7, Some("0.9.1"), "failed");
    let pod = "monitoring/agent-x7k2p on node2: CrashLoopBackOff: exit status 1";
    vec![
        state("shop", Some("shop"), Some(deployed)),
        ApplicationState {
            namespace: "monitoring".to_owned(),
            unready_pods: vec![pod.to_owned()],
            ..state("agents", None, Some(release(1, None, "deployed")))
        },
        state("cache", Some("redis"), None),
        ApplicationState {
            is_in_cluster_file: false,
            ..state("old", Some("blog"), Some(failed))
        },
    ]
}

/// Returns the state of a cluster with a host whose kubelet is stopped and one that cannot be reached.
pub fn report() -> StatusReport {
    let unreachable = "node3: cannot reach 192.0.2.13:22: no route to host";
    let stopped = HostState {
        host: host("node2"),
        roles: vec!["worker"],
        api_server: None,
        node: Some(node(NodeStanding::Unknown)),
        unhealthy: vec!["kubelet".to_owned()],
        ..healthy()
    };
    let lost = HostState {
        host: host("node3"),
        roles: vec!["worker"],
        unknown: Some(unreachable.to_owned()),
        kubelet: None,
        api_server: None,
        disks: Vec::new(),
        certificate: None,
        clock_ahead: None,
        ..healthy()
    };
    let problem =
        |about, name: &str, what: &str, hint: &str| Problem::new(about, what, hint).on(&host(name));
    StatusReport {
        cluster: "example".to_owned(),
        id: Some("0b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b11".to_owned()),
        bundle: Some(NewestBundle {
            name: "kubernetes".to_owned(),
            lock: Digest::of(b"lock"),
            created: serde_json::from_str("\"2026-01-02T03:04:05Z\"").unwrap(),
            sequence: "1767323045".parse().unwrap(),
        }),
        rotation: None,
        kubernetes: version(),
        endpoint: EndpointState {
            address: "192.0.2.11:6443".to_owned(),
            answers: vec![host("node1"), host("node2")],
            silent: Vec::new(),
        },
        etcd: EtcdState {
            kind: "kubeadm",
            expected: 1,
            members: vec![MemberState {
                host: host("node1"),
                version: Some(Version::new(3, 6, 8)),
                is_leader: true,
                is_learner: false,
                is_healthy: true,
                size: Some(12_582_912),
                size_in_use: Some(4_194_304),
                quota: Some(2_147_483_648),
                alarms: Vec::new(),
            }],
        },
        registries: vec![RegistryState {
            address: "registry.example:5000".to_owned(),
            answers: vec![host("node1"), host("node2")],
            silent: Vec::new(),
        }],
        hosts: vec![healthy(), stopped, lost],
        drift: None,
        timers: timers(),
        applications: Some(applications()),
        problems: vec![
            problem(
                About::Unreachable,
                "node3",
                "cannot reach 192.0.2.13:22: no route to host",
                "start the host and its SSH server, or correct its address and its login in the cluster file",
            ),
            problem(
                About::Unit,
                "node2",
                "kubelet.service is inactive (dead)",
                "read its log with `kubexm logs kubelet --host node2`; `kubexm install` starts it again",
            )
            .of_kind(ProblemKind::Stopped),
            problem(
                About::Node,
                "node2",
                "the node is cordoned: no new pods run on it",
                "run `kubectl uncordon` for the node when its maintenance has ended",
            )
            .of_kind(ProblemKind::Cordoned),
        ],
    }
}

/// Returns the report with hosts of these names.
pub fn with_names(names: &[&str]) -> StatusReport {
    let mut report = report();
    for (state, name) in report.hosts.iter_mut().zip(names) {
        state.host = host(name);
    }
    report
}
