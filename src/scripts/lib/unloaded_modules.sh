# shellcheck shell=sh
# Prints what systemd-modules-load does not load at the next boot, unless the kernel has it built in, and the lines that say so.
unloaded_modules() {
  timed 5 modprobe --showconfig | awk -v builtin="/lib/modules/$(uname -r)/modules.builtin" '
    BEGIN { while ((getline line <builtin) > 0) { sub(/.*\//, "", line); sub(/\.ko.*/, "", line); gsub(/-/, "_", line); has[line] = 1 } }
    /^(blacklist|install) / { name = $2; gsub(/-/, "_", name); if (!(name in has)) print }' | head -n 500 | cut -c1-300 | each not_loaded || :
  set -- /etc /run /usr/local/lib /usr/lib
  [ -L /lib ] || set -- "$@" /lib
  for directory; do grep -HsE '^[[:space:]]*(blacklist|install)[[:space:]]' "$directory"/modprobe.d/*.conf || :; done |
    head -n 1000 | cut -c1-300 | each modprobe_line
}
