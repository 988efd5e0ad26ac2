# shellcheck shell=sh
# Prints the variables that a unit of systemd gets, one in each line. For a unit that systemd does not know, or whose files it has
# not read again, these are those of the drop-ins for it and for all services. Values can be secret.
# Arguments: the unit.
unit_variables() {
  lines=$(timed 5 systemctl show -p LoadState,NeedDaemonReload,Environment,EnvironmentFiles "$1") || lines=
  [ "$(printf '%s\n' "$lines" | grep -cxE 'LoadState=loaded|NeedDaemonReload=no')" = 2 ] ||
    lines=$(
      printf '%s\n' "$lines"
      for folder in /usr/lib /run /etc; do
        cat "$folder/systemd/system/service.d"/*.conf "$folder/systemd/system/$1.d"/*.conf 2>/dev/null || :
      done
    )
  printf '%s\n' "$lines" | variables ""
  # systemd expands patterns, too.
  for file in $(printf '%s\n' "$lines" | sed -n 's/^EnvironmentFiles\{0,1\}=-\{0,1\}\([^ ]*\).*/\1/p'); do
    variables 1 "$file" 2>/dev/null || :
  done
}
