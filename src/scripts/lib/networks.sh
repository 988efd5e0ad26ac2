# shellcheck shell=sh
# Prints the networks of the host, and many of its routes: some hosts have those of the Internet. Prints destination, interface and
# gateway. A route without an interface has several gateways.
networks() {
  { timed 5 ip -4 route show; timed 5 ip -6 route show; } | awk '
    function after(word, i) { for (i = 2; i < NF; i++) if ($i == word) return $(i + 1); return "-" }
    $1 !~ /^[0-9a-f]*[.:]/ { next }
    { device = after("dev"); gateway = after("via") }
    gateway == "inet6" { gateway = $0; sub(/.* via inet6 /, "", gateway); sub(/ .*/, "", gateway) }
    device == "-" { gateway = "several" }
    (gateway == "-" ? ++networks : ++routes) <= 1000 { print "network=" $1, device, gateway }'
}
