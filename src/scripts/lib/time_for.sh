# shellcheck shell=sh
# Sets `limit` to the seconds that a question gets. Fails after the deadline: a part that its own limit ends is lost.
# Arguments: the deadline, in seconds since the host started; the largest number of seconds; the name of the answer.
time_for() {
  # Not the clock, which can be set meanwhile.
  read -r now _ </proc/uptime
  # shellcheck disable=SC2034 # scripts that call the function read it
  limit=$(($1 - ${now%.*}))
  [ "$limit" -gt 0 ] || { echo "left_out=$3: no time"; return 1; }
  [ "$limit" -le "$2" ] || limit=$2
}
