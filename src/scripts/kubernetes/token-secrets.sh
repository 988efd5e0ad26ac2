#!/bin/sh -eu
# Prints `TIME NAMESPACE/NAME` of each Secret with a token without an expiry, with the time at which it was created. kubectl prints
# these fields only: the tokens do not leave the control plane.
kubectl get secrets -A --field-selector type=kubernetes.io/service-account-token \
  -o 'jsonpath={range .items[*]}{.metadata.creationTimestamp} {.metadata.namespace}/{.metadata.name}{"\n"}{end}'
