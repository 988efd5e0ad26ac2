//! Reads cluster files.

mod applications;
mod balancer_checks;
mod balancer_settings;
mod contradiction;
mod controller_file;
mod cross_validation;
mod dns;
mod etcd;
mod hooks;
mod hosts;
mod ip_families;
mod jump_host;
mod kubeadm;
mod kubelet;
mod kubernetes;
mod load_balancer;
mod network;
mod other_names;
mod own_fields;
mod own_flags;
mod password;
mod patches;
mod registries;
mod registry;
mod registry_login;
mod runtime;
mod security;
mod system;
mod volumes;
mod without_hosts;

use std::collections::BTreeSet;
use std::path::Path;

use applications::read_applications;
use dns::read_dns;
use etcd::read_etcd;
use hosts::{read_hosts, read_roles};
pub(crate) use kubernetes::KINDS as KUBERNETES_KINDS;
use kubernetes::read_kubernetes;
pub(crate) use load_balancer::types as load_balancer_types;
use load_balancer::{read_endpoint, read_high_availability};
use network::read_network;
pub use own_flags::own_kubelet_flag;
use registry::read_registry;
use runtime::read_runtime;
use security::read_security;
use system::read_system;
pub use without_hosts::{HostMention, WithoutHosts, load_cluster_without};

use super::cluster::{Cluster, HostSpec, PasswordSource};
use super::ports;
use super::problem::{Notice, Problem, Problems};
use super::reader::{Fields, Reader};
use super::urls;
use super::yaml::{self, Node, Value};
use kubexm_types::{HostName, PublicKey, Version};

const START: &str = "kubexm config init > cluster.yaml";

/// Reads and checks a cluster file.
///
/// # Errors
/// All problems of the file.
pub fn load_cluster(path: &Path) -> Result<Cluster, Problems> {
    let cluster = parse_cluster(&path.display().to_string(), &super::read_text(path, START)?)?;
    Ok(with_notice_of_mode(path, cluster))
}

/// Reads and checks a cluster file for a bundle with these Kubernetes versions.
///
/// # Errors
/// All problems of the file; a version that the bundle does not contain is one.
pub fn load_cluster_for(path: &Path, offered: &[Version]) -> Result<Cluster, Problems> {
    let text = super::read_text(path, START)?;
    let cluster = parse_cluster_for(&path.display().to_string(), &text, offered)?;
    Ok(with_notice_of_mode(path, cluster))
}

/// Adds a notice if the file contains passwords and other users can read it.
fn with_notice_of_mode(path: &Path, mut cluster: Cluster) -> Cluster {
    let is_here = |source: &Option<PasswordSource>| matches!(source, Some(PasswordSource::Text(_)));
    let has_password = |host: &HostSpec| {
        is_here(&host.password)
            || host
                .jump_hosts
                .iter()
                .flatten()
                .any(|jump| is_here(&jump.password))
    };
    if cluster.hosts.iter().any(has_password) && password::is_readable_by_others(path) {
        let file = path.display().to_string();
        let problem = Problem {
            line: 0,
            column: 0,
            path: String::new(),
            message: "contains passwords, and other users can read it".to_owned(),
            hint: Some(format!("run `chmod 600 {file}`, or use passwordFile")),
        };
        cluster.notices.push(Notice { file, problem });
    }
    cluster
}

/// Refuses fields of a cluster file for reasons that the file does not have: the path of each field, as in `spec.dns.replicas`, and
/// what is wrong with it.
///
/// # Errors
/// The problems with their places, or the file cannot be read.
pub fn refuse_fields(path: &Path, found: &[(String, String)], hint: &str) -> Result<(), Problems> {
    let file = path.display().to_string();
    let mut root = yaml::parse(&file, &super::read_text(path, START)?)?;
    let reader = Reader::new("cluster");
    other_names::accept(&reader, &mut root);
    let top = reader.fields(&root, "");
    for (path, message) in found {
        let mut place = path.as_str();
        let node = loop {
            match (top.at(place), place.rsplit_once('.')) {
                (Some(node), _) => break node,
                (None, Some((above, _))) => place = above,
                (None, None) => break &root,
            }
        };
        reader.problem(node, path, message, Some(hint));
    }
    reader.finish(&file, Some(()))
}

/// Reads the keys of which one must have signed the bundle. Commands read them before they open a bundle.
///
/// # Errors
/// The file cannot be read, or a key is not valid.
pub fn load_trust(path: &Path) -> Result<Vec<PublicKey>, Problems> {
    let file = path.display().to_string();
    let root = yaml::parse(&file, &super::read_text(path, START)?)?;
    super::kind::refuse_other(&file, &root, super::DocumentKind::Cluster)?;
    let reader = Reader::new("cluster");
    let trust = match &root.value {
        yaml::Value::Map(_) => {
            let top = reader.fields(&root, "");
            top.section("spec").map(|spec| read_trust(&spec))
        }
        // The complete check reports the problem.
        _ => None,
    };
    reader.finish(&file, Some(trust.unwrap_or_default()))
}

fn read_trust(spec: &Fields<'_>) -> Vec<PublicKey> {
    let Some(fields) = spec.section("bundle") else {
        return Vec::new();
    };
    let trust = fields.values("trust");
    fields.finish();
    trust
}

/// Reads and checks the text of a cluster file; `file` is its name in messages.
///
/// # Errors
/// All problems of the text.
pub fn parse_cluster(file: &str, text: &str) -> Result<Cluster, Problems> {
    parse(file, text, None)
}

/// Reads and checks the text of a cluster file for a bundle with these Kubernetes versions.
///
/// # Errors
/// All problems of the text; a version that the bundle does not contain is one.
pub fn parse_cluster_for(file: &str, text: &str, offered: &[Version]) -> Result<Cluster, Problems> {
    parse(file, text, Some(offered))
}

fn parse(file: &str, text: &str, offered: Option<&[Version]>) -> Result<Cluster, Problems> {
    read_root(file, &yaml::parse(file, text)?, offered)
}

fn read_root(file: &str, root: &Node, offered: Option<&[Version]>) -> Result<Cluster, Problems> {
    super::kind::refuse_other(file, root, super::DocumentKind::Cluster)?;
    let reader = Reader::new("cluster");
    let mut root = root.clone();
    other_names::accept(&reader, &mut root);
    let mut cluster = read_document(&reader, &root, offered);
    if let Some(cluster) = &mut cluster {
        cluster.servers = servers(&root);
        cluster.notices = reader.take_notices(file);
    }
    reader.finish(file, cluster)
}

/// Returns the hosts of the HTTP URLs in a document.
fn servers(node: &Node) -> BTreeSet<String> {
    match &node.value {
        Value::Text(text) => urls::hosts(text).map(str::to_owned).collect(),
        Value::List(items) => items.iter().flat_map(servers).collect(),
        Value::Map(entries) => {
            let both = entries.iter().flat_map(|(key, value)| [key, value]);
            both.flat_map(servers).collect()
        }
        _ => BTreeSet::new(),
    }
}

/// Returns the cluster of the template, for completeness checks without a cluster file.
///
/// # Errors
/// The version does not fit the template.
pub fn default_cluster(version: &Version) -> Result<Cluster, Problems> {
    let text = super::schema::TEMPLATE.replace("version: v1.36.3", &format!("version: v{version}"));
    parse_cluster("the default cluster", &text)
}

fn read_document(reader: &Reader, root: &Node, offered: Option<&[Version]>) -> Option<Cluster> {
    let top = reader.fields(root, "");
    super::check_kind(&top, "Cluster");
    let metadata = top.section("metadata");
    let name = metadata.as_ref().and_then(|m| m.value::<HostName>("name"));
    if let Some(metadata) = metadata {
        metadata.required("name");
        metadata.finish();
    } else {
        top.required("metadata");
    }
    let spec_node = top.required("spec");
    top.finish();
    let spec = reader.fields(spec_node?, "spec");
    let cluster = read_spec(&spec, name.map(|name| name.to_string()), offered);
    spec.finish();
    cluster
}

fn read_spec(
    spec: &Fields<'_>,
    name: Option<String>,
    offered: Option<&[Version]>,
) -> Option<Cluster> {
    let hosts = read_hosts(spec);
    let roles = read_roles(spec, &hosts);
    let kubernetes = read_kubernetes(spec, &hosts, offered);
    let etcd = read_etcd(spec);
    let runtime = read_runtime(spec);
    let high_availability = read_high_availability(spec);
    let api_server = kubernetes
        .as_ref()
        .map_or(ports::API_SERVER, |kubernetes| kubernetes.api_server.port);
    let kind = high_availability.as_ref().map(|section| &section.kind);
    let endpoint = read_endpoint(spec, &hosts, &roles, kind, api_server);
    let network = read_network(spec, &hosts);
    let domain = kubernetes.as_ref().map(|k| k.dns_domain.as_str());
    let dns = read_dns(spec, network.as_ref(), &hosts, domain);
    let registry = read_registry(spec);
    let system = read_system(spec);
    let security = read_security(spec);
    let applications = read_applications(spec);
    let trust = read_trust(spec);
    let mut cluster = Cluster {
        name: name?,
        hosts,
        roles,
        kubernetes: kubernetes?,
        etcd: etcd?,
        runtime: runtime?,
        high_availability: high_availability?,
        control_plane_endpoint: endpoint?,
        network: network?,
        dns,
        registry: registry?,
        system,
        security,
        applications,
        trust,
        servers: BTreeSet::new(),
        notices: Vec::new(),
    };
    cross_validation::check(spec, &mut cluster);
    Some(cluster)
}
