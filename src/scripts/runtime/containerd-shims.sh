#!/bin/sh -eu
# Ends the shims of pods before a containerd of another major or minor version replaces that of this node, and then containerd.
# `containerd-pods.sh` has ended the pods that the runtime knows.
# Arguments: `ended` or `end`, and the version of the new containerd.
verb=$1
new=$2
export PATH="/usr/local/bin:$PATH"
# Prints the major and minor version in what a program says about itself, as in `2.2`.
minor() { sed -n 's/^.*[ v]\([0-9]\{1,\}\.[0-9]\{1,\}\)\.[0-9].*$/\1/p' | sed 1q; }
place() { stat -Lc %d:%i "$1" 2>/dev/null || :; }
# Prints the folders of the shims of pods in /proc. Hosts in containers of this host have another root.
shims() {
  root=$(place /)
  [ "$(place /proc/1/root/)" = "$root" ] || return 0
  for process in /proc/[0-9]*; do
    case $(tr '\0' ' ' 2>/dev/null <"$process/cmdline" || :) in
    "/usr/local/bin/containerd-shim-runc-v2 -namespace k8s.io "*)
      [ "$(place "$process/root/")" != "$root" ] || echo "$process"
      ;;
    esac
  done
}
# Whether a shim has another version than the new containerd. A program that was replaced can still be run by its process.
has_other_shim() {
  same=
  for process in $(shims); do
    file=$(place "$process/exe")
    case " $same " in *" $file "*) continue ;; esac
    found=$("$process/exe" -v 2>/dev/null | minor)
    [ "$found" = "$1" ] || [ ! -e "$process" ] || return 0
    same="$same $file"
  done
  return 1
}
case $verb in
ended)
  new=$(echo "v$new" | minor)
  if systemctl is-active --quiet containerd.service; then
    now=$(crictl version 2>/dev/null | sed -n 's/^RuntimeVersion:/&/p' | minor)
    [ -n "$now" ] || { echo "containerd does not tell its version" >&2; exit 75; }
    [ "$now" = "$new" ] || { echo "its pods run with containerd $now"; exit 1; }
  fi
  ! has_other_shim "$new" || { echo "pods of another containerd run"; exit 1; }
  ;;
end)
  alone /run/kubexm/pods.lock
  for _ in 1 2 3 4 5 6 7 8 9 10; do [ -n "$(shims)" ] || break; sleep 1; done
  # The runtime does not know these any more. Their containers are their children.
  for process in $(shims); do
    # shellcheck disable=SC2046 # one word for each process
    kill -KILL $(grep -lsx "PPid:[[:blank:]]*${process#/proc/}" /proc/[0-9]*/status | cut -d/ -f3) "${process#/proc/}" 2>/dev/null || :
  done
  systemctl stop containerd.service
  ;;
*) echo "usage: containerd-shims.sh ended|end" >&2; exit 2 ;;
esac
