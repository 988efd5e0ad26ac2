#!/bin/sh -eu
# Creates the join token, uploads the certificates for further control planes, and prints the cluster's CA.
# The standard output of kubeadm contains the certificate key.
# Arguments: path of the configuration, with XXXXXX for the process number, number of control planes. Standard input: the
# configuration; the file exists only while the script runs.
export PATH="/usr/local/bin:$PATH" KUBECONFIG=/etc/kubernetes/admin.conf
umask 077
install -d -m 700 /run/kubexm
# receive-input.sh removes the file of a killed script by its process number.
config=${1%XXXXXX}$$
trap 'rm -f "$config"' EXIT
cat >"$config"
kubeadm token create --config "$config" >/dev/null
[ "$2" = 1 ] || kubeadm init phase upload-certs --upload-certs --config "$config" >/dev/null
cat /etc/kubernetes/pki/ca.crt
