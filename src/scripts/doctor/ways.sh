#!/bin/sh -eu
# Connects from this host to addresses, and prints for each one `way=LABEL ok`, `way=LABEL refused`, `way=LABEL timeout` or
# `way=LABEL unreachable`, in any order, and `end=` at the end. Sends nothing, and needs no program besides bash.
# Arguments: LABEL, address and TCP port, repeatedly; at most 3 seconds for each.
# shellcheck disable=SC2016 # the inner shell expands these
way() {
  said=$(timeout -k 1 3 bash -c 'exec 3<>"/dev/tcp/$1/$2"' way "$2" "$3" 2>&1 </dev/null) && ended=0 || ended=$?
  case $ended:$said in
  0:*) echo "way=$1 ok" ;;
  124:*) echo "way=$1 timeout" ;;
  *refused*) echo "way=$1 refused" ;;
  *) echo "way=$1 unreachable" ;;
  esac
}
command -v bash >/dev/null 2>&1 || { echo "end="; exit; }
running=0
while [ $# -gt 0 ]; do
  way "$1" "$2" "$3" &
  shift 3
  running=$((running + 1))
  if [ $((running % 40)) = 0 ]; then wait; fi
done
wait
echo "end="
