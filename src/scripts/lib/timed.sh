# shellcheck shell=sh
# Runs a command with a limit in seconds. It reads nothing and does not complain.
timed() {
  limit=$1
  shift
  timeout -k 1 "$limit" "$@" 2>/dev/null </dev/null
}
