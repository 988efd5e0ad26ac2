#!/bin/sh -eu
# Ends with 0 if something listens on a TCP port.
# Arguments: IP address, port.
bash -c 'exec 3<>"/dev/tcp/$1/$2"' port-open "$1" "$2" 2>/dev/null
