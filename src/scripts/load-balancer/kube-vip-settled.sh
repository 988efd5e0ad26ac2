#!/bin/sh -eu
# Exits with 0 if no process uses super-admin.conf any more and the endpoint answers.
! grep -qs '/super-admin\.conf /etc/kubernetes/admin\.conf ' /proc/[0-9]*/mountinfo ||
  { echo "kube-vip still runs with super-admin.conf"; exit 1; }
kubectl get --raw /readyz --request-timeout=5s >/dev/null 2>&1 ||
  { echo "the endpoint does not answer"; exit 1; }
