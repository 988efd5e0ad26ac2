#!/bin/sh -eu
# Unloads the kernel modules that kubexm loaded and nothing uses. The kernel refuses to unload a module that has users.
export PATH="$PATH:/usr/sbin:/sbin"
loaded=/var/lib/kubexm/done
for marker in "$loaded"/module-*; do
  [ -e "$marker" ] || continue
  name=${marker##*/module-}
  in_use=''
  if [ "$name" = br_netfilter ]; then
    # It has no users that the kernel counts: it filters the packets of all bridges.
    for bridge in /sys/class/net/*/bridge; do [ ! -d "$bridge" ] || in_use=yes; done
  fi
  if [ -n "$in_use" ] || ! modprobe -r "$name" 2>/dev/null; then
    echo "kept used $name"
  fi
  rm -f "$marker"
done
