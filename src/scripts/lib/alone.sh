# shellcheck shell=sh
# Waits until no earlier run ends or starts pods: a command keeps running on the host when its kubexm is killed.
# Arguments: the file of the lock.
alone() {
  install -d -m 700 /run/kubexm
  exec 9>"$1"
  flock -w 600 9 || { echo "the pods of an earlier run do not end within 10 minutes" >&2; exit 1; }
}
