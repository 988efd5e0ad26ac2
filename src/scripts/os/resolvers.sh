#!/bin/sh -eu
# Compares the name servers of the host with those of the cluster file, or sets them: in a file of systemd-resolved if it
# runs, in one of NetworkManager if that runs, and otherwise in /etc/resolv.conf, which is kept beside the receipt.
# Verbs: `check`, `apply`. `servers` are addresses and `searches` search domains, both separated by blanks.
: "${verb=}" "${servers=}" "${searches=}"
former=/var/lib/kubexm/backup/resolvers
resolved=/etc/systemd/resolved.conf.d/kubexm.conf
manager=/etc/NetworkManager/conf.d/kubexm-dns.conf
table=/etc/resolv.conf
# Prints the files that have an effect on this host. A /etc/resolv.conf that is not the one of systemd-resolved has the
# name servers of all programs that do not ask systemd-resolved.
files() {
  if systemctl is-active --quiet systemd-resolved; then
    echo "$resolved"
    case $(readlink -f "$table") in /run/systemd/resolve/*) return ;; esac
  fi
  systemctl is-active --quiet NetworkManager || { echo "$table"; return; }
  dns=org.freedesktop.NetworkManager.DnsManager
  case $(busctl get-property org.freedesktop.NetworkManager /org/freedesktop/NetworkManager/DnsManager $dns RcManager 2>/dev/null) in
  # `dns=none` or `rc-manager=unmanaged`: NetworkManager leaves /etc/resolv.conf to others.
  *unmanaged*) echo "$table"; return ;;
  # It writes to a link only if this is its own. A file in the place of another link it writes from now on.
  *symlink*)
    case $([ ! -L "$table" ] || readlink -m "$table") in '' | /run/NetworkManager/*) ;; *) echo "$table" ;; esac
    ;;
  esac
  echo "$manager"
}
# Prints the content of a file.
# Arguments: the file.
content() {
  echo "# Written by kubexm: name servers of system.resolvers."
  case $1 in
  "$resolved")
    # An empty value deletes the servers of other files. For `~.`, these servers have precedence over those of network
    # interfaces (resolved.conf(5)).
    printf '[Resolve]\nDNS=\nDNS=%s\nDomains=\nDomains=%s\n' "$servers" "~.${searches:+ $searches}"
    ;;
  "$manager")
    # https://networkmanager.dev/docs/api/latest/NetworkManager.conf.html
    printf '[global-dns]\n'
    [ -z "$searches" ] || printf 'searches=%s\n' "$(echo "$searches" | tr ' ' ',')"
    printf '[global-dns-domain-*]\nservers=%s\n' "$(echo "$servers" | tr ' ' ',')"
    ;;
  *)
    [ -z "$searches" ] || printf 'search %s\n' "$searches"
    for server in $servers; do printf 'nameserver %s\n' "$server"; done
    ;;
  esac
}
is_there() { [ -e "$1" ] || [ -L "$1" ]; }
keep() {
  if is_there "$former/resolv.conf" || [ -e "$former/absent" ]; then return; fi
  if is_there "$table"; then
    cp -aT "$table" "$former/resolv.conf.new"
    replace "$former/resolv.conf.new" "$former/resolv.conf"
  else
    : >"$former/absent"
  fi
}
case $verb in
check)
  [ ! -e "$former/pending" ] || { echo "an earlier change was interrupted"; exit 1; }
  for file in $(files); do
    [ "$(cat "$file" 2>/dev/null)" = "$(content "$file")" ] || { echo "$file has other name servers"; exit 1; }
  done
  ;;
apply)
  (umask 077; mkdir -p "$former")
  : >"$former/pending"
  for file in $(files); do
    folder=$(dirname "$file")
    # NetworkManager writes the table.
    case $file in "$table" | "$manager") keep ;; esac
    case $file in
    "$table") ;;
    # A run that was killed may have written the line already.
    *) [ -d "$folder" ] || grep -qsxF "$folder" "$former/folders" || echo "$folder" >>"$former/folders" ;;
    esac
    (umask 022; mkdir -p "$folder"; content "$file" >"$file.kubexm-new")
    replace "$file.kubexm-new" "$file"
    case $file in
    "$resolved") systemctl restart systemd-resolved ;;
    "$manager") systemctl reload NetworkManager ;;
    esac
  done
  rm -f "$former/pending"
  ;;
*) echo "usage: resolvers.sh check|apply" >&2; exit 2 ;;
esac
