#!/bin/sh -eu
# Runs a script after all of its standard input has arrived. When the connection breaks, standard input
# ends, and only the size shows that data is missing. The input may be secret. It is stored in memory, only
# root can read it, and its file has no name any more when the script runs.
# Arguments: size in bytes, text of the script, arguments of the script.
size=$1 script=$2
shift 2
mask=$(umask)
umask 077
install -d -m 700 /run/kubexm
# A killed script may have left a secret here.
for old in /run/kubexm/input-* /run/kubexm/access-* /run/kubexm/secrets-*; do
  [ ! -e "$old" ] || kill -0 "${old##*-}" 2>/dev/null || rm -f "$old"
done
input=/run/kubexm/input-$$
trap 'rm -f "$input"' EXIT
cat >"$input"
got=$(wc -c <"$input")
[ "$got" -eq "$size" ] || { echo "only $got of $size bytes of its input arrived" >&2; exit 1; }
exec <"$input"
rm -f "$input"
trap - EXIT
umask "$mask"
exec sh -euc "$script" kubexm "$@"
