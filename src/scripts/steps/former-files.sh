#!/bin/sh -eu
# Reports files that an earlier install wrote and that this install does not write: no setting needs them any more. A
# program may still use them, so an install does not remove them.
# Arguments: `check`, paths of all files that this install writes.
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
[ -n "$left" ] || exit 0
echo "files of an earlier install stay on this host, and no setting of the cluster file needs them:"
echo "$left" | awk 'NR <= 12 { print "  " $0 } END { if (NR > 12) print "  and " NR - 12 " more" }'
echo "hint: stop the units among them with \`systemctl disable --now\`, then remove the files, or state their settings again"
exit 78
