#!/bin/sh -eu
# Ends with 0 if the API server of this control plane is ready. Asks as one of its programs.
/usr/local/bin/kubectl --kubeconfig /etc/kubernetes/controller-manager.conf \
  --cache-dir /run/kubexm/kubectl --request-timeout=5s get --raw /readyz >/dev/null
