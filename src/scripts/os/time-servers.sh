#!/bin/sh -eu
# Compares the time servers of the host with those of the cluster file, or sets them for chrony or systemd-timesyncd,
# whichever the host has. Keeps the former state of the unit beside the receipt.
# Verbs: `check`, `apply`. The lists have blanks between their parts.
#   role     `client`, or `source` if the host serves the time to others
#   servers  NTP servers
#   clients  addresses that a source serves
: "${verb=}" "${role=}" "${servers=}" "${clients=}"
former=/var/lib/kubexm/backup/time-servers
unit=
# chrony's unit has the first name on Debian and the second one on RHEL.
for name in chrony chronyd systemd-timesyncd; do
  if systemctl cat "$name.service" >/dev/null 2>&1; then
    unit=$name.service
    break
  fi
done
config=/etc/chrony/chrony.conf
[ -e "$config" ] || config=/etc/chrony.conf
case $unit in
systemd-timesyncd.service) file=/etc/systemd/timesyncd.conf.d/kubexm.conf ;;
'') file= ;;
*)
  # Without a directory of further files, chrony's own file gets a block.
  file=$config
  ! grep -Eqs '^ *confdir( +| .* )/etc/chrony/conf\.d( |$)' "$config" || file=/etc/chrony/conf.d/kubexm.conf
  ;;
esac
settings() {
  if [ "$unit" = systemd-timesyncd.service ]; then
    # An empty value deletes the servers of other files (timesyncd.conf(5)).
    printf '# Written by kubexm: time servers of system.time.\n[Time]\nNTP=\nNTP=%s\n' "$servers"
    return
  fi
  echo "# kubexm begin"
  for server in $servers; do printf 'server %s iburst\n' "$server"; done
  if [ "$role" = source ]; then
    # Without a server that answers, the other hosts follow the clock of this one.
    echo "local stratum 10"
    for client in $clients; do printf 'allow %s\n' "$client"; done
  fi
  echo "# kubexm end"
}
# Prints chrony's own file as it must be. With servers of the cluster file, chrony asks no others.
main_file() {
  edits='/^# kubexm begin$/,/^# kubexm end$/d; s/^#kubexm //'
  [ -z "$servers" ] || edits="$edits; s/^[[:blank:]]*\\(server\\|pool\\|peer\\)[[:blank:]]/#kubexm &/I"
  sed "$edits" "$config"
  [ "$file" != "$config" ] || settings
}
case $verb in
check)
  [ -n "$unit" ] || { echo "has neither chrony nor systemd-timesyncd"; exit 1; }
  [ ! -e "$former/pending" ] || { echo "an earlier change was interrupted"; exit 1; }
  if [ "$file" != "$config" ] && [ "$(cat "$file" 2>/dev/null)" != "$(settings)" ]; then
    echo "$file has other time servers"
    exit 1
  fi
  if [ "$unit" != systemd-timesyncd.service ] && [ "$(cat "$config" 2>/dev/null)" != "$(main_file 2>/dev/null)" ]; then
    echo "$config has other time servers"
    exit 1
  fi
  systemctl is-enabled --quiet "$unit" || { echo "$unit is not enabled"; exit 1; }
  systemctl is-active --quiet "$unit" || { echo "$unit does not run"; exit 1; }
  ;;
apply)
  hint="hint: install chrony on the host, or add it to spec.packages of the bundle manifest"
  [ -n "$unit" ] || { printf '%s\n' "the host has neither chrony nor systemd-timesyncd" "$hint" >&2; exit 1; }
  if [ "$unit" = systemd-timesyncd.service ] && [ "$role" = source ]; then
    printf '%s\n' "systemd-timesyncd cannot serve the time to other hosts" "$hint" >&2
    exit 1
  fi
  (umask 077; mkdir -p "$former")
  if [ ! -e "$former/unit" ]; then
    enabled=no active=no
    ! systemctl is-enabled --quiet "$unit" || enabled=yes
    ! systemctl is-active --quiet "$unit" || active=yes
    echo "$unit $enabled $active" >"$former/unit.new"
    replace "$former/unit.new" "$former/unit"
  fi
  : >"$former/pending"
  if [ "$unit" != systemd-timesyncd.service ] && [ "$(cat "$config")" != "$(main_file)" ]; then
    cp -aT "$config" "$config.kubexm-new"
    main_file >"$config.kubexm-text"
    cat "$config.kubexm-text" >"$config.kubexm-new"
    rm -f "$config.kubexm-text"
    replace "$config.kubexm-new" "$config"
  fi
  if [ "$file" != "$config" ]; then
    [ -d "${file%/*}" ] || : >"$former/folder"
    (umask 022; mkdir -p "${file%/*}"; settings >"$file.kubexm-new")
    replace "$file.kubexm-new" "$file"
  fi
  systemctl enable --quiet "$unit"
  systemctl restart "$unit"
  systemctl is-active --quiet "$unit" || {
    echo "$unit does not run" >&2
    journalctl -u "$unit" -n 20 --no-pager -o cat >&2 || :
    exit 1
  }
  rm -f "$former/pending"
  ;;
*) echo "usage: time-servers.sh check|apply" >&2; exit 2 ;;
esac
