#!/bin/sh -eu
# Prints the end of the description of CoreDNS' pods.
kubectl -n kube-system describe pods -l k8s-app=kube-dns | tail -n 30
