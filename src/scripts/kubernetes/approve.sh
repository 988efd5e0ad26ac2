#!/bin/sh -eu
# Approves certificate signing requests.
# Arguments: names of requests.
kubectl certificate approve "$@" >/dev/null
