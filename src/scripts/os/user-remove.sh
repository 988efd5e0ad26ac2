#!/bin/sh -eu
# Removes a system user and its group, if kubexm created them.
# Arguments: the name.
name=$1
export PATH="$PATH:/usr/sbin:/sbin"
created=/var/lib/kubexm/done
exists() { getent "$1" "$name" >/dev/null; }
if [ -e "$created/user-$name" ]; then
  number=$(getent group "$name" | cut -d: -f3)
  if exists passwd; then userdel "$name"; fi
  # With USERGROUPS_ENAB in /etc/login.defs, userdel also removes a group that existed before.
  if [ -n "$number" ] && [ ! -e "$created/group-$name" ] && ! exists group; then
    groupadd --system --gid "$number" "$name"
  fi
  rm -f "$created/user-$name"
fi
if [ -e "$created/group-$name" ]; then
  if exists group; then groupdel "$name"; fi
  rm -f "$created/group-$name"
fi
