#!/bin/sh -eu
# Prints files of programs on this node, as they are and as kubeadm generates them, and replaces them. Steps of kubexm decide which
# ones differ, whether a program runs with its new file, and when it gets its former one back.
# Verbs:
#   look      prints `former` if the former file or directory exists, and then files: each one that a phase of kubeadm generates from
#             a configuration, the one of its name in the directory `path`, and those in `$@`. Before each file is a line with its
#             path, or only the name of a generated one, and its size in bytes
#   put       replaces the file `path`; keeps the former one, unless it is kept already
#   save      keeps the files in `$@`, in one directory, unless it exists
#   restore   gives the file `path`, or the files in the directory `path`, their former content
#   keep      confirms a change: the former files become the previous ones
#   drop      forgets the former files
#   restart   restarts the kubelet, and prints the time after that
#   life      prints the state of the kubelet's unit, its lease, and its node
#   readyz    checks whether the API server of this control plane is ready
#   pod       prints the pod of a program
#   latest    prints the present time, when the manifest of a program changed, in seconds, and its latest container
#   logs      prints the last lines of a program
# Parameters:
#   config, phase  configuration of `kubeadm init` for this node; words of the phase
#   former         path that the former file or directory has until the change is confirmed
#   path, content  file or directory of the program; its new content
#   name, node     name of the program; name of the node
: "${verb=}" "${config=}" "${phase=}" "${former=}" "${path=}" "${content=}" "${name=}" "${node=}"
export PATH="/usr/local/bin:$PATH"
umask 077
# The latest former files of completed changes.
previous=/var/lib/kubexm/previous
install -d -m 700 /run/kubexm
# Prints the latest container of a program.
containers() { crictl ps -a --label io.kubernetes.pod.namespace=kube-system --name "^$name\$" --latest "$@" 2>/dev/null; }
frames() {
  for file in "$@"; do
    [ -f "$file" ] || continue
    echo "$file $(stat -c %s "$file")"
    cat "$file"
  done
}
# Copies a file under a name that only a complete copy has, with the present time. The kubelet ignores names with a dot before.
copy() {
  cp --preserve=mode,ownership "$1" "$(dirname "$2")/.kubexm-new"
  replace "$(dirname "$2")/.kubexm-new" "$2"
}
look() {
  new=/run/kubexm/settings.$$
  trap 'rm -rf "$new"' EXIT
  rm -rf "$new"
  mkdir "$new" "$new/generated" "$new/files"
  printf '%s' "$config" >"$new/init.yaml"
  # shellcheck disable=SC2086 # words of the phase
  said=$(KUBEADM_INIT_DRYRUN_DIR="$new/generated" kubeadm init phase $phase --config "$new/init.yaml" --dry-run 2>&1) || {
    printf '%s\n' "$said" >&2
    exit 75
  }
  # Some versions create a directory in this one.
  find "$new/generated" -type f -exec cp {} "$new/files/" \;
  [ ! -e "$former" ] || echo former
  cd "$new/files"
  for file in *; do frames "$file" "$path/$file"; done
  frames "$@"
}
case $verb in
look) look "$@" ;;
put)
  mkdir -p "${former%/*}"
  [ -e "$former" ] || [ ! -e "$path" ] || copy "$path" "$former"
  new=${path%/*}/.kubexm-new
  printf '%s' "$content" >"$new"
  chmod 600 "$new"
  replace "$new" "$path"
  ;;
save)
  [ ! -e "$former" ] || exit 0
  rm -rf "$former.new"
  mkdir -p "$former.new"
  for file in "$@"; do [ ! -e "$file" ] || cp -p "$file" "$former.new/"; done
  sync
  replace "$former.new" "$former"
  ;;
restore)
  if [ -d "$former" ]; then
    for file in "$former"/*; do [ ! -e "$file" ] || copy "$file" "$path/${file##*/}"; done
  else
    copy "$former" "$path"
  fi
  ;;
keep)
  if [ -d "$former" ]; then
    mkdir -p "$previous$path"
    for file in "$former"/*; do [ ! -e "$file" ] || copy "$file" "$previous$path/${file##*/}"; done
    rm -rf "$former"
  elif [ -e "$former" ]; then
    mkdir -p "$previous${path%/*}"
    replace "$former" "$previous$path"
  fi
  ;;
drop) rm -rf "$former" ;;
restart) systemctl restart kubelet || :; date -u +%Y-%m-%dT%H:%M:%S ;;
life)
  systemctl is-active kubelet || :
  api kubelet -n kube-node-lease get lease "$node" -o json
  api kubelet get node "$node" -o json
  ;;
readyz) api controller-manager get --raw /readyz >/dev/null 2>&1 ;;
pod) api admin -n kube-system get pod "$name-$node" -o json ;;
latest) date +%s; stat -c %Y "$path"; containers -o json || : ;;
logs)
  case $name in
  kubelet) journalctl -u kubelet -n 10 --no-pager -o cat 2>/dev/null | sed 's/^/kubelet: /' || : ;;
  *) crictl logs --tail 10 "$(containers -q)" 2>&1 | sed "s/^/$name: /" || : ;;
  esac
  ;;
*) echo "usage: settings.sh look|put|save|restore|keep|drop|restart|life|readyz|pod|latest|logs" >&2; exit 2 ;;
esac
