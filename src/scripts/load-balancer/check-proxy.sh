#!/bin/sh -eu
# Exits with 0 if the proxy on this host answers its health check with status 200. keepalived runs this file on
# the host.
# Arguments: port of the health check on loopback.
exec bash -c '
  exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
  printf "GET /healthz HTTP/1.0\r\n\r\n" >&3
  read -r -t 1 _ status _ <&3
  [ "$status" = 200 ]
' check-proxy "$1"
