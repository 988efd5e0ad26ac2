# shellcheck shell=sh
# Rules of an administrator or of another firewall: of each key, some that name a port, and some others. Some firewalls ban
# thousands of addresses by a rule for each.
some() {
  awk '{ key = $0; sub(/=.*/, "", key); most = key == "accept" ? 300 : 40 } /dport/ ? ++ports[key] <= most : ++others[key] <= most' | cut -c1-1000
}
