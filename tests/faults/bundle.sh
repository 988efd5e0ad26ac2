# shellcheck shell=bash disable=SC2154 # run and frame.sh set the variables
# Faults of a bundle and of the disk that it is on. No hosts.

fault bundle-damaged verify message bundle_damaged
fault bundle-truncated verify message bundle_truncated
fault bundle-empty verify message bundle_empty
fault bundle-missing verify message bundle_missing
fault volume-missing verify message bundle_volume_missing
fault volume-of-another-bundle verify message bundle_volume_mixed
fault usb-stick-removed verify message bundle_stick_removed "a file system on a loop device whose file is truncated"
fault usb-stick-removed extract message bundle_stick_extract "a file system on a loop device whose file is truncated"
fault disk-full-output extract message bundle_disk_full
fault disk-full-output split message bundle_disk_full_split

before_bundle() {
  bundle_for "the bundle is built" "$manifests/kubernetes-$minor.yaml"
  size=$(stat -c %s "$bundle")
  copy=$work/copy.tar.zst
}
after_bundle() { rm -rf "$copy" "$work/volumes"; }
copy_bundle() { cp --reflink=auto "$bundle" "$copy"; }
verify() { run bundle verify "$copy"; }
offset() { echo $(((RANDOM * 32768 + RANDOM) % size)); }
flip_byte() { # FILE OFFSET
  dd if="$1" of="$work/byte" bs=1 skip="$2" count=1 status=none
  LC_ALL=C tr '\000-\377' '\200-\377\000-\177' <"$work/byte" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

bundle_damaged() { # one byte, anywhere
  copy_bundle
  flip_byte "$copy" "$(offset)"
  verify
  expect 3 "$copy" "hint: copy the bundle again"
  copy_bundle
  next_run verify verify
}
bundle_truncated() {
  copy_bundle
  truncate -s "$(offset)" "$copy"
  verify
  expect 3 "$copy" "hint: copy the bundle again"
  copy_bundle
  next_run verify verify
}
bundle_empty() {
  : >"$copy"
  verify
  expect 3 "$copy" "hint: "
  copy_bundle
  next_run verify verify
}
bundle_missing() {
  rm -f "$copy"
  verify
  expect 3 "$copy" "hint: "
  copy_bundle
  next_run verify verify
}

split_bundle() {
  [ ! -d "$work/volumes" ] || return 0
  run bundle split "$bundle" --size 150MB -o "$work/volumes"
  volume=$work/volumes/$(basename "$bundle")
}
verify_volumes() { run bundle verify "$volume"; }
bundle_volume_missing() {
  split_bundle
  mv "$volume.002" "$work/away"
  verify_volumes
  expect 3 "$volume.002: this volume of the bundle is missing" "hint: "
  mv "$work/away" "$volume.002"
  next_run verify verify_volumes
}
bundle_volume_mixed() { # a volume of another bundle with the same name
  split_bundle
  mv "$volume.002" "$work/away"
  cp "$volume.001" "$volume.002"
  verify_volumes
  expect 3 "$volume.002" "hint: "
  mv "$work/away" "$volume.002"
  next_run verify verify_volumes
}

stick_with_bundle() {
  stick "$work/stick" $((size / 1048576 + 60))
  cp "$bundle" "$work/stick/b.tar.zst"
  stick_cold "$work/stick"
}
bundle_stick_removed() {
  stick_with_bundle
  stick_removed_after "$work/stick/b.tar.zst" $((20 + RANDOM % 100))
  run bundle verify "$work/stick/b.tar.zst"
  expect 3 "$work/stick/b.tar.zst" "Input/output error" "hint: copy the bundle again"
  stick_gone "$work/stick"
  stick_with_bundle
  next_run verify run bundle verify "$work/stick/b.tar.zst"
  stick_gone "$work/stick"
}
bundle_stick_extract() {
  stick_with_bundle
  stick_removed
  run bundle extract "$work/stick/b.tar.zst" kubelet -o "$work/out"
  expect 3 "$work/stick/b.tar.zst" "Input/output error" "hint: the disk does not answer"
  stick_gone "$work/stick"
  holds "no partial program" test ! -e "$work/out/kubelet"
  stick_with_bundle
  next_run extract run bundle extract "$work/stick/b.tar.zst" kubelet -o "$work/out"
  stick_gone "$work/stick"
}

bundle_disk_full() {
  small_disk "$work/small" 20M
  run bundle extract "$bundle" kubelet -o "$work/small"
  expect 3 "$work/small: the disk is full" "hint: free some space"
  holds "nothing is left" sh -c "! find '$work/small' -type f | grep ."
  larger_disk "$work/small" 1g
  next_run extract run bundle extract "$bundle" kubelet -o "$work/small"
  umount "$work/small"
}
bundle_disk_full_split() {
  small_disk "$work/small" 20M
  run bundle split "$bundle" --size 150MB -o "$work/small"
  expect 3 "$work/small" "No space left on device" "hint: free some space"
  holds "nothing is left" sh -c "! find '$work/small' -type f | grep ."
  larger_disk "$work/small" 1g
  next_run split run bundle split "$bundle" --size 150MB -o "$work/small"
  umount "$work/small"
}
