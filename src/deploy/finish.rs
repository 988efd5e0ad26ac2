//! The end of an install: everything answers, nothing secret is left, the kubeconfig comes home.

use std::net::SocketAddr;
use std::time::Duration;

use super::{DeployError, Inputs, KUBECTL, dns, kubernetes};
use kubexm_config::cluster::{HostSpec, LoadBalancer, NetworkPlugin};
use kubexm_engine::plan::{Slot, Task, TaskId};
use kubexm_engine::steps::{Produce, RunScript, WaitFor};

const READY: &str = r#"
nodes=$($KUBECTL get nodes --no-headers 2>&1) || { echo "$nodes"; exit 1; }
for name in "$@"; do
  printf '%s\n' "$nodes" | awk -v name="$name" '$1 == name && $2 == "Ready" { found = 1 } END { exit !found }' ||
    { echo "$name is not Ready"; exit 1; }
done
"#;

/// Asks CoreDNS over TCP for the API server's name: a query of fixed bytes, since hosts have no
/// resolver of their own that could be pointed at it.
const DNS: &str = r#"
[ "$($KUBECTL -n kube-system get deployment coredns -o jsonpath='{.status.readyReplicas}' 2>/dev/null)" -ge 1 ] 2>/dev/null ||
  { echo "no CoreDNS pod is ready"; exit 1; }
address=$1 domain=$2
query='\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00'
length=12
for label in kubernetes default svc $(echo "$domain" | tr . ' '); do
  query="$query\\x$(printf %02x ${#label})$label"
  length=$((length + 1 + ${#label}))
done
query="$query\\x00\\x00\\x01\\x00\\x01"
length=$((length + 5))
size="\\x$(printf %02x $((length / 256)))\\x$(printf %02x $((length % 256)))"
answer=$(timeout 5 bash -c '
  exec 3<>"/dev/tcp/$1/53" || exit 1
  printf "$2$3" >&3
  head -c 8 <&3 | od -An -tx1
' dns "$address" "$size" "$query" 2>/dev/null) || { echo "CoreDNS does not answer at $address"; exit 1; }
# The answer's flags: a response (8), and no error in the last digit.
set -- $answer
case ${5:-}${6:-} in 8??0) ;; *) echo "CoreDNS answers with an error at $address"; exit 1 ;; esac
"#;

/// Tokens that kubexm minted, in this run or in one that was killed; and the uploaded certificates,
/// with the token by whose end kubeadm lets them expire: they may go with it before we come to them.
const TOKENS: &str = r#"
tokens() {
  $KUBECTL -n kube-system get secrets --field-selector type=bootstrap.kubernetes.io/token \
    -o jsonpath='{range .items[*]}{.metadata.name} {.data.description}{"\n"}{end}' |
    awk -v ours="$(printf 'kubexm install' | base64 -w0)" \
      -v proxy="$(printf 'Proxy for managing TTL for the kubeadm-certs secret' | base64 -w0)" \
      '$2 == ours || $2 == proxy { print $1 }'
  $KUBECTL -n kube-system get secret kubeadm-certs --ignore-not-found -o jsonpath='{.metadata.name}'
}
"#;

/// A local proxy's endpoint leads nodes to themselves; from outside the first control plane is as
/// good as any.
fn kubeconfig_for_home(
    inputs: &Inputs<'_>,
    first: &HostSpec,
) -> impl Fn(&str) -> Result<String, String> + Send + Sync + use<> {
    let local = matches!(inputs.cluster.load_balancer, LoadBalancer::Local { .. });
    let endpoint = format!("https://{}", inputs.cluster.control_plane_endpoint);
    let address = SocketAddr::new(first.internal_address, kubernetes::BIND_PORT);
    let own = format!("https://{address}");
    move |text| {
        Ok(match local {
            true => with_server(text, &endpoint, &own),
            false => text.to_owned(),
        })
    }
}

/// A kubeconfig that leads elsewhere. kubeadm writes addresses as they are, kubexm in quotes.
fn with_server(kubeconfig: &str, from: &str, to: &str) -> String {
    let line = |line: &str| match line.split_once("server: ") {
        Some((indent, url))
            if indent.trim().is_empty() && url.trim_matches(['"', '\'']) == from =>
        {
            format!("{indent}server: {to}\n")
        }
        _ => format!("{line}\n"),
    };
    kubeconfig.lines().map(line).collect()
}

/// The last tasks, on the first control plane.
pub(super) fn tasks(
    inputs: &Inputs<'_>,
    kubeconfig: &Slot<String>,
    networked: Vec<TaskId>,
) -> Result<Vec<Task>, DeployError> {
    let Some(first) = inputs.first() else {
        return Ok(Vec::new());
    };
    let kubectl = format!("KUBECTL='{KUBECTL}'\n");
    let nodes = inputs.cluster.nodes();
    let names: Vec<String> = nodes.iter().map(|host| host.name.to_string()).collect();
    let mut task = Task::new("cluster", "ready", &first.name)
        .after(kubernetes::complete(inputs))
        .after([dns::configured(&first.name)])
        .after(networked);
    if inputs.cluster.network.plugin != NetworkPlugin::None {
        task = task.step(WaitFor {
            title: "Wait until every node is Ready".to_owned(),
            script: format!("{kubectl}{READY}"),
            arguments: names,
            at_most: Duration::from_secs(300),
            diagnosis: format!("{kubectl}$KUBECTL get nodes,pods -A -o wide; journalctl -u kubelet -n 20 --no-pager -o cat"),
        });
        task = task.step(WaitFor {
            title: "Wait until CoreDNS answers".to_owned(),
            script: format!("{kubectl}{DNS}"),
            arguments: vec![
                inputs.cluster.network.dns_address.to_string(),
                inputs.cluster.kubernetes.dns_domain.clone(),
            ],
            // After a power cut pods come back by the kubelet's back-off, which grows to five minutes.
            at_most: Duration::from_secs(360),
            diagnosis: format!(
                "{kubectl}$KUBECTL -n kube-system describe pods -l k8s-app=kube-dns | tail -n 30"
            ),
        });
        for wait in dns::waits(inputs) {
            task = task.step(wait);
        }
    }
    let clean = RunScript::new(
        "join secrets",
        "Remove join tokens",
        &format!("{kubectl}{TOKENS}[ -z \"$(tokens)\" ]"),
        &format!(
            "{kubectl}{TOKENS}$KUBECTL -n kube-system delete secret --ignore-not-found $(tokens) >/dev/null"
        ),
    );
    let fetch = Produce {
        title: "Fetch the administrator's kubeconfig".to_owned(),
        script: "cat /etc/kubernetes/admin.conf".to_owned(),
        input: None,
        parse: Box::new(kubeconfig_for_home(inputs, first)),
        slot: kubeconfig.clone(),
        files: Vec::new(),
    };
    Ok(vec![task.step(clean).step(fetch)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_for_home_leads_to_a_host() {
        let own = "https://192.0.2.11:6443";
        for server in ["https://127.0.0.1:7443", "'https://127.0.0.1:7443'"] {
            let text = format!("clusters:\n- cluster:\n    server: {server}\n  name: a\n");
            assert_eq!(
                with_server(&text, "https://127.0.0.1:7443", own),
                format!("clusters:\n- cluster:\n    server: {own}\n  name: a\n")
            );
        }
        let other = "    server: https://api.example:7443\n";
        assert_eq!(with_server(other, "https://127.0.0.1:7443", own), other);
    }
}
