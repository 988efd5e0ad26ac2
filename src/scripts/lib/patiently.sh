# shellcheck shell=sh
# Calls a command for at most a minute, until it succeeds: an API server that has just started refuses requests.
patiently() {
  attempts=20
  until "$@"; do
    attempts=$((attempts - 1))
    [ "$attempts" -gt 0 ] || return 1
    sleep 3
  done
}
