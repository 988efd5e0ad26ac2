# shellcheck shell=bash disable=SC2034,SC2154 # the caller sets `work`, `lab`, `name`
# Faults of this machine, of the network and of the lab's hosts. Sourced. What remains on this machine is recorded,
# so that `repair_all` removes it if the suite is stopped.

mounts=() loops=() processes=()

# A background process must not keep what its caller has open, such as a lock on the lab.
close_descriptors() {
  local it
  for it in /proc/self/fd/*; do
    it=${it##*/}
    [ "$it" -le 2 ] || eval "exec $it>&-"
  done 2>/dev/null
}
repair_all() {
  local it
  for it in ${processes[@]+"${processes[@]}"}; do kill -9 "$it" 2>/dev/null || true; done
  for it in ${mounts[@]+"${mounts[@]}"}; do umount -l "$it" 2>/dev/null || true; done
  for it in ${loops[@]+"${loops[@]}"}; do losetup -d "$it" 2>/dev/null || true; done
}

# --- disks of this machine

small_disk() { # DIR SIZE: mounts a file system of this size
  mkdir -p "$1"
  mount -t tmpfs -o "size=$2,mode=700" tmpfs "$1"
  mounts+=("$1")
}
larger_disk() { mount -o "remount,size=$2" "$1"; } # DIR SIZE
fill_disk() { # DIR: leaves no free block
  local free
  free=$(df -k --output=avail "$1" | tail -n 1)
  fallocate -l "$((free))K" "$1/filled" || cat /dev/zero >"$1/filled" 2>/dev/null || true
}

# A file system on a loop device, as on a USB stick. `stick_removed` truncates the file behind the device: each read
# of a block that is not in the page cache fails with an I/O error, as after the stick is removed.
stick() { # DIR MIB
  mkdir -p "$1"
  truncate -s "$2M" "$work/stick.img"
  mkfs.ext4 -q -F -m 0 "$work/stick.img"
  stick_device=$(losetup --show -f "$work/stick.img")
  loops+=("$stick_device")
  mount "$stick_device" "$1"
  mounts+=("$1")
}
stick_cold() { # DIR: nothing of the stick is in the page cache
  sync -f "$1"
  mount -o remount,ro "$1"
  umount "$1"
  mount -o ro "$stick_device" "$1"
}
stick_removed() { truncate -s 0 "$work/stick.img"; echo 1 >/proc/sys/vm/drop_caches; }
# The same while a program has read the first and the last MiB of a file, which stay in the page cache: a fast machine
# reads all of the file before a shell notices that it has begun.
stick_removed_after() { # FILE MIB
  # Another mount namespace may still have the file system, with its pages.
  echo 1 >/proc/sys/vm/drop_caches
  head -c "$2M" "$1" >/dev/null
  tail -c 8M "$1" >/dev/null
  truncate -s 0 "$work/stick.img"
}
stick_gone() { # DIR
  umount -l "$1" 2>/dev/null || true
  losetup -d "$stick_device" 2>/dev/null || true
  rm -f "$work/stick.img"
}

# --- network of this machine

relay() { # NAME PORT: starts a relay to this port; its port is in `relay_port`, its settings in $work/NAME.relay
  : >"$work/$1.relay"
  rm -f "$work/$1.port"
  (close_descriptors; exec "$faults/relay" "$work/$1.port" "$2" "$work/$1.relay") </dev/null >"$work/$1.relay.log" 2>&1 &
  processes+=($!)
  disown
  until_true 10 test -s "$work/$1.port"
  relay_port=$(cat "$work/$1.port")
}
relay_set() { # NAME [KEY=NUMBER…]
  wc -l <"$work/$1.relay.log" >"$work/$1.relay.before"
  { [ $# -eq 1 ] || printf '%s\n' "${@:2}"; } >"$work/$1.relay.new"
  mv "$work/$1.relay.new" "$work/$1.relay"
}
relayed() { # NAME KEY: whether a connection met this fault since the last `relay_set`
  grep -qx "$2" <(tail -n "+$(($(cat "$work/$1.relay.before") + 1))" "$work/$1.relay.log")
}
