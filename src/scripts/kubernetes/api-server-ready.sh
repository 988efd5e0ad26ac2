#!/bin/sh -eu
# Exits with 0 if the API server of this control plane is ready. Uses the credentials of one of its programs.
/usr/local/bin/kubectl --kubeconfig /etc/kubernetes/controller-manager.conf \
  --cache-dir /run/kubexm/kubectl --request-timeout=5s get --raw /readyz >/dev/null
