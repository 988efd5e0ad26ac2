#!/bin/sh -eu
# Prints the flags with which the programs of Kubernetes and etcd run on this host, and those that the next start of the kubelet
# adds. One flag in a line, with tabs: `flag PROGRAM SOURCE FLAG`; the file of each flag `--config`, as in
# `config PROGRAM SOURCE PATH BASE64`; and `end` at the end. SOURCE is the file by which an administrator has set the flag,
# `rendered` for a file that an upgrade writes again, or `unknown`. A value of its own argument follows its flag after `=`.
units=/etc/systemd/system
programs="kubelet kube-apiserver kube-controller-manager kube-scheduler kube-proxy etcd"
# Files with settings of the kubelet that neither kubeadm nor kubexm writes.
defaults="/etc/default/kubelet /etc/sysconfig/kubelet"
# Prints the drop-ins of a unit that kubexm has not written.
drop_ins() {
  for file in "$units/$1.service.d"/*.conf "/usr/lib/systemd/system/$1.service.d"/*.conf "/run/systemd/system/$1.service.d"/*.conf; do
    case $file in "$units/kubelet.service.d/10-kubeadm.conf") continue ;; esac
    [ ! -f "$file" ] || echo "$file"
  done
}
# Whether a file has changed since a process started. The kernel counts hundredths of a second since the boot.
# Arguments: file, directory of the process in /proc.
is_newer() {
  started=$(sed 's/^.*) //' "$2/stat" 2>/dev/null | cut -d ' ' -f 20)
  age=$(awk -v started="${started:-0}" '{ print int($1 - started / 100) }' /proc/uptime)
  [ $(($(date +%s) - $(stat -c %Y "$1"))) -lt "$age" ]
}
# Prints the file that sets a flag. A flag that is in no file any more, because an interrupted upgrade has written the file again
# and not yet restarted the program, ends with the program.
# Arguments: program, name of the flag with its dashes, directory of the process in /proc.
source_of() {
  own=$(drop_ins "$1")
  [ "$1" != kubelet ] || own="$defaults $own"
  for file in $own; do
    if [ -f "$file" ] && grep -v '^ *#' "$file" | grep -q -e "$2\([= \"']\|\$\)"; then
      echo "$file"
      return
    fi
  done
  for file in "$units/$1.service" "/etc/kubernetes/manifests/$1.yaml" "$units/kubelet.service.d/10-kubeadm.conf" \
    /var/lib/kubelet/kubeadm-flags.env; do
    case $1-$file in kubelet-* | *"/$1".*) ;; *) continue ;; esac
    [ -f "$file" ] || continue
    if grep -q -e "$2\([= \"']\|\$\)" "$file" || is_newer "$file" "$3"; then
      echo rendered
      return
    fi
  done
  # The command of the pods of kube-proxy is in a DaemonSet.
  case $1 in kube-proxy) echo rendered ;; *) echo unknown ;; esac
}
# Reads arguments, one in a line, and prints the flags.
# Arguments: program, source or nothing, directory of the process in /proc.
report() {
  awk '/^-/ { if (flag != "") print flag; flag = $0; next } flag != "" { print (flag ~ /=/ ? flag : flag "=" $0); flag = "" } END { if (flag != "") print flag }' |
    while IFS= read -r flag; do
      printf 'flag\t%s\t%s\t%s\n' "$1" "${2:-$(source_of "$1" "${flag%%=*}" "$3")}" "$flag"
    done
}
# Reads flags, and prints the configuration that they name. That of a pod is in its own file system.
# Arguments: program, directory of the process in /proc.
report_config() {
  path=$(sed -n 's/^--config=\(\/.*\)$/\1/p' | tail -n 1)
  [ -n "$path" ] && [ -f "$path" ] || return 0
  printf 'config\t%s\t%s\t%s\t%s\n' "$1" "$(source_of "$1" --config "$2")" "$path" "$(head -c 262144 "$path" | base64 | tr -d '\n')"
}
for process in /proc/[0-9]*; do
  program=$(tr '\0' '\n' <"$process/cmdline" 2>/dev/null | sed 1q) || continue
  program=${program##*/}
  case " $programs " in *" $program "*) ;; *) continue ;; esac
  # A program of the same name that a user runs has no flags of a server.
  [ "$(cat "$process/comm" 2>/dev/null || :)" = "$(printf '%.15s' "$program")" ] || continue
  tr '\0\t' '\n ' <"$process/cmdline" 2>/dev/null | sed 1d | report "$program" '' "$process"
  tr '\0\t' '\n ' <"$process/cmdline" 2>/dev/null | sed 1d | report_config "$program" "$process"
done
for file in $defaults; do
  [ -f "$file" ] || continue
  # The value without its quotes, as systemd reads it.
  sed -n 's/^ *KUBELET_EXTRA_ARGS=//p' "$file" | sed "s/^\"\(.*\)\" *\$/\1/; s/^'\(.*\)' *\$/\1/" | tail -n 1 | tr -s '[:blank:]' '\n' |
    sed '/^$/d' | report kubelet "$file" ''
done
echo end
