#!/bin/sh -eu
# Deletes objects of the cluster, and does not wait for their end. They may have disappeared in the meantime.
# Arguments: those of `kubectl delete`.
patiently kubectl delete --ignore-not-found --wait=false "$@" >/dev/null
