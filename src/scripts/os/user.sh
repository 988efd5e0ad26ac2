#!/bin/sh -eu
# Checks whether a system user and a group of the same name exist, or creates those that are missing. Marks what it
# creates before it does so, because a reset removes only that.
# Arguments: `check` or `apply`, the name.
verb=$1 name=$2
export PATH="$PATH:/usr/sbin:/sbin"
exists() { getent "$1" "$name" >/dev/null; }
# Arguments: `user` or `group`.
mark() {
  (umask 077; mkdir -p /var/lib/kubexm/done; : >"/var/lib/kubexm/done/$1-$name")
  sync "/var/lib/kubexm/done/$1-$name" /var/lib/kubexm/done 2>/dev/null || sync
}
case $verb in
check)
  exists group || { echo "the group $name does not exist"; exit 1; }
  exists passwd || { echo "the user $name does not exist"; exit 1; }
  ;;
apply)
  command -v useradd >/dev/null || {
    printf '%s\n' "the host has no program useradd" "hint: install the package passwd (Debian) or shadow-utils (RHEL)" >&2
    exit 1
  }
  if ! exists group; then
    mark group
    groupadd --system "$name"
  fi
  if ! exists passwd; then
    mark user
    useradd --system --gid "$name" --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin \
      --comment "created by kubexm" "$name"
  fi
  ;;
*) echo "usage: user.sh check|apply" >&2; exit 2 ;;
esac
