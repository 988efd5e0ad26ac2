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
  echo "iSulad is a package of the distribution, and it is not installed" >&2
  echo "hint: install iSulad and runc, or add them to spec.packages of the bundle manifest" >&2
  exit 1
  ;;
*) echo "usage: isulad-installed.sh check|explain" >&2; exit 2 ;;
esac
