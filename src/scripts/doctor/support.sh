#!/bin/sh -eu
# Prints files and answers of a host for people who help: a line `= NAME` before the lines of each one, which start with `|`,
# a line `left_out=NAME: REASON` for each one that is not there, and `end=` at the end. Every line passes a filter that removes
# keys, tokens and passwords before it leaves the host. Private keys, kubeconfigs, encryption keys and Secrets are never read.
# Changes nothing.
# Arguments: seconds after which nothing more is asked; a part, and its arguments.
#   host                   facts: processes, disks, network, kernel
#   configuration          configurations of kubelet, runtime, network, load balancers, units; static pods; receipts
#   journal UNIT LINES     the newest lines of a unit
#   pods LINES             the newest lines of each container of the cluster, at most 60 of them
#   api URL                objects of the cluster, without their specifications
export PATH="/usr/local/bin:$PATH"
# The names whose values are secret, in lower case. `support_bundle/secrets.rs` of kubexm has the same ones.
names='pass(word|wd|phrase)?s?|pwd|secret|token|api[_-]?key|credentials?|key[_-]?data|authorization|(secret|access|account|private|certificate)[_-]?key'
# Removes the values of fields, flags and variables with such names, and what looks like a secret by itself: blocks of private
# keys, PEM in base64, keys of age, bootstrap tokens, tokens of service accounts, logins in headers and in URLs.
redact() { redact_blocks | redact_lines; }
# Removes secrets whose name and value can be on different lines. The names of variables say more than those of other fields:
# `bgp_peers` of kube-vip has passwords, and its `address`, `port` and `vip_interface` are what support needs. No pattern has a
# quote, because an apostrophe would end the program.
redact_blocks() {
  LC_ALL=C awk -v names="$names" '
    BEGIN {
      variable = "(^|[^a-z0-9_])name[^a-z0-9:]*:[^a-z0-9]*[a-z0-9_.-]*(pass|pwd|psk|secret|token|credential|key|private|login|auth|peers|cookie|dsn)"
      value = "(^|[^a-z0-9_])value[^a-z0-9:,]*:"
      open = "^[^a-z0-9]*[a-z0-9_.-]*(" names ")[^a-z0-9:]*:[ ]*([|>].*)?$"
    }
    /-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----/ { print "[redacted: a private key]"; inside = !/-----END /; next }
    inside { if (/-----END [A-Z0-9 ]*PRIVATE KEY-----/) inside = 0; next }
    {
      line = substr($0, 1, 4000)
      lower = tolower(line)
      column = match(lower, /[^ ]/)
      # The rest of a value is further to the right than its key.
      if (hidden && (!column || column > hidden)) next
      hidden = 0
      if (waiting && column) {
        if (column > waiting && lower !~ /^[^a-z0-9]*[a-z0-9_.\/-]+[^a-z0-9: ]*:( |$)/) { print "[redacted]"; hidden = waiting }
        waiting = 0
        if (hidden) next
      }
      is_named = lower ~ variable
      if (held != "") {
        if (is_named) sub(/:.*/, ": [redacted]", held)
        print held
        held = ""
      }
      # The name can follow.
      if (!is_named && lower ~ /^ *- *[^a-z0-9]?value[^a-z0-9:]*:/) { held = line; next }
      if (match(lower, value) && (is_named || named && lower ~ /^[^a-z0-9]*value/)) {
        line = substr(line, 1, RSTART + RLENGTH - 1) " [redacted]"
        if (lower !~ /[{].*[}][] ,}]*$/) hidden = column
      }
      if (column && lower !~ /^ *#/) named = is_named && lower !~ value
      if (lower ~ open) {
        if (sub(/[|>].*/, "[redacted]", line)) hidden = column
        else waiting = column
      }
      print line
    }
    END { if (held != "") print held }'
}
redact_lines() {
  quotes='["'\''\]*'
  # Not an empty value, list or mapping.
  value='([^[:space:],}{[]|[[{][[:space:]]*[^]}[:space:]]).*'
  # A value in quotes can have blanks.
  word='("[^"]*"?|'\''[^'\'']*'\''?|[^ -][^ ]*)'
  # What follows a login: not the digest of an image, as in docker-pullable://nginx@sha256:…
  host='([^s]|s[^h]|sh[^a]|sha[^2]|sha2[^5]|sha25[^6]|sha256[^:]|s?h?a?2?5?6?$)'
  # A sentence can end behind a token.
  token='s/(^|[^a-z0-9.])[a-z0-9]{6}\.[a-z0-9]{16}($|[^a-z0-9.]|\.([^a-z0-9]|$))/\1[redacted: a token]\2/g'
  # The character between two tokens belongs to the first one: a second pass finds the other.
  LC_ALL=C sed -E \
    -e 's/LS0tLS1CRUdJTi[A-Za-z0-9+\/=]+/[redacted: PEM]/g' \
    -e 's/AGE-SECRET-KEY-1[A-Z0-9]+/[redacted: a key of age]/g' \
    -e 's/eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]*)?/[redacted: a token]/g' \
    -e "$token" -e "$token" \
    -e 's/(([Bb]asic|[Bb]earer|BASIC|BEARER)[ +]+)[A-Za-z0-9._~+\/=-]{4,}/\1[redacted]/g' \
    -e "s#(://)[^/[:space:]\"']*@$host#\\1[redacted]@\\2#g" \
    -e 's/((^|[^A-Za-z0-9_.-])auth["'\''\]*[ ]*[:=][ ]*["'\''\]*)[A-Za-z0-9+\/=_-]{4,}/\1[redacted]/g' \
    -e "s/(($names)${quotes}[[:space:]]*[:=][[:space:]]*)$value/\\1[redacted]/I" \
    -e "s/(--[A-Za-z0-9_-]*($names)[\"'\\, ]+)$word/\\1[redacted]/gI" \
    -e 's/((stats[[:space:]]+auth|insecure-password|auth_pass|user[[:space:]]+[^[:space:]]+[[:space:]]+password)[[:space:]]+).*/\1[redacted]/' \
    -e 's/^([[:space:]]*(password|passwd|secret|token)[[:space:]]+).*/\1[redacted]/'
}
# Passes lines up to their largest number, and to a number of bytes. It reads to the end, so that the writer does not fail.
first() {
  LC_ALL=C awk -v lines="$1" -v bytes="$2" '
    { line = substr($0, 1, 4000); size += length(line) + 1 }
    NR > lines || size > bytes { more++; next }
    { print line }
    END { if (more) print "[" more " more lines are left out]" }'
}
# Passes the newest bytes of a log, without the line in which they begin: the name of a secret may be in front of them.
newest() {
  { echo "[start]"; cut -c1-4000; } | tail -c "$1" | LC_ALL=C awk 'NR > 1 { print; next } $0 != "[start]" { print "[older lines are left out]" }'
}
# Passes a part, and leaves out what is more than a command can print: kubexm then gets nothing of it (16 MiB).
bounded() {
  LC_ALL=C awk -v most=15000000 '
    /^(end|left_out)=/ { print; next }
    { size += length($0) + 1 }
    /^= / { name = substr($0, 3); is_cut = 0 }
    size <= most { print; next }
    is_cut++ { next }
    { if (!/^= /) print "|[the rest is left out]"; print "left_out=" name ": too large" }'
}
# Sets `limit` to the seconds that a question gets. Fails if the time is over: a part that its own limit ends is lost.
# Arguments: the largest number of seconds, the name of the answer.
time_for() {
  # Not the clock, which can be set meanwhile.
  read -r now _ </proc/uptime
  limit=$((deadline - ${now%.*}))
  [ "$limit" -gt 0 ] || { echo "left_out=$2: no time"; return 1; }
  [ "$limit" -le "$1" ] || limit=$1
}
# Prints an answer. Arguments: its name; largest number of lines; a command.
answer() {
  name=$1 most=$2
  shift 2
  time_for 20 "$name" || return 0
  echo "= $name"
  { timeout -k 1 "$limit" "$@" 2>&1 </dev/null || echo "[exit status $?]"; } | first "$most" 1000000 | redact | sed 's/^/|/'
}
# Prints files of at most 256 KiB each.
files() {
  for file; do
    [ -f "$file" ] || continue
    time_for 5 "files$file" || continue
    echo "= files$file"
    timeout -k 1 "$limit" head -c 300000 "$file" | first 100000 262144 | redact | sed 's/^/|/'
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
  [ ! -f $receipt ] || ! time_for 20 "files$receipt" || {
    echo "= files$receipt"
    timeout -k 1 "$limit" cat $receipt | newest 4000000 | redact | sed 's/^/|/'
  }
}
journal() {
  time_for 30 "journal/$1.log" || return 0
  echo "= journal/$1.log"
  timeout -k 1 "$limit" journalctl -u "$1" -n "$2" -o short-iso --no-pager --quiet 2>&1 </dev/null | newest 6000000 | redact | sed 's/^/|/' || :
}
pods() {
  # The pods of users may log what they want: only those of the cluster are read.
  logs=$(timeout -k 1 10 find /var/log/pods -mindepth 3 -maxdepth 3 -path '/var/log/pods/kube-*' -name '*.log' 2>/dev/null | sort)
  [ -n "$logs" ] || return 0
  count=$(printf "%s\n" "$logs" | wc -l)
  [ "$count" -le 60 ] || { echo "left_out=pods: $((count - 60)) of $count logs"; count=60; }
  printf "%s\n" "$logs" | tail -n 60 | while read -r file; do
    name=pods/${file#/var/log/pods/}
    time_for 10 "$name" || continue
    echo "= $name"
    timeout -k 1 "$limit" tail -n "$1" "$file" 2>/dev/null | newest "$((12000000 / count))" | redact | sed 's/^/|/' || :
  done
}
# Passes the states of pods without the messages with which programs in pods of users ended: they can be the end of a log.
without_messages() {
  LC_ALL=C awk '
    /^kube-/ { print; next }
    {
      rest = $0
      line = ""
      while (match(rest, /"terminated":[{][^{}]*"message":"([^"\\]|\\.)*"/)) {
        found = substr(rest, RSTART, RLENGTH)
        line = line substr(rest, 1, RSTART - 1) substr(found, 1, index(found, "\"message\":") - 1) "\"message\":\"[left out]\""
        rest = substr(rest, RSTART + RLENGTH)
      }
      print line rest
    }'
}
api() {
  ask() { timeout -k 1 "$limit" kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl --request-timeout=25s --server "$server" "$@"; }
  server=$1 most=1000000
  show() { # NAME, arguments of kubectl
    name=$1
    shift
    time_for 30 "api/$name" || return 0
    echo "= api/$name"
    { ask "$@" 2>&1 </dev/null || echo "[exit status $?]"; } | {
      # The newest events are the last ones.
      case $name in
      events.txt) newest "$most" ;;
      pod-states.jsonl) without_messages | first 20000 "$most" ;;
      *) first 20000 "$most" ;;
      esac
    } | redact | sed 's/^/|/'
  }
  show version.txt version
  show readyz.txt get --raw '/readyz?verbose'
  show nodes.txt describe nodes
  show pods.txt get pods -A -o wide
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
  # The longest answer of a large cluster must not take the place of the others.
  most=6000000
  show pod-states.jsonl get pods -A -o 'jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\t"}{.spec.nodeName}{"\t"}{.status}{"\n"}{end}'
}
seconds=$1 part=$2
shift 2
case $part in
host | configuration | journal | pods | api) ;;
*) echo "support.sh does not know the part '$part'" >&2; exit 2 ;;
esac
read -r now _ </proc/uptime
deadline=$((${now%.*} + seconds))
# If a part fails, its end is missing, and what it has printed is not lost.
{ "$part" "$@"; echo "end="; } | bounded
