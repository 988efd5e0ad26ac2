#!/bin/sh -eu
# Prints the last lines of the logs of a static pod and of the kubelet.
# Arguments: name of the pod.
tail -n 5 /var/log/pods/kube-system_"$1"-*/*/*.log || :
journalctl -u kubelet -n 10 --no-pager -o cat
