#!/bin/sh -eu
# Prints the nodes and the pods of the cluster, and the end of the log of this host's kubelet.
kubectl get nodes,pods -A -o wide || :
journalctl -u kubelet -n 20 --no-pager -o cat
