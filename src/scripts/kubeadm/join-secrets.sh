#!/bin/sh -eu
# Creates the join token, uploads the certificates for further control planes, and prints the cluster's CA.
# The standard output of kubeadm contains the certificate key.
# Arguments: pattern of the configuration's path for mktemp, number of control planes. Standard input: the
# configuration; the file exists only while the script runs.
export PATH="/usr/local/bin:$PATH" KUBECONFIG=/etc/kubernetes/admin.conf
umask 077
mkdir -p /run/kubexm
config=$(mktemp "$1")
trap 'rm -f "$config"' EXIT
cat >"$config"
kubeadm token create --config "$config" >/dev/null
[ "$2" = 1 ] || kubeadm init phase upload-certs --upload-certs --config "$config" >/dev/null
cat /etc/kubernetes/pki/ca.crt
