//! Kubernetes by kubeadm: programs, init, joins.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{BIN, CRI_SOCKET, DeployError, ETC, Inputs, binary, id};
use crate::pki;
use crate::plan::{Slot, StepError, Task, TaskId};
use crate::render::kubeadm::{
    self as template, ComponentSection, EtcdSection, ExternalEtcd, JoinControlPlane, Node,
};
use crate::render::{self, RenderError, kubelet, merge};
use crate::spec::HostPath;
use crate::spec::cluster::{Cluster, Etcd, HostSpec};
use crate::steps::{InstallFiles, ManageUnit, OwnFolders, Produce, RunOnce, Undo, WriteFile};

const KUBELET: &str = "/usr/local/bin/kubelet";
const BIND_PORT: u16 = 6443;

/// What a node needs to join. Secret.
#[derive(Clone)]
pub struct JoinSecrets {
    token: String,
    certificate_key: String,
    ca_hash: String,
}

/// Takes back all that kubeadm, the kubelet and kube-proxy did on a host.
const RESET: &str = r#"
export PATH=/usr/local/bin:$PATH
systemctl stop kubelet 2>/dev/null || :
if command -v kubeadm >/dev/null; then
  kubeadm reset -f --cri-socket unix:///run/containerd/containerd.sock >/dev/null 2>&1 || :
fi
systemctl stop kubepods.slice 2>/dev/null || :
for link in cni0 flannel.1 flannel-v6.1 kube-ipvs0; do ip link del "$link" 2>/dev/null || :; done
for save in iptables ip6tables; do
  command -v $save-save >/dev/null || continue
  for table in filter nat mangle raw; do
    $save -t $table -S 2>/dev/null | grep -E '^-A' | grep -E 'KUBE-|CNI-|FLANNEL|flannel' |
      sed 's/^-A/-D/' | while read -r rule; do eval "$save -t $table $rule" 2>/dev/null || :; done
    $save -t $table -S 2>/dev/null | sed -n 's/^-N \(\(KUBE-\|CNI-\|FLANNEL\).*\)/\1/p' |
      while read -r chain; do $save -t $table -F "$chain"; $save -t $table -X "$chain" || :; done
  done
done
if command -v nft >/dev/null; then
  for table in 'ip kube-proxy' 'ip6 kube-proxy' 'ip flannel-ipv4' 'ip6 flannel-ipv6'; do
    nft delete table $table 2>/dev/null || :
  done
fi
rm -f /var/lib/kubexm/done/kubeadm-*
"#;

/// What a try of init or join that did not come through left behind.
const CLEANUP: &str =
    "kubeadm reset -f --cri-socket unix:///run/containerd/containerd.sock >/dev/null";

/// A node that died while it joined stays Ready in the cluster until its lease runs out, after some
/// 50 seconds, and kubeadm takes no name that is: then the join waits for that.
const JOIN: &str = r#"
left=12
until said=$(kubeadm join --config "$INPUT" 2>&1 >/dev/null); do
  case $said in *"already exists in the cluster"*) ;; *) left=0 ;; esac
  if [ "$left" = 0 ]; then printf '%s\n' "$said" >&2; exit 1; fi
  left=$((left - 1))
  reset || :
  sleep 10
done
"#;

/// Where the kubelet, etcd and pods keep data.
const FOLDERS: [&str; 8] = [
    "/etc/kubernetes",
    "/var/lib/kubelet",
    "/var/lib/etcd",
    "/var/log/pods",
    "/var/log/containers",
    "/usr/libexec/kubernetes",
    "/run/flannel",
    // kube-proxy mounts it and has it made where it is not there.
    "/lib/modules",
];

/// Puts kubeadm, kubelet and kubectl onto a node.
pub(super) fn programs(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
    let mut payloads = Vec::new();
    for name in ["kubeadm", "kubelet", "kubectl"] {
        payloads.push(binary(
            inputs.kubernetes_file(name, &host.name)?,
            &format!("{BIN}/{name}"),
        )?);
    }
    let unit = HostPath::parse("/etc/systemd/system/kubelet.service")?;
    let drop_in = HostPath::parse("/etc/systemd/system/kubelet.service.d/10-kubeadm.conf")?;
    let unit_text = render::text(
        "kubelet unit",
        &kubelet::Service {
            binary: KUBELET.to_owned(),
        },
    )?;
    let drop_in_text = render::text(
        "kubelet drop-in",
        &kubelet::DropIn {
            binary: KUBELET.to_owned(),
        },
    )?;
    let task = Task::new("kubernetes", "programs", &host.name)
        .after([id("os", "prepare", &host.name)])
        .step(OwnFolders::new(
            "kubernetes-folders",
            "the kubelet's and etcd's folders",
            &FOLDERS,
        )?)
        .step(InstallFiles {
            title: format!("Kubernetes {}", inputs.cluster.kubernetes.version),
            payloads,
            blobs: Arc::clone(&inputs.blobs),
        })
        .step(WriteFile::new(unit, unit_text))
        .step(WriteFile::new(drop_in, drop_in_text))
        // kubeadm starts it, when there is something to run.
        .step(ManageUnit {
            name: "kubelet.service".to_owned(),
            files: Vec::new(),
            start: false,
        });
    let external = if inputs.cluster.is_control_plane(&host.name) {
        etcd_files(inputs.cluster)?
    } else {
        Vec::new()
    };
    Ok(external.into_iter().fold(task, Task::step))
}

/// Init on the first control plane, joins on all other nodes.
pub(super) fn control_plane_and_workers(inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
    let Some(first) = inputs.first() else {
        return Ok(Vec::new());
    };
    let mut tasks = vec![init(inputs, first)?];
    let secrets: Slot<JoinSecrets> = Slot::new("control_plane.join_secrets");
    let others: Vec<&HostSpec> = inputs
        .cluster
        .nodes()
        .into_iter()
        .filter(|host| host.name != first.name)
        .collect();
    let pending = others
        .iter()
        .any(|host| !inputs.machine(&host.name).is_node);
    if pending {
        tasks.push(mint(inputs, first, &secrets)?);
    }
    // etcd takes new members one at a time, so control planes join one after another.
    let mut before = id("control-plane", "init", &first.name);
    for host in others {
        let task = join(inputs, host, &secrets, pending)?;
        if inputs.cluster.is_control_plane(&host.name) {
            let this = task.id();
            tasks.push(task.after([before]));
            before = this;
        } else {
            tasks.push(task.after([id("control-plane", "init", &first.name)]));
        }
    }
    Ok(tasks)
}

fn ready_to_join(host: &HostSpec) -> [TaskId; 2] {
    [
        id("images", "pull", &host.name),
        id("kubernetes", "programs", &host.name),
    ]
}

fn undo() -> Undo {
    let title = "Reset kubeadm, pods and rules".to_owned();
    Undo::Script {
        title,
        script: RESET.to_owned(),
        arguments: Vec::new(),
    }
}

fn init(inputs: &Inputs<'_>, first: &HostSpec) -> Result<Task, DeployError> {
    let path = HostPath::parse(&format!("{ETC}/kubeadm-init.yaml"))?;
    Ok(Task::new("control-plane", "init", &first.name)
        .after(ready_to_join(first))
        .step(WriteFile::new(
            path.clone(),
            init_config(inputs.cluster, first)?,
        ))
        .step(RunOnce {
            id: "kubeadm-init".to_owned(),
            title: "Run kubeadm init".to_owned(),
            command: format!("export PATH={BIN}:$PATH; kubeadm init --config {path} >/dev/null"),
            input: None,
            cleanup: format!("export PATH={BIN}:$PATH; {CLEANUP}"),
            undo: vec![undo()],
        }))
}

fn mint(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    slot: &Slot<JoinSecrets>,
) -> Result<Task, DeployError> {
    let token = format!("{}.{}", random_word(6)?, random_word(16)?);
    let certificate_key = random_hex()?;
    let cluster = inputs.cluster;
    let (api, _) = template::api_of(&cluster.kubernetes.version);
    let config = render::text(
        "join secrets",
        &template::Secrets {
            api,
            token: token.clone(),
            certificate_key: certificate_key.clone(),
            advertise_address: first.internal_address.to_string(),
            bind_port: BIND_PORT,
            version: format!("v{}", cluster.kubernetes.version),
            external_etcd: external_etcd(cluster),
        },
    )?;
    let upload = if cluster.roles.control_plane.len() > 1 {
        "kubeadm init phase upload-certs --upload-certs --config \"$config\" >/dev/null 2>&1"
    } else {
        ":"
    };
    let script = format!(
        "export PATH={BIN}:$PATH KUBECONFIG=/etc/kubernetes/admin.conf\numask 077\nmkdir -p /run/kubexm\n\
         config=$(mktemp /run/kubexm/secrets-XXXXXX)\ntrap 'rm -f \"$config\"' EXIT\ncat >\"$config\"\n\
         kubeadm token create --config \"$config\" >/dev/null\n{upload}\ncat /etc/kubernetes/pki/ca.crt\n"
    );
    let produce = Produce {
        title: "Mint a join token for this run".to_owned(),
        script,
        input: Some(Arc::new(move || Ok(config.clone().into_bytes()))),
        parse: Box::new(move |certificate| {
            let ca_hash = pki::public_key_pin(certificate).map_err(|error| error.to_string())?;
            Ok(JoinSecrets {
                token: token.clone(),
                certificate_key: certificate_key.clone(),
                ca_hash,
            })
        }),
        slot: slot.clone(),
    };
    let mut task = Task::new("control-plane", "secrets", &first.name)
        .after([id("control-plane", "init", &first.name)])
        .step(produce);
    task.gives.push(slot.name());
    Ok(task)
}

fn join(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    slot: &Slot<JoinSecrets>,
    pending: bool,
) -> Result<Task, DeployError> {
    let cluster = inputs.cluster.clone();
    let (spec, secrets) = (host.clone(), slot.clone());
    let config = Arc::new(move || {
        let secrets = secrets.get().ok_or(StepError::Missing(secrets.name()))?;
        let text = join_config(&cluster, &spec, secrets);
        text.map(String::into_bytes)
            .map_err(|error| StepError::Other(error.to_string()))
    });
    let module = if inputs.cluster.is_control_plane(&host.name) {
        "control-plane"
    } else {
        "worker"
    };
    let mut task = Task::new(module, "join", &host.name)
        .after(ready_to_join(host))
        .step(RunOnce {
            id: "kubeadm-join".to_owned(),
            title: "Run kubeadm join".to_owned(),
            command: format!("export PATH={BIN}:$PATH\nreset() {{ {CLEANUP}; }}\n{JOIN}"),
            input: Some(config),
            cleanup: format!("export PATH={BIN}:$PATH; {CLEANUP}"),
            undo: vec![undo()],
        });
    if pending {
        task.needs.push(slot.name());
    }
    Ok(task)
}

fn node(cluster: &Cluster, host: &HostSpec) -> Node {
    let mut kubelet_args = cluster.kubernetes.kubelet.extra_args.clone();
    kubelet_args
        .entry("node-ip".to_owned())
        .or_insert_with(|| host.internal_address.to_string());
    if !host.labels.is_empty() {
        let labels: Vec<String> = host
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        kubelet_args.insert("node-labels".to_owned(), labels.join(","));
    }
    Node {
        name: host.name.to_string(),
        cri_socket: CRI_SOCKET.to_owned(),
        ignore_preflight_errors: cluster.kubernetes.ignore_preflight_errors.clone(),
        taints: host.taints.clone(),
        kubelet_args,
    }
}

/// The four documents of `kubeadm init`.
pub(crate) fn init_config(cluster: &Cluster, first: &HostSpec) -> Result<String, RenderError> {
    let kubernetes = &cluster.kubernetes;
    let (api, list) = template::api_of(&kubernetes.version);
    let section = |section, component: &crate::spec::cluster::Component| {
        let mut args = component.extra_args.clone();
        if !component.feature_gates.is_empty() {
            let gates = component
                .feature_gates
                .iter()
                .map(|(name, on)| format!("{name}={on}"));
            args.insert(
                "feature-gates".to_owned(),
                gates.collect::<Vec<_>>().join(","),
            );
        }
        ComponentSection {
            section,
            args,
            cert_sans: Vec::new(),
        }
    };
    let mut api_server = section("apiServer", &kubernetes.api_server);
    api_server.cert_sans = kubernetes.cert_sans.clone();
    let kubelet = render::text(
        "kubelet configuration",
        &template::Kubelet {
            dns_address: cluster.network.dns_address.to_string(),
            dns_domain: kubernetes.dns_domain.clone(),
            feature_gates: kubernetes.kubelet.feature_gates.clone(),
        },
    )?;
    let kube_proxy = render::text(
        "kube-proxy configuration",
        &template::KubeProxy {
            mode: kubernetes.proxy_mode.clone(),
            pod_cidr: cluster.network.pod_cidr.clone(),
            feature_gates: kubernetes.kube_proxy.feature_gates.clone(),
        },
    )?;
    render::text(
        "kubeadm init configuration",
        &template::Init {
            api,
            list,
            advertise_address: first.internal_address.to_string(),
            bind_port: BIND_PORT,
            node: node(cluster, first),
            version: format!("v{}", kubernetes.version),
            cluster_name: kubernetes.cluster_name.clone(),
            endpoint: cluster.control_plane_endpoint.to_string(),
            dns_domain: kubernetes.dns_domain.clone(),
            pod_cidr: cluster.network.pod_cidr.clone(),
            service_cidr: cluster.network.service_cidr.clone(),
            components: vec![
                api_server,
                section("controllerManager", &kubernetes.controller_manager),
                section("scheduler", &kubernetes.scheduler),
            ],
            etcd: etcd_section(cluster),
            kubelet: merge::yaml(
                "kubelet configuration",
                kubelet,
                &kubernetes.kubelet.extra_config,
            )?,
            kube_proxy: merge::yaml(
                "kube-proxy configuration",
                kube_proxy,
                &kubernetes.kube_proxy.extra_config,
            )?,
        },
    )
}

fn join_config(
    cluster: &Cluster,
    host: &HostSpec,
    secrets: &JoinSecrets,
) -> Result<String, RenderError> {
    let (api, list) = template::api_of(&cluster.kubernetes.version);
    let control_plane = cluster
        .is_control_plane(&host.name)
        .then(|| JoinControlPlane {
            certificate_key: secrets.certificate_key.clone(),
            advertise_address: host.internal_address.to_string(),
            bind_port: BIND_PORT,
        });
    let join = template::Join {
        api,
        list,
        endpoint: cluster.control_plane_endpoint.to_string(),
        token: secrets.token.clone(),
        ca_hash: secrets.ca_hash.clone(),
        control_plane,
        node: node(cluster, host),
    };
    render::text("kubeadm join configuration", &join)
}

/// A join configuration with words in place of secrets, for the proofs at build time.
pub(crate) fn join_preview(cluster: &Cluster, host: &HostSpec) -> Result<String, RenderError> {
    let secrets = JoinSecrets {
        token: "abcdef.0123456789abcdef".to_owned(),
        certificate_key: "0".repeat(64),
        ca_hash: format!("sha256:{}", "0".repeat(64)),
    };
    join_config(cluster, host, &secrets)
}

const ETCD_FILES: [&str; 3] = [
    "/etc/kubexm/etcd/ca.crt",
    "/etc/kubexm/etcd/client.crt",
    "/etc/kubexm/etcd/client.key",
];

fn external_etcd(cluster: &Cluster) -> Option<ExternalEtcd> {
    let Etcd::External { endpoints, .. } = &cluster.etcd else {
        return None;
    };
    let [ca_file, cert_file, key_file] = ETCD_FILES.map(str::to_owned);
    Some(ExternalEtcd {
        endpoints: endpoints.clone(),
        ca_file,
        cert_file,
        key_file,
    })
}

fn etcd_section(cluster: &Cluster) -> EtcdSection {
    match (&cluster.etcd, external_etcd(cluster)) {
        (Etcd::Kubeadm { extra_args }, _) => EtcdSection::Local {
            args: extra_args.clone(),
        },
        (
            _,
            Some(ExternalEtcd {
                endpoints,
                ca_file,
                cert_file,
                key_file,
            }),
        ) => EtcdSection::External {
            endpoints,
            ca_file,
            cert_file,
            key_file,
        },
        (_, None) => EtcdSection::Local {
            args: BTreeMap::new(),
        },
    }
}

/// The client files of an external etcd, from this machine to a control plane.
fn etcd_files(cluster: &Cluster) -> Result<Vec<WriteFile>, DeployError> {
    let Etcd::External {
        ca_file,
        cert_file,
        key_file,
        ..
    } = &cluster.etcd
    else {
        return Ok(Vec::new());
    };
    let mut steps = Vec::new();
    for (file, target) in [ca_file, cert_file, key_file].into_iter().zip(ETCD_FILES) {
        let text = std::fs::read_to_string(file).map_err(|source| DeployError::File {
            path: file.display().to_string(),
            source,
        })?;
        steps.push(WriteFile::secret(HostPath::parse(target)?, text));
    }
    Ok(steps)
}

fn random_bytes<const N: usize>() -> Result<[u8; N], RenderError> {
    let mut bytes = [0u8; N];
    getrandom::fill(&mut bytes).map_err(|error| RenderError::new("a random token", error))?;
    Ok(bytes)
}

/// Random letters and digits; 256 is no multiple of 36, so the few values beyond are not used.
fn random_word(length: usize) -> Result<String, RenderError> {
    let alphabet = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut word = String::new();
    while word.len() < length {
        let [byte] = random_bytes::<1>()?;
        if byte < 252 {
            word.push(char::from(alphabet[usize::from(byte) % alphabet.len()]));
        }
    }
    Ok(word)
}

fn random_hex() -> Result<String, RenderError> {
    Ok(hex::encode(random_bytes::<32>()?))
}
