#!/bin/sh -eu
# Static pods that read files only when they start: those of kubeadm, and kube-vip.
# Arguments: one of these.
#   look FILES…        prints when each file changed, in seconds, and the running containers of static pods, as JSON of crictl
#   stop CONTAINERS…   ends these containers; the kubelet starts the programs again
#   serves             checks whether the API server of this control plane serves the certificate in its file, and accepts the one
#                      of the controller manager; no other certificate verifies the connection
#   logs NAMES…        prints the last lines of programs
verb=$1
shift
export PATH="/usr/local/bin:$PATH"
live=/etc/kubernetes
case $verb in
look)
  for file in "$@"; do stat -c %Y "$file"; done
  crictl --timeout 20s ps --state running --label io.kubernetes.pod.namespace=kube-system -o json
  ;;
stop)
  # The times of files have whole seconds.
  sleep 1
  for container in "$@"; do crictl stop --timeout 40 "$container" >/dev/null; done
  ;;
serves)
  install -d -m 700 /run/kubexm
  kubectl --kubeconfig "$live/controller-manager.conf" --certificate-authority "$live/pki/apiserver.crt" \
    --cache-dir /run/kubexm/kubectl --request-timeout=5s get --raw /readyz >/dev/null 2>&1
  ;;
logs)
  echo "the logs of these programs are in /var/log/pods on this host"
  for name in "$@"; do tail -q -n 10 /var/log/pods/kube-system_"$name"-*/*/*.log 2>/dev/null | sed "s/^/$name: /" || :; done
  ;;
*) echo "usage: programs.sh look|stop|serves|logs" >&2; exit 2 ;;
esac
