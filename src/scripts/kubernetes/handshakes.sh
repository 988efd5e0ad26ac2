#!/bin/sh -eu
# Connects to servers, and prints `failed URL REASON` for each that the CAs do not verify. An answer of any status is enough.
# Arguments: the CAs in PEM; paths of a client certificate and its key; URLs.
cas=$1 certificate=$2 key=$3
shift 3
umask 077
install -d -m 700 /run/kubexm
file=/run/kubexm/handshakes.$$
trap 'rm -f "$file"' EXIT
printf '%s' "$cas" >"$file"
for url in "$@"; do
  said=$(kubectl --kubeconfig /dev/null --cache-dir /run/kubexm/kubectl --server "${url%/*}" --certificate-authority "$file" \
    --client-certificate "$certificate" --client-key "$key" --request-timeout=10s get --raw "/${url##*/}" 2>&1 </dev/null) ||
    case $said in
    # The server answered.
    *"Error from server"* | *"logged in to the server"*) ;;
    *) printf 'failed %s %s\n' "$url" "$(printf '%s\n' "$said" | tail -n 1)" ;;
    esac
done
