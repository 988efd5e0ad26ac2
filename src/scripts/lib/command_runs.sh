# shellcheck shell=sh
# Whether the command that run-to-completion.sh started last still runs on this host.
command_runs() {
  number=$(cat /run/kubexm/once.group 2>/dev/null) && [ -n "$number" ] && kill -0 "-$number" 2>/dev/null
}
