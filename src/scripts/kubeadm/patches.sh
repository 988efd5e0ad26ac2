#!/bin/sh -eu
# Checks whether the directory of kubeadm patches has files that are not in the cluster file, or removes
# them. Otherwise kubeadm would apply patches that the user has removed.
# Arguments: `check` or `remove`, the folder, names of its files.
verb=$1 folder=$2
shift 2
others() {
  for file in "$folder"/*; do
    [ -e "$file" ] || continue
    name=${file##*/}
    case " $* " in *" $name "*) ;; *) printf '%s\n' "$name" ;; esac
  done
}
case $verb in
check)
  left=$(others "$@")
  [ -z "$left" ] || { echo "contains $left"; exit 1; }
  ;;
remove) others "$@" | while IFS= read -r name; do rm -rf "${folder:?}/$name"; done ;;
*) echo "usage: patches.sh check|remove" >&2; exit 2 ;;
esac
