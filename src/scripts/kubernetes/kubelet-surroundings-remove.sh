#!/bin/sh -eu
# Removes the kubelet's resolv.conf, and its folder of static pods if that is empty.
# Arguments: the folder, the link.
rm -f "$2"
rmdir "$1" 2>/dev/null || :
