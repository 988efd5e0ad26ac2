# shellcheck shell=bash disable=SC2154 # run and frame.sh set the variables
# Faults of a bundle build: disks of the controller, publishers, the link to them, and kubexm itself. No hosts. The
# publishers are the lab's upstream behind a relay.

fault disk-full-cache build message build_cache_full
fault disk-full-output build message build_output_full
fault cache-read-only build recovers build_cache_read_only_complete
fault cache-read-only build-cold message build_cache_read_only
fault cache-of-another-user build message build_cache_shared
fault cache-damaged build message build_cache_damaged
fault publisher-unreachable build message build_refused
fault no-dns build message build_no_dns
fault publisher-503 build recovers build_503
fault link-broken build recovers build_link_cut
fault link-slow build recovers build_link_slow
fault download-damaged build recovers build_damaged_once
fault download-damaged-always build message build_damaged
fault controller-killed build killed build_killed
fault ctrl-c build message build_interrupted
fault two-builds-at-once build recovers build_twice

before_build() {
  local port
  "$here/lab/upstream/serve" start --dir "$work/upstream"
  # The site of files and the registries have a relay each.
  cp "$work/upstream/mirrors.yaml" "$work/mirrors.yaml"
  grep -o '127\.0\.0\.1:[0-9]*' "$work/upstream/mirrors.yaml" | cut -d: -f2 | sort -u >"$work/ports"
  while read -r port; do
    if grep -q "$port/dl.k8s.io" "$work/mirrors.yaml"; then relay site "$port"; else relay registry "$port"; fi
    sed -i "s/127\.0\.0\.1:$port/127.0.0.1:$relay_port/" "$work/mirrors.yaml"
  done <"$work/ports"
  # Without packages, so that no public server is asked.
  sed '/^  # Packages that/,$d' "$manifests/kubernetes-$minor.yaml" >"$work/manifest.yaml"
}
after_build() { "$here/lab/upstream/serve" stop --dir "$work/upstream"; }

cold() { rm -rf "$work/c" "$work/o"; mkdir -p "$work/o"; }
build_options() { # [CACHE [BUNDLE [MIRRORS]]]: the arguments of a build are in `building`
  building=(bundle build --fast -f "$work/manifest.yaml" --cache "${1:-$work/c}" -o "${2:-$work/o/b.tar.zst}"
    --mirrors "${3:-$work/mirrors.yaml}" --output plain)
}
built() { # [CACHE [BUNDLE]]: builds, and verifies the result
  build_options "$@"
  run "${building[@]}"
  [ "$code" = 0 ] || return 0
  run bundle verify "${2:-$work/o/b.tar.zst}"
}
no_bundle() { [ ! -e "$work/o/b.tar.zst" ]; }
cached() { [ "$(find "$work/c/blobs" -type f 2>/dev/null | wc -l)" -ge "$1" ]; }

build_cache_full() {
  cold
  small_disk "$work/small" 20M
  built "$work/small/c"
  expect 3 "the disk is full" "hint: free some space and run the same command again"
  holds "no bundle" no_bundle
  larger_disk "$work/small" 2g
  next_run build built "$work/small/c"
  umount "$work/small"
}
build_output_full() {
  small_disk "$work/small" 20M
  built "$work/c" "$work/small/b.tar.zst"
  expect 3 "the disk is full" "hint: free some space, or name another file with --out"
  holds "no partial bundle" test ! -e "$work/small/b.tar.zst"
  larger_disk "$work/small" 2g
  next_run build built "$work/c" "$work/small/b.tar.zst"
  umount "$work/small"
}
read_only() { # DIR: is also mounted read-only, at $work/ro
  mkdir -p "$work/ro"
  mount --bind "$1" "$work/ro"
  mount -o remount,bind,ro "$work/ro"
  mounts+=("$work/ro")
}
build_cache_read_only_complete() { # a build that downloads nothing does not write there
  [ -e "$work/c/blobs" ] || built
  read_only "$work/c"
  built "$work/ro"
  expect 0
  umount "$work/ro"
}
build_cache_read_only() {
  cold
  mkdir -m 700 "$work/c"
  read_only "$work/c"
  built "$work/ro"
  expect 3 "$work/ro" "Read-only file system" "hint: "
  umount "$work/ro"
  next_run build built
}
build_cache_shared() {
  [ -e "$work/c/blobs" ] || built
  chmod 777 "$work/c"
  built
  expect 3 "$work/c" "hint: "
  chmod 700 "$work/c"
  next_run build built
}
build_cache_damaged() { # each use compares the digest; the hint names the file
  local victims file
  [ -e "$work/c/blobs" ] || built
  mapfile -t victims < <(find "$work/c/blobs" -type f -size +1000k | sort)
  [ ${#victims[@]} -gt 0 ] || return
  file=${victims[RANDOM % ${#victims[@]}]}
  chmod u+w "$file"
  rm -f "$work/o/b.tar.zst"
  printf damaged | dd of="$file" bs=1 seek="$((RANDOM * 10))" conv=notrunc status=none
  built
  expect 3 "$file: " "was changed after it was downloaded" "hint: remove $file"
  holds "no bundle" no_bundle
  rm -f "$file"
  next_run build built
}
# The cause is that of the kernel, or that of a connection which the HTTP library no longer used.
names_connection() { grep -e 'Connection reset by peer' -e 'connection was not ready' "$work/said"; }
build_refused() {
  cold
  relay_set site refuse=1
  built
  expect 3 "cannot reach http://127.0.0.1:" "hint: check the name server, the network and the proxy"
  holds "the connection is the cause" names_connection
  holds "no bundle" no_bundle
  relay_set site
  next_run build built
}
build_no_dns() { # a mount namespace without name servers; the mirrors of GitHub are left out
  cold
  sed '/github.com/d' "$work/mirrors.yaml" >"$work/no-github.yaml"
  : >"$work/empty"
  build_options "$work/c" "$work/o/b.tar.zst" "$work/no-github.yaml"
  new_log
  code=0
  # shellcheck disable=SC2016 # expands in the inner shell
  env -u HTTPS_PROXY -u HTTP_PROXY -u https_proxy -u http_proxy -u ALL_PROXY -u all_proxy timeout 420 unshare -m sh -c '
    mount --bind "$1" "$(readlink -f /etc/resolv.conf)" && shift && exec "$@"' sh "$work/empty" \
    "$kubexm" "${building[@]}" >"$log" 2>&1 || code=$?
  expect 3 "cannot reach https://github.com" "failed to lookup address" "hint: check the name server, the network and the proxy"
  next_run build built
}
build_503() {
  cold
  relay_set site status=3
  relay_set registry status=2
  built
  expect 0
  holds "the site answered 503" relayed site status
  holds "the registry answered 503" relayed registry status
  relay_set site
  relay_set registry
}
build_link_cut() { # several downloads are reset, and continue
  cold
  relay_set site "cut=$((200000 + RANDOM * 20))" times=4
  relay_set registry "cut=$((100000 + RANDOM * 20))" times=4
  built
  expect 0
  holds "downloads of the site were reset" relayed site cut
  holds "downloads of the registry were reset" relayed registry cut
  relay_set site
  relay_set registry
}
build_link_slow() { # 20 ms more for each block of 16 KiB, in the answers of the registry
  cold
  relay_set registry delay=20
  built
  expect 0
  relay_set registry
}
build_damaged_once() {
  cold
  relay_set site "flip=$((500000 + RANDOM))"
  built
  expect 0
  holds "a download was damaged" relayed site flip
  relay_set site
}
build_damaged() {
  cold
  relay_set site damage=1
  built
  expect 3 "returned content with the wrong digest; it was discarded" "hint: a mirror or proxy may serve a damaged copy"
  holds "no bundle" no_bundle
  relay_set site
  next_run build built
}
build_killed() {
  cold
  build_options
  relay_set registry rate=4000000
  begin "${building[@]}"
  reaches 60 cached "$((RANDOM % 8 + 1))" && kill -9 "$victim"
  finish
  expect 137
  holds "no bundle" no_bundle
  relay_set registry
  next_run build built
}
build_interrupted() {
  cold
  build_options
  relay_set registry rate=4000000
  begin "${building[@]}"
  reaches 60 cached "$((RANDOM % 8 + 1))" && kill -INT "$victim"
  finish
  expect 1 "stopped; nothing was written" "hint: run the same command again to go on"
  relay_set registry
  next_run build built
}
build_twice() { # the second build waits for downloads of the first
  local second
  cold
  build_options
  begin "${building[@]}"
  build_options "$work/c" "$work/o/b2.tar.zst"
  "${bare[@]}" "$kubexm" "${building[@]}" >"$work/second.log" 2>&1 &
  second=$!
  finish
  expect 0
  holds "the other build succeeds, too" wait "$second"
  holds "both have the same content" cmp "$work/o/b.lock.yaml" "$work/o/b2.lock.yaml"
}
