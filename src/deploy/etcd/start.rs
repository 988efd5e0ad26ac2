//! A member's start: with the others for the first time, again with its data, or as a new member in
//! place of one whose data is gone.

use std::time::Duration;

use super::member::{CTL, INITIAL, Place, UNIT, file, read_at_start};
use super::{CLIENT_PORT, PEER_PORT, settings};
use crate::DeployError;
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{ManageUnit, RunScript, WaitFor};

/// Arguments of all scripts: name, peer address, data folder, the other members' client addresses
/// with commas between them, all members as etcd wants them for the first start.
const HAS_DATA: &str = r#"
[ -n "$(find "$3/member/wal" -name '*.wal' 2>/dev/null | head -n 1)" ] || { echo "has no data"; exit 1; }
"#;

/// No member has ever been part of a whole cluster, so none can have lost anything. What a start that
/// was broken off left is no data yet.
const FOUND: &str = r#"
umask 077
mkdir -p /run/kubexm
systemctl stop "$unit" 2>/dev/null || :
rm -rf "$3/member"
printf 'ETCD_INITIAL_CLUSTER=%s\nETCD_INITIAL_CLUSTER_STATE=new\n' "$5" >"$initial"
"#;

/// Joins a cluster that is there. Its member of this address, if it has one, is struck off: without its
/// memory it must not vote again. The new one does not vote before it has caught up. A quorum of the
/// others is asked for first: what would stop the cluster is not done.
const JOIN: &str = r#"
name=$1 peer=$2 data=$3 others=$4
lost="etcd has no data in $data of this host"
snapshot="restore a snapshot (etcdutl snapshot restore), or begin anew with kubexm reset"
if [ -z "$others" ]; then
  echo "$lost, and this is its only member: bring the data back, $snapshot" >&2
  exit 1
fi
healthy=0 found=
for ask in $(echo "$others" | tr , ' '); do
  if etcdctl endpoint health >/dev/null 2>&1; then
    healthy=$((healthy + 1)) found=$found,$ask
  fi
done
ask=${found#,}
if [ "$healthy" = 0 ] || ! list=$(etcdctl member list 2>&1); then
  echo "$lost, and no other member is healthy ($others): bring them up, $snapshot" >&2
  exit 1
fi
voters=$(printf '%s\n' "$list" | awk -F', ' '$6 == "false" { count++ } END { print count + 0 }')
if [ "$healthy" -lt $((voters / 2 + 1)) ]; then
  echo "$lost; it is made a new member only with a quorum of the others, and of $voters members" \
    "$healthy are healthy ($ask): bring one more up, $snapshot" >&2
  exit 1
fi
systemctl stop "$unit" 2>/dev/null || :
old=$(printf '%s\n' "$list" | awk -F', ' -v peer="$peer" '$4 == peer { print $1 }')
[ -z "$old" ] || patiently etcdctl member remove "$old" >/dev/null
added=$(patiently etcdctl member add "$name" --learner --peer-urls "$peer")
umask 077
mkdir -p /run/kubexm
rm -rf "$data/member"
printf '%s\n' "$added" | grep -E '^ETCD_INITIAL_CLUSTER(_STATE)?=' >"$initial"
"#;

/// A learner answers nobody: a member that does votes.
const ANSWERS: &str = r#"
ask=$local
etcdctl endpoint health >/dev/null 2>&1 || { echo "does not answer"; exit 1; }
"#;
const PROMOTE: &str = r#"
peer=$2 ask=$4 patience=20
[ -n "$ask" ] || exit 0
list=$(patiently etcdctl member list 2>/dev/null) || {
  echo "no other member answers ($ask), and without a quorum this one does nothing: bring them up; where" \
    "the data of more than half is gone, restore a snapshot (etcdutl snapshot restore), or begin anew with" \
    "kubexm reset" >&2
  exit 1
}
patience=60
learner=$(printf '%s\n' "$list" | awk -F', ' -v peer="$peer" '$4 == peer && $6 == "true" { print $1 }')
[ -z "$learner" ] || patiently etcdctl member promote "$learner" >/dev/null
"#;

/// `patiently` tries for a minute, or `$patience` seconds: right after a member came or went etcd calls itself unhealthy for
/// some seconds and takes no other, and a learner must catch up first.
const TOOLS: &str = r#"
etcdctl() {
  ETCDCTL_ENDPOINTS=$ask ETCDCTL_CACERT=$ca ETCDCTL_CERT=$certificate ETCDCTL_KEY=$key \
    "$ctl" --command-timeout=10s "$@"
}
patiently() {
  until_then=$(($(date +%s) + ${patience:-60}))
  until said=$("$@" 2>&1); do
    [ "$(date +%s)" -lt "$until_then" ] || { printf '%s\n' "$said" >&2; return 1; }
    sleep 2
  done
  printf '%s\n' "$said"
}
"#;

/// That the member belonged to a whole cluster. From then on nobody founds one in its place.
const MARKED: &str = r#"
[ -e /var/lib/kubexm/done/etcd-formed ] || { echo "was never seen whole"; exit 1; }
[ ! -e "$1" ] || { echo "would start for the first time again"; exit 1; }
"#;
const MARK: &str = r#"
umask 077
mkdir -p /var/lib/kubexm/done
: >/var/lib/kubexm/done/etcd-formed
sync /var/lib/kubexm/done/etcd-formed 2>/dev/null || sync
rm -f "$1"
"#;

/// Starts a member, or restarts it with its current files. `formed` says that the cluster was whole once.
pub(super) fn start(
    cluster: &Cluster,
    host: &HostSpec,
    place: &Place<'_>,
    formed: bool,
) -> Result<Task, DeployError> {
    let arguments = arguments(cluster, host, place);
    let (title, script) = match formed {
        true => (
            "Make a new member of etcd where one has lost its data",
            JOIN,
        ),
        false => ("Begin a new etcd", FOUND),
    };
    let tools = tools();
    let begin = RunScript::new("etcd member", title, HAS_DATA, &format!("{tools}{script}"));
    let promote = RunScript::new(
        "etcd voter",
        "Let the member of etcd vote",
        &format!("{tools}{ANSWERS}"),
        &format!("{tools}{PROMOTE}"),
    );
    Ok(Task::new("etcd", "start", &host.name)
        .step(begin.arguments(arguments.clone()))
        .step(ManageUnit {
            name: UNIT.to_owned(),
            files: read_at_start()?,
            start: true,
        })
        .step(promote.arguments(arguments))
        .step(WaitFor {
            title: "Wait until etcd is healthy".to_owned(),
            script: format!("{tools}{ANSWERS}"),
            arguments: Vec::new(),
            at_most: Duration::from_secs(60),
            diagnosis: format!("journalctl -u {UNIT} -n 20 --no-pager -o cat"),
        }))
}

/// Remembers on a member's host that the cluster was whole.
pub(super) fn mark(host: &HostSpec) -> Task {
    let mark = RunScript::new("etcd formed", "Remember that etcd was whole", MARKED, MARK);
    Task::new("etcd", "mark", &host.name).step(mark.arguments([INITIAL]))
}

fn tools() -> String {
    let (ca, certificate, key) = (file("ca.crt"), file("admin.crt"), file("admin.key"));
    let local = settings::local_endpoint();
    format!(
        "unit={UNIT} initial={INITIAL} local={local} ctl={CTL} ca={ca} certificate={certificate} key={key}\n{TOOLS}"
    )
}

fn arguments(cluster: &Cluster, host: &HostSpec, place: &Place<'_>) -> Vec<String> {
    let hosts = cluster.etcd_hosts().into_iter();
    let others: Vec<String> = hosts
        .filter(|other| other.name != host.name)
        .map(|other| settings::url(other, CLIENT_PORT))
        .collect();
    vec![
        host.name.to_string(),
        settings::url(host, PEER_PORT),
        place.data_dir.to_string(),
        others.join(","),
        settings::initial_cluster(cluster),
    ]
}
