# shellcheck shell=sh
# Reads a table as iptables-save prints it and prints what iptables-restore needs to remove the owner's chains, the
# rules that lead to them, and rules with one of the owner's comments. iptables-restore reads a rule in the quoting in
# which iptables-save prints it; a shell would execute what a comment contains.
# Arguments: the owner, the table.
print_edits() {
  awk -v owner="$1" -v table="$2" '
    function is_own_chain(name) {
      if (owner == "calico") return name ~ /^cali-[A-Za-z0-9_.-]+$/
      if (owner == "cilium") {
        sub(/^OLD_/, "", name)
        return name ~ /^CILIUM_(INPUT|OUTPUT|FORWARD|TRANSIENT_FORWARD|(INPUT|OUTPUT|FORWARD|PRE|POST)_(nat|mangle|raw|filter))$/
      }
      if (owner != "kubernetes") return 0
      if (name ~ /^FLANNEL-(FWD|POSTRTG)$/) return 1
      if (name ~ /^CNI-(ADMIN|FORWARD|HOSTPORT-(DNAT|SETMARK|MASQ)|ISOLATION-STAGE-[12])$/) return 1
      # CNI plugins derive these names from a container: 28 characters.
      if (name ~ /^CNI-((DN|SN)-)?[0-9a-f]+$/) return length(name) == 28
      # kube-proxy derives these names from a service or an endpoint: 16 characters after the prefix.
      if (name ~ /^KUBE-(SVC|SVL|SEP|EXT|XLB)-[A-Z2-7]+$/) return length(name) == 25
      if (name ~ /^KUBE-(FW|HP)-[A-Z2-7]+$/) return length(name) == 24
      return name ~ /^KUBE-(SERVICES|EXTERNAL-SERVICES|NODEPORTS|NODE-PORT|POSTROUTING|MARK-(MASQ|DROP)|FORWARD|FIREWALL|PROXY-FIREWALL|PROXY-CANARY|KUBELET-CANARY|IPTABLES-HINT|HOSTPORTS|LOAD-BALANCER|SOURCE-RANGES-FIREWALL|IPVS-FILTER|IPVS-OUT-FILTER)$/
    }
    function is_own_comment(text) {
      if (owner == "calico") return text ~ /^cali:[A-Za-z0-9_-]+$/ && length(text) == 21
      if (owner == "kubernetes") return text == "flanneld masq" || text == "flanneld forward"
      if (owner == "node-local-dns")
        return text == "NodeLocal DNS Cache: skip conntrack" || text == "NodeLocal DNS Cache: allow DNS traffic"
      return 0
    }
    # A policy of "-" distinguishes chains that a program created from those of the kernel.
    /^:/ {
      name = substr($1, 2)
      if ($2 == "-" && is_own_chain(name)) { own[name] = 1; chains[++count] = name }
    }
    /^-A / {
      if ($2 in own) next
      rest = $0
      option = ""
      found = 0
      while (match(rest, /^ *("([^"\\]|\\.)*"|[^ ]+)/)) {
        word = substr(rest, 1, RLENGTH)
        rest = substr(rest, RLENGTH + 1)
        sub(/^ +/, "", word)
        quoted = sub(/^"/, "", word)
        if (quoted) { sub(/"$/, "", word); gsub(/\\/, "", word) }
        if (option == "-j" || option == "-g") found = found || (word in own)
        if (option == "--comment") found = found || is_own_comment(word)
        option = (quoted || option == "--comment") ? "" : word
      }
      if (found) { sub(/^-A/, "-D"); edits[++edit] = $0 }
    }
    END {
      if (!edit && !count) exit
      print "*" table
      for (n = 1; n <= edit; n++) print edits[n]
      for (n = 1; n <= count; n++) print "-F " chains[n]
      for (n = 1; n <= count; n++) print "-X " chains[n]
      print "COMMIT"
    }'
}
# Prints the tables that a program of iptables can read. The program of the older kernel interface would load the
# kernel module of a table that is not in use.
# Arguments: the program.
tables() {
  case $("$1" -V 2>/dev/null) in
  *nf_tables*) echo "filter nat mangle raw" ;;
  *) cat "/proc/net/${1%tables*}_tables_names" 2>/dev/null || : ;;
  esac
}
# Deletes rules and chains with both interfaces of the kernel: a pod may use another one than the host.
# Arguments: the owner.
delete_rules() {
  for program in iptables ip6tables iptables-nft ip6tables-nft iptables-legacy ip6tables-legacy; do
    { command -v "$program" && command -v "$program-save" && command -v "$program-restore"; } >/dev/null || continue
    for table in $(tables "$program"); do
      edits=$("$program-save" -t "$table" 2>/dev/null | print_edits "$1" "$table")
      [ -n "$edits" ] || continue
      # All of them at once. If the program cannot read one of its own lines, each by itself.
      printf '%s\n' "$edits" | "$program-restore" --noflush --wait 30 2>/dev/null ||
        printf '%s\n' "$edits" | grep '^-' | while read -r edit; do
          printf '*%s\n%s\nCOMMIT\n' "$table" "$edit" |
            "$program-restore" --noflush --wait 30 2>/dev/null || :
        done
    done
  done
}
