#!/bin/sh -eu
# Prints what `doctor` reads about the container runtime of a host: one `key=value` in a line, in any order, and `end=` at
# the end. A runtime that does not answer is an answer. Changes nothing.
# Arguments: the kind of the runtime, as in spec.containerRuntime.type; the version of Kubernetes; the registries HOST:PORT
# of the cluster.
export PATH="/usr/local/bin:$PATH"
kind=$1 version=$2
shift 2
# Runs a command with a limit in seconds, and prints at most 400 lines, those of its errors too.
with_errors() {
  limit=$1
  shift
  timeout -k 1 "$limit" "$@" 2>&1 </dev/null | head -n 400 | cut -c1-1000
}
last() { grep . | tail -n 1 | cut -c1-500; }
answers() {
  if said=$(timeout -k 1 15 crictl version 2>&1 </dev/null); then
    echo "cri=ok $(printf '%s\n' "$said" | sed -n 's/^RuntimeVersion: *//p')"
  elif [ $? = 124 ]; then
    echo "cri=no crictl got no answer in 15 seconds"
  else
    echo "cri=no $(printf '%s\n' "$said" | last)"
  fi
  # The other parts of the answer can have passwords of registries, and stay on the host.
  template='{{range .status.conditions}}{{.type}}{{"\t"}}{{.status}}{{"\t"}}{{.reason}}{{"\t"}}{{.message}}{{"\n"}}{{end}}'
  said=$(with_errors 15 crictl info -o go-template --template "$template") || said=
  printf '%s\n' "$said" | grep -E '^(RuntimeReady|NetworkReady)	' | sed 's/^/condition=/' || :
}
containerd_config() {
  config=$(with_errors 10 containerd config dump) || config=
  printf '%s\n' "$config" | grep -q '^version = ' || { echo "config_error=$(printf '%s\n' "$config" | last)"; return 0; }
  printf '%s\n' "$config" | sed -n "s/^ *disabled_plugins = \[\(..*\)\]/disabled_plugins=\1/p"
  printf '%s\n' "$config" | sed -n "s/^ *\(sandbox\|sandbox_image\) = ['\"]\(.*\)['\"]/sandbox=\2/p" | head -n 1
  printf '%s\n' "$config" | sed -n "s/^ *SystemdCgroup = /systemd_cgroup=/p" | head -n 1
  # The plugin that pulls images for the CRI, in version 2 and 3 of the file.
  printf '%s\n' "$config" | awk '/^ *\[/ { inside = /(cri\.v1\.images|grpc\.v1\.cri).*registry\]/ }
    inside && /config_path = / { sub(/.*config_path = /, ""); gsub(/[\047"]/, ""); print "config_path=" $0; exit }'
  printf '%s\n' "$config" | grep -c 'registry\.mirrors\.' | sed 's/^/inline_mirrors=/' || :
}
mirrors() {
  for folder in /etc/containerd/certs.d/*/; do
    [ -d "$folder" ] || continue
    file=${folder}hosts.toml
    if [ -f "$file" ]; then
      # Not the headers: they have the password of the registry.
      sed -n 's/^\[host\."\(.*\)"\]$/\1/p' "$file" | head -n 10 | sed "s,^,mirror=$(basename "$folder") ,"
      sed -n "s/^ca = [\"']\(.*\)[\"']$/\1/p" "$file" | head -n 1 | sed 's/^/mirror_ca=/'
    else
      echo "mirror_missing=$file"
    fi
  done | sort -u | head -n 60
}
registry() {
  for ca in $(sed -n "s/^ *ca = [\"']\(.*\)[\"']$/\1/p" /etc/containerd/certs.d/*/hosts.toml 2>/dev/null | sort -u | head -n 4); do
    if said=$(timeout -k 1 10 kubectl --kubeconfig /dev/null --cache-dir /run/kubexm/kubectl --request-timeout=5s \
      --server "https://$1" --certificate-authority "$ca" --token none get --raw /v2/ 2>&1 </dev/null); then
      echo "registry=$1 $ca ok"
      continue
    fi
    case $said in
    *"You must be logged in"*) echo "registry=$1 $ca ok" ;;
    *) echo "registry=$1 $ca $(printf '%s\n' "$said" | last)" ;;
    esac
  done
}
sandbox() {
  image=$(with_errors 10 containerd config dump | sed -n "s/^ *\(sandbox\|sandbox_image\) = ['\"]\(.*\)['\"]/\2/p" | head -n 1)
  [ -n "$image" ] || return 0
  if timeout -k 1 15 crictl inspecti -q "$image" >/dev/null 2>&1 </dev/null; then
    echo "sandbox_present=yes"
  elif timeout -k 1 15 crictl images -q >/dev/null 2>&1 </dev/null; then
    echo "sandbox_present=no"
  fi
}
expected() {
  with_errors 10 kubeadm config images list --kubernetes-version "v$version" | sed -n 's/^\(.*\/pause:.*\)$/sandbox_expected=\1/p'
}
# Prints a file that changed after something besides an install started the unit: an install does not see that the unit runs
# with other content, if the file has been restored.
stale() {
  started=$(date -d "$(systemctl show "$1" -p ActiveEnterTimestamp --value)" +%s 2>/dev/null) || return 0
  changed=$(stat -c %Y "$2" 2>/dev/null) || return 0
  mark=$(stat -c %Y "/var/lib/kubexm/started/$1" 2>/dev/null) || return 0
  if [ "$changed" -gt "$started" ] && [ "$started" -gt $((mark + 5)) ]; then echo "stale=$2"; fi
}
answers &
expected &
if [ "$kind" = containerd ]; then
  containerd_config &
  stale containerd.service /etc/containerd/config.toml &
  mirrors &
  sandbox &
fi
for server; do registry "$server" & done
wait
echo "end="
