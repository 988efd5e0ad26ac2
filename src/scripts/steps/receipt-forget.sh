#!/bin/sh -eu
# Removes records from the receipt, after what they describe was reverted. Standard input: their lines.
replace() {
  [ -L "$1" ] || sync "$1" 2>/dev/null || sync
  mv -fT "$1" "$2" || return
  sync "$(dirname "$2")" 2>/dev/null || sync
}
umask 077
receipt=/var/lib/kubexm/receipt.jsonl
[ -e "$receipt" ] || exit 0
cat >"$receipt.forget"
grep -vxF -f "$receipt.forget" "$receipt" >"$receipt.new" || [ $? -eq 1 ]
replace "$receipt.new" "$receipt"
rm -f "$receipt.forget"
