#!/bin/sh -eu
# Removes an address from every interface that has it, in case the program that configured it died.
# Arguments: IP address.
# Of address-leave.sh, for processes that have ended.
systemctl stop kubexm-endpoint.timer 2>/dev/null || :
ip -o addr show to "$1" 2>/dev/null | awk '{ print $2, $4 }' | while read -r interface address; do
  ip addr del "$address" dev "$interface" || :
done
