#!/bin/sh -eu
# etcdctl as the administrator of this host's member of etcd. It is the file /usr/local/bin/etcdctl. Options and
# variables of the caller take precedence over the settings of the member: etcdctl fails if a setting is in both.
# Arguments: those of etcdctl.
while IFS='=' read -r name value; do
  case $name in ETCDCTL_*) ;; *) continue ;; esac
  flag=$(printf %s "${name#ETCDCTL_}" | tr '[:upper:]' '[:lower:]')
  case " $* " in *" --$flag "* | *" --$flag="*) continue ;; esac
  printenv "$name" >/dev/null || export "$name=$value"
done </etc/kubexm/etcd-member/etcdctl.env
exec /usr/local/lib/kubexm/etcdctl "$@"
