#!/bin/sh -eu
# Prints what Kubernetes' programs on this host state about their versions, one of these in a line:
#   program NAME TEXT     what a program on the disk prints
#   running kubelet TEXT  what the program of the kubelet that runs prints
#   pod NAME TEXT         the image of a static pod, as in its manifest
#   cordoned NODE         kubexm has cordoned this node, and its pods may have left it
#   end                   the list is complete
# Prints nothing about a program that does not exist or does not answer.
# Arguments: the words before the text, command that prints it.
report() {
  words=$1
  shift
  said=$("$@" 2>/dev/null | head -n 1)
  [ -z "$said" ] || echo "$words $said"
}
report "program kubeadm" timeout 20 /usr/local/bin/kubeadm version -o short
for name in kubelet kube-apiserver kube-controller-manager kube-scheduler kube-proxy; do
  report "program $name" timeout 20 "/usr/local/bin/$name" --version
  report "pod $name" grep "^ *image: .*$name:v" "/etc/kubernetes/manifests/$name.yaml"
done
pid=$(systemctl show -p MainPID --value kubelet.service 2>/dev/null || :)
[ "${pid:-0}" = 0 ] || report "running kubelet" timeout 20 "/proc/$pid/exe" --version
for mark in /var/lib/kubexm/cordoned-*; do
  [ ! -e "$mark" ] || echo "cordoned ${mark#/var/lib/kubexm/cordoned-}"
done
echo end
