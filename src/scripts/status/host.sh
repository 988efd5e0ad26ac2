#!/bin/sh -eu
# Prints the state of programs on this host, one `key=value` in a line, in any order, and `end=` at the end. The crate
# kubexm-diagnose parses the lines, and refuses a key that it does not know. Needs no API server, and changes nothing.
# Arguments: questions.
#   unit NAME          properties of a systemd unit, as systemctl prints them, in one line
#   static-pod NAME    whether the kubelet has the manifest of a static pod
#   version NAME       the image in the manifest of a program of Kubernetes, or what its file prints about its version
#   health NAME URL    whether a program answers its health check; the URL ends with the path of the check
#   running NAME URL   what the API server at this URL says about its version, in base64
#   endpoint FILE      whether the API server in this kubeconfig answers
#   registry NAME      whether the registry HOST:PORT answers
#   etcd KIND          what the member of etcd on this host reports, in base64; `kubeadm` or `systemd` runs it
export PATH="/usr/local/bin:$PATH"
manifests=/etc/kubernetes/manifests
# The programs listen on this host or verify each other, and kubectl is the only HTTP client that every node has.
# Arguments: kubeconfig, options of kubectl.
ask() {
  config=$1
  shift
  kubectl --kubeconfig "$config" --cache-dir /run/kubexm/kubectl --request-timeout=5s "$@" 2>&1 </dev/null
}
# Prints `ok`, or what a command that failed said, in base64.
# Arguments: command.
reply() { if said=$("$@"); then echo ok; else printf '%s' "$said" | head -c 65536 | base64 | tr -d '\n'; fi; }
unit() {
  said=$(timeout 20 systemctl show -p LoadState -p ActiveState -p SubState -p NRestarts "$1") || said=
  echo "unit=$1 $(printf '%s\n' "$said" | tr '\n' ' ')"
}
static_pod() { if [ -f "$manifests/$1.yaml" ]; then echo "static-pod=$1 yes"; else echo "static-pod=$1 no"; fi; }
version() {
  if [ -f "$manifests/$1.yaml" ]; then
    found=$(grep "^ *image: .*$1:v" "$manifests/$1.yaml" | head -n 1)
  else
    found=$(timeout 20 "/usr/local/bin/$1" --version 2>/dev/null | head -n 1)
  fi
  echo "version=$1 $found"
}
health() {
  config=/dev/null
  case $2 in https:*) config=/etc/kubernetes/admin.conf ;; esac
  echo "health=$1 $(reply ask "$config" --server "${2%/*}" --insecure-skip-tls-verify get --raw "/${2##*/}")"
}
running() {
  said=$(ask /etc/kubernetes/admin.conf --server "$2" --insecure-skip-tls-verify get --raw /version) || said=
  echo "running=$1 $(printf '%s' "$said" | base64 | tr -d '\n')"
}
endpoint() { echo "endpoint=$(reply ask "$1" get --raw /readyz)"; }
# A registry with a login refuses a wrong token, which is an answer.
registry() {
  echo "registry=$1 $(reply ask /dev/null --server "https://$1" --certificate-authority /etc/kubexm/registry-ca.crt --token none \
    get --raw /v2/)"
}
# Runs etcdctl for the member on this host. Arguments: its kind, and those of etcdctl.
etcdctl() {
  # shellcheck disable=SC2034 # etcdctl_of_member reads both
  kind=$1 most=20
  shift
  etcdctl_of_member --command-timeout=5s "$@" 2>&1
}
etcd() {
  if said=$(etcdctl "$1" -w json endpoint status); then
    echo "etcd-status=$(printf '%s\n' "$said" | grep '^\[{' | tail -n 1 | base64 | tr -d '\n')"
  else
    echo "etcd-failed=$(printf '%s' "$said" | head -c 65536 | base64 | tr -d '\n')"
    return
  fi
  # Without a quorum, the members do not answer this.
  said=$(etcdctl "$1" -w json member list) || said=
  echo "etcd-members=$(printf '%s\n' "$said" | grep '^{"header"' | tail -n 1 | base64 | tr -d '\n')"
}
while [ $# -gt 0 ]; do
  case $1 in
  unit | version | endpoint | registry | etcd) "$1" "$2" & shift 2 ;;
  static-pod) static_pod "$2"; shift 2 ;;
  health | running) "$1" "$2" "$3" & shift 3 ;;
  *) echo "host.sh does not know the question '$1'" >&2; exit 2 ;;
  esac
done
wait
echo "end="
