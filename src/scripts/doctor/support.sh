#!/bin/sh -eu
# Prints files and answers of a host for people who help: a line `= NAME` before the lines of each one, which start with `|`,
# and `end=` at the end. Every line passes a filter that removes keys, tokens and passwords before it leaves the host. Private
# keys, kubeconfigs, encryption keys and Secrets are never read. Changes nothing.
# Arguments: a part, and its arguments.
#   host                   facts: processes, disks, network, kernel
#   configuration          configurations of kubelet, runtime, network, load balancers, units; static pods; receipts
#   journal UNIT LINES     the newest lines of a unit
#   pods LINES             the newest lines of each container, at most 60 of them
#   api URL                objects of the cluster, without their specifications
export PATH="/usr/local/bin:$PATH"
# The names of fields, flags and variables whose values are secret, and what looks like a secret by itself: blocks of private
# keys, PEM in base64, bootstrap tokens, tokens of service accounts, logins in headers and in URLs.
redact() {
  LC_ALL=C awk '
    /-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----/ { print "[redacted: a private key]"; inside = !/-----END /; next }
    inside { if (/-----END [A-Z0-9 ]*PRIVATE KEY-----/) inside = 0; next }
    {
      # The value of a variable of a container is on the line below its name, with the same indentation.
      lower = tolower($0)
      if (named && lower ~ /^[ "]*value"?:/) { sub(/:.*/, ": [redacted]"); named = 0; print; next }
      named = lower ~ /^[ -]*"?name"?: .*(passw|secret|token|credential|api_?key|private|login|auth)/
      print substr($0, 1, 4000)
    }' | LC_ALL=C sed -E \
    -e 's/LS0tLS1CRUdJTi[A-Za-z0-9+\/=]+/[redacted: PEM]/g' \
    -e 's/eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]*)?/[redacted: a token]/g' \
    -e 's/(^|[^a-z0-9.])[a-z0-9]{6}\.[a-z0-9]{16}($|[^a-z0-9.])/\1[redacted: a token]\2/g' \
    -e 's/(([Bb]asic|[Bb]earer|BASIC|BEARER)[ +]+)[A-Za-z0-9._~+\/=-]{4,}/\1[redacted]/g' \
    -e 's#(://)[^/@ "]*:[^/@ "]*@#\1[redacted]@#g' \
    -e 's/(([Pp]ass(word|wd|phrase)?|PASS(WORD|WD|PHRASE)?|[Ss]ecret|SECRET|[Tt]oken|TOKEN|[Aa]pi[_-]?[Kk]ey|API_?KEY|auth_pass|[Cc]redentials?|CREDENTIALS?|-key-data|[Aa]uthorization|certificate-key|[Kk]eyfile-password)["\x27\]*[ ]*[:=][ ]*)[^ ,}].*/\1[redacted]/' \
    -e 's/(--[a-z-]*(password|token|secret|key-data)[ ]+)[^ -][^ ]*/\1[redacted]/g' \
    -e 's/^([ ]*(auth_pass|password|passwd|secret|token)[ ]+).*/\1[redacted]/'
}
# Prints an answer. Arguments: its name; largest number of lines; a command, which gets 20 seconds.
answer() {
  name=$1 most=$2
  shift 2
  echo "= $name"
  { timeout -k 1 20 "$@" 2>&1 </dev/null || echo "[exit status $?]"; } | head -n "$most" | redact | sed 's/^/|/'
}
# Prints files of at most 256 KiB each.
files() {
  for file; do
    [ -f "$file" ] || continue
    echo "= files$file"
    head -c 262144 "$file" | redact | sed 's/^/|/'
  done
}
host() {
  answer uname.txt 5 uname -a
  answer os-release.txt 40 cat /etc/os-release
  answer uptime.txt 5 uptime
  answer time.txt 40 timedatectl
  answer memory.txt 80 cat /proc/meminfo
  answer pressure.txt 20 sh -c 'grep . /proc/pressure/*'
  answer swaps.txt 20 cat /proc/swaps
  answer mounts.txt 400 cat /proc/mounts
  answer disks.txt 100 df -hT
  answer inodes.txt 100 df -i
  # Not the arguments, which may be secret.
  answer processes.txt 1000 ps -eo pid,ppid,stat,etime,rss,comm
  answer units.txt 400 systemctl list-units --all --no-pager --plain --type=service,swap,mount,timer
  answer failed-units.txt 100 systemctl --failed --no-pager --plain
  answer addresses.txt 400 ip -d addr
  answer routes.txt 400 ip route show table all
  answer rules.txt 100 ip rule
  answer sockets.txt 1000 ss -lntup
  answer iptables.txt 4000 iptables-save
  answer nft.txt 4000 nft list ruleset
  answer sysctl.txt 4000 sh -c 'sysctl -a 2>/dev/null | grep -E "^(net|vm|fs|kernel)\."'
  answer modules.txt 400 cat /proc/modules
  answer kernel-log.txt 500 sh -c 'dmesg | tail -n 500'
  answer crictl-info.txt 60 crictl info -o go-template --template '{{range .status.conditions}}{{.type}} {{.status}} {{.reason}} {{.message}}{{"\n"}}{{end}}'
  answer crictl-version.txt 20 crictl version
  answer crictl-containers.txt 500 crictl ps -a
  answer crictl-pods.txt 500 crictl pods
  answer crictl-images.txt 500 crictl images --digests
  answer certificates.txt 200 sh -c 'ls -lR /etc/kubernetes /var/lib/kubelet/pki /etc/kubexm'
}
configuration() {
  files /var/lib/kubelet/config.yaml /var/lib/kubelet/instance-config.yaml /var/lib/kubelet/kubeadm-flags.env /etc/default/kubelet \
    /etc/sysconfig/kubelet /etc/containerd/config.toml /etc/containerd/certs.d/*/hosts.toml /etc/crictl.yaml /etc/crio/crio.conf \
    /etc/crio/crio.conf.d/* /etc/docker/daemon.json /etc/isulad/daemon.json /etc/cni/net.d/* /run/flannel/subnet.env \
    /etc/kubernetes/manifests/*.yaml /etc/kubexm/*/haproxy.cfg /etc/kubexm/*/nginx.conf /etc/kubexm/*/keepalived.conf \
    /etc/kubexm/registry/config.yml /etc/kubexm/etcd-member/etcd.env /etc/hosts /etc/resolv.conf /run/systemd/resolve/resolv.conf \
    /etc/sysctl.d/*.conf /etc/modules-load.d/*.conf /etc/fstab /etc/chrony/chrony.conf /etc/chrony.conf \
    /etc/systemd/timesyncd.conf /etc/systemd/system/kube*.service /etc/systemd/system/kubelet.service.d/*.conf \
    /etc/systemd/system/etcd.service /etc/systemd/system/containerd.service /etc/systemd/system/crio.service
  receipt=/var/lib/kubexm/receipt.jsonl
  [ ! -f $receipt ] || {
    echo "= files$receipt"
    tail -c 4000000 $receipt | redact | sed 's/^/|/'
  }
}
journal() {
  echo "= journal/$1.log"
  timeout -k 1 30 journalctl -u "$1" -n "$2" -o short-iso --no-pager --quiet 2>&1 </dev/null | cut -c1-4000 | redact | sed 's/^/|/' || :
}
pods() {
  find /var/log/pods -mindepth 3 -maxdepth 3 -name '*.log' 2>/dev/null | sort | tail -n 60 | while read -r file; do
    # The pods of users may log what they want: only those of the cluster are read.
    case ${file#/var/log/pods/} in kube-*) ;; *) continue ;; esac
    echo "= pods/${file#/var/log/pods/}"
    timeout -k 1 10 tail -n "$1" "$file" 2>/dev/null | cut -c1-4000 | redact | sed 's/^/|/' || :
  done
}
api() {
  ask() { timeout -k 1 30 kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl --request-timeout=25s --server "$server" "$@"; }
  server=$1
  show() { # NAME, arguments of kubectl
    name=$1
    shift
    echo "= api/$name"
    { ask "$@" 2>&1 </dev/null || echo "[exit status $?]"; } | head -n 5000 | redact | sed 's/^/|/'
  }
  show version.txt version
  show readyz.txt get --raw '/readyz?verbose'
  show nodes.txt describe nodes
  show pods.txt get pods -A -o wide
  show pod-states.jsonl get pods -A -o 'jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\t"}{.spec.nodeName}{"\t"}{.status}{"\n"}{end}'
  show workloads.txt get deployments,daemonsets,statefulsets,jobs -A -o wide
  show services.txt get services,endpointslices -A -o wide
  show events.txt get events -A --sort-by=.lastTimestamp
  show requests.txt get certificatesigningrequests -o wide
  show apiservices.txt get apiservices
  show webhooks.txt get validatingwebhookconfigurations,mutatingwebhookconfigurations -o 'jsonpath={range .items[*]}{.kind}/{.metadata.name}{"\t"}{range .webhooks[*]}{.name} {.failurePolicy} {.clientConfig.service.namespace}/{.clientConfig.service.name}; {end}{"\n"}{end}'
  show namespaces.txt get namespaces
  show storage.txt get persistentvolumes,persistentvolumeclaims,storageclasses -A
  show budgets.txt get poddisruptionbudgets -A
  for name in kubeadm-config kubelet-config kube-proxy coredns; do
    show "configmaps/$name.yaml" -n kube-system get configmap "$name" -o 'jsonpath={.data}' --ignore-not-found
  done
  # Names and types. The data of a Secret never leaves the API server.
  show secrets.txt get secrets -A -o 'jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\t"}{.type}{"\n"}{end}'
}
part=$1
shift
case $part in
host | configuration | journal | pods | api) "$part" "$@" ;;
*) echo "support.sh does not know the part '$part'" >&2; exit 2 ;;
esac
echo "end="
