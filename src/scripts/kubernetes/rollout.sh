#!/bin/sh -eu
# Restarts a workload of the cluster, or waits for its pods.
# Arguments: those of `kubectl rollout`.
kubectl rollout "$@" >/dev/null
