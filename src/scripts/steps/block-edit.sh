#!/bin/sh -eu
# Removes kubexm's block of lines from a file, or replaces it with another block at the end of the file.
# Removes only a block with both its comments: the lines after a comment without its counterpart may
# not belong to kubexm.
# Arguments: path, `put`, block; or path, `remove`, what block-state.sh printed.
path=$(readlink -f "$1") verb=$2
newline='
'
new=$(dirname "$path")/.$(basename "$path").kubexm-new
# A killed run.
rm -f "$new"
if [ ! -e "$path" ]; then
  [ "$verb" = put ] || exit 0
  (umask 022; : >"$path")
fi
text=$(awk '
  /^# kubexm begin$/ { printf "%s", held; held = ""; inside = 1 }
  inside { held = held $0 "\n"; if ($0 == "# kubexm end") { held = ""; inside = 0 }; next }
  { print }
  END { printf "%s", held }' "$path"; echo .)
text=${text%.}
if [ "$verb" = put ]; then
  text=$text$3
elif [ "$3" = absent ] && [ -z "$text" ]; then
  rm -f "$path"
  exit 0
elif [ "$3" = unended ]; then
  text=${text%"$newline"}
fi
cp -a "$path" "$new"
printf %s "$text" >"$new"
# A file that is a mount point, as /etc/hosts may be, cannot be replaced, only overwritten.
replace "$new" "$path" 2>/dev/null || { cat "$new" >"$path"; sync "$path" 2>/dev/null || sync; rm -f "$new"; }
if command -v restorecon >/dev/null; then restorecon "$path" || :; fi
