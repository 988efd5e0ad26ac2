#!/bin/sh -eu
# Removes the kubelet's resolv.conf, and its directory of static pods if it is empty.
# Arguments: the directory, the link.
rm -f "$2" "$2.new"
rmdir "$1" 2>/dev/null || :
