#!/bin/sh -eu
# Prints the interface that has an address.
# Arguments: IP address.
ip -o addr show to "$1" | awk 'NR == 1 { print $2 }'
