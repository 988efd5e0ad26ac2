#!/bin/sh -eu
# Checks whether iSulad is installed, or explains how to install it.
# Arguments: `check` or `explain`.
case $1 in
check)
  for name in isulad isula runc; do
    command -v "$name" >/dev/null || { echo "has no program $name"; exit 1; }
  done
  ;;
explain)
  echo "iSulad comes as a package of the distribution: add iSulad and runc to the packages of this host's" >&2
  echo "release in spec.packages of the manifest and build the bundle again, or install them" >&2
  exit 1
  ;;
*) echo "usage: isulad-installed.sh check|explain" >&2; exit 2 ;;
esac
