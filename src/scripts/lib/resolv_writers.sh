# shellcheck shell=sh
# Programs that write /etc/resolv.conf, each with the file of its settings. Where systemd-resolved provides it, none does.
resolv_writers() {
  case $(readlink -f /etc/resolv.conf) in /run/systemd/resolve/*) return ;; esac
  # A script in this directory may replace the function that writes the file.
  if pidof dhclient >/dev/null && ! grep -qs make_resolv_conf /etc/dhcp/dhclient-enter-hooks.d/* /etc/dhcp/dhclient-enter-hooks; then
    grep -qsE '^[[:space:]]*supersede[[:space:]]+domain-name-servers' /etc/dhcp/*.conf || echo "dhclient /etc/dhcp/dhclient.conf"
  fi
  if pidof dhcpcd >/dev/null; then
    grep -qsE '^[[:space:]]*nohook[[:space:]].*resolv' /etc/dhcpcd.conf || echo "dhcpcd /etc/dhcpcd.conf"
  fi
  file=/etc/sysconfig/network/config
  ! grep -qsE '^NETCONFIG_DNS_POLICY="?[^"]' "$file" || echo "netconfig $file"
  [ -e /etc/cloud/cloud-init.disabled ] || LC_ALL=C grep -HsE '^ *manage_resolv_conf *:' /etc/cloud/cloud.cfg /etc/cloud/cloud.cfg.d/*.cfg |
    tail -n 1 | grep -iE ': *["'\'']?(true|yes|on|1)' | sed 's/^\([^:]*\):.*/cloud-init \1/' || :
}
