# shellcheck shell=sh
# Gives a complete file its name. The content reaches the disk before the name does, and the name before the
# script goes on.
# Arguments: path of the complete file, path that it gets.
replace() {
  [ -L "$1" ] || sync "$1" 2>/dev/null || sync
  mv -fT "$1" "$2" || return
  sync "$(dirname "$2")" 2>/dev/null || sync
}
