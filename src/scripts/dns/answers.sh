#!/bin/sh -eu
# Exits with 0 if CoreDNS resolves the name of the API server. Sends a query of fixed bytes over TCP,
# because the host may not have a DNS client.
# Arguments: address of CoreDNS, domain of the cluster.
address=$1 domain=$2
query='\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00'
length=12
for label in kubernetes default svc $(echo "$domain" | tr . ' '); do
  query="$query\\x$(printf %02x ${#label})$label"
  length=$((length + 1 + ${#label}))
done
query="$query\\x00\\x00\\x01\\x00\\x01"
length=$((length + 5))
size="\\x$(printf %02x $((length / 256)))\\x$(printf %02x $((length % 256)))"
# shellcheck disable=SC2016 # the inner shell expands these
answer=$(timeout 5 bash -c '
  exec 3<>"/dev/tcp/$1/53" || exit 1
  printf "$2$3" >&3
  head -c 8 <&3 | od -An -tx1
' dns "$address" "$size" "$query" 2>/dev/null) || { echo "CoreDNS does not answer at $address"; exit 1; }
# After the size and the number of the query come the flags: a response (8), and no error in the last digit.
read -r _ _ _ _ high low _ <<END
$answer
END
case $high$low in 8??0) ;; *) echo "CoreDNS answers with an error at $address"; exit 1 ;; esac
