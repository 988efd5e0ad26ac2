# shellcheck shell=sh
# Prints whether fapolicyd starts only programs of packages and of its rules, and its rules about directories.
fapolicyd_rules() {
  if [ "$(timed 5 systemctl is-active fapolicyd)" = active ] && ! grep -qsE '^[[:space:]]*permissive[[:space:]]*=[[:space:]]*1' /etc/fapolicyd/fapolicyd.conf; then
    echo "fapolicyd=active"
    cat /etc/fapolicyd/rules.d/*.rules 2>/dev/null | grep -E '^allow(_[a-z]+)? .*[ ,]dir=/' | head -n 100 | cut -c1-500 | each fapolicyd || :
  fi
}
