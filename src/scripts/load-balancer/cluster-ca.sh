#!/bin/sh -eu
# Prints the cluster's CA from the administrator's kubeconfig.
sed -n 's/^ *certificate-authority-data: *//p' /etc/kubernetes/admin.conf | head -n 1 | base64 -d
