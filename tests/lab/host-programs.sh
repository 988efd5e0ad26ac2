# shellcheck shell=bash disable=SC2154 # `work`, `lab`, `name` and `distro` are the caller's
# Programs of Debian that an administrator has on hosts. Sourced with the functions of stage.sh.

root_of() { echo "$("$lab" dir "$name")/$1"; }
# apt of this machine for Debian 13 and the packages of a host, which has no way to a mirror.
apt_for() { # HOST OPTIONS…
  apt-get -q -y --no-install-recommends -o Dir::Etc::sourcelist="$work/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::lists="$work/apt/lists" -o Dir::Cache="$work/apt/$1" -o APT::Sandbox::User=root \
    -o Dir::State::status="$(root_of "$1")/var/lib/dpkg/status" "${@:2}" >>"$work/apt.log" 2>&1
}
gets() { # HOST PACKAGE…: installs packages as the administrator of a site does
  local debs
  debs=$(root_of "$1")/srv/debs
  mkdir -p "$work/apt/lists/partial" "$work/apt/$1/archives/partial" "$debs"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $distro main" >"$work/apt/sources.list"
  compgen -G "$work/apt/lists/*Packages*" >/dev/null || apt_for "$1" update
  apt_for "$1" install --download-only "${@:2}"
  mv "$work/apt/$1/archives"/*.deb "$debs"
  # A package can need another one that is configured, as python3 does: a later run finds it.
  # shellcheck disable=SC2016 # expands on the host
  on "$1" sh -c 'export DEBIAN_FRONTEND=noninteractive
    left=4
    until dpkg -i /srv/debs/*.deb; do left=$((left - 1)); [ "$left" -gt 0 ] || exit 1; done
    rm -r /srv/debs'
}
# What only the lab needs. A host shares the clock and /sys with this machine: chronyd must not set the clock, nor has it
# the right to do so, and systemd-timesyncd neither, which does not start in containers by itself. NetworkManager gets the
# interfaces of its host in /sys, read-only as in other containers: there is no udev that knows them.
adapt() { # HOST
  on "$1" sh -s <<'EOF'
mkdir -p /srv/sys /etc/systemd/system/chrony.service.d /etc/systemd/system/systemd-timesyncd.service.d /etc/systemd/system/NetworkManager.service.d
mount -t sysfs -o ro sysfs /srv/sys
printf '[Service]\nExecStart=\nExecStart=!/usr/sbin/chronyd -x $DAEMON_OPTS\nCapabilityBoundingSet=~CAP_SYS_TIME\n' >/etc/systemd/system/chrony.service.d/lab.conf
printf '[Unit]\nConditionVirtualization=\n[Service]\nAmbientCapabilities=\nCapabilityBoundingSet=\n' >/etc/systemd/system/systemd-timesyncd.service.d/lab.conf
printf '[Service]\nBindReadOnlyPaths=/srv/sys:/sys\n' >/etc/systemd/system/NetworkManager.service.d/lab.conf
systemctl daemon-reload
EOF
}
