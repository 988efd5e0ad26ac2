# shellcheck shell=bash disable=SC2034,SC2154 # the caller sets `work`, `lab`, `name`, `kubexm`, `cluster` and `state`, and uses `there`
# A host of the lab that is the machine of the administrator: it has the program, the cluster file, the state directory and
# a key for SSH, and systemd for timers. Sourced. The caller sets `desk` to the name of the host, and defines `on`.

place=/srv/kubexm
there=(-f "$place/cluster.yaml" --state "$place/state" --known-hosts "$place/known_hosts")
timer() { # certs|backup VERB OPTIONS…
  on "$desk" "$place/kubexm" "$1" timer "$2" --output plain "${there[@]}" "${@:3}"
}
copy_to() { # FILE PATH
  # shellcheck disable=SC2016 # expands on the host
  on "$desk" sh -c 'mkdir -p "$(dirname "$1")" && cat >"$1"' sh "$2" <"$1"
}
move_in() { # the machine of the administrator gets everything
  copy_to "$kubexm" "$place/kubexm"
  copy_to "$("$lab" dir "$name")/id_ed25519" "$place/key"
  copy_to "$(known_hosts)" "$place/known_hosts"
  sed "s,privateKeyPath: [^,}]*,privateKeyPath: $place/key," "$cluster" >"$work/there.yaml"
  copy_to "$work/there.yaml" "$place/cluster.yaml"
  # shellcheck disable=SC2016 # expands on the host
  tar -C "$state" -c . | on "$desk" sh -c 'mkdir -p "$1" && tar -C "$1" -x' sh "$place/state"
  on "$desk" chmod 700 "$place/kubexm" "$place/state"
  on "$desk" chmod 600 "$place/key"
}
unit_file() { printf '/etc/systemd/system/kubexm-%s-%s.%s\n' "$1" "$name" "$2"; } # certs|backup service|timer
start_service() { on "$desk" systemctl start "kubexm-$1-$name.service"; } # certs|backup
last_run() { { timer "$1" status || true; } | sed -n 's/^last run *//p'; }
ran_with() { last_run "$1" | grep -e "$2"; } # certs|backup PATTERN
