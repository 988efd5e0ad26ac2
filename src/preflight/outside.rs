//! Preflight of what a cluster leans on that is not one of its hosts: an external etcd, a load
//! balancer. It is looked at from the hosts that will need it, by connections that they make.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use url::Url;

use crate::Finding;
use crate::etcd_client::{Answers, Client, EtcdError};
use kubexm_config::cluster::{Cluster, Etcd, LoadBalancer};
use kubexm_host::{DialError, Facts, Host};
use kubexm_types::{HostName, Version};

/// Hosts by name.
pub type Hosts = BTreeMap<HostName, Arc<dyn Host>>;

/// All findings. `least` is the oldest etcd that the cluster's kubeadm takes.
pub async fn check(
    cluster: &Cluster,
    hosts: &Hosts,
    facts: &BTreeMap<HostName, Facts>,
    least: Option<&Version>,
) -> Vec<Finding> {
    let etcd = external_etcd(cluster, hosts, facts, least);
    let (mut findings, endpoint) = tokio::join!(etcd, endpoint(cluster, hosts, facts));
    findings.extend(endpoint);
    findings.sort();
    findings
}

/// How the external etcd is looked at from one control plane.
struct Looker<'a> {
    cluster: &'a Cluster,
    host: &'a Arc<dyn Host>,
    client: &'a Client,
    least: Option<&'a Version>,
    /// Whether an install has begun on it: what etcd holds may be this cluster's.
    begun: bool,
    /// Whether it is a node: its cluster runs, with an etcd that may be short of a member.
    is_node: bool,
}

async fn external_etcd(
    cluster: &Cluster,
    hosts: &Hosts,
    facts: &BTreeMap<HostName, Facts>,
    least: Option<&Version>,
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
            let hint = "correct caFile, certFile and keyFile of spec.etcd.external";
            return host
                .map(|host| Finding::new(&host, true, what, hint))
                .into_iter()
                .collect();
        }
    };
    let is = |name: &HostName, fact: fn(&Facts) -> bool| facts.get(name).is_some_and(fact);
    let control_planes = cluster.roles.control_plane.iter();
    let lookers: Vec<Looker<'_>> = control_planes
        .filter_map(|name| {
            Some(Looker {
                cluster,
                host: hosts.get(name)?,
                client: &client,
                least,
                begun: is(name, |facts| facts.receipt),
                is_node: is(name, Facts::is_node),
            })
        })
        .collect();
    // Control planes before or after the first see the keys that the first has made.
    let begun = lookers.iter().any(|looker| looker.begun);
    let looks = lookers.iter().flat_map(|looker| {
        endpoints
            .iter()
            .map(move |endpoint| looker.look(endpoint, begun))
    });
    join_all(looks).await.into_iter().flatten().collect()
}

impl Looker<'_> {
    async fn look(&self, endpoint: &str, begun: bool) -> Vec<Finding> {
        let Some((name, port)) = host_and_port(endpoint) else {
            let what = format!("'{endpoint}' is no address of an etcd");
            return vec![self.finding(what, "write https://host:port", "ExternalEtcdVersion")];
        };
        let target = target(self.cluster, &name);
        let dial = || self.host.dial(&target, port);
        match self
            .client
            .ask(dial, &name, &self.cluster.etcd_prefix())
            .await
        {
            Ok(answers) => self.judge(endpoint, &answers, begun),
            Err(EtcdError::Dial(DialError::NotAllowed)) => {
                let what = format!("{endpoint} was not looked at: {}", DialError::NotAllowed);
                let hint = "kubeadm will look at it in the middle of the install";
                vec![Finding::new(self.host.name(), false, what, hint)]
            }
            Err(error) => {
                let what = format!("cannot use the external etcd at {endpoint}: {error}");
                vec![self.finding(what, hint_for(&error), "ExternalEtcdVersion")]
            }
        }
    }

    fn judge(&self, endpoint: &str, answers: &Answers, begun: bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let (Some(version), Some(least)) = (&answers.version, self.least)
            && version < least
        {
            let what = format!("{endpoint} is etcd {version}; kubeadm wants {least} or newer");
            findings.push(self.finding(what, "upgrade etcd", "ExternalEtcdVersion"));
        }
        if let Some(ailment) = &answers.ailment {
            let what = format!("{endpoint} is not healthy: {ailment}");
            let hint = "etcdctl endpoint health --cluster, and etcd's log, tell more";
            findings.push(self.finding(what, hint, "ExternalEtcdVersion"));
        }
        if let Some(keys) = answers.keys.filter(|keys| *keys > 0 && !begun) {
            let prefix = self.cluster.etcd_prefix();
            let what = format!(
                "{endpoint} holds {keys} keys under {prefix}: another cluster's, or those of one \
                 that was reset"
            );
            let hint = format!(
                "if nobody needs them: etcdctl del --prefix {prefix}; or set another prefix with \
                 apiServer.extraArgs.etcd-prefix; ignore with ExternalEtcdData"
            );
            findings.push(self.finding(what, &hint, "ExternalEtcdData"));
        }
        findings
    }

    /// A finding that is an error, unless the cluster runs already or the user ignores `check`.
    fn finding(&self, what: String, hint: &str, check: &str) -> Finding {
        let fatal = !self.is_node && !self.cluster.kubernetes.ignores(check);
        Finding::new(self.host.name(), fatal, what, hint)
    }
}

fn hint_for(error: &EtcdError) -> &'static str {
    match error {
        EtcdError::Dial(_) => {
            "start it, open its client port to the control planes, or correct spec.etcd.external.endpoints"
        }
        EtcdError::OtherCa => "give the CA that signed etcd's server certificate as caFile",
        EtcdError::OtherName(_) => {
            "give its certificate that name, or take an endpoint by a name that it has"
        }
        EtcdError::Tls(_) => {
            "look at etcd's log; certFile must be signed by its --trusted-ca-file, and none expired"
        }
        EtcdError::Foreign(_) => "correct spec.etcd.external.endpoints: the client port is wanted",
    }
}

fn host_and_port(endpoint: &str) -> Option<(String, u16)> {
    let url = Url::parse(endpoint).ok()?;
    let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
    Some((host, url.port_or_known_default()?))
}

/// Names of the cluster's hosts are not in their `/etc/hosts` yet.
fn target(cluster: &Cluster, name: &str) -> String {
    let mut hosts = cluster.hosts.iter();
    hosts
        .find(|host| host.name.as_str() == name)
        .map_or_else(|| name.to_owned(), |host| host.internal_address.to_string())
}

/// The way to the API servers: a load balancer that must be there, or an address that must be free.
async fn endpoint(
    cluster: &Cluster,
    hosts: &Hosts,
    facts: &BTreeMap<HostName, Facts>,
) -> Vec<Finding> {
    match cluster.load_balancer {
        LoadBalancer::None | LoadBalancer::External => load_balancer(cluster, hosts).await,
        LoadBalancer::Local { .. } => Vec::new(),
        LoadBalancer::Holder { .. } | LoadBalancer::Pods { .. } => {
            // Later it is this cluster that answers.
            match facts.values().any(|facts| facts.receipt) {
                true => Vec::new(),
                false => free_address(cluster, hosts).await,
            }
        }
    }
}

/// An address that a load balancer of kubexm's will hold answers nobody yet.
async fn free_address(cluster: &Cluster, hosts: &Hosts) -> Vec<Finding> {
    let endpoint = &cluster.control_plane_endpoint;
    let (Some(address), Some((name, host))) = (endpoint.ip(), hosts.iter().next()) else {
        return Vec::new();
    };
    match host.dial(&address.to_string(), endpoint.port).await {
        Ok(_) => {
            let what = format!(
                "somebody answers at {address}:{} already: another host has that address",
                endpoint.port
            );
            let hint = "give controlPlaneEndpoint an address that is free";
            vec![Finding::new(name, true, what, hint)]
        }
        Err(_) => Vec::new(),
    }
}

/// A load balancer may refuse while nothing is behind it: its silence is a warning.
async fn load_balancer(cluster: &Cluster, hosts: &Hosts) -> Vec<Finding> {
    let endpoint = &cluster.control_plane_endpoint;
    let address = endpoint
        .address
        .map_or_else(|| target(cluster, &endpoint.host), |a| a.to_string());
    let own =
        |host: &kubexm_config::cluster::HostSpec| host.internal_address.to_string() == address;
    if cluster.hosts.iter().any(own) {
        return Vec::new();
    }
    let looks = hosts.values().map(|host| async {
        let error = host.dial(&address, endpoint.port).await.err()?;
        if error == DialError::NotAllowed {
            return None;
        }
        let what = format!("no connection to controlPlaneEndpoint {endpoint}: {error}");
        let hint = "well if your load balancer refuses while nothing is behind it; else correct it: \
                    nodes join through it";
        Some(Finding::new(host.name(), false, what, hint))
    });
    join_all(looks).await.into_iter().flatten().collect()
}
