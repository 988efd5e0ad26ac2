#!/bin/sh -eu
# Prints `restarts` if etcd runs with other files than the present ones, so that the next step restarts it.
# Arguments: the unit of etcd; the files that etcd reads when it starts.
unit=$1
shift
stamp=$(cat "$@" 2>/dev/null </dev/null | sha256sum | cut -d' ' -f1)
if systemctl is-active --quiet "$unit" && [ "$(sed -n 1p "/var/lib/kubexm/started/$unit" 2>/dev/null)" != "$stamp" ]; then
  echo restarts
fi
