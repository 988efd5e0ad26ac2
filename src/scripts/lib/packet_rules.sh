# shellcheck shell=sh
# Prints rules of iptables and nftables that drop or accept packets, and chains whose policy drops them, besides those of the
# cluster. The keys of what is about packets of IPv6 end with 6.
# Arguments: the beginnings of the names of chains and tables of network plugins, separated by blanks.
packet_rules() {
  of_plugins=$(for name in $1; do printf '|%s' "$name"; done)
  for six in "" 6; do
    filter=$(timed 5 "ip${six}tables-save" -t filter | grep -vE -e "^-A (KUBE|CNI$of_plugins)") || :
    printf '%s\n' "$filter" | grep -E -e '-j (DROP|REJECT)' -e '^:(INPUT|FORWARD|OUTPUT) DROP' | each "rule$six" | some || :
    printf '%s\n' "$filter" | grep -e '-j ACCEPT' | each "accept$six" | some || :
  done
  # iptables has its own tables of the families ip and ip6 there. The first table of nftables has often the same name.
  ruleset=$(timed 5 nft list ruleset) || :
  printf '%s\n' "$ruleset" | awk -v ours="^(kube$of_plugins)" -v iptables='^(filter|nat|mangle|raw)$' '
    function found(key, text) {
      if (family != "ip6") print key "=" text
      if (family != "ip") print key "6=" text
    }
    /^table/ { family = $2; table = $3; is_own = table ~ ours || ($2 ~ /^ip6?$/ && table ~ iptables) }
    is_own { next }
    { gsub(/^[ \t]+/, "") }
    /(^| )(drop|reject( with .*)?)( comment "[^"]*")?$/ { found("rule", table ": " $0) }
    /(^| )accept( comment "[^"]*")?$/ { found("accept", table ": " $0) }
    /hook input .*policy drop/ { found("input", table) }' | some || :
  printf '%s\n' "$ruleset" | awk '/^table/ { table = $2 " " $3 } / hook forward .*policy drop/ { print table }' | head -n 10 | each forward || :
}
