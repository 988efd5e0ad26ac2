#!/bin/sh -eu
# Connects to servers, and prints `failed URL REASON` for each that the CAs do not verify. An answer of any status is enough.
#   cas          the CAs in PEM
#   certificate  path of a client certificate
#   key          path of its key
# Arguments after `--`: URLs.
: "${verb=}" "${cas=}" "${certificate=}" "${key=}"
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
