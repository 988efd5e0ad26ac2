#!/bin/sh -eu
# Looks whether a folder of kubeadm patches has other files than those of the cluster file, or removes the
# others. kubeadm would apply a patch that the cluster file does not have any more.
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
