#!/bin/sh -eu
# Removes records from the receipt, after what they describe was reverted. Standard input: their lines.
umask 077
receipt=/var/lib/kubexm/receipt.jsonl
[ -e "$receipt" ] || exit 0
cat >"$receipt.forget"
grep -vxF -f "$receipt.forget" "$receipt" >"$receipt.new" || [ $? -eq 1 ]
replace "$receipt.new" "$receipt"
rm -f "$receipt.forget"
