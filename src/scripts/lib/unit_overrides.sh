# shellcheck shell=sh
# Prints what changes the programs of the cluster, besides files that kubexm wrote: names only, because values can be secret.
# Arguments: units.
unit_overrides() {
  for unit; do
    for file in "/usr/lib/systemd/system/$unit.d"/*.conf "/run/systemd/system/$unit.d"/*.conf "/etc/systemd/system/$unit.d"/*.conf; do
      [ -f "$file" ] || continue
      ! head -n 1 "$file" | grep -q '^# Written by kubexm' || continue
      sed -nE 's/^[[:space:]]*(ExecStart|EnvironmentFile)[[:space:]]*=.*/\1/p' "$file" | sort -u | sed "s|^|$unit $file |" | each unit_setting
      variables "" "$file" | sed 's/=.*//' | grep -E '^[A-Za-z_]' | grep -viE '^(https?|all|no)_proxy$|^KUBELET_.*ARGS$' |
        sed "s|^|$unit $file |" | each unit_setting || :
      [ "$unit" != kubelet.service ] || variables "" "$file" | sed -n 's/^KUBELET_[A-Z_]*ARGS=//p' | kubelet_flags "$file"
    done
  done
  for file in /etc/default/kubelet /etc/sysconfig/kubelet; do
    [ ! -f "$file" ] || variables 1 "$file" | sed -n 's/^KUBELET_EXTRA_ARGS=//p' | kubelet_flags "$file"
  done
  for file in /etc/crio/crio.conf.d/*; do
    [ ! -f "$file" ] || sed -nE 's/^[[:space:]]*([a-z_]+)[[:space:]]*=.*/\1/p' "$file" | sed "s|^|$file |" | each crio_setting
  done
}
