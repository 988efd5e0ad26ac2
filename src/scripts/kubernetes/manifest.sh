#!/bin/sh -eu
# Compares the objects of a manifest with the cluster, or applies them. Server-side apply
# (https://kubernetes.io/docs/reference/using-api/server-side-apply/) stores no copy of the manifest in
# an annotation, which is too small for large manifests.
# Arguments: `check` or `apply`, path of the manifest.
set -- "$1" --server-side --force-conflicts --field-manager=kubexm -f "$2"
verb=$1
shift
case $verb in
check)
  [ -e /etc/kubernetes/admin.conf ] || { echo "the cluster does not exist yet"; exit 1; }
  compare '' "$@"
  ;;
apply) kubectl apply "$@" >/dev/null ;;
*) echo "usage: manifest.sh check|apply" >&2; exit 2 ;;
esac
