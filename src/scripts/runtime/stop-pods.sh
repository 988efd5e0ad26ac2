#!/bin/sh -eu
# Stops all pods. They continue when their runtime stops, so they must end before their files are removed.
export PATH="/usr/local/bin:$PATH"
command -v crictl >/dev/null || exit 0
pods=$(crictl pods -q 2>/dev/null || :)
[ -z "$pods" ] || printf '%s\n' "$pods" | xargs crictl rmp -f >/dev/null 2>&1 || :
# Processes that the runtime does not know any more, as after a kubelet that ended while it created a pod. Hosts in
# containers of this host have another root and another process 1.
place() { stat -Lc %d:%i "$1" 2>/dev/null || :; }
root=$(place /)
[ "$(place /proc/1/root/)" = "$root" ] || exit 0
# What a process of the first round has started gets process 1 as its parent when that one ends.
for _ in 1 2 3 4 5; do
  found=
  for process in /proc/[0-9]*; do
    case $(tr '\0' ' ' 2>/dev/null <"$process/cmdline" || :) in
    "/usr/local/bin/containerd-shim-runc-v2 -namespace k8s.io "*) [ "$(place "$process/root/")" = "$root" ] || continue ;;
    # It may have the root of its container already.
    "/usr/local/bin/runc init "*) grep -qsx 'PPid:[[:blank:]]*1' "$process/status" || continue ;;
    *) continue ;;
    esac
    found=yes
    kill -KILL "${process#/proc/}" 2>/dev/null || :
    # In a frozen cgroup of version 1, a process ends only when it is thawed.
    frozen=/sys/fs/cgroup/freezer$(sed -n 's/^[0-9]*:freezer://p' "$process/cgroup" 2>/dev/null || :)/freezer.state
    [ ! -w "$frozen" ] || echo THAWED >"$frozen" 2>/dev/null || :
  done
  [ -n "$found" ] || break
  sleep 1
done
