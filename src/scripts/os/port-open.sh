#!/bin/sh -eu
# Exits with 0 if a program listens on a TCP port.
# Arguments: IP address, port.
bash -c 'exec 3<>"/dev/tcp/$1/$2"' port-open "$1" "$2" 2>/dev/null
