#!/bin/sh -eu
# Prints the versions of Kubernetes' programs on this host, without `v`, one of these in a line:
#   program NAME VERSION      a program on the disk
#   running kubelet VERSION   the kubelet that runs
#   pod NAME VERSION          the image of a static pod
#   cordoned NODE             kubexm has cordoned this node, and its pods may have left it
#   end                       the list is complete
# Prints nothing about a program that does not exist or does not answer.
names="kubeadm kubelet kube-apiserver kube-controller-manager kube-scheduler kube-proxy"
# Arguments: path of a program.
version() {
  case $1 in
  */kubeadm) timeout 20 "$1" version -o short 2>/dev/null ;;
  *) timeout 20 "$1" --version 2>/dev/null ;;
  esac | sed -n 's/^\(Kubernetes \)\{0,1\}v\([0-9][^ ]*\)$/\2/p'
}
# Arguments: key and name, version or nothing.
report() { [ -z "$2" ] || echo "$1 $2"; }
for name in $names; do
  [ ! -x "/usr/local/bin/$name" ] || report "program $name" "$(version "/usr/local/bin/$name")"
  manifest=/etc/kubernetes/manifests/$name.yaml
  [ ! -f "$manifest" ] || report "pod $name" "$(sed -n "/^ *image: .*$name:v/{s/.*:v//;s/[@\"].*//;p;q;}" "$manifest")"
done
pid=$(systemctl show -p MainPID --value kubelet.service 2>/dev/null || :)
[ "${pid:-0}" = 0 ] || report "running kubelet" "$(timeout 20 "/proc/$pid/exe" --version 2>/dev/null | sed -n 's/^Kubernetes v//p')"
for mark in /var/lib/kubexm/cordoned-*; do
  [ ! -e "$mark" ] || echo "cordoned ${mark#/var/lib/kubexm/cordoned-}"
done
echo end
