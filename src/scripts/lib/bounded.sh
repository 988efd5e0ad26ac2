# shellcheck shell=sh
# Runs a command with a limit in seconds, and prints at most 40 lines.
bounded() {
  timed "$@" | head -n 40 | cut -c1-1000
}
