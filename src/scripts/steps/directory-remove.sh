#!/bin/sh -eu
# Removes from a directory what programs of the cluster stored in it, and then the directory if nothing else is left.
# Prints a line for everything that it keeps: `kept REASON PATH`, with the reason `unknown` (no program of the
# cluster creates a file of this name), `unmarked` (kubexm did not create this directory), `mounted` (a file
# system cannot be unmounted), `protected` (a path of the operating system), `link` or `undeletable`.
# Arguments: path; `marked` if the directory must contain kubexm's marker, or `any`; patterns of paths below the
# directory. `.` means everything. A pattern that ends with `/` removes a directory only if it is empty.
path=$1 condition=$2
shift 2
marker=.kubexm-owner
keep() {
  printf 'kept %s %s\n' "$1" "$path"
  exit 0
}
case $path/ in
[!/]* | */../* | */./* | *//*) keep protected ;;
esac
case $path in
/lib/modules | /usr/libexec/kubernetes | /usr/libexec/kubernetes/* | /usr/share/containers) ;;
/usr/local/bin | /usr/local/etc | /usr/local/include | /usr/local/lib | /usr/local/lib64 | /usr/local/libexec | \
  /usr/local/sbin | /usr/local/share | /usr/local/src | /usr/local) keep protected ;;
/usr/local/*) ;;
/ | /etc | /home | /media | /mnt | /opt | /run | /srv | /tmp | /var | /var/cache | /var/lib | /var/lock | /var/log | \
  /var/run | /var/tmp | /etc/NetworkManager | /etc/NetworkManager/conf.d | /etc/modules-load.d | /etc/sysctl.d | \
  /etc/systemd | /etc/systemd/system) keep protected ;;
/bin | /boot | /dev | /lib | /lib32 | /lib64 | /libx32 | /proc | /root | /sbin | /sys | /usr) keep protected ;;
/bin/* | /boot/* | /dev/* | /lib/* | /lib32/* | /lib64/* | /libx32/* | /proc/* | /root/* | /sbin/* | /sys/* | \
  /usr/*) keep protected ;;
/etc/alternatives* | /etc/apt* | /etc/default* | /etc/dpkg* | /etc/netplan* | /etc/network* | /etc/pam.d* | /etc/pki* | \
  /etc/profile* | /etc/security* | /etc/selinux* | /etc/ssh* | /etc/ssl* | /etc/sudoers* | /etc/udev* | \
  /etc/yum.repos.d* | /etc/cron.d* | /etc/init.d*) keep protected ;;
/run/dbus* | /run/lock* | /run/log* | /run/systemd* | /run/udev* | /run/user* | /var/lib/apt* | /var/lib/dbus* | \
  /var/lib/dnf* | /var/lib/dpkg* | /var/lib/rpm* | /var/lib/selinux* | /var/lib/systemd* | /var/log/journal* | \
  /var/mail* | /var/spool*) keep protected ;;
/home/*) case ${path#/home/} in */*) ;; *) keep protected ;; esac ;;
esac
[ ! -L "$path" ] || keep link
# A killed run of directory-create.sh.
rm -rf "${path%/*}/.${path##*/}.kubexm-new"
if [ ! -d "$path" ]; then
  # A file or a socket.
  rm -f "$path"
  exit 0
fi
# Prints the mount points at or below a path, the innermost first. /proc/mounts has \040 for a blank in a path.
mounts() {
  ROOT=$1 awk '{
    mount = $2
    gsub(/\\040/, " ", mount); gsub(/\\011/, "\t", mount); gsub(/\\134/, "\\", mount)
    if (mount == ENVIRON["ROOT"] || index(mount, ENVIRON["ROOT"] "/") == 1) print mount
  }' /proc/mounts | sort -r
}
# Unmounts the file systems at and below a path and removes it. Removes nothing from a file system that stays mounted:
# its data may not belong to the cluster.
# Arguments: path.
remove() {
  if mounts "$1" | while IFS= read -r mount; do
    umount "$mount" 2>/dev/null || umount -l "$mount" 2>/dev/null || exit 1
  done; then
    rm -rf --one-file-system "$1" 2>/dev/null || printf 'kept undeletable %s\n' "$1"
  else
    printf 'kept mounted %s\n' "$1"
  fi
}
# Where a disk is mounted, the directory of the cluster is below it and cannot be seen.
[ -z "$(mounts "$path" | grep -Fx "$path" || :)" ] || keep mounted
if [ -n "$(find "$path" -mindepth 1 -maxdepth 1 | head -n 1)" ]; then
  [ "$condition" = any ] || [ -f "$path/$marker" ] || keep unmarked
  # The patterns are expanded, but not split.
  IFS=
  for pattern in "$@"; do
    case $pattern in
    .)
      for entry in "$path"/* "$path"/.[!.]* "$path"/..?*; do
        [ -e "$entry" ] || [ -L "$entry" ] || continue
        [ "${entry##*/}" = "$marker" ] || remove "$entry"
      done
      ;;
    */)
      # shellcheck disable=SC2086 # a pattern is expanded here
      for entry in "$path"/${pattern%/}; do
        [ ! -d "$entry" ] || [ -L "$entry" ] || rmdir "$entry" 2>/dev/null || :
      done
      ;;
    *)
      # shellcheck disable=SC2086 # a pattern is expanded here
      for entry in "$path"/$pattern; do
        if [ -e "$entry" ] || [ -L "$entry" ]; then remove "$entry"; fi
      done
      ;;
    esac
  done
fi
find "$path" -xdev -mindepth 1 \( ! -type d -o -type d -empty \) ! -path "$path/$marker" | sort | head -n 20 |
  sed 's/^/kept unknown /'
if [ -z "$(find "$path" -mindepth 1 -maxdepth 1 ! -name "$marker" | head -n 1)" ]; then
  rm -f "$path/$marker"
  rmdir "$path" 2>/dev/null || keep undeletable
fi
