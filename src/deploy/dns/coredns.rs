//! CoreDNS on hosts without a name server, and its replicas.

use crate::deploy::{DeployError, Inputs, KUBECTL, kubernetes};
use crate::plan::Task;
use crate::steps::RunScript;

/// CoreDNS ends with "no nameservers found" where its host's resolv.conf is empty, as it is on
/// many hosts without internet. There is nothing to forward to then: the plugin is taken out.
const FORWARDS: &str = r#"
! $KUBECTL -n kube-system get configmap coredns -o jsonpath='{.data.Corefile}' | grep -q 'forward \.' ||
  { echo "forwards to a name server that is not there"; exit 1; }
"#;
const TAKE_OUT: &str = r#"
umask 077
mkdir -p /run/kubexm
folder=$(mktemp -d /run/kubexm/dns-XXXXXX)
trap 'rm -rf "$folder"' EXIT
$KUBECTL -n kube-system get configmap coredns -o jsonpath='{.data.Corefile}' |
  sed '/^ *forward \./,/}/d' >"$folder/Corefile"
$KUBECTL -n kube-system create configmap coredns --from-file="$folder/Corefile" --dry-run=client -o yaml |
  $KUBECTL replace -f - >/dev/null
"#;

/// Fits CoreDNS to the hosts and to the spec, before its pods start.
pub(super) fn configure(inputs: &Inputs<'_>) -> Result<Option<Task>, DeployError> {
    let Some(first) = inputs.first() else {
        return Ok(None);
    };
    let kubectl = format!("KUBECTL='{KUBECTL}'\n");
    let mut task =
        Task::new("dns", "configure", &first.name).after([kubernetes::first_control_plane(first)]);
    let nodes = inputs.cluster.nodes();
    if nodes
        .iter()
        .any(|host| !inputs.machine(&host.name).has_name_server)
    {
        let (check, apply) = (
            format!("{kubectl}{FORWARDS}"),
            format!("{kubectl}{TAKE_OUT}"),
        );
        let title = "Let CoreDNS work without a name server outside";
        task = task.step(RunScript::new("coredns forward", title, &check, &apply));
    }
    if let Some(replicas) = inputs.cluster.dns.replicas {
        let check = format!(
            "{kubectl}[ \"$($KUBECTL -n kube-system get deployment coredns -o jsonpath='{{.spec.replicas}}')\" = \"$1\" ]"
        );
        let apply = format!(
            "{kubectl}$KUBECTL -n kube-system scale deployment coredns --replicas=\"$1\" >/dev/null"
        );
        let title = format!("Run {replicas} replicas of CoreDNS");
        let step = RunScript::new("coredns replicas", title, &check, &apply);
        task = task.step(step.arguments([replicas.to_string()]));
    }
    Ok(Some(task))
}
