#!/bin/sh -eu
# Prints the API versions that the API server serves, and its resources, as `kubectl api-versions` and `kubectl api-resources` do:
# those of an aggregated API server that does not answer are not among them. Changes nothing.
kubectl api-versions
found=$(kubectl api-resources --no-headers) || [ -n "$found" ] || exit 75
printf '%s\n' "$found"
