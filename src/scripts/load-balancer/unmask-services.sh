#!/bin/sh -eu
# Unmasks units, and removes leftovers of their packages: unused directories below /run, and a page of nginx.
[ -e /var/lib/kubexm/backup/masked ] || exit 0
while read -r unit; do
  case $unit in */* | -* | '') continue ;; esac
  systemctl unmask --quiet "$unit" 2>/dev/null || :
  rmdir "/run/${unit%.service}" 2>/dev/null || :
done </var/lib/kubexm/backup/masked
[ -e /var/lib/kubexm/backup/no-pages ] || exit 0
rm -f /var/www/html/index.nginx-debian.html
rmdir /var/www/html /var/www 2>/dev/null || :
