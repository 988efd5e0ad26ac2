# shellcheck shell=bash disable=SC2154 # `work` is the caller's
# The state of a host as a listing, for comparison. Sourced. The caller sets `work`, defines
# `on HOST COMMAND…`, and writes the listing of a bare host to `$work/before.HOST`.

# Everything that a reset must restore. The listing omits logs, caches, and what dpkg, ucf and systemd record about
# earlier states, such as /etc/passwd-. The workers of udev have its name in Debian 11.
listing() { # HOST
  on "$1" sh <<'EOF'
find / -xdev \( -path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /var/tmp -o -path /var/log \
  -o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/systemd -o -path '/var/lib/dpkg/*-old' \
  -o -path '/var/lib/ucf/*.[0-9]' -o -path /var/lib/dpkg/triggers -o -path /var/lib/dpkg/status -o -path /var/backups \) -prune -o -printf '%y %m %u %p %l\n' | sort
find / -xdev -type f \( -path '/etc/*' -o -path '/usr/local/*' \) ! -path /etc/ld.so.cache \
  ! -path '/etc/*passwd-' ! -path '/etc/*group-' ! -path '/etc/*shadow-' -exec sha256sum {} + | sort
dpkg-query -W | sort
systemctl list-unit-files --no-legend | awk '{ print $1, $2 }' | sort
cut -d' ' -f1-3 /proc/mounts | sort
ps -eo comm= | grep -v -e '^ps$' -e '^sh$' -e '^sort$' -e '^grep$' -e '^sshd' -e '^(sd-pam)$' -e '^(udev-worker)$' -e '^systemd-udevd$' -e '^systemd$' | sort
ip -o link | cut -d: -f2 | cut -d@ -f1 | sort
ls /run /run/systemd/system 2>/dev/null | grep -v -e utmp -e user -e '^sshd' | sort
sysctl -n net.ipv4.ip_forward
EOF
}
compare() { # HOST
  listing "$1" >"$work/after.$1"
  diff "$work/before.$1" "$work/after.$1" | sed -n 1,40p
  cmp -s "$work/before.$1" "$work/after.$1"
}
