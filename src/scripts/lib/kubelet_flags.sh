# shellcheck shell=sh
# Reads flags, separated by blanks, and prints their names, with values that kubexm may set, too.
# Arguments: their file.
kubelet_flags() {
  tr -s '[:blank:]' '\n' | sed -nE 's/^--?([a-z][a-z0-9-]*=(true|false|systemd|cgroupfs|Webhook))$/\1/p; s/^--?([a-z][a-z0-9-]*).*/\1/p' |
    head -n 50 | sed "s|^|$1 |" | each kubelet_flag
}
