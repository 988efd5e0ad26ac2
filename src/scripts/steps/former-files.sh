#!/bin/sh -eu
# Reports files that an earlier install wrote and this install does not write, and directories that an earlier install
# created for programs and this install does not name: no setting needs them any more. A program may still use them, so an
# install does not remove them.
# Arguments: `check`, paths of all files that this install writes, and of all directories that it records.
[ "$1" = check ] || { echo "usage: former-files.sh check PATH…" >&2; exit 2; }
shift
receipt=/var/lib/kubexm/receipt.jsonl
[ -e "$receipt" ] || exit 0
# Whether a path is one of the others.
is_in() {
  path=$1
  shift
  for other in "$@"; do [ "$other" != "$path" ] || return 0; done
  return 1
}
# A path with a character that JSON escapes is left out.
left=$(
  sed -n 's/^{"step":"file \(\/[^"\\]*\)",.*/\1/p' "$receipt" | sort -u | while read -r file; do
    # Other steps remove former patches and the pod for addresses of services.
    case $file in /etc/kubexm/patches/* | /etc/kubernetes/manifests/kube-vip-services.yaml) continue ;; esac
    if [ -f "$file" ] && ! is_in "$file" "$@"; then echo "$file"; fi
  done
)
# Only directories that kubexm created have the marker.
data=$(
  sed -n 's/^{"step":"folders [^"\\]*",.*"kind":"removeDirectory",.*"path":"\(\/[^"\\]*\)".*/\1/p' "$receipt" | sort -u |
    while read -r folder; do
      if [ -e "$folder/.kubexm-owner" ] && ! is_in "$folder" "$@"; then echo "$folder"; fi
    done
)
[ -n "$left$data" ] || exit 0
# kubexm shows the first 20 lines.
# Arguments: what the lines are, how many of them to print, lines, what to do.
report() {
  [ -n "$3" ] || return 0
  echo "$1 of an earlier install stay on this host, and no setting of the cluster file needs them:"
  echo "$3" | awk -v most="$2" 'NR <= most { print "  " $0 } END { if (NR > most) print "  and " NR - most " more" }'
  echo "hint: $4"
}
report files 8 "$left" \
  "stop the units among them with \`systemctl disable --now\`, then remove the files, or state their settings again"
report directories 6 "$data" "remove them when nothing uses them any more, or state their settings again"
exit 78
