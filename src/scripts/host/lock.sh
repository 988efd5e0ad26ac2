#!/bin/sh -eu
# Locks the host for one kubexm. The lock is a lease: it ends some seconds after its holder renewed it last, by
# the host's time since boot. Where another kubexm has the lock, prints the seconds until its end and who
# has it, and exits with status 3. `take` prints which commands have begun on the cluster, as the script begun.sh recorded it.
# Verbs: `take`, `renew`, `release`.
#   token    the token of this run
#   origin   the origin of this run. Runs of one origin exclude each other before they come here: a lock of the same
#            origin is the lock of a process that no longer runs.
#   seconds  how long the lock is valid
#   holder   who runs, in one line
: "${verb=}" "${token=}" "${origin=}" "${seconds=}" "${holder=}"
umask 077
lock=/run/kubexm.lock
# Runs of this script take turns. A missing flock is a finding of preflight.
exec 9</run
! command -v flock >/dev/null || flock -w 30 9
now=$(cut -d. -f1 /proc/uptime)
end=0 its_token='' its_origin='' its_holder=''
if [ -s "$lock" ]; then
  { read -r end && read -r its_token && read -r its_origin && read -r its_holder; } <"$lock" || end=0
fi
case $end in '' | *[!0-9]*) end=0 ;; esac
write() { printf '%s\n' "$((now + seconds))" "$token" "$origin" "$holder" >"$lock"; }
case $verb in
take)
  if [ "$end" -gt "$now" ] && [ "$its_token" != "$token" ] && [ "$its_origin" != "$origin" ]; then
    echo "$((end - now)) $its_holder"
    exit 3
  fi
  write
  begun=/var/lib/kubexm/begun.json
  [ ! -f "$begun" ] || head -c 1048576 "$begun"
  ;;
renew)
  # A run that took the lease after its end has changed the host, also if it has released the lease since.
  [ "$its_token" = "$token" ] || { echo "$((end > now ? end - now : 0)) $its_holder"; exit 3; }
  write
  ;;
release) [ "$its_token" != "$token" ] || rm -f "$lock" ;;
*) echo "usage: lock.sh take|renew|release" >&2; exit 2 ;;
esac
