#!/bin/sh -eu
# Checks whether the directory of a registry's images exists, or creates it. Only root can enter a data directory that
# kubexm created: the registry sees the images through a mount of its unit.
# Arguments: `check` or `apply`, the registry's data directory.
verb=$1 data=$2
case $verb in
check)
  [ -d "$data/docker/registry/v2/repositories" ] || { echo "$data has no directory of images"; exit 1; }
  [ ! -e "$data/.kubexm-owner" ] || [ "$(stat -c %a "$data")" = 700 ] || { echo "other users can enter $data"; exit 1; }
  ;;
apply)
  umask 022
  mkdir -p "$data/docker/registry/v2/repositories"
  [ ! -e "$data/.kubexm-owner" ] || chmod 700 "$data"
  ;;
*) echo "usage: folder.sh check|apply" >&2; exit 2 ;;
esac
