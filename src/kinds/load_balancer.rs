//! Programs of load balancers: what kubexm knows of each on hosts. `load_balancer` of the crate `deploy` installs them.

use crate::named_kinds;

named_kinds! {
    /// Proxies that run on every node and forward connections to all API servers.
    LocalProxy {
        Haproxy = "haproxy",
        /// nginx with its stream module.
        Nginx = "nginx",
    }
}

named_kinds! {
    /// Programs that move the endpoint's address between hosts of the role `loadbalancer`.
    AddressHolder {
        /// keepalived in front of HAProxy.
        KeepalivedHaproxy = "keepalived-haproxy",
        /// keepalived in front of nginx.
        KeepalivedNginx = "keepalived-nginx",
    }
}

named_kinds! {
    /// Programs that move the endpoint's address between control planes and run as static pods.
    ControlPlanePod {
        KubeVip = "kube-vip",
    }
}

/// What kubexm knows of a program of a load balancer.
#[derive(Debug, Clone, Copy)]
pub struct BalancerProperties {
    /// The name of the program.
    pub program: &'static str,
    /// Its unit on hosts; `None` if it is always a static pod.
    pub unit: Option<&'static str>,
    /// The file by which the facts of a host tell that it was installed as a unit.
    pub found_by: Option<&'static str>,
    /// Its static pod; `None` if it is always a unit.
    pub pod: Option<PodProperties>,
    /// Its configuration in kubexm's directory, as a pattern of a shell.
    pub config: Option<&'static str>,
    /// Its own directory or file, with settings of the user. A backup contains it.
    pub own_config: Option<&'static str>,
    /// The directory with the CA that it trusts. The path ends with `/`.
    pub ca_directory: Option<&'static str>,
    /// The beginnings of the names of images that belong only to it. The garbage collection of the registry removes former ones.
    pub repositories: &'static [&'static str],
}

/// The files by which the facts of a host tell that a program runs as a static pod. A node runs the pods in the directory of its
/// kubelet; `kubeadm init` copies them there from another one.
#[derive(Debug, Clone, Copy)]
pub struct PodProperties {
    /// The name of the program in facts.
    pub name: &'static str,
    pub on_node: &'static str,
    pub before: &'static str,
}

const HAPROXY: BalancerProperties = BalancerProperties {
    program: "haproxy",
    unit: Some("kubexm-haproxy.service"),
    found_by: Some("/etc/systemd/system/kubexm-haproxy.service"),
    pod: Some(PodProperties {
        name: "haproxy pod",
        on_node: "/etc/kubernetes/manifests/kubexm-haproxy.yaml",
        before: "/etc/kubexm/static-pods/kubexm-haproxy.yaml",
    }),
    config: Some("/etc/kubexm/*/haproxy.cfg"),
    own_config: Some("/etc/haproxy"),
    ca_directory: Some("/etc/kubexm/haproxy/"),
    repositories: &[],
};

const NGINX: BalancerProperties = BalancerProperties {
    program: "nginx",
    unit: Some("kubexm-nginx.service"),
    found_by: Some("/etc/systemd/system/kubexm-nginx.service"),
    pod: Some(PodProperties {
        name: "nginx pod",
        on_node: "/etc/kubernetes/manifests/kubexm-nginx.yaml",
        before: "/etc/kubexm/static-pods/kubexm-nginx.yaml",
    }),
    config: Some("/etc/kubexm/*/nginx.conf"),
    own_config: Some("/etc/nginx/nginx.conf"),
    ca_directory: Some("/etc/kubexm/nginx/"),
    repositories: &[],
};

const KEEPALIVED: BalancerProperties = BalancerProperties {
    program: "keepalived",
    unit: Some("kubexm-keepalived.service"),
    found_by: Some("/etc/systemd/system/kubexm-keepalived.service"),
    pod: None,
    config: Some("/etc/kubexm/*/keepalived.conf"),
    own_config: Some("/etc/keepalived"),
    ca_directory: None,
    repositories: &[],
};

const KUBE_VIP: BalancerProperties = BalancerProperties {
    program: "kube-vip",
    unit: None,
    found_by: None,
    // The source of its pod is on the first control plane with kubeadm only.
    pod: Some(PodProperties {
        name: "kube-vip pod",
        on_node: "/etc/kubexm/kube-vip/hosts",
        before: "/etc/kubexm/kube-vip/hosts",
    }),
    config: None,
    own_config: None,
    ca_directory: None,
    repositories: &["ghcr.io/kube-vip/"],
};

impl LocalProxy {
    /// Returns what kubexm knows of the proxy.
    pub const fn properties(self) -> &'static BalancerProperties {
        match self {
            Self::Haproxy => &HAPROXY,
            Self::Nginx => &NGINX,
        }
    }
}

impl AddressHolder {
    /// Returns the proxy that runs beside it.
    pub const fn proxy(self) -> LocalProxy {
        match self {
            Self::KeepalivedHaproxy => LocalProxy::Haproxy,
            Self::KeepalivedNginx => LocalProxy::Nginx,
        }
    }

    /// Returns what kubexm knows of the program that moves the address.
    pub const fn properties(self) -> &'static BalancerProperties {
        match self {
            Self::KeepalivedHaproxy | Self::KeepalivedNginx => &KEEPALIVED,
        }
    }
}

impl ControlPlanePod {
    /// Returns what kubexm knows of the program.
    pub const fn properties(self) -> &'static BalancerProperties {
        match self {
            Self::KubeVip => &KUBE_VIP,
        }
    }
}

/// Returns what kubexm knows of each program of a load balancer.
pub fn all_properties() -> impl Iterator<Item = &'static BalancerProperties> {
    let holders = AddressHolder::ALL.iter();
    let holders = holders.map(|kind| kind.properties());
    let proxies = LocalProxy::ALL.iter().map(|kind| kind.properties());
    let pods = ControlPlanePod::ALL.iter().map(|kind| kind.properties());
    let mut seen = Vec::new();
    let all = holders.chain(proxies).chain(pods);
    all.filter(move |own| {
        let is_new = !seen.contains(&own.program);
        seen.push(own.program);
        is_new
    })
}
