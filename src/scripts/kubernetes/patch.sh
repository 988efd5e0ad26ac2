#!/bin/sh -eu
# Changes fields of an object of the cluster.
# Arguments: those of `kubectl patch`. The patch is one of them, because kubectl takes the first part of a file for the whole.
kubectl patch "$@" >/dev/null
