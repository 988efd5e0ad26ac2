//! Checks of services outside the cluster: an external etcd and a load balancer. The hosts that will use
//! a service connect to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use url::Url;

use crate::etcd_client::{Client, EtcdError, EtcdStatus, Keys};
use crate::finding::Finding;
use crate::probe;
use kubexm_config::cluster::{Cluster, Etcd, LoadBalancer};
use kubexm_host::{Facts, Host, TunnelError};
use kubexm_types::{FindingKind, HostName, Version};

/// Hosts by name.
pub type Hosts = BTreeMap<HostName, Arc<dyn Host>>;

/// Returns all findings. `minimum` is the oldest etcd that the cluster's kubeadm supports.
pub async fn check(
    cluster: &Cluster,
    hosts: &Hosts,
    facts: &BTreeMap<HostName, Facts>,
    minimum: Option<&Version>,
) -> Vec<Finding> {
    let etcd = etcd(cluster, hosts, facts, minimum);
    let (mut findings, endpoint) = tokio::join!(etcd, endpoint(cluster, hosts, facts));
    findings.extend(endpoint);
    findings.sort();
    findings
}

/// Checks the external etcd from one control plane.
struct EtcdProbe<'a> {
    cluster: &'a Cluster,
    host: &'a Arc<dyn Host>,
    client: &'a Client,
    minimum: Option<&'a Version>,
    /// Whether an install began on the host. Then the keys in etcd may belong to this cluster.
    began: bool,
    /// Whether the host is a node. Then the cluster runs, and a member of its etcd may be down.
    is_node: bool,
}

/// Returns the findings about an external etcd, which every control plane asks.
pub async fn etcd(
    cluster: &Cluster,
    hosts: &Hosts,
    facts: &BTreeMap<HostName, Facts>,
    minimum: Option<&Version>,
) -> Vec<Finding> {
    let Etcd::External {
        endpoints,
        ca_file,
        cert_file,
        key_file,
    } = &cluster.etcd
    else {
        return Vec::new();
    };
    let client = match Client::load(ca_file, cert_file, key_file) {
        Ok(client) => client,
        Err(what) => {
            let host = cluster.roles.control_plane.first().cloned();
            let hint =
                "correct caFile, certFile and keyFile of spec.etcd.external in the cluster file";
            return host
                .map(|host| Finding::new(FindingKind::Etcd, &host, true, what, hint))
                .into_iter()
                .collect();
        }
    };
    let is = |name: &HostName, fact: fn(&Facts) -> bool| facts.get(name).is_some_and(fact);
    let control_planes = cluster.roles.control_plane.iter();
    let probes: Vec<EtcdProbe<'_>> = control_planes
        .filter_map(|name| {
            Some(EtcdProbe {
                cluster,
                host: hosts.get(name)?,
                client: &client,
                minimum,
                began: is(name, |facts| facts.receipt),
                is_node: is(name, Facts::is_node),
            })
        })
        .collect();
    // Every control plane sees the keys that the first one created.
    let began = probes.iter().any(|probe| probe.began);
    let checks = probes.iter().flat_map(|probe| {
        endpoints
            .iter()
            .map(move |endpoint| probe.check(endpoint, began))
    });
    join_all(checks).await.into_iter().flatten().collect()
}

impl EtcdProbe<'_> {
    async fn check(&self, endpoint: &str, began: bool) -> Vec<Finding> {
        let Some((name, port)) = host_and_port(endpoint) else {
            let what = format!("'{endpoint}' is not the address of an etcd");
            let hint = "write https://HOST:PORT in spec.etcd.external.endpoints";
            return vec![self.finding(what, hint, "ExternalEtcdVersion")];
        };
        let target = target(self.cluster, &name);
        let connect = || self.host.open_tunnel(&target, port);
        let prefix = self.cluster.etcd_prefix();
        let is_final = |answer: &Result<EtcdStatus, EtcdError>| match answer {
            Ok(status) => !matches!(status.keys, Keys::Unknown(_)),
            Err(error) => error.is_final(),
        };
        let query = async || self.client.query(connect, &name, &prefix).await;
        match probe::repeat(&probe::PAUSES, is_final, query).await {
            Ok(answers) => self.evaluate(endpoint, &answers, began),
            Err(EtcdError::Tunnel(TunnelError::NotAllowed)) => {
                let what = format!("cannot check {endpoint}: {}", TunnelError::NotAllowed);
                let hint = "allow TCP forwarding in sshd_config, or check the etcd yourself: kubeadm \
                            checks it only during the install";
                vec![Finding::new(
                    FindingKind::Etcd,
                    self.host.name(),
                    false,
                    what,
                    hint,
                )]
            }
            Err(error) => {
                let what = format!("cannot use the external etcd at {endpoint}: {error}");
                vec![self.finding(what, hint_for(&error), "ExternalEtcdVersion")]
            }
        }
    }

    fn evaluate(&self, endpoint: &str, answers: &EtcdStatus, began: bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let (Some(version), Some(minimum)) = (&answers.version, self.minimum)
            && version < minimum
        {
            let what =
                format!("{endpoint} is etcd {version}, but kubeadm requires {minimum} or newer");
            findings.push(self.finding(what, "upgrade etcd", "ExternalEtcdVersion"));
        }
        if let Some(unhealthy) = &answers.unhealthy {
            let what = format!("{endpoint} is not healthy: {unhealthy}");
            let hint = "run etcdctl endpoint health --cluster, and read etcd's log";
            findings.push(self.finding(what, hint, "ExternalEtcdVersion"));
        }
        if let (Keys::Unknown(answer), false) = (&answers.keys, began) {
            let prefix = self.cluster.etcd_prefix();
            let what = format!(
                "{endpoint} did not answer whether it contains keys under {prefix}: {answer}"
            );
            let hint = "check that the client certificate may read this prefix, read etcd's log, and run the \
                        command again";
            findings.push(self.finding(what, hint, "ExternalEtcdData"));
        }
        if let (Keys::Count(keys @ 1..), false) = (&answers.keys, began) {
            let prefix = self.cluster.etcd_prefix();
            let what = format!(
                "{endpoint} contains {keys} keys under {prefix}, which belong to another cluster or to \
                 one that was reset"
            );
            let hint = format!(
                "if the keys are not needed, run etcdctl del --prefix {prefix}; otherwise set another prefix \
                 with apiServer.extraArgs.etcd-prefix, or add ExternalEtcdData to \
                 kubernetes.kubeadm.ignorePreflightErrors"
            );
            findings.push(self.finding(what, &hint, "ExternalEtcdData"));
        }
        findings
    }

    /// Returns a finding. It is fatal unless the cluster already runs or the user ignores `check`.
    fn finding(&self, what: String, hint: &str, check: &str) -> Finding {
        let fatal = !self.is_node && !self.cluster.kubernetes.ignores(check);
        Finding::new(FindingKind::Etcd, self.host.name(), fatal, what, hint)
    }
}

fn hint_for(error: &EtcdError) -> &'static str {
    match error {
        EtcdError::Tunnel(_) | EtcdError::Disconnected(_) => {
            "start etcd, open its client port to the control planes, or correct spec.etcd.external.endpoints"
        }
        EtcdError::OtherCa => {
            "set spec.etcd.external.caFile to the CA that signed etcd's server certificate"
        }
        EtcdError::OtherName(_) => {
            "use a name of the certificate in spec.etcd.external.endpoints, or issue another certificate"
        }
        EtcdError::Tls(_) => {
            "read etcd's log; its --trusted-ca-file must have signed certFile, and no certificate may be expired"
        }
        EtcdError::NotEtcd(_) => {
            "correct spec.etcd.external.endpoints: they need etcd's client port"
        }
    }
}

fn host_and_port(endpoint: &str) -> Option<(String, u16)> {
    let url = Url::parse(endpoint).ok()?;
    let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
    Some((host, url.port_or_known_default()?))
}

/// Returns the address of an endpoint. The hosts cannot resolve each other's names yet, so such a name is
/// replaced by the address in the cluster file.
fn target(cluster: &Cluster, name: &str) -> String {
    let mut hosts = cluster.hosts.iter();
    hosts.find(|host| host.name.as_str() == name).map_or_else(
        || name.to_owned(),
        |host| host.internal_address().to_string(),
    )
}

/// Checks the endpoint of the API servers: a load balancer that must answer, or an address that must be
/// free.
async fn endpoint(
    cluster: &Cluster,
    hosts: &Hosts,
    facts: &BTreeMap<HostName, Facts>,
) -> Vec<Finding> {
    match cluster.high_availability.kind {
        LoadBalancer::None | LoadBalancer::External => load_balancer(cluster, hosts).await,
        LoadBalancer::Local { .. } => Vec::new(),
        LoadBalancer::Holder { .. } | LoadBalancer::Pods { .. } => {
            // After an install began, this cluster may answer.
            if facts.values().any(|facts| facts.receipt) {
                Vec::new()
            } else {
                free_address(cluster, hosts).await
            }
        }
    }
}

/// Checks that no other host has the address that a load balancer of this cluster will use.
async fn free_address(cluster: &Cluster, hosts: &Hosts) -> Vec<Finding> {
    let endpoint = &cluster.control_plane_endpoint;
    let (Some(address), Some((name, host))) = (endpoint.ip(), hosts.iter().next()) else {
        return Vec::new();
    };
    match host.open_tunnel(&address.to_string(), endpoint.port).await {
        Ok(_) => {
            let what = format!(
                "a server already answers at {address}:{}: another host has this address",
                endpoint.port
            );
            let hint = "set spec.controlPlaneEndpoint to a free address";
            vec![Finding::new(
                FindingKind::LoadBalancer,
                name,
                true,
                what,
                hint,
            )]
        }
        Err(TunnelError::Refused | TunnelError::TimedOut) => Vec::new(),
        Err(error @ (TunnelError::NotAllowed | TunnelError::Disconnected)) => {
            let what =
                format!("cannot check whether another host has the address {address}: {error}");
            let hint =
                "check yourself that no other host has the address of spec.controlPlaneEndpoint";
            vec![Finding::new(
                FindingKind::LoadBalancer,
                name,
                false,
                what,
                hint,
            )]
        }
    }
}

/// Checks that the hosts reach the load balancer. A failure is a warning, because a load balancer may
/// refuse connections while no API server runs.
async fn load_balancer(cluster: &Cluster, hosts: &Hosts) -> Vec<Finding> {
    let endpoint = &cluster.control_plane_endpoint;
    let address = endpoint
        .address
        .map_or_else(|| target(cluster, &endpoint.host), |a| a.to_string());
    let own =
        |host: &kubexm_config::cluster::HostSpec| host.internal_address().to_string() == address;
    if cluster.hosts.iter().any(own) {
        return Vec::new();
    }
    let checks = hosts.values().map(|host| async {
        let error = host.open_tunnel(&address, endpoint.port).await.err()?;
        if error == TunnelError::NotAllowed {
            return None;
        }
        let what = format!("cannot reach controlPlaneEndpoint {endpoint}: {error}");
        let hint = "this is expected if your load balancer refuses connections while it has no healthy \
                    backend; otherwise correct controlPlaneEndpoint, because nodes join through it";
        Some(Finding::new(FindingKind::LoadBalancer, host.name(), false, what, hint))
    });
    join_all(checks).await.into_iter().flatten().collect()
}
